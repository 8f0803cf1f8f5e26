//! Holders, runners and trees as real processes.
//!
//! Invariant: no test sleeps for a time; each waits for a named condition.
//! Not here: decisions and formats, which are tested next to their code.

#![allow(clippy::unwrap_used)]

mod full_disk;
mod holding;
mod running;
mod trees;
mod world;
