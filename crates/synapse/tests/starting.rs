//! X-2, X-3, PTY-1: starting a CLI: its arguments, a second one beside a running one, and starting
//! it again.

use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use synapse_testkit::pty::Pty;
use synapse_testkit::{Ran, World, processes};

/// A CLI that records its arguments and keeps running.
const CLI: &str = "#!/bin/sh
case \"$*\" in
    --help) echo 'Usage: fake [--cd DIR] [--name NAME]'; exit ;;
    --version) echo 'fake 1.0'; exit ;;
esac
echo \"$@\" >> args
echo \"${CODEX_HOME-unset} in $PWD\" >> env
echo welcome
exec cat
";

/// A world with a profile `fake`.
fn world() -> World {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let cli = world.write("fake-cli", CLI);
    std::fs::set_permissions(&cli, std::fs::Permissions::from_mode(0o755)).unwrap();
    let profiles = world.home().join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("fake.yaml"), format!("name: fake\ncommand: {}\n", cli.display())).unwrap();
    world
}

fn viewer(world: &World, args: &[&str]) -> Pty {
    Pty::start(&world.prepare(Command::new(world.exe()), args), 100, 30)
}

/// The arguments of each start of the CLI.
fn starts(world: &World, count: usize) -> Vec<String> {
    world.wait_until("the CLI has started", || world.lines("args").len() >= count);
    world.lines("args")
}

fn running(world: &World) -> usize {
    world.json(&["list"]).as_array().unwrap().len()
}

/// Finding 14.
#[test]
fn flags_of_ours_work_beside_those_of_the_cli() {
    let world = world();
    let mut count = 0;
    let mut check = |args: &[&str], given: &str| {
        world.ok(args);
        count += 1;
        assert_eq!(starts(&world, count).last().unwrap(), given, "{args:?}");
    };
    check(&["fake", "-d", "--name", "a", "--", "--model", "sonnet"], "--model sonnet");
    check(&["fake", "--model", "sonnet", "-d", "--name", "b"], "--model sonnet");
    check(&["fake", "-d", "--name=c", "--", "--name", "theirs", "-d"], "--name theirs -d");
    check(&["fake", "--cd", "/tmp", "-d", "--name", "d"], "--cd /tmp");
    world
        .synapse(&["fake", "-d", "--nmae", "e"])
        .fails(2, &["did you mean --name?", "synapse fake -- --nmae"]);
    world.synapse(&["fake", "-d", "--name"]).fails(2, &["--name"]);
    assert_eq!(running(&world), 4);
    let told = world.synapse(&["fake", "-d", "--name", "f", "--json"]).ok().json();
    assert_eq!(told["name"], "f", "{told}");
    world.synapse(&["fake"]).fails(5, &["already runs"]);
}

#[test]
fn help_of_a_profile_is_ours_and_that_of_the_cli_is_one_step_further() {
    let world = world();
    for words in [&["fake", "--help"][..], &["fake", "-h"], &["help", "fake"], &["fake", "-d", "--help"]] {
        let page = world.ok(words);
        assert!(page.contains("--detach") && page.contains("synapse fake -- --help"), "{words:?}: {page}");
    }
    assert!(world.ok(&["fake", "--", "--help"]).starts_with("Usage: fake"));
    assert_eq!(world.ok(&["fake", "--version"]), "fake 1.0");
    assert_eq!(running(&world), 0, "nothing was started");
    assert!(world.ok(&["help", "send"]).contains("synapse send"), "commands have their own");
    world.synapse(&["help", "fakk"]).fails(2, &["did you mean fake?"]);
}

/// Finding 8.
#[test]
fn a_second_one_in_the_folder_is_not_started_unasked() {
    let world = world();
    world.ok(&["fake", "-d"]);
    starts(&world, 1);
    for args in [&["fake", "-d"][..], &["fake"], &["fake", "-d", "--model", "x"]] {
        world.synapse(args).fails(5, &["already runs", "`synapse attach fake`", "`synapse fake --new`"]);
    }
    let ran = world.synapse(&["fake", "-d", "--json"]).exits(5);
    let told: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    let error = &told["error"];
    assert_eq!(error["code"], "already_running", "{told}");
    let commands = (&error["details"]["attach"], &error["details"]["start_another"]);
    assert_eq!(commands, (&json!("synapse attach fake"), &json!("synapse fake --new")), "{told}");
    // Started by its path, the program gets the profile only if its file has the profile's name.
    std::fs::rename(world.file("fake-cli"), world.file("fake")).unwrap();
    world.synapse(&["run", "-d", "--", "./fake", "a b"]).fails(5, &["synapse run --new -- ./fake 'a b'"]);
    assert_eq!((running(&world), world.lines("args").len()), (1, 1));
    world.ok(&["run", "-d", "--new", "--", "./fake", "--second"]);
    assert_eq!(starts(&world, 2)[1], "--second");
    // In another folder it is the first one.
    std::fs::create_dir(world.file("sub")).unwrap();
    let sub = world.file("sub").display().to_string();
    world.ok(&["run", "-d", "--cwd", &sub, "--", world.file("fake").to_str().unwrap()]);
    assert_eq!(running(&world), 3);
}

