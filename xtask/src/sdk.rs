//! The official SDKs of A2A in exact versions, under `target/sdk`: what the tests call us with, and are called by.
//!
//! Each is fetched once. A folder counts when the list in it says what we want; that list is written last, so what was
//! broken off is fetched anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// One folder of packages.
pub(crate) struct Kit {
    folder: &'static str,
    with: Fetcher,
    packages: &'static [&'static str],
}

enum Fetcher {
    /// A virtual environment of Python.
    Pip,
    Npm,
}

pub(crate) const PYTHON_1: Kit = Kit {
    folder: "python-1.3.0",
    with: Fetcher::Pip,
    packages: &["a2a-sdk[grpc,http-server,signing]==1.3.0", "uvicorn==0.54.0"],
};

const PYTHON_03: Kit =
    Kit { folder: "python-0.3.26", with: Fetcher::Pip, packages: &["a2a-sdk[grpc,http-server]==0.3.26"] };

const JS: Kit = Kit {
    folder: "js",
    with: Fetcher::Npm,
    packages: &["@a2a-js/sdk@1.3.0", "@grpc/grpc-js@1.14.7", "@bufbuild/protobuf@2.17.0"],
};

const LIST: &str = "fetched";

/// The interpreter of a kit that is there.
pub(crate) fn python(root: &Path, kit: &Kit) -> PathBuf {
    root.join("target/sdk").join(kit.folder).join("bin/python")
}

/// Makes sure that all are there.
pub(crate) fn ensure_all(root: &Path) -> anyhow::Result<()> {
    for kit in [&PYTHON_1, &PYTHON_03, &JS] {
        ensure(root, kit)?;
    }
    Ok(())
}

/// The folder of a kit, fetched if it is not there as wished.
pub(crate) fn ensure(root: &Path, kit: &Kit) -> anyhow::Result<PathBuf> {
    let folder = root.join("target/sdk").join(kit.folder);
    if fs::read_to_string(folder.join(LIST)).is_ok_and(|list| list == kit.list()) {
        return Ok(folder);
    }
    println!("fetching {} into {}", kit.packages.join(", "), folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    match kit.with {
        Fetcher::Pip => {
            let venv = |what: &str| format!("making {what}: install python3-venv");
            run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
                .with_context(|| venv(kit.folder))?;
            let mut pip = Command::new(folder.join("bin/pip"));
            run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(kit.packages))?;
        }
        Fetcher::Npm => {
            let mut npm = Command::new("npm");
            npm.args([
                "install",
                "--no-audit",
                "--no-fund",
                "--save-exact",
                "--loglevel",
                "error",
                "--prefix",
            ]);
            run(npm.arg(&folder).args(kit.packages)).context("fetching with npm: install nodejs and npm")?;
        }
    }
    fs::write(folder.join(LIST), kit.list()).with_context(|| format!("writing into {}", folder.display()))?;
    Ok(folder)
}

impl Kit {
    fn list(&self) -> String {
        self.packages.iter().map(|package| format!("{package}\n")).collect()
    }
}

/// Runs it to its end; what it complained about is in the error.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(10).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!("{program} ended with {}:\n{}", output.status, last.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_an_exact_version() {
        for package in [&PYTHON_1, &PYTHON_03, &JS].iter().flat_map(|kit| kit.packages) {
            let version = package.rsplit_once(['=', '@']).map(|(_, version)| version);
            let exact =
                version.is_some_and(|v| v.split('.').count() == 3 && !v.contains(['*', '^', '~', '>']));
            assert!(exact, "{package}");
        }
    }

    #[test]
    fn what_is_there_as_wished_is_not_fetched() {
        let root = tempfile::tempdir().unwrap();
        // Whatever would be fetched with this fails: there is no such package.
        let kit = Kit { folder: "none", with: Fetcher::Npm, packages: &["./no-such-package@1.0.0"] };
        let folder = root.path().join("target/sdk/none");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(LIST), kit.list()).unwrap();
        assert_eq!(ensure(root.path(), &kit).unwrap(), folder);
    }
}
