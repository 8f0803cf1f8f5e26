//! The wire: every shape that is sent, every mistake in requests, and round trips.
//!
//! Not here: sockets and status lines (`synapse-node`).

#![allow(clippy::unwrap_used)]

mod fuzz;
mod golden;
mod message_in;
mod round_trips;
mod samples;
