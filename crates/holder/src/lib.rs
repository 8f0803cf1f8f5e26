//! The small processes under every agent and every command.
//!
//! A *holder* stands under one agent: it starts the agent's node, starts it
//! again when it dies, and ends everything the agent ever started when the
//! agent ends. A *runner* stands under one command: it feeds it, keeps its
//! output, enforces its limits and writes down how it ended, so that a node
//! that dies and comes back finds the command where it left it.
//!
//! Invariant: nothing here opens a network socket or a database, and nothing wakes up
//! while all is quiet. `hold` and `run` own their process: each reaps every
//! child and hooks signals, so call at most one of them, once per process.
//! Not here: what a node does, who asks for a command (`synapse-node`), the
//! hidden subcommands that lead here (`synapse`).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bell;
mod disk;
mod limit;
mod os;
mod tail;

pub mod cores;
pub mod depth;
pub mod holder;
pub mod memory;
pub mod peer;
pub mod process;
pub mod reaper;
pub mod run_dir;
pub mod runner;
pub mod terminal;

pub use holder::{Claim, Ended, HoldError, StartTerminal, claim, hold, holder_of, recorded_holder};
pub use limit::SystemLimit;
pub use os::Job;
pub use peer::{PinnedProcess, SocketPeer};
pub use process::{Ancestor, ProcessMark, ancestors, job_of, lineage, parent_of, same_program};
pub use reaper::{Death, Reaper, TreeStands, check_descendants, descendants};
pub use run_dir::{Exit, How, RunDir, RunMode, RunSpec, RunState};
pub use runner::{EXIT_WANT_OF_ROOM, RunError, run};
pub use terminal::{Program, Terminal};
