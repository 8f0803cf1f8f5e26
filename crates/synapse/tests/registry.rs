//! The registry and the records of known agents: who runs, who ran, and which entries are not
//! trusted.

use crate::world;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use synapse_testkit::processes::kill9;

#[test]
fn an_agent_is_in_the_registry_while_it_runs() {
    let world = world();
    let agent =
        world.run("shout", "tr a-z A-Z", &["--role", "Developer", "--skill", "capitals", "--skill", "fast"]);
    let path = world.home().join("registry").join(format!("{}.json", agent.id));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let entry: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let expected = json!({
        "agent_id": agent.id, "agent_type": "tr", "name": "shout", "role": "Developer",
        "endpoint": format!("http://localhost:{}", agent.port), "port": agent.port, "pid": agent.pid,
        "working_dir": world.folder(), "capabilities": ["capitals", "fast"], "socket": agent.socket,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&entry[field], value, "{field}");
    }
    assert!(entry["schema"].as_str().unwrap().starts_with("synapse."), "{entry}");
    world.wait_until("it is idle", || world.entry("shout").is_some_and(|entry| entry["status"] == "idle"));
    world.ok(&["kill", "shout"]);
    assert!(!path.exists());
    assert_eq!(world.ok(&["list", "--json"]), "[]");
    let all = world.json(&["list", "--all"]);
    assert_eq!((&all[0]["name"], &all[0]["running"]), (&json!("shout"), &json!(false)));
}

#[test]
fn what_died_without_a_word_is_cleared_away() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let path = world.home().join("registry").join(format!("{}.json", agent.id));
    let left = std::fs::read(&path).unwrap();
    kill9(agent.pid);
    world.wait_until("the node follows its holder", || world.processes().is_empty());
    std::fs::write(&path, left).unwrap();
    assert_eq!(world.ok(&["list", "--json"]), "[]");
    assert!(!path.exists(), "a dead entry of ours is removed");
    let told = world.ok(&["send", "shout", "x"]);
    assert!(told.contains("not running"), "{told}");
}

#[test]
fn entries_of_other_tools_are_read_and_left_alone() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    let registry = world.home().join("registry");
    let foreign = [
        ("other.json", r#"{"agent_id":"other","endpoint":"http://localhost:1","pid":1}"#),
        ("dead.json", r#"{"agent_type":"x","pid":999999999}"#),
        ("garbage.json", "{{{"),
        ("notes.txt", "not for us"),
    ];
    for (name, text) in foreign {
        std::fs::write(registry.join(name), text).unwrap();
    }
    let listed = world.synapse(&["list", "--json"]).ok();
    assert_eq!(listed.json().as_array().unwrap().len(), 1);
    assert!(listed.stderr.contains("garbage.json"), "{listed}");
    assert_eq!(world.ok(&["send", "shout", "hi", "--response"]), "HI");
    world.ok(&["kill", "--all"]);
    for (name, text) in foreign {
        assert_eq!(std::fs::read_to_string(registry.join(name)).unwrap(), text);
    }
}

#[test]
fn a_registry_behind_a_link_is_not_trusted() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    let registry = world.home().join("registry");
    let aside = world.home().join("aside");
    std::fs::rename(&registry, &aside).unwrap();
    symlink(&aside, &registry).unwrap();
    let listed = world.synapse(&["list", "--json"]).ok();
    assert!(listed.stderr.contains("symbolic link") && listed.stderr.contains("registry"), "{listed}");
    assert_eq!(listed.out(), "[]");
    std::fs::remove_file(&registry).unwrap();
    std::fs::rename(&aside, &registry).unwrap();
    symlink(world.write("planted.json", "{}"), registry.join("planted.json")).unwrap();
    let listed = world.synapse(&["list"]).ok();
    assert!(listed.stderr.contains("planted.json"), "{listed}");
    assert!(listed.stdout.contains("shout"), "{listed}");
}

#[test]
fn a_token_that_others_could_know_is_refused() {
    let world = world();
    world.run("first", "cat", &[]);
    let token = world.home().join("token");
    let start = || world.synapse(&["run", "-d", "--name", "second", "--exec", "cat"]);
    let good = std::fs::read_to_string(&token).unwrap();

    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    start().fails(1, &["token"]);
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();

    std::fs::write(&token, "short").unwrap();
    start().fails(1, &["token", "damaged"]);

    std::fs::remove_file(&token).unwrap();
    symlink(world.write("planted", &good), &token).unwrap();
    start().fails(1, &["token"]);
    std::fs::remove_file(&token).unwrap();

    if rustix::process::geteuid().is_root() {
        std::fs::write(&token, &good).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&token, Some(12_345), None).unwrap();
        start().fails(1, &["token"]);
        std::fs::remove_file(&token).unwrap();
    }
    assert!(world.entry("second").is_none());
    start().ok();
    assert_eq!(world.token().len(), 64);
}

