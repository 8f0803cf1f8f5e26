//! The real binary as a caller of A2A agents: nodes of ours by their A2A doors, and strangers that do all kinds of things.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use synapse_a2a::signing::{self, Key};
use synapse_testkit::stranger::{Heard, Stranger, answer, error, json_answer, not_found, result};
use synapse_testkit::{Agent, World};

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_synapse"))
}

const CARD: &str = "/.well-known/agent-card.json";

fn card(url: &str, streaming: bool) -> Value {
    json!({
        "name": "Strange", "description": "does things", "version": "7", "skills": [{ "id": "echo" }],
        "capabilities": { "streaming": streaming },
        "supportedInterfaces": [{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
    })
}

fn here(port: u16, path: &str) -> String {
    format!("http://127.0.0.1:{port}{path}")
}

fn task(state: &str, artifacts: Value) -> Value {
    json!({ "id": "t/1", "contextId": "c", "status": { "state": state }, "artifacts": artifacts })
}

fn text(text: &str) -> Value {
    json!([{ "artifactId": "a", "parts": [{ "text": text }] }])
}

/// A9, V6, J4, CLI-8: what goes over the wire, and what is made of the answer; a stranger's words stay words.
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
    assert_eq!(params["metadata"], json!({ "priority": 5, "response_expected": true }));
    let told = world.json(&["send", &url, "hello", "--response"]);
    assert_eq!((&told["state"], &told["answer"]["text"]), (&json!("completed"), &json!("hi\u{1b}[2Jthere")));
    assert_eq!((&told["untrusted"], &told["task_id"]), (&json!(true), &json!("t/1")));
    // A message alone is an answer too, and leaves no task.
    let direct = Stranger::new(|heard, port| match heard.path.as_str() {
        CARD => json_answer(&card(&here(port, "/rpc"), false)),
        _ => result(
            &json!({ "message": { "messageId": "x", "role": "ROLE_AGENT", "parts": [{ "text": "at once" }] } }),
        ),
    });
    assert_eq!(world.ok(&["send", &direct.url(), "hello", "--response"]), "at once");
}

/// What a stranger does wrong is told, with what helps, and nothing hangs.
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
        (with_card(|| error(-32009, "only 2.0")), 5, &["only 2.0", "remote refresh"]),
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

/// E17: what never ends is ended.
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
    // One that never says anything is waited for as long as was said.
    let silent = Stranger::writing(|heard, port, stream| match heard.path.as_str() {
        CARD => drop(stream.write_all(&json_answer(&card(&here(port, "/rpc"), false)))),
        _ => drop(stream.read(&mut [0])),
    });
    world
        .synapse(&["send", &silent.url(), "x", "--response", "--timeout", "1s"])
        .fails(4, &["not known", "--message-id"]);
}

/// The events of one task, as a stream tells them.
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

/// What the task has come to after so many events.
fn snapshot(events: usize) -> Value {
    let texts = ["", "", "", "one ", "one ", "one zwei ", "one zwei 三", "one zwei 三"];
    let state = if events >= story().len() { "TASK_STATE_COMPLETED" } else { "TASK_STATE_WORKING" };
    let artifacts = if texts[events].is_empty() { json!([]) } else { text(texts[events]) };
    task(state, artifacts)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Knows {
    /// `Last-Event-ID`, and goes on behind it.
    Resume,
    /// Begins with the task as it is, then goes on; no ids.
    Snapshot,
    /// Repeats everything, with ids.
    Repeats,
    /// No subscribing at all.
    Nothing,
}

/// A stream that is cut at a byte, at first; afterwards it is whole.
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

/// S20, T15–T18: wherever a stream breaks, whatever its server can do: the whole answer, and each word once.
#[test]
fn a_stream_that_breaks_anywhere_goes_on_without_loss_and_without_repeat() {
    let world = world();
    // A generator of its own, so that a failure comes again.
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
                // What is not there to be told again is missed, never repeated.
                let is_right = if knows == Knows::Nothing { times <= 1 } else { times == 1 };
                assert!(is_right, "{knows:?} cut at {cut}: {step} was told {times} times: {ran}");
            }
            let sent = stranger.methods().iter().filter(|method| *method == "SendStreamingMessage").count();
            assert_eq!(sent, 1, "{knows:?} cut at {cut}: the message was sent again");
        }
    }
    // Before the first event nobody knows whether there is a task: it is said, and not sent again.
    let stranger = cutting(Knows::Resume, 10);
    world.synapse(&["send", &stranger.url(), "go", "--response"]).fails(1, &["not known", "--message-id"]);
    assert_eq!(stranger.methods(), ["SendStreamingMessage"]);
}

