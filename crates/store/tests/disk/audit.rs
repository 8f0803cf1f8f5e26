//! The audit log on disk: rotation, restarts, crashes, and tampering between two starts (REST-9).

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use synapse_store::audit::{AuditLog, Bounds, Report, What, files_in, verify_folder};
use synapse_store::files::FileError;

use crate::{mode, temp};

const BOUNDS: Bounds = Bounds { file_bytes_max: 4096, files_max: 3 };

fn write(dir: &Path, from: u32, count: u32) -> AuditLog {
    let mut log = AuditLog::open(dir, BOUNDS, "now").unwrap();
    for n in from..from + count {
        log.push(format!("{{\"at\":\"t{n}\",\"door\":\"http\",\"verb\":\"send\"}}").as_bytes(), "now")
            .unwrap();
    }
    log.flush().unwrap();
    log
}

fn last_file(dir: &Path) -> PathBuf {
    dir.join(files_in(dir).unwrap().pop().unwrap())
}

fn whole(dir: &Path) -> Report {
    let report = verify_folder(dir).unwrap();
    assert_eq!(report.problem, None, "{report:?}");
    report
}

fn append(path: &Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_log_fits_over_restarts_and_rotations_and_keeps_only_so_many_files() {
    let temp = temp();
    let dir = temp.path.join("audit");
    for start in 0..10 {
        let mut log = write(&dir, start * 20, 20);
        whole(&dir);
        log.sync(false).unwrap();
    }
    let report = whole(&dir);
    assert_eq!((files_in(&dir).unwrap().len(), report.after_head), (3, 0));
    assert!(report.end.seq > 200 && report.lines < 100, "{report:?}");
    let sizes: Vec<u64> =
        files_in(&dir).unwrap().iter().map(|n| fs::metadata(dir.join(n)).unwrap().len()).collect();
    assert!(sizes.iter().all(|size| *size <= 4096), "{sizes:?}");
    assert_eq!((mode(&dir), mode(&last_file(&dir)), mode(&dir.join("head"))), (0o700, 0o600, 0o600));
    fs::remove_file(dir.join(&files_in(&dir).unwrap()[1])).unwrap();
    let problem = verify_folder(&dir).unwrap().problem.unwrap();
    assert!(matches!(problem.what, What::Missing { .. }) && problem.line == 1, "{problem:?}");
}

#[test]
fn what_a_crash_broke_off_is_chained_over_and_told() {
    let temp = temp();
    let dir = temp.path.join("audit");
    write(&dir, 0, 3).sync(true).unwrap();
    for torn in [&b"{\"seq\":4,\"prev\":\"00"[..], b"{", b"\0\0\0\0\0"] {
        append(&last_file(&dir), torn);
        assert_eq!(whole(&dir).notes.last().unwrap().what.split(':').next(), Some("the last line is torn"));
        write(&dir, 3, 2);
        let report = whole(&dir);
        let told = &report.notes.last().unwrap().what;
        assert!(told.starts_with(&format!("torn: {} bytes", torn.len())), "{told}");
    }
    // Only the line end is missing: the line itself is whole.
    let path = last_file(&dir);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let notes = whole(&dir).notes.len();
    write(&dir, 9, 1);
    assert_eq!(whole(&dir).notes.len(), notes);
}

#[test]
fn a_crash_between_two_files_is_no_gap() {
    let temp = temp();
    let dir = temp.path.join("audit");
    let end = write(&dir, 0, 3).end();
    fs::write(dir.join(format!("{:020}.jsonl", end.seq + 1)), b"").unwrap();
    write(&dir, 3, 2);
    assert_eq!((whole(&dir).lines, files_in(&dir).unwrap().len()), (5, 2));
}

#[test]
fn a_restart_hides_nothing() {
    let temp = temp();
    let fresh = |name: &str| {
        let dir = temp.path.join(name);
        write(&dir, 0, 10).sync(true).unwrap();
        dir
    };
    let lines = |dir: &Path| {
        let text = fs::read_to_string(last_file(dir)).unwrap();
        text.lines().map(|line| format!("{line}\n")).collect::<Vec<_>>()
    };
    let cut = fresh("cut");
    fs::write(last_file(&cut), lines(&cut)[..6].concat()).unwrap();
    assert_eq!(verify_folder(&cut).unwrap().problem.unwrap().what, What::CutOff { from: 7, to: 10 });
    write(&cut, 10, 3).sync(true).unwrap();
    assert_eq!(verify_folder(&cut).unwrap().problem.unwrap().what, What::Missing { from: 7, to: 10 });

    let edited = fresh("edited");
    let mut changed = lines(&edited);
    changed[9] = changed[9].replace("t9", "t8");
    fs::write(last_file(&edited), changed.concat()).unwrap();
    write(&edited, 10, 3).sync(true).unwrap();
    let problem = verify_folder(&edited).unwrap().problem.unwrap();
    assert_eq!((problem.line, problem.what), (10, What::Edited));

    let headless = fresh("headless");
    fs::remove_file(headless.join("head")).unwrap();
    assert_eq!(verify_folder(&headless).unwrap().problem.unwrap().what, What::HeadMissing);
    write(&headless, 10, 3).sync(true).unwrap();
    assert_eq!(verify_folder(&headless).unwrap().problem.unwrap().what, What::HeadMissing);

    let emptied = fresh("emptied");
    fs::remove_file(last_file(&emptied)).unwrap();
    write(&emptied, 10, 3).sync(true).unwrap();
    assert_eq!(verify_folder(&emptied).unwrap().problem.unwrap().what, What::Missing { from: 1, to: 10 });
}

#[test]
fn links_in_its_place_are_not_followed() {
    let temp = temp();
    let dir = temp.path.join("audit");
    write(&dir, 0, 3).sync(true).unwrap();
    let elsewhere = temp.path.join("elsewhere");
    fs::write(&elsewhere, b"mine\n").unwrap();
    let last = last_file(&dir);
    fs::remove_file(&last).unwrap();
    symlink(&elsewhere, &last).unwrap();
    assert!(matches!(AuditLog::open(&dir, BOUNDS, "now"), Err(FileError::Symlink { .. })));
    assert!(matches!(verify_folder(&dir), Err(FileError::Symlink { .. })));
    assert_eq!(fs::read(&elsewhere).unwrap(), b"mine\n");
}

/// Finding L13.
#[test]
fn log_that_was_removed_while_open_is_not_synced_in_silence() {
    let temp = temp();
    let dir = temp.path.join("audit");
    let mut log = write(&dir, 0, 5);
    log.sync(false).unwrap();
    fs::rename(last_file(&dir), temp.path.join("elsewhere")).unwrap();
    log.push(b"{\"at\":\"t\",\"door\":\"http\",\"verb\":\"send\"}", "now").unwrap();
    assert!(log.sync(false).is_err());
    drop(log);
    // The chain continues from the head, and the missing lines show.
    write(&dir, 6, 1).sync(false).unwrap();
    let problem = verify_folder(&dir).unwrap().problem.unwrap();
    assert!(matches!(problem.what, What::Missing { .. }), "{problem:?}");
}
