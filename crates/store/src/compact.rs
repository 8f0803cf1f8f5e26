//! Snapshots and pruning, which keep the file small and the opening fast.
//!
//! A snapshot is the whole durable state at one sequence number; records before it are kept only
//! for watchers that return late. Ended tasks are history, and are removed after their retention.
//! Invariant: nothing open is ever pruned; a dedupe key lives at least seven days.

use crate::journal::{Journal, JournalError};
use crate::rows::{self, ROW_VERSION};
use rusqlite::{Connection, params};
use synapse_core::ids::Timestamp;
use synapse_core::record::Archive;
use synapse_core::state::State;

/// How long data is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// How long ended tasks and their messages are kept, in days. At least seven.
    pub days: u32,
    /// Ended tasks beyond this many are removed early, but never before seven days.
    pub ended_max: u64,
    /// Records kept before a snapshot, for watchers that return.
    pub events_kept: u64,
    /// Records between snapshots, at least.
    pub snapshot_every: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { days: 30, ended_max: 1_000_000, events_kept: 10_000, snapshot_every: 20_000 }
    }
}

const DAY_MS: u64 = 24 * 3_600_000;
const DAYS_MIN: u64 = 7;
/// How many tasks one call prunes: few enough that the pause is not noticed.
const SLICE: u32 = 200;

impl Journal {
    /// Whether a snapshot is worth its cost: often enough that opening stays fast, but not so often
    /// that a large state is rewritten all the time.
    pub fn wants_snapshot(&self, state: &State) -> bool {
        let size = (state.letters.len() + state.tasks.len()) as u64;
        self.tail >= self.retention.snapshot_every.max(2 * size)
    }

    /// Writes a snapshot, so that the next opening starts from here.
    pub fn take_snapshot(&mut self, state: &State) -> Result<(), JournalError> {
        self.check_files()?;
        let body = rows::text(state);
        let crc = rows::checksum(&[&body]);
        let seq = state.seq.0;
        let horizon = seq.saturating_sub(self.retention.events_kept);
        let change = self.change()?;
        change.execute("DELETE FROM snapshot", [])?;
        change.execute(
            "INSERT INTO snapshot (seq, v, body, crc) VALUES (?1, ?2, ?3, ?4)",
            params![seq, ROW_VERSION, body, crc],
        )?;
        change.execute("DELETE FROM journal WHERE seq <= ?1", [horizon])?;
        change.commit()?;
        self.tail = 0;
        self.committed(None)?;
        self.sync_end();
        Ok(())
    }

    /// Takes a snapshot at an orderly stop if at least `worth` records have come since the last, so
    /// that the next start is fast.
    pub fn close(&mut self, state: &State, worth: u64) -> Result<(), JournalError> {
        if self.tail >= worth { self.take_snapshot(state) } else { Ok(()) }
    }

    /// Removes a slice of expired history; returns true if there may be more. It only removes what
    /// a snapshot covers, so take one first.
    pub fn prune(&mut self, now: Timestamp) -> Result<bool, JournalError> {
        self.check_files()?;
        let days = u64::from(self.retention.days).max(DAYS_MIN);
        let cutoff = now.0.saturating_sub(days * DAY_MS);
        let early = now.0.saturating_sub(DAYS_MIN * DAY_MS);
        let ended_max = self.retention.ended_max;
        let change = self.change()?;
        let extra: u64 = {
            let first: Option<u64> = change.query_row("SELECT min(seq) FROM task", [], |r| r.get(0))?;
            let Some(first) = first else { return Ok(false) };
            let old: Option<u64> =
                change.query_row("SELECT at FROM task WHERE seq = ?1", [first], |r| r.get(0))?;
            if old.is_some_and(|at| at >= early) {
                return Ok(false);
            }
            let count: u64 = change.query_row("SELECT count(*) FROM task", [], |r| r.get(0))?;
            count.saturating_sub(ended_max)
        };
        let doomed = oldest(&change, cutoff, early, extra)?;
        for (seq, archive) in &doomed {
            for message in &archive.task.messages {
                change.prepare_cached("DELETE FROM message WHERE id = ?1")?.execute([message.as_str()])?;
                change
                    .prepare_cached("DELETE FROM attachment WHERE message = ?1")?
                    .execute([message.as_str()])?;
            }
            let task = archive.task.id.to_string();
            change.prepare_cached("DELETE FROM said WHERE task = ?1")?.execute([task])?;
            change.prepare_cached("DELETE FROM task WHERE seq = ?1")?.execute([seq])?;
        }
        change.commit()?;
        self.committed(None)?;
        Ok(doomed.len() == SLICE as usize)
    }
}

/// Returns the oldest ended tasks that are expired or beyond the maximum.
fn oldest(db: &Connection, cutoff: u64, early: u64, extra: u64) -> Result<Vec<(u64, Archive)>, JournalError> {
    // Tasks that ended after the last snapshot are still needed for replay.
    let sql = "SELECT seq, at, body, crc FROM task WHERE seq <= (SELECT max(seq) FROM snapshot) ORDER BY seq LIMIT ?1";
    let mut ask = db.prepare_cached(sql)?;
    let rows = ask.query_map([SLICE], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?;
    let mut doomed = Vec::new();
    for (n, row) in rows.enumerate() {
        let (seq, at, body, crc): (u64, u64, String, u32) = row?;
        if at < cutoff || (at < early && (n as u64) < extra) {
            let kept: crate::history::KeptTask = rows::read("task", seq, &body, crc)?;
            doomed.push((seq, kept.archive));
        }
    }
    Ok(doomed)
}
