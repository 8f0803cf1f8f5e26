//! X-3: `synapse rename` gives an agent a name, another one, or none. Everything that belongs to it
//! stays, and it keeps running.

#![allow(clippy::unwrap_used)]

use crate::world;
use serde_json::{Value, json};
use std::path::Path;
use synapse_testkit::cli::Cli;
use synapse_testkit::world::python;
use synapse_testkit::{Agent, World};

/// The same home, seen from another folder.
fn at(world: &World, folder: &str) -> World {
    World::at(env!("CARGO_BIN_EXE_synapse"), world.home(), &world.file(folder))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// The notes of the audit log about names.
fn renames(world: &World, agent: &str) -> Vec<String> {
    world.wait_for("the audit log has the rename", || {
        let lines = world.ok(&["audit", agent, "--verb", "rename", "--json"]);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let notes: Vec<String> = lines.map(|line| line["note"].as_str().unwrap().to_owned()).collect();
        (!notes.is_empty()).then_some(notes)
    })
}

fn complete(world: &World, what: &str) -> Vec<String> {
    world.ok(&["__complete", what]).lines().map(str::to_owned).collect()
}

/// What the tool `list_agents` of MCP says.
fn agents_over_mcp(world: &World) -> String {
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let mut server = world.program(&["mcp", "serve"]);
    server.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
    server.next();
    server.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let call = json!({ "name": "list_agents", "arguments": {} });
    server.say(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }));
    server.next().to_string()
}

