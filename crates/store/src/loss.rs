//! Detects whether a journal has lost records, by its log and its head (L14).
//!
//! Read-only. A journal without a head was written by an older version; it gets a
//! head when it is opened.
//! Not here: replaying (`journal`), restoring what can be restored (`repair`).

use crate::head::{self, Head, HeadState};
use crate::journal::wal_of;
use crate::loss_report::LossReport;
use crate::schema::{OpenError, shown};
use crate::wal::{self, Log};
use rusqlite::Connection;
use std::path::Path;

/// What is known about a journal before SQLite opens it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    head: Option<Head>,
    /// The log that the head names is missing: the rest may be a mixture of old and new pages.
    is_log_gone: bool,
}

/// Runs before anything is opened: SQLite would ignore a damaged log, and remove the
/// log of an empty database.
pub(crate) fn look(path: &Path) -> Result<Before, OpenError> {
    let unreachable = |e: std::io::Error| OpenError::Unreachable { path: shown(path), why: e.to_string() };
    if let Some(report) = LossReport::read(path).map_err(unreachable)? {
        return Err(OpenError::Incomplete { path: shown(path), why: report.why() });
    }
    // Read the head first: a node that runs meanwhile only gets further.
    let head = match head::read(path).map_err(unreachable)? {
        HeadState::Missing => None,
        HeadState::Damaged => return Err(OpenError::DamagedHead { path: shown(path) }),
        HeadState::Whole(head) => Some(head),
    };
    let log = wal::inspect(&wal_of(path)).map_err(unreachable)?;
    if let Some(Head { seq: expected @ 1.., .. }) = head
        && path.metadata().map_or(0, |found| found.len()) == 0
    {
        return Err(OpenError::Lost { path: shown(path), found: 0, expected });
    }
    let damaged = |why: String| OpenError::DamagedLog { path: shown(path), why };
    let claimed = head.filter(|head| head.frames > 0);
    match (log, claimed) {
        (Log::BadHeader, _) => Err(damaged("its first 32 bytes are not those of a log".into())),
        (Log::Frames { salts, committed, bad }, Some(head)) if salts == head.salts => {
            if committed >= head.frames {
                return Ok(Before { head: Some(head), is_log_gone: false });
            }
            let place = bad.map_or(committed + 1, |bad| bad.number);
            Err(damaged(format!(
                "frame {place} of {} is wrong, and what follows cannot be read",
                head.frames
            )))
        }
        (Log::Frames { bad: Some(bad), .. }, _) if bad.is_damage() => {
            let (number, commits) = (bad.number, bad.commits);
            Err(damaged(format!(
                "frame {number} is wrong, and {commits} commits from there on cannot be read"
            )))
        }
        (_, claimed) => Ok(Before { head, is_log_gone: claimed.is_some() }),
    }
}

impl Before {
    /// Checks the pages once the database is open, before anything is written.
    pub(crate) fn check_pages(&self, db: &Connection, path: &Path) -> Result<(), OpenError> {
        if !self.is_log_gone {
            return Ok(());
        }
        let said: String = db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|e| crate::schema::broken(path, e))?;
        match said.as_str() {
            "ok" => Ok(()),
            _ => Err(OpenError::Damaged { path: shown(path), why: format!("its log is gone, and {said}") }),
        }
    }

    /// Fails if the journal ends before its head. `found` is its last record.
    pub(crate) fn check_end(&self, found: u64, path: &Path) -> Result<(), OpenError> {
        match self.head {
            Some(head) if head.seq > found => {
                Err(OpenError::Lost { path: shown(path), found, expected: head.seq })
            }
            _ => Ok(()),
        }
    }

    /// Whether the head already names this record.
    pub(crate) fn is_at(&self, seq: u64) -> bool {
        self.head.is_some_and(|head| head.seq == seq)
    }
}

/// Returns the last record of a journal, without replaying it.
pub(crate) fn last_seq(db: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT max(coalesce((SELECT max(seq) FROM message), 0), coalesce((SELECT max(seq) FROM journal), 0),
                          coalesce((SELECT max(seq) FROM task), 0), coalesce((SELECT max(seq) FROM snapshot), 0))";
    db.query_row(sql, [], |row| row.get(0))
}
