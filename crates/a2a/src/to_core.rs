//! A request in the core's words.
//!
//! What A2A has and the core has not (extensions, references, metadata of single parts) travels in the metadata of the
//! content, under a name of its own, and comes back out with it.

use crate::check;
use crate::fault::{Fault, Kind};
use crate::pb;
use crate::wire::{from_struct, whole_numbers};
use pb::part::Content as Inside;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use synapse_core::effect::Draft;
use synapse_core::ids::{ContextId, MessageId, TaskId, TaskRef, Tenant};
use synapse_core::message::{Body, Content, Expects, FileRef, Part, Piece, Priority};
use synapse_core::routes::Target;
use synapse_dialects::parse;

/// Where A2A's own things are in the metadata of a content.
pub(crate) const OWN: &str = "a2a";

/// Files of a message, by the number of their part.
pub type Files = BTreeMap<usize, FileRef>;

/// Media types that an agent accepts and answers in, with `*` for any.
#[derive(Debug, Clone)]
pub struct Modes {
    pub input: Vec<String>,
    pub output: Vec<String>,
}

/// The message of a request, for this agent. The context is the caller's, if it named one.
/// Parts whose bytes were put into files have those in `files`, by their number.
pub fn draft(request: &pb::SendMessageRequest, modes: &Modes, files: &Files) -> Result<Draft, Fault> {
    let message = check::message(request)?;
    let configuration = request.configuration.as_ref();
    let accepted = configuration.map(|c| &c.accepted_output_modes[..]).unwrap_or_default();
    if !accepted.is_empty() && !accepted.iter().any(|mode| modes.output.iter().any(|own| fits(own, mode))) {
        let message = format!("this agent answers in {}; none of them is accepted", modes.output.join(", "));
        return Err(Fault {
            field: Some("configuration.acceptedOutputModes".into()),
            ..Fault::new(Kind::ContentType, message)
        });
    }
    let mut metadata = from_struct(message.metadata.as_ref());
    let priority = priority(&metadata);
    parse::not_too_deep("message.metadata", &Value::Object(metadata.clone())).map_err(|r| Fault::of(&r))?;
    let own = own_things(message);
    if !own.is_empty() {
        metadata.insert(OWN.into(), Value::Object(own));
    }
    let content = Content { parts: parts(&message.parts, modes, files)?, metadata };
    let draft = Draft {
        to: Target::Here,
        sender_id: Some(message_id(&message.message_id)?),
        body: Body::of(&content),
        priority,
        expects: Expects::Answer,
        chain: None,
        continues: task(&message.task_id)?,
        caller_task_id: None,
        context: context(&message.context_id)?,
        tenant: tenant(&request.tenant)?,
        timeout_ms: None,
        sent_at: None,
        watcher: None,
    };
    let _ = draft.body.digest();
    Ok(draft)
}

/// A word on what an agent waits for: exactly one part, which is data, and says `approve` or `deny` and of which prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub allow: bool,
    pub prompt: String,
}

pub fn decision(message: &pb::Message) -> Option<Decision> {
    let [pb::Part { content: Some(Inside::Data(data)), .. }] = &message.parts[..] else { return None };
    let Ok(Value::Object(said)) = serde_json::to_value(data) else { return None };
    let mut said = said.into_iter();
    let (Some((name, Value::String(prompt))), None) = (said.next(), said.next()) else { return None };
    match name.as_str() {
        "approve" => Some(Decision { allow: true, prompt }),
        "deny" => Some(Decision { allow: false, prompt }),
        _ => None,
    }
}

/// Callers name messages as they like; the core has fewer letters. Reversible, so that nothing meets that was apart.
pub fn message_id(raw: &str) -> Result<MessageId, Fault> {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'@' | b'+');
    let mut id = String::with_capacity(raw.len());
    for (n, byte) in raw.bytes().enumerate() {
        match plain(byte) && !(n == 0 && byte == b'.') {
            true => id.push(char::from(byte)),
            false => id.push_str(&format!("~{byte:02X}")),
        }
    }
    MessageId::parse(&id).map_err(|_| Fault::params("message.messageId", "it is longer than 128 bytes"))
}

/// A task that a message goes on with. An id that cannot be one of ours is unknown, as any other (S10).
pub fn task(raw: &str) -> Result<Option<TaskRef>, Fault> {
    if raw.is_empty() {
        return Ok(None);
    }
    task_id(raw)?;
    TaskRef::parse(raw).map(Some).map_err(|_| Fault::no_such_task(raw))
}

pub fn task_id(raw: &str) -> Result<TaskId, Fault> {
    TaskId::parse(raw).map_err(|_| Fault::no_such_task(raw))
}

pub fn context(raw: &str) -> Result<Option<ContextId>, Fault> {
    if raw.is_empty() {
        return Ok(None);
    }
    ContextId::parse(raw).map(Some).map_err(|bad| Fault::params("message.contextId", bad.to_string()))
}

