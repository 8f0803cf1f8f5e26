//! Things of 1.0 that 0.3 can hold, taken through it and back, in both of its forms and as messages of protobuf.

use super::*;
use crate::grpc::unframe;
use proptest::prelude::*;

fn some_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9 -]{1,12}", Just("ä\u{1F600}\"\\/\n".to_owned())]
}

fn some_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-1000i32..1000).prop_map(|n| json!(f64::from(n) / 4.0)),
        some_text().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,5}|data|value|kind|text", inner, 0..3)
                .prop_map(|map| json!(map)),
        ]
    })
}

fn metadata() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(prop::collection::btree_map("[a-z]{1,6}", some_json(), 1..3).prop_map(|map| json!(map)))
}

fn with(mut value: Value, name: &str, field: Option<Value>) -> Value {
    if let Some(field) = field {
        value[name] = field;
    }
    value
}

fn some_part() -> impl Strategy<Value = Value> {
    use base64::Engine as _;
    let raw = prop::collection::vec(any::<u8>(), 0..20)
        .prop_map(|bytes| json!({ "raw": base64::engine::general_purpose::STANDARD.encode(bytes), "mediaType": "image/png", "filename": "f" }));
    let inside = prop_oneof![
        some_text().prop_map(|text| json!({ "text": text })),
        some_json().prop_map(|data| json!({ "data": data })),
        some_text().prop_map(|url| json!({ "url": url })),
        raw,
    ];
    (inside, metadata()).prop_map(|(part, metadata)| with(part, "metadata", metadata))
}

fn parts() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(some_part(), 1..4)
}

fn some_message() -> impl Strategy<Value = Value> {
    (some_text(), parts(), metadata(), any::<bool>()).prop_map(|(id, parts, metadata, is_user)| {
        let role = if is_user { "ROLE_USER" } else { "ROLE_AGENT" };
        with(json!({ "messageId": id, "role": role, "parts": parts, "contextId": "c" }), "metadata", metadata)
    })
}

fn some_status() -> impl Strategy<Value = Value> {
    const STATES: &[&str] = &[
        "SUBMITTED",
        "WORKING",
        "COMPLETED",
        "FAILED",
        "CANCELED",
        "REJECTED",
        "INPUT_REQUIRED",
        "AUTH_REQUIRED",
    ];
    (prop::sample::select(STATES), prop::option::of(some_message()), 0u64..1 << 41).prop_map(
        |(state, message, ms)| {
            let at = synapse_dialects::time::show(synapse_core::ids::Timestamp(ms));
            with(json!({ "state": format!("TASK_STATE_{state}"), "timestamp": at }), "message", message)
        },
    )
}

fn some_artifact() -> impl Strategy<Value = Value> {
    (some_text(), parts(), metadata()).prop_map(|(id, parts, metadata)| {
        with(
            json!({ "artifactId": id, "name": "n", "description": "d", "extensions": ["e"], "parts": parts }),
            "metadata",
            metadata,
        )
    })
}

