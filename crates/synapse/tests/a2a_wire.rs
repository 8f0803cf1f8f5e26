//! A2A as a plain HTTP client sees it: headers, content types, envelopes, and access control.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::world::Agent;

const VERSION: (&str, &str) = ("A2A-Version", "1.0");
const RPC: &str = "/api/v1/agent";
const UNKNOWN: &str = "0123456789abcdef0123456789abcdef";

fn rpc(agent: &Agent, method: &str, params: &Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    agent.unix().ask("POST", RPC, &[VERSION], call.as_bytes()).json()
}

fn message(id: &str, text: &str) -> Value {
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

fn reason(answer: &Value) -> &str {
    answer["error"]["data"][0]["reason"].as_str().unwrap_or_else(|| panic!("no reason in {answer}"))
}

/// J1, J3, J7: JSON in, JSON out, the version header in any case, and typed details in every error.
#[test]
fn json_rpc_on_the_wire() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("m", "a") })
        .to_string();
    for spelled in ["A2A-Version", "a2a-version", "A2a-vERSION"] {
        let headers = [(spelled, "1.0"), ("Content-Type", "application/json")];
        let answer = agent.unix().ask("POST", RPC, &headers, call.as_bytes());
        assert_eq!(answer.status, 200, "{spelled}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(
            answer.json()["result"]["task"]["status"]["state"],
            "TASK_STATE_COMPLETED",
            "{}",
            answer.text()
        );
    }
    for (method, params) in [
        ("GetTask", json!({ "id": UNKNOWN })),
        ("SendMessage", json!({})),
        ("ListTasks", json!({ "pageSize": 1000 })),
        ("Nonsense", json!({})),
    ] {
        let answer = rpc(&agent, method, &params);
        let error = &answer["error"];
        assert!(error["code"].is_i64() && !error["message"].as_str().unwrap().is_empty(), "{answer}");
        let details = error["data"].as_array().unwrap_or_else(|| panic!("{answer}"));
        assert!(!details.is_empty() && details.iter().all(|one| one["@type"].is_string()), "{answer}");
    }
}

/// H1, H3, H8: both media types are accepted, the answer has the protocol's own, and errors are
/// JSON too.
#[test]
fn http_json_on_the_wire() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    for (n, taken) in
        ["application/a2a+json", "application/json", "application/a2a+json; charset=utf-8"].iter().enumerate()
    {
        let headers = [("a2a-VERSION", "1.0"), ("Content-Type", *taken)];
        let body = message(&format!("m{n}"), "a").to_string();
        let answer = agent.unix().ask("POST", "/a2a/v1/message:send", &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{taken}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/a2a+json"), "{taken}");
    }
    let answer = agent.unix().ask("GET", &format!("/a2a/v1/tasks/{UNKNOWN}"), &[VERSION], b"");
    let given = answer.header("content-type").unwrap_or_default();
    assert!(answer.status == 404 && given.contains("json"), "{given}: {}", answer.text());
    assert_eq!(answer.json()["error"]["code"], 404);
}

/// J6: SubscribeToTask streams whole responses with the id of the request, and ends with the task.
#[test]
fn a_subscription_over_json_rpc() {
    let world = world();
    let agent = world.run_lines(
        "asker",
        "say('input_required', text='?')\nsay('completed', text=hear()['text'])",
        &[],
    );
    let asked = rpc(&agent, "SendMessage", &message("q", "go"));
    let task = asked["result"]["task"]["id"].as_str().unwrap();
    let call =
        json!({ "jsonrpc": "2.0", "id": "sub", "method": "SubscribeToTask", "params": { "id": task } })
            .to_string();
    let mut stream = agent.unix().connect();
    stream.say(&agent.unix().head("POST", RPC, &[VERSION], Some(call.len())));
    stream.say(&call);
    let mut more = message("r", "this");
    more["message"]["taskId"] = task.into();
    assert_eq!(
        rpc(&agent, "SendMessage", &more)["result"]["task"]["status"]["state"],
        "TASK_STATE_COMPLETED"
    );
    let answer = stream.answer();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert!(events.iter().all(|event| event["jsonrpc"] == "2.0" && event["id"] == "sub"), "{text}");
    assert_eq!(events[0]["result"]["task"]["id"], task, "{text}");
    let last = &events.last().unwrap()["result"]["statusUpdate"]["status"]["state"];
    assert_eq!(last, "TASK_STATE_COMPLETED", "{text}");
}

