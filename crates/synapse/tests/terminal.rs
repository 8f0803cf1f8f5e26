//! PTY-1, PTY-4, PTY-5, PTY-8: a program in a terminal that outlives its viewer and its node, and is seen truly.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::process::Command;
use synapse_testkit::pty::Pty;
use synapse_testkit::{World, processes};

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_synapse"))
}

/// A program that draws a frame for each key, and says what it gets.
const ECHO: &str = r#"
import os, sys, termios, tty, signal, shutil
tty.setraw(0)
def draw(text):
    os.write(1, ("\x1b[?2026h\x1b[2J\x1b[H" + text + "\x1b[?2026l").encode())
def size(*_):
    columns, rows = os.get_terminal_size(0)
    draw(f"size {columns}x{rows}")
signal.signal(signal.SIGWINCH, size)
os.write(1, b"\x1b[?1049h")
size()
while True:
    key = os.read(0, 100)
    if key == b"q":
        os.write(1, b"\x1b[?1049l")
        os.write(1, b"last words\r\n")
        sys.exit(7)
    draw("key " + key.hex())
"#;

/// Runs `synapse` in a terminal.
fn viewer(world: &World, args: &[&str]) -> Pty {
    let command = world.prepare(Command::new(world.exe()), args);
    Pty::start(&command, 100, 30)
}

fn screen(world: &World, name: &str) -> String {
    world.ok(&["screen", name])
}

fn program_of(world: &World, name: &str) -> u32 {
    let holder = u32::try_from(world.entry(name).unwrap()["pid"].as_u64().unwrap()).unwrap();
    let node = world.agent(name).node_pid;
    let children = processes::children_of(holder);
    *children.iter().find(|pid| **pid != node).unwrap_or_else(|| panic!("{children:?}\n{}", world.show()))
}

#[test]
fn a_person_notices_nothing_and_may_leave_and_come_back() {
    let world = world();
    world.write("echo.py", ECHO);
    let mut first = viewer(&world, &["run", "--name", "tui", "--", "python3", "echo.py"]);
    first.wait_for("size 100x30");
    first.resize(90, 20);
    first.wait_for("size 90x20");
    first.keys("\u{1b}[A");
    first.wait_for("key 1b5b41");
    // Ctrl-b twice is a Ctrl-b.
    first.keys("\u{2}\u{2}");
    first.wait_for("key 02");
    first.keys("\u{2}d");
    let (status, text) = first.end();
    assert!(status.success() && text.contains("tui goes on"), "{text}");
    assert!(text.ends_with("brings it back\r\n"), "the terminal is as it was: {text:?}");
    world.wait_until("unseen, the window is not small", || screen(&world, "tui").contains("size 120x40"));

    let mut second = viewer(&world, &["attach", "tui"]);
    second.wait_for("size 100x30");
    let reader = viewer(&world, &["attach", "tui", "--read-only"]);
    reader.wait_for("size 100x30");
    second.keys("x");
    reader.wait_for("key 78");
    second.keys("q");
    let (status, text) = second.end();
    assert!(status.success() && text.contains("has ended with code 7"), "{text}");
    let (_, text) = reader.end();
    assert!(text.contains("last words"), "{text}");
    world.wait_until("the agent has ended with its program", || world.entry("tui").is_none());
}

/// What it runs in a sandbox has no other way to learn whose it is.
#[test]
fn a_program_knows_its_agent_and_its_outbox() {
    let world = world();
    let script =
        "echo id=$SYNAPSE_AGENT_ID; until test -f $SYNAPSE_OUTBOX/key; do sleep 0.1; done; echo has-key; cat";
    world.ok(&["run", "--detach", "--name", "a", "--", "sh", "-c", script]);
    let id = format!("id={}", world.agent("a").id);
    world.wait_until("both are there", || {
        let shown = screen(&world, "a").replace('\n', "");
        shown.contains(&id) && shown.contains("has-key")
    });
}

#[test]
fn the_exit_code_is_the_programs() {
    let world = world();
    let pty = viewer(&world, &["run", "--", "sh", "-c", "echo goodbye; exit 42"]);
    let (status, text) = pty.end();
    assert_eq!(status.code(), Some(42), "{text}");
    assert!(text.contains("goodbye"), "{text}");
}

/// The screen that was never interrupted is the program's own last frame.
#[test]
fn kill_9_of_the_node_and_the_viewer_leaves_the_program_and_its_screen() {
    let world = world();
    world.write("echo.py", ECHO);
    world.ok(&["run", "-d", "--name", "tui", "--", "python3", "echo.py"]);
    world.wait_until("its first frame is seen", || screen(&world, "tui").contains("size 120x40"));
    let program = program_of(&world, "tui");
    for key in ["a", "b", "c"] {
        let mut pty = viewer(&world, &["attach", "tui"]);
        pty.wait_for("size 100x30");
        pty.keys(key);
        let frame = format!("key {}", key.as_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>());
        pty.wait_for(&frame);
        world.kill_node("tui");
        world.wait_until("the new node shows the same frame", || screen(&world, "tui").trim() == frame);
        processes::kill9(pty.pid());
        drop(pty);
        world.wait_until("unseen again", || screen(&world, "tui").contains("size 120x40"));
        assert_eq!(program_of(&world, "tui"), program, "the same program");
    }
    world.ok(&["kill", "tui"]);
    world.wait_until("nothing is left", || !processes::is_alive(program));
}

