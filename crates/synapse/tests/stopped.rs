//! X-7, CLI-11: a node that is stopped (SIGSTOP) or slow. Commands report it soon, and no message
//! is lost or processed twice.

use crate::world;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use synapse_store::home::socket_address;
use synapse_testkit::world::Agent;
use synapse_testkit::{World, processes};

/// The commands themselves take one second; the rest is for a busy machine.
const SOON: Duration = Duration::from_secs(8);

/// Appends each message as one line.
const LEDGER: &str = "cat >> ledger; echo >> ledger";

/// The letters in the spool of an agent.
fn spooled(world: &World, agent: &Agent) -> Vec<PathBuf> {
    let new = world.agent_dir(&agent.id).join("spool/new");
    std::fs::read_dir(new).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A node that is stopped until the end of the test, or until it is resumed.
struct Stopped(u32);

impl Stopped {
    fn new(world: &World, agent: &Agent) -> Self {
        processes::stop(agent.node_pid);
        world.wait_until("its node is stopped", || processes::is_stopped(agent.node_pid));
        Self(agent.node_pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        processes::go_on(self.0);
    }
}

/// Waits until every message was processed and the spool is empty.
fn settle(world: &World, agent: &Agent) {
    world.wait_until("its spool is empty", || spooled(world, agent).is_empty());
    world.ok(&["send", "ledger", "the last one", "--response"]);
}

fn quickly<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = act();
    assert!(began.elapsed() < SOON, "{what} took {:?}", began.elapsed());
    done
}

#[test]
fn message_for_a_stopped_node_is_kept_in_its_spool_and_done_once() {
    let world = world();
    let agent = world.run("ledger", LEDGER, &[]);
    let stopped = Stopped::new(&world, &agent);
    let said = quickly("send", || world.ok(&["send", "ledger", "first"]));
    assert!(said.starts_with("stored for ledger, which will get it as soon as it responds"), "{said}");
    assert!(said.contains(&format!("`kill -CONT {}`", agent.node_pid)), "{said}");
    assert_eq!(spooled(&world, &agent).len(), 1);
    let told = quickly("send --json", || world.json(&["send", "ledger", "second"]));
    assert_eq!((told["status"].as_str(), told["via"].as_str()), (Some("spooled"), Some("spool")), "{told}");
    assert!(told["why"].as_str().unwrap().contains("is stopped"), "{told}");
    drop(stopped);
    settle(&world, &agent);
    assert_eq!(world.lines("ledger"), ["first", "second", "the last one"]);
}

#[test]
fn request_that_a_stopped_node_had_already_received_is_not_done_twice() {
    let world = world();
    let agent = world.run("ledger", LEDGER, &[]);
    let stopped = Stopped::new(&world, &agent);
    // The request is in the socket's buffer. The node reads it as soon as it runs again.
    let mut connection = agent.unix().connect();
    let body = json!({ "message": "once", "message_id": "m-1" }).to_string();
    let head = agent.unix().head("POST", "/message", &[], Some(body.len()));
    connection.say(&format!("{head}{body}"));
    world.ok(&["send", "ledger", "once", "--message-id", "m-1"]);
    world.ok(&["send", "ledger", "once", "--message-id", "m-1"]);
    assert_eq!(spooled(&world, &agent).len(), 2);
    drop(stopped);
    let answer = connection.answer();
    assert_eq!(answer.status, 200, "{}", answer.text());
    settle(&world, &agent);
    assert_eq!(world.lines("ledger"), ["once", "the last one"]);
    assert_eq!(std::fs::read_dir(world.agent_dir(&agent.id).join("spool/bad")).unwrap().count(), 0);
}

#[test]
fn response_is_waited_for_until_the_node_runs_again() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let stopped = Stopped::new(&world, &agent);
    // Nobody resumes the node in time.
    let ran = world.synapse(&["send", "shout", "early", "--response", "--timeout", "1s"]);
    ran.fails(4, &["shout is not responding", "--message-id", "--response"]);
    let sending = std::thread::scope(|scope| {
        let sending = scope.spawn(|| world.ok(&["send", "shout", "hi", "--response"]));
        world.wait_until("both are in its spool", || spooled(&world, &agent).len() == 2);
        drop(stopped);
        sending.join().unwrap()
    });
    assert_eq!(sending, "HI");
}

#[test]
fn list_status_and_explain_say_that_a_stopped_node_is_not_responding() {
    let world = world();
    let agent = world.run("ledger", LEDGER, &[]);
    let task = world.send("ledger", "first", &["--wait-for", "seen"]);
    let stopped = Stopped::new(&world, &agent);
    let pid = agent.node_pid;
    let row = quickly("list", || world.json(&["list"])[0].clone());
    assert_eq!(row["state"], "unknown", "{row}");
    assert_eq!(row["why"], format!("not responding: process {pid} is stopped"), "{row}");
    let status = quickly("status", || world.ok(&["status", "ledger"]));
    assert!(status.contains(&format!("ledger is not responding: process {pid} is stopped")), "{status}");
    let status = world.json(&["status", "ledger"]);
    assert_eq!((&status["running"], &status["responding"]), (&json!(true), &json!(false)), "{status}");
    let explained = quickly("explain", || world.json(&["explain", "ledger"]));
    assert_eq!(explained["code"], "no_answer", "{explained}");
    assert!(explained["help"].as_str().unwrap().contains(&format!("`kill -CONT {pid}`")), "{explained}");
    let ran = quickly("explain TASK", || world.synapse(&["explain", &task]));
    ran.fails(1, &["ledger may have it and is not responding"]);
    let ran = quickly("cancel", || world.synapse(&["cancel", &task]));
    ran.fails(1, &["ledger may have it and is not responding"]);
    drop(stopped);
    world.wait_until("it says how it is again", || world.json(&["list"])[0]["state"] == "idle");
}

/// A slow node, as on a busy machine: a proxy in front of its socket delays requests.
#[test]
fn message_to_a_slow_node_is_kept_at_once_and_done_once() {
    let world = world();
    let agent = world.run("ledger", LEDGER, &[]);
    let real = agent.socket.with_extension("real");
    std::fs::rename(&agent.socket, &real).unwrap();
    let listener = UnixListener::bind(socket_address(&agent.socket).unwrap().0).unwrap();
    let told = std::thread::scope(|scope| {
        let sending = scope.spawn(|| world.synapse(&["send", "ledger", "slow"]).ok());
        let (asking, _) = listener.accept().unwrap();
        // The real node takes the message from its spool, and then gets the request as well.
        world.wait_until("the message was done", || world.lines("ledger") == ["slow"]);
        pass_on(asking, UnixStream::connect(socket_address(&real).unwrap().0).unwrap());
        sending.join().unwrap()
    });
    assert!(told.stderr.contains("as soon as it responds (it has not answered yet)"), "{told}");
    assert!(told.stdout.starts_with("already stored for ledger, task "), "{told}");
    drop(listener);
    std::fs::rename(&real, &agent.socket).unwrap();
    settle(&world, &agent);
    assert_eq!(world.lines("ledger"), ["slow", "the last one"]);
}

/// Copies both ways until both ends are closed.
fn pass_on(mut from: UnixStream, mut to: UnixStream) {
    let (mut asked, mut answered) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let there = std::thread::spawn(move || {
        let _ = std::io::copy(&mut asked, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut bytes = [0; 4096];
    while let Ok(n @ 1..) = answered.read(&mut bytes) {
        if from.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    there.join().unwrap();
}
