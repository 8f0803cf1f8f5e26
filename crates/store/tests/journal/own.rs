//! A caller's ended tasks in pages: complete, in order, and the same after the schema
//! migration that added them.

use crate::rig::{Rig, sql, user};
use std::collections::BTreeSet;
use synapse_core::effect::Serves;
use synapse_core::ids::{Seq, TaskId, Timestamp};
use synapse_core::listing::{Below, Listing};
use synapse_core::message::Who;
use synapse_core::task::TaskState;
use synapse_store::own::Own;
use synapse_store::{History, Journal, Retention};

const ALL: Listing =
    Listing { tenant: None, context: None, state: None, since: None, below: None, max: 1_000 };

fn story(seed: u64, steps: usize) -> Rig {
    let mut rig = Rig::new(seed, Retention::default());
    for agent in 0..3 {
        rig.open_link(agent, 4, Serves::UntilEnded { hears: false });
    }
    (0..steps).for_each(|_| rig.step());
    rig
}

fn own(rig: &Rig, listing: &Listing) -> (Vec<Own>, u64) {
    let history = History::open(&rig.path).unwrap();
    history.own_tasks(&user().sender().who, listing, Seq(u64::MAX)).unwrap()
}

fn places(found: &[Own]) -> Vec<(Timestamp, TaskId)> {
    found.iter().map(|own| (own.place, own.archive.task.id)).collect()
}

#[test]
fn pages_together_are_the_whole_in_order() {
    for seed in 0..8 {
        let rig = story(seed, 400);
        let (all, total) = own(&rig, &ALL);
        assert!(all.len() > 10, "seed {seed}: only {} ended", all.len());
        assert_eq!(all.len() as u64, total);
        let whole = places(&all);
        assert!(whole.windows(2).all(|two| two[0] > two[1]), "seed {seed}: {whole:?}");
        let mut pages = Vec::new();
        let mut below = None;
        loop {
            let (page, total_again) = own(&rig, &Listing { below, max: 3, ..ALL });
            assert_eq!(total_again, total);
            let Some(last) = page.last() else { break };
            below = Some(Below { at: last.place, id: last.archive.task.id, as_of: rig.now });
            pages.extend(places(&page));
        }
        assert_eq!(pages, whole, "seed {seed}");
    }
}

/// A task that ends while a caller pages keeps the position that it had for the first page.
#[test]
fn what_ends_meanwhile_is_told_at_its_old_place() {
    let mut rig = story(5, 300);
    let ended: BTreeSet<TaskId> = own(&rig, &ALL).0.iter().map(|own| own.archive.task.id).collect();
    let as_of = rig.now;
    rig.now = rig.now.plus_ms(1);
    let open: BTreeSet<TaskId> = rig.hub.state().tasks.keys().copied().collect();
    (0..300).for_each(|_| rig.step());
    // Below a position newer than everything that existed then.
    let top = Below {
        at: Timestamp(as_of.0 + 1),
        id: [ended.iter(), open.iter()].into_iter().flatten().max().copied().unwrap(),
        as_of,
    };
    let (found, _) = own(&rig, &Listing { below: Some(top), ..ALL });
    let found: BTreeSet<TaskId> = found.iter().map(|own| own.archive.task.id).collect();
    assert!(ended.is_subset(&found), "ended before, and gone");
    let late: Vec<&TaskId> = found.difference(&ended).collect();
    assert!(!late.is_empty(), "some ended meanwhile");
    assert!(late.iter().all(|id| open.contains(id)), "one that did not exist then");
}

#[test]
fn only_what_is_asked_for() {
    let rig = story(3, 400);
    let (all, _) = own(&rig, &ALL);
    for state in TaskState::ALL {
        let (found, total) = own(&rig, &Listing { state: Some(state), ..ALL });
        let expected = all.iter().filter(|own| own.ending.state == state).count();
        assert_eq!((found.len(), total), (expected, expected as u64), "{state:?}");
    }
    let since = all[all.len() / 2].place;
    let (found, _) = own(&rig, &Listing { since: Some(since), ..ALL });
    assert_eq!(found.len(), all.iter().filter(|own| own.place >= since).count());
    let context = all[0].archive.task.conversation();
    let (found, _) = own(&rig, &Listing { context: Some(context.clone()), ..ALL });
    assert!(!found.is_empty() && found.iter().all(|own| own.archive.task.conversation() == context));
    // Up to an earlier record: later endings are not listed.
    let history = History::open(&rig.path).unwrap();
    let (none, total) = history.own_tasks(&user().sender().who, &ALL, Seq(0)).unwrap();
    assert_eq!((none.len(), total), (0, 0));
    let nobody = Who::Named(synapse_core::Label::parse("nobody").unwrap());
    assert_eq!(history.own_tasks(&nobody, &ALL, Seq(u64::MAX)).unwrap().1, 0);
}

/// A journal of version 1 has no columns for this: the migration fills them from the rows.
#[test]
fn tasks_of_version_1_are_found() {
    let rig = story(9, 400);
    let before = places(&own(&rig, &ALL).0);
    let (dir, path, _) = rig.close();
    sql(&path)
        .execute_batch(
            "CREATE TABLE trail (message TEXT PRIMARY KEY);
             DROP INDEX task_by_tail;
             DROP INDEX task_by_context;
             DROP TABLE attachment;
             CREATE INDEX task_by_id ON task (id);
             DROP INDEX task_by_who;
             ALTER TABLE task DROP COLUMN who;
             ALTER TABLE task DROP COLUMN context;
             ALTER TABLE task DROP COLUMN state;
             PRAGMA user_version = 1;",
        )
        .unwrap();
    drop(Journal::open(&path, Retention::default()).unwrap());
    let history = History::open(&path).unwrap();
    let (after, _) = history.own_tasks(&user().sender().who, &ALL, Seq(u64::MAX)).unwrap();
    assert_eq!(places(&after), before);
    let listing = Listing { state: Some(TaskState::Completed), ..ALL };
    let (completed, _) = history.own_tasks(&user().sender().who, &listing, Seq(u64::MAX)).unwrap();
    assert!(!completed.is_empty() && completed.len() <= before.len());
    drop(dir);
}
