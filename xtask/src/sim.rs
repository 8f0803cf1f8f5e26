//! The seeded simulation of the core: many simulated worlds with random failures, and a checker
//! over all of them.
//!
//! The simulation is an example of `synapse-core`, which runs optimised and on all cores. This
//! module only passes the arguments on, so that a failing seed is repeated with the same command
//! that found it.

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

/// Runs the simulation with these arguments: `--seeds N`, `--first-seed M`, `--steps K`, `--break
/// NAME`.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let mut line = RUN.to_vec();
    line.extend(words.iter().map(String::as_str));
    shell::show(root, &line, &[])
}