#[test]
fn a_name_that_runs_here_is_not_started_twice() {
    let world = world();
    world.ok(&["fake", "-d", "--name", "review"]);
    starts(&world, 1);
    let ran = world.synapse(&["fake", "-d", "--name", "review"]);
    ran.fails(5, &["named review already runs", "synapse attach review"]);
    world.ok(&["fake", "-d", "--name", "second"]);
    world.ok(&["kill", "second"]);
    world.synapse(&["fake", "-d"]).fails(5, &["synapse attach review"]);
    world.ok(&["kill", "review"]);
    world.ok(&["fake", "-d"]);
    assert_eq!(starts(&world, 3).len(), 3);
}

/// Programs without a profile are not limited to one per folder, whatever their names.
#[test]
fn programs_without_a_profile_may_run_side_by_side() {
    let world = world();
    world.ok(&["run", "-d", "--", "sh", "-c", "sleep 600"]);
    world.ok(&["run", "-d", "--", "sh", "-c", "sleep 600"]);
    assert_eq!(running(&world), 2);
}

#[test]
fn a_person_is_asked_whether_to_attach() {
    let world = world();
    world.ok(&["fake", "-d"]);
    starts(&world, 1);
    let asked = |args: &[&str]| {
        let person = viewer(&world, args);
        person.wait_for("fake already runs in this folder");
        person.wait_for("Enter = attach");
        person
    };
    let mut person = asked(&["fake"]);
    person.keys("\r");
    person.wait_for("welcome");
    person.keys("\u{1c}d");
    let (status, text) = person.end();
    assert!(status.success(), "{text}");
    assert_eq!((running(&world), world.lines("args").len()), (1, 1), "{text}");

    let mut person = asked(&["fake", "--model", "x"]);
    person.wait_for("only if you start another one");
    person.keys("what?\r");
    person.keys("q\r");
    let (status, text) = person.end();
    assert!(status.code() == Some(5) && text.contains("nothing was started"), "{text}");

    let mut person = asked(&["fake"]);
    person.keys("\u{3}");
    assert!(!person.status().success());
    assert_eq!((running(&world), world.lines("args").len()), (1, 1));

    let mut person = asked(&["fake", "--model", "y"]);
    person.keys("n\r");
    assert_eq!(starts(&world, 2)[1], "--model y");
    person.wait_for("welcome");
    person.keys("\u{1c}d");
    person.end();
    assert_eq!(running(&world), 2);
}

/// Kills everything, like a power cut.
fn reboot(world: &World) {
    world.processes().into_iter().for_each(processes::kill9);
    world.wait_until("all processes are gone", || world.processes().is_empty());
}

#[test]
fn after_a_reboot_agents_are_started_again_as_they_were() {
    let world = world();
    let start = |args: &[&str], places: &[(&str, &str)]| {
        let mut command = world.command(args);
        command.env_remove("CODEX_HOME").env("PASSWORD", "hunter2").envs(places.iter().copied());
        Ran::new(args, command.output().unwrap()).ok()
    };
    std::fs::create_dir(world.file("sub")).unwrap();
    let sub = world.file("sub").display().to_string();
    start(
        &["fake", "-d", "--name", "review", "--role", "Reviewer", "--cwd", &sub, "--model", "x y"],
        &[("CODEX_HOME", "/tmp/work")],
    );
    world.wait_until("it has started", || !world.lines("sub/args").is_empty());
    world.run("shout", "tr a-z A-Z", &["--skill", "loud"]);
    let before = world.json(&["list"]);
    world.send("review", "for later", &[]);
    let launch = world.agent_dir(before[0]["agent_id"].as_str().unwrap()).join("launch.json");
    assert_eq!(std::fs::metadata(&launch).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&launch).unwrap().contains("hunter2"), "the environment is not kept");

    reboot(&world);
    let rows = world.json(&["list", "--all"]);
    let commands: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["start"].clone()).collect();
    assert_eq!(commands, ["synapse start review", "synapse start shout"], "{rows}");
    assert!(world.ok(&["list", "--all"]).contains("start it again: synapse start review"));
    // With another folder for the CLI's settings, and called from another folder.
    start(&["start", "review"], &[("CODEX_HOME", "/tmp/other")]);
    world.wait_until("it has started again", || world.lines("sub/args").len() == 2);
    let told = start(&["start", "shout", "--json"], &[]).json();
    assert_eq!((&told["name"], &told["resumed"]), (&json!("shout"), &json!(true)), "{told}");
    assert_eq!(world.lines("sub/args"), ["--model x y", "--model x y"]);
    assert_eq!(world.lines("sub/env"), vec![format!("/tmp/work in {sub}"); 2]);
    assert_eq!(world.ok(&["send", "skill:loud", "hello", "--response"]), "HELLO");
    let after = world.json(&["list"]);
    for field in ["name", "agent_id", "role", "skills", "folder", "type"] {
        assert_eq!((&before[0][field], &before[1][field]), (&after[0][field], &after[1][field]), "{field}");
    }
    assert!(world.ok(&["inbox", "review"]).contains("for later"), "its mail is there");
}

