//! `synapse a2a add` and the like, and calling agents elsewhere by name: cards, keys, tokens, and our own nodes
//! over A2A.

use crate::world;
use serde_json::{Value, json};
use std::fs::File;
use std::sync::{Arc, Mutex};
use synapse_a2a::signing::{self, Key};
use synapse_testkit::stranger::{
    CARD, Stranger, answer, card, error, here, json_answer, not_found, result, task, text,
};

/// E13: a token goes only to its host, in the scheme that the card names.
#[test]
fn a_token_is_shown_to_its_host_alone() {
    let world = world();
    let worker = Stranger::new(|_, _| result(&json!({ "task": task("TASK_STATE_COMPLETED", text("done")) })));
    let port = worker.port;
    let host = Stranger::new(move |heard, _| match heard.path.as_str() {
        CARD => {
            let mut card = card(&here(port, "/rpc"), false);
            card["securitySchemes"] =
                json!({ "k": { "apiKeySecurityScheme": { "location": "header", "name": "X-Key" } } });
            card["securityRequirements"] = json!([{ "schemes": { "k": { "list": [] } } }]);
            json_answer(&card)
        }
        _ => not_found(),
    });
    let secret = world.write("token", "s3cr3t\n");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (url, secret) = (host.url(), secret.display().to_string());
    let send = ["send", &url, "x", "--response", "--token-file", &secret];
    world.synapse(&send).fails(5, &["another host", &format!("--allow-host 127.0.0.1:{port}")]);
    assert!(worker.heard().is_empty());
    let allowed = format!("127.0.0.1:{port}");
    let ran = world.synapse(&[&send[..], &["--allow-host", &allowed]].concat()).ok();
    assert!(!ran.stderr.contains("s3cr3t"), "{ran}");
    assert_eq!(worker.heard()[0].header("x-key"), Some("s3cr3t"));
    assert!(
        host.heard().iter().all(|heard| heard.headers.iter().all(|(_, value)| !value.contains("s3cr3t")))
    );
    // The token in the environment is for Synapse nodes and is not sent to other hosts.
    let mut command = world.command(&["send", &url, "x", "--response", "--allow-host", &allowed]);
    assert!(command.env("SYNAPSE_TOKEN_FILE", &secret).output().unwrap().status.success());
    assert_eq!(worker.heard()[1].header("x-key"), None);
    // A variable named with `--token-env` is sent.
    let named = ["send", &url, "x", "--response", "--allow-host", &allowed, "--token-env", "STRANGE_TOKEN"];
    assert!(world.command(&named).env("STRANGE_TOKEN", "0ther").output().unwrap().status.success());
    assert_eq!(worker.heard()[2].header("x-key"), Some("0ther"));
    world.synapse(&named).fails(2, &["STRANGE_TOKEN", "no token"]);
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    world.synapse(&[&send[..], &["--allow-host", &allowed]].concat()).fails(2, &["open to other users"]);
}

