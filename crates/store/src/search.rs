//! The search index: where in one agent's history a word is, in a file of its own beside the journal.
//!
//! It is filled from the journal by whoever searches, up to the newest record, a slice at a time; accepting a
//! message costs nothing more because of it. It holds grams and places, no text: a hit is read from the journal and
//! looked at again, so what has left the journal is not found, whatever the index still says. It can be deleted at
//! any time, and is made anew when it is damaged, of another version, or of another journal.
//!
//! Invariant: the mark says up to which record all is in the index, and is written in the same transaction.
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

/// Raised when what is in it changes; another version is made anew.
const VERSION: u32 = 2;
/// The condition for rows of `said` that may be an answer to a one-way message; the others are not even read.
const LATE_ANSWER: &str = "instr(body, 'answer-after-end') > 0";
/// How many hits of the index are looked at in vain before a search gives up.
const LOOKS_MAX: usize = 50_000;
/// How long others that make it or fill it are waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// How far back a search without an index goes.
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

/// What a search found, newest first.
#[derive(Debug, Default)]
pub struct Hits {
    pub found: Vec<Past>,
    pub bad: Vec<BadRow>,
    /// Why there may be more than this.
    pub cut: Option<Cut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// As many as were asked for.
    Enough,
    /// So many of the newest places that the index gave were looked at.
    Looked(usize),
    /// Only so many of the newest were read, one by one, without the index.
    Scanned(usize),
}

/// How far the filling has come: records done and records there are.
pub type Progress<'p> = &'p mut dyn FnMut(u64, u64);

impl Index {
    /// Opens the index at `path`, or makes it, brings it up to date with the journal, and asks it. One that turns
    /// out to be of no use is made anew, once.
    fn ask<T>(
        path: &Path,
        history: &History,
        progress: Progress<'_>,
        question: impl Fn(&Self) -> Result<T, Fill>,
    ) -> Result<T, IndexError> {
        // SQLite's locks tell processes apart, and not the threads of one: of a file that was removed and made again under
        // its name, two threads would each take the shared memory beside it for their own.
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
        // What a power cut takes away is indexed again; it must only not be half.
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "cache_size", -8000)?;
        db.pragma_update(None, "wal_autocheckpoint", 4000)?;
        db.pragma_update(None, "journal_size_limit", 4 << 20)?;
        let version = |db: &Connection| db.pragma_query_value(None, "user_version", |r| r.get::<_, u32>(0));
        if version(&db)? != VERSION {
            // Two that make it at once: the second finds it made.
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

    /// Goes through the places the index gives, from the newest on, while it is told to go on.
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

/// How many, and of which time.
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

    /// The places between which all of that time are; they need not be looked at outside.
    fn places(self, history: &History) -> Result<(u64, u64), JournalError> {
        let first = self.since.map(|since| history.place_before(since)).transpose()?;
        let last = self.until.map(|until| history.place_after(until)).transpose()?;
        Ok((first.map_or(0, |seq| seq.0), last.map_or(i64::MAX as u64, |seq| seq.0)))
    }
}

/// The newest that have all words of the query, and are wanted, newest first. The index at `path` is brought up to
/// date before; a query of which no word is in an index is answered by reading.
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

/// The messages of one conversation, newest first; at most so many.
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

/// As `search`, without an index: reads the newest one by one, and only so many.
pub fn scan(history: &History, query: &Query, wish: Wish) -> Result<Hits, JournalError> {
    scan_for(history, wish, &|past| has(past, query))
}

/// As `conversation`, without an index.
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
    /// What is at that place, if it still is there.
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

/// What of it can be found: a message's text; a task's answer, or why it failed if it has none.
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

/// That a message was seen, or done with, is no text that anybody wrote.
fn is_told(state: synapse_core::task::TaskState) -> bool {
    state != synapse_core::task::TaskState::Completed
}

/// Several may turn a new file to a log at once. SQLite refuses all but one of them at once, whatever its patience.
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

/// Whether making it anew would help.
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

/// One file as it is now; another one in its place is another.
type Birth = Option<(u64, Option<std::time::SystemTime>)>;

fn birth(path: &Path) -> Birth {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::symlink_metadata(path).ok().map(|file| (file.ino(), file.created().ok()))
}

/// Removes the files, so that the next opening makes them. Whoever has them open goes on with what it has.
fn start_anew(path: &Path, bad: Birth) -> std::io::Result<()> {
    let lock = std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?;
    // One at a time, and only the file that was found bad: another search may just have made a good one.
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
