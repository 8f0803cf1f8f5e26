//! A program in a terminal that a test controls: it draws screens, runs its hooks, and records the
//! keys it gets.

#![allow(dead_code, reason = "no test uses all of it")]

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use synapse_testkit::World;
use synapse_testkit::world::python;

/// Reads orders from a pipe, one JSON list per line: `show` draws a screen, `hook` runs the hooks
/// configured for an event. Writes the result of each to a line of `done`.
const PROGRAM: &str = r##"#!PYTHON
import json, os, re, subprocess, sys, threading, tty
words = sys.argv[1:]
if words == ["--version"]:
    print("scripted 9.9.9")
    sys.exit(0)
tty.setraw(0)
open("words", "w").write(json.dumps(words))
settings = {}
for flag, value in zip(words, words[1:]):
    if flag == "--settings" and os.path.exists(value):
        settings = json.load(open(value))
    # As Codex is told: settings of their own on the command line, in TOML.
    told = re.match(r'hooks\.(\w+)=.*command=("(?:[^"\\]|\\.)*")', value) if flag == "-c" else None
    if told:
        settings.setdefault("hooks", {})[told[1]] = [{"hooks": [{"command": json.loads(told[2]), "timeout": 5}]}]
def show(text):
    os.write(1, ("\x1b[2J\x1b[H" + text.replace("\n", "\r\n")).encode())
def hook(event, stdin=None):
    ran = []
    for group in settings.get("hooks", {}).get(event["hook_event_name"], []):
        if group.get("matcher", event.get("source")) != event.get("source"):
            continue
        for one in group["hooks"]:
            given = json.dumps(event).encode() if stdin is None else stdin
            did = subprocess.run(["sh", "-c", one["command"]], input=given, capture_output=True, timeout=one["timeout"])
            ran.append([did.returncode, did.stdout.decode(), did.stderr.decode()])
    return ran
def keys():
    while True:
        open("keys", "ab", buffering=0).write(os.read(0, 4096))
threading.Thread(target=keys, daemon=True).start()
show("starting")
done = open("done", "a", buffering=1)
while True:
    for line in open("orders"):
        what, *args = json.loads(line)
        if what == "show":
            told = show(args[0])
        elif what == "hook":
            told = hook(args[0])
        elif what == "large":
            event = {"hook_event_name": args[0], "tool_response": "x" * (10 << 20)}
            told = hook(event)
        elif what == "broken":
            told = hook({"hook_event_name": "Stop"}, args[0].encode())
        elif what == "run":
            told = subprocess.run(args[0], shell=True, capture_output=True, text=True).stdout
        done.write(json.dumps([what, told]) + "\n")
"##;

pub const PROFILE: &str = "
name: scripted
command: PROGRAM
version: { ask: [--version], tested: ['1.2'] }
screen:
  - state: waiting
    any: ['Allow this']
  - state: busy
    any: ['working']
  - state: idle
    any: ['^> ready']
timing: { ready_ms: 1, idle_ms: 1 }
hooks: claude
";

pub struct Stage {
    pub world: World,
    orders: std::fs::File,
    given: usize,
}

impl Stage {
    /// Starts the program with these extra arguments and waits until it is idle.
    pub fn new(words: &[&str]) -> Self {
        Self::with(PROFILE, words)
    }

    pub fn with(profile: &str, words: &[&str]) -> Self {
        Self::in_world(World::new(env!("CARGO_BIN_EXE_synapse")), profile, words)
    }

    /// Starts a program whose questions look like those of Claude Code.
    pub fn asking(world: World) -> Self {
        let screen = "screen:\n  - state: waiting\n    any: ['❯ 1\\. Yes']";
        let frame = "approve: { allow: '1', deny: escape, frame: { top: rule, title: '^ \\S' } }";
        Self::in_world(world, &format!("{}{frame}\n", PROFILE.replace("screen:", screen)), &[])
    }

    fn in_world(world: World, profile: &str, words: &[&str]) -> Self {
        let program = world.write("scripted", &PROGRAM.replace("PYTHON", python()));
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::create_dir_all(world.home().join("profiles")).unwrap();
        let profile = profile.replace("PROGRAM", &program.display().to_string());
        std::fs::write(world.home().join("profiles/scripted.yaml"), profile).unwrap();
        let made = Command::new("mkfifo").arg(world.file("orders")).status().unwrap();
        assert!(made.success());
        // Opened for reading and writing, so that opening never blocks on the other end.
        let orders = std::fs::OpenOptions::new().read(true).write(true).open(world.file("orders")).unwrap();
        let start = [&["scripted", "-d", "--name", "cli"], words].concat();
        let started = world.command(&start).env("CI_SECRET", "a-secret-0123456789").output().unwrap();
        assert!(started.status.success(), "{started:?}");
        let mut stage = Self { world, orders, given: 0 };
        stage.order(&json!(["show", "> ready"]));
        stage.becomes("idle");
        stage
    }

    /// Asks by its hook and on its screen to run this command. Returns the registry's entry for the
    /// prompt.
    pub fn wants_to_run(&mut self, command: &str) -> Value {
        self.hook("PermissionRequest", &json!({ "tool_name": "Bash", "tool_input": { "command": command } }));
        self.shows(command)
    }

    pub fn shows(&mut self, command: &str) -> Value {
        let rule = "─".repeat(120);
        self.order(&json!(["show", format!(
            "some talk\n{rule}\n Bash command\n {command}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel"
        )]));
        self.world.wait_for("the prompt is in the registry", || {
            let pending = self.world.entry("cli")?["pending"].clone();
            pending["asks"].as_str().is_some_and(|asks| asks.contains(command)).then_some(pending)
        })
    }

    /// Gives an order and returns its result.
    pub fn order(&mut self, order: &Value) -> Value {
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

    /// Runs the hooks of an event. They must succeed and print nothing.
    pub fn hook(&mut self, event: &str, more: &Value) {
        let mut whole = json!({ "hook_event_name": event, "session_id": "s-1", "transcript_path": "/x" });
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let ran = self.order(&json!(["hook", whole]));
        assert_eq!(ran, json!([[0, "", ""]]), "{event}");
    }

    pub fn view(&self) -> Value {
        self.world.agent("cli").get("/api/v1/terminal").json()
    }

    pub fn becomes(&self, state: &str) {
        self.world.wait_until(&format!("the state is {state}"), || {
            self.world.entry("cli").is_some_and(|entry| entry["status"] == state)
        });
    }

    pub fn screen_says(&self, says: &str) {
        let shows = |e: &Value| e["source"] == "screen" && e["says"] == says;
        self.world.wait_until(&format!("the screen is seen as {says}"), || {
            self.view()["evidence"].as_array().unwrap().iter().any(shows)
        });
    }

    /// The current state, and the source that decided it.
    pub fn decided(&self) -> (String, String) {
        let view = self.view();
        let text = |name: &str| view[name].as_str().unwrap_or_default().to_owned();
        (text("state"), text("source"))
    }

    pub fn dir(&self) -> PathBuf {
        self.world.agent_dir(self.world.entry("cli").unwrap()["agent_id"].as_str().unwrap())
    }
}
