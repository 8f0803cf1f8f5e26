//! The README is true: every `sh` block in it runs, in the order in which a reader meets them.

#![allow(clippy::unwrap_used)]

use std::process::Command;
use synapse_testkit::{Ran, World};

fn blocks(text: &str) -> Vec<String> {
    let after = text.split("\n```sh\n").skip(1);
    after.map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

#[test]
fn blocks_are_found() {
    assert_eq!(
        blocks("a\n```sh\none\ntwo\n```\n```console\nno\n```\n\n```sh\nthree\n```\n"),
        ["one\ntwo", "three"]
    );
}

#[test]
fn heavy_what_the_readme_shows_works() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let blocks = blocks(&readme);
    assert!(blocks.len() >= 3, "the README shows {} things to try", blocks.len());
    let here = world.exe().parent().unwrap().display().to_string();
    let path = format!("{here}:{}", std::env::var("PATH").unwrap_or_default());
    let mut printed = String::new();
    for block in blocks {
        let mut shell = world.prepare(Command::new("sh"), &["-e", "-c", &block]);
        let ran = Ran::new(&[block.as_str()], shell.env("PATH", &path).output().unwrap()).ok();
        printed.push_str(&ran.stdout);
    }
    for line in ["HELLO", "WELCOME BACK", "3 words", "desserts"] {
        assert!(printed.lines().any(|own| own == line), "{line} is not in\n{printed}");
    }
    world.ok(&["kill", "--all"]);
    world.wait_until("nothing is left running", || world.processes().is_empty());
}
