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