#[test]
fn running_agent_has_its_new_name_everywhere_at_once() {
    let world = world();
    let send = format!("{} send a hello", world.exe().display());
    let before = world.run("shout", &send, &[]);
    let card = |agent: &Agent| {
        let answer = agent.tcp().ask("GET", "/.well-known/agent-card.json", &[], b"");
        answer.json()["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(card(&before), "shout");
    assert_eq!(world.ok(&["rename", "shout", "loud"]), "shout is called loud now");
    let after = world.agent("loud");
    assert_eq!((&after.id, after.pid, after.node_pid), (&before.id, before.pid, before.node_pid));
    assert_eq!(names(&world.json(&["list"])), ["loud"]);
    assert_eq!(after.get("/status").json()["agentName"], "loud");
    assert_eq!(after.get("/api/v1/agents").json()[0]["name"], "loud", "the journal has it");
    assert_eq!(card(&after), "loud");
    assert_eq!(complete(&world, "agents"), ["loud"]);
    let told = agents_over_mcp(&world);
    assert!(told.contains("loud") && !told.contains("shout"), "{told}");
    assert_eq!(renames(&world, "loud"), ["shout is now loud"]);
    // The header of its messages.
    let cli = Cli::start(&world, "a", &["turn=50"]);
    world.ok(&["send", "loud", "go", "--response"]);
    let given = cli.was_given(1);
    assert!(given[0].contains(":loud] hello"), "{given:?}");
    // The same name once more changes nothing.
    assert_eq!(world.ok(&["rename", "loud", "loud"]), "loud stays as it was");
    let told = world.json(&["rename", "loud", "louder"]);
    let fields = (&told["name"], &told["was"], &told["target"], &told["agent_id"]);
    assert_eq!(fields, (&json!("louder"), &json!("loud"), &json!("louder"), &json!(before.id)), "{told}");
}

#[test]
fn mail_tasks_history_and_followers_stay() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let ana = world.run("ana", "cat", &[]);
    assert_eq!(world.ok(&["send", "shout", "early", "--response"]), "EARLY");
    world.ok(&["follow", "shout", "--from", "ana"]);
    let task = world.send("shout", "one", &[]);
    world.ok(&["rename", "shout", "loud"]);
    world.wait_until("its task goes on", || agent.task(&task)["answer"]["text"] == "ONE");
    let history = world.ok(&["history", "loud"]);
    assert!(
        history.contains("early") && history.contains("→ loud") && !history.contains("shout"),
        "{history}"
    );
    world.ok(&["share", "--from", "loud", "testing"]);
    world.wait_until("its follower hears of it by its new name", || {
        world.ok(&["history", "ana"]).contains("loud shares: testing")
            || ana.get("/api/v1/inbox?max=10").text().contains("loud shares: testing")
    });
    // The name is on disk: a new node, a new start and a further name keep it.
    world.kill_node("loud");
    assert_eq!(world.ok(&["send", "loud", "again", "--response"]), "AGAIN");
    world.ok(&["kill", "loud"]);
    world.ok(&["send", "loud", "later"]);
    assert_eq!(world.ok(&["rename", "loud", "boom"]), "loud is called boom now");
    assert_eq!(names(&world.json(&["list", "--all"])), ["ana", "boom"]);
    let started = world.ok(&["start", "boom"]);
    assert!(
        started.starts_with("boom runs as ") && started.contains("the mailbox it had before"),
        "{started}"
    );
    assert_eq!(world.agent("boom").id, agent.id);
    world.wait_until("mail from before arrives", || world.ok(&["history", "boom"]).contains("LATER"));
    // `run --name` means it by its present name.
    world.ok(&["kill", "boom"]);
    assert_eq!(world.run("boom", "tr a-z A-Z", &[]).id, agent.id);
}

#[test]
fn rename_of_a_stopped_agent_is_in_its_audit_log() {
    let world = world();
    world.run("shout", "cat", &[]);
    world.ok(&["kill", "shout"]);
    world.ok(&["rename", "shout", "loud"]);
    let line = world.ok(&["audit", "loud", "--verb", "rename", "--json"]);
    let line: Value = serde_json::from_str(&line).unwrap();
    let told = (&line["who"], &line["door"], &line["note"]);
    assert_eq!(told, (&json!("user"), &json!("command"), &json!("shout is now loud")), "{line}");
    world.ok(&["start", "loud"]);
    world.wait_until("the line of the new start does not speak of a crash", || {
        let starts = world.ok(&["audit", "loud", "--verb", "start"]);
        starts.contains("after an orderly stop") && !starts.contains("did not stop in order")
    });
    world.ok(&["kill", "loud"]);
    assert!(world.ok(&["audit", "verify", "loud"]).contains("ok"));
}

#[test]
fn old_name_leads_to_the_new_one_until_another_agent_has_it() {
    let world = world();
    let old = world.run("shout", "cat", &[]);
    world.ok(&["rename", "shout", "loud"]);
    let hint = "no agent is called \"shout\" any more; did you mean loud?";
    world.synapse(&["send", "shout", "hi"]).fails(5, &[hint]);
    let told = world.synapse(&["send", "Shout", "hi", "--json"]).exits(5);
    let told: Value = serde_json::from_str(&told.stderr).unwrap();
    assert_eq!(told["error"]["details"]["nearest"], json!(["loud"]), "{told}");
    world.ok(&["kill", "loud"]);
    world.synapse(&["send", "shout", "hi"]).fails(5, &[hint]);
    world.ok(&["send", "loud", "mine"]);
    // The name is free: who gets it now is another agent, without the mail of the first one.
    let new = world.run("shout", "cat", &[]);
    assert_ne!(new.id, old.id);
    assert_eq!(world.ok(&["send", "shout", "hi", "--response"]), "hi");
    assert!(!world.ok(&["history", "shout"]).contains("mine"));
    world.ok(&["kill", "shout"]);
    assert_eq!(world.run("shout", "cat", &[]).id, new.id, "the same one again");
}

#[test]
fn name_that_is_taken_or_invalid_is_refused() {
    let world = world();
    let (p1, p2) = (at(&world, "p1"), at(&world, "p2"));
    let agent = p1.run("shout", "cat", &[]);
    p1.ok(&["run", "-d", "--name", "ana", "--type", "other", "--exec", "cat"]);
    p2.run("zoe", "cat", &[]);
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        p1.synapse(args).fails(code, words);
        assert_eq!(world.agent("shout").id, agent.id, "{args:?}");
    };
    refused(&["rename", "shout", "ana"], 5, &["shout was not renamed", "taken by ana", "another name"]);
    refused(&["rename", "shout", "ANA"], 5, &["taken by ana"]);
    let handle = format!("other-{}", world.agent("ana").port);
    refused(&["rename", "shout", &handle], 5, &["taken by ana"]);
    for bad in ["", "a b", "-x", "a/b", "user", "Node", "broadcast"] {
        refused(&["rename", "shout", "--", bad], 2, &[]);
    }
    refused(&["rename", "shout"], 2, &["--clear"]);
    refused(&["rename", "nobody", "x"], 5, &["no agent is called"]);
    // Of a stopped one too, and by a stopped one.
    p1.ok(&["kill", "ana"]);
    refused(&["rename", "shout", "ana"], 5, &["taken by ana"]);
    p1.synapse(&["rename", "ana", "shout"]).fails(5, &["taken by shout"]);
    // In another folder the name is free, as it is at a start.
    assert_eq!(p1.ok(&["rename", "shout", "zoe"]), "shout is called zoe now");
    assert_eq!(names(&world.json(&["list"])), ["zoe@p1", "zoe@p2"]);
    // A change of case is no conflict with itself.
    assert_eq!(p1.ok(&["rename", "zoe", "Zoe"]), "zoe is called Zoe now");
}

