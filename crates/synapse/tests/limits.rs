//! System limits (A1): 500 tasks at once on a user's default limits, and accepted work waits while
//! a limit is reached.

#![cfg(target_os = "linux")]

use crate::world;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use synapse_testkit::processes::{children_of, command_line, leave_free};
use synapse_testkit::{Agent, Ran, World};

/// Like `World::run`, for a user whose soft limit of open files is `files`.
fn run_within(world: &World, files: u64, name: &str, exec: &str, more: &[&str]) -> Agent {
    let shell = format!("ulimit -S -n {files}; exec \"$0\" \"$@\"");
    let exe = world.exe().to_str().unwrap();
    let args = ["-c", &shell, exe, "run", "--detach", "--name", name, "--exec", exec];
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    let output = world.prepare(Command::new("sh"), &args).output().unwrap();
    Ran::new(&args, output).ok();
    world.agent(name)
}

fn node_of(world: &World, name: &str) -> u32 {
    let holder = world.entry(name).unwrap()["pid"].as_u64().unwrap();
    let children = children_of(u32::try_from(holder).unwrap());
    *children.iter().find(|pid| command_line(**pid).contains("__node")).unwrap()
}

/// The targets of a process's open descriptors.
fn descriptors(pid: u32) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let targets = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.map(|target| target.display().to_string()).collect()
}

fn inotify_instances(pid: u32) -> usize {
    descriptors(pid).iter().filter(|target| target.contains("inotify")).count()
}

/// Creates a FIFO on which commands wait, and holds it open.
fn fifo(path: &Path) -> std::fs::File {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    std::fs::File::options().read(true).write(true).open(path).unwrap()
}

/// Finding A1: the node raises its own limit of descriptors. Commands must not inherit that,
/// because some use `select`.
#[test]
fn commands_get_the_users_limit_of_open_files() {
    let world = world();
    run_within(&world, 777, "plain", "ulimit -S -n", &[]);
    assert_eq!(world.ok(&["send", "plain", "x", "--response"]), "777");
}

/// Finding A1: no process of an agent has more than one inotify instance, however many tasks it
/// runs.
#[test]
fn running_tasks_hold_no_inotify_instance() {
    let world = world();
    let mut gate = fifo(&world.file("gate"));
    let exec =
        "read line; : > up.$SYNAPSE_TASK_ID; read go < gate; echo '{\"type\":\"completed\",\"text\":\"ok\"}'";
    let agent = run_within(&world, 1024, "lines", exec, &["--jsonl", "--parallel", "4"]);
    let tasks: Vec<String> = (0..4).map(|n| world.send("lines", &format!("{n}"), &[])).collect();
    world.wait_until("all four run", || tasks.iter().all(|task| world.file(&format!("up.{task}")).exists()));
    for pid in world.processes() {
        let most = usize::from(command_line(pid).contains("__node"));
        assert!(inotify_instances(pid) <= most, "{}: {:?}", command_line(pid), descriptors(pid));
    }
    gate.write_all(b"\n\n\n\n").unwrap();
    for task in &tasks {
        world.wait_until("it is completed", || agent.task(task)["state"] == "completed");
    }
}

/// Finding A1: at the limit of open files a message goes back to the mailbox without counting a
/// try, and names the limit. Later it is delivered.
#[test]
fn message_waits_in_the_mailbox_while_files_run_out() {
    let world = world();
    let agent = world.run("short", "cat", &[]);
    assert_eq!(world.ok(&["send", "short", "before", "--response"]), "before");
    let node = node_of(&world, "short");
    // Older descriptors may close only after the limit was set. Then set it again for another
    // message.
    let task = world.wait_for("the limit is named", || {
        // Enough to accept a connection and identify its process, and too few to start a command.
        leave_free(node, 3);
        let told = agent.post("/message", &json!({ "message": "hello" })).json();
        let (task, message) = (told["task_id"].as_str()?.to_owned(), told["message_id"].as_str()?.to_owned());
        let is_held = world.wait_for("it is held, or worked on", || {
            let receipt = agent.get(&format!("/api/v1/receipts/{message}")).text();
            let is_held = receipt.contains("open files");
            (is_held || agent.task(&task)["state"] == "completed").then_some(is_held)
        });
        is_held.then_some(task)
    });
    // A caller that cannot be identified for lack of descriptors is refused, and may retry.
    let state =
        world.wait_for("the task can be read", || Some(agent.task(&task)["state"].as_str()?.to_owned()));
    assert_eq!(state, "submitted");
    leave_free(node, usize::MAX);
    world.wait_until("it is worked on", || agent.task(&task)["state"] == "completed");
}

