//! Restores a journal that has lost records: keeps what can be proven, and deletes nothing (L14).
//!
//! The best copy that can be made of the damaged files replaces them, and the head says how far it
//! goes. The damaged files are kept under other names, with a report of what was lost. Only for a
//! journal that nobody has open.
//!
//! Invariant: after an interruption at any point, the journal is unchanged, or the next start is
//! refused and the next repair finishes this one, or the repair is complete.
//! Not here: finding the damage (`loss`), reading a damaged log (`wal`). A journal with single
//! damaged rows stays refused.

use crate::files;
use crate::head::{self, HeadState, head_of};
use crate::journal::{REPLAY_PAGE, entries_after, put_all, replay, wal_of};
use crate::loss;
use crate::loss_report::{LossReport, Restoration, report_of};
use crate::rows;
use crate::schema;
use crate::wal::{self, SalvagedLog};
use rusqlite::Connection;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use synapse_core::ids::Seq;
use synapse_core::state::State;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The last record after the repair; 0 if nothing could be read.
    pub last: u64,
    /// The last record that the journal is known to have had; `None` if unknown.
    pub expected: Option<u64>,
    /// The paths of the damaged files.
    pub aside: Vec<PathBuf>,
}

impl std::fmt::Display for Repaired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.last {
            0 => write!(f, "nothing could be restored")?,
            last => write!(f, "restored up to record {last}")?,
        }
        match self.expected.map(|expected| (expected, expected.saturating_sub(self.last))) {
            None => write!(
                f,
                "; it is unknown how many records are lost, because the head is damaged or missing"
            )?,
            Some((_, 0)) => write!(f, "; no record is lost")?,
            Some((expected, 1)) => write!(f, "; 1 of {expected} records is lost")?,
            Some((expected, lost)) => write!(f, "; {lost} of {expected} records are lost")?,
        }
        let names = self.aside.iter().filter_map(|path| path.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        match names.is_empty() {
            true => Ok(()),
            false => write!(f, "; the damaged files are kept as {}", names.join(", ")),
        }
    }
}

/// Why the journal was not repaired. It is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error("{}: {why}", .path.display())]
    File { path: PathBuf, why: io::Error },
    #[error("no whole journal can be made of it: {why}; it was left as it is")]
    Unreadable { why: String },
}

pub fn repair(path: &Path) -> Result<Repaired, RepairError> {
    let report = plan(path)?;
    carry_out(path, &report, usize::MAX)?;
    Ok(repaired(path, report))
}

/// Like `repair`, but stops after this many changes on disk, as a kill would. For tests.
#[doc(hidden)]
pub fn repair_interrupted(path: &Path, changes_max: usize) -> Result<(), RepairError> {
    carry_out(path, &plan(path)?, changes_max)
}

/// Returns the repairs of this journal whose reports still exist, oldest first.
pub fn reports(path: &Path) -> Vec<Repaired> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let begin = format!("{}.damaged-", name.to_string_lossy());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.starts_with(&begin) && name.ends_with(REPORT_ENDING));
    names.sort();
    let report = |name: &String| serde_json::from_slice(&std::fs::read(folder.join(name)).ok()?).ok();
    names.iter().filter_map(report).map(|report| repaired(path, report)).collect()
}

const REPORT_ENDING: &str = ".json";

fn repaired(path: &Path, report: LossReport) -> Repaired {
    let LossReport { expected, restoration } = report;
    let (last, names) = restoration.map_or((0, Vec::new()), |plan| (plan.last, plan.aside));
    Repaired { last, expected, aside: names.iter().map(|name| path.with_file_name(name)).collect() }
}

/// Makes the copy and plans the changes. Does not change the journal yet.
fn plan(path: &Path) -> Result<LossReport, RepairError> {
    let failed = |why| RepairError::File { path: path.to_owned(), why };
    let before = LossReport::read(path).map_err(failed)?;
    if let Some(interrupted) = before.clone().filter(|report| report.restoration.is_some()) {
        return Ok(interrupted);
    }
    let head = match head::read(path).map_err(failed)? {
        HeadState::Whole(head) => Some(head.seq),
        HeadState::Missing | HeadState::Damaged => None,
    };
    let expected = head.max(before.and_then(|report| report.expected));
    let last = salvage(path)?;
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let files = [path.to_owned(), wal_of(path), head_of(path)];
    let damaged = |file: &Path, seconds: u64| with_ending(file, &format!(".damaged-{seconds}"));
    let kept = |seconds: u64| with_ending(&damaged(path, seconds), REPORT_ENDING);
    while kept(seconds).exists() || files.iter().any(|file| damaged(file, seconds).exists()) {
        seconds += 1;
    }
    let there = files.iter().filter(|file| file.symlink_metadata().is_ok());
    let aside = there.map(|file| name(&damaged(file, seconds))).collect();
    let restoration = Restoration { last, aside, kept_as: name(&kept(seconds)) };
    Ok(LossReport { expected, restoration: Some(restoration) })
}

