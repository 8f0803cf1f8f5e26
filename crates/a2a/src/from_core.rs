//! The core's tasks and events, as A2A tells them.
//!
//! A task's result is an artifact (G21); what it asks for is the message of its status; what it says on the way is the
//! message of a status that stays "working".

use crate::pb;
use crate::to_core::OWN;
use crate::wire::{timestamp, to_struct};
use pb::part::Content as Inside;
use pb::stream_response::Payload;
use serde_json::{Map, Value};
use std::sync::Arc;
use synapse_core::ids::Timestamp;
use synapse_core::message::{Body, Content, FileRef, Letter, Part, Piece};
use synapse_core::record::{Entry, Record, Said};
use synapse_core::task::{Ending, Task, TaskState};

/// The artifact that a task's answer is.
pub const ANSWER: &str = "answer";

/// All that is known of a task.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    pub task: &'a Task,
    pub ending: Option<&'a Ending>,
    /// Those that opened and continued it, oldest first.
    pub messages: &'a [(Arc<Letter>, Body)],
    pub said: &'a [Said],
    pub links: &'a FileLinks,
}

/// Where callers fetch the files of their messages: these are too large to come with each look at a task.
#[derive(Debug, Clone, Default)]
pub struct FileLinks {
    pub base: String,
    pub query: String,
}

impl FileLinks {
    fn url(&self, task: &str, file: &FileRef) -> String {
        format!("{}/{task}/{}{}", self.base, file.sha256.hex(), self.query)
    }
}

/// How much of a task is told.
#[derive(Debug, Clone, Copy)]
pub struct Much {
    /// At most so many messages; all of them if not said.
    pub history: Option<usize>,
    pub artifacts: bool,
}

pub fn task(seen: &Seen<'_>, much: Much) -> pb::Task {
    let (id, context) = (seen.task.id.to_string(), seen.task.conversation());
    let skipped = seen.messages.len().saturating_sub(much.history.unwrap_or(usize::MAX));
    let history = seen.messages[skipped..]
        .iter()
        .map(|(letter, body)| asked(letter, body, &context, seen.links))
        .collect();
    pb::Task {
        status: Some(status(seen)),
        artifacts: if much.artifacts { artifacts(seen) } else { Vec::new() },
        history,
        metadata: None,
        id,
        context_id: context,
    }
}

pub fn state(state: TaskState) -> pb::TaskState {
    match state {
        TaskState::Submitted => pb::TaskState::Submitted,
        TaskState::Working => pb::TaskState::Working,
        TaskState::InputRequired => pb::TaskState::InputRequired,
        TaskState::AuthRequired => pb::TaskState::AuthRequired,
        TaskState::Completed => pb::TaskState::Completed,
        TaskState::Failed => pb::TaskState::Failed,
        TaskState::Canceled => pb::TaskState::Canceled,
        TaskState::Rejected => pb::TaskState::Rejected,
    }
}

fn status(seen: &Seen<'_>) -> pb::TaskStatus {
    let last = seen.task.history.last();
    let state_now = seen.ending.map_or(seen.task.state, |ending| ending.state);
    let accepted = || seen.messages.first().map_or(Timestamp(0), |(letter, _)| letter.accepted_at);
    let at = last.map_or_else(accepted, |last| last.at);
    let message = match state_now {
        TaskState::InputRequired | TaskState::AuthRequired => {
            seen.task.asks.as_ref().map(|asks| said(seen.task, at, "asks", asks))
        }
        TaskState::Failed | TaskState::Canceled | TaskState::Rejected => {
            let why =
                seen.ending.map_or_else(|| last.map(|last| last.why.as_str()), |ending| Some(&ending.why));
            why.filter(|why| !why.is_empty()).map(|why| told(seen.task, at, "ended", why))
        }
        TaskState::Submitted | TaskState::Working | TaskState::Completed => None,
    };
    pb::TaskStatus { state: state(state_now).into(), message, timestamp: Some(timestamp(at)) }
}

