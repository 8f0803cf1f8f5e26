//! What OpenCode's own server tells: which sessions work, what is asked of the person, and what was given to a session.
//!
//! Everything here comes from another program and is believed no further than a state, and that a text has arrived. Invariant: what is kept is
//! bounded, and what does not fit counts towards busy and waiting, never towards idle.
//! Not here: the connection (the node).

use crate::hooks::Text;
use crate::request::{PermissionRequest, REQUESTS_MAX, RequestSource};
use crate::rules::Sees;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Sessions, and questions, that are kept apart.
const KEPT_MAX: usize = 256;
const ID_BYTES_MAX: usize = 128;
/// Messages of the person whose text may still come.
const BEGUN_MAX: usize = 16;

/// What is going on in the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sessions {
    busy: BTreeSet<String>,
    asked: BTreeMap<String, Asked>,
    /// Messages to the model, newest first.
    begun: VecDeque<String>,
    given: Option<Given>,
    /// A session that has ended its work.
    ended: Option<String>,
}

/// Something that the person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    kind: &'static str,
    tool: String,
    command: Option<Text>,
}

/// A text that a session was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub session: String,
    pub text: String,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    properties: Properties,
}

#[derive(Default, Deserialize)]
struct Properties {
    #[serde(default, rename = "sessionID")]
    session: Option<String>,
    #[serde(default)]
    status: Option<Status>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default, rename = "requestID")]
    request: Option<String>,
    #[serde(default)]
    info: Option<Info>,
    #[serde(default)]
    part: Option<Part>,
    /// The tool that a permission is about.
    #[serde(default)]
    permission: Value,
    #[serde(default)]
    metadata: Value,
}

/// The head of a message.
#[derive(Deserialize)]
struct Info {
    id: String,
    #[serde(default)]
    role: String,
    #[serde(default, rename = "sessionID")]
    session: String,
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default, rename = "messageID")]
    message: String,
    #[serde(default, rename = "sessionID")]
    session: String,
    /// Put in by the program, such as what is in a file.
    #[serde(default)]
    synthetic: bool,
}

impl Part {
    fn is_text(&self) -> bool {
        self.kind == "text" && !self.synthetic
    }
}

