//! One connection: HTTP/1.1 or HTTP/2, as its first bytes say, within limits of memory and time.
//!
//! gRPC needs HTTP/2; every other request may use it too. It is available with prior knowledge on
//! plain sockets, and through ALPN under TLS.
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

/// The maximum number of concurrent requests on one HTTP/2 connection; further ones wait on the
/// caller's side.
const STREAMS_MAX: u32 = 128;
/// The smallest value the protocol allows: each connection has a buffer of this size.
const FRAME_BYTES_MAX: u32 = 16 << 10;
/// The limits of unread body data, for one request and for all requests of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// How much of one response is buffered for a caller that does not read it.
const SEND_BYTES_MAX: usize = 64 << 10;
/// The limits of early resets by the client and of errors on single streams; more end the
/// connection.
const RESETS_MAX: usize = 32;
const STREAM_FAULTS_MAX: usize = 128;
/// Pings detect a caller that has disappeared.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long running requests may continue after the connection was told to end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Marks a request over HTTP/2 for which there was no room; the doors refuse it.
#[derive(Clone, Copy)]
pub struct Crowded;

/// Serves connections; cheap to clone.
#[derive(Clone)]
pub struct Serving {
    pub router: Router,
    pub metrics: Arc<Metrics>,
    /// Permits for requests over HTTP/2, where one connection may have many.
    pub room: Arc<Semaphore>,
    pub stop: CancellationToken,
}

impl Serving {
    /// Serves a connection until it closes, is idle for too long, or the node stops.
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
            // The client disconnected before it sent anything, or took too long.
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
            // The caller could not be identified and was refused; it may try again on another
            // connection.
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

/// Adds a `Host` header from `:authority`. An existing `Host` stays: the doors refuse requests in
/// which the two differ.
fn with_host(mut request: Request<Body>) -> Request<Body> {
    let authority = request.uri().authority().map(|own| HeaderValue::from_str(own.as_str()));
    if let Some(Ok(host)) = authority
        && !request.headers().contains_key(header::HOST)
    {
        request.headers_mut().insert(header::HOST, host);
    }
    request
}
