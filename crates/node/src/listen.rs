//! Listeners: a Unix socket for this user only, and TCP, on loopback or secured by TLS; limits of
//! connections and addresses.
//!
//! Not here: the protocol on a connection, and its limits (`connection`).

use crate::ancestry;
use crate::auth::Peer;
use crate::connection::Serving;
use crate::doors::Shared;
use crate::handshake::Handshakes;
use axum::Router;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use synapse_holder::SocketPeer;
use synapse_store::home::socket_address;
use synapse_tls::Server;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// For each of the two sockets, so that TCP callers cannot lock out the user's own commands.
const CONNECTIONS_MAX: u64 = 2_048;
/// Files that a node needs besides its connections: one for each running task, and its journal,
/// folders and pipes.
const OTHER_FILES: u64 = 512;
/// Concurrent connections from addresses that may not call; further ones are closed without an
/// answer.
const REFUSED_MAX: usize = 32;
/// Concurrent requests over HTTP/2, for each of the two sockets; one connection may have many.
const REQUESTS_MAX: usize = 2_048;
/// How long an orderly stop waits for running requests.
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
    #[error("{address} cannot be listened on ({why}); --listen takes an address that this machine has")]
    NoAddress { address: IpAddr, why: std::io::Error },
    #[error("the socket {path} cannot be made: {why}")]
    Socket { path: String, why: String },
}

/// The preferred ports, the most preferred first.
pub struct PortWish<'a> {
    pub asked: Option<u16>,
    pub last: Option<u16>,
    /// The ports of other agents, which may be stopped and want them back.
    pub spared: &'a [u16],
}

impl Listeners {
    pub async fn bind(socket: &Path, address: IpAddr, wish: PortWish<'_>) -> Result<Self, ListenError> {
        let bad = |why: String| ListenError::Socket { path: socket.display().to_string(), why };
        let (path, _guard) = socket_address(socket).map_err(|e| bad(e.to_string()))?;
        // We hold the agent's lock, so we may replace the socket of a killed node.
        match std::fs::remove_file(socket) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(bad(e.to_string())),
            _ => {}
        }
        let unix = UnixListener::bind(&path).map_err(|e| bad(e.to_string()))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(socket, mode).map_err(|e| bad(e.to_string()))?;
        let tcp = bind_port(address, wish).await?;
        let port = tcp.local_addr().map_err(|e| bad(e.to_string()))?.port();
        Ok(Self { unix, tcp, port })
    }

    /// Serves until told to stop, then lets running requests finish.
    pub async fn serve(self, router: Router, app: Shared, tls: Option<Server>, stop: CancellationToken) {
        let tls = tls.map(|server| Arc::new(Handshakes::new(server)));
        let lobby = Arc::new(Semaphore::new(REFUSED_MAX));
        let open = TaskTracker::new();
        let shop = || {
            let room = Arc::new(Semaphore::new(REQUESTS_MAX));
            let serving =
                Serving { router: router.clone(), metrics: app.metrics.clone(), room, stop: stop.clone() };
            Shop { serving, app: app.clone(), lobby: lobby.clone(), open: open.clone() }
        };
        tokio::join!(accept_unix(self.unix, shop()), accept_tcp(self.tcp, tls, shop()));
        open.close();
        let _ = tokio::time::timeout(STOP_GRACE, open.wait()).await;
    }
}

/// Takes a port by binding it, so that even twenty agents that start at once each get a different
/// one.
async fn bind_port(address: IpAddr, wish: PortWish<'_>) -> Result<TcpListener, ListenError> {
    let bind = |port| TcpListener::bind((address, port));
    let is_absent = |why: &std::io::Error| why.kind() == std::io::ErrorKind::AddrNotAvailable;
    if let Some(port) = wish.asked {
        return bind(port).await.map_err(|why| match is_absent(&why) {
            true => ListenError::NoAddress { address, why },
            false => ListenError::PortTaken { port, why },
        });
    }
    let spare = |port: &u16| wish.spared.contains(port);
    let range = PORT_FIRST..=PORT_LAST;
    let wanted = wish.last.into_iter().chain(range.clone().filter(|p| !spare(p))).chain(range.filter(spare));
    for port in wanted {
        match bind(port).await {
            Ok(listener) => return Ok(listener),
            Err(why) if is_absent(&why) => return Err(ListenError::NoAddress { address, why }),
            Err(_) => {}
        }
    }
    Err(ListenError::NoPort)
}

