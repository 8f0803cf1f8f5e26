//! A pending prompt in the registry, so that lists and terminals can show it
//! without asking its node.

use serde::{Deserialize, Serialize};

/// A summary of a prompt that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPrompt {
    /// What it asks for, in one line, such as `asks to run: touch notes.txt`.
    pub asks: String,
    /// Whether `asks` is the whole question.
    #[serde(default)]
    pub asks_all: bool,
    /// The hash that a decision must name.
    pub prompt: String,
    /// Whether it can be approved without looking at its terminal.
    #[serde(default)]
    pub complete: bool,
    /// Whether its profile knows the keys for a decision.
    #[serde(default)]
    pub decidable: bool,
    /// When users were notified of it. It stays the same for the same question, even if a
    /// redraw changes the hash.
    pub told_at_ms: u64,
}
