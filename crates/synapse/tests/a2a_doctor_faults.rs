//! A2A servers with one fault each, and `synapse a2a doctor`, which reports the fault by name.

use crate::world;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use synapse_testkit::World;
use synapse_testkit::stranger::{Heard, Stranger, answer, json_answer, not_found};

const CARD: &str = "/.well-known/agent-card.json";
const JSON: &str = "Content-Type: application/json\r\n";

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

/// A JSON-RPC server that does everything right, except for the one fault.
fn serve(fault: &str, heard: &Heard, port: u16) -> Vec<u8> {
    match heard.path.as_str() {
        CARD => serve_card(fault, heard, port),
        "/.well-known/agent.json" if fault == "card at the old place" => json_answer(&card(fault, port)),
        "/rpc" => match fault {
            "500" => answer("500 Internal Server Error", "", "oh no"),
            "redirect" => {
                answer("307 Temporary Redirect", &format!("Location: http://127.0.0.1:{port}/trap\r\n"), "")
            }
            "garbage" => answer("200 OK", JSON, "\u{1b}[2J%%%"),
            _ => rpc(fault, heard),
        },
        _ => not_found(),
    }
}

fn serve_card(fault: &str, heard: &Heard, port: u16) -> Vec<u8> {
    let head = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";
    match fault {
        "no card" | "card at the old place" => return not_found(),
        "card redirects" => return answer("302 Found", "Location: /trap\r\n", ""),
        "card is garbage" => return answer("200 OK", JSON, "<html>"),
        "card is a list" => return answer("200 OK", JSON, "[]"),
        _ => {}
    }
    if heard.header("if-none-match").is_some() && fault != "never unchanged" {
        return answer("304 Not Modified", head, "");
    }
    let body = card(fault, port).to_string();
    let head = match fault {
        "card is text" => head.to_owned() + "Content-Type: text/plain\r\n",
        "card is not cached" => JSON.to_owned(),
        "open to all pages" => {
            let origin = heard.header("origin").unwrap_or("null");
            format!(
                "{head}{JSON}Access-Control-Allow-Origin: {origin}\r\nAccess-Control-Allow-Credentials: true\r\n"
            )
        }
        _ => head.to_owned() + JSON,
    };
    answer("200 OK", &head, &body)
}

