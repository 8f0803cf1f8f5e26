//! Everything that Synapse keeps on disk.
//!
//! Not here: what it means (`synapse-core`), sockets and processes
//! (`synapse-node`, `synapse-holder`).

mod anchor;
pub mod attachments;
pub mod audit;
pub mod browse;
pub mod check;
mod checkpoint;
pub mod cli_session;
pub mod compact;
pub mod disagreement;
mod end;
pub mod ended;
pub mod files;
pub mod grams;
mod head;
pub mod history;
pub mod holders;
pub mod home;
pub mod identity;
pub mod journal;
pub mod known;
pub mod lifetime;
mod loss;
mod loss_report;
pub mod notified;
pub mod outbox;
pub mod own;
pub mod registry;
pub mod remotes;
pub mod repair;
pub mod rows;
pub mod schema;
pub mod search;
pub mod should_run;
pub mod spool;
pub mod token;
mod wal;
pub mod webhooks;

pub use compact::Retention;
pub use history::History;
pub use journal::{Journal, JournalError};
pub use schema::OpenError;
