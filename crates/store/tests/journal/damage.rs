//! Damage is reported with its location, and a refused journal stays unchanged.

use std::path::Path;

use crate::rig::{Dice, MORNING, Rig, assert_same, number, sql};
use synapse_core::cycle;
use synapse_core::effect::Serves;
use synapse_core::ids::{MessageId, TaskRef};
use synapse_store::repair::repair;
use synapse_store::{History, Journal, JournalError, OpenError, Retention, check};

fn told() -> (tempfile::TempDir, std::path::PathBuf) {
    let mut rig = Rig::new(11, Retention::default());
    rig.open_link(0, 4, Serves::UntilSeen { notes: true });
    rig.deliver(20);
    (0..40).for_each(|_| rig.step());
    let (dir, path, _) = rig.close();
    (dir, path)
}

pub(crate) fn open(path: &Path) -> Result<(), OpenError> {
    Journal::open(path, Retention::default()).map(|_| ())
}

/// Returns every file of a folder with its bytes.
pub(crate) fn bytes_in(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_row_that_changed_is_named_when_the_journal_opens() {
    let cases = [
        ("journal", "UPDATE journal SET body = replace(body, 'message', 'massage') WHERE seq = ?1"),
        ("journal", "UPDATE journal SET body = substr(body, 2) WHERE seq = ?1"),
        ("journal", "UPDATE journal SET crc = crc + 1 WHERE seq = ?1"),
        ("journal", "UPDATE journal SET crc = 'none' WHERE seq = ?1"),
        ("journal", "UPDATE journal SET body = x'00ff' WHERE seq = ?1"),
        ("journal", "UPDATE journal SET v = 99 WHERE seq = ?1"),
        ("message", "UPDATE message SET body = body || ' ' WHERE seq = ?1"),
        ("message", "UPDATE message SET head = replace(head, 'user', 'usar') WHERE seq = ?1"),
        ("message", "UPDATE message SET body = x'00ff' WHERE seq = ?1"),
        ("message", "UPDATE message SET head = x'00ff' WHERE seq = ?1"),
    ];
    let (_dir, path) = told();
    let whole = std::fs::read(&path).unwrap();
    for (table, change) in cases {
        std::fs::write(&path, &whole).unwrap();
        let ask = format!(
            "SELECT seq FROM {table} WHERE body LIKE '%message%' OR 'message' = '{table}' ORDER BY seq DESC"
        );
        let row = number(&path, &ask);
        assert_eq!(sql(&path).execute(change, [row]).unwrap(), 1, "{change}");
        let error = open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{change}: {error:?}");
        let place = format!("row {row} of {table}");
        assert!(error.to_string().contains(&place), "{change}: {error}");
    }
}

#[test]
fn a_snapshot_that_changed_is_named() {
    let mut rig = Rig::new(12, Retention::default());
    (0..40).for_each(|_| rig.step());
    rig.journal.take_snapshot(rig.hub.state()).unwrap();
    let (_dir, path, state) = rig.close();
    sql(&path).execute("UPDATE snapshot SET body = replace(body, '1', '2')", []).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains(&format!("row {} of snapshot", state.seq.0)), "{error}");
}

#[test]
fn a_row_of_the_archive_that_changed_is_named_when_it_is_asked_for() {
    let (_dir, path) = told();
    let db = sql(&path);
    let text = |ask: &str| db.query_row(ask, [], |row| row.get::<_, String>(0)).unwrap();
    let task = TaskRef::parse(&text("SELECT id FROM task ORDER BY seq LIMIT 1")).unwrap();
    let message = MessageId::parse(&text("SELECT id FROM message ORDER BY seq LIMIT 1")).unwrap();
    let row = number(&path, "SELECT min(seq) FROM task");
    let (journal, _) = Journal::open(&path, Retention::default()).unwrap();
    db.execute("UPDATE task SET body = body || ' '", []).unwrap();
    let history = History::open(&path).unwrap();
    for error in [journal.ended(&task, MORNING).unwrap_err(), history.task(&task, MORNING).unwrap_err()] {
        assert_eq!(error.to_string(), format!("row {row} of task does not match its checksum"));
    }
    let error = history.trail(&message).unwrap_err().to_string();
    assert!(error.contains("of task does not match its checksum"), "{error}");
}