#[test]
fn what_cannot_be_started_again_says_why() {
    let world = world();
    world.ok(&["fake", "-d"]);
    starts(&world, 1);
    let id = world.json(&["list"])[0]["agent_id"].as_str().unwrap().to_owned();
    world.synapse(&["start", "fake"]).fails(5, &["already runs", "synapse attach fake"]);
    world.run("shout", "cat", &[]);
    world.synapse(&["start", "shout"]).fails(5, &["already runs", "synapse explain shout"]);
    world.synapse(&["start", "nobody"]).fails(5, &["nobody"]);
    std::fs::create_dir(world.file("sub")).unwrap();
    let sub = world.file("sub").display().to_string();
    world.ok(&["fake", "-d", "--name", "far", "--cwd", &sub]);
    let joined = world.program(&["join", "--name", "guest"]);
    world.wait_until("all run", || running(&world) == 4);
    reboot(&world);
    drop(joined);
    std::fs::remove_dir_all(&sub).unwrap();
    let told = world.synapse(&["start", "far", "--json"]).exits(1);
    assert!(told.stderr.contains("folder_gone") && told.stderr.contains("is gone"), "{told}");
    std::os::unix::fs::symlink(world.folder(), &sub).unwrap();
    world.synapse(&["start", "far"]).fails(1, &["symbolic link"]);
    world.synapse(&["start", "guest"]).fails(5, &["joined", "synapse join"]);
    std::fs::remove_file(world.file("fake-cli")).unwrap();
    world.synapse(&["start", &id]).fails(127, &["fake-cli"]);
    world.synapse(&["start", &id, "--attach"]).fails(2, &["not a terminal"]);
    let rows = world.json(&["list", "--all"]);
    let start = |name: &str| {
        rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()["start"].clone()
    };
    assert_eq!((start("guest"), start("far")), (json!(null), json!(null)), "{rows}");
    let shown = world.ok(&["list", "--all"]);
    assert!(shown.contains("cannot be started again: start the program that joined"), "{shown}");
}

#[test]
fn a_person_may_attach_to_what_starts_again() {
    let world = world();
    world.ok(&["fake", "-d"]);
    starts(&world, 1);
    reboot(&world);
    let mut person = viewer(&world, &["start", "fake", "-a"]);
    person.wait_for("welcome");
    person.keys("\u{1c}d");
    let (status, text) = person.end();
    assert!(status.success(), "{text}");
    assert_eq!(running(&world), 1);
}

/// X-2: arguments that make a CLI resume its session start the same agent again.
#[test]
fn a_cli_that_resumes_its_session_is_the_same_agent() {
    let world = world();
    world.ok(&["fake", "-d"]);
    starts(&world, 1);
    let id = world.json(&["list"])[0]["agent_id"].clone();
    world.send("fake", "for later", &[]);
    for (n, words) in [&["--resume"][..], &["--continue"], &["resume", "--last"]].iter().enumerate() {
        reboot(&world);
        world.ok(&[&["fake", "-d"], *words].concat());
        assert_eq!(starts(&world, n + 2)[n + 1], words.join(" "));
        let rows = world.json(&["list", "--all"]);
        assert_eq!((rows.as_array().unwrap().len(), &rows[0]["agent_id"]), (1, &id), "{rows}");
        assert!(world.ok(&["inbox", "fake"]).contains("for later"), "the mailbox is the same");
    }
}
