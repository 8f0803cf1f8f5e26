//! Sockets: a Unix socket for this user alone, and TCP on loopback; limits on connections, heads, bodies, time.
//!
//! Invariant: a connection costs a bounded amount of memory and time, whatever the other side does.

use crate::auth::Peer;
use crate::doors::Shared;
use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use synapse_store::home::socket_address;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service as _;

const CONNECTIONS_MAX: usize = 1_024;
/// Connections from addresses that may not call, at once; further ones are closed unheard.
const REFUSED_MAX: usize = 32;
/// Also how long a connection may stay open without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long an orderly stop waits for answers under way.
const STOP_GRACE: Duration = Duration::from_secs(2);
const PORT_FIRST: u16 = 8100;
const PORT_LAST: u16 = 8999;

pub struct Listeners {
    unix: UnixListener,
    tcp: TcpListener,
    pub port: u16,
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("port {port} is taken ({why}); choose another with --port, or leave it out")]
    PortTaken { port: u16, why: std::io::Error },
    #[error(
        "no port from {PORT_FIRST} to {PORT_LAST} is free; stop an agent (`synapse list`), or name one with --port"
    )]
    NoPort,
    #[error("the socket {path} cannot be made: {why}")]
    Socket { path: String, why: String },
}

/// What is wished of a port, in falling order.
pub struct PortWish<'a> {
    pub asked: Option<u16>,
    pub last: Option<u16>,
    /// Ports that stopped agents will want back.
    pub spared: &'a [u16],
}

impl Listeners {
    pub async fn bind(socket: &Path, wish: PortWish<'_>) -> Result<Self, ListenError> {
        let bad = |why: String| ListenError::Socket { path: socket.display().to_string(), why };
        let (address, _guard) = socket_address(socket).map_err(|e| bad(e.to_string()))?;
        // Ours alone: whoever holds the agent's lock may replace what a killed node left.
        match std::fs::remove_file(socket) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(bad(e.to_string())),
            _ => {}
        }
        let unix = UnixListener::bind(&address).map_err(|e| bad(e.to_string()))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(socket, mode).map_err(|e| bad(e.to_string()))?;
        let tcp = bind_port(wish).await?;
        let port = tcp.local_addr().map_err(|e| bad(e.to_string()))?.port();
        Ok(Self { unix, tcp, port })
    }

    /// Serves until told to stop, then lets what is under way finish.
    pub async fn serve(self, router: Router, app: Shared, stop: CancellationToken) {
        let shop = Shop {
            router,
            app,
            room: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            lobby: Arc::new(Semaphore::new(REFUSED_MAX)),
            open: TaskTracker::new(),
            stop,
        };
        tokio::join!(accept_unix(self.unix, &shop), accept_tcp(self.tcp, &shop));
        shop.open.close();
        let _ = tokio::time::timeout(STOP_GRACE, shop.open.wait()).await;
    }
}

/// Binding is the reservation: twenty that start at once each get a port of their own.
async fn bind_port(wish: PortWish<'_>) -> Result<TcpListener, ListenError> {
    let bind = |port| TcpListener::bind(("127.0.0.1", port));
    if let Some(port) = wish.asked {
        return bind(port).await.map_err(|why| ListenError::PortTaken { port, why });
    }
    let spare = |port: &u16| wish.spared.contains(port);
    let range = PORT_FIRST..=PORT_LAST;
    let wanted = wish.last.into_iter().chain(range.clone().filter(|p| !spare(p))).chain(range.filter(spare));
    for port in wanted {
        if let Ok(listener) = bind(port).await {
            return Ok(listener);
        }
    }
    Err(ListenError::NoPort)
}

struct Shop {
    router: Router,
    app: Shared,
    room: Arc<Semaphore>,
    /// For addresses that may not call: they hear so, and take no room from others.
    lobby: Arc<Semaphore>,
    open: TaskTracker,
    stop: CancellationToken,
}

async fn accept_unix(listener: UnixListener, shop: &Shop) {
    let own = rustix::process::geteuid().as_raw();
    loop {
        let Ok(room) = shop.room.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = shop.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            pause().await;
            continue;
        };
        let Ok(cred) = stream.peer_cred() else { continue };
        // The mode of the socket already says so; root of a container may still come by.
        if cred.uid() != own && cred.uid() != 0 {
            tracing::warn!(uid = cred.uid(), "another user knocked at the Unix socket");
            continue;
        }
        let pid = cred.pid().and_then(|pid| u32::try_from(pid).ok());
        shop.take(stream, Peer::unix(pid), room);
    }
}

async fn accept_tcp(listener: TcpListener, shop: &Shop) {
    loop {
        let Ok(room) = shop.room.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = shop.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, remote)) = accepted else {
            pause().await;
            continue;
        };
        let Ok(local) = stream.local_addr() else { continue };
        let _ = stream.set_nodelay(true);
        if shop.app.gate.allows(remote.ip()) {
            shop.take(stream, Peer::tcp(remote, local), room);
        } else if let Ok(lobby) = shop.lobby.clone().try_acquire_owned() {
            shop.take(stream, Peer::tcp(remote, local), lobby);
        }
    }
}

/// `accept` fails when descriptors run out; trying again at once would only burn the processor.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

impl Shop {
    fn take<S>(&self, stream: S, peer: Peer, room: tokio::sync::OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (router, metrics, stop) = (self.router.clone(), self.app.metrics.clone(), self.stop.clone());
        self.open.spawn(async move {
            metrics.connected();
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let (mut router, peer) = (router.clone(), peer.clone());
                async move {
                    let mut request = request.map(Body::new);
                    request.extensions_mut().insert(peer);
                    router.call(request).await.map_err(|e: Infallible| match e {})
                }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => {}
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            metrics.disconnected();
            drop(room);
        });
    }
}
