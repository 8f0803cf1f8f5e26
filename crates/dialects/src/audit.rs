//! One line of the audit log: who did what, when, and with which result (REST-9).
//!
//! Message bodies are not in it, only their length and digest, unless the user enables
//! `audit.bodies`. Query strings, headers and error messages are never in it, since
//! each may contain a secret.
//!
//! Not here: the hash chain and the files (`synapse-store`'s `audit`).

use crate::time;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use synapse_core::Timestamp;
use synapse_core::ids::{AgentId, MessageId, TaskId};
use synapse_core::message::{Body, Digest, Proof};
use synapse_core::policy::Caller;

/// A text that is either a constant or was read from input.
pub type Word = Cow<'static, str>;

/// The record of one action. Fields that do not apply are absent.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct Line {
    #[serde(with = "as_text")]
    pub at: Timestamp,
    /// The label of the caller.
    pub who: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The door it came through: `http`, `stream`, `spool`, `outbox`, `hand`, `tcp` for callers
    /// refused before any request, `command` for a command while the agent did not run, or `node`
    /// for the node itself.
    pub door: Word,
    pub verb: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// An HTTP status, whatever the door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The stable code of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Word>,
    /// How long it took, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Only if the user enabled `audit.bodies`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Additional information, as free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Word>,
    /// How many similar actions were not logged separately.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

/// The id of one request: the node's start, and a counter since then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId {
    pub start: u32,
    pub count: u64,
}

impl Line {
    pub fn new(at: Timestamp, who: &Actor, door: &'static str, verb: impl Into<Word>) -> Self {
        Self {
            at,
            who: who.label.clone(),
            agent: who.agent,
            proof: who.proof,
            door: Cow::Borrowed(door),
            verb: verb.into(),
            path: None,
            target: None,
            message: None,
            task: None,
            status: None,
            code: None,
            took_us: None,
            request: None,
            bytes: None,
            digest: None,
            body: None,
            note: None,
            more: 0,
        }
    }

    pub fn is_refusal(&self) -> bool {
        self.code.is_some() || self.status.is_some_and(|status| status >= 400)
    }

    /// Appends the line as a JSON object.
    pub fn write(&self, to: &mut Vec<u8>) {
        serde_json::to_writer(to, self).expect("a line is plain data and memory takes every byte");
    }
}

/// The caller, as the log records it. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub label: Arc<str>,
    pub agent: Option<AgentId>,
    pub proof: Option<Proof>,
}

impl Actor {
    pub fn of(caller: &Caller) -> Self {
        if *caller == Caller::Stranger {
            return Self { label: "stranger".into(), agent: None, proof: None };
        }
        let label = plain(&caller.label(), LABEL_CHARS_MAX).into();
        Self { label, agent: caller.agent(), proof: Some(caller.sender().proof) }
    }

    /// Returns the actor for the node itself.
    pub fn node() -> Self {
        Self { label: "node".into(), agent: None, proof: Some(Proof::Own) }
    }
}

/// Returns the path without query and fragment, which may contain anything.
pub fn path(raw: &str) -> String {
    plain(raw.split(['?', '#']).next().unwrap_or_default(), PATH_CHARS_MAX)
}

/// Returns one word for what a request does.
// tidy: table
pub fn verb(method: &str, path: &str) -> Word {
    let known = match (method, path) {
        ("POST", "/message") => "send",
        ("POST", "/api/v1/stream") => "stream",
        ("POST", "/api/v1/reply") => "reply",
        ("POST", "/api/v1/inbox/report") => "report",
        ("POST", "/api/v1/stop") => "stop",
        ("POST", "/api/v1/shared") => "share",
        ("GET", "/api/v1/inbox/stream") => "join",
        ("GET" | "HEAD", _) => "read",
        (_, path) => grpc_operation(path).map_or("", grpc_verb),
    };
    if !known.is_empty() {
        return Cow::Borrowed(known);
    }
    // The last part of the path that is a word and not an id: `/api/v1/tasks/<id>/cancel`.
    let words = path.split(['/', ':']).rev();
    let mut words = words.filter(|word| {
        (2..=32).contains(&word.len())
            && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'-')
    });
    let word = words.next().map_or_else(|| method.to_ascii_lowercase(), str::to_owned);
    Cow::Owned(plain(&word, PATH_CHARS_MAX))
}

/// Returns the operation in a gRPC path, of A2A 1.0 or 0.3.
fn grpc_operation(path: &str) -> Option<&str> {
    path.strip_prefix("/lf.a2a.v1.A2AService/").or_else(|| path.strip_prefix("/a2a.v1.A2AService/"))
}

/// Returns the verb for an A2A operation by its gRPC name; unknown operations are `call`.
// tidy: table
fn grpc_verb(operation: &str) -> &'static str {
    match operation {
        "SendMessage" => "send",
        "SendStreamingMessage" => "stream",
        "CancelTask" => "cancel",
        "CreateTaskPushNotificationConfig" => "push",
        "DeleteTaskPushNotificationConfig" => "delete",
        "GetTask"
        | "ListTasks"
        | "SubscribeToTask"
        | "GetTaskPushNotificationConfig"
        | "ListTaskPushNotificationConfigs"
        | "GetExtendedAgentCard"
        | "TaskSubscription"
        | "ListTaskPushNotificationConfig"
        | "GetAgentCard" => "read",
        _ => "call",
    }
}

