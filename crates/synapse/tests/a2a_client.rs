//! The real binary as a client of A2A agents: of our own nodes, and of servers that misbehave.

use crate::world;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use synapse_testkit::stranger::{
    CARD, Heard, Stranger, answer, card, error, here, json_answer, not_found, result, task, text,
};

/// A9, V6, J4, C4, G23, CLI-8: what the client sends, and how it reads an answer that has no
/// history. It invents no context and marks foreign text as untrusted.
#[test]
fn a_stranger_is_sent_to_and_its_answer_is_marked() {
    let world = world();
    let stranger = Stranger::new(|heard, port| match (heard.path.as_str(), heard.method()) {
        (CARD, _) => json_answer(&card(&here(port, "/rpc"), false)),
        ("/rpc", "SendMessage") => {
            result(&json!({ "task": task("TASK_STATE_COMPLETED", text("hi\u{1b}[2Jthere")) }))
        }
        _ => not_found(),
    });
    let url = stranger.url();
    let ran =
        world.synapse(&["send", &url, "hello", "--response", "--priority", "5", "--message-id", "m-1"]).ok();
    assert_eq!(ran.stdout, "hi\u{fffd}[2Jthere\n");
    assert!(ran.stderr.contains("unproven") && ran.stderr.contains("data, not instructions"), "{ran}");
    let sent = stranger.heard().into_iter().find(|heard| heard.method() == "SendMessage").unwrap();
    assert_eq!(
        (sent.header("a2a-version"), sent.header("content-type")),
        (Some("1.0"), Some("application/json"))
    );
    assert_eq!(sent.header("authorization"), None);
    let params = &sent.body["params"];
    assert_eq!(params["message"]["messageId"], "m-1");
    assert_eq!(
        (&params["message"]["role"], &params["message"]["parts"]),
        (&json!("ROLE_USER"), &json!([{ "text": "hello" }]))
    );
    assert_eq!((params["message"].get("contextId"), params["message"].get("taskId")), (None, None));
    assert_eq!(params["metadata"], json!({ "priority": 5, "response_expected": true }));
    let told = world.json(&["send", &url, "hello", "--response"]);
    assert_eq!((&told["state"], &told["answer"]["text"]), (&json!("completed"), &json!("hi\u{1b}[2Jthere")));
    assert_eq!((&told["untrusted"], &told["task_id"]), (&json!(true), &json!("t/1")));
    // An answer may be a message alone, without a task.
    let direct = Stranger::new(|heard, port| match heard.path.as_str() {
        CARD => json_answer(&card(&here(port, "/rpc"), false)),
        _ => result(
            &json!({ "message": { "messageId": "x", "role": "ROLE_AGENT", "parts": [{ "text": "at once" }] } }),
        ),
    });
    assert_eq!(world.ok(&["send", &direct.url(), "hello", "--response"]), "at once");
}

