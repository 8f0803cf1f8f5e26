//! `/api/v1/events`: a follower that comes back misses nothing and sees nothing twice.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeMap;
use synapse_testkit::http::{Event, Events};
use synapse_testkit::{Agent, World};

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_synapse"))
}

/// All events so far, in one go.
fn all(agent: &Agent, until: u64) -> Vec<Event> {
    let mut events = Events::open(&agent.unix(), "/api/v1/events", &[], Some(0)).unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &Event| event.id < Some(until)) {
        seen.push(events.next_event().unwrap());
    }
    seen
}

/// A small generator with a seed: a failure can be run again.
fn dice(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn a_stream_tells_the_whole_story_of_a_task() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let task = world.json(&["send", "shout", "hi", "--response"])["task_id"].as_str().unwrap().to_owned();
    world.send("shout", "another", &[]);
    let path = format!("/api/v1/events?task={task}");
    let mut events = Events::open(&agent.unix(), &path, &[], Some(0)).unwrap();
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "ended") {
        let event = events.next_event().unwrap();
        assert_eq!(event.data["task_id"], task.as_str(), "only this task's: {event:?}");
        assert_eq!(event.id, event.data["id"].as_u64());
        names.push(event.event);
    }
    assert_eq!(names, ["accepted", "leased", "handed", "task", "ended"]);
}

#[test]
fn whoever_comes_back_goes_on_where_they_were() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    for n in 0..10 {
        world.send("shout", &format!("letter {n}"), &[]);
    }
    let last = world.json(&["send", "shout", "last", "--response"]);
    let task = last["task_id"].as_str().unwrap();
    let mut whole = Vec::new();
    let mut events = Events::open(&agent.unix(), "/api/v1/events", &[], Some(0)).unwrap();
    while whole.last().is_none_or(|e: &Event| !(e.event == "ended" && e.data["task_id"] == task)) {
        whole.push(events.next_event().unwrap());
    }
    let bearer = agent.bearer();
    let headers = [("Authorization", bearer.as_str())];
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        let after = whole[cut].id;
        for (door, headers) in [(agent.unix(), &[][..]), (agent.tcp(), &headers[..])] {
            let mut events = Events::open(&door, "/api/v1/events", headers, after).unwrap();
            let rest: Vec<Event> = whole[cut + 1..].iter().map(|_| events.next_event().unwrap()).collect();
            assert_eq!(rest, whole[cut + 1..]);
        }
    }
}

#[test]
fn a_follower_that_is_cut_off_again_and_again_misses_nothing() {
    const LETTERS: usize = 40;
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &["--parallel", "2", "--port", &world.port()]);
    let mut seed = 7;
    let mut seen: Vec<Event> = Vec::new();
    let mut ended = BTreeMap::<String, usize>::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..LETTERS {
                world.send("shout", &format!("letter {n}"), &[]);
                if n == LETTERS / 3 || n == 2 * LETTERS / 3 {
                    world.kill_node("shout");
                }
            }
        });
        while ended.len() < LETTERS {
            let after = seen.last().and_then(|event| event.id).or(Some(0));
            // Between two nodes nobody answers; the next try finds the next one.
            let open = || Events::open(&agent.unix(), "/api/v1/events", &[], after);
            let mut events = world.wait_for("a node answers", open);
            for _ in 0..dice(&mut seed) % 12 {
                let Some(event) = events.next_event() else { break };
                if event.event == "ended" {
                    *ended.entry(event.data["task_id"].as_str().unwrap().to_owned()).or_default() += 1;
                }
                seen.push(event);
                if ended.len() == LETTERS {
                    break;
                }
            }
        }
    });
    assert!(ended.values().all(|count| *count == 1), "each task ends once: {ended:?}");
    let ids: Vec<u64> = seen.iter().map(|event| event.id.unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "none twice, none out of order: {ids:?}");
    let whole = all(&agent, *ids.last().unwrap());
    let texts = |events: &[Event]| -> Vec<(u64, Value)> {
        events.iter().map(|event| (event.id.unwrap(), event.data.clone())).collect()
    };
    assert_eq!(texts(&seen), texts(&whole), "none lost");
}

#[test]
fn more_than_fits_into_memory_is_read_from_the_journal() {
    const TOLD: usize = 3_000;
    let world = world();
    let script = format!("for n in range({TOLD}): say('progress', text='step %d' % n)\nsay('completed')");
    let agent = world.run_lines("long", &script, &[]);
    let task = world.json(&["send", "long", "go", "--response"])["task_id"].as_str().unwrap().to_owned();
    let mut events = Events::open(&agent.unix(), "/api/v1/events", &[], Some(0)).unwrap();
    let mut steps = 0;
    loop {
        let event = events.next_event().unwrap();
        if event.event == "progress" {
            assert_eq!(event.data["data"]["text"], format!("step {steps}").as_str());
            steps += 1;
        }
        if event.event == "ended" && event.data["task_id"] == task.as_str() {
            break;
        }
    }
    assert_eq!(steps, TOLD);
}
