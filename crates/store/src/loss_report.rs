//! The report of a lost journal: `journal.lost` beside it prevents a start until the journal
//! is repaired (L13, L14).
//!
//! A node writes it when the files of its journal vanish or shrink while it runs, because the head
//! may be gone too. A repair writes it with its plan before it changes anything, so that the next
//! repair can finish an interrupted one. When the repair is done, the report is renamed and kept
//! with the damaged files.
//!
//! Invariant: while the report exists, nobody opens the journal.
//! Not here: the repair itself (`repair`).

use crate::files::{self, FileError};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LossReport {
    /// The last record that the journal is known to have had.
    #[serde(default)]
    pub expected: Option<u64>,
    #[serde(default)]
    pub restoration: Option<Restoration>,
}

/// What a repair puts in place of the damaged files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Restoration {
    /// The last record of the restored journal; 0 if nothing could be read and there is none.
    pub last: u64,
    /// The names under which the damaged files are kept.
    pub aside: Vec<String>,
    /// The name under which this report is kept.
    pub kept_as: String,
}

pub(crate) fn report_of(journal: &Path) -> PathBuf {
    journal.with_extension("lost")
}

impl LossReport {
    pub(crate) fn of_removed(expected: u64) -> Self {
        Self { expected: Some(expected), restoration: None }
    }

    /// Returns `None` if there is no report. An unreadable report counts as one without details.
    pub(crate) fn read(journal: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(report_of(journal)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).unwrap_or_default())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn write(&self, journal: &Path) -> Result<(), FileError> {
        files::write_private(&report_of(journal), crate::rows::text(self).as_bytes())
    }

    /// Returns why the journal is not opened.
    pub(crate) fn why(&self) -> String {
        match self.restoration {
            Some(_) => "its repair was interrupted".to_owned(),
            None => "its files were removed, replaced or cut short while the agent ran".to_owned(),
        }
    }
}
