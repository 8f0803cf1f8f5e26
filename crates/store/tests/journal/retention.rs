//! Ended tasks are removed in time, open ones stay, and the file size settles.

use crate::rig::{DAY_MS, Rig, key_of, number, sql};
use synapse_core::effect::Serves;
use synapse_core::message::Expects;
use synapse_store::Retention;

fn rig(days: u32, ended_max: u64) -> Rig {
    let retention = Retention { days, ended_max, events_kept: 1_000, snapshot_every: 2_000 };
    let mut rig = Rig::new(31, retention);
    rig.open_link(0, 500, Serves::UntilSeen { notes: true });
    rig
}

/// Takes a snapshot, then prunes to the end, as a node does; returns how many slices it took.
fn tidy_up(rig: &mut Rig) -> usize {
    rig.journal.take_snapshot(rig.hub.state()).unwrap();
    let mut slices = 1;
    while rig.journal.prune(rig.now).unwrap() {
        slices += 1;
    }
    slices
}

fn ended(rig: &Rig) -> u64 {
    number(&rig.path, "SELECT count(*) FROM task")
}

#[test]
fn ended_tasks_leave_after_their_time_in_slices_and_open_ones_never() {
    let mut rig = rig(30, 1_000_000);
    let open = rig.send("still wanted", 1, Some("open"), Expects::Answer);
    rig.turn(vec![open]);
    rig.deliver(450);
    assert_eq!((tidy_up(&mut rig), ended(&rig)), (1, 450));
    rig.now = rig.now.plus_ms(30 * DAY_MS);
    tidy_up(&mut rig);
    assert_eq!(ended(&rig), 450, "not a moment too soon");
    rig.now = rig.now.plus_ms(1);
    assert_eq!((tidy_up(&mut rig), ended(&rig)), (3, 0));
    assert_eq!(number(&rig.path, "SELECT count(*) FROM said"), 0);
    assert_eq!(number(&rig.path, "SELECT count(*) FROM message"), 1);
    assert!(rig.journal.prior(&key_of("open")).unwrap().is_some());
    rig.now = rig.now.plus_ms(1000 * DAY_MS);
    tidy_up(&mut rig);
    assert!(rig.journal.prior(&key_of("open")).unwrap().is_some());
    rig.restart("after a thousand days");
}

#[test]
fn a_key_lives_seven_days_however_little_is_to_be_kept() {
    for (days, ended_max) in [(0, 0), (1, 0), (30, 0), (0, 1_000_000)] {
        let mut rig = rig(days, ended_max);
        let send = rig.send("once", 0, Some("mine"), Expects::Receipt);
        rig.turn(vec![send]);
        let (link, letter) = rig.delivered.pop().unwrap();
        let seen =
            rig.report(link, &letter, synapse_core::effect::Report::Step(synapse_core::receipt::Step::Seen));
        rig.turn(vec![seen]);
        let case = format!("{days} days, {ended_max} at most");
        assert_eq!(ended(&rig), 1, "{case}");
        rig.now = rig.now.plus_ms(7 * DAY_MS);
        tidy_up(&mut rig);
        assert!(rig.journal.prior(&key_of("mine")).unwrap().is_some(), "{case}: gone within seven days");
        rig.now = rig.now.plus_ms(1);
        tidy_up(&mut rig);
        assert_eq!(rig.journal.prior(&key_of("mine")).unwrap(), None, "{case}");
    }
}

#[test]
fn beyond_the_most_that_is_kept_the_oldest_leave_early() {
    let mut rig = rig(30, 100);
    rig.deliver(250);
    rig.now = rig.now.plus_ms(8 * DAY_MS);
    rig.deliver(50);
    tidy_up(&mut rig);
    assert_eq!(ended(&rig), 100, "fifty of the old, and the fifty new");
    rig.restart("after the oldest left");
}

#[test]
fn heavy_the_file_finds_its_size() {
    let mut rig = rig(7, 1_000_000);
    let size = |rig: &Rig| {
        let wal = std::fs::metadata(format!("{}-wal", rig.path.display())).map_or(0, |m| m.len());
        std::fs::metadata(&rig.path).unwrap().len() + wal
    };
    let mut early = 0;
    for round in 1..=50 {
        rig.deliver(2_000);
        rig.now = rig.now.plus_ms(DAY_MS);
        tidy_up(&mut rig);
        if round == 10 {
            early = size(&rig);
        }
    }
    let late = size(&rig);
    assert!(late < 3 * early, "{early} bytes after ten rounds, {late} after fifty");
    rig.restart("after a hundred thousand messages");
}

#[test]
fn heavy_opening_reads_what_came_after_the_snapshot_and_no_more() {
    let mut rig = rig(30, 1_000_000);
    for _ in 0..10 {
        let sends = (0..100).map(|n| rig.send(&format!("waits {n}"), 1, None, Expects::Answer)).collect();
        rig.turn(sends);
    }
    rig.deliver(20_000);
    rig.journal.take_snapshot(rig.hub.state()).unwrap();
    let latest = rig.hub.state().seq.0;
    rig.deliver(10);
    let (dir, path, state) = rig.close();
    let tail = number(&path, &format!("SELECT count(*) FROM journal WHERE seq > {latest}"));
    assert!(tail <= 100, "{tail} records to replay");
    // Reading the old messages would fail here.
    let changed =
        sql(&path).execute("UPDATE message SET body = 'x', head = 'x' WHERE seq <= ?1", [latest]).unwrap();
    assert_eq!(changed, 21_000);
    let start = std::time::Instant::now();
    let (_, found) = synapse_store::Journal::open(&path, Retention::default()).unwrap();
    let took = start.elapsed();
    crate::rig::assert_same(&found, &state, "after twenty thousand");
    assert_eq!(found.letters.len(), 1_000);
    assert!(took.as_secs() < 2, "{took:?} to open");
    drop(dir);
}
