//! One CLI, wrapped, with its mock behind it, a person before it, and all that is needed to know what happened.
//!
//! Invariant: when it is dropped, nothing that it started is left, and its home is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use synapse_testkit::mock_llm::{Entry, MockLlm, Script, What, now_ms};
use synapse_testkit::processes;
use synapse_testkit::pty::Pty;
use synapse_testkit::recorder::Recorder;
use synapse_testkit::states::States;

use super::catalog::{Cli, Place};
use super::commands_of;
use super::judge::True;

/// Longer than anything takes on a machine that is busy with something else.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// As a person types.
const KEY_PAUSE: Duration = Duration::from_millis(25);
const BEFORE_ENTER: Duration = Duration::from_millis(400);

pub(super) struct Stage {
    pub cli: &'static Cli,
    pub began_ms: u64,
    pub mock: MockLlm,
    pub states: States,
    pub recorder: Recorder,
    viewer: Pty,
    /// Where the CLI works.
    pub work: PathBuf,
    /// What is kept of it.
    kept: PathBuf,
    _living: Living,
    // Last: removed when everything in it has ended.
    _root: tempfile::TempDir,
}

impl Stage {
    /// Starts the CLI in the background and attaches to it, as a person would.
    pub fn begin(synapse: &Path, agents: &Path, cli: &'static Cli, kept: &Path) -> anyhow::Result<Self> {
        let root = tempfile::Builder::new().prefix("synapse-agents-").tempdir()?;
        let base = root.path().canonicalize()?;
        let (home, work) = (base.join("home"), base.join("work"));
        fs::create_dir_all(&work)?;
        fs::create_dir_all(kept).with_context(|| format!("making {}", kept.display()))?;
        let mock = MockLlm::start(0, Script::default(), Some(&kept.join("mock.jsonl")))?;
        let prepared = cli.prepare(&Place { folder: &work, port: mock.port() });
        for (name, text) in &prepared.files {
            let path = home.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&home))?;
            fs::write(&path, text)?;
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", commands_of(agents, cli).display());
        let command = || {
            let mut command = Command::new(synapse);
            command.env_clear().env("PATH", &path).env("HOME", &home).env("LANG", "C.UTF-8");
            command.env("TERM", "xterm-256color").env("SYNAPSE_HOME", home.join("synapse"));
            command.envs(prepared.env.iter().cloned()).current_dir(&work).stdin(Stdio::null());
            command
        };
        let living = Living(home.clone());
        let states = States::follow(command(), cli.name)?;
        let began_ms = now_ms();
        let output =
            command().args([cli.name, "--detach", "--name", cli.name, "--"]).args(cli.args).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`synapse {} --detach` ended with {}: {}", cli.name, output.status, said.trim());
        }
        let recorder = Recorder::start(&terminal_of(&home.join("synapse"))?)?;
        let mut attach = command();
        attach.args(["attach", cli.name]);
        let viewer = Pty::start(&attach, 120, 40);
        Ok(Self {
            cli,
            began_ms,
            mock,
            states,
            recorder,
            viewer,
            work,
            kept: kept.to_owned(),
            _living: living,
            _root: root,
        })
    }

    /// What one key, or what stands for one, does.
    pub fn press(&mut self, keys: &str) -> u64 {
        self.recorder.typed(keys);
        self.viewer.keys(keys);
        now_ms()
    }

    /// Types a text and looks whether it is shown.
    pub fn type_text(&mut self, text: &str) -> anyhow::Result<()> {
        for key in text.chars() {
            self.press(key.encode_utf8(&mut [0; 4]));
            std::thread::sleep(KEY_PAUSE);
        }
        if self.recorder.wait_shown(text, PATIENCE).is_none() {
            bail!("{text:?} was typed and is not shown:\n{}", self.recorder.screen());
        }
        Ok(())
    }

    /// The text reaches the model; where it did not within a while, Enter is pressed again, as a person would.
    pub fn ask(&mut self, text: &str) -> anyhow::Result<Asked> {
        const TRIES: usize = 3;
        const A_WHILE: Duration = Duration::from_secs(20);
        let place = self.mock.log().len();
        self.type_text(text)?;
        std::thread::sleep(BEFORE_ENTER);
        let mut enter_ms = self.press("\r");
        for _ in 0..TRIES {
            let found = self.mock.log().wait_for(place, A_WHILE, |entry| match &entry.what {
                What::Began { turn: true, parts, .. } if parts.iter().any(|part| part.trim() == text) => {
                    Some(entry.at_ms)
                }
                _ => None,
            });
            if found.is_some() {
                return Ok(Asked { place, enter_ms });
            }
            if !self.recorder.screen().contains(text) {
                break;
            }
            enter_ms = self.press("\r");
        }
        bail!("{text:?} did not reach the model:\n{}", self.recorder.screen())
    }

    /// Waits for something in the log of the mock.
    pub fn wait_mock<T>(
        &self,
        place: usize,
        what: &str,
        find: impl FnMut(&Entry) -> Option<T>,
    ) -> anyhow::Result<T> {
        let found = self.mock.log().wait_for(place, PATIENCE, find);
        found.with_context(|| {
            format!("not within {} s: {what}\n{}", PATIENCE.as_secs(), self.recorder.screen())
        })
    }

    pub fn wait_state(&self, state: &str, from_ms: u64) -> anyhow::Result<u64> {
        self.states.wait_for(state, from_ms, PATIENCE).with_context(|| {
            let last = self.states.all().pop();
            let last = last.map_or_else(|| "nothing".into(), |seen| format!("{} ({})", seen.state, seen.why));
            format!(
                "not within {} s: {state}; the node says {last}\n{}",
                PATIENCE.as_secs(),
                self.recorder.screen()
            )
        })
    }

    /// Writes down what a later look needs: `synapse profile test` replays the cast against the truth.
    pub fn keep(&self, truth: &[True]) -> anyhow::Result<()> {
        let seconds = |ms: u64| ms.saturating_sub(self.began_ms) as f64 / 1000.0;
        let truth: Vec<Value> = truth
            .iter()
            .map(|one| json!({ "t": seconds(one.at_ms), "state": one.state, "t_ui": seconds(one.shown_ms) }))
            .collect();
        let states: Vec<String> = self.states.all().iter().map(|seen| format!("{}\n", seen.json())).collect();
        fs::write(self.kept.join("session.cast"), self.recorder.cast(self.began_ms, self.cli.name))?;
        fs::write(self.kept.join("session.json"), Value::Array(truth).to_string())?;
        fs::write(self.kept.join("states.jsonl"), states.concat())?;
        fs::write(self.kept.join("screen.txt"), self.recorder.screen())?;
        Ok(())
    }
}

/// The model has been asked.
pub(super) struct Asked {
    /// Of the mock's log, before it.
    pub place: usize,
    pub enter_ms: u64,
}

/// The socket of the one terminal that there is.
fn terminal_of(home: &Path) -> anyhow::Result<PathBuf> {
    let agents = fs::read_dir(home.join("agents")).context("looking for the agent")?;
    let sockets = agents.flatten().map(|agent| agent.path().join("term.sock"));
    let found = sockets.into_iter().find(|socket| socket.exists());
    found.with_context(|| format!("no terminal below {}", home.display()))
}

/// Whatever runs in this home, which ends with it.
struct Living(PathBuf);

impl Drop for Living {
    fn drop(&mut self) {
        processes::end_all(&self.0);
    }
}
