//! No accepted message is lost: nodes and holders are killed with -9 while messages are in
//! flight.
//!
//! The number of rounds is `SYNAPSE_CRASH_ROUNDS`, 3 by default.

use crate::world;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use synapse_testkit::processes::{is_alive, kill9};
use synapse_testkit::program::Program;
use synapse_testkit::{Agent, World};

const SENDERS: usize = 8;

fn rounds() -> usize {
    std::env::var("SYNAPSE_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

/// Sends until told to stop, and returns what was acknowledged. A sender without an answer repeats
/// the same message.
fn send_on(
    world: &World,
    agent: &Agent,
    sender: usize,
    stop: &AtomicBool,
    acknowledged: &AtomicUsize,
) -> Vec<String> {
    let mut sent = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let text = format!("s{sender}-{}", sent.len());
        let body = json!({ "message": text, "message_id": text }).to_string();
        // Most senders use HTTP. One uses the command line, which copes with a dead node itself.
        if sender == 0 {
            world.ok(&["send", &agent.id, &text, "--message-id", &text]);
        } else {
            world.wait_until("a message is acknowledged", || post(agent, &body));
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
        sent.push(text);
    }
    sent
}

fn post(agent: &Agent, body: &str) -> bool {
    let door = agent.unix();
    let Ok(mut connection) = door.try_connect() else { return false };
    connection.say(&door.head("POST", "/message", &[], Some(body.len())));
    connection.say(body);
    match connection.read_head() {
        Ok((status, _)) => {
            assert!(matches!(status, 200 | 503), "{status}");
            status == 200
        }
        Err(_) => false,
    }
}

/// Runs eight senders against a node that is killed once per round. Returns what was acknowledged.
fn storm(world: &World, name: &str) -> BTreeSet<String> {
    const PER_ROUND: usize = 30;
    let agent = world.agent(name);
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (agent, stop, acknowledged, all) = (&agent, &stop, &acknowledged, &all);
            scope.spawn(move || {
                let sent = send_on(world, agent, sender, stop, acknowledged);
                all.lock().unwrap().extend(sent);
            });
        }
        for round in 0..rounds() {
            let enough = acknowledged.load(Ordering::Relaxed) + PER_ROUND / 2 + (round * 7) % PER_ROUND;
            world.wait_until("some more are acknowledged", || acknowledged.load(Ordering::Relaxed) >= enough);
            kill9(world.agent(name).node_pid);
        }
        let enough = acknowledged.load(Ordering::Relaxed) + PER_ROUND;
        world.wait_until("it goes on after the last kill", || acknowledged.load(Ordering::Relaxed) >= enough);
        stop.store(true, Ordering::Relaxed);
    });
    let after = world.agent(name);
    assert_eq!(
        (after.pid, after.port, &after.id),
        (agent.pid, agent.port, &agent.id),
        "it is the same agent"
    );
    let all = all.into_inner().unwrap();
    let once: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), once.len());
    once
}

fn differences(sent: &BTreeSet<String>, got: &[String]) -> String {
    let once: BTreeSet<String> = got.iter().cloned().collect();
    let mut twice = got.to_vec();
    twice.sort();
    let twice: Vec<&String> = twice.windows(2).filter(|w| w[0] == w[1]).map(|w| &w[0]).collect();
    let lost: Vec<&String> = sent.difference(&once).collect();
    let invented: Vec<&String> = once.difference(sent).collect();
    if lost.is_empty() && twice.is_empty() && invented.is_empty() {
        return String::new();
    }
    format!("lost {lost:?}, twice {twice:?}, never sent {invented:?}")
}

#[test]
fn heavy_commands_are_started_once_for_every_acknowledged_message() {
    let world = world();
    let exec = "printf '%s\\n' \"$SYNAPSE_PROMPT\" >> ledger";
    world.run("ledger", exec, &["--parallel", "4", "--port", &world.port()]);
    let sent = storm(&world, "ledger");
    let agent = world.agent("ledger");
    world.wait_while_it_moves("all tasks have ended", || {
        let open = agent.get("/api/v1/tasks").json();
        (open == json!([]), world.lines("ledger").len())
    });
    assert_eq!(differences(&sent, &world.lines("ledger")), "", "{}", world.show());
}

