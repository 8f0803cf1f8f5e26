//! The messages of version 0.3 of A2A, made out of its proto: how they are written as protobuf, and as JSON.
//!
//! Types alone, and none written by hand. Not here: what they mean, which is told by those of 1.0 (`synapse-a2a`).

// The code is a generator's.
#![allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]
#![allow(missing_docs, unreachable_pub)]

include!(concat!(env!("OUT_DIR"), "/a2a.v1.rs"));
include!(concat!(env!("OUT_DIR"), "/a2a.v1.serde.rs"));
