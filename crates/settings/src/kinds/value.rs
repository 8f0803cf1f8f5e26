//! A checked value of a setting, and how it is read, shown and written.
//!
//! Not here: checking it (`kinds`).

use std::path::PathBuf;

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Bool(bool),
    Number(u64),
    List(Vec<String>),
    Path(PathBuf),
    /// A program and its arguments; empty if there is none.
    Command(Vec<String>),
}

impl Value {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            _ => String::new(),
        }
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            _ => 0,
        }
    }

    pub(crate) fn small(self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }

    pub(crate) fn truth(self) -> bool {
        self == Self::Bool(true)
    }

    pub(crate) fn list(self) -> Vec<String> {
        match self {
            Self::List(list) | Self::Command(list) => list,
            _ => Vec::new(),
        }
    }

    pub(crate) fn path(self) -> PathBuf {
        match self {
            Self::Path(path) => path,
            _ => PathBuf::new(),
        }
    }

    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Bool(truth) => (*truth).into(),
            Self::Number(number) => (*number).into(),
            Self::List(list) | Self::Command(list) => list.as_slice().into(),
            Self::Path(path) => path.to_string_lossy().into(),
        }
    }

    /// Returns it as a person reads and types it.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bool(truth) => truth.to_string(),
            Self::Number(number) => number.to_string(),
            Self::List(list) if list.is_empty() => "[]".into(),
            Self::List(list) => list.join(","),
            Self::Command(_) => self.to_json().to_string(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}