#[test]
fn queries_are_answered_in_order_with_nobody_there() {
    let world = world();
    let script = r#"
import os, tty, select
tty.setraw(0)
os.write(1, b"\x1b[>0q\x1b[?u\x1b]7501;?\x07\x1b[c")
got = b""
while not got.endswith(b"c"):
    got += os.read(0, 1000)
os.write(1, b"\x1b]7501;state=blocked:kind=permission\x07" + repr(got).encode())
os.read(0, 1)
"#;
    world.write("ask.py", script);
    world.ok(&["run", "-d", "--name", "ask", "--", "python3", "ask.py"]);
    world.wait_until("its answers are shown", || screen(&world, "ask").contains("x1b]7501;?"));
    let shown = screen(&world, "ask").replace('\n', "");
    let order: Vec<usize> =
        ["x1bP>|synapse", "[?0u", "]7501;?", "[?6c"].iter().map(|part| shown.find(part).unwrap()).collect();
    assert!(order.is_sorted(), "{shown}");
    world.wait_until("what it reports is its state", || {
        world.entry("ask").is_some_and(|entry| entry["status"] == "waiting")
    });
    let view = world.agent("ask").get("/api/v1/terminal").json();
    assert_eq!((&view["state"], &view["source"]), (&Value::from("waiting"), &Value::from("status")));
}

#[test]
fn a_viewer_that_does_not_read_stops_nobody() {
    let world = world();
    world.ok(&["run", "-d", "--name", "flood", "--", "sh"]);
    let stuck = viewer(&world, &["attach", "flood"]);
    world.wait_until("it is shown", || stuck.text().contains('$') || stuck.text().contains('#'));
    processes::stop(stuck.pid());
    let mut driver = viewer(&world, &["attach", "flood", "--take"]);
    driver.keys("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); echo line $i of a flood; done; echo all $((1+1)) done\r");
    driver.wait_for("all 2 done");
    world.wait_until("the node has seen the end too", || screen(&world, "flood").contains("all 2 done"));
    processes::go_on(stuck.pid());
    world.ok(&["kill", "flood"]);
}

#[test]
fn what_cannot_be_started_says_why() {
    let world = world();
    world
        .synapse(&["run", "-d", "--", "no-such-program-here"])
        .fails(127, &["no program called \"no-such-program-here\"", "on PATH", "synapse run -- /path/to/"]);
    world.synapse(&["run", "-d", "--", "./no-such-file"]).fails(127, &["there is no program ./no-such-file"]);
    world.write("plain.txt", "no program");
    world.synapse(&["run", "-d", "--", "./plain.txt"]).fails(126, &["./plain.txt", "chmod +x ./plain.txt"]);
    assert!(world.registry().is_empty(), "{}", world.show());
    world.synapse(&["run", "--", "cat"]).fails(2, &["no terminal", "--detach"]);
    world.synapse(&["clade"]).fails(2, &["clade", "did you mean claude?"]);
    world.synapse(&["hisotry"]).fails(2, &["did you mean history?"]);
    world.synapse(&["frobnicate"]).fails(2, &["codex", "synapse run -- frobnicate", "synapse --help"]);
    world.ok(&["run", "-d", "--name", "plain", "--exec", "cat"]);
    world.synapse(&["screen", "plain"]).fails(2, &["no terminal"]);
    std::fs::create_dir_all(world.home().join("profiles")).unwrap();
    std::fs::write(world.home().join("profiles/mine.yaml"), "name: mine\ncommand: cat\nsceen: []\n").unwrap();
    world.synapse(&["mine", "-d"]).fails(2, &["mine.yaml", "sceen"]);
    let profile = "name: mine\nabout: a test\ncommand: cat\nscreen:\n  - {state: idle, any: ['ready']}\n";
    std::fs::write(world.home().join("profiles/mine.yaml"), profile).unwrap();
    assert!(world.ok(&["profile", "list"]).contains("a test"));
    world.ok(&["profile", "check", world.home().join("profiles/mine.yaml").to_str().unwrap()]);
}

#[test]
fn a_profile_is_tested_with_a_recording() {
    let world = world();
    let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../terminal/recordings");
    let recording = format!("{recordings}/codex__permission.cast");
    let score = world.json(&["profile", "test", "codex", "--recording", &recording]);
    assert!(score["agreement"].as_f64().unwrap() >= 0.97, "{score}");
    assert_eq!(score["waiting_missed_ms"], 0);
    assert!(score["delay_ms_p95"].is_u64() && score["confusions"].is_object(), "{score}");
    let bad = world.write("bad.cast", "{\"version\": 2, \"width\": 80, \"height\": 24}\n[1, \"o\"]\n");
    let ran = world.synapse(&["profile", "test", "codex", "--recording", bad.to_str().unwrap()]);
    ran.fails(2, &["bad.cast", "line 2"]);
}
