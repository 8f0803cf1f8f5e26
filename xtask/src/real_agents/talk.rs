//! Two real CLIs talk: the model of Codex asks Claude with a command of ours, and gets what Claude's model replied.
//!
//! Both ends are tools of the CLIs themselves, run as they run them: once without a sandbox, and once in one of
//! Codex's that lets nothing open a socket, where the outbox has to carry it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use synapse_testkit::mock_llm::{Entry, What};
use synapse_testkit::recorder::Recorder;

use super::catalog;
use super::judge::Cell;
use super::stage::{PATIENCE, Site};

/// A name for the table, what Codex is started with, and the way that its command has to take.
type Case = (&'static str, &'static [&'static str], &'static str);

const CASES: &[Case] = &[
    ("talk", &["--sandbox", "danger-full-access", "--ask-for-approval", "never"], "socket"),
    ("boxed talk", &["--sandbox", "workspace-write", "--ask-for-approval", "never"], "outbox"),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, ..)| *name)
}

/// Plays one of them.
pub(super) fn play(name: &str, synapse: &Path, agents: &Path, kept: &Path) -> Vec<Cell> {
    let case = CASES.iter().find(|(known, ..)| *known == name);
    let played = case.map(|(name, args, way)| {
        let fault = talk(synapse, agents, kept, args, way).err().map(|error| format!("{error:#}"));
        Cell::counted(name, (usize::from(fault.is_none()), 1), fault)
    });
    played.into_iter().collect()
}

/// Both of them, running in one home.
struct Pair {
    site: Site,
    codex: Recorder,
    claude: Recorder,
}

impl Pair {
    fn screens(&self) -> String {
        format!("codex:\n{}\nclaude:\n{}", self.codex.screen(), self.claude.screen())
    }

    fn wait<T>(&self, what: &str, mut find: impl FnMut(&Entry) -> Option<T>) -> anyhow::Result<T> {
        let found = self.site.mock.log().wait_for(0, PATIENCE, &mut find);
        found.with_context(|| format!("not within {} s: {what}\n{}", PATIENCE.as_secs(), self.screens()))
    }

    fn wait_idle(&self, name: &str) -> anyhow::Result<()> {
        const BETWEEN: Duration = Duration::from_millis(100);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let listed = self.site.json(&["list"])?;
            let agents = listed.as_array().cloned().unwrap_or_default();
            if agents.iter().any(|agent| agent["name"] == name && agent["state"] == "idle") {
                return Ok(());
            }
            std::thread::sleep(BETWEEN);
        }
        bail!("{name} is not idle:\n{}", self.screens())
    }
}

fn talk(synapse: &Path, agents: &Path, kept: &Path, codex_args: &[&str], way: &str) -> anyhow::Result<()> {
    let (codex, claude) = (catalog::find("codex")?, catalog::find("claude")?);
    let site = Site::new(synapse, agents, &[codex, claude], kept)?;
    // Nobody is there to allow it; all else is still asked for.
    let reply_allowed = ["--permission-mode", "default", "--allowedTools", "Bash(synapse reply:*)"];
    let claude = site.start(claude, &reply_allowed)?;
    let codex = site.start(codex, codex_args)?;
    let pair = Pair { site, codex, claude };
    let done = converse(&pair, way);
    fs::write(kept.join("screens.txt"), pair.screens())?;
    pair.site.keep_logs();
    done
}

fn converse(pair: &Pair, way: &str) -> anyhow::Result<()> {
    pair.wait_idle("claude")?;
    pair.wait_idle("codex")?;
    // What Claude's model is to do stands in what Codex's sends, as a text of its own.
    fs::write(
        pair.site.work.join("question"),
        "how many are there {{run synapse reply 'there are 4711'; say told}}",
    )?;
    let asks = "synapse send claude --file question --response --timeout 80s --json";
    pair.site.synapse(&["send", "codex", &format!("ask claude {{{{run {asks}; output}}}}")])?;
    pair.wait("the question reaches Claude's model", |entry| match &entry.what {
        What::Began { api: "messages", turn: true, parts, .. } => {
            parts.iter().any(|part| part.contains(":codex] how many are there")).then_some(())
        }
        _ => None,
    })?;
    let output = pair.wait("the answer comes back to Codex's model", |entry| match &entry.what {
        What::Began { api: "responses", turn: true, results, .. } => results.last().cloned(),
        _ => None,
    })?;
    let told = output.lines().find_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
    let told = told.or_else(|| serde_json::from_str(&output[output.find('{')?..=output.rfind('}')?]).ok());
    let told = told.with_context(|| format!("the tool of Codex printed {output:?}\n{}", pair.screens()))?;
    ensure!(told["answer"]["text"] == "there are 4711", "the tool of Codex was told {told}");
    ensure!(told["via"] == way, "it went by {}, not by {way}: {told}", told["via"]);
    pair.wait_idle("codex")?;
    pair.wait_idle("claude")
}