fn some_event() -> impl Strategy<Value = Value> {
    let task = (some_status(), prop::collection::vec(some_artifact(), 0..3), prop::collection::vec(some_message(), 0..3), metadata())
        .prop_map(|(status, artifacts, history, metadata)| {
            let task = json!({ "id": "t", "contextId": "c", "status": status, "artifacts": artifacts, "history": history });
            json!({ "task": with(task, "metadata", metadata) })
        });
    prop_oneof![
        task,
        some_message().prop_map(|message| json!({ "message": message })),
        some_status().prop_map(|status| json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": status } })),
        (some_artifact(), any::<bool>(), any::<bool>()).prop_map(|(artifact, append, last)| {
            json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact, "append": append, "lastChunk": last } })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// 1.0 to 0.3 to 1.0 keeps all that 0.3 can hold, in both of its forms.
    #[test]
    fn there_and_back(event in some_event()) {
        let event: pb::StreamResponse = from_json(event).unwrap();
        for form in [Form::Rpc, Form::Rest] {
            let old = write_event(&event, form).unwrap();
            let (read, is_last) = read_event(old.clone(), form).unwrap();
            prop_assert_eq!(&read, &event, "by way of {}", old);
            prop_assert_eq!(is_last, matches!(event.payload, Some(Told::StatusUpdate(_))) && is_final(&event));
        }
        let framed = grpc::event(&event).unwrap();
        let (read, is_last) = grpc::read_event(unframe(&framed).unwrap()).unwrap();
        prop_assert_eq!(&read, &event, "by way of gRPC");
        prop_assert_eq!(is_last, matches!(event.payload, Some(Told::StatusUpdate(_))) && is_final(&event));
    }

    /// Whatever bytes arrive are read or refused.
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>, n in 0usize..GRPC.len()) {
        let _ = grpc::request(GRPC[n], &bytes);
        let _ = grpc::read_event(&bytes);
        let _ = grpc::read_reply(&Request::ExtendedCard(Default::default()), &bytes);
    }

    /// What a client of 0.3 would write is what a server of 0.3 reads, in both bindings.
    #[test]
    fn requests_there_and_back(message in some_message(), at_once: bool, length in prop::option::of(1i32..9), streams: bool) {
        let configuration = with(json!({ "returnImmediately": at_once, "acceptedOutputModes": ["a/b"] }), "historyLength", length.map(Value::from));
        let name = if streams { "SendStreamingMessage" } else { "SendMessage" };
        let request = Request::of_method(name, json!({ "message": message, "configuration": configuration })).unwrap();
        let (method, params) = write_request(&request).unwrap();
        prop_assert_eq!(&read_request(method, params).unwrap(), &request);
        let (verb, path, body) = rest::write_request(&request).unwrap();
        let path = rest::read_path(&verb, path.strip_prefix("/v1/").unwrap()).unwrap();
        prop_assert_eq!(&rest::request(path, "", body.unwrap().to_string().as_bytes()).unwrap(), &request);
        let (method, framed) = grpc::write_request(&request).unwrap();
        prop_assert_eq!(&grpc::request(method, unframe(&framed).unwrap()).unwrap(), &request);
    }

    /// Whatever arrives is read or refused.
    #[test]
    fn anything_is_read_or_refused(params in some_json(), message in some_json(), n in 0usize..10) {
        let method = METHODS.get(n).copied().unwrap_or_default();
        let _ = read_request(method, params.clone());
        let _ = read_request("message/send", json!({ "message": message, "configuration": params }));
        for form in [Form::Rpc, Form::Rest] {
            let _ = read_event(params.clone(), form);
            let _ = read_event(json!({ "task": message, "kind": "task" }), form);
        }
        let _ = read_card(params);
    }
}

// tidy: table
const GRPC: &[&str] = &[
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "CancelTask",
    "TaskSubscription",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfig",
    "DeleteTaskPushNotificationConfig",
    "GetAgentCard",
];

/// L1: all ten by their names; what is garbage, or names nothing, is told as such.
#[test]
fn calls_of_grpc_by_name() {
    for method in GRPC {
        assert_eq!(
            grpc::request(method, b"\xff\xff\xff\xff").map_err(|fault| fault.kind).err(),
            match *method {
                // It has no fields, so that nothing in it matters.
                "GetAgentCard" => None,
                _ => Some(Kind::Request),
            },
            "{method}"
        );
    }
    let told = |method: &str, message: &[u8]| grpc::request(method, message).unwrap_err();
    assert!(told("ListTasks", b"").message.contains("lf.a2a.v1.A2AService"));
    assert_eq!(told("NoSuch", b"").kind, Kind::Method);
    for name in ["", "tasks/", "t", "tasks/a/b", "task/t", "tasks/t/pushNotificationConfigs/p"] {
        let message = synapse_a2a_v03::GetTaskRequest { name: name.into(), history_length: 0 };
        let fault = told("GetTask", &prost::Message::encode_to_vec(&message));
        assert_eq!((fault.kind, fault.field.as_deref()), (Kind::Params, Some("name")), "{name}");
        let message =
            synapse_a2a_v03::GetTaskPushNotificationConfigRequest { name: name.replace("Configs", "") };
        let fault = told("GetTaskPushNotificationConfig", &prost::Message::encode_to_vec(&message));
        assert_eq!(fault.kind, Kind::Params, "{name}");
    }
}

