//! Fetching a CLI in its exact version, once, with npm or pip.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::catalog::{Cli, Source};
use super::{commands_of, folder_of};

/// Makes sure that the CLI is there and says that it is the version we mean.
pub(super) fn ensure(folder: &Path, cli: &Cli) -> anyhow::Result<()> {
    if version(folder, cli).is_ok() {
        return Ok(());
    }
    let to = folder_of(folder, cli);
    fs::create_dir_all(&to).with_context(|| format!("making {}", to.display()))?;
    let package = match cli.source {
        Source::Npm { package, beside } => {
            let package = format!("{package}@{}", cli.version);
            eprintln!("installing {package} into {}", to.display());
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]).arg(&to);
            install(npm.arg(&package).args(beside), &package, "nodejs and npm")?;
            package
        }
        Source::Pip { package } => {
            let package = format!("{package}=={}", cli.version);
            eprintln!("installing {package} into {}", to.display());
            let mut venv = Command::new("python3");
            install(venv.args(["-m", "venv"]).arg(&to), &package, "python3 with venv")?;
            let mut pip = Command::new(to.join("bin/pip"));
            install(pip.args(["install", "--quiet"]).arg(&package), &package, "python3 with pip")?;
            package
        }
    };
    version(folder, cli).with_context(|| format!("{package} was installed, but it does not run"))
}

fn install(command: &mut Command, package: &str, needs: &str) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {program}, which fetches {package}: install {needs}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> =
            said.lines().filter(|line| line.to_lowercase().contains("error")).take(10).collect();
        bail!("{program} could not install {package} ({}):\n{}", output.status, said.join("\n"));
    }
    Ok(())
}

/// Whether the CLI is installed in its version.
pub(super) fn is_there(folder: &Path, cli: &Cli) -> bool {
    version(folder, cli).is_ok()
}

/// Asks the installed CLI for its version.
fn version(folder: &Path, cli: &Cli) -> anyhow::Result<()> {
    let commands = commands_of(folder, cli);
    let command = commands.join(cli.name);
    // Its own Node first, if it brings one.
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(commands).chain(std::env::split_paths(&paths));
    let path = std::env::join_paths(paths).context("the path of a CLI")?;
    let home = tempfile::tempdir().context("making a home to ask for a version in")?;
    let output = Command::new(&command)
        .arg("--version")
        .env_clear()
        .env("PATH", path)
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", command.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let is_version = |word: &str| word.trim_end_matches('.').trim_start_matches('v') == cli.version;
    if !output.status.success() || !said.split_whitespace().any(is_version) {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{} --version` says {:?} {}", cli.name, said.trim(), complaint.trim());
    }
    Ok(())
}
