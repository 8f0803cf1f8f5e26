//! A world of its own for each test: a fresh home, a folder to work in, the real binary, and waits with a purpose.
//!
//! When a wish does not come true the world is shown: who is listed, what the registry says, each agent's log.
//! When the test is over, all that it started is ended, and nothing else.

#![allow(clippy::unwrap_used)]

use crate::http::{Answer, Door};
use crate::processes;
use crate::program::Program;
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a wish may take to come true on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

pub struct World {
    exe: PathBuf,
    home: PathBuf,
    folder: PathBuf,
    // Last: removed when everything in it has ended.
    _root: Option<tempfile::TempDir>,
}

/// A running agent, as the registry tells.
#[derive(Debug, Clone)]
pub struct Agent {
    pub id: String,
    pub port: u16,
    /// Its holder.
    pub pid: u32,
    pub node_pid: u32,
    pub socket: PathBuf,
    token: String,
}

impl World {
    /// `exe` is `env!("CARGO_BIN_EXE_synapse")`, which only the tests of that crate can say.
    pub fn new(exe: &str) -> Self {
        let root = tempfile::Builder::new().prefix("synapse-test-").tempdir().unwrap();
        let home = root.path().join("home");
        Self::build(exe, root.path().join("work"), home, Some(root))
    }

    /// In a home that is there already; it is left there.
    pub fn at(exe: &str, home: &Path, folder: &Path) -> Self {
        Self::build(exe, folder.to_owned(), home.to_owned(), None)
    }

    fn build(exe: &str, folder: PathBuf, home: PathBuf, root: Option<tempfile::TempDir>) -> Self {
        std::fs::create_dir_all(&folder).unwrap();
        Self { exe: exe.into(), home, folder: folder.canonicalize().unwrap(), _root: root }
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn exe(&self) -> &Path {
        &self.exe
    }

    /// Where its commands run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The text of a file in the folder; empty if there is none yet.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    pub fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.prepare(Command::new(&self.exe), args)
    }

    /// Any program, in this world.
    pub fn prepare(&self, mut command: Command, args: &[&str]) -> Command {
        for inherited in
            ["SYNAPSE_TASK_ID", "SYNAPSE_CHAIN", "SYNAPSE_AGENT_ID", "SYNAPSE_MESSAGE_ID", "SYNAPSE_LOG"]
        {
            command.env_remove(inherited);
        }
        command.args(args).current_dir(&self.folder).env("SYNAPSE_HOME", &self.home).stdin(Stdio::null());
        command
    }

    pub fn synapse(&self, args: &[&str]) -> Ran {
        Ran::new(args, self.command(args).output().unwrap())
    }

