//! The journal over real files: what a restart restores, what a crash leaves,
//! how damage is reported.
//!
//! Not here: a full disk (that needs a separate disk, and the program).

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
