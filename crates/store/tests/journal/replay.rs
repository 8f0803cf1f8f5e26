//! A restart restores the live state, and a crash leaves a prefix of it.

use std::path::Path;

use crate::rig::{Dice, Rig, assert_same, sql};
use synapse_core::state::State;
use synapse_store::{Journal, Retention};

const SEEDS: [u64; 4] = [1, 2, 3, 4];
const STEPS: u64 = 150;

fn small() -> Retention {
    Retention { days: 7, ended_max: 0, events_kept: 20, snapshot_every: 50 }
}

/// Runs steps, and now and then an operation on the journal with a restart after it.
#[track_caller]
fn check(retention: Retention, mut now_and_then: impl FnMut(&mut Rig)) {
    for seed in SEEDS {
        let mut rig = Rig::new(seed, retention.clone());
        for step in 0..STEPS {
            rig.step();
            if rig.dice.below(30) == 0 {
                now_and_then(&mut rig);
                rig.restart(&format!("seed {seed}, step {step}"));
            }
        }
        rig.restart(&format!("seed {seed}, at the end"));
        assert!(rig.hub.state().seq.0 > STEPS / 2, "the story of seed {seed} is too quiet");
    }
}

#[test]
fn what_is_replayed_is_what_was_live() {
    check(Retention::default(), |_| {});
}

#[test]
fn a_snapshot_changes_nothing_that_can_be_seen() {
    check(small(), |rig| rig.journal.take_snapshot(rig.hub.state()).unwrap());
    check(small(), |rig| {
        if rig.journal.wants_snapshot(rig.hub.state()) {
            rig.journal.take_snapshot(rig.hub.state()).unwrap();
        }
    });
}

#[test]
fn pruning_changes_nothing_that_is_open() {
    check(small(), |rig| {
        if rig.dice.below(2) == 0 {
            rig.journal.take_snapshot(rig.hub.state()).unwrap();
        }
        let later = rig.now.plus_ms(100 * crate::rig::DAY_MS);
        while rig.journal.prune(later).unwrap() {}
    });
}

#[test]
fn what_was_pruned_after_the_last_snapshot_is_not_missed() {
    let mut rig = Rig::new(7, small());
    rig.open_link(0, 50, synapse_core::effect::Serves::UntilSeen { notes: true });
    rig.deliver(50);
    rig.now = rig.now.plus_ms(8 * crate::rig::DAY_MS);
    while rig.journal.prune(rig.now).unwrap() {}
    rig.restart("pruned without a snapshot");
    rig.journal.take_snapshot(rig.hub.state()).unwrap();
    while rig.journal.prune(rig.now).unwrap() {}
    assert_eq!(crate::rig::number(&rig.path, "SELECT count(*) FROM message"), 0, "a snapshot lets it go");
    rig.restart("pruned with a snapshot");
}

/// Every state that was ever committed, in order.
struct Told(Vec<State>);

impl Told {
    #[track_caller]
    fn check_prefix(&self, path: &Path, when: &str) -> u64 {
        let (journal, found) = match Journal::open(path, Retention::default()) {
            Ok(opened) => opened,
            Err(e) => panic!("{when}: {e}"),
        };
        let Some(told) = self.0.iter().find(|state| state.seq == found.seq) else {
            panic!("{when}: record {:?} is in the middle of a batch", found.seq)
        };
        assert_same(&found, told, when);
        drop(journal);
        found.seq.0
    }
}

/// Copies the files as a power cut would leave them, with the log truncated
/// to `wal_bytes` if given.
fn copy_files(from: &Path, to: &Path, wal_bytes: Option<u64>) {
    for end in ["", "-wal", "-shm"] {
        let name = |path: &Path| format!("{}{end}", path.display());
        if Path::new(&name(from)).exists() {
            std::fs::copy(name(from), name(to)).unwrap();
        }
    }
    if let Some(bytes) = wal_bytes {
        let wal = std::fs::OpenOptions::new().write(true).open(format!("{}-wal", to.display())).unwrap();
        wal.set_len(bytes).unwrap();
    }
}

#[test]
fn a_kill_at_any_moment_leaves_all_that_was_committed() {
    for seed in SEEDS {
        let mut rig = Rig::new(seed, small());
        let mut told = Told(vec![State::default()]);
        for step in 0..STEPS {
            rig.step();
            told.0.push(rig.hub.state().clone());
            if rig.dice.below(40) == 0 {
                rig.journal.take_snapshot(rig.hub.state()).unwrap();
            }
            if rig.dice.below(10) == 0 {
                let copy = rig.dir.path().join(format!("copy-{step}.db"));
                copy_files(&rig.path, &copy, None);
                let when = format!("seed {seed}, killed after step {step}");
                assert_eq!(told.check_prefix(&copy, &when), rig.hub.state().seq.0, "{when}");
            }
        }
    }
}

#[test]
fn a_log_that_is_cut_short_gives_a_beginning_of_the_story() {
    for seed in SEEDS {
        let mut rig = Rig::new(seed, Retention::default());
        // Replays every record from the very first, to know the states in between.
        let mut told = Told(vec![State::default()]);
        let first: Vec<_> = rig.journal.entries_after(synapse_core::Seq(0), u64::MAX).unwrap();
        for entry in &first {
            let mut state = told.0.last().unwrap().clone();
            state.apply(entry).unwrap();
            told.0.push(state);
        }
        for _ in 0..STEPS {
            rig.step();
            told.0.push(rig.hub.state().clone());
        }
        let whole = std::fs::metadata(format!("{}-wal", rig.path.display())).unwrap().len();
        let (mut dice, mut lengths) = (Dice(seed), vec![0, 1, 31, 32, 33, whole - 1, whole]);
        lengths.extend((0..60).map(|_| dice.below(whole)));
        lengths.sort_unstable();
        let mut last = 0;
        for bytes in lengths {
            let copy = rig.dir.path().join(format!("torn-{bytes}.db"));
            copy_files(&rig.path, &copy, Some(bytes));
            let reached = told.check_prefix(&copy, &format!("seed {seed}, log cut at {bytes} of {whole}"));
            assert!(reached >= last, "a longer log tells less: {reached} after {last}");
            last = reached;
        }
        assert_eq!(last, rig.hub.state().seq.0, "seed {seed}: the whole log tells all");
    }
}

#[test]
fn a_missing_record_is_damage_and_not_a_shorter_story() {
    let mut rig = Rig::new(5, Retention::default());
    (0..40).for_each(|_| rig.step());
    let (_dir, path, _) = rig.close();
    let db = sql(&path);
    db.execute("DELETE FROM journal WHERE seq = (SELECT seq FROM journal ORDER BY seq LIMIT 1 OFFSET 3)", [])
        .unwrap();
    drop(db);
    let why = Journal::open(&path, Retention::default()).err().unwrap().to_string();
    assert!(why.contains("one is missing or doubled"), "{why}");
}
