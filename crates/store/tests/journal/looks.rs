//! Inspecting a journal reports its state and changes nothing.

use crate::rig::Rig;
use synapse_core::effect::Serves;
use synapse_store::{Journal, OpenError, Retention, check};

fn names(dir: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .filter(|(name, _)| !name.ends_with("-shm"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_look_changes_nothing_and_finds_the_newest_record() {
    let dir = tempfile::Builder::new().prefix("odd ?#% name").tempdir().unwrap();
    let path = dir.path().join("journal.db");
    assert_eq!(check::journal(&path).unwrap(), None, "there is none yet");

    let mut rig = Rig::new(3, Retention::default());
    rig.open_link(0, 4, Serves::UntilEnded { hears: false });
    (0..20).for_each(|_| rig.step());
    let (from, _, _) = rig.close();
    std::fs::copy(from.path().join("journal.db"), &path).unwrap();
    let before = names(dir.path());
    let seen = check::journal(&path).unwrap().unwrap();
    assert!(seen.newest_ms.is_some());
    assert_eq!(names(dir.path()), before);

    let looked = check::state(&path).unwrap().unwrap();
    assert_eq!(names(dir.path()), before);

    let (open, state) = Journal::open(&path, Retention::default()).unwrap();
    assert_eq!(looked, state);
    let before = names(dir.path());
    assert_eq!(check::journal(&path).unwrap().unwrap(), seen, "also while it is open");
    assert_eq!(names(dir.path()), before);
    drop(open);
}

#[test]
fn what_cannot_be_opened_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    std::fs::write(&path, b"").unwrap();
    assert_eq!(check::journal(&path).unwrap(), Some(check::Seen::default()));
    std::fs::write(&path, [b'x'; 4096]).unwrap();
    assert!(matches!(check::journal(&path), Err(OpenError::Damaged { .. })));
    std::fs::remove_file(&path).unwrap();
    drop(Journal::open(&path, Retention::default()).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(check::journal(&path), Err(OpenError::Damaged { .. })));
}
