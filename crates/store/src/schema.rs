//! The schema of the database, and its migrations.
//!
//! Before SQLite opens a file we read its first hundred bytes: a file that is not ours, or is of a
//! newer version, is refused without being opened, so that it cannot change. What a crash left in
//! the log is newer than those bytes, so the database is checked again once it is open, still
//! before anything is written.
//! Not here: what the rows mean (`rows`).

use rusqlite::{Connection, ErrorCode};
use std::io::Read;
use std::path::Path;

/// "SYNJ": distinguishes our files from other SQLite databases.
const APPLICATION_ID: u32 = 0x53_59_4e_4a;
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Each step migrates version n to n+1, in one transaction. Steps are never edited, only added.
// tidy: table
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE message (
        seq  INTEGER PRIMARY KEY,
        at   INTEGER NOT NULL,
        id   TEXT NOT NULL,
        key  TEXT NOT NULL,
        head TEXT NOT NULL,
        body TEXT NOT NULL,
        crc  INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX message_by_key ON message (key);
    CREATE INDEX message_by_id ON message (id);
    CREATE TABLE journal (
        seq  INTEGER PRIMARY KEY,
        at   INTEGER NOT NULL,
        v    INTEGER NOT NULL,
        body TEXT NOT NULL,
        crc  INTEGER NOT NULL
    );
    CREATE TABLE task (
        seq   INTEGER PRIMARY KEY,
        at    INTEGER NOT NULL,
        id    TEXT NOT NULL,
        agent TEXT NOT NULL,
        dead  INTEGER NOT NULL,
        body  TEXT NOT NULL,
        crc   INTEGER NOT NULL
    );
    CREATE INDEX task_by_id ON task (id);
    CREATE TABLE said (
        seq  INTEGER PRIMARY KEY,
        task TEXT NOT NULL,
        body TEXT NOT NULL,
        crc  INTEGER NOT NULL
    );
    CREATE INDEX said_by_task ON said (task);
    CREATE TABLE trail (
        message TEXT PRIMARY KEY,
        task    TEXT NOT NULL,
        body    TEXT NOT NULL,
        crc     INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE snapshot (
        seq  INTEGER PRIMARY KEY,
        v    INTEGER NOT NULL,
        body TEXT NOT NULL,
        crc  INTEGER NOT NULL
    );
",
    "
    ALTER TABLE task ADD COLUMN who TEXT NOT NULL DEFAULT '';
    ALTER TABLE task ADD COLUMN context TEXT NOT NULL DEFAULT '';
    ALTER TABLE task ADD COLUMN state TEXT NOT NULL DEFAULT '';
    UPDATE task SET
        who = CASE
            WHEN body ->> '$.archive.task.requester.who' = 'user' THEN 'u'
            WHEN body ->> '$.archive.task.requester.who.agent' IS NOT NULL
                THEN 'a' || (body ->> '$.archive.task.requester.who.agent')
            ELSE 'n' || coalesce(body ->> '$.archive.task.requester.who.named', '')
        END,
        context = coalesce(body ->> '$.archive.task.context', id),
        state = coalesce(body ->> '$.ending.state', '')
    WHERE json_valid(body);
    CREATE INDEX task_by_who ON task (who, at, id);
",
    // The end of a task is in its own row, with the trails of its messages, so
    // these copies are redundant.
    "
    DELETE FROM journal WHERE seq IN (SELECT seq FROM task);
    DROP TABLE trail;
",
    // An id ends with the time when its task began. Indexed by it, new tasks come last instead
    // of touching a page each.
    "
    DROP INDEX task_by_id;
    CREATE INDEX task_by_tail ON task (substr(id, 21), id);
",
    // Finds earlier tasks of a conversation. Most tasks name no context;
    // those are not in the index.
    "
    CREATE INDEX task_by_context ON task (context, who, seq) WHERE context <> id;
",
    // Which message refers to which file beside the journal.
    "
    CREATE TABLE attachment (
        message TEXT NOT NULL,
        sha256  TEXT NOT NULL,
        PRIMARY KEY (message, sha256)
    ) WITHOUT ROWID;
    CREATE INDEX attachment_by_digest ON attachment (sha256);
",
];

/// Why a journal could not be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is not a Synapse journal ({why}); move it away, or point SYNAPSE_HOME elsewhere")]
    NotOurs { path: String, why: String },
    #[error(
        "{path} was written by a newer version (schema {found}, this one knows {known}); upgrade synapse"
    )]
    Newer { path: String, found: u32, known: u32 },
    #[error(
        "{path} is damaged: {why}; nothing was changed. Copy the folder away, then `sqlite3 {path} .recover` \
         shows what can be read"
    )]
    Damaged { path: String, why: String },
    #[error(
        "the log of {path} is damaged: {why}; nothing was changed. `synapse doctor --fix` keeps the damaged files and goes \
         on with what can be read"
    )]
    DamagedLog { path: String, why: String },
    #[error(
        "{path} has lost records: it ends at record {found} and had come to record {expected}; nothing was changed. Put the \
         files back, or `synapse doctor --fix` keeps them and goes on without the records after {found}"
    )]
    Lost { path: String, found: u64, expected: u64 },
    #[error(
        "the head of {path} is damaged, so it cannot tell whether records are missing; nothing was changed. \
         `synapse doctor --fix` keeps the damaged files and restores what can be read"
    )]
    DamagedHead { path: String },
    #[error(
        "{path} is incomplete: {why}; nothing was changed. `synapse doctor --fix` keeps the damaged files and restores what \
         can be read"
    )]
    Incomplete { path: String, why: String },
    #[error("{path} cannot be opened: {why}")]
    Unreachable { path: String, why: String },
}