/// S12, C7, C12, E19: a repeated message opens no second task, unknown task ids are refused,
/// references are kept, and malformed parts are refused.
#[test]
fn what_a_message_may_name() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let first = rpc(&agent, "SendMessage", &message("same", "a"))["result"]["task"].clone();
    assert_eq!(rpc(&agent, "SendMessage", &message("same", "a"))["result"]["task"]["id"], first["id"]);
    let mut related = message("related", "b");
    related["message"]["referenceTaskIds"] = json!([first["id"]]);
    let task = rpc(&agent, "SendMessage", &related)["result"]["task"].clone();
    assert_eq!(task["history"][0]["referenceTaskIds"], json!([first["id"]]), "{task}");
    let mut own = message("own", "c");
    own["message"]["taskId"] = "00000000000000000000000000000001".into();
    assert_eq!(reason(&rpc(&agent, "SendMessage", &own)), "TASK_NOT_FOUND");
    for part in [
        json!({ "text": 5 }),
        json!({ "raw": "no base64!" }),
        json!({ "url": {} }),
        json!("text"),
        json!(null),
    ] {
        let mut bad = message("bad", "d");
        bad["message"]["parts"] = json!([part]);
        assert_eq!(reason(&rpc(&agent, "SendMessage", &bad)), "INVALID_PARAMS", "{part}");
    }
    let listed = rpc(&agent, "ListTasks", &json!({}));
    assert_eq!(listed["result"]["totalSize"], 2, "{listed}");
}

/// E7, E9, E10: another caller's task is unknown to every operation, including those on webhooks.
#[test]
fn nobody_reaches_the_task_of_another() {
    let world = world();
    let shout = world.run("shout", "tr a-z A-Z", &[]);
    world.run("inner", &format!("{} send shout hi --json", world.exe().display()), &[]);
    let told = world.synapse(&["send", "inner", "go", "--response", "--json"]).json();
    let sent: Value = serde_json::from_str(told["answer"]["text"].as_str().unwrap()).unwrap();
    let id = sent["task_id"].as_str().unwrap_or_else(|| panic!("{sent}"));
    world.wait_until("it has ended", || shout.task(id)["state"] == "completed");
    let mut more = message("more", "x");
    more["message"]["taskId"] = id.into();
    let config = json!({ "taskId": id, "id": "mine" });
    let hook = json!({ "taskId": id, "url": "https://hooks.example.org/" });
    for (method, params) in [
        ("SendMessage", &more),
        ("SendStreamingMessage", &more),
        ("GetTask", &json!({ "id": id })),
        ("CancelTask", &json!({ "id": id })),
        ("SubscribeToTask", &json!({ "id": id })),
        ("CreateTaskPushNotificationConfig", &hook),
        ("GetTaskPushNotificationConfig", &config),
        ("ListTaskPushNotificationConfigs", &json!({ "taskId": id })),
        ("DeleteTaskPushNotificationConfig", &config),
    ] {
        let answer = rpc(&shout, method, params);
        assert_eq!(reason(&answer), "TASK_NOT_FOUND", "{method}: {answer}");
    }
    let listed = rpc(&shout, "ListTasks", &json!({}));
    assert!(!listed.to_string().contains(id), "{listed}");
}

/// E18: no secret of a caller or a webhook appears in a log.
#[test]
fn no_secret_is_in_a_log() {
    let world = world();
    world.ok(&["config", "set", "network.push_private", "true"]);
    let agent = world.run_lines(
        "asker",
        "say('input_required', text='?')\nsay('completed', text=hear()['text'])",
        &[],
    );
    let bearer = agent.bearer();
    let call = |method: &str, params: &Value, bearer: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        agent.tcp().ask("POST", RPC, &[VERSION, ("Authorization", bearer)], body.as_bytes())
    };
    let task = call("SendMessage", &message("m", "go"), &bearer).json()["result"]["task"].clone();
    let hook = json!({ "taskId": task["id"], "url": "http://127.0.0.1:8/", "token": "the-token-of-a-hook",
        "authentication": { "scheme": "Bearer", "credentials": "the-login-of-a-hook" } });
    call("CreateTaskPushNotificationConfig", &hook, &bearer);
    let refused = call("GetTask", &json!({ "id": task["id"] }), "Bearer the-guess-of-a-stranger");
    assert_eq!(refused.status, 401, "{}", refused.text());
    let token = bearer.strip_prefix("Bearer ").unwrap();
    let secrets = [token, "the-token-of-a-hook", "the-login-of-a-hook", "the-guess-of-a-stranger"];
    let mut read = 0;
    for folder in std::fs::read_dir(world.home().join("agents")).unwrap().flatten() {
        let audit = std::fs::read_dir(folder.path().join("audit")).into_iter().flatten().flatten();
        let files = audit.map(|file| file.path()).chain([folder.path().join("log")]);
        for bytes in files.filter_map(|file| std::fs::read(file).ok()) {
            let text = String::from_utf8_lossy(&bytes);
            read += text.lines().count();
            for secret in secrets {
                assert!(!text.contains(secret), "{secret} is in\n{text}");
            }
        }
    }
    assert!(read > 0, "there is a log\n{}", world.show());
}

