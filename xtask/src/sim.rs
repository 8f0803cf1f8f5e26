//! The seeded simulation of the core: many worlds, each with its own accidents, and a checker over all of them.
//!
//! The worlds are in `synapse-core`; they run optimised, on all cores, as an example of that crate. This only
//! passes the words on, so that a failing seed is repeated with the same command that found it.

use std::path::Path;

use crate::shell;

const RUN: &[&str] = &[
    "cargo",
    "run",
    "--release",
    "--quiet",
    "--locked",
    "--package",
    "synapse-core",
    "--example",
    "sim",
    "--",
];

/// Runs the simulation with these words: `--seeds N`, `--first-seed M`, `--steps K`, `--break NAME`.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let mut line = RUN.to_vec();
    line.extend(words.iter().map(String::as_str));
    shell::show(root, &line, &[])
}