/// The namespace that a request works in; none if it names none.
pub fn tenant(raw: &str) -> Result<Option<Tenant>, Fault> {
    if raw.is_empty() {
        return Ok(None);
    }
    Tenant::parse(raw).map(Some).map_err(|bad| Fault::params("tenant", bad.to_string()))
}

/// Metadata is the client's: what is not a priority of ours means something to somebody else, and says nothing here.
fn priority(metadata: &Map<String, Value>) -> Priority {
    // Every number of a Struct is a float.
    let asked = metadata.get("priority").and_then(Value::as_f64);
    let level = asked.filter(|level| (1.0..=5.0).contains(level) && level.fract() == 0.0);
    // Agents do not work on notes, and an A2A client expects an answer.
    let level = level.map(|level| (level as u64).max(2));
    level.and_then(|level| Priority::from_five(level).ok()).unwrap_or(Priority::NORMAL)
}

fn own_things(message: &pb::Message) -> Map<String, Value> {
    let mut own = Map::new();
    if !message.extensions.is_empty() {
        own.insert("extensions".into(), json!(message.extensions));
    }
    if !message.reference_task_ids.is_empty() {
        own.insert("referenceTaskIds".into(), json!(message.reference_task_ids));
    }
    let beside: Map<String, Value> = message
        .parts
        .iter()
        .enumerate()
        .map(|(n, part)| (n.to_string(), from_struct(part.metadata.as_ref())))
        .filter(|(_, metadata)| !metadata.is_empty())
        .map(|(n, metadata)| (n, Value::Object(metadata)))
        .collect();
    if !beside.is_empty() {
        own.insert("parts".into(), Value::Object(beside));
    }
    own
}

fn parts(parts: &[pb::Part], modes: &Modes, files: &Files) -> Result<Vec<Part>, Fault> {
    let read = |(n, part): (usize, &pb::Part)| {
        let field = format!("message.parts[{n}]");
        let media = media_type(part);
        if !modes.input.iter().any(|own| fits(media, own)) {
            let message =
                format!("{field}: {media} is not accepted here; accepted are {}", modes.input.join(", "));
            return Err(Fault { field: Some(field), ..Fault::new(Kind::ContentType, message) });
        }
        let read = one_part(&field, part)?;
        Ok(match files.get(&n) {
            Some(file) => Part { piece: Piece::File(*file), ..read },
            None => read,
        })
    };
    let parts: Vec<Part> = parts.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    if parts.iter().all(|part| matches!(&part.piece, Piece::Text(text) if text.trim().is_empty())) {
        return Err(Fault::params("message.parts", "they say nothing"));
    }
    Ok(parts)
}

fn one_part(field: &str, part: &pb::Part) -> Result<Part, Fault> {
    use base64::Engine as _;
    let piece = match &part.content {
        Some(Inside::Text(text)) => Piece::Text(text.clone()),
        Some(Inside::Url(url)) => Piece::Url(url.clone()),
        Some(Inside::Raw(bytes)) => Piece::Raw(base64::engine::general_purpose::STANDARD.encode(bytes)),
        Some(Inside::Data(data)) => {
            let data = serde_json::to_value(data).map_err(|e| Fault::params(field, e.to_string()))?;
            let data = whole_numbers(data);
            parse::not_too_deep(&format!("{field}.data"), &data).map_err(|r| Fault::of(&r))?;
            Piece::Data(data)
        }
        None => return Err(Fault::params(field, "exactly one of text, raw, url, data is needed")),
    };
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    Ok(Part { piece, media_type: given(&part.media_type), filename: given(&part.filename) })
}

fn media_type(part: &pb::Part) -> &str {
    match (&part.content, part.media_type.as_str()) {
        (Some(Inside::Text(_)), "") => "text/plain",
        (Some(Inside::Data(_)), "") => "application/json",
        (_, "") => "application/octet-stream",
        (_, given) => given,
    }
}

