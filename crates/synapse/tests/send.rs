//! `synapse send`: its output, what is stored, and its exit codes.

use crate::world;
use serde_json::Value;

/// Works on a task until the file `go` exists.
const PATIENT: &str = "cat >> begun; echo >> begun; while [ ! -e go ]; do sleep 0.02; done; echo done";

#[test]
fn a_task_is_given_and_its_answer_comes_back() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    let ran = world.synapse(&["send", "shout", "hi", "--response"]).ok();
    assert_eq!(ran.stdout, "HI\n");

    let one_way = world.ok(&["send", "shout", "hi"]);
    assert!(one_way.starts_with("stored for shout, task "), "{one_way}");

    let stdin = world.synapse_reading(&["send", "shout", "--response"], "from stdin\nü".as_bytes()).ok();
    assert_eq!(stdin.out(), "FROM STDIN\nü");
    let dash = world.synapse_reading(&["send", "shout", "-", "--response"], b"dash").ok();
    assert_eq!(dash.out(), "DASH");
    let file = world.write("letter.txt", "from a file");
    let file = world.ok(&["send", "shout", "--file", file.to_str().unwrap(), "--response"]);
    assert_eq!(file, "FROM A FILE");
}

#[test]
fn every_way_of_naming_an_agent_reaches_it() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &["--skill", "capitals"]);
    let (port, id) = (agent.port, &agent.id);
    let ways = [
        "shout".to_owned(),
        "SHOUT".to_owned(),
        "tr".to_owned(),
        format!("tr-{port}"),
        format!("synapse-tr-{port}"),
        id[..8].to_owned(),
        id.clone(),
        format!("0x{id}"),
        "skill:capitals".to_owned(),
    ];
    for way in ways {
        assert_eq!(world.ok(&["send", &way, "hi", "--response"]), "HI", "{way}");
    }
    world.synapse(&["send", "hou", "hi"]).fails(5, &["no agent is called"]);
    world.synapse(&["send", &id[..7], "hi"]).fails(5, &["no agent is called"]);
}

#[test]
fn programs_get_json_of_a_known_shape() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let stored = world.json(&["send", "shout", "hi"]);
    assert_eq!(stored["status"], "stored");
    assert_eq!(stored["duplicate"], false);
    assert_eq!(stored["agent_id"], agent.id.as_str());
    assert_eq!(stored["task_id"].as_str().unwrap().len(), 32);
    assert!(stored["message_id"].is_string() && stored["event_id"].is_u64(), "{stored}");

    let answered = world.json(&["send", "shout", "hi", "--response"]);
    assert_eq!(answered["state"], "completed");
    assert_eq!(answered["answer"]["text"], "HI");
    assert_eq!(answered["answer"]["content"]["parts"][0]["text"], "HI");

    let refused = world.synapse(&["send", "nobody", "hi", "--json"]).exits(5);
    let error: Value = serde_json::from_str(&refused.stderr).unwrap();
    assert_eq!(error["error"]["code"], "no_such_agent");
    assert_eq!(refused.stdout, "");

    let list = world.json(&["list"]);
    assert_eq!(list[0]["name"], "shout");
    assert_eq!(list[0]["running"], true);
    let status = world.json(&["status", "shout"]);
    assert_eq!(status["agentName"], "shout");
    assert_eq!(status["running"], true);
    assert_eq!(world.json(&["inbox", "shout"])["agent_id"], agent.id.as_str());
}

#[test]
fn a_command_that_fails_is_told_with_its_last_words() {
    let world = world();
    world.run("broken", "echo half an answer; echo the wrench broke >&2; exit 7", &[]);
    let ran = world.synapse(&["send", "broken", "work", "--response"]);
    let ran = ran.fails(3, &["failed", "exit code 7", "the wrench broke"]);
    assert_eq!(ran.out(), "half an answer");
    let told = world.synapse(&["send", "broken", "work", "--response", "--json"]).exits(3).json();
    assert_eq!(told["state"], "failed");
}

#[test]
fn a_wait_that_ends_says_how_it_is() {
    let world = world();
    world.run("patient", PATIENT, &[]);
    let ran = world.synapse(&["send", "patient", "work", "--response", "--timeout", "1s"]);
    let ran = ran.fails(4, &["within 1 s", "the message is", "the task goes on", "synapse cancel"]);
    assert_eq!(ran.stdout, "");
    world.write("go", "");
    let again = world.ok(&["send", "patient", "work", "--response"]);
    assert_eq!(again, "done");
    world.wait_until("both tasks were worked on", || world.read("begun").matches("work").count() == 2);
}

