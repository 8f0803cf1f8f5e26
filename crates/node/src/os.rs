//! Events that only the operating system can report: that the parent died, that a runner ended.
//!
//! Linux reports them at once (`os/linux.rs`). On other systems the node polls (`os/other.rs`).
//!
//! Not here: what follows from them (`serve`, `hands`), and what the small processes ask
//! (`synapse-holder`'s `os`).

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;
