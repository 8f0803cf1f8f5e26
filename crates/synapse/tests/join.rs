//! `synapse join`: a program becomes an agent and stays connected. The tests play the program.

use crate::world;
use serde_json::json;
use std::collections::BTreeSet;
use synapse_testkit::World;
use synapse_testkit::program::Program;

fn join(world: &World, name: &str, more: &[&str]) -> Program {
    let mut args = vec!["join", "--name", name];
    args.extend(more);
    let program = world.program(&args);
    let hello = program.next();
    assert_eq!((hello["type"].as_str(), hello["label"].as_str()), (Some("hello"), Some(name)));
    program
}

#[test]
fn a_program_gets_mail_and_answers() {
    let world = world();
    let mut bob = join(&world, "bob", &[]);
    let agent = world.agent("bob");
    let task = world.send("bob", "one way", &[]);
    let message = bob.next_of("message");
    assert_eq!(message["text"], "one way");
    assert_eq!(message["from"]["label"], "user");
    assert_eq!(message["response_expected"], false);
    assert_eq!(message["task_id"], task.as_str());
    bob.say(&json!({ "type": "seen", "message_id": message["message_id"] }));
    assert_eq!(bob.next()["type"], "ok");
    assert_eq!(agent.task(&task)["state"], "completed");

    let mut asking = world.program(&["send", "bob", "what is 6 * 7?", "--response"]);
    let message = bob.next_of("message");
    assert_eq!(message["response_expected"], true);
    bob.say(&json!({ "type": "seen" }));
    bob.say(&json!({ "type": "progress", "text": "thinking" }));
    bob.say(&json!({ "type": "completed", "text": "42" }));
    assert_eq!(asking.next_line(), "42");
    assert!(asking.wait().success());

    let note = world.send("bob", "just so you know", &["-p", "1"]);
    assert_eq!(bob.next_of("message")["task_id"], note.as_str(), "a program that stays gets notes too");
}

#[test]
fn a_program_hears_what_was_wrong_with_its_lines() {
    let world = world();
    let mut bob = join(&world, "bob", &[]);
    bob.say_raw("what?\n");
    assert_eq!(bob.next()["type"], "error");
    bob.say(&json!({ "type": "completed", "message_id": "never-heard-of", "text": "x" }));
    let error = bob.next();
    assert_eq!(error["type"], "error");
    assert!(error["message"].as_str().unwrap().contains("never-heard-of"), "{error}");
    bob.say(&json!({ "type": "send", "to": "nobody", "text": "x" }));
    assert!(bob.next()["message"].as_str().unwrap().contains("nobody"));
    world.send("bob", "still here?", &[]);
    assert_eq!(bob.next_of("message")["text"], "still here?");
}

#[test]
fn programs_write_to_each_other() {
    let world = world();
    let mut ana = join(&world, "ana", &[]);
    let bob = join(&world, "bob", &[]);
    ana.say(&json!({ "type": "send", "to": "bob", "text": "hello bob", "priority": 4 }));
    assert_eq!(ana.next()["type"], "ok");
    let message = bob.next_of("message");
    assert_eq!(message["text"], "hello bob");
    assert_eq!(message["from"]["sender_id"], world.agent("ana").id.as_str());
    assert_eq!((&message["priority"], &message["level"]), (&json!(4), &json!(8)));
}

#[test]
fn a_node_that_is_killed_hands_each_message_out_once() {
    const ROUNDS: usize = 4;
    let world = world();
    let mut bob = join(&world, "bob", &[]);
    let mut seen = Vec::new();
    for round in 0..ROUNDS {
        world.send("bob", &format!("before {round}"), &[]);
        let in_hand = bob.next_of("message");
        // The node is killed while the program holds one message and another is on its way.
        world.send("bob", &format!("around {round}"), &[]);
        world.kill_node("bob");
        bob.say(&json!({ "type": "seen", "message_id": in_hand["message_id"] }));
        seen.push(in_hand["text"].as_str().unwrap().to_owned());
        let second = bob.next_of("message");
        bob.say(&json!({ "type": "seen", "message_id": second["message_id"] }));
        seen.push(second["text"].as_str().unwrap().to_owned());
    }
    let task = world.send("bob", "last", &[]);
    let last = bob.next_of("message");
    assert_eq!(last["task_id"], task.as_str(), "nothing came twice");
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), once.len()), (2 * ROUNDS, 2 * ROUNDS), "{seen:?}");
}

