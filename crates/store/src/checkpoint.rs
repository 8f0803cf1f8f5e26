//! Checkpoints: a thread copies the write-ahead log into the database, and the
//! writer then reuses the log.
//!
//! Reusing the log makes a commit cheaper than growing it, because the file's length and new blocks
//! need not reach the disk. So the log is kept short. The thread copies what it can while the
//! writer continues. The writer itself copies the little that was written meanwhile, between two
//! commits, so that the next commit starts at the front of the log.
//!
//! Invariant: nobody waits for a reader. While one uses the log, the log grows.

use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// The log size, in pages, at which a copy starts: 16 MB.
const PAGES: u32 = 4_096;

pub(crate) struct Checkpointer {
    /// The current length of the log.
    pages: Arc<AtomicU32>,
    /// The length at which the next copy starts.
    pages_max: u32,
    /// Set when the thread has copied what it could.
    copied: Arc<AtomicBool>,
    wake: Option<SyncSender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread for the writer of `db`, and takes the connection's WAL hook.
    pub(crate) fn start(path: &Path, db: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let seen = pages.clone();
        db.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
            seen.store(pages.unsigned_abs(), Relaxed);
            Ok(())
        }))?;
        let (wake, woken) = sync_channel(1);
        let copied = Arc::new(AtomicBool::new(false));
        let (file, done) = (path.to_owned(), copied.clone());
        let thread = std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .stack_size(256 << 10)
            .spawn(move || copy(&file, &woken, &done))
            .ok();
        Ok(Self { pages, pages_max: PAGES, copied, wake: Some(wake), thread })
    }

    /// Returns how many frames the log had after the last commit.
    pub(crate) fn frames(&self) -> u32 {
        self.pages.load(Relaxed)
    }

    /// Runs after each commit of `db`. Returns whether the whole log is now in the database.
    pub(crate) fn committed(&mut self, db: &Connection) -> bool {
        let pages = self.pages.load(Relaxed);
        if self.copied.swap(false, Relaxed) {
            let is_short = begin_anew(db).unwrap_or(false);
            self.pages_max = if is_short { PAGES } else { pages.saturating_add(PAGES) };
            return is_short;
        }
        if pages >= self.pages_max
            && let Some(wake) = &self.wake
        {
            // A full channel means that the thread is already awake.
            let _ = wake.try_send(());
        }
        false
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Copies the rest of the log. Returns whether the next commit starts at its front,
/// which a reader can prevent.
fn begin_anew(db: &Connection) -> rusqlite::Result<bool> {
    db.busy_timeout(Duration::ZERO)?;
    let is_busy = db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, bool>(0));
    db.busy_timeout(crate::schema::LOCK_PATIENCE)?;
    Ok(!is_busy?)
}

fn copy(path: &Path, woken: &Receiver<()>, done: &AtomicBool) {
    let mut db: Option<Connection> = None;
    while woken.recv().is_ok() {
        // Opened on first use: most nodes never need it, and a connection costs memory.
        if db.is_none() {
            db = Connection::open(path).ok();
        }
        if let Some(db) = &db {
            let _ = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
        done.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::wal_of;
    use std::time::Instant;

    /// Writes this many rows of a page each, one commit each. Waits for each copy, because a writer
    /// that never waits for the disk would outrun the thread.
    fn fill(db: &Connection, checkpointer: &mut Checkpointer, rows: u32) {
        for _ in 0..rows {
            db.execute("INSERT INTO t VALUES (zeroblob(4000))", []).unwrap();
            checkpointer.committed(db);
            let until = Instant::now() + Duration::from_secs(30);
            while checkpointer.pages.load(Relaxed) >= checkpointer.pages_max
                && !checkpointer.copied.load(Relaxed)
            {
                assert!(Instant::now() < until, "the thread has copied nothing in 30 s");
                std::thread::yield_now();
            }
        }
    }

    fn opened(folder: &tempfile::TempDir) -> (Connection, Checkpointer) {
        let path = folder.path().join("some.db");
        let mut db = Connection::open(&path).unwrap();
        crate::schema::configure(&db).unwrap();
        db.pragma_update(None, "synchronous", "OFF").unwrap();
        db.execute_batch("CREATE TABLE t (b)").unwrap();
        let checkpointer = Checkpointer::start(&path, &mut db).unwrap();
        (db, checkpointer)
    }

    #[test]
    fn the_log_stays_short_however_much_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (db, mut checkpointer) = opened(&folder);
        let log = wal_of(&folder.path().join("some.db"));
        let mut most = 0;
        for _ in 0..20 {
            fill(&db, &mut checkpointer, PAGES / 4);
            most = most.max(std::fs::metadata(&log).unwrap().len());
        }
        assert!(most < 4 * u64::from(PAGES) * 4_120, "{most} bytes of log");
    }

    #[test]
    fn a_reader_makes_the_log_grow_and_nobody_wait() {
        let folder = tempfile::tempdir().unwrap();
        let (db, mut checkpointer) = opened(&folder);
        let path = folder.path().join("some.db");
        let log = || std::fs::metadata(wal_of(&path)).unwrap().len();
        fill(&db, &mut checkpointer, 10);
        let mut reader = Connection::open(&path).unwrap();
        let reading = reader.transaction().unwrap();
        let count = |db: &Connection| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0));
        assert_eq!(count(&reading).unwrap(), 10);
        fill(&db, &mut checkpointer, 2 * PAGES);
        let held = log();
        assert!(held > 2 * u64::from(PAGES) * 4_096, "{held} bytes of log");
        assert_eq!(count(&reading).unwrap(), 10);
        reading.commit().unwrap();
        fill(&db, &mut checkpointer, 2 * PAGES);
        assert_eq!(count(&db).unwrap(), 10 + 4 * PAGES);
        fill(&db, &mut checkpointer, 2 * PAGES);
        assert!(log() <= held + 2 * u64::from(PAGES) * 4_120, "{} bytes of log, {held} before", log());
    }
}
