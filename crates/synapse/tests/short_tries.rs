//! Agents that only ran for seconds and never got anything leave the list by themselves (finding
//! 28). Whatever may hold a message, and whatever is not certain, stays.

#![allow(clippy::unwrap_used)]

use crate::world;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use synapse_testkit::{Agent, Ran, World, processes};

const HOUR_MS: u64 = 3_600_000;

fn lifetime(world: &World, agent: &Agent) -> PathBuf {
    world.agent_dir(&agent.id).join("lifetime.json")
}

fn read(file: &PathBuf) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Makes an agent look as if all that it did was an hour ago, its files as well.
fn an_hour_ago(world: &World, agent: &Agent) {
    let file = lifetime(world, agent);
    let mut told = read(&file);
    let earlier = |at: &mut Value| *at = json!(at.as_u64().unwrap() - HOUR_MS);
    earlier(&mut told["started_ms"]);
    if told["ended"].is_object() {
        earlier(&mut told["ended"]["at_ms"]);
    }
    std::fs::write(&file, told.to_string()).unwrap();
    let at = std::time::SystemTime::now() - std::time::Duration::from_millis(HOUR_MS);
    for entry in std::fs::read_dir(world.agent_dir(&agent.id)).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path());
        // A socket cannot be opened.
        if let Ok(file) = file {
            file.set_modified(at).unwrap();
        }
    }
}

