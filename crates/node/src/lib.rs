//! A node: driver, journal, hands and doors of one agent, in a process of its own.
//!
//! The driver thread owns the core; everything else asks it through a bounded queue and hears back after the
//! commit. Doors are thin: they read a request, call a dialect, ask, and write the answer.
//!
//! Not here: deciding (`synapse-core`), bytes to words (`synapse-dialects`), the process that restarts this
//! one (`synapse-holder`).

pub mod audit;
pub mod auth;
pub mod doors;
pub mod driver;
pub mod effects;
pub mod handle;
pub mod hands;
pub mod launch;
pub mod listen;
pub mod metrics;
mod os;
pub mod outbox;
pub mod post;
pub mod registrar;
pub mod serve;
pub mod settings;

pub use launch::{Hand, Launch};
pub use serve::{Ready, run};
