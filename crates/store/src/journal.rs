//! The journal: one SQLite file, one writer, one commit per batch.
//!
//! `commit` returns when every record of the batch is on disk (WAL, `synchronous=FULL`), or none
//! is. Opening loads the last snapshot and replays what came after it, to the exact state.
//!
//! Invariant: sequence numbers have no gap; a row that fails its checksum makes the opening fail
//! and is never applied; a journal whose file was removed or replaced accepts no more records.
//! Not here: what records mean (`synapse-core`), snapshots and pruning
//! (`compact`), views (`history`).

use crate::checkpoint::Checkpointer;
use crate::compact::Retention;
use crate::end::JournalEnd;
use crate::history::{KeptTask, KeptTaskOut};
use crate::loss;
use crate::own::DIRECT;
use crate::rows::{self, BadRow, ROW_VERSION};
use crate::schema::{self, OpenError, shown};
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use synapse_core::cycle;
use synapse_core::effect::{EndedTask, Prior};
use synapse_core::ids::{MessageId, Seq, TaskId, TaskRef, Timestamp};
use synapse_core::message::{Body, owner};
use synapse_core::record::{Archive, Entry, Record, Said};
use synapse_core::state::{State, Unfit};
use synapse_core::task::Ending;

pub struct Journal {
    pub(crate) db: Connection,
    pub(crate) path: PathBuf,
    pub(crate) retention: Retention,
    /// Records since the last snapshot.
    pub(crate) tail: u64,
    /// Whether the transaction of a batch is open.
    begun: bool,
    pub(crate) checkpointer: Checkpointer,
    /// `None` until the journal is fully opened.
    end: Option<JournalEnd>,
}

/// Why a batch was not stored, or could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the disk is full; free some space, then try again")]
    DiskFull,
    #[error("the disk failed: {0}")]
    Disk(String),
    #[error("the journal was cut short, removed or replaced while the agent ran; it takes nothing more")]
    Gone,
    #[error(transparent)]
    Row(#[from] BadRow),
    #[error("the journal does not fit together: {0}")]
    Unfit(#[from] Unfit),
}

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            _ => Self::Disk(error.to_string()),
        }
    }
}

pub(crate) const REPLAY_PAGE: u64 = 256;

