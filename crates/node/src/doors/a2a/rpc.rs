//! JSON-RPC at `/api/v1/agent` (J1–J9).

use super::{
    answer, body_of, event_json, event_text, last_mark, old, perform, reply_json, version, with_fault,
};
use crate::a2a::{Done, Engine};
use crate::card::Called;
use crate::doors::Shared;
use crate::doors::events::streamed;
use crate::uploads::{Encoding, Room, Upload};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::{HeaderMap, Uri};
use serde_json::Value;
use synapse_a2a::check::Version;
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::json_rpc::{self, Call, NoCall};
use synapse_a2a::operation::Request;
use synapse_a2a::v03::{self, Form};
use synapse_core::policy::Caller;

pub(super) const PATH: &str = "/api/v1/agent";
/// Some clients add a slash to every URL.
pub(in crate::doors) const PATH_WITH_SLASH: &str = "/api/v1/agent/";
pub(super) const JSON: &str = "application/json";

/// A call as JSON-RPC 2.0 has it; what `params` are is up to the method.
#[derive(utoipa::ToSchema)]
#[allow(dead_code)]
pub(in crate::doors) struct RpcCall {
    /// Always `2.0`.
    jsonrpc: String,
    /// Comes back with the answer: a text or a number.
    id: Value,
    /// `SendMessage`, `SendStreamingMessage`, `GetTask`, `ListTasks`, `CancelTask`, `SubscribeToTask` and so on.
    method: String,
    params: Option<Value>,
}

/// A2A 1.0 over JSON-RPC: every operation of the agent. Send `A2A-Version: 1.0`; streams are server-sent events.
#[utoipa::path(
    post,
    path = "/api/v1/agent",
    operation_id = "a2a",
    request_body = RpcCall,
    responses((status = 200, description = "A JSON-RPC answer, or a stream of them", body = Value))
)]
pub(in crate::doors) async fn serve(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(called): Extension<Called>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let (call, room) = match body_of(&app, body, Encoding::Base64).await {
        Ok(Upload { bytes, room }) => (json_rpc::read(&bytes), room),
        Err(fault) => (Err(NoCall { id: Value::Null, fault }), Room::default()),
    };
    let reads_events = call.as_ref().is_ok_and(|call| old::reads_events(&call.method, &headers));
    let (id, done) = match call {
        Ok(call) => {
            let engine = Engine::new(app, caller).called(called);
            (call.id.clone(), dispatch(&engine, call, &uri, &headers, room).await)
        }
        Err(NoCall { id, fault }) => (id, Err(fault)),
    };
    match done {
        Ok((Done::Reply(reply), reader)) => {
            let told = reply_json(&reply, reader.version, Form::Rpc).map(|told| reader.form(told));
            answer(200, &json_rpc::answer(&id, told), JSON)
        }
        Ok((Done::Stream(events), reader)) => {
            let data = move |told: Result<&_, &Fault>| {
                let told = told.map_err(Clone::clone);
                let told = told.and_then(|told| event_json(told, reader.version, Form::Rpc));
                json_rpc::answer(&id, told.map(|told| reader.form(told)))
            };
            streamed(events, move |event| event_text(event, &data), "text/event-stream")
        }
        // The envelope carries the error. The HTTP status does so only for errors outside the call
        // itself.
        Err(fault) => {
            let status = match fault.kind {
                Kind::Unauthenticated | Kind::Denied | Kind::TooLarge | Kind::TooMany | Kind::Stopping => {
                    fault.kind.codes().http
                }
                _ => 200,
            };
            let told = json_rpc::answer(&id, Err(fault.clone()));
            let response = match reads_events && status == 200 {
                true => old::one_event(&told),
                false => answer(status, &told, JSON),
            };
            with_fault(response, &fault)
        }
    }
}

/// The response format that a caller reads.
#[derive(Clone, Copy)]
struct Reader {
    version: Version,
    /// The caller mixes versions: it reads 0.3 results inside the 1.0 envelope.
    wants_envelope: bool,
}

impl Reader {
    fn form(self, told: Value) -> Value {
        if self.wants_envelope { v03::with_envelope(told) } else { told }
    }
}

async fn dispatch(
    engine: &Engine,
    call: Call,
    uri: &Uri,
    headers: &HeaderMap,
    room: Room,
) -> Result<(Done, Reader), Fault> {
    let version = version(headers, uri)?;
    let wants_envelope = version == Version::V03 && v03::has_untyped_parts(&call.params);
    let request = match version {
        Version::V10 => {
            Request::of_method(&call.method, call.params).map_err(|fault| hinted(&call.method, fault))?
        }
        Version::V03 => v03::read_request(&call.method, call.params)?,
    };
    let done = perform(engine, version, request, last_mark(headers), room).await?;
    Ok((done, Reader { version, wants_envelope }))
}

/// Adds a hint for a caller that asks for 1.0 but calls a method of 0.3.
fn hinted(method: &str, fault: Fault) -> Fault {
    match fault.kind {
        Kind::Method if v03::is_method(method) => {
            let message =
                format!("{} in version 1.0; it is one of 0.3: send `A2A-Version: 0.3`", fault.message);
            Fault { message, ..fault }
        }
        _ => fault,
    }
}
