//! `synapse explain`: why an agent, a task or a message is where it is, and what to do next (CLI-11).

mod details;
mod page;
mod recording;
mod terminal;

use super::Calling;
use super::elsewhere::{self, Called};
use super::facts::{self, AgentFacts};
use super::reason::{self, Reason};
use super::status::{self, Wanted};
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::show;
use clap::Args;
use serde::Serialize;
use std::time::Duration;
use synapse_core::Timestamp;
use synapse_core::ids::{AgentId, MessageId, TaskRef};
use synapse_core::settings::Limits;
use synapse_dialects::api::{ReceiptView, TaskView};
use synapse_dialects::terminal::{PromptView, TerminalView};
use synapse_dialects::time;
use synapse_node::post::SpoolLetter;
use synapse_store::notified::NotifierResult;
use synapse_store::spool::{Found, Spool};

#[derive(Args)]
pub(super) struct Explain {
    /// Agent, task or message; also a remote, its task (`name/id`) or a URL
    #[arg(required_unless_present = "recording", value_name = "AGENT|TASK|MESSAGE")]
    what: Option<String>,
    /// Remote or URL that has the task
    #[arg(long, value_name = "REMOTE", requires = "what")]
    remote: Option<String>,
    /// Explain the states in this recording (asciinema cast) instead
    #[arg(long, value_name = "CAST", conflicts_with = "what")]
    recording: Option<std::path::PathBuf>,
    /// Profile name or .yaml file [default: from the recording's name]
    #[arg(long, requires = "recording")]
    profile: Option<String>,
    /// Show all signals at this second of the recording
    #[arg(long, value_name = "SECONDS", requires = "recording")]
    at: Option<f64>,
}

/// All of it; stable.
#[derive(Serialize)]
struct Explained {
    /// `agent`, `task` or `message`.
    kind: &'static str,
    agent: String,
    agent_id: AgentId,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    /// Whether HTTP callers get through to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    port_open: Option<bool>,
    /// What the agent says it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<synapse_dialects::share::ContextView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    state: String,
    /// Where the state comes from.
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(flatten)]
    reason: Reason,
    waiting: Vec<Waits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<synapse_dialects::api::PlaceView>,
    timeline: Vec<Happened>,
    /// Of an agent in a terminal: every signal, and which of them decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal: Option<TerminalView>,
    /// Of one without a terminal: what it waits for a person to decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<PromptView>,
    /// What came of the last command that notified the user of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    notified: Option<NotifierResult>,
    rules: Vec<String>,
    /// Who the agent is, where it is, and its open tasks.
    #[serde(flatten)]
    details: Option<details::Details>,
}