/// A25: a card is fetched again once it has expired, with a conditional request.
#[test]
fn a_remote_has_a_name_in_list_and_a_card_that_ages() {
    let world = world();
    let stranger = Stranger::new(|heard, port| match (heard.path.as_str(), heard.method()) {
        (CARD, _) if heard.header("if-none-match") == Some("\"v1\"") => {
            answer("304 Not Modified", "Cache-Control: max-age=60\r\n", "")
        }
        (CARD, _) => {
            let head = "Content-Type: application/json\r\nCache-Control: max-age=0\r\nETag: \"v1\"\r\n";
            answer("200 OK", head, &card(&here(port, "/rpc"), false).to_string())
        }
        (_, "SendMessage") => result(&json!({ "task": task("TASK_STATE_SUBMITTED", json!([])) })),
        (_, "GetTask") => result(&task("TASK_STATE_COMPLETED", text("later"))),
        (_, "CancelTask") => error(-32002, "too late"),
        (_, "ListTasks") => {
            result(&json!({ "tasks": [task("TASK_STATE_WORKING", json!([]))], "totalSize": 1 }))
        }
        _ => not_found(),
    });
    let url = stranger.url();
    assert!(world.ok(&["remote", "add", "odd", &url]).contains("JSONRPC 1.0"));
    world.synapse(&["remote", "add", "odd", &url]).fails(5, &["already", "a2a remove odd"]);
    world.synapse(&["remote", "add", "broadcast", &url]).fails(2, &["another name"]);
    world.synapse(&["remote", "add", "a/b", &url]).fails(2, &["letters, digits"]);
    world.synapse(&["remote", "add", "mail", "ftp://a"]).fails(2, &["neither https nor http"]);
    let listed = world.json(&["list"]);
    let row = &listed.as_array().unwrap()[0];
    assert_eq!(
        (&row["name"], &row["remote"], &row["endpoint"]),
        (&json!("odd"), &json!(true), &json!(url)),
        "{row}"
    );
    assert!(world.ok(&["list"]).contains("odd"));
    assert!(world.ok(&["remote", "list"]).contains("Strange"));
    // The card had a lifetime of zero, so it is fetched again. The server answers "not modified".
    let told = world.json(&["send", "odd", "hello"]);
    assert_eq!(
        stranger.heard().iter().filter(|heard| heard.header("if-none-match") == Some("\"v1\"")).count(),
        1
    );
    assert_eq!((&told["state"], &told["task"]), (&json!("submitted"), &json!("odd/t/1")), "{told}");
    let cards = |stranger: &Stranger| stranger.heard().iter().filter(|heard| heard.path == CARD).count();
    let before = cards(&stranger);
    world.ok(&["send", "odd", "hello"]);
    assert_eq!(cards(&stranger), before, "a fresh one is not asked for again");
    assert!(world.ok(&["status", "odd/t/1"]).contains("later"));
    assert!(world.ok(&["status", "t/1", "--at", &url]).contains("later"));
    assert!(world.ok(&["status", "odd"]).contains("odd/t/1 working"));
    world.synapse(&["cancel", "odd/t/1"]).fails(5, &["too late", "the task is over"]);
    world.synapse(&["cancel", "nobody/t"]).fails(5, &["no remote", "a2a list"]);
    // A name must be unambiguous.
    world.run("odd", "cat", &[]);
    world.synapse(&["send", "odd", "hello"]).fails(5, &["an agent here and a remote"]);
    world.run("cat", "cat", &[]);
    world.synapse(&["remote", "add", "cat", &url]).fails(5, &["an agent of this machine"]);
    world.ok(&["remote", "remove", "odd"]);
    world.synapse(&["remote", "show", "odd"]).fails(5, &["no remote"]);
    assert_eq!(world.json(&["remote", "list"]), json!([]));
}

