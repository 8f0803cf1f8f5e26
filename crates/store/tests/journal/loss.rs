//! Files that vanish or shrink under a running journal, and the next start after that.

use std::path::Path;

use crate::damage::{beside, copy_journal, kept_in, killed, open};
use crate::rig::{Rig, assert_same};
use synapse_core::cycle;
use synapse_store::repair::repair;
use synapse_store::{Journal, JournalError, OpenError, Retention, check};

fn truncate(path: &Path, bytes: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// Finding L13: a file that is truncated under its name has lost stored records.
#[test]
fn journal_that_was_truncated_takes_nothing_more() {
    for (ending, half) in [("-wal", false), ("-wal", true), ("", false), ("", true)] {
        let mut rig = Rig::new(27, Retention::default());
        (0..5).for_each(|_| rig.step());
        assert!(!rig.journal.is_gone());
        let file = beside(&rig.path, ending);
        let bytes = file.metadata().unwrap().len();
        truncate(&file, if half { bytes / 2 } else { 0 });
        assert!(rig.journal.is_gone(), "{ending:?}, half of it: {half}");
        let error = cycle::Journal::commit(&mut rig.journal, &[]).unwrap_err();
        assert!(matches!(error, JournalError::Gone), "{error:?}");
        let error = rig.journal.take_snapshot(rig.hub.state()).unwrap_err();
        assert!(matches!(error, JournalError::Gone), "a snapshot would hide the loss: {error:?}");
        let (_dir, path, _) = rig.close();
        assert!(open(&path).is_err(), "{ending:?}, half of it: {half}");
    }
}

/// The journal's own snapshots, checkpoints and restarts do not count as a loss.
#[test]
fn own_checkpoints_are_not_taken_for_a_loss() {
    let mut rig = Rig::new(28, Retention::default());
    for round in 0..3 {
        (0..5).for_each(|_| rig.step());
        rig.journal.take_snapshot(rig.hub.state()).unwrap();
        (0..5).for_each(|_| rig.step());
        rig.restart(&format!("round {round}"));
        assert!(!rig.journal.is_gone());
    }
}

/// Finding L13: without journal and head nothing else shows the next start
/// that there was a journal.
#[test]
fn removed_files_prevent_the_next_start() {
    for asked in [true, false] {
        let mut rig = Rig::new(29, Retention::default());
        (0..10).for_each(|_| rig.step());
        for ending in ["", "-wal", "-shm", "-head"] {
            std::fs::remove_file(beside(&rig.path, ending)).unwrap();
        }
        if asked {
            cycle::Journal::commit(&mut rig.journal, &[]).unwrap_err();
        }
        let (dir, path, state) = rig.close();
        let before = kept_in(dir.path());
        let error = open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Incomplete { .. }) && error.is_repairable(), "{error:?}");
        assert!(error.to_string().contains("removed, replaced or cut short while the agent ran"), "{error}");
        assert!(matches!(check::journal(&path).unwrap_err(), OpenError::Incomplete { .. }));
        assert!(kept_in(dir.path()) == before, "something was changed");
        let repaired = repair(&path).unwrap();
        assert_eq!((repaired.last, repaired.expected), (0, Some(state.seq.0)));
        open(&path).unwrap();
    }
}

/// Finding L14: an unreadable head counts as damage, not as a journal of an older version.
#[test]
fn unreadable_head_is_damage() {
    let garbage: Vec<u8> = (0..4161_u32).map(|n| (n * 31 % 251) as u8).collect();
    for head in [vec![0; 4161], garbage, Vec::new(), vec![0; 10]] {
        for removed in [&[][..], &["-wal"][..], &["", "-wal"][..]] {
            let (dir, path, state) = killed(30, false);
            std::fs::write(beside(&path, "-head"), &head).unwrap();
            removed.iter().for_each(|ending| std::fs::remove_file(beside(&path, ending)).unwrap());
            let before = kept_in(dir.path());
            let error = open(&path).unwrap_err();
            assert!(matches!(error, OpenError::DamagedHead { .. }) && error.is_repairable(), "{error:?}");
            assert!(error.to_string().contains("synapse doctor --fix"), "{error}");
            assert!(matches!(check::journal(&path).unwrap_err(), OpenError::DamagedHead { .. }));
            assert!(kept_in(dir.path()) == before, "something was changed");
            let repaired = repair(&path).unwrap();
            assert_eq!(repaired.expected, None, "nothing says how far it had come");
            let (_, found) = Journal::open(&path, Retention::default()).unwrap();
            if removed.is_empty() {
                assert_same(&found, &state, "only the head was damaged");
            }
        }
    }
}

/// A kill at any moment of the first start never leaves an unreadable head.
#[test]
fn head_is_readable_before_the_first_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    let (journal, _) = Journal::open(&path, Retention::default()).unwrap();
    let copy = dir.path().join("copy.db");
    copy_journal(&path, &copy);
    open(&copy).unwrap();
    drop(journal);
}
