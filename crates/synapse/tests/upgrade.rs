//! Different versions (X-12): they work together, or say exactly what to upgrade. An upgrade loses
//! nothing.

use crate::world;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use synapse_testkit::processes::{is_alive, kill9};
use synapse_testkit::{Agent, World};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An installed program that can be replaced.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let installed = Self { folder: tempfile::tempdir().unwrap() };
        installed.put();
        installed
    }

    fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("synapse")
    }

    /// Replaces the program as an installer does: with a rename onto the old file.
    fn put(&self) {
        let built = Path::new(env!("CARGO_BIN_EXE_synapse"));
        let new = self.folder.path().join("new");
        // Not a hard link: a rename onto a link of the same file does nothing.
        std::fs::copy(built, &new).unwrap();
        std::fs::rename(&new, self.path()).unwrap();
    }

    fn world(&self) -> World {
        World::new(self.path().to_str().unwrap())
    }
}

fn program_of(pid: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap()
}

/// X-12: every response has the version and the level, errors too, and so does the registry.
#[test]
fn every_answer_tells_its_version() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    for (path, status) in [("/status", 200), ("/healthz", 200), ("/nowhere", 404), ("/api/v1/tasks/xx", 400)]
    {
        let answer = agent.get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(answer.header("synapse-version"), Some(VERSION), "{path}");
        assert_eq!(answer.header("synapse-api"), Some("1"), "{path}");
    }
    assert_eq!(
        agent.tcp().ask("GET", "/metrics", &[], b"").header("synapse-api"),
        Some("1"),
        "to strangers too"
    );
    let entry = world.entry("shout").unwrap();
    assert_eq!((&entry["version"], &entry["api"]), (&json!(VERSION), &json!(1)));
    assert_eq!(entry["holder_version"], VERSION);
}

/// X-12: a node rejects a caller of an incompatible level before it does anything.
#[test]
fn a_node_refuses_callers_of_another_level() {
    let world = world();
    let agent = world.run("shout", "cat >> got; echo >> got", &[]);
    let send = |level: &str| {
        let headers = [("synapse-api", level), ("synapse-version", "9.8.7")];
        let body = json!({ "message": format!("level {level}") }).to_string();
        agent.unix().ask("POST", "/message", &headers, body.as_bytes())
    };
    let cases = [
        ("2-3", 426, "synapse upgrade-agents --all"),
        ("0", 426, "install synapse"),
        ("1-9", 200, ""),
        ("1", 200, ""),
        ("x", 400, "synapse-api"),
    ];
    for (level, status, help) in cases {
        let answer = send(level);
        assert_eq!(answer.status, status, "{level}: {answer:?}");
        let said = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(help), "{level}: {said}");
        if status == 426 {
            assert!(said.contains(VERSION) && said.contains("9.8.7"), "{said}");
            assert_eq!(answer.json()["error"]["code"], "other_version");
        }
    }
    world.ok(&["send", "shout", "last", "--response"]);
    assert_eq!(world.lines("got"), ["level 1-9", "level 1", "last"], "what was refused was not taken");
    let anyone = agent.unix().ask("GET", "/status", &[("synapse-api", "77")], b"");
    assert_eq!(anyone.status, 200, "how it is may be asked by all");
}

