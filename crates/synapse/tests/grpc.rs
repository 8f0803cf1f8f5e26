//! gRPC at a real node: invalid calls, oversized bodies, and streams that end early.
//!
//! Not here: what the operations do (`a2a.rs`, over every binding), and invalid HTTP/2
//! (`http2.rs`).

use crate::grpc_client as client;
use crate::world;
use bytes::Bytes;
use client::{Client, Io, Way};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, StatusCode};
use prost::Message as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use synapse_a2a::grpc::{PREFIX, frame};
use synapse_a2a::pb;
use synapse_testkit::{Agent, processes};
use tokio::runtime::Runtime;

type Headers<'a> = &'a [(&'a str, &'a str)];

const VERSION: (&str, &str) = ("a2a-version", "1.0");
const GRPC: (&str, &str) = ("content-type", "application/grpc");
/// Longer than any answer should take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

const NOT_FOUND: Option<i32> = Some(5);

/// An HTTP/2 connection, and the runtime that drives it.
struct Connection {
    runtime: Arc<Runtime>,
    send: SendRequest<Bytes>,
}

/// A response: the HTTP status, the gRPC status, and all headers and trailers.
#[derive(Debug)]
struct Told {
    http: StatusCode,
    grpc: Option<i32>,
    headers: HeaderMap,
    data: Vec<u8>,
}

