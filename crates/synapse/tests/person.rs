//! PTY-1, PTY-8: what a person at a terminal expects: job control, sizes, exit codes, a restored
//! terminal.

use crate::world;
use std::process::Command;
use synapse_testkit::pty::{Colours, Pty};
use synapse_testkit::{World, processes};

fn viewer(world: &World, args: &[&str]) -> Pty {
    Pty::start(&world.prepare(Command::new(world.exe()), args), 100, 30)
}

/// A person's interactive shell in a terminal.
fn shell(world: &World) -> Pty {
    let mut command = world.prepare(Command::new("sh"), &["-i"]);
    command.env("PS1", "prompt> ").env("SYNAPSE", world.exe()).env_remove("ENV");
    let pty = Pty::start(&command, 100, 30);
    pty.wait_for("prompt> ");
    pty
}

/// The modes that were switched on in a person's terminal and not off again.
fn left_on(text: &str) -> Vec<&'static str> {
    // tidy: table
    const MODES: [(&str, &str, &str); 10] = [
        ("alternate screen", "\u{1b}[?1049h", "\u{1b}[?1049l"),
        ("mouse", "\u{1b}[?1000h", "\u{1b}[?1000l"),
        ("mouse drag", "\u{1b}[?1002h", "\u{1b}[?1002l"),
        ("mouse sgr", "\u{1b}[?1006h", "\u{1b}[?1006l"),
        ("focus", "\u{1b}[?1004h", "\u{1b}[?1004l"),
        ("paste", "\u{1b}[?2004h", "\u{1b}[?2004l"),
        ("keyboard", "\u{1b}[>1u", "\u{1b}[<1u"),
        ("modified keys", "\u{1b}[>4;2m", "\u{1b}[>4m"),
        ("hidden cursor", "\u{1b}[?25l", "\u{1b}[?25h"),
        ("application keys", "\u{1b}[?1h", "\u{1b}[?1l"),
    ];
    let on = MODES.iter().filter(|(_, on, off)| text.rfind(on) > text.rfind(off));
    on.map(|(name, ..)| *name).collect()
}

fn wait_until_off(pty: &Pty) {
    pty.wait_until("everything is switched off", |bytes| {
        let on = left_on(&String::from_utf8_lossy(bytes));
        if on.is_empty() { Ok(()) } else { Err(format!("still on: {on:?}")) }
    });
}

/// Switches on every mode, and prints each key it gets.
const MODES_ON: &str = r#"
import os, sys, tty, signal, time
tty.setraw(0)
os.write(1, b"\x1b[?1049h\x1b[?1000h\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[>1u\x1b[>4;2m\x1b[?25l\x1b[?1hall is on")
while True:
    key = os.read(0, 10000)
    if key == b"q": sys.exit(3)
    if key == b"k": os.kill(os.getpid(), signal.SIGKILL)
    if key == b"t":
        os.kill(0, signal.SIGTSTP)
        key = b"back"
    os.write(1, b"\x1b[2J\x1b[Hgot " + key.hex().encode() + b".")
"#;

#[test]
fn the_terminal_is_as_it_was_on_every_way_out() {
    let world = world();
    world.write("modes.py", MODES_ON);
    let python = synapse_testkit::world::python();
    // The name, what the person does, the exit code, and the text that is shown.
    type Way = (&'static str, fn(&mut Pty), i32, &'static str);
    let ways: [Way; 5] = [
        ("detached", |pty| pty.keys("\u{1c}d"), 0, "detached; back with `synapse attach detached`"),
        ("ended", |pty| pty.keys("q"), 3, ""),
        ("killed", |pty| pty.keys("k"), 128 + 9, ""),
        (
            "terminated",
            |pty| processes::terminate(pty.pid()),
            128 + 15,
            "detached; back with `synapse attach terminated`",
        ),
        (
            "hung-up",
            |pty| processes::hang_up(pty.pid()),
            128 + 1,
            "detached; back with `synapse attach hung-up`",
        ),
    ];
    for (name, leave, code, said) in ways {
        let mut pty = viewer(&world, &["run", "--name", name, "--", python, "modes.py"]);
        pty.wait_for("all is on");
        assert!(pty.is_raw());
        leave(&mut pty);
        assert_eq!(pty.status().code(), Some(code), "{name}: {}", pty.text());
        pty.wait_for(said);
        assert!(!pty.is_raw(), "{name}");
        wait_until_off(&pty);
    }
    // A viewer that attaches later switches on the modes in use, and off again.
    let mut later = viewer(&world, &["attach", "detached"]);
    later.wait_for("\u{1b}[>1u");
    // Of the two mouse modes, only the last one is on.
    let all = ["alternate screen", "mouse drag", "mouse sgr", "focus", "paste", "keyboard", "hidden cursor"];
    later.wait_until("all is on again", |bytes| {
        let on = left_on(&String::from_utf8_lossy(bytes));
        if all.iter().all(|mode| on.contains(mode)) { Ok(()) } else { Err(format!("{on:?}")) }
    });
    later.keys("\u{1c}d");
    let (_, text) = later.end();
    assert_eq!(left_on(&text), Vec::<&str>::new(), "{text:?}");
}