/// Plays a program that records each message and reports it as seen.
fn note_all(mut program: Program, got: &Mutex<Vec<String>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let line = program.next();
        if line["type"] == "message" {
            let text = line["text"].as_str().unwrap().to_owned();
            let over = text == "over";
            got.lock().unwrap().push(text);
            program.say(&json!({ "type": "seen", "message_id": line["message_id"] }));
            if over {
                return;
            }
        }
    }
}

#[test]
fn heavy_a_program_gets_every_acknowledged_message_once() {
    let world = world();
    let bob = world.program(&["join", "--name", "bob", "--port", &world.port()]);
    assert_eq!(bob.next()["type"], "hello");
    let (got, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let sent = std::thread::scope(|scope| {
        let reading = scope.spawn(|| note_all(bob, &got, &stop));
        let mut sent = storm(&world, "bob");
        world.wait_while_it_moves("all are noted", || {
            let noted = got.lock().unwrap().len();
            (noted >= sent.len(), noted)
        });
        world.send("bob", "over", &[]);
        sent.insert("over".into());
        reading.join().unwrap();
        sent
    });
    assert_eq!(differences(&sent, &got.lock().unwrap()), "", "{}", world.show());
}

#[test]
fn mail_outlives_a_killed_holder() {
    let world = world();
    let exec = "printf '%s\\n' \"$SYNAPSE_PROMPT\" >> ledger; while [ ! -e go ]; do sleep 0.02; done";
    let agent = world.run("ledger", exec, &["--port", &world.port()]);
    world.send("ledger", "at work", &[]);
    world.wait_until("the first is at work", || world.lines("ledger").len() == 1);
    for n in 0..3 {
        world.send("ledger", &format!("waits {n}"), &[]);
    }
    kill9(agent.pid);
    world.wait_until("the node follows its holder", || !is_alive(agent.node_pid));
    world.send("ledger", "spooled", &[]);
    world.write("go", "");
    let told = world.ok(&["run", "-d", "--name", "ledger", "--exec", exec]);
    assert!(told.contains("with the mailbox it had before"), "{told}");
    let after = world.agent("ledger");
    assert_eq!((after.port, &after.id), (agent.port, &agent.id));
    world.wait_until("everything is worked on", || world.lines("ledger").len() >= 5);
    world.wait_until("nothing is open", || after.get("/api/v1/tasks").json() == json!([]));
    let mut got = world.lines("ledger");
    got.sort();
    assert_eq!(got, ["at work", "spooled", "waits 0", "waits 1", "waits 2"]);
}

#[test]
fn a_task_goes_on_while_its_node_is_killed() {
    let world = world();
    let exec =
        "printf '%s\\n' \"$SYNAPSE_PROMPT\" >> begun; while [ ! -e go ]; do sleep 0.02; done; echo done";
    world.run("patient", exec, &[]);
    let mut asking = world.program(&["send", "patient", "long work", "--response"]);
    world.wait_until("it is at work", || world.lines("begun").len() == 1);
    for _ in 0..3 {
        world.kill_node("patient");
    }
    world.write("go", "");
    assert_eq!(asking.next_line(), "done");
    assert!(asking.wait().success());
    assert_eq!(world.lines("begun"), ["long work"], "it was started once");
}

#[test]
fn a_cancel_survives_the_death_of_the_node() {
    let world = world();
    let agent = world.run("stubborn", "echo $$ > pid; while :; do sleep 1; done", &[]);
    let task = world.send("stubborn", "x", &[]);
    let pid = world.wait_for("it is at work", || world.read("pid").trim().parse().ok());
    let canceled = agent.post(&format!("/api/v1/tasks/{task}/cancel"), &json!({ "why": "enough" }));
    assert_eq!(canceled.status, 200, "{}", canceled.text());
    kill9(agent.node_pid);
    world.wait_until("a node is back", || {
        world.entry("stubborn").is_some_and(|entry| entry["node_pid"] != agent.node_pid)
    });
    world.wait_until("the task is canceled", || world.agent("stubborn").task(&task)["state"] == "canceled");
    assert!(!is_alive(pid));
}
