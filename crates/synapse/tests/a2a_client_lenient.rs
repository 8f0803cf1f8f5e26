//! The real binary as a client of slightly wrong A2A servers: it reads what it can, and `--wire`
//! notes the faults.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::stranger::{
    CARD, Stranger, answer, card, error, here, json_answer, not_found, result, task, text,
};

fn events(list: &[Value]) -> Vec<u8> {
    let data = |event: &Value| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": event }));
    let body: String = list.iter().map(data).collect();
    answer("200 OK", "Content-Type: text/event-stream\r\n", &body)
}

/// Measured A6: fasta2a 2 sends times without a time zone, fasta2a 0.6 fails if
/// `acceptedOutputModes` is missing.
#[test]
fn small_faults_of_a_server_are_repaired_and_noted() {
    let world = world();
    let stranger = Stranger::new(|heard, port| {
        let timed = |state: &str| {
            let mut task = task(state, text("fine"));
            task["status"]["timestamp"] = "2026-11-18T00:52:18.123456".into();
            task
        };
        match heard.method() {
            _ if heard.path == CARD => json_answer(&card(&here(port, "/rpc"), false)),
            "SendMessage" if !heard.body["params"]["configuration"]["acceptedOutputModes"].is_array() => {
                answer("500 Internal Server Error", "", "")
            }
            "SendMessage" => result(&json!({ "task": timed("TASK_STATE_WORKING") })),
            // Wrapped in an envelope that only the answer to a message should have.
            "GetTask" => result(&json!({ "task": timed("TASK_STATE_COMPLETED") })),
            _ => not_found(),
        }
    });
    let url = stranger.url();
    let ran = world.synapse(&["send", &url, "hello", "--response"]).ok();
    assert_eq!(ran.out(), "fine", "{ran}");
    assert!(!ran.stderr.contains("odd"), "{ran}");
    let ran = world.synapse(&["send", &url, "hello", "--response", "--wire"]).ok();
    for note in ["→ POST", "odd: a time without a time zone", "odd: a task inside an object"] {
        assert!(ran.stderr.contains(note), "{note}: {ran}");
    }
}

/// Measured A6: LangGraph's card declares 1.0, and its events have the form of 0.3.
#[test]
fn old_events_on_a_new_interface_are_read() {
    let world = world();
    let stranger = Stranger::new(|heard, port| match heard.method() {
        _ if heard.path == CARD => json_answer(&card(&here(port, "/rpc"), true)),
        "SendStreamingMessage" => {
            let status =
                |state: &str| json!({ "state": state, "timestamp": "2026-11-18T00:52:18.123456+00:00" });
            events(&[
                json!({ "kind": "task", "id": "t", "contextId": "c", "status": status("submitted") }),
                json!({ "kind": "artifact-update", "taskId": "t", "contextId": "c",
                    "artifact": { "artifactId": "a", "parts": [{ "kind": "text", "text": "old words" }] } }),
                json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "final": true,
                    "status": status("completed") }),
            ])
        }
        _ => not_found(),
    });
    let ran = world.synapse(&["send", &stranger.url(), "hello", "--response", "--wire"]).ok();
    assert_eq!(ran.out(), "old words", "{ran}");
    assert!(ran.stderr.contains("odd: an answer in the form of A2A 0.3"), "{ran}");
}

/// Measured A6: where a stream is refused or unreadable, the client polls the task. The message is
/// not lost.
#[test]
fn polls_where_streaming_does_not_work() {
    let world = world();
    let refusals: [fn() -> Vec<u8>; 5] = [
        || error(-32004, "no streams"),
        || error(-32601, "no such method"),
        || answer("405 Method Not Allowed", "", ""),
        || events(&[json!({ "task": task("TASK_STATE_WORKING", json!([])) }), json!({ "poem": "roses" })]),
        // A worker of fasta2a 2 that sends no progress.
        || events(&[json!({ "task": task("TASK_STATE_COMPLETED", json!([])) })]),
    ];
    for refusal in refusals {
        let stranger = Stranger::new(move |heard, port| match heard.method() {
            _ if heard.path == CARD => json_answer(&card(&here(port, "/rpc"), true)),
            "SendStreamingMessage" => refusal(),
            "SendMessage" => result(&json!({ "task": task("TASK_STATE_WORKING", json!([])) })),
            "GetTask" => result(&task("TASK_STATE_COMPLETED", text("polled"))),
            _ => error(-32601, "no such method"),
        });
        let ran = world.synapse(&["send", &stranger.url(), "hello", "--response", "--wire"]).ok();
        assert_eq!(ran.out(), "polled", "{ran}");
        assert!(ran.stderr.contains("polled instead") || ran.stderr.contains("asked for the task"), "{ran}");
        let sent = stranger.methods().iter().filter(|method| *method == "SendMessage").count();
        assert!(sent <= 1, "{:?}", stranger.methods());
    }
}