#[test]
fn keys_and_output_pass_untouched() {
    let world = world();
    world.write("modes.py", MODES_ON);
    let mut pty =
        viewer(&world, &["run", "--name", "raw", "--", synapse_testkit::world::python(), "modes.py"]);
    pty.wait_for("all is on");
    for keys in [
        "\u{1b}[<0;10;5M\u{1b}[<0;10;5m", // mouse
        "\u{1b}[I",                       // focus
        "\u{1b}[O",
        "\u{1b}[97;5u",                             // kitty: Ctrl-a
        "\u{1b}[57441;2:3u",                        // and the release of Shift
        "\u{1b}[200~two\rlines \u{1c}d\u{1b}[201~", // a paste with the prefix key in it
        "\u{1b}OA\u{1b}[1;5C",
        "\u{3}",
        "\u{2}d", // the prefix of tmux
        "\u{1a}",
        "\u{1b}",
        "é世🦀",
    ] {
        pty.keys(keys);
        let hex: String = keys.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        pty.wait_for(&format!("got {hex}."));
    }
    // The prefix key works in kitty's encoding too.
    pty.keys("\u{1b}[92;5ud");
    let (status, text) = pty.end();
    assert!(status.success() && text.contains("detached; back with `synapse attach raw`"), "{text}");
}

#[test]
fn a_program_that_stops_gives_the_shell_back_and_fg_brings_both_back() {
    let world = world();
    world.write("modes.py", MODES_ON);
    let mut person = shell(&world);
    person.keys(&format!("$SYNAPSE run --name tui -- {} modes.py\r", synapse_testkit::world::python()));
    person.wait_for("all is on");
    for round in 0..2 {
        person.keys("t");
        person.wait_for("Stopped");
        wait_until_off(&person);
        person.forget();
        person.keys(&format!("echo still $((20+{round}))\r"));
        person.wait_for(&format!("still 2{round}"));
        person.forget();
        person.keys("fg\r");
        person.wait_for("got 6261636b.");
        assert!(
            left_on(&person.text()).contains(&"alternate screen"),
            "it is drawn anew: {:?}",
            person.text()
        );
        let (key, got) = [("x", "got 78."), ("y", "got 79.")][round];
        person.keys(key);
        person.wait_for(got);
    }
    // Only the viewer is stopped, from outside. The program runs on.
    let viewer = processes::below(person.pid()).into_iter().find(|pid| {
        let line = processes::command_line(*pid);
        line.contains("run --name tui") && !line.contains("__hold")
    });
    let viewer = viewer.unwrap_or_else(|| panic!("{}", world.show()));
    person.forget();
    processes::suspend(viewer);
    person.wait_for("Stopped");
    person.wait_for("prompt> ");
    person.forget();
    person.keys("fg\r");
    person.wait_for("got 79.");
    person.keys("q");
    person.wait_for("prompt> ");
    person.forget();
    person.keys("echo code=$?\r");
    person.wait_for("code=3");
    person.keys("exit\r");
}

/// Without a shell nobody could resume a stopped viewer. So the viewer keeps running, and a program
/// that stops is resumed.
#[test]
fn without_a_shell_nothing_stays_stopped() {
    let world = world();
    world.write("modes.py", MODES_ON);
    let python = synapse_testkit::world::python();
    let mut pty = viewer(&world, &["run", "--name", "tui", "--", python, "modes.py"]);
    pty.wait_for("all is on");
    pty.keys("t");
    pty.wait_for("got 6261636b.");
    pty.keys("y");
    pty.wait_for("got 79.");
    // A program that is stopped while nobody is attached continues when somebody attaches.
    pty.keys("\u{1c}d");
    pty.end();
    let program = processes::below(world.agent("tui").pid)
        .into_iter()
        .find(|pid| processes::command_line(*pid).ends_with("modes.py"))
        .unwrap();
    processes::suspend(program);
    world.wait_until("it is stopped", || processes::is_stopped(program));
    let pty = viewer(&world, &["attach", "tui"]);
    world.wait_until("it goes on", || !processes::is_stopped(program));
    drop(pty);
    world.ok(&["kill", "tui"]);
}

