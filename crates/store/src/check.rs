//! Inspects an agent's journal without changing it: whether it opens, and how far it has come.
//!
//! Invariant: no file is created, changed or removed, whether or not a node has the journal open.
//! Not here: opening it for work (`journal`), repairing anything.

use crate::journal::{JournalError, replay};
use crate::loss;
use crate::schema::{self, OpenError, broken};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::path::{Path, PathBuf};
use synapse_core::state::State;

/// What the inspection of a journal found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// When the last record was written, by the clock of that time.
    pub newest_ms: Option<u64>,
}

/// The largest file that gets a full check; more would take too long.
const CHECKED_BYTES_MAX: u64 = 32 << 20;

/// Inspects a journal; `None` if there is no journal yet.
pub fn journal(path: &Path) -> Result<Option<Seen>, OpenError> {
    let before = loss::look(path)?;
    let Ok(found) = path.symlink_metadata() else { return Ok(None) };
    schema::look(path)?;
    if found.len() == 0 {
        return Ok(Some(Seen::default()));
    }
    let failed = |e| broken(path, e);
    let db = open(path).map_err(failed)?;
    if found.len() <= CHECKED_BYTES_MAX {
        let said: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
        if said != "ok" {
            return Err(OpenError::Damaged { path: path.display().to_string(), why: said });
        }
    }
    before.check_end(loss::last_seq(&db).map_err(failed)?, path)?;
    let newest = |sql| db.query_row(sql, [], |row| row.get(0)).optional().map_err(failed);
    let records = newest("SELECT at FROM journal ORDER BY seq DESC LIMIT 1")?;
    let ends = newest("SELECT at FROM task ORDER BY seq DESC LIMIT 1")?;
    Ok(Some(Seen { newest_ms: records.max(ends) }))
}

/// Returns the state in a journal, read-only; `None` if there is no journal yet.
pub fn state(path: &Path) -> Result<Option<State>, OpenError> {
    let Ok(found) = path.symlink_metadata() else { return Ok(None) };
    schema::look(path)?;
    if found.len() == 0 {
        return Ok(None);
    }
    let db = open(path).map_err(|e| broken(path, e))?;
    let damaged =
        |e: JournalError| OpenError::Damaged { path: path.display().to_string(), why: e.to_string() };
    replay(&db).map(|(state, _)| Some(state)).map_err(damaged)
}

/// Opens a journal read-only. Without a log beside it nobody has it open, and `immutable` keeps
/// SQLite from creating one. With a log, its writer has created the other files as well.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let rest = if log.exists() { "?mode=ro" } else { "?mode=ro&immutable=1" };
    let db = Connection::open_with_flags(format!("file:{}{rest}", escaped(path)), flags)?;
    db.busy_timeout(std::time::Duration::from_secs(2))?;
    Ok(db)
}

/// Escapes a path for use in a URI.
fn escaped(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
