//! Transcripts of 0.3, as its libraries write and expect them, and what 1.0 has in their place.

use super::*;

fn check_request(method: &str, params: Value, new_method: &str, new: Value) {
    let read =
        read_request(method, params.clone()).unwrap_or_else(|fault| panic!("{method} {params}: {fault:?}"));
    assert_eq!(read, Request::of_method(new_method, new).unwrap(), "{method} {params}");
}

fn check_fault(method: &str, params: Value, field: &str) {
    let fault = read_request(method, params.clone()).unwrap_err();
    assert_eq!((fault.kind, fault.field.as_deref()), (Kind::Params, Some(field)), "{method} {params}");
}

/// As the Python library writes it, with all that a message can have (L1, L2).
/// Finding A4: fasta2a 2 calls a method of 0.3 with parts of 1.0, and reads the envelope of 1.0.
#[test]
fn answers_to_mixed_versions_have_both_forms() {
    let call = |part: Value| json!({ "message": { "role": "user", "messageId": "m", "parts": [part] } });
    assert!(has_untyped_parts(&call(json!({ "text": "hi" }))));
    for proper in [json!({ "kind": "text", "text": "hi" }), json!({ "type": "text", "text": "hi" })] {
        assert!(!has_untyped_parts(&call(proper)));
    }
    assert!(!has_untyped_parts(&json!({ "id": "t" })) && !has_untyped_parts(&json!(null)));
    for (kind, name) in [
        ("task", "task"),
        ("message", "message"),
        ("status-update", "statusUpdate"),
        ("artifact-update", "artifactUpdate"),
    ] {
        let told = with_envelope(json!({ "kind": kind, "x": 1 }));
        assert_eq!(told, json!({ "kind": kind, "x": 1, name: { "kind": kind, "x": 1 } }));
    }
    assert_eq!(with_envelope(json!([1])), json!([1]));
}

#[test]
fn a_message_over_json_rpc() {
    check_request(
        "message/send",
        json!({
            "message": {
                "kind": "message", "messageId": "m1", "role": "user", "contextId": "c", "taskId": "t", "metadata": null,
                "extensions": ["https://example.org/e"], "referenceTaskIds": ["t0"],
                "parts": [
                    { "kind": "text", "text": "hello", "metadata": { "why": "x" } },
                    { "kind": "data", "data": { "data": { "n": 1.5 } } },
                    { "kind": "file", "file": { "bytes": "aGVsbG8=", "mimeType": "text/plain", "name": "a.txt" } },
                    { "kind": "file", "file": { "uri": "https://example.org/a", "mimeType": null } },
                ],
            },
            "configuration": {
                "acceptedOutputModes": ["text", "image/png"], "blocking": false, "historyLength": 3,
                "pushNotificationConfig": {
                    "url": "https://example.org/hook", "token": "s",
                    "authentication": { "schemes": ["Bearer", "Basic"], "credentials": "k" },
                },
            },
            "metadata": { "theirs": true },
        }),
        "SendMessage",
        json!({
            "message": {
                "messageId": "m1", "role": "ROLE_USER", "contextId": "c", "taskId": "t",
                "extensions": ["https://example.org/e"], "referenceTaskIds": ["t0"],
                "parts": [
                    { "text": "hello", "metadata": { "why": "x" } },
                    { "data": { "data": { "n": 1.5 } } },
                    { "raw": "aGVsbG8=", "mediaType": "text/plain", "filename": "a.txt" },
                    { "url": "https://example.org/a" },
                ],
            },
            "configuration": {
                "acceptedOutputModes": ["text/plain", "image/png"], "returnImmediately": true, "historyLength": 3,
                // A webhook without a name has that of its task.
                "taskPushNotificationConfig": {
                    "id": "t", "url": "https://example.org/hook", "token": "s",
                    "authentication": { "scheme": "Bearer", "credentials": "k" },
                },
            },
            "metadata": { "theirs": true },
        }),
    );
}

