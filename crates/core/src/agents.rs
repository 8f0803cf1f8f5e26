//! Agents: identity, capabilities and current presence.
//!
//! The hub journals what an agent *is* (type, name, folder, capabilities), so it survives a
//! restart. How an agent *is now* (state, heartbeat, last seen) is volatile: the agent reports it
//! again after a restart.
//! Not here: which link serves an agent (`hub::links`), finding agents on disk (`synapse-store`).

use crate::ids::{AgentId, AgentType, Label, Timestamp};
use serde::{Deserialize, Serialize};

/// What is known about an agent, running or not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Agent {
    pub id: AgentId,
    #[serde(rename = "type")]
    pub kind: AgentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Label>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Agent {
    /// Returns the display name: the given name, else the short handle, else the start of the id.
    pub fn label(&self) -> String {
        match (&self.name, self.port) {
            (Some(name), _) => name.to_string(),
            (None, Some(port)) => format!("{}-{port}", self.kind),
            (None, None) => self.id.short(),
        }
    }

    pub fn handle(&self) -> Option<String> {
        self.port.map(|port| format!("synapse-{}-{port}", self.kind))
    }
}

/// What an agent says it is doing, as it last shared it (PTY-10).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Context {
    pub text: String,
    pub since: Timestamp,
    /// Set when the user shared it on behalf of the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_user: bool,
}

/// The current state of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    Starting,
    Idle,
    Busy,
    Waiting,
    Error,
    Maintenance,
    Offline,
    Unknown,
}

impl AgentState {
    pub const ALL: [Self; 8] = [
        Self::Starting,
        Self::Idle,
        Self::Busy,
        Self::Waiting,
        Self::Error,
        Self::Maintenance,
        Self::Offline,
        Self::Unknown,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
            Self::Error => "error",
            Self::Maintenance => "maintenance",
            Self::Offline => "offline",
            Self::Unknown => "unknown",
        }
    }

    /// Returns one of the three state names of `GET /status` (REST-3).
    pub fn rest_name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Error | Self::Offline => "error",
            Self::Busy | Self::Starting | Self::Waiting | Self::Unknown | Self::Maintenance => "busy",
        }
    }
}

/// The current state of an agent, the reason for it, and when it began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Presence {
    pub state: AgentState,
    pub why: String,
    pub since: Timestamp,
    pub last_seen: Timestamp,
    pub heartbeat: Option<Heartbeat>,
    /// How many messages wait for the agent's terminal, and why.
    pub mail: Option<String>,
}

impl Presence {
    pub fn new(now: Timestamp, state: AgentState, why: impl Into<String>) -> Self {
        Self { state, why: why.into(), since: now, last_seen: now, heartbeat: None, mail: None }
    }

    /// Returns the state of an agent that has not reported yet. After a restart it may be in
    /// the middle of its work.
    pub fn first(restarted: bool) -> (AgentState, &'static str) {
        match restarted {
            true => (AgentState::Unknown, "its node was just restarted"),
            false => (AgentState::Starting, "starting"),
        }
    }

    /// Updates state and reason. Returns true if either changed.
    pub fn becomes(&mut self, now: Timestamp, state: AgentState, why: String) -> bool {
        self.last_seen = now;
        if self.state == state && self.why == why {
            return false;
        }
        if self.state != state {
            self.since = now;
        }
        (self.state, self.why) = (state, why);
        true
    }
}

/// A periodic self-report of an agent; never journaled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    pub at: Timestamp,
    /// Load in thousandths, 0 to 1000.
    pub load_permille: u16,
    pub tasks_running: u32,
    pub tasks_queued: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_one_name_and_a_rest_word() {
        for state in AgentState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
            assert!(["idle", "busy", "error"].contains(&state.rest_name()));
        }
    }

    #[test]
    fn since_moves_only_when_the_state_does() {
        let mut presence = Presence::new(Timestamp(1), AgentState::Idle, "no task");
        assert!(!presence.becomes(Timestamp(2), AgentState::Idle, "no task".into()));
        assert!(presence.becomes(Timestamp(3), AgentState::Idle, "mailbox empty".into()));
        assert_eq!(presence.since, Timestamp(1));
        assert!(presence.becomes(Timestamp(4), AgentState::Busy, "task".into()));
        assert_eq!((presence.since, presence.last_seen), (Timestamp(4), Timestamp(4)));
    }
}
