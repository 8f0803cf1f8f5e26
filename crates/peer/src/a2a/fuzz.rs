//! What strangers could say that nobody thought of: pieces of streams and of documents, put together at random.

use super::call::{self, Ask, Shape};
use super::card::{Binding, Card, GrpcInterface, Interface, Version};
use super::error::AskError;
use super::grpc;
use super::picture::Picture;
use super::sse::Reader;
use super::url::HttpUrl;
use serde_json::{Map, Value};
use synapse_a2a::grpc::Messages;
use synapse_a2a::pb;

const LINES: &[&str] = &[
    "data: {}", "data:", "data", "id: 1", "id", "id: \0", ": x", "\n", "\r", "\r\n", "\n\n", "event: x",
    "\u{feff}", "ä", "retry: 1",
];

/// However a stream is cut into pieces, it says the same.
#[test]
fn a_stream_says_the_same_however_it_is_cut() {
    bolero::check!().with_iterations(20_000).with_type::<(Vec<u8>, Vec<u8>)>().for_each(|(picks, cuts)| {
        let text: String = picks.iter().map(|pick| LINES[usize::from(*pick) % LINES.len()]).collect();
        let read = |pieces: Vec<&[u8]>| {
            let mut reader = Reader::default();
            pieces.into_iter().for_each(|piece| reader.take_in(piece).unwrap());
            std::iter::from_fn(|| reader.next()).collect::<Vec<_>>()
        };
        let (mut rest, mut pieces) = (text.as_bytes(), Vec::new());
        for cut in cuts {
            let (piece, more) = rest.split_at(usize::from(*cut).min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        pieces.push(rest);
        assert_eq!(read(vec![text.as_bytes()]), read(pieces), "{text:?}");
    });
}

/// Whatever bytes come where messages of gRPC should, however they are cut, there is an end to it.
#[test]
fn bytes_that_are_no_messages_do_no_harm() {
    bolero::check!().with_iterations(20_000).with_type::<Vec<Vec<u8>>>().for_each(|pieces| {
        let (mut messages, mut picture) = (Messages::default(), Picture::default());
        for piece in pieces {
            messages.take_in(piece);
            while let Ok(Some(message)) = messages.next(1_000) {
                for version in [Version::V10, Version::V03] {
                    if let Ok(event) = grpc::event(version, message) {
                        let _ = picture.take_in(event);
                    }
                }
            }
        }
    });
}

const NAMES: &[&str] = &[
    "kind",
    "task",
    "message",
    "status",
    "state",
    "parts",
    "content",
    "text",
    "file",
    "data",
    "artifact",
    "artifacts",
    "history",
    "statusUpdate",
    "artifactUpdate",
    "id",
    "taskId",
    "contextId",
    "jsonrpc",
    "result",
    "error",
    "code",
    "url",
    "name",
    "supportedInterfaces",
    "protocolBinding",
    "protocolVersion",
    "securitySchemes",
    "security",
    "endpoints",
    "additionalInterfaces",
];
const WORDS: &[&str] = &[
    "",
    "task",
    "status-update",
    "artifact-update",
    "message",
    "2.0",
    "working",
    "TASK_STATE_COMPLETED",
    "JSONRPC",
    "1.0",
    "0.3",
    "https://a/x",
    "agent",
    "user",
    "t",
];

/// A document of names and words that the protocol has, in places where it has them not.
fn document(picks: &mut impl Iterator<Item = u8>, depth: usize) -> Value {
    let Some(pick) = picks.next() else { return Value::Null };
    let n = usize::from(pick / 5);
    match pick % 5 {
        _ if depth == 0 => WORDS[n % WORDS.len()].into(),
        0 => WORDS[n % WORDS.len()].into(),
        1 => Value::from(n),
        2 => (0..n % 4).map(|_| document(picks, depth - 1)).collect(),
        _ => {
            let mut fields = Map::new();
            for _ in 0..n % 6 {
                let name = NAMES[usize::from(picks.next().unwrap_or(0)) % NAMES.len()];
                fields.insert(name.to_owned(), document(picks, depth - 1));
            }
            Value::Object(fields)
        }
    }
}

/// Whatever it says, it is understood or refused; nothing of it can bring us down.
#[test]
fn no_document_brings_the_caller_down() {
    let at = |binding, version| {
        let url = HttpUrl::parse("https://a/x").unwrap();
        Interface { url, binding, version, tenant: None }
    };
    let ways = [
        at(Binding::JsonRpc, Version::V10),
        at(Binding::JsonRpc, Version::V03),
        at(Binding::HttpJson, Version::V10),
        at(Binding::HttpJson, Version::V03),
    ];
    bolero::check!().with_iterations(20_000).with_type::<Vec<u8>>().for_each(|picks| {
        let value = document(&mut picks.iter().copied(), 6);
        let text = value.to_string();
        let mut picture = Picture::default();
        for at in &ways {
            if let Ok(event) = call::read_event(at, &text) {
                let _ = picture.take_in(event.value);
            }
            let read: Result<call::Reading<pb::Task>, AskError> =
                call::read(at, Shape::Task, 200, text.as_bytes());
            if let Ok(task) = read {
                let _ = picture.see(Picture::of_task(task.value));
            }
            let _ = AskError::of_http(418, &value).to_string();
        }
        let _ = (picture.answer(), picture.says(), picture.state());
        let (ask, version) = (Ask::Send(value.clone()), Version::V03);
        let grpc = GrpcInterface { url: HttpUrl::parse("https://a").unwrap(), version, tenant: None };
        let _ = (ask.request(&ways[1]), ask.request(&ways[3]), grpc::request(&ask, &grpc));
        if let Ok(card) = Card::read(value) {
            let _ = card.pick(None);
        }
    });
}
