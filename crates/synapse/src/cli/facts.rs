//! What is known of an agent right now: one look at its files, and a few questions to its node.

use super::wait;
use crate::agents::Roll;
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_dialects::api::{InboxPage, TaskView};
use synapse_dialects::share::SharedView;
use synapse_dialects::status::StatusView;
use synapse_dialects::terminal::{PromptView, TerminalView};
use synapse_peer::CallError;
use synapse_store::ended::Ended;
use synapse_store::registry::{Entry, NodeProcess, Place};
use synapse_store::spool::Spool;

/// How long a node that is between two lives is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// How long a node may take to say how it is.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

const NOT_RUNNING: &str = "it is not running";

pub struct AgentFacts {
    pub id: AgentId,
    pub label: String,
    pub entry: Option<Entry>,
    /// Whether its port on loopback takes connections; unknown if it has none.
    pub port_open: Option<bool>,
    /// Its holder lives.
    pub held: bool,
    /// The process of its node, if that is stopped.
    pub stopped: Option<u32>,
    /// Why this sandbox lets us ask no node, if it does not.
    pub unasked: Option<String>,
    /// Letters that its node has not taken in yet.
    pub spooled: usize,
    /// How its program ended, of an agent that does not run.
    pub ended: Option<Ended>,
    /// What its node says, or why it says nothing.
    pub node: Result<NodeFacts, String>,
}

pub struct NodeFacts {
    pub status: StatusView,
    pub inbox: InboxPage,
    pub tasks: Vec<TaskView>,
    pub shared: Option<SharedView>,
    /// Of an agent that has a terminal.
    pub terminal: Option<TerminalView>,
    /// What it waits for a person to decide.
    pub prompt: Option<PromptView>,
}

/// A person who looks at a list wants to know what the agent does, not by which sign that was seen; `explain` has it.
pub(super) fn why_for_people<'a>(state: &str, why: &'a str) -> &'a str {
    let is_sign = ["hook, ", "title, ", "screen, ", "status, "].iter().any(|sign| why.starts_with(sign));
    match state {
        "idle" if is_sign => "ready",
        "busy" if is_sign => "working",
        _ => why,
    }
}

pub(super) async fn gather(roll: &Roll, id: &AgentId, patience: Duration) -> AgentFacts {
    let held = roll.is_held(id);
    let spool = Spool::open(&roll.home.agent(id).spool());
    let entry = roll.scan.agents.iter().find(|entry| entry.agent_id == *id).cloned();
    let stopped = entry.as_ref().filter(|_| held).and_then(|entry| stopped_node(roll, entry));
    let node = match (held, stopped) {
        (true, None) if let Some(why) = roll.sandbox_silence() => Err(why.to_owned()),
        (true, None) => ask(roll, id, patience).await,
        (true, Some(pid)) => Err(format!("process {pid} is stopped")),
        (false, _) => Err(NOT_RUNNING.to_owned()),
    };
    // The agent may have ended while its node was asked.
    let has_ended = held && node.is_err() && !roll.is_held(id);
    let (held, node) = if has_ended { (false, Err(NOT_RUNNING.to_owned())) } else { (held, node) };
    // From a sandbox every port looks closed.
    let is_port_seen = held && stopped.is_none() && !patience.is_zero() && !roll.is_confined();
    let port_open = match &entry {
        Some(entry) if is_port_seen => Some(is_open(entry.port).await),
        _ => None,
    };
    AgentFacts {
        id: *id,
        label: roll.label(id),
        entry,
        port_open,
        held,
        stopped,
        unasked: roll.sandbox_silence().map(str::to_owned),
        spooled: spool.and_then(|spool| spool.waiting()).unwrap_or(0),
        ended: if held { None } else { Ended::load(&roll.home.agent(id)) },
        node,
    }
}

/// The process of a node that takes connections and answers none, because it is stopped.
pub(super) fn stopped_node(roll: &Roll, entry: &Entry) -> Option<u32> {
    (roll.node_process(entry, &Place::here()) == NodeProcess::Stopped).then_some(entry.node_pid)
}

async fn is_open(port: u16) -> bool {
    const LIMIT: Duration = Duration::from_secs(1);
    let connecting = tokio::net::TcpStream::connect(("127.0.0.1", port));
    matches!(tokio::time::timeout(LIMIT, connecting).await, Ok(Ok(_)))
}

async fn ask(roll: &Roll, id: &AgentId, patience: Duration) -> Result<NodeFacts, String> {
    let asked = wait::patiently(patience, async || {
        let mut client = roll.connect(id).await?.within(ANSWERS_WITHIN);
        let status: StatusView = client.get("/status").await?;
        let terminal: Option<TerminalView> = client.get("/api/v1/terminal").await.ok();
        let prompt = match &terminal {
            Some(terminal) => terminal.prompt.clone(),
            None if status.asks.is_some() => client.get("/api/v1/prompt").await.ok(),
            None => None,
        };
        Ok::<_, CallError>(NodeFacts {
            status,
            inbox: client.get("/api/v1/inbox?max=10").await?,
            tasks: client.get("/api/v1/tasks").await?,
            shared: client.get("/api/v1/shared").await.ok(),
            terminal,
            prompt,
        })
    });
    // A node that takes the connection and says nothing is not waited for either.
    match tokio::time::timeout(patience + ANSWERS_WITHIN, asked).await {
        Ok(Err(CallError::NotResponding { why })) => Err(why),
        Ok(facts) => facts.map_err(|e| e.to_string()),
        Err(_) => Err("it takes connections and does not answer".to_owned()),
    }
}