/// Applies the changes one by one. Each can be repeated after an interruption.
fn carry_out(path: &Path, report: &LossReport, changes_max: usize) -> Result<(), RepairError> {
    let Some(plan) = &report.restoration else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new("."));
    let (restored, is_empty) = (with_ending(path, ".restored"), plan.last == 0);
    let file = |e: files::FileError| io::Error::other(e);
    let changes: [&dyn Fn() -> io::Result<()>; 7] = [
        &|| report.write(path).map_err(file),
        &|| plan.aside.iter().try_for_each(|name| keep(&path.with_file_name(name))),
        &|| files::remove(&wal_of(path)).map_err(file),
        // It belongs to the removed log; SQLite creates a new one.
        &|| files::remove(&with_ending(path, "-shm")).map_err(file),
        &|| match is_empty {
            true => files::remove(path).map_err(file),
            false => rename(&restored, path),
        },
        &|| match is_empty {
            true => files::remove(&head_of(path)).map_err(file),
            false => head::replace(path, plan.last).map_err(file),
        },
        // Everything must be on disk before the report stops preventing a start.
        &|| {
            files::sync(folder).map_err(file)?;
            rename(&report_of(path), &folder.join(&plan.kept_as))?;
            files::sync(folder).map_err(file)
        },
    ];
    for change in changes.iter().take(changes_max) {
        change().map_err(|why| RepairError::File { path: path.to_owned(), why })?;
    }
    Ok(())
}

/// Gives a damaged file a second name, under which it stays when it is replaced.
fn keep(aside: &Path) -> io::Result<()> {
    let name = aside.file_name().unwrap_or_default().to_string_lossy();
    let Some((file, _)) = name.rsplit_once(".damaged-") else { return Ok(()) };
    let file = &aside.with_file_name(file);
    if aside.exists() || !file.exists() {
        return Ok(());
    }
    if std::fs::hard_link(file, aside).is_ok() {
        return Ok(());
    }
    // Some file systems do not support hard links.
    let draft = with_ending(aside, ".draft");
    std::fs::copy(file, &draft)?;
    std::fs::File::open(&draft)?.sync_all()?;
    std::fs::rename(&draft, aside)
}

/// Renames a file; succeeds if this was already done.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
        renamed => renamed,
    }
}

/// A copy of a journal that can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Whether all its rows and indexes were checked, not only those that an opening reads.
    is_checked: bool,
    last: u64,
}

/// Writes the best copy of the damaged journal beside it, as `.restored`, and returns its last
/// record; 0 if there is no copy and the journal is empty or missing.
fn salvage(path: &Path) -> Result<u64, RepairError> {
    let failed = |why| RepairError::File { path: path.to_owned(), why };
    let log = match std::fs::read(wal_of(path)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(failed)?,
    };
    let logs = wal::salvage(&log);
    let (candidate, restored) = (with_ending(path, ".candidate"), with_ending(path, ".restored"));
    remove(&restored);
    let (mut best, mut failures) = (None, Vec::new());
    let mut consider = |made: Result<Candidate, String>| {
        match made {
            Ok(made) if best.is_none_or(|best| made > best) => {
                std::fs::rename(&candidate, &restored)?;
                best = Some(made);
            }
            Ok(_) => {}
            Err(why) => failures.push(why),
        }
        remove(&candidate);
        Ok::<bool, io::Error>(best.is_some())
    };
    let is_there = path.metadata().is_ok_and(|found| found.len() > 0);
    let mut is_found = false;
    if is_there {
        for log in logs.iter().map(Some).chain([None]) {
            remove(&candidate);
            is_found = consider(with_log(path, &candidate, log)).map_err(failed)?;
        }
    }
    if !is_found {
        for log in &logs {
            remove(&candidate);
            consider(from_log_alone(path, &candidate, log)).map_err(failed)?;
        }
    }
    match best {
        Some(Candidate { last: 1.., .. }) => {}
        _ => remove(&restored),
    }
    match best {
        Some(best) => Ok(best.last),
        None if is_there => Err(RepairError::Unreadable { why: failures.join("; ") }),
        None => Ok(0),
    }
}