/// Each fault of a server is reported with a hint, and nothing hangs.
#[test]
fn what_strangers_do_wrong() {
    let world = world();
    type Script = Box<dyn Fn(&Heard, u16) -> Vec<u8> + Send + Sync>;
    let with_card = |then: fn() -> Vec<u8>| -> Script {
        Box::new(move |heard, port| match heard.path.as_str() {
            CARD => json_answer(&card(&here(port, "/rpc"), false)),
            _ => then(),
        })
    };
    let only = |say: fn(u16) -> Vec<u8>| -> Script {
        Box::new(move |heard, port| if heard.path == CARD { say(port) } else { not_found() })
    };
    let of = |interface: Value| json!({ "name": "x", "supportedInterfaces": [interface] });
    let table: Vec<(Script, i32, &[&str])> = vec![
        (only(|_| not_found()), 1, &["no agent card", "status 404"]),
        (
            only(|_| answer("302 Found", "Location: http://evil.example/\r\n", "")),
            1,
            &["evil.example", "not followed"],
        ),
        (only(|_| answer("200 OK", "", "<html>")), 1, &["is no JSON"]),
        (only(|_| json_answer(&json!({ "name": "x" }))), 1, &["no card", "supportedInterfaces"]),
        (
            Box::new(move |heard, port| match heard.path.as_str() {
                CARD => json_answer(&of(
                    json!({ "url": here(port, "/"), "protocolBinding": "JSONRPC", "protocolVersion": "9.0" }),
                )),
                _ => not_found(),
            }),
            5,
            &["none of its interfaces", "another version"],
        ),
        (
            Box::new(|heard, _| match heard.path.as_str() {
                CARD => json_answer(&card("http://127.0.0.1:1/rpc", false)),
                _ => not_found(),
            }),
            5,
            &["another host", "--allow-host 127.0.0.1:1"],
        ),
        (with_card(|| answer("401 Unauthorized", "", "")), 5, &["401", "bearer token", "--token-file"]),
        (
            with_card(|| answer("307 Temporary Redirect", "Location: http://evil.example/\r\n", "")),
            1,
            &["elsewhere", "not followed"],
        ),
        (
            with_card(|| answer("200 OK", "Content-Type: text/html\r\n", "<html>")),
            1,
            &["text/html", "JSON was asked for"],
        ),
        (
            with_card(|| json_answer(&json!({ "jsonrpc": "2.0", "id": 9, "result": {} }))),
            1,
            &["another request"],
        ),
        (with_card(|| result(&json!({}))), 1, &["neither a task nor a message"]),
        (with_card(|| result(&json!({ "task": { "id": 7 } }))), 1, &["not understood"]),
        (with_card(|| error(-32009, "only 2.0")), 5, &["only 2.0", "a2a refresh"]),
        (with_card(|| error(-32602, "bad\u{1b}[31m")), 5, &["bad\u{fffd}[31m"]),
        (with_card(|| answer("503 Service Unavailable", "", "")), 5, &["503", "try again later"]),
        (with_card(Vec::new), 1, &["closed the connection", "whether it did anything is unknown"]),
        (with_card(|| result(&json!({ "task": task("TASK_STATE_FAILED", json!([])) }))), 3, &["t/1 failed"]),
    ];
    for (n, (script, code, words)) in table.into_iter().enumerate() {
        let stranger = Stranger::new(script);
        let ran = world.synapse(&["send", &stranger.url(), "hello", "--response", "--timeout", "20s"]);
        assert_eq!(ran.code, Some(code), "row {n}: {ran}");
        words.iter().for_each(|word| assert!(ran.stderr.contains(word), "row {n}: {word} is not in {ran}"));
        assert_eq!(ran.stdout, "", "row {n}: {ran}");
    }
}

/// E17: an endless card and an endless stream are cut off.
#[test]
fn an_endless_card_and_an_endless_stream_are_cut_off() {
    let world = world();
    let flood = |stream: &mut TcpStream, head: &str, piece: &str| {
        let _ = stream.write_all(head.as_bytes());
        while stream.write_all(piece.as_bytes()).is_ok() {}
    };
    let endless = Stranger::writing(move |_, _, stream| {
        flood(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"name\":\"",
            &"x".repeat(1 << 16),
        );
    });
    world.synapse(&["remote", "add", "flood", &endless.url()]).fails(1, &["larger than", "bytes"]);
    let stream = Stranger::writing(move |heard, port, stream| match heard.path.as_str() {
        CARD => drop(stream.write_all(&json_answer(&card(&here(port, "/rpc"), true)))),
        _ => flood(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ",
            &"x".repeat(1 << 16),
        ),
    });
    world.synapse(&["send", &stream.url(), "hello", "--response"]).fails(1, &["an event is longer than"]);
    // The client waits for a silent server until its timeout.
    let silent = Stranger::writing(|heard, port, stream| match heard.path.as_str() {
        CARD => drop(stream.write_all(&json_answer(&card(&here(port, "/rpc"), false)))),
        _ => drop(stream.read(&mut [0])),
    });
    world
        .synapse(&["send", &silent.url(), "x", "--response", "--timeout", "1s"])
        .fails(4, &["not known", "--message-id"]);
}

/// The events of one task, as a stream sends them.
fn story() -> Vec<Value> {
    let said = |n: u32| {
        let message = json!({ "messageId": format!("s{n}"), "role": "ROLE_AGENT", "parts": [{ "text": format!("step {n}") }] });
        let status = json!({ "state": "TASK_STATE_WORKING", "message": message });
        json!({ "statusUpdate": { "taskId": "t/1", "contextId": "c", "status": status } })
    };
    let piece = |text: &str, append: bool| {
        let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
        json!({ "artifactUpdate": { "taskId": "t/1", "contextId": "c", "artifact": artifact, "append": append } })
    };
    vec![
        json!({ "task": task("TASK_STATE_SUBMITTED", json!([])) }),
        said(1),
        piece("one ", false),
        said(2),
        piece("zwei ", true),
        piece("三", true),
        json!({ "statusUpdate": { "taskId": "t/1", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } }),
    ]
}

fn sse(from: usize, with_ids: bool) -> String {
    let mut body = String::new();
    for (n, event) in story().into_iter().enumerate().skip(from) {
        if with_ids {
            body.push_str(&format!("id: {n}\n"));
        }
        let data = json!({ "jsonrpc": "2.0", "id": 1, "result": event });
        body.push_str(&format!("data: {data}\n\n"));
    }
    body
}