    pub fn synapse_reading(&self, args: &[&str], stdin: &[u8]) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that does not want all of it has its reasons, and says them.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Ran::new(args, child.wait_with_output().unwrap())
    }

    /// What a command that has to succeed prints.
    pub fn ok(&self, args: &[&str]) -> String {
        self.synapse(args).ok().out()
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.synapse(&args).ok().json()
    }

    /// A program that stays beside the test.
    pub fn program(&self, args: &[&str]) -> Program {
        Program::start(self.command(args))
    }

    /// Starts a command as an agent.
    pub fn run(&self, name: &str, exec: &str, more: &[&str]) -> Agent {
        let mut args = vec!["run", "--detach", "--name", name, "--exec", exec];
        args.extend(more);
        self.ok(&args);
        self.agent(name)
    }

    /// Starts a Python script as an agent that speaks lines. It begins with `message`, the line it was given,
    /// and has `say(type, **fields)` and `hear()`.
    pub fn run_lines(&self, name: &str, script: &str, more: &[&str]) -> Agent {
        const HEAD: &str = "\
import json, sys\n\
def say(type, **fields): print(json.dumps({'type': type, **fields}), flush=True)\n\
def hear(): return json.loads(sys.stdin.readline())\n\
message = hear()\n";
        let path = self.write(&format!("{name}.py"), &format!("{HEAD}{script}\n"));
        let exec = format!("{} {}", python(), path.display());
        let mut args = vec!["--jsonl"];
        args.extend(more);
        self.run(name, &exec, &args)
    }

    /// Sends one way; its task.
    pub fn send(&self, to: &str, text: &str, more: &[&str]) -> String {
        let mut args = vec!["send", to, text];
        args.extend(more);
        self.json(&args)["task_id"].as_str().unwrap_or_default().to_owned()
    }

    pub fn registry(&self) -> Vec<Value> {
        let files = std::fs::read_dir(self.home.join("registry")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| std::fs::read(file.path()).ok());
        texts.filter_map(|text| serde_json::from_slice(&text).ok()).collect()
    }

    pub fn entry(&self, name: &str) -> Option<Value> {
        self.registry().into_iter().find(|entry| entry["name"] == name)
    }

    pub fn agent(&self, name: &str) -> Agent {
        let entry = self.entry(name).unwrap_or_else(|| panic!("{name} is not running\n{}", self.show()));
        Agent::from_entry(&entry, &self.token())
    }

    pub fn token(&self) -> String {
        std::fs::read_to_string(self.home.join("token")).unwrap_or_default().trim().to_owned()
    }

    /// A free port that no other test of a run takes: for stories in which an agent must keep its own.
    pub fn port(&self) -> String {
        const FIRST: u32 = 20_000;
        const COUNT: u32 = 10_000;
        let start = std::process::id().wrapping_mul(37);
        let ports = (0..COUNT).map(|n| u16::try_from(FIRST + start.wrapping_add(n) % COUNT).unwrap());
        let mut free = ports.filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
        free.next().expect("a port is free").to_string()
    }

    pub fn agent_dir(&self, id: &str) -> PathBuf {
        self.home.join("agents").join(id)
    }

    /// Kills the node of an agent with -9 and waits until another one has taken its place.
    pub fn kill_node(&self, name: &str) {
        let before = self.agent(name).node_pid;
        processes::kill9(before);
        self.wait_until("a new node has taken the place of the killed one", || {
            self.entry(name).is_some_and(|entry| entry["node_pid"] != before)
        });
    }

    /// Polls until it holds; shows the world and fails if it does not within the deadline.
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        self.wait_for(what, || holds().then_some(()));
    }

    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(
                began.elapsed() < DEADLINE,
                "not within {} s: {what}\n{}",
                DEADLINE.as_secs(),
                self.show()
            );
            pause();
        }
    }

    /// Polls until it is done, however long that takes, as long as it gets on: `look` gives whether it is done
    /// and how far it has come.
    pub fn wait_while_it_moves(&self, what: &str, mut look: impl FnMut() -> (bool, usize)) {
        let (mut is_done, mut far) = look();
        while !is_done {
            let before = far;
            self.wait_until(what, || {
                (is_done, far) = look();
                is_done || far > before
            });
        }
    }

    /// All processes that were started here.
    pub fn processes(&self) -> Vec<u32> {
        processes::of_home(&self.home)
    }

    /// Everything there is to know when a test fails.
    pub fn show(&self) -> String {
        const LOG_LINES: usize = 40;
        let mut text = format!("--- list\n{}", self.synapse(&["list", "--all"]));
        for entry in self.registry() {
            text.push_str(&format!("--- registry\n{entry}\n"));
        }
        for dir in std::fs::read_dir(self.home.join("agents")).into_iter().flatten().flatten() {
            let log = std::fs::read(dir.path().join("log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let tail: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            text.push_str(&format!("--- log of {}\n{}\n", dir.file_name().display(), tail.join("\n")));
        }
        for pid in self.processes() {
            text.push_str(&format!("--- process {pid} {}\n", processes::command_line(pid)));
        }
        text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        processes::end_all(&self.home);
    }
}

impl Agent {
    pub fn from_entry(entry: &Value, token: &str) -> Self {
        let number = |name: &str| entry[name].as_u64().unwrap();
        Self {
            id: entry["agent_id"].as_str().unwrap().to_owned(),
            port: u16::try_from(number("port")).unwrap(),
            pid: u32::try_from(number("pid")).unwrap(),
            node_pid: u32::try_from(number("node_pid")).unwrap(),
            socket: entry["socket"].as_str().unwrap().into(),
            token: token.to_owned(),
        }
    }

    pub fn unix(&self) -> Door {
        Door::Unix(self.socket.clone())
    }

    pub fn tcp(&self) -> Door {
        Door::Tcp(self.port)
    }

    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// As the user, over the Unix socket.
    pub fn get(&self, path: &str) -> Answer {
        self.unix().ask("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.unix().ask("POST", path, &[], body.to_string().as_bytes())
    }

    pub fn task(&self, id: &str) -> Value {
        self.get(&format!("/api/v1/tasks/{id}")).json()
    }
}

/// A command that has run.
#[derive(Debug)]
pub struct Ran {
    what: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn new(args: &[&str], output: Output) -> Self {
        Self {
            what: args.join(" ").chars().take(200).collect(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// It failed with this code and said so in words that contain these.
    #[track_caller]
    pub fn fails(self, code: i32, words: &[&str]) -> Self {
        let ran = self.exits(code);
        for word in words {
            assert!(ran.stderr.contains(word), "{word:?} is not in {ran}");
        }
        ran
    }

    pub fn out(&self) -> String {
        self.stdout.trim_end().to_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {self}"))
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "`synapse {}` exits with {:?}\n{}{}", self.what, self.code, self.stdout, self.stderr)
    }
}

/// The interpreter itself: what stands for it in the path may be a slow script.
pub fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let told = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let told = told.expect("python3 is installed: some tests have programs written in it");
        String::from_utf8_lossy(&told.stdout).trim().to_owned()
    })
}

/// Between two looks.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(10)); // tidy: wait
}
