//! PTY-1: a viewer's prefix key is configurable, and every text names the key that is set.

use std::process::Command;
use synapse_testkit::World;
use synapse_testkit::pty::Pty;
use synapse_testkit::world::python;

/// Prints each key it gets.
const KEYS: &str = r#"
import os, tty
tty.setraw(0)
os.write(1, b"ready")
while True: os.write(1, b"got " + os.read(0, 100).hex().encode() + b".")
"#;

fn world() -> World {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    world.write("keys.py", KEYS);
    world.ok(&["run", "-d", "--name", "tui", "--", python(), "keys.py"]);
    world.wait_until("it is ready", || world.ok(&["screen", "tui"]).contains("ready"));
    world
}

/// A terminal attached to the agent `tui`, with these environment variables set.
fn attach(world: &World, more: &[&str], variables: &[(&str, &str)]) -> Pty {
    let args = [&["attach", "tui"], more].concat();
    let mut command = world.prepare(Command::new(world.exe()), &args);
    command.envs(variables.iter().copied());
    let pty = Pty::start(&command, 100, 30);
    pty.wait_for("ready");
    pty
}

fn reaches_the_program(pty: &mut Pty, keys: &str) {
    pty.keys(keys);
    let hex: String = keys.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    pty.wait_for(&format!("got {hex}."));
}

fn detaches(mut pty: Pty, keys: &str) {
    pty.keys(keys);
    let (status, text) = pty.end();
    assert!(status.success() && text.ends_with("detached; back with `synapse attach tui`\r\n"), "{text:?}");
}

/// Finding 10: Ctrl-b is the prefix of tmux, and a tmux inside an agent's terminal needs it.
#[test]
fn prefix_key_is_set_in_the_settings() {
    let world = world();
    let mut pty = attach(&world, &[], &[]);
    reaches_the_program(&mut pty, "\u{2}d");
    detaches(pty, "\u{1c}d");
    world.ok(&["config", "set", "terminal.prefix", "ctrl-]"]);
    assert_eq!(world.json(&["config", "show", "terminal.prefix"])["value"], "C-]");
    let mut pty = attach(&world, &[], &[]);
    reaches_the_program(&mut pty, "\u{1c}d");
    detaches(pty, "\u{1d}d");
    // The encodings of kitty's keyboard protocol and of modifyOtherKeys.
    for keys in ["\u{1b}[93;5ud", "\u{1b}[53;5ud", "\u{1b}[27;5;93~d"] {
        detaches(attach(&world, &[], &[]), keys);
    }
    let variable = "SYNAPSE_TERMINAL_PREFIX";
    detaches(attach(&world, &[], &[(variable, "^A")]), "\u{1}d");
    let mut pty = attach(&world, &[], &[(variable, "none")]);
    reaches_the_program(&mut pty, "\u{1c}d\u{1d}d\u{1}d");
    drop(pty);
    // An invalid prefix is reported, and the setting of the layer below applies.
    let pty = attach(&world, &[], &[(variable, "C-i")]);
    assert!(pty.text().contains("terminal.prefix is \"C-i\"; it must be Ctrl and a key"), "{:?}", pty.text());
    detaches(pty, "\u{1d}d");
    world.synapse(&["config", "set", "terminal.prefix", "C-m"]).fails(2, &["terminal.prefix", "C-m"]);
}

#[test]
fn texts_name_the_prefix_key_that_is_set() {
    let world = world();
    let help = world.ok(&["attach", "--help"]);
    assert!(help.contains("setting terminal.prefix, by default Ctrl-\\"), "{help}");
    let first = attach(&world, &[], &[]);
    let default = attach(&world, &[], &[]);
    default.wait_for("another viewer has the keyboard: Ctrl-\\ t takes it, Ctrl-\\ d detaches");
    world.ok(&["config", "set", "terminal.prefix", "C-a"]);
    let chosen = attach(&world, &[], &[]);
    chosen.wait_for("another viewer has the keyboard: Ctrl-a t takes it, Ctrl-a d detaches");
    let none = attach(&world, &[], &[("SYNAPSE_TERMINAL_PREFIX", "none")]);
    none.wait_for("another viewer has the keyboard \u{1b}");
    drop((first, default, chosen, none));
}

/// A viewer inside another agent's terminal: pressing the prefix key twice sends it to the inner
/// viewer.
#[test]
fn viewer_within_a_viewer_is_detached_with_the_prefix_twice() {
    let world = world();
    world.ok(&["run", "-d", "--name", "outer", "--", "sh", "-i"]);
    let mut pty = Pty::start(&world.prepare(Command::new(world.exe()), &["attach", "outer"]), 100, 30);
    // An agent may only watch another agent's terminal.
    pty.keys(&format!("{} attach tui --read-only\r", world.exe().display()));
    pty.wait_for("ready");
    pty.keys("\u{1c}\u{1c}d");
    pty.wait_for("detached; back with `synapse attach tui`");
    pty.keys("echo still $((40+2))\r");
    pty.wait_for("still 42");
    pty.keys("\u{1c}d");
    let (status, text) = pty.end();
    assert!(status.success() && text.ends_with("detached; back with `synapse attach outer`\r\n"), "{text:?}");
    world.ok(&["kill", "--all"]);
}
