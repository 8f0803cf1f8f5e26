//! ListTasks of a real node: order, stable pages while tasks change, filters, and visibility per
//! caller.

use crate::grpc_client as grpc;
use crate::world;
use grpc::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use synapse_testkit::world::Agent;

const VERSION: (&str, &str) = ("A2A-Version", "1.0");

fn list(agent: &Agent, query: &str) -> Value {
    let answer = agent.unix().ask("GET", &format!("/a2a/v1/tasks?{query}"), &[VERSION], b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let value = answer.json();
    // JSON-RPC returns the same (G2).
    let mut params = json!({});
    for (name, raw) in form_urlencoded::parse(query.as_bytes()) {
        let typed = serde_json::from_str::<Value>(&raw).ok().filter(|value| !value.is_string());
        params[name.as_ref()] = typed.unwrap_or_else(|| raw.as_ref().into());
    }
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params });
    let other = agent.unix().ask("POST", "/api/v1/agent", &[VERSION], call.to_string().as_bytes()).json();
    assert_eq!(other["result"]["pageSize"], value["pageSize"], "{other}");
    // So does gRPC.
    let other = Client::new(agent.unix(), &[VERSION]).call("ListTasks", &params).unwrap();
    assert_eq!(other["pageSize"], value["pageSize"], "{other}");
    value
}

fn send(agent: &Agent, id: &str, context: &str, blocking: bool) -> String {
    let request = json!({
        "message": { "messageId": id, "role": "ROLE_USER", "contextId": context, "parts": [{ "text": id }] },
        "configuration": { "returnImmediately": !blocking },
    });
    let answer =
        agent.unix().ask("POST", "/a2a/v1/message:send", &[VERSION], request.to_string().as_bytes()).json();
    answer["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn ids(page: &Value) -> Vec<String> {
    let tasks = page["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

/// T5–T11.
#[test]
fn tasks_are_listed_newest_first_and_by_what_is_asked_for() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let empty = list(&agent, "");
    assert_eq!(empty, json!({ "tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0 }));
    let sent: Vec<String> = (0..5)
        .map(|n| send(&agent, &format!("m{n}"), if n % 2 == 0 { "even" } else { "odd" }, true))
        .collect();
    let all = list(&agent, "");
    let newest_first: Vec<String> = sent.iter().rev().cloned().collect();
    assert_eq!(ids(&all), newest_first);
    assert_eq!((&all["totalSize"], &all["nextPageToken"]), (&json!(5), &json!("")));
    let first = &all["tasks"][0];
    assert!(first.get("artifacts").is_none(), "{first}");
    assert_eq!(first["history"][0]["messageId"], "m4");
    let whole = list(&agent, "includeArtifacts=true&historyLength=0");
    assert_eq!(whole["tasks"][0]["artifacts"][0]["parts"][0]["text"], "M4");
    assert!(whole["tasks"][0].get("history").is_none(), "{whole}");
    let odd = list(&agent, "contextId=odd");
    assert_eq!(ids(&odd), [sent[3].clone(), sent[1].clone()]);
    assert_eq!(odd["totalSize"], 2);
    assert_eq!(ids(&list(&agent, "status=TASK_STATE_WORKING")), Vec::<String>::new());
    assert_eq!(ids(&list(&agent, "status=TASK_STATE_COMPLETED")).len(), 5);
    // The filter by time includes the given time.
    let third = all["tasks"][2]["status"]["timestamp"].as_str().unwrap();
    let since = list(&agent, &format!("statusTimestampAfter={third}"));
    assert!(ids(&since).contains(&sent[2]) && !ids(&since).contains(&sent[0]), "{since}");
}

/// T4: while tasks change, the pages repeat none and skip none.
#[test]
fn pages_stay_right_while_tasks_change() {
    let world = world();
    let wait = "while [ ! -e go ]; do sleep 0.02; done; cat";
    let agent = world.run("slow", wait, &[]);
    let sent: BTreeSet<String> = (0..11).map(|n| send(&agent, &format!("m{n}"), "c", false)).collect();
    let first = list(&agent, "pageSize=4");
    assert_eq!((ids(&first).len(), &first["totalSize"]), (4, &json!(11)), "{first}");
    let mut seen = ids(&first);
    // The tasks not listed yet move to the front, and new ones arrive.
    std::fs::write(world.folder().join("go"), "").unwrap();
    for n in 0..3 {
        send(&agent, &format!("late {n}"), "c", true);
    }
    let mut token = first["nextPageToken"].as_str().unwrap().to_owned();
    while !token.is_empty() {
        let page = list(&agent, &format!("pageSize=4&pageToken={token}"));
        seen.extend(ids(&page));
        token = page["nextPageToken"].as_str().unwrap().to_owned();
    }
    assert_eq!(seen.len(), 11, "{seen:?}");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), sent);
    // After a restart too.
    assert_eq!(list(&agent, "")["totalSize"], 14);
}

/// T3, T8, E6: callers see only their own tasks, and invalid parameters are refused.
#[test]
fn what_is_absurd_is_refused_and_other_callers_see_nothing() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    send(&agent, "m1", "c", true);
    for (query, field) in [
        ("pageSize=0", "pageSize"),
        ("pageSize=101", "pageSize"),
        ("pageSize=-1", "pageSize"),
        ("pageSize=x", "pageSize"),
        ("pageToken=zzz", "pageToken"),
        ("historyLength=-1", "historyLength"),
        ("status=ASLEEP", "status"),
        ("statusTimestampAfter=soon", "statusTimestampAfter"),
    ] {
        let answer = agent.unix().ask("GET", &format!("/a2a/v1/tasks?{query}"), &[VERSION], b"");
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        let error = answer.json();
        assert_eq!(error["error"]["details"][0]["reason"], "INVALID_PARAMS", "{query}: {error}");
        assert_eq!(error["error"]["details"][1]["fieldViolations"][0]["field"], field, "{query}: {error}");
    }
}
