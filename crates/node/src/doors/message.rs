//! `POST /message`: the simple door for tools and scripts (PTY-7).

use super::{Refused, Shared, read_body, unexpected};
use crate::driver::now;
use crate::hands::terminal::Seat;
use crate::{audit, post};
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command};
use synapse_core::ids::AgentId;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_core::routes::{self, Target};
use synapse_core::settings::Limits;
use synapse_dialects::error::ErrorBody;
use synapse_dialects::message::{self, MessageAccepted, MessageRequest};
use synapse_dialects::parse;
use synapse_store::registry;

/// Send a message to this agent, or to another one. The answer means: it is on disk.
#[utoipa::path(post, path = "/message", request_body = MessageRequest, responses(
    (status = 200, body = MessageAccepted),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn send(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<MessageAccepted>, Refused> {
    let bytes = read_body(&app, body).await?;
    let asked = message::to_core(&bytes)?;
    let caller = app.gate.speaking_for(caller, asked.speak_for.as_deref())?;
    let mut draft = asked.draft;
    audit::note(|facts| {
        facts.caller(&caller);
        facts.draft(&draft);
    });
    if let Some(other) = elsewhere(&app, &draft.to)? {
        draft.check_time(now(), Limits::default().clock_skew_ms_max)?;
        return relay(&app, caller, other, parse::json(&bytes)?);
    }
    draft.to = Target::Here;
    let (answer, latest) = app.ask(caller, Command::Send(Box::new(draft))).await?;
    let Answer::Accepted(taken) = answer else { return Err(unexpected()) };
    let first = taken.first().ok_or_else(unexpected)?;
    audit::note(|facts| facts.taken(first));
    let why = app.seat.as_ref().and_then(Seat::untyped);
    Ok(Json(MessageAccepted { why, ..MessageAccepted::stored(first, latest) }))
}

/// Returns the agent that the target names, if it is not ours.
pub(super) fn elsewhere(app: &Shared, target: &Target) -> Result<Option<AgentId>, Refusal> {
    if *target == Target::Here {
        return Ok(None);
    }
    let candidates = registry::candidates(&app.home);
    let ids = routes::resolve(target, &candidates, &app.near).map_err(|no| Refusal::from((target, no)))?;
    match ids[..] {
        [one] if one == app.agent.id => Ok(None),
        [one, ..] if ids.len() == 1 || matches!(target, Target::Skill(_)) => Ok(Some(one)),
        _ => Err(Refusal::bad_field("target", "one agent is needed here; `synapse send` reaches several")),
    }
}

/// Writes the message to the other agent's spool. It is then on disk, whether that agent runs or
/// not.
fn relay(
    app: &Shared,
    caller: Caller,
    to: AgentId,
    request: MessageRequest,
) -> Result<Json<MessageAccepted>, Refused> {
    policy::may(&app.gate.rules(), &caller, Verb::Message, About::default())?;
    let name = post::spool_to(&app.home, &to, caller.sender(), request.clone()).map_err(post::refusal)?;
    let id = request.message_id.unwrap_or_else(|| name.as_str().to_owned());
    Ok(Json(MessageAccepted::spooled(id, to.to_string(), None)))
}
