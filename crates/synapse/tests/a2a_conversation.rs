//! What a script sees of the conversation it is part of, and how callers and tenants are kept
//! apart.

use crate::grpc_client as grpc;
use crate::world;
use serde_json::{Value, json};
use synapse_testkit::World;
use synapse_testkit::world::Agent;

const V10: (&str, &str) = ("A2A-Version", "1.0");

fn message(id: &str, context: &str, text: &str) -> Value {
    json!({ "message": {
        "messageId": id, "role": "ROLE_USER", "contextId": context, "parts": [{ "text": text }],
    } })
}

fn rpc(agent: &Agent, method: &str, params: &Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    agent.unix().ask("POST", "/api/v1/agent", &[V10], call.as_bytes()).json()
}

/// Sends a message and returns the text of the answer.
fn answer(agent: &Agent, params: &Value) -> String {
    let told = rpc(agent, "SendMessage", params);
    let text = told["result"]["task"]["artifacts"][0]["parts"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{told}")).to_owned()
}

/// Sends a message over TCP as the caller named `ci`.
fn as_ci(world: &World, agent: &Agent, params: &Value) -> String {
    let secret = world.read("ci.secret");
    let bearer = format!("Bearer {}", secret.trim());
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params }).to_string();
    let headers = [V10, ("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let told = agent.tcp().ask("POST", "/api/v1/agent", &headers, call.as_bytes()).json();
    let text = told["result"]["task"]["artifacts"][0]["parts"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{told}")).to_owned()
}

fn with_secret(world: &World) {
    let path = world.write("ci.secret", "a-secret-of-the-build-server-0123456789\n");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    world.ok(&["config", "set", "secrets.ci.file", "./ci.secret", "secrets.ci.role", "Lead"]);
}

/// Finding A3: a command sees the ids that its client chose, and the priority on the users' scale.
#[test]
fn command_sees_the_ids_of_its_client() {
    let world = world();
    let show = "echo \"$SYNAPSE_CLIENT_MESSAGE_ID|$SYNAPSE_CONTEXT_ID|$SYNAPSE_TASK_ID|$SYNAPSE_PRIORITY|\
                $SYNAPSE_TENANT|$SYNAPSE_CONVERSATION\"";
    let agent = world.run("env", show, &[]);
    let mut asked = message("client id/1", "talk 7", "hi");
    asked["message"]["metadata"] = json!({ "priority": 4 });
    let told = rpc(&agent, "SendMessage", &asked);
    let task = &told["result"]["task"];
    let said = task["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    let fields: Vec<&str> = said.split('|').collect();
    assert_eq!(fields[..5], ["client id/1", "talk 7", task["id"].as_str().unwrap(), "4", ""], "{said}");
    assert!(fields[5].len() == 32 && fields[5].bytes().all(|b| b.is_ascii_hexdigit()), "{said}");
    // If the client names no context, the command sees the one that the client is given.
    let alone = json!({ "message": { "messageId": "m2", "role": "ROLE_USER", "parts": [{ "text": "hi" }] } });
    let told = rpc(&agent, "SendMessage", &alone);
    let task = &told["result"]["task"];
    let said = task["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert_eq!(said.split('|').nth(1), task["contextId"].as_str(), "{said}");
    assert_eq!(said.split('|').nth(3), Some("3"), "{said}");
    // An environment variable cannot hold every character of an id. The command starts anyway.
    let said = answer(&agent, &message("a\0b", "talk 7", "hi"));
    assert_eq!(said.split('|').next(), Some("a\u{fffd}b"), "{said}");
}

/// Finding A3: the line that a program reads has the same ids, and a priority from 1 to 5.
#[test]
fn line_of_a_program_has_the_ids_of_its_client() {
    let world = world();
    let agent = world.run_lines("line", "say('completed', text=json.dumps(message))", &[]);
    let said = answer(&agent, &message("client id/1", "talk 7", "hi"));
    let line: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(line["client_message_id"], "client id/1", "{line}");
    assert_eq!((&line["context_id"], &line["send_priority"]), (&json!("talk 7"), &json!(3)), "{line}");
    assert_eq!((&line["priority"], &line["level"]), (&json!(3), &json!(6)), "{line}");
    assert_eq!(line.get("history"), None, "{line}");
    assert!(line["task_id"].is_string() && line["message_id"].is_string(), "{line}");
}

/// Finding A3: a message comes with the earlier turns of its context, oldest first, up to a limit,
/// and never with those of another caller.
#[test]
fn earlier_turns_are_those_of_the_same_caller_and_context() {
    let world = world();
    with_secret(&world);
    let script = "
turns = [turn['role'] + ':' + turn['text'] for turn in message.get('history', [])]
say('completed', text=', '.join(turns) or 'nothing')";
    let agent = world.run_lines("memory", script, &["--history", "4"]);
    assert_eq!(answer(&agent, &message("m1", "talk", "one")), "nothing");
    assert_eq!(answer(&agent, &message("m2", "talk", "two")), "user:one, agent:nothing");
    // A message comes with at most four turns: the fourth message no longer has the oldest two.
    answer(&agent, &message("m3", "talk", "three"));
    let fourth = answer(&agent, &message("m4", "talk", "four"));
    assert!(fourth.starts_with("user:two, agent:user:one, agent:nothing, user:three, agent:"), "{fourth}");
    assert_eq!(answer(&agent, &message("x1", "another talk", "hi")), "nothing");
    // Another caller that uses the same context id sees none of these turns and adds none.
    assert_eq!(as_ci(&world, &agent, &message("c1", "talk", "what did they say?")), "nothing");
    assert_eq!(
        as_ci(&world, &agent, &message("c2", "talk", "and now?")),
        "user:what did they say?, agent:nothing"
    );
    let fifth = answer(&agent, &message("m5", "talk", "five"));
    assert!(!fifth.contains("what did they say"), "{fifth}");
    // The first message of a client that names no context opens one.
    let first = rpc(
        &agent,
        "SendMessage",
        &json!({ "message": {
        "messageId": "f1", "role": "ROLE_USER", "parts": [{ "text": "begin" }] } }),
    );
    let context = first["result"]["task"]["contextId"].as_str().unwrap();
    assert_eq!(answer(&agent, &message("f2", context, "go on")), "user:begin, agent:nothing");
}

/// Finding A3: a plain command reads the earlier turns from a file, which is removed with the
/// command.
#[test]
fn command_reads_earlier_turns_from_a_file() {
    let world = world();
    let agent = world.run(
        "plain",
        "cat \"$SYNAPSE_HISTORY_FILE\"; echo \"$SYNAPSE_HISTORY_FILE\" > where; cat",
        &["--history", "10"],
    );
    assert_eq!(answer(&agent, &message("m1", "talk", "one")), "one");
    let second = answer(&agent, &message("m2", "talk", "two"));
    let turns: Vec<Value> = second.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let shown: Vec<_> = turns.iter().map(|turn| (&turn["role"], &turn["text"])).collect();
    assert_eq!(shown, [(&json!("user"), &json!("one")), (&json!("agent"), &json!("one"))], "{second}");
    assert_eq!(turns[1]["state"], "completed");
    let path = world.read("where");
    world.wait_until("the file is gone", || !std::path::Path::new(path.trim()).exists());
}

/// Finding A3: a program that joins gets earlier turns if it asks for them.
#[test]
fn joined_program_gets_earlier_turns() {
    let world = world();
    let mut program = world.program(&["join", "--name", "stays", "--history", "6"]);
    program.next_of("hello");
    let agent = world.agent("stays");
    for (n, expected) in [(1, 0), (2, 2)] {
        let id = format!("m{n}");
        let mut asked = message(&id, "talk", &id);
        asked["configuration"] = json!({ "returnImmediately": true });
        let told = rpc(&agent, "SendMessage", &asked);
        let line = program.next_of("message");
        assert_eq!(line["history"].as_array().map_or(0, Vec::len), expected, "{line}");
        assert_eq!(line["context_id"], "talk");
        program.say(&json!({ "type": "completed", "text": "ok", "message_id": line["message_id"] }));
        let task = told["result"]["task"]["id"].as_str().unwrap().to_owned();
        world.wait_until("it is done", || agent.task(&task)["state"] == "completed");
    }
}

/// Calls GetTask over each binding that has tenants: JSON-RPC, HTTP+JSON, gRPC, and HTTP+JSON of
/// 0.3. Returns whether each found the task.
fn get_task(agent: &Agent, tenant: &str, task: &str) -> Vec<(&'static str, bool)> {
    let within = if tenant.is_empty() { String::new() } else { format!("{tenant}/") };
    let asked = json!({ "id": task, "tenant": tenant });
    let rest = agent.unix().ask("GET", &format!("/a2a/v1/{within}tasks/{task}"), &[V10], b"");
    let old =
        agent.unix().ask("GET", &format!("/a2a/v1/{within}tasks/{task}"), &[("A2A-Version", "0.3")], b"");
    let grpc = grpc::Client::new(agent.unix(), &[V10]).call("GetTask", &asked);
    if let Err((reason, whole)) = &grpc {
        assert_eq!(reason, "TASK_NOT_FOUND", "{whole}");
    }
    let answer = rpc(agent, "GetTask", &asked);
    let not_found = answer["error"]["code"] == -32001;
    assert!(not_found || answer.get("result").is_some(), "{answer}");
    assert!(
        matches!(rest.status, 200 | 404) && matches!(old.status, 200 | 404),
        "{} {}",
        rest.text(),
        old.text()
    );
    vec![
        ("JSON-RPC", !not_found),
        ("HTTP+JSON", rest.status == 200),
        ("gRPC", grpc.is_ok()),
        ("0.3", old.status == 200),
    ]
}

/// Finding A8: a tenant's tasks are not found under another tenant or under none, even by the same
/// caller.
#[test]
fn tenants_do_not_see_each_other() {
    let world = world();
    let agent = world.run_lines("shop", "hear()", &["--parallel", "8"]);
    let send = |tenant: &str, id: &str| {
        let mut asked = message(id, "talk", "hi");
        asked["tenant"] = tenant.into();
        asked["configuration"] = json!({ "returnImmediately": true });
        let told = rpc(&agent, "SendMessage", &asked);
        told["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
    };
    // The same message id under another tenant is another message.
    let (acme, evil, none) = (send("acme", "m1"), send("evil", "m1"), send("", "m1"));
    assert!(acme != evil && evil != none && acme != none);
    for (tenant, own) in [("acme", &acme), ("evil", &evil), ("", &none)] {
        for task in [&acme, &evil, &none] {
            for (binding, found) in get_task(&agent, tenant, task) {
                assert_eq!(found, task == own, "task of another tenant from {tenant:?} over {binding}");
            }
        }
        let listed = rpc(&agent, "ListTasks", &json!({ "tenant": tenant, "contextId": "talk" }));
        assert_eq!(listed["result"]["totalSize"], 1, "{tenant:?}: {listed}");
        assert_eq!(listed["result"]["tasks"][0]["id"], own.as_str(), "{tenant:?}: {listed}");
    }
    for (method, params) in [
        ("CancelTask", json!({ "id": acme, "tenant": "evil" })),
        ("SubscribeToTask", json!({ "id": acme, "tenant": "evil" })),
        ("ListTaskPushNotificationConfigs", json!({ "taskId": acme, "tenant": "evil" })),
        (
            "CreateTaskPushNotificationConfig",
            json!({ "taskId": acme, "tenant": "evil", "url": "https://h.example" }),
        ),
        ("GetTaskPushNotificationConfig", json!({ "taskId": acme, "id": "c", "tenant": "evil" })),
        ("DeleteTaskPushNotificationConfig", json!({ "taskId": acme, "id": "c", "tenant": "evil" })),
    ] {
        assert_eq!(rpc(&agent, method, &params)["error"]["code"], -32001, "{method}");
    }
    let mut more = message("m2", "", "more");
    (more["tenant"], more["message"]["taskId"]) = ("evil".into(), acme.as_str().into());
    assert_eq!(rpc(&agent, "SendMessage", &more)["error"]["code"], -32001);
    // Ended tasks are kept apart too.
    for (tenant, task) in [("acme", &acme), ("evil", &evil)] {
        let canceled = rpc(&agent, "CancelTask", &json!({ "id": task, "tenant": tenant }));
        assert_eq!(canceled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    }
    for (binding, found) in get_task(&agent, "evil", &acme) {
        assert!(!found, "an ended task of acme from evil over {binding}");
    }
    let listed = rpc(&agent, "ListTasks", &json!({ "tenant": "acme" }));
    assert_eq!(
        (&listed["result"]["totalSize"], &listed["result"]["tasks"][0]["id"]),
        (&json!(1), &json!(acme))
    );
    let bad = rpc(&agent, "GetTask", &json!({ "id": acme, "tenant": "a/b" }));
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
}

/// Findings A3 and A8: the earlier turns of a conversation belong to its tenant, and a script sees
/// which tenant it serves.
#[test]
fn conversations_of_tenants_are_apart() {
    let world = world();
    let script = "
turns = [turn['text'] for turn in message.get('history', [])]
say('completed', text=json.dumps([message.get('tenant'), message['conversation'], turns]))";
    let agent = world.run_lines("memory", script, &["--history", "9"]);
    let ask = |tenant: &str, id: &str| -> Value {
        let mut asked = message(id, "talk", id);
        asked["tenant"] = tenant.into();
        serde_json::from_str(&answer(&agent, &asked)).unwrap()
    };
    let (acme, evil) = (ask("acme", "a1"), ask("evil", "e1"));
    assert_eq!((&acme[0], &evil[0], &evil[2]), (&json!("acme"), &json!("evil"), &json!([])));
    assert_ne!(acme[1], evil[1]);
    let again = ask("acme", "a2");
    assert_eq!((&again[1], &again[2][0]), (&acme[1], &json!("a1")), "{again}");
    assert!(!again.to_string().contains("e1"), "{again}");
}

/// Finding A3: a blocking message of the lowest priority is processed, and its metadata comes back
/// unchanged.
#[test]
fn lowest_priority_is_answered() {
    let world = world();
    let agent = world.run_lines("low", "say('completed', text=str(message['priority']))", &[]);
    for (n, priority) in
        [json!(1), json!(1.0), json!("high"), json!(2.5), json!(null)].into_iter().enumerate()
    {
        let mut asked = message(&format!("m{n}"), "talk", "hi");
        asked["message"]["metadata"] = json!({ "priority": priority });
        let told = rpc(&agent, "SendMessage", &asked);
        let task = &told["result"]["task"];
        let expected = if priority.as_f64() == Some(1.0) { "2" } else { "3" };
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], expected, "{priority}: {told}");
        let kept = &task["history"][0]["metadata"]["priority"];
        assert_eq!(
            kept.as_f64().map_or(kept.clone(), Value::from),
            priority.as_f64().map_or(priority, Value::from)
        );
    }
}

/// Finding A3: the earlier turns include the agent's questions and the reasons of failures.
#[test]
fn earlier_turns_have_questions_and_failures() {
    let world = world();
    let script = "
if message['text'] == 'ask':
    say('input_required', text='which one?')
    say('completed', text='took ' + hear()['text'])
elif message['text'] == 'fail':
    say('failed', why='it is broken')
else:
    say('completed', text=json.dumps([[turn['role'], turn['text'], turn.get('state')] for turn in message['history']]))";
    let agent = world.run_lines("memory", script, &["--history", "9"]);
    let asked = rpc(&agent, "SendMessage", &message("m1", "talk", "ask"));
    let task = asked["result"]["task"]["id"].clone();
    assert!(task.is_string(), "{asked}");
    let mut more = message("m2", "talk", "this");
    more["message"]["taskId"] = task;
    assert_eq!(answer(&agent, &more), "took this");
    rpc(&agent, "SendMessage", &message("m3", "talk", "fail"));
    let turns: Value = serde_json::from_str(&answer(&agent, &message("m4", "talk", "tell"))).unwrap();
    let expected = json!([
        ["user", "ask", null],
        ["agent", "which one?", "input-required"],
        ["user", "this", null],
        ["agent", "took this", "completed"],
        ["user", "fail", null],
        ["agent", "it is broken", "failed"],
    ]);
    assert_eq!(turns, expected);
}

/// Finding A8: reusing a message id for another context or task is a conflict, not a repeat.
#[test]
fn repeat_for_another_context_or_task_is_refused() {
    let world = world();
    let script = "say('input_required', text='?')\nhear()\nsay('completed', text='ok')";
    let agent = world.run_lines("ask", script, &["--parallel", "4"]);
    let sent = |asked: &Value| rpc(&agent, "SendMessage", asked);
    let first = sent(&message("m1", "talk", "hi"))["result"]["task"]["id"].clone();
    let other = sent(&message("m2", "talk", "hi"))["result"]["task"]["id"].clone();
    assert!(first.is_string() && other.is_string() && first != other);
    // With the same context, or with none, it is a repeat of the same message.
    for context in ["talk", ""] {
        assert_eq!(sent(&message("m1", context, "hi"))["result"]["task"]["id"], first, "{context:?}");
    }
    let refused = |asked: &Value| {
        let told = sent(asked);
        assert!(told["error"]["code"].is_i64(), "{told}");
        assert!(told["error"]["message"].as_str().unwrap().contains("m1"), "{told}");
    };
    refused(&message("m1", "another", "hi"));
    let with_task = |task: &Value| {
        let mut asked = message("m1", "", "hi");
        asked["message"]["taskId"] = task.clone();
        asked
    };
    refused(&with_task(&other));
    refused(&with_task(&first));
    // A message that continued a task may be repeated while the task is open.
    let state = rpc(&agent, "GetTask", &json!({ "id": other }));
    assert_eq!(state["result"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{state}");
}
