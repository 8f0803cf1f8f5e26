//! `POST /api/v1/interrupt`: interrupt what this agent is doing, with or without a message.

use super::{Refused, Shared, read_body, unexpected};
use crate::audit;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command};
use synapse_core::ids::MessageId;
use synapse_core::policy::Caller;
use synapse_core::routes::Target;
use synapse_dialects::error::ErrorBody;
use synapse_dialects::message::{MessageAccepted, MessageRequest, request_to_core};
use synapse_dialects::parse;
use synapse_dialects::share::{InterruptAnswer, InterruptRequest, InterruptedTask};

/// The highest of five priorities: an emergency.
const EMERGENCY: u64 = 5;

/// Interrupt what the agent is doing. A program that listens is told; a plain command is stopped. A message that
/// comes with it is next in the mailbox.
#[utoipa::path(post, path = "/api/v1/interrupt", request_body = InterruptRequest, responses(
    (status = 200, body = InterruptAnswer), (status = "default", body = ErrorBody),
))]
pub(super) async fn interrupt(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<InterruptAnswer>, Refused> {
    let bytes = read_body(&app, body).await?;
    let request: InterruptRequest =
        if bytes.is_empty() { InterruptRequest::default() } else { parse::json(&bytes)? };
    let caller = app.gate.speaking_for(caller, request.from.as_deref())?;
    audit::note(|facts| facts.caller(&caller));
    if let Some(chain) = &request.chain {
        chain.to_core().map_err(|bad| Refusal::bad_field("chain", bad.to_string()))?;
    }
    if let Some(id) = &request.message_id {
        MessageId::parse(id).map_err(|bad| Refusal::bad_field("message_id", bad.to_string()))?;
    }
    let why = request.why.unwrap_or_else(|| "interrupted".into());
    let why = why.chars().filter(|c| !c.is_control()).take(WHY_CHARS_MAX).collect();
    let draft = match request.message {
        Some(message) => {
            let message = MessageRequest {
                message,
                priority: Some(EMERGENCY),
                message_id: request.message_id,
                response_expected: request.response_expected,
                chain: request.chain,
                ..MessageRequest::default()
            };
            let mut draft = request_to_core(message)?.draft;
            draft.to = Target::Here;
            audit::note(|facts| facts.draft(&draft));
            Some(Box::new(draft))
        }
        None => None,
    };
    let command = Command::Interrupt { agent: app.agent.id, why, draft };
    let (Answer::Interrupted { tasks, taken }, latest) = app.ask(caller, command).await? else {
        return Err(unexpected());
    };
    if let Some(taken) = &taken {
        audit::note(|facts| facts.taken(taken));
    }
    Ok(Json(InterruptAnswer {
        tasks: tasks.iter().map(InterruptedTask::from).collect(),
        message: taken.map(|taken| MessageAccepted::stored(&taken, latest)),
    }))
}

/// The length limit of the reason, which is stored in the history of each task.
const WHY_CHARS_MAX: usize = 400;