/// A message in front of whatever comes next.
#[derive(Serialize)]
struct Waits {
    task_id: String,
    from: String,
    /// The inner level, 1 to 10.
    priority: u8,
    /// As `--priority` takes it, 1 to 5.
    send_priority: u8,
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

/// One line of what happened, and how long after the line before.
#[derive(Debug, PartialEq, Serialize)]
struct Happened {
    at: String,
    after_ms: u64,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) async fn explain(args: Explain, calling: &Calling, json: bool) -> Done {
    if let Some(file) = &args.recording {
        return recording::explain(file, args.profile.as_deref(), args.at, json);
    }
    let roll = Roll::call()?;
    let what = args.what.as_deref().unwrap_or_default();
    if let Some((there, task)) = elsewhere::of_task(what, args.remote.as_deref(), calling, &roll).await? {
        return elsewhere::show::task(&there, &task, Wanted::Explanation, json).await;
    }
    match Called::by(what, calling, &roll).await? {
        Called::Node(there) => return status::of_there(&there, Wanted::Explanation, json).await,
        Called::Agent(there) => return elsewhere::show::status(&there, Wanted::Explanation, json).await,
        Called::Here => {}
    }
    let explained = find(&roll, what).await?;
    if json {
        show::json(&explained);
    } else {
        show::out(&page::page(&explained, synapse_node::driver::now().0));
    }
    Ok(())
}

async fn find(roll: &Roll, raw: &str) -> Result<Explained, Fail> {
    let unknown = match roll.find_one(raw) {
        Ok(one) => {
            let facts = facts::gather(roll, &one.id, facts::PATIENCE).await;
            let notified = NotifierResult::load(&roll.home.agent(&one.id));
            let details = Some(details::Details::of(roll, &facts));
            return Ok(Explained { notified, details, ..of_agent(&facts) });
        }
        Err(unknown) => unknown,
    };
    if let Ok(name) = TaskRef::parse(raw) {
        match roll.node_of_task(&name).await {
            Ok((id, view)) => return Ok(of_task(roll, &id, view, None).await),
            Err(fail) if fail.info.code == "no_such_task" => {}
            Err(fail) => return Err(fail),
        }
    }
    if let Ok(id) = MessageId::parse(raw) {
        for entry in &roll.scan.agents {
            let Ok(mut client) = roll.connect(&entry.agent_id).await else { continue };
            let Ok(receipt) = client.get::<ReceiptView>(&format!("/api/v1/receipts/{raw}")).await else {
                continue;
            };
            let view = client.get::<TaskView>(&format!("/api/v1/tasks/{}", receipt.task_id)).await?;
            return Ok(of_task(roll, &entry.agent_id, view, Some(receipt)).await);
        }
        for known in &roll.known {
            if let Some(place) = on_disk(roll, &known.id, &id) {
                return Ok(of_kept(&facts::gather(roll, &known.id, facts::PATIENCE).await, raw, place));
            }
        }
    }
    let mut fail = unknown;
    fail.info.message =
        format!("{}; and no task or message has this id at an agent that runs", fail.info.message);
    Err(fail)
}

/// Where a message for an agent that does not run is: the most recent letters of its spool, or its journal.
fn on_disk(roll: &Roll, agent: &AgentId, id: &MessageId) -> Option<&'static str> {
    let dir = roll.home.agent(agent);
    let letters = Spool::open(&dir.spool()).and_then(|spool| spool.take()).unwrap_or_default();
    let is_it = |found: &Found| match found {
        Found::Letter { name, bytes } => {
            let letter = serde_json::from_slice::<SpoolLetter>(bytes).ok();
            let own = letter.and_then(|letter| letter.request.message_id);
            own.as_deref().unwrap_or(name.as_str()) == id.as_str()
        }
        Found::Bad { .. } => false,
    };
    if letters.iter().any(is_it) {
        return Some("its spool");
    }
    if !dir.journal().exists() {
        return None;
    }
    let history = synapse_store::History::open(&dir.journal()).ok()?;
    let key = synapse_core::message::Key {
        who: synapse_core::message::Who::User,
        tenant: None,
        message: id.clone(),
    };
    let known =
        history.message(id).ok().flatten().or_else(|| history.message_by_key(&key.text()).ok().flatten());
    known.map(|_| "its journal")
}

fn of_agent(facts: &AgentFacts) -> Explained {
    let now = synapse_node::driver::now().0;
    let mut explained = blank("agent", facts, reason::of_agent(facts, now));
    let Ok(node) = &facts.node else {
        // What its node said last is in the registry, which a sandbox may still show.
        if let (Some(_), Some(entry)) = (&facts.unasked, &facts.entry) {
            entry.status.name().clone_into(&mut explained.state);
            explained.why.clone_from(&entry.status_why);
            explained.since = Some(time::show(Timestamp(entry.status_since_ms)));
        }
        return explained;
    };
    explained.state.clone_from(&node.status.state);
    explained.why.clone_from(&node.status.why);
    explained.since = Some(node.status.since.clone());
    explained.terminal.clone_from(&node.terminal);
    explained.prompt = node.prompt.clone().filter(|_| node.terminal.is_none());
    explained.waiting = waiting(&node.inbox);
    explained.timeline = timeline(
        node.tasks
            .iter()
            .filter(|task| task.state != "submitted")
            .filter_map(|task| {
                let last = task.history.last()?;
                let what = format!("task {} {}", task.short_id, last.to);
                Some((last.at.clone(), what, Some(format!("{} (by {})", last.why, last.by))))
            })
            .collect(),
    );
    explained
}

