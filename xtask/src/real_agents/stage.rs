//! One CLI, wrapped, with its mock behind it, a person before it, and all that is needed to know what happened.
//!
//! Invariant: when it is dropped, nothing that it started is left, and its home is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use synapse_terminal::composer::Holds;
use synapse_terminal::profile::shipped;
use synapse_testkit::mock_llm::{Entry, MockLlm, Script, Step, What, now_ms};
use synapse_testkit::processes;
use synapse_testkit::pty::{Colours, Pty};
use synapse_testkit::recorder::Recorder;
use synapse_testkit::states::States;

use super::catalog::{Cli, ESCAPE, Place};
use super::judge::True;
use super::{Wish, commands_of};

/// Longer than anything takes on a machine that is busy with something else.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// As a person types.
const KEY_PAUSE: Duration = Duration::from_millis(25);
const BEFORE_ENTER: Duration = Duration::from_millis(400);

/// A home and a working folder for CLIs, a model that is none, and our commands as a person gives them.
pub(super) struct Site {
    synapse: PathBuf,
    env: Vec<(String, String)>,
    pub home: PathBuf,
    pub mock: MockLlm,
    /// Where the CLIs work.
    pub work: PathBuf,
    /// What is kept of it.
    pub kept: PathBuf,
    _living: Living,
    // Last: removed when everything in it has ended.
    _root: tempfile::TempDir,
}

