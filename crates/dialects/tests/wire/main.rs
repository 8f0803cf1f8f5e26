//! What is on the wire: every shape out, every mistake in, and nothing lost between.
//!
//! Not here: sockets and status lines (`synapse-node`).

#![allow(clippy::unwrap_used)]

mod fuzz;
mod golden;
mod message_in;
mod round_trips;
mod samples;