impl Journal {
    /// Opens or creates the journal at `path` and rebuilds its state.
    pub fn open(path: &Path, retention: Retention) -> Result<(Self, State), OpenError> {
        schema::look(path)?;
        let before = loss::look(path)?;
        let broken = |e| schema::broken(path, e);
        // Closing copies the log into the database; a refused journal must keep both.
        let has_log = std::fs::metadata(wal_of(path)).is_ok_and(|log| log.len() > 0);
        schema::make_private(path)?;
        let mut db = Connection::open(path).map_err(broken)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log).map_err(broken)?;
        let found = schema::ask(&db, path)?;
        before.check_pages(&db, path)?;
        schema::configure(&db).map_err(broken)?;
        schema::migrate(&mut db, found).map_err(broken)?;
        let checkpointer = Checkpointer::start(path, &mut db).map_err(broken)?;
        let mut journal =
            Self { db, path: path.to_owned(), retention, tail: 0, begun: false, checkpointer, end: None };
        let state =
            journal.load().map_err(|e| OpenError::Damaged { path: shown(path), why: e.to_string() })?;
        before.check_end(state.seq.0, path)?;
        journal.db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(broken)?;
        let mut end = JournalEnd::open(&journal.db, path, state.seq.0).map_err(broken)?;
        if !before.is_at(state.seq.0) {
            end.note(journal.checkpointer.frames());
        }
        journal.end = Some(end);
        Ok((journal, state))
    }

    fn load(&mut self) -> Result<State, JournalError> {
        let (state, tail) = replay(&self.db)?;
        self.tail = tail;
        Ok(state)
    }

    /// Whether its files were removed, replaced or truncated (L13). Writes to them would be
    /// lost with this process.
    pub fn is_gone(&self) -> bool {
        self.end.as_ref().is_some_and(|end| !end.is_whole())
    }

    /// Fails if the files are gone, and leaves a report that prevents the next start as well.
    pub(crate) fn check_files(&self) -> Result<(), JournalError> {
        match &self.end {
            Some(end) if !end.is_whole() => {
                end.report_loss();
                Err(JournalError::Gone)
            }
            _ => Ok(()),
        }
    }

    /// Runs after each commit: only data in the files under their own names is stored.
    pub(crate) fn committed(&mut self, last: Option<Seq>) -> Result<(), JournalError> {
        let frames = self.checkpointer.frames();
        if let Some(end) = &mut self.end {
            end.seq = last.map_or(end.seq, |seq| seq.0);
            end.committed(frames);
        }
        self.check_files()?;
        if let Some(end) = &mut self.end {
            end.note(frames);
            if self.checkpointer.committed(&self.db) {
                // The batch is stored, even if this fails.
                let _ = end.checkpointed(&self.db);
            }
        }
        Ok(())
    }

    pub(crate) fn sync_end(&self) {
        if let Some(end) = &self.end {
            end.sync();
        }
    }

    /// Returns the records after `after`, in order, from all tables; at most `max`.
    pub fn entries_after(&self, after: Seq, max: u64) -> Result<Vec<Entry>, JournalError> {
        entries_after(&self.db, after, max)
    }

    /// Opens the transaction of a batch, so that all its lookups share one lock.
    pub fn begin(&mut self) -> Result<(), JournalError> {
        if !self.begun {
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            self.begun = true;
        }
        Ok(())
    }

    /// Ends the transaction that `begin` opened, if nothing was written.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.begun) {
            // This fails only if SQLite has already rolled back, as it does when the disk is full.
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }

    fn write(&mut self, entries: &[Arc<Entry>]) -> Result<(), JournalError> {
        self.begin()?;
        let mut batch = Batch::of(&self.db)?;
        for entry in entries {
            batch.put(entry)?;
        }
        drop(batch);
        self.db.prepare_cached("COMMIT")?.execute([])?;
        self.begun = false;
        Ok(())
    }

    /// Starts a transaction as a writer. One that reads first would be refused at once, without
    /// waiting, while a checkpoint runs.
    pub(crate) fn change(&mut self) -> rusqlite::Result<rusqlite::Transaction<'_>> {
        self.db.transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// Returns the earlier message with this dedupe key, if there is one.
    pub fn prior(&self, key: &str) -> Result<Option<Prior>, JournalError> {
        let mut ask = self.db.prepare_cached("SELECT seq, head, body, crc FROM message WHERE key = ?1")?;
        let row: Option<(u64, String, String, u32)> =
            ask.query_row([key], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))).optional()?;
        let Some((seq, head, body, crc)) = row else { return Ok(None) };
        let letter = rows::read_head(seq, &head, &body, crc)?.letter;
        Ok(Some(Prior {
            agent: letter.to,
            message: letter.id.clone(),
            task: letter.task,
            digest: letter.digest,
        }))
    }

    /// Returns the body of a message.
    pub fn body(&self, message: &MessageId) -> Result<Option<Body>, JournalError> {
        let mut ask = self
            .db
            .prepare_cached("SELECT seq, head, body, crc FROM message WHERE id = ?1 ORDER BY seq DESC")?;
        let row: Option<(u64, String, String, u32)> = ask
            .query_row([message.as_str()], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))
            .optional()?;
        let Some((seq, head, body, crc)) = row else { return Ok(None) };
        rows::read_head(seq, &head, &body, crc)?;
        Ok(Some(Body::kept(&body)))
    }

    /// Returns the ended task with this id; with a prefix, one of those that began last.
    pub fn ended(&self, name: &TaskRef, now: Timestamp) -> Result<Option<EndedTask>, JournalError> {
        let found = find_task(&self.db, name, now)?;
        Ok(found.and_then(|(_, archive)| ended_of(archive)))
    }

    /// Returns the task of this agent that ended last.
    pub fn last_ended(&self, agent: &str) -> Result<Option<EndedTask>, JournalError> {
        let sql = "SELECT seq, body, crc FROM task WHERE agent = ?1 ORDER BY seq DESC LIMIT 1";
        let mut ask = self.db.prepare_cached(sql)?;
        let row: Option<(u64, String, u32)> =
            ask.query_row([agent], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).optional()?;
        let Some((seq, body, crc)) = row else { return Ok(None) };
        let kept: KeptTask = rows::read("task", seq, &body, crc)?;
        Ok(ended_of(kept.archive))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl cycle::Journal for Journal {
    type Error = JournalError;

    fn commit(&mut self, entries: &[Arc<Entry>]) -> Result<(), JournalError> {
        if let Err(e) = self.check_files().and_then(|()| self.write(entries)) {
            self.end();
            return Err(e);
        }
        self.tail += entries.len() as u64;
        self.committed(entries.last().map(|last| last.seq))
    }

    fn recover(&mut self) -> Result<State, JournalError> {
        self.load()
    }
}

impl Drop for Journal {
    /// Moves the log into the database, so that the head can say that the log is empty.
    fn drop(&mut self) {
        // Without an end the opening was refused: leave the files as they are.
        if self.end.is_none() || self.check_files().is_err() {
            return;
        }
        self.end();
        let _ = self.db.busy_timeout(std::time::Duration::ZERO);
        let moved = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        if let (Ok(false), Some(end)) = (moved, &mut self.end) {
            end.note_empty_log();
        }
        self.sync_end();
    }
}

/// Rebuilds the state from the journal; also returns how many records came after the snapshot.
pub(crate) fn replay(db: &Connection) -> Result<(State, u64), JournalError> {
    let mut state = snapshot(db)?.unwrap_or_default();
    state.rebuild_indexes();
    let mut tail = 0;
    loop {
        // Reads page by page: bodies are read too, and there may be gigabytes of them.
        let page = entries_after(db, state.seq, REPLAY_PAGE)?;
        if page.is_empty() {
            return Ok((state, tail));
        }
        for entry in page {
            state.apply(&entry)?;
            tail += 1;
        }
    }
}

fn snapshot(db: &Connection) -> Result<Option<State>, JournalError> {
    let mut ask = db.prepare_cached("SELECT seq, v, body, crc FROM snapshot ORDER BY seq DESC LIMIT 1")?;
    let row: Option<(u64, u32, String, u32)> =
        ask.query_row([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))).optional()?;
    let Some((seq, v, body, crc)) = row else { return Ok(None) };
    rows::check_version("snapshot", seq, v)?;
    Ok(Some(rows::read("snapshot", seq, &body, crc)?))
}

