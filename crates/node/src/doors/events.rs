//! `/api/v1/events`: everything that happens, as server-sent events, from any point on.
//!
//! The id of an event is its place in the journal. `Last-Event-ID` (or `after`) goes on where a watcher left
//! off: from memory if it can, from the journal if it must; a gap that was pruned is said.

use super::{App, Refused, Shared};
use crate::handle::Followed;
use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use synapse_core::Refusal;
use synapse_core::effect::Input;
use synapse_core::ids::{AgentId, Seq, TaskId, WatcherId};
use synapse_core::policy::Caller;
use synapse_core::record::Entry;
use synapse_core::watch::Topic;
use synapse_dialects::error::ErrorBody;
use synapse_dialects::event::EventView;
use tokio::sync::mpsc;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
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
    let mut after = returning.or(follow.after).map(Seq);
    let (lines, body) = mpsc::channel::<String>(64);
    let live = loop {
        match app.handle.follow(caller.clone(), topic, after).await? {
            live @ Followed::Live { .. } => break live,
            Followed::Behind { oldest_in_memory } => {
                // Answered from the journal in the background; the stream begins at once.
                let start = after.unwrap_or(Seq(0));
                if oldest_in_memory.0 > start.next().0 {
                    return Ok(catch_up_first(app, caller, topic, start, lines, body));
                }
                after = Some(Seq(oldest_in_memory.0.saturating_sub(1)));
            }
        }
    };
    tokio::spawn(stream_live(app, live, topic, lines));
    Ok(lines_response(body, "text/event-stream"))
}

fn topic(follow: &Follow) -> Result<Topic, Refusal> {
    Ok(match (&follow.task, &follow.agent, follow.alerts) {
        (Some(task), _, _) => Topic::Task(TaskId::parse(task)?),
        (None, Some(agent), _) => Topic::Agent(AgentId::parse(agent)?),
        (None, None, true) => Topic::Alerts,
        (None, None, false) => Topic::All,
    })
}

fn catch_up_first(
    app: Shared,
    caller: Caller,
    topic: Topic,
    start: Seq,
    lines: mpsc::Sender<String>,
    body: mpsc::Receiver<String>,
) -> Response {
    tokio::spawn(async move {
        let mut after = start;
        loop {
            let before = after;
            match read_page(&app, topic, &mut after, &lines).await {
                Some(true) => continue,
                Some(false) => {}
                None => return,
            }
            match app.handle.follow(caller.clone(), topic, Some(after)).await {
                Ok(live @ Followed::Live { .. }) => return stream_live(app, live, topic, lines).await,
                Ok(Followed::Behind { oldest_in_memory }) if after == before => {
                    // Neither in memory nor in the journal any more: say so, and go on from what is left.
                    let missing = oldest_in_memory.0.saturating_sub(after.0 + 1);
                    if lines.send(gap_text(missing)).await.is_err() {
                        return;
                    }
                    after = Seq(oldest_in_memory.0.saturating_sub(1));
                }
                Ok(Followed::Behind { .. }) => {}
                Err(_) => return,
            }
        }
    });
    lines_response(body, "text/event-stream")
}

/// One page of the journal; true if there may be more, none if the reader has gone.
async fn read_page(
    app: &Arc<App>,
    topic: Topic,
    after: &mut Seq,
    lines: &mpsc::Sender<String>,
) -> Option<bool> {
    const PAGE: u64 = 256;
    let from = *after;
    let (entries, gap) = app.archive(move |history| history.events(from, PAGE)).await.ok()?;
    if gap {
        let missing = entries.first().map_or(0, |first| first.seq.0.saturating_sub(from.0 + 1));
        lines.send(gap_text(missing)).await.ok()?;
    }
    let full = entries.len() as u64 == PAGE;
    for entry in entries {
        *after = entry.seq;
        if topic.covers(&entry) {
            lines.send(event_text(&entry)).await.ok()?;
        }
    }
    Some(full)
}

async fn stream_live(app: Shared, live: Followed, topic: Topic, lines: mpsc::Sender<String>) {
    let Followed::Live { id, missed, mut events, .. } = live else { return };
    let _guard = WatchGuard { app: app.clone(), id };
    for entry in missed.iter().filter(|entry| topic.covers(entry)) {
        if lines.send(event_text(entry)).await.is_err() {
            return;
        }
    }
    loop {
        let entry = tokio::select! {
            entry = events.recv() => entry,
            () = lines.closed() => None,
            () = app.stop.cancelled() => None,
        };
        let Some(entry) = entry else { return };
        if lines.send(event_text(&entry)).await.is_err() {
            return;
        }
    }
}

fn event_text(entry: &Entry) -> String {
    let view = EventView::from(entry);
    let data = serde_json::to_string(&view).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", view.id, view.event)
}

fn gap_text(missing: u64) -> String {
    format!("event: gap\ndata: {{\"missing\":{missing}}}\n\n")
}

struct WatchGuard {
    app: Shared,
    id: WatcherId,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.app.handle.tell(Input::WatcherLeft { watcher: self.id });
    }
}

/// A response that is written line by line as they come.
pub(super) fn lines_response(lines: mpsc::Receiver<String>, content_type: &'static str) -> Response {
    let mut response = Response::new(Body::new(Lines(lines)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

struct Lines(mpsc::Receiver<String>);

impl http_body::Body for Lines {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        self.0.poll_recv(cx).map(|line| line.map(|text| Ok(http_body::Frame::data(text.into()))))
    }
}