/// L1–L3: a server that has only 0.3, by each of its bindings, with and without streams.
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

/// E13: a token goes to the host it is for, in the way the card says, and nowhere else.
#[test]
fn a_token_is_shown_to_its_host_alone() {
    let world = world();
    let worker = Stranger::new(|_, _| result(&json!({ "task": task("TASK_STATE_COMPLETED", text("done")) })));
    let port = worker.port;
    let host = Stranger::new(move |heard, _| match heard.path.as_str() {
        CARD => {
            let mut card = card(&here(port, "/rpc"), false);
            card["securitySchemes"] =
                json!({ "k": { "apiKeySecurityScheme": { "location": "header", "name": "X-Key" } } });
            card["securityRequirements"] = json!([{ "schemes": { "k": { "list": [] } } }]);
            json_answer(&card)
        }
        _ => not_found(),
    });
    let secret = world.write("token", "s3cr3t\n");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (url, secret) = (host.url(), secret.display().to_string());
    let send = ["send", &url, "x", "--response", "--token-file", &secret];
    world.synapse(&send).fails(5, &["another host", &format!("--allow-host 127.0.0.1:{port}")]);
    assert!(worker.heard().is_empty());
    let allowed = format!("127.0.0.1:{port}");
    let ran = world.synapse(&[&send[..], &["--allow-host", &allowed]].concat()).ok();
    assert!(!ran.stderr.contains("s3cr3t"), "{ran}");
    assert_eq!(worker.heard()[0].header("x-key"), Some("s3cr3t"));
    assert!(
        host.heard().iter().all(|heard| heard.headers.iter().all(|(_, value)| !value.contains("s3cr3t")))
    );
    // What the environment has for nodes of Synapse is not for strangers.
    let mut command = world.command(&["send", &url, "x", "--response", "--allow-host", &allowed]);
    assert!(command.env("SYNAPSE_TOKEN_FILE", &secret).output().unwrap().status.success());
    assert_eq!(worker.heard()[1].header("x-key"), None);
    // A variable that was named is.
    let named = ["send", &url, "x", "--response", "--allow-host", &allowed, "--token-env", "STRANGE_TOKEN"];
    assert!(world.command(&named).env("STRANGE_TOKEN", "0ther").output().unwrap().status.success());
    assert_eq!(worker.heard()[2].header("x-key"), Some("0ther"));
    world.synapse(&named).fails(2, &["STRANGE_TOKEN", "no token"]);
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    world.synapse(&[&send[..], &["--allow-host", &allowed]].concat()).fails(2, &["open to other users"]);
}

/// A25: a card is asked for again when it is old, and only for what changed.
#[test]
fn a_remote_has_a_name_in_list_and_a_card_that_ages() {
    let world = world();
    let stranger = Stranger::new(|heard, port| match (heard.path.as_str(), heard.method()) {
        (CARD, _) if heard.header("if-none-match") == Some("\"v1\"") => {
            answer("304 Not Modified", "Cache-Control: max-age=60\r\n", "")
        }
        (CARD, _) => {
            let head = "Content-Type: application/json\r\nCache-Control: max-age=0\r\nETag: \"v1\"\r\n";
            answer("200 OK", head, &card(&here(port, "/rpc"), false).to_string())
        }
        (_, "SendMessage") => result(&json!({ "task": task("TASK_STATE_SUBMITTED", json!([])) })),
        (_, "GetTask") => result(&task("TASK_STATE_COMPLETED", text("later"))),
        (_, "CancelTask") => error(-32002, "too late"),
        (_, "ListTasks") => {
            result(&json!({ "tasks": [task("TASK_STATE_WORKING", json!([]))], "totalSize": 1 }))
        }
        _ => not_found(),
    });
    let url = stranger.url();
    assert!(world.ok(&["remote", "add", "odd", &url]).contains("JSONRPC 1.0"));
    world.synapse(&["remote", "add", "odd", &url]).fails(5, &["already", "remote remove odd"]);
    let listed = world.json(&["list"]);
    let row = &listed.as_array().unwrap()[0];
    assert_eq!(
        (&row["name"], &row["remote"], &row["endpoint"]),
        (&json!("odd"), &json!(true), &json!(url)),
        "{row}"
    );
    assert!(world.ok(&["list"]).contains("odd"));
    assert!(world.ok(&["remote", "list"]).contains("Strange"));
    // It was good for no time at all, and so is asked for again; the answer says that it is the same.
    let told = world.json(&["send", "odd", "hello"]);
    assert_eq!(
        stranger.heard().iter().filter(|heard| heard.header("if-none-match") == Some("\"v1\"")).count(),
        1
    );
    assert_eq!((&told["state"], &told["task"]), (&json!("submitted"), &json!("odd/t/1")), "{told}");
    let cards = |stranger: &Stranger| stranger.heard().iter().filter(|heard| heard.path == CARD).count();
    let before = cards(&stranger);
    world.ok(&["send", "odd", "hello"]);
    assert_eq!(cards(&stranger), before, "a fresh one is not asked for again");
    assert!(world.ok(&["status", "odd/t/1"]).contains("later"));
    assert!(world.ok(&["status", "t/1", "--at", &url]).contains("later"));
    assert!(world.ok(&["status", "odd"]).contains("odd/t/1 working"));
    world.synapse(&["cancel", "odd/t/1"]).fails(5, &["too late", "the task is over"]);
    world.synapse(&["cancel", "nobody/t"]).fails(5, &["no remote", "remote list"]);
    // A name means one.
    world.run("odd", "cat", &[]);
    world.synapse(&["send", "odd", "hello"]).fails(5, &["an agent here and a remote"]);
    world.run("cat", "cat", &[]);
    world.synapse(&["remote", "add", "cat", &url]).fails(5, &["an agent of this machine"]);
    world.ok(&["remote", "remove", "odd"]);
    world.synapse(&["remote", "show", "odd"]).fails(5, &["no remote"]);
    assert_eq!(world.json(&["remote", "list"]), json!([]));
}

