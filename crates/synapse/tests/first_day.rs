//! What a new user meets on the first day: messages, errors, lists and cleaning up (findings 21 to
//! 33).

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::Ran;

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
    // Words after `--` belong to the program, so the error is text.
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

/// Finding 24: texts, reasons and names are whole in a pipe, whichever command prints them.
#[test]
fn no_command_cuts_its_output_in_a_pipe() {
    let world = world();
    let long = |word: &str| format!("{word} {}end of {word}", "and so on ".repeat(60));
    let (question, answer) = (long("question"), long("answer"));
    // The registry holds 240 characters of it.
    let shared = format!("sharing {}end of sharing", "and so on ".repeat(21));
    world.write("answer", &answer);
    let role = "a-role-with-a-rather-long-name-that-does-not-fit-into-any-column";
    let run = world.program(&["run", "--name", "shout", "--role", role, "--exec", "cat answer"]);
    assert!(run.next_line().contains("runs as"));
    world.run("slow", "cat >/dev/null; while :; do sleep 0.02; done", &[]);
    world.ok(&["share", &shared, "--from", "shout"]);
    let task = world.send("shout", &question, &[]);
    let waited = world.ok(&["wait", &task]);
    let work = world.send("slow", &question, &[]);
    world.wait_until("it works", || world.agent("slow").task(&work)["state"] == "working");
    world.send("slow", &question, &[]);
    let refusal = long("refusal");
    world.ok(&["cancel", &work, "--why", &refusal]);
    let all = [
        (waited, &answer),
        (run.next_line(), &question),
        (run.next_line(), &answer),
        (world.ok(&["list"]), &shared),
        (world.ok(&["explain", "shout"]), &shared),
        (world.ok(&["history"]), &question),
        (world.ok(&["history"]), &answer),
        (world.ok(&["history"]), &refusal),
        (world.ok(&["history", "show", &task]), &question),
        (world.ok(&["explain", &work]), &refusal),
        (world.ok(&["logs", "shout", "--task", &task]), &answer),
        (world.ok(&["send", "shout", "again", "--response"]), &answer),
    ];
    for (n, (printed, words)) in all.iter().enumerate() {
        assert!(printed.contains(words.as_str()) && !printed.contains('…'), "{n}: {printed}");
    }
    world.ok(&["kill", "slow"]);
    world.ok(&["run", "-d", "--name", "slow", "--exec", "sleep 600"]);
    world.ok(&["kill", "slow", "shout"]);
}

/// Finding 21: people saw the inner level, 1 to 10.
#[test]
fn priorities_are_shown_as_they_are_sent() {
    let world = world();
    world.run("slow", "cat >/dev/null; while :; do sleep 0.02; done", &[]);
    let work = world.send("slow", "work", &[]);
    world.wait_until("it works", || world.agent("slow").task(&work)["state"] == "working");
    for priority in ["2", "3", "4"] {
        world.send("slow", &format!("with {priority}"), &["-p", priority]);
    }
    let explained = world.ok(&["explain", "slow"]);
    let inbox = world.ok(&["inbox", "slow"]);
    for priority in ["2", "3", "4"] {
        assert!(explained.contains(&format!("priority {priority}, ")), "{explained}");
        let row = inbox.lines().find(|line| line.ends_with(&format!("with {priority}"))).unwrap();
        assert!(row.contains(&format!("  {priority}  ")), "{inbox}");
    }
    assert!(!explained.contains("priority 6") && !explained.contains("priority 8"), "{explained}");
    let waiting = world.json(&["explain", "slow"])["waiting"].clone();
    let sent: Vec<&Value> = waiting.as_array().unwrap().iter().map(|one| &one["send_priority"]).collect();
    assert_eq!(sent, [4, 3, 2], "{waiting}");
}

/// Line 13 of the list: the registry is written a moment after a state changes, so `list` showed
/// `starting` of an agent that had answered already.
#[test]
fn an_agent_that_answers_is_not_listed_as_starting() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    assert_eq!(world.ok(&["send", "shout", "hello", "--response"]), "HELLO");
    world.wait_until("it is idle", || world.entry("shout").unwrap()["status"] == "idle");
    let file = world.home().join("registry").join(format!("{}.json", agent.id));
    let mut entry: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    entry["status"] = json!("starting");
    entry["status_why"] = json!("just started");
    std::fs::write(&file, entry.to_string()).unwrap();
    let row = &world.json(&["list"])[0];
    assert_eq!((&row["state"], &row["why"]), (&json!("idle"), &json!("no task")), "{row}");
    assert!(!world.ok(&["list"]).contains("starting"));
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

/// Finding 28.
#[test]
fn stopped_agents_without_mail_are_removed_at_once() {
    let world = world();
    let agents = ["used", "with-mail"].map(|name| world.run(name, "cat", &[]));
    world.ok(&["kill", "--all"]);
    world.run("runs", "cat", &[]);
    world.ok(&["send", "with-mail", "read me"]);
    let listed = || -> Vec<String> {
        let rows = world.json(&["list", "--all"]);
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    let clean = |args: &[&str]| {
        Ran::new(args, world.command(args).env("TMPDIR", world.folder()).output().unwrap()).ok().out()
    };
    assert!(!clean(&["clean", "--dry-run"]).contains("the agent used"), "only if asked for");
    let dry = clean(&["clean", "--stopped", "--dry-run"]);
    assert!(dry.contains("the agent used") && !dry.contains("with-mail"), "{dry}");
    clean(&["clean", "--stopped", "--yes"]);
    assert_eq!(listed(), ["runs", "with-mail"]);
    assert!(!world.agent_dir(&agents[0].id).exists());
}

/// Finding 30.
#[test]
fn an_unknown_task_points_to_the_history() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    world.synapse(&["cancel", "0123abcd"]).fails(5, &["unknown task", "synapse history"]);
}

/// An empty message is an error that says so.
#[test]
fn an_empty_message_is_named() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    for args in [&["send", "shout", ""][..], &["send", "shout", " \n"], &["broadcast", ""]] {
        world.synapse(args).fails(2, &["the message is empty"]);
    }
}

/// Finding 31: `uninstall` also removes the registry of a default home, which is outside of that
/// home.
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
