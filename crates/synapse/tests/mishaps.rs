//! PTY-1, PTY-4: failures of programs in terminals, and how they are handled.

use crate::world;
use std::process::Command;
use synapse_testkit::pty::Pty;
use synapse_testkit::world::python;
use synapse_testkit::{World, processes};

fn viewer(world: &World, args: &[&str]) -> Pty {
    Pty::start(&world.prepare(Command::new(world.exe()), args), 100, 30)
}

fn screen(world: &World, name: &str) -> String {
    world.ok(&["screen", name])
}

fn program_of(world: &World, name: &str, part: &str) -> u32 {
    let below = processes::below(world.agent(name).pid);
    let found = below.iter().find(|pid| processes::command_line(**pid).contains(part));
    *found.unwrap_or_else(|| panic!("{below:?}\n{}", world.show()))
}

/// Prints the keys it gets.
const ECHO: &str = r#"
import os, tty
tty.setraw(0)
os.write(1, b"\x1b[?1049hready.")
while True:
    key = os.read(0, 1000)
    os.write(1, b"\x1b[2J\x1b[Hkey " + key.hex().encode() + b".")
"#;

#[test]
fn a_program_that_ends_at_once_is_heard_and_keeps_its_mail() {
    let world = world();
    // Attached: the viewer shows the last output and returns the exit code.
    let pty = viewer(&world, &["run", "--name", "seen", "--", "sh", "-c", "echo no key found >&2; exit 9"]);
    let (status, text) = pty.end();
    assert_eq!(status.code(), Some(9), "{text}");
    assert!(text.contains("no key found"), "{text}");
    // Detached: `list` says how it ended, and later `list --all`.
    world.ok(&["run", "-d", "--name", "unseen", "--", "sh", "-c", "echo no key found >&2; exit 9"]);
    world.wait_until("it is known how it ended", || {
        let rows = world.json(&["list", "--all"]);
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "unseen").unwrap().clone();
        row["state"] == "error" && row["why"].as_str().unwrap().contains("exit code 9")
    });
    world.wait_until("it has ended", || world.entry("unseen").is_none());
    let rows = world.json(&["list", "--all"]);
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "unseen").unwrap();
    assert_eq!((row["state"].as_str(), row["running"].as_bool()), (Some("error"), Some(false)), "{row}");
    let why = row["why"].as_str().unwrap();
    assert!(why.contains("exit code 9") && why.contains("no key found"), "{why}");
    world.ok(&["send", "unseen", "are you there?"]);
    assert!(world.ok(&["inbox", "unseen"]).contains("waiting for it: 1"));
    // Started again, it is a running agent.
    world.write("echo.py", ECHO);
    let mail = world.ok(&["run", "-d", "--name", "unseen", "--type", "sh", "--", python(), "echo.py"]);
    assert!(mail.contains("1 message came"), "{mail}");
    world.wait_until("it waits for it", || world.ok(&["inbox", "unseen"]).contains("are you there?"));
    world.ok(&["kill", "unseen"]);
    let rows = world.json(&["list", "--all"]);
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "unseen").unwrap();
    assert_eq!(row["state"], "offline", "{row}");
}

#[test]
fn a_program_that_closes_its_terminal_and_lives_is_not_said_to_be_idle() {
    let world = world();
    let script = "echo gone; exec </dev/null >/dev/null 2>&1; while ! [ -e back ]; do sleep 0.1; done; exec >/dev/tty; echo hello; sleep 600";
    world.ok(&["run", "-d", "--name", "closed", "--", "sh", "-c", script]);
    world.wait_until("it has said its word", || screen(&world, "closed").contains("gone"));
    let program = program_of(&world, "closed", "echo gone");
    let is_said = || {
        let rows = world.json(&["list"]);
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "closed").unwrap().clone();
        row["state"] == "unknown"
            && row["why"].as_str().is_some_and(|why| why.contains("closed its terminal"))
    };
    world.wait_until("it is said", is_said);
    // After a restart the new node says it too.
    processes::kill9(world.agent("closed").node_pid);
    world.wait_until("it is said again", is_said);
    world.ok(&["send", "closed", "are you there?"]);
    assert!(world.ok(&["inbox", "closed"]).contains("are you there?"), "{}", world.show());
    assert!(processes::is_alive(program));
    world.write("back", "");
    world.wait_until("it is seen again", || screen(&world, "closed").contains("hello") && !is_said());
    world.ok(&["kill", "closed"]);
    assert!(!processes::is_alive(program));
}

#[test]
fn invalid_text_and_broken_sequences_do_no_harm() {
    let world = world();
    let script = r#"
import os
for piece in [b"\xff\xfe", b"\xe4\xb8", b"\x96", b"\xf0\x9f", b"broken ", b"\x1b", b"[31", b"mred\x1b[", b"999999999;",
              b"\x1b]0;half a ti", b"tle\x1b", b"\\", b"\x1bPq#0", b"\x18", b"\x1b[?2026h", b"\x9b\x00\x7f", b"fine"]:
    os.write(1, piece)
os.write(1, b"\r\nthe end")
import time; time.sleep(600)
"#;
    world.write("broken.py", script);
    world.ok(&["run", "-d", "--name", "broken", "--", python(), "broken.py"]);
    world.wait_until("it is read to its end", || screen(&world, "broken").contains("the end"));
    let shown = screen(&world, "broken");
    assert!(shown.contains('世') && shown.contains("broken red") && shown.contains("fine"), "{shown}");
    let pty = viewer(&world, &["attach", "broken"]);
    pty.wait_for("the end");
    assert_eq!(world.agent("broken").get("/api/v1/terminal").json()["title"], "half a title");
    world.ok(&["kill", "broken"]);
}

