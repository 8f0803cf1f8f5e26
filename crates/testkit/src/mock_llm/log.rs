//! What the mock was sent and what it did, in order, with the time: in memory, and as lines of JSON in a file.

use super::{Call, Told};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Since 1970, milliseconds.
    pub at_ms: u64,
    /// Which request it is about; they are counted from 1.
    pub request: usize,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A request is there, whole. `turn` is false for what a CLI asks for on the side.
    Began { api: &'static str, turn: bool, parts: Vec<String>, results: Vec<String>, tools: Vec<String> },
    /// The answer is sent, and ends with a call of a tool.
    Asked { call: Call },
    /// The answer is sent, and was the last of its turn.
    Ended { turn: bool },
    /// The reader went away before the end.
    Aborted { turn: bool },
    /// It was answered with an error, as the script says.
    Failed { status: u16 },
    /// Something that is no question to a model.
    Other { method: String, path: String },
}

impl What {
    pub(super) fn began(api: &'static str, told: &Told) -> Self {
        Self::Began {
            api,
            turn: told.is_turn(),
            parts: told.parts.clone(),
            results: told.results.clone(),
            tools: told.tools.iter().map(|tool| tool.name.clone()).collect(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Began { api, turn, parts, results, tools } => json!({
                "what": "began", "api": api, "turn": turn, "parts": parts, "results": results, "tools": tools,
            }),
            Self::Asked { call } => {
                json!({ "what": "asked", "tool": call.name, "arguments": call.arguments })
            }
            Self::Ended { turn } => json!({ "what": "ended", "turn": turn }),
            Self::Aborted { turn } => json!({ "what": "aborted", "turn": turn }),
            Self::Failed { status } => json!({ "what": "failed", "status": status }),
            Self::Other { method, path } => json!({ "what": "other", "method": method, "path": path }),
        }
    }
}

impl Entry {
    /// As it stands in the file.
    pub fn json(&self) -> Value {
        let mut line = self.what.json();
        line["at_ms"] = self.at_ms.into();
        line["request"] = self.request.into();
        line
    }
}

/// Grows only.
pub struct Log {
    entries: Mutex<(Vec<Entry>, Option<File>)>,
    grown: Condvar,
}

impl Log {
    pub(super) fn new(file: Option<&Path>) -> io::Result<Self> {
        let file = file.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        Ok(Self { entries: Mutex::new((Vec::new(), file)), grown: Condvar::new() })
    }

    pub(super) fn add(&self, request: usize, what: What) {
        let entry = Entry { at_ms: now_ms(), request, what };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &mut entries.1 {
            // In one write, so that a reader never sees half a line of a process that still lives.
            let _ = file.write_all(format!("{}\n", entry.json()).as_bytes());
        }
        entries.0.push(entry);
        drop(entries);
        self.grown.notify_all();
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// How much there is; what comes later is after this place.
    pub fn len(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until the part of the log after `place` has an entry that `find` wants; none if that takes too long.
    pub fn wait_for<T>(
        &self,
        place: usize,
        patience: Duration,
        mut find: impl FnMut(&Entry) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + patience;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(found) = entries.0.iter().skip(place).find_map(&mut find) {
                return Some(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            entries = self.grown.wait_timeout(entries, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