#[test]
fn a_wait_may_end_at_a_step() {
    let world = world();
    world.run("patient", PATIENT, &[]);
    let stored = world.ok(&["send", "patient", "one", "--wait-for", "stored"]);
    assert!(stored.starts_with("stored for patient"), "{stored}");
    world.wait_until("the first is being worked on", || world.read("begun").contains("one"));
    // The second message waits behind the first, so it cannot be submitted.
    world
        .synapse(&["send", "patient", "two", "--wait-for", "submitted", "--timeout", "300ms"])
        .fails(4, &["nothing more from patient", "the message is stored"]);
    world.write("go", "");
    let submitted = world.ok(&["send", "patient", "three", "--wait-for", "submitted"]);
    assert!(submitted.starts_with("submitted by patient, task "), "{submitted}");
    assert_eq!(world.ok(&["send", "patient", "four", "--wait-for", "answer"]), "done");
}

#[test]
fn seen_is_reported_by_a_program_that_says_so() {
    let world = world();
    let mut bob = world.program(&["join", "--name", "bob"]);
    assert_eq!(bob.next()["type"], "hello");
    let mut waiting = world.program(&["send", "bob", "look", "--wait-for", "seen"]);
    let message = bob.next_of("message");
    assert!(!waiting.has_ended());
    bob.say(&serde_json::json!({ "type": "seen", "message_id": message["message_id"] }));
    let told = waiting.next_line();
    assert!(told.starts_with("seen by bob, task "), "{told}");
    assert!(waiting.wait().success());
}

#[test]
fn a_wrong_name_is_refused_and_the_right_one_suggested() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    world.synapse(&["send", "shoot", "hi"]).fails(5, &["no agent is called \"shoot\"", "did you mean shout"]);
    world.synapse(&["send", "xyzzy", "hi"]).fails(5, &["no agent is called", "synapse list"]);
    world.synapse(&["send", "skill:cooking", "hi"]).fails(5, &["skill:cooking"]);
    world.synapse(&["status", "shoot"]).fails(5, &["did you mean shout"]);
    world.synapse(&["kill", "shoot"]).fails(5, &["did you mean shout"]);
    world.synapse(&["inbox", "shoot"]).fails(5, &["did you mean shout"]);
    world.synapse(&["cancel", "0123abcd"]).fails(5, &["unknown task"]);
}

#[test]
fn an_ambiguous_name_lists_what_it_could_mean() {
    let world = world();
    world.run("ana", "tr a-z A-Z", &[]);
    world.run("bob", "tr a-z A-Z", &[]);
    let ran = world.synapse(&["send", "tr", "hi"]).fails(5, &["could mean any of", "ana", "bob"]);
    assert!(ran.stderr.lines().any(|line| line.ends_with(" ana")), "one per line, to copy: {ran}");
}

#[test]
fn mail_for_a_stopped_agent_is_kept_and_arrives() {
    let world = world();
    let exec = "cat >> got; echo >> got";
    let before = world.run("ledger", exec, &[]);
    world.ok(&["kill", "ledger"]);
    let stored = world.ok(&["send", "ledger", "while you were out"]);
    assert!(stored.contains("not running") && stored.contains("stored"), "{stored}");
    let status = world.ok(&["status", "ledger"]);
    assert!(status.contains("not running") && status.contains("new messages: 1"), "{status}");
    world.synapse(&["send", "ledger", "anybody?", "--response"]).fails(4, &["not running"]);
    let spooled = world.json(&["send", "ledger", "third", "--message-id", "third"]);
    assert_eq!(spooled["status"], "spooled");
    world.ok(&["send", "ledger", "third", "--message-id", "third"]);

    let told = world.ok(&["run", "-d", "--name", "ledger", "--exec", exec]);
    assert!(told.contains("4 messages came while it was away"), "{told}");
    world.wait_until("all three arrive", || world.lines("got").len() >= 3);
    assert_eq!(world.agent("ledger").id, before.id);
    world.ok(&["send", "ledger", "last", "--response"]);
    assert_eq!(world.lines("got"), ["while you were out", "anybody?", "third", "last"]);
}

