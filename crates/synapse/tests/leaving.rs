//! PTY-1: the state of a person's terminal after a viewer has left it, above all when its agent was
//! stopped.

use crate::world;
use std::process::Command;
use synapse_terminal::{Screen, Size};
use synapse_testkit::pty::Pty;
use synapse_testkit::world::python;
use synapse_testkit::{World, processes};

fn viewer(world: &World, args: &[&str]) -> Pty {
    let mut command = world.prepare(Command::new(world.exe()), args);
    Pty::start(command.env("NO_COLOR", "1"), 100, 30)
}

/// Uses the alternate screen, with every mode of a terminal switched on.
const FULL_SCREEN: &str = r#"
import os, tty
tty.setraw(0)
os.write(1, b"\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[>5u\x1b[>4;2m\x1b[?25l\x1b[?1h\x1b[2J\x1b[5;9Hin a window")
while True: os.read(0, 100)
"#;

/// Draws between the shell's lines, with the cursor in a composer above other rows, like Claude
/// Code and Codex.
const INLINE: &str = r#"
import os, tty
tty.setraw(0)
os.write(1, b"\x1b[?2004h\x1b[>5uWelcome\r\n+---------+\r\n| >       |\r\n+---------+\r\n  footer one\r\n  footer two\x1b[3A\x1b[5G")
while True: os.read(0, 100)
"#;

/// Modes that were switched on, and how each must be switched off.
const OFF: [(&str, &str); 8] = [
    ("\u{1b}[?1049h", "\u{1b}[?1049l"),
    ("\u{1b}[?1000h", "\u{1b}[?1000l"),
    ("\u{1b}[?1006h", "\u{1b}[?1006l"),
    ("\u{1b}[?1004h", "\u{1b}[?1004l"),
    ("\u{1b}[?2004h", "\u{1b}[?2004l"),
    ("\u{1b}[>5u", "\u{1b}[<1u"),
    ("\u{1b}[>4;2m", "\u{1b}[>4m"),
    ("\u{1b}[?25l", "\u{1b}[?25h"),
];

/// Finding 19: what a person sees when the agent is stopped from another terminal.
#[test]
fn killed_agent_gives_the_terminal_back_and_says_why() {
    let world = world();
    world.write("full.py", FULL_SCREEN);
    for (command, code) in
        [(&["run", "--name", "tui", "--", python(), "full.py"][..], 128 + 15), (&["attach", "tui"], 0)]
    {
        if command[0] == "attach" {
            world.ok(&["run", "-d", "--name", "tui", "--", python(), "full.py"]);
        }
        let pty = viewer(&world, command);
        pty.wait_for("in a window");
        assert!(pty.is_raw());
        world.ok(&["kill", "tui"]);
        let (status, text) = pty.end();
        assert_eq!(status.code(), Some(code), "{text:?}");
        for (on, off) in OFF {
            assert!(text.rfind(on) < text.rfind(off), "{off:?} of {text:?}");
        }
        let said = "tui was stopped by `synapse kill` or a signal; its terminal is closed\r\n";
        assert!(text.ends_with(said), "{text:?}");
        assert_eq!(text.matches("tui").count(), 1, "one line says so: {text:?}");
    }
}

/// Finding 19 calls it a broken screen if our line or the shell's prompt lands in the middle of a
/// composer.
#[test]
fn nothing_is_written_into_the_frame_of_an_inline_program() {
    let world = world();
    world.write("inline.py", INLINE);
    type Leave = fn(&World, &mut Pty);
    let ways: [(&str, Leave, &str); 4] = [
        ("killed", |world, _| drop(world.ok(&["kill", "killed"])), "killed was stopped by"),
        ("detached", |_, pty| pty.keys("\u{1c}d"), "detached; back with `synapse attach detached`"),
        ("closed", |_, pty| processes::terminate(pty.pid()), "detached; back with `synapse attach closed`"),
        ("lost", |world, _| processes::kill9(world.agent("lost").pid), "error: lost the terminal of lost"),
    ];
    for (name, leave, said) in ways {
        let mut pty = viewer(&world, &["run", "--name", name, "--", python(), "inline.py"]);
        pty.wait_for("footer two\u{1b}[3A\u{1b}[5G");
        leave(&world, &mut pty);
        pty.status();
        pty.wait_for(&said[..12]);
        assert!(!pty.is_raw());
        let mut screen = Screen::new(Size::new(100, 30), 100);
        screen.feed(&pty.bytes(), &mut Vec::new());
        let rows: Vec<String> = screen.rows().iter().map(|row| row.trim_end().to_owned()).collect();
        let frame = ["Welcome", "+---------+", "| >       |", "+---------+", "  footer one", "  footer two"];
        assert_eq!(rows[..6], frame, "{name}");
        assert!(rows[6].starts_with(said), "{name}: {rows:#?}");
    }
}
