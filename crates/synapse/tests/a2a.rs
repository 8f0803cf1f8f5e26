//! A2A 1.0 against a real node: each operation over each binding, and the errors for bad input.

use crate::grpc_client as grpc;
use crate::world;
use grpc::Client;
use serde_json::{Value, json};
use synapse_testkit::world::Agent;

const VERSION: (&str, &str) = ("A2A-Version", "1.0");

#[derive(Debug, Clone, Copy, PartialEq)]
enum Binding {
    Rpc,
    Rest,
    Grpc,
}

const BINDINGS: [Binding; 3] = [Binding::Rpc, Binding::Rest, Binding::Grpc];

impl Binding {
    /// Returns the result, or the error as `(JSON-RPC code, reason, whole error)`.
    fn call(self, agent: &Agent, operation: &str, params: &Value) -> Result<Value, (i64, String, Value)> {
        let answer = match self {
            Self::Rpc => {
                let call = json!({ "jsonrpc": "2.0", "id": 7, "method": operation, "params": params });
                agent.unix().ask("POST", "/api/v1/agent", &[VERSION], call.to_string().as_bytes())
            }
            Self::Rest => {
                let (method, path) = rest(operation, params);
                let body = if method == "POST" { params.to_string() } else { String::new() };
                agent.unix().ask(method, &path, &[VERSION], body.as_bytes())
            }
            Self::Grpc => {
                let called = Client::new(agent.unix(), &[VERSION]).call(operation, params);
                return called.map_err(|(reason, whole)| (0, reason, whole));
            }
        };
        let value = answer.json();
        match self {
            Self::Grpc => unreachable!("it has answered"),
            Self::Rpc => {
                assert_eq!(value["id"], 7, "{value}");
                match value.get("error") {
                    None => Ok(value["result"].clone()),
                    Some(error) => {
                        let reason = error["data"][0]["reason"].as_str().unwrap().to_owned();
                        Err((error["code"].as_i64().unwrap(), reason, error.clone()))
                    }
                }
            }
            Self::Rest if answer.status == 200 => Ok(value),
            Self::Rest => {
                let error = &value["error"];
                assert_eq!(error["code"], answer.status, "{value}");
                Err((0, error["details"][0]["reason"].as_str().unwrap().to_owned(), error.clone()))
            }
        }
    }

    /// Returns all events of a stream, with their ids.
    fn stream(
        self,
        agent: &Agent,
        operation: &str,
        params: &Value,
        last: Option<&str>,
    ) -> Vec<(String, Value)> {
        let mut headers = vec![VERSION];
        headers.extend(last.map(|id| ("Last-Event-ID", id)));
        let answer = match self {
            Self::Rpc => {
                let call = json!({ "jsonrpc": "2.0", "id": "s", "method": operation, "params": params });
                agent.unix().ask("POST", "/api/v1/agent", &headers, call.to_string().as_bytes())
            }
            Self::Rest => {
                let (method, path) = rest(operation, params);
                let body = if method == "POST" { params.to_string() } else { String::new() };
                agent.unix().ask(method, &path, &headers, body.as_bytes())
            }
            Self::Grpc => {
                return Client::new(agent.unix(), &[VERSION]).stream(operation, params, last).unwrap();
            }
        };
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.text());
        let mut events = Vec::new();
        let text = String::from_utf8_lossy(&answer.body);
        for block in text.split("\n\n").filter(|block| block.contains("data: ")) {
            let field = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{block}"))
            };
            let data: Value = serde_json::from_str(field("data: ")).unwrap();
            let inside = match self {
                Self::Rpc => {
                    assert_eq!((&data["jsonrpc"], &data["id"]), (&json!("2.0"), &json!("s")));
                    data["result"].clone()
                }
                Self::Rest | Self::Grpc => data,
            };
            events.push((field("id: ").to_owned(), inside));
        }
        events
    }
}

fn rest(operation: &str, params: &Value) -> (&'static str, String) {
    let id = params["id"].as_str().unwrap_or_default();
    match operation {
        "SendMessage" => ("POST", "/a2a/v1/message:send".into()),
        "SendStreamingMessage" => ("POST", "/a2a/v1/message:stream".into()),
        "GetTask" => {
            let length =
                params.get("historyLength").map(|n| format!("?historyLength={n}")).unwrap_or_default();
            ("GET", format!("/a2a/v1/tasks/{id}{length}"))
        }
        "CancelTask" => ("POST", format!("/a2a/v1/tasks/{id}:cancel")),
        "SubscribeToTask" => ("GET", format!("/a2a/v1/tasks/{id}:subscribe")),
        other => panic!("{other}"),
    }
}