/// Copies the database with this log, or without any.
fn with_log(path: &Path, copy: &Path, log: Option<&SalvagedLog>) -> Result<Candidate, String> {
    std::fs::copy(path, copy).map_err(told)?;
    if let Some(log) = log {
        std::fs::write(wal_of(copy), &log.bytes).map_err(told)?;
    }
    let db = Connection::open(copy).map_err(told)?;
    schema::version(&db, copy).map_err(told)?;
    ask_pages(&db, "PRAGMA quick_check(1)")?;
    let (state, _) = replay(&db).map_err(told)?;
    let checked = check_all(&db);
    // Checksums do not prove that its pages fit together, so all rows must be checked.
    if log.is_some_and(|log| !log.is_certain) {
        checked.clone()?;
    }
    close(db, copy)?;
    Ok(Candidate { is_checked: checked.is_ok(), last: state.seq.0 })
}

/// Rebuilds a journal whose database is gone from the log alone. The log has every record only if
/// it was never checkpointed. Its pages are then changes to an empty journal, and its records start
/// with the first and have no gap. They are written to a new journal.
fn from_log_alone(path: &Path, copy: &Path, log: &SalvagedLog) -> Result<Candidate, String> {
    let base = with_ending(path, ".base");
    remove(&base);
    let state = rebuild(&base, copy, log);
    remove(&base);
    Ok(Candidate { is_checked: true, last: state?.seq.0 })
}

fn rebuild(base: &Path, copy: &Path, log: &SalvagedLog) -> Result<State, String> {
    drop(empty_journal(base)?);
    std::fs::write(wal_of(base), &log.bytes).map_err(told)?;
    let from = Connection::open(base).map_err(told)?;
    schema::version(&from, base).map_err(told)?;
    let mut to = empty_journal(copy)?;
    let change = to.transaction().map_err(told)?;
    let mut state = State::default();
    state.rebuild_indexes();
    loop {
        let entries = entries_after(&from, state.seq, REPLAY_PAGE).map_err(told)?;
        if entries.is_empty() {
            break;
        }
        entries.iter().try_for_each(|entry| state.apply(entry)).map_err(told)?;
        put_all(&change, &entries).map_err(told)?;
    }
    if state.seq.0 != loss::last_seq(&from).map_err(told)? {
        return Err("its log does not have all records before its last snapshot".to_owned());
    }
    change.commit().map_err(told)?;
    close(to, copy)?;
    Ok(state)
}

fn empty_journal(path: &Path) -> Result<Connection, String> {
    schema::make_private(path).map_err(told)?;
    let mut db = Connection::open(path).map_err(told)?;
    schema::configure(&db).map_err(told)?;
    schema::migrate(&mut db, 0).map_err(told)?;
    Ok(db)
}

/// Checks every row against its checksum, and the indexes against the rows.
fn check_all(db: &Connection) -> Result<(), String> {
    ask_pages(db, "PRAGMA integrity_check(1)")?;
    let mut after = Seq(0);
    loop {
        let entries = entries_after(db, after, REPLAY_PAGE).map_err(told)?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
    }
    let mut said = db.prepare("SELECT seq, body, crc FROM said").map_err(told)?;
    let mut found = said.query([]).map_err(told)?;
    while let Some(row) = found.next().map_err(told)? {
        let (seq, crc) = (row.get(0).map_err(told)?, row.get(2).map_err(told)?);
        let body: String = row.get(1).map_err(told)?;
        rows::read::<serde::de::IgnoredAny>("said", seq, &body, crc).map_err(told)?;
    }
    Ok(())
}

fn ask_pages(db: &Connection, pragma: &str) -> Result<(), String> {
    let answer: String = db.query_row(pragma, [], |row| row.get(0)).map_err(told)?;
    if answer == "ok" { Ok(()) } else { Err(answer) }
}

/// Closes a copy that does not need its log, and syncs it.
fn close(db: Connection, copy: &Path) -> Result<(), String> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(told)?;
    db.close().map_err(|(_, e)| told(e))?;
    std::fs::File::open(copy).and_then(|file| file.sync_all()).map_err(told)
}

fn told(e: impl std::fmt::Display) -> String {
    e.to_string()
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
