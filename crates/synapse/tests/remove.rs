//! `synapse clean` and `synapse clean --uninstall`: remove our files when that is safe, and nothing else.

use crate::world;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};
use synapse_testkit::pty::Pty;
use synapse_testkit::{Agent, Ran, World};

/// Runs a command with a temporary folder of its own, where leftovers of demos are searched for.
fn run(world: &World, args: &[&str]) -> Ran {
    Ran::new(args, world.command(args).env("TMPDIR", world.folder()).output().unwrap())
}

/// Makes all files of an agent look as if they were last changed this many days ago.
fn make_old(world: &World, agent: &Agent, days: u64) {
    let at = SystemTime::now() - Duration::from_secs(days * 86_400);
    for name in ["journal.db", "log", "known.json", "spool/new"] {
        let file = std::fs::File::open(world.agent_dir(&agent.id).join(name)).unwrap();
        file.set_modified(at).unwrap();
    }
}

#[test]
fn agents_that_nobody_misses_are_forgotten() {
    let world = world();
    let old = world.run("old", "cat", &[]);
    let with_mail = world.run("with-mail", "cat", &[]);
    let young = world.run("young", "cat", &[]);
    let running = world.run("running", "cat", &[]);
    world.ok(&["kill", "old", "with-mail", "young"]);
    world.ok(&["send", "with-mail", "read me"]);
    for agent in [&old, &with_mail, &running] {
        make_old(&world, agent, 100);
    }
    make_old(&world, &young, 20);
    run(&world, &["clean"]).fails(2, &["--yes", "nothing was removed"]);
    let dry = run(&world, &["clean", "--dry-run"]).ok();
    assert!(dry.stdout.contains("the agent old") && !dry.stdout.contains("young"), "{dry}");
    assert!(world.agent_dir(&old.id).exists());

    let rows = run(&world, &["clean", "--yes", "--json"]).ok().json();
    assert_eq!(rows.as_array().unwrap().iter().filter(|row| row["removed"] == true).count(), 1, "{rows}");
    assert!(!world.agent_dir(&old.id).exists());
    for kept in [&with_mail, &young, &running] {
        assert!(world.agent_dir(&kept.id).exists());
    }
    let nothing = run(&world, &["clean", "--yes"]).ok().out();
    assert!(nothing.starts_with("there is nothing to remove; `synapse clean --stopped`"), "{nothing}");
    run(&world, &["clean", "--yes", "--older-than", "10"]).ok();
    assert!(!world.agent_dir(&young.id).exists());

    run(&world, &["clean", "--forget", "running", "--yes"]).fails(5, &["synapse kill running"]);
    run(&world, &["clean", "--forget", "with-mail", "--yes"]).fails(5, &["1 messages", "--with-mail"]);
    run(&world, &["clean", "--forget", "with-mail", "--with-mail", "--yes"]).ok();
    assert!(!world.agent_dir(&with_mail.id).exists());
    assert_eq!(world.ok(&["send", "running", "hi", "--response"]), "hi");
}

/// Whoever confirms has read a list from before.
#[test]
fn mail_that_comes_while_clean_asks_is_kept() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["kill", "shout"]);
    let mut person =
        Pty::start(world.command(&["clean", "--stopped"]).env("TMPDIR", world.folder()), 120, 30);
    person.wait_for("Remove this?");
    world.ok(&["send", "shout", "later"]);
    person.keys("y\r");
    person.wait_for("mail came for it meanwhile");
    assert!(world.agent_dir(&agent.id).exists());
    world.ok(&["start", "shout"]);
    world.wait_until("it has got it", || world.ok(&["history", "shout"]).contains("LATER"));
}

