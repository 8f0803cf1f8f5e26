//! PTY-2: a program with its own server, like OpenCode, reports its state through it. Whatever the
//! server sends, and whenever it disappears, the state is never lost. Uses the real binary and a
//! server that the test controls.

use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Command;
use synapse_testkit::World;
use synapse_testkit::world::python;

/// Reads orders from a pipe, one JSON list per line. Writes the result of each to a line of `done`.
const PROGRAM: &str = r##"#!PYTHON
import base64, http.server, json, os, sys, threading, tty
words = sys.argv[1:]
port = int(words[words.index("--port") + 1])
wanted = None
if "OPENCODE_SERVER_PASSWORD" in os.environ:
    user, password = os.environ["OPENCODE_SERVER_USERNAME"], os.environ["OPENCODE_SERVER_PASSWORD"]
    wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
state = {"/session/status": "{}", "/permission": "[]", "/question": "[]", "/session": "[]"}
streams, seen = [], {"refused": 0, "streams": 0}
class Door(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        if wanted and self.headers.get("authorization") != wanted:
            seen["refused"] += 1
            self.send_response(401); self.send_header("content-length", "0"); self.end_headers()
            return
        if self.path == "/event":
            self.send_response(200); self.send_header("content-type", "text/event-stream"); self.end_headers()
            over = threading.Event()
            streams.append((self.wfile, over)); seen["streams"] += 1
            over.wait()
            self.close_connection = True
            return
        body = state[self.path.split("?")[0]].encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
def show(text):
    os.write(1, ("\x1b[2J\x1b[H" + text.replace("\n", "\r\n")).encode())
tty.setraw(0)
server = serve()
done = open("done", "a", buffering=1)
while True:
    for line in open("orders"):
        what, *args = json.loads(line)
        told = None
        if what == "show": show(args[0])
        elif what == "state": state[args[0]] = args[1]
        elif what == "send":
            for stream, _ in streams:
                try: stream.write((args[0] * args[1]).encode()); stream.flush()
                except OSError: pass
        elif what == "drop":
            for _, over in streams: over.set()
            streams.clear()
        elif what == "stop": server.shutdown(); server.server_close()
        elif what == "start": server = serve()
        elif what == "seen": told = seen
        elif what == "words": told = words
        done.write(json.dumps([what, told]) + "\n")
"##;

const PROFILE: &str = "
name: served
command: PROGRAM
screen:
  - state: waiting
    any: ['Permission required']
  - state: busy
    any: ['esc interrupt']
  - state: idle
    any: ['^> ready']
timing: { ready_ms: 1, idle_ms: 1 }
hooks: opencode
";

struct Stage {
    world: World,
    orders: std::fs::File,
    given: usize,
}

impl Stage {
    fn new(words: &[&str]) -> Self {
        let world = World::new(env!("CARGO_BIN_EXE_synapse"));
        let program = world.write("served", &PROGRAM.replace("PYTHON", python()));
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::create_dir_all(world.home().join("profiles")).unwrap();
        let profile = PROFILE.replace("PROGRAM", &program.display().to_string());
        std::fs::write(world.home().join("profiles/served.yaml"), profile).unwrap();
        assert!(Command::new("mkfifo").arg(world.file("orders")).status().unwrap().success());
        let orders = std::fs::OpenOptions::new().read(true).write(true).open(world.file("orders")).unwrap();
        world.ok(&[&["served", "-d", "--name", "cli"], words].concat());
        let mut stage = Self { world, orders, given: 0 };
        stage.order(&json!(["show", "> ready"]));
        stage.becomes("idle");
        stage
    }

    fn order(&mut self, order: &Value) -> Value {
        writeln!(self.orders, "{order}").unwrap();
        self.given += 1;
        let (given, world) = (self.given, &self.world);
        let line = world.wait_for(&format!("{order:.100} is carried out"), || {
            let done = std::fs::read_to_string(world.file("done")).unwrap_or_default();
            let line = done.lines().nth(given - 1)?.to_owned();
            done.ends_with('\n').then_some(line)
        });
        serde_json::from_str::<Value>(&line).unwrap()[1].clone()
    }

    fn event(&mut self, kind: &str, properties: &Value) {
        let event = json!({ "id": "evt", "type": kind, "properties": properties });
        self.order(&json!(["send", format!("data: {event}\n\n"), 1]));
    }

    fn view(&self) -> Value {
        self.world.agent("cli").get("/api/v1/terminal").json()
    }

    fn becomes(&self, state: &str) {
        self.world.wait_until(&format!("the state is {state}"), || {
            self.world.entry("cli").is_some_and(|entry| entry["status"] == state)
        });
    }

    /// Waits until a source reports this state.
    fn says(&self, source: &str, says: Option<&str>) {
        self.world.wait_until(&format!("{source} says {says:?}"), || {
            let view = self.view();
            let one = view["evidence"].as_array().unwrap().iter().find(|e| e["source"] == source).cloned();
            one.as_ref().map(|e| e["says"].as_str().unwrap()) == says
        });
    }

    fn server_says(&self, says: Option<&str>) {
        self.says("native", says);
    }
}

fn status(kind: &str) -> Value {
    json!({ "sessionID": "ses_1", "status": { "type": kind } })
}

#[test]
fn what_the_server_tells_is_the_state() {
    let mut stage = Stage::new(&[]);
    stage.server_says(Some("idle"));
    let words = stage.order(&json!(["words"]));
    assert_eq!(words[0], "--port");
    let dir = stage.world.agent_dir(stage.world.entry("cli").unwrap()["agent_id"].as_str().unwrap());
    let key = std::fs::read_to_string(dir.join("hooks/key")).unwrap();
    assert!(!words.to_string().contains(&key), "the password is not among the words");
    assert!(!std::fs::read_to_string(dir.join("launch.json")).unwrap().contains(&key));
    stage.event("session.status", &status("busy"));
    stage.becomes("busy");
    assert_eq!(stage.view()["source"], "native");
    stage.event("permission.asked", &json!({ "id": "per_1", "sessionID": "ses_1" }));
    stage.becomes("waiting");
    stage.order(&json!(["show", "Permission required"]));
    stage.says("screen", Some("waiting"));
    stage.event("permission.replied", &json!({ "requestID": "per_1" }));
    stage.server_says(Some("busy"));
    assert_eq!(stage.view()["state"], "waiting", "the prompt is still shown");
    stage.order(&json!(["show", "esc interrupt"]));
    stage.becomes("busy");
    stage.event("session.status", &status("idle"));
    stage.becomes("idle");
    assert_eq!(stage.order(&json!(["seen"]))["refused"], 0);
}

#[test]
fn a_server_that_goes_and_comes_or_sends_anything_loses_no_state() {
    let mut stage = Stage::new(&[]);
    stage.server_says(Some("idle"));
    // Garbage of every kind: long lines, empty lines, broken events, other events.
    for (text, times) in [
        ("x", 3 << 20),
        ("\n", 1),
        ("data: {\"type\":\"session.status\"}\n\n", 1),
        ("data: {\"type\":\"session.status\",\"properties\":[]}\n\n", 1),
        ("data: \u{0}\u{7f}[[[[{{{{\n\n", 100),
        (": comment\nevent: x\nid: 7\nretry: 1\n\n", 100),
        ("data: {\"type\":\"message.part.delta\",\"properties\":{\"delta\":\"y\"}}\n\n", 2000),
    ] {
        stage.order(&json!(["send", text, times]));
    }
    stage.event("session.status", &status("busy"));
    stage.becomes("busy");
    // The server hangs up. After reconnecting, the node asks for the state again.
    stage.order(&json!(["state", "/permission", "[{\"id\":\"per_9\"}]"]));
    stage.order(&json!(["drop"]));
    stage.becomes("waiting");
    stage.order(&json!(["state", "/permission", "[]"]));
    stage.event("permission.replied", &json!({ "requestID": "per_9" }));
    stage.becomes("idle");
    // The server is gone: the screen decides, and `explain` says why.
    stage.order(&json!(["stop"]));
    stage.order(&json!(["drop"]));
    stage.server_says(None);
    stage.order(&json!(["show", "esc interrupt"]));
    stage.becomes("busy");
    assert_eq!(stage.view()["source"], "screen");
    stage
        .world
        .wait_until("it is said why", || stage.world.ok(&["explain", "cli"]).contains("cannot be reached"));
    // The server is back, with invalid responses.
    stage.order(&json!(["state", "/session/status", "<html>"]));
    stage.order(&json!(["start"]));
    stage.world.wait_until("the answer is not understood", || {
        stage.view()["tells"]["why"].as_str().unwrap().contains("sessions could not be read")
    });
    stage.order(&json!(["state", "/session/status", "{\"ses_2\":{\"type\":\"retry\"}}"]));
    stage.server_says(Some("busy"));
    assert_eq!(stage.view()["tells"]["why"], "");
}

/// A session's input proves that a message arrived, while the node listens and after a restart
/// (X-7).
#[test]
fn what_a_session_was_given_is_known() {
    let mut stage = Stage::new(&[]);
    stage.server_says(Some("idle"));
    assert_eq!(stage.view()["tells"]["prompt_at"], Value::Null);
    let info = json!({ "id": "msg_1", "role": "user", "sessionID": "ses_1" });
    stage.event("message.updated", &json!({ "info": info }));
    let part = json!({ "type": "text", "text": "hello", "messageID": "msg_1", "sessionID": "ses_1" });
    stage.event("message.part.updated", &json!({ "part": part }));
    stage.world.wait_until("it is known", || stage.view()["tells"]["session_id"] == "ses_1");
    assert!(stage.view()["tells"]["prompt_at"].is_string());
    let messages =
        json!([{ "info": { "id": "msg_2", "role": "user", "sessionID": "ses_2" }, "parts": [part] }]);
    stage.order(&json!(["state", "/session", "[{\"id\":\"ses_2\",\"time\":{\"updated\":7}}]"]));
    stage.order(&json!(["state", "/session/ses_2/message", messages.to_string()]));
    stage.world.kill_node("cli");
    stage.world.wait_until("it is found again", || stage.view()["tells"]["session_id"] == "ses_2");
}

/// Defect J: the answer is the model's text from the server, not what the screen shows.
#[test]
fn answer_of_a_turn_comes_from_the_server() {
    let mut stage = Stage::new(&[]);
    stage.server_says(Some("idle"));
    let text = json!({ "type": "text", "text": "It is this." });
    let messages =
        json!([{ "info": { "id": "msg_2", "role": "assistant", "sessionID": "ses_1" }, "parts": [text] }]);
    stage.order(&json!(["state", "/session/ses_1/message", messages.to_string()]));
    stage.event("session.status", &status("busy"));
    stage.becomes("busy");
    assert_eq!(stage.view()["tells"]["answer_at"], Value::Null);
    stage.event("session.status", &status("idle"));
    stage.world.wait_until("its answer is known", || stage.view()["tells"]["answer_at"].is_string());
}

/// A server of another process at that port is ignored, and does not get the password.
#[test]
fn a_server_that_is_not_of_the_agent_is_not_asked() {
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = foreign.local_addr().unwrap().port().to_string();
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let program = world.write("served", "#!/bin/sh\necho '> ready'; exec sleep 100\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::create_dir_all(world.home().join("profiles")).unwrap();
    let profile = PROFILE.replace("PROGRAM", &program.display().to_string());
    std::fs::write(world.home().join("profiles/served.yaml"), profile).unwrap();
    let words = ["served", "-d", "--name", "cli", "--", "--port", port.as_str()];
    world.ok(&words);
    let (mut stream, _) = foreign.accept().unwrap();
    world.wait_until("it is told why", || {
        let view = world.agent("cli").get("/api/v1/terminal").json();
        view["tells"]["why"].as_str().unwrap().contains("not seen to be this agent")
    });
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut got = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut got);
    assert_eq!(String::from_utf8_lossy(&got), "", "nothing was sent");
}