type Headers<'a> = &'a [(&'a str, &'a str)];

/// At the limit of open files the node cannot identify callers. It names the limit and asks them to
/// retry.
#[test]
fn caller_that_cannot_be_identified_for_want_of_files_is_asked_to_retry() {
    let world = world();
    let agent = world.run("short", "cat", &[]);
    let node = node_of(&world, "short");
    let bearer = agent.bearer();
    let secret = ("Authorization", bearer.as_str());
    let task = json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": "x" } }).to_string();
    let a2a = ("A2A-Version", "1.0");
    let asked: [(&str, &str, Headers<'_>, &[u8]); 3] = [
        ("GET", "/api/v1/tasks", &[secret], b""),
        ("POST", "/a2a", &[secret, a2a, ("Content-Type", "application/json")], task.as_bytes()),
        ("GET", "/a2a/v1/tasks", &[secret, a2a], b""),
    ];
    for door in [agent.tcp(), agent.unix()] {
        for (method, path, headers, body) in asked {
            let what = format!("{method} {path} at {door:?}");
            let told = world.wait_for(&what, || {
                // Enough to accept a connection, too few to identify the process behind it.
                leave_free(node, 1);
                let told = door.ask(method, path, headers, body);
                assert_ne!(told.status, 401, "{what}: {}", told.text());
                (told.status == 503).then_some(told)
            });
            assert!(told.text().contains("RLIMIT_NOFILE"), "{what}: {}", told.text());
            assert_eq!(told.header("retry-after"), Some("1"), "{what}: {:?}", told.headers);
        }
        leave_free(node, 1);
        assert_eq!(door.ask("GET", "/healthz", &[], b"").status, 200, "anybody may ask this");
        leave_free(node, usize::MAX);
        let told = door.ask("GET", "/api/v1/tasks", &[secret], b"");
        assert_eq!(told.status, 200, "a secret that could not be read is read again: {}", told.text());
    }
}

/// Finding M8: pages of large messages and tasks end early, and a client that reads all pages
/// misses nothing.
#[test]
fn pages_are_bounded_by_bytes() {
    let world = world();
    let text = "x".repeat(900_000);
    let slow = world.run("slow", "sleep 60", &[]);
    let post = |agent: &Agent| {
        let told = agent.post("/message", &json!({ "message": text })).json();
        told["task_id"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
    };
    for _ in 0..5 {
        post(&slow);
    }
    let page = slow.get("/api/v1/inbox?max=500").json();
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(2), "of {} that wait", page["waiting"]);
    let echo = world.run("echo", "cat", &[]);
    let tasks: Vec<String> = (0..12).map(|_| post(&echo)).collect();
    for task in &tasks {
        world.wait_until("it has ended", || echo.task(task)["state"] == "completed");
    }
    let (mut seen, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let path = format!("/a2a/v1/tasks?pageSize=100&includeArtifacts=true&pageToken={token}");
        let page = echo.unix().ask("GET", &path, &[("A2A-Version", "1.0")], b"").json();
        let listed = page["tasks"].as_array().unwrap_or_else(|| panic!("{page}"));
        assert!(listed.len() < 12, "{} tasks at once", listed.len());
        seen.extend(listed.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
        pages += 1;
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert!(pages > 1 && seen.len() == 12, "{pages} pages, {seen:?}");
    assert!(tasks.iter().all(|task| seen.iter().any(|id| id.contains(task.as_str()))), "{seen:?}");
}

/// Finding M8: a stream begins with the whole task. Unread streams share one memory budget.
#[test]
fn streams_that_begin_with_a_large_task_share_one_budget() {
    const BYTES: usize = 20_000_000;
    const STREAMS: usize = 12;
    let world = world();
    world.ok(&["config", "set", "limits.message_bytes_max", "33000000"]);
    let agent = world.run("slow", "sleep 600", &[]);
    let told = agent.post("/message", &json!({ "message": "x".repeat(BYTES) })).json();
    let task = told["task_id"].as_str().unwrap_or_else(|| panic!("{told}"));
    world.wait_until("it works on it", || agent.task(task)["state"] == "working");
    let subscribe = || {
        let mut stream = TcpStream::connect(("127.0.0.1", agent.port)).unwrap();
        let head = [
            &format!("GET /a2a/v1/tasks/{task}:subscribe HTTP/1.1"),
            &format!("host: localhost:{}", agent.port),
            "A2A-Version: 1.0",
            &format!("authorization: Bearer {}", world.token()),
        ];
        write!(stream, "{}\r\n\r\n", head.join("\r\n")).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (String::from_utf8_lossy(&status).into_owned(), stream)
    };
    let all: Vec<(String, TcpStream)> = (0..STREAMS).map(|_| subscribe()).collect();
    let count = |status: &str| all.iter().filter(|(told, _)| told == status).count();
    let (held, refused) = (count("HTTP/1.1 200"), count("HTTP/1.1 429"));
    assert_eq!(held + refused, STREAMS, "{all:?}");
    assert!((2..=(128 << 20) / BYTES).contains(&held), "{held} streams began");
    drop(all);
    world.wait_until("there is room again", || subscribe().0 == "HTTP/1.1 200");
}

/// Finding A1: 500 tasks of eight agents run at once on one user's default limits, and all
/// complete.
#[test]
fn heavy_500_tasks_run_at_once_over_eight_agents() {
    const AGENTS: usize = 8;
    const EACH: usize = 63;
    let world = world();
    let began = std::time::Instant::now();
    std::fs::create_dir(world.file("up")).unwrap();
    let mut gate = fifo(&world.file("gate"));
    let plain = "read line; : > up/$SYNAPSE_TASK_ID; read go < gate; echo ok";
    let lines =
        "read line; : > up/$SYNAPSE_TASK_ID; read go < gate; echo '{\"type\":\"completed\",\"text\":\"ok\"}'";
    let start = |n: usize| {
        let name = format!("many{n}");
        let (exec, more): (_, &[&str]) = match n % 2 {
            0 => (plain, &["--parallel", "64"]),
            _ => (lines, &["--jsonl", "--parallel", "64"]),
        };
        (run_within(&world, 1024, &name, exec, more), name)
    };
    let agents: Vec<(Agent, String)> = (0..AGENTS).map(start).collect();
    let mut tasks = Vec::new();
    for (agent, _) in agents.iter().cycle().take(AGENTS * EACH) {
        let told = agent.post("/message", &json!({ "message": "go\n" })).json();
        tasks.push((agent, told["task_id"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()));
    }
    let up = || std::fs::read_dir(world.file("up")).unwrap().count();
    world.wait_while_it_moves("all tasks run", || (up() == tasks.len(), up()));
    let all_up = began.elapsed();
    let mut inotify = 0;
    for pid in world.processes() {
        let instances = inotify_instances(pid);
        assert!(instances <= 1, "{}: {:?}", command_line(pid), descriptors(pid));
        inotify += instances;
    }
    for (_, name) in &agents {
        let node = node_of(&world, name);
        let status = std::fs::read_to_string(format!("/proc/{node}/status")).unwrap();
        let rss = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default().to_owned();
        eprintln!("{name}: {} descriptors, {rss}", descriptors(node).len());
    }
    eprintln!("{} tasks run after {all_up:?}, {inotify} inotify instances in all", tasks.len());
    gate.write_all(&b"\n".repeat(tasks.len())).unwrap();
    let ended = |agent: &Agent, task: &str| agent.task(task)["state"] != "working";
    let left = || tasks.iter().filter(|(agent, task)| !ended(agent, task)).count();
    world.wait_while_it_moves("all tasks have ended", || match left() {
        0 => (true, tasks.len()),
        left => (false, tasks.len() - left),
    });
    for (agent, task) in &tasks {
        let task = agent.task(task);
        assert_eq!(task["state"], "completed", "{task}");
    }
    eprintln!("all completed after {:?}", began.elapsed());
}
