//! `synapse demo`: prints what it promises, and leaves nothing behind.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use synapse_testkit::pty::Pty;
use synapse_testkit::{Ran, World, processes};

#[test]
fn heavy_the_demo_shows_every_promise_and_leaves_nothing() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let temp = world.file("temp");
    std::fs::create_dir(&temp).unwrap();
    let began = Instant::now();
    let output = world.command(&["demo"]).env("TMPDIR", &temp).output().unwrap();
    let ran = Ran::new(&["demo"], output).ok();
    assert!(ran.stdout.contains("every promise held"), "{ran}");
    assert!(ran.stdout.matches('✓').count() >= 9, "{ran}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0, "a file is left");
    assert_eq!(processes::of_home(&temp), [0_u32; 0], "a process is left");
    assert!(!world.home().exists(), "the user's own home was not touched");
}

/// The moment of the interruption, how it is done, and the expected exit code.
type Interrupt = (&'static str, fn(u32), i32);

/// Regression: three agents and a temporary folder were left behind.
#[test]
fn heavy_interrupted_demo_leaves_nothing() {
    let ways: [Interrupt; 5] = [
        ("Three agents", processes::terminate, 128 + 15),
        ("--name counter", processes::interrupt, 128 + 2),
        ("$ synapse send counter", processes::hang_up, 128 + 1),
        ("calm", processes::interrupt, 128 + 2),
        ("letter", processes::terminate, 128 + 15),
    ];
    for (moment, interrupt, code) in ways {
        let stage = Stage::new();
        let mut demo = stage.start();
        let mut printed = BufReader::new(demo.stdout.take().unwrap()).lines();
        assert!(printed.any(|line| line.unwrap().contains(moment)), "{moment}");
        interrupt(demo.id());
        // The rest of the output does not matter, but a full pipe would block the demo.
        printed.for_each(drop);
        let output = demo.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{moment}: {output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("demo interrupted; its agents are stopped"), "{moment}: {told}");
        stage.is_empty(moment);
    }
}

/// As in `synapse demo | head -1`.
#[test]
fn heavy_demo_without_a_reader_leaves_nothing() {
    for lines in [1, 12] {
        let stage = Stage::new();
        let mut demo = stage.start();
        let printed = BufReader::new(demo.stdout.take().unwrap()).lines();
        assert_eq!(printed.take(lines).filter(Result::is_ok).count(), lines);
        assert_eq!(demo.wait().unwrap().code(), Some(128 + 13));
        stage.is_empty("no reader");
    }
}

/// Ctrl-C reaches all processes at the terminal. Closing the window sends them SIGHUP.
#[test]
fn heavy_demo_in_a_terminal_that_is_left_leaves_nothing() {
    for is_closed in [false, true] {
        let stage = Stage::new();
        let mut pty = Pty::start(&stage.command(), 100, 30);
        pty.wait_for("Progress");
        if is_closed {
            pty.vanish();
        } else {
            pty.keys("\u{3}");
        }
        let code = pty.status().code();
        assert!(
            code == Some(128 + if is_closed { 1 } else { 2 }) || is_closed && code == Some(128 + 13),
            "{code:?}"
        );
        stage.is_empty("in a terminal");
    }
}

/// A world with its own temporary folder.
struct Stage {
    world: World,
    temp: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let world = World::new(env!("CARGO_BIN_EXE_synapse"));
        let temp = world.file("temp");
        std::fs::create_dir(&temp).unwrap();
        Self { world, temp }
    }

    fn command(&self) -> Command {
        let mut command = self.world.command(&["demo"]);
        command.env("TMPDIR", &self.temp);
        command
    }

    fn start(&self) -> Child {
        self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn is_empty(&self, moment: &str) {
        self.world.wait_until(&format!("{moment}: no process and no file is left"), || {
            processes::of_home(&self.temp).is_empty() && std::fs::read_dir(&self.temp).unwrap().count() == 0
        });
    }
}

/// The recording in the docs shows this demo line by line, except for the numbers.
#[test]
fn heavy_the_recording_shows_what_the_demo_prints() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let ran = world.synapse(&["demo"]).ok();
    let cast = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/demo.cast");
    let recorded: String = std::fs::read_to_string(cast)
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()[2].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(plain(&recorded), plain(&ran.stdout), "run `cargo xtask record`");
}

/// Returns the lines without colours and numbers.
fn plain(text: &str) -> Vec<String> {
    let mut out = String::new();
    let mut chars = text.chars().filter(|c| *c != '\r' && !c.is_ascii_digit());
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => drop(chars.by_ref().find(char::is_ascii_alphabetic)),
            c => out.push(c),
        }
    }
    out.lines().map(str::to_owned).collect()
}
