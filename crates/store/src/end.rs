//! The end of an open journal: how far it has come, and whether its files are still the
//! ones it wrote (L13, L14).
//!
//! Not here: comparing the two when a journal is opened (`loss`).

use crate::anchor::Anchor;
use crate::head::HeadFile;
use crate::journal::wal_of;
use crate::loss_report::LossReport;
use crate::schema::LOG_BYTES_MAX;
use crate::wal;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

pub(crate) struct JournalEnd {
    path: PathBuf,
    log: PathBuf,
    /// The number of the last record.
    pub(crate) seq: u64,
    /// `None` if it cannot be created; losses are then not detected, but everything else works.
    head: Option<HeadFile>,
    anchor: Anchor,
    page_bytes: u64,
}

impl JournalEnd {
    /// Tracks a journal that was just opened and has come to record `seq`.
    pub(crate) fn open(db: &Connection, path: &Path, seq: u64) -> rusqlite::Result<Self> {
        let log = wal_of(path);
        let anchor = Anchor::of([path, &log]);
        let page_bytes = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let head = HeadFile::open(path, seq).ok();
        // SQLite truncates the log itself, but never below its limit.
        let log_bytes = log.metadata().map_or(0, |found| found.len()).min(LOG_BYTES_MAX);
        let mut end = Self { path: path.to_owned(), log, seq, head, anchor, page_bytes };
        end.anchor.require(&end.log, log_bytes);
        end.checkpointed(db)?;
        Ok(end)
    }

    /// Whether its files are in place and at least as long as what was written to them.
    pub(crate) fn is_whole(&self) -> bool {
        self.anchor.holds()
    }

    /// Notes that a commit left this many frames in the log. A checkpoint that restarts the log
    /// does not shorten its file.
    pub(crate) fn committed(&mut self, frames: u32) {
        if frames > 0 {
            self.anchor.require(&self.log, wal::bytes_of(frames, self.page_bytes));
        }
    }

    /// Requires the current size of the database file from now on: a journal is never vacuumed.
    pub(crate) fn checkpointed(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let pages: u64 = db.pragma_query_value(None, "page_count", |row| row.get(0))?;
        // Before a checkpoint the last pages are only in the log; after it,
        // the file has all of them.
        let bytes = self.path.metadata().map_or(0, |found| found.len()).min(pages * self.page_bytes);
        self.anchor.require(&self.path, bytes);
        Ok(())
    }

    /// Writes to the head how far the journal has come. A head that cannot be written stays
    /// behind, which is safe.
    pub(crate) fn note(&mut self, frames: u32) {
        if let (Some(head), Some(salts)) = (&mut self.head, wal::salts(&self.log)) {
            let _ = head.write(self.seq, salts, frames);
        }
    }

    /// Writes to the head that the log is empty.
    pub(crate) fn note_empty_log(&mut self) {
        if let Some(head) = &mut self.head {
            let _ = head.write(self.seq, (0, 0), 0);
        }
    }

    pub(crate) fn sync(&self) {
        if let Some(head) = &self.head {
            let _ = head.sync();
        }
    }

    /// Writes a report that prevents the next start, even if the head was removed too. Fails
    /// silently if the folder is gone.
    pub(crate) fn report_loss(&self) {
        let _ = LossReport::of_removed(self.seq).write(&self.path);
    }
}
