//! Two real CLIs talk: the model of Codex asks Claude, and gets what Claude's model replied.
//!
//! Both ends are tools of the CLIs themselves, run as they run them: with commands of ours, once without a sandbox and
//! once in one of Codex's that lets nothing open a socket, where the outbox has to carry it; and with the tools of
//! `synapse mcp serve` alone, registered as `synapse init --mcp` does it.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use synapse_testkit::mock_llm::{Entry, Script, Step, What};
use synapse_testkit::recorder::Recorder;

use super::catalog;
use super::judge::Cell;
use super::stage::{PATIENCE, Site};

struct Case {
    /// For the table.
    name: &'static str,
    /// What Codex is started with.
    codex_args: &'static [&'static str],
    how: How,
}

enum How {
    /// With commands in a shell, and the way that they have to take.
    Commands { via: &'static str },
    /// With tools over MCP.
    Tools,
    /// Codex alone runs commands that name no agent and no task.
    Bare,
}

const CASES: &[Case] = &[
    Case {
        name: "talk",
        codex_args: &["--sandbox", "danger-full-access", "--ask-for-approval", "never"],
        how: How::Commands { via: "socket" },
    },
    Case {
        name: "boxed talk",
        codex_args: &["--sandbox", "workspace-write", "--ask-for-approval", "never"],
        how: How::Commands { via: "outbox" },
    },
    Case {
        name: "talk by tools",
        codex_args: &["--sandbox", "workspace-write", "--ask-for-approval", "never"],
        how: How::Tools,
    },
    Case {
        name: "boxed commands",
        codex_args: &["--sandbox", "workspace-write", "--ask-for-approval", "never"],
        how: How::Bare,
    },
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Plays one of them.
pub(super) fn play(name: &str, synapse: &Path, agents: &Path, kept: &Path) -> Vec<Cell> {
    let case = CASES.iter().find(|case| case.name == name);
    let played = case.map(|case| {
        let fault = talk(case, synapse, agents, kept).err().map(|error| format!("{error:#}"));
        Cell::counted(case.name, (usize::from(fault.is_none()), 1), fault)
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

    /// Waits for something in the log of the mock after this place.
    fn wait<T>(
        &self,
        place: usize,
        what: &str,
        mut find: impl FnMut(&Entry) -> Option<T>,
    ) -> anyhow::Result<T> {
        let found = self.site.mock.log().wait_for(place, PATIENCE, &mut find);
        found.with_context(|| format!("not within {} s: {what}\n{}", PATIENCE.as_secs(), self.screens()))
    }

    fn wait_idle(&self, name: &str) -> anyhow::Result<()> {
        self.site.wait_idle(name).with_context(|| self.screens())
    }

    /// What Codex's model was told by its tool, after Claude's was asked: the answer, and more.
    fn exchange(&self, place: usize) -> anyhow::Result<Value> {
        self.wait(place, "the question reaches Claude's model", |entry| match &entry.what {
            What::Began { api: "messages", turn: true, parts, .. } => {
                parts.iter().any(|part| part.contains(":codex] how many are there")).then_some(())
            }
            _ => None,
        })?;
        let output =
            self.wait(place, "the answer comes back to Codex's model", |entry| match &entry.what {
                What::Began { api: "responses", turn: true, results, .. } => results.last().cloned(),
                _ => None,
            })?;
        let told = output.lines().find_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
        let told =
            told.or_else(|| serde_json::from_str(&output[output.find('{')?..=output.rfind('}')?]).ok());
        let told = told.with_context(|| format!("the tool of Codex said {output:?}\n{}", self.screens()))?;
        ensure!(told["answer"]["text"] == "there are 4711", "the tool of Codex was told {told}");
        Ok(told)
    }
}

fn talk(case: &Case, synapse: &Path, agents: &Path, kept: &Path) -> anyhow::Result<()> {
    let (codex, claude) = (catalog::find("codex")?, catalog::find("claude")?);
    let script = if matches!(case.how, How::Tools) { calls() } else { Script::default() };
    let site = Site::new(synapse, agents, &[codex, claude], kept, script)?;
    // Nobody is there to allow it; all else is still asked for.
    let mut claude_args = vec!["--permission-mode", "default"];
    match case.how {
        How::Commands { .. } => claude_args.extend(["--allowedTools", "Bash(synapse reply:*)"]),
        How::Tools => register(&site)?,
        How::Bare => {}
    }
    let claude = site.start(claude, &claude_args)?;
    let codex = site.start(codex, case.codex_args)?;
    let pair = Pair { site, codex, claude };
    let done = match case.how {
        How::Commands { via } => with_commands(&pair, via),
        How::Tools => with_tools(&pair),
        How::Bare => bare_commands(&pair),
    };
    fs::write(kept.join("screens.txt"), pair.screens())?;
    pair.site.keep_logs();
    done
}

fn with_commands(pair: &Pair, via: &str) -> anyhow::Result<()> {
    pair.wait_idle("claude")?;
    pair.wait_idle("codex")?;
    // What Claude's model is to do stands in what Codex's sends, as a text of its own.
    fs::write(
        pair.site.work.join("question"),
        "how many are there {{run synapse reply 'there are 4711'; say told}}",
    )?;
    let asks = "synapse send claude --file question --response --timeout 80s --json";
    pair.site.synapse(&["send", "codex", &format!("ask claude {{{{run {asks}; output}}}}")])?;
    let told = pair.exchange(0)?;
    ensure!(told["via"] == via, "it went by {}, not by {via}: {told}", told["via"]);
    pair.wait_idle("codex")?;
    pair.wait_idle("claude")
}

/// What each command says in the sandbox has to be about Codex, and true.
fn bare_commands(pair: &Pair) -> anyhow::Result<()> {
    const COMMANDS: &str = "exec 2>&1
        synapse list --json > list; synapse inbox > inbox; synapse share 'in a box' > share
        synapse explain claude --json > claude; synapse explain codex --json > codex
        synapse reply 'from inside'
    ";
    pair.wait_idle("claude")?;
    pair.wait_idle("codex")?;
    fs::write(pair.site.work.join("bare.sh"), COMMANDS)?;
    pair.site.synapse(&["send", "codex", "a note", "--priority", "1"])?;
    let asks = "run these {{run sh bare.sh; say done}}";
    let answer = pair.site.json(&["send", "codex", asks, "--response", "--timeout", "80s"])?;
    ensure!(answer["answer"]["text"] == "from inside", "`reply` answered {answer}\n{}", pair.screens());
    let said = |name: &str| fs::read_to_string(pair.site.work.join(name)).unwrap_or_default();
    let json = |name: &str| -> anyhow::Result<Value> {
        serde_json::from_str(&said(name)).with_context(|| format!("{name}: {:?}", said(name)))
    };
    let list = json("list")?;
    for (name, state) in [("claude", "idle"), ("codex", "busy")] {
        let row = list.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == name));
        ensure!(row.is_some_and(|row| row["state"] == state), "`list`: {name} is not {state}: {list}");
        let explained = json(name)?;
        ensure!(explained["state"] == state, "`explain`: {name} is not {state}: {explained}");
    }
    ensure!(said("inbox").contains(":user] a note"), "`inbox` said {:?}", said("inbox"));
    ensure!(said("share").contains("shared by codex"), "`share` said {:?}", said("share"));
    pair.wait_idle("codex")
}

/// What makes Codex's model call its tool.
const ASKS: &str = "let claude count";
/// What makes a model look for a tool. Claude names those of servers only to a model that asks for them, with this.
const LOOKS: &str = "look around";
const FINDER: &str = "ToolSearch";

/// Each model has one call to make, once it knows the tool.
fn calls() -> Script {
    let asks = json!({ "to": "claude", "message": "how many are there", "timeout_seconds": 80 });
    let replies = json!({ "message": "there are 4711" });
    let call = |name: &str, arguments: Value, then: Step| {
        vec![Step::Call { name: name.to_owned(), arguments }, then]
    };
    Script::default()
        .rule(":codex] how many are there", call("reply", replies, Step::Say("told".into())))
        .rule(ASKS, call("ask_agent", asks, Step::Output))
        .rule(LOOKS, call(FINDER, json!({ "query": "select:mcp__synapse__reply" }), Step::Say("seen".into())))
}

/// Both programs are told to start our tools, and Claude that it may answer with one of them.
fn register(site: &Site) -> anyhow::Result<()> {
    site.synapse(&["init", "--mcp", "claude,codex", "--user", "--yes"])?;
    let file = site.home.join(".claude/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&file)?)?;
    settings["permissions"] = json!({ "allow": ["mcp__synapse__reply"] });
    fs::write(&file, settings.to_string())?;
    Ok(())
}

fn with_tools(pair: &Pair) -> anyhow::Result<()> {
    pair.wait_idle("claude")?;
    pair.wait_idle("codex")?;
    are_offered(pair, "claude", "messages", "reply")?;
    are_offered(pair, "codex", "responses", "ask_agent")?;
    let place = pair.site.mock.log().len();
    pair.site.synapse(&["send", "codex", ASKS])?;
    pair.exchange(place)?;
    pair.wait_idle("codex")?;
    pair.wait_idle("claude")?;
    let entries = pair.site.mock.log().entries();
    let called = entries.iter().filter_map(|entry| match &entry.what {
        What::Asked { call } => Some(call.name.rsplit("__").next().unwrap_or_default().to_owned()),
        _ => None,
    });
    let called: Vec<String> = called.filter(|name| name != FINDER).collect();
    ensure!(called == ["ask_agent", "reply"], "the models called {called:?}");
    Ok(())
}

/// A CLI starts its servers in its own time, and a turn that begins before that knows nothing of their tools.
fn are_offered(pair: &Pair, name: &str, api: &str, tool: &str) -> anyhow::Result<()> {
    const TURNS_MAX: usize = 20;
    for n in 1..=TURNS_MAX {
        let place = pair.site.mock.log().len();
        pair.site.synapse(&["send", name, &format!("{LOOKS}, {n}")])?;
        let tools = pair.wait(place, &format!("a turn of {name}"), |entry| match &entry.what {
            What::Began { api: of, turn: true, tools, .. } if *of == api => Some(tools.clone()),
            _ => None,
        })?;
        pair.wait(place, &format!("the end of a turn of {name}"), |entry| {
            (entry.what == What::Ended { turn: true }).then_some(())
        })?;
        pair.wait_idle(name)?;
        if tools.iter().any(|known| known.rsplit("__").next() == Some(tool)) {
            return Ok(());
        }
    }
    bail!("{name} has not offered {tool} in {TURNS_MAX} turns:\n{}", pair.screens())
}
