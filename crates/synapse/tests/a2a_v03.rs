//! A2A 0.3 on a real node, over both of its bindings, at the paths of 1.0: old clients work
//! unchanged.

#[path = "a2a_v03/binding.rs"]
mod binding;

use crate::world;
use binding::{BINDINGS, Binding};
use serde_json::{Value, json};
use synapse_testkit::World;
use synapse_testkit::webhook::Site;

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

/// L1, L2, V7, V9, V11: the same task in both versions and both bindings.
#[test]
fn a_message_is_answered_as_old_clients_expect_it() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    for binding in BINDINGS {
        let mut asked = binding.message(&format!("m {binding:?}"), "hello");
        asked["message"]["contextId"] = "our talk".into();
        let task = binding.send(&agent, &asked);
        assert_eq!(state(&task), binding.state("completed"), "{task}");
        assert_eq!(
            (&task["contextId"], &task["artifacts"][0]["parts"][0]["text"]),
            (&json!("our talk"), &json!("HELLO"))
        );
        let history = &task["history"][0];
        match binding {
            Binding::Rpc => {
                assert_eq!((&history["kind"], &history["role"]), (&json!("message"), &json!("user")));
                assert_eq!(task["artifacts"][0]["parts"][0]["kind"], "text");
            }
            Binding::Rest => {
                assert_eq!(
                    (&history["role"], &history["content"][0]["text"]),
                    (&json!("ROLE_USER"), &json!("hello"))
                );
            }
        }
        let id = json!({ "id": task["id"] });
        assert_eq!(binding.call(&agent, "tasks/get", &id).unwrap(), task);
        let other = BINDINGS[usize::from(binding == Binding::Rpc)];
        assert_eq!(state(&other.call(&agent, "tasks/get", &id).unwrap()), other.state("completed"));
        let path = format!("/a2a/v1/tasks/{}", task["id"].as_str().unwrap());
        let new = agent.unix().ask("GET", &path, &[("A2A-Version", "1.0")], b"");
        assert_eq!(state(&new.json()), "TASK_STATE_COMPLETED");
        assert_eq!(new.header("content-type"), Some("application/a2a+json"));
        let old = agent.unix().ask("GET", &path, &[("A2A-Version", "0.3")], b"");
        assert_eq!(old.header("content-type"), Some("application/json"));
    }
}

/// L2: `blocking`. In JSON-RPC a message waits unless `blocking` is false; over HTTP+JSON only
/// `true` can be expressed.
#[test]
fn who_does_not_want_to_wait_does_not() {
    let world = world();
    let agent = world.run_lines("slow", "hear()\nsay('completed', text='done')", &[]);
    for binding in BINDINGS {
        let mut asked = binding.message(&format!("n{binding:?}"), "go");
        asked["configuration"] = match binding {
            Binding::Rpc => json!({ "blocking": false }),
            Binding::Rest => json!({}),
        };
        let begun = binding.send(&agent, &asked);
        let under_way = [binding.state("submitted"), binding.state("working")];
        assert!(under_way.iter().any(|word| word == state(&begun)), "{begun}");
        // The agent decides how long it takes to stop. On a busy machine the task may still be open
        // here.
        let id = json!({ "id": begun["id"] });
        assert_eq!(binding.call(&agent, "tasks/cancel", &id).unwrap()["id"], begun["id"]);
        world.wait_until("it is canceled", || {
            state(&binding.call(&agent, "tasks/get", &id).unwrap()) == binding.state("canceled")
        });
    }
    let quick = world.run("shout", "tr a-z A-Z", &[]);
    for binding in BINDINGS {
        let mut asked = binding.message(&format!("u{binding:?}"), "go");
        asked.as_object_mut().unwrap().remove("configuration");
        assert_eq!(state(&binding.send(&quick, &asked)), binding.state("completed"), "{binding:?} waits");
    }
}