fn ended_of(archive: Archive) -> Option<EndedTask> {
    let task = archive.task;
    let message = task.messages.first()?.clone();
    Some(EndedTask { id: task.id, agent: task.agent, state: task.state, requester: task.requester, message })
}

/// How many of the latest tasks a prefix can match; it limits the cost of a wrong one.
const SHORT_NAMES_MAX: u32 = 10_000;
const BY_SHORT_NAME: &str = "SELECT max(seq)
    FROM (SELECT seq, id FROM task WHERE substr(id, 21) <= ?2 ORDER BY substr(id, 21) DESC LIMIT ?3)
    WHERE id >= ?1 AND id <= ?1 || 'g'";

pub(crate) fn find_task(
    db: &Connection,
    name: &TaskRef,
    now: Timestamp,
) -> Result<Option<(Ending, Archive)>, JournalError> {
    if let Ok(id) = TaskId::parse(name.as_str()) {
        return task_of(db, &id);
    }
    let mut ask = db.prepare_cached(BY_SHORT_NAME)?;
    let upto = format!("{:012x}", now.0);
    let seq: Option<u64> = ask.query_row(params![name.as_str(), upto, SHORT_NAMES_MAX], |row| row.get(0))?;
    let Some(seq) = seq else { return Ok(None) };
    one_task(db, "SELECT seq, body, crc FROM task WHERE seq = ?1", params![seq])
}

/// Returns the ended task with this full id.
pub(crate) fn task_of(db: &Connection, id: &TaskId) -> Result<Option<(Ending, Archive)>, JournalError> {
    one_task(db, rows::whole_id!("SELECT seq, body, crc"), [id.to_string()])
}