/// What is answered, as a server writes it and a client reads it.
#[test]
fn answers_of_grpc_there_and_back() {
    let task = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_CANCELED" } });
    let webhook = json!({ "taskId": "t", "id": "p", "url": "u", "token": "x", "authentication": { "scheme": "Bearer", "credentials": "s" } });
    let card = json!({
        "name": "n", "description": "d", "version": "1",
        "supportedInterfaces": [{ "url": "a:1", "protocolBinding": "GRPC", "protocolVersion": "0.3" }],
        "capabilities": { "streaming": true, "extendedAgentCard": true },
        "securitySchemes": { "b": { "httpAuthSecurityScheme": { "scheme": "Bearer", "description": "x" } } },
        "securityRequirements": [{ "schemes": { "b": { "list": ["s"] } } }],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "s", "name": "s", "description": "d", "tags": ["t"],
            "securityRequirements": [{ "schemes": { "b": { "list": [] } } }] }],
    });
    let asked = |name: &str, params: Value| Request::of_method(name, params).unwrap();
    let of_webhook = json!({ "taskId": "t", "id": "p" });
    for (request, reply) in [
        (asked("GetTask", json!({ "id": "t" })), Reply::Task(from_json(task.clone()).unwrap())),
        (asked("CancelTask", json!({ "id": "t" })), Reply::Task(from_json(task.clone()).unwrap())),
        (asked("SendMessage", json!({})), Reply::Sent(from_json(json!({ "task": task })).unwrap())),
        (
            asked("SendMessage", json!({})),
            Reply::Sent(from_json(json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "x" }] } })).unwrap()),
        ),
        (asked("GetTaskPushNotificationConfig", of_webhook.clone()), Reply::Push(from_json(webhook.clone()).unwrap())),
        (
            asked("ListTaskPushNotificationConfigs", json!({ "taskId": "t" })),
            Reply::Pushes(from_json(json!({ "configs": [webhook], "nextPageToken": "n" })).unwrap()),
        ),
        (asked("DeleteTaskPushNotificationConfig", of_webhook), Reply::Nothing),
        (asked("GetExtendedAgentCard", json!({})), Reply::Card(Box::new(from_json(card).unwrap()))),
    ] {
        let framed = grpc::reply(&reply).unwrap();
        assert_eq!(grpc::read_reply(&request, unframe(&framed).unwrap()).unwrap(), reply);
    }
    assert_eq!(grpc::reply(&Reply::Tasks(Default::default())).unwrap_err().kind, Kind::Unsupported);
}

