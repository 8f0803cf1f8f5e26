//! `GET /api/v1/prompt`, `POST /api/v1/approve`: the prompt that an agent waits for, and a person's
//! decision.
//!
//! Only the user decides, on the Unix socket, from a process that no agent started. A
//! decision names the hash of its prompt and applies to no other prompt.

use super::{Refused, Shared, read_body};
use crate::hands::terminal::Seat;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::error::ErrorBody;
use synapse_dialects::parse;
use synapse_dialects::terminal::{DecisionAnswer, DecisionRequest, PromptView};
use synapse_dialects::time;
use synapse_terminal::Watch;
use synapse_terminal::prompt::Decided;

/// What the agent waits for, as its screen shows it or as its program tells it.
#[utoipa::path(get, path = "/api/v1/prompt", responses(
    (status = 200, body = PromptView), (status = "default", body = ErrorBody),
))]
pub(super) async fn prompt(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<PromptView>, Refused> {
    policy::may(&app.gate.rules(), &caller, Verb::Read, About::default())?;
    if let Some(desk) = &app.acp {
        return desk.prompt().map(Json).ok_or_else(|| nothing_waits().into());
    }
    let seat = app.seat.as_ref().ok_or_else(|| super::screen::no_terminal(&app))?;
    settled(seat).await;
    view(seat).map(Json).ok_or_else(|| nothing_waits().into())
}

/// Waits until the screen is settled. A half-drawn prompt would have a different hash a moment
/// later.
async fn settled(seat: &Seat) {
    const PAUSE: Duration = Duration::from_millis(20);
    const LOOKS: usize = 50;
    for _ in 0..LOOKS {
        if seat.watch().is_settled() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn view(seat: &Seat) -> Option<PromptView> {
    shown(&seat.watch())
}

/// Returns the prompt as callers see it.
pub(super) fn shown(watch: &Watch) -> Option<PromptView> {
    let prompt = watch.prompt()?;
    Some(PromptView {
        since: time::show(watch.verdict().since),
        decidable: prompt.is_decidable,
        asks: prompt.summary.text,
        asks_all: prompt.summary.is_all,
        question: prompt.details,
        complete: prompt.doubt.is_none(),
        doubt: prompt.doubt.map(|doubt| doubt.why().to_owned()),
        source: prompt.source.to_owned(),
        command: prompt.command,
        hash: prompt.hash,
        text: prompt.text,
        choices: prompt.choices,
    })
}

fn nothing_waits() -> Refusal {
    Refusal::bad_field("prompt", "this agent waits for nothing now; `synapse list` shows who does")
}

/// Allow or deny what the agent waits for.
#[utoipa::path(post, path = "/api/v1/approve", request_body = DecisionRequest, responses(
    (status = 200, body = DecisionAnswer), (status = "default", body = ErrorBody),
))]
pub(super) async fn approve(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<DecisionAnswer>, Refused> {
    let request: DecisionRequest = parse::json(&read_body(&app, body).await?)?;
    let decided = crate::decide::decide(&app, &caller, request.allow, request.prompt).await?;
    let decided = if decided == Decided::Ignored { "ignored" } else { "taken" };
    Ok(Json(DecisionAnswer { decided: decided.into() }))
}