/// A `SendMessage` that must be sent as JSON because protobuf cannot encode it.
const JSON_ONLY: &str = "SendMessage in JSON";

fn message(id: &str, text: &str) -> Value {
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

/// S1–S6, C1, C2, C5, C6, T1, T2, G11–G17, G21, G22: the answer arrives as an artifact, because a
/// message could be lost.
#[test]
fn a_message_is_answered_with_its_task_over_each_binding() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    for binding in BINDINGS {
        let mut asked = message(&format!("m {binding:?}/1"), "hello");
        asked["message"]["contextId"] = "our talk".into();
        let answer = binding.call(&agent, "SendMessage", &asked).unwrap();
        let task = &answer["task"];
        assert_eq!(state(task), "TASK_STATE_COMPLETED", "{task}");
        assert_eq!((task["contextId"].as_str(), task["status"].get("message")), (Some("our talk"), None));
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "HELLO", "{task}");
        assert_eq!(task["history"][0]["messageId"], format!("m {binding:?}/1"));
        assert!(task["status"]["timestamp"].as_str().unwrap().ends_with('Z'));
        let id = task["id"].as_str().unwrap();
        for other in BINDINGS {
            assert_eq!(
                &other.call(&agent, "GetTask", &json!({ "id": id })).unwrap(),
                task,
                "as {other:?} tells it"
            );
            let none = other.call(&agent, "GetTask", &json!({ "id": id, "historyLength": 0 })).unwrap();
            assert!(none.get("history").is_none(), "{none}");
        }
        // The same message sent again yields the same task.
        let again = binding.call(&agent, "SendMessage", &asked).unwrap();
        assert_eq!(&again["task"], task);
        // A message without a context gets one, and the next message may name it.
        let first = binding.call(&agent, "SendMessage", &message(&format!("a{binding:?}"), "a")).unwrap();
        let context = first["task"]["contextId"].as_str().unwrap();
        let mut next = message(&format!("b{binding:?}"), "b");
        next["message"]["contextId"] = context.into();
        let next = binding.call(&agent, "SendMessage", &next).unwrap();
        assert_eq!(next["task"]["contextId"], context);
        assert_ne!(next["task"]["id"], first["task"]["id"]);
    }
}

/// S1, T1: a caller that waits receives the task from its events, a later caller from disk. Both
/// see the same, however much output there was in between.
#[test]
fn what_is_told_at_the_end_is_what_is_kept() {
    let world = world();
    let script = "
for n in range(int(message['text'])): say('progress', text='step %d' % n)
say('artifact', artifact_id='d', name='rows', data={'rows': [1, 2]})
say('artifact', artifact_id='c', text='one ', last=False)
say('artifact', artifact_id='c', text='two' * int(message['text']) * 200, append=True, last=True)
say('completed', text='done')";
    let agent = world.run_lines("maker", script, &[]);
    for steps in ["1", "3", "1000"] {
        let answer = Binding::Rpc.call(&agent, "SendMessage", &message(&format!("m{steps}"), steps)).unwrap();
        let task = &answer["task"];
        assert_eq!(state(task), "TASK_STATE_COMPLETED", "{task}");
        let names: Vec<_> = task["artifacts"].as_array().unwrap().iter().map(|a| &a["artifactId"]).collect();
        assert_eq!(names[..2], [&json!("d"), &json!("c")], "{task}");
        let kept = Binding::Rpc.call(&agent, "GetTask", &json!({ "id": task["id"] })).unwrap();
        assert_eq!(&kept, task, "{steps} steps");
    }
}

/// C13: the docs say how long a context is kept.
#[test]
fn the_page_says_how_long_a_context_lives() {
    let page = include_str!("../../../docs/a2a.md");
    let said = page.lines().skip_while(|line| !line.starts_with("- **Contexts.**")).take(2);
    let said: String = said.collect::<Vec<_>>().join(" ");
    assert!(said.contains("as long as one of them is kept") && said.contains("`history.days`"), "{said}");
}

