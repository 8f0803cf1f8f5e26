//! A prompt in the registry, so that lists and terminals tell of it without asking its node.

use serde::{Deserialize, Serialize};

/// A prompt that waits for a person, as far as a list tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPrompt {
    /// What it asks for, in one line, such as `asks to run: touch notes.txt`.
    pub asks: String,
    /// Whether `asks` is the whole question.
    #[serde(default)]
    pub asks_all: bool,
    /// The hash that a decision names.
    pub prompt: String,
    /// Whether it can be approved without a look at its terminal.
    #[serde(default)]
    pub complete: bool,
    /// Whether its profile knows the keys that decide.
    #[serde(default)]
    pub decidable: bool,
    /// When people were told of it. It stays the same while the question does, also if the hash changes because the
    /// question is drawn again.
    pub told_at_ms: u64,
}
