//! The thread that writes the audit log: gathers lines for a moment and writes them in one batch.
//!
//! It syncs at most once a second, and only after a write; without lines it sleeps indefinitely. A
//! full disk or a log that cannot be opened costs lines but never stops the node: lost lines are
//! counted, and the log says how many are missing as soon as it can be written again.

use super::queue::Queue;
use crate::driver::now;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synapse_dialects::audit::{Actor, Line};
use synapse_dialects::time;
use synapse_store::audit::{AuditLog, Bounds, Mark};
use synapse_store::files::FileError;

/// How long the first line of a batch waits for others. It saves wake-ups, and it is also how much
/// a kill can lose.
const GATHER: Duration = Duration::from_millis(10);
const SYNC_EVERY: Duration = Duration::from_secs(1);
const SCRATCH_BYTES_KEPT: usize = 64 << 10;
const RETRY_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    dir: PathBuf,
    bounds: Bounds,
    queue: Arc<Queue>,
    log: Option<AuditLog>,
    /// The batch being written when the log broke.
    broken: Option<Batch>,
    missing: u64,
    retry_at: Option<Instant>,
    /// Since when there is a write that is not synced.
    unsynced: Option<Instant>,
    scratch: Vec<u8>,
}

/// The lines of one write.
struct Batch {
    /// The sequence number of the line before it.
    after: u64,
    lines: u64,
    /// The number of lines missing before it, which its first line reports.
    gap: u64,
}

impl Batch {
    /// Returns how many lines are missing if this batch arrived up to the line `end`.
    fn missing(&self, end: u64) -> u64 {
        match end.saturating_sub(self.after) {
            0 => self.gap + self.lines,
            arrived => self.lines.saturating_sub(arrived - u64::from(self.gap > 0)),
        }
    }
}

impl Writer {
    pub(super) fn new(dir: PathBuf, bounds: Bounds, queue: Arc<Queue>) -> Self {
        Self {
            dir,
            bounds,
            queue,
            log: None,
            broken: None,
            missing: 0,
            retry_at: None,
            unsynced: None,
            scratch: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        let mut batch = vec![self.start_line()];
        self.write(&mut batch);
        loop {
            self.wait(&mut batch);
            // Lines that arrive within this moment are written in one batch.
            std::thread::sleep(GATHER);
            let taken = self.queue.take(&mut batch);
            self.missing += taken.lost;
            self.write(&mut batch);
            if let Some(done) = taken.closing {
                self.sync(true);
                let _ = done.send(());
                return;
            }
        }
    }

    /// Waits until there is something to write. Syncs when that is due, and then sleeps
    /// indefinitely.
    fn wait(&mut self, batch: &mut Vec<Line>) {
        while let Some(since) = self.unsynced {
            if self.queue.wait(Some(SYNC_EVERY.saturating_sub(since.elapsed()))) {
                return;
            }
            self.sync(false);
        }
        batch.shrink_to(0);
        self.queue.shrink();
        self.queue.wait(None);
    }

    fn write(&mut self, batch: &mut Vec<Line>) {
        let count = batch.len() as u64;
        if self.log.is_none() && !self.open() {
            self.missing += count;
        } else if let Err(e) = self.append(batch) {
            self.break_off(&e);
        }
        batch.clear();
        if self.unsynced.is_some_and(|since| since.elapsed() >= SYNC_EVERY) {
            self.sync(false);
        }
    }

    fn append(&mut self, batch: &[Line]) -> Result<(), FileError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let at = time::show(now());
        let gap = std::mem::take(&mut self.missing);
        self.broken = Some(Batch { after: log.end().seq, lines: batch.len() as u64, gap });
        if gap > 0 {
            log.push(&Mark::Gap { lost: gap }.fields(&at), &at)?;
        }
        for line in batch {
            self.scratch.clear();
            line.write(&mut self.scratch);
            log.push(&self.scratch, &at)?;
        }
        self.scratch.shrink_to(SCRATCH_BYTES_KEPT);
        log.flush()?;
        self.broken = None;
        self.unsynced.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Handles a failed write. Lines are missing from now on; the log is reopened later.
    fn break_off(&mut self, error: &FileError) {
        tracing::error!(%error, "the audit log cannot be written; lines are missing until it can");
        self.log = None;
        self.unsynced = None;
        self.retry_at = Some(Instant::now() + RETRY_EVERY);
    }

    fn open(&mut self) -> bool {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        // Do not create a log if the folder of its agent was removed.
        if self.dir.parent().is_some_and(|agent| !agent.exists()) {
            self.retry_at = Some(Instant::now() + RETRY_EVERY);
            return false;
        }
        match AuditLog::open(&self.dir, self.bounds, &time::show(now())) {
            Ok(log) => {
                // Part of the broken batch may have arrived.
                if let Some(batch) = self.broken.take() {
                    self.missing += batch.missing(log.found().seq);
                }
                self.retry_at = None;
                self.log = Some(log);
                self.unsynced.get_or_insert_with(Instant::now);
                true
            }
            Err(error) => {
                if self.retry_at.is_none() {
                    tracing::error!(%error, "the audit log cannot be opened; lines are missing until it can");
                }
                self.retry_at = Some(Instant::now() + RETRY_EVERY);
                false
            }
        }
    }

    fn sync(&mut self, durably: bool) {
        if durably && self.log.is_none() && self.missing > 0 {
            self.retry_at = None;
            self.open();
        }
        if durably
            && self.missing > 0
            && let Err(e) = self.append(&[])
        {
            self.break_off(&e);
        }
        self.unsynced = None;
        if let Some(log) = &mut self.log
            && let Err(e) = log.sync(durably)
        {
            self.break_off(&e);
        }
    }

    /// Opens the log and returns its first line, which says how the earlier node ended.
    fn start_line(&mut self) -> Line {
        let mut line = Line::new(now(), &Actor::node(), "node", "start");
        self.open();
        let before = match self.log.as_ref().and_then(|log| log.found().stopped) {
            None => "",
            Some(true) => ", after an orderly stop",
            Some(false) => {
                ", after a node that did not stop in order: lines of its last moment may be missing"
            }
        };
        line.note = Some(
            format!("version {}, process {}{before}", env!("CARGO_PKG_VERSION"), std::process::id()).into(),
        );
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_arrive_is_counted() {
        let table = [
            // After line 10: lines in the batch, missing before it; the last that arrived; missing
            // afterwards.
            (5, 0, 10, 5),
            (5, 0, 12, 3),
            (5, 0, 15, 0),
            (5, 3, 10, 8),
            (5, 3, 11, 5),
            (5, 3, 14, 2),
            (5, 3, 16, 0),
            (0, 3, 10, 3),
        ];
        for (lines, gap, end, missing) in table {
            assert_eq!(Batch { after: 10, lines, gap }.missing(end), missing, "{lines} {gap} {end}");
        }
    }
}