/// C11, T12–T14 in the words of 0.3: a task that asks can be continued; an ended task cannot be
/// canceled.
#[test]
fn a_task_that_asks_goes_on() {
    let world = world();
    let agent = world.run_lines(
        "asker",
        "say('input_required', text='which one?')\nsay('completed', text='you said ' + hear()['text'])",
        &[],
    );
    for binding in BINDINGS {
        let task = binding.send(&agent, &binding.message(&format!("q{binding:?}"), "go"));
        assert_eq!(state(&task), binding.state("input-required"), "{task}");
        let question = &task["status"]["message"];
        let parts = if binding == Binding::Rpc { &question["parts"] } else { &question["content"] };
        assert_eq!(parts[0]["text"], "which one?", "{question}");
        let mut more = binding.message(&format!("r{binding:?}"), "the second");
        more["message"]["taskId"] = task["id"].clone();
        more["message"]["contextId"] = task["contextId"].clone();
        let done = binding.send(&agent, &more);
        assert_eq!(state(&done), binding.state("completed"), "{done}");
        assert_eq!(done["artifacts"][0]["parts"][0]["text"], "you said the second");
        let last =
            binding.call(&agent, "tasks/get", &json!({ "id": task["id"], "historyLength": 1 })).unwrap();
        assert_eq!(last["history"].as_array().unwrap().len(), 1, "{last}");
        let ended = json!({ "id": task["id"] });
        let (code, status, _) = binding.call(&agent, "tasks/cancel", &ended).unwrap_err();
        assert_eq!((code, status), (-32002, if binding == Binding::Rpc { 200 } else { 409 }));
        let (code, ..) = binding.call(&agent, "tasks/resubscribe", &ended).unwrap_err();
        assert_eq!(code, -32004);
    }
}

/// L2: each event has its kind, the stream ends exactly at the event with `final`, and a broken
/// stream can be resumed.
#[test]
fn a_stream_ends_with_its_final_event_and_goes_on_from_any_place() {
    let world = world();
    let agent = world.run_lines(
        "steps",
        "say('progress', text='one')\nsay('artifact', artifact_id='log', text='a')\nsay('input_required', text='more?')\nhear()\nsay('artifact', artifact_id='log', text='b', append=True, last=True)\nsay('completed', text='done')",
        &[],
    );
    for binding in BINDINGS {
        let kinds = |events: &[(String, Value)]| -> Vec<String> {
            events.iter().map(|(_, event)| binding.told(event).0).collect()
        };
        let finals = |events: &[(String, Value)]| -> Vec<bool> {
            let updates = events.iter().map(|(_, event)| binding.told(event));
            updates
                .filter(|(kind, _)| kind == "status-update")
                .map(|(_, told)| told["final"].as_bool().unwrap())
                .collect()
        };
        let first =
            binding.stream(&agent, "message/stream", &binding.message(&format!("s{binding:?}"), "go"), None);
        assert_eq!(kinds(&first)[0], "task", "{first:?}");
        let (_, asks) = binding.told(&first.last().unwrap().1);
        assert_eq!((state(&asks), &asks["final"]), (binding.state("input-required").as_str(), &json!(true)));
        assert_eq!(finals(&first).iter().filter(|last| **last).count(), 1, "{first:?}");
        let task = binding.told(&first[0].1).1;
        let mut more = binding.message(&format!("t{binding:?}"), "yes");
        more["message"]["taskId"] = task["id"].clone();
        let second = binding.stream(&agent, "message/stream", &more, None);
        let (_, done) = binding.told(&second.last().unwrap().1);
        assert_eq!((state(&done), &done["final"]), (binding.state("completed").as_str(), &json!(true)));
        assert!(kinds(&second).contains(&"artifact-update".to_owned()), "{second:?}");
        // Resuming from any event returns the events up to the next final one. Repeat until the
        // end.
        let id = json!({ "id": task["id"] });
        let mut all = first[1..].to_vec();
        let mut mark = first[0].0.clone();
        let mut told = Vec::new();
        while told.last().map(|(_, event)| state(&binding.told(event).1).to_owned())
            != Some(binding.state("completed"))
        {
            let more = binding.stream(&agent, "tasks/resubscribe", &id, Some(&mark));
            assert!(finals(&more).last() == Some(&true), "{more:?}");
            mark = more.last().unwrap().0.clone();
            told.extend(more);
        }
        let after: Vec<_> = told.iter().filter(|event| !all.contains(event)).cloned().collect();
        all.extend(after.clone());
        assert_eq!(told, all, "in order, and nothing twice");
        assert!(second[1..].iter().all(|event| after.contains(event)), "{second:?} is in {after:?}");
    }
}

