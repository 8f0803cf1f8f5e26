//! What a person meets on the first day: words, errors, lists and housekeeping (findings 21 to 33).

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use synapse_testkit::{Ran, World};

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_synapse"))
}

fn error_of(ran: &Ran) -> Value {
    serde_json::from_str(ran.stderr.trim()).unwrap_or_else(|e| panic!("{e}: {ran}"))
}

/// Finding 23.
#[test]
fn usage_errors_are_json_where_json_was_asked_for() {
    let world = world();
    for args in [
        &["--json", "send"][..],
        &["list", "--nothing", "--json"],
        &["send", "a", "b", "-p", "6", "--json"],
        &["frobnicate", "--json"],
        &["--json"],
    ] {
        let ran = world.synapse(args).exits(2);
        let error = error_of(&ran);
        assert_eq!(error["error"]["code"], "usage", "{args:?}: {error}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains('\n'), "{args:?}: {message}");
        assert_eq!(ran.stdout, "", "{args:?}");
    }
    // What follows `--` belongs to the program, and people read text.
    let ran = world.synapse(&["run", "--nothing", "--", "cat", "--json"]).exits(2);
    assert!(ran.stderr.starts_with("error: unexpected argument '--nothing' found"), "{ran}");
}

/// Finding 23.
#[test]
fn what_is_empty_is_json_too() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    assert_eq!(world.json(&["inbox"]), json!([]));
    assert_eq!(world.ok(&["inbox"]), "inbox empty; `synapse inbox <AGENT>` shows the messages of an agent");
    assert_eq!(world.json(&["history"]), json!([]));
    let status = world.json(&["status", "shout"]);
    for (old, new) in [("agentName", "agent_name"), ("agentId", "agent_id"), ("agentType", "agent_type")] {
        assert!(status[new].is_string() && status[old] == status[new], "{new}: {status}");
    }
    world.ok(&["kill", "shout"]);
    assert_eq!(world.json(&["status", "shout"])["agent_name"], "shout");
}

/// Finding 24.
#[test]
fn nothing_is_cut_in_a_pipe_and_the_end_of_a_program_is_explained() {
    let world = world();
    let words = "the key of this account was not found in any of the five places where it may be";
    let script = format!("read line; echo '{words}'; exit 1");
    world.ok(&["run", "-d", "--name", "frail", "--", "sh", "-c", &script]);
    world.ok(&["send-keys", "frail", "Enter"]);
    world.wait_until("its program has ended", || world.json(&["list"]) == json!([]));
    let listed = world.ok(&["list", "--all"]);
    assert!(listed.contains(&format!("exit code 1: {words}")), "{listed}");
    let explained = world.ok(&["explain", "frail"]);
    for part in ["its program ended", "exit code 1", words, "synapse logs frail"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
}

/// Finding 25.
#[test]
fn n_limits_every_list() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    for text in ["one", "two", "three"] {
        world.ok(&["send", "shout", text, "--response"]);
    }
    let rows = |args: &[&str]| world.json(args).as_array().unwrap().len();
    for flag in ["-n", "--limit", "--max"] {
        assert_eq!(rows(&["history", flag, "2"]), 2, "{flag}");
        let found = world.json(&["history", "search", "t", flag, "1"]);
        assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{flag}");
        assert_eq!(world.ok(&["audit", "--json", flag, "2"]).lines().count(), 2, "{flag}");
        world.ok(&["inbox", "shout", flag, "2"]);
    }
    for flag in ["-n", "--limit", "--lines"] {
        assert!(world.ok(&["logs", "shout", flag, "1"]).lines().count() <= 1, "{flag}");
    }
}

/// Started once an hour ago, for some seconds.
fn an_hour_ago(world: &World, id: &str, ran: Duration) {
    let started = SystemTime::now() - Duration::from_secs(3_600);
    let ms = started.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let dir = world.agent_dir(id);
    let mut known: Value = serde_json::from_slice(&std::fs::read(dir.join("known.json")).unwrap()).unwrap();
    known["first_seen_ms"] = json!(u64::try_from(ms).unwrap());
    known["last_started_ms"] = known["first_seen_ms"].clone();
    std::fs::write(dir.join("known.json"), known.to_string()).unwrap();
    for name in ["journal.db", "log", "known.json", "spool/new"] {
        std::fs::File::open(dir.join(name)).unwrap().set_modified(started + ran).unwrap();
    }
}

/// Finding 28.
#[test]
fn agents_that_were_only_tried_leave_the_list() {
    let world = world();
    let agents = ["tried", "used", "with-mail", "fresh"].map(|name| world.run(name, "cat", &[]));
    world.ok(&["kill", "--all"]);
    world.ok(&["send", "with-mail", "read me"]);
    let seconds = Duration::from_secs(5);
    an_hour_ago(&world, &agents[0].id, seconds);
    an_hour_ago(&world, &agents[1].id, Duration::from_secs(900));
    an_hour_ago(&world, &agents[2].id, seconds);
    let listed = || -> Vec<String> {
        let rows = world.json(&["list", "--all"]);
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(), ["fresh", "used", "with-mail"]);
    assert!(world.ok(&["list"]).contains("3 more known but not running"));
    // Only forgotten by whoever cleans up.
    let clean = |args: &[&str]| {
        Ran::new(args, world.command(args).env("TMPDIR", world.folder()).output().unwrap()).ok().out()
    };
    assert!(clean(&["clean", "--dry-run"]).contains("the agent tried"));
    let dry = clean(&["clean", "--stopped", "--dry-run"]);
    assert!(dry.contains("the agent fresh") && !dry.contains("with-mail"), "{dry}");
    clean(&["clean", "--stopped", "--yes"]);
    assert_eq!(listed(), ["with-mail"]);
    assert!(!world.agent_dir(&agents[0].id).exists());
}

/// Finding 30.
#[test]
fn an_unknown_task_points_to_the_history() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    world.synapse(&["cancel", "0123abcd"]).fails(5, &["unknown task", "synapse history"]);
}

/// Words of the first day.
#[test]
fn an_empty_message_is_named() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    for args in [&["send", "shout", ""][..], &["send", "shout", " \n"], &["broadcast", ""]] {
        world.synapse(args).fails(2, &["the message is empty"]);
    }
}

/// Finding 31: in the home of a user who chose no other, the registry is beside it.
#[test]
fn nothing_is_left_of_a_default_home() {
    let world = world();
    let synapse = |args: &[&str]| {
        let mut command = world.command(args);
        command.env_remove("SYNAPSE_HOME").env("HOME", world.folder());
        Ran::new(args, command.output().unwrap()).ok()
    };
    synapse(&["run", "-d", "--name", "shout", "--exec", "tr a-z A-Z"]);
    assert!(world.file(".a2a/registry").exists() && world.file(".synapse").exists());
    synapse(&["uninstall", "--yes"]);
    assert!(!world.file(".synapse").exists() && !world.file(".a2a").exists());
}