impl Site {
    /// Everything that these CLIs need to start, and a model that goes by this script.
    pub fn new(
        synapse: &Path,
        agents: &Path,
        clis: &[&'static Cli],
        kept: &Path,
        script: Script,
    ) -> anyhow::Result<Self> {
        Self::working_in("work", synapse, agents, clis, kept, script)
    }

    /// The same with this folder for the CLIs to work in. It is named from the parent of the home,
    /// which is called `home`.
    pub fn working_in(
        work: &str,
        synapse: &Path,
        agents: &Path,
        clis: &[&'static Cli],
        kept: &Path,
        script: Script,
    ) -> anyhow::Result<Self> {
        let root = tempfile::Builder::new().prefix("synapse-agents-").tempdir()?;
        let base = root.path().canonicalize()?;
        let (home, work) = (base.join("home"), base.join(work));
        fs::create_dir_all(&work)?;
        fs::create_dir_all(kept).with_context(|| format!("making {}", kept.display()))?;
        let script = script.otherwise(vec![Step::Think(200), Step::Say("done".into())]);
        let mock = MockLlm::start(0, script, Some(&kept.join("mock.jsonl")))?;
        let mut path = std::env::var("PATH").unwrap_or_default();
        for folder in
            clis.iter().map(|cli| commands_of(agents, cli)).chain(synapse.parent().map(Path::to_owned))
        {
            path = format!("{}:{path}", folder.display());
        }
        let mut env: Vec<(String, String)> = [
            ("PATH", path),
            ("HOME", home.display().to_string()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "xterm-256color".into()),
            ("SYNAPSE_HOME", home.join("synapse").display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for cli in clis {
            let prepared = cli.prepare(&Place { folder: &work, port: mock.port() });
            for (name, text) in &prepared.files {
                let path = home.join(name);
                fs::create_dir_all(path.parent().unwrap_or(&home))?;
                fs::write(&path, text)?;
            }
            env.extend(prepared.env.into_iter().map(|(name, value)| (name.to_owned(), value)));
        }
        // Tools are run in login shells, and those begin with the path of the system.
        if let Some(folder) = synapse.parent() {
            fs::create_dir_all(&home)?;
            fs::write(home.join(".profile"), format!("PATH='{}':\"$PATH\"\n", folder.display()))?;
        }
        let living = Living(home.clone());
        let (synapse, kept) = (synapse.to_owned(), kept.to_owned());
        Ok(Self { synapse, env, home, mock, work, kept, _living: living, _root: root })
    }

    /// Our binary, called as a person would.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.synapse);
        command.env_clear().envs(self.env.iter().cloned()).current_dir(&self.work).stdin(Stdio::null());
        command
    }

    /// What a command that has to succeed prints.
    pub fn synapse(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.command().args(args).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let args: String = args.join(" ").chars().take(100).collect();
            bail!("`synapse {args}` ended with {}: {}{}", output.status, said.trim(), why.trim());
        }
        Ok(said)
    }

    pub fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        let said = self.synapse(&[args, &["--json"]].concat())?;
        serde_json::from_str(&said).with_context(|| format!("no JSON: {said}"))
    }

    /// Starts one in the background.
    pub fn start(&self, cli: &Cli, args: &[&str]) -> anyhow::Result<Recorder> {
        self.list_every_interface()?;
        let before = terminals_of(&self.home.join("synapse"));
        self.synapse(&[&[cli.name, "--detach", "--name", cli.name, "--"], args].concat())?;
        self.record_terminal_besides(&before)
    }

    /// Starts one in a person's terminal of this size.
    pub fn start_attached(
        &self,
        cli: &Cli,
        (columns, rows): (u16, u16),
        colours: Colours,
    ) -> anyhow::Result<(Pty, Recorder)> {
        self.list_every_interface()?;
        let before = terminals_of(&self.home.join("synapse"));
        let mut command = self.command();
        command.args([cli.name, "--name", cli.name, "--"]).args(cli.args);
        let person = Pty::coloured(&command, columns, rows, colours);
        let until = Instant::now() + PATIENCE;
        loop {
            match self.record_terminal_besides(&before) {
                Ok(recorder) => return Ok((person, recorder)),
                Err(error) if Instant::now() > until => return Err(error.context(person.text())),
                Err(_) => std::thread::sleep(KEY_PAUSE),
            }
        }
    }

    /// The official client takes gRPC only from a card that lists it, which ours does not by itself.
    fn list_every_interface(&self) -> anyhow::Result<()> {
        self.synapse(&["config", "set", "card.interfaces", r#"["jsonrpc","http","grpc"]"#]).map(drop)
    }

    /// Records the terminal that was not there before.
    fn record_terminal_besides(&self, before: &[PathBuf]) -> anyhow::Result<Recorder> {
        let now = terminals_of(&self.home.join("synapse"));
        let new = now.into_iter().find(|socket| !before.contains(socket));
        let new = new.with_context(|| format!("no terminal below {}", self.home.display()))?;
        Ok(Recorder::start(&new)?)
    }

    /// Waits until the node says that this agent is idle.
    pub fn wait_idle(&self, name: &str) -> anyhow::Result<()> {
        const BETWEEN: Duration = Duration::from_millis(100);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let listed = self.json(&["list"])?;
            let agents = listed.as_array().map_or(&[][..], Vec::as_slice);
            if agents.iter().any(|agent| agent["name"] == name && agent["state"] == "idle") {
                return Ok(());
            }
            std::thread::sleep(BETWEEN);
        }
        bail!("{name} is not idle")
    }

    /// What the registry has of an agent.
    pub fn entry(&self, name: &str) -> Option<Value> {
        let files = fs::read_dir(self.home.join("synapse/registry")).ok()?.flatten();
        let texts = files.filter_map(|file| fs::read(file.path()).ok());
        let mut entries = texts.filter_map(|text| serde_json::from_slice::<Value>(&text).ok());
        entries.find(|entry| entry["name"] == name)
    }

    /// The logs of the nodes are kept too.
    pub fn keep_logs(&self) {
        for agent in fs::read_dir(self.home.join("synapse/agents")).into_iter().flatten().flatten() {
            let name = agent.file_name().to_string_lossy().chars().take(8).collect::<String>();
            let _ = fs::copy(agent.path().join("log"), self.kept.join(format!("node-{name}.log")));
        }
    }
}

pub(super) struct Stage {
    pub cli: &'static Cli,
    pub began_ms: u64,
    pub states: States,
    pub recorder: Recorder,
    viewer: Pty,
    rows: u16,
    resize_to: Option<(u16, u16)>,
    // After what looks at it.
    pub site: Site,
}

impl Stage {
    /// Starts the CLI in a terminal of the size that is wished for, as a person would.
    pub fn begin(
        synapse: &Path,
        agents: &Path,
        cli: &'static Cli,
        kept: &Path,
        wish: &Wish,
    ) -> anyhow::Result<Self> {
        let site = Site::new(synapse, agents, &[cli], kept, Script::default())?;
        let states = States::follow(site.command(), cli.name)?;
        let began_ms = now_ms();
        let (viewer, recorder) = site.start_attached(cli, wish.size, Colours::Silent)?;
        let (rows, resize_to) = (wish.size.1, wish.resize_to);
        Ok(Self { cli, began_ms, states, recorder, viewer, rows, resize_to, site })
    }

    /// Whether the terminal is too low for its questions to be approved with a command.
    pub fn cuts_questions(&self) -> bool {
        self.rows < self.cli.approve_rows_min
    }

    /// Gives the terminal the other size, if one is wished for.
    pub fn resize(&mut self) -> bool {
        let Some((columns, rows)) = self.resize_to.take() else { return false };
        self.viewer.resize(columns, rows);
        true
    }

    /// What one key, or what stands for one, does.
    pub fn press(&mut self, keys: &str) -> u64 {
        self.recorder.typed(keys);
        self.viewer.keys(keys);
        now_ms()
    }

    /// Types, key by key.
    pub fn type_keys(&mut self, text: &str) {
        for key in text.chars() {
            self.press(key.encode_utf8(&mut [0; 4]));
            std::thread::sleep(KEY_PAUSE);
        }
    }

    /// Types a text and looks whether it is shown.
    pub fn type_text(&mut self, text: &str) -> anyhow::Result<()> {
        self.type_keys(text);
        self.is_shown(text)
    }

    fn is_shown(&self, text: &str) -> anyhow::Result<()> {
        if self.recorder.wait_until(PATIENCE, |screen| shows(screen, text)).is_none() {
            bail!("{text:?} was typed and is not shown:\n{}", self.recorder.screen());
        }
        Ok(())
    }

    /// Takes this text out of the composer again, if it is in there, key by key.
    pub fn erase_draft(&mut self, text: &str) {
        let composer = shipped(self.cli.name).and_then(|profile| profile.composer);
        let holds = composer.map(|composer| self.recorder.composer(&composer));
        if matches!(holds, Some(Holds::Text(held)) if shows(&held, text)) {
            for _ in text.chars() {
                self.press("\u{7f}");
            }
        }
    }

    /// Types a text and submits it.
    pub fn ask(&mut self, text: &str) -> anyhow::Result<Asked> {
        self.type_text(text)?;
        self.submit(text)
    }

    /// Pastes a text and submits it. Some CLIs draw their whole screen for each key.
    pub fn ask_pasted(&mut self, text: &str) -> anyhow::Result<Asked> {
        self.press(&format!("{ESCAPE}[200~{text}{ESCAPE}[201~"));
        self.is_shown(text)?;
        self.submit(text)
    }

    /// The text reaches the model; where it did not within a while, Enter is pressed again, as a person would.
    fn submit(&mut self, text: &str) -> anyhow::Result<Asked> {
        const TRIES: usize = 3;
        const A_WHILE: Duration = Duration::from_secs(20);
        let place = self.site.mock.log().len();
        std::thread::sleep(BEFORE_ENTER);
        let mut enter_ms = self.press("\r");
        for _ in 0..TRIES {
            let found = self.site.mock.log().wait_for(place, A_WHILE, |entry| match &entry.what {
                What::Began { turn: true, parts, .. } if parts.iter().any(|part| part.trim() == text) => {
                    Some(entry.at_ms)
                }
                _ => None,
            });
            if found.is_some() {
                return Ok(Asked { place, enter_ms });
            }
            if !shows(&self.recorder.screen(), text) {
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
        let found = self.site.mock.log().wait_for(place, PATIENCE, find);
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
        fs::write(self.site.kept.join("session.cast"), self.recorder.cast(self.began_ms, self.cli.name))?;
        fs::write(self.site.kept.join("session.json"), Value::Array(truth).to_string())?;
        fs::write(self.site.kept.join("states.jsonl"), states.concat())?;
        fs::write(self.site.kept.join("screen.txt"), self.recorder.screen())?;
        self.site.keep_logs();
        Ok(())
    }
}

/// Whether a text is on a screen, which may have wrapped it within a frame.
fn shows(screen: &str, text: &str) -> bool {
    let bones = |text: &str| -> String {
        text.chars().filter(|c| !c.is_whitespace() && !"│┃\u{200b}".contains(*c)).collect()
    };
    bones(screen).contains(&bones(text))
}

/// The model has been asked.
pub(super) struct Asked {
    /// Of the mock's log, before it.
    pub place: usize,
    pub enter_ms: u64,
}

/// The sockets of all terminals that there are.
fn terminals_of(home: &Path) -> Vec<PathBuf> {
    let agents = fs::read_dir(home.join("agents")).into_iter().flatten().flatten();
    agents.map(|agent| agent.path().join("term.sock")).filter(|socket| socket.exists()).collect()
}

/// Whatever runs in this home, which ends with it.
struct Living(PathBuf);

impl Drop for Living {
    fn drop(&mut self) {
        processes::end_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_text_is_shown() {
        assert!(shows("╭──╮\n│ > two   │\n│   words │", "two words"));
        assert!(!shows("> two", "two words"));
    }
}