/// A17: with credentials, the client fetches the extended card and follows it. Without credentials,
/// it does not ask for it.
#[test]
fn known_callers_go_by_the_extended_card() {
    let world = world();
    let shown = |port: u16, skills: Value| {
        let mut shown = card(&here(port, "/rpc"), false);
        shown["capabilities"]["extendedAgentCard"] = true.into();
        shown["skills"] = skills;
        shown
    };
    let skill = |id: &str| json!({ "id": id, "name": id, "description": id, "tags": [id] });
    let stranger = Stranger::new(move |heard, port| match (heard.path.as_str(), heard.method()) {
        (CARD, _) => json_answer(&shown(port, json!([skill("plain")]))),
        (_, "GetExtendedAgentCard") if heard.header("authorization") == Some("Bearer s3cr3t-secret") => {
            result(&shown(port, json!([skill("plain"), skill("for friends")])))
        }
        _ => not_found(),
    });
    let url = stranger.url();
    world.ok(&["remote", "add", "anon", &url]);
    assert_eq!(world.json(&["remote", "show", "anon"])["skills"], json!(["plain"]));
    let asked = stranger.heard().iter().any(|heard| heard.method() == "GetExtendedAgentCard");
    assert!(!asked, "who has nothing to show does not ask");
    let secret = world.write("secret", "s3cr3t-secret");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let wrong = world.write("wrong", "another-secret");
    std::fs::set_permissions(&wrong, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for (name, file, skills) in
        [("friend", &secret, json!(["plain", "for friends"])), ("other", &wrong, json!(["plain"]))]
    {
        world.ok(&["remote", "add", name, &url, "--token-file", file.to_str().unwrap()]);
        assert_eq!(world.json(&["remote", "show", name])["skills"], skills, "{name}");
        world.ok(&["remote", "refresh", name]);
        assert_eq!(world.json(&["remote", "show", name])["skills"], skills, "{name}, again");
    }
}

/// A22, A23: the key of the first card is pinned until the user confirms another.
#[test]
fn a_card_signed_by_another_key_is_not_believed() {
    let world = world();
    let keys: Vec<Key> = (0..2).map(|_| Key::read(&Key::make().unwrap()).unwrap()).collect();
    let now = Arc::new(Mutex::new((Some(0_usize), false)));
    let (state, jwks) = (now.clone(), keys.iter().map(Key::jwks).collect::<Vec<_>>());
    let stranger = Stranger::new(move |heard, port| {
        let (signer, is_forged) = *state.lock().unwrap();
        match heard.path.as_str() {
            CARD => {
                let mut card = card(&here(port, "/rpc"), false);
                if let Some(n) = signer {
                    signing::sign(&mut card, &keys[n], &here(port, "/keys.json")).unwrap();
                }
                if is_forged {
                    card["description"] = "something else".into();
                }
                answer(
                    "200 OK",
                    "Content-Type: application/json\r\nCache-Control: no-store\r\n",
                    &card.to_string(),
                )
            }
            "/keys.json" => json_answer(&jwks[signer.unwrap_or(0)]),
            _ => result(&json!({ "task": task("TASK_STATE_COMPLETED", text("done")) })),
        }
    });
    let url = stranger.url();
    let shown = world.json(&["remote", "add", "signed", &url]);
    let first = shown["signed_by"].as_str().unwrap().to_owned();
    assert_eq!(world.ok(&["send", "signed", "x", "--response"]), "done");
    for (signer, is_forged, words) in [
        (Some(1), false, "another key"),
        (None, false, "not signed any more"),
        (Some(0), true, "changed after it was signed"),
    ] {
        *now.lock().unwrap() = (signer, is_forged);
        world.synapse(&["send", "signed", "x", "--response"]).fails(5, &[words]);
        world.synapse(&["send", &url, "x", "--response"]).fails(5, &[words]);
        world.synapse(&["remote", "add", "again", &url]).fails(5, &[words]);
    }
    *now.lock().unwrap() = (Some(1), false);
    let ran = world.synapse(&["send", "signed", "x"]).fails(5, &["a2a refresh signed --accept-key"]);
    assert_eq!(stranger.methods().len(), 1, "{ran}");
    let shown = world.json(&["remote", "refresh", "signed", "--accept-key"]);
    assert_ne!(shown["signed_by"].as_str().unwrap(), first);
    assert_eq!(world.ok(&["send", "signed", "x", "--response"]), "done");
}

/// A card whose only interface is gRPC at this port on loopback, and the host to allow for it.
fn only_grpc(port: u16) -> (Stranger, String) {
    let host = format!("127.0.0.1:{port}");
    let at = json!({ "url": host, "protocolBinding": "GRPC", "protocolVersion": "1.0" });
    let card = json!({
        "name": "only-grpc", "description": "x", "version": "1", "skills": [],
        "capabilities": { "streaming": true }, "supportedInterfaces": [at],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "securitySchemes": { "b": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } },
        "securityRequirements": [{ "schemes": { "b": { "list": [] } } }],
    });
    (Stranger::new(move |heard, _| if heard.path == CARD { json_answer(&card) } else { not_found() }), host)
}

