//! The search index: which records of one agent's history contain a word, in a separate
//! file beside the journal.
//!
//! Each search first fills the index from the journal, up to the newest record, a slice at a time,
//! so that accepting a message costs nothing extra. The index holds grams and positions, no text.
//! Each hit is read from the journal and checked again, so pruned records are not found, whatever
//! the index says. The file can be deleted at any time. It is rebuilt when it is damaged, of
//! another version, or of another journal.
//!
//! Invariant: the mark says up to which record the index is complete, and is written
//! in the same transaction.
//! Not here: how text is cut (`grams`), reading the journal (`browse`).

use crate::browse::{Past, What};
use crate::grams::{self, Query};
use crate::history::History;
use crate::journal::JournalError;
use crate::rows::BadRow;
use crate::schema::make_private;
use filling::Fill;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use synapse_core::Timestamp;
use synapse_core::message::Body;

mod filling;

/// Raised when the content changes; an index of another version is rebuilt.
const VERSION: u32 = 2;
/// The condition for rows of `said` that may be an answer to a one-way message;
/// others are not even read.
const LATE_ANSWER: &str = "instr(body, 'answer-after-end') > 0";
/// How many false hits of the index are checked before a search gives up.
const LOOKS_MAX: usize = 50_000;
/// How long to wait for others that create or fill the index.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many records a search without an index reads.
pub const SCAN_MAX: usize = 50_000;

const TABLES: &str = "
    CREATE VIRTUAL TABLE gram USING fts5(
        t, content='', contentless_delete=1, detail=none, tokenize='ascii'
    );
    INSERT INTO gram (gram, rank) VALUES ('hashsize', 16777216);
    CREATE TABLE mark (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER, crc INTEGER, first_task INTEGER);
    INSERT INTO mark VALUES (1, 0, 0, 0);
";

struct Index {
    db: Connection,
}

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the search index {path} cannot be used ({why}); it may be deleted, and is made anew")]
    Unusable { path: String, why: String },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The results of a search, newest first.
#[derive(Debug, Default)]
pub struct Hits {
    pub found: Vec<Past>,
    pub bad: Vec<BadRow>,
    /// Why there may be more results.
    pub cut: Option<Cut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The requested number was reached.
    Enough,
    /// Only this many of the newest index hits were checked.
    Looked(usize),
    /// Only this many of the newest records were read, one by one, without the index.
    Scanned(usize),
}

/// Reports the progress of filling: records done and records in total.
pub type Progress<'p> = &'p mut dyn FnMut(u64, u64);

impl Index {
    /// Opens or creates the index at `path`, brings it up to date with the journal, and queries it.
    /// A damaged index is rebuilt once.
    fn ask<T>(
        path: &Path,
        history: &History,
        progress: Progress<'_>,
        question: impl Fn(&Self) -> Result<T, Fill>,
    ) -> Result<T, IndexError> {
        // SQLite's locks separate processes, not the threads of one. If a file was removed
        // and created again under its name, two threads would each take the shared memory
        // beside it for their own.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let unusable = |why: String| IndexError::Unusable { path: path.display().to_string(), why };
        for is_last in [false, true] {
            let file = birth(path);
            let answer = Self::open(path).map_err(Fill::Index).and_then(|mut index| {
                index.fill(history, &mut *progress)?;
                question(&index)
            });
            match answer {
                Ok(answer) => return Ok(answer),
                Err(Fill::Journal(e)) => return Err(e.into()),
                Err(Fill::Index(e)) if is_last || !is_beyond_use(&e) => return Err(unusable(e.to_string())),
                Err(_) => start_anew(path, file.or(birth(path))).map_err(|e| unusable(e.to_string()))?,
            }
        }
        Err(unusable("it could not be made".to_owned()))
    }