/// A message that waits unless it is told not to; what is zero is no limit.
#[test]
fn what_is_not_said() {
    let plain = json!({ "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "a" }] });
    let new = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "a" }] });
    check_request(
        "message/stream",
        json!({ "message": plain }),
        "SendStreamingMessage",
        json!({ "message": new }),
    );
    for configuration in
        [json!({}), json!({ "blocking": true }), json!({ "blocking": null, "historyLength": 0 })]
    {
        let asked = json!({ "message": plain, "configuration": configuration });
        check_request("message/send", asked, "SendMessage", json!({ "message": new, "configuration": {} }));
    }
    // Without `kind`, what is there tells.
    let bare = json!({ "messageId": "m", "role": "user", "parts": [{ "text": "a" }] });
    check_request("message/send", json!({ "message": bare }), "SendMessage", json!({ "message": new }));
}

#[test]
fn the_other_methods() {
    check_request(
        "tasks/get",
        json!({ "id": "t", "historyLength": 2, "metadata": {} }),
        "GetTask",
        json!({ "id": "t", "historyLength": 2 }),
    );
    check_request("tasks/get", json!({ "id": "t", "historyLength": 0 }), "GetTask", json!({ "id": "t" }));
    check_request("tasks/cancel", json!({ "id": "t" }), "CancelTask", json!({ "id": "t" }));
    check_request("tasks/resubscribe", json!({ "id": "t" }), "SubscribeToTask", json!({ "id": "t" }));
    check_request(
        "tasks/pushNotificationConfig/set",
        json!({ "taskId": "t", "pushNotificationConfig": { "id": "p", "url": "https://example.org" } }),
        "CreateTaskPushNotificationConfig",
        json!({ "taskId": "t", "id": "p", "url": "https://example.org" }),
    );
    check_request(
        "tasks/pushNotificationConfig/set",
        json!({ "taskId": "t", "pushNotificationConfig": { "url": "https://example.org" } }),
        "CreateTaskPushNotificationConfig",
        json!({ "taskId": "t", "id": "t", "url": "https://example.org" }),
    );
    let named = json!({ "id": "t", "pushNotificationConfigId": "p" });
    let new = json!({ "taskId": "t", "id": "p" });
    check_request(
        "tasks/pushNotificationConfig/get",
        named.clone(),
        "GetTaskPushNotificationConfig",
        new.clone(),
    );
    check_request("tasks/pushNotificationConfig/delete", named, "DeleteTaskPushNotificationConfig", new);
    check_request(
        "tasks/pushNotificationConfig/get",
        json!({ "id": "t" }),
        "GetTaskPushNotificationConfig",
        json!({ "taskId": "t" }),
    );
    check_request(
        "tasks/pushNotificationConfig/list",
        json!({ "id": "t" }),
        "ListTaskPushNotificationConfigs",
        json!({ "taskId": "t" }),
    );
    check_request("agent/getAuthenticatedExtendedCard", json!({}), "GetExtendedAgentCard", json!({}));
}

