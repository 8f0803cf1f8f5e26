//! `/api/v1/rename`: gives this agent a name, another one, or none. Only the user may.
//!
//! The name is on disk first, then in the journal, then in the registry. If the journal cannot
//! take it, it is taken back.

use super::{Refused, Shared, read_body, unexpected};
use crate::audit;
use crate::own_agent::Naming;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command};
use synapse_core::ids::Label;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::error::ErrorBody;
use synapse_dialects::parse;
use synapse_dialects::rename::{RenameRequest, RenamedView};
use synapse_store::identity::{self, RenameError};
use synapse_store::known::Known;

/// Give this agent a name, another one, or none. Its id, mail, tasks and history stay.
#[utoipa::path(post, path = "/api/v1/rename", request_body = RenameRequest, responses(
    (status = 200, body = RenamedView), (status = "default", body = ErrorBody),
))]
pub(super) async fn rename(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<RenamedView>, Refused> {
    policy::may(&app.gate.rules(), &caller, Verb::Manage, About::default())?;
    let request: RenameRequest = parse::json(&read_body(&app, body).await?)?;
    let name = request.name.as_deref().map(Label::parse_agent_name).transpose().map_err(Refusal::from)?;
    // A request whose connection breaks is finished too, so that disk and memory stay the same.
    let renamed = tokio::spawn(change(app.clone(), caller, name));
    let (before, after) = renamed.await.map_err(|_| Refusal::Stopping)??;
    let shown = |known: &Known| known.name.as_ref().map(ToString::to_string);
    audit::note(|facts| facts.note(audit::renamed(&before, &after)));
    Ok(Json(RenamedView { agent_id: app.agent.id.to_string(), name: shown(&after), was: shown(&before) }))
}

async fn change(app: Shared, caller: Caller, name: Option<Label>) -> Result<(Known, Known), Refused> {
    let _one_at_a_time = app.agent.renaming.lock().await;
    let (home, id, wanted) = (app.home.clone(), app.agent.id, name.clone());
    let saved = tokio::task::spawn_blocking(move || identity::rename(&home, &id, wanted)).await;
    let (before, after) = saved.map_err(|_| Refusal::Stopping)?.map_err(refusal)?;
    match app.ask(caller, Command::Rename { agent: app.agent.id, name: name.clone() }).await {
        Ok((Answer::Renamed, _)) => {}
        heard => {
            let (home, before) = (app.home.clone(), before.clone());
            let restored = tokio::task::spawn_blocking(move || before.save(&home)).await;
            if let Ok(Err(error)) = restored {
                tracing::error!(%error, "its former name could not be written back");
            }
            return Err(heard.map_or_else(Refused, |_| unexpected()));
        }
    }
    app.agent.set_naming(Naming { name, number: after.number() }).await;
    Ok((before, after))
}

fn refusal(error: RenameError) -> Refused {
    match error {
        RenameError::Refused(refusal) => refusal.into(),
        RenameError::Known(error) => Refusal::NotStored { why: error.to_string() }.into(),
    }
}