/// Checks that a file with these bytes is refused with this error and stays unchanged.
#[track_caller]
fn check_refused(bytes: &[u8], told: fn(&OpenError) -> bool) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    std::fs::write(&path, bytes).unwrap();
    let before = bytes_in(dir.path());
    let error = open(&path).unwrap_err();
    assert!(told(&error), "{error:?}");
    assert!(error.to_string().contains("journal.db"), "{error}");
    assert!(bytes_in(dir.path()) == before, "{error}: the folder is not as it was");
}

fn is_damaged(error: &OpenError) -> bool {
    matches!(error, OpenError::Damaged { .. })
}

fn is_not_ours(error: &OpenError) -> bool {
    matches!(error, OpenError::NotOurs { .. })
}

fn is_newer(error: &OpenError) -> bool {
    matches!(error, OpenError::Newer { .. })
}

#[test]
fn garbage_and_cut_off_files_are_damage_and_stay_as_they_are() {
    let (_dir, path) = told();
    let whole = std::fs::read(&path).unwrap();
    check_refused(b"x", is_damaged);
    check_refused(&[0; 99], is_damaged);
    check_refused(&[0; 4096], is_damaged);
    check_refused("not a database, but long enough to be taken for one ".repeat(100).as_bytes(), is_damaged);
    for length in [1, 50, 99, 100, 101, 1000, 4096, 5000, 8192, whole.len() / 2, whole.len() - 4096] {
        check_refused(&whole[..length], is_damaged);
    }
    // The header is valid, the rest is noise.
    let mut noise = whole.clone();
    noise[100..].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 31 % 251) as u8);
    check_refused(&noise, is_damaged);
}

/// Returns the bytes of a small database made with these statements.
fn made_with(orders: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.db");
    sql(&path).execute_batch(orders).unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn the_database_of_another_program_is_not_ours() {
    check_refused(&made_with("PRAGMA application_id = 77; CREATE TABLE theirs (x);"), is_not_ours);
    check_refused(&made_with("PRAGMA user_version = 3; CREATE TABLE theirs (x);"), is_not_ours);
    check_refused(&made_with("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);"), is_not_ours);
    check_refused(&made_with("PRAGMA journal_mode = WAL; CREATE TABLE message (x);"), is_not_ours);
}

#[test]
fn a_newer_journal_is_left_to_a_newer_program() {
    let (_dir, path) = told();
    sql(&path).pragma_update(None, "user_version", 99).unwrap();
    check_refused(&std::fs::read(&path).unwrap(), is_newer);
    let newest = made_with("PRAGMA application_id = 0x53594e4a; PRAGMA user_version = -1;");
    check_refused(&newest, is_newer);
}

#[test]
fn a_newer_version_that_is_only_in_the_log_counts_too() {
    let (dir, path) = told();
    let db = sql(&path);
    db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let copy = dir.path().join("copy.db");
    for end in ["", "-wal"] {
        std::fs::copy(format!("{}{end}", path.display()), format!("{}{end}", copy.display())).unwrap();
    }
    drop(db);
    let before = (std::fs::read(&copy).unwrap(), std::fs::read(format!("{}-wal", copy.display())).unwrap());
    let error = open(&copy).unwrap_err();
    assert!(is_newer(&error), "{error:?}");
    let after = (std::fs::read(&copy).unwrap(), std::fs::read(format!("{}-wal", copy.display())).unwrap());
    assert!(before == after, "the refused journal was changed");
}

#[test]
fn what_cannot_be_opened_is_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("journal.db");
    std::fs::create_dir(&folder).unwrap();
    for path in [folder, dir.path().join("nowhere").join("journal.db")] {
        let error = open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was made beside it");
}

/// Does nothing when run as part of the suite; the test below runs it as a user who may only read.
#[test]
fn read_only_as_seen_by_its_reader() {
    let Some(path) = std::env::var_os("SYNAPSE_TEST_READ_ONLY") else { return };
    let error = open(Path::new(&path)).unwrap_err();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    println!("refused as it should be");
}

#[test]
fn a_journal_that_may_only_be_read_is_refused_at_once() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let (dir, path) = told();
    let allow =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    allow(&path, 0o444);
    allow(dir.path(), 0o555);
    // Root may write anything, so another user runs a copy of the test program.
    let program = tempfile::tempdir().unwrap();
    allow(program.path(), 0o755);
    let copy = program.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut child = std::process::Command::new(&copy);
    child
        .args(["--nocapture", "damage::read_only_as_seen_by_its_reader"])
        .env("SYNAPSE_TEST_READ_ONLY", &path);
    child.current_dir("/");
    if synapse_store::files::our_uid() == 0 {
        child.uid(65534).gid(65534);
    }
    let output = child.output().unwrap();
    allow(dir.path(), 0o755);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("refused as it should be"), "{output:?}");
}