/// V9: who sends a method of 1.0 without a version is told what is missing; E6: the field at fault is named.
#[test]
fn what_is_refused() {
    for method in ["SendMessage", "GetTask", "ListTasks"] {
        let fault = read_request(method, json!({})).unwrap_err();
        assert_eq!(fault.kind, Kind::Method);
        assert!(fault.message.contains("send `A2A-Version: 1.0`"), "{}", fault.message);
    }
    let fault = read_request("tasks/explode", json!({})).unwrap_err();
    assert_eq!(fault.kind, Kind::Method);
    assert!(!fault.message.contains("A2A-Version: 1.0"), "{}", fault.message);
    assert!(METHODS.iter().all(|method| is_method(method)) && !is_method("SendMessage"));
    let with = |part: Value| json!({ "message": { "messageId": "m", "role": "user", "parts": [part] } });
    check_fault("message/send", with(json!({ "kind": "image" })), "message.parts[0].kind");
    check_fault("message/send", with(json!({ "kind": 7 })), "message.parts[0].kind");
    check_fault("message/send", with(json!({ "kind": "text" })), "message.parts[0].text");
    check_fault("message/send", with(json!({ "kind": "text", "text": 7 })), "message.parts[0].text");
    check_fault("message/send", with(json!({ "text": "a", "data": {} })), "message.parts[0]");
    check_fault("message/send", with(json!({ "kind": "file", "file": {} })), "message.parts[0].file");
    check_fault(
        "message/send",
        with(json!({ "kind": "file", "file": { "bytes": "?" } })),
        "message.parts[0].file.bytes",
    );
    check_fault(
        "message/send",
        with(json!({ "kind": "file", "file": { "bytes": 7 } })),
        "message.parts[0].file.bytes",
    );
    check_fault("message/send", with(json!("a")), "message.parts[0]");
    check_fault("message/send", json!({ "message": 7 }), "message");
    check_fault("message/send", json!({ "message": { "role": "boss" } }), "message.role");
    check_fault("message/send", json!({ "message": { "parts": {} } }), "message.parts");
    check_fault("message/send", json!({ "configuration": { "blocking": "no" } }), "configuration.blocking");
    check_fault("tasks/get", json!({ "id": 7 }), "id");
    check_fault("tasks/pushNotificationConfig/set", json!({ "taskId": "t" }), "pushNotificationConfig");
}

fn whole_task() -> Value {
    json!({
        "id": "t", "contextId": "c",
        "status": {
            "state": "TASK_STATE_CANCELED", "timestamp": "2026-10-03T04:00:00.007Z",
            "message": { "messageId": "m2", "role": "ROLE_AGENT", "parts": [{ "text": "enough" }] },
        },
        "artifacts": [{ "artifactId": "a", "name": "n", "description": "d", "parts": [
            { "data": [1, 2.5] }, { "raw": "AAEC/w==", "mediaType": "image/png", "filename": "x.png" },
        ] }],
        "history": [{ "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "go" }], "referenceTaskIds": ["t0"] }],
        "metadata": { "theirs": true },
    })
}

/// L2: `kind` everywhere, small words, data that is always an object.
#[test]
fn a_task_over_json_rpc() {
    let task: pb::Task = from_json(whole_task()).unwrap();
    let old = json!({
        "kind": "task", "id": "t", "contextId": "c",
        "status": {
            "state": "canceled", "timestamp": "2026-10-03T04:00:00.007Z",
            "message": { "kind": "message", "messageId": "m2", "role": "agent", "parts": [{ "kind": "text", "text": "enough" }] },
        },
        "artifacts": [{ "artifactId": "a", "name": "n", "description": "d", "parts": [
            { "kind": "data", "data": { "value": [1, 2.5] }, "metadata": { "data_part_compat": true } },
            { "kind": "file", "file": { "bytes": "AAEC/w==", "mimeType": "image/png", "name": "x.png" } },
        ] }],
        "history": [{
            "kind": "message", "messageId": "m1", "role": "user", "parts": [{ "kind": "text", "text": "go" }],
            "referenceTaskIds": ["t0"],
        }],
        "metadata": { "theirs": true },
    });
    assert_eq!(write_reply(&Reply::Task(task.clone()), Form::Rpc).unwrap(), old);
    let get = Request::Get(pb::GetTaskRequest::default());
    assert_eq!(read_reply(&get, old.clone(), Form::Rpc).unwrap(), Reply::Task(task.clone()));
    // The answer to a message is the bare task, or the bare message.
    let sent = Reply::Sent(pb::SendMessageResponse { payload: Some(Sent::Task(task)) });
    let send = Request::Send(pb::SendMessageRequest::default());
    assert_eq!(write_reply(&sent, Form::Rpc).unwrap(), old);
    assert_eq!(read_reply(&send, old, Form::Rpc).unwrap(), sent);
    let message: pb::Message =
        from_json(json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "hi" }] })).unwrap();
    let sent = Reply::Sent(pb::SendMessageResponse { payload: Some(Sent::Message(message)) });
    let old = json!({ "kind": "message", "messageId": "m", "role": "agent", "parts": [{ "kind": "text", "text": "hi" }] });
    assert_eq!(write_reply(&sent, Form::Rpc).unwrap(), old);
    assert_eq!(read_reply(&send, old, Form::Rpc).unwrap(), sent);
}