impl OpenError {
    /// Whether `repair` can restore what is left.
    pub fn is_repairable(&self) -> bool {
        match self {
            Self::DamagedLog { .. }
            | Self::Lost { .. }
            | Self::DamagedHead { .. }
            | Self::Incomplete { .. } => true,
            Self::NotOurs { .. } | Self::Newer { .. } | Self::Damaged { .. } | Self::Unreachable { .. } => {
                false
            }
        }
    }
}

pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Checks by its header whether this version could open the file; changes nothing.
pub fn look(path: &Path) -> Result<(), OpenError> {
    let unreachable = |e: std::io::Error| OpenError::Unreachable { path: shown(path), why: e.to_string() };
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(unreachable(e)),
    };
    let mut head = Vec::with_capacity(100);
    file.by_ref().take(100).read_to_end(&mut head).map_err(unreachable)?;
    if head.is_empty() {
        return Ok(());
    }
    let damaged = |why: &str| OpenError::Damaged { path: shown(path), why: why.to_owned() };
    if head.len() < 100 {
        return Err(damaged("it is cut off within its first hundred bytes"));
    }
    if !head.starts_with(b"SQLite format 3\0") {
        return Err(damaged("its head is not that of a database"));
    }
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    // A kill before the first checkpoint leaves these numbers in the log only:
    // `ask` checks them there.
    if number(60) == 0 && number(68) == 0 { Ok(()) } else { known(path, number(68), number(60)) }
}

/// Creates the file if it is missing. SQLite would let others read it, and the
/// log inherits its mode.
pub(crate) fn make_private(path: &Path) -> Result<(), OpenError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(OpenError::Unreachable { path: shown(path), why: e.to_string() })
        }
        _ => Ok(()),
    }
}

/// Returns the version of an open database, including its log; writes nothing.
pub(crate) fn ask(db: &Connection, path: &Path) -> Result<u32, OpenError> {
    let found = version(db, path)?;
    if db.is_readonly("main").map_err(|e| broken(path, e))? {
        return Err(OpenError::Unreachable { path: shown(path), why: "it may only be read".to_owned() });
    }
    Ok(found)
}

/// Like `ask`, for read-only callers.
pub(crate) fn version(db: &Connection, path: &Path) -> Result<u32, OpenError> {
    let broken = |e| broken(path, e);
    // The numbers are unsigned in the file, but SQLite returns them signed.
    let pragma = |name| db.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map(i32::cast_unsigned);
    let (mark, found) = (pragma("application_id").map_err(broken)?, pragma("user_version").map_err(broken)?);
    let tables: u64 =
        db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(broken)?;
    match (mark, found, tables) {
        // Empty, or killed during its very first start: to be completed.
        (0, 0, 0) => Ok(0),
        (0, 0, _) => {
            Err(OpenError::NotOurs { path: shown(path), why: "another program's tables are in it".into() })
        }
        _ => known(path, mark, found).map(|()| found),
    }
}

fn known(path: &Path, mark: u32, found: u32) -> Result<(), OpenError> {
    match mark {
        APPLICATION_ID if found > VERSION => {
            Err(OpenError::Newer { path: shown(path), found, known: VERSION })
        }
        APPLICATION_ID => Ok(()),
        other => Err(OpenError::NotOurs { path: shown(path), why: format!("its mark is {other:#x}") }),
    }
}

pub(crate) fn broken(path: &Path, error: rusqlite::Error) -> OpenError {
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            OpenError::Damaged { path: shown(path), why }
        }
        _ => OpenError::Unreachable { path: shown(path), why },
    }
}

/// Migrates an open database from the version that `ask` found to the current one, step by step.
pub(crate) fn migrate(db: &mut Connection, found: u32) -> rusqlite::Result<()> {
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(found as usize) {
        let change = db.transaction()?;
        change.execute_batch(sql)?;
        change.pragma_update(None, "application_id", APPLICATION_ID)?;
        change.pragma_update(None, "user_version", step as u32 + 1)?;
        change.commit()?;
    }
    if found < VERSION {
        // Write it to the file itself, so that the next check of its header sees the version.
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(())
}

/// How long to wait for a lock of another connection.
pub(crate) const LOCK_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// SQLite truncates a longer log to this length when it restarts from the front.
pub(crate) const LOG_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn configure(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(LOCK_PATIENCE)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // FULL: a commit returns after fsync. This is the durability guarantee;
    // nothing here may weaken it.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "cache_size", -4000)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Checkpoints stall commits; `checkpoint` runs them on another connection.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(())
}
