//! `synapse list`: the agents on this machine. It reads the registry, so it is quick with a hundred agents. It asks only
//! the nodes of agents that the registry calls `starting`.

use super::pending::Pending;
use super::{List, facts};
use crate::agents::Roll;
use crate::fail::Done;
use crate::{remove, show};
use serde::Serialize;
use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_core::ids::AgentId;
use synapse_core::routes::Candidate;
use synapse_dialects::status::StatusView;
use synapse_dialects::time;
use synapse_store::ended::Ended;
use synapse_store::known::Known;
use synapse_store::registry::{Entry, NodeProcess, Place};
use synapse_store::remotes::Remote;
use synapse_store::spool::Spool;

/// One line of `list --json`; stable.
#[derive(Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub agent_id: String,
    pub state: String,
    pub why: String,
    /// What it waits for a person to decide.
    #[serde(flatten)]
    pub pending: Option<Pending>,
    pub since_ms: Option<u64>,
    /// What the agent says it is doing, and since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_since_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub skills: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Of its holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_version: Option<String>,
    /// Of the CLI in its terminal, and whether its profile was checked with that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_tested: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    pub folder: String,
    pub running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spooled: Option<usize>,
    /// The command that starts it again, if it is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Whether that goes on with its last conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_resumes: Option<bool>,
    /// Why it cannot be started again.
    #[serde(skip)]
    pub no_start: Option<String>,
    /// An agent elsewhere, by its name here; what its card says of it is its own word.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remote: bool,
}

impl Row {
    /// How a stopped agent is started again, or why it cannot be.
    fn how_to_start(&self) -> Option<String> {
        let Some(command) = &self.start else {
            return self.no_start.as_ref().map(|why| format!("cannot be started again: {why}"));
        };
        let fresh = command.replacen("start ", "start --fresh ", 1);
        Some(match (self.start_resumes == Some(true), self.state.as_str()) {
            // Perhaps its CLI has deleted the conversation.
            (true, "error") => {
                format!("start it again: {command}, or without its conversation: {fresh}")
            }
            (true, _) => format!("start it again: {command} (with its conversation)"),
            (false, _) => format!("start it again: {command}"),
        })
    }

    /// What it asks for, or else why it is as it is.
    fn shown_why(&self) -> &str {
        self.pending.as_ref().map_or(&self.why, |pending| &pending.asks)
    }
}

pub(super) async fn list(args: List, json: bool) -> Done {
    let mut roll = Roll::call()?;
    ask_starting(&mut roll).await;
    let roll = if json || args.plain { roll.without_place() } else { roll };
    let now = synapse_node::driver::now().0;
    let rows = rows(&roll, args.all);
    if json {
        show::json(&rows);
        return Ok(());
    }
    if args.plain {
        rows.iter().for_each(|row| show::out(&plain(row, now)));
        return Ok(());
    }
    if rows.is_empty() {
        show::out("no agent is running");
        show::out(&show::paint(
            "2",
            "start one: synapse run -d --name shout --exec 'tr a-z A-Z'   or see it work: synapse demo",
        ));
    } else {
        show::out(&table(&rows, now).join("\n"));
    }
    for hint in super::upgrade::hints(&roll) {
        show::out(&show::paint("2", &hint));
    }
    let (stopped, tries) = stopped(&roll);
    let hint = match (args.all, stopped.len(), tries.len()) {
        (false, n @ 1.., _) => format!("{n} more known but not running: synapse list --all"),
        (true, _, 1) => "1 short try not shown: synapse clean removes it".to_owned(),
        (true, _, n @ 2..) => format!("{n} short tries not shown: synapse clean removes them"),
        _ => return Ok(()),
    };
    show::out(&show::paint("2", &hint));
    Ok(())
}

/// Updates agents that the registry calls `starting`. A node writes its state there a moment after it changed, so such
/// an agent may have answered a message already.
pub(super) async fn ask_starting(roll: &mut Roll) {
    const WITHIN: Duration = Duration::from_millis(500);
    let is_starting = |entry: &&Entry| entry.status == AgentState::Starting;
    let starting: Vec<AgentId> =
        roll.scan.agents.iter().filter(is_starting).map(|entry| entry.agent_id).collect();
    let asking = async {
        for id in starting {
            let Ok(client) = roll.connect(&id).await else { continue };
            let Ok(status) = client.within(WITHIN).get::<StatusView>("/status").await else { continue };
            let entry = roll.scan.agents.iter_mut().find(|entry| entry.agent_id == id);
            let state = AgentState::ALL.into_iter().find(|state| state.name() == status.state);
            if let (Some(entry), Some(state)) = (entry, state) {
                entry.status = state;
                entry.status_why = status.why;
                entry.status_since_ms =
                    time::read("since", &status.since).map_or(entry.status_since_ms, |at| at.0);
            }
        }
    };
    // A node that does not answer leaves its agent as the registry has it.
    let _ = tokio::time::timeout(WITHIN, asking).await;
}

