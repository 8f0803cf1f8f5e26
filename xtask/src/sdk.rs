//! The official A2A SDKs in exact versions, under `target/sdk`. The tests call us with them, and we
//! call them.
//!
//! Each is installed once. A folder is complete if its list matches the wanted packages. The list
//! is written last, so an interrupted installation is repeated.

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
    /// A Python virtual environment.
    Pip,
    Npm,
}

pub(crate) const PYTHON_1: Kit = Kit {
    folder: "python-1.3.0",
    with: Fetcher::Pip,
    // The last two verify signatures without the SDK.
    packages: &[
        "a2a-sdk[grpc,http-server,signing]==1.3.0",
        "uvicorn==0.54.0",
        "jwcrypto==1.6.1",
        "rfc8785==0.1.4",
    ],
};

pub(crate) const PYTHON_03: Kit = Kit {
    folder: "python-0.3.26",
    with: Fetcher::Pip,
    packages: &["a2a-sdk[grpc,http-server]==0.3.26", "uvicorn==0.54.0"],
};

/// The tools that check `/openapi.json`, and a node against it.
const OPENAPI: Kit = Kit {
    folder: "python-openapi",
    with: Fetcher::Pip,
    packages: &["openapi-spec-validator==0.9.0", "schemathesis==4.32.5", "hypothesis==6.170.15"],
};

pub(crate) const JS: Kit = Kit {
    folder: "js",
    with: Fetcher::Npm,
    packages: &["@a2a-js/sdk@1.3.0", "@grpc/grpc-js@1.14.7", "@bufbuild/protobuf@2.17.0"],
};

/// Frameworks of other makers, installed only by `cargo xtask interop`.
pub(crate) const PYTHON_02: Kit =
    Kit { folder: "python-0.2.16", with: Fetcher::Pip, packages: &["a2a-sdk==0.2.16", "uvicorn==0.54.0"] };
pub(crate) const ADK: Kit = Kit {
    folder: "google-adk",
    with: Fetcher::Pip,
    packages: &["google-adk[a2a]==2.13.0", "a2a-sdk==1.3.0"],
};
pub(crate) const LANGGRAPH: Kit = Kit {
    folder: "langgraph",
    with: Fetcher::Pip,
    packages: &["langgraph-api==0.16.7", "langgraph==1.2.22", "langgraph-cli[inmem]==0.4.40"],
};
pub(crate) const CREWAI: Kit =
    Kit { folder: "crewai", with: Fetcher::Pip, packages: &["crewai[a2a]==1.15.30", "uvicorn==0.54.0"] };
pub(crate) const STRANDS: Kit =
    Kit { folder: "strands", with: Fetcher::Pip, packages: &["strands-agents[a2a]==1.62.0"] };
pub(crate) const FASTA2A_06: Kit = Kit {
    folder: "fasta2a-0.6.1",
    with: Fetcher::Pip,
    packages: &["fasta2a==0.6.1", "uvicorn==0.54.0", "httpx==0.28.1"],
};
pub(crate) const FASTA2A_2: Kit = Kit {
    folder: "fasta2a-2.1.1",
    with: Fetcher::Pip,
    packages: &["fasta2a==2.1.1", "uvicorn==0.54.0", "httpx==0.28.1"],
};
pub(crate) const PYDANTIC_AI: Kit = Kit {
    folder: "pydantic-ai",
    with: Fetcher::Pip,
    packages: &["pydantic-ai-slim==2.62.0", "fasta2a[pydantic-ai]==2.1.1", "uvicorn==0.54.0"],
};
/// The packages of `JS`, and Express for the server of that SDK.
pub(crate) const JS_SERVER: Kit = Kit {
    folder: "js-server",
    with: Fetcher::Npm,
    packages: &["@a2a-js/sdk@1.3.0", "@grpc/grpc-js@1.14.7", "@bufbuild/protobuf@2.17.0", "express@5.3.0"],
};

/// The C compiler for other machines than this one, which `cargo xtask dist` needs.
pub(crate) const ZIG: Kit = Kit { folder: "zig-0.15.2", with: Fetcher::Pip, packages: &["ziglang==0.15.2"] };

const LIST: &str = "fetched";

/// The Python interpreter of an installed kit.
pub(crate) fn python(root: &Path, kit: &Kit) -> PathBuf {
    root.join("target/sdk").join(kit.folder).join("bin/python")
}

/// Makes sure that all kits of the tests are installed.
pub(crate) fn ensure_all(root: &Path) -> anyhow::Result<()> {
    for kit in [&PYTHON_1, &PYTHON_03, &OPENAPI, &JS] {
        ensure(root, kit)?;
    }
    Ok(())
}

/// The folder of a kit, which is installed if it is missing or outdated.
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

/// Runs the command to its end. The error includes its standard error.
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
        let frameworks = [
            &PYTHON_02,
            &ADK,
            &LANGGRAPH,
            &CREWAI,
            &STRANDS,
            &FASTA2A_06,
            &FASTA2A_2,
            &PYDANTIC_AI,
            &JS_SERVER,
        ];
        let official = [&PYTHON_1, &PYTHON_03, &OPENAPI, &JS];
        for package in official.iter().chain(&frameworks).flat_map(|kit| kit.packages) {
            let version = package.rsplit_once(['=', '@']).map(|(_, version)| version);
            let exact =
                version.is_some_and(|v| v.split('.').count() == 3 && !v.contains(['*', '^', '~', '>']));
            assert!(exact, "{package}");
        }
    }

    #[test]
    fn what_is_there_as_wished_is_not_fetched() {
        let root = tempfile::tempdir().unwrap();
        // Installing this kit would fail: there is no such package.
        let kit = Kit { folder: "none", with: Fetcher::Npm, packages: &["./no-such-package@1.0.0"] };
        let folder = root.path().join("target/sdk/none");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(LIST), kit.list()).unwrap();
        assert_eq!(ensure(root.path(), &kit).unwrap(), folder);
    }
}
