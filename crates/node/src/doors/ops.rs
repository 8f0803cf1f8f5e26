//! Status and lifecycle of the node: `/status`, `/healthz`, `/metrics`, `/openapi.json`,
//! `/api/v1/stop`, `/api/v1/restart`.

use super::{Refused, Shared, a2a};
use crate::hands::terminal::Seat;
use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri, header};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use synapse_a2a::grpc::no_method;
use synapse_core::agents::AgentState;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::error::ErrorBody;
use synapse_dialects::status::StatusView;
use synapse_dialects::time;

/// How the agent is. Anybody on this machine may ask; `context` and `asks` are only for callers that are known.
#[utoipa::path(get, path = "/status", responses((status = 200, body = StatusView)))]
pub(super) async fn status(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Json<StatusView> {
    let crate::registrar::Look { presence, context } = app.shown.now();
    let busy_with = (presence.state == AgentState::Busy).then(|| presence.why.clone());
    let known = caller != Caller::Stranger;
    let context = context.filter(|_| known);
    Json(StatusView {
        agent_name: app.agent.label(),
        role: app.agent.role.as_ref().map(ToString::to_string),
        status: presence.state.rest_name().into(),
        current_task: busy_with.clone().filter(|_| known),
        available_tools: Vec::new(),
        state: presence.state.name().into(),
        why: presence.why,
        since: time::show(presence.since),
        agent_id: app.agent.id.to_string(),
        agent_type: app.agent.kind.to_string(),
        waiting: app.handle.waiting(),
        version: env!("CARGO_PKG_VERSION").into(),
        asks: known.then(|| app.asks()).flatten(),
        context_since: context.as_ref().map(|context| time::show(context.since)),
        context: context
            .map(|context| context.text)
            .or_else(|| app.seat.as_ref().filter(|_| known).map(visible_tail))
            .or(busy_with.filter(|_| known)),
    })
}

/// Returns the lowest rows of the terminal's screen (PTY-8).
fn visible_tail(seat: &Seat) -> String {
    const ROWS: usize = 20;
    synapse_terminal::rules::lowest(&seat.watch().screen().rows(), ROWS)
}

/// Answers while the node is alive.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = String)))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Counters in the text form that Prometheus reads.
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String)))]
pub(super) async fn metrics(State(app): State<Shared>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.text())
}

/// Stop this agent. What waits stays, and is there at the next start.
#[utoipa::path(post, path = "/api/v1/stop", responses((status = 202), (status = "default", body = ErrorBody)))]
pub(super) async fn stop(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<StatusCode, Refused> {
    policy::may(&app.gate.rules(), &caller, Verb::Manage, About::default())?;
    app.stop.cancel();
    Ok(StatusCode::ACCEPTED)
}

/// Replace this node by a new one of the version that is installed now. The agent goes on, and so does what it runs.
#[utoipa::path(post, path = "/api/v1/restart", responses((status = 202), (status = "default", body = ErrorBody)))]
pub(super) async fn restart(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<StatusCode, Refused> {
    policy::may(&app.gate.rules(), &caller, Verb::Manage, About::default())?;
    app.restart.store(true, Ordering::Relaxed);
    app.stop.cancel();
    Ok(StatusCode::ACCEPTED)
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, body = serde_json::Value)))]
pub(super) async fn openapi() -> impl IntoResponse {
    static DESCRIPTION: OnceLock<String> = OnceLock::new();
    let text =
        DESCRIPTION.get_or_init(|| serde_json::to_string_pretty(&super::description()).unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], text.as_str())
}

pub(super) async fn nowhere(request: Request) -> Response {
    let path = request.uri().path();
    if a2a::grpc::is_call(&request) {
        return a2a::grpc::refused(&no_method(path).into());
    }
    let message = format!("there is nothing at {path}; /openapi.json lists what is");
    (StatusCode::NOT_FOUND, Json(ErrorBody::new("not_found", message))).into_response()
}

pub(super) async fn wrong_method(method: Method, uri: Uri) -> impl IntoResponse {
    let message = format!("{} does not take {method}; /openapi.json says what it does", uri.path());
    (StatusCode::METHOD_NOT_ALLOWED, Json(ErrorBody::new("method_not_allowed", message)))
}