#[test]
fn agent_without_a_name_is_called_by_its_type_and_number() {
    let world = world();
    let p1 = at(&world, "p1");
    p1.ok(&["run", "-d", "--type", "claude", "--exec", "cat"]);
    let first = p1.json(&["list"])[0]["agent_id"].clone();
    assert_eq!(p1.ok(&["rename", "claude", "ana"]), "claude is called ana now");
    // A further start is another agent, since the first has a name of its own.
    p1.ok(&["run", "-d", "--type", "claude", "--exec", "cat"]);
    assert_eq!(names(&world.json(&["list"])), ["ana", "claude#2"]);
    assert_eq!(p1.ok(&["rename", "ana", "--clear"]), "ana has no name now; it is called claude#1");
    assert_eq!(names(&world.json(&["list"])), ["claude#1", "claude#2"]);
    p1.synapse(&["send", "ana", "hi"]).fails(5, &["any more; did you mean claude#1?"]);
    p1.ok(&["kill", "--all"]);
    p1.ok(&["run", "-d", "--type", "claude", "--exec", "cat"]);
    assert_eq!(p1.json(&["list"])[0]["agent_id"], first, "it is the first one again");
    // One that began with a name gets the next number.
    p1.ok(&["run", "-d", "--type", "claude", "--name", "bob", "--exec", "cat"]);
    p1.ok(&["kill", "bob"]);
    let told = p1.json(&["rename", "bob", "--clear"]);
    let fields = (&told["name"], &told["was"], &told["target"]);
    assert_eq!(fields, (&Value::Null, &json!("bob"), &json!("claude#3")), "{told}");
    p1.ok(&["start", "claude#3"]);
    assert_eq!(names(&world.json(&["list"])), ["claude#1", "claude#3"]);
}

/// The launch file has the name of the last start.
#[test]
fn launch_file_does_not_bring_the_old_name_back() {
    let world = world();
    let agent = world.run("shout", "cat", &[]);
    world.ok(&["rename", "shout", "loud"]);
    world.ok(&["kill", "loud"]);
    let launch = world.agent_dir(&agent.id).join("launch.json");
    assert_eq!(field(&launch, "name"), "shout", "the file of the last start");
    world.ok(&["start", "loud"]);
    assert_eq!(field(&launch, "name"), "loud");
    assert_eq!(field(&world.agent_dir(&agent.id).join("known.json"), "former_names"), json!(["shout"]));
}

fn field(file: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[name].clone()
}

/// `unix.py <socket>`.
const OVER_UNIX: &str = "
import os, socket, sys
folder, name = os.path.split(sys.argv[1])
os.chdir(folder)
door, more = socket.socket(socket.AF_UNIX), ''
door.connect(name)
";

/// `tcp.py <port> <token file>`.
const OVER_TCP: &str = "
import socket, sys
door = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
more = 'Authorization: Bearer ' + open(sys.argv[2]).read().strip() + '\\r\\n'
";

/// Asks for a name and prints the status of the response.
const RENAME: &str = r#"
body = '{"name":"mine"}'
head = f'POST /api/v1/rename HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {len(body)}\r\n\r\n'
door.sendall((head + body).encode())
print(door.recv(4000).split()[1].decode())
"#;

/// Runs a script as the command of the agent `inner` and returns its output. `@` is the binary.
fn inside(world: &World, text: &str) -> String {
    world.write("inside.sh", &text.replace('@', &world.exe().display().to_string()));
    world.ok(&["send", "inner", "go", "--response"])
}

/// Whoever has a name gets what is sent to it, so only the user gives names.
#[test]
fn agent_may_not_rename() {
    let world = world();
    let ledger = world.run("ledger", "cat", &[]);
    world.run("inner", "sh inside.sh 2>&1", &[]);
    world.run("worker", "cat", &[]);
    world.ok(&["kill", "worker"]);
    let told = inside(&world, "for who in ledger worker inner; do @ rename $who mine; echo $?; done");
    assert_eq!(told.matches("not even itself").count(), 3, "{told}");
    // Its node refuses as well, and so does that of another agent.
    world.write("unix.py", &format!("{OVER_UNIX}{RENAME}"));
    world.write("tcp.py", &format!("{OVER_TCP}{RENAME}"));
    let inner = world.agent("inner");
    for (agent, socket) in [(&ledger, ledger.socket.display()), (&inner, inner.socket.display())] {
        let ask = format!("{} unix.py {socket}", python());
        assert_eq!(inside(&world, &ask).trim(), "403");
        // Over TCP the user's token is not enough, for nobody.
        let ask = format!("{} tcp.py {} {}", python(), agent.port, world.home().join("token").display());
        assert_eq!(inside(&world, &ask).trim(), "403");
    }
    let answer = ledger.tcp().ask(
        "POST",
        "/api/v1/rename",
        &[("authorization", &ledger.bearer())],
        br#"{"name":"mine"}"#,
    );
    assert_eq!(answer.status, 403, "{}", answer.text());
    // An agent called `user` would have the header of the user.
    let told = inside(&world, "@ run -d --name user --exec cat; echo $?");
    assert!(told.contains("reserved") && told.trim().ends_with('2'), "{told}");
    let names: Vec<_> =
        world.json(&["list", "--all"]).as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["inner", "ledger", "worker"]);
}
