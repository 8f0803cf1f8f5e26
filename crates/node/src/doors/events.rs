//! `/api/v1/events`: all events as server-sent events, from any point on.
//!
//! The id of an event is its sequence number in the journal. A watcher resumes with `Last-Event-ID`
//! (or `after`). If events after it were pruned, the stream reports the gap (`follow`).

use super::extract::Query;
use super::{Refused, Shared};
use crate::follow::{self, Item};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::ids::{AgentId, Seq, TaskId};
use synapse_core::policy::Caller;
use synapse_core::watch::Topic;
use synapse_dialects::error::ErrorBody;
use synapse_dialects::event::EventView;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, Sleep};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Follow {
    /// Only events of this task.
    #[param(pattern = r"^[0-9a-f]{32}$")]
    task: Option<String>,
    /// Only events of this agent.
    #[param(pattern = r"^[0-9a-f]{64}$")]
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
    Ok(streamed(items, text_of, EVENT_STREAM))
}

fn topic(follow: &Follow) -> Result<Topic, Refusal> {
    Ok(match (&follow.task, &follow.agent, follow.alerts) {
        (Some(task), _, _) => Topic::Task(TaskId::parse(task)?),
        (None, Some(agent), _) => Topic::Agent(AgentId::parse(agent)?),
        (None, None, true) => Topic::Alerts,
        (None, None, false) => Topic::All,
    })
}

fn text_of(item: Item) -> Piece {
    match item {
        Item::Entry(entry) => {
            let (entry, room) = entry.split();
            let view = EventView::from(&*entry);
            let mut text = format!("id: {}\nevent: {}\ndata: ", view.id, view.event).into_bytes();
            text.reserve(entry.record.weight());
            drop(entry);
            let _ = serde_json::to_writer(&mut text, &view);
            text.extend_from_slice(b"\n\n");
            Piece { bytes: text.into_boxed_slice().into(), room: Some(Arc::new(room)) }
        }
        Item::Gap { missing } => format!("event: gap\ndata: {{\"missing\":{missing}}}\n\n").into(),
        Item::Cut(refusal) => {
            let body = ErrorBody::from(&refusal);
            format!("event: error\ndata: {}\n\n", serde_json::to_string(&body).unwrap_or_default()).into()
        }
    }
}

/// A chunk of a response, and the room it takes up in the queue of its reader until the next chunk
/// is requested. So nothing more is loaded for a reader that has not taken this one.
pub(super) struct Piece {
    bytes: bytes::Bytes,
    room: Option<Arc<OwnedSemaphorePermit>>,
}

impl Piece {
    pub(super) fn holding(text: String, room: Option<Arc<OwnedSemaphorePermit>>) -> Self {
        Self { bytes: text.into(), room }
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self { bytes: text.into(), room: None }
    }
}

/// Returns a response that is written line by line as lines arrive.
pub(super) fn lines_response(lines: mpsc::Receiver<String>, content_type: &'static str) -> Response {
    streamed(lines, |line| line, content_type)
}

/// Returns a response that is written item by item as items arrive.
pub(super) fn streamed<T: Send + 'static, P: Into<Piece> + 'static>(
    items: mpsc::Receiver<T>,
    text: impl Fn(T) -> P + Send + Unpin + 'static,
    content_type: &'static str,
) -> Response {
    let quiet = (content_type == EVENT_STREAM).then(|| Box::pin(tokio::time::sleep(QUIET)));
    let mut response = Response::new(Body::new(Written { items, text, quiet, room: None }));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// The interval without events after which a comment is sent. It keeps proxies from closing an idle
/// connection, and it reveals a reader that is gone.
const QUIET: Duration = Duration::from_secs(20);
const COMMENT: &[u8] = b": still here\n\n";

struct Written<T, F> {
    items: mpsc::Receiver<T>,
    text: F,
    /// When to send the next comment, if the format has comments.
    quiet: Option<Pin<Box<Sleep>>>,
    /// The room of the last chunk.
    room: Option<Arc<OwnedSemaphorePermit>>,
}

impl<T: Send, P: Into<Piece>, F: Fn(T) -> P + Unpin> http_body::Body for Written<T, F> {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        // The reader has taken the last chunk.
        self.room = None;
        let frame = match self.items.poll_recv(cx) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(item)) => {
                let Piece { bytes, room } = (self.text)(item).into();
                self.room = room;
                bytes
            }
            Poll::Pending => match self.quiet.as_mut().map(|quiet| quiet.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => bytes::Bytes::from_static(COMMENT),
                Some(Poll::Pending) | None => return Poll::Pending,
            },
        };
        if let Some(quiet) = &mut self.quiet {
            quiet.as_mut().reset(Instant::now() + QUIET);
            // The timer must be polled once to register the waker.
            let _ = quiet.as_mut().poll(cx);
        }
        Poll::Ready(Some(Ok(http_body::Frame::data(frame))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_silent_says_that_it_is_there() {
        let (items, stream) = mpsc::channel(4);
        let mut body = streamed(stream, |n: u32| format!("data: {n}\n\n"), EVENT_STREAM).into_body();
        items.send(1).await.unwrap();
        let mut next = async || {
            let frame = body.frame().await?.unwrap();
            Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
        };
        assert_eq!(next().await.unwrap(), "data: 1\n\n");
        let began = Instant::now();
        assert_eq!(next().await.unwrap(), ": still here\n\n");
        assert_eq!(began.elapsed().as_secs(), QUIET.as_secs());
        assert_eq!(next().await.unwrap(), ": still here\n\n");
        items.send(2).await.unwrap();
        assert_eq!(next().await.unwrap(), "data: 2\n\n");
        drop(items);
        assert_eq!(next().await, None);
        // Other line formats have no comments.
        let (items, stream) = mpsc::channel::<String>(4);
        let mut body = lines_response(stream, "application/x-ndjson").into_body();
        let waited = tokio::time::timeout(QUIET * 5, body.frame()).await;
        assert!(waited.is_err(), "something came");
        drop(items);
    }
}
