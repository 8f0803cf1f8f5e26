//! What a project's own settings file may do with a setting before the user trusts it.

use crate::kinds::Value;

/// What a project's file may do with a setting. A project never chooses a setting that starts a
/// program or names an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectMay {
    /// Nothing, even if the file is trusted: the setting guards the machine.
    Never,
    /// Set any value, because all of them are harmless.
    Set,
    /// Only raise the user's number.
    Raise,
    TurnOn,
    TurnOff,
    /// Nothing until the user trusts the file, then any value.
    OnceTrusted,
}

impl ProjectMay {
    /// Whether an untrusted file may replace `old` by `new`.
    pub fn allows(self, old: Option<&Value>, new: &Value) -> bool {
        match (self, new) {
            (Self::Never, _) => false,
            (Self::Set, _) => true,
            _ if old == Some(new) => true,
            (Self::Raise, Value::Number(new)) => matches!(old, Some(Value::Number(old)) if old < new),
            (Self::TurnOn, Value::Bool(new)) => *new,
            (Self::TurnOff, Value::Bool(new)) => !*new,
            (Self::Raise | Self::TurnOn | Self::TurnOff | Self::OnceTrusted, _) => false,
        }
    }

    /// Returns the words for the settings page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "no",
            Self::Set => "yes",
            Self::Raise => "only raise it",
            Self::TurnOn => "only turn it on",
            Self::TurnOff => "only turn it off",
            Self::OnceTrusted => "once trusted",
        }
    }
}