fn runtime() -> Arc<Runtime> {
    Arc::new(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

impl Connection {
    fn open(runtime: &Arc<Runtime>, way: impl Into<Way>) -> Self {
        let opening = (way.into().open)();
        let send = runtime.block_on(async {
            let (send, connection) = h2::client::handshake(opening.await.unwrap()).await.unwrap();
            tokio::spawn(connection);
            send
        });
        Self { runtime: runtime.clone(), send }
    }

    fn begin(&self, request: Request<()>) -> (ResponseFuture, SendStream<Bytes>) {
        self.runtime.block_on(async {
            let ready = tokio::time::timeout(TIMEOUT, self.send.clone().ready()).await;
            ready.expect("there is room for one more").unwrap().send_request(request, false).unwrap()
        })
    }

    fn ask(&self, request: Request<()>, body: &[u8]) -> Told {
        let (response, mut stream) = self.begin(request);
        // Sending fails if the node has already closed the stream. The response says why.
        let _ = stream.send_data(Bytes::copy_from_slice(body), true);
        self.runtime.block_on(answer(response))
    }
}

async fn answer(response: ResponseFuture) -> Told {
    let whole = async {
        let (head, mut body) = response.await.unwrap().into_parts();
        let (mut headers, mut data) = (head.headers, Vec::new());
        while let Some(chunk) = body.data().await {
            data.extend(chunk.unwrap());
        }
        headers.extend(body.trailers().await.unwrap().unwrap_or_default());
        let grpc = headers.get("grpc-status").map(|code| code.to_str().unwrap().parse().unwrap());
        Told { http: head.status, grpc, headers, data }
    };
    tokio::time::timeout(TIMEOUT, whole).await.expect("an answer came")
}

fn request(authority: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::post(format!("http://{authority}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn call(operation: &str, headers: &[(&str, &str)]) -> Request<()> {
    request("localhost", &format!("{PREFIX}{operation}"), &[&[GRPC, VERSION], headers].concat())
}

fn get_task(id: &str) -> Vec<u8> {
    frame(&pb::GetTaskRequest { id: id.into(), ..pb::GetTaskRequest::default() })
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

/// A `SendMessage` with a data part of lists nested this deep.
fn deep(levels: usize) -> Vec<u8> {
    let within = |field: u8, bytes: &[u8]| {
        let (mut out, mut length) = (vec![field << 3 | 2], bytes.len());
        while length > 0x7f {
            out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap());
        [out.as_slice(), bytes].concat()
    };
    let value = (0..levels).fold(Vec::new(), |inner, _| within(6, &within(1, &inner)));
    // SendMessageRequest.message.parts.data
    framed(&within(2, &within(5, &within(4, &value))))
}

/// R1–R3, R5, E6: each invalid call gets its status, and the connection stays usable.
#[test]
fn what_is_no_call_is_told_so() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let runtime = runtime();
    let connection = Connection::open(&runtime, agent.unix());
    let good = get_task("x");
    let two = [good.as_slice(), &good].concat();
    let compressed = [&[1], &good[1..]].concat();
    let garbage = framed(&[0xff; 40]);
    let nested = deep(5_000);
    let bodies: [(&str, &[u8], i32); 9] = [
        ("GetTask", &good, 5),
        ("GetTask", &two, 3),
        ("GetTask", &good[..good.len() - 1], 3),
        ("GetTask", b"", 3),
        ("GetTask", &compressed, 12),
        ("SendMessage", &garbage, 3),
        ("SendStreamingMessage", &garbage, 3),
        ("SendMessage", &nested, 3),
        ("Nonsense", &good, 12),
    ];
    for (operation, body, code) in bodies {
        let told = connection.ask(call(operation, &[("te", "trailers")]), body);
        assert_eq!((told.http.as_u16(), told.grpc), (200, Some(code)), "{operation} {body:?}: {told:?}");
        assert_eq!(told.headers.contains_key("grpc-accept-encoding"), body == compressed, "{told:?}");
    }
    let path = format!("{PREFIX}GetTask");
    let of_03 = "/a2a.v1.A2AService/GetTask";
    let heads: [(&str, Headers<'_>, u16, Option<i32>); 16] = [
        (&path, &[GRPC, VERSION], 200, NOT_FOUND),
        (&path, &[("content-type", "application/grpc+proto"), VERSION], 200, NOT_FOUND),
        (&path, &[("content-type", "Application/gRPC; x=y"), VERSION], 200, NOT_FOUND),
        (&path, &[GRPC, ("a2a-version", "1.0.7")], 200, NOT_FOUND),
        (&path, &[GRPC], 200, Some(9)),
        (&path, &[GRPC, ("a2a-version", "0.3")], 200, Some(9)),
        (&path, &[GRPC, ("a2a-version", "9.9")], 200, Some(9)),
        (&path, &[VERSION], 415, None),
        (&path, &[("content-type", "application/json"), VERSION], 415, None),
        (&path, &[("content-type", "application/grpc-web+proto"), VERSION], 415, None),
        ("/grpc.health.v1.Health/Check", &[GRPC], 200, Some(12)),
        // In 0.3, `tasks/ID` is the name of a task. The name is empty here.
        (of_03, &[GRPC], 200, Some(3)),
        (of_03, &[GRPC, ("a2a-version", "0.3")], 200, Some(3)),
        (of_03, &[GRPC, VERSION], 200, Some(9)),
        ("/a2a.v1.A2AService/ListTasks", &[GRPC], 200, Some(12)),
        (of_03, &[], 415, None),
    ];
    for (path, headers, http, grpc) in heads {
        let told = connection.ask(request("localhost", path, headers), &good);
        assert_eq!((told.http.as_u16(), told.grpc), (http, grpc), "{path} {headers:?}: {told:?}");
    }
    let old = agent.unix().ask("POST", &path, &[GRPC, VERSION], &good);
    assert_eq!((old.status, old.code().as_str()), (505, "not_http2"), "{}", old.text());
}

/// E2, E3, E21: the same checks of host, origin and credentials as for every other request.
#[test]
fn who_may_not_call_is_told_so_in_the_form_of_a_call() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let (runtime, bearer) = (runtime(), agent.bearer());
    let connection = Connection::open(&runtime, agent.tcp());
    let host = format!("localhost:{}", agent.port);
    let path = format!("{PREFIX}GetTask");
    let proven = ("authorization", bearer.as_str());
    let evil = format!("http://evil.example:{}", agent.port);
    let cases: [(&str, Headers<'_>, i32); 10] = [
        (&host, &[proven], 5),
        (&host, &[proven, ("origin", &format!("http://{host}"))], 5),
        (&host, &[], 16),
        (&host, &[("authorization", "Bearer nonsense")], 16),
        (&host, &[proven, ("origin", &evil)], 7),
        ("evil.example", &[proven], 7),
        ("evil.example", &[proven, ("host", &host)], 3),
        (&host, &[proven, proven], 3),
        (&host, &[proven, ("authorization", "Bearer nonsense")], 3),
        (&host, &[proven, ("origin", &format!("http://{host}")), ("origin", &evil)], 3),
    ];
    for (authority, headers, code) in cases {
        let asked = request(authority, &path, &[&[GRPC, VERSION], headers].concat());
        let told = connection.ask(asked, &get_task("x"));
        assert_eq!((told.http.as_u16(), told.grpc), (200, Some(code)), "{authority} {headers:?}: {told:?}");
        assert_eq!(told.headers.contains_key("www-authenticate"), code == 16, "{told:?}");
    }
    // The audit log records refused calls like all others, including ones that read nothing.
    let logged = || {
        let text = world.ok(&["audit", "--json", "shout"]);
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines = lines.filter(|line| line["path"] == path.as_str());
        lines
            .map(|line| (line["status"].as_u64().unwrap(), line["verb"].as_str().unwrap().to_owned()))
            .collect()
    };
    let expected: Vec<(u64, String)> = [401, 401, 403, 403].map(|status| (status, "read".into())).into();
    let mut last: Vec<(u64, String)> = Vec::new();
    world.wait_until(&format!("the log has {expected:?}"), || {
        last = logged();
        last == expected
    });
    // The other APIs work on this connection too.
    let plain = Request::get(format!("http://{host}/a2a/v1/tasks/x")).header(VERSION.0, VERSION.1);
    let told = connection.ask(plain.header(proven.0, proven.1).body(()).unwrap(), b"");
    assert_eq!((told.http.as_u16(), told.grpc), (404, None), "{told:?}");
    assert!(String::from_utf8_lossy(&told.data).contains("TASK_NOT_FOUND"), "{told:?}");
    let twice = Request::get(format!("http://{host}/status")).header(proven.0, proven.1);
    let told = connection.ask(twice.header(proven.0, "Bearer nonsense").body(()).unwrap(), b"");
    assert_eq!(told.http.as_u16(), 400, "{told:?}");
}

/// At the limit of open files the node cannot identify callers. It answers "unavailable", names the
/// limit, and closes the connection.
#[test]
#[cfg(target_os = "linux")]
fn caller_that_cannot_be_identified_for_want_of_files_hears_unavailable() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let runtime = runtime();
    let (connection, told) = world.wait_for("the limit is named", || {
        // Enough to accept a connection, too few to identify the process behind it.
        processes::leave_free(agent.node_pid, 1);
        let connection = Connection::open(&runtime, agent.unix());
        let told = connection.ask(call("GetTask", &[]), &get_task("x"));
        assert_ne!(told.grpc, Some(16), "{told:?}");
        (told.grpc == Some(14)).then_some((connection, told))
    });
    processes::leave_free(agent.node_pid, usize::MAX);
    assert!(told.headers["grpc-message"].to_str().unwrap().contains("RLIMIT_NOFILE"), "{told:?}");
    assert_eq!(told.headers["retry-after"], "1", "{told:?}");
    world.wait_until("this connection takes no more requests", || {
        runtime.block_on(connection.send.clone().ready()).is_err()
    });
    let told = Connection::open(&runtime, agent.unix()).ask(call("GetTask", &[]), &get_task("x"));
    assert_eq!(told.grpc, NOT_FOUND, "{told:?}");
}

/// E17: an oversized body is refused before all of it arrives, whatever length it declares.
#[test]
fn bodies_without_end_are_refused() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let runtime = runtime();
    let connection = Connection::open(&runtime, agent.unix());
    let huge = 100 << 20;
    let (response, _unsent) = connection.begin(call("SendMessage", &[("content-length", &huge.to_string())]));
    let told = runtime.block_on(answer(response));
    assert_eq!(told.grpc, Some(8), "{told:?}");
    let (response, mut stream) = connection.begin(call("SendMessage", &[]));
    let sent = runtime.block_on(async {
        let chunk = Bytes::from(vec![0; 64 << 10]);
        let mut sent = 0;
        while sent < huge {
            stream.reserve_capacity(chunk.len());
            let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
            let Some(Ok(room)) = room else { break };
            if stream.send_data(chunk.slice(..room.min(chunk.len())), false).is_err() {
                break;
            }
            sent += room;
        }
        sent
    });
    let told = runtime.block_on(answer(response));
    assert_eq!(told.grpc, Some(8), "{told:?}");
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    assert_eq!(connection.ask(call("GetTask", &[]), &get_task("x")).grpc, NOT_FOUND, "it goes on");
}

/// An error sent before the body has arrived reaches the client whole, and the node still reads the
/// body. If the stream were reset, curl would report a broken connection instead of the reason.
#[test]
fn refused_request_is_not_reset_while_its_body_is_under_way() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let runtime = runtime();
    let connection = Connection::open(&runtime, agent.unix());
    let (response, mut stream) = connection.begin(call("SendMessage", &[("content-length", "104857600")]));
    let told = runtime.block_on(answer(response));
    assert_eq!(told.grpc, Some(8), "{told:?}");
    // The response is here. A reset would arrive before the response to the next request.
    assert_eq!(connection.ask(call("GetTask", &[]), &get_task("x")).grpc, NOT_FOUND);
    stream.send_data(Bytes::from_static(b"late"), false).unwrap();
    assert_eq!(connection.ask(call("GetTask", &[]), &get_task("x")).grpc, NOT_FOUND);
    stream.send_data(Bytes::from_static(b"later"), true).unwrap();
}

/// Requests that never end use up only the slots of their own socket, and give them back.
#[test]
fn requests_that_never_end_have_an_end() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let runtime = runtime();
    let mut held = Vec::new();
    let another = Connection::open(&runtime, agent.unix());
    let ask = || another.ask(call("GetTask", &[]), &get_task("x"));
    // Until there is no more room: a connection that has just answered may refuse one of them.
    world.wait_until("there is no more room", || {
        let connection = Connection::open(&runtime, agent.unix());
        let begun: Vec<_> = (0..128).map(|_| connection.begin(call("GetTask", &[]))).collect();
        held.push((connection, begun));
        assert!(held.len() <= 64, "so many requests are never refused");
        held.len() >= 16 && ask().grpc == Some(8)
    });
    assert_eq!(agent.get("/status").status, 200, "HTTP/1.1 has room of its own");
    let tcp = Client::new(agent.tcp(), &[VERSION, ("authorization", &agent.bearer())]);
    assert_eq!(tcp.call("GetTask", &json!({ "id": "x" })).unwrap_err().0, "TASK_NOT_FOUND");
    // One of the open requests can still be completed.
    let (response, mut stream) = held[3].1.pop().unwrap();
    stream.send_data(get_task("x").into(), true).unwrap();
    assert_eq!(runtime.block_on(answer(response)).grpc, NOT_FOUND);
    drop(held);
    world.wait_until("there is room again", || ask().grpc == NOT_FOUND);
}

fn watchers(agent: &Agent) -> usize {
    let metrics = agent.get("/metrics").body;
    let metrics = String::from_utf8(metrics).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("synapse_watchers "));
    line.unwrap().parse().unwrap()
}

