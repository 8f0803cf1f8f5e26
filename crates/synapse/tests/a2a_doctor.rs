//! `synapse a2a doctor`: finds no fault in our own node, hides secrets, and finds faults over
//! HTTP+JSON and gRPC.
//!
//! Not here: JSON-RPC servers with one fault each (`a2a_doctor_faults`).

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::World;
use synapse_testkit::stranger::{Heard, Stranger, answer, json_answer, not_found};

/// Runs the doctor against a server and returns its exit code and report.
fn examine(world: &World, url: &str, more: &[&str]) -> (i32, Value) {
    let mut args = vec!["a2a", "doctor", url, "--json"];
    args.extend(more);
    let ran = world.synapse(&args);
    let report = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran}"));
    (ran.code.unwrap(), report)
}

fn of_level<'a>(report: &'a Value, level: &str) -> Vec<&'a Value> {
    report["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == level).collect()
}

fn found<'a>(report: &'a Value, check: &str) -> &'a Value {
    let mut all = report["findings"].as_array().unwrap().iter();
    all.find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("no {check} in {report:#}"))
}

/// V12: the doctor finds no fault in our node, over every binding and version, with and without
/// credentials, with and without a message.
#[test]
fn a_node_of_ours_is_well() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &["--interfaces", "jsonrpc,http,grpc"]);
    let url = format!("http://localhost:{}", agent.port);
    let token = world.home().join("token");
    let known = ["--token-file", token.to_str().unwrap()];
    let (code, report) = examine(&world, &url, &[&known[..], &["--send", "hello"]].concat());
    assert_eq!(code, 0, "{report:#}");
    for level in ["wrong", "warning"] {
        assert_eq!(of_level(&report, level), Vec::<&Value>::new());
    }
    assert_eq!(
        (&report["ok"], &report["complete"], &report["card_name"]),
        (&json!(true), &json!(true), &json!("shout"))
    );
    let mut abouts: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["about"].as_str().unwrap())
        .collect();
    abouts.dedup();
    assert_eq!(abouts.len(), 7, "the card, and two versions of three bindings: {abouts:?}");
    for check in
        ["send", "stream_first", "stream_resume", "list_pages", "card_signature", "grpc_reached", "old_send"]
            .into_iter()
            .chain(["grpc_get_unknown", "grpc_error_info", "grpc_unknown_method", "grpc_send"])
    {
        assert_eq!(found(&report, check)["level"], "ok", "{check}: {report:#}");
    }
    assert!(report["requests"].as_u64().unwrap() <= 70, "{}", report["requests"]);
    assert_eq!(report.get("wire"), None);
    // Without `--send`, the doctor creates no task.
    let tasks = || world.json(&["status", "shout"])["tasks"].as_array().map_or(0, Vec::len);
    let before = tasks();
    let (code, report) = examine(&world, &url, &known);
    assert_eq!((code, tasks()), (0, before));
    assert!(found(&report, "message")["came"].as_str().unwrap().contains("--send"));
    assert!(report["requests"].as_u64().unwrap() <= 45, "{}", report["requests"]);
    // Without credentials, the doctor says which are needed. That is no fault.
    let (code, report) = examine(&world, &url, &[]);
    assert_eq!((code, &found(&report, "let_in")["level"]), (0, &json!("skipped")));
    assert!(found(&report, "let_in")["came"].as_str().unwrap().contains("--token-file"));
}

/// E18: `--wire` shows requests and responses in full, but no secrets.
#[test]
fn the_wire_is_shown_without_secrets() {
    let world = world();
    let agent = world.run("shout", "cat", &[]);
    let url = format!("http://localhost:{}", agent.port);
    let token = world.home().join("token");
    let args = ["a2a", "doctor", &url, "--wire", "--token-file", token.to_str().unwrap()];
    let ran = world.synapse(&args).ok();
    assert!(!ran.stderr.contains(&world.token()) && !ran.stdout.contains(&world.token()));
    for words in ["→ POST", "← 200", "authorization: ***", "a2a-version: 9.9", "\"method\":\"GetTask\""] {
        assert!(ran.stderr.contains(words), "{words}: {ran}");
    }
    assert!(ran.stdout.contains("0 wrong"), "{ran}");
    let (_, report) = examine(&world, &url, &args[3..]);
    let wire = report["wire"].as_array().unwrap();
    assert!(wire.len() > 20 && wire.iter().all(|one| one["status"].is_u64()), "{}", wire.len());
    assert!(!report.to_string().contains(&world.token()));
}

