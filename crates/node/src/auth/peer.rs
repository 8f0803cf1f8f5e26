//! The other end of a connection: what the socket and the handshake told of it.

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

/// What the handshake told.
pub struct TlsPeer {
    /// The names in our own certificate.
    pub hosts: Arc<[String]>,
    /// The caller's, verified.
    pub certificate: Option<Certificate>,
}

impl TcpPeer {
    pub(super) fn certificate(&self) -> Option<&Certificate> {
        self.tls.as_ref()?.certificate.as_ref()
    }
}

pub struct UnixPeer {
    /// Found out when the connection was accepted: later its pid may name another process.
    pub(super) kin: Kin,
    /// Made once per connection, when first needed.
    pub(super) caller: OnceLock<Caller>,
}

pub struct TcpPeer {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) tls: Option<TlsPeer>,
    /// Found out once per connection, when it first brings a secret.
    pub(super) owner: tokio::sync::OnceCell<Owner>,
}

impl Peer {
    /// A process that connected to the Unix socket.
    pub fn unix(kin: Kin) -> Self {
        Self::Unix(Arc::new(UnixPeer { kin, caller: OnceLock::new() }))
    }

    /// A connection from `remote` to our own `local`.
    pub fn tcp(remote: SocketAddr, local: SocketAddr, tls: Option<TlsPeer>) -> Self {
        Self::Tcp(Arc::new(TcpPeer { remote, local, tls, owner: tokio::sync::OnceCell::new() }))
    }

    /// One of which nothing is known: as far away as can be.
    pub fn unknown() -> Self {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self::tcp(nowhere, nowhere, None)
    }

    /// Where it calls from; none for the Unix socket.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(peer) => Some(peer.remote.ip().to_canonical()),
        }
    }

    /// Whether a system limit prevented finding out who it is. It stays unknown: the connection is of no more use.
    pub fn is_unidentified(&self) -> bool {
        matches!(self, Self::Unix(peer) if matches!(peer.kin, Kin::Limited(_)))
    }

    /// Whether what it says was secret on the way.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tcp(peer) if peer.tls.is_some())
    }

    /// Whether it is on this machine, as far as its address tells.
    pub fn is_local(&self) -> bool {
        self.address().is_none_or(|address| address.is_loopback())
    }
}
