//! Read-only queries on ended tasks, on a separate connection: doors use it, and
//! the driver never waits.

use crate::journal::{self, JournalError};
use crate::rows;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use synapse_core::ids::{MessageId, Seq, TaskId, TaskRef, Timestamp};
use synapse_core::message::{Body, Letter};
use synapse_core::receipt::Trail;
use synapse_core::record::{Archive, Entry, Record, Said};
use synapse_core::task::Ending;

#[derive(Serialize)]
pub(crate) struct KeptTaskOut<'a> {
    pub(crate) ending: &'a Ending,
    pub(crate) archive: &'a Archive,
}

#[derive(Deserialize)]
pub(crate) struct KeptTask {
    pub(crate) ending: Ending,
    pub(crate) archive: Archive,
}

impl KeptTask {
    pub(crate) fn into_record(self) -> Record {
        let Self { ending, archive } = self;
        Record::Ended { task: archive.task.id, ending, archive: Box::new(archive) }
    }
}

pub struct History {
    pub(crate) db: Connection,
}

impl History {
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        db.pragma_update(None, "cache_size", -1000)?;
        Ok(Self { db })
    }

    /// Finds an ended task by its id, or by a prefix if it is among those that began last.
    pub fn task(&self, name: &TaskRef, now: Timestamp) -> Result<Option<(Ending, Archive)>, JournalError> {
        journal::find_task(&self.db, name, now)
    }

    /// Returns the record that ended it; `None` if it has not ended, or is pruned.
    pub fn end_of(&self, task: &TaskId) -> Result<Option<Seq>, JournalError> {
        let mut ask = self.db.prepare_cached(rows::whole_id!("SELECT seq"))?;
        Ok(ask.query_row([task.to_string()], |row| row.get(0)).optional()?.map(Seq))
    }

    pub fn artifacts(&self, task: &TaskId) -> Result<Vec<Said>, JournalError> {
        self.artifacts_upto(task, Seq(u64::MAX))
    }

    /// Returns the artifacts up to a position in the journal.
    pub fn artifacts_upto(&self, task: &TaskId, upto: Seq) -> Result<Vec<Said>, JournalError> {
        let sql = "SELECT seq, body, crc FROM said WHERE task = ?1 AND seq <= ?2 ORDER BY seq";
        let mut ask = self.db.prepare_cached(sql)?;
        let upto = i64::try_from(upto.0).unwrap_or(i64::MAX);
        let rows = ask.query_map((task.to_string(), upto), |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
        let mut said = Vec::new();
        for row in rows {
            let (seq, body, crc): (u64, String, u32) = row?;
            said.push(rows::read("said", seq, &body, crc)?);
        }
        Ok(said)
    }

    /// Returns the trail of a message of an ended task.
    pub fn trail(&self, message: &MessageId) -> Result<Option<(TaskId, Trail)>, JournalError> {
        let Some((letter, _)) = self.message(message)? else { return Ok(None) };
        let Some((_, archive)) = journal::task_of(&self.db, &letter.task)? else { return Ok(None) };
        let trail = archive.trails.into_iter().find(|(id, _)| id == message);
        Ok(trail.map(|(_, trail)| (letter.task, trail)))
    }

    pub fn message(&self, id: &MessageId) -> Result<Option<(Arc<Letter>, Body)>, JournalError> {
        self.one_message(
            "SELECT seq, head, body, crc FROM message WHERE id = ?1 ORDER BY seq DESC",
            id.as_str(),
        )
    }

    /// Returns a message by its dedupe key, which contains its sender's id for it.
    pub fn message_by_key(&self, key: &str) -> Result<Option<(Arc<Letter>, Body)>, JournalError> {
        self.one_message("SELECT seq, head, body, crc FROM message WHERE key = ?1", key)
    }

    fn one_message(&self, sql: &str, name: &str) -> Result<Option<(Arc<Letter>, Body)>, JournalError> {
        let mut ask = self.db.prepare_cached(sql)?;
        let row: Option<(u64, String, String, u32)> =
            ask.query_row([name], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))).optional()?;
        let Some((seq, head, body, crc)) = row else { return Ok(None) };
        let letter = rows::read_head(seq, &head, &body, crc)?.letter;
        Ok(Some((letter, Body::kept(&body))))
    }

    /// Whether a stored message refers to the file with this digest.
    pub fn is_attached(&self, sha256: &str) -> Result<bool, JournalError> {
        let mut ask = self.db.prepare_cached("SELECT 1 FROM attachment WHERE sha256 = ?1 LIMIT 1")?;
        Ok(ask.query_row([sha256], |_| Ok(())).optional()?.is_some())
    }

    /// Returns the events after `after` without a gap, for a watcher that was away, and
    /// whether some before the first of them are already removed. Events after a gap
    /// belong to the next page. A page has at most `max` events, and ends with the one
    /// that makes it reach `bytes_max`.
    pub fn events(&self, after: Seq, max: u64, bytes_max: usize) -> Result<(Vec<Entry>, bool), JournalError> {
        let from = after.max(self.compacted()?);
        let mut entries = journal::entries_within(&self.db, from, max, bytes_max)?;
        let unbroken = entries.windows(2).take_while(|two| two[1].seq == two[0].seq.next()).count() + 1;
        entries.truncate(unbroken);
        let gap = entries.first().map_or(from > after, |first| first.seq > after.next());
        Ok((entries, gap))
    }

    /// Returns the record up to which compaction removed events. Only the messages among
    /// those are left, as history.
    fn compacted(&self) -> Result<Seq, JournalError> {
        let sql = "SELECT min(seq, coalesce((SELECT min(seq) - 1 FROM journal), seq)) FROM snapshot ORDER BY seq DESC LIMIT 1";
        let seq: Option<u64> = self.db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        Ok(Seq(seq.unwrap_or(0)))
    }
}
