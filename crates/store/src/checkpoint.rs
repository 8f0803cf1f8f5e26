//! Checkpoints: the write-ahead log is copied into the database beside the writer, and then begun anew.
//!
//! A log that is written over costs a commit less than one that grows: the file's length and its new blocks need not
//! reach the disk as well. So it is kept short. What can be copied while the writer goes on, a thread copies;
//! what was written meanwhile, a little, the writer copies itself between two commits, so that the next one begins at
//! the front.
//!
//! Invariant: nobody waits for a reader. While one is in the log, the log grows.

use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// So many pages of log are copied together: 16 MB.
const PAGES: u32 = 4_096;

pub(crate) struct Checkpointer {
    /// How long the log is.
    pages: Arc<AtomicU32>,
    /// How long it may get before something is done about it.
    pages_max: u32,
    /// The thread has copied what it could.
    copied: Arc<AtomicBool>,
    wake: Option<SyncSender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Checkpointer {
    /// For the one that writes by `db`, whose hook for the log is used up by it.
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

    /// How many frames the log had after the last commit.
    pub(crate) fn frames(&self) -> u32 {
        self.pages.load(Relaxed)
    }

    /// After a commit of `db`; whether the whole log is in the database now.
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
            // Full means it is already awake.
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

/// Copies the rest of the log; whether the next commit is at its front. It is not if somebody still reads in it.
fn begin_anew(db: &Connection) -> rusqlite::Result<bool> {
    db.busy_timeout(Duration::ZERO)?;
    let is_busy = db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, bool>(0));
    db.busy_timeout(crate::schema::LOCK_PATIENCE)?;
    Ok(!is_busy?)
}

fn copy(path: &Path, woken: &Receiver<()>, done: &AtomicBool) {
    let mut db: Option<Connection> = None;
    while woken.recv().is_ok() {
        // Opened late: most nodes never need it, and a connection costs memory.
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

    /// Writes so many rows of a page each, one commit each. What is to be copied is waited for: a writer that does not
    /// wait for the disk would leave the thread behind.
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