/// E6: missing params, or a message with the role "agent", are invalid params, and the error names
/// the field. In 0.3 too. Finding A8.
#[test]
fn missing_params_are_invalid_params() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let ask = |version: &str, method: &str, params: Option<Value>| {
        let mut call = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
        if let Some(params) = params {
            call["params"] = params;
        }
        let answer = agent.unix().ask("POST", RPC, &[("A2A-Version", version)], call.to_string().as_bytes());
        answer.json()["error"].clone()
    };
    let methods = [
        ("1.0", "SendMessage", "message"),
        ("1.0", "SendStreamingMessage", "message"),
        ("1.0", "GetTask", "id"),
        ("1.0", "CancelTask", "id"),
        ("1.0", "SubscribeToTask", "id"),
        ("1.0", "CreateTaskPushNotificationConfig", "taskId"),
        ("1.0", "GetTaskPushNotificationConfig", "taskId"),
        ("1.0", "ListTaskPushNotificationConfigs", "taskId"),
        ("1.0", "DeleteTaskPushNotificationConfig", "taskId"),
        ("0.3", "message/send", "message"),
        ("0.3", "message/stream", "message"),
        ("0.3", "tasks/get", "id"),
        ("0.3", "tasks/cancel", "id"),
        ("0.3", "tasks/resubscribe", "id"),
        ("0.3", "tasks/pushNotificationConfig/set", ""),
        ("0.3", "tasks/pushNotificationConfig/get", ""),
        ("0.3", "tasks/pushNotificationConfig/list", ""),
        ("0.3", "tasks/pushNotificationConfig/delete", ""),
    ];
    for (version, method, field) in methods {
        for params in [None, Some(json!({}))] {
            let error = ask(version, method, params);
            assert_eq!(error["code"], -32602, "{version} {method}: {error}");
            assert!(error["message"].as_str().unwrap().contains(field), "{version} {method}: {error}");
        }
    }
    let mut from_agent = message("m", "a");
    from_agent["message"]["role"] = "ROLE_AGENT".into();
    let error = ask("1.0", "SendMessage", Some(from_agent));
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error.to_string().contains("message.role"), "{error}");
    let part = json!({ "kind": "text", "text": "a" });
    let old = json!({ "message": { "kind": "message", "messageId": "m", "role": "agent", "parts": [part] } });
    assert_eq!(ask("0.3", "message/send", Some(old))["code"], -32602);
}

/// Finding A8: a web page may call only if the user's settings list exactly its origin. The list is
/// empty by default. Preflights need no token, requests do.
#[test]
fn only_listed_origins_may_call_from_a_browser() {
    const PAGE: &str = "https://app.example.org";
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let door = agent.tcp();
    let preflight = |origin: &str, path: &str| {
        let wanted = [("Origin", origin), ("Access-Control-Request-Method", "POST")];
        door.ask("OPTIONS", path, &wanted, b"")
    };
    let paths = [RPC, "/a2a/v1/message:send", "/message", "/status", "/.well-known/agent-card.json"];
    for path in paths {
        let answer = preflight(PAGE, path);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None), "{path}");
    }
    world.ok(&["config", "set", "network.origins", "https://app.example.org,http://localhost:3000"]);
    world.wait_until("the settings are read", || preflight(PAGE, RPC).status == 204);
    for path in paths {
        let answer = preflight(PAGE, path);
        assert_eq!(answer.status, 204, "{path}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE), "{path}");
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        assert!(answer.header("vary").is_some_and(|vary| vary.contains("Origin")), "{path}");
        let allowed = answer.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
        assert!(allowed.contains("authorization") && allowed.contains("a2a-version"), "{allowed}");
    }
    let bearer = agent.bearer();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("m", "a") });
    let send = |origin: &str, token: &str| {
        let headers = [VERSION, ("Origin", origin), ("Authorization", token)];
        door.ask("POST", RPC, &headers, call.to_string().as_bytes())
    };
    let answer = send(PAGE, &bearer);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(PAGE)));
    // The page may read the error too.
    let answer = send(PAGE, "Bearer wrong");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (401, Some(PAGE)));
    let others = [
        "https://app.example.org.evil.example",
        "https://evil.example",
        "http://app.example.org",
        "null",
        "https://app.example.org:8443",
        "https://APP.example.org",
        "*",
        "https://app.example.or",
    ];
    for other in others {
        let answer = send(other, &bearer);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None), "{other}");
        assert_eq!(preflight(other, RPC).status, 403, "{other}");
    }
    // A project's settings cannot allow origins.
    world.ok(&["config", "unset", "network.origins"]);
    std::fs::create_dir_all(world.folder().join(".synapse")).unwrap();
    world.write(".synapse/settings.json", r#"{"network": {"origins": ["https://app.example.org"]}}"#);
    world.wait_until("the list is gone", || preflight(PAGE, RPC).status == 403);
}
