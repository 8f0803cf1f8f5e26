//! Why a message is not typed, and what proves that it was: in words that people read.

use std::fmt;

/// Why a message is not typed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Starting,
    Busy,
    Waiting,
    Unknown,
    Gone,
    Typing,
    Draft,
    NoComposer,
    NoPaste,
    /// Its usage limit is reached.
    Paused,
    /// Its profile does not say where text is written.
    NoProfile,
    /// It printed something a moment ago.
    NotQuiet,
    /// Something was typed since the last Enter, as far as is known.
    Touched,
    NoCursor,
    /// It asks for a password.
    Secret,
    /// It was started with an earlier conversation and does not show it yet.
    Loading,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "it is starting",
            Self::Busy => "it is busy",
            Self::Waiting => "it waits for a person to approve or choose",
            Self::Unknown => "it is not known what it does",
            Self::Gone => "its program has ended",
            Self::Typing => "its person is typing",
            Self::Draft => "its person has a draft in the composer",
            Self::NoComposer => "its composer is not to be seen",
            Self::NoPaste => "it does not take pastes",
            Self::Paused => "its usage limit is reached",
            Self::NoProfile => "its profile does not say where text is written",
            Self::NotQuiet => "it printed something a moment ago",
            Self::Touched => "something may have been typed in its terminal since the last Enter",
            Self::NoCursor => "its cursor is not visible",
            Self::Secret => "it asks for a password",
            Self::Loading => "it is loading its earlier conversation",
        })
    }
}

/// What makes us say that it was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The program said that it was given exactly this.
    Told,
    /// It began to work after Enter.
    Began,
    /// The composer is empty again and our text stands above it.
    Shown,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Told => "its program says that it was given this text",
            Self::Began => "it began to work after Enter",
            Self::Shown => "the text left the composer and stands above it",
        })
    }
}

/// How far it has come, put down before the step after it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// It is about to be written.
    Writing,
    /// It stands in the composer.
    Written,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Submitted(Proof),
    /// It is certain that it was not; what was written is gone again, or still there.
    NotSubmitted {
        why: &'static str,
        erased: bool,
    },
    Unknown {
        why: &'static str,
    },
}
