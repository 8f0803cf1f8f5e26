//! Reads history: the messages and endings of a journal, newest first or from the
//! start, one page at a time.
//!
//! Every query is one short read, so that readers never block the writer or a checkpoint. An
//! unreadable row is reported and skipped.
//! Not here: finding text (`search`), what a node's doors ask (`history`).

use crate::history::{History, KeptTask};
use crate::journal::{self, JournalError};
use crate::rows::{self, BadRow};
use crate::schema::{self, OpenError};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::path::Path;
use std::sync::Arc;
use synapse_core::ids::{Seq, TaskId, Timestamp};
use synapse_core::message::{Body, Letter, Who};
use synapse_core::record::{Archive, Said};
use synapse_core::state::State;
use synapse_core::task::Ending;

/// One entry of the history, with its position and time.
#[derive(Debug, Clone)]
pub struct Past {
    pub seq: Seq,
    /// The time; 0 for an artifact, whose time is not kept.
    pub at: Timestamp,
    pub what: What,
}

#[derive(Debug, Clone)]
pub enum What {
    Message { letter: Arc<Letter>, body: Body },
    Ended { ending: Ending, archive: Box<Archive> },
    Artifact { task: String, said: Said },
}

/// A page of entries, with the rows that could not be read.
#[derive(Debug, Default)]
pub struct Page {
    pub found: Vec<Past>,
    pub bad: Vec<BadRow>,
    /// The last row that was read.
    pub last: Option<Seq>,
}

/// A filter for messages.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub from: Option<Who>,
}

impl Wanted {
    pub fn has_time(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at <= until)
    }

    fn has(&self, at: Timestamp, letter: &Letter) -> bool {
        self.has_time(at) && self.from.as_ref().is_none_or(|who| *who == letter.from.who)
    }
}

/// How far times may be out of order, because clocks are sometimes set back.
const CLOCK_SLACK_MS: u64 = 3_600_000;
const ROWS_MAX: u64 = 256;
const PAGE_BYTES: usize = 4 << 20;

impl History {
    /// Opens a journal for reading; `None` if there is no journal, or it is empty.
    pub fn look_into(path: &Path) -> Result<Option<Self>, OpenError> {
        schema::look(path)?;
        let broken = |e| schema::broken(path, e);
        if !std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0) {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let db = Connection::open_with_flags(path, flags).map_err(broken)?;
        db.pragma_update(None, "cache_size", -2000).map_err(broken)?;
        let version = schema::version(&db, path)?;
        Ok((version > 0).then_some(Self { db }))
    }

    /// Returns the newest messages that match, newest first.
    pub fn newest(&self, wanted: &Wanted, max: usize) -> Result<Page, JournalError> {
        let mut page = Page::default();
        let mut below = match wanted.until {
            Some(until) => self.first_after(until.plus_ms(CLOCK_SLACK_MS))?,
            None => i64::MAX as u64,
        };
        while page.found.len() < max {
            let seqs = self.seqs_below(below, wanted.from.as_ref())?;
            let Some(last) = seqs.last() else { return Ok(page) };
            below = *last;
            for seq in seqs {
                if page.found.len() == max {
                    return Ok(page);
                }
                let Some(past) = page.take(self.message_at(seq))? else { continue };
                let What::Message { letter, .. } = &past.what else { continue };
                if wanted.since.is_some_and(|since| past.at.plus_ms(CLOCK_SLACK_MS) < since) {
                    return Ok(page);
                }
                if wanted.has(past.at, letter) {
                    page.found.push(past);
                }
            }
        }
        Ok(page)
    }

    /// Returns positions of messages, newest first. For one sender it uses the index of keys.
    fn seqs_below(&self, below: u64, from: Option<&Who>) -> Result<Vec<u64>, JournalError> {
        let by_sender = "SELECT seq FROM message INDEXED BY message_by_key
                         WHERE key >= ?2 || '/' AND key < ?2 || '0' AND seq < ?1 ORDER BY seq DESC LIMIT ?3";
        let all = "SELECT seq FROM message WHERE seq < ?1 AND ?2 IS NULL ORDER BY seq DESC LIMIT ?3";
        let prefix = from.map(rows::who);
        let mut ask = self.db.prepare_cached(if prefix.is_some() { by_sender } else { all })?;
        let seqs = ask.query_map(params![below, prefix, ROWS_MAX], |row| row.get(0))?;
        Ok(seqs.collect::<Result<_, _>>()?)
    }

