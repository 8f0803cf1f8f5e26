//! Signals: where evidence about a program comes from, what it says, and what it adds up to.
//!
//! Not here: how it adds up (`fold`).

use crate::rules::Sees;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

/// Where evidence comes from, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    Silence,
    /// What was typed: a turn that must have begun.
    Typed,
    Screen,
    Title,
    Status,
    /// The program's own server, while we are connected to it.
    Native,
    Hook,
    Exit,
}

impl Rank {
    pub fn name(self) -> &'static str {
        match self {
            Self::Silence => "silence",
            Self::Typed => "typed",
            Self::Screen => "screen",
            Self::Title => "title",
            Self::Status => "status",
            Self::Native => "native",
            Self::Hook => "hook",
            Self::Exit => "exit",
        }
    }
}

impl Rank {
    /// How far this kind of evidence can be believed, as measured on recordings of real CLIs.
    pub fn confidence(self) -> &'static str {
        match self {
            Self::Exit => "sure",
            Self::Hook | Self::Native | Self::Status => "high",
            Self::Title | Self::Screen => "fair",
            Self::Typed | Self::Silence => "low",
        }
    }
}

/// What one source says, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub sees: Sees,
    pub since: Timestamp,
    /// When it last said so.
    pub at: Timestamp,
    /// The rule or report behind it.
    pub why: String,
}

/// The state, and why we think so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub state: AgentState,
    pub since: Timestamp,
    pub source: Rank,
    pub why: String,
    /// Why this source, and no other, decided.
    pub because: &'static str,
}