/// A server of HTTP+JSON that correctly refuses everything, except for the one fault.
fn serve_http(fault: &str, heard: &Heard, port: u16) -> Vec<u8> {
    if heard.path == "/.well-known/agent-card.json" {
        let url = format!("http://127.0.0.1:{port}/a");
        return json_answer(&json!({
            "name": "Strange", "description": "does things", "version": "7", "capabilities": { "streaming": true },
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{ "id": "echo", "name": "echo", "description": "echo", "tags": ["x"] }],
            "supportedInterfaces": [{ "url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "t 1" }],
        }));
    }
    let Some(path) = heard.path.strip_prefix("/a/t%201/") else { return not_found() };
    let path = path.split('?').next().unwrap();
    let (status, grpc, reason) = match (path, heard.header("a2a-version")) {
        (_, version) if version != Some("1.0") && fault != "versions are ignored" => {
            (400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED")
        }
        ("tasks", _) if fault == "pages of any size" => {
            return json_answer(
                &json!({ "tasks": [], "nextPageToken": "", "pageSize": 100, "totalSize": 0 }),
            );
        }
        ("tasks", _) => (400, "INVALID_ARGUMENT", ""),
        ("message:send", _) => (400, "INVALID_ARGUMENT", ""),
        ("extendedAgentCard", _) => (400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
        (path, _) if path.ends_with("/pushNotificationConfigs") => {
            (400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED")
        }
        // Servers differ in the verb that they accept for subscribing.
        (path, _) if path.ends_with(":subscribe") && heard.verb == "POST" => {
            return answer("405 Method Not Allowed", "", "");
        }
        (path, _) if path.starts_with("tasks/") => (404, "NOT_FOUND", "TASK_NOT_FOUND"),
        _ => return not_found(),
    };
    let mut error = json!({ "code": status, "status": grpc, "message": "no" });
    if !reason.is_empty() && fault != "no ErrorInfo" {
        let info = "type.googleapis.com/google.rpc.ErrorInfo";
        error["details"] = json!([{ "@type": info, "reason": reason, "domain": "a2a-protocol.org" }]);
    }
    match fault {
        "problems" => {
            let body = json!({ "type": "about:blank", "status": status, "title": "no" }).to_string();
            return answer(&format!("{status} No"), "Content-Type: application/problem+json\r\n", &body);
        }
        "codes of its own" => error["code"] = 7.into(),
        _ => {}
    }
    let media = if fault == "errors are text" { "text/plain" } else { "application/a2a+json" };
    answer(
        &format!("{status} No"),
        &format!("Content-Type: {media}\r\n"),
        &json!({ "error": error }).to_string(),
    )
}

/// H1, H6, H7, H10, A10: the same checks over HTTP+JSON, whose rules differ in places.
#[test]
fn faults_over_http_json() {
    let world = world();
    let table = [
        ("", "subscribe_unknown", "ok", "TASK_NOT_FOUND"),
        ("no ErrorInfo", "error_info", "wrong", "none"),
        ("problems", "reached", "wrong", "no error of A2A (application/problem+json)"),
        ("codes of its own", "error_shape", "wrong", "its code is 7, and the status is 404"),
        ("errors are text", "content_type", "warning", "text/plain"),
        ("pages of any size", "page_size", "warning", "no error"),
        ("pages of any size", "content_type", "warning", "application/json"),
        ("versions are ignored", "no_version", "wrong", "taken for 1.0"),
        ("versions are ignored", "other_version", "wrong", "TASK_NOT_FOUND"),
    ];
    for (fault, check, level, words) in table {
        let stranger = Stranger::new(move |heard, port| serve_http(fault, heard, port));
        let (code, report) = examine(&world, &stranger.url(), &[]);
        let hit = found(&report, check);
        assert_eq!(
            (code, &hit["level"]),
            (i32::from(level == "wrong"), &json!(level)),
            "{fault}: {report:#}"
        );
        assert!(hit["came"].as_str().unwrap().contains(words), "{fault}: {hit:#}");
    }
}

/// Serves HTTP/2 on loopback and ends every call with this gRPC status. Returns the port.
fn ends_calls_with(status: Option<&'static str>) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let mut response = http::Response::builder().header("content-type", "application/grpc");
                    if let Some(status) = status {
                        response = response.header("grpc-status", status);
                    }
                    respond.send_response(response.body(()).unwrap(), true).unwrap();
                }
            });
        }
    };
    std::thread::spawn(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(serve)
    });
    port
}

/// R5: a server that speaks HTTP/2 but not correct gRPC.
#[test]
fn what_is_wrong_with_grpc_is_found() {
    let world = world();
    for (status, findings) in [
        (None, &[("grpc_get_unknown", "no grpc-status")][..]),
        (Some("0"), &[("grpc_get_unknown", "status 0"), ("grpc_error_info", "none")]),
        (
            Some("5"),
            &[("grpc_error_info", "none"), ("grpc_unknown_method", "status 5"), ("grpc_send", "status 5")],
        ),
    ] {
        let port = ends_calls_with(status);
        let at = json!({ "url": format!("127.0.0.1:{port}"), "protocolBinding": "GRPC", "protocolVersion": "1.0" });
        let card = json!({ "name": "x", "supportedInterfaces": [at] });
        let server = Stranger::new(move |heard, _| match heard.path.as_str() {
            "/.well-known/agent-card.json" => json_answer(&card),
            _ => not_found(),
        });
        let host = format!("127.0.0.1:{port}");
        let (_, report) =
            examine(&world, &server.url(), &["--allow-host", &host, "--send", "hello", "--wire"]);
        assert_eq!(found(&report, "grpc_reached")["level"], "ok", "{report:#}");
        for (check, came) in findings {
            let finding = found(&report, check);
            assert_eq!(finding["level"], "wrong", "{finding:#}");
            assert!(finding["came"].as_str().unwrap().contains(came), "{finding:#}");
        }
        let wire = report["wire"].to_string();
        assert!(wire.contains("/lf.a2a.v1.A2AService/GetTask"), "{wire}");
    }
}
