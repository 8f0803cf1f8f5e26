//! The HTTP API of a node, over both sockets: access control, routes and headers.

use crate::world;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use synapse_testkit::http::Events;
use synapse_testkit::{Agent, World};

fn shout(world: &World) -> Agent {
    world.run("shout", "tr a-z A-Z", &[])
}

#[test]
fn without_a_token_only_the_status_is_shown_and_not_all_of_it() {
    let world = world();
    let busy =
        world.run("busy", "cat > begun; while [ ! -e go ]; do sleep 0.02; done", &["--role", "Developer"]);
    world.send("busy", "secret plan", &[]);
    world.wait_until("it works", || busy.get("/status").json()["status"] == "busy");
    let status = busy.tcp().ask("GET", "/status", &[], b"").json();
    assert_eq!((status["agentName"].as_str(), status["role"].as_str()), (Some("busy"), Some("Developer")));
    assert_eq!(status["status"], "busy");
    assert_eq!((&status["context"], &status["currentTask"]), (&Value::Null, &Value::Null), "{status}");
    let known = busy.tcp().ask("GET", "/status", &[("Authorization", &busy.bearer())], b"").json();
    assert!(known["context"].is_string() && known["currentTask"].is_string(), "{known}");
    let known = busy.get("/status").json();
    assert!(known["context"].is_string() && known["currentTask"].is_string(), "{known}");
    for path in ["/healthz", "/openapi.json"] {
        assert_eq!(busy.tcp().ask("GET", path, &[], b"").status, 200, "{path}");
    }
}

const CLOSED: [(&str, &str); 11] = [
    ("POST", "/message"),
    ("GET", "/api/v1/inbox"),
    ("GET", "/api/v1/inbox/stream"),
    ("POST", "/api/v1/inbox/report"),
    ("GET", "/api/v1/receipts/x"),
    ("GET", "/api/v1/tasks"),
    ("GET", "/api/v1/tasks/0123abcd"),
    ("POST", "/api/v1/tasks/0123abcd/cancel"),
    ("GET", "/api/v1/events"),
    ("POST", "/api/v1/stop"),
    ("GET", "/metrics"),
];

#[test]
fn everything_else_needs_the_token() {
    let world = world();
    let shout = shout(&world);
    let refused = |method: &str, path: &str, token: &str| {
        let answer = shout.tcp().ask(method, path, &[("Authorization", token)], b"{\"message\":\"hi\"}");
        assert_eq!(answer.status, 401, "{method} {path} with {token:?}: {}", answer.text());
        assert_eq!(answer.code(), "not_proven");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    };
    let wrong = format!("Bearer {}", "0".repeat(64));
    for (method, path) in CLOSED {
        refused(method, path, "");
        refused(method, path, &wrong);
    }
    let almost = shout.bearer().replacen("Bearer", "bearer ", 1);
    for token in ["Bearer ", "Bearer", "Basic dXNlcg==", almost.as_str(), &shout.bearer()[..40]] {
        refused("POST", "/message", token);
    }
    let body = json!({ "message": "hi", "response_expected": true }).to_string();
    let right = shout.tcp().ask("POST", "/message", &[("Authorization", &shout.bearer())], body.as_bytes());
    assert_eq!(right.status, 200, "{}", right.text());
    assert_eq!(right.json()["status"], "stored");
}

