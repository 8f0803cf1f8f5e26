//! A2A 1.0 as data, and 0.3 beside it: its types, its faults, and how they translate from and to the core's words.
//!
//! The types are generated from the protocol's proto (`synapse-a2a-v1`), and the same for all three bindings. No sockets
//! and no clocks; of the world only randomness, for signatures. Not here: routes and streams (`synapse-node`), calls to other servers (`synapse-peer`).

pub mod card;
pub mod check;
pub mod extensions;
pub mod fault;
pub mod from_core;
pub mod grpc;
pub mod jcs;
pub mod json_rpc;
pub mod lenient;
pub mod operation;
pub mod page;
pub mod rest;
pub mod signing;
pub mod to_core;
pub mod v03;
pub mod wire;

pub use fault::{Fault, Kind};
pub use synapse_a2a_v1 as pb;