#[test]
fn strings_of_100_mb_are_not_kept() {
    let world = world();
    let script = r#"
import os, sys
def write(data):
    while data: data = data[os.write(1, data):]
for kind in [b"]0;", b"P", b"_G", b"]52;c;"]:
    write(b"\x1b" + kind)
    for _ in range(100 if kind == b"]0;" else 5): write(b"x" * (1 << 20))
    write(b"\x1b\\")
write(b"all said")
import time; time.sleep(600)
"#;
    world.write("long.py", script);
    world.ok(&["run", "-d", "--name", "long", "--", python(), "long.py"]);
    let agent = world.agent("long");
    world.wait_while_it_moves("it is read to its end", || {
        (screen(&world, "long").contains("all said"), processes::read_so_far(agent.node_pid))
    });
    // The peak includes pages of the program itself, which vary, some 25 MB in a debug build.
    for (who, pid, most) in [("node", agent.node_pid, 96), ("holder", agent.pid, 64)] {
        let peak = processes::peak_memory_mb(pid);
        assert!(peak < most, "the {who} took {peak} MB");
    }
    world.ok(&["kill", "long"]);
}

#[test]
fn a_terminal_that_hangs_is_passed_over_and_catches_up() {
    let world = world();
    world.ok(&["run", "-d", "--name", "flood", "--", "sh"]);
    let stuck = viewer(&world, &["attach", "flood"]);
    world.wait_until("it is shown", || stuck.text().contains(['$', '#']));
    stuck.stick();
    let mut driver = viewer(&world, &["attach", "flood", "--take"]);
    driver.resize(90, 25);
    driver.keys(
        "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); echo line $i of a flood; done; echo all $((1+1)) done\r",
    );
    driver.wait_for("all 2 done");
    world.wait_until("the node has seen the end too", || screen(&world, "flood").contains("all 2 done"));
    stuck.go_on();
    stuck.wait_for("all 2 done");
    // It is an ordinary viewer again, and leads once the other has left.
    driver.keys("\u{1c}d");
    driver.end();
    world.wait_until("its size counts again", || {
        world.agent("flood").get("/api/v1/terminal").json()["columns"] == 100
    });
    let mut stuck = stuck;
    stuck.keys("echo back $((40+2))\r");
    stuck.wait_for("back 42");
    world.ok(&["kill", "flood"]);
}

#[test]
fn a_terminal_that_vanishes_changes_nothing() {
    let world = world();
    world.write("echo.py", ECHO);
    let mut pty = viewer(&world, &["run", "--name", "tui", "--", python(), "echo.py"]);
    pty.wait_for("ready.");
    let program = program_of(&world, "tui", "echo.py");
    let pid = pty.pid();
    pty.vanish();
    // It exits by SIGHUP or because it notices, whichever comes first.
    let code = pty.status().code();
    assert!(matches!(code, Some(0 | 129)), "{code:?}");
    world.wait_until("the viewer is gone", || !processes::is_alive(pid));
    let mut next = viewer(&world, &["attach", "tui"]);
    next.wait_for("ready.");
    next.keys("z");
    next.wait_for("key 7a.");
    assert!(processes::is_alive(program));
    world.ok(&["kill", "tui"]);
}

#[test]
fn a_second_viewer_looks_on_is_told_so_and_may_take_the_keyboard() {
    let world = world();
    world.write("echo.py", ECHO);
    let mut first = viewer(&world, &["run", "--name", "tui", "--", python(), "echo.py"]);
    first.wait_for("ready.");
    let mut second = viewer(&world, &["attach", "tui"]);
    second.wait_for("another viewer has the keyboard: Ctrl-\\ t takes it, Ctrl-\\ d detaches");
    // Its keys only repeat the hint.
    second.forget();
    second.keys("x");
    second.wait_for("has the keyboard");
    first.keys("a");
    first.wait_for("key 61.");
    second.wait_for("key 61.");
    assert!(
        !first.text().contains("has the keyboard") && !first.text().contains("key 78."),
        "{}",
        first.text()
    );
    // It takes the lead and the first is told. The first leads again when the second leaves.
    second.keys("\u{1c}t");
    first.wait_for("another viewer has the keyboard");
    second.keys("b");
    second.wait_for("key 62.");
    let mut third = viewer(&world, &["attach", "tui", "--take"]);
    third.wait_for("key 62.");
    second.forget();
    second.keys("x");
    second.wait_for("has the keyboard");
    third.keys("c");
    third.wait_for("key 63.");
    for pty in [&mut third, &mut second] {
        pty.keys("\u{1c}d");
        pty.status();
    }
    first.keys("d");
    first.wait_for("key 64.");
    world.ok(&["kill", "tui"]);
}

#[test]
fn kill_ends_what_tried_to_get_away() {
    let world = world();
    let script = r#"
import os, sys, time, signal
def away(name):
    if os.fork(): return
    os.setsid()
    if os.fork(): os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(name, "w").write(str(os.getpid()))
    time.sleep(600)
    os._exit(0)
away("first")
away("second")
print("both are away", flush=True)
time.sleep(600)
"#;
    world.write("away.py", script);
    world.ok(&["run", "-d", "--name", "away", "--", python(), "away.py"]);
    let pid = |name: &str| world.wait_for("it is away", || world.read(name).parse::<u32>().ok());
    let pids = [pid("first"), pid("second"), program_of(&world, "away", "away.py")];
    let said = world.ok(&["kill", "away"]);
    assert!(said.contains("away stopped"), "{said}");
    assert_eq!(pids.map(processes::is_alive), [false; 3]);
}
