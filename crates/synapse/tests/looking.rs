//! Watching agents: `explain` (CLI-11, X-9), `logs`, `list --watch` and `watch` (CLI-9, PTY-12).

use crate::world;
use serde_json::Value;
use std::process::Command;
use synapse_testkit::{processes, world::python};

const PATIENT: &str = "cat >> begun; echo >> begun; while [ ! -e go ]; do sleep 0.02; done; echo done";

/// CLI-11: `explain` gives one reason and one command for each case in which no answer comes.
#[test]
fn when_nothing_comes_back_it_says_why() {
    let world = world();
    let agent = world.run("patient", PATIENT, &[]);
    let first = world.send("patient", "first", &[]);
    world.wait_until("it works", || agent.task(&first)["state"] == "working");
    let late = world.synapse(&[
        "send",
        "patient",
        "second",
        "--response",
        "--timeout",
        "300ms",
        "--message-id",
        "m-2",
    ]);
    late.fails(4, &["next in the mailbox", "has been busy", "synapse cancel", "synapse explain"]);
    let late = world.synapse(&["send", "patient", "third", "--response", "--timeout", "300ms"]);
    late.fails(4, &["behind 1 other message"]);

    let of = |what: &str| world.json(&["explain", what]);
    let told = of("patient");
    assert_eq!(
        (&told["code"], &told["state"], &told["port_open"]),
        (&"busy".into(), &"busy".into(), &true.into())
    );
    assert_eq!(told["waiting"].as_array().unwrap().len(), 2, "{told}");
    let told = of("m-2");
    assert_eq!((&told["kind"], &told["code"]), (&"message".into(), &"queued".into()), "{told}");
    assert_eq!((&told["place"]["place"], &told["place"]["ahead"]), (&"waiting".into(), &0.into()));
    let told = of(&first[..8]);
    assert_eq!((&told["kind"], &told["code"]), (&"task".into(), &"working".into()), "{told}");
    let steps: Vec<&str> =
        told["timeline"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect();
    assert_eq!(steps, ["accepted", "stored", "leased", "submitted", "task working"]);
    let page = world.ok(&["explain", &first]);
    assert!(page.lines().count() < 30 && page.contains("because") && page.contains("loop guard"), "{page}");

    world.write("go", "");
    world.ok(&["wait", "patient"]);
    assert_eq!((&of("patient")["code"], &of(&first)["code"]), (&"idle".into(), &"ended".into()));
    world.ok(&["kill", "patient"]);
    world.ok(&["send", "patient", "later", "--message-id", "m-9"]);
    let told = of("m-9");
    assert_eq!((&told["state"], &told["code"]), (&"kept".into(), &"not_running".into()), "{told}");
    assert!(told["why"].as_str().unwrap().contains("spool"), "{told}");
    assert!(of("m-2")["why"].as_str().unwrap().contains("journal"));
    world.synapse(&["explain", "patiant"]).fails(5, &["did you mean", "patient", "no task or message"]);
}

#[test]
fn a_program_that_asks_or_has_gone_is_told_apart() {
    let world = world();
    let agent = world.run_lines("asks", "say('input_required', text='which?')\nhear()", &[]);
    let task = world.send("asks", "choose", &[]);
    world.wait_until("it asks", || agent.task(&task)["state"] == "input-required");
    let told = world.json(&["explain", "asks"]);
    assert_eq!(told["code"], "asks", "{told}");
    assert!(told["help"].as_str().unwrap().contains(&format!("--task {}", &task[..8])), "{told}");
    let late = world.synapse(&["wait", &task, "--timeout", "200ms"]);
    late.fails(4, &["waiting", "an answer to what task"]);
    let follow_log = world.ok(&["logs", "asks", "--task", &task]);
    assert!(follow_log.contains("input-required: which?"), "{follow_log}");
}

#[test]
fn logs_are_shown_followed_and_of_one_task() {
    let world = world();
    let agent = world.run(
        "talks",
        "cat > /dev/null; echo one; while [ ! -e go ]; do sleep 0.02; done; echo two",
        &[],
    );
    let log = world.ok(&["logs", "talks"]);
    assert!(log.contains("serving"), "{log}");
    assert_eq!(world.ok(&["logs", "talks", "-n", "1"]).lines().count(), 1);
    assert!(!world.ok(&["logs", "talks", "--since", "2099-01-01T00:00:00Z"]).contains("serving"));
    let following = world.program(&["logs", "talks", "-f", "-n", "1"]);
    following.next_line();
    world.kill_node("talks");
    let line = (0..20).map(|_| following.next_line()).find(|line| line.contains("serving"));
    assert!(line.is_some(), "the next node's first line comes by itself");

    let task = world.send("talks", "go", &[]);
    world.wait_until("it works", || agent.task(&task)["state"] == "working");
    let mut said = world.program(&["logs", "talks", "--task", &task[..8], "-f"]);
    assert_eq!(said.next_line(), "one");
    world.write("go", "");
    assert_eq!(said.next_line(), "two");
    assert!(said.wait().success());
    assert!(world.ok(&["logs", "talks", "--task", &task]).contains("completed: one"), "also when it is over");
    world.synapse(&["logs", "nobody"]).fails(5, &["no agent"]);
}

#[test]
fn a_list_in_a_pipe_tells_each_change_once() {
    let world = world();
    world.run("ana", PATIENT, &[]);
    let live = world.program(&["list", "--watch", "--json"]);
    let next = || live.next();
    let first = next();
    assert_eq!((&first["change"], &first["agent"]["name"]), (&"here".into(), &"ana".into()));
    let until = |change: &str, state: &str| loop {
        let told: Value = next();
        if told["change"] == change && told["agent"]["state"] == state {
            return told;
        }
    };
    world.send("ana", "work", &[]);
    until("state", "busy");
    world.ok(&["share", "hard at it", "--from", "ana"]);
    assert_eq!(until("shared", "busy")["agent"]["context"], "hard at it");
    world.write("go", "");
    until("state", "idle");
    world.run("bob", "cat", &[]);
    world.wait_until("bob is told of", || next()["agent"]["name"] == "bob");
    world.ok(&["kill", "ana"]);
    loop {
        let told = next();
        if told["change"] == "gone" {
            assert_eq!(told["agent"]["name"], "ana");
            break;
        }
    }
    world.wait_until("bob is listed, and nobody else", || {
        let plain = world.ok(&["list", "--plain"]);
        plain.split('\t').take(3).collect::<Vec<_>>() == ["bob", "cat", "idle"] && plain.lines().count() == 1
    });
}

/// On a terminal the list is redrawn in place, and Ctrl-C restores the cursor.
#[test]
fn a_list_on_a_terminal_is_redrawn_in_place() {
    const SCRIPT: &str = r"
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], 'list', '--watch'])
out = b''
sent = False
while True:
    try:
        more = os.read(fd, 4096)
    except OSError:
        break
    if not more:
        break
    out += more
    if not sent and out.count(b'\x1b[J') >= 2:
        sent = True
        os.write(fd, b'\x03')