    /// Finds the first message after that time by binary search, since times grow with positions.
    fn first_after(&self, at: Timestamp) -> Result<u64, JournalError> {
        let sql = "SELECT (SELECT min(seq) FROM message), (SELECT max(seq) FROM message)";
        let (low, high): (Option<u64>, Option<u64>) =
            self.db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(mut low), Some(high)) = (low, high) else { return Ok(0) };
        let mut high = high + 1;
        let sql = "SELECT seq, at FROM message WHERE seq >= ?1 ORDER BY seq LIMIT 1";
        let mut ask = self.db.prepare_cached(sql)?;
        while low < high {
            let middle = low.midpoint(high);
            let row: Option<(u64, u64)> =
                ask.query_row([middle], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            match row {
                Some((seq, found)) if found <= at.0 => low = seq + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    pub(crate) fn message_at(&self, seq: u64) -> Result<Option<Past>, JournalError> {
        let mut ask =
            self.db.prepare_cached("SELECT seq, at, head, body, crc FROM message WHERE seq = ?1")?;
        ask.query_row([seq], |row| Ok(read_message(row))).optional()?.transpose()
    }

    pub(crate) fn ended_at(&self, seq: u64) -> Result<Option<Past>, JournalError> {
        let mut ask = self.db.prepare_cached("SELECT seq, at, body, crc FROM task WHERE seq = ?1")?;
        ask.query_row([seq], |row| Ok(read_ended(row))).optional()?.transpose()
    }

    /// Returns the end of a one-way task with its late answer, if this row is such an answer.
    pub(crate) fn late_answer_at(&self, seq: u64) -> Result<Option<Past>, JournalError> {
        let mut ask = self.db.prepare_cached("SELECT task, body, crc FROM said WHERE seq = ?1")?;
        let row: Option<(String, String, u32)> =
            ask.query_row([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let Some((task, body, crc)) = row else { return Ok(None) };
        let said: Said = rows::read("said", seq, &body, crc)?;
        let (Some(answer), Ok(task)) = (said.as_late_answer(), TaskId::parse(&task)) else { return Ok(None) };
        let mut past = self.ended(&task)?;
        if let Some(Past { what: What::Ended { ending, .. }, .. }) = &mut past {
            ending.answer = Some(answer.clone());
        }
        Ok(past)
    }

    /// Returns how a task ended, if it has.
    pub fn ended(&self, task: &TaskId) -> Result<Option<Past>, JournalError> {
        let mut ask = self.db.prepare_cached(rows::whole_id!("SELECT seq, at, body, crc"))?;
        ask.query_row([task.to_string()], |row| Ok(read_ended(row))).optional()?.transpose()
    }

    /// Returns at most two ended tasks whose id has this prefix, enough to see that it is
    /// ambiguous. Searches all of them.
    pub fn tasks_like(&self, start: &str) -> Result<Vec<TaskId>, JournalError> {
        let sql = "SELECT DISTINCT id FROM task WHERE id >= ?1 AND id <= ?1 || 'g' LIMIT 2";
        let mut ask = self.db.prepare_cached(sql)?;
        let ids = ask.query_map([start], |row| row.get::<_, String>(0))?;
        let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
        Ok(ids.iter().filter_map(|id| TaskId::parse(id).ok()).collect())
    }

    /// Returns messages whose id has this prefix, at most two different ones.
    pub fn messages_like(&self, start: &str) -> Result<Page, JournalError> {
        let sql = "SELECT max(seq) FROM message WHERE id >= ?1 AND id < ?1 || char(127) GROUP BY id LIMIT 2";
        let mut ask = self.db.prepare_cached(sql)?;
        let seqs = ask.query_map([start], |row| row.get(0))?;
        let seqs: Vec<u64> = seqs.collect::<Result<_, _>>()?;
        let mut page = Page::default();
        for seq in seqs {
            let past = page.take(self.message_at(seq))?;
            page.found.extend(past);
        }
        Ok(page)
    }

    /// Returns a position before everything that happened at that time or later, but close to it.
    pub fn place_before(&self, at: Timestamp) -> Result<Seq, JournalError> {
        let first = self.first_after(Timestamp(at.0.saturating_sub(CLOCK_SLACK_MS)))?;
        Ok(Seq(first.saturating_sub(1)))
    }

    /// Returns a position after everything that happened at that time or earlier, but close to it.
    pub fn place_after(&self, at: Timestamp) -> Result<Seq, JournalError> {
        let last: Option<u64> = self.db.query_row("SELECT max(seq) FROM message", [], |row| row.get(0))?;
        let found = self.first_after(at.plus_ms(CLOCK_SLACK_MS))?;
        // There may still be endings after the last message.
        Ok(if last.is_none_or(|last| found > last) { Seq(i64::MAX as u64) } else { Seq(found) })
    }

    /// Returns the entries after a position, in order, in a page of limited size.
    pub fn after(&self, after: Seq) -> Result<Page, JournalError> {
        // Reads the whole page first, so that a slow consumer does not keep the read open.
        let sql = "SELECT seq, at, head, body, crc, 'message' FROM message WHERE seq > ?1
                   UNION ALL SELECT seq, at, NULL, body, crc, 'task' FROM task WHERE seq > ?1
                   UNION ALL SELECT seq, 0, task, body, crc, 'said' FROM said WHERE seq > ?1
                   ORDER BY 1 LIMIT ?2";
        let mut ask = self.db.prepare_cached(sql)?;
        let mut rows = ask.query(params![after.0, ROWS_MAX])?;
        let (mut page, mut bytes) = (Page::default(), 0);
        while let Some(row) = rows.next()? {
            bytes += row.get_ref(3)?.as_bytes().map_or(0, <[u8]>::len);
            page.last = Some(Seq(row.get(0)?));
            let past = page.take(read_any(row).map(Some))?;
            page.found.extend(past);
            if bytes > PAGE_BYTES {
                break;
            }
        }
        Ok(page)
    }

    /// Returns the open messages and tasks, as the node would load them at a start.
    pub fn state(&self) -> Result<State, JournalError> {
        // Uses one transaction: a snapshot taken meanwhile would leave a gap.
        let reading = self.db.unchecked_transaction()?;
        Ok(journal::replay(&reading)?.0)
    }
}

impl Page {
    /// Records and skips a bad row, but passes on a disk error.
    fn take(&mut self, past: Result<Option<Past>, JournalError>) -> Result<Option<Past>, JournalError> {
        match past {
            Err(JournalError::Row(bad)) => {
                self.bad.push(bad);
                Ok(None)
            }
            other => other,
        }
    }
}

fn text_of<'r>(row: &'r Row<'_>, column: usize, seq: u64) -> Result<&'r str, BadRow> {
    let unreadable = |why: String| BadRow::Unreadable { table: "message", seq, why };
    let value = row.get_ref(column).map_err(|e| unreadable(e.to_string()))?;
    value.as_str().map_err(|e| unreadable(e.to_string()))
}

fn read_message(row: &Row<'_>) -> Result<Past, JournalError> {
    let (seq, at): (u64, u64) = (row.get(0)?, row.get(1)?);
    let (head, body) = (text_of(row, 2, seq)?, text_of(row, 3, seq)?);
    let letter = rows::read_head(seq, head, body, row.get(4)?)?.letter;
    Ok(Past { seq: Seq(seq), at: Timestamp(at), what: What::Message { letter, body: Body::kept(body) } })
}

fn read_ended(row: &Row<'_>) -> Result<Past, JournalError> {
    let (seq, at): (u64, u64) = (row.get(0)?, row.get(1)?);
    ended(seq, at, text_of(row, 2, seq)?, row.get(3)?)
}

fn ended(seq: u64, at: u64, body: &str, crc: u32) -> Result<Past, JournalError> {
    let KeptTask { ending, archive } = rows::read("task", seq, body, crc)?;
    Ok(Past { seq: Seq(seq), at: Timestamp(at), what: What::Ended { ending, archive: Box::new(archive) } })
}

/// Reads a row of `after`, whose last column names its table.
fn read_any(row: &Row<'_>) -> Result<Past, JournalError> {
    let (seq, at): (u64, u64) = (row.get(0)?, row.get(1)?);
    match row.get_ref(5)?.as_str() {
        Ok("message") => read_message(row),
        Ok("task") => ended(seq, at, text_of(row, 3, seq)?, row.get(4)?),
        _ => {
            let (task, said) = (row.get(2)?, rows::read("said", seq, text_of(row, 3, seq)?, row.get(4)?)?);
            Ok(Past { seq: Seq(seq), at: Timestamp(at), what: What::Artifact { task, said } })
        }
    }
}
