//! `/api/v1/stream`: many messages over one request, each acknowledged in order once it is on disk.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::http::Connection;

fn say_lines(connection: &mut Connection, lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{:x}\r\n{line}\n\r\n", line.len() + 1)).collect();
    connection.say(&text);
}

fn answers_in(body: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(body).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_line_is_answered_in_its_turn_and_a_bad_one_stops_nobody() {
    let world = world();
    let agent = world.run("keeper", "cat >> kept; echo >> kept", &[]);
    let mut connection = agent.unix().connect();
    let chunked = [("Transfer-Encoding", "chunked")];
    connection.say(&agent.unix().head("POST", "/api/v1/stream", &chunked, None));
    let line =
        |n: u32| json!({ "message": format!("letter {n}"), "message_id": format!("s-{n}") }).to_string();
    let mut lines: Vec<String> = (0..20).map(line).collect();
    lines.insert(5, "{broken".to_owned());
    lines.insert(9, line(3));
    lines.push(json!({ "message": "x", "target": "elsewhere" }).to_string());
    say_lines(&mut connection, &lines);
    connection.say("0\r\n\r\n");
    let answer = connection.answer();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answers = answers_in(&answer.body);
    assert_eq!(answers.len(), lines.len(), "{}", answer.text());
    assert_eq!(answers[5]["error"]["code"], "bad_field");
    assert_eq!(answers[9]["duplicate"], true, "{}", answers[9]);
    assert_eq!(answers[9]["message_id"], answers[3]["message_id"]);
    assert_eq!(answers.last().unwrap()["error"]["code"], "no_such_agent");
    let stored = answers.iter().filter(|answer| answer["status"] == "stored").count();
    assert_eq!(stored, 21, "twenty letters, and one of them a second time");
    world.wait_until("every letter was worked on", || world.lines("kept").len() >= 20);
    let mut kept = world.lines("kept");
    kept.sort();
    kept.dedup();
    assert_eq!(kept.len(), 20, "each once: {kept:?}");
}

#[test]
fn a_line_without_an_end_is_refused_and_the_stream_closed() {
    let world = world();
    let agent = world.run("keeper", "cat", &[]);
    let mut connection = agent.unix().connect();
    connection.say(&agent.unix().head("POST", "/api/v1/stream", &[("Transfer-Encoding", "chunked")], None));
    let piece = "x".repeat(1 << 20);
    connection.say(&format!("{:x}\r\n{piece}\r\n{:x}\r\n{piece}\r\n", piece.len(), piece.len()));
    let answer = connection.answer();
    let last = answers_in(&answer.body).pop().unwrap();
    assert_eq!(last["error"]["code"], "too_large", "{last}");
}