pub(super) fn rows(roll: &Roll, all: bool) -> Vec<Row> {
    // A node of an older version told only who is here.
    if roll.sandboxed().is_some() && roll.scan.agents.is_empty() {
        return roll
            .candidates
            .iter()
            .filter(|one| all || one.live)
            .map(|one| seen_from_sandbox(roll, one))
            .collect();
    }
    let here = Place::here();
    let mut rows: Vec<Row> = roll.scan.agents.iter().map(|entry| running(roll, entry, &here)).collect();
    if all {
        rows.extend(stopped(roll).0.into_iter().map(|known| known_only(roll, known)));
    }
    rows.extend(Remote::all(&roll.home).0.iter().map(elsewhere));
    rows.sort_by(|a, b| (!a.running, &a.name, &a.agent_id).cmp(&(!b.running, &b.name, &b.agent_id)));
    rows
}

/// The agents that do not run, and those among them that only ran for seconds and never got anything.
fn stopped(roll: &Roll) -> (Vec<&Known>, Vec<&Known>) {
    let now = synapse_node::driver::now().0;
    let runs = |known: &&Known| roll.scan.agents.iter().any(|entry| entry.agent_id == known.id);
    roll.known.iter().filter(|known| !runs(known)).partition(|known| !remove::is_short_try(roll, known, now))
}

/// Name, type, state, seconds in it, why, handle, folder, context; separated by tabs.
pub(super) fn plain(row: &Row, now: u64) -> String {
    let since = row.since_ms.map_or_else(String::new, |at| (now.saturating_sub(at) / 1000).to_string());
    let cells = [
        row.name.as_str(),
        &row.kind,
        &row.state,
        &since,
        row.shown_why(),
        row.handle.as_deref().unwrap_or_default(),
        &row.folder,
        row.context.as_deref().unwrap_or_default(),
    ];
    cells.map(|cell| show::cell(cell, usize::MAX)).join("\t")
}

/// One line for each agent, and one more for what it shares.
pub(super) fn table(rows: &[Row], now: u64) -> Vec<String> {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let since = row.since_ms.map_or_else(String::new, |at| show::ago(now.saturating_sub(at)));
            vec![
                row.name.clone(),
                row.kind.clone(),
                show::state(&row.state),
                since,
                row.pending.as_ref().map_or_else(
                    || show::cell(facts::why_for_people(&row.state, &row.why), 32),
                    |pending| pending.asks(60),
                ),
                row.handle.clone().unwrap_or_else(|| "-".into()),
                show::cell(&show::folder(&row.folder), 40),
            ]
        })
        .collect();
    let table = show::table(&["NAME", "TYPE", "STATE", "SINCE", "WHY", "HANDLE", "FOLDER"], &cells);
    let mut lines = Vec::new();
    // The head stands before the first row.
    for (n, line) in table.lines().enumerate() {
        lines.push(line.to_owned());
        let Some(row) = n.checked_sub(1).and_then(|n| rows.get(n)) else { continue };
        lines.extend(row.how_to_start().map(|line| show::paint("2", &format!("  {line}"))));
        if let Some(pending) = &row.pending {
            lines.push(show::paint("2", &format!("  {}", pending.commands())));
        }
        if let Some(context) = &row.context {
            let since = row.context_since_ms.map_or(0, |at| now.saturating_sub(at));
            let text = format!("  shares, {} ago: {}", show::ago(since), show::cell(context, 90));
            lines.push(show::paint("2", &text));
        }
        if let (Some(version), Some(false)) = (&row.cli_version, row.cli_tested) {
            lines.push(show::paint(
                "2",
                &format!("  untested version: {} {}", row.kind, show::cell(version, 40)),
            ));
        }
    }
    lines
}