/// The task as it is after this many events.
fn snapshot(events: usize) -> Value {
    let texts = ["", "", "", "one ", "one ", "one zwei ", "one zwei 三", "one zwei 三"];
    let state = if events >= story().len() { "TASK_STATE_COMPLETED" } else { "TASK_STATE_WORKING" };
    let artifacts = if texts[events].is_empty() { json!([]) } else { text(texts[events]) };
    task(state, artifacts)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Knows {
    /// Honors `Last-Event-ID` and resumes after it.
    Resume,
    /// Sends the current task first, then the following events. No ids.
    Snapshot,
    /// Repeats all events, with ids.
    Repeats,
    /// Does not support subscribing.
    Nothing,
}

/// A server whose first stream is cut at a byte. Later streams are complete.
fn cutting(knows: Knows, cut: usize) -> Stranger {
    let told = Mutex::new(0_usize);
    Stranger::writing(move |heard, port, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let say =
            |stream: &mut TcpStream, text: &str| drop(stream.write_all(format!("{head}{text}").as_bytes()));
        let with_ids = matches!(knows, Knows::Resume | Knows::Repeats);
        match (heard.path.as_str(), heard.method()) {
            (CARD, _) => drop(stream.write_all(&json_answer(&card(&here(port, "/rpc"), true)))),
            (_, "SendStreamingMessage") => {
                let whole = sse(0, with_ids);
                let whole = whole.as_bytes();
                let cut = &whole[..cut.min(whole.len())];
                *told.lock().unwrap() = String::from_utf8_lossy(cut).matches("\n\n").count();
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(cut));
            }
            (_, "SubscribeToTask") => match knows {
                Knows::Resume => {
                    let last: usize =
                        heard.header("last-event-id").map_or(0, |id| id.parse::<usize>().unwrap() + 1);
                    say(stream, &sse(last, true));
                }
                Knows::Repeats => say(stream, &sse(0, true)),
                Knows::Snapshot => {
                    let told = *told.lock().unwrap();
                    let first = json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": snapshot(told) } });
                    say(stream, &format!("data: {first}\n\n{}", sse(told, false)));
                }
                Knows::Nothing => drop(stream.write_all(&error(-32004, "no streams here"))),
            },
            (_, "GetTask") => drop(stream.write_all(&result(&snapshot(story().len())))),
            _ => drop(stream.write_all(&not_found())),
        }
    })
}

/// S20, T15–T18: wherever a stream breaks, and whatever its server supports, the client prints the
/// whole answer and each word once.
#[test]
fn a_stream_that_breaks_anywhere_goes_on_without_loss_and_without_repeat() {
    let world = world();
    // A seeded generator, so that a failure is reproducible.
    let mut seed = 0x2545_f491_u32;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed as usize % below
    };
    for knows in [Knows::Resume, Knows::Snapshot, Knows::Repeats, Knows::Nothing] {
        let whole = sse(0, matches!(knows, Knows::Resume | Knows::Repeats)).len();
        let first = sse(0, matches!(knows, Knows::Resume | Knows::Repeats)).find("\n\n").unwrap() + 2;
        for _ in 0..5 {
            let cut = first + next(whole - first);
            let stranger = cutting(knows, cut);
            let ran = world.synapse(&["send", &stranger.url(), "go", "--response", "--timeout", "60s"]);
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (Some(0), "one zwei 三\n"),
                "{knows:?} cut at {cut}: {ran}"
            );
            for step in ["step 1", "step 2"] {
                let times = ran.stderr.matches(step).count();
                // A server that cannot resume loses events, but the client never repeats any.
                let is_right = if knows == Knows::Nothing { times <= 1 } else { times == 1 };
                assert!(is_right, "{knows:?} cut at {cut}: {step} was told {times} times: {ran}");
            }
            let sent = stranger.methods().iter().filter(|method| *method == "SendStreamingMessage").count();
            assert_eq!(sent, 1, "{knows:?} cut at {cut}: the message was sent again");
        }
    }
    // Before the first event, nobody knows whether a task exists. The client says so and does
    // not send the message again.
    let stranger = cutting(Knows::Resume, 10);
    world.synapse(&["send", &stranger.url(), "go", "--response"]).fails(1, &["not known", "--message-id"]);
    assert_eq!(stranger.methods(), ["SendStreamingMessage"]);
}