/// Opens a stream and reads its first event.
fn subscribe(connection: &Connection, task: &str, headers: &[(&str, &str)]) -> (HeaderMap, RecvStream) {
    let (response, mut stream) = connection.begin(call("SubscribeToTask", headers));
    let asked = pb::SubscribeToTaskRequest { id: task.into(), ..pb::SubscribeToTaskRequest::default() };
    stream.send_data(frame(&asked).into(), true).unwrap();
    connection.runtime.block_on(async {
        let (head, mut events) = response.await.unwrap().into_parts();
        let first = events.data().await.unwrap().unwrap();
        let first = pb::StreamResponse::decode(&first[5..]).unwrap();
        assert!(matches!(first.payload, Some(pb::stream_response::Payload::Task(_))), "{first:?}");
        (head.headers, events)
    })
}

/// Counts the events of a stream up to its end, and returns the trailers.
fn trailers(runtime: &Runtime, mut events: RecvStream) -> (usize, HeaderMap) {
    let end = async {
        let mut count = 0;
        while let Some(more) = events.data().await {
            more.unwrap();
            count += 1;
        }
        (count, events.trailers().await.unwrap().unwrap())
    };
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, end).await.expect("the stream ended") })
}

/// R6, S22: deadlines, callers that leave, a node that restarts, and resuming after it.
#[test]
fn streams_that_end_early() {
    let world = world();
    let agent = world.run_lines("waits", "hear()\nsay('completed', text='done')", &[]);
    let client = Client::new(agent.unix(), &[VERSION]);
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "go" }] });
    let at_once = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let task = client.call("SendMessage", &at_once).unwrap()["task"]["id"].as_str().unwrap().to_owned();
    world.wait_until("it works", || agent.task(&task)["state"] == "working");
    let before = watchers(&agent);
    let runtime = runtime();
    let connection = Connection::open(&runtime, agent.unix());

    // The caller's deadline expires.
    let again = pb::SendMessageRequest {
        message: Some(pb::Message {
            message_id: "m".into(),
            role: pb::Role::User.into(),
            parts: vec![pb::Part {
                content: Some(pb::part::Content::Text("go".into())),
                ..pb::Part::default()
            }],
            ..pb::Message::default()
        }),
        ..pb::SendMessageRequest::default()
    };
    let late = connection.ask(call("SendMessage", &[("grpc-timeout", "200m")]), &frame(&again));
    assert_eq!(late.grpc, Some(4), "{late:?}");
    let (_, events) = subscribe(&connection, &task, &[("grpc-timeout", "500m")]);
    assert_eq!(trailers(&runtime, events).1["grpc-status"], "4");

    // The caller leaves.
    let streams: Vec<_> = (0..20).map(|_| subscribe(&connection, &task, &[])).collect();
    world.wait_until("they are followed", || watchers(&agent) >= before + 20);
    drop(streams);
    world.wait_until("nobody is followed for them any more", || watchers(&agent) <= before);

    // The node restarts.
    let (head, events) = subscribe(&connection, &task, &[]);
    let first = head["first-event-id"].to_str().unwrap().to_owned();
    let node = agent.node_pid;
    assert_eq!(agent.unix().ask("POST", "/api/v1/restart", &[], b"").status, 202);
    let (count, end) = trailers(&runtime, events);
    assert_eq!((count, end["grpc-status"].to_str().unwrap()), (0, "14"), "{end:?}");
    assert_eq!(end["last-event-id"], first);
    world.wait_until("another node is there", || {
        world.entry("waits").is_some_and(|entry| entry["node_pid"] != node) && !processes::is_alive(node)
    });
    let canceled = client.call("CancelTask", &json!({ "id": task })).unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    let rest = client.stream("SubscribeToTask", &json!({ "id": task }), Some(&format!("{first}+0"))).unwrap();
    let last = &rest.last().unwrap().1["statusUpdate"]["status"]["state"];
    assert_eq!(last, "TASK_STATE_CANCELED", "{rest:?}");
}