#[test]
fn heavy_twenty_that_start_at_once_are_twenty() {
    const COUNT: usize = 20;
    let world = world();
    let starting: Vec<_> = (0..COUNT)
        .map(|_| {
            let mut command = world.command(&["run", "-d", "--exec", "cat", "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut ids = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for child in starting {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        ids.insert(told["agent_id"].as_str().unwrap().to_owned());
        ports.insert(told["port"].as_u64().unwrap());
    }
    assert_eq!((ids.len(), ports.len()), (COUNT, COUNT));
    let suffixes: BTreeSet<Option<u64>> = ids
        .iter()
        .map(|id| {
            let known = std::fs::read(world.agent_dir(id).join("known.json")).unwrap();
            let known: Value = serde_json::from_slice(&known).unwrap();
            known["suffix"].as_str().map(|suffix| suffix.parse().unwrap())
        })
        .collect();
    assert_eq!(
        suffixes,
        std::iter::once(None).chain((2..=20).map(Some)).collect(),
        "the lowest that are free"
    );
    assert_eq!(world.json(&["list"]).as_array().unwrap().len(), COUNT);
    world.ok(&["kill", "--all"]);
    assert_eq!(world.processes(), [0_u32; 0], "{}", world.show());
}

#[test]
fn a_name_belongs_to_one() {
    let world = world();
    let first = world.run("shout", "tr a-z A-Z", &[]);
    let second = world.synapse(&["run", "-d", "--name", "shout", "--exec", "tr a-z A-Z"]);
    second.fails(5, &["shout", "already runs", &first.pid.to_string(), "synapse kill shout"]);
    assert_eq!(world.ok(&["send", "shout", "hi", "--response"]), "HI");
    // The same name in another folder is another agent. The name alone means the one of this
    // folder.
    let folder = world.file("elsewhere");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    world.ok(&["run", "-d", "--name", "shout", "--exec", "tr a-z A-Z", "--cwd", folder]);
    assert_eq!(world.json(&["send", "shout", "hi"])["agent_id"], first.id.as_str());
}

#[test]
fn a_restarted_agent_is_the_same_agent() {
    let world = world();
    let port = world.port();
    let before = world.run("shout", "tr a-z A-Z", &["--port", &port]);
    let task = world.json(&["send", "shout", "hi", "--response"])["task_id"].as_str().unwrap().to_owned();
    world.ok(&["kill", "shout"]);
    let told = world.ok(&["run", "-d", "--name", "shout", "--exec", "tr a-z A-Z"]);
    assert!(told.contains("with the mailbox it had before"), "{told}");
    let after = world.agent("shout");
    assert_eq!((after.port, &after.id), (before.port, &before.id));
    assert_ne!(after.pid, before.pid);
    assert_eq!(after.task(&task)["answer"]["text"], "HI", "its history is there");
    let taken = world.synapse(&["run", "-d", "--name", "other", "--exec", "cat", "--port", &port]);
    taken.fails(1, &[&port, "taken", "--port"]);
}

#[test]
fn a_handle_that_now_means_another_is_refused() {
    let world = world();
    let port = world.port();
    world.run("old", "tr a-z A-Z", &["--port", &port]);
    world.ok(&["kill", "old"]);
    world.run("new", "cat", &["--port", &port]);
    let handle = format!("tr-{port}");
    world.synapse(&["send", &handle, "hi"]).fails(5, &[&handle, "old", "new"]);
}

#[test]
fn a_home_that_cannot_be_is_said() {
    let world = world();
    let run = |name: &str, value: &str| {
        let output = world.command(&["list"]).env("SYNAPSE_HOME", value).env(name, value).output().unwrap();
        synapse_testkit::Ran::new(&["list"], output)
    };
    run("SYNAPSE_HOME", "relative/path").fails(1, &["SYNAPSE_HOME", "starts with `/`"]);
    let output = world.command(&["list"]).env_remove("SYNAPSE_HOME").env_remove("HOME").output().unwrap();
    synapse_testkit::Ran::new(&["list"], output).fails(1, &["SYNAPSE_HOME", "HOME"]);
    let long = world.file(&"long-name-".repeat(12));
    let mut start = world.command(&["run", "-d", "--name", "deep", "--exec", "tr a-z A-Z"]);
    assert!(
        start.env("SYNAPSE_HOME", &long).output().unwrap().status.success(),
        "a long path is no obstacle"
    );
    let mut send = world.command(&["send", "deep", "hi", "--response"]);
    assert_eq!(send.env("SYNAPSE_HOME", &long).output().unwrap().stdout, b"HI\n");
    synapse_testkit::processes::end_all(&long);
}
