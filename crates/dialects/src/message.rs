//! `POST /message` (PTY-7, CLI-8): the simple door for tools and scripts.
//!
//! `message` is a text, or `{role, parts}` as in A2A; parts may have `type` or the `kind`
//! of 0.3. The values in `metadata` (sender, priority, response_expected) count when the
//! plain field is absent.

use crate::{parse, time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use synapse_core::Refusal;
use synapse_core::effect::{Draft, Taken};
use synapse_core::ids::{BadId, MessageId, Seq, TaskRef};
use synapse_core::message::{Body, Chain, Content, Expects, Part, Piece, Priority};
use synapse_core::routes::Target;
use utoipa::ToSchema;

/// A message for this agent, or for `target`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct MessageRequest {
    /// Handle, name, type or id prefix; absent: the agent of this node; `broadcast`: everyone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A text, or `{role, parts: [{text | data | url | raw}]}`.
    #[schema(value_type = Object)]
    pub message: Value,
    /// 1 (note) to 5 (emergency); 3 if absent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "parse::optional_whole_number"
    )]
    #[schema(minimum = 1, maximum = 5)]
    pub priority: Option<u64>,
    /// Speak for an agent of yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Your id for this message: the same id again is the same message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_expected: Option<bool>,
    /// Continue this task (it asked for input).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// How long the agent may work on it, milliseconds.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "parse::optional_whole_number"
    )]
    pub timeout_ms: Option<u64>,
    /// When it was written (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "parse::optional_object")]
    pub chain: Option<ChainField>,
}

/// What caused this message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ChainField {
    pub correlation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_message_id: Option<String>,
    #[serde(deserialize_with = "parse::whole_number")]
    pub hops: u8,
}

impl ChainField {
    pub fn to_core(&self) -> Result<Chain, BadId> {
        Ok(Chain {
            correlation: MessageId::parse(&self.correlation_id)?,
            parent: self.parent_message_id.as_deref().map(MessageId::parse).transpose()?,
            hops: self.hops,
        })
    }
}

/// A parsed request: the draft, and the agent on whose behalf it is sent.
#[derive(Debug, Clone)]
pub struct Asked {
    pub draft: Draft,
    pub speak_for: Option<String>,
}

pub fn to_core(bytes: &[u8]) -> Result<Asked, Refusal> {
    request_to_core(parse::json(bytes)?)
}

pub fn request_to_core(request: MessageRequest) -> Result<Asked, Refusal> {
    let at = |field: &'static str| move |bad: BadId| Refusal::bad_field(field, bad.to_string());
    let mut metadata = request.metadata;
    let beside = |field: &'static str| metadata.get(field).filter(|value| !value.is_null());
    let priority = match (request.priority, beside("priority")) {
        (Some(level), _) => Priority::from_five(level).map_err(at("priority"))?,
        (None, Some(value)) => priority_beside(value)?,
        (None, None) => Priority::NORMAL,
    };
    let waits = match (request.response_expected, beside("response_expected")) {
        (Some(waits), _) => waits,
        (None, Some(Value::Bool(waits))) => *waits,
        (None, Some(_)) => {
            return Err(Refusal::bad_field("metadata.response_expected", "it must be true or false"));
        }
        (None, None) => false,
    };
    for told_elsewhere in ["priority", "response_expected", "sender"] {
        metadata.remove(told_elsewhere);
    }
    for value in metadata.values() {
        parse::not_too_deep("metadata", value)?;
    }
    let content = Content { parts: parts("message", request.message)?, metadata };
    let target = request.target.as_deref().map(Target::parse).transpose().map_err(at("target"))?;
    let draft = Draft {
        to: target.unwrap_or(Target::Here),
        sender_id: request
            .message_id
            .as_deref()
            .map(MessageId::parse)
            .transpose()
            .map_err(at("message_id"))?,
        body: Body::of(&content),
        priority,
        expects: if waits { Expects::Answer } else { Expects::Receipt },
        chain: request.chain.map(|c| c.to_core()).transpose().map_err(at("chain"))?,
        continues: request.task_id.as_deref().map(TaskRef::parse).transpose().map_err(at("task_id"))?,
        caller_task_id: None,
        context: None,
        tenant: None,
        timeout_ms: request.timeout_ms,
        sent_at: request.timestamp.as_deref().map(|raw| time::read("timestamp", raw)).transpose()?,
        watcher: None,
    };
    // Computed here, on the door's thread, to relieve the driver.
    let _ = draft.body.digest();
    Ok(Asked { draft, speak_for: request.from })
}

fn priority_beside(value: &Value) -> Result<Priority, Refusal> {
    let bad = |why: String| Refusal::bad_field("metadata.priority", why);
    let level: u64 = parse::whole_number(value).map_err(|_| bad("it must be a number, 1 to 5".to_owned()))?;
    Priority::from_five(level).map_err(|e| bad(e.to_string()))
}