/// The state of one listener.
struct Shop {
    serving: Serving,
    app: Shared,
    /// Permits for addresses that may not call: they get an answer, and take no room from others.
    lobby: Arc<Semaphore>,
    open: TaskTracker,
}

async fn accept_unix(listener: UnixListener, shop: Shop) {
    let own = rustix::process::geteuid().as_raw();
    let room = Arc::new(Semaphore::new(connections_max()));
    loop {
        let Ok(room) = room.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = shop.serving.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            pause().await;
            continue;
        };
        let Ok(peer) = SocketPeer::of(&stream) else { continue };
        // The mode of the socket already ensures this; root of a container may still connect.
        if peer.uid != own && peer.uid != 0 {
            tracing::warn!(uid = peer.uid, "another user knocked at the Unix socket");
            continue;
        }
        // Now and not at the first request: by then the caller may be gone, and its pid reused
        //
        let kin = ancestry::of_peer(&shop.app.home, &peer);
        shop.take(stream, Peer::unix(kin), room);
    }
}

async fn accept_tcp(listener: TcpListener, tls: Option<Arc<Handshakes>>, shop: Shop) {
    let room = Arc::new(Semaphore::new(connections_max()));
    loop {
        let Ok(room) = room.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = shop.serving.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, remote)) = accepted else {
            pause().await;
            continue;
        };
        let Ok(local) = stream.local_addr() else { continue };
        let _ = stream.set_nodelay(true);
        let room = if shop.app.gate.allows(remote.ip()) {
            room
        } else if let Ok(lobby) = shop.lobby.clone().try_acquire_owned() {
            drop(room);
            lobby
        } else {
            shop.app.audit.turned_away(remote.ip().to_canonical(), "connect", "address_refused");
            continue;
        };
        match &tls {
            None => shop.take(stream, Peer::tcp(remote, local, None), room),
            Some(tls) => shop.take_secured(stream, (remote, local), tls.clone(), room),
        }
    }
}

/// Returns how many connections the file descriptors allow.
fn connections_max() -> usize {
    let each = (crate::open_files::allowed().saturating_sub(OTHER_FILES) / 2).clamp(16, CONNECTIONS_MAX);
    usize::try_from(each).unwrap_or(usize::MAX)
}

/// Waits after a failed `accept`, which happens when descriptors run out; an immediate retry would
/// only burn CPU time.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

impl Shop {
    fn take<S>(&self, stream: S, peer: Peer, room: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let served = self.serving.clone().serve(stream, peer);
        self.open.spawn(async move {
            served.await;
            drop(room);
        });
    }

    fn take_secured(
        &self,
        stream: TcpStream,
        (remote, local): (SocketAddr, SocketAddr),
        tls: Arc<Handshakes>,
        room: OwnedSemaphorePermit,
    ) {
        let (serving, app) = (self.serving.clone(), self.app.clone());
        self.open.spawn(async move {
            let shaken = tokio::select! {
                () = serving.stop.cancelled() => return,
                shaken = tls.shake(stream) => shaken,
            };
            match shaken {
                Ok((stream, told)) => {
                    let peer = Peer::tcp(remote, local, Some(told));
                    serving.serve(stream, peer).await;
                }
                Err(why) => {
                    app.metrics.handshake_failed();
                    app.audit.turned_away(remote.ip().to_canonical(), "connect", "handshake_failed");
                    // Anybody can cause this as often as they like.
                    tracing::debug!(%remote, %why, "no secure connection");
                }
            }
            drop(room);
        });
    }
}
