//! The content of an outbox: calls that a sandboxed process cannot make itself,
//! and the answers (CLI-10).
//!
//! Not here: the files and their authentication (`synapse-store`), carrying
//! calls out (`synapse-node`).

use crate::parse;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use synapse_core::ids::AgentId;
use synapse_core::{Refusal, Timestamp};

/// One request to a node, as a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub v: u32,
    /// The id under which the answer is stored; used once.
    pub id: String,
    pub at_ms: u64,
    /// The agent that owns the outbox.
    pub agent: AgentId,
    /// The agent whose node gets the call; absent for the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    pub ask: Ask,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The last event seen, when subscribing to events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    Get,
    Post,
    /// Subscribes to a stream of lines.
    Follow,
    /// Asks which agents are on this machine, for a process that cannot see the home.
    Roll,
}

/// The body of `Ask::Roll`. An older node ignores it and returns only candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RollRequest {
    /// Return everything in the registry, and the state of each node's process.
    #[serde(default)]
    pub snapshot: bool,
}

impl Call {
    pub const VERSION: u32 = 1;
    /// The maximum age of a call; its caller has given up long before.
    pub const AGE_MS_MAX: u64 = 10 * 60 * 1000;
    /// How far the caller's clock may be ahead.
    pub const AHEAD_MS_MAX: u64 = 2 * 60 * 1000;
    pub const ID_BYTES: usize = 32;

    /// Parses a call in this agent's outbox, and checks that it belongs there and is recent.
    pub fn read(bytes: &[u8], agent: &AgentId, now: Timestamp) -> Result<Self, Refusal> {
        let call: Self = parse::json(bytes)?;
        let bad = |field: &str, why: &str| Err(Refusal::bad_field(field, why));
        if call.v > Self::VERSION {
            return bad("v", "it is of a newer version");
        }
        if call.id.len() != Self::ID_BYTES || !call.id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        {
            return bad("id", "it must be 32 hex digits");
        }
        if call.agent != *agent {
            return bad("agent", "this is the outbox of another agent");
        }
        if call.at_ms.saturating_add(Self::AGE_MS_MAX) < now.0
            || call.at_ms > now.0.saturating_add(Self::AHEAD_MS_MAX)
        {
            return bad("at_ms", "it is not fresh");
        }
        let path_fits = call.path.starts_with('/')
            && call.path.len() <= 1024
            && call.path.bytes().all(|b| b.is_ascii_graphic());
        if call.ask != Ask::Roll && !path_fits {
            return bad("path", "it is no path of ours");
        }
        Ok(call)
    }

    /// Whether repeating the call has no further effect.
    pub fn may_be_repeated(&self) -> bool {
        let has_id = || self.body.get("message_id").is_some_and(Value::is_string);
        self.ask != Ask::Post || self.path == "/message" && has_id()
    }
}

/// A piece of an answer. Frames are numbered, so that none can be left out or moved.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Frame {
    pub id: String,
    pub n: u64,
    /// Only in the first frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why no node answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call() -> Value {
        let agent = AgentId::from_bytes([1; 32]);
        json!({ "v": 1, "id": "0".repeat(32), "at_ms": 1_000_000, "agent": agent, "ask": "post", "path": "/message",
                "body": { "message": "x", "message_id": "m" } })
    }

    fn read(call: &Value) -> Result<Call, Refusal> {
        Call::read(call.to_string().as_bytes(), &AgentId::from_bytes([1; 32]), Timestamp(1_000_000))
    }

    #[test]
    fn only_what_is_meant_and_fresh_is_read() {
        assert!(read(&call()).unwrap().may_be_repeated());
        let table = [
            ("v", json!(2)),
            ("id", json!("../../../../../../../../etc/passwd")),
            ("id", json!("0".repeat(33))),
            ("agent", json!(AgentId::from_bytes([2; 32]))),
            ("at_ms", json!(1_000_000 - Call::AGE_MS_MAX - 1)),
            ("at_ms", json!(1_000_000 + Call::AHEAD_MS_MAX + 1)),
            ("at_ms", json!(u64::MAX)),
            ("path", json!("message")),
            ("path", json!("/x\r\nHost: y")),
            ("path", json!("/".repeat(1025))),
        ];
        for (field, value) in table {
            let mut wrong = call();
            wrong[field] = value;
            assert!(read(&wrong).is_err(), "{wrong}");
        }
        let old = Call::read(
            call().to_string().as_bytes(),
            &AgentId::from_bytes([1; 32]),
            Timestamp(1_000_001 + Call::AGE_MS_MAX),
        );
        assert!(old.unwrap_err().to_string().contains("not fresh"));
    }

    #[test]
    fn what_may_be_done_twice() {
        let with = |ask: &str, path: &str, body: Value| {
            let mut call = call();
            (call["ask"], call["path"], call["body"]) = (json!(ask), json!(path), body);
            read(&call).unwrap().may_be_repeated()
        };
        assert!(with("get", "/status", Value::Null) && with("follow", "/api/v1/events", Value::Null));
        assert!(!with("post", "/message", json!({ "message": "x" })));
        assert!(!with("post", "/api/v1/reply", json!({ "message_id": "m" })));
    }

    #[test]
    fn fuzz_reading_a_call_never_panics() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = Call::read(bytes, &AgentId::from_bytes([1; 32]), Timestamp(1));
            let _ = serde_json::from_slice::<Frame>(bytes);
        });
    }
}
