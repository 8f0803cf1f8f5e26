//! The messages of version 1.0 of A2A, made from its proto: how they are written as protobuf, and as JSON.
//!
//! Types alone, and none written by hand: `cargo xtask proto` writes them, and `--check` proves that they are what the
//! proto says. Not here: what they mean (`synapse-a2a`).

// The code is a generator's.
#![allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]
#![allow(missing_docs, unreachable_pub)]

include!("generated/messages.rs.inc");
include!("generated/json.rs.inc");
