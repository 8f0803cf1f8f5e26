//! What only the operating system can tell a node: that its parent died, that a runner ended.
//!
//! Linux tells at once (`os/linux.rs`). Elsewhere the node looks at intervals (`os/other.rs`).
//!
//! Not here: what follows from it (`serve`, `hands`), and what the small processes ask (`synapse-holder`'s `os`).

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;
