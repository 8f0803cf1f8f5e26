//! The client's input, and the moment it ends: waiting calls must not delay the shutdown.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Forwards all input, and cancels `closed` at its end.
pub(crate) struct Input<R> {
    inner: R,
    closed: CancellationToken,
}

impl<R> Input<R> {
    pub(crate) fn new(inner: R, closed: CancellationToken) -> Self {
        Self { inner, closed }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        if read.is_err() || buf.filled().len() == before {
            self.closed.cancel();
        }
        Poll::Ready(read)
    }
}
