//! `POST /api/v1/signal`: an event from the hooks of this agent's own program.
//!
//! Only a process below this agent may report events, and only with the key of the current start of
//! its program. That excludes other agents, people and processes of an earlier start. It does not
//! exclude the tools that the agent runs, so an event is only evidence for a state (see
//! `synapse_terminal::fold`).

use super::{Refused, Shared, read_body};
use crate::driver::now;
use axum::body::Body;
use axum::extract::{Extension, State};
use http::StatusCode;
use synapse_core::Refusal;
use synapse_core::message::Proof;
use synapse_core::policy::Caller;
use synapse_dialects::error::ErrorBody;
use synapse_dialects::parse;
use synapse_dialects::terminal::{SignalRequest, SignalText};
use synapse_terminal::hooks::{Event, Text};

/// Tell of an event in the program of this agent. For its own hooks.
#[utoipa::path(post, path = "/api/v1/signal", request_body = SignalRequest, responses(
    (status = 204), (status = "default", body = ErrorBody),
))]
pub(super) async fn signal(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<StatusCode, Refused> {
    let own = matches!(&caller, Caller::Agent { id, proof: Proof::Socket, .. } if *id == app.agent.id);
    if !own {
        let (verb, need) = ("tell what this agent does", "to be its own program, on its Unix socket");
        return Err(Refusal::NotAllowed { who: caller.label(), verb, need }.into());
    }
    let body = read_body(&app, body).await?;
    // The body contains the key of the hooks.
    crate::audit::note(crate::audit::Facts::only_length);
    let request: SignalRequest = parse::json(&body)?;
    let seat = app.seat.as_ref().ok_or_else(|| super::screen::no_terminal(&app))?;
    if !seat.has_key(&request.key) {
        let why = "this is not the key of the program that runs now".into();
        return Err(Refusal::NotProven { why }.into());
    }
    seat.signal(now(), &event(request));
    Ok(StatusCode::NO_CONTENT)
}

fn event(request: SignalRequest) -> Event {
    let text = |text: SignalText| Text { text: text.text, bytes: text.bytes };
    Event {
        name: request.event,
        session: request.session_id,
        about: request.about,
        prompt: request.prompt.map(text),
        answer: request.answer.map(text),
        command: request.command.map(text),
    }
}
