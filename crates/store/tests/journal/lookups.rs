//! Lookups: repeats by their key, ended tasks, trails, events.

use crate::rig::{Rig, agent_id, key_of, sql, user};
use synapse_core::effect::{Answer, Command, Effect, Report, Serves, Taken};
use synapse_core::ids::{Seq, TaskRef};
use synapse_core::message::{Body, Content, Expects};
use synapse_core::receipt::Step;
use synapse_core::record::{Record, Said};
use synapse_core::task::TaskState;
use synapse_core::{MessageId, Refusal};
use synapse_store::{History, Retention};

fn answer(effects: Vec<Effect>) -> Result<Answer, Refusal> {
    let replies = effects
        .into_iter()
        .filter_map(|e| if let Effect::Reply { answer, .. } = e { Some(answer) } else { None });
    *replies.last().expect("who asks is answered")
}

fn taken(effects: Vec<Effect>) -> Taken {
    let Ok(Answer::Accepted(mut taken)) = answer(effects) else { panic!("it was not taken") };
    taken.pop().unwrap()
}

/// Runs one task with two artifacts and an answer from start to end.
fn one_story(rig: &mut Rig, id: &str) -> Taken {
    let send = rig.send(&format!("do {id}"), 0, Some(id), Expects::Answer);
    let taken = taken(rig.turn(vec![send]));
    let (link, letter) = rig.delivered.pop().expect("the link takes it");
    let artifact = |text: &str| {
        let content = Body::of(&Content::text(text));
        Report::Said(Said::Artifact {
            id: "a".into(),
            name: None,
            content,
            append: text != "one",
            last: text == "two",
        })
    };
    let progress = Report::Said(Said::Progress { text: "half".into(), percent: None });
    let answer = Some(Body::of(&Content::text(format!("did {id}"))));
    let done = Report::Done { state: TaskState::Completed, answer, why: "done".into() };
    for report in [Report::Working, artifact("one"), progress, artifact("two"), done] {
        let report = rig.report(link, &letter, report);
        rig.turn(vec![report]);
    }
    taken
}

fn rig() -> Rig {
    let mut rig = Rig::new(21, Retention::default());
    rig.open_link(0, 1, Serves::UntilSeen { notes: true });
    rig
}

#[test]
fn a_repeat_is_known_by_its_key_also_after_a_restart() {
    let mut rig = rig();
    let first = one_story(&mut rig, "mine-1");
    for when in ["before", "after"] {
        let prior = rig.journal.prior(&key_of("mine-1")).unwrap().unwrap();
        assert_eq!((&prior.message, prior.task), (&first.message, first.task), "{when} the restart");
        assert_eq!(prior.digest, Body::of(&Content::text("do mine-1")).digest());
        assert_eq!(rig.journal.prior(&key_of("mine-2")).unwrap(), None);
        assert_eq!(rig.journal.prior("u/").unwrap(), None);

        let again = rig.send("do mine-1", 0, Some("mine-1"), Expects::Answer);
        let again = taken(rig.turn(vec![again]));
        assert!(again.duplicate && again.message == first.message, "{when} the restart");
        let other = rig.send("do another thing", 0, Some("mine-1"), Expects::Answer);
        assert!(matches!(answer(rig.turn(vec![other])), Err(Refusal::Conflict { .. })), "{when} the restart");
        rig.restart("with a repeat");
    }
}

#[test]
fn an_ended_task_is_found_by_its_id_and_by_eight_digits_of_it() {
    let mut rig = rig();
    let (first, second) = (one_story(&mut rig, "mine-1"), one_story(&mut rig, "mine-2"));
    let named = |name: &str| TaskRef::parse(name).unwrap();
    for name in [first.task.to_string(), first.task.short()] {
        let ended = rig.journal.ended(&named(&name), rig.now).unwrap().unwrap();
        assert_eq!((ended.id, ended.state), (first.task, TaskState::Completed));
        assert_eq!(ended.message, first.message);
    }
    assert_eq!(rig.journal.ended(&named("00000000"), rig.now).unwrap(), None);
    assert_eq!(rig.journal.last_ended(&agent_id(0).to_string()).unwrap().unwrap().id, second.task);
    assert_eq!(rig.journal.last_ended(&agent_id(1).to_string()).unwrap(), None);
    let open = rig.send("wait", 1, None, Expects::Answer);
    let open = taken(rig.turn(vec![open]));
    assert_eq!(rig.journal.ended(&open.task.into(), rig.now).unwrap(), None, "an open task has not ended");
}

#[test]
fn the_archive_tells_all_of_an_ended_task() {
    let mut rig = rig();
    let taken = one_story(&mut rig, "mine-1");
    let history = History::open(&rig.path).unwrap();
    let (ending, archive) = history.task(&taken.task.into(), rig.now).unwrap().unwrap();
    assert_eq!(ending.answer.unwrap().content().unwrap().as_text(), "did mine-1");
    assert_eq!((archive.task.state, archive.dead_letter), (TaskState::Completed, false));
    assert_eq!(archive.task.messages, std::slice::from_ref(&taken.message));

    let (task, trail) = history.trail(&taken.message).unwrap().unwrap();
    assert_eq!((task, trail.reached()), (taken.task, Some(Step::Answered)));
    let texts: Vec<_> = (history.artifacts(&taken.task).unwrap().into_iter())
        .map(|said| {
            if let Said::Artifact { content, .. } = said {
                content.content().unwrap().as_text()
            } else {
                String::new()
            }
        })
        .collect();
    assert_eq!(texts, ["one", "two"], "artifacts in order, and no progress among them");

    let (letter, body) = history.message(&taken.message).unwrap().unwrap();
    assert_eq!((letter.id.clone(), letter.sender_id.as_str()), (taken.message.clone(), "mine-1"));
    assert_eq!(body.content().unwrap().as_text(), "do mine-1");
    assert_eq!(history.message_by_key(&key_of("mine-1")).unwrap().unwrap().1, body);
    assert_eq!(rig.journal.body(&taken.message).unwrap(), Some(body));
    let nobody = MessageId::parse("nobody").unwrap();
    assert!(history.message(&nobody).unwrap().is_none() && history.trail(&nobody).unwrap().is_none());
    assert!(history.message_by_key(&key_of("nobody")).unwrap().is_none());
}

