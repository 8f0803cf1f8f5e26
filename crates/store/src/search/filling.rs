//! Fills the index from the journal, slice by slice, and removes what was pruned from the journal.

use super::{Index, LATE_ANSWER, Progress, beyond_use, is_told};
use crate::grams;
use crate::history::History;
use crate::journal::JournalError;
use crate::rows;
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};
use serde::Deserialize;
use std::borrow::Cow;
use synapse_core::message::Content;
use synapse_core::record::Said;

/// The most rows and bytes that are read for one transaction.
const SLICE_ROWS: usize = 4_000;
const SLICE_BYTES: usize = 8 << 20;

/// How far the index has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    seq: u64,
    /// The checksum of that row: a different one means another journal.
    crc: u32,
    first_task: u64,
}

/// Which of the two files failed: an index can be rebuilt, a journal cannot.
pub(super) enum Fill {
    Index(rusqlite::Error),
    Journal(JournalError),
}

impl From<rusqlite::Error> for Fill {
    fn from(error: rusqlite::Error) -> Self {
        Self::Index(error)
    }
}

fn journal(error: rusqlite::Error) -> Fill {
    Fill::Journal(error.into())
}

impl Index {
    pub(super) fn fill(&mut self, history: &History, progress: Progress<'_>) -> Result<(), Fill> {
        let mark = mark(&self.db)?;
        let newest = newest(history, mark.seq)?;
        if mark.seq > 0 && crc_at(history, mark.seq)? != Some(mark.crc) {
            return Err(Fill::Index(beyond_use(ErrorCode::NotADatabase, "it is of another journal".into())));
        }
        if mark.seq == newest && first_task(history)? == mark.first_task {
            return Ok(());
        }
        let mut done = mark.seq;
        loop {
            progress(done.min(newest), newest);
            let (reached, is_more) = self.fill_slice(history)?;
            done = reached;
            if !is_more {
                return Ok(());
            }
        }
    }

    /// Indexes the next records; returns up to which, and whether there may be more.
    fn fill_slice(&mut self, history: &History) -> Result<(u64, bool), Fill> {
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read it again: another search may have continued from here meanwhile.
        let mut at = mark(&change)?;
        let (rows, is_more) = slice_after(history, at.seq)?;
        {
            let mut add = change.prepare_cached("INSERT INTO gram (rowid, t) VALUES (?1, ?2)")?;
            let mut words = String::new();
            for row in &rows {
                words.clear();
                row.cut(&mut words);
                if !words.is_empty() {
                    add.execute(params![row.seq, words])?;
                }
            }
        }
        if let Some(last) = rows.last() {
            (at.seq, at.crc) = (last.seq, last.crc);
        }
        at.first_task = sweep(&change, history, at.first_task)?;
        let sql = "UPDATE mark SET seq = ?1, crc = ?2, first_task = ?3";
        change.execute(sql, params![at.seq, at.crc, at.first_task])?;
        change.commit()?;
        Ok((at.seq, is_more))
    }
}

/// The parts of a row that are searched; the rest is skipped, since there may be millions of rows.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    letter: HeadLetter<'a>,
}

#[derive(Deserialize)]
struct HeadLetter<'a> {
    #[serde(borrow)]
    chain: HeadChain<'a>,
}

#[derive(Deserialize)]
struct HeadChain<'a> {
    #[serde(borrow)]
    correlation: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Kept {
    ending: synapse_core::task::Ending,
}

/// A row of the journal to be indexed.
struct Slip {
    seq: u64,
    table: Table,
    /// Only messages have one.
    head: String,
    body: String,
    crc: u32,
}

#[derive(Clone, Copy)]
enum Table {
    Message,
    Task,
    Said,
}

impl Slip {
    /// Appends the index words of the row. An unreadable row cannot be found; listings report it.
    fn cut(&self, into: &mut String) {
        let text = |body: &str| serde_json::from_str::<Content>(body).ok().map(|c| grams::searchable(&c));
        let found = match self.table {
            Table::Message => {
                if rows::checksum(&[&self.head, &self.body]) != self.crc {
                    return;
                }
                if let Ok(head) = serde_json::from_str::<Head<'_>>(&self.head) {
                    into.push_str(&grams::token_of_id(&head.letter.chain.correlation));
                }
                text(&self.body)
            }
            Table::Task => match rows::read::<Kept>("task", self.seq, &self.body, self.crc) {
                Ok(Kept { ending }) => match &ending.answer {
                    Some(answer) => text(answer.as_str()),
                    None => is_told(ending.state).then_some(ending.why),
                },
                Err(_) => None,
            },
            Table::Said => {
                let said = rows::read::<Said>("said", self.seq, &self.body, self.crc).ok();
                said.as_ref().and_then(Said::as_late_answer).and_then(|answer| text(answer.as_str()))
            }
        };
        if let Some(text) = found {
            grams::tokens_of(&grams::fold(&text), into);
        }
    }
}