/// Parses a text, or an object with parts.
pub fn parts(field: &str, value: Value) -> Result<Vec<Part>, Refusal> {
    let parts = match value {
        Value::String(text) => vec![Part::text(text)],
        Value::Object(mut object) => match object.remove("parts") {
            Some(Value::Array(list)) => list
                .into_iter()
                .enumerate()
                .map(|(n, part)| one_part(&format!("{field}.parts[{n}]"), part))
                .collect::<Result<_, _>>()?,
            _ => return Err(Refusal::bad_field(format!("{field}.parts"), "a list of parts is needed")),
        },
        _ => return Err(Refusal::bad_field(field, "it must be a text or an object with `parts`")),
    };
    let empty = parts.iter().all(|p| matches!(&p.piece, Piece::Text(text) if text.trim().is_empty()));
    if empty {
        return Err(Refusal::bad_field(field, "it is empty"));
    }
    Ok(parts)
}

fn one_part(field: &str, value: Value) -> Result<Part, Refusal> {
    let Value::Object(mut part) = value else {
        return Err(Refusal::bad_field(field, "a part must be an object"));
    };
    let kinds: Vec<&str> =
        ["text", "data", "url", "raw", "file"].into_iter().filter(|kind| part.contains_key(*kind)).collect();
    let [kind] = kinds[..] else {
        let why = format!("exactly one of text, data, url, raw, file is needed, not {}", kinds.len());
        return Err(Refusal::bad_field(field, why));
    };
    if let Some(file) = part.remove("file") {
        return one_file(&format!("{field}.file"), file);
    }
    let media_type = text_of(&mut part, field, &["mediaType", "mimeType"])?;
    let filename = text_of(&mut part, field, &["filename", "name"])?;
    let inside = part.remove(kind).unwrap_or(Value::Null);
    let piece = match (kind, inside) {
        ("data", data) => {
            parse::not_too_deep(&format!("{field}.data"), &data)?;
            Piece::Data(data)
        }
        ("text", Value::String(text)) => Piece::Text(text),
        ("url", Value::String(url)) => Piece::Url(url),
        ("raw", Value::String(base64)) => raw(&format!("{field}.raw"), base64)?,
        _ => return Err(Refusal::bad_field(format!("{field}.{kind}"), "it must be a text")),
    };
    Ok(Part { piece, media_type, filename })
}

/// Parses a file of A2A 0.3: a nested object with `uri` or `bytes`.
fn one_file(field: &str, value: Value) -> Result<Part, Refusal> {
    let Value::Object(mut file) = value else {
        return Err(Refusal::bad_field(field, "it must be an object"));
    };
    let (uri, bytes) = (text_of(&mut file, field, &["uri"])?, text_of(&mut file, field, &["bytes"])?);
    let piece = match (uri, bytes) {
        (Some(uri), None) => Piece::Url(uri),
        (None, Some(base64)) => raw(&format!("{field}.bytes"), base64)?,
        _ => return Err(Refusal::bad_field(field, "exactly one of uri, bytes is needed")),
    };
    let media_type = text_of(&mut file, field, &["mimeType", "mediaType"])?;
    Ok(Part { piece, media_type, filename: text_of(&mut file, field, &["name", "filename"])? })
}

fn raw(field: &str, base64: String) -> Result<Piece, Refusal> {
    use base64::Engine as _;
    match base64::engine::general_purpose::STANDARD.decode(&base64) {
        Ok(_) => Ok(Piece::Raw(base64)),
        Err(_) => Err(Refusal::bad_field(field, "it is not base64")),
    }
}

fn text_of(part: &mut Map<String, Value>, field: &str, names: &[&str]) -> Result<Option<String>, Refusal> {
    for name in names {
        match part.remove(*name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => return Ok(Some(text)),
            Some(_) => return Err(Refusal::bad_field(format!("{field}.{name}"), "it must be a text")),
        }
    }
    Ok(None)
}

/// The message is on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageAccepted {
    pub message_id: String,
    /// Absent while the message is in the spool of an agent that has not taken it in yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub agent_id: String,
    /// `stored`: it is on disk and survives anything. `spooled`: on disk, until the agent runs and takes it in.
    pub status: String,
    /// This very message was accepted before; nothing happens twice.
    pub duplicate: bool,
    /// How many messages leave before it.
    pub ahead: usize,
    /// Follow events after this id to miss nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<u64>,
    /// Why the agent has not taken it in yet, or why it will not be typed to its program, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl MessageAccepted {
    pub fn stored(taken: &Taken, event_id: Seq) -> Self {
        Self {
            message_id: taken.message.to_string(),
            task_id: Some(taken.task.to_string()),
            agent_id: taken.agent.to_string(),
            status: "stored".into(),
            duplicate: taken.duplicate,
            ahead: taken.ahead,
            event_id: Some(event_id.0),
            why: None,
        }
    }

    /// Returns the response for a message in the agent's spool, where its node will find it.
    pub fn spooled(message_id: String, agent_id: String, why: Option<String>) -> Self {
        Self {
            message_id,
            task_id: None,
            agent_id,
            status: "spooled".into(),
            duplicate: false,
            ahead: 0,
            event_id: None,
            why,
        }
    }
}