/// A22, A23: the key of the first time is the key of every time, until the user says otherwise.
#[test]
fn a_card_signed_by_another_key_is_not_believed() {
    let world = world();
    let keys: Vec<Key> = (0..2).map(|_| Key::read(&Key::make().unwrap()).unwrap()).collect();
    let now = Arc::new(Mutex::new((Some(0_usize), false)));
    let (state, jwks) = (now.clone(), keys.iter().map(Key::jwks).collect::<Vec<_>>());
    let stranger = Stranger::new(move |heard, port| {
        let (signer, is_forged) = *state.lock().unwrap();
        match heard.path.as_str() {
            CARD => {
                let mut card = card(&here(port, "/rpc"), false);
                if let Some(n) = signer {
                    signing::sign(&mut card, &keys[n], &here(port, "/keys.json")).unwrap();
                }
                if is_forged {
                    card["description"] = "something else".into();
                }
                answer(
                    "200 OK",
                    "Content-Type: application/json\r\nCache-Control: no-store\r\n",
                    &card.to_string(),
                )
            }
            "/keys.json" => json_answer(&jwks[signer.unwrap_or(0)]),
            _ => result(&json!({ "task": task("TASK_STATE_COMPLETED", text("done")) })),
        }
    });
    let url = stranger.url();
    let shown = world.json(&["remote", "add", "signed", &url]);
    let first = shown["signed_by"].as_str().unwrap().to_owned();
    assert_eq!(world.ok(&["send", "signed", "x", "--response"]), "done");
    for (signer, is_forged, words) in [
        (Some(1), false, "another key"),
        (None, false, "not signed any more"),
        (Some(0), true, "changed after it was signed"),
    ] {
        *now.lock().unwrap() = (signer, is_forged);
        world.synapse(&["send", "signed", "x", "--response"]).fails(5, &[words]);
        world.synapse(&["send", &url, "x", "--response"]).fails(5, &[words]);
        world.synapse(&["remote", "add", "again", &url]).fails(5, &[words]);
    }
    *now.lock().unwrap() = (Some(1), false);
    let ran = world.synapse(&["send", "signed", "x"]).fails(5, &["remote refresh signed --accept-key"]);
    assert_eq!(stranger.methods().len(), 1, "{ran}");
    let shown = world.json(&["remote", "refresh", "signed", "--accept-key"]);
    assert_ne!(shown["signed_by"].as_str().unwrap(), first);
    assert_eq!(world.ok(&["send", "signed", "x", "--response"]), "done");
}

/// A card for a node of ours, on a server of its own.
fn card_for(agent: &Agent, binding: &str) -> Stranger {
    let path = if binding == "JSONRPC" { "/api/v1/agent" } else { "/a2a/v1" };
    let interface = json!({
        "url": format!("http://127.0.0.1:{}{path}", agent.port), "protocolBinding": binding, "protocolVersion": "1.0",
    });
    Stranger::new(move |_, _| {
        json_answer(
            &json!({ "name": "ours", "capabilities": { "streaming": true }, "supportedInterfaces": [interface] }),
        )
    })
}