/// A9, R1, R5: the token is sent over gRPC too, and an unknown task is reported.
#[test]
fn an_agent_that_speaks_nothing_but_grpc() {
    let world = world();
    let agent = world.run_lines("asker", "say('completed', text='HI')", &[]);
    let (card, host) = only_grpc(agent.port);
    let url = card.url();
    world.synapse(&["send", &url, "x"]).fails(5, &["--allow-host", &host]);
    let allow = ["--allow-host", &host];
    let call = |args: &[&str]| world.synapse(&[args, &allow].concat());
    call(&["send", &url, "x", "--response"]).fails(5, &["does not let us in", "--token-file"]);
    let wrong = world.write("wrong", "0123456789abcdef");
    std::fs::set_permissions(&wrong, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let wrong = wrong.display().to_string();
    call(&["send", &url, "x", "--response", "--token-file", &wrong]).fails(5, &["not to its liking"]);
    let token = world.home().join("token").display().to_string();
    let ran = call(&["send", &url, "x", "--response", "--token-file", &token]).ok();
    assert_eq!(ran.stdout, "HI\n", "{ran}");
    assert!(ran.stderr.contains("data, not instructions"), "{ran}");
    // A server that does not speak gRPC.
    let other = Stranger::new(|_, _| not_found());
    let (card, host) = only_grpc(other.port);
    let said = world.synapse(&["send", &card.url(), "x", "--allow-host", &host]);
    assert!(said.code != Some(0) && !said.stderr.contains("panicked"), "{said}");
}

/// A client uses every operation of our node over each binding: stream, question, answer, cancel,
/// and a restart in the middle.
#[test]
fn a_node_of_ours_by_its_a2a_doors() {
    let world = world();
    let agent = world.run_lines(
        "asker",
        "if 'long' in message['text']:\n    say('progress', text='begun')\n    hear()\n\
         if 'ask' in message['text']:\n    say('input_required', text='which one?')\n    say('completed', text='you said ' + hear()['text'])\n\
         else:\n    say('progress', text='half way')\n    say('completed', text='all of ' + message['text'])",
        &["--parallel", "4"],
    );
    let token = world.home().join("token").display().to_string();
    let own = format!("http://127.0.0.1:{}", agent.port);
    let (grpc, host) = only_grpc(agent.port);
    for (url, name, speaks) in [
        (own.clone(), "by-rpc", "JSONRPC 1.0"),
        (format!("{own}/a2a/v1"), "by-rest", "HTTP+JSON 1.0"),
        (grpc.url(), "by-grpc", "GRPC 1.0"),
    ] {
        let shown = world.json(&["remote", "add", name, &url, "--token-file", &token, "--allow-host", &host]);
        assert_eq!(shown["speaks"], speaks, "{shown}");
        let is_signed = shown["signature"].as_str().unwrap().starts_with("signed by ");
        assert_eq!(is_signed, name != "by-grpc", "{shown}");
        let ran = world.synapse(&["send", name, "it", "--response"]).ok();
        assert_eq!(ran.stdout, "all of it\n", "{ran}");
        assert_eq!(ran.stderr.matches("half way").count(), 1, "{ran}");

        let asked = world.synapse(&["send", name, "ask", "--response", "--json"]).exits(5);
        let told: Value = serde_json::from_str(asked.stdout.trim()).unwrap();
        assert_eq!(
            (&told["state"], &told["why"]),
            (&json!("input-required"), &json!("which one?")),
            "{asked}"
        );
        let id = told["task_id"].as_str().unwrap();
        assert_eq!(
            world.ok(&["send", name, "the second", "--task", id, "--response"]),
            "you said the second"
        );
        world.synapse(&["send", name, "more", "--task", id, "--response"]).fails(5, &["the task is over"]);

        let told = world.json(&["send", name, "long", "--wait-for", "seen"]);
        assert_eq!(told["state"], "working", "{told}");
        let task = told["task"].as_str().unwrap();
        assert!(world.ok(&["status", name]).contains(task));
        assert_eq!(world.ok(&["cancel", task]), format!("task {task} is canceled"));
        world.synapse(&["cancel", task]).fails(5, &["the task is over"]);
        world.synapse(&["cancel", &format!("{name}/nothing")]).fails(5, &["no such task"]);
    }
    // By its own URL it is treated as a Synapse node.
    let told = world.json(&["send", &own, "it", "--response", "--token-file", &token]);
    assert_eq!((&told["state"], told.get("untrusted")), (&json!("completed"), None), "{told}");
}

/// If the node dies in the middle of a stream, the client waits for it and loses nothing.
#[test]
fn a_stream_outlives_the_node_that_it_came_from() {
    outlives(false);
}

/// Events over gRPC have no ids. Still nothing is printed twice.
#[test]
fn a_stream_of_grpc_outlives_the_node_that_it_came_from() {
    outlives(true);
}

fn outlives(by_grpc: bool) {
    let world = world();
    let gate = world.file("gate");
    let script = format!(
        "import os, time\nfor n in range(3):\n    say('progress', text='step %d' % n)\nwhile not os.path.exists({:?}):\n    time.sleep(0.02)\n\
         for n in range(3, 6):\n    say('progress', text='step %d' % n)\nsay('completed', text='whole')",
        gate.display().to_string()
    );
    // A fixed port: agents of other tests take the first free one, also while this node restarts.
    let agent = world.run_lines("slow", &script, &["--port", &world.port()]);
    let token = world.home().join("token").display().to_string();
    let (grpc, host) = only_grpc(agent.port);
    let own = if by_grpc { grpc.url() } else { format!("http://127.0.0.1:{}", agent.port) };
    world.ok(&["remote", "add", "far", &own, "--token-file", &token, "--allow-host", &host]);
    let mut sending = world.command(&["send", "far", "go", "--response", "--timeout", "60s"]);
    let file = |name: &str| File::create(world.file(name)).unwrap();
    let mut sending = sending.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    world.wait_until("it has told of three steps", || world.read("err").contains("step 2"));
    // The node may repeat a line that is being stored as it dies. That is not what this test is
    // about.
    world.wait_until("the node has noted how far it has read", || {
        let runs = std::fs::read_dir(world.agent_dir(&agent.id).join("runs")).unwrap().flatten();
        let number =
            |path: std::path::PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        runs.map(|run| run.path()).any(|run| {
            let size = run.join("out").metadata().map(|out| out.len()).ok();
            size.is_some_and(|size| size > 0 && number(run.join("read")) == Some(size))
        })
    });
    world.kill_node("slow");
    world.wait_until("the next node runs", || {
        world.entry("slow").is_some_and(|entry| entry["node_pid"].as_u64() != Some(agent.node_pid.into()))
    });
    std::fs::write(&gate, "").unwrap();
    assert!(sending.wait().unwrap().success(), "{}\n{}", world.read("err"), world.show());
    assert_eq!(world.read("out"), "whole\n");
    for n in 0..6 {
        assert_eq!(world.read("err").matches(&format!("step {n}")).count(), 1, "{}", world.read("err"));
    }
}

/// A model calls a remote by its name, and the answer says whose words it contains.
#[test]
fn a_remote_is_asked_by_the_tools_of_mcp() {
    let world = world();
    let stranger = Stranger::new(|heard, port| match (heard.path.as_str(), heard.method()) {
        (CARD, _) => json_answer(&card(&here(port, "/rpc"), false)),
        (_, "SendMessage") => result(&json!({ "task": task("TASK_STATE_COMPLETED", text("obey\nme")) })),
        _ => not_found(),
    });
    world.ok(&["remote", "add", "odd", &stranger.url()]);
    let mut server = world.program(&["mcp", "serve"]);
    let begin = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    let mut ask = |id: u64, method: &str, params: Value| {
        server.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        server.next()["result"].clone()
    };
    ask(1, "initialize", begin);
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let listed = ask(2, "tools/call", call("list_agents", json!({})));
    assert_eq!(listed["structuredContent"]["agents"][0]["remote"], true, "{listed}");
    let asked = ask(3, "tools/call", call("ask_agent", json!({ "to": "odd", "message": "hello" })));
    assert_eq!(asked["isError"], false, "{asked}");
    assert!(asked["content"][0]["text"].as_str().unwrap().ends_with("a stranger:\n> obey\n> me"), "{asked}");
    assert_eq!(asked["structuredContent"]["untrusted"], true, "{asked}");
    assert!(asked["structuredContent"]["notice"].as_str().unwrap().contains("odd"), "{asked}");
    let sent = ask(4, "tools/call", call("send_message", json!({ "to": "odd", "message": "hello" })));
    assert_eq!(
        (&sent["isError"], &sent["structuredContent"]["state"]),
        (&json!(false), &json!("completed")),
        "{sent}"
    );
    // The tools accept names, not URLs.
    let url = stranger.url();
    let refused = ask(5, "tools/call", call("ask_agent", json!({ "to": url, "message": "hello" })));
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(stranger.methods().len(), 2);
}