/// As the proto of 0.3 has it, and nothing that it has not: its readers refuse that.
#[test]
fn a_task_over_http_json() {
    let task: pb::Task = from_json(whole_task()).unwrap();
    let old = json!({
        "id": "t", "contextId": "c",
        "status": {
            "state": "TASK_STATE_CANCELLED", "timestamp": "2026-10-03T04:00:00.007Z",
            "message": { "messageId": "m2", "role": "ROLE_AGENT", "content": [{ "text": "enough" }] },
        },
        "artifacts": [{ "artifactId": "a", "name": "n", "description": "d", "parts": [
            { "data": { "data": { "value": [1, 2.5] } }, "metadata": { "data_part_compat": true } },
            { "file": { "fileWithBytes": "QUFFQy93PT0=", "mimeType": "image/png", "name": "x.png" } },
        ] }],
        "history": [{ "messageId": "m1", "role": "ROLE_USER", "content": [{ "text": "go" }] }],
        "metadata": { "theirs": true },
    });
    assert_eq!(write_reply(&Reply::Task(task.clone()), Form::Rest).unwrap(), old);
    let sent = Reply::Sent(pb::SendMessageResponse { payload: Some(Sent::Task(task.clone())) });
    assert_eq!(write_reply(&sent, Form::Rest).unwrap(), json!({ "task": old }));
    let Reply::Task(read) =
        read_reply(&Request::Get(pb::GetTaskRequest::default()), old, Form::Rest).unwrap()
    else {
        panic!("no task")
    };
    let mut held = task;
    held.history[0].reference_task_ids.clear();
    assert_eq!(read, held);
}