fn one_task(
    db: &Connection,
    sql: &str,
    asked: impl rusqlite::Params,
) -> Result<Option<(Ending, Archive)>, JournalError> {
    let mut ask = db.prepare_cached(sql)?;
    let row: Option<(u64, String, u32)> =
        ask.query_row(asked, |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).optional()?;
    let Some((seq, body, crc)) = row else { return Ok(None) };
    let kept: KeptTask = rows::read("task", seq, &body, crc)?;
    Ok(Some((kept.ending, kept.archive)))
}

/// Writes these records in an open transaction.
pub(crate) fn put_all(db: &Connection, entries: &[Entry]) -> rusqlite::Result<()> {
    let mut batch = Batch::of(db)?;
    entries.iter().try_for_each(|entry| batch.put(entry))
}

/// The rows of one batch, with prepared statements for the two busiest tables.
struct Batch<'a> {
    db: &'a Connection,
    message: CachedStatement<'a>,
    journal: CachedStatement<'a>,
    text: rows::Text,
}

impl<'a> Batch<'a> {
    fn of(db: &'a Connection) -> rusqlite::Result<Self> {
        let message =
            "INSERT INTO message (seq, at, id, key, head, body, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let journal = "INSERT INTO journal (seq, at, v, body, crc) VALUES (?1, ?2, ?3, ?4, ?5)";
        let (message, journal) = (db.prepare_cached(message)?, db.prepare_cached(journal)?);
        Ok(Self { db, message, journal, text: rows::Text::default() })
    }

    fn put(&mut self, entry: &Entry) -> rusqlite::Result<()> {
        let (seq, at) = (entry.seq.0, entry.at.0);
        match &entry.record {
            Record::Accepted { letter, body, opens } => {
                let head = self.text.head(letter, opens.as_deref());
                let crc = rows::checksum(&[head, body.as_str()]);
                let (id, key) = (letter.id.as_str(), letter.key().text());
                self.message.execute(params![seq, at, id, key, head, body.as_str(), crc])?;
                return self.attached(&letter.id, body);
            }
            Record::Ended { task, ending, archive } => {
                return self.ended((seq, at), task, ending, archive);
            }
            Record::Said { task, what: what @ Said::Artifact { .. } } => {
                let body = self.text.of(what);
                let sql = "INSERT INTO said (seq, task, body, crc) VALUES (?1, ?2, ?3, ?4)";
                let crc = rows::checksum(&[body]);
                self.db.prepare_cached(sql)?.execute(params![seq, task.to_string(), body, crc])?;
            }
            _ => {}
        }
        let body = self.text.of(&entry.record);
        self.journal.execute(params![seq, at, ROW_VERSION, body, rows::checksum(&[body])])?;
        Ok(())
    }

    /// Stores which files beside the journal a message refers to.
    fn attached(&self, message: &MessageId, body: &Body) -> rusqlite::Result<()> {
        // Nearly no message has a file, and parsing each body again would cost the most.
        if !body.as_str().contains(r#""file":{"sha256":"#) {
            return Ok(());
        }
        let content = body.content().unwrap_or_default();
        let sql = "INSERT OR IGNORE INTO attachment (message, sha256) VALUES (?1, ?2)";
        for (_, file) in content.files() {
            self.db.prepare_cached(sql)?.execute(params![message.as_str(), file.sha256.hex()])?;
        }
        Ok(())
    }

    fn ended(
        &mut self,
        (seq, at): (u64, u64),
        task: &TaskId,
        ending: &Ending,
        archive: &Archive,
    ) -> rusqlite::Result<()> {
        let kept = self.text.of(&KeptTaskOut { ending, archive });
        let sql = "INSERT INTO task (seq, at, id, agent, dead, body, crc, who, context, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let state = if ending.direct { DIRECT } else { ending.state.name() };
        self.db.prepare_cached(sql)?.execute(params![
            seq,
            at,
            task.to_string(),
            archive.task.agent.to_string(),
            archive.dead_letter,
            kept,
            rows::checksum(&[kept]),
            owner(&archive.task.requester.who, archive.task.tenant.as_ref()),
            archive.task.conversation(),
            state
        ])?;
        Ok(())
    }
}