/// Whether a media type is one of a pattern; either may have parameters, which do not count.
fn fits(media: &str, pattern: &str) -> bool {
    let plain = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (media, pattern) = (plain(media), plain(pattern));
    match pattern.split_once('/') {
        Some(("*", "*")) => true,
        Some((kind, "*")) => media.split_once('/').is_some_and(|(own, _)| own == kind),
        _ => media == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is not exactly a decision is a message like any other.
    #[test]
    fn decisions() {
        let read = |parts: Value| {
            let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": parts });
            decision(&crate::wire::from_json(message).unwrap())
        };
        let allow = Decision { allow: true, prompt: "0a".into() };
        assert_eq!(read(json!([{ "data": { "approve": "0a" } }])), Some(allow.clone()));
        assert_eq!(read(json!([{ "data": { "deny": "0a" } }])), Some(Decision { allow: false, ..allow }));
        for other in [
            json!([{ "text": "approve" }]),
            json!([{ "text": "{\"approve\": \"0a\"}" }]),
            json!([{ "data": { "approve": true } }]),
            json!([{ "data": { "approve": "0a", "deny": "0a" } }]),
            json!([{ "data": { "approve": "0a" } }, { "text": "and more" }]),
            json!([{ "data": { "Approve": "0a" } }]),
            json!([{ "data": ["approve", "0a"] }]),
            json!([{ "data": "approve" }]),
        ] {
            assert_eq!(read(other.clone()), None, "{other}");
        }
    }
    use crate::wire::from_json;

    fn text_modes() -> Modes {
        let both = ["text/plain", "application/json"].map(str::to_owned).to_vec();
        Modes { input: both.clone(), output: both }
    }

    fn read(message: Value) -> Result<Draft, Fault> {
        draft(&from_json(json!({ "message": message })).unwrap(), &text_modes(), &Files::new())
    }

    #[test]
    fn a_message_becomes_a_draft() {
        let draft = read(json!({
            "messageId": "m 1/ä~", "role": "ROLE_USER", "contextId": "talk 7",
            "parts": [{ "text": "hello" }, { "data": { "n": 1.5 }, "metadata": { "why": "x" } }],
            "extensions": ["https://example.org/e"], "referenceTaskIds": ["t1"],
            "metadata": { "priority": 5, "theirs": [1, "a"] },
        }))
        .unwrap();
        let id = draft.sender_id.unwrap();
        assert_eq!(id.as_sent(), "m 1/ä~");
        assert_eq!((draft.priority.level(), draft.expects), (10, Expects::Answer));
        assert_eq!(draft.context.unwrap().as_str(), "talk 7");
        let content = draft.body.content().unwrap();
        assert_eq!(content.as_text(), "hello");
        assert_eq!(content.parts[1].piece, Piece::Data(json!({ "n": 1.5 })));
        assert_eq!(content.metadata["theirs"], json!([1, "a"]));
        assert_eq!(content.metadata["priority"], 5);
        assert_eq!(
            content.metadata[OWN],
            json!({ "extensions": ["https://example.org/e"], "referenceTaskIds": ["t1"], "parts": { "1": { "why": "x" } } })
        );
    }

    /// Finding A3: no priority makes a message a note, which nobody answers; other values are not ours, and stay.
    #[test]
    fn priorities() {
        for (asked, level) in [
            (json!(1), 4),
            (json!(1.0), 4),
            (json!(2), 4),
            (json!(3), 6),
            (json!(3.0), 6),
            (json!(5), 10),
            (json!(0), 6),
            (json!(6), 6),
            (json!(-1), 6),
            (json!(2.5), 6),
            (json!(1e300), 6),
            (json!("3"), 6),
            (json!("high"), 6),
            (json!(null), 6),
            (json!({ "level": 1 }), 6),
        ] {
            let draft = read(json!({
                "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "a" }], "metadata": { "priority": asked },
            }))
            .unwrap();
            assert_eq!((draft.priority.level(), draft.priority.is_note()), (level, false), "{asked}");
            assert_eq!(draft.body.content().unwrap().metadata["priority"], whole_numbers(asked));
        }
    }

    #[test]
    fn any_id_of_a_caller_comes_back_as_it_was() {
        for raw in ["a", ".a", "~", "~41", "a b", "ü", "{\"x\":1}", "a/b?c#d", &"x".repeat(128)] {
            assert_eq!(message_id(raw).unwrap().as_sent(), raw);
        }
        assert_eq!(message_id(&"x".repeat(129)).unwrap_err().field.as_deref(), Some("message.messageId"));
    }

    /// S10, S11, C3: what is refused, and how.
    #[test]
    fn what_is_refused() {
        let with = |name: &str, value: Value| {
            let mut message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "a" }] });
            message[name] = value;
            read(message).map(|_| ()).unwrap_err()
        };
        let cases = [
            (with("taskId", json!("nonsense")), Kind::TaskNotFound, None),
            (with("contextId", json!("a\nb")), Kind::Params, Some("message.contextId")),
            (with("parts", json!([{ "text": " \n" }])), Kind::Params, Some("message.parts")),
            (with("parts", json!([{ "raw": "AAAA" }])), Kind::ContentType, Some("message.parts[0]")),
            (
                with("parts", json!([{ "text": "a" }, { "url": "https://e", "mediaType": "image/png" }])),
                Kind::ContentType,
                Some("message.parts[1]"),
            ),
        ];
        for (fault, kind, field) in cases {
            assert_eq!((fault.kind, fault.field.as_deref()), (kind, field), "{fault}");
        }
    }

    /// S7: an answer that the caller would not take is not begun.
    #[test]
    fn modes_of_the_answer() {
        let ask = |modes: Value| {
            let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "a" }] });
            let request = json!({ "message": message, "configuration": { "acceptedOutputModes": modes } });
            draft(&from_json(request).unwrap(), &text_modes(), &Files::new())
                .map(|_| ())
                .map_err(|fault| fault.kind)
        };
        assert_eq!(ask(json!([])), Ok(()));
        assert_eq!(ask(json!(["image/png", "text/plain; charset=utf-8"])), Ok(()));
        assert_eq!(ask(json!(["text/*"])), Ok(()));
        assert_eq!(ask(json!(["*/*"])), Ok(()));
        assert_eq!(ask(json!(["image/png"])), Err(Kind::ContentType));
    }
}
