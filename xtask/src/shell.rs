//! Runs other programs: always from the root of the repository, and never with an interactive
//! input.
//!
//! Every child gets an empty standard input, so nothing can wait for an answer that will not come.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The root of the workspace: the folder above this crate.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Runs `line` with its output shown. Any exit code but 0 is an error.
pub(crate) fn show(root: &Path, line: &[&str], env: &[(&str, &str)]) -> anyhow::Result<()> {
    let status =
        command(root, line, env)?.status().with_context(|| format!("starting `{}`", line.join(" ")))?;
    if !status.success() {
        bail!("`{}` ended with {status}", line.join(" "));
    }
    Ok(())
}

/// Runs `line` and returns its output. On failure the error includes its standard error.
pub(crate) fn read(root: &Path, line: &[&str]) -> anyhow::Result<String> {
    let output =
        command(root, line, &[])?.output().with_context(|| format!("starting `{}`", line.join(" ")))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", line.join(" "), output.status, complaint.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no UTF-8", line.join(" ")))
}

/// Whether `line` can be started and succeeds. Its output is discarded.
pub(crate) fn works(root: &Path, line: &[&str]) -> bool {
    read(root, line).is_ok()
}

fn command(root: &Path, line: &[&str], env: &[(&str, &str)]) -> anyhow::Result<Command> {
    let Some((program, args)) = line.split_first() else { bail!("an empty command line") };
    let mut command = Command::new(program);
    command.args(args).envs(env.iter().copied()).current_dir(root).stdin(Stdio::null());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask").is_dir());
    }

    #[test]
    fn a_child_that_reads_finds_nothing() {
        assert_eq!(read(&root(), &["cat"]).unwrap(), "");
    }

    #[test]
    fn a_failure_brings_its_complaint() {
        let error = read(&root(), &["sh", "-c", "echo no such luck >&2; exit 3"]).unwrap_err();
        assert!(error.to_string().contains("no such luck"), "{error}");
        assert!(show(&root(), &["false"], &[]).is_err());
        assert!(!works(&root(), &["no-program-has-this-name"]));
    }
}