/// E1, E6, V8, V9: errors have the codes of 0.3, and mixed-up versions are named.
#[test]
fn what_is_wrong_is_told_as_in_0_3() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let unknown = json!({ "id": "0123456789abcdef0123456789abcdef" });
    for binding in BINDINGS {
        let over_http = |status: u16| if binding == Binding::Rpc { 200 } else { status };
        for method in ["tasks/get", "tasks/cancel", "tasks/resubscribe"] {
            let (code, status, whole) = binding.call(&agent, method, &unknown).unwrap_err();
            assert_eq!((code, status), (-32001, over_http(404)), "{method}: {whole}");
        }
        let mut no_parts = binding.message("e", "x");
        let name = if binding == Binding::Rpc { "parts" } else { "content" };
        no_parts["message"][name] = json!([]);
        let (code, status, whole) = binding.call(&agent, "message/send", &no_parts).unwrap_err();
        assert_eq!((code, status), (-32602, over_http(422)), "{whole}");
        assert!(whole["message"].as_str().unwrap().starts_with("message.parts"), "{whole}");
        let mut video = binding.message("p", "x");
        video["message"][name] = match binding {
            Binding::Rpc => json!([{ "kind": "file", "file": { "bytes": "AAAA", "mimeType": "video/mp4" } }]),
            Binding::Rest => json!([{ "file": { "fileWithBytes": "AAAA", "mimeType": "video/mp4" } }]),
        };
        let (code, status, whole) = binding.call(&agent, "message/send", &video).unwrap_err();
        assert_eq!((code, status), (-32005, over_http(415)), "{whole}");
    }
    let rpc = |headers: &[(&str, &str)], method: &str| {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": unknown });
        let answer = agent.unix().ask("POST", "/api/v1/agent", headers, call.to_string().as_bytes()).json();
        (answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap().to_owned())
    };
    let (code, why) = rpc(&[], "GetTask");
    assert!(code == -32601 && why.contains("send `A2A-Version: 1.0`"), "{why}");
    let (code, why) = rpc(&[("A2A-Version", "1.0")], "tasks/get");
    assert!(code == -32601 && why.contains("send `A2A-Version: 0.3`"), "{why}");
    assert_eq!(rpc(&[("A2A-Version", "0.3")], "tasks/get").0, -32001);
    assert_eq!(rpc(&[("A2A-Version", "0.2")], "tasks/get").0, -32009);
    assert_eq!(rpc(&[], "tasks/explode").0, -32601);
    let answer = agent.unix().ask("GET", "/a2a/v1/extendedAgentCard", &[], b"");
    assert_eq!((answer.status, &answer.json()["code"]), (404, &json!(-32601)), "{}", answer.text());
    // A caller that asked for a stream gets the error as an event. The HTTP status is 200.
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": unknown });
    let headers = [("Accept", "application/json, text/event-stream")];
    let answer = agent.unix().ask("POST", "/api/v1/agent", &headers, call.to_string().as_bytes());
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let text = String::from_utf8_lossy(&answer.body);
    let told: Value = serde_json::from_str(text.trim().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&told["id"], &told["error"]["code"]), (&json!(1), &json!(-32001)), "{told}");
}