const SIZES: &str = r#"
import os, signal, sys
def size(*_):
    columns, rows = os.get_terminal_size(0)
    os.write(1, f"\x1b[2J\x1b[Hsize {columns}x{rows}.".encode())
signal.signal(signal.SIGWINCH, size)
size()
while True: signal.pause()
"#;

#[test]
fn a_new_size_reaches_the_program_and_the_model() {
    let world = world();
    world.write("sizes.py", SIZES);
    let pty = viewer(&world, &["run", "--name", "tui", "--", synapse_testkit::world::python(), "sizes.py"]);
    pty.wait_for("size 100x30.");
    let model = || {
        let view = world.agent("tui").get("/api/v1/terminal").json();
        (view["columns"].as_u64().unwrap(), view["rows"].as_u64().unwrap())
    };
    // The window, the size the program gets, and the size of the screen model, which needs two
    // columns for a wide character.
    for (window, told, modelled) in [
        ((90, 20), "size 90x20.", (90, 20)),
        ((1, 1), "size 1x1.", (2, 1)),
        ((10_000, 40), "size 1000x40.", (1_000, 40)),
        ((10_000, 10_000), "size 1000x250.", (1_000, 250)),
        ((2, 500), "size 2x500.", (2, 500)),
        ((100, 30), "size 100x30.", (100, 30)),
    ] {
        pty.forget();
        pty.resize(window.0, window.1);
        pty.wait_for(told);
        world.wait_until(&format!("the model has {modelled:?}"), || model() == modelled);
    }
    world.kill_node("tui");
    world.wait_until("the next node has the size and the screen", || {
        model() == (100, 30) && world.ok(&["screen", "tui"]).trim() == "size 100x30."
    });
    world.ok(&["kill", "tui"]);
}

#[test]
fn exit_code_and_signal_are_those_of_the_program() {
    let world = world();
    for (script, code) in
        [("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9)]
    {
        let (status, text) = viewer(&world, &["run", "--", "sh", "-c", script]).end();
        assert_eq!(status.code(), Some(code), "{script}: {text}");
    }
}

/// Asks for the terminal's colours and prints the answers.
const COLOURS: &str = r#"
import os, tty
tty.setraw(0)
def ask():
    os.write(1, b"\x1b]10;?\x07\x1b]11;?\x07\x1b[?996n\x1b[c")
    got = b""
    while not got.endswith(b"c"): got += os.read(0, 1000)
    os.write(1, b"\x1b[2J\x1b[H" + got.replace(b"\x1b", b"^").replace(b"\x07", b"!") + b" told")
ask()
while True:
    key = os.read(0, 100)
    os.write(1, b"typed " + key.hex().encode() + b".")
    ask()
"#;

#[test]
fn a_program_is_told_the_colours_of_the_person() {
    let world = world();
    world.write("colours.py", COLOURS);
    let python = synapse_testkit::world::python();
    let light = "^]10;rgb:0101/0202/0303!^]11;rgb:fdfd/f6f6/e3e3!^[?997;2n^[?6c told";
    let dark = "^]10;rgb:e5e5/e5e5/e5e5!^]11;rgb:0000/0000/0000!^[?997;1n^[?6c told";
    let shown = |wished: &str| world.ok(&["screen", "ask"]).replace('\n', "").contains(wished);
    world.ok(&["run", "-d", "--name", "ask", "--", python, "colours.py"]);
    world.wait_until("nobody is there: dark", || shown(dark));
    let start = |args: &[&str], colours| {
        Pty::coloured(&world.prepare(Command::new(world.exe()), args), 120, 40, colours)
    };
    // Keys typed before the terminal has answered are passed on as keys.
    let mut silent = start(&["attach", "ask"], Colours::Silent);
    silent.wait_for("told");
    silent.keys("x");
    silent.wait_for("typed 78.");
    world.wait_until("one that tells nothing changes nothing", || shown(dark));
    silent.keys("\u{1c}d");
    silent.end();
    let mut person = start(&["attach", "ask"], Colours::Light);
    person.wait_for("told");
    person.keys("x");
    world.wait_until("light", || shown(light));
    world.kill_node("ask");
    person.forget();
    person.keys("y");
    person.wait_for("typed 79.");
    world.wait_until("light, for the next node too", || shown(light));
    world.ok(&["kill", "ask"]);
    // A program that a person starts gets the answers from the beginning.
    let person = start(&["run", "--name", "first", "--", python, "colours.py"], Colours::Light);
    person.wait_for(&light[..50]);
    world.ok(&["kill", "first"]);
}
