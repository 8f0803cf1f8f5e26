//! The hands, which do an agent's work. Each is a link to the core and serves a task until it ends.
//!
//! `exec` starts one process per task, under a runner that outlives this node; `lines` speaks with
//! programs that stream events. `echo` needs no program. `terminal` watches a program in a
//! terminal, and `typist` types messages into it. `acp` speaks the Agent Client Protocol with a
//! program that has no terminal.

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

pub use session_log::has_chat_history;
