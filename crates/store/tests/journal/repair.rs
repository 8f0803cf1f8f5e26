//! Repairs: everything provable is restored, nothing is invented, and an
//! interruption loses nothing.

use std::path::Path;

use crate::damage::{beside, bytes_in, copy_journal, killed, open};
use crate::rig::{Dice, assert_same};
use synapse_core::ids::Seq;
use synapse_core::state::State;
use synapse_store::repair::{Repaired, repair, repair_interrupted, reports};
use synapse_store::{Journal, OpenError, Retention};

const FRAME: usize = 24 + 4096;

fn change_log(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let log = beside(path, "-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    change(&mut bytes);
    std::fs::write(&log, bytes).unwrap();
}

/// Repairs it and expects every record to be restored.
#[track_caller]
fn check_whole(path: &Path, state: &State, when: &str) {
    let error = open(path).unwrap_err();
    assert!(error.is_repairable(), "{when}: {error:?}");
    let repaired = repair(path).unwrap();
    assert_eq!((repaired.last, repaired.expected), (state.seq.0, Some(state.seq.0)), "{when}");
    let (_, found) = Journal::open(path, Retention::default()).unwrap();
    assert_same(&found, state, when);
}

/// Finding L14: the frames prove the header.
#[test]
fn log_with_a_lost_header_is_restored() {
    for snapshot in [false, true] {
        let (_dir, path, state) = killed(31, snapshot);
        change_log(&path, |log| {
            log[..32].iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8 ^ 0xa5)
        });
        check_whole(&path, &state, "header");
    }
}

/// Finding L14.
#[test]
fn flipped_bit_of_the_log_is_restored() {
    let (_dir, path, state) = killed(32, false);
    let trial = tempfile::tempdir().unwrap();
    let copy = trial.path().join("journal.db");
    for place in [16, 32 + 2, 32 + 9, 32 + 17, 32 + 3 * FRAME + 24 + 100, 32 + 5 * FRAME + 24 + 4000] {
        copy_journal(&path, &copy);
        change_log(&copy, |log| log[place] ^= 1);
        check_whole(&copy, &state, &format!("byte {place}"));
    }
}

/// Finding L14: the log alone has every record of a journal that was never checkpointed.
#[test]
fn removed_database_is_restored_from_its_log() {
    for (emptied, snapshot, damaged) in
        [(true, false, false), (false, false, false), (false, true, false), (false, false, true)]
    {
        let (_dir, path, state) = killed(33, snapshot);
        std::fs::remove_file(&path).unwrap();
        if emptied {
            std::fs::write(&path, b"").unwrap();
        }
        if damaged {
            change_log(&path, |log| log[..32].fill(0));
        }
        check_whole(&path, &state, &format!("emptied: {emptied}, {snapshot}, {damaged}"));
    }
}

/// Returns the records of a journal, each as text.
fn records(path: &Path) -> Vec<String> {
    let (journal, _) = Journal::open(path, Retention::default()).unwrap();
    let entries = journal.entries_after(Seq(0), u64::MAX).unwrap();
    entries.iter().map(|entry| format!("{entry:?}")).collect()
}

/// Finding L14: after any damage, the result is a prefix of the original.
#[test]
fn repair_invents_nothing() {
    let (_dir, path, state) = killed(34, false);
    let trial = tempfile::tempdir().unwrap();
    let copy = trial.path().join("journal.db");
    copy_journal(&path, &copy);
    let original = records(&copy);
    assert_eq!(original.len() as u64, state.seq.0);
    let mut dice = Dice(34);
    let (mut whole, mut refused) = (0, 0);
    for round in 0..40 {
        copy_journal(&path, &copy);
        let bytes = [1, 1, 50, 512, 4096, 3 * FRAME][usize::try_from(dice.below(6)).unwrap()];
        change_log(&copy, |log| {
            let place = usize::try_from(dice.below((log.len() - bytes) as u64)).unwrap();
            match bytes {
                1 => log[place] ^= 1 << dice.below(8),
                _ => log[place..place + bytes].fill(dice.below(256) as u8),
            }
        });
        if open(&copy).is_ok() {
            continue;
        }
        refused += 1;
        let repaired = repair(&copy).unwrap();
        let found = records(&copy);
        assert_eq!(found.len() as u64, repaired.last, "round {round}");
        assert!(found == original[..found.len()], "round {round}: {repaired:?}");
        whole += u32::from(repaired.last == state.seq.0);
    }
    assert!(refused > 20 && whole > 5, "{whole} of {refused} were restored as a whole");
}

/// Finding L14: at every moment there is the old journal, the new one, or a refusal.
#[test]
fn interrupted_repair_is_finished_by_the_next_one() {
    const CHANGES: usize = 7;
    for nothing_left in [false, true] {
        let (_dir, path, state) = killed(35, false);
        change_log(&path, |log| {
            let middle = 32 + (log.len() - 32) / FRAME / 2 * FRAME;
            log[middle + 100..].fill(0xee);
        });
        if nothing_left {
            std::fs::write(&path, b"").unwrap();
            change_log(&path, |log| log[32..].fill(0xee));
        }
        let damaged = std::fs::read(beside(&path, "-wal")).unwrap();
        let trial = tempfile::tempdir().unwrap();
        let whole = trial.path().join("whole.db");
        copy_journal(&path, &whole);
        let expected = repair(&whole).unwrap();
        assert_eq!(expected.last == 0, nothing_left);
        for changes in 0..=CHANGES {
            let trial = tempfile::tempdir().unwrap();
            let copy = trial.path().join("journal.db");
            copy_journal(&path, &copy);
            repair_interrupted(&copy, changes).unwrap();
            let when = format!("after {changes} changes");
            if changes < CHANGES {
                let error = open(&copy).unwrap_err();
                assert_eq!(matches!(error, OpenError::Incomplete { .. }), changes > 0, "{when}: {error:?}");
                let repaired = repair(&copy).unwrap();
                assert_eq!((repaired.last, repaired.expected), (expected.last, Some(state.seq.0)), "{when}");
                assert_eq!(reports(&copy), [repaired], "{when}");
            }
            assert!(
                bytes_in(trial.path()).iter().any(|(_, bytes)| *bytes == damaged),
                "{when}: the log is kept"
            );
            let (_, found) = Journal::open(&copy, Retention::default()).unwrap();
            assert_eq!(found.seq.0, expected.last, "{when}");
        }
    }
}

/// Finding L14: the report says what is lost.
#[test]
fn repair_says_what_is_lost_and_where_the_damaged_files_are() {
    let (_dir, path, state) = killed(36, false);
    change_log(&path, |log| log.truncate(log.len() / 2));
    let repaired = repair(&path).unwrap();
    let Repaired { last, aside, .. } = &repaired;
    let lost = state.seq.0 - last;
    let names: Vec<_> = aside.iter().map(|path| path.file_name().unwrap().to_string_lossy()).collect();
    assert_eq!(names.len(), 3);
    let expected = format!(
        "restored up to record {last}; {lost} of {} records are lost; the damaged files are kept as {}",
        state.seq.0,
        names.join(", ")
    );
    assert_eq!(repaired.to_string(), expected);
    assert_eq!(reports(&path), [repaired]);
    let told = |last, expected| Repaired { last, expected, aside: Vec::new() }.to_string();
    assert_eq!(told(5, Some(5)), "restored up to record 5; no record is lost");
    assert_eq!(told(4, Some(5)), "restored up to record 4; 1 of 5 records is lost");
    assert_eq!(told(0, Some(5)), "nothing could be restored; 5 of 5 records are lost");
    assert!(told(4, None).contains("unknown how many records are lost"));
}