#[test]
fn requests_that_a_web_page_could_make_are_refused() {
    let world = world();
    let shout = shout(&world);
    let (bearer, port) = (shout.bearer(), shout.port);
    let evil_host = format!("evil.example:{port}");
    let other_port = format!("localhost:{}", port.wrapping_add(1));
    let hosts = [
        "evil.example",
        evil_host.as_str(),
        other_port.as_str(),
        "localhost",
        "localhost.evil.example",
        "127.0.0.1",
    ];
    for host in hosts {
        for (method, path) in [("GET", "/status"), ("POST", "/message")] {
            let headers = [("Host", host), ("Authorization", bearer.as_str())];
            let answer = shout.tcp().ask(method, path, &headers, b"{\"message\":\"hi\"}");
            assert_eq!((answer.status, answer.code().as_str()), (403, "bad_origin"), "{host} {path}");
        }
    }
    let origins = [
        "http://evil.example",
        "null",
        "https://localhost",
        "http://localhost",
        "file://",
        "http://localhost:1",
    ];
    for origin in origins {
        for (method, path) in [("GET", "/status"), ("POST", "/message")] {
            let headers = [("Origin", origin), ("Authorization", bearer.as_str())];
            let answer = shout.tcp().ask(method, path, &headers, b"{\"message\":\"hi\"}");
            assert_eq!((answer.status, answer.code().as_str()), (403, "bad_origin"), "{origin} {path}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    let mut without = shout.tcp().connect();
    without.say("GET /status HTTP/1.1\r\n\r\n");
    assert_eq!(without.answer().status, 403, "no Host at all");
    for own in [format!("localhost:{port}"), format!("127.0.0.1:{port}")] {
        let origin = format!("http://{own}");
        let headers = [("Host", own.as_str()), ("Origin", origin.as_str())];
        assert_eq!(shout.tcp().ask("GET", "/status", &headers, b"").status, 200, "{own}");
    }
    assert_eq!(world.json(&["inbox", "shout"])["messages"], json!([]));
}

/// Finding L19: a request must name its host unambiguously, or it is refused.
#[test]
fn two_hosts_or_an_address_that_names_another_host_are_refused() {
    let world = world();
    let shout = shout(&world);
    let (own, bearer) = (shout.tcp().host(), shout.bearer());
    let ask = |lines: &str| {
        let mut connection = shout.tcp().connect();
        connection.say(&format!("{lines}Authorization: {bearer}\r\n\r\n"));
        connection.answer().status
    };
    let table = [
        (format!("GET /status HTTP/1.1\r\nHost: {own}\r\n"), 200),
        (format!("GET http://{own}/status HTTP/1.1\r\nHost: {own}\r\n"), 200),
        (format!("GET /status HTTP/1.1\r\nHost: {own}\r\nHost: {own}\r\n"), 400),
        (format!("GET /status HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\n"), 400),
        (format!("GET http://evil.example/status HTTP/1.1\r\nHost: {own}\r\n"), 400),
        (format!("GET http://user@{own}/status HTTP/1.1\r\nHost: {own}\r\n"), 400),
        (format!("GET http://{own}/status HTTP/1.1\r\nHost: evil.example\r\n"), 400),
        ("GET http://evil.example/status HTTP/1.1\r\nHost: evil.example\r\n".to_owned(), 403),
        (format!("GET http://{own}/status HTTP/1.1\r\n"), 400),
    ];
    for (lines, status) in table {
        assert_eq!(ask(&lines), status, "{lines}");
    }
    let mut unix = shout.unix().connect();
    unix.say("GET /status HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n");
    assert_eq!(unix.answer().status, 400);
}

/// Finding L19: if a header is given twice, a proxy in front may have checked the other one.
#[test]
fn two_headers_that_say_who_calls_are_refused() {
    let world = world();
    let shout = shout(&world);
    let (own, bearer) = (shout.tcp().host(), shout.bearer());
    let paths = ["/status", "/api/v1/tasks", "/a2a", "/a2a/v1/tasks", "/.well-known/agent-card.json"];
    let origin = format!("http://{own}");
    let table = [
        ("Authorization", [bearer.as_str(), &bearer]),
        ("Authorization", [&bearer, "Bearer x"]),
        ("Authorization", ["Bearer x", &bearer]),
        ("authorization", [&bearer, "Basic eDp5"]),
        ("Origin", [&origin, &origin]),
        ("Origin", [&origin, "http://evil.example"]),
        ("Origin", ["http://evil.example", &origin]),
        (synapse_peer::VIA, ["post", synapse_peer::VIA_OUTBOX]),
    ];
    for (name, [first, second]) in table {
        for (door, path) in [shout.tcp(), shout.unix()].iter().flat_map(|door| paths.map(|path| (door, path)))
        {
            let headers = [(name, first), (name, second)];
            let told = door.ask("GET", path, &headers, b"");
            assert_eq!(told.status, 400, "{path} with {headers:?}: {}", told.text());
            let said = told.text();
            assert!(said.contains("there are 2 of them; send one"), "{said}");
            assert!(said.to_lowercase().contains(&name.to_lowercase()), "{said}");
        }
    }
    let lengths = [("Content-Length", "2"), ("Content-Length", "3"), ("Authorization", &bearer)];
    assert_eq!(shout.tcp().ask("POST", "/message", &lengths, b"{} ").status, 400);
}

/// Finding L19: this includes errors, streams and unknown routes.
#[test]
fn every_answer_tells_browsers_not_to_sniff_share_or_keep_it() {
    let world = world();
    let shout = shout(&world);
    let bearer = shout.bearer();
    let asked = [
        ("GET", "/status", bearer.as_str(), 200),
        ("GET", "/metrics", &bearer, 200),
        ("GET", "/api/v1/inbox", &bearer, 200),
        ("GET", "/nowhere", &bearer, 404),
        ("DELETE", "/status", &bearer, 405),
        ("GET", "/api/v1/inbox", "", 401),
        ("POST", "/message", &bearer, 400),
        ("GET", "/.well-known/agent-card.json", "", 200),
    ];
    for (method, path, bearer, status) in asked {
        let answer = shout.tcp().ask(method, path, &[("Authorization", bearer)], b"");
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{method} {path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{method} {path}");
        let kept = if path.contains("well-known") { "max-age" } else { "no-store" };
        assert!(answer.header("cache-control").is_some_and(|told| told.contains(kept)), "{method} {path}");
    }
    let evil = shout.tcp().ask("GET", "/status", &[("Host", "evil.example")], b"");
    assert_eq!((evil.status, evil.header("x-content-type-options")), (403, Some("nosniff")));
    let mut events = shout.unix().connect();
    events.say(&shout.unix().head("GET", "/api/v1/events", &[], None));
    let (status, headers) = events.read_head().unwrap();
    let has =
        |name: &str, value: &str| headers.iter().any(|(n, v)| n.eq_ignore_ascii_case(name) && v == value);
    assert!(status == 200 && has("x-content-type-options", "nosniff") && has("cache-control", "no-store"));
    assert!(has("cross-origin-resource-policy", "same-origin"), "{headers:?}");
}

#[test]
fn the_files_of_a_home_are_for_the_user_alone() {
    let world = world();
    let shout = shout(&world);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&shout.socket), 0o600);
    assert_eq!(mode(&world.home().join("token")), 0o600);
    assert_eq!(mode(world.home()), 0o700);
    assert_eq!(mode(&world.home().join("registry").join(format!("{}.json", shout.id))), 0o600);
    let dir = world.agent_dir(&shout.id);
    assert_eq!(mode(&dir), 0o700);
    for file in ["journal.db", "log", "launch.json", "known.json"] {
        assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
    }
    assert_eq!(world.token().len(), 64);
}

#[test]
fn what_is_nowhere_is_said_as_json() {
    let world = world();
    let shout = shout(&world);
    for path in ["/", "/nothing", "/api/v1/nothing", "/message/x", "/status/", "/../etc/passwd", "/%2e%2e/x"]
    {
        let answer = shout.get(path);
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
    }
    for (method, path) in
        [("GET", "/message"), ("POST", "/status"), ("DELETE", "/api/v1/tasks"), ("PUT", "/healthz")]
    {
        let answer = shout.unix().ask(method, path, &[], b"{}");
        assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"), "{method} {path}");
    }
    assert_eq!(shout.get("/api/v1/tasks/ffffffffffffffff").code(), "no_such_task");
    assert_eq!(shout.get("/api/v1/receipts/unheard-of").code(), "no_such_message");
}

#[test]
fn health_and_counters() {
    let world = world();
    let shout = shout(&world);
    assert_eq!(shout.get("/healthz").text(), "200 ok\n");
    let count = |name: &str| -> u64 {
        let text = shout.get("/metrics").text();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let before =
        (count("synapse_requests_total"), count("synapse_records_total"), count("synapse_refusals_total"));
    world.ok(&["send", "shout", "hi", "--response"]);
    shout.get("/nothing");
    assert!(count("synapse_requests_total") > before.0);
    assert!(count("synapse_records_total") > before.1);
    assert_eq!(count("synapse_refusals_total"), before.2 + 1);
    assert_eq!(count("synapse_tasks_open"), 0);
    assert!(count("synapse_connections") >= 1);
}

#[test]
fn the_description_names_every_path() {
    let world = world();
    let shout = shout(&world);
    let answer = shout.tcp().ask("GET", "/openapi.json", &[], b"");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let api = answer.json();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"), "{}", api["openapi"]);
    let paths = api["paths"].as_object().unwrap();
    let expected = [
        ("/message", "post"),
        ("/status", "get"),
        ("/healthz", "get"),
        ("/metrics", "get"),
        ("/api/v1/stop", "post"),
        ("/api/v1/inbox", "get"),
        ("/api/v1/inbox/stream", "get"),
        ("/api/v1/inbox/report", "post"),
        ("/api/v1/receipts/{message_id}", "get"),
        ("/api/v1/tasks", "get"),
        ("/api/v1/tasks/{task_id}", "get"),
        ("/api/v1/tasks/{task_id}/cancel", "post"),
        ("/api/v1/reply", "post"),
        ("/api/v1/agents", "get"),
        ("/api/v1/events", "get"),
        ("/api/v1/agent", "post"),
        ("/.well-known/agent-card.json", "get"),
        ("/.well-known/agent.json", "get"),
        ("/.well-known/jwks.json", "get"),
    ];
    for (path, method) in expected {
        assert!(paths.get(path).is_some_and(|p| p.get(method).is_some()), "{method} {path}");
    }
    // DIR-3: every response has a description, every path parameter is in its path, every operation
    // has a unique id.
    let mut names = std::collections::BTreeSet::new();
    let shared = |part: &Value| match part["$ref"].as_str() {
        Some(place) => api.pointer(place.trim_start_matches('#')).cloned().unwrap_or_default(),
        None => part.clone(),
    };
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
            for given in operation["parameters"].as_array().into_iter().flatten().map(shared) {
                let place = format!("{{{}}}", given["name"].as_str().unwrap());
                assert_eq!(given["in"] == "path", path.contains(&place), "{method} {path} {given}");
            }
            for (status, answer) in operation["responses"].as_object().unwrap() {
                assert!(shared(answer)["description"].is_string(), "{method} {path} {status}");
            }
        }
    }
    // Every reference resolves.
    let text = api.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = &reference[..reference.find('"').unwrap()];
        assert!(api.pointer(pointer).is_some(), "{pointer}");
    }
}

