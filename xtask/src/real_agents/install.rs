//! Fetching a CLI in its exact version, once, with npm.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::catalog::Cli;
use super::commands_of;

/// Makes sure that the CLI is there and says that it is the version we mean.
pub(super) fn ensure(folder: &Path, cli: &Cli) -> anyhow::Result<()> {
    if version(folder, cli).is_ok() {
        return Ok(());
    }
    let to = folder.join(format!("{}-{}", cli.name, cli.version));
    fs::create_dir_all(&to).with_context(|| format!("making {}", to.display()))?;
    let package = format!("{}@{}", cli.package, cli.version);
    eprintln!("installing {package} into {}", to.display());
    let output = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"])
        .arg(&to)
        .arg(&package)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting npm, which fetches {package}: install nodejs and npm"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().filter(|line| line.contains("npm error")).take(10).collect();
        bail!("npm could not install {package} ({}):\n{}", output.status, said.join("\n"));
    }
    version(folder, cli).with_context(|| format!("npm installed {package}, but it does not run"))
}

/// Asks the installed CLI for its version.
fn version(folder: &Path, cli: &Cli) -> anyhow::Result<()> {
    let command = commands_of(folder, cli).join(cli.name);
    let home = tempfile::tempdir().context("making a home to ask for a version in")?;
    let output = Command::new(&command)
        .arg("--version")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", command.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !said.split(|c: char| c.is_whitespace()).any(|word| word == cli.version) {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{} --version` says {:?} {}", cli.name, said.trim(), complaint.trim());
    }
    Ok(())
}
