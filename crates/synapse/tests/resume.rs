//! X-2, X-3: a CLI goes on with the conversation that its agent had last, also after a reboot, and
//! no other agent gets it.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use synapse_testkit::world::python;
use synapse_testkit::{World, processes};

/// A CLI with sessions, as Claude Code has them: its hooks name the session. It is given a prompt at
/// each start unless there is a file `silent`, and records its words and its session. The key `c`
/// clears the conversation, `p` is a prompt, `q` ends it.
const CLI: &str = r#"#!PYTHON
import json, os, socket, subprocess, sys, time, tty, uuid
words = sys.argv[1:]
if words == ["--version"]:
    print(open("version").read() if os.path.exists("version") else "chatty 1.0")
    sys.exit(0)
if words == ["--help"]:
    print("usage: chatty")
    sys.exit(0)
plain, settings, rest = [], {}, iter(words)
for word in rest:
    if word == "--settings":
        file = next(rest)
        settings = json.load(open(file))
        here = os.getcwd()
        os.chdir(os.path.dirname(os.path.dirname(file)))
        # What a hook tells before there is a node is lost; a real CLI takes longer to start.
        while True:
            try:
                socket.socket(socket.AF_UNIX).connect("node.sock")
                break
            except OSError:
                time.sleep(0.01)
        os.chdir(here)
    else:
        plain.append(word)
after = plain[plain.index("--resume") + 1:] if "--resume" in plain else []
is_new = not after
session = after[0] if after else str(uuid.uuid4())
if os.path.exists("session-id"):
    session = open("session-id").read()
def hook(name, **more):
    event = {"hook_event_name": name, "session_id": session, **more}
    for group in settings.get("hooks", {}).get(name, []):
        if group.get("matcher", event.get("source")) == event.get("source"):
            for one in group["hooks"]:
                subprocess.run(["sh", "-c", one["command"]], input=json.dumps(event).encode(), capture_output=True)
tty.setraw(0)
hook("SessionStart", source="startup" if is_new else "resume")
if not os.path.exists("silent"):
    hook("UserPromptSubmit", prompt="hello")
os.write(1, b"\x1b[2J\x1b[H> ready")
with open("starts", "a") as starts:
    starts.write(json.dumps([os.environ["SYNAPSE_AGENT_ID"], plain, session]) + "\n")
while True:
    for key in os.read(0, 4096).decode():
        if key == "c":
            session = str(uuid.uuid4())
            hook("SessionStart", source="clear")
        elif key == "p":
            hook("UserPromptSubmit", prompt="more")
        elif key == "q":
            sys.exit(3)
        open("keys", "a").write(key)
"#;

const PROFILE: &str = "
name: chatty
command: PROGRAM
version: { ask: [--version], tested: ['1.0'] }
screen:
  - state: idle
    any: ['^> ready']
timing: { ready_ms: 1, idle_ms: 1 }
hooks: claude
resume:
  args: [--resume, '{session}']
  session: uuid
  earlier: ['--resume [ID]', --continue]
  new: ['--session-id ID']
  prompts: ['...']
  options: [--loud]
";

struct Rig {
    world: World,
    starts: usize,
}

/// One start of the CLI.
struct Start {
    agent: String,
    words: Vec<String>,
    session: String,
}

impl Rig {
    fn new() -> Self {
        let world = World::new(env!("CARGO_BIN_EXE_synapse"));
        let program = world.write("chatty-cli", &CLI.replace("PYTHON", python()));
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::create_dir_all(world.home().join("profiles")).unwrap();
        let profile = PROFILE.replace("PROGRAM", &program.display().to_string());
        std::fs::write(world.home().join("profiles/chatty.yaml"), profile).unwrap();
        Self { world, starts: 0 }
    }

    /// Runs a command that starts the CLI once, and returns what it was started with.
    fn start(&mut self, args: &[&str]) -> Start {
        self.world.ok(args);
        self.started()
    }

