//! The wrappers to compare: `script`, tmux, hcom, Synapse, or none.
//!
//! A missing rival is installed if that needs no questions: packages as root, hcom into a folder of
//! the benchmark. If a rival is not available, the reason is reported and its bar counts as missed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use super::super::stage::Stage;
use super::super::{Bench, venv};
use crate::shell;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapper {
    /// The bare terminal.
    Nothing,
    Synapse,
    Script,
    Hcom,
    Tmux,
}

impl Wrapper {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "bare terminal",
            Self::Synapse => "synapse",
            Self::Script => "script",
            Self::Hcom => "hcom",
            Self::Tmux => "tmux",
        }
    }
}

/// The agent that runs under Synapse.
pub(super) const AGENT: &str = "wrapped";

/// Starts programs in wrappers.
pub(super) struct Rivals<'a> {
    stage: &'a Stage,
    folder: PathBuf,
}

impl<'a> Rivals<'a> {
    pub(super) fn new(bench: &'a Bench) -> Self {
        Self { stage: &bench.stage, folder: bench.folder.join("rivals") }
    }

    /// Makes sure that the wrapper can be started. The error says why it cannot.
    pub(super) fn fetch(&self, wrapper: Wrapper) -> anyhow::Result<()> {
        match wrapper {
            Wrapper::Nothing | Wrapper::Synapse => Ok(()),
            Wrapper::Script => self.package("script", "--version", "bsdutils"),
            Wrapper::Tmux => self.package("tmux", "-V", "tmux"),
            Wrapper::Hcom => self.fetch_hcom(),
        }
    }

    fn package(&self, program: &str, probe: &str, package: &str) -> anyhow::Result<()> {
        let here = || shell::works(self.stage.home().root(), &[program, probe]);
        if here() {
            return Ok(());
        }
        let root = nix::unistd::geteuid().is_root();
        anyhow::ensure!(root, "{program} is not installed (install the package {package})");
        shell::read(self.stage.home().root(), &["apt-get", "install", "-y", package])?;
        anyhow::ensure!(here(), "{program} does not start though {package} is installed");
        Ok(())
    }

    fn hcom(&self) -> anyhow::Result<PathBuf> {
        venv::program(&self.folder, "hcom", "hcom")
    }

    fn fetch_hcom(&self) -> anyhow::Result<()> {
        let hcom = self.hcom()?;
        shell::read(&self.folder, &[hcom.to_str().unwrap_or_default(), "--version"]).map(drop)
    }

    /// A command line that runs `sh -c line` inside the wrapper, to be started in a terminal.
    pub(super) fn command(&self, wrapper: Wrapper, line: &str) -> anyhow::Result<Command> {
        let mut command = match wrapper {
            Wrapper::Nothing => words("sh", &["-c", line]),
            Wrapper::Synapse => self.stage.command(&["run", "--name", AGENT, "--", "sh", "-c", line]),
            Wrapper::Script => words("script", &["-qfc", line, "/dev/null"]),
            Wrapper::Tmux => {
                let server = self.tmux_server();
                words("tmux", &["-L", &server, "-f", "/dev/null", "new-session", line])
            }
            Wrapper::Hcom => self.under_hcom(line)?,
        };
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env_remove("TMUX");
        Ok(command)
    }

    /// hcom starts only programs that it knows by name, so ours gets the name of one.
    fn under_hcom(&self, line: &str) -> anyhow::Result<Command> {
        use std::os::unix::fs::PermissionsExt as _;
        let (programs, home) = (self.folder.join("programs"), self.folder.join("hcom-home"));
        std::fs::create_dir_all(&programs)?;
        std::fs::create_dir_all(&home)?;
        let program = programs.join("claude");
        std::fs::write(&program, format!("#!/bin/sh\n{line}\n"))?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(self.hcom()?);
        command.args(["pty", "claude"]).current_dir(&home);
        command.env("HOME", &home).env("HCOM_DIR", home.join(".hcom"));
        command.env("PATH", format!("{}:{path}", programs.display()));
        Ok(command)
    }

    fn tmux_server(&self) -> String {
        format!("synapse-bench-{}", std::process::id())
    }

    /// The processes of the wrapper, given the one that was started.
    pub(super) fn processes(&self, wrapper: Wrapper, started: u32) -> anyhow::Result<Vec<u32>> {
        match wrapper {
            Wrapper::Nothing => Ok(Vec::new()),
            Wrapper::Script | Wrapper::Hcom => Ok(vec![started]),
            Wrapper::Synapse => {
                let entry = self.stage.wait_for(AGENT, |_| true)?;
                Ok(vec![started, entry.pid, entry.node_pid])
            }
            Wrapper::Tmux => {
                let said = self.tmux(&["display-message", "-p", "#{pid}"])?;
                Ok(vec![started, said.trim().parse().context("the pid of the tmux server")?])
            }
        }
    }

    fn tmux(&self, args: &[&str]) -> anyhow::Result<String> {
        let server = self.tmux_server();
        let line: Vec<&str> = ["tmux", "-L", &server].into_iter().chain(args.iter().copied()).collect();
        shell::read(self.stage.home().root(), &line)
    }

    /// Stops what outlives the terminal it was started in.
    pub(super) fn end(&self, wrapper: Wrapper) -> anyhow::Result<()> {
        match wrapper {
            Wrapper::Synapse => self.stage.stop(AGENT),
            Wrapper::Tmux => self.tmux(&["kill-server"]).map(drop),
            Wrapper::Nothing | Wrapper::Script | Wrapper::Hcom => Ok(()),
        }
    }
}

fn words(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}
