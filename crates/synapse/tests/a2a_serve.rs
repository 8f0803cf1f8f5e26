//! `synapse a2a serve`: a script as an A2A server in one line, for whoever has the token, or for anyone here.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use synapse_testkit::World;

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_synapse"))
}

const VERSION: (&str, &str) = ("A2A-Version", "1.0");

fn message(id: &str) -> String {
    let message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
    json!({ "message": message }).to_string()
}

#[test]
fn a_command_is_served_and_its_places_are_told() {
    let world = world();
    let said = world.ok(&["a2a", "serve", "--exec", "tr a-z A-Z", "--name", "shout", "-d"]);
    let agent = world.agent("shout");
    for place in ["/.well-known/agent-card.json", "/api/v1/agent", "/a2a/v1", "gRPC      localhost:"] {
        assert!(said.contains(place), "{said}");
    }
    assert!(said.contains("Authorization: Bearer"), "{said}");
    let refused = agent.tcp().ask("POST", "/a2a/v1/message:send", &[VERSION], message("m1").as_bytes());
    assert_eq!(refused.status, 401, "{}", refused.text());
    let bearer = agent.bearer();
    let headers = [VERSION, ("Authorization", bearer.as_str())];
    let task = agent.tcp().ask("POST", "/a2a/v1/message:send", &headers, message("m1").as_bytes()).json();
    assert_eq!(task["task"]["artifacts"][0]["parts"][0]["text"], "HELLO", "{task}");
}

/// E3, E8, A12, A14: who comes without proof gives tasks and sees those, over A2A, and nothing else.
#[test]
fn without_a_token_anyone_here_gives_tasks_and_nothing_more() {
    let world = world();
    let said = world.ok(&["a2a", "serve", "--exec", "tr a-z A-Z", "--name", "shout", "--auth", "none", "-d"]);
    assert!(said.contains("anyone on this machine"), "{said}");
    let agent = world.agent("shout");
    let own = world.json(&["send", "shout", "mine", "--response"])["task_id"].as_str().unwrap().to_owned();
    let ask =
        |method: &str, path: &str, body: &str| agent.tcp().ask(method, path, &[VERSION], body.as_bytes());
    let task: Value = ask("POST", "/a2a/v1/message:send", &message("m1")).json();
    assert_eq!(task["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    let id = task["task"]["id"].as_str().unwrap();
    assert_eq!(ask("GET", &format!("/a2a/v1/tasks/{id}"), "").status, 200);
    // The user's own task is not theirs to see, and the rest of the doors stays shut.
    assert_eq!(ask("GET", &format!("/a2a/v1/tasks/{own}"), "").status, 404);
    assert_eq!(ask("GET", "/a2a/v1/tasks", "").json()["totalSize"], 1);
    for path in ["/api/v1/tasks", "/api/v1/inbox", "/api/v1/events", "/metrics"] {
        assert_eq!(ask("GET", path, "").status, 401, "{path}");
    }
    assert_eq!(ask("POST", "/message", r#"{"message": "x"}"#).status, 401);
    let card = ask("GET", "/.well-known/agent-card.json", "").json();
    assert!(card.get("securityRequirements").is_none(), "{card}");
    assert_ne!(card["capabilities"]["extendedAgentCard"], true, "{card}");
    let more = ask("GET", "/a2a/v1/extendedAgentCard", "").json();
    assert_eq!(more["error"]["details"][0]["reason"], "UNSUPPORTED_OPERATION", "{more}");
    // The doctor finds nothing wrong with that.
    let endpoint = world.json(&["status", "shout"])["endpoint"].as_str().unwrap().to_owned();
    let report = world.json(&["a2a", "doctor", &endpoint, "--send"]);
    assert_eq!(report["counts"]["wrong"], 0, "{report}");
    world
        .synapse(&[
            "a2a",
            "serve",
            "--exec",
            "cat",
            "--auth",
            "none",
            "--listen",
            "0.0.0.0",
            "--insecure",
            "-d",
        ])
        .fails(2, &["--auth none is for this machine alone"]);
}

/// V2, V3, V4: an extension that is needed must be known to the caller, over each binding; what is not known is ignored.
#[test]
fn an_extension_that_is_needed_is_asked_for() {
    let world = world();
    let (needed, known) = ("https://example.org/needed/v1", "https://example.org/known/v1");
    let more = ["--require-extension", needed, "--extension", known, "-d"];
    world.ok(&[&["a2a", "serve", "--exec", "cat", "--name", "special"][..], &more].concat());
    let agent = world.agent("special");
    let ask = |headers: &[(&str, &str)]| {
        agent.unix().ask("POST", "/a2a/v1/message:send", headers, message("m1").as_bytes())
    };
    let refused = ask(&[VERSION]);
    assert_eq!(refused.status, 400, "{}", refused.text());
    let details = refused.json()["error"]["details"].clone();
    assert_eq!(details[0]["reason"], "EXTENSION_SUPPORT_REQUIRED", "{details}");
    let older = ask(&[VERSION, ("A2A-Extensions", "https://example.org/needed/v0")]);
    assert_eq!(older.status, 400, "{}", older.text());
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} }).to_string();
    let refused = agent.unix().ask("POST", "/api/v1/agent", &[VERSION], call.as_bytes()).json();
    assert_eq!(refused["error"]["code"], -32008, "{refused}");
    let both = format!("{known}, https://example.org/other, {needed}");
    let done = ask(&[VERSION, ("A2A-Extensions", &both)]);
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.header("a2a-extensions"), Some(format!("{known}, {needed}").as_str()));
    let card = agent.unix().ask("GET", "/.well-known/agent-card.json", &[], b"").json();
    let told = card["capabilities"]["extensions"].as_array().unwrap();
    let told: Vec<_> =
        told.iter().map(|one| (one["uri"].as_str().unwrap(), one["required"] == true)).collect();
    assert_eq!(told, [(known, false), (needed, true)], "{card}");
}