/// Finding A6: over HTTP+JSON, the client polls if the server has no path for streams.
#[test]
fn polls_where_the_path_for_streams_is_missing() {
    let world = world();
    for status in ["404 Not Found", "405 Method Not Allowed", "501 Not Implemented"] {
        let stranger = Stranger::new(move |heard, port| match (heard.verb.as_str(), heard.path.as_str()) {
            (_, CARD) => {
                let mut card = card(&here(port, "/a"), true);
                card["supportedInterfaces"][0]["protocolBinding"] = "HTTP+JSON".into();
                json_answer(&card)
            }
            ("POST", "/a/message:send") => {
                json_answer(&json!({ "task": task("TASK_STATE_WORKING", json!([])) }))
            }
            ("GET", "/a/tasks/t%2F1") => json_answer(&task("TASK_STATE_COMPLETED", text("polled"))),
            _ => answer(status, "Content-Type: application/json\r\n", r#"{"detail":"no"}"#),
        });
        let ran = world.synapse(&["send", &stranger.url(), "hello", "--response", "--wire"]);
        assert_eq!((ran.code, ran.out().as_str()), (Some(0), "polled"), "{status}: {ran}");
        assert!(ran.stderr.contains("polled instead"), "{status}: {ran}");
    }
}

/// Finding A6: the message arrived, but the client dropped answers that could mean only one thing.
#[test]
fn answers_with_one_meaning_are_read_and_noted() {
    let world = world();
    fn sent() -> Value {
        json!({ "task": task("TASK_STATE_COMPLETED", text("fine")) })
    }
    let in_envelope = || json!({ "jsonrpc": "2.0", "id": 1, "result": sent() }).to_string();
    let plain = in_envelope();
    let untyped = in_envelope();
    type Reply = Box<dyn Fn() -> Vec<u8> + Send + Sync>;
    let table: Vec<(Reply, &str)> = vec![
        (
            Box::new(|| json_answer(&json!({ "jsonrpc": "2.0", "id": "1", "result": sent() }))),
            "odd: the id of the request",
        ),
        (
            Box::new(|| json_answer(&json!({ "jsonrpc": "2.0", "id": null, "result": sent() }))),
            "odd: an answer without the id",
        ),
        (Box::new(|| json_answer(&json!({ "id": 1, "result": sent() }))), "odd: an answer without `"),
        (Box::new(|| json_answer(&sent())), "odd: an answer without the envelope"),
        (
            Box::new(move || answer("200 OK", "Content-Type: text/plain\r\n", &plain)),
            "odd: JSON in an answer that is text/plain",
        ),
        (Box::new(move || answer("200 OK", "", &untyped)), "odd: JSON in an answer"),
        (
            Box::new(|| events(&[json!({ "task": task("TASK_STATE_WORKING", json!([])) }), sent()])),
            "odd: a stream of events",
        ),
        (
            Box::new(|| {
                answer("200 OK", "Content-Type: text/event-stream\r\n", &format!("data: {}\n\n", sent()))
            }),
            "odd: an answer without the envelope",
        ),
    ];
    for (n, (reply, note)) in table.into_iter().enumerate() {
        let stranger = Stranger::new(move |heard, port| match heard.method() {
            _ if heard.path == CARD => json_answer(&card(&here(port, "/rpc"), false)),
            "SendMessage" => reply(),
            _ => not_found(),
        });
        let ran = world.synapse(&["send", &stranger.url(), "hello", "--response", "--wire"]);
        assert_eq!((ran.code, ran.out().as_str()), (Some(0), "fine"), "row {n}: {ran}");
        assert!(ran.stderr.contains(note), "row {n}: {note} is not in {ran}");
        assert_eq!(stranger.methods(), ["SendMessage"], "row {n}");
    }
}