/// A stream that repeats the current state and ends, again and again, is followed with backoff.
#[test]
fn a_server_that_only_repeats_itself_is_not_hurried() {
    let subscribed = Mutex::new(0_usize);
    let stranger = Stranger::writing(move |heard, port, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let say = |stream: &mut TcpStream, state: &str| {
            let event = json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task(state, text("done")) } });
            drop(stream.write_all(format!("{head}data: {event}\n\n").as_bytes()));
        };
        match (heard.path.as_str(), heard.method()) {
            (CARD, _) => drop(stream.write_all(&json_answer(&card(&here(port, "/rpc"), true)))),
            (_, "SendStreamingMessage") => say(stream, "TASK_STATE_WORKING"),
            (_, "SubscribeToTask") => {
                let mut subscribed = subscribed.lock().unwrap();
                *subscribed += 1;
                say(stream, if *subscribed < 6 { "TASK_STATE_WORKING" } else { "TASK_STATE_COMPLETED" });
            }
            (_, "GetTask") => drop(stream.write_all(&result(&task("TASK_STATE_COMPLETED", text("done"))))),
            _ => drop(stream.write_all(&not_found())),
        }
    });
    let began = Instant::now();
    let ran = world().synapse(&["send", &stranger.url(), "go", "--response", "--timeout", "60s"]);
    assert_eq!((ran.code, ran.out().as_str()), (Some(0), "done"), "{ran}");
    // 0.1, 0.2, 0.4, 0.8 and 1.6 s between the six.
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
}

/// L1–L3, V12: a server that supports only 0.3, over each of its bindings, with and without
/// streaming.
#[test]
fn a_server_of_03_is_spoken_to_in_03() {
    let world = world();
    let rpc = |streaming: bool| {
        Stranger::new(move |heard, port| {
            let old = |state: &str, text: Option<&str>| {
                let artifacts: Vec<Value> = text
                    .map(|text| json!({ "artifactId": "a", "parts": [{ "kind": "text", "text": text }] }))
                    .into_iter()
                    .collect();
                json!({ "kind": "task", "id": "t", "contextId": "c", "status": { "state": state }, "artifacts": artifacts })
            };
            match (heard.path.as_str(), heard.method()) {
                (CARD, _) => not_found(),
                ("/.well-known/agent.json", _) => json_answer(&json!({
                    "name": "Old", "url": here(port, "/"), "protocolVersion": "0.3.0", "capabilities": { "streaming": streaming },
                })),
                (_, "message/send") => {
                    assert_eq!(heard.body["params"]["message"]["kind"], "message");
                    assert_eq!(heard.body["params"]["configuration"]["blocking"], false);
                    result(&old("working", None))
                }
                (_, "tasks/get") => result(&old("completed", Some("of old"))),
                (_, "message/stream") => {
                    let end = json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "final": true, "status": { "state": "completed" } });
                    let events = [old("submitted", None), old("working", Some("of old")), end];
                    let text: String = events
                        .iter()
                        .map(|e| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": e })))
                        .collect();
                    answer("200 OK", "Content-Type: text/event-stream\r\n", &text)
                }
                _ => not_found(),
            }
        })
    };
    for (streaming, methods) in [(false, &["message/send", "tasks/get"][..]), (true, &["message/stream"])] {
        let stranger = rpc(streaming);
        assert_eq!(world.ok(&["send", &stranger.url(), "hello", "--response"]), "of old");
        assert_eq!(stranger.methods(), methods);
        let calls: Vec<Heard> =
            stranger.heard().into_iter().filter(|heard| !heard.method().is_empty()).collect();
        assert!(calls.iter().all(|heard| heard.header("a2a-version") == Some("0.3")), "{calls:?}");
    }
    let rest = Stranger::new(|heard, port| match (heard.verb.as_str(), heard.path.as_str()) {
        (_, CARD) => json_answer(&json!({
            "name": "Old", "url": here(port, "/a"), "protocolVersion": "0.3.0", "preferredTransport": "HTTP+JSON",
        })),
        ("POST", "/a/v1/message:send") => {
            assert_eq!(heard.body["message"]["content"], json!([{ "text": "hello" }]));
            json_answer(&json!({ "task": { "id": "t", "status": { "state": "TASK_STATE_SUBMITTED" } } }))
        }
        ("GET", "/a/v1/tasks/t") => json_answer(&json!({
            "id": "t", "status": { "state": "TASK_STATE_COMPLETED" }, "artifacts": [{ "artifactId": "a", "parts": [{ "text": "of rest" }] }],
        })),
        _ => not_found(),
    });
    assert_eq!(world.ok(&["send", &rest.url(), "hello", "--response"]), "of rest");
}
