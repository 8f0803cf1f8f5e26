//! Hands: what does an agent's work. Each is a link to the core that serves a task until it ends.
//!
//! `exec` starts one process per task under a runner that outlives this node; `lines` speaks with programs
//! that stream events. `echo` is one without a program. `terminal` watches a program in a terminal, and `typist` types
//! messages into it. `acp` speaks with a program that has no terminal, over the Agent Client Protocol.

pub mod acp;
mod answers;
pub mod echo;
pub mod exec;
mod lines;
mod mail;
pub mod opencode;
mod place;
mod session_log;
mod start_gate;
pub mod terminal;
mod typist;
mod version;
pub(crate) mod watch;
pub mod wishes;
mod wording;
