//! The other end of a connection, as known from the socket and the handshake.

use crate::ancestry::Kin;
use crate::owner::Owner;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use synapse_core::policy::Caller;
use synapse_tls::Certificate;

/// The other end of a connection.
#[derive(Clone)]
pub enum Peer {
    Unix(Arc<UnixPeer>),
    Tcp(Arc<TcpPeer>),
}

/// The result of the handshake.
pub struct TlsPeer {
    /// The names in our own certificate.
    pub hosts: Arc<[String]>,
    /// The caller's certificate, verified.
    pub certificate: Option<Certificate>,
}

impl TcpPeer {
    pub(super) fn certificate(&self) -> Option<&Certificate> {
        self.tls.as_ref()?.certificate.as_ref()
    }
}

pub struct UnixPeer {
    /// Determined when the connection was accepted: later its pid may name another process.
    pub(super) kin: Kin,
    /// Set once per connection, when first needed.
    pub(super) caller: OnceLock<Caller>,
}

pub struct TcpPeer {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) tls: Option<TlsPeer>,
    /// Determined once per connection, when first needed.
    pub(super) owner: tokio::sync::OnceCell<Owner>,
}

impl Peer {
    /// Creates the peer for a process that connected to the Unix socket.
    pub fn unix(kin: Kin) -> Self {
        Self::Unix(Arc::new(UnixPeer { kin, caller: OnceLock::new() }))
    }

    /// Creates the peer for a connection from `remote` to our own `local`.
    pub fn tcp(remote: SocketAddr, local: SocketAddr, tls: Option<TlsPeer>) -> Self {
        Self::Tcp(Arc::new(TcpPeer { remote, local, tls, owner: tokio::sync::OnceCell::new() }))
    }

    /// Creates a peer of which nothing is known, which gets the fewest rights.
    pub fn unknown() -> Self {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self::tcp(nowhere, nowhere, None)
    }

    /// Returns the remote address; `None` for the Unix socket.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(peer) => Some(peer.remote.ip().to_canonical()),
        }
    }

    /// Whether a system limit prevented the identification. It is never repeated, so the connection
    /// is useless.
    pub fn is_unidentified(&self) -> bool {
        matches!(self, Self::Unix(peer) if matches!(peer.kin, Kin::Limited(_)))
    }

    /// Whether the connection is encrypted with TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tcp(peer) if peer.tls.is_some())
    }

    /// Whether the peer is on this machine, judged by its address.
    pub fn is_local(&self) -> bool {
        self.address().is_none_or(|address| address.is_loopback())
    }
}
