//! Golden files: output of the code that is kept in the repository, so that a change of it is a
//! diff to review.
//!
//! A test of a golden file has `golden` in its name. It compares, unless the variable
//! `SYNAPSE_BLESS` is set; then it writes the file. Not here: the comparing; each crate knows its
//! own files.

use std::path::Path;

use crate::shell;

const COMPARE: &[&str] =
    &["cargo", "nextest", "run", "--workspace", "--locked", "--no-fail-fast", "-E", "test(/golden/)"];

/// Runs the tests of all golden files. With `bless`, they rewrite the files.
pub(crate) fn run(root: &Path, bless: bool) -> anyhow::Result<()> {
    let env: &[(&str, &str)] = if bless { &[("SYNAPSE_BLESS", "1")] } else { &[] };
    shell::show(root, COMPARE, env)?;
    if bless {
        println!("golden files are written; read them with `git diff` before you commit");
    }
    Ok(())
}
