//! A message in the hands of a simulated program, and how far it is with it.

use crate::effect::Report;
use crate::message::Letter;

#[derive(Debug)]
pub(super) struct Held {
    pub(super) letter: Letter,
    pub(super) stage: Stage,
    /// What it said last, while the node has not answered.
    pub(super) said: Option<Report>,
    pub(super) stop: bool,
    /// It was being written, and nothing more.
    pub(super) writing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Got,
    Written,
    Begun,
    /// It asked for input.
    Asked,
    /// A reader has seen it and may answer.
    Seen,
}
