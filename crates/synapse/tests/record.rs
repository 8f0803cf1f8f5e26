//! PTY-9: recordings of programs in terminals, and the states seen in them.

use crate::world;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use synapse_testkit::World;
use synapse_testkit::pty::Pty;
use synapse_testkit::tui::Tui;
use synapse_testkit::{processes, world::python};

/// The data of all events of one kind in a cast, joined.
fn of_kind(cast: &str, kind: &str) -> String {
    let events = cast.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event[1] == kind).map(|event| event[2].as_str().unwrap().to_owned()).collect()
}

fn states(world: &World, file: &str) -> Vec<String> {
    let all: Vec<Value> = serde_json::from_str(&world.read(file)).unwrap();
    all.iter().map(|one| one["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn without_a_terminal_a_program_is_recorded_to_its_end() {
    let world = world();
    let args = ["record", "-o", "out.cast", "--", "sh", "-c", "printf 'w\\303\\266rter\\n'; exit 6"];
    let ran = world.synapse(&args).exits(6);
    assert!(ran.stdout.contains("out.cast") && ran.stdout.contains("out.json"), "{ran}");
    assert!(ran.stdout.contains("synapse profile test generic --recording out.cast"), "{ran}");
    assert!(ran.stderr.contains("what is typed will be in out.cast, secrets too"), "{ran}");
    for file in ["out.cast", "out.json"] {
        let mode = std::fs::metadata(world.file(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let cast = world.read("out.cast");
    let head: Value = serde_json::from_str(cast.lines().next().unwrap()).unwrap();
    assert_eq!((&head["version"], &head["width"], &head["height"]), (&2.into(), &120.into(), &40.into()));
    assert_eq!(of_kind(&cast, "o"), "wörter\r\n");
    world.ok(&["profile", "test", "generic", "--recording", "out.cast"]);
    // An existing file is kept, except with --force.
    world.synapse(&args).fails(5, &["out.cast is there already", "--force"]);
    assert_eq!(world.read("out.cast"), cast);
    let again = ["record", "-o", "out.cast", "--force", "--json", "--", "echo", "second"];
    let told = world.synapse(&again).ok().json();
    assert_eq!((&told["exit_code"], &told["profile"]), (&0.into(), &"generic".into()), "{told}");
    assert_eq!(of_kind(&world.read("out.cast"), "o"), "second\r\n");
    // A program that cannot be started leaves no files.
    world.synapse(&["record", "--", "no-such-program"]).fails(127, &["no-such-program"]);
    assert!(!world.file("no-such-program.cast").exists() && !world.file("no-such-program.json").exists());
    world.synapse(&["record", "--profile", "nobody", "--", "cat"]).fails(5, &["nobody", "profile list"]);
    world.synapse(&["record", "-o", "x.json", "--", "cat"]).fails(2, &["use .cast"]);
}

#[test]
fn keys_sizes_and_states_are_in_a_recording_that_tests_its_profile() {
    let world = world();
    let tui = Tui::new(&world, "tui");
    let args = [&["record", "--name", "tui", "--"][..], &tui.command()].concat();
    let mut person = Pty::start(&world.prepare(Command::new(world.exe()), &args), 100, 30);
    person.wait_for("enter sends");
    world.wait_until("it is idle", || world.entry("tui").is_some_and(|entry| entry["status"] == "idle"));
    person.keys("turn 40\r");
    person.wait_for("answers 3 done 1");
    person.resize(110, 35);
    person.wait_for("scripted 端末 110x35");
    person.keys("ask\r");
    world.wait_until("it waits", || world.entry("tui").is_some_and(|entry| entry["status"] == "waiting"));
    person.keys("1");
    world.wait_until("it is idle", || world.entry("tui").is_some_and(|entry| entry["status"] == "idle"));
    person.keys("quit 4\r");
    let (status, text) = person.end();
    assert_eq!(status.code(), Some(4), "{text}");
    assert!(text.contains("synapse profile test generic --recording tui.cast"), "{text}");
    let cast = world.read("tui.cast");
    assert_eq!(of_kind(&cast, "i"), "turn 40\rask\r1quit 4\r");
    assert!(of_kind(&cast, "r").contains("110x35"), "{}", of_kind(&cast, "r"));
    assert!(of_kind(&cast, "o").contains("Allow the tool to run?"));
    let seen = states(&world, "tui.json");
    let at = |state: &str| {
        seen.iter().position(|one| one == state).unwrap_or_else(|| panic!("{state} in {seen:?}"))
    };
    assert!(at("idle") < at("waiting"), "{seen:?}");
    let score = world.json(&["profile", "test", "generic", "--recording", "tui.cast"]);
    assert!(score["agreement"].as_f64().unwrap() >= 0.9, "{score}");
    assert_eq!(score["waiting_as_idle_ms"], 0, "{score}");
}

#[test]
fn what_runs_already_is_recorded_until_one_has_enough() {
    let world = world();
    let script = "import os,tty\ntty.setraw(0)\nos.write(1, b'before.')\nwhile True: os.write(1, b'got ' + os.read(0, 100) + b'.')\n";
    world.write("echo.py", script);
    world.ok(&["run", "-d", "--name", "echo", "--", python(), "echo.py"]);
    world.wait_until("it is up", || world.ok(&["screen", "echo"]).contains("before."));
    let mut recorder = world.program(&["record", "echo", "--no-input"]);
    world.wait_until("it is recorded from what it shows", || world.read("echo.cast").contains("before."));
    let mut person = Pty::start(&world.prepare(Command::new(world.exe()), &["attach", "echo"]), 100, 30);
    person.wait_for("before.");
    person.keys("s");
    person.wait_for("got s.");
    world.wait_until("what it said is recorded", || world.read("echo.cast").contains("got s."));
    processes::terminate(recorder.pid());
    assert!(recorder.wait().success());
    let cast = world.read("echo.cast");
    assert_eq!(of_kind(&cast, "i"), "");
    assert!(of_kind(&cast, "r").contains("100x30"), "{cast}");
    assert_eq!(states(&world, "echo.json").last().unwrap(), "unknown");
    assert!(world.entry("echo").is_some(), "it goes on");
    world.synapse(&["record", "nobody"]).fails(5, &["nobody"]);
    world.ok(&["kill", "echo"]);
}
