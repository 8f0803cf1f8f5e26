//! `/api/v1`: receipts, tasks, replies, cancels, agents. Open tasks come from memory, ended ones
//! from the archive.

use super::extract::Path;
use super::{Refused, Shared, read_body, unexpected};
use crate::driver::now;
use crate::{audit, post};
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command, Replied};
use synapse_core::ids::{MessageId, TaskRef};
use synapse_core::message::{Content, Key, Proof, Sender, Who};
use synapse_core::policy::Caller;
use synapse_dialects::api::{AgentView, CancelRequest, ReceiptView, ReplyAnswer, ReplyRequest, TaskView};
use synapse_dialects::error::ErrorBody;
use synapse_dialects::message::{ChainField, MessageRequest};
use synapse_dialects::parse;

/// How far a message has come. The id is ours, or the one you gave it.
#[utoipa::path(get, path = "/api/v1/receipts/{message_id}", params(
    ("message_id" = String, Path, pattern = r"^[A-Za-z0-9_:@+~-][A-Za-z0-9_:@+~.-]{0,127}$"),
), responses(
    (status = 200, body = ReceiptView), (status = "default", body = ErrorBody),
))]
pub(super) async fn receipt(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(raw): Path,
) -> Result<Json<ReceiptView>, Refused> {
    let id = MessageId::parse(&raw).map_err(Refusal::from)?;
    let id = own_name(&app, &caller, id).await?;
    match app.ask(caller, Command::Receipt { message: id.clone() }).await {
        Ok((Answer::Receipt { letter, trail, place }, _)) => {
            let mut view = ReceiptView::new(&letter.id, &letter.task.to_string(), &trail);
            view.place = Some((&place).into());
            Ok(Json(view))
        }
        Ok(_) => Err(unexpected()),
        Err(Refusal::NoSuchMessage { .. }) => {
            let asked = id.clone();
            let found = app.archive(move |history| history.trail(&asked)).await?;
            let (task, trail) = found.ok_or(Refusal::NoSuchMessage { message: raw })?;
            Ok(Json(ReceiptView::new(&id, &task.to_string(), &trail)))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// Translates an id chosen by the caller into ours; returns any other id unchanged.
async fn own_name(app: &Shared, caller: &Caller, id: MessageId) -> Result<MessageId, Refusal> {
    let key = Key { who: caller.sender().who, tenant: None, message: id.clone() }.text();
    let found = app.archive(move |history| history.message_by_key(&key)).await?;
    Ok(found.map_or(id, |(letter, _)| letter.id.clone()))
}

/// Tasks that have not ended.
#[utoipa::path(get, path = "/api/v1/tasks", responses(
    (status = 200, body = [TaskView]), (status = "default", body = ErrorBody),
))]
pub(super) async fn tasks(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<TaskView>>, Refused> {
    const PAGE: usize = 500;
    let (Answer::Tasks(tasks), _) = app.ask(caller, Command::Tasks { max: PAGE }).await? else {
        return Err(unexpected());
    };
    Ok(Json(tasks.iter().map(|task| TaskView::new(task, None)).collect()))
}

/// One task, open or ended, by its id or the first eight digits of it.
#[utoipa::path(get, path = "/api/v1/tasks/{task_id}", params(
    ("task_id" = String, Path, pattern = r"^[0-9a-f]{8,32}$"),
), responses(
    (status = 200, body = TaskView), (status = "default", body = ErrorBody),
))]
pub(super) async fn task(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(raw): Path,
) -> Result<Json<TaskView>, Refused> {
    let name = TaskRef::parse(&raw).map_err(Refusal::from)?;
    let mut view = match app.ask(caller, Command::Task { task: name.clone() }).await {
        Ok((Answer::Task { task, .. }, _)) => TaskView::new(&task, None),
        Ok(_) => return Err(unexpected()),
        Err(Refusal::TaskEnded { .. }) => {
            let found = app.archive(move |history| history.task(&name, now())).await?;
            let (ending, archive) = found.ok_or(Refusal::NoSuchTask { task: raw })?;
            TaskView::new(&archive.task, Some(&ending))
        }
        Err(refusal) => return Err(refusal.into()),
    };
    if let Ok(id) = synapse_core::TaskId::parse(&view.task_id) {
        let said = app.archive(move |history| history.artifacts(&id)).await?;
        view.artifacts = said.iter().filter_map(|s| serde_json::to_value(s).ok()).collect();
    }
    Ok(Json(view))
}

