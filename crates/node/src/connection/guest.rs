//! Counts the requests on one HTTP/2 connection, and detects when it is idle.
//!
//! A request counts until the last byte of its response is sent, or until it is dropped.

use axum::body::Body;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(super) struct Guests {
    room: Arc<Semaphore>,
    here: watch::Sender<usize>,
}

/// One running request.
pub(super) struct Guest {
    room: Option<OwnedSemaphorePermit>,
    here: watch::Sender<usize>,
}

impl Guests {
    pub(super) fn new(room: Arc<Semaphore>) -> Self {
        Self { room, here: watch::Sender::new(0) }
    }

    pub(super) fn enter(&self) -> Guest {
        self.here.send_modify(|here| *here += 1);
        Guest { room: self.room.clone().try_acquire_owned().ok(), here: self.here.clone() }
    }

    /// Resolves when at least one request was served and none is running.
    pub(super) fn gone(&self) -> impl Future<Output = ()> + use<> {
        let mut here = self.here.subscribe();
        async move {
            // The first change may already be the end of the first request.
            if here.changed().await.is_ok() {
                let _ = here.wait_for(|here| *here == 0).await;
            }
        }
    }

    /// Resolves when no request has been running for this long.
    pub(super) fn quiet_for(&self, time: Duration) -> impl Future<Output = ()> + use<> {
        let mut here = self.here.subscribe();
        async move {
            loop {
                let is_quiet = *here.borrow_and_update() == 0;
                let changed = here.changed();
                if is_quiet {
                    match tokio::time::timeout(time, changed).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) | Err(_) => return,
                    }
                } else if changed.await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Guest {
    /// Whether there was no room for this request.
    pub(super) fn is_too_many(&self) -> bool {
        self.room.is_none()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.here.send_modify(|here| *here -= 1);
    }
}

/// A response body that keeps its request counted.
pub(super) struct Kept {
    body: Body,
    _guest: Guest,
}

impl Kept {
    pub(super) fn new(body: Body, guest: Guest) -> Self {
        Self { body, _guest: guest }
    }
}

impl http_body::Body for Kept {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_quiet_only_when_nobody_is_there() {
        let guests = Guests::new(Arc::new(Semaphore::new(1)));
        let quiet = guests.quiet_for(Duration::ZERO);
        tokio::pin!(quiet);
        let first = guests.enter();
        let second = guests.enter();
        assert!(!first.is_too_many() && second.is_too_many(), "there is room for one");
        assert!(is_pending(quiet.as_mut()).await);
        drop(second);
        assert!(is_pending(quiet.as_mut()).await, "the first is still there");
        drop(first);
        quiet.await;
        assert!(!guests.enter().is_too_many(), "room comes back");
    }

    #[tokio::test]
    async fn gone_after_the_first_have_left() {
        let guests = Guests::new(Arc::new(Semaphore::new(2)));
        let gone = guests.gone();
        tokio::pin!(gone);
        assert!(is_pending(gone.as_mut()).await, "nobody has come");
        let (first, second) = (guests.enter(), guests.enter());
        drop(first);
        assert!(is_pending(gone.as_mut()).await);
        drop(second);
        gone.await;
    }

    async fn is_pending(mut future: Pin<&mut impl Future<Output = ()>>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }
}