/// A message as the Python library sends it over HTTP+JSON, and as others do.
#[test]
fn a_message_over_http_json() {
    let read = |body: &Value| {
        rest::request(
            rest::read_path(&http::Method::POST, "message:send").unwrap(),
            "",
            body.to_string().as_bytes(),
        )
    };
    let new = |parts: Value, configuration: Value| {
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": parts });
        Request::of_method("SendMessage", json!({ "message": message, "configuration": configuration }))
            .unwrap()
    };
    let body = json!({
        "message": { "messageId": "m", "role": "ROLE_USER", "content": [
            { "text": "hello" }, { "data": { "data": { "n": 1.5 } } },
            { "file": { "fileWithBytes": "YUdWc2JHOD0=", "mimeType": "text/plain" } },
        ] },
        "configuration": { "blocking": true, "pushNotification": { "id": "p", "url": "https://example.org" } },
    });
    let parts = json!([{ "text": "hello" }, { "data": { "n": 1.5 } }, { "raw": "aGVsbG8=", "mediaType": "text/plain" }]);
    let configuration = json!({ "taskPushNotificationConfig": { "id": "p", "url": "https://example.org" } });
    assert_eq!(read(&body).unwrap(), new(parts, configuration));
    // What its proto says, with the bytes encoded once; and by the names in the proto.
    let body = json!({
        "request": { "message_id": "m", "role": "ROLE_USER", "content": [{ "file": { "file_with_bytes": "/wAB", "mime_type": "image/png" } }] },
        "configuration": {},
    });
    let at_once = json!({ "returnImmediately": true });
    assert_eq!(read(&body).unwrap(), new(json!([{ "raw": "/wAB", "mediaType": "image/png" }]), at_once));
    // As in JSON-RPC, which some send here too.
    let body = json!({ "message": { "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "data", "data": { "n": 1.5 } }] } });
    let Request::Send(sent) = read(&body).unwrap() else { panic!("no message") };
    assert_eq!(sent.configuration, None, "it waits");
    assert_eq!(
        read(&json!({ "message": { "role": "boss" } })).unwrap_err().field.as_deref(),
        Some("message.role")
    );
}

/// The paths of 0.3, and webhooks as its libraries register them.
#[test]
fn paths() {
    use http::Method;
    let read = |verb: Method, path: &str, body: Value| {
        rest::request(rest::read_path(&verb, path).unwrap(), "historyLength=4", body.to_string().as_bytes())
            .unwrap()
    };
    assert_eq!(
        read(Method::GET, "card", json!({})),
        Request::ExtendedCard(pb::GetExtendedAgentCardRequest::default())
    );
    assert_eq!(
        read(Method::GET, "tasks/t", json!({})),
        Request::of_method("GetTask", json!({ "id": "t", "historyLength": 4 })).unwrap()
    );
    assert_eq!(
        read(Method::POST, "tasks/t:cancel", json!({ "name": "tasks/t" })),
        Request::of_method("CancelTask", json!({ "id": "t" })).unwrap()
    );
    let config = json!({ "name": "tasks/t/pushNotificationConfigs/p", "pushNotificationConfig": { "id": "p", "url": "https://example.org" } });
    let python = json!({ "parent": "tasks/t", "configId": "p", "config": config });
    let set = Request::of_method(
        "CreateTaskPushNotificationConfig",
        json!({ "taskId": "t", "id": "p", "url": "https://example.org" }),
    )
    .unwrap();
    assert_eq!(read(Method::POST, "tasks/t/pushNotificationConfigs", python), set);
    assert_eq!(read(Method::POST, "tasks/t/pushNotificationConfigs", config), set);
    let fault = rest::read_path(&Method::GET, "extendedAgentCard").unwrap_err();
    assert_eq!(
        (fault.kind, fault.message.contains("A2A-Version: 1.0")),
        (Kind::Method, true),
        "{}",
        fault.message
    );
    assert_eq!(rest::read_path(&Method::GET, "nowhere").unwrap_err().kind, Kind::Method);
}

/// G19 has no `final`; 0.3 needs it, and it is true where the stream ends.
#[test]
fn events() {
    let event = |value: Value| from_json::<pb::StreamResponse>(value).unwrap();
    let states = [
        ("SUBMITTED", "submitted", false),
        ("WORKING", "working", false),
        ("INPUT_REQUIRED", "input-required", true),
        ("AUTH_REQUIRED", "auth-required", true),
        ("COMPLETED", "completed", true),
        ("FAILED", "failed", true),
        ("CANCELED", "canceled", true),
        ("REJECTED", "rejected", true),
        ("UNSPECIFIED", "unknown", false),
    ];
    for (new, old, is_last) in states {
        let told = event(
            json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": format!("TASK_STATE_{new}") } } }),
        );
        let expected = json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "status": { "state": old }, "final": is_last });
        let rpc = write_event(&told, Form::Rpc).unwrap();
        assert_eq!((is_final(&told), &rpc), (is_last, &expected));
        assert_eq!(read_event(rpc, Form::Rpc).unwrap(), (told.clone(), is_last));
        let rest = write_event(&told, Form::Rest).unwrap();
        assert_eq!((&rest["statusUpdate"]["final"], rest.get("kind")), (&json!(is_last), None));
        assert_eq!(read_event(rest, Form::Rest).unwrap(), (told, is_last));
    }
    let artifact = json!({ "taskId": "t", "contextId": "c", "append": true, "lastChunk": true, "artifact": { "artifactId": "a", "parts": [{ "text": "x" }] } });
    let told = event(json!({ "artifactUpdate": artifact }));
    let expected = json!({
        "kind": "artifact-update", "taskId": "t", "contextId": "c", "append": true, "lastChunk": true,
        "artifact": { "artifactId": "a", "parts": [{ "kind": "text", "text": "x" }] },
    });
    assert_eq!(write_event(&told, Form::Rpc).unwrap(), expected);
    assert_eq!(write_event(&told, Form::Rest).unwrap(), json!({ "artifactUpdate": artifact }));
    for nonsense in [
        json!({}),
        json!(7),
        json!({ "kind": "dance" }),
        json!({ "kind": "task", "status": { "state": "asleep" } }),
    ] {
        assert_eq!(read_event(nonsense, Form::Rpc).unwrap_err().kind, Kind::BadAgentAnswer);
    }
}

/// Webhooks as JSON-RPC tells them: beside their task, in a bare list; deleted is `null`.
#[test]
fn webhooks() {
    let config: pb::TaskPushNotificationConfig = from_json(json!({
        "taskId": "t", "id": "p", "url": "https://example.org", "token": "s", "authentication": { "scheme": "Bearer", "credentials": "k" },
    }))
    .unwrap();
    let inside = json!({ "id": "p", "url": "https://example.org", "token": "s", "authentication": { "schemes": ["Bearer"], "credentials": "k" } });
    let rpc = json!({ "taskId": "t", "pushNotificationConfig": inside });
    let rest = json!({ "name": "tasks/t/pushNotificationConfigs/p", "pushNotificationConfig": inside });
    let (get, list) = (Request::GetPush(Default::default()), Request::ListPush(Default::default()));
    let all = Reply::Pushes(pb::ListTaskPushNotificationConfigsResponse {
        configs: vec![config.clone()],
        next_page_token: String::new(),
    });
    for (form, one, many) in [
        (Form::Rpc, &rpc, json!([rpc])),
        (Form::Rest, &rest, json!({ "configs": [rest], "nextPageToken": "" })),
    ] {
        assert_eq!(&write_reply(&Reply::Push(config.clone()), form).unwrap(), one);
        assert_eq!(read_reply(&get, one.clone(), form).unwrap(), Reply::Push(config.clone()));
        assert_eq!(write_reply(&all, form).unwrap(), many);
        assert_eq!(read_reply(&list, many, form).unwrap(), all);
    }
    assert_eq!(write_reply(&Reply::Nothing, Form::Rpc).unwrap(), Value::Null);
    assert_eq!(write_reply(&Reply::Nothing, Form::Rest).unwrap(), json!({}));
}

/// L3: what a card of 0.3 must have, from one of 1.0; and back.
#[test]
fn cards() {
    let card: pb::AgentCard = from_json(json!({
        "name": "n", "description": "d", "version": "1", "provider": { "url": "https://example.org", "organization": "o" },
        "supportedInterfaces": [
            { "url": "http://h/api/v1/agent", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
            { "url": "http://h/api/v1/agent", "protocolBinding": "JSONRPC", "protocolVersion": "0.3" },
            { "url": "http://h/a2a", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3" },
        ],
        "capabilities": { "streaming": true, "extendedAgentCard": true },
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "securitySchemes": {
            "bearer": { "httpAuthSecurityScheme": { "scheme": "bearer" } },
            "key": { "apiKeySecurityScheme": { "location": "header", "name": "X" } },
        },
        "securityRequirements": [{ "schemes": { "bearer": { "list": ["a"] } } }],
        "skills": [{ "id": "s", "name": "s", "description": "s", "tags": ["t"] }],
    }))
    .unwrap();
    let old = json!({
        "name": "n", "description": "d", "version": "1", "provider": { "url": "https://example.org", "organization": "o" },
        "protocolVersion": "0.3.0", "url": "http://h/api/v1/agent", "preferredTransport": "JSONRPC",
        "additionalInterfaces": [
            { "url": "http://h/api/v1/agent", "transport": "JSONRPC" }, { "url": "http://h/a2a", "transport": "HTTP+JSON" },
        ],
        "capabilities": { "streaming": true }, "supportsAuthenticatedExtendedCard": true,
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "securitySchemes": {
            "bearer": { "type": "http", "scheme": "bearer" }, "key": { "type": "apiKey", "in": "header", "name": "X" },
        },
        "security": [{ "bearer": ["a"] }],
        "skills": [{ "id": "s", "name": "s", "description": "s", "tags": ["t"] }],
    });
    assert_eq!(write_card(&card).unwrap(), old);
    let over_http = write_reply(&Reply::Card(Box::new(card.clone())), Form::Rest).unwrap();
    let bearer =
        json!({ "type": "http", "scheme": "bearer", "httpAuthSecurityScheme": { "scheme": "bearer" } });
    assert_eq!(over_http["securitySchemes"]["bearer"], bearer);
    let mut held = card;
    held.supported_interfaces.remove(0);
    assert_eq!(read_card(old).unwrap(), held);
    assert_eq!(read_card(json!({ "name": "n" })).unwrap_err().kind, Kind::BadAgentAnswer);
}

/// Finding A8: every operation of 0.3 works under the tenant that its path or its parameters name.
#[test]
fn every_operation_keeps_its_tenant() {
    let message = json!({ "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "a" }] });
    // A webhook cannot name a tenant: one that does is a way around the tenant of the request.
    let config = json!({ "id": "p", "url": "https://example.org", "tenant": "evil" });
    let calls = [
        ("message/send", json!({ "message": message })),
        ("message/stream", json!({ "message": message })),
        ("tasks/get", json!({ "id": "t" })),
        ("tasks/cancel", json!({ "id": "t" })),
        ("tasks/resubscribe", json!({ "id": "t" })),
        ("tasks/pushNotificationConfig/set", json!({ "taskId": "t", "pushNotificationConfig": config })),
        ("tasks/pushNotificationConfig/get", json!({ "id": "t", "pushNotificationConfigId": "p" })),
        ("tasks/pushNotificationConfig/list", json!({ "id": "t" })),
        ("tasks/pushNotificationConfig/delete", json!({ "id": "t", "pushNotificationConfigId": "p" })),
        ("agent/getAuthenticatedExtendedCard", json!({})),
    ];
    assert_eq!(calls.len(), super::METHODS.len());
    for (method, params) in calls {
        assert_eq!(read_request(method, params.clone()).unwrap().tenant(), "", "{method}");
        for tenant in ["acme", "evil", ""] {
            let mut params = params.clone();
            params["tenant"] = tenant.into();
            assert_eq!(read_request(method, params).unwrap().tenant(), tenant, "{method}");
        }
    }
    let body = json!({ "message": message, "pushNotificationConfig": config, "tenant": "evil" }).to_string();
    let wrapped = json!({ "config": { "tenant": "evil", "pushNotificationConfig": config } }).to_string();
    for (verb, path) in rest::rows() {
        let path = path.replace(['{', '}'], "");
        for body in [body.as_str(), wrapped.as_str()] {
            let verb = http::Method::from_bytes(verb.as_bytes()).unwrap();
            let below = rest::read_path(&verb, &format!("acme/{path}")).unwrap();
            let request = rest::request(below, "tenant=evil", body.as_bytes()).unwrap();
            assert_eq!(request.tenant(), "acme", "{verb} {path}");
            // Finding A9: a slash at the end changes nothing.
            assert_eq!(rest::read_path(&verb, &format!("{path}/")), rest::read_path(&verb, &path));
        }
    }
    let below = rest::read_path(&http::Method::POST, "tasks/t/pushNotificationConfigs").unwrap();
    assert_eq!(rest::request(below, "", wrapped.as_bytes()).unwrap().tenant(), "");
}