/// The requests that a client writes without a message, over all bindings.
#[test]
fn the_other_requests_there_and_back() {
    let requests = [
        ("GetTask", json!({ "id": "t 1/ä", "historyLength": 2 })),
        ("CancelTask", json!({ "id": "t" })),
        ("SubscribeToTask", json!({ "id": "t" })),
        (
            "CreateTaskPushNotificationConfig",
            json!({ "taskId": "t", "id": "p", "url": "u", "authentication": { "scheme": "Bearer" } }),
        ),
        ("GetTaskPushNotificationConfig", json!({ "taskId": "t", "id": "p" })),
        ("ListTaskPushNotificationConfigs", json!({ "taskId": "t" })),
        ("DeleteTaskPushNotificationConfig", json!({ "taskId": "t", "id": "p" })),
        ("GetExtendedAgentCard", json!({})),
    ];
    for (name, params) in requests {
        let request = Request::of_method(name, params).unwrap();
        let (method, params) = write_request(&request).unwrap();
        assert_eq!(read_request(method, params).unwrap(), request);
        let (verb, path, body) = rest::write_request(&request).unwrap();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let path = rest::read_path(&verb, path.strip_prefix("/v1/").unwrap()).unwrap();
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        assert_eq!(rest::request(path, query, body.as_bytes()).unwrap(), request);
        // An id with a slash cannot be named there, and is refused rather than taken for another.
        let (method, framed) = grpc::write_request(&request).unwrap();
        let read = grpc::request(method, unframe(&framed).unwrap());
        match name {
            "GetTask" => assert_eq!(read.unwrap_err().kind, Kind::Params),
            _ => assert_eq!(read.unwrap(), request),
        }
    }
    let list = Request::List(pb::ListTasksRequest { page_size: Some(7), ..Default::default() });
    assert_eq!(write_request(&list).unwrap_err().kind, Kind::Unsupported);
    assert_eq!(grpc::write_request(&list).unwrap_err().kind, Kind::Unsupported);
    let (verb, path, body) = rest::write_request(&list).unwrap();
    let (path, query) = path.split_once('?').unwrap();
    let path = rest::read_path(&verb, path.strip_prefix("/v1/").unwrap()).unwrap();
    assert_eq!((rest::request(path, query, b"").unwrap(), body), (list.clone(), None));
    let tasks = json!({ "tasks": [{ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_CANCELED" },
        "history": [{ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] }] }], "totalSize": 1, "pageSize": 7 });
    let page = Reply::Tasks(from_json(tasks).unwrap());
    let told = write_reply(&page, Form::Rest).unwrap();
    assert_eq!(read_reply(&list, told, Form::Rest).unwrap(), page);
}

/// What servers of 0.3 write that its words do not quite allow, and that costs nobody the task.
#[test]
fn what_is_a_little_wrong_is_read() {
    let state = |word: &str| {
        let task = json!({ "kind": "task", "id": "t", "contextId": "c", "status": { "state": word, "message": "x" } });
        read_task(task, Form::Rpc).map(|task| task.status.unwrap().state())
    };
    for (word, expected) in [
        ("cancelled", pb::TaskState::Canceled),
        ("TASK_STATE_CANCELLED", pb::TaskState::Canceled),
        ("input_required", pb::TaskState::InputRequired),
        ("COMPLETED", pb::TaskState::Completed),
        ("", pb::TaskState::Unspecified),
        ("unknown", pb::TaskState::Unspecified),
    ] {
        assert_eq!(state(word).unwrap(), expected, "{word}");
    }
    assert!(state("flying").is_err());
    let part = |part: Value| {
        let message = json!({ "msg": { "messageId": "m", "role": "ROLE_UNSPECIFIED", "content": [part] } });
        let (event, _) = read_event(message, Form::Rest).unwrap();
        serde_json::to_value(event).unwrap()["message"]["parts"][0].clone()
    };
    // Base64 without padding; data that is not wrapped, and data that is.
    assert_eq!(part(json!({ "file": { "fileWithBytes": "AAE", "mimeType": "a/b" } }))["raw"], "AAE=");
    assert_eq!(part(json!({ "file": { "fileWithBytes": "-_8", "mimeType": "a/b" } }))["raw"], "+/8=");
    assert_eq!(part(json!({ "data": { "a": "b" } }))["data"], json!({ "a": "b" }));
    assert_eq!(part(json!({ "data": { "data": { "a": "b" } } }))["data"], json!({ "a": "b" }));
    // A time that is none, over gRPC.
    let time = pbjson_types::Timestamp { seconds: i64::MAX, nanos: -1 };
    let status = synapse_a2a_v03::TaskStatus { state: 2, timestamp: Some(time), ..Default::default() };
    let task = synapse_a2a_v03::Task { id: "t".into(), status: Some(status), ..Default::default() };
    let get = Request::of_method("GetTask", json!({ "id": "t" })).unwrap();
    let Reply::Task(task) = grpc::read_reply(&get, &prost::Message::encode_to_vec(&task)).unwrap() else {
        panic!("no task")
    };
    assert_eq!(task.status.unwrap().timestamp, None);
}
