//! Golden files: what the code says, kept in the tree, so that a change of it is a diff to review.
//!
//! A test of a golden file has `golden` in its name. It compares, unless the
//! variable `SYNAPSE_BLESS` is set; then it writes. Nothing is compared here:
//! each crate knows its own files.

use std::path::Path;

use crate::shell;

const COMPARE: &[&str] =
    &["cargo", "nextest", "run", "--workspace", "--locked", "--no-fail-fast", "-E", "test(/golden/)"];

/// Compares all golden files with what the code says, or with `bless` rewrites them.
pub(crate) fn run(root: &Path, bless: bool) -> anyhow::Result<()> {
    let env: &[(&str, &str)] = if bless { &[("SYNAPSE_BLESS", "1")] } else { &[] };
    shell::show(root, COMPARE, env)?;
    if bless {
        println!("golden files are written; read them with `git diff` before you commit");
    }
    Ok(())
}
