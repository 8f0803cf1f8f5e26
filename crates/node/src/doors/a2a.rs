//! A2A over HTTP: JSON-RPC, HTTP+JSON and gRPC, as thin layers above one engine.
//!
//! All bindings have the same operations; each has its own envelope, paths and error format.
//! JSON-RPC and HTTP+JSON serve 1.0 and 0.3 at the same paths; the requested version selects one
//! (V7, V11). gRPC has one service for each version.

pub(super) mod grpc;
mod old;
pub(super) mod rest;
pub(super) mod rpc;

use super::Shared;
use super::events::Piece;
use crate::a2a::{Done, Engine, Event, Mark};
use crate::card::Called;
use crate::uploads::{self, Encoding, Room, Upload};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use serde_json::Value;
use synapse_a2a::check::Version;
use synapse_a2a::fault::Kind;
use synapse_a2a::operation::{self, Reply};
use synapse_a2a::v03::{self, Form};
use synapse_a2a::wire::to_json;
use synapse_a2a::{Fault, extensions};
use synapse_a2a::{json_rpc, pb};

const VERSION: &str = "a2a-version";

/// Returns the protocol version of a request: from the header, or from the query where a client
/// cannot set headers (V6).
fn version(headers: &HeaderMap, uri: &Uri) -> Result<Version, Fault> {
    let in_header = headers.get(VERSION).map(|value| value.to_str().unwrap_or("?").to_owned());
    let asked = in_header.or_else(|| query(uri, "A2A-Version"));
    Version::parse(asked.as_deref())
}

/// Returns the version named in the query; `None` if it is absent or not supported.
pub(super) fn version_in_query(uri: &Uri) -> Option<Version> {
    Version::parse(Some(&query(uri, "A2A-Version")?)).ok()
}

/// Returns a decoded query parameter.
fn query(uri: &Uri, name: &str) -> Option<String> {
    let pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns where a broken stream ended. A header that cannot be parsed is ignored.
fn last_mark(headers: &HeaderMap) -> Option<Mark> {
    Mark::parse(headers.get("last-event-id")?.to_str().ok()?)
}

async fn body_of(app: &Shared, body: Body, encoding: Encoding) -> Result<Upload, Fault> {
    let read = uploads::read(app, body, encoding).await.map_err(|refusal| Fault::of(&refusal));
    // Until the request is parsed, it may contain anything, including credentials.
    crate::audit::note(|facts| facts.veil(true));
    read
}

/// `room` is the memory reserved for a large body. It is released once the files are stored, long
/// before the task ends.
async fn perform(
    engine: &Engine,
    version: Version,
    mut request: operation::Request,
    after: Option<Mark>,
    room: Room,
) -> Result<Done, Fault> {
    let files = engine.store_files(&mut request).await?;
    drop(room);
    let engine = engine.clone().bringing(files);
    match version {
        Version::V10 => engine.perform(request, after).await,
        Version::V03 => old::perform(&engine.speaking(version), request, after).await,
    }
}

fn reply_json(reply: &Reply, version: Version, form: Form) -> Result<Value, Fault> {
    match version {
        Version::V10 => reply.to_json(),
        Version::V03 => v03::write_reply(reply, form),
    }
}

fn event_json(response: &pb::StreamResponse, version: Version, form: Form) -> Result<Value, Fault> {
    match version {
        Version::V10 => to_json(response),
        Version::V03 => v03::write_event(response, form),
    }
}

/// Formats one event of a stream; the binding supplies its data.
fn event_text(event: Event, data: impl Fn(Result<&pb::StreamResponse, &Fault>) -> Value) -> Piece {
    match event {
        Event::Told { mark, response, room } => {
            Piece::holding(format!("id: {mark}\ndata: {}\n\n", data(Ok(&response))), room)
        }
        Event::Gap => ": some events are gone; the task as it is now follows\n\n".to_owned().into(),
        Event::Cut(fault) => format!("data: {}\n\n", data(Err(&fault))).into(),
    }
}

fn answer(status: u16, value: &Value, content_type: &'static str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = (status, text).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The A2A binding of a request, and so the format of its errors (E2, E21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    Rpc,
    Rest(Version),
    /// gRPC calls get gRPC errors on every path.
    Grpc,
}

impl Spoken {
    /// Returns `None` if the request is not A2A.
    pub(super) fn of(request: &Request<Body>) -> Option<Self> {
        match request.uri().path() {
            _ if grpc::is_call(request) => Some(Self::Grpc),
            rpc::PATH | rpc::PATH_WITH_SLASH => Some(Self::Rpc),
            path if path.starts_with(rest::PREFIX) => {
                Some(Self::Rest(version(request.headers(), request.uri()).unwrap_or(Version::V10)))
            }
            _ => None,
        }
    }

    /// Returns how this binding encodes files.
    pub(super) fn encoding(self) -> Encoding {
        match self {
            Self::Rest(Version::V03) => Encoding::Base64Twice,
            Self::Rest(Version::V10) | Self::Rpc | Self::Grpc => Encoding::Base64,
        }
    }

    /// Formats the refusal of a request that was not admitted.
    pub(super) fn refuse(self, fault: Fault) -> Response {
        match self {
            Self::Rpc => {
                let told = json_rpc::answer(&Value::Null, Err(fault.clone()));
                with_fault(answer(fault.kind.codes().http, &told, rpc::JSON), &fault)
            }
            Self::Rest(version) => rest::failed(&fault, version),
            Self::Grpc => grpc::refused(&fault.into()),
        }
    }
}

/// Adds the active extensions to a response.
pub(super) fn tell_extensions(app: &Shared, called: &Called, headers: &mut HeaderMap) {
    let active = called.active(&app.cards).unwrap_or_default().join(", ");
    if let Some(value) = HeaderValue::from_str(&active).ok().filter(|_| !active.is_empty()) {
        headers.insert(extensions::HEADER, value);
    }
}

/// Adds the headers that every error response has, in any format.
fn with_fault(mut response: Response, fault: &Fault) -> Response {
    if fault.kind == Kind::Unauthenticated {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = fault.retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    crate::audit::note(|facts| facts.code(fault.kind.codes().reason));
    response
}
