//! Reads the rest of an HTTP/2 request body that was answered without being read, within limits.
//!
//! Dropping a body resets its stream. Some clients (curl before 8) then report a broken stream
//! instead of the response, so the reason for a refusal is lost.

use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A longer rest is not read; the stream is reset.
const BYTES_MAX: usize = 256 << 10;
const TIME_MAX: Duration = Duration::from_secs(10);

/// A request body whose rest is read when it is dropped.
pub(super) struct DrainedBody(Option<Incoming>);

impl DrainedBody {
    pub(super) fn new(body: Incoming) -> Self {
        Self(Some(body))
    }
}

impl Body for DrainedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        };
        // After an error or the end, nothing is left to read.
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            self.0 = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        // Bounded by the number of streams of a connection, because each of these holds one.
        runtime.spawn(tokio::time::timeout(TIME_MAX, async move {
            let mut left = BYTES_MAX;
            while let Some(Ok(frame)) = body.frame().await {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                match left.checked_sub(bytes) {
                    Some(rest) => left = rest,
                    None => return,
                }
            }
        }));
    }
}
