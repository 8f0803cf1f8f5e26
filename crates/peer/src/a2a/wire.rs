//! The traffic with an agent elsewhere, for people who look for a fault: `synapse send --wire`.
//!
//! Headers are left out, so no secret is shown.

use std::fmt;

/// One thing that went over the wire, or was odd about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireEvent<'a> {
    Sent {
        verb: &'a str,
        url: &'a str,
        body: &'a [u8],
    },
    /// An answer, or one event of a stream, which has no status.
    Received {
        status: Option<u16>,
        body: &'a [u8],
    },
    /// The server did something that the protocol does not allow, and what was made of it.
    Odd(&'a str),
}

/// Sees the traffic.
pub struct WireTap(Box<dyn Fn(WireEvent<'_>) + Send + Sync>);

impl WireTap {
    pub fn new(see: impl Fn(WireEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Box::new(see))
    }

    pub(super) fn see(&self, event: WireEvent<'_>) {
        (self.0)(event);
    }
}

impl fmt::Debug for WireTap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WireTap")
    }
}