fn waiting(inbox: &synapse_dialects::api::InboxPage) -> Vec<Waits> {
    let one = |message: &synapse_dialects::api::MessageView| Waits {
        task_id: message.task_id.clone(),
        from: message.from.shown(),
        priority: message.priority,
        send_priority: message.priority.div_ceil(2),
        since: message.accepted_at.clone(),
        held: message.held.clone(),
    };
    inbox.messages.iter().map(one).collect()
}

async fn of_task(roll: &Roll, id: &AgentId, view: TaskView, receipt: Option<ReceiptView>) -> Explained {
    let facts = facts::gather(roll, id, facts::PATIENCE).await;
    let by_message = receipt.is_some();
    let receipt = match (receipt, view.messages.last()) {
        (Some(receipt), _) => Some(receipt),
        (None, Some(message)) => receipt_of(roll, id, message).await,
        (None, None) => None,
    };
    let now = synapse_node::driver::now().0;
    let reason = reason::of_task(&facts, &view, receipt.as_ref(), now);
    let mut explained = blank(if by_message { "message" } else { "task" }, &facts, reason);
    explained.message_id = receipt.as_ref().map(|receipt| receipt.message_id.clone());
    explained.task_id = Some(view.task_id.clone());
    explained.state.clone_from(&view.state);
    if let Some(last) = view.history.last() {
        explained.why = format!("{} (by {})", last.why, last.by);
        explained.since = Some(last.at.clone());
    } else {
        explained.why = format!("asked for by {}", view.requester.shown());
        explained.since =
            receipt.as_ref().and_then(|receipt| receipt.trail.first()).map(|mark| mark.at.clone());
    }
    let open = !matches!(view.state.as_str(), "completed" | "failed" | "canceled" | "rejected");
    if let Ok(node) = facts.node.as_ref()
        && open
        && view.state == "submitted"
    {
        explained.waiting = waiting(&node.inbox);
        explained.waiting.truncate(
            explained
                .waiting
                .iter()
                .position(|w| w.task_id == view.task_id)
                .unwrap_or(explained.waiting.len()),
        );
    }
    let marks = receipt.iter().flat_map(|receipt| &receipt.trail);
    let marks = marks.map(|mark| (mark.at.clone(), mark.what.clone(), mark.why.clone()));
    let moves = view.history.iter();
    let moves = moves
        .map(|to| (to.at.clone(), format!("task {}", to.to), Some(format!("{} (by {})", to.why, to.by))));
    explained.timeline = timeline(marks.chain(moves).collect());
    explained.place = receipt.and_then(|receipt| receipt.place);
    explained
}

async fn receipt_of(roll: &Roll, id: &AgentId, message: &str) -> Option<ReceiptView> {
    roll.connect(id).await.ok()?.get(&format!("/api/v1/receipts/{message}")).await.ok()
}

fn of_kept(facts: &AgentFacts, message: &str, place: &str) -> Explained {
    let reason = reason::of_agent(facts, synapse_node::driver::now().0);
    let mut explained = blank("message", facts, reason);
    explained.message_id = Some(message.to_owned());
    "kept".clone_into(&mut explained.state);
    explained.why = format!("it is in {place}, on disk");
    explained
}

fn blank(kind: &'static str, facts: &AgentFacts, reason: Reason) -> Explained {
    Explained {
        kind,
        agent: facts.label.clone(),
        agent_id: facts.id,
        running: facts.held,
        port: facts.entry.as_ref().map(|entry| entry.port),
        port_open: facts.port_open,
        context: facts.node.as_ref().ok().and_then(|node| node.shared.as_ref()?.context.clone()),
        task_id: None,
        message_id: None,
        state: if facts.held { "unknown".into() } else { "offline".into() },
        why: facts.node.as_ref().err().cloned().unwrap_or_default(),
        since: None,
        reason,
        waiting: Vec::new(),
        place: None,
        timeline: Vec::new(),
        terminal: None,
        prompt: None,
        notified: None,
        rules: rules(),
        details: None,
    }
}

