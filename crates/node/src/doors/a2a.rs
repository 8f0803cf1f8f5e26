//! A2A over HTTP: JSON-RPC, HTTP+JSON and gRPC, thin above one engine.
//!
//! All bindings have the same operations; each has its own envelope, paths and form of errors. JSON-RPC and HTTP+JSON
//! speak 1.0 and 0.3 at the same places; the version that a caller asks for tells which (V7, V11). Over gRPC each has a
//! service of its own.

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

/// The version that a caller speaks: in a header, or where headers cannot be set, in the query (V6).
fn version(headers: &HeaderMap, uri: &Uri) -> Result<Version, Fault> {
    let in_header = headers.get(VERSION).map(|value| value.to_str().unwrap_or("?").to_owned());
    let asked = in_header.or_else(|| query(uri, "A2A-Version"));
    Version::parse(asked.as_deref())
}

/// The version that is named in the query; none if there is none, or one that is not spoken.
pub(super) fn version_in_query(uri: &Uri) -> Option<Version> {
    Version::parse(Some(&query(uri, "A2A-Version")?)).ok()
}

/// A parameter of the query, decoded.
fn query(uri: &Uri, name: &str) -> Option<String> {
    let pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Where a broken stream ended; something else there is as if nothing was.
fn last_mark(headers: &HeaderMap) -> Option<Mark> {
    Mark::parse(headers.get("last-event-id")?.to_str().ok()?)
}

async fn body_of(app: &Shared, body: Body, encoding: Encoding) -> Result<Upload, Fault> {
    let read = uploads::read(app, body, encoding).await.map_err(|refusal| Fault::of(&refusal));
    // Until it is understood, it may be anything, and so also credentials.
    crate::audit::note(|facts| facts.veil(true));
    read
}

/// `room` is what a large body takes; it is given back when its files are stored, long before the task ends.
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

/// One event of a stream, its data made by the binding.
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

/// How a request speaks A2A, and so in which form it is to be refused (E2, E21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    Rpc,
    Rest(Version),
    /// Calls of gRPC are answered as such wherever they go.
    Grpc,
}

impl Spoken {
    /// None if it is no A2A.
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

    /// How it encodes files.
    pub(super) fn encoding(self) -> Encoding {
        match self {
            Self::Rest(Version::V03) => Encoding::Base64Twice,
            Self::Rest(Version::V10) | Self::Rpc | Self::Grpc => Encoding::Base64,
        }
    }

    /// For a caller that was not let in.
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

/// Which extensions hold for what was asked.
pub(super) fn tell_extensions(app: &Shared, called: &Called, headers: &mut HeaderMap) {
    let active = called.active(&app.cards).unwrap_or_default().join(", ");
    if let Some(value) = HeaderValue::from_str(&active).ok().filter(|_| !active.is_empty()) {
        headers.insert(extensions::HEADER, value);
    }
}

/// What every faulty answer has, whatever its form.
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
