//! What this agent shares about its work, and who follows it (PTY-10): `/api/v1/shared`,
//! `/api/v1/follow`.
//!
//! A note of priority 1 is in each follower's spool before the sharer gets its response. The note's
//! id is derived from the shared text and its time, so a repeated share notifies nobody twice.

use super::{Refused, Shared, read_body, unexpected};
use crate::{audit, post};
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use synapse_core::Refusal;
use synapse_core::agents::Context;
use synapse_core::effect::{Answer, Command};
use synapse_core::message::{Body as Said, Content, Proof, Sender, Who};
use synapse_core::policy::Caller;
use synapse_dialects::error::ErrorBody;
use synapse_dialects::message::{ChainField, MessageRequest};
use synapse_dialects::parse;
use synapse_dialects::share::{FollowRequest, NotTold, ShareRequest, SharedView};

/// What this agent last shared, and who follows it.
#[utoipa::path(get, path = "/api/v1/shared", responses(
    (status = 200, body = SharedView), (status = "default", body = ErrorBody),
))]
pub(super) async fn shared(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<SharedView>, Refused> {
    let command = Command::Shared { agent: app.agent.id };
    let (context, followers) = ask(&app, caller, command).await?;
    Ok(Json(view(&app, context.as_ref(), &followers)))
}

/// Say what this agent is doing. Its followers get a note.
#[utoipa::path(post, path = "/api/v1/shared", request_body = ShareRequest, responses(
    (status = 200, body = SharedView), (status = "default", body = ErrorBody),
))]
pub(super) async fn share(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<SharedView>, Refused> {
    let request: ShareRequest = parse::json(&read_body(&app, body).await?)?;
    if let Some(chain) = &request.chain {
        chain.to_core().map_err(|bad| Refusal::bad_field("chain", bad.to_string()))?;
    }
    let by_user = caller.agent().is_none();
    let command = Command::Share { agent: app.agent.id, text: request.text };
    let (context, followers) = ask(&app, caller, command).await?;
    let mut view = view(&app, context.as_ref(), &followers);
    if let Some(context) = context {
        view.not_told = tell(&app, context, followers, by_user, request.chain).await?;
    }
    Ok(Json(view))
}

/// Hear what this agent shares, or no longer.
#[utoipa::path(post, path = "/api/v1/follow", request_body = FollowRequest, responses(
    (status = 200, body = SharedView), (status = "default", body = ErrorBody),
))]
pub(super) async fn follow(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<SharedView>, Refused> {
    let request: FollowRequest = parse::json(&read_body(&app, body).await?)?;
    let caller = app.gate.speaking_for(caller, request.from.as_deref())?;
    audit::note(|facts| facts.caller(&caller));
    let agent = app.agent.id;
    if caller.sender().who == Who::Agent(agent) && request.follow {
        return Err(Refusal::bad_field("follow", "an agent knows what it shares itself").into());
    }
    let (context, followers) = ask(&app, caller, Command::Follow { agent, on: request.follow }).await?;
    Ok(Json(view(&app, context.as_ref(), &followers)))
}

async fn ask(
    app: &Shared,
    caller: Caller,
    command: Command,
) -> Result<(Option<Context>, Vec<Sender>), Refused> {
    match app.ask(caller, command).await? {
        (Answer::Shared { context, followers }, _) => Ok((context, followers)),
        _ => Err(unexpected()),
    }
}

fn view(app: &Shared, context: Option<&Context>, followers: &[Sender]) -> SharedView {
    SharedView {
        agent_id: app.agent.id.to_string(),
        context: context.map(Into::into),
        followers: followers.iter().map(Into::into).collect(),
        not_told: Vec::new(),
    }
}

/// Writes a note to each follower; the notes are on disk when this returns.
async fn tell(
    app: &Shared,
    context: Context,
    followers: Vec<Sender>,
    by_user: bool,
    chain: Option<ChainField>,
) -> Result<Vec<NotTold>, Refusal> {
    let from = Sender { who: Who::Agent(app.agent.id), label: app.agent.label(), by_user, proof: Proof::Own };
    let note = note(&app.agent.label(), &context, chain);
    let home = app.home.clone();
    let written = tokio::task::spawn_blocking(move || {
        followers
            .iter()
            .filter_map(|follower| {
                let told = post::send_back(&home, follower, from.clone(), note.clone());
                told.err().map(|why| NotTold { follower: follower.into(), why: why.to_string() })
            })
            .collect()
    });
    written.await.map_err(|_| Refusal::Stopping)
}

fn note(label: &str, context: &Context, chain: Option<ChainField>) -> MessageRequest {
    let digest = Said::of(&Content::text(context.text.clone())).digest();
    MessageRequest {
        message: format!("{label} shares: {}", context.text).into(),
        priority: Some(1),
        message_id: Some(format!("shared-{}-{digest:?}", context.since.0)),
        response_expected: Some(false),
        chain,
        ..MessageRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::ids::Timestamp;

    #[test]
    fn the_same_share_is_the_same_note_and_another_is_another() {
        let context = |text: &str, at| Context { text: text.into(), since: Timestamp(at), by_user: false };
        let id = |text: &str, at| note("ana", &context(text, at), None).message_id;
        assert_eq!(id("tests", 1), id("tests", 1));
        assert_ne!(id("tests", 1), id("tests", 2));
        assert_ne!(id("tests", 1), id("docs", 1));
        let note = note("ana", &context("tests", 1), None);
        assert_eq!((note.priority, note.message), (Some(1), "ana shares: tests".into()));
        synapse_core::MessageId::parse(&note.message_id.unwrap()).unwrap();
    }
}
