//! Requests that a node refuses: too large, malformed, impossible. It gives the reason, and nothing
//! changes.

use crate::world;
use serde_json::json;
use synapse_testkit::http::Answer;
use synapse_testkit::{Agent, World};

/// An agent that starts no further task, so that its mailbox shows every message it accepted.
fn mailbox(world: &World) -> (Agent, String) {
    let agent = world.run("box", "while [ ! -e go ]; do sleep 0.05; done", &[]);
    let blocking = world.send("box", "blocks", &[]);
    world.wait_until("it is at work", || agent.task(&blocking)["state"] == "working");
    world.send("box", "waits", &[]);
    let before = agent.get("/api/v1/inbox").text();
    (agent, before)
}

fn post(agent: &Agent, body: &[u8]) -> [Answer; 2] {
    let unix = agent.unix().ask("POST", "/message", &[], body);
    let tcp = agent.tcp().ask("POST", "/message", &[("Authorization", &agent.bearer())], body);
    [unix, tcp]
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let world = world();
    let (agent, before) = mailbox(&world);
    let bearer = agent.bearer();
    for door in [agent.unix(), agent.tcp()] {
        let headers = [("Authorization", bearer.as_str()), ("Content-Length", "99999999999")];
        let mut connection = door.connect();
        connection.say(&door.head("POST", "/message", &headers, None));
        let answer = connection.answer();
        assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(connection.is_closed());

        let chunked = [("Authorization", bearer.as_str()), ("Transfer-Encoding", "chunked")];
        let mut connection = door.connect();
        connection.say(&door.head("POST", "/message", &chunked, None));
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
        for _ in 0..40 {
            connection.say(&chunk);
        }
        assert_eq!(connection.answer().status, 413, "a body of unknown length ends at the limit");
    }
    let body = json!({ "message": "x".repeat((1 << 20) + 10) }).to_string();
    for answer in post(&agent, body.as_bytes()) {
        assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"), "just over the limit");
    }
    assert_eq!(agent.get("/api/v1/inbox").text(), before);
}

#[test]
fn a_malformed_message_is_refused_with_the_field_at_fault() {
    let world = world();
    let (agent, before) = mailbox(&world);
    let deep = format!("{{\"message\":{}1{}}}", "[".repeat(500), "]".repeat(500));
    let far = json!({ "message": "x", "timestamp": "1999-01-01T00:00:00Z" }).to_string();
    let cases: Vec<(&[u8], &str)> = vec![
        (b"", "body"),
        (b"not json", "body"),
        (b"{\"message\": \"x\"", "body"),
        (b"{\"message\": \"x\"} trailing", "body"),
        (b"[]", "body"),
        (b"{}", "body"),
        (b"{\"message\": \"\\ud800\"}", "message"),
        (b"{\"message\": \"\xff\xfe\"}", "message"),
        (deep.as_bytes(), "message"),
        (b"{\"message\": 7}", "message"),
        (b"{\"message\": null}", "message"),
        (b"{\"message\": \"   \"}", "message"),
        (b"{\"message\": {}}", "message.parts"),
        (b"{\"message\": {\"parts\": [7]}}", "message.parts[0]"),
        (b"{\"message\": {\"parts\": [{\"text\": \"a\"}, {\"text\": 7}]}}", "message.parts[1].text"),
        (b"{\"message\": {\"parts\": [{\"text\": \"a\", \"url\": \"b\"}]}}", "message.parts[0]"),
        (b"{\"message\": {\"parts\": [{\"raw\": \"%%%\"}]}}", "message.parts[0].raw"),
        (b"{\"message\": \"x\", \"priority\": \"high\"}", "priority"),
        (b"{\"message\": \"x\", \"priority\": 6}", "priority"),
        (b"{\"message\": \"x\", \"priority\": 0}", "priority"),
        (b"{\"message\": \"x\", \"priority\": -1}", "priority"),
        (b"{\"message\": \"x\", \"priority\": 3.5}", "priority"),
        (b"{\"message\": \"x\", \"metadata\": []}", "metadata"),
        (b"{\"message\": \"x\", \"message_id\": \"../../etc/passwd\"}", "message_id"),
        (b"{\"message\": \"x\", \"message_id\": \"\"}", "message_id"),
        (b"{\"message\": \"x\", \"message_id\": \"a b\"}", "message_id"),
        (b"{\"message\": \"x\", \"target\": \"a/../b\"}", "target"),
        (b"{\"message\": \"x\", \"task_id\": \"../0123abcd\"}", "task_id"),
        (b"{\"message\": \"x\", \"response_expected\": \"yes\"}", "response_expected"),
        (b"{\"message\": \"x\", \"timestamp\": \"yesterday\"}", "timestamp"),
        (b"{\"message\": \"x\", \"chain\": {\"correlation_id\": \"/\", \"hops\": 1}}", "chain"),
        (b"{\"message\": \"x\", \"chain\": {\"hops\": 1}}", "chain"),
        (b"{\"message\": \"x\", \"chain\": {\"correlation_id\": \"c\", \"hops\": 256}}", "chain.hops"),
        (far.as_bytes(), "timestamp"),
    ];
    for (body, field) in cases {
        let shown: String = String::from_utf8_lossy(body).chars().take(100).collect();
        for answer in post(&agent, body) {
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (400, "bad_field"),
                "{shown}: {}",
                answer.text()
            );
            let told = answer.json()["error"]["details"]["field"].as_str().unwrap_or_default().to_owned();
            assert!(told == field || told.starts_with(&format!("{field}[")), "{shown}: {}", answer.text());
        }
    }
    assert_eq!(agent.get("/api/v1/inbox").text(), before, "nothing changed");
}

