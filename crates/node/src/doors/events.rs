//! `/api/v1/events`: everything that happens, as server-sent events, from any point on.
//!
//! The id of an event is its place in the journal. `Last-Event-ID` (or `after`) goes on where a watcher left
//! off; a gap that was pruned is said (`follow`).

use super::{Refused, Shared};
use crate::follow::{self, Item};
use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use std::pin::Pin;
use std::task::{Context, Poll};
use synapse_core::Refusal;
use synapse_core::ids::{AgentId, Seq, TaskId};
use synapse_core::policy::Caller;
use synapse_core::watch::Topic;
use synapse_dialects::error::ErrorBody;
use synapse_dialects::event::EventView;
use tokio::sync::mpsc;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Follow {
    /// Only events of this task.
    task: Option<String>,
    /// Only events of this agent.
    agent: Option<String>,
    /// Only what a person should know at once.
    #[serde(default)]
    alerts: bool,
    /// Go on after this event; as `Last-Event-ID`.
    after: Option<u64>,
}

/// Follow what happens. Each event carries its id; come back with the last one to miss nothing.
#[utoipa::path(get, path = "/api/v1/events", params(Follow), responses(
    (status = 200, content_type = "text/event-stream", body = EventView),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn events(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Query(follow): Query<Follow>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let topic = topic(&follow)?;
    let returning = headers.get("last-event-id").and_then(|v| v.to_str().ok()?.parse().ok());
    let after = returning.or(follow.after).map(Seq);
    let items = follow::follow(&app, caller, topic, after).await?;
    Ok(streamed(items, text_of, "text/event-stream"))
}

fn topic(follow: &Follow) -> Result<Topic, Refusal> {
    Ok(match (&follow.task, &follow.agent, follow.alerts) {
        (Some(task), _, _) => Topic::Task(TaskId::parse(task)?),
        (None, Some(agent), _) => Topic::Agent(AgentId::parse(agent)?),
        (None, None, true) => Topic::Alerts,
        (None, None, false) => Topic::All,
    })
}

fn text_of(item: Item) -> String {
    match item {
        Item::Entry(entry) => {
            let view = EventView::from(&*entry);
            let data = serde_json::to_string(&view).unwrap_or_default();
            format!("id: {}\nevent: {}\ndata: {data}\n\n", view.id, view.event)
        }
        Item::Gap { missing } => format!("event: gap\ndata: {{\"missing\":{missing}}}\n\n"),
    }
}

/// A response that is written line by line as they come.
pub(super) fn lines_response(lines: mpsc::Receiver<String>, content_type: &'static str) -> Response {
    streamed(lines, |line| line, content_type)
}

/// A response that is written item by item as they come.
pub(super) fn streamed<T: Send + 'static>(
    items: mpsc::Receiver<T>,
    text: impl Fn(T) -> String + Send + Unpin + 'static,
    content_type: &'static str,
) -> Response {
    let mut response = Response::new(Body::new(Written { items, text }));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

struct Written<T, F> {
    items: mpsc::Receiver<T>,
    text: F,
}

impl<T: Send, F: Fn(T) -> String + Unpin> http_body::Body for Written<T, F> {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        let item = self.items.poll_recv(cx);
        item.map(|item| item.map(|item| Ok(http_body::Frame::data((self.text)(item).into()))))
    }
}
