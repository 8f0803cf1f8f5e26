//! What a hub of agents *is*: mailboxes, tasks, agents, routes, policy.
//!
//! A pure state machine. [`Hub::handle`] takes the time and one [`Input`], and gives back [`Record`]s to
//! be written and [`Effect`]s to be carried out once they are. Nothing in here reads a clock, a disk, a
//! socket, the environment or a random number: time, fresh ids and facts from the store are arguments. So
//! whole worlds with crashes and jumping clocks run from one seed (`sim`).
//!
//! Not here: bytes on a wire (`synapse-dialects`), bytes on a disk (`synapse-store`), threads and
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