/// R1, E11: over TLS, ALPN selects HTTP/2 beside HTTP/1.1, with and without client certificates.
#[test]
fn over_tls_it_comes_by_alpn() {
    let world = world();
    world.ok(&["certs", "make"]);
    let dir = world.home().join("certs");
    let [cert, key] = ["server.pem", "server.key"].map(|name| dir.join(name).display().to_string());
    let agent = world.run("shout", "tr a-z A-Z", &["--tls-cert", &cert, "--tls-key", &key]);
    let files = synapse_tls::ClientFiles { ca: Some(dir.join("ca.pem")), ..Default::default() };
    let mut config = (*synapse_tls::client::config(&files).unwrap()).clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (port, config) = (agent.port, Arc::new(config));
    let open = move || -> client::Opening {
        let connector = tokio_rustls::TlsConnector::from(config.clone());
        Box::pin(async move {
            let plain = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
            let secured = connector.connect("localhost".try_into().unwrap(), plain).await?;
            assert_eq!(secured.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            Ok(Box::new(secured) as Box<dyn Io>)
        })
    };
    let way = Way { port, open: Arc::new(open) };
    let client = Client::new(way, &[VERSION, ("authorization", &agent.bearer())]);
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
    let told = client.call("SendMessage", &json!({ "message": message })).unwrap();
    assert_eq!(told["task"]["artifacts"][0]["parts"][0]["text"], "HELLO", "{told}");
    let events = client.stream("SendStreamingMessage", &json!({ "message": message }), None).unwrap();
    assert_eq!(events.len(), 1, "the same message is the same task: {events:?}");
}
