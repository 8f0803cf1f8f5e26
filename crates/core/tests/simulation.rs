//! The simulation itself: it passes, it detects faults, and a seed determines everything.

use synapse_core::sim::{Breakage, Options, run};

fn options(breakage: Option<Breakage>) -> Options {
    Options { steps: 1_500, breakage }
}

#[test]
fn twenty_worlds_keep_every_promise() {
    for seed in 0..20 {
        if let Err(violation) = run(seed, &options(None)) {
            panic!("{violation}\n{}", violation.story.join("\n"));
        }
    }
}

/// Worlds that found a fault when they were first run: a retry that could not be replayed, a window
/// exceeded and a link forgotten after a failed commit, a task begun twice, receipts that claimed
/// too much. `scripts.rs` has each of these faults as a story of its own.
#[test]
fn seeds_that_find_old_faults_keep_passing() {
    for seed in [0, 3, 5, 6, 13, 15, 64, 100, 217] {
        if let Err(violation) = run(seed, &Options::default()) {
            panic!("{violation}\n{}", violation.story.join("\n"));
        }
    }
}

#[test]
fn every_breakage_is_found_out() {
    for breakage in Breakage::ALL {
        assert_eq!(Breakage::parse(breakage.name()), Some(breakage));
        let found = (0..20).filter_map(|seed| run(seed, &options(Some(breakage))).err()).count();
        assert!(found > 0, "{} went unnoticed in twenty worlds", breakage.name());
        if breakage == Breakage::ReplyBeforeJournal {
            assert!(found > 10, "only {found} of twenty worlds noticed a yes before the disk");
        }
    }
}

#[test]
fn one_seed_is_one_world() {
    for seed in [3, 7] {
        let reports = [run(seed, &options(None)).unwrap(), run(seed, &options(None)).unwrap()];
        assert_eq!(reports[0], reports[1]);
        assert!(reports[0].accepted > 0 && reports[0].crashes > 0, "{:?}", reports[0]);
    }
}