fn running(roll: &Roll, entry: &Entry, here: &Place) -> Row {
    let node = roll.node_process(entry, here);
    let answers = matches!(node, NodeProcess::Runs | NodeProcess::Hidden);
    let (state, why) = match node {
        // What cannot be seen from here is what the node said last.
        NodeProcess::Runs | NodeProcess::Hidden => (entry.status, entry.status_why.clone()),
        NodeProcess::Stopped => {
            (AgentState::Unknown, format!("not responding: process {} is stopped", entry.node_pid))
        }
        // The holder lives, so a new one is on its way.
        NodeProcess::Gone => (AgentState::Unknown, "its node is being restarted".to_owned()),
    };
    let name = roll.label(&entry.agent_id);
    Row {
        pending: Pending::of_entry(&name, entry).filter(|_| answers),
        name,
        kind: entry.agent_type.to_string(),
        agent_id: entry.agent_id.to_string(),
        state: state.name().into(),
        why,
        since_ms: Some(entry.status_since_ms),
        context: entry.context.clone(),
        context_since_ms: entry.context_since_ms,
        role: entry.role.as_ref().map(ToString::to_string),
        skills: entry.capabilities.iter().map(ToString::to_string).collect(),
        handle: Some(format!("synapse-{}-{}", entry.agent_type, entry.port)),
        endpoint: Some(entry.endpoint.clone()),
        pid: Some(entry.pid),
        folder: entry.working_dir.clone(),
        running: true,
        version: Some(entry.version.clone()),
        holder_version: Some(entry.holder_version.clone()),
        cli_version: entry.cli_version.clone(),
        cli_tested: entry.cli_tested,
        spooled: None,
        start: None,
        start_resumes: None,
        no_start: None,
        remote: false,
    }
}

/// What our own node told us, where we cannot look ourselves.
fn seen_from_sandbox(roll: &Roll, one: &Candidate) -> Row {
    let state = if one.live { AgentState::Unknown } else { AgentState::Offline };
    Row {
        name: roll.label(&one.id),
        kind: one.kind.to_string(),
        agent_id: one.id.to_string(),
        state: state.name().into(),
        why: "seen from a sandbox".into(),
        pending: None,
        since_ms: None,
        context: None,
        context_since_ms: None,
        role: None,
        skills: one.capabilities.iter().map(ToString::to_string).collect(),
        handle: one.port.filter(|_| one.live).map(|port| format!("synapse-{}-{port}", one.kind)),
        version: None,
        holder_version: None,
        endpoint: None,
        pid: None,
        folder: String::new(),
        running: one.live,
        cli_version: None,
        cli_tested: None,
        spooled: None,
        start: None,
        start_resumes: None,
        no_start: None,
        remote: false,
    }
}

/// Nobody is asked: it is known by its card alone.
fn elsewhere(remote: &Remote) -> Row {
    let card = super::elsewhere::known(&remote.card).ok().map(|found| found.card);
    let skills =
        card.as_ref().map(|card| card.skills.iter().map(|skill| show::line(skill, usize::MAX)).collect());
    let name = card.as_ref().map_or("its card cannot be read", |card| &card.name);
    Row {
        name: remote.name.to_string(),
        kind: "a2a".into(),
        agent_id: remote.id().to_string(),
        state: "remote".into(),
        why: show::line(name, usize::MAX),
        pending: None,
        since_ms: Some(remote.card.fetched_ms),
        context: None,
        context_since_ms: None,
        role: None,
        skills: skills.unwrap_or_default(),
        handle: None,
        endpoint: Some(remote.url.clone()),
        pid: None,
        folder: remote.url.clone(),
        running: false,
        version: None,
        holder_version: None,
        cli_version: None,
        cli_tested: None,
        spooled: None,
        start: None,
        start_resumes: None,
        no_start: None,
        remote: true,
    }
}

fn known_only(roll: &Roll, known: &Known) -> Row {
    let dir = roll.home.agent(&known.id);
    let spooled = Spool::open(&dir.spool()).and_then(|spool| spool.waiting()).ok();
    let ended = Ended::load(&dir);
    let mut why = ended.as_ref().map_or_else(|| "not running".to_owned(), |ended| ended.why.clone());
    if let Some(n @ 1..) = spooled {
        why.push_str(&format!(", new messages: {n}"));
    }
    // From a sandbox it is not seen what an agent was started with.
    let start = roll.sandboxed().is_none().then(|| super::start::command_for(roll, known));
    let (start, start_resumes, no_start) = match start {
        Some(Ok(how)) => (Some(how.command), Some(how.resumes), None),
        Some(Err(why)) => (None, None, Some(why)),
        None => (None, None, None),
    };
    let failed = ended.as_ref().is_some_and(|ended| ended.failed);
    let state = if failed { AgentState::Error } else { AgentState::Offline };
    Row {
        name: roll.label(&known.id),
        kind: known.kind.to_string(),
        agent_id: known.id.to_string(),
        state: state.name().into(),
        why,
        pending: None,
        since_ms: ended.map(|ended| ended.at_ms),
        context: None,
        context_since_ms: None,
        role: known.role.as_ref().map(ToString::to_string),
        skills: known.capabilities.iter().map(ToString::to_string).collect(),
        handle: None,
        endpoint: None,
        pid: None,
        folder: known.working_dir.clone(),
        running: false,
        version: None,
        holder_version: None,
        cli_version: None,
        cli_tested: None,
        spooled,
        start,
        start_resumes,
        no_start,
        remote: false,
    }
}