fn allow_private_webhooks(world: &World) {
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::set_permissions(world.home(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(world.home().join("settings.json"), r#"{ "network": { "push_private": true } }"#).unwrap();
}

/// L1, P2, P5–P7: webhooks are set, read and deleted in the shapes of 0.3, and receive the task in
/// the shape of 0.3.
#[test]
fn webhooks_hear_the_task() {
    let world = world();
    allow_private_webhooks(&world);
    let agent = world.run_lines(
        "asker",
        "say('input_required', text='which one?')\nsay('completed', text='you said ' + hear()['text'])",
        &[],
    );
    for binding in BINDINGS {
        let (site, late) = (Site::open(), Site::open());
        let mut asked = binding.message(&format!("p{binding:?}"), "go");
        let name = if binding == Binding::Rpc { "pushNotificationConfig" } else { "pushNotification" };
        let authentication = json!({ "schemes": ["Bearer"], "credentials": "k" });
        asked["configuration"][name] =
            json!({ "url": site.url("/"), "token": "t", "authentication": authentication });
        let task = binding.send(&agent, &asked);
        let id = task["id"].as_str().unwrap();
        let config = json!({ "id": "late", "url": late.url("/") });
        let set = match binding {
            Binding::Rpc => json!({ "taskId": id, "pushNotificationConfig": config }),
            Binding::Rest => json!({
                "parent": format!("tasks/{id}"), "configId": "late",
                "config": { "name": format!("tasks/{id}/pushNotificationConfigs/late"), "pushNotificationConfig": config },
            }),
        };
        let set = binding.call(&agent, "tasks/pushNotificationConfig/set", &set).unwrap();
        assert_eq!(set["pushNotificationConfig"], config, "{set}");
        let named = json!({ "id": id, "pushNotificationConfigId": "late" });
        assert_eq!(binding.call(&agent, "tasks/pushNotificationConfig/get", &named).unwrap(), set);
        let all = binding.call(&agent, "tasks/pushNotificationConfig/list", &json!({ "id": id })).unwrap();
        let all = if binding == Binding::Rpc { &all } else { &all["configs"] };
        assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
        // The id of the config may be omitted.
        let any =
            Binding::Rpc.call(&agent, "tasks/pushNotificationConfig/get", &json!({ "id": id })).unwrap();
        assert_eq!(any["taskId"], id, "{any}");
        let mut more = binding.message(&format!("o{binding:?}"), "two");
        more["message"]["taskId"] = id.into();
        // Clients of 0.3 send the config with every message. It stays one config.
        more["configuration"][name] = asked["configuration"][name].clone();
        assert_eq!(state(&binding.send(&agent, &more)), binding.state("completed"));
        for site in [&site, &late] {
            world.wait_until("the webhook has heard of the end", || {
                site.heard().last().is_some_and(|heard| state(&heard.body) == "completed")
            });
        }
        // Configs end with their task, and an unchanged task is not sent again.
        world.wait_until("there are no more webhooks", || {
            let all = Binding::Rpc.call(&agent, "tasks/pushNotificationConfig/list", &json!({ "id": id }));
            all.unwrap() == json!([])
        });
        let heard = late.heard();
        assert!(heard.windows(2).all(|two| two[0].body != two[1].body), "{heard:?}");
        let heard = site.heard();
        let ends = heard.iter().filter(|heard| state(&heard.body) == "completed").count();
        assert_eq!(ends, 1, "{heard:?}");
        assert!(
            heard.iter().all(|heard| heard.body["kind"] == "task" && heard.body["id"] == id),
            "{heard:?}"
        );
        let last = heard.last().unwrap();
        assert_eq!(last.body["artifacts"][0]["parts"][0], json!({ "kind": "text", "text": "you said two" }));
        assert_eq!(
            (last.header("content-type"), last.header("authorization")),
            ("application/json", "Bearer k")
        );
        assert_eq!(last.header("x-a2a-notification-token"), "t");
        // Deleting a missing config succeeds.
        let gone = binding.call(&agent, "tasks/pushNotificationConfig/delete", &named).unwrap();
        assert_eq!(gone, if binding == Binding::Rpc { Value::Null } else { json!({}) });
    }
}

/// S1, S14 in 0.3: a direct answer is a bare message, and a stream of one event. A stream ends when
/// the agent asks for credentials.
#[test]
fn a_message_is_an_answer_too_and_credentials_can_be_asked_for() {
    let world = world();
    let agent = world.run_lines(
        "direct",
        "if 'in' in message['text']:\n    say('auth_required', text='log in')\n    hear()\n    say('completed', text='thanks')\nelse:\n    say('message', text='just so', data={'n': 1})",
        &[],
    );
    for binding in BINDINGS {
        let sent =
            binding.call(&agent, "message/send", &binding.message(&format!("d{binding:?}"), "hi")).unwrap();
        let streamed =
            binding.stream(&agent, "message/stream", &binding.message(&format!("e{binding:?}"), "hi"), None);
        assert_eq!(streamed.len(), 1, "{streamed:?}");
        for (kind, message) in [binding.told(&sent), binding.told(&streamed[0].1)] {
            assert_eq!(kind, "message", "{message}");
            let parts = match binding {
                Binding::Rpc => {
                    json!([{ "kind": "text", "text": "just so" }, { "kind": "data", "data": { "n": 1 } }])
                }
                Binding::Rest => json!([{ "text": "just so" }, { "data": { "data": { "n": 1 } } }]),
            };
            assert_eq!(
                message[if binding == Binding::Rpc { "parts" } else { "content" }],
                parts,
                "{message}"
            );
        }
        let asks = binding.stream(
            &agent,
            "message/stream",
            &binding.message(&format!("g{binding:?}"), "log in"),
            None,
        );
        let (_, last) = binding.told(&asks.last().unwrap().1);
        assert_eq!((state(&last), &last["final"]), (binding.state("auth-required").as_str(), &json!(true)));
        let mut done = binding.message(&format!("h{binding:?}"), "done");
        done["message"]["taskId"] = last["taskId"].clone();
        assert_eq!(state(&binding.send(&agent, &done)), binding.state("completed"));
    }
}

/// Finding A8: over both bindings of 0.3, no operation reaches a task or a webhook of another
/// tenant.
#[test]
fn tenants_do_not_see_each_other() {
    let world = world();
    allow_private_webhooks(&world);
    let script = "say('input_required', text='which one?')\nhear()\nhear()";
    let agent = world.run_lines("shop", script, &["--parallel", "8"]);
    let ask = |binding: Binding, tenant: &str, method: &str, path: &str, mut params: Value| match binding {
        Binding::Rpc => {
            params["tenant"] = tenant.into();
            let call = json!({ "jsonrpc": "2.0", "id": "7", "method": method, "params": params });
            let value = agent.unix().ask("POST", "/api/v1/agent", &[], call.to_string().as_bytes()).json();
            value.get("error").map_or_else(|| Ok(value["result"].clone()), |e| Err(e["code"].clone()))
        }
        Binding::Rest => {
            let within = if tenant.is_empty() { String::new() } else { format!("{tenant}/") };
            let (verb, path) = path.split_once(' ').unwrap();
            let body = if verb == "POST" { params.to_string() } else { String::new() };
            let answer = agent.unix().ask(verb, &format!("/a2a/v1/{within}{path}"), &[], body.as_bytes());
            if answer.status == 200 { Ok(answer.json()) } else { Err(answer.json()["code"].clone()) }
        }
    };
    let site = Site::open();
    let set = |binding: Binding, tenant: &str, task: &str, id: &str| {
        let config = json!({ "id": id, "url": site.url("/") });
        let params = json!({ "taskId": task, "pushNotificationConfig": config });
        let path = format!("POST tasks/{task}/pushNotificationConfigs");
        ask(binding, tenant, "tasks/pushNotificationConfig/set", &path, params)
    };
    for binding in BINDINGS {
        let tenants = ["acme", "evil", ""];
        let tasks = tenants.map(|tenant| {
            let asked = binding.message(&format!("{binding:?}"), "hi");
            let sent = ask(binding, tenant, "message/send", "POST message:send", asked).unwrap();
            let task = if binding == Binding::Rest { &sent["task"] } else { &sent };
            let task = task["id"].as_str().unwrap_or_else(|| panic!("{sent}")).to_owned();
            set(binding, tenant, &task, "w").unwrap_or_else(|e| panic!("{tenant}: {e}"));
            task
        });
        for (n, task) in tasks.iter().enumerate() {
            for (m, tenant) in tenants.into_iter().enumerate() {
                let call = |method: &str, path: String, mut params: Value| {
                    params["id"] = task.as_str().into();
                    ask(binding, tenant, method, &path, params)
                };
                let hooks = format!("tasks/{task}/pushNotificationConfigs");
                let named = json!({ "pushNotificationConfigId": "w" });
                let push = |verb: &str| format!("tasks/pushNotificationConfig/{verb}");
                let mut more = binding.message(&format!("{binding:?} {n} {m}"), "more");
                more["message"]["taskId"] = task.as_str().into();
                more["configuration"]["blocking"] = false.into();
                let found = [
                    ask(binding, tenant, "message/send", "POST message:send", more),
                    call("tasks/get", format!("GET tasks/{task}"), json!({})),
                    call(&push("list"), format!("GET {hooks}"), json!({})),
                    call(&push("get"), format!("GET {hooks}/w"), named.clone()),
                    set(binding, tenant, task, "x"),
                    call(
                        &push("delete"),
                        format!("DELETE {hooks}/x"),
                        json!({ "pushNotificationConfigId": "x" }),
                    ),
                ];
                for (nth, found) in found.into_iter().enumerate() {
                    let expected = if n == m { None } else { Some(json!(-32001)) };
                    assert_eq!(found.err(), expected, "{binding:?}: {nth} by {tenant:?} on {n}");
                }
                if n != m {
                    for (method, path) in [
                        ("tasks/cancel", format!("POST tasks/{task}:cancel")),
                        ("tasks/resubscribe", format!("GET tasks/{task}:subscribe")),
                    ] {
                        assert_eq!(call(method, path, json!({})).err(), Some(json!(-32001)), "{method}");
                    }
                }
            }
        }
        for (tenant, task) in tenants.into_iter().zip(&tasks) {
            let canceled = ask(
                binding,
                tenant,
                "tasks/cancel",
                &format!("POST tasks/{task}:cancel"),
                json!({ "id": task }),
            );
            assert!(canceled.is_ok(), "{tenant:?}: {canceled:?}");
        }
    }
}