#[test]
fn unknown_fields_and_other_spellings_are_understood() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let bodies = [
        json!({ "message": "hi", "future": { "field": 1 } }),
        json!({ "message": { "role": "user", "parts": [{ "text": "hi" }] } }),
        json!({ "message": { "parts": [{ "type": "text", "text": "hi" }] } }),
        json!({ "message": { "parts": [{ "kind": "text", "text": "hi" }] } }),
        json!({ "message": "hi", "metadata": { "priority": 5, "response_expected": true, "sender": { "sender_id": "x" } } }),
    ];
    for body in bodies {
        let answer = agent.post("/message", &body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        let task = answer.json()["task_id"].as_str().unwrap().to_owned();
        world.wait_until("it is answered", || agent.task(&task)["state"] == "completed");
        assert_eq!(agent.task(&task)["answer"]["text"], "HI");
    }
}

#[test]
fn a_chain_of_causes_has_an_end() {
    let world = world();
    let (agent, before) = mailbox(&world);
    let message = |hops: u8| json!({ "message": "x", "chain": { "correlation_id": "c", "parent_message_id": "p", "hops": hops } });
    for answer in post(&agent, message(17).to_string().as_bytes()) {
        assert_eq!((answer.status, answer.code().as_str()), (429, "chain_too_long"), "{}", answer.text());
    }
    assert_eq!(agent.get("/api/v1/inbox").text(), before, "nothing changed");
    assert_eq!(agent.post("/message", &message(16)).status, 200);
}

#[test]
fn two_agents_that_only_answer_each_other_are_stopped() {
    let world = world();
    let exec =
        |to: &str| format!("cat >> {to}; echo >> {to}; {} send {to} \"and you?\"", world.exe().display());
    world.run("ping", &exec("pong"), &[]);
    let pong = world.run("pong", &exec("ping"), &[]);
    // `ping` is the first to repeat a text too often, and the alert is raised at `pong`.
    let mut alerts =
        synapse_testkit::http::Events::open(&pong.unix(), "/api/v1/events?alerts=true", &[], None).unwrap();
    world.send("ping", "how are you?", &[]);
    let alert = alerts.next_event().expect("somebody is told");
    assert_eq!(alert.event, "loop");
    let all = world.lines("ping").len() + world.lines("pong").len();
    assert!(all <= 18, "{all} messages went round");
}

#[test]
fn odd_reports_change_nothing() {
    let world = world();
    let (agent, before) = mailbox(&world);
    let report = |body: serde_json::Value| agent.post("/api/v1/inbox/report", &body);
    assert_eq!(report(json!({ "type": "seen" })).status, 400, "about which message?");
    assert_eq!(report(json!({ "type": "seen", "message_id": "unheard-of" })).status, 404);
    assert_eq!(report(json!({ "type": "dance", "message_id": "x" })).status, 400);
    assert_eq!(report(json!({ "type": "send", "to": "box", "text": "x" })).status, 400);
    assert_eq!(agent.post("/api/v1/tasks/not-hex/cancel", &json!({})).status, 400);
    assert_eq!(agent.post("/api/v1/tasks/ffffffff/cancel", &json!({})).status, 404);
    assert_eq!(agent.post("/api/v1/reply", &json!({ "task_id": "ffffffff", "message": "x" })).status, 404);
    assert_eq!(agent.get("/api/v1/events?task=zzz").status, 400);
    assert_eq!(agent.get("/api/v1/events?after=minus-one").status, 400);
    assert_eq!(agent.get("/api/v1/inbox?max=lots").status, 400);
    assert_eq!(agent.get("/api/v1/inbox").text(), before);
}

#[test]
fn a_head_that_is_too_long_or_no_http_is_refused_and_others_go_on() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let mut long = agent.tcp().connect();
    long.say(&format!("GET /status HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000)));
    assert!(long.read_head().map_or(true, |(status, _)| (400..500).contains(&status)));
    let mut garbage = agent.tcp().connect();
    garbage.say_bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n");
    assert!(garbage.read_head().map_or(true, |(status, _)| status == 400));
    let mut both = agent.tcp().connect();
    both.say("POST /message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert!(both.read_head().map_or(true, |(status, _)| status >= 400));
    assert_eq!(world.ok(&["send", "shout", "hi", "--response"]), "HI");
}