sys.stdout.buffer.write(out)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let world = world();
    world.run("ana", "cat", &[]);
    let exe = world.exe().display().to_string();
    let script = world.write("terminal.py", SCRIPT);
    let mut shown = world.prepare(Command::new(python()), &[script.to_str().unwrap(), &exe]);
    let output = shown.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text:?}");
    assert!(text.starts_with("\u{1b}[?25l") && text.contains("ana"), "{text:?}");
    assert!(text.trim_end().ends_with("\u{1b}[?25h"), "the cursor is back: {text:?}");
    assert!(text.contains("\r\u{1b}[2A"), "drawn over the two lines before: {text:?}");
    assert!(
        !text.contains("\u{1b}[?1049") && !text.contains("\u{1b}[2J"),
        "the screen is left alone: {text:?}"
    );
}

/// PTY-12: a watch nudges a quiet agent at a limited rate, and never one that works or has mail.
#[test]
fn a_watch_pokes_a_quiet_agent_and_only_so_often() {
    let world = world();
    let agent = world.run("ana", "cat >> said; echo >> said; while [ -e stop ]; do sleep 0.02; done", &[]);
    let watch =
        world.synapse(&["watch", "ana", "--idle", "500ms", "--say", "go on", "--max", "2", "--json"]).ok();
    let told: Vec<Value> = watch.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&told[0]["poke"], &told[1]["poke"], &told[2]["pokes"]), (&1.into(), &2.into(), &2.into()));
    world.wait_until("both pokes were read", || world.lines("said") == ["go on", "go on"]);
    assert!(world.ok(&["watch", "--list"]).contains("nothing is being watched"));

    world.write("stop", "");
    let task = world.send("ana", "work", &[]);
    world.wait_until("it works", || agent.task(&task)["state"] == "working");
    let plan = world.json(&["watch", "ana", "--idle", "500ms", "--max", "1", "-d"]);
    let pid = world
        .wait_for("the watch has begun", || world.json(&["watch", "--list"])[0]["process"]["pid"].as_u64());
    let pid = u32::try_from(pid).unwrap();
    world.synapse(&["wait", &task, "--timeout", "1500ms"]).exits(4);
    assert_eq!(world.json(&["watch", "--list"])[0]["pokes"], 0, "one that is busy is left alone");
    std::fs::remove_file(world.file("stop")).unwrap();
    world.wait_until("it ends by itself after its one poke", || !processes::is_alive(pid));
    world.wait_until("the poke was read", || {
        world.lines("said").last().is_some_and(|line| line == "please go on")
    });
    assert_eq!(plan["max"], 1);

    world.ok(&["watch", "ana", "-d"]);
    assert!(world.ok(&["watch", "--stop", "ana"]).contains("1 stopped"));
    world.wait_until("it is gone", || world.json(&["watch", "--list"]) == Value::Array(Vec::new()));
    world.ok(&["watch", "ana", "-d", "--idle", "1s"]);
    world.ok(&["kill", "ana"]);
    world.wait_until("it ends with its agent", || {
        world.json(&["watch", "--list"]) == Value::Array(Vec::new())
    });
    world.synapse(&["watch", "ana"]).fails(5, &["not running"]);
    world.synapse(&["watch", "--stop", "nothing"]).fails(5, &["no watch"]);
}