#[test]
fn an_answer_given_while_the_node_is_away_arrives() {
    let world = world();
    let mut bob = join(&world, "bob", &["--port", &world.port()]);
    let mut asking = world.program(&["send", "bob", "question", "--response"]);
    let message = bob.next_of("message");
    let agent = world.agent("bob");
    synapse_testkit::processes::kill9(agent.node_pid);
    bob.say(&json!({ "type": "completed", "message_id": message["message_id"], "text": "answer" }));
    assert_eq!(asking.next_line(), "answer");
    assert!(asking.wait().success());
    let after = world.agent("bob");
    assert_eq!((after.port, after.pid, &after.id), (agent.port, agent.pid, &agent.id));
}

#[test]
fn when_the_program_goes_its_mail_waits_for_the_next() {
    let world = world();
    let mut bob = join(&world, "bob", &[]);
    world.send("bob", "unseen", &[]);
    assert_eq!(bob.next_of("message")["text"], "unseen");
    bob.close_input();
    assert!(bob.wait().success());
    assert_eq!(world.processes(), [0_u32; 0], "{}", world.show());
    assert_eq!(world.registry().len(), 0);
    let told = world.ok(&["send", "bob", "later"]);
    assert!(told.contains("not running"), "{told}");

    let bob = join(&world, "bob", &[]);
    let mut got =
        [bob.next_of("message"), bob.next_of("message")].map(|m| m["text"].as_str().unwrap().to_owned());
    got.sort();
    assert_eq!(got, ["later", "unseen"], "what was handed out but not seen is handed out again");
}

#[test]
fn a_program_that_was_killed_leaves_its_agent_to_the_next() {
    let world = world();
    let bob = join(&world, "bob", &[]);
    let agent = world.agent("bob");
    drop(bob);
    world.wait_until("nobody takes its messages", || world.json(&["status", "bob"])["state"] == "offline");
    world.send("bob", "are you there?", &[]);
    let mut bob = join(&world, "bob", &[]);
    assert_eq!(bob.next_of("message")["text"], "are you there?");
    assert_eq!(world.agent("bob").pid, agent.pid, "its holder never stopped");
    bob.say(&json!({ "type": "seen" }));
    assert_eq!(bob.next()["type"], "ok");
    let second = world.synapse(&["join", "--name", "bob"]);
    second.fails(5, &["bob", "already"]);
}

#[test]
fn no_more_than_the_window_is_handed_out() {
    let world = world();
    let mut bob = join(&world, "bob", &["--window", "2"]);
    for n in 0..4 {
        world.send("bob", &format!("letter {n}"), &[]);
    }
    let first = [bob.next_of("message"), bob.next_of("message")];
    let page = world.json(&["inbox", "bob"]);
    assert_eq!((page["leased"].as_u64(), page["waiting"].as_u64()), (Some(2), Some(2)), "{page}");
    bob.say(&json!({ "type": "seen", "message_id": first[0]["message_id"] }));
    assert_eq!(bob.next_of("message")["text"], "letter 2");
    assert!(bob.said().iter().all(|line| line.contains("\"ok\"")), "and no more");
}

#[test]
fn a_canceled_task_is_told_to_the_program_that_has_seen_it() {
    let world = world();
    let mut bob = join(&world, "bob", &[]);
    let mut asking = world.program(&["send", "bob", "long work", "--response"]);
    let task = bob.next_of("message")["task_id"].as_str().unwrap().to_owned();
    bob.say(&json!({ "type": "seen" }));
    assert_eq!(bob.next()["type"], "ok");
    world.ok(&["cancel", &task, "--why", "no longer needed"]);
    let stop = bob.next_of("cancel");
    assert_eq!(
        (stop["task_id"].as_str(), stop["why"].as_str()),
        (Some(task.as_str()), Some("no longer needed"))
    );
    assert_eq!(asking.wait().code(), Some(3));
}