    fn started(&mut self) -> Start {
        self.starts += 1;
        let (world, count) = (&self.world, self.starts);
        world.wait_until("the CLI has started", || world.lines("starts").len() >= count);
        let (agent, words, session) = serde_json::from_str(&world.lines("starts")[count - 1]).unwrap();
        Start { agent, words, session }
    }

    /// As `start`; waits until the session is written down.
    fn start_and_talk(&mut self, args: &[&str]) -> Start {
        let start = self.start(args);
        self.is_recorded(&start.agent, Some(&start.session));
        start
    }

    fn recorded(&self, agent: &str) -> Option<String> {
        let file = self.world.agent_dir(agent).join("session.json");
        let record: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
        record["id"].as_str().map(str::to_owned)
    }

    fn is_recorded(&self, agent: &str, session: Option<&str>) {
        let what = format!("the session of {agent:.8} is {session:?}");
        self.world.wait_until(&what, || self.recorded(agent).as_deref() == session);
    }

    fn key(&self, name: &str, key: &str) {
        let before = self.world.read("keys").len();
        self.world.ok(&["send-keys", name, key]);
        self.world.wait_until("the key has had its effect", || self.world.read("keys").len() > before);
    }

    /// Kills everything, like a power cut.
    fn reboot(&self) {
        self.world.processes().into_iter().for_each(processes::kill9);
        self.world.wait_until("all processes are gone", || self.world.processes().is_empty());
    }

