//! A temporary home with real agents in it, and the release binary to talk to them.
//!
//! Invariant: every agent started here is stopped when its home is dropped, even after a failed
//! measurement.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use synapse_core::agents::AgentState;
use synapse_store::home::Home;
use synapse_store::registry::{self, Entry};

const PATIENCE: Duration = Duration::from_secs(20);

/// Homes are named after the process that created them.
const HOME: &str = "home-";

pub(crate) struct Stage {
    home: Home,
    synapse: PathBuf,
}

impl Stage {
    pub(super) fn new(folder: &Path, synapse: PathBuf) -> anyhow::Result<Self> {
        // A run that was interrupted leaves its agents behind. Dropping their stage stops them.
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(HOME));
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                drop(Self::at(folder.join(&name), synapse.clone()));
            }
        }
        let stage = Self::at(folder.join(format!("{HOME}{}", std::process::id())), synapse);
        stage.home.ensure().context("making a home for the agents")?;
        Ok(stage)
    }

    fn at(root: PathBuf, synapse: PathBuf) -> Self {
        Self { home: Home::at(&root, root.join("registry")), synapse }
    }

    pub(super) fn synapse(&self) -> &Path {
        &self.synapse
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// A `synapse` command, ready to be started in this home.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.synapse);
        command.args(args).env("SYNAPSE_HOME", self.home.root()).current_dir(self.home.root());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    pub(super) fn must(&self, args: &[&str]) -> anyhow::Result<()> {
        let output = self.command(args).stderr(Stdio::piped()).output()?;
        if !output.status.success() {
            bail!("`synapse {}`: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// Starts an agent that would run a command for each task. It never gets one.
    pub(super) fn start(&self, name: &str) -> anyhow::Result<()> {
        self.must(&["run", "--detach", "--name", name, "--exec", "cat"])
    }

    /// Starts the built-in echo.
    pub(super) fn echo(&self, name: &str) -> anyhow::Result<Entry> {
        self.must(&["run", "--detach", "--name", name, "--echo"])?;
        self.wait_for(name, |entry| entry.status == AgentState::Idle)
    }

    /// Where `synapse keys certs make` writes its files.
    pub(super) fn certs(&self) -> PathBuf {
        self.home.root().join("certs")
    }

    /// An agent whose mailbox nobody reads: its program joined and was killed.
    pub(super) fn sink(&self, name: &str) -> anyhow::Result<Entry> {
        self.join_and_leave(name)?;
        self.wait_for(name, |entry| entry.status == AgentState::Offline)
    }

    /// Joins as `name` until the node has answered, then kills the program. Returns how long the
    /// answer took.
    pub(super) fn join_and_leave(&self, name: &str) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut command = self.command(&["join", "--name", name]);
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut hello = String::new();
        let heard = match program.stdout.take() {
            Some(out) => BufReader::new(out).read_line(&mut hello),
            None => Ok(0),
        };
        let took = began.elapsed();
        program.kill()?;
        program.wait()?;
        if heard? == 0 {
            bail!("`synapse join --name {name}` ended without a word");
        }
        Ok(took)
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        registry::scan(&self.home).agents
    }

    /// Waits until the registry entry of `name` meets the condition.
    pub(super) fn wait_for(&self, name: &str, wish: impl Fn(&Entry) -> bool) -> anyhow::Result<Entry> {
        let began = Instant::now();
        loop {
            let named = |entry: &Entry| entry.name.as_ref().is_some_and(|own| own.as_str() == name);
            let found = self.entries().into_iter().find(named);
            if let Some(entry) = found.filter(&wish) {
                return Ok(entry);
            }
            if began.elapsed() > PATIENCE {
                bail!("{name} did not come to be as wished within {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The journal of an agent. Use it only while the agent is stopped.
    pub(super) fn journal_of(&self, entry: &Entry) -> PathBuf {
        self.home.agent(&entry.agent_id).journal()
    }

    /// The user's settings file in this home.
    pub(super) fn settings_file(&self) -> PathBuf {
        self.home.root().join("settings.json")
    }

    pub(super) fn audit_of(&self, entry: &Entry) -> PathBuf {
        self.home.agent(&entry.agent_id).audit()
    }

    pub(super) fn stop(&self, name: &str) -> anyhow::Result<()> {
        self.must(&["kill", name])
    }

    pub(super) fn stop_all(&self) -> anyhow::Result<()> {
        self.must(&["kill", "--all"])
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let stopped = self.stop_all();
        if let Err(error) = stopped.and_then(|()| Ok(fs::remove_dir_all(self.home.root())?)) {
            eprintln!("{} is still there: {error:#}", self.home.root().display());
        }
    }
}
