//! Rivals that are Python packages: installed once, by name, into a folder of the benchmark.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::shell;

/// The virtual environment of a package, whether it exists or not.
pub(super) fn of(folder: &Path, package: &str) -> PathBuf {
    folder.join(format!("venv-{package}"))
}

/// The program of a package, installed on first use.
pub(super) fn program(folder: &Path, package: &str, program: &str) -> anyhow::Result<PathBuf> {
    let venv = of(folder, package);
    let found = venv.join("bin").join(program);
    if !found.exists() {
        eprintln!("fetching {package}");
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let venv = venv.to_str().context("a folder with a plain name")?;
        shell::read(folder, &["python3", "-m", "venv", venv])?;
        let pip = format!("{venv}/bin/pip");
        shell::read(folder, &[&pip, "install", "--quiet", "--disable-pip-version-check", package])?;
        anyhow::ensure!(found.exists(), "the package {package} has no program `{program}`");
    }
    Ok(found)
}
