//! The events of a task as the messages of a stream, and how the stream ended (R6).
//!
//! Messages have no ids. So the head of a stream has the mark of its first event, and its end that of its last: whoever
//! comes back with the first hears all that followed, and knows how much of it is not new.

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

/// `goes_on` with one that broke off; `until` is when the caller no longer waits.
pub(super) async fn told(
    app: Shared,
    service: Service,
    mut events: Stream,
    goes_on: bool,
    until: Option<Instant>,
) -> Response {
    // Of one that goes on the first may be a long time coming; of all others it is soon there.
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

/// The events of a task as messages, then how the stream ended.
struct Told {
    app: Shared,
    service: Service,
    first: Option<Event>,
    events: Stream,
    late: Option<Pin<Box<Sleep>>>,
    /// What was told last, and whether a stream may end with it.
    last: Option<(Mark, End)>,
    is_over: bool,
    /// Of the event that was told last, until it was taken.
    room: Option<Arc<OwnedSemaphorePermit>>,
}

/// What a stream may end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing more happens.
    Final,
    /// Nothing more happens until somebody does something.
    Pause,
    /// There is more to come.
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

    /// A stream that broke off on our side does not look like one that told all.
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
                // The task as it is now follows, and that is how a caller knows.
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