/// What holds for every message from here.
fn rules() -> Vec<String> {
    let limits = Limits::default();
    let folder = std::env::current_dir().unwrap_or_default();
    let loaded = synapse_store::home::Home::from_env().ok().and_then(|home| {
        synapse_settings::load(&synapse_settings::Places::here(home.root(), &folder)).faultless().ok()
    });
    let flow = match &loaded {
        Some(loaded) => {
            let place = loaded.origin("a2a.flow").place().unwrap_or_else(|| "the default".to_owned());
            format!("{} ({place})", loaded.settings.a2a.flow.name())
        }
        None => "not readable; see `synapse config show`".to_owned(),
    };
    vec![
        format!("a2a.flow here: {flow}"),
        format!(
            "loop guard: at most {} messages a minute from one agent to another, the same text {} times in ten \
             minutes, {} hops",
            limits.pair_per_minute_max, limits.repeats_max, limits.hops_max
        ),
        format!(
            "delivery: {} tries, each under a lease of {} seconds; then it is a dead letter",
            limits.tries_max,
            limits.lease_ms / 1000
        ),
        "rights: agents may send, read, interrupt and answer for themselves; stopping needs the user"
            .to_owned(),
    ]
}

fn timeline(mut all: Vec<(String, String, Option<String>)>) -> Vec<Happened> {
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let ms = |at: &str| time::read("at", at).map_or(0, |at| at.0);
    let mut before = all.first().map_or(0, |(at, ..)| ms(at));
    let line = |(at, what, why): (String, String, Option<String>)| {
        let now = ms(&at);
        let after_ms = now.saturating_sub(std::mem::replace(&mut before, now));
        Happened { at, after_ms, what, why }
    };
    all.into_iter().map(line).collect()
}

/// In one line, why a task has no answer yet; for whoever waited in vain.
pub(super) async fn why_not(roll: &Roll, agent: &AgentId, task: &str) -> String {
    reason_of_task(roll, agent, task, facts::PATIENCE).await.0.line()
}

/// Why a task has no answer yet, and its state if its node tells it.
pub(super) async fn reason_of_task(
    roll: &Roll,
    agent: &AgentId,
    task: &str,
    patience: Duration,
) -> (Reason, Option<String>) {
    let facts = facts::gather(roll, agent, patience).await;
    let now = synapse_node::driver::now().0;
    let view = match roll.connect(agent).await {
        Ok(mut client) => client.get::<TaskView>(&format!("/api/v1/tasks/{task}")).await.ok(),
        Err(_) => None,
    };
    let Some(view) = view else { return (reason::of_agent(&facts, now), None) };
    let receipt = match view.messages.last() {
        Some(message) => receipt_of(roll, agent, message).await,
        None => None,
    };
    (reason::of_task(&facts, &view, receipt.as_ref(), now), Some(view.state))
}

/// The same for an agent that was expected to come to rest.
pub(super) async fn why_not_idle(roll: &Roll, agent: &AgentId) -> String {
    let facts = facts::gather(roll, agent, facts::PATIENCE).await;
    reason::of_agent(&facts, synapse_node::driver::now().0).line()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_in_order_and_tells_the_time_between() {
        let at = |s: u32| format!("2026-11-15T09:30:{s:02}.000Z");
        let told = timeline(vec![
            (at(5), "seen".into(), None),
            (at(0), "accepted".into(), None),
            (at(2), "leased".into(), Some("again".into())),
        ]);
        let short: Vec<(&str, u64)> = told.iter().map(|one| (one.what.as_str(), one.after_ms)).collect();
        assert_eq!(short, [("accepted", 0), ("leased", 2_000), ("seen", 3_000)]);
        assert_eq!(timeline(Vec::new()), []);
    }
}