#[derive(Deserialize)]
struct Message {
    info: Info,
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Session {
    id: String,
    time: Times,
}

#[derive(Deserialize)]
struct SessionHead {
    id: String,
    #[serde(default, rename = "parentID")]
    parent: Option<String>,
}

#[derive(Deserialize)]
struct Times {
    updated: f64,
}

/// Which session something happened in last, by the answer to `GET /session`.
pub fn last_session(sessions: &[u8]) -> Option<String> {
    let all: Vec<Session> = serde_json::from_slice(sessions).ok()?;
    let last = all.into_iter().max_by(|a, b| a.time.updated.total_cmp(&b.time.updated))?;
    is_plain(&last.id).then_some(last.id)
}

/// Whether the answer to `GET /session/…` is about a session that a person sees: not one that an agent of the program
/// has begun below it.
pub fn is_top_session(session: &[u8], id: &str) -> bool {
    let Ok(session) = serde_json::from_slice::<SessionHead>(session) else { return false };
    session.id == id && session.parent.is_none()
}

/// Whether an id can stand in the path of a request.
pub fn is_plain(id: &str) -> bool {
    id.len() <= ID_BYTES_MAX && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The last text of the model, by the answer to `GET /session/…/message`. None if the person said something after it:
/// then it belongs to an earlier turn.
pub fn last_answer(messages: &[u8]) -> Option<String> {
    let all: Vec<Message> = serde_json::from_slice(messages).ok()?;
    let turn = all.into_iter().rev().take_while(|message| message.info.role != "user");
    let texts = turn.map(|message| {
        let texts = message.parts.into_iter().filter(Part::is_text).map(|part| part.text);
        texts.collect::<Vec<_>>().join("\n")
    });
    texts.into_iter().find(|text| !text.trim().is_empty())
}

/// The last text that a session was given, by the answer to `GET /session/…/message`.
pub fn last_given(messages: &[u8]) -> Option<Given> {
    let all: Vec<Message> = serde_json::from_slice(messages).ok()?;
    let message = all.into_iter().rev().find(|message| message.info.role == "user")?;
    let text = message.parts.into_iter().find(Part::is_text)?.text;
    Some(Given { session: cut(message.info.session), text })
}

#[derive(Deserialize)]
struct Status {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Request {
    id: String,
    #[serde(default)]
    permission: Value,
    #[serde(default)]
    metadata: Value,
}

impl Sessions {
    /// As it is when we come: the answers to `GET /session/status`, `/permission` and `/question`.
    pub fn read(status: &[u8], permissions: &[u8], questions: &[u8]) -> Result<Self, String> {
        let bad = |what: &str, e: &serde_json::Error| format!("its {what} could not be read: {e}");
        let mut new = Self::default();
        let all: BTreeMap<String, Status> =
            serde_json::from_slice(status).map_err(|e| bad("sessions", &e))?;
        all.into_iter().for_each(|(id, status)| new.session(id, &status.kind));
        for (what, kind, bytes) in
            [("permissions", "permission", permissions), ("questions", "question", questions)]
        {
            let all: Vec<Request> = serde_json::from_slice(bytes).map_err(|e| bad(what, &e))?;
            all.into_iter().for_each(|r| new.ask(r.id, kind, &r.permission, &r.metadata));
        }
        Ok(new)
    }

    /// One event; whether it was one that matters.
    pub fn take(&mut self, event: &[u8]) -> bool {
        let Ok(Event { kind, properties }) = serde_json::from_slice::<Event>(event) else { return false };
        match (kind.as_str(), properties) {
            ("session.status", Properties { session: Some(id), status: Some(status), .. }) => {
                self.session(id, &status.kind);
            }
            ("session.idle", Properties { session: Some(id), .. }) => self.session(id, "idle"),
            ("permission.asked", Properties { id: Some(id), permission, metadata, .. }) => {
                self.ask(id, "permission", &permission, &metadata);
            }
            ("question.asked", Properties { id: Some(id), .. }) => {
                self.ask(id, "question", &Value::Null, &Value::Null);
            }
            (
                "permission.replied" | "question.replied" | "question.rejected",
                Properties { request: Some(id), .. },
            ) => drop(self.asked.remove(&cut(id))),
            ("message.updated", Properties { info: Some(info), .. }) => {
                self.begins(info);
                return false;
            }
            ("message.part.updated", Properties { part: Some(part), .. }) => {
                self.gets(part);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// What was given since this was last asked.
    pub fn given(&mut self) -> Option<Given> {
        self.given.take()
    }

    /// The session that ended its work since this was last asked, if its id can stand in a path.
    pub fn ended(&mut self) -> Option<String> {
        self.ended.take().filter(|id| is_plain(id))
    }

    fn begins(&mut self, info: Info) {
        let id = cut(info.id);
        if info.role == "user" && !self.begun.contains(&id) {
            self.begun.truncate(BEGUN_MAX - 1);
            self.begun.push_front(id);
        }
    }

    fn gets(&mut self, part: Part) {
        if part.is_text() && self.begun.contains(&cut(part.message)) {
            self.given = Some(Given { session: cut(part.session), text: part.text });
        }
    }

    fn session(&mut self, id: String, status: &str) {
        let id = cut(id);
        if status == "idle" {
            if self.busy.remove(&id) {
                self.ended = Some(id);
            }
        } else if self.busy.len() < KEPT_MAX {
            self.busy.insert(id);
        }
    }

    fn ask(&mut self, id: String, kind: &'static str, tool: &Value, metadata: &Value) {
        if self.asked.len() < KEPT_MAX {
            let command = metadata.get("command").and_then(Value::as_str);
            let command = command.map(|text| Text { bytes: text.len() as u64, text: text.into() }.cut());
            let tool = cut(tool.as_str().unwrap_or_default().to_owned());
            self.asked.insert(cut(id), Asked { kind, tool, command });
        }
    }

    /// The permissions that it asks for, as far as they are compared with its screen.
    pub fn requests(&self) -> Vec<PermissionRequest> {
        let requests = self.asked.iter().take(REQUESTS_MAX).map(|(id, asked)| PermissionRequest {
            source: RequestSource::Server,
            id: id.clone(),
            tool: asked.tool.clone(),
            command: asked.command.clone(),
        });
        requests.collect()
    }

    pub fn says(&self) -> (Sees, String) {
        if let Some(Asked { kind, .. }) = self.asked.values().next() {
            return (Sees::Waiting, format!("its server, a {kind} is asked for"));
        }
        match self.busy.len() {
            0 => (Sees::Idle, "its server, no session works".into()),
            1 => (Sees::Busy, "its server, a session works".into()),
            n => (Sees::Busy, format!("its server, {n} sessions work")),
        }
    }
}

fn cut(mut id: String) -> String {
    id.truncate(id.floor_char_boundary(ID_BYTES_MAX));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_a_turn_is_the_last_text_of_the_model() {
        let message = |role: &str, texts: &[(&str, &str)]| {
            let parts: Vec<Value> =
                texts.iter().map(|(kind, text)| serde_json::json!({ "type": kind, "text": text })).collect();
            serde_json::json!({ "info": { "id": "msg", "role": role, "sessionID": "ses_1" }, "parts": parts })
        };
        let said = |messages: &[Value]| last_answer(&serde_json::to_vec(messages).unwrap());
        let asked = message("user", &[("text", "what is it?")]);
        let first = message("assistant", &[("text", "I look."), ("tool", "")]);
        let last = message("assistant", &[("reasoning", "hm"), ("text", "It is"), ("text", "this.")]);
        assert_eq!(said(&[asked.clone(), first.clone(), last]).as_deref(), Some("It is\nthis."));
        assert_eq!(said(&[asked.clone(), first, message("assistant", &[])]).as_deref(), Some("I look."));
        assert_eq!(said(&[message("assistant", &[("text", "of before")]), asked]), None);
        assert_eq!(last_answer(b"{}"), None);
    }

    #[test]
    fn a_turn_as_the_real_one_tells_it() {
        let status = |kind: &str| {
            format!(
                r#"{{"id":"evt_1","type":"session.status","properties":{{"sessionID":"ses_1","status":{{"type":"{kind}","attempt":1}}}}}}"#
            )
        };
        let mut sessions = Sessions::read(b"{}", b"[]", b"[]").unwrap();
        for (event, sees) in [
            (r#"{"type":"server.connected","properties":{}}"#.to_owned(), Sees::Idle),
            (status("busy"), Sees::Busy),
            (r#"{"type":"permission.asked","properties":{"id":"per_1","sessionID":"ses_1","permission":"bash","metadata":{"command":"x"}}}"#.into(), Sees::Waiting),
            (r#"{"type":"permission.asked","properties":{"id":"per_2","sessionID":"ses_1"}}"#.into(), Sees::Waiting),
            (r#"{"type":"permission.replied","properties":{"sessionID":"ses_1","requestID":"per_1","reply":"once"}}"#.into(), Sees::Waiting),
            (r#"{"type":"permission.replied","properties":{"requestID":"per_2","reply":"reject"}}"#.into(), Sees::Busy),
            (r#"{"type":"question.asked","properties":{"id":"que_1"}}"#.into(), Sees::Waiting),
            (r#"{"type":"question.rejected","properties":{"requestID":"que_1"}}"#.into(), Sees::Busy),
            (status("retry"), Sees::Busy),
            (status("something new"), Sees::Busy),
            (status("idle"), Sees::Idle),
            (status("busy"), Sees::Busy),
            (r#"{"type":"session.idle","properties":{"sessionID":"ses_1"}}"#.into(), Sees::Idle),
        ] {
            sessions.take(event.as_bytes());
            assert_eq!(sessions.says().0, sees, "{event}");
        }
    }

    #[test]
    fn what_a_session_was_given_is_told_once_and_nothing_else_is() {
        let mut sessions = Sessions::default();
        let began = |id: &str, role: &str| {
            format!(
                r#"{{"type":"message.updated","properties":{{"info":{{"id":"{id}","role":"{role}","sessionID":"ses_1"}}}}}}"#
            )
        };
        let part = |message: &str, more: &str| {
            format!(
                r#"{{"type":"message.part.updated","properties":{{"part":{{"id":"p","messageID":"{message}","sessionID":"ses_1",{more}}}}}}}"#
            )
        };
        for (event, given) in [
            (began("m1", "user"), None),
            (part("m1", r#""type":"text","text":"what is in the file","synthetic":true"#), None),
            (part("m1", r#""type":"file","text":"no""#), None),
            (part("m1", r#""type":"text","text":"[A2A:1:user] hello ""#), Some("[A2A:1:user] hello ")),
            (began("m2", "assistant"), None),
            (part("m2", r#""type":"text","text":"[A2A:1:user] you said""#), None),
            (part("m3", r#""type":"text","text":"of nobody""#), None),
        ] {
            assert!(!sessions.take(event.as_bytes()), "{event}");
            assert_eq!(sessions.given().map(|given| given.text).as_deref(), given, "{event}");
        }
        for n in 0..10_000 {
            sessions.take(began(&format!("n{n}"), "user").as_bytes());
        }
        assert_eq!(sessions.begun.len(), BEGUN_MAX);
        sessions.take(part("n9999", r#""type":"text","text":"the last""#).as_bytes());
        assert_eq!(sessions.given(), Some(Given { session: "ses_1".into(), text: "the last".into() }));
    }

    #[test]
    fn what_was_given_before_we_came_is_found() {
        let sessions =
            r#"[{"id":"ses_1","time":{"created":1,"updated":3}},{"id":"ses_2","time":{"updated":7}}]"#;
        assert_eq!(last_session(sessions.as_bytes()).as_deref(), Some("ses_2"));
        for none in ["[]", "{}", "", r#"[{"id":"../x","time":{"updated":7}}]"#] {
            assert_eq!(last_session(none.as_bytes()), None, "{none}");
        }
        let message = |role: &str, parts: &str| {
            format!(r#"{{"info":{{"id":"m","role":"{role}","sessionID":"ses_2"}},"parts":[{parts}]}}"#)
        };
        let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
        let all = [
            message("user", &text("old")),
            message("user", &text("new")),
            message("assistant", &text("answer")),
        ];
        let found = last_given(format!("[{}]", all.join(",")).as_bytes());
        assert_eq!(found, Some(Given { session: "ses_2".into(), text: "new".into() }));
        assert_eq!(last_given(b"[]"), None);
    }

    #[test]
    fn session_below_another_is_not_the_one_that_a_person_sees() {
        for (answer, is_top) in [
            (r#"{"id":"ses_1","title":"x","time":{"updated":7}}"#, true),
            (r#"{"id":"ses_1","parentID":null}"#, true),
            (r#"{"id":"ses_1","parentID":"ses_0"}"#, false),
            (r#"{"id":"ses_2"}"#, false),
            ("{}", false),
            ("", false),
        ] {
            assert_eq!(is_top_session(answer.as_bytes(), "ses_1"), is_top, "{answer}");
        }
    }

    #[test]
    fn what_is_there_when_we_come_counts() {
        let says = |status: &str, permissions: &str, questions: &str| {
            Sessions::read(status.as_bytes(), permissions.as_bytes(), questions.as_bytes())
                .map(|s| s.says().0)
        };
        assert_eq!(says(r#"{"a":{"type":"busy"},"b":{"type":"idle"}}"#, "[]", "[]"), Ok(Sees::Busy));
        assert_eq!(says("{}", r#"[{"id":"p","sessionID":"a"}]"#, "[]"), Ok(Sees::Waiting));
        assert_eq!(says("{}", "[]", r#"[{"id":"q"}]"#), Ok(Sees::Waiting));
        assert!(says("[]", "[]", "[]").unwrap_err().contains("sessions"));
        assert!(says("{}", "<html>", "[]").unwrap_err().contains("permissions"));
    }

    /// More than is kept: it stays busy, and waiting, until all that was kept has ended.
    #[test]
    fn what_does_not_fit_never_makes_it_idle() {
        let mut sessions = Sessions::default();
        for n in 0..10_000 {
            let event =
                format!(r#"{{"type":"permission.asked","properties":{{"id":"{n}{}"}}}}"#, "x".repeat(1_000));
            assert!(sessions.take(event.as_bytes()));
        }
        assert!(sessions.asked.len() == KEPT_MAX && sessions.asked.keys().all(|id| id.len() <= ID_BYTES_MAX));
        assert_eq!(sessions.says().0, Sees::Waiting);
    }

    #[test]
    fn any_bytes_are_taken_or_passed_over() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut sessions = Sessions::default();
            sessions.take(bytes);
            drop((Sessions::read(bytes, bytes, bytes), last_session(bytes), last_given(bytes)));
        });
    }
}