/// Returns the records after `after`. A read-only caller may have a database that was not migrated,
/// in which an ending is also in `journal`.
pub(crate) fn entries_after(db: &Connection, after: Seq, max: u64) -> Result<Vec<Entry>, JournalError> {
    entries_within(db, after, max, usize::MAX)
}

/// Like `entries_after`, but stops with the entry that makes the page reach `bytes_max`.
pub(crate) fn entries_within(
    db: &Connection,
    after: Seq,
    max: u64,
    bytes_max: usize,
) -> Result<Vec<Entry>, JournalError> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let sql = "SELECT seq, at, 0, head, body, crc, 'message' FROM message WHERE seq > ?1
               UNION ALL SELECT seq, at, v, NULL, body, crc, 'journal' FROM journal WHERE seq > ?1
               UNION ALL SELECT seq, at, 0, NULL, body, crc, 'task' FROM task
                   WHERE seq > ?1 AND NOT EXISTS (SELECT 1 FROM journal WHERE journal.seq = task.seq)
               ORDER BY seq LIMIT ?2";
    let mut ask = db.prepare_cached(sql)?;
    let mut found = ask.query(params![after.0, max])?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    while bytes < bytes_max
        && let Some(row) = found.next()?
    {
        let seq: u64 = row.get(0)?;
        let table = match row.get_ref(6)?.as_bytes().unwrap_or_default() {
            b"message" => "message",
            b"task" => "task",
            _ => "journal",
        };
        let entry = one_entry(row, table, seq)?;
        bytes = bytes.saturating_add(entry.record.weight());
        entries.push(entry);
    }
    Ok(entries)
}

fn one_entry(row: &Row<'_>, table: &'static str, seq: u64) -> Result<Entry, BadRow> {
    let unreadable = |why: &dyn std::fmt::Display| BadRow::Unreadable { table, seq, why: why.to_string() };
    let body = row.get_ref(4).map_err(|e| unreadable(&e))?.as_str().map_err(|e| unreadable(&e))?;
    let head = row.get_ref(3).map_err(|e| unreadable(&e))?.as_str_or_null().map_err(|e| unreadable(&e))?;
    let at: u64 = row.get(1).map_err(|e| unreadable(&e))?;
    let crc: u32 = row.get(5).map_err(|e| unreadable(&e))?;
    let record = match (head, table) {
        (Some(head), _) => rows::read_head(seq, head, body, crc)?.into_record(body),
        (None, "task") => rows::read::<KeptTask>(table, seq, body, crc)?.into_record(),
        (None, _) => {
            rows::check_version(table, seq, row.get(2).map_err(|e| unreadable(&e))?)?;
            rows::read(table, seq, body, crc)?
        }
    };
    Ok(Entry { seq: Seq(seq), at: Timestamp(at), record })
}

/// Returns the path of the write-ahead log beside a database.
pub(crate) fn wal_of(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lookup by task name, full or short, reads only a few pages of one index; by full name also
    /// in a journal of version 3.
    #[test]
    fn no_name_of_a_task_makes_anybody_read_all_tasks() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(&dir.path().join("journal.db"), Retention::default()).unwrap();
        let plan = |sql: &str| {
            let mut ask = journal.db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = ask.raw_query().mapped(|row| row.get::<_, String>(3));
            steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
        };
        let whole = rows::whole_id!("SELECT seq");
        assert_eq!(plan(whole), "SEARCH task USING COVERING INDEX task_by_tail (<expr>=? AND id=?)");
        let short = plan(BY_SHORT_NAME);
        assert!(short.contains("SEARCH task USING COVERING INDEX task_by_tail (<expr><?)"), "{short}");
        assert!(!short.contains("TEMP B-TREE"), "{short}");
        let sql = "DROP INDEX task_by_tail; CREATE INDEX task_by_id ON task (id);";
        journal.db.execute_batch(sql).unwrap();
        assert_eq!(plan(whole), "SEARCH task USING COVERING INDEX task_by_id (id=?)");
    }
}
