//! What a project's own settings file may do with a setting before the user trusts it.

use crate::kinds::Value;

/// What a project's file may do with a setting. A setting that starts a program or names an address is never a
/// project's to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectMay {
    /// Not even a trusted file may: it guards the machine.
    Never,
    /// Any value; none of them can hurt.
    Set,
    /// Only a larger number than the user's.
    Raise,
    TurnOn,
    TurnOff,
    /// Nothing before the user trusts the file, then any value.
    OnceTrusted,
}

impl ProjectMay {
    /// Whether a file that is not trusted may put `new` in place of `old`.
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

    /// For the table of settings.
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