/// All that a caller does, with a node of ours by each binding: it streams, asks, goes on, is canceled, and is restarted
/// in the middle.
#[test]
fn a_node_of_ours_by_its_a2a_doors() {
    let world = world();
    let agent = world.run_lines(
        "asker",
        "if 'long' in message['text']:\n    say('progress', text='begun')\n    hear()\n\
         if 'ask' in message['text']:\n    say('input_required', text='which one?')\n    say('completed', text='you said ' + hear()['text'])\n\
         else:\n    say('progress', text='half way')\n    say('completed', text='all of ' + message['text'])",
        &["--parallel", "4"],
    );
    let token = world.home().join("token").display().to_string();
    let allowed = format!("127.0.0.1:{}", agent.port);
    for (binding, name) in [("JSONRPC", "by-rpc"), ("HTTP+JSON", "by-rest")] {
        let host = card_for(&agent, binding);
        world.ok(&["remote", "add", name, &host.url(), "--token-file", &token, "--allow-host", &allowed]);
        let ran = world.synapse(&["send", name, "it", "--response"]).ok();
        assert_eq!(ran.stdout, "all of it\n", "{ran}");
        assert_eq!(ran.stderr.matches("half way").count(), 1, "{ran}");

        let asked = world.synapse(&["send", name, "ask", "--response", "--json"]).exits(5);
        let told: Value = serde_json::from_str(asked.stdout.trim()).unwrap();
        assert_eq!(
            (&told["state"], &told["why"]),
            (&json!("input-required"), &json!("which one?")),
            "{asked}"
        );
        let id = told["task_id"].as_str().unwrap();
        assert_eq!(
            world.ok(&["send", name, "the second", "--task", id, "--response"]),
            "you said the second"
        );
        world.synapse(&["send", name, "more", "--task", id, "--response"]).fails(5, &["the task is over"]);

        let told = world.json(&["send", name, "long", "--wait-for", "seen"]);
        assert_eq!(told["state"], "working", "{told}");
        let task = told["task"].as_str().unwrap();
        assert!(world.ok(&["status", name]).contains(task));
        assert_eq!(world.ok(&["cancel", task]), format!("task {task} is canceled"));
        world.synapse(&["cancel", task]).fails(5, &["the task is over"]);
        world.synapse(&["cancel", &format!("{name}/nothing")]).fails(5, &["no such task"]);
    }
    // By its own URL it is a node of Synapse, as before.
    let own = format!("http://127.0.0.1:{}", agent.port);
    let told = world.json(&["send", &own, "it", "--response", "--token-file", &token]);
    assert_eq!((&told["state"], told.get("untrusted")), (&json!("completed"), None), "{told}");
}

/// A node that dies in the middle of a stream is waited for, and nothing is lost.
#[test]
fn a_stream_outlives_the_node_that_it_came_from() {
    let world = world();
    let gate = world.file("gate");
    let script = format!(
        "import os, time\nfor n in range(3):\n    say('progress', text='step %d' % n)\nwhile not os.path.exists({:?}):\n    time.sleep(0.02)\n\
         for n in range(3, 6):\n    say('progress', text='step %d' % n)\nsay('completed', text='whole')",
        gate.display().to_string()
    );
    let agent = world.run_lines("slow", &script, &[]);
    let token = world.home().join("token").display().to_string();
    let allowed = format!("127.0.0.1:{}", agent.port);
    let host = card_for(&agent, "JSONRPC");
    world.ok(&["remote", "add", "far", &host.url(), "--token-file", &token, "--allow-host", &allowed]);
    let mut sending = world.command(&["send", "far", "go", "--response", "--timeout", "60s"]);
    let file = |name: &str| File::create(world.file(name)).unwrap();
    let mut sending = sending.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    world.wait_until("it has told of three steps", || world.read("err").contains("step 2"));
    // The line that is just being stored may be told twice by its node; it is not the stream that is looked at here.
    world.wait_until("the node has noted how far it has read", || {
        let runs = std::fs::read_dir(world.agent_dir(&agent.id).join("runs")).unwrap().flatten();
        let number =
            |path: std::path::PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        runs.map(|run| run.path()).any(|run| {
            let size = run.join("out").metadata().map(|out| out.len()).ok();
            size.is_some_and(|size| size > 0 && number(run.join("read")) == Some(size))
        })
    });
    world.kill_node("slow");
    world.wait_until("the next node runs", || {
        world.entry("slow").is_some_and(|entry| entry["node_pid"].as_u64() != Some(agent.node_pid.into()))
    });
    std::fs::write(&gate, "").unwrap();
    assert!(sending.wait().unwrap().success(), "{}", world.read("err"));
    assert_eq!(world.read("out"), "whole\n");
    for n in 0..6 {
        assert_eq!(world.read("err").matches(&format!("step {n}")).count(), 1, "{}", world.read("err"));
    }
}
