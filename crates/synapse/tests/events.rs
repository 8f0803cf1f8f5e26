//! `/api/v1/events`: a follower that reconnects misses nothing and sees nothing twice.

use crate::world;
use serde_json::Value;
use std::collections::BTreeMap;
use synapse_testkit::Agent;
use synapse_testkit::http::{Event, Events};

/// All events up to an id, in one go.
fn all(agent: &Agent, until: u64) -> Vec<Event> {
    let mut events = Events::open(&agent.unix(), "/api/v1/events", &[], Some(0)).unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &Event| event.id < Some(until)) {
        seen.push(events.next_event().unwrap());
    }
    seen
}

/// A small seeded generator: a failure is reproducible.
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
            // Nobody answers while the node restarts. Retry until the next one does.
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

/// A follower that subscribes and reads nothing.
fn stalled(agent: &Agent, path: &str) -> Events {
    Events::open(&agent.unix(), path, &[], Some(0)).unwrap()
}

fn read_until_ended(events: &mut Events, tasks: usize) -> Vec<Event> {
    let mut seen: Vec<Event> = Vec::new();
    while seen.iter().filter(|event| event.event == "ended").count() < tasks {
        seen.push(events.next_event().unwrap_or_else(|| panic!("it ended after {} events", seen.len())));
    }
    seen
}

/// Finding M8: twenty followers that do not read cost a fixed amount of memory, however much they
/// leave unread. A follower that reads later misses nothing.
#[test]
fn followers_that_do_not_read_cost_a_fixed_amount() {
    const TASKS: usize = 12;
    let world = world();
    let agent = world.run("big", "cat", &["--parallel", "4"]);
    let early: Vec<Events> = (0..10).map(|_| stalled(&agent, "/api/v1/events")).collect();
    let text = "x".repeat(900_000);
    for _ in 0..TASKS {
        let told = agent.post("/message", &serde_json::json!({ "message": text })).json();
        assert_eq!(told["status"], "stored", "{told}");
    }
    world.wait_until("nothing is open", || agent.get("/api/v1/tasks").json() == serde_json::json!([]));
    let mut late: Vec<Events> = (0..10).map(|_| stalled(&agent, "/api/v1/events")).collect();
    // By the time one follower has read everything, the buffers of all of them are full.
    let mut reader = stalled(&agent, "/api/v1/events");
    read_until_ended(&mut reader, TASKS);
    let node = world.entry("big").unwrap()["node_pid"].as_u64().unwrap();
    let peak = synapse_testkit::processes::peak_memory_mb(u32::try_from(node).unwrap());
    assert!(peak < 200, "the node took {peak} MB");
    for mut events in early.into_iter().take(1).chain(late.drain(..1)) {
        let seen = read_until_ended(&mut events, TASKS);
        let ids: Vec<u64> = seen.iter().filter_map(|event| event.id).collect();
        assert!(ids.windows(2).all(|two| two[1] == two[0] + 1), "some are missing: {ids:?}");
    }
}

/// Finding M8: the number of streams per caller limits the memory that one agent can cost a node
/// with readers that do not read.
#[test]
fn streams_of_one_caller_are_bounded() {
    let world = world();
    let agent = world.run("watched", "cat", &[]);
    world.run("inner", "sh inside.sh 2>&1", &[]);
    world.write(
        "many.py",
        "import os, socket, sys\n\
        os.chdir(os.path.dirname(sys.argv[1]))  # its path may be longer than a socket's may be\n\
        def ask():\n    s = socket.socket(socket.AF_UNIX); s.connect(os.path.basename(sys.argv[1]))\n\
        \x20   s.sendall(b'GET /api/v1/events?after=0 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'); return s\n\
        open_ones = [ask() for _ in range(257)]\n\
        print([s.recv(12).split()[1].decode() for s in open_ones].count('429'))\n\
        open_ones[0].close()\n",
    );
    let socket = world.entry("watched").unwrap()["socket"].as_str().unwrap().to_owned();
    world.write("inside.sh", &format!("{} many.py {socket}", synapse_testkit::world::python()));
    assert_eq!(world.ok(&["send", "inner", "go", "--response"]), "1");
    // Other callers are not affected. The caller itself has room again once its streams are closed.
    assert_eq!(agent.get("/api/v1/tasks").status, 200);
    world.wait_until("there is room again", || world.ok(&["send", "inner", "go", "--response"]) == "1");
}

/// Finding A5: a reader that stalls in mid-task is not cut off, and gets every event once it reads
/// again.
#[test]
fn stalled_reader_is_not_cut_off_in_mid_task() {
    const STEPS: usize = 600;
    let world = world();
    let script = format!(
        "
for n in range({STEPS}): say('progress', text=str(n).zfill(3000))
say('completed', text='done')"
    );
    let agent = world.run_lines("steps", &script, &[]);
    let mut events = stalled(&agent, "/api/v1/events");
    let task = world.send("steps", "go", &[]);
    world.wait_until("the task has ended", || agent.task(&task)["state"] == "completed");
    let seen = read_until_ended(&mut events, 1);
    assert_eq!(seen.iter().filter(|event| event.event == "progress").count(), STEPS);
}

/// Finding A5: over each binding, a stream that ends before its task says why.
#[test]
fn streams_say_why_they_end_before_the_task() {
    use std::io::Read as _;
    let world = world();
    let agent = world.run("slow", "sleep 60", &[]);
    let task = world.send("slow", "go", &[]);
    world.wait_until("it is at work", || agent.task(&task)["state"] == "working");
    let mut plain = Events::open(&agent.unix(), "/api/v1/events", &[], Some(0)).unwrap();
    let rpc = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": { "id": task },
    })
    .to_string();
    let headers = [("A2A-Version", "1.0"), ("Content-Type", "application/json")];
    let open = |method: &str, path: &str, body: &str| {
        let mut connection = agent.unix().connect();
        connection.say(&agent.unix().head(method, path, &headers, Some(body.len())));
        connection.say(body);
        assert_eq!(connection.read_head().unwrap().0, 200, "{path}");
        connection
    };
    let by_rpc = open("POST", "/api/v1/agent", &rpc);
    let by_rest = open("POST", &format!("/a2a/v1/tasks/{task}:subscribe"), "");
    world.ok(&["kill", "slow"]);
    let mut last = plain.next_event();
    while let Some(event) = plain.next_event() {
        last = Some(event);
    }
    let last = last.unwrap();
    assert_eq!((last.event.as_str(), &last.data["error"]["code"]), ("error", &Value::from("stopping")));
    for (mut connection, sign) in [(by_rpc, "-32014"), (by_rest, "UNAVAILABLE")] {
        let mut text = Vec::new();
        let _ = connection.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let last = text.split("data: ").last().unwrap_or_default().to_owned();
        assert!(last.contains(sign) && last.contains("before the task does"), "{text}");
    }
}