/// Whether a successful request gets its own line; other requests are only counted.
pub fn changes_state(method: &str, path: &str) -> bool {
    // Signals are frequent reports of a program's state, not actions.
    let quiet = matches!(method, "GET" | "HEAD" | "OPTIONS")
        || path == "/api/v1/signal"
        || grpc_operation(path).is_some_and(|operation| grpc_verb(operation) == "read");
    !quiet || path == "/api/v1/inbox/stream"
}

/// Limits the length of an untrusted text and removes control characters.
pub fn plain(raw: &str, chars_max: usize) -> String {
    raw.chars().filter(|c| !c.is_control()).take(chars_max).collect()
}

const LABEL_CHARS_MAX: usize = 96;
const PATH_CHARS_MAX: usize = 256;

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

mod as_text {
    use super::{Timestamp, time};
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        // Many lines fall into one millisecond, so the last text is cached.
        thread_local!(static LAST: std::cell::RefCell<(u64, String)> = const { std::cell::RefCell::new((0, String::new())) });
        LAST.with_borrow_mut(|(ms, text)| {
            if *ms != at.0 || text.is_empty() {
                (*ms, *text) = (at.0, time::show(*at));
            }
            to.serialize_str(text)
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        let raw = std::borrow::Cow::<'_, str>::deserialize(from)?;
        time::read("at", &raw).map_err(serde::de::Error::custom)
    }
}

impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}-{}", self.start, self.count)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Cow::<'_, str>::deserialize(from)?;
        let parsed = raw.split_once('-').and_then(|(start, count)| {
            Some(Self { start: u32::from_str_radix(start, 16).ok()?, count: count.parse().ok()? })
        });
        parsed.ok_or_else(|| serde::de::Error::custom("this is not the name of a request"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::message::Content;

    fn line() -> Line {
        let who = Actor::of(&Caller::User { proof: Proof::Socket });
        Line::new(Timestamp(1_763_200_000_123), &who, "http", "send")
    }

    #[test]
    fn a_line_says_no_more_than_it_has() {
        let mut bytes = Vec::new();
        line().write(&mut bytes);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            r#"{"at":"2025-11-15T09:46:40.123Z","who":"user","proof":"socket","door":"http","verb":"send"}"#
        );
    }

    #[test]
    fn a_line_comes_back_as_it_was_written() {
        let body = Body::of(&Content::text("a \"secret\"\n"));
        let whole = Line {
            agent: Some(AgentId::from_bytes([7; 32])),
            path: Some("/message".into()),
            target: Some("bo".into()),
            message: Some(MessageId::parse("m-1").unwrap()),
            task: Some(TaskId::from_bytes([3; 16])),
            status: Some(429),
            code: Some("busy".into()),
            took_us: Some(15),
            request: Some(RequestId { start: 0xab, count: 12 }),
            bytes: Some(10),
            digest: Some(body.digest()),
            body: Some(body),
            note: Some("told".into()),
            more: 3,
            ..line()
        };
        let mut bytes = Vec::new();
        whole.write(&mut bytes);
        assert!(!bytes.contains(&b'\n'));
        assert_eq!(serde_json::from_slice::<Line>(&bytes).unwrap(), whole);
        assert!(whole.is_refusal() && !line().is_refusal());
    }

    #[test]
    fn requests_have_verbs_and_paths_have_no_queries() {
        let table = [
            ("POST", "/message", "send", true),
            ("POST", "/api/v1/tasks/0f3a/cancel", "cancel", true),
            ("POST", "/tasks", "tasks", true),
            ("DELETE", "/", "delete", true),
            ("POST", "/v1/message:send", "send", true),
            ("GET", "/api/v1/inbox/stream", "join", true),
            ("GET", "/api/v1/tasks", "read", false),
            ("POST", "/\u{1b}[2J/NOT A WORD", "post", true),
            ("POST", "/lf.a2a.v1.A2AService/SendMessage", "send", true),
            ("POST", "/lf.a2a.v1.A2AService/CancelTask", "cancel", true),
            ("POST", "/lf.a2a.v1.A2AService/GetTask", "read", false),
            ("POST", "/lf.a2a.v1.A2AService/SubscribeToTask", "read", false),
            ("POST", "/lf.a2a.v1.A2AService/Nonsense", "call", true),
            ("POST", "/a2a.v1.A2AService/SendMessage", "send", true),
            ("POST", "/a2a.v1.A2AService/TaskSubscription", "read", false),
        ];
        for (method, path, expected, changes) in table {
            assert_eq!(
                (verb(method, path).as_ref(), changes_state(method, path)),
                (expected, changes),
                "{path}"
            );
        }
        assert_eq!(path("/api/v1/events?token=secret#x"), "/api/v1/events");
        assert_eq!(path(&"/x".repeat(1000)).len(), 256);
    }

    #[test]
    fn strangers_have_no_proof() {
        assert_eq!(Actor::of(&Caller::Stranger).proof, None);
        let loud = Caller::Agent {
            id: AgentId::from_bytes([1; 32]),
            label: "a\u{1b}]0;x\u{7}".repeat(50),
            role: None,
            proof: Proof::Spool,
        };
        let told = Actor::of(&loud);
        assert!(told.label.chars().count() == 96 && !told.label.contains('\u{1b}'), "{}", told.label);
    }

    #[test]
    fn fuzz_reading_a_line_never_panics() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = serde_json::from_slice::<Line>(bytes);
        });
        bolero::check!().with_type::<(String, String)>().for_each(|(method, raw)| {
            let shown = path(raw);
            assert!(
                shown.chars().count() <= 256 && !shown.contains('?') && !shown.chars().any(char::is_control)
            );
            assert!(verb(method, raw).chars().count() <= 256);
        });
    }
}
