//! `synapse interrupt` (X-4, PTY-9): running work is notified or stopped, the message comes next,
//! and the history shows it.

use crate::world;
use serde_json::json;

#[test]
fn a_plain_command_is_stopped_and_the_urgent_message_is_next() {
    let world = world();
    let agent = world.run("slow", "cat >> begun; echo >> begun; [ -e go ] || sleep 60", &[]);
    let first = world.send("slow", "first", &[]);
    world.wait_until("the first is being worked on", || world.lines("begun") == ["first"]);
    world.send("slow", "second", &[]);
    world.write("go", "");
    let told = world.ok(&["interrupt", "slow", "the plan changed", "--message-id", "i-1"]);
    assert!(told.contains(&first[..8]) && told.contains("being stopped") && told.contains("next"), "{told}");
    world.wait_until("all three were begun", || world.lines("begun").len() == 3);
    assert_eq!(world.lines("begun"), ["first", "the plan changed", "second"]);
    let task = agent.task(&first);
    let last = task["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&task["state"], &last["why"]), (&json!("canceled"), &json!("interrupted: the plan changed")));
    let again = world.json(&["interrupt", "slow", "the plan changed", "--message-id", "i-1"]);
    assert_eq!((&again["tasks"], &again["message"]["duplicate"]), (&json!([]), &json!(true)));
    world.ok(&["wait", "slow"]);
    assert_eq!(world.lines("begun").len(), 3, "the same id has no second effect");
    world.ok(&["kill", "slow"]);
    world.synapse(&["interrupt", "slow"]).fails(4, &["not running"]);
    assert!(world.ok(&["interrupt", "slow", "when you are back"]).contains("the first it reads"));
}

#[test]
fn a_program_that_speaks_lines_is_told_and_decides() {
    let world = world();
    let script = "\
say('progress', text='working')
line = hear()
say('completed', text=line['type'] + ' from ' + line['from'] + ': ' + line['why'] + ' ' + line['task_id'])";
    let agent = world.run_lines("lines", script, &[]);
    let task = world.send("lines", "work", &[]);
    world.wait_until("it works", || agent.task(&task)["state"] == "working");
    let told = world.json(&["interrupt", "lines", "look here", "--only"]);
    assert_eq!(told["tasks"], json!([{ "task_id": task, "what": "told" }]));
    world.ok(&["wait", &task[..8], "--until", "reply"]);
    let view = agent.task(&task);
    assert_eq!(view["answer"]["text"], format!("interrupt from user: look here {task}"));
    let history = view["history"].as_array().unwrap();
    let moves: Vec<(&str, &str)> =
        history.iter().map(|to| (to["to"].as_str().unwrap(), to["why"].as_str().unwrap())).collect();
    assert_eq!(
        moves,
        [("working", "started"), ("working", "interrupted: look here"), ("completed", "completed")]
    );

    let mut bob = world.program(&["join", "--name", "bob"]);
    bob.next_of("hello");
    let mut asking = world.program(&["send", "bob", "think", "--response"]);
    let message = bob.next_of("message");
    let none = world.json(&["interrupt", "bob", "hey", "--only"]);
    assert_eq!(none["tasks"], json!([]), "it has not begun");
    bob.say(&json!({ "type": "seen", "message_id": message["message_id"] }));
    bob.next_of("ok");
    world.ok(&["interrupt", "bob", "hurry", "--only"]);
    let line = bob.next_of("interrupt");
    assert_eq!((&line["task_id"], &line["why"]), (&message["task_id"], &json!("hurry")));
    bob.say(&json!({ "type": "completed", "text": "hurried", "message_id": message["message_id"] }));
    assert_eq!(asking.next_line(), "hurried");
    assert!(asking.wait().success());
}
