//! A node: driver, journal, hands and doors of one agent, in its own process.
//!
//! The driver thread owns the core; all other code asks it through a bounded queue and gets its
//! answer after the commit. Doors are thin: they read a request, call a dialect, ask, and write the
//! response.
//!
//! Not here: decisions (`synapse-core`), translation between bytes and core types
//! (`synapse-dialects`), the process that restarts this one (`synapse-holder`).

mod a2a;
pub mod ancestry;
pub mod audit;
pub mod auth;
pub mod card;
mod certified;
mod connection;
pub mod conversation;
pub mod decide;
pub mod doors;
pub mod driver;
pub mod effects;
pub mod folders;
mod follow;
pub mod handle;
pub mod hands;
pub mod handshake;
pub mod launch;
pub mod listen;
pub mod metrics;
pub mod network;
mod notify;
pub(crate) mod open_files;
mod os;
pub mod outbox;
mod own_agent;
pub mod owner;
pub mod post;
pub mod profiles;
pub mod push;
pub mod registrar;
pub mod seal;
pub mod secrets;
pub mod serve;
pub mod settings;
pub mod uploads;
mod waiting;

pub use launch::{Hand, Launch, Listen};
pub use serve::{Ready, run};
