//! The official servers: the Python SDK's, with the script of our tests, and an echo on the Rust
//! crate, which is built here.
//!
//! Each runs on 127.0.0.1 and prints its address as its first line. It is killed when dropped.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

use super::super::client::Door;
use super::super::{Bench, proc};
use super::load::Server;
use crate::{sdk, shell};

const RUST_ECHO: &str = include_str!("rust_echo.rs");
const RUST_ECHO_MANIFEST: &str = include_str!("rust_echo.toml");

pub(super) struct Rival {
    child: Child,
    pub(super) server: Server,
}

impl Rival {
    pub(super) fn python(bench: &Bench) -> anyhow::Result<Self> {
        let kit = sdk::ensure(&bench.root, &sdk::PYTHON_1)?;
        let mut command = Command::new(kit.join("bin/python"));
        command.arg(bench.root.join("crates/synapse/tests/sdk/python_server.py"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Self::start(command, "/rpc").context("the Python SDK's server")
    }

    pub(super) fn rust(bench: &Bench) -> anyhow::Result<Self> {
        let program = build(&bench.folder.join("rust-echo"))?;
        Self::start(Command::new(program), "/").context("the echo on the Rust crate")
    }

    fn start(mut command: Command, path: &str) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let out = child.stdout.take().context("its output")?;
        let server = Server { door: Door::Tcp(0), path: path.to_owned(), token: None };
        let mut rival = Self { child, server };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let port = line.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        ensure!(line.starts_with("ready "), "it did not say where it is: {line:?}");
        rival.server.door = Door::Tcp(port.with_context(|| format!("a port in {line:?}"))?);
        Ok(rival)
    }

    pub(super) fn megabytes(&self) -> anyhow::Result<f64> {
        Ok(proc::private_bytes(self.child.id())? as f64 / f64::from(1 << 20))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It may have exited by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds the echo in its own crate, again only if its source changed.
fn build(folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder.join("src")).with_context(|| format!("making {}", folder.display()))?;
    for (name, text) in [("Cargo.toml", RUST_ECHO_MANIFEST), ("src/main.rs", RUST_ECHO)] {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|own| own == text) {
            continue;
        }
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    eprintln!("building the echo on the Rust crate");
    let target = folder.join("target");
    let target = target.to_str().context("a folder with a plain name")?;
    shell::show(folder, &["cargo", "build", "--release", "--quiet", "--target-dir", target], &[])?;
    Ok(folder.join("target/release/rust-echo"))
}