/// Returns a journal that was killed after some commits: its files in `dir`, and
/// the acknowledged state.
pub(crate) fn killed(
    seed: u64,
    snapshot: bool,
) -> (tempfile::TempDir, std::path::PathBuf, synapse_core::state::State) {
    let mut rig = Rig::new(seed, Retention::default());
    (0..30).for_each(|_| rig.step());
    if snapshot {
        rig.journal.take_snapshot(rig.hub.state()).unwrap();
        (0..10).for_each(|_| rig.step());
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    copy_journal(&rig.path, &path);
    (dir, path, rig.hub.state().clone())
}

pub(crate) fn copy_journal(from: &Path, to: &Path) {
    for ending in ["", "-wal", "-head"] {
        let _ = std::fs::remove_file(beside(to, ending));
        if beside(from, ending).exists() {
            std::fs::copy(beside(from, ending), beside(to, ending)).unwrap();
        }
    }
    let _ = std::fs::remove_file(beside(to, "-shm"));
}

pub(crate) fn beside(path: &Path, ending: &str) -> std::path::PathBuf {
    format!("{}{ending}", path.display()).into()
}

/// Returns the files without SQLite's shared memory, which holds no durable data.
pub(crate) fn kept_in(folder: &Path) -> Vec<(String, Vec<u8>)> {
    bytes_in(folder).into_iter().filter(|(name, _)| !name.ends_with("-shm")).collect()
}

/// Finding L14: a flipped bit leads to the same history, or to a refusal that changes nothing.
#[test]
fn no_flipped_bit_of_the_log_changes_history_silently() {
    let mut refused = 0;
    for (seed, snapshot) in [(21, false), (22, true)] {
        let (_dir, path, acknowledged) = killed(seed, snapshot);
        let whole = std::fs::read(beside(&path, "-wal")).unwrap();
        let trial = tempfile::tempdir().unwrap();
        let copy = trial.path().join("journal.db");
        let mut dice = Dice(seed);
        let mut places =
            vec![0, 3, 8, 17, 20, 25, 32, 36, 40, 44, 48, 52, 56, whole.len() - 1, whole.len() - 4096];
        places.extend((0..40).map(|_| usize::try_from(dice.below(whole.len() as u64)).unwrap()));
        for place in places {
            copy_journal(&path, &copy);
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << (place % 8);
            std::fs::write(beside(&copy, "-wal"), &bytes).unwrap();
            let before = kept_in(trial.path());
            match Journal::open(&copy, Retention::default()) {
                Ok((_, state)) => assert_same(&state, &acknowledged, &format!("bit of byte {place}")),
                Err(error) => {
                    refused += 1;
                    let told = matches!(error, OpenError::DamagedLog { .. } | OpenError::Lost { .. });
                    assert!(told, "byte {place}: {error:?}");
                    assert!(kept_in(trial.path()) == before, "byte {place}: the refused journal was changed");
                }
            }
        }
    }
    assert!(refused >= 80, "only {refused} of 110 were noticed");
}

/// Finding L14.
#[test]
fn empty_missing_or_older_journal_is_refused_and_never_replaced_by_a_new_one() {
    let (dir, path, state) = killed(23, false);
    let mut rig = Rig::new(23, Retention::default());
    (0..10).for_each(|_| rig.step());
    let (_folder, older, older_state) = rig.close();
    assert!(older_state.seq < state.seq);
    let log = beside(&path, "-wal");
    let lost = |when: &str, found: u64| {
        let before = kept_in(dir.path());
        let error = open(&path).unwrap_err();
        let OpenError::Lost { found: told, expected, .. } = &error else { panic!("{when}: {error:?}") };
        assert_eq!((*told, *expected), (found, state.seq.0), "{when}");
        assert!(error.to_string().contains("synapse doctor --fix"), "{error}");
        let seen = check::journal(&path).unwrap_err();
        assert!(matches!(seen, OpenError::Lost { .. }), "{when}: {seen:?}");
        assert!(kept_in(dir.path()) == before, "{when}: something was changed");
    };
    let (database, whole_log) = (std::fs::read(&path).unwrap(), std::fs::read(&log).unwrap());
    std::fs::write(&path, b"").unwrap();
    lost("empty", 0);
    std::fs::remove_file(&path).unwrap();
    lost("missing", 0);
    std::fs::remove_file(&log).unwrap();
    lost("missing with its log", 0);
    std::fs::copy(&older, &path).unwrap();
    lost("older", older_state.seq.0);
    // All files are restored: it opens.
    std::fs::write(&path, &database).unwrap();
    std::fs::write(&log, &whole_log).unwrap();
    let (_, found) = Journal::open(&path, Retention::default()).unwrap();
    assert_same(&found, &state, "put back");
}

/// Finding L14: a repair keeps what can be read, and the damaged files too.
#[test]
fn repair_keeps_a_beginning_and_the_damaged_files() {
    let (dir, path, state) = killed(24, false);
    let log = beside(&path, "-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = 32 + (bytes.len() - 32) / 4120 / 2 * 4120;
    bytes[middle + 100..].fill(0xee);
    std::fs::write(&log, &bytes).unwrap();
    assert!(matches!(open(&path).unwrap_err(), OpenError::DamagedLog { .. }));
    assert!(matches!(check::journal(&path).unwrap_err(), OpenError::DamagedLog { .. }));
    let repaired = repair(&path).unwrap();
    assert!((1..state.seq.0).contains(&repaired.last), "{repaired:?}");
    assert_eq!(repaired.aside.len(), 3, "{repaired:?}");
    assert!(repaired.aside.iter().any(|aside| std::fs::read(aside).unwrap() == bytes), "the log is kept");
    let (journal, found) = Journal::open(&path, Retention::default()).unwrap();
    assert_eq!(found.seq.0, repaired.last);
    drop(journal);
    assert!(check::journal(&path).unwrap().is_some());
    // Nothing readable is left.
    std::fs::write(&path, b"").unwrap();
    assert_eq!(repair(&path).unwrap().last, 0);
    open(&path).unwrap();
    for half_done in ["candidate", "restored", "base", "draft", "lost"] {
        assert!(!bytes_in(dir.path()).iter().any(|(name, _)| name.contains(half_done)), "{half_done}");
    }
}

/// Finding L14: a power cut leaves the last transaction half-written; it was never acknowledged.
#[test]
fn unfinished_last_transaction_is_a_normal_start() {
    let mut rig = Rig::new(25, Retention::default());
    (0..20).for_each(|_| rig.step());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    copy_journal(&rig.path, &path);
    let acknowledged = rig.hub.state().clone();
    let end = usize::try_from(std::fs::metadata(beside(&path, "-wal")).unwrap().len()).unwrap();
    while rig.hub.state().seq == acknowledged.seq {
        rig.step();
    }
    // The log has the next transaction, but the head does not cover it.
    let next = std::fs::read(beside(&rig.path, "-wal")).unwrap();
    let frames = (next.len() - end) / 4120;
    assert!(frames >= 1);
    for (torn, with_head) in (0..frames).flat_map(|torn| [(torn, true), (torn, false)]) {
        let mut bytes = next.clone();
        bytes[end + torn * 4120 + 2000] ^= 1;
        let trial = tempfile::tempdir().unwrap();
        let copy = trial.path().join("journal.db");
        copy_journal(&path, &copy);
        std::fs::write(beside(&copy, "-wal"), &bytes).unwrap();
        if !with_head {
            // As an older version leaves it.
            std::fs::remove_file(beside(&copy, "-head")).unwrap();
        }
        let (_, found) = Journal::open(&copy, Retention::default()).unwrap();
        assert_same(&found, &acknowledged, &format!("frame {torn} of {frames} is torn, head: {with_head}"));
    }
}

/// Finding L13.
#[test]
fn journal_that_was_removed_or_replaced_takes_nothing_more() {
    for (ending, replaced) in [("", false), ("", true), ("-wal", false), ("-wal", true)] {
        let mut rig = Rig::new(26, Retention::default());
        (0..5).for_each(|_| rig.step());
        assert!(!rig.journal.is_gone());
        let file = beside(&rig.path, ending);
        let bytes = std::fs::read(&file).unwrap();
        // Kept under another name, so that the new file does not get its inode number.
        std::fs::rename(&file, rig.dir.path().join("elsewhere")).unwrap();
        if replaced {
            std::fs::write(&file, bytes).unwrap();
        }
        assert!(rig.journal.is_gone(), "{ending:?}, replaced: {replaced}");
        let error = cycle::Journal::commit(&mut rig.journal, &[]).unwrap_err();
        assert!(matches!(error, JournalError::Gone), "{error:?}");
    }
}
