//! A message that a simulated program has, and how far the program is with it.

use crate::effect::Report;
use crate::message::Letter;

#[derive(Debug)]
pub(super) struct Held {
    pub(super) letter: Letter,
    pub(super) stage: Stage,
    /// Its last report, until the node answers that.
    pub(super) said: Option<Report>,
    pub(super) stop: bool,
    /// The program had begun to write it, and no more.
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