/// A used home is removed completely. This fails for new kinds of files that `uninstall` does not
/// know.
#[test]
fn a_home_is_removed_and_nothing_else() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    world.run("slow", "sleep 600", &[]);
    world.ok(&["send", "shout", "hi", "--response"]);
    world.send("slow", "work", &[]);
    world.ok(&["init", "--yes"]);
    let foreign = world.home().join("registry/other.json");
    std::fs::write(&foreign, r#"{"agent_id":"other"}"#).unwrap();
    world.synapse(&["uninstall"]).fails(2, &["--yes", "nothing was stopped or removed"]);
    assert_eq!(world.json(&["list"]).as_array().unwrap().len(), 2);

    let told = world.synapse(&["uninstall", "--yes"]).ok();
    for word in ["stops    shout, slow", "token", "the lesson in", "AGENTS.md", "the program itself"] {
        assert!(told.stdout.contains(word), "{word}: {told}");
    }
    assert_eq!(world.processes(), [0_u32; 0], "{}", world.show());
    assert!(foreign.exists(), "an entry of another tool stays");
    let left: Vec<_> = std::fs::read_dir(world.home()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left, ["registry"]);
    assert!(world.file("AGENTS.md").exists() && world.exe().exists());

    std::fs::remove_dir_all(world.home()).unwrap();
    world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["uninstall", "--yes"]);
    assert!(!world.home().exists(), "{:?}", std::fs::read_dir(world.home()).unwrap().collect::<Vec<_>>());
    assert!(world.ok(&["uninstall", "--yes"]).contains("there is nothing"));
}

#[test]
fn mail_can_be_kept() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let task = world.json(&["send", "shout", "hi", "--response"])["task_id"].as_str().unwrap().to_owned();
    world.ok(&["kill", "shout"]);
    world.ok(&["send", "shout", "later"]);
    let told = world.json(&["uninstall", "--yes", "--keep-mail"]);
    assert_eq!(told["kept"], json!(["agents", "hostname", "user"]), "{told}");
    let files = std::fs::read_dir(world.agent_dir(&agent.id)).unwrap().map(|f| f.unwrap().file_name());
    let mut left: Vec<_> = files.filter(|name| !name.to_string_lossy().starts_with("journal.db-")).collect();
    left.sort();
    assert_eq!(left, ["journal.db", "known.json", "spool"]);
    assert!(!world.home().join("token").exists());
    let again = world.run("shout", "tr a-z A-Z", &[]);
    assert_eq!(again.id, agent.id);
    assert_eq!(again.task(&task)["answer"]["text"], "HI");
    world.wait_until("the message that waited is done", || again.get("/api/v1/tasks").json() == json!([]));
}

/// A wrong SYNAPSE_HOME must not delete other files.
#[test]
fn what_does_not_look_like_ours_is_not_removed() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["kill", "shout"]);
    let uninstall = |home: &Path, person: &Path| {
        let mut command = world.command(&["uninstall", "--yes"]);
        Ran::new(&["uninstall"], command.env("SYNAPSE_HOME", home).env("HOME", person).output().unwrap())
    };
    let person = world.file("person");
    let documents = person.join("documents");
    std::fs::create_dir_all(&documents).unwrap();
    std::fs::write(documents.join("book"), "years of work").unwrap();
    uninstall(&documents, &person).fails(5, &["does not look like a home"]);
    uninstall(&person, &person).fails(5, &["your own folder"]);
    uninstall(Path::new("/"), &person).fails(5, &["your own folder"]);
    uninstall(&documents.join("book"), &person).fails(5, &["not a folder"]);
    let link = world.file("link");
    symlink(world.home(), &link).unwrap();
    uninstall(&link, &person).fails(5, &["symbolic link"]);
    assert!(world.home().join("token").exists());
    assert_eq!(std::fs::read_to_string(documents.join("book")).unwrap(), "years of work");

    // Foreign files in our home are kept too.
    std::fs::write(world.home().join("notes.txt"), "mine").unwrap();
    let told = world.synapse(&["uninstall", "--yes"]).ok();
    assert!(told.stdout.contains("notes.txt, which is not ours"), "{told}");
    assert_eq!(std::fs::read_to_string(world.home().join("notes.txt")).unwrap(), "mine");
    assert!(!world.home().join("agents").exists());
}

/// Only a person may remove things.
#[test]
fn an_agent_may_not_remove_anything() {
    let world = world();
    let exe = world.exe().display().to_string();
    world.run("sneaky", &format!("{exe} uninstall --yes 2>&1; {exe} clean --yes 2>&1; true"), &[]);
    let said = world.ok(&["send", "sneaky", "go", "--response"]);
    assert_eq!(said.matches("only a person may").count(), 2, "{said}");
    let listed: Value = world.json(&["list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
}