/// Reads the next rows after a position at once, so that the read is short; also returns
/// whether there may be more.
fn slice_after(history: &History, after: u64) -> Result<(Vec<Slip>, bool), Fill> {
    let sql = format!(
        "SELECT seq, head, body, crc, 0 FROM message WHERE seq > ?1
         UNION ALL SELECT seq, '', body, crc, 1 FROM task WHERE seq > ?1
         UNION ALL SELECT seq, '', body, crc, 2 FROM said WHERE seq > ?1 AND {LATE_ANSWER}
         ORDER BY 1 LIMIT ?2"
    );
    let mut ask = history.db.prepare_cached(&sql).map_err(journal)?;
    let mut found = ask.query(params![after, SLICE_ROWS]).map_err(journal)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next().map_err(journal)? {
        let text = |column| -> rusqlite::Result<Option<String>> {
            let value = row.get_ref(column)?;
            Ok(value.as_bytes_or_null()?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        };
        let number = |column| row.get::<_, u64>(column).map_err(journal);
        let body = text(2).map_err(journal)?.unwrap_or_default();
        bytes += body.len();
        let crc = u32::try_from(number(3)?).unwrap_or(0);
        let table = match number(4)? {
            0 => Table::Message,
            1 => Table::Task,
            _ => Table::Said,
        };
        let head = text(1).map_err(journal)?.unwrap_or_default();
        rows.push(Slip { seq: number(0)?, table, head, body, crc });
        if bytes > SLICE_BYTES {
            return Ok((rows, true));
        }
    }
    let is_more = rows.len() == SLICE_ROWS;
    Ok((rows, is_more))
}

/// Removes what was pruned from the journal. Retention removes the oldest ended tasks with their
/// messages, so everything removed is before the first remaining task.
fn sweep(index: &Connection, history: &History, swept: u64) -> Result<u64, Fill> {
    let first = first_task(history)?;
    if first == swept {
        return Ok(first);
    }
    let before = if first == 0 { newest(history, 0)? } else { first };
    let gone: Vec<u64> = {
        let mut ask = index.prepare_cached("SELECT id FROM gram_docsize WHERE id < ?1")?;
        let ids: Vec<u64> = ask.query_map([before], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let mut is_there = history.db.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM message WHERE seq = ?1) OR EXISTS (SELECT 1 FROM task WHERE seq = ?1)
             OR EXISTS (SELECT 1 FROM said WHERE seq = ?1)",
        ).map_err(journal)?;
        let mut gone = Vec::new();
        for id in ids {
            if !is_there.query_row([id], |row| row.get::<_, bool>(0)).map_err(journal)? {
                gone.push(id);
            }
        }
        gone
    };
    let mut remove = index.prepare_cached("DELETE FROM gram WHERE rowid = ?1")?;
    for id in gone {
        remove.execute([id])?;
    }
    Ok(first)
}

fn mark(index: &Connection) -> rusqlite::Result<Mark> {
    index.query_row("SELECT seq, crc, first_task FROM mark", [], |row| {
        Ok(Mark { seq: row.get(0)?, crc: row.get(1)?, first_task: row.get(2)? })
    })
}

fn number(history: &History, sql: &str) -> Result<u64, Fill> {
    let found: Option<u64> =
        history.db.prepare_cached(sql).map_err(journal)?.query_row([], |row| row.get(0)).map_err(journal)?;
    Ok(found.unwrap_or(0))
}

/// Returns the last record to index; everything up to `from` is already indexed.
fn newest(history: &History, from: u64) -> Result<u64, Fill> {
    let sql = format!(
        "SELECT max(?1, coalesce((SELECT max(seq) FROM message), 0), coalesce((SELECT max(seq) FROM task), 0),
         coalesce((SELECT max(seq) FROM said WHERE seq > ?1 AND {LATE_ANSWER}), 0))"
    );
    let mut ask = history.db.prepare_cached(&sql).map_err(journal)?;
    ask.query_row([from], |row| row.get(0)).map_err(journal)
}

fn first_task(history: &History) -> Result<u64, Fill> {
    number(history, "SELECT min(seq) FROM task")
}

fn crc_at(history: &History, seq: u64) -> Result<Option<u32>, Fill> {
    let sql = "SELECT crc FROM message WHERE seq = ?1 UNION ALL SELECT crc FROM task WHERE seq = ?1
               UNION ALL SELECT crc FROM said WHERE seq = ?1";
    let mut ask = history.db.prepare_cached(sql).map_err(journal)?;
    ask.query_row([seq], |row| row.get(0)).optional().map_err(journal)
}
