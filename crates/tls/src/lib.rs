//! Certificates and keys: read from files, looked into, made, and used on both ends of a connection (REST-8).
//!
//! Invariant: a key that others can read is not used, and nothing of a key is ever in an error or a log.
//! Not here: sockets and waiting (`synapse-node`, `synapse-peer`), what the holder of a certificate may do.

pub mod certificate;
pub mod client;
pub mod files;
pub mod make;
pub mod server;

pub use certificate::Certificate;
pub use client::{ClientFiles, Trouble};
pub use files::FileError;
pub use server::{Server, ServerFiles};

use rustls::crypto::CryptoProvider;
use rustls::{SupportedProtocolVersion, version};
use std::sync::Arc;

/// Both ends speak these and nothing older.
const VERSIONS: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
/// What is spoken inside: a server takes both, our own calls need no more than the first.
const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// Named at each use: a process-wide default could be set by any library.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The time by which certificates are judged, seconds since 1970.
pub fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