/// What the caller said.
fn asked(letter: &Letter, body: &Body, context: &str, links: &FileLinks) -> pb::Message {
    let mut content = body.content().unwrap_or_default();
    for part in &mut content.parts {
        if let Piece::File(file) = &part.piece {
            part.piece = Piece::Url(links.url(&letter.task.to_string(), file));
        }
    }
    let own = content.metadata.remove(OWN);
    let texts = |name: &str| -> Vec<String> {
        let list = own.as_ref().and_then(|own| own.get(name)?.as_array());
        list.into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let (extensions, reference_task_ids) = (texts("extensions"), texts("referenceTaskIds"));
    pb::Message {
        message_id: letter.sender_id.as_sent(),
        context_id: context.to_owned(),
        task_id: letter.task.to_string(),
        role: pb::Role::User.into(),
        parts: parts_beside(&content, own.as_ref()),
        metadata: to_struct(content.metadata),
        extensions,
        reference_task_ids,
    }
}

/// What the agent says in a status. Its id is always the same for the same words.
fn said(task: &Task, at: Timestamp, what: &str, body: &Body) -> pb::Message {
    let mut content = body.content().unwrap_or_default();
    pb::Message {
        message_id: format!("{}-{what}-{}", task.id, at.0),
        context_id: task.conversation(),
        task_id: task.id.to_string(),
        role: pb::Role::Agent.into(),
        parts: parts(&mut content),
        metadata: to_struct(content.metadata),
        ..pb::Message::default()
    }
}

fn told(task: &Task, at: Timestamp, what: &str, text: &str) -> pb::Message {
    said(task, at, what, &Body::of(&Content::text(text)))
}

/// The parts, with what A2A has of each of them; that is no longer among the content's own.
fn parts(content: &mut Content) -> Vec<pb::Part> {
    let own = content.metadata.remove(OWN);
    parts_beside(content, own.as_ref())
}

fn parts_beside(content: &Content, own: Option<&Value>) -> Vec<pb::Part> {
    let beside = |n: usize| own?.get("parts")?.get(n.to_string())?.as_object().cloned();
    let parts = content.parts.iter().enumerate();
    parts.map(|(n, one)| part(one, beside(n).unwrap_or_default())).collect()
}

fn part(part: &Part, metadata: Map<String, Value>) -> pb::Part {
    use base64::Engine as _;
    let content = match &part.piece {
        Piece::Text(text) => Inside::Text(text.clone()),
        Piece::Url(url) => Inside::Url(url.clone()),
        Piece::Raw(base64) => {
            Inside::Raw(base64::engine::general_purpose::STANDARD.decode(base64).unwrap_or_default())
        }
        Piece::Data(data) => Inside::Data(serde_json::from_value(data.clone()).unwrap_or_default()),
        // Only messages of callers have files, and `asked` has made links of them.
        Piece::File(file) => Inside::Text(format!("sha256:{}", file.sha256.hex())),
    };
    pb::Part {
        content: Some(content),
        metadata: to_struct(metadata),
        filename: part.filename.clone().unwrap_or_default(),
        media_type: part.media_type.clone().unwrap_or_default(),
    }
}

/// What it made, pieces of one put together, and its answer at the end.
fn artifacts(seen: &Seen<'_>) -> Vec<pb::Artifact> {
    let mut all: Vec<pb::Artifact> = Vec::new();
    for one in seen.said.iter().filter_map(artifact) {
        let (artifact, append) = one;
        match all.iter_mut().find(|known| known.artifact_id == artifact.artifact_id) {
            Some(known) if append => known.parts.extend(artifact.parts),
            Some(known) => *known = artifact,
            None => all.push(artifact),
        }
    }
    all.extend(seen.ending.and_then(answer));
    all
}

/// An artifact, and whether it goes on with one of the same id.
fn artifact(said: &Said) -> Option<(pb::Artifact, bool)> {
    let Said::Artifact { id, name, content, append, .. } = said else { return None };
    let mut content = content.content().unwrap_or_default();
    let artifact = pb::Artifact {
        artifact_id: id.clone(),
        name: name.clone().unwrap_or_default(),
        parts: parts(&mut content),
        metadata: to_struct(content.metadata),
        ..pb::Artifact::default()
    };
    Some((artifact, *append))
}

fn answer(ending: &Ending) -> Option<pb::Artifact> {
    let answer = ending.answer.as_ref().filter(|_| ending.state == TaskState::Completed)?;
    let mut content = answer.content().ok()?;
    Some(pb::Artifact {
        artifact_id: ANSWER.into(),
        name: ANSWER.into(),
        parts: parts(&mut content),
        metadata: to_struct(content.metadata),
        ..pb::Artifact::default()
    })
}

/// The message that an agent answered with, if it did so without a task (S1, S14): it says of none.
pub fn direct(task: &Task, ending: &Ending) -> Option<pb::Message> {
    let body = ending.answer.as_ref().filter(|_| ending.direct)?;
    let at = task.history.last().map_or(Timestamp(0), |last| last.at);
    Some(pb::Message { task_id: String::new(), ..said(task, at, "answers", body) })
}

/// What an event means to whoever follows the task: nothing, one thing, or an answer and then the end.
pub fn updates(task: &Task, entry: &Entry) -> Vec<pb::StreamResponse> {
    let status = |state_now: TaskState, message: Option<pb::Message>| {
        Payload::StatusUpdate(pb::TaskStatusUpdateEvent {
            task_id: task.id.to_string(),
            context_id: task.conversation(),
            status: Some(pb::TaskStatus {
                state: state(state_now).into(),
                message,
                timestamp: Some(timestamp(entry.at)),
            }),
            metadata: None,
        })
    };
    let made = |artifact: pb::Artifact, append: bool, last_chunk: bool| {
        Payload::ArtifactUpdate(pb::TaskArtifactUpdateEvent {
            task_id: task.id.to_string(),
            context_id: task.conversation(),
            artifact: Some(artifact),
            append,
            last_chunk,
            metadata: None,
        })
    };
    let payloads = match &entry.record {
        Record::Moved { to, said: body, .. } => {
            let message = body.as_ref().map(|body| said(task, entry.at, "asks", body));
            vec![status(to.to, message)]
        }
        Record::Said { what: Said::Progress { text, .. }, .. } => {
            // By its place: an agent says more than one thing in a millisecond.
            let message = pb::Message {
                message_id: format!("{}-says-{}", task.id, entry.seq.0),
                ..told(task, entry.at, "says", text)
            };
            vec![status(TaskState::Working, Some(message))]
        }
        Record::Said { what: what @ Said::Artifact { last, .. }, .. } => {
            artifact(what).map(|(artifact, append)| made(artifact, append, *last)).into_iter().collect()
        }
        Record::Ended { ending, .. } => {
            let message = match ending.state {
                TaskState::Completed => None,
                _ => Some(ending.why.as_str()).filter(|why| !why.is_empty()),
            };
            let message = message.map(|why| told(task, entry.at, "ended", why));
            let answer = answer(ending).map(|artifact| made(artifact, false, true));
            answer.into_iter().chain([status(ending.state, message)]).collect()
        }
        _ => Vec::new(),
    };
    payloads.into_iter().map(|payload| pb::StreamResponse { payload: Some(payload) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::to_json;
    use serde_json::json;
    use synapse_core::ids::{AgentId, AgentType, ContextId, MessageId, Seq, TaskId};
    use synapse_core::message::{Chain, Expects, Priority, Proof, Sender};
    use synapse_core::task::Move;

    fn move_to(at: u64, to: TaskState, why: &str) -> Move {
        Move { at: Timestamp(at), to, by: "node".into(), why: why.into() }
    }

    fn some_task(state: TaskState) -> Task {
        let id = MessageId::parse("m~20~31").unwrap();
        Task {
            id: TaskId::parse("00112233445566778899aabbccddeeff").unwrap(),
            caller_id: None,
            context: Some(ContextId::parse("talk").unwrap()),
            tenant: None,
            asks: None,
            questions: Vec::new(),
            agent: AgentId::derive("host", "/w", &AgentType::parse("claude").unwrap(), None),
            requester: Sender::user(Proof::Socket),
            expects: Expects::Answer,
            state,
            messages: vec![id],
            history: vec![move_to(1_000, TaskState::Submitted, ""), move_to(2_500, state, "because")],
            timeout_ms: None,
            deadline: None,
            cancel: None,
            said_bytes: 0,
            artifacts: synapse_core::task::ArtifactCount::default(),
        }
    }

    fn some_message(task: &Task) -> (Arc<Letter>, Body) {
        let mut content = Content::text("hello");
        content
            .metadata
            .insert(OWN.into(), json!({ "referenceTaskIds": ["t1"], "parts": { "0": { "why": "x" } } }));
        content.metadata.insert("theirs".into(), json!(true));
        let body = Body::of(&content);
        let letter = Letter {
            id: task.messages[0].clone(),
            sender_id: task.messages[0].clone(),
            from: task.requester.clone(),
            to: task.agent,
            task: task.id,
            priority: Priority::NORMAL,
            expects: task.expects,
            chain: Chain { correlation: task.messages[0].clone(), parent: None, hops: 0 },
            digest: body.digest(),
            bytes: 5,
            accepted_at: Timestamp(1_000),
            follow_up: false,
            context: task.context.clone(),
            tenant: None,
        };
        (Arc::new(letter), body)
    }

    const ALL: Much = Much { history: None, artifacts: true };

    /// G11–G15, G17, G21: the parts of a task, and its answer as an artifact.
    #[test]
    fn a_completed_task() {
        let task = some_task(TaskState::Completed);
        let messages = [some_message(&task)];
        let chunk = |text: &str, append, last| Said::Artifact {
            id: "log".into(),
            name: Some("log.txt".into()),
            content: Body::of(&Content::text(text)),
            append,
            last,
        };
        let said = [
            chunk("a", false, false),
            Said::Progress { text: "on it".into(), percent: None },
            chunk("b", true, true),
        ];
        let ending = Ending {
            state: TaskState::Completed,
            by: "claude".into(),
            why: String::new(),
            answer: Some(Body::of(&Content::text("42"))),
            direct: false,
        };
        let seen = Seen {
            task: &task,
            ending: Some(&ending),
            messages: &messages,
            said: &said,
            links: &FileLinks::default(),
        };
        let told = to_json(&super::task(&seen, ALL)).unwrap();
        let id = task.id.to_string();
        assert_eq!(
            told,
            json!({
                "id": id, "contextId": "talk",
                "status": { "state": "TASK_STATE_COMPLETED", "timestamp": "1970-01-01T00:00:02.500Z" },
                "artifacts": [
                    { "artifactId": "log", "name": "log.txt", "parts": [{ "text": "a" }, { "text": "b" }] },
                    { "artifactId": "answer", "name": "answer", "parts": [{ "text": "42" }] },
                ],
                "history": [{
                    "messageId": "m 1", "contextId": "talk", "taskId": id, "role": "ROLE_USER",
                    "parts": [{ "text": "hello", "metadata": { "why": "x" } }],
                    "metadata": { "theirs": true }, "referenceTaskIds": ["t1"],
                }],
            })
        );
        // S6, T9: no more than was asked for; what was not asked for is not even empty.
        let less = super::task(&seen, Much { history: Some(0), artifacts: false });
        let less = to_json(&less).unwrap();
        assert!(less.get("history").is_none() && less.get("artifacts").is_none(), "{less}");
    }

    /// C11, E14: what it asks is the message of its status.
    #[test]
    fn a_task_that_asks_or_failed_says_what_and_why() {
        let asks = Body::of(&Content::text("which one?"));
        let task = Task { asks: Some(asks), ..some_task(TaskState::InputRequired) };
        let seen = Seen { task: &task, ending: None, messages: &[], said: &[], links: &FileLinks::default() };
        let status = super::task(&seen, ALL).status.unwrap();
        let message = status.message.unwrap();
        assert_eq!(message.role(), pb::Role::Agent);
        assert_eq!(message.parts[0].content, Some(Inside::Text("which one?".into())));
        let task = some_task(TaskState::Failed);
        let seen = Seen { task: &task, ending: None, messages: &[], said: &[], links: &FileLinks::default() };
        let message = super::task(&seen, ALL).status.unwrap().message.unwrap();
        assert_eq!(message.parts[0].content, Some(Inside::Text("because".into())));
    }

    /// S15, G18–G20: each event once, in the order of what it means.
    #[test]
    fn events() {
        let task = some_task(TaskState::Working);
        let entry = |record| Entry { seq: Seq(7), at: Timestamp(3_000), record };
        let names = |record| -> Vec<String> {
            let told = updates(&task, &entry(record));
            told.iter()
                .map(|one| {
                    let value = to_json(one).unwrap();
                    let (name, inside) = value.as_object().unwrap().iter().next().unwrap();
                    assert_eq!(
                        (&inside["taskId"], &inside["contextId"]),
                        (&json!(task.id.to_string()), &json!("talk"))
                    );
                    let state =
                        inside.pointer("/status/state").or_else(|| inside.pointer("/artifact/artifactId"));
                    format!("{name} {}", state.unwrap().as_str().unwrap())
                })
                .collect()
        };
        let moved = Record::Moved { task: task.id, to: move_to(3_000, TaskState::Working, ""), said: None };
        assert_eq!(names(moved), ["statusUpdate TASK_STATE_WORKING"]);
        let progress = Said::Progress { text: "half".into(), percent: Some(50) };
        assert_eq!(
            names(Record::Said { task: task.id, what: progress }),
            ["statusUpdate TASK_STATE_WORKING"]
        );
        let piece = Said::Artifact {
            id: "log".into(),
            name: None,
            content: Body::of(&Content::text("a")),
            append: true,
            last: false,
        };
        assert_eq!(names(Record::Said { task: task.id, what: piece }), ["artifactUpdate log"]);
        let ending = Ending {
            state: TaskState::Completed,
            by: "claude".into(),
            why: "done".into(),
            answer: Some(Body::of(&Content::text("42"))),
            direct: false,
        };
        let archive = Box::new(synapse_core::record::Archive {
            task: task.clone(),
            trails: vec![],
            dead_letter: false,
        });
        let ended = Record::Ended { task: task.id, ending, archive };
        assert_eq!(names(ended), ["artifactUpdate answer", "statusUpdate TASK_STATE_COMPLETED"]);
        let asked = synapse_core::task::CancelAsked { by: "user".into(), why: String::new() };
        assert!(names(Record::CancelAsked { task: task.id, asked }).is_empty());
    }
}
