//! `synapse demo`: keeps its promises, and leaves nothing behind.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};
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

/// The recording in the README is of this demo, line by line; numbers may differ.
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

/// Without colours and numbers.
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