    fn open(path: &Path) -> rusqlite::Result<Self> {
        make_private(path).map_err(|e| beyond_use(ErrorCode::CannotOpen, e.to_string()))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(PATIENCE)?;
        use_log(&db)?;
        // What a power cut loses is indexed again; it must only stay consistent.
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "cache_size", -8000)?;
        db.pragma_update(None, "wal_autocheckpoint", 4000)?;
        db.pragma_update(None, "journal_size_limit", 4 << 20)?;
        let version = |db: &Connection| db.pragma_query_value(None, "user_version", |r| r.get::<_, u32>(0));
        if version(&db)? != VERSION {
            // If two processes create it at once, the second finds it ready.
            let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let tables: u32 = change.query_row("SELECT count(*) FROM sqlite_master", [], |r| r.get(0))?;
            match (version(&change)?, tables) {
                (VERSION, _) => {}
                (0, 0) => {
                    change.execute_batch(TABLES)?;
                    change.pragma_update(None, "user_version", VERSION)?;
                }
                (other, _) => {
                    return Err(beyond_use(ErrorCode::NotADatabase, format!("it has version {other}")));
                }
            }
            change.commit()?;
        }
        Ok(Self { db })
    }

    fn search(&self, history: &History, query: &Query, expression: &str, wish: Wish) -> Result<Hits, Fill> {
        let mut hits = Hits::default();
        let mut looks = 0;
        let places = wish.places(history).map_err(Fill::Journal)?;
        self.each(expression, places, |seq| {
            let found = hits.look(history, seq)?.filter(|past| has(past, query));
            looks += 1;
            hits.found.extend(found.filter(|past| wish.has(past)));
            hits.cut = match hits.found.len() {
                enough if enough >= wish.max => Some(Cut::Enough),
                _ if looks >= LOOKS_MAX => Some(Cut::Looked(looks)),
                _ => None,
            };
            Ok(hits.cut.is_none())
        })?;
        Ok(hits)
    }

    fn conversation(&self, history: &History, correlation: &str, max: usize) -> Result<Hits, Fill> {
        let mut hits = Hits::default();
        self.each(&format!("\"{}\"", grams::token_of_id(correlation)), (0, i64::MAX as u64), |seq| {
            let past = hits.look(history, seq)?;
            hits.found.extend(past.filter(|past| is_of(past, correlation)));
            hits.cut = (hits.found.len() >= max).then_some(Cut::Enough);
            Ok(hits.cut.is_none())
        })?;
        Ok(hits)
    }

    /// Visits the hits of the index, newest first, while `look` returns true.
    fn each(
        &self,
        expression: &str,
        (first, last): (u64, u64),
        mut look: impl FnMut(u64) -> Result<bool, JournalError>,
    ) -> Result<(), Fill> {
        let sql =
            "SELECT rowid FROM gram WHERE gram MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC";
        let mut ask = self.db.prepare_cached(sql)?;
        let mut rows = ask.query(params![expression, first, last])?;
        while let Some(row) = rows.next()? {
            if !look(row.get(0)?).map_err(Fill::Journal)? {
                break;
            }
        }
        Ok(())
    }
}

/// The number and time range of the wanted results.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub max: usize,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Wish {
    pub fn newest(max: usize) -> Self {
        Self { max, since: None, until: None }
    }

    fn has(self, past: &Past) -> bool {
        self.since.is_none_or(|since| past.at >= since) && self.until.is_none_or(|until| past.at <= until)
    }

    /// Returns the range of positions that covers the time range.
    fn places(self, history: &History) -> Result<(u64, u64), JournalError> {
        let first = self.since.map(|since| history.place_before(since)).transpose()?;
        let last = self.until.map(|until| history.place_after(until)).transpose()?;
        Ok((first.map_or(0, |seq| seq.0), last.map_or(i64::MAX as u64, |seq| seq.0)))
    }
}

/// Returns the newest records that contain all words of the query, newest first. Updates the index
/// at `path` first; a query without any indexed word is answered by reading the records.
pub fn search(
    path: &Path,
    history: &History,
    query: &Query,
    wish: Wish,
    progress: Progress<'_>,
) -> Result<Hits, IndexError> {
    match query.expression() {
        Some(expression) => {
            Index::ask(path, history, progress, |index| index.search(history, query, &expression, wish))
        }
        None => Ok(scan(history, query, wish)?),
    }
}

/// Returns the messages of one conversation, newest first, at most `max`.
pub fn conversation(
    path: &Path,
    history: &History,
    correlation: &str,
    max: usize,
    progress: Progress<'_>,
) -> Result<Hits, IndexError> {
    Index::ask(path, history, progress, |index| index.conversation(history, correlation, max))
}

fn is_of(past: &Past, correlation: &str) -> bool {
    matches!(&past.what, What::Message { letter, .. } if letter.chain.correlation.as_str() == correlation)
}

/// Like `search`, without an index: reads the newest records one by one, up to a limit.
pub fn scan(history: &History, query: &Query, wish: Wish) -> Result<Hits, JournalError> {
    scan_for(history, wish, &|past| has(past, query))
}