fn listed(world: &World) -> Vec<String> {
    let all = world.json(&["list", "--all"]);
    all.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

fn clean(world: &World, args: &[&str]) -> Ran {
    let args = [&["clean"], args].concat();
    Ran::new(&args, world.command(&args).env("TMPDIR", world.folder()).output().unwrap())
}

/// Two tries of an hour ago, and one agent that runs.
fn two_tries() -> (World, Agent, Agent) {
    let world = world();
    let (one, two) = (world.run("one", "cat", &[]), world.run("two", "cat", &[]));
    world.run("busy", "cat", &[]);
    world.ok(&["kill", "one", "two"]);
    an_hour_ago(&world, &one);
    an_hour_ago(&world, &two);
    (world, one, two)
}

#[test]
fn short_try_leaves_the_list_and_clean_removes_it() {
    let (world, one, two) = two_tries();
    let told = read(&lifetime(&world, &one));
    assert_eq!((&told["ended"]["by"], &told["starts"]), (&json!("request"), &json!(1)), "{told}");
    assert_eq!(listed(&world), ["busy"]);
    let all = world.ok(&["list", "--all"]);
    assert!(all.ends_with("2 short tries not shown: synapse clean removes them"), "{all}");
    assert!(!world.ok(&["list"]).contains("more known"));
    assert!(!world.ok(&["__complete", "stopped"]).contains("one"));
    // It is still there for those who know its name.
    assert!(world.ok(&["explain", "one"]).contains("not running"));
    world.ok(&["start", "one"]);
    world.ok(&["kill", "one"]);
    assert_eq!(listed(&world), ["busy", "one"], "it has ended just now");
    an_hour_ago(&world, &one);
    assert_eq!(listed(&world), ["busy"]);
    let dry = clean(&world, &["--dry-run"]).ok();
    assert!(dry.stdout.contains("the agent one with its history (it ran for less than a minute"), "{dry}");
    clean(&world, &["--yes"]).ok();
    assert!(!world.agent_dir(&one.id).exists() && !world.agent_dir(&two.id).exists());
    assert!(!world.ok(&["list", "--all"]).contains("short tr"));
}

#[test]
fn program_that_ends_by_itself_is_a_short_try_too() {
    let world = world();
    world.ok(&["run", "-d", "--name", "gone", "--", "sh", "-c", "read line"]);
    let agent = world.agent("gone");
    world.ok(&["kill", "gone"]);
    world.ok(&["run", "-d", "--name", "gone", "--", "sh", "-c", "exit 3"]);
    world.wait_until("its program has ended", || read(&lifetime(&world, &agent))["ended"].is_object());
    let told = read(&lifetime(&world, &agent));
    assert_eq!((&told["ended"]["by"], &told["starts"]), (&json!("program"), &json!(2)), "{told}");
    assert_eq!(listed(&world), ["gone"]);
    an_hour_ago(&world, &agent);
    assert_eq!(listed(&world), [""; 0]);
}

#[test]
fn agent_with_mail_is_not_hidden() {
    let (world, one, two) = two_tries();
    world.ok(&["send", "one", "read me"]);
    assert_eq!(listed(&world), ["busy", "one"]);
    clean(&world, &["--yes"]).ok();
    assert!(world.agent_dir(&one.id).exists() && !world.agent_dir(&two.id).exists());
    world.ok(&["start", "one"]);
    world.wait_until("it got its message", || world.ok(&["history", "one"]).contains("read me"));
}

#[test]
fn agent_with_history_is_not_hidden() {
    let world = world();
    let used = world.run("used", "cat", &[]);
    let followed = world.run("followed", "cat", &[]);
    assert_eq!(world.ok(&["send", "used", "hi", "--response"]), "hi");
    world.ok(&["follow", "followed"]);
    world.ok(&["kill", "used", "followed"]);
    for agent in [&used, &followed] {
        an_hour_ago(&world, agent);
        assert_eq!(read(&lifetime(&world, agent))["was_used"], true);
    }
    assert_eq!(listed(&world), ["followed", "used"]);
    // A record that is wrong about it removes nothing.
    let file = lifetime(&world, &used);
    let mut told = read(&file);
    told["was_used"] = json!(false);
    std::fs::write(&file, told.to_string()).unwrap();
    clean(&world, &["--yes"]).ok();
    assert!(world.agent_dir(&used.id).exists() && world.agent_dir(&followed.id).exists());
    assert!(world.ok(&["history", "used"]).contains("hi"));
}

/// After SIGKILL or a reboot nobody knows how long it ran.
#[test]
fn agent_whose_holder_was_killed_is_not_hidden() {
    let world = world();
    let agent = world.run("one", "cat", &[]);
    processes::kill9(agent.pid);
    world.wait_until("it is gone, and its node too", || world.processes().is_empty());
    assert!(read(&lifetime(&world, &agent))["ended"].is_null());
    an_hour_ago(&world, &agent);
    assert_eq!(listed(&world), ["one"]);
    // Nor after a further, short run.
    world.ok(&["start", "one"]);
    world.ok(&["kill", "one"]);
    an_hour_ago(&world, &agent);
    assert_eq!(listed(&world), ["one"]);
    clean(&world, &["--yes"]).ok();
    assert!(world.agent_dir(&agent.id).exists());
}

#[test]
fn agent_of_an_earlier_version_is_not_hidden() {
    let world = world();
    let agent = world.run("one", "cat", &[]);
    world.ok(&["kill", "one"]);
    an_hour_ago(&world, &agent);
    assert_eq!(listed(&world), [""; 0]);
    std::fs::remove_file(lifetime(&world, &agent)).unwrap();
    assert_eq!(listed(&world), ["one"]);
    world.ok(&["start", "one"]);
    world.ok(&["kill", "one"]);
    an_hour_ago(&world, &agent);
    assert_eq!(listed(&world), ["one"]);
}

/// Its own journal is empty, but the answer to what it asked is still to come.
#[test]
fn agent_that_waits_for_an_answer_is_not_removed() {
    let world = world();
    let asks = world.run("asks", "cat", &[]);
    let slow = world.run("slow", "read line < go; cat", &[]);
    let fifo = world.file("go");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    world.ok(&["send", "slow", "work", "--from", "asks"]);
    world.ok(&["kill", "asks"]);
    an_hour_ago(&world, &asks);
    assert_eq!(listed(&world), ["slow"]);
    clean(&world, &["--yes"]).ok();
    assert!(world.agent_dir(&asks.id).exists());
    std::fs::write(&fifo, "go\n").unwrap();
    world.wait_until("nothing is asked for any more", || slow.get("/api/v1/tasks").json() == json!([]));
    clean(&world, &["--yes"]).ok();
    assert!(!world.agent_dir(&asks.id).exists());
}

/// What it asked waits in the spool of an agent that does not run.
#[test]
fn agent_that_asked_a_stopped_one_is_not_removed() {
    let (world, one, two) = two_tries();
    world.run("away", "cat", &[]);
    world.ok(&["kill", "away"]);
    world.ok(&["send", "away", "work", "--from", "one"]);
    let mut names = listed(&world);
    names.sort();
    assert_eq!(names, ["away", "busy"]);
    clean(&world, &["--yes"]).ok();
    assert!(world.agent_dir(&one.id).exists() && !world.agent_dir(&two.id).exists());
}

/// What looks at the list takes no lock, so that it never stands in the way of a start.
#[test]
fn list_does_not_hold_an_agent() {
    let (world, one, _) = two_tries();
    let lock = world.agent_dir(&one.id).join("holder.lock");
    let before = std::fs::read(&lock).unwrap();
    let file = std::fs::File::open(&lock).unwrap();
    file.lock().unwrap();
    assert_eq!(listed(&world), ["busy"]);
    file.unlock().unwrap();
    assert_eq!(std::fs::read(&lock).unwrap(), before, "nobody signed it");
}
