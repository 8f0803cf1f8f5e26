//! Brings a journal back that has lost records: what can be read is kept, and nothing is deleted (L14).
//!
//! The damaged files are renamed, the best copy that can be made of them takes their place, and the head says what is
//! there now. Only for a journal that nobody has open.
//! Not here: finding the damage (`loss`); single rows that are wrong, which stay refused.

use crate::head::{self, HeadState, head_of};
use crate::journal::{replay, wal_of};
use crate::loss_report::LossReport;
use crate::schema;
use rusqlite::Connection;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The last record that is there now; 0 if nothing could be read.
    pub last: u64,
    /// The last record that the journal is known to have had; none if nothing tells.
    pub expected: Option<u64>,
    /// Where the damaged files are.
    pub aside: Vec<PathBuf>,
}

/// Why it was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error("{}: {why}", .path.display())]
    File { path: PathBuf, why: io::Error },
    #[error("no whole journal can be made of it: {why}; it was left as it is")]
    Unreadable { why: String },
}

pub fn repair(path: &Path) -> Result<Repaired, RepairError> {
    let is_there = path.metadata().is_ok_and(|found| found.len() > 0);
    let best = if is_there { Some(salvage(path)?) } else { None };
    let expected = expected(path)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut aside = Vec::new();
    for file in [path.to_owned(), wal_of(path), head_of(path)] {
        let to = with_ending(&file, &format!(".damaged-{seconds}"));
        match std::fs::rename(&file, &to) {
            Ok(()) => aside.push(to),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(why) => return Err(RepairError::File { path: file, why }),
        }
    }
    let _ = std::fs::remove_file(crate::loss_report::report_of(path));
    // It belongs to the log that is no longer there, and SQLite makes it anew.
    let _ = std::fs::remove_file(with_ending(path, "-shm"));
    let Some((copy, last)) = best else { return Ok(Repaired { last: 0, expected, aside }) };
    let file = |why| RepairError::File { path: path.to_owned(), why };
    std::fs::rename(&copy, path).map_err(file)?;
    crate::head::replace(path, last).map_err(|e| file(io::Error::other(e)))?;
    Ok(Repaired { last, expected, aside })
}

/// The furthest record that the head or the report of a loss knows of.
fn expected(path: &Path) -> Result<Option<u64>, RepairError> {
    let failed = |why| RepairError::File { path: path.to_owned(), why };
    let head = match head::read(path).map_err(failed)? {
        HeadState::Whole(head) => Some(head.seq),
        HeadState::Missing | HeadState::Damaged => None,
    };
    let reported = LossReport::read(path).map_err(failed)?.and_then(|report| report.expected);
    Ok(head.max(reported))
}

/// A whole journal beside the damaged one, from the database with as much of its log as can be read, or without its log;
/// whichever gets further.
fn salvage(path: &Path) -> Result<(PathBuf, u64), RepairError> {
    let mut best: Option<(PathBuf, u64)> = None;
    let mut failures = Vec::new();
    for (ending, with_log) in [(".with-log", true), (".without-log", false)] {
        let copy = with_ending(path, ending);
        remove(&copy);
        match attempt(path, &copy, with_log) {
            Ok(last) if best.as_ref().is_none_or(|(_, most)| last > *most) => {
                if let Some((worse, _)) = best.replace((copy, last)) {
                    remove(&worse);
                }
            }
            Ok(_) => remove(&copy),
            Err(why) => {
                remove(&copy);
                failures.push(why);
            }
        }
    }
    best.ok_or_else(|| RepairError::Unreadable { why: failures.join("; ") })
}

fn attempt(path: &Path, copy: &Path, with_log: bool) -> Result<u64, String> {
    let told = |e: &dyn std::fmt::Display| e.to_string();
    std::fs::copy(path, copy).map_err(|e| told(&e))?;
    if with_log && wal_of(path).exists() {
        std::fs::copy(wal_of(path), wal_of(copy)).map_err(|e| told(&e))?;
    }
    let db = Connection::open(copy).map_err(|e| told(&e))?;
    schema::version(&db, copy).map_err(|e| told(&e))?;
    let said: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(|e| told(&e))?;
    if said != "ok" {
        return Err(said);
    }
    let (state, _) = replay(&db).map_err(|e| told(&e))?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(|e| told(&e))?;
    drop(db);
    std::fs::File::open(copy).and_then(|file| file.sync_all()).map_err(|e| told(&e))?;
    Ok(state.seq.0)
}

fn remove(copy: &Path) {
    for file in [copy.to_owned(), wal_of(copy), with_ending(copy, "-shm")] {
        let _ = std::fs::remove_file(file);
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(ending);
    name.into()
}
