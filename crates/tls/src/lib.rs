//! Certificates and keys: read from files, parsed, created, and used on both ends of a connection
//! (REST-8).
//!
//! Invariant: a key that others can read is not used, and no error or log contains any part of a
//! key.
//! Not here: sockets and timeouts (`synapse-node`, `synapse-peer`), what the holder of a
//! certificate may do.

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

/// Both ends support these versions and no older ones.
const VERSIONS: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
/// The ALPN protocols: a server offers both, our own calls need only the first.
const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// Returns the provider for each use: any library could change a process-wide default.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the current time for checking certificates, in seconds since 1970.
pub fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