/// Stop working on a task.
#[utoipa::path(post, path = "/api/v1/tasks/{task_id}/cancel", 
    params(("task_id" = String, Path, pattern = r"^[0-9a-f]{8,32}$")),
    request_body = CancelRequest,
    responses((status = 200, body = TaskView), (status = "default", body = ErrorBody)))]
pub(super) async fn cancel(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(raw): Path,
    body: Body,
) -> Result<Json<TaskView>, Refused> {
    let bytes = read_body(&app, body).await?;
    let request: CancelRequest =
        if bytes.is_empty() { CancelRequest::default() } else { parse::json(&bytes)? };
    let name = TaskRef::parse(&raw).map_err(Refusal::from)?;
    let why = request.why.unwrap_or_else(|| "canceled".into());
    audit::note(|facts| facts.task(&raw));
    app.ask(caller.clone(), Command::Cancel { task: name, why }).await?;
    task(State(app), Extension(caller), Path(raw)).await
}

/// Answer a task. It always works: it completes the task if somebody waits, and is a linked message otherwise.
#[utoipa::path(post, path = "/api/v1/reply", request_body = ReplyRequest, responses(
    (status = 200, body = ReplyAnswer), (status = "default", body = ErrorBody),
))]
pub(super) async fn reply(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<ReplyAnswer>, Refused> {
    let request: ReplyRequest = parse::json(&read_body(&app, body).await?)?;
    audit::note(|facts| facts.task(request.task_id.as_deref().unwrap_or_default()));
    let command = request.to_core()?;
    let Command::Reply { body: said, .. } = &command else { return Err(unexpected()) };
    let content = said.content().unwrap_or_default();
    match app.ask(caller.clone(), command).await?.0 {
        Answer::Replied(Replied::Completed { task }) => {
            audit::note(|facts| facts.task(&task.to_string()));
            Ok(Json(ReplyAnswer { status: "completed".into(), task_id: task.to_string(), sent_to: None }))
        }
        Answer::Replied(Replied::Send { to, task, parent }) => {
            let chain = chain_after(&app, parent.clone()).await?;
            let from = author(&app, &caller);
            post::send_back(&app.home, &to, from, linked(content, &task.to_string(), chain))?;
            let sent_to = Some((&to).into());
            Ok(Json(ReplyAnswer { status: "sent".into(), task_id: task.to_string(), sent_to }))
        }
        _ => Err(unexpected()),
    }
}

/// Returns the author of a reply: the agent that has the task, a person on its behalf, or another
/// caller that may report on any task.
fn author(app: &Shared, caller: &Caller) -> Sender {
    if !caller.is_person() && caller.agent() != Some(app.agent.id) {
        return caller.sender();
    }
    Sender {
        who: Who::Agent(app.agent.id),
        label: app.agent.label(),
        by_user: caller.is_person(),
        proof: Proof::Own,
    }
}

async fn chain_after(app: &Shared, parent: MessageId) -> Result<Option<ChainField>, Refusal> {
    let found = app.archive(move |history| history.message(&parent)).await?;
    Ok(found.map(|(letter, _)| ChainField {
        correlation_id: letter.chain.correlation.to_string(),
        parent_message_id: Some(letter.id.to_string()),
        hops: letter.chain.hops.saturating_add(1),
    }))
}

fn linked(content: Content, task: &str, chain: Option<ChainField>) -> MessageRequest {
    let mut metadata = content.metadata;
    metadata.insert("reply_to".into(), task.into());
    let message = serde_json::json!({ "parts": content.parts });
    MessageRequest { message, metadata, chain, ..MessageRequest::default() }
}

/// The agents of this node.
#[utoipa::path(get, path = "/api/v1/agents", responses(
    (status = 200, body = [AgentView]), (status = "default", body = ErrorBody),
))]
pub(super) async fn agents(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<AgentView>>, Refused> {
    let (Answer::Agents(agents), _) = app.ask(caller, Command::Agents).await? else {
        return Err(unexpected());
    };
    Ok(Json(
        agents.iter().map(|(a, presence, waiting)| AgentView::new(a, presence.as_ref(), *waiting)).collect(),
    ))
}