/// Replaces the real node with one of another version, which answers everything with this head and
/// body.
fn fake_node(agent: &Agent, head: &'static str, body: &'static str) {
    std::fs::remove_file(&agent.socket).unwrap();
    // The path of a Unix socket is limited in length. A path through the folder's descriptor always
    // fits.
    let folder = std::fs::File::open(agent.socket.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/node.sock", folder.as_raw_fd())).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let length = body.len();
            let answer = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
}

/// X-12: the command line says what to upgrade, for an older node and for a newer one.
#[test]
fn the_command_line_says_what_to_upgrade() {
    let installed = Installed::new();
    let world = installed.world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let stored = r#"{"message_id":"m","task_id":null,"agent_id":"a","status":"stored"}"#;

    fake_node(&agent, "HTTP/1.1 200 OK\r\nsynapse-api: 0\r\nsynapse-version: 0.0.3\r\n", stored);
    let told = world.synapse(&["send", "shout", "hi"]);
    told.fails(1, &["0.0.3", VERSION, "synapse upgrade-agents --all"]);

    fake_node(&agent, "HTTP/1.1 200 OK\r\n", stored);
    world
        .synapse(&["status", "shout"])
        .fails(1, &["unknown version", VERSION, "synapse upgrade-agents --all"]);

    let refusal = r#"{"error":{"code":"other_version","message":"upgrade the command: install synapse 7.0.0 or newer"}}"#;
    fake_node(
        &agent,
        "HTTP/1.1 426 Upgrade Required\r\nsynapse-api: 9\r\nsynapse-version: 7.0.0\r\n",
        refusal,
    );
    let told = world.synapse(&["send", "shout", "hi", "--json"]).fails(1, &["install synapse 7.0.0"]);
    let told: Value = serde_json::from_str(&told.stderr).unwrap();
    assert_eq!(told["error"]["code"], "other_version");
    let spool = world.agent_dir(&agent.id).join("spool/new");
    assert_eq!(
        std::fs::read_dir(spool).map_or(0, Iterator::count),
        0,
        "it was not put into the spool instead"
    );

    // The node cannot even be asked to restart, so it is killed. The next one finds everything on
    // disk.
    fake_node(&agent, "HTTP/1.1 404 Not Found\r\n", "{}");
    installed.put();
    let told = world.ok(&["upgrade-agents", "shout"]);
    assert!(told.contains("shout restarted"), "{told}");
    assert!(!is_alive(agent.node_pid));
    assert_eq!(world.ok(&["send", "shout", "hi", "--response"]), "HI");
}

/// X-12: the installed program is replaced while a command runs. The node is new, the agent is the
/// same, and the command runs only once.
#[test]
fn an_upgrade_keeps_agents_and_running_commands() {
    let installed = Installed::new();
    let world = installed.world();
    let agent = world.run(
        "slow",
        "echo begun >> starts; until test -e go; do sleep 0.05; done; cat",
        &["--port", &world.port()],
    );
    let task = world.send("slow", "the answer", &[]);
    world.wait_until("its command runs", || !world.lines("starts").is_empty());

    installed.put();
    assert!(program_of(agent.node_pid).to_string_lossy().ends_with(" (deleted)"));
    let dry = world.json(&["upgrade-agents", "--all", "--dry-run"]);
    assert_eq!((&dry[0]["outcome"], &dry[0]["name"]), (&json!("would_restart"), &json!("slow")));
    assert_eq!(world.agent("slow").node_pid, agent.node_pid, "nothing was done yet");

    let done = world.json(&["upgrade-agents", "slow"]);
    assert_eq!(done[0]["outcome"], "restarted", "{done}");
    let after = world.agent("slow");
    assert_ne!(after.node_pid, agent.node_pid);
    assert_eq!((after.pid, after.port, &after.id), (agent.pid, agent.port, &agent.id));
    assert!(!is_alive(agent.node_pid));
    assert_eq!(program_of(after.node_pid), installed.path());
    assert!(
        world.ok(&["upgrade-agents", "--all"]).contains("is of this version"),
        "a second time changes nothing"
    );
    assert_eq!(world.agent("slow").node_pid, after.node_pid);

    world.write("go", "");
    world
        .wait_until("the task that ran meanwhile is completed", || after.task(&task)["state"] == "completed");
    assert_eq!(after.task(&task)["answer"]["text"], "the answer");
    assert_eq!(world.lines("starts"), ["begun"], "its command ran once");
    assert_eq!(world.ok(&["send", "slow", "again", "--response"]), "again");
}

/// Neither a waiting sender nor a joined program notices that the node is replaced.
#[test]
fn whoever_waits_does_not_notice_an_upgrade() {
    let installed = Installed::new();
    let world = installed.world();
    let mut desk = world.program(&["join", "--name", "desk"]);
    desk.next_of("hello");
    let sender = world.program(&["send", "desk", "work", "--response"]);
    let message = desk.next_of("message")["message_id"].clone();
    desk.say(&json!({ "type": "seen", "message_id": message }));
    desk.next_of("ok");
    installed.put();
    world.ok(&["upgrade-agents", "--all"]);
    desk.say(&json!({ "type": "completed", "message_id": message, "text": "done" }));
    assert_eq!(sender.next_line(), "done");
}

/// If the program file is deleted, the node restarts from the copy that the kernel keeps open.
#[test]
fn an_agent_outlives_its_program() {
    let installed = Installed::new();
    let world = installed.world();
    world.run("shout", "tr a-z A-Z", &[]);
    std::fs::remove_file(installed.path()).unwrap();
    let send = |text: &str| {
        let agent = world.agent("shout");
        let sent = agent.post("/message", &json!({ "message": text })).json();
        let task = sent["task_id"].as_str().unwrap().to_owned();
        world.wait_for("the task ends", || {
            let task = world.agent("shout").task(&task);
            (task["state"] == "completed").then(|| task["answer"]["text"].clone())
        })
    };
    assert_eq!(send("hi"), "HI");
    let before = world.agent("shout").node_pid;
    kill9(before);
    world.wait_for("a new node serves", || {
        let entry = world.entry("shout")?;
        (entry["node_pid"] != before && entry["status"] == "idle").then_some(())
    });
    assert_eq!(send("still here"), "STILL HERE");
}

/// `list` reports running processes of another version, with a hint.
#[test]
fn a_list_tells_of_other_versions() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    world.wait_until("it is idle", || world.entry("shout").is_some_and(|entry| entry["status"] == "idle"));
    let path = world.home().join("registry").join(format!("{}.json", agent.id));
    let write = |node: &str, holder: &str| {
        let mut entry = world.entry("shout").unwrap();
        entry["version"] = node.into();
        entry["holder_version"] = holder.into();
        std::fs::write(&path, entry.to_string()).unwrap();
        world.ok(&["list"])
    };
    assert!(!world.ok(&["list"]).contains("version"));
    let told = write("0.0.1", "0.0.1");
    assert!(told.contains("another version") && told.contains("synapse upgrade-agents --all"), "{told}");
    let told = write(VERSION, "0.0.1");
    assert!(told.contains("holder of another version: shout") && told.contains("synapse kill"), "{told}");
    let listed = world.json(&["list"]);
    assert_eq!((&listed[0]["version"], &listed[0]["holder_version"]), (&json!(VERSION), &json!("0.0.1")));
}

/// Only a person may upgrade, and a node whose journal this version cannot open keeps running.
#[test]
fn what_must_not_be_upgraded_is_not() {
    let installed = Installed::new();
    let world = installed.world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let exe = world.exe().display().to_string();
    world.run("sneaky", &format!("{exe} upgrade-agents --all 2>&1 || true"), &[]);
    let said = world.ok(&["send", "sneaky", "go", "--response"]);
    assert!(said.contains("only a person may"), "{said}");

    installed.put();
    let journal = world.agent_dir(&agent.id).join("journal.db");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(&journal, bytes).unwrap();
    let refused = world.synapse(&["upgrade-agents", "shout"]);
    assert!(refused.stdout.contains("newer version"), "{refused}");
    refused.exits(1);
    assert!(is_alive(agent.node_pid));
    world.synapse(&["upgrade-agents"]).exits(2);
    world.synapse(&["upgrade-agents", "nobody"]).exits(5);
}