#[test]
fn a_slow_caller_keeps_nobody_waiting() {
    let world = world();
    let shout = shout(&world);
    let mut slow: Vec<_> = (0..20).map(|_| shout.tcp().connect()).collect();
    for (n, connection) in slow.iter_mut().enumerate() {
        let part = if n % 2 == 0 { "POST /mess" } else { "POST /message HTTP/1.1\r\nHost: localhost" };
        connection.say(part);
    }
    let mut half_body = shout.unix().connect();
    half_body.say("POST /message HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"mess");
    assert_eq!(world.ok(&["send", "shout", "hi", "--response"]), "HI");
    assert_eq!(shout.tcp().ask("GET", "/status", &[], b"").status, 200);
}

#[test]
fn requests_may_follow_each_other_at_once() {
    let world = world();
    let shout = shout(&world);
    const COUNT: usize = 50;
    let mut connection = shout.unix().connect();
    let mut all = String::new();
    for n in 0..COUNT {
        let body = json!({ "message": format!("letter {n}"), "message_id": format!("p-{n}") }).to_string();
        all += &shout.unix().head("POST", "/message", &[], Some(body.len()));
        all += &body;
    }
    connection.say(&all);
    for n in 0..COUNT {
        let answer = connection.answer();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let task = answer.json()["task_id"].as_str().unwrap().to_owned();
        let receipt = shout.get(&format!("/api/v1/receipts/p-{n}")).json();
        assert_eq!(receipt["task_id"], task.as_str(), "answers come in the order of the questions");
    }
}

#[test]
fn a_receipt_tells_how_far_a_message_has_come() {
    let world = world();
    let shout = shout(&world);
    let sent = world.json(&["send", "shout", "hi", "--response", "--message-id", "mine"]);
    let receipt = shout.get("/api/v1/receipts/mine").json();
    assert_eq!(receipt["message_id"], sent["message_id"]);
    assert_eq!(receipt["reached"], "answered");
    let trail: Vec<&str> =
        receipt["trail"].as_array().unwrap().iter().map(|m| m["what"].as_str().unwrap()).collect();
    let order = ["stored", "leased", "submitted", "answered"];
    let positions: Vec<_> = order.iter().map(|step| trail.iter().position(|t| t == step)).collect();
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{trail:?}");
}

#[test]
fn one_agent_writes_to_another_through_its_own_node() {
    let world = world();
    let shout = shout(&world);
    world.run("ledger", "echo \"$SYNAPSE_SENDER: $(cat)\" >> got", &[]);
    let relayed =
        shout.post("/message", &json!({ "target": "ledger", "message": "by relay", "from": "shout" }));
    assert_eq!(relayed.status, 200, "{}", relayed.text());
    assert_eq!(relayed.json()["status"], "spooled");
    world.wait_until("it has arrived", || !world.lines("got").is_empty());
    assert_eq!(world.lines("got"), ["shout (by user): by relay"]);
    let nobody = shout.post("/message", &json!({ "target": "nobody", "message": "x" }));
    assert_eq!((nobody.status, nobody.code().as_str()), (404, "no_such_agent"));
    let itself = shout.post("/message", &json!({ "target": "shout", "message": "x" }));
    assert_eq!(itself.json()["status"], "stored");
}

#[test]
fn an_agent_can_be_stopped_by_the_user_over_the_unix_socket_only() {
    let world = world();
    let shout = shout(&world);
    let mut events = Events::open(&shout.unix(), "/api/v1/events", &[], None).unwrap();
    let answer = shout.tcp().ask("POST", "/api/v1/stop", &[("Authorization", &shout.bearer())], b"");
    assert_eq!((answer.status, answer.code().as_str()), (403, "not_allowed"), "X-10");
    assert_eq!(shout.unix().ask("POST", "/api/v1/stop", &[], b"").status, 202);
    while events.next_event().is_some() {}
    world.wait_until("nothing of it runs", || world.processes().is_empty());
    assert_eq!(world.registry().len(), 0);
}
