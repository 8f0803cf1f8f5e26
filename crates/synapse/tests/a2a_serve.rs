//! `synapse a2a serve`: a script as an A2A server, for holders of the token or for anyone on this
//! machine.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::world::Agent;

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

/// E3, E8, A12, A14: with `--auth none`, unauthenticated callers may send tasks and see those over
/// A2A, and nothing else.
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
    // They cannot see the user's own task, and every other API stays closed.
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
    // The doctor accepts that.
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

/// V2, V3, V4: over each binding, a caller must declare a required extension. Unknown extensions
/// are ignored.
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

/// A file of 5 MB: its bytes and their base64.
fn large_file() -> (Vec<u8>, String) {
    use base64::Engine as _;
    let bytes: Vec<u8> = (0..5_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
    (bytes, base64)
}

fn rpc(agent: &Agent, method: &str, params: &Value) -> (u16, Value) {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let answer = agent.unix().ask("POST", "/api/v1/agent", &[("A2A-Version", "1.0")], call.as_bytes());
    (answer.status, answer.json())
}

/// Finding A9: a refused message leaves none of its files behind.
#[test]
fn refused_messages_leave_no_files() {
    let world = world();
    let agent = world.run("files", "cat", &["--no-streaming", "--no-push"]);
    let (_, base64) = large_file();
    let file = json!({ "raw": base64, "filename": "big.bin" });
    let message = |role: &str, part: Value| json!({ "messageId": "m", "role": role, "parts": [part] });
    let mut unknown_task = message("ROLE_USER", file.clone());
    unknown_task["taskId"] = "0123456789abcdef0123456789abcdef".into();
    let mut video = file.clone();
    video["mediaType"] = "video/mp4".into();
    let push = json!({ "taskPushNotificationConfig": { "url": "https://example.org" } });
    for (method, params) in [
        ("SendMessage", json!({ "message": message("ROLE_AGENT", file.clone()) })),
        ("SendMessage", json!({ "message": message("ROLE_USER", video) })),
        ("SendMessage", json!({ "message": unknown_task })),
        ("SendMessage", json!({ "message": message("ROLE_USER", file.clone()), "configuration": push })),
        ("SendMessage", json!({ "message": message("ROLE_USER", file.clone()), "tenant": "a/b" })),
        ("SendStreamingMessage", json!({ "message": message("ROLE_USER", file) })),
    ] {
        let (_, told) = rpc(&agent, method, &params);
        assert!(told["error"]["code"].is_i64(), "{told}");
        let kept = std::fs::read_dir(world.agent_dir(&agent.id).join("files"));
        assert_eq!(kept.map_or(0, Iterator::count), 0, "{told}");
    }
}

/// Finding A10: clients of 0.3 encode files twice over HTTP+JSON. A file of the largest size still
/// fits.
#[test]
fn file_of_the_largest_size_fits_when_it_is_encoded_twice() {
    use base64::Engine as _;
    let world = world();
    let (bytes, base64) = large_file();
    world.ok(&["config", "set", "limits.file_bytes_max", &bytes.len().to_string()]);
    let agent = world.run("files", "cat > /dev/null; echo done", &[]);
    let twice = base64::engine::general_purpose::STANDARD.encode(&base64);
    let body = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "content": [
        { "text": "read this" }, { "file": { "fileWithBytes": twice, "name": "big.bin" } },
    ] }, "configuration": { "blocking": true } });
    let answer = agent.unix().ask("POST", "/a2a/v1/message:send", &[], body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// E17: finding A8, X-12. A file of 5 MB reaches a script as a path, is stored once, and comes back
/// to its sender whole. Over each binding, and in 0.3.
#[test]
fn file_of_five_megabytes_simply_works() {
    let world = world();
    let script = "
import hashlib
part = message['content']['parts'][1]
data = open(part['file']['path'], 'rb').read()
say('completed', text=part['filename'] + ' ' + str(len(data)) + ' ' + hashlib.sha256(data).hexdigest())";
    let agent = world.run_lines("files", script, &[]);
    let (bytes, base64) = large_file();
    let digest = synapse_core::message::Digest::of(&bytes).hex();
    let parts = json!([{ "text": "read this" }, { "raw": base64, "filename": "big.bin" }]);
    let message = |id: &str| json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": parts } });
    let expected = format!("big.bin {} {digest}", bytes.len());
    let (status, told) = rpc(&agent, "SendMessage", &message("m1"));
    assert_eq!(status, 200, "{told}");
    let task = &told["result"]["task"];
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], expected.as_str(), "{told}");
    // The task carries a link, so that reading the task does not transfer the file each time.
    let sent = &task["history"][0]["parts"][1];
    assert_eq!((&sent["filename"], sent.get("raw")), (&json!("big.bin"), None), "{sent}");
    let url = sent["url"].as_str().unwrap();
    let path = url.split_once("/api/").map(|(_, rest)| format!("/api/{rest}")).unwrap();
    let file = agent.unix().ask("GET", &path, &[], b"");
    assert_eq!((file.status, file.body == bytes), (200, true), "{} bytes", file.body.len());
    assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
    // The link needs a token, the right task and the right tenant.
    assert_eq!(agent.tcp().ask("GET", &path, &[], b"").status, 401);
    let other = path.replace(task["id"].as_str().unwrap(), "0123456789abcdef0123456789abcdef");
    assert_eq!(agent.unix().ask("GET", &other, &[], b"").status, 404);
    assert_eq!(agent.unix().ask("GET", &format!("{path}?tenant=evil"), &[], b"").status, 404);
    let wrong = path.replace(&digest, &"0".repeat(64));
    assert_eq!(agent.unix().ask("GET", &wrong, &[], b"").status, 404);

    let rest = message("m2").to_string();
    let answer = agent.unix().ask("POST", "/a2a/v1/message:send", &[("A2A-Version", "1.0")], rest.as_bytes());
    assert_eq!(
        answer.json()["task"]["artifacts"][0]["parts"][0]["text"],
        expected.as_str(),
        "{}",
        answer.status
    );
    let old = json!([
        { "kind": "text", "text": "read this" },
        { "kind": "file", "file": { "bytes": base64, "name": "big.bin" } },
    ]);
    let old = json!({ "message": { "kind": "message", "messageId": "m3", "role": "user", "parts": old } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": old }).to_string();
    let told = agent.unix().ask("POST", "/api/v1/agent", &[], call.as_bytes()).json();
    assert_eq!(told["result"]["artifacts"][0]["parts"][0]["text"], expected.as_str());
    assert!(
        told["result"]["history"][0]["parts"][1]["file"]["uri"].is_string(),
        "{}",
        told["result"]["history"]
    );
    // The same bytes sent four times are one file, readable only by the user.
    let folder = world.agent_dir(&agent.id).join("files");
    let kept: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(kept.len(), 1);
    let mode = std::os::unix::fs::PermissionsExt::mode(&kept[0].metadata().unwrap().permissions());
    assert_eq!((mode & 0o777, kept[0].file_name().to_str()), (0o600, Some(digest.as_str())));
    let journal = world.agent_dir(&agent.id).join("journal.db-wal");
    assert!(
        std::fs::metadata(journal).map_or(0, |meta| meta.len()) < 3 << 20,
        "the journal has no files in it"
    );
}

/// E17: finding A8, X-12. Text is limited to a megabyte, files have limits of their own, and each
/// limit is a setting.
#[test]
fn sizes_are_bounded_by_settings() {
    let world = world();
    world.ok(&["config", "set", "limits.file_bytes_max", "2000000"]);
    let agent = world.run("sizes", "printf '%s' \"$SYNAPSE_FILES\" | wc -c", &[]);
    let (_, base64) = large_file();
    let send = |id: &str, part: Value| {
        rpc(
            &agent,
            "SendMessage",
            &json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [part] } }),
        )
    };
    let (status, told) = send("m1", json!({ "raw": &base64[..3 << 20] }));
    assert_eq!((status, &told["error"]["code"]), (413, &json!(-32012)), "{told}");
    let (status, told) = send("m2", json!({ "text": "x".repeat(1_500_000) }));
    assert_eq!((status, &told["error"]["code"]), (413, &json!(-32012)), "{told}");
    let (status, told) = send("m3", json!({ "raw": &base64[..1 << 20] }));
    assert_eq!(
        (status, told["result"]["task"]["status"]["state"].as_str()),
        (200, Some("TASK_STATE_COMPLETED")),
        "{told}"
    );
    // All files of an agent together have a limit too.
    world.ok(&["config", "set", "limits.files_bytes_max", "1048576"]);
    // Each attempt sends a new message with a new file: those sent before the settings took effect
    // are stored.
    let mut tries = 0;
    world.wait_until("the settings are read", || {
        tries += 1;
        let from = (1 << 20) + 4 * tries;
        let (_, told) = send(&format!("more-{tries}"), json!({ "raw": &base64[from..from + (1 << 20)] }));
        told["error"]["message"].as_str().is_some_and(|why| why.contains("limits.files_bytes_max"))
    });
    world.ok(&["config", "set", "limits.message_bytes_max", "4000000"]);
    let wide = world.run("wide", "wc -c", &[]);
    let text = json!([{ "text": "x".repeat(1_500_000) }]);
    let asked = json!({ "message": { "messageId": "m5", "role": "ROLE_USER", "parts": text } });
    let (status, told) = rpc(&wide, "SendMessage", &asked);
    assert_eq!(status, 200, "{told}");
    assert_eq!(
        told["result"]["task"]["artifacts"][0]["parts"][0]["text"].as_str().map(str::trim),
        Some("1500000")
    );
}