fn card(fault: &str, port: u16) -> Value {
    let url = match fault {
        "another host" => "http://127.0.0.1:1/rpc".to_owned(),
        _ => format!("http://127.0.0.1:{port}/rpc"),
    };
    let mut card = json!({
        "name": "Strange", "description": "does things", "version": "7", "capabilities": { "streaming": true },
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "echo", "name": "echo", "description": "echo", "tags": ["x"] }],
        "supportedInterfaces": [{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
    });
    match fault {
        "no name" => drop(card.as_object_mut().unwrap().remove("name")),
        "no tags" => card["skills"][0]["tags"] = json!([]),
        "odd version" => card["supportedInterfaces"][0]["protocolVersion"] = "one".into(),
        "a secret" => card["description"] = "call me with sk-0123456789abcdef0123".into(),
        "forged signature" => card["signatures"] = json!([{ "protected": "e30", "signature": "AA" }]),
        "credentials for nothing" => {
            card["securitySchemes"] = json!({ "b": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } });
            card["securityRequirements"] = json!([{ "schemes": { "b": { "list": [] } } }]);
        }
        "no gRPC" => {
            let grpc = json!({ "url": format!("127.0.0.1:{port}"), "protocolBinding": "GRPC", "protocolVersion": "1.0" });
            card["supportedInterfaces"].as_array_mut().unwrap().push(grpc);
        }
        "no 0.3" => {
            let old = json!({ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3" });
            card["supportedInterfaces"].as_array_mut().unwrap().push(old);
        }
        "no HTTP+JSON" => {
            let http = json!({ "url": format!("http://127.0.0.1:{port}/http"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" });
            card["supportedInterfaces"].as_array_mut().unwrap().push(http);
        }
        _ => {}
    }
    card
}

/// The tasks of the server, newest first.
const TASKS: [(&str, &str); 3] = [("t-3", "12:00:03"), ("t-2", "12:00:02"), ("t-1", "12:00:01")];

fn task(fault: &str, id: &str) -> Value {
    let at = TASKS.iter().find(|(known, _)| *known == id).map_or("12:00:00", |(_, at)| at);
    let mut task = json!({
        "id": id, "contextId": "c",
        "status": { "state": "TASK_STATE_COMPLETED", "timestamp": format!("2026-01-31T{at}.000Z") },
        "artifacts": [{ "artifactId": "a", "parts": [{ "text": "x" }] }],
        "history": [{ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] }],
    });
    match fault {
        "states of 0.3" => task["status"]["state"] = "completed".into(),
        "parts of 0.3" => task["artifacts"][0]["parts"][0]["kind"] = "text".into(),
        "no context" => drop(task.as_object_mut().unwrap().remove("contextId")),
        "local time" => task["status"]["timestamp"] = "2026-01-31T12:00:00.000+01:00".into(),
        "no artifacts" => task["artifacts"] = json!([]),
        _ => {}
    }
    task
}

fn rpc(fault: &str, heard: &Heard) -> Vec<u8> {
    let params = &heard.body["params"];
    let (id, is_known) =
        (params["id"].as_str().unwrap_or_default(), TASKS.iter().any(|(id, _)| params["id"] == *id));
    if heard.header("a2a-version") != Some("1.0") && fault != "versions are ignored" {
        return refuse(fault, -32009, "VERSION_NOT_SUPPORTED");
    }
    if heard.body.is_null() {
        return if fault == "frameworks answer" {
            answer("422 Unprocessable", JSON, "{}")
        } else {
            refuse(fault, -32700, "")
        };
    }
    let not_found = || refuse(fault, -32001, "TASK_NOT_FOUND");
    match heard.method() {
        "GetTask" if is_known => {
            let mut found = task(fault, id);
            if params["historyLength"] == 0 && fault != "history anyway" {
                found.as_object_mut().unwrap().remove("history");
            }
            result(fault, &found)
        }
        "GetTask" if fault == "makes tasks up" => result(fault, &task(fault, id)),
        "GetTask" => not_found(),
        "CancelTask" if is_known && fault == "cancels the dead" => result(fault, &task(fault, id)),
        "CancelTask" if is_known => refuse(fault, -32002, "TASK_NOT_CANCELABLE"),
        "CancelTask" if fault == "wrong code" => refuse(fault, -32603, ""),
        "CancelTask" => not_found(),
        "SubscribeToTask" if heard.header("last-event-id").is_some() => match fault {
            "repeats itself" => stream(fault, id, 0),
            _ => stream(fault, id, 1),
        },
        "SubscribeToTask" if is_known => refuse(fault, -32004, "UNSUPPORTED_OPERATION"),
        "SubscribeToTask" => not_found(),
        "ListTasks" => list(fault, params),
        "SendMessage" => send(fault, params),
        "SendStreamingMessage" if fault == "no stream" => {
            result(fault, &json!({ "task": task(fault, "t-3") }))
        }
        "SendStreamingMessage" => stream(fault, "t-3", 0),
        "ListTaskPushNotificationConfigs" if fault == "push anyway" => {
            result(fault, &json!({ "configs": [] }))
        }
        "ListTaskPushNotificationConfigs" => refuse(fault, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        "GetExtendedAgentCard" if fault == "card for all" => result(fault, &card(fault, 1)),
        "GetExtendedAgentCard" => refuse(fault, -32004, "UNSUPPORTED_OPERATION"),
        _ if fault == "HTML for what is unknown" => {
            answer("404 Not Found", "Content-Type: text/html\r\n", "<html>")
        }
        _ => refuse(fault, -32601, ""),
    }
}

fn send(fault: &str, params: &Value) -> Vec<u8> {
    let message = &params["message"];
    let is_empty = message["parts"].as_array().is_none_or(Vec::is_empty);
    if is_empty && fault != "takes anything" {
        return refuse(fault, -32602, "");
    }
    if message["taskId"].is_string() {
        return match fault {
            "wakes the dead" => result(fault, &json!({ "task": task(fault, "t-1") })),
            _ => refuse(fault, -32004, "UNSUPPORTED_OPERATION"),
        };
    }
    let is_at_once = params["configuration"]["returnImmediately"] == true;
    let mut made = task(fault, if is_at_once { "t-2" } else { "t-1" });
    if is_at_once || fault == "does not wait" {
        made["status"]["state"] = "TASK_STATE_WORKING".into();
    }
    match fault {
        "no wrapper" => result(fault, &made),
        _ => result(fault, &json!({ "task": made })),
    }
}

fn list(fault: &str, params: &Value) -> Vec<u8> {
    if params["pageSize"].as_u64() > Some(100) && fault != "pages of any size" {
        return refuse(fault, -32602, "");
    }
    let first: usize = match fault {
        "one page only" => 0,
        _ => params["pageToken"].as_str().unwrap_or("0").parse().unwrap(),
    };
    let count = params["pageSize"].as_u64().unwrap_or(50) as usize;
    let mut ids: Vec<&str> = TASKS.iter().map(|(id, _)| *id).collect();
    if fault == "oldest first" {
        ids.reverse();
    }
    if fault == "forgets tasks" {
        ids.pop();
    }
    let bare = |id: &&str| {
        let mut task = task(fault, id);
        if fault != "lists artifacts" {
            task.as_object_mut().unwrap().remove("artifacts");
        }
        task
    };
    let tasks: Vec<Value> = ids.iter().skip(first).take(count).map(bare).collect();
    let next = if first + count < ids.len() { (first + count).to_string() } else { String::new() };
    let mut page =
        json!({ "tasks": tasks, "nextPageToken": next, "pageSize": count, "totalSize": ids.len() });
    if fault == "leaves out what is empty" && next.is_empty() {
        page.as_object_mut().unwrap().remove("nextPageToken");
    }
    result(fault, &page)
}

fn stream(fault: &str, id: &str, after: usize) -> Vec<u8> {
    let mut begun = task(fault, id);
    begun["status"]["state"] = "TASK_STATE_WORKING".into();
    let update = |state: &str| json!({ "statusUpdate": { "taskId": id, "contextId": "c", "status": { "state": state } } });
    let mut events =
        vec![json!({ "task": begun }), update("TASK_STATE_WORKING"), update("TASK_STATE_COMPLETED")];
    match fault {
        "no task first" => drop(events.remove(0)),
        "breaks off" => drop(events.pop()),
        "events of 0.3" => events[1] = json!({ "kind": "status-update", "taskId": id, "final": false }),
        _ => {}
    }
    let mut body = String::new();
    for (n, event) in events.iter().enumerate().skip(after) {
        let data = json!({ "jsonrpc": "2.0", "id": 1, "result": event });
        body.push_str(&format!("id: {}\ndata: {data}\n\n", n + 1));
    }
    answer("200 OK", "Content-Type: text/event-stream\r\n", &body)
}

fn result(fault: &str, result: &Value) -> Vec<u8> {
    let media = if fault == "answers are text" { "Content-Type: text/plain\r\n" } else { JSON };
    answer("200 OK", media, &json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string())
}

fn refuse(fault: &str, code: i64, reason: &str) -> Vec<u8> {
    let mut error = json!({ "code": code, "message": "no" });
    if !reason.is_empty() && fault != "no ErrorInfo" {
        let domain = if fault == "another domain" { "example.org" } else { "a2a-protocol.org" };
        error["data"] = json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain }]);
    }
    match fault {
        "errors without words" => drop(error.as_object_mut().unwrap().remove("message")),
        "data is a text" => error["data"] = "because".into(),
        _ => {}
    }
    json_answer(&json!({ "jsonrpc": "2.0", "id": 1, "error": error }))
}

/// The doctor finds nothing wrong with the server that the faults are added to.
#[test]
fn a_stranger_that_is_right_is_told_so() {
    let world = world();
    let stranger = Stranger::new(|heard, port| serve("", heard, port));
    let (code, report) = examine(&world, &stranger.url(), &["--send", "hi there"]);
    assert_eq!(code, 0, "{report:#}");
    for level in ["wrong", "warning"] {
        assert_eq!(of_level(&report, level), Vec::<&Value>::new());
    }
    assert!(of_level(&report, "ok").len() > 40, "{report:#}");
    // One message for each case, each with its own id.
    let heard = stranger.heard();
    let text = |heard: &&Heard| heard.body["params"]["message"]["parts"][0]["text"] == "hi there";
    let mut ids: Vec<&Value> =
        heard.iter().filter(text).map(|heard| &heard.body["params"]["message"]["messageId"]).collect();
    assert_eq!(ids.len(), 4, "to be waited for, to what has ended, at once, as a stream");
    ids.sort_by_key(|id| id.to_string());
    ids.dedup();
    assert_eq!(ids.len(), 4);
    // Without `--send`, the doctor sends no message.
    let before = stranger.heard().len();
    examine(&world, &stranger.url(), &[]);
    assert!(!stranger.heard()[before..].iter().any(|heard| text(&heard)));
    assert!(stranger.heard().iter().all(|heard| heard.header("authorization").is_none()));
}

/// Each fault is reported by its name. A violated MUST makes the exit code 1.
#[test]
fn what_is_wrong_with_a_card_is_found() {
    check(&[
        ("no card", "card_found", "wrong", "status 404"),
        ("card at the old place", "card_found", "wrong", "there is one at"),
        ("card redirects", "card_found", "wrong", "/trap, which is not followed"),
        ("card is garbage", "card_json", "wrong", "no JSON"),
        ("card is a list", "card_json", "wrong", "no object"),
        ("card is text", "card_content_type", "warning", "text/plain"),
        ("card is not cached", "card_cache", "warning", "no ETag"),
        ("never unchanged", "card_unchanged", "warning", "status 200"),
        ("open to all pages", "card_cors", "warning", "any origin"),
        ("no name", "card_fields", "wrong", "name is missing"),
        ("no tags", "card_skills", "wrong", "skills[0].tags is empty"),
        ("odd version", "card_interfaces", "wrong", "\"one\""),
        ("a secret", "card_secrets", "warning", "description"),
        ("forged signature", "card_signature", "wrong", "none can be read"),
        ("another host", "card_hosts", "warning", "another host"),
        ("credentials for nothing", "strangers", "wrong", "let in"),
        ("no gRPC", "grpc_reached", "wrong", ""),
        ("no 0.3", "old_get_unknown", "wrong", "-32009"),
        ("no HTTP+JSON", "reached", "wrong", "status 404"),
    ]);
}

#[test]
fn what_is_wrong_with_answers_is_found() {
    check(&[
        ("500", "reached", "wrong", "status 500"),
        ("redirect", "reached", "wrong", "redirects are not followed"),
        ("garbage", "reached", "wrong", "no JSON"),
        ("versions are ignored", "other_version", "wrong", "TaskNotFoundError"),
        ("versions are ignored", "no_version", "wrong", "taken for 1.0"),
        ("no ErrorInfo", "error_info", "warning", "none"),
        ("another domain", "error_info", "warning", "example.org"),
        ("errors without words", "error_shape", "wrong", "no message"),
        ("data is a text", "error_shape", "wrong", "no list"),
        ("answers are text", "content_type", "wrong", "text/plain"),
        ("makes tasks up", "get_unknown", "wrong", "no error"),
        ("wrong code", "cancel_unknown", "wrong", "-32603"),
        ("push anyway", "push", "wrong", "no error"),
        ("card for all", "extended_card", "wrong", "no error"),
        ("frameworks answer", "broken_json", "wrong", "status 422"),
        ("HTML for what is unknown", "unknown_method", "wrong", "text/html"),
        ("takes anything", "empty_parts", "wrong", "no error"),
        ("takes anything", "no_message", "wrong", "no error"),
        ("pages of any size", "page_size", "warning", "no error"),
    ]);
}

#[test]
fn what_is_wrong_with_tasks_is_found() {
    check(&[
        ("does not wait", "send", "wrong", "goes on"),
        ("no wrapper", "send", "wrong", "without `task` around it"),
        ("states of 0.3", "task_fields", "wrong", "\"completed\""),
        ("parts of 0.3", "task_fields", "wrong", "kind is of 0.3"),
        ("no context", "context", "wrong", "there is none"),
        ("local time", "timestamps", "wrong", "+01:00"),
        ("no artifacts", "results", "warning", "no artifact"),
        ("history anyway", "no_history", "wrong", "1 messages"),
        ("lists artifacts", "list_artifacts", "wrong", "3 of 3"),
        ("oldest first", "list_sorted", "wrong", "12:00:01"),
        ("forgets tasks", "list_contains", "wrong", "not among 2"),
        ("leaves out what is empty", "list_fields", "wrong", "nextPageToken is missing"),
        ("one page only", "list_pages", "wrong", "begins with the task of the first"),
        ("cancels the dead", "cancel_ended", "wrong", "no error"),
        ("wakes the dead", "send_to_ended", "wrong", "no error"),
        ("no stream", "stream_type", "wrong", "application/json"),
        ("no task first", "stream_first", "wrong", "statusUpdate"),
        ("breaks off", "stream_end", "wrong", "TASK_STATE_WORKING"),
        ("events of 0.3", "stream_events", "wrong", "of 0.3"),
        ("repeats itself", "stream_resume", "warning", "came again"),
    ]);
}

fn check(table: &[(&'static str, &str, &str, &str)]) {
    let world = world();
    for (fault, check, level, words) in table.iter().copied() {
        let stranger = Stranger::new(move |heard, port| serve(fault, heard, port));
        let (code, report) = examine(&world, &stranger.url(), &["--send"]);
        let all = report["findings"].as_array().unwrap();
        let is_it = |one: &&Value| one["check"] == check && one["level"] == level;
        let hit = all.iter().find(is_it).unwrap_or_else(|| panic!("{fault}: {report:#}"));
        assert!(hit["came"].as_str().unwrap().contains(words), "{fault}: {hit:#}");
        for field in ["asked", "expected", "help"] {
            assert!(hit[field].as_str().is_some_and(|text| !text.is_empty()), "{fault}: {hit:#}");
        }
        assert_eq!(
            (code, &report["ok"]),
            if level == "wrong" { (1, &json!(false)) } else { (0, &json!(true)) },
            "{fault}"
        );
        assert!(!stranger.heard().iter().any(|heard| heard.path == "/trap"), "{fault}");
    }
}

/// The doctor never hangs, and reports what it did not check.
#[test]
fn slow_and_silent_servers() {
    let world = world();
    let silent = || {
        Stranger::writing(|_, _, stream| {
            // Reads until the client hangs up.
            let _ = stream.read(&mut [0; 1]);
        })
    };
    let stranger = silent();
    let (code, report) = examine(&world, &stranger.url(), &["--timeout", "300ms"]);
    assert_eq!((code, &found(&report, "card_found")["level"]), (1, &json!("wrong")));
    assert!(
        found(&report, "card_found")["came"].as_str().unwrap().contains("no whole answer within"),
        "{report:#}"
    );
    // Serves its card and then goes silent.
    let stranger = Stranger::writing(|heard, port, stream| match heard.path.as_str() {
        "/rpc" => drop(stream.read(&mut [0; 1])),
        _ => drop(stream.write_all(&serve("", heard, port))),
    });
    let (code, report) = examine(&world, &stranger.url(), &["--timeout", "2s"]);
    assert_eq!((code, &found(&report, "reached")["level"]), (1, &json!("wrong")), "{report:#}");
    assert!(stranger.heard().len() < 8, "{report:#}");
    // A timeout of zero is an input error, not a fault of the server.
    let ran = world.synapse(&["a2a", "doctor", &silent().url(), "--timeout", "0s"]).exits(4);
    assert!(ran.stderr.contains("--timeout"), "{ran}");
    // Nothing listens on this port.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, report) = examine(&world, &format!("http://{free}"), &[]);
    assert_eq!(code, 1);
    assert!(
        found(&report, "card_found")["came"].as_str().unwrap().contains("cannot be reached"),
        "{report:#}"
    );
    for (target, words) in
        [("ftp://a", "neither https nor http"), ("nobody", "nor a remote"), ("http://a b/", "no address")]
    {
        let ran = world.synapse(&["a2a", "doctor", target]).exits(2);
        assert!(ran.stderr.contains(words), "{ran}");
    }
}

/// The report for people: each fault with the request, what was expected, and what to change.
#[test]
fn the_report_is_for_people() {
    let world = world();
    let stranger = Stranger::new(|heard, port| serve("versions are ignored", heard, port));
    let ran = world.synapse(&["a2a", "doctor", &stranger.url()]).exits(1);
    for words in [
        "Strange",
        "\ncard\n",
        "\nJSONRPC 1.0 at http://127.0.0.1:",
        "  wrong    other_version ",
        "asked     GetTask with A2A-Version: 9.9",
        "expected  VersionNotSupportedError for version 9.9 (A2A 3.6.2)",
        "change    check the header A2A-Version",
        "2 wrong",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {ran}");
    }
    assert!(ran.stderr.contains("2 things are wrong"), "{ran}");
    assert!(!ran.stdout.contains('\u{1b}'), "{ran}");
}