    /// All agents that are known, by name, with their ids.
    fn known(&self) -> BTreeMap<String, String> {
        let rows = self.world.json(&["list", "--all"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["agent_id"]))).collect()
    }

    fn start_line(&self, name: &str) -> String {
        let shown = self.world.ok(&["list", "--all"]);
        let mut lines = shown.lines().skip_while(|line| !line.starts_with(name));
        lines.nth(1).unwrap_or_else(|| panic!("{name} is not in {shown}")).trim().to_owned()
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn after_a_reboot_each_agent_of_a_folder_has_its_own_conversation_again() {
    let mut rig = Rig::new();
    let ana = rig.start_and_talk(&["chatty", "-d", "--name", "ana", "--model", "big", "Fix the bug"]);
    let bo = rig.start_and_talk(&["chatty", "-d", "--name", "bo"]);
    assert_ne!(ana.session, bo.session);
    rig.world.send("ana", "for later", &[]);
    rig.reboot();
    assert_eq!(rig.start_line("ana"), "start it again: synapse start ana (with its conversation)");
    let rows = rig.world.json(&["list", "--all"]);
    assert_eq!((&rows[0]["start"], &rows[0]["start_resumes"]), (&json!("synapse start ana"), &json!(true)));

    let told = rig.world.json(&["start", "bo"]);
    assert_eq!(
        (&told["resumed_conversation"], &told["session"]),
        (&json!(true), &json!(bo.session)),
        "{told}"
    );
    let again = rig.started();
    assert_eq!((again.words, again.agent), (words(&format!("--resume {}", bo.session)), bo.agent));
    // Its options go along, the prompt of its first start does not.
    let shown = rig.world.ok(&["start", "ana"]);
    assert!(
        shown.contains("it goes on with its last conversation") && shown.contains("--fresh ana"),
        "{shown}"
    );
    let again = rig.started();
    assert_eq!(again.words, words(&format!("--resume {} --model big", ana.session)));
    assert_eq!((again.session, again.agent), (ana.session.clone(), ana.agent.clone()));
    assert!(rig.world.ok(&["inbox", "ana"]).contains("for later"), "its mail is there");
    // Once more: the words that its user gave are still known.
    rig.reboot();
    assert_eq!(rig.start(&["start", "ana"]).words, words(&format!("--resume {} --model big", ana.session)));
}

#[test]
fn fresh_start_begins_a_new_conversation() {
    let mut rig = Rig::new();
    let first = rig.start_and_talk(&["chatty", "-d", "--loud", "--continue"]);
    rig.reboot();
    let shown = rig.world.ok(&["start", "chatty", "--fresh"]);
    assert!(shown.contains("it begins a new conversation"), "{shown}");
    let second = rig.started();
    assert_eq!(second.words, ["--loud"], "`--continue` would not be new");
    assert_ne!(second.session, first.session);
    // The new one is its last one from now on.
    rig.is_recorded(&second.agent, Some(&second.session));
    rig.reboot();
    assert_eq!(rig.start(&["start", "chatty"]).words, words(&format!("--resume {} --loud", second.session)));
}

#[test]
fn conversation_without_a_prompt_or_that_was_cleared_is_not_resumed() {
    let mut rig = Rig::new();
    rig.world.write("silent", "");
    let empty = rig.start(&["chatty", "-d"]);
    rig.reboot();
    assert_eq!(rig.recorded(&empty.agent), None);
    assert_eq!(rig.start_line("chatty"), "start it again: synapse start chatty");
    let told = rig.world.json(&["start", "chatty"]);
    assert_eq!((&told["resumed_conversation"], &told["session"]), (&json!(false), &json!(null)), "{told}");
    let again = rig.started();
    assert_eq!(again.words, [""; 0]);
    rig.key("chatty", "p");
    rig.is_recorded(&again.agent, Some(&again.session));
    rig.key("chatty", "c");
    rig.is_recorded(&again.agent, None);
    rig.key("chatty", "p");
    rig.world.wait_until("the new one is recorded", || rig.recorded(&again.agent).is_some());
    assert_ne!(rig.recorded(&again.agent), Some(again.session));
    rig.reboot();
    let shown = rig.world.ok(&["start", "chatty"]);
    assert!(shown.contains("it goes on"), "{shown}");
}

/// A session id comes from the program, or from whatever pretends to be it.
#[test]
fn no_other_argument_gets_in_as_a_session_id() {
    let mut rig = Rig::new();
    let good = rig.start_and_talk(&["chatty", "-d"]);
    let hostile = [
        "--dangerously-skip-permissions",
        "-c",
        "../../etc/passwd",
        "$(touch pwned)",
        "a b",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301\n--loud",
        "{session}",
    ];
    for id in hostile {
        rig.reboot();
        rig.world.write("session-id", id);
        assert_eq!(rig.start(&["start", "chatty"]).session, id);
        assert_eq!(rig.recorded(&good.agent).as_ref(), Some(&good.session), "{id:?}");
    }
    // Not by the file either.
    std::fs::remove_file(rig.world.file("session-id")).unwrap();
    for id in hostile {
        rig.reboot();
        let file = rig.world.agent_dir(&good.agent).join("session.json");
        std::fs::write(file, json!({ "id": id, "since_ms": 1 }).to_string()).unwrap();
        assert_eq!(rig.start_line("chatty"), "start it again: synapse start chatty", "{id:?}");
        assert_eq!(rig.start(&["start", "chatty"]).words, [""; 0], "{id:?}");
    }
}

#[test]
fn version_that_cannot_resume_begins_a_new_conversation() {
    let mut rig = Rig::new();
    rig.start_and_talk(&["chatty", "-d", "--loud"]);
    rig.reboot();
    rig.world.write("version", "chatty 0.1");
    let shown = rig.world.ok(&["start", "chatty"]);
    assert!(shown.contains("this version of its CLI cannot resume"), "{shown}");
    assert_eq!(rig.started().words, ["--loud"]);
}

/// A CLI may have deleted the conversation: it then ends with an error at each start.
#[test]
fn failed_start_is_listed_with_the_way_without_its_conversation() {
    let mut rig = Rig::new();
    rig.start_and_talk(&["chatty", "-d"]);
    rig.world.ok(&["send-keys", "chatty", "q"]);
    rig.world.wait_until("it has ended", || rig.world.json(&["list"]) == json!([]));
    let line = rig.start_line("chatty");
    let both =
        "start it again: synapse start chatty, or without its conversation: synapse start --fresh chatty";
    assert_eq!(line, both);
    assert_eq!(rig.start(&["start", "--fresh", "chatty"]).words, [""; 0]);
}

/// `synapse claude --resume` in a folder with one stopped Claude, whatever its name: the same agent.
#[test]
fn only_stopped_agent_of_the_folder_is_the_one_that_resumes() {
    let mut rig = Rig::new();
    let first = rig.start_and_talk(&["chatty", "-d", "--name", "review"]);
    rig.world.send("review", "for later", &[]);
    for args in [&["--resume"][..], &["--continue"], &["--resume", &first.session.clone()]] {
        rig.reboot();
        let again = rig.start(&[&["chatty", "-d"], args].concat());
        assert_eq!((&again.agent, again.words.join(" ")), (&first.agent, args.join(" ")));
        assert_eq!(rig.known(), BTreeMap::from([("review".to_owned(), first.agent.clone())]));
        assert!(rig.world.ok(&["inbox", "review"]).contains("for later"), "the mailbox is the same");
    }
    // Without such words, with another name or with `--new` it is another agent.
    rig.reboot();
    let plain = rig.start(&["chatty", "-d"]);
    rig.reboot();
    let named = rig.start(&["chatty", "-d", "--continue", "--name", "other"]);
    rig.reboot();
    let again = rig.start(&["chatty", "-d", "--continue", "--new"]);
    assert_eq!((again.agent, rig.known().len()), (plain.agent.clone(), 3), "the first that does not run");
    assert!(![&first.agent, &plain.agent].contains(&&named.agent));
}

#[test]
fn of_several_stopped_agents_none_is_chosen_without_a_word_of_its_user() {
    let mut rig = Rig::new();
    let first = rig.start_and_talk(&["chatty", "-d"]);
    let second = rig.start_and_talk(&["chatty", "-d", "--new"]);
    let review = rig.start_and_talk(&["chatty", "-d", "--name", "review"]);
    rig.reboot();
    let starts = rig.world.lines("starts").len();
    for args in [&["chatty", "-d", "--resume"][..], &["chatty", "-d", "--continue", "--loud"]] {
        let ran = rig.world.synapse(args);
        for part in
            ["chatty#1", "chatty#2", "review", "synapse start review", "known", "`synapse chatty --new`"]
        {
            assert!(ran.stderr.contains(part), "{part}: {ran}");
        }
        ran.exits(5);
    }
    let ran = rig.world.synapse(&["chatty", "-d", "--resume", "--json"]).exits(5);
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    let details = &told["error"]["details"];
    assert_eq!((&told["error"]["code"], &details["type"]), (&json!("several_stopped"), &json!("chatty")));
    let newest = json!({ "name": "review", "agent_id": review.agent, "session": review.session,
        "start": "synapse start review", "last_started_ms": details["stopped"][0]["last_started_ms"] });
    assert_eq!(
        (&details["stopped"][0], details["stopped"].as_array().unwrap().len()),
        (&newest, 3),
        "{told}"
    );
    assert_eq!(rig.world.lines("starts").len(), starts, "nothing was started");

    // An id says which one; also beside one that runs.
    let again = rig.start(&["chatty", "-d", "--resume", &second.session]);
    assert_eq!(again.agent, second.agent);
    assert_eq!(rig.start(&["chatty", "-d", "--resume", &first.session]).agent, first.agent);
    let ran = rig.world.synapse(&["chatty", "-d", "--resume", &first.session]);
    ran.fails(5, &["already runs in this folder", "synapse attach chatty#1"]);
    assert_eq!(rig.start(&["chatty", "-d", "--name", "review", "--resume"]).agent, review.agent);
    assert_eq!(rig.known().len(), 3);
}

#[test]
fn agents_of_another_folder_or_type_are_not_meant() {
    let mut rig = Rig::new();
    std::fs::create_dir(rig.world.file("sub")).unwrap();
    let sub = rig.world.file("sub").display().to_string();
    rig.world.ok(&["chatty", "-d", "--name", "far", "--cwd", &sub]);
    rig.world.wait_until("it has started", || !rig.world.lines("sub/starts").is_empty());
    rig.world.run("shout", "cat", &[]);
    rig.reboot();
    rig.start(&["chatty", "-d", "--resume"]);
    let names: Vec<String> = rig.known().into_keys().collect();
    assert_eq!(names, ["chatty", "far", "shout"]);
}

#[test]
fn all_that_ran_when_the_machine_went_down_are_started_with_one_command() {
    let mut rig = Rig::new();
    let ana = rig.start_and_talk(&["chatty", "-d", "--name", "ana"]);
    rig.start_and_talk(&["chatty", "-d", "--name", "stopped"]);
    rig.start_and_talk(&["chatty", "-d", "--name", "ended"]);
    rig.world.run("shout", "tr a-z A-Z", &[]);
    let gone = rig.world.file("gone");
    std::fs::create_dir(&gone).unwrap();
    rig.world.ok(&["run", "-d", "--name", "far", "--cwd", &gone.display().to_string(), "--echo"]);
    let joined = rig.world.program(&["join", "--name", "guest"]);
    rig.world.wait_until("the guest has joined", || rig.world.entry("guest").is_some());
    rig.world.ok(&["kill", "stopped"]);
    rig.world.ok(&["send-keys", "ended", "q"]);
    rig.world.wait_until("it has ended", || rig.world.entry("ended").is_none());
    rig.reboot();
    drop(joined);
    std::fs::remove_dir_all(&gone).unwrap();

    let ran = rig.world.synapse(&["start", "--all", "--json"]).exits(1);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let of = |name: &str| told.as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    assert_eq!(of("ana").unwrap()["session"], ana.session, "{told}");
    assert_eq!(of("shout").unwrap()["resumed_conversation"], false, "{told}");
    assert_eq!(of("far").unwrap()["error"]["code"], "folder_gone", "{told}");
    assert_eq!((told.as_array().unwrap().len(), of("stopped")), (3, None), "{told}");
    assert_eq!(rig.started().words, words(&format!("--resume {}", ana.session)));
    let running: Vec<Value> = rig.world.json(&["list"]).as_array().unwrap().clone();
    assert_eq!(running.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), ["ana", "shout"]);

    std::fs::create_dir(&gone).unwrap();
    assert!(rig.world.ok(&["start", "--all"]).contains("far runs as"));
    assert!(rig.world.ok(&["start", "--all"]).contains("nothing to start"));
    assert_eq!(rig.world.json(&["start", "--all"]), json!([]));
    rig.world.synapse(&["start", "--all", "ana"]).fails(2, &["--all"]);
    rig.world.synapse(&["start"]).fails(2, &["AGENT"]);
}

/// What an agent has started becomes the user's own with a start, so the user is not passed over.
#[test]
fn what_an_agent_started_is_not_started_with_all_the_others() {
    let mut rig = Rig::new();
    let exe = rig.world.exe().display().to_string();
    rig.world.ok(&["run", "-d", "--name", "boss", "--", "sh"]);
    rig.world.ok(&["send-keys", "boss", &format!("{exe} chatty -d --name below -- --loud"), "Enter"]);
    assert_eq!(rig.started().words, ["--loud"]);
    rig.reboot();
    let ran = rig.world.synapse(&["start", "--all"]).exits(5);
    assert!(ran.stderr.contains("below was not started: it was started by the agent boss"), "{ran}");
    assert!(ran.stdout.contains("boss runs as"), "{ran}");
    // Nor is it what `--continue` means here.
    let own = rig.start(&["chatty", "-d", "--continue"]).agent;
    assert!(rig.known().iter().any(|(name, id)| name == "chatty" && *id == own), "{:?}", rig.known());
    rig.world.ok(&["start", "--all", "--yes"]);
    rig.started();
    assert_eq!(rig.world.json(&["list"]).as_array().unwrap().len(), 3);
}
