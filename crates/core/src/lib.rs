//! The core of a hub of agents: mailboxes, tasks, agents, routes, policy.
//!
//! A pure state machine. [`Hub::handle`] takes the time and one [`Input`], and returns [`Record`]s
//! to be written and [`Effect`]s to be carried out once they are. Nothing in this crate reads a
//! clock, a disk, a socket, the environment or a random number: time, fresh ids and facts from the
//! store are arguments. So the simulation (`sim`) can run whole worlds, with crashes and jumping
//! clocks, from one seed.
//!
//! Not here: wire formats (`synapse-dialects`), disk formats (`synapse-store`), threads and
//! sockets (`synapse-node`).

pub mod agents;
pub mod cycle;
pub mod effect;
pub mod guard;
pub mod header;
pub mod hub;
pub mod ids;
pub mod invisible;
pub mod listing;
pub mod mailbox;
pub mod message;
pub mod policy;
pub mod receipt;
pub mod record;
pub mod refusal;
pub mod routes;
pub mod settings;
pub mod sim;
pub mod state;
pub mod task;
pub mod watch;

pub use effect::{Answer, Command, Effect, Facts, Fresh, Input, Output};
pub use hub::Hub;
pub use ids::{AgentId, AgentType, Label, LinkId, MessageId, Seq, TaskId, Timestamp};
pub use message::{Body, Chain, Letter, Priority, Sender};
pub use record::Record;
pub use refusal::Refusal;
pub use settings::Limits;
pub use task::{Task, TaskState};
