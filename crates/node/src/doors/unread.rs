//! Bounds what large answers take up until their callers have read them (finding M8).
//!
//! Every answer larger than `SMALL` holds its size of one budget until it is written. While the budget is used up, reads
//! are refused: a caller that asks for much and reads nothing makes others wait for room, not the machine for memory.
//!
//! A stream that begins with a large task holds its size too. Not here: the events after it, of which a stream holds a
//! bounded piece (`events`), and the number of streams (`follow`).

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

/// All answers that are under way, kilobytes.
const BUDGET_KB: u32 = 128 << 10;
/// Smaller ones are bounded by the number of connections.
const SMALL: u64 = 256 << 10;
/// What has done more than read is not refused when it is done; it waits so long for room.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct UnreadAnswers(Arc<Semaphore>);

impl Default for UnreadAnswers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_KB as usize)))
    }
}

impl UnreadAnswers {
    /// Room for so many bytes, until it is dropped; none for few. A refusal if there is none left.
    pub fn reserve(&self, bytes: usize) -> Result<Option<Arc<OwnedSemaphorePermit>>, Refusal> {
        let Some(wanted) = wanted_kb(bytes as u64) else { return Ok(None) };
        let room = self.0.clone().try_acquire_many_owned(wanted).map_err(|_| Refusal::AnswersUnread)?;
        Ok(Some(Arc::new(room)))
    }

    /// As `reserve`, after something was done that cannot be refused any more: waits for a while instead.
    pub async fn reserve_patiently(&self, bytes: usize) -> Option<Arc<OwnedSemaphorePermit>> {
        let room = self.0.clone().acquire_many_owned(wanted_kb(bytes as u64)?);
        Some(Arc::new(tokio::time::timeout(PATIENCE, room).await.ok()?.ok()?))
    }

    /// The answer, counted until it is written; a refusal if there is no room and the request only read.
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

/// The share of a large answer.
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
        // Asked for once more after its last piece: only then that piece is written, and its room is free.
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

    /// Finding M8: reads are refused while answers of others wait to be read; small answers and done work are not.
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
