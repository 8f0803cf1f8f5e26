//! Bounds the memory of large responses until their callers have read them (finding M8).
//!
//! A response larger than `SMALL` holds a share of one budget, equal to its size, until it is
//! written. While the budget is used up, reads are refused. So a caller that requests much and
//! reads nothing makes others wait for room; it does not exhaust the memory of the machine.
//!
//! A stream that begins with a large task holds a share too. Not here: the later events of a
//! stream, which buffers a bounded chunk of them (`events`), and the number of streams (`follow`).

use axum::body::Body;
use axum::response::Response;
use http::Method;
use http_body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use synapse_core::Refusal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The budget for all responses being written, in kilobytes.
const BUDGET_KB: u32 = 128 << 10;
/// Smaller responses are bounded by the number of connections.
const SMALL: u64 = 256 << 10;
/// A request that changed something cannot be refused afterwards; its response waits this long for
/// room.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct UnreadAnswers(Arc<Semaphore>);

impl Default for UnreadAnswers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_KB as usize)))
    }
}

impl UnreadAnswers {
    /// Reserves room for this many bytes until the permit is dropped. Small sizes need none.
    /// Refuses if no room is left.
    pub fn reserve(&self, bytes: usize) -> Result<Option<Arc<OwnedSemaphorePermit>>, Refusal> {
        let Some(wanted) = wanted_kb(bytes as u64) else { return Ok(None) };
        let room = self.0.clone().try_acquire_many_owned(wanted).map_err(|_| Refusal::AnswersUnread)?;
        Ok(Some(Arc::new(room)))
    }

    /// Like `reserve`, but waits a while for room: the operation is done and can no longer be
    /// refused.
    pub async fn reserve_patiently(&self, bytes: usize) -> Option<Arc<OwnedSemaphorePermit>> {
        let room = self.0.clone().acquire_many_owned(wanted_kb(bytes as u64)?);
        Some(Arc::new(tokio::time::timeout(PATIENCE, room).await.ok()?.ok()?))
    }

    /// Counts a response until it is written. Refuses it if there is no room and the request was a
    /// GET.
    pub(super) async fn count(&self, method: &Method, answer: Response) -> Result<Response, Refusal> {
        let Some(wanted) = answer.body().size_hint().exact().and_then(wanted_kb) else { return Ok(answer) };
        let room = match self.0.clone().try_acquire_many_owned(wanted) {
            Ok(room) => Some(room),
            Err(_) if *method == Method::GET => return Err(Refusal::AnswersUnread),
            Err(_) => {
                let room = tokio::time::timeout(PATIENCE, self.0.clone().acquire_many_owned(wanted));
                room.await.ok().and_then(Result::ok)
            }
        };
        Ok(answer.map(|body| Body::new(CountedBody { body, _room: room })))
    }
}

/// Returns the share of a large response, in kilobytes.
fn wanted_kb(bytes: u64) -> Option<u32> {
    (bytes > SMALL).then(|| u32::try_from(bytes >> 10).unwrap_or(u32::MAX).min(BUDGET_KB))
}

struct CountedBody {
    body: Body,
    _room: Option<OwnedSemaphorePermit>,
}

impl http_body::Body for CountedBody {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        // So hyper polls once more after the last chunk. Only then is that chunk written, and its
        // room released.
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Response {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    /// Finding M8: reads are refused while others leave responses unread; small responses and
    /// completed operations are not.
    #[tokio::test(start_paused = true)]
    async fn large_answers_share_one_budget() {
        let unread = UnreadAnswers::default();
        let mut held = Vec::new();
        while let Ok(one) = unread.count(&Method::GET, answer(8 << 20)).await {
            held.push(one);
        }
        assert_eq!(held.len(), 16);
        assert!(unread.count(&Method::GET, answer(1_000)).await.is_ok());
        assert!(unread.count(&Method::POST, answer(8 << 20)).await.is_ok(), "after a while");
        held.pop();
        assert!(unread.count(&Method::GET, answer(8 << 20)).await.is_ok());
        held.clear();
        assert!(unread.count(&Method::GET, answer(300 << 20)).await.is_ok(), "a single one may be larger");
        let stream = unread.reserve(100 << 20).unwrap();
        assert!(stream.is_some() && unread.reserve(30 << 20).is_err(), "streams share it");
        assert!(unread.count(&Method::GET, answer(30 << 20)).await.is_err());
        assert!(unread.reserve(1_000).unwrap().is_none(), "small ones need no room");
        drop(stream);
        assert!(unread.reserve_patiently(30 << 20).await.is_some());
    }
}