/// Like `conversation`, without an index.
pub fn scan_conversation(history: &History, correlation: &str, max: usize) -> Result<Hits, JournalError> {
    scan_for(history, Wish::newest(max), &|past| is_of(past, correlation))
}

fn scan_for(history: &History, wish: Wish, is_it: &dyn Fn(&Past) -> bool) -> Result<Hits, JournalError> {
    const PAGE: usize = 256;
    let sql = format!(
        "SELECT seq FROM message WHERE seq < ?1 AND seq >= ?3
         UNION ALL SELECT seq FROM task WHERE seq < ?1 AND seq >= ?3
         UNION ALL SELECT seq FROM said WHERE seq < ?1 AND seq >= ?3 AND {LATE_ANSWER}
         ORDER BY 1 DESC LIMIT ?2"
    );
    let (first, last) = wish.places(history)?;
    let (mut hits, mut below, mut looks) = (Hits::default(), last, 0);
    loop {
        let seqs: Vec<u64> = {
            let mut ask = history.db.prepare_cached(&sql)?;
            let seqs = ask.query_map(params![below, PAGE, first], |row| row.get(0))?;
            seqs.collect::<Result<_, _>>()?
        };
        let Some(last) = seqs.last() else { return Ok(hits) };
        below = *last;
        for seq in seqs {
            if looks == SCAN_MAX {
                hits.cut = Some(Cut::Scanned(looks));
                return Ok(hits);
            }
            looks += 1;
            let found = hits.look(history, seq)?.filter(|past| is_it(past));
            hits.found.extend(found.filter(|past| wish.has(past)));
            if hits.found.len() >= wish.max {
                hits.cut = Some(Cut::Enough);
                return Ok(hits);
            }
        }
    }
}

impl Hits {
    /// Returns the record at that position, if it still exists.
    fn look(&mut self, history: &History, seq: u64) -> Result<Option<Past>, JournalError> {
        let past = match history.message_at(seq) {
            Ok(None) => match history.ended_at(seq) {
                Ok(None) => history.late_answer_at(seq),
                other => other,
            },
            other => other,
        };
        match past {
            Err(JournalError::Row(bad)) => {
                self.bad.push(bad);
                Ok(None)
            }
            other => other,
        }
    }
}

fn has(past: &Past, query: &Query) -> bool {
    text_of(past).is_some_and(|text| query.is_in(&grams::fold(&text)))
}

/// Returns the searchable text: a message's text; a task's answer, or the reason if
/// it failed without one.
pub fn text_of(past: &Past) -> Option<String> {
    let of = |body: &Body| body.content().ok().map(|content| grams::searchable(&content));
    match &past.what {
        What::Message { body, .. } => of(body),
        What::Ended { ending, .. } => match &ending.answer {
            Some(answer) => of(answer),
            None => is_told(ending.state).then(|| ending.why.clone()),
        },
        What::Artifact { .. } => None,
    }
}

/// Whether the reason is worth finding; for a completed task it is only a standard text.
fn is_told(state: synapse_core::task::TaskState) -> bool {
    state != synapse_core::task::TaskState::Completed
}

/// Switches to WAL mode. If several processes switch a new file at once, SQLite refuses all but one
/// of them immediately, whatever the busy timeout, so this retries.
fn use_log(db: &Connection) -> rusqlite::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match db.pragma_update(None, "journal_mode", "WAL") {
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            turned => return turned,
        }
    }
}

fn beyond_use(code: ErrorCode, why: String) -> rusqlite::Error {
    let code = rusqlite::ffi::Error { code, extended_code: 0 };
    rusqlite::Error::SqliteFailure(code, Some(why))
}

/// Whether rebuilding the index would help.
fn is_beyond_use(error: &rusqlite::Error) -> bool {
    !matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::OutOfMemory
        )
    )
}

/// Identifies one file; a file that replaces it has another value.
type Birth = Option<(u64, Option<std::time::SystemTime>)>;

fn birth(path: &Path) -> Birth {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::symlink_metadata(path).ok().map(|file| (file.ino(), file.created().ok()))
}

/// Removes the files, so that the next opening creates them. Processes that have them
/// open keep using theirs.
fn start_anew(path: &Path, bad: Birth) -> std::io::Result<()> {
    let lock = std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?;
    // One process at a time, and only the file that was found damaged: another search may have
    // just created a good one.
    lock.lock()?;
    if birth(path) != bad {
        return Ok(());
    }
    for ending in ["-wal", "-shm", ""] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        match std::fs::remove_file(PathBuf::from(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}
