//! The journal over real files: what a restart brings back, what a crash leaves, what damage is told as.
//!
//! Not here: a full disk (that needs a disk of its own, and the program).

#![allow(clippy::unwrap_used)]

mod damage;
mod looks;
mod lookups;
mod loss;
mod own;
mod repair;
mod replay;
mod retention;
mod rig;
mod search;
mod versions;