/// S4, S9, S10, C8, C9, C11, T12–T14, T18.
#[test]
fn a_task_that_asks_goes_on_and_one_that_works_is_canceled() {
    let world = world();
    let agent = world.run_lines(
        "asker",
        "if 'long' in message['text']:\n    hear()\nsay('input_required', text='which one?')\nsay('completed', text='you said ' + hear()['text'])",
        &[],
    );
    for binding in BINDINGS {
        let first = binding.call(&agent, "SendMessage", &message(&format!("q{binding:?}"), "go")).unwrap();
        let task = &first["task"];
        assert_eq!(state(task), "TASK_STATE_INPUT_REQUIRED", "{task}");
        assert_eq!(task["status"]["message"]["parts"][0]["text"], "which one?");
        let mut wrong = message(&format!("w{binding:?}"), "x");
        wrong["message"]["taskId"] = task["id"].clone();
        wrong["message"]["contextId"] = "another".into();
        let (_, reason, whole) = binding.call(&agent, "SendMessage", &wrong).unwrap_err();
        assert_eq!(reason, "INVALID_PARAMS", "{whole}");
        let mut more = message(&format!("r{binding:?}"), "the second");
        more["message"]["taskId"] = task["id"].clone();
        let done = binding.call(&agent, "SendMessage", &more).unwrap();
        assert_eq!(state(&done["task"]), "TASK_STATE_COMPLETED", "{done}");
        assert_eq!(done["task"]["artifacts"][0]["parts"][0]["text"], "you said the second");
        assert_eq!(done["task"]["history"].as_array().unwrap().len(), 2, "{done}");
        // An ended task accepts no more messages.
        let mut late = message(&format!("l{binding:?}"), "x");
        late["message"]["taskId"] = task["id"].clone();
        assert_eq!(binding.call(&agent, "SendMessage", &late).unwrap_err().1, "UNSUPPORTED_OPERATION");
        let ended = json!({ "id": task["id"] });
        assert_eq!(binding.call(&agent, "CancelTask", &ended).unwrap_err().1, "TASK_NOT_CANCELABLE");
        assert_eq!(binding.call(&agent, "SubscribeToTask", &ended).unwrap_err().1, "UNSUPPORTED_OPERATION");
        // A task that is working can be canceled.
        let mut long = message(&format!("n{binding:?}"), "long");
        long["configuration"] = json!({ "returnImmediately": true });
        let begun = binding.call(&agent, "SendMessage", &long).unwrap();
        assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&begun["task"])), "{begun}");
        let canceled = binding.call(&agent, "CancelTask", &json!({ "id": begun["task"]["id"] })).unwrap();
        assert_eq!(state(&canceled), "TASK_STATE_CANCELED", "{canceled}");
    }
}