#[test]
fn the_same_message_id_has_one_effect() {
    let world = world();
    world.run("ledger", "cat >> got; echo >> got; echo noted", &[]);
    let send = |text: &str, more: &[&str]| {
        let mut args = vec!["send", "ledger", text, "--message-id", "order-7"];
        args.extend(more);
        world.synapse(&args)
    };
    assert_eq!(send("two chairs", &["--response"]).ok().out(), "noted");
    let again = send("two chairs", &[]).ok().out();
    assert!(again.starts_with("already stored for ledger"), "{again}");
    assert_eq!(send("two chairs", &["--response"]).ok().out(), "noted", "the answer of the first");
    send("three chairs", &[]).fails(5, &["order-7", "another content"]);
    world.kill_node("ledger");
    assert_eq!(send("two chairs", &["--response"]).ok().out(), "noted", "after a crash too");
    send("three chairs", &[]).fails(5, &["another content"]);
    world.ok(&["send", "ledger", "end", "--response"]);
    assert_eq!(world.lines("got"), ["two chairs", "end"]);
}

#[test]
fn what_is_typed_wrong_exits_with_2() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    let wrong: &[&[&str]] = &[
        &[],
        &["send"],
        &["send", "shout", "hi", "--priority", "6"],
        &["send", "shout", "hi", "--priority", "0"],
        &["send", "shout", "hi", "--no-such-flag"],
        &["send", "shout", "hi", "--timeout", "soon"],
        &["send", "shout", "hi", "--wait-for", "godot"],
        &["send", "shout", "hi", "--task", "0123abcd", "--reply-to", "0123abcd"],
        &["send", "shout", "--file", "no-such-file"],
        &["send", "shout", "  "],
        &["send", "shout", "hi", "--message-id", "../../etc/passwd"],
        &["send", "two words", "hi"],
        &["send", "../shout", "hi"],
        &["run", "--name", "x"],
        &["run", "--exec", "cat", "--name", "a/b"],
        &["run", "--exec", "cat", "--parallel", "0"],
        &["run", "--exec", "cat", "--cwd", "no-such-folder"],
        &["reply", "hi"],
        &["cancel", "not-hex!"],
        &["kill"],
        &["frobnicate"],
    ];
    for args in wrong {
        let ran = world.synapse(args).exits(2);
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{ran}");
    }
    let not_text = world.synapse_reading(&["send", "shout"], b"\xff\xfe");
    not_text.fails(2, &["UTF-8"]);
    assert_eq!(world.json(&["inbox", "shout"])["messages"], serde_json::json!([]));
}

#[test]
fn urgent_mail_goes_first_and_notes_are_never_worked_on() {
    let world = world();
    let agent = world.run("patient", PATIENT, &[]);
    world.send("patient", "first", &[]);
    world.wait_until("the first is being worked on", || world.read("begun").contains("first"));
    let texts = ["n1", "p2", "p3", "p3 later", "p4", "p5"];
    for (text, priority) in texts.into_iter().zip(["1", "2", "3", "3", "4", "5"]) {
        world.send("patient", text, &["-p", priority]);
    }
    let inbox = world.json(&["inbox", "patient"]);
    let shown: Vec<&str> =
        inbox["messages"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(shown, ["p5", "p4", "p3", "p3 later", "p2", "n1"]);
    world.write("go", "");
    world.wait_until("all but the note are worked on", || world.lines("begun").len() == 6);
    assert_eq!(world.lines("begun"), ["first", "p5", "p4", "p3", "p3 later", "p2"]);
    world.wait_until("only the note is left", || {
        let page = agent.get("/api/v1/inbox").json();
        page["waiting"] == 1 && page["notes"] == 1
    });
    let inbox = world.ok(&["inbox", "patient"]);
    assert!(inbox.contains("n1") && !inbox.contains("p2"), "{inbox}");
}

/// CLI-6: `--reply-to` completes the task if it is open, otherwise it sends a linked message.
#[test]
fn replies_go_by_task_and_always_work() {
    let world = world();
    let bob = world.program(&["join", "--name", "bob"]);
    bob.next_of("hello");
    let mut asking = world.program(&["send", "bob", "what time is it?", "--response"]);
    let task = bob.next_of("message")["task_id"].as_str().unwrap().to_owned();
    let short = &task[..8];
    let told = world.ok(&["reply", "noon", "--task", short]);
    assert!(told.contains("answered"), "{told}");
    assert_eq!(asking.next_line(), "noon");
    assert!(asking.wait().success());
    let late = world.ok(&["send", "bob", "and one more thing", "--reply-to", &task]);
    assert!(late.contains("nobody waits") && late.contains("linked"), "{late}");
    let mail = world.ok(&["inbox"]);
    assert!(mail.contains("and one more thing") && mail.contains("bob") && mail.contains(short), "{mail}");
    assert!(world.ok(&["inbox"]).contains("inbox empty"), "what was shown is read");
    world.synapse(&["reply", "hm", "--task", "ffffffff"]).fails(5, &["unknown task"]);
}
