//! The mailbox over HTTP: list it, take from it, or stay connected and receive each message
//! (`synapse join`).

use super::extract::Query;
use super::{App, Refused, Shared, read_body, unexpected};
use crate::audit;
use crate::conversation::TURNS_MAX;
use crate::handle::ToHand;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use serde::Deserialize;
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command, Input, Serves};
use synapse_core::ids::{LinkId, MessageId};
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::api::{InboxPage, MessageView, TurnView};
use synapse_dialects::error::ErrorBody;
use synapse_dialects::jsonl::{self, FromProgram, Line, ToProgram};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Look {
    /// How many at most; 50 if absent, never more than 500. Fewer come if they are large: a page ends with the message that
    /// makes it longer than a megabyte.
    #[serde(default)]
    #[param(maximum = 4_294_967_295_u32)]
    max: Option<u32>,
}

/// What waits, in the order in which it would leave. Looking changes nothing: report what was read as seen.
#[utoipa::path(get, path = "/api/v1/inbox", params(Look), responses(
    (status = 200, body = InboxPage), (status = "default", body = ErrorBody),
))]
pub(super) async fn inbox(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Query(look): Query<Look>,
) -> Result<Json<InboxPage>, Refused> {
    const PAGE_MAX: usize = 500;
    const PAGE_BYTES_MAX: usize = 1 << 20;
    let agent = app.agent.id;
    let max = look.max.map_or(50, |max| usize::try_from(max).unwrap_or(PAGE_MAX)).min(PAGE_MAX);
    let command = Command::Inbox { agent, max };
    let (Answer::Inbox(inbox), _) = app.ask(caller, command).await? else { return Err(unexpected()) };
    let ids: Vec<_> = inbox.letters.iter().map(|(letter, _)| letter.id.clone()).collect();
    let bodies = app
        .archive(move |history| {
            let (mut bodies, mut bytes) = (Vec::new(), 0);
            for id in ids {
                let body = history.message(&id)?.map(|(_, body)| body);
                bytes += body.as_ref().map_or(0, synapse_core::message::Body::bytes);
                bodies.push(body);
                if bytes > PAGE_BYTES_MAX {
                    break;
                }
            }
            Ok(bodies)
        })
        .await?;
    let messages = inbox
        .letters
        .iter()
        .zip(bodies)
        .map(|((letter, trail), body)| MessageView::new(letter, body.as_ref(), Some(trail)))
        .collect();
    let (waiting, notes, leased) = (inbox.waiting, inbox.notes, inbox.leased);
    Ok(Json(InboxPage { agent_id: agent.to_string(), waiting, notes, leased, messages }))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Stay {
    /// How many messages may be under way before one is reported as seen.
    #[serde(default)]
    #[param(maximum = 4_294_967_295_u32)]
    window: Option<u32>,
    /// How many earlier turns of its conversation come with each message.
    #[serde(default)]
    #[param(maximum = 4_294_967_295_u32)]
    history: Option<u32>,
}

/// Be handed each message as it comes, one JSON per line, each under a lease until you report it as seen.
#[utoipa::path(get, path = "/api/v1/inbox/stream", operation_id = "inbox_stream", params(Stay), responses(
    (status = 200, content_type = "application/x-ndjson", body = String),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn stream(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Query(stay): Query<Stay>,
) -> Result<Response, Refused> {
    const WINDOW_MAX: usize = 256;
    let about = About { worker: Some(app.agent.id), requester: None };
    policy::may(&app.gate.rules(), &caller, Verb::Report, about)?;
    let bounded = |asked: Option<u32>, usual: usize, max: usize| {
        asked.map_or(usual, |asked| usize::try_from(asked).unwrap_or(max)).min(max)
    };
    let window = bounded(stay.window, 8, WINDOW_MAX).max(1);
    let turns_max = bounded(stay.history, 0, TURNS_MAX);
    let (link, mut orders) =
        app.handle.link(app.agent.id, window, Serves::UntilSeen { notes: true }, Vec::new()).await?;
    let guard = LinkGuard { app: app.clone(), link };
    let hello = ToProgram::Hello {
        agent_id: app.agent.id.to_string(),
        label: app.agent.label(),
        token_file: Some(app.home.agent(&app.agent.id).token().display().to_string()),
    };
    let (lines, body) = tokio::sync::mpsc::channel::<String>(window + 8);
    tokio::spawn(async move {
        // The guard lives as long as the connection. When the reader disconnects, its leases are
        // returned.
        let _guard = guard;
        if lines.send(hello.line()).await.is_err() {
            return;
        }
        loop {
            let order = tokio::select! {
                order = orders.recv() => order,
                () = lines.closed() => None,
                () = app.stop.cancelled() => None,
            };
            let Some(order) = order else { return };
            let turns = match &order {
                ToHand::Deliver { letter, .. } if !letter.follow_up => {
                    app.turns_before(letter, turns_max).await
                }
                _ => Vec::new(),
            };
            let Some(line) = line_of(&app, order, turns) else { continue };
            if lines.send(line).await.is_err() {
                return;
            }
        }
    });
    Ok(super::events::lines_response(body, "application/x-ndjson"))
}

fn line_of(app: &App, order: ToHand, history: Vec<TurnView>) -> Option<String> {
    Some(match order {
        ToHand::Deliver { letter, body, .. } => {
            let mut view = MessageView { history, ..MessageView::new(&letter, Some(&body), None) };
            app.show_files(&mut view, &body);
            let view = Box::new(view);
            if letter.follow_up { ToProgram::Input(view).line() } else { ToProgram::Message(view).line() }
        }
        ToHand::Stop { task, why } => ToProgram::Cancel { task_id: task.to_string(), why }.line(),
        ToHand::Interrupt { task, by, why } => {
            ToProgram::Interrupt { task_id: task.to_string(), from: by, why }.line()
        }
        ToHand::Urge { .. } => return None,
    })
}

struct LinkGuard {
    app: Shared,
    link: LinkId,
}

impl Drop for LinkGuard {
    fn drop(&mut self) {
        self.app.handle.tell(Input::LinkClosed { link: self.link });
    }
}

/// Say how it goes with a message you were handed; the same lines as a streaming program's.
#[utoipa::path(post, path = "/api/v1/inbox/report", request_body = FromProgram, responses(
    (status = 200, content_type = "application/json", body = String), (status = "default", body = ErrorBody),
))]
pub(super) async fn report(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<&'static str>, Refused> {
    let line = jsonl::to_core(&read_body(&app, body).await?)?;
    let Line::Report { message_id: Some(id), report } = line else {
        return Err(Refusal::bad_field("message_id", "it must say which message this is about").into());
    };
    let message = MessageId::parse(&id).map_err(|bad| Refusal::bad_field("message_id", bad.to_string()))?;
    audit::note(|facts| facts.message(&message));
    app.ask(caller, Command::Report { message, report }).await?;
    Ok(Json("stored"))
}
