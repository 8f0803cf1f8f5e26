//! Streams the events of a task as gRPC messages, followed by the status of the stream (R6).
//!
//! gRPC messages have no ids. So the headers carry the id of the first event and the trailers that
//! of the last. A client that resumes from the first id gets every later event, and can tell which
//! of them it already has.

use super::{Service, answer, refused, trailers};
use crate::a2a::{Event, Mark, Stream};
use crate::doors::Shared;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use http_body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::grpc::Status;
use synapse_a2a::pb::{self, TaskState, stream_response::Payload};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

const FIRST_EVENT: HeaderName = HeaderName::from_static("first-event-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

fn mark_of(mark: Mark) -> Option<HeaderValue> {
    HeaderValue::try_from(mark.to_string()).ok()
}

/// Starts the response. `goes_on` means that the client resumes a broken stream; `until` is its
/// deadline.
pub(super) async fn told(
    app: Shared,
    service: Service,
    mut events: Stream,
    goes_on: bool,
    until: Option<Instant>,
) -> Response {
    // A resumed stream may have no event for a long time; any other stream has one soon.
    let first = match until {
        _ if goes_on => None,
        None => events.recv().await,
        Some(until) => match tokio::time::timeout_at(until, events.recv()).await {
            Ok(first) => first,
            Err(_) => return refused(&Status::Late),
        },
    };
    let mark = match &first {
        Some(Event::Told { mark, .. }) => mark_of(*mark),
        Some(Event::Gap | Event::Cut(_)) | None => None,
    };
    let late = until.map(|until| Box::pin(tokio::time::sleep_until(until)));
    let mut response =
        answer(Body::new(Told { app, service, first, events, late, last: None, is_over: false, room: None }));
    response.headers_mut().extend(mark.map(|mark| (FIRST_EVENT, mark)));
    response
}

/// A body with the events of a task as messages, and the status of the stream as trailers.
struct Told {
    app: Shared,
    service: Service,
    first: Option<Event>,
    events: Stream,
    late: Option<Pin<Box<Sleep>>>,
    /// The last event sent, and whether a stream may end with it.
    last: Option<(Mark, End)>,
    is_over: bool,
    /// The room of the last event sent, until the client has taken it.
    room: Option<Arc<OwnedSemaphorePermit>>,
}

/// Whether a stream may end after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The task has ended.
    Final,
    /// The task waits for input or authentication.
    Pause,
    /// More events follow.
    None,
}

impl End {
    fn of(response: &pb::StreamResponse) -> Self {
        let status = match &response.payload {
            Some(Payload::Task(task)) => &task.status,
            Some(Payload::StatusUpdate(update)) => &update.status,
            Some(Payload::Message(_)) => return Self::Final,
            Some(Payload::ArtifactUpdate(_)) | None => return Self::None,
        };
        match status.as_ref().map(pb::TaskStatus::state) {
            Some(TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected) => {
                Self::Final
            }
            Some(TaskState::InputRequired | TaskState::AuthRequired) => Self::Pause,
            _ => Self::None,
        }
    }
}

impl Told {
    fn over(&mut self, status: &Status) -> Frame<bytes::Bytes> {
        self.is_over = true;
        let mut trailers = trailers(status);
        let mark = self.last.and_then(|(mark, _)| mark_of(mark));
        trailers.extend(mark.map(|mark| (LAST_EVENT, mark)));
        Frame::trailers(trailers)
    }

    /// Returns `OK` only for a complete stream. A stream that we broke off ends with an error, so
    /// that clients can tell.
    fn end(&self) -> Status {
        let is_whole = match self.last {
            Some((_, End::Final)) => true,
            Some((_, End::None)) => false,
            Some((_, End::Pause)) | None => !self.app.stop.is_cancelled(),
        };
        if is_whole {
            return Status::Ok;
        }
        let operation = self.service.subscribe();
        let why = format!("the stream broke off; {operation} with last-event-id goes on with it");
        Fault::new(Kind::Stopping, why).into()
    }
}

impl http_body::Body for Told {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let told = &mut *self;
        told.room = None;
        if told.is_over {
            return Poll::Ready(None);
        }
        if told.late.as_mut().is_some_and(|late| late.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(Some(Ok(told.over(&Status::Late))));
        }
        loop {
            let event = match told.first.take() {
                Some(first) => Some(first),
                None => ready!(told.events.poll_recv(cx)),
            };
            let frame = match event {
                Some(Event::Told { mark, response, room }) => {
                    told.room = room;
                    told.last = Some((mark, End::of(&response)));
                    match told.service.event(&response) {
                        Ok(message) => Frame::data(message.into()),
                        Err(fault) => told.over(&fault.into()),
                    }
                }
                Some(Event::Cut(fault)) => told.over(&fault.into()),
                // The current state of the task follows, so the client learns of the gap from that.
                Some(Event::Gap) => continue,
                None => {
                    let end = told.end();
                    told.over(&end)
                }
            };
            return Poll::Ready(Some(Ok(frame)));
        }
    }
}
