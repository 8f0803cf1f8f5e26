//! Checks which host a request names and which web page it comes from, before the caller is
//! identified.
//!
//! Invariant: a request that a page of another origin makes a browser send is refused.
//! Not here: what pages of listed origins may read (`doors/cors`).

use super::{Gate, Peer, TcpPeer};
use crate::network::{Names, authority};
use http::{HeaderMap, Uri, header};
use synapse_core::Refusal;

/// Headers that name the target, the origin or the sender of a request. If one of them occurs
/// twice, a proxy in front of us may look at the other one.
const AT_MOST_ONCE: [(&str, &str); 4] = [
    ("host", "Host"),
    ("authorization", "Authorization"),
    ("origin", "Origin"),
    (synapse_peer::VIA, "X-Synapse-Via"),
];

impl Gate {
    /// Checks that the host and the sender of a request are unambiguous: one header of each kind,
    /// and the same host in `Host` as in an absolute form or `:authority` (L19).
    pub fn check_head(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        for (name, shown) in AT_MOST_ONCE {
            let count = headers.get_all(name).iter().count();
            if count > 1 {
                return Err(Refusal::bad_field(shown, format!("there are {count} of them; send one")));
            }
        }
        let host = headers.get(header::HOST).map_or("", |host| host.to_str().unwrap_or("?"));
        match uri.authority() {
            Some(named) if !named.as_str().eq_ignore_ascii_case(host) => {
                let why = format!("the address of the request names {named}, and the header {host:?}");
                Err(Refusal::bad_field("Host", why))
            }
            _ => Ok(()),
        }
    }

    /// Checks `Host` and `Origin`. A page can make a browser send requests here, but cannot forge
    /// these headers.
    pub fn check_origin(&self, peer: &Peer, headers: &HeaderMap) -> Result<(), Refusal> {
        let Peer::Tcp(tcp) = peer else { return Ok(()) };
        let text = |name| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
        let host = text(header::HOST).unwrap_or("");
        if !self.is_own(tcp, host) {
            let help = "use localhost, or tell the node its names with --host or network.hosts";
            return Err(Refusal::bad_field("Host", format!("{host:?} is not this machine; {help}")));
        }
        let scheme = if tcp.tls.is_some() { "https://" } else { "http://" };
        match text(header::ORIGIN) {
            None => Ok(()),
            Some(origin) if origin.strip_prefix(scheme).is_some_and(|host| self.is_own(tcp, host)) => Ok(()),
            Some(origin) if self.lists_origin(origin) => Ok(()),
            Some(origin) => Err(Refusal::bad_field(
                "Origin",
                format!("{origin:?} may not call this; web pages of others are refused"),
            )),
        }
    }

    /// Whether the user's settings allow pages of this origin (CORS). Only the whole origin counts,
    /// never a part of it.
    pub fn lists_origin(&self, origin: &str) -> bool {
        self.made().of.network.origins.iter().any(|listed| listed == origin)
    }

    fn is_own(&self, tcp: &TcpPeer, host: &str) -> bool {
        let certified: &[String] = tcp.tls.as_ref().map_or(&[], |tls| &tls.hosts);
        let names = Names { hosts: &self.hosts, certified, local: tcp.local.ip(), port: self.port };
        names.include(host, tcp.tls.is_some())
            || self.public_url().is_some_and(|url| authority(&url).eq_ignore_ascii_case(host))
    }
}