/// S13–S16, S20, T15–T17, and resuming a broken stream.
#[test]
fn a_stream_tells_all_in_order_and_goes_on_from_any_place() {
    let world = world();
    let agent = world.run_lines(
        "steps",
        "say('progress', text='one')\nsay('artifact', artifact_id='log', text='a')\nsay('artifact', artifact_id='log', text='b', append=True, last=True)\nsay('completed', text='done')",
        &[],
    );
    for binding in BINDINGS {
        let asked = message(&format!("s{binding:?}"), "go");
        let events = binding.stream(&agent, "SendStreamingMessage", &asked, None);
        let task = events[0].1["task"].clone();
        assert!(task["id"].is_string(), "{events:?}");
        let rest = &events[1..];
        let (_, last) = rest.last().unwrap();
        assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{events:?}");
        let artifact = |event: &Value| {
            event["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str().map(str::to_owned)
        };
        let made: Vec<String> = rest.iter().filter_map(|(_, event)| artifact(event)).collect();
        assert_eq!(made, ["a", "b", "done"], "{events:?}");
        // Resuming after each event returns exactly the events that followed it.
        let id = json!({ "id": task["id"] });
        for (n, (mark, _)) in events.iter().enumerate() {
            let again = binding.stream(&agent, "SubscribeToTask", &id, Some(mark));
            assert_eq!(again, &events[n + 1..], "after {mark}");
        }
        // The same message sent again returns the ended task, and nothing after it.
        let again = binding.stream(&agent, "SendStreamingMessage", &asked, None);
        assert_eq!((again.len(), state(&again[0].1["task"])), (1, "TASK_STATE_COMPLETED"), "{again:?}");
        assert!(binding.stream(&agent, "SubscribeToTask", &id, Some(&again[0].0)).is_empty());
        // A restarted node still has the events.
        world.kill_node("steps");
        let agent = world.agent("steps");
        let again = binding.stream(&agent, "SubscribeToTask", &id, Some(&events[1].0));
        assert_eq!(again, &events[2..]);
    }
}

/// E1, E5, E6, J9, H6, V8, V9: each binding returns the specified error and names the bad field.
#[test]
fn bad_input_gets_its_error_over_each_binding() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let unknown = "0123456789abcdef0123456789abcdef";
    let mut elsewhere = message("e", "x");
    elsewhere["message"]["taskId"] = unknown.into();
    let mut video = message("p", "x");
    video["message"]["parts"][0] = json!({ "raw": "AAAA", "mediaType": "video/mp4" });
    let mut two = message("t", "x");
    two["message"]["parts"][0]["url"] = "https://example.org".into();
    let cases = [
        ("SendMessage", json!({}), "INVALID_PARAMS", Some("message")),
        (
            "SendMessage",
            json!({ "message": { "role": "ROLE_USER", "parts": [{ "text": "a" }] } }),
            "INVALID_PARAMS",
            Some("message.messageId"),
        ),
        (
            "SendMessage",
            json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [] } }),
            "INVALID_PARAMS",
            Some("message.parts"),
        ),
        (
            JSON_ONLY,
            json!({ "message": { "messageId": "m", "role": "ROLE_NOBODY", "parts": [{ "text": "a" }] } }),
            "INVALID_PARAMS",
            Some("message.role"),
        ),
        (JSON_ONLY, two, "INVALID_PARAMS", Some("message.parts[0]")),
        ("SendMessage", video, "CONTENT_TYPE_NOT_SUPPORTED", Some("message.parts[0]")),
        ("SendMessage", elsewhere, "TASK_NOT_FOUND", None),
        ("GetTask", json!({ "id": unknown }), "TASK_NOT_FOUND", None),
        ("GetTask", json!({ "id": "nonsense" }), "TASK_NOT_FOUND", None),
        ("GetTask", json!({ "id": unknown, "historyLength": -1 }), "INVALID_PARAMS", Some("historyLength")),
        ("CancelTask", json!({ "id": unknown }), "TASK_NOT_FOUND", None),
        ("SubscribeToTask", json!({ "id": unknown }), "TASK_NOT_FOUND", None),
    ];
    for binding in BINDINGS {
        for (operation, params, reason, field) in &cases {
            let operation = match (*operation, binding) {
                (JSON_ONLY, Binding::Grpc) => continue,
                (JSON_ONLY, _) => "SendMessage",
                (operation, _) => operation,
            };
            let (_, found, whole) = binding.call(&agent, operation, params).unwrap_err();
            assert_eq!(found, *reason, "{binding:?} {operation} {params}: {whole}");
            let details = whole.get("data").or(whole.get("details")).unwrap();
            let named = details.pointer("/1/fieldViolations/0/field").and_then(Value::as_str);
            assert_eq!(
                named.map(|name| name.starts_with(field.unwrap_or("?"))),
                field.map(|_| true),
                "{whole}"
            );
        }
    }
    // Malformed envelopes and unsupported versions.
    let rpc = |headers: &[(&str, &str)], body: &str| {
        let answer = agent.unix().ask("POST", "/api/v1/agent", headers, body.as_bytes()).json();
        answer["error"]["code"].as_i64().unwrap()
    };
    assert_eq!(rpc(&[VERSION], "{"), -32700);
    assert_eq!(rpc(&[VERSION], "[]"), -32600);
    assert_eq!(rpc(&[VERSION], r#"{"jsonrpc":"2.0","id":1,"method":"Nonsense"}"#), -32601);
    assert_eq!(rpc(&[("A2A-Version", "9.9")], r#"{"jsonrpc":"2.0","id":1,"method":"GetTask"}"#), -32009);
    let rest = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let answer = agent.unix().ask(method, path, headers, body.as_bytes());
        (answer.status, answer.json()["error"]["details"][0]["reason"].as_str().unwrap().to_owned())
    };
    let told = |status: u16, reason: &str| (status, reason.to_owned());
    assert_eq!(rest("POST", "/a2a/v1/message:send", &[VERSION], "{"), told(400, "JSON_PARSE_ERROR"));
    assert_eq!(rest("GET", "/a2a/v1/nowhere", &[VERSION], ""), told(404, "METHOD_NOT_FOUND"));
    assert_eq!(
        rest("GET", "/a2a/v1/tasks/x", &[("A2A-Version", "9.9")], ""),
        told(400, "VERSION_NOT_SUPPORTED")
    );
    let text = [VERSION, ("Content-Type", "text/html")];
    assert_eq!(rest("POST", "/a2a/v1/message:send", &text, "{}"), told(400, "CONTENT_TYPE_NOT_SUPPORTED"));
    assert_eq!(rest("GET", "/a2a/v1/tasks/x?A2A-Version=1.0", &[], ""), told(404, "TASK_NOT_FOUND"));
}

/// E2, E3, E21: an unauthenticated caller gets 401 in the form of each binding.
#[test]
fn who_proves_nothing_is_not_let_in() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": { "id": "x" } }).to_string();
    let answer = agent.tcp().ask("POST", "/api/v1/agent", &[VERSION], call.as_bytes());
    assert_eq!(
        (answer.status, answer.header("www-authenticate")),
        (401, Some("Bearer")),
        "{}",
        answer.text()
    );
    assert_eq!(answer.json()["error"]["data"][0]["reason"], "UNAUTHENTICATED", "{}", answer.text());
    let answer = agent.tcp().ask("GET", "/a2a/v1/tasks/x", &[VERSION], b"");
    assert_eq!(
        (answer.status, answer.header("www-authenticate")),
        (401, Some("Bearer")),
        "{}",
        answer.text()
    );
    assert_eq!(answer.json()["error"]["details"][0]["reason"], "UNAUTHENTICATED", "{}", answer.text());
    // A 0.3 request (no version header) gets the error as 0.3 defines it: without an envelope.
    let answer = agent.tcp().ask("GET", "/a2a/v1/tasks/x", &[], b"");
    assert_eq!((answer.status, answer.header("content-type")), (401, Some("application/json")));
    let told = answer.json();
    assert!(told["message"].is_string() && told.get("error").is_none(), "{}", answer.text());
    let grpc = |metadata: &[(&str, &str)]| {
        let called = Client::new(agent.tcp(), metadata).call("GetTask", &json!({ "id": "x" }));
        called.unwrap_err().0
    };
    assert_eq!(grpc(&[VERSION]), "UNAUTHENTICATED");
    assert_eq!(grpc(&[VERSION, ("Authorization", "Bearer nonsense")]), "UNAUTHENTICATED");
    let bearer = agent.bearer();
    let answer = agent.tcp().ask("GET", "/a2a/v1/tasks/x", &[VERSION, ("Authorization", &bearer)], b"");
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert_eq!(grpc(&[VERSION, ("Authorization", &bearer)]), "TASK_NOT_FOUND");
    assert_eq!(grpc(&[("Authorization", &bearer)]), "VERSION_NOT_SUPPORTED");
}

/// E4, E5, E8, T3: another caller's task is "not found", exactly like one that never existed.
#[test]
fn what_is_anothers_is_not_found() {
    let world = world();
    let shout = world.run("shout", "tr a-z A-Z", &[]);
    world.run("inner", &format!("{} send shout hi --json", world.exe().display()), &[]);
    let told = world.synapse(&["send", "inner", "go", "--response", "--json"]).json();
    let sent: Value = serde_json::from_str(told["answer"]["text"].as_str().unwrap()).unwrap();
    let id = sent["task_id"].as_str().unwrap_or_else(|| panic!("{sent}"));
    world.wait_until("it has ended", || shout.task(id)["state"] == "completed");
    for binding in BINDINGS {
        for operation in ["GetTask", "CancelTask", "SubscribeToTask"] {
            let (_, reason, whole) = binding.call(&shout, operation, &json!({ "id": id })).unwrap_err();
            assert_eq!(reason, "TASK_NOT_FOUND", "{operation}: {whole}");
            // The error must be identical to that for an unknown task, except for the id.
            let never = "0123456789abcdef0123456789abcdef";
            let (_, _, other) = binding.call(&shout, operation, &json!({ "id": never })).unwrap_err();
            assert_eq!(other.to_string().replace(never, id), whole.to_string(), "{operation}");
        }
        let mut more = message(&format!("x{binding:?}"), "x");
        more["message"]["taskId"] = id.into();
        assert_eq!(binding.call(&shout, "SendMessage", &more).unwrap_err().1, "TASK_NOT_FOUND");
    }
}
