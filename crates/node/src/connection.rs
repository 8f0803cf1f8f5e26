//! One connection: HTTP/1.1 or HTTP/2, whichever its first bytes speak, within bounds of memory and time.
//!
//! HTTP/2 is what gRPC needs; everything else may use it too. It comes with prior knowledge on plain sockets, and under
//! TLS by ALPN.
//!
//! Invariant: a connection costs a bounded amount of memory and time, whatever the other side does.
//! Not here: who may connect, and how many (`listen`).

mod drain;
mod guest;
mod preface;

use crate::auth::Peer;
use crate::metrics::Metrics;
use axum::Router;
use axum::body::Body;
use drain::DrainedBody;
use guest::{Guests, Kept};
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use preface::{Rewound, sniff};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

/// Also how long a connection may stay open without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
const HEAD_BYTES_MAX: u32 = 32 << 10;

/// Requests at once on one connection of HTTP/2; further ones wait on the caller's side.
const STREAMS_MAX: u32 = 128;
/// The smallest that the protocol allows: each connection has a buffer of this size.
const FRAME_BYTES_MAX: u32 = 16 << 10;
/// What may arrive of one body, and of all bodies of a connection, before anybody has read it.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// What of one answer is kept for a caller that does not take it.
const SEND_BYTES_MAX: usize = 64 << 10;
/// Requests that were taken back before we looked at them, and faults in the use of single streams: more end the connection.
const RESETS_MAX: usize = 32;
const STREAM_FAULTS_MAX: usize = 128;
/// A caller that is gone without a word is found out by this.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long what is under way may take after a connection was told to come to an end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// There was no room for one more request over HTTP/2; whoever answers it says so.
#[derive(Clone, Copy)]
pub struct Crowded;

/// What serves connections; cheap to clone.
#[derive(Clone)]
pub struct Serving {
    pub router: Router,
    pub metrics: Arc<Metrics>,
    /// Room for requests over HTTP/2, of which a connection may have many.
    pub room: Arc<Semaphore>,
    pub stop: CancellationToken,
}

impl Serving {
    /// Until it closes, is quiet for too long, or all is told to stop.
    pub async fn serve<S>(self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let metrics = self.metrics.clone();
        metrics.connected();
        let sniffed = tokio::select! {
            sniffed = tokio::time::timeout(HEAD_TIMEOUT, sniff(stream)) => sniffed,
            () = self.stop.cancelled() => Ok(Err(std::io::ErrorKind::Interrupted.into())),
        };
        match sniffed {
            Ok(Ok((stream, true))) => self.http2(stream, peer).await,
            Ok(Ok((stream, false))) => self.http1(stream, peer).await,
            // Gone before it said anything, or it took too long for it.
            Ok(Err(_)) | Err(_) => {}
        }
        metrics.disconnected();
    }

    async fn http1<S>(self, stream: Rewound<S>, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (router, stop) = (self.router, self.stop);
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            answer(router.clone(), peer.clone(), request.map(Body::new))
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX as usize);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => {}
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }

    async fn http2<S>(self, stream: Rewound<S>, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (router, stop) = (self.router, self.stop);
        let guests = Guests::new(self.room);
        let (quiet, gone, is_unidentified) =
            (guests.quiet_for(HEAD_TIMEOUT), guests.gone(), peer.is_unidentified());
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut request = with_host(request.map(|body| Body::new(DrainedBody::new(body))));
            let guest = guests.enter();
            if guest.is_too_many() {
                request.extensions_mut().insert(Crowded);
            }
            let answered = answer(router.clone(), peer.clone(), request);
            async move { answered.await.map(|response| response.map(|body| Kept::new(body, guest))) }
        });
        let connection = http2_limits().serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection, quiet, gone);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = quiet => {}
            // Refused, and to be identified on another connection.
            () = gone, if is_unidentified => {}
            () = stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(LAST_WORDS, connection).await;
    }
}

fn http2_limits() -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(STREAM_FAULTS_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT);
    http
}

async fn answer(
    mut router: Router,
    peer: Peer,
    mut request: Request<Body>,
) -> Result<Response<Body>, Infallible> {
    request.extensions_mut().insert(peer);
    router.call(request).await
}

/// HTTP/2 names the host in `:authority`. A `Host` beside it stays: the doors refuse requests in which the two differ.
fn with_host(mut request: Request<Body>) -> Request<Body> {
    let authority = request.uri().authority().map(|own| HeaderValue::from_str(own.as_str()));
    if let Some(Ok(host)) = authority
        && !request.headers().contains_key(header::HOST)
    {
        request.headers_mut().insert(header::HOST, host);
    }
    request
}