#[test]
fn a_watcher_that_returns_reads_every_event_in_pages() {
    let mut rig = rig();
    one_story(&mut rig, "mine-1");
    let history = History::open(&rig.path).unwrap();
    let latest = rig.hub.state().seq;
    for page in [1, 2, 7, 1000] {
        let mut after = Seq(0);
        loop {
            let (entries, gap) = history.events(after, page, usize::MAX).unwrap();
            assert!(!gap && entries.len() as u64 <= page);
            let Some(last) = entries.last() else { break };
            assert!(entries.iter().enumerate().all(|(n, e)| e.seq.0 == after.0 + n as u64 + 1));
            after = last.seq;
        }
        assert_eq!(after, latest, "pages of {page}");
    }
}

/// Finding M8: a page ends with the event that makes it long enough, and has at least one event.
#[test]
fn pages_of_events_are_bounded_by_bytes() {
    let mut rig = rig();
    one_story(&mut rig, "mine-1");
    let history = History::open(&rig.path).unwrap();
    let latest = rig.hub.state().seq;
    for bytes in [1, 1_000, 2_000] {
        let mut after = Seq(0);
        while after < latest {
            let (entries, gap) = history.events(after, 1000, bytes).unwrap();
            let before_last: usize =
                entries.split_last().unwrap().1.iter().map(|entry| entry.record.weight()).sum();
            assert!(!gap && before_last < bytes, "{before_last} before the last of a page of {bytes}");
            after = entries.last().unwrap().seq;
        }
    }
}

#[test]
fn a_watcher_is_told_of_every_event_that_is_gone() {
    for events_kept in [0, 1, 5, 12] {
        let mut rig = Rig::new(22, Retention { events_kept, ..Retention::default() });
        rig.open_link(0, 1, Serves::UntilSeen { notes: true });
        (0..4).for_each(|n| drop(one_story(&mut rig, &format!("mine-{n}"))));
        rig.journal.take_snapshot(rig.hub.state()).unwrap();
        let latest = rig.hub.state().seq.0;
        let history = History::open(&rig.path).unwrap();
        for after in 0..=latest {
            let (entries, gap) = history.events(Seq(after), 1000, usize::MAX).unwrap();
            let seen: Vec<u64> = entries.iter().map(|e| e.seq.0).collect();
            let whole: Vec<u64> = (after + 1..=latest).collect();
            assert_eq!(gap, seen != whole, "kept {events_kept}, after {after} of {latest}: {seen:?}");
            assert!(
                seen.windows(2).all(|two| two[1] == two[0] + 1),
                "a hole that nobody was told of: {seen:?}"
            );
            assert_eq!(seen.last().copied().unwrap_or(latest), latest);
        }
        one_story(&mut rig, "mine-9");
        let (entries, gap) = history.events(Seq(latest), 1000, usize::MAX).unwrap();
        assert!(!gap && matches!(entries[0].record, Record::Accepted { .. }));
    }
}

#[test]
fn a_task_that_was_canceled_while_it_waited_is_in_the_archive() {
    let mut rig = rig();
    let send = rig.send("never mind", 2, None, Expects::Answer);
    let waiting = taken(rig.turn(vec![send]));
    let cancel =
        rig.ask(user(), Command::Cancel { task: waiting.task.into(), why: "changed my mind".into() });
    rig.turn(vec![cancel]);
    let history = History::open(&rig.path).unwrap();
    let (ending, _) = history.task(&waiting.task.into(), rig.now).unwrap().unwrap();
    assert_eq!((ending.state, ending.why.as_str()), (TaskState::Canceled, "changed my mind"));
    let (_, trail) = history.trail(&waiting.message).unwrap().unwrap();
    assert_eq!((trail.reached(), trail.hold()), (Some(Step::Stored), Some("canceled: changed my mind")));
}

#[test]
fn a_short_name_is_one_of_the_tasks_that_began_last() {
    let mut rig = rig();
    let taken = one_story(&mut rig, "mine-1");
    let short = TaskRef::parse(&taken.task.short()).unwrap();
    let found = |rig: &Rig| rig.journal.ended(&short, rig.now).unwrap().map(|ended| ended.id);
    assert_eq!(found(&rig), Some(taken.task));
    let later = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                 INSERT INTO task (seq, at, id, agent, dead, body, crc)
                 SELECT 1000000 + i, at, printf('ffffffff%012x', i) || ?1, agent, dead, body, crc FROM task, n";
    let began_later = format!("{:012x}", rig.now.0);
    let of_another_time = "ffffffffffff";
    // Ids of version 3 have random ends, and do not get in the way.
    for (end, still) in [(of_another_time, true), (&*began_later, false)] {
        let db = sql(&rig.path);
        db.execute(later, [end]).unwrap();
        assert_eq!(found(&rig).is_some(), still, "beside 10,000 that end with {end}");
        assert_eq!(rig.journal.ended(&taken.task.into(), rig.now).unwrap().unwrap().id, taken.task);
        db.execute("DELETE FROM task WHERE seq > 1000000", []).unwrap();
    }
}
