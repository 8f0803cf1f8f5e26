//! What commands print with `--json`: JSON for every command, also for empty results and mistakes,
//! with names in `snake_case`, and every name of it in `docs/json.md` (finding 23).

use crate::world;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use synapse_testkit::acp::AcpAgent;
use synapse_testkit::stranger::{CARD, Stranger, card, here, json_answer, not_found, result, task, text};
use synapse_testkit::{Ran, World, world::python};

/// Commands whose output is for people, shells or another protocol. `docs/json.md` names them too.
const NO_JSON: [&str; 6] = ["attach", "join", "mcp serve", "completions", "man", "help"];

/// Names of other protocols, which stay as those have them: REST-3 in `status`, A2A in the parts of
/// messages.
const NAMES_OF_PROTOCOLS: [&str; 7] =
    ["agentId", "agentName", "agentType", "availableTools", "contextSince", "currentTask", "mediaType"];

/// The commands that a page of help lists, one below the other.
fn listed(page: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, about) = line.strip_prefix("  ")?.split_once("  ")?;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_command = name.starts_with(char::is_alphabetic) && name.chars().all(is_name);
        (is_command && !about.trim().is_empty()).then(|| name.to_owned())
    };
    let is_list = |line: &&str| !line.starts_with("First steps:") && !line.starts_with("Examples:");
    page.lines().take_while(is_list).filter_map(name).collect()
}

/// Every command that does something itself, as `a2a add`.
fn commands(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<String> = listed(&world.ok(&["help", "--all"]));
    assert!(open.len() > 30, "{open:?}");
    while let Some(command) = open.pop() {
        let words: Vec<&str> = std::iter::once("help").chain(command.split(' ')).collect();
        let page = world.ok(&words);
        let below = page.split_once("\nCommands:\n").map(|(_, rest)| listed(rest)).unwrap_or_default();
        if below.is_empty() || command == "history" || command == "audit" {
            found.push(command.clone());
        }
        open.extend(below.iter().map(|name| format!("{command} {name}")));
    }
    found.sort();
    found
}

/// All that was printed, by command.
#[derive(Default)]
struct Told(BTreeMap<String, Vec<Value>>);

impl Told {
    /// Runs it with `--json`; each line of its output is JSON, and so is its error.
    fn run(&mut self, world: &World, command: &str, args: &[&str]) -> Value {
        let words: Vec<&str> = command.split(' ').chain(args.iter().copied()).collect();
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let words: Vec<&str> = [&words[..at], &["--json"], &words[at..]].concat();
        let mut ran = world.command(&words);
        let ran = Ran::new(&words, ran.env("TMPDIR", world.folder()).output().unwrap());
        self.add(command, &ran)
    }

    fn add(&mut self, command: &str, ran: &Ran) -> Value {
        let values = documents(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran}"));
        assert!(!values.is_empty(), "nothing was printed: {ran}");
        let told = self.0.entry(command.to_owned()).or_default();
        told.extend(values.iter().cloned());
        values[0].clone()
    }
}

fn documents(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    serde_json::Deserializer::from_str(text).into_iter().collect()
}

fn names(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                into.insert(name.clone());
                // Its keys are pairs of states.
                if name != "confusions" {
                    names(value, into);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, into)),
        _ => {}
    }
}

fn is_snake_case(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn heavy_every_command_prints_json_that_is_documented() {
    let world = world();
    let mut told = Told::default();
    of_agents(&world, &mut told);
    of_terminals(&world, &mut told);
    of_history(&world, &mut told);
    of_remotes(&world, &mut told);
    of_set_up(&world, &mut told);

    let printed: Vec<&str> = told.0.keys().map(String::as_str).collect();
    for command in commands(&world) {
        let is_known = printed.contains(&&*command) || NO_JSON.contains(&&*command);
        assert!(is_known, "add `{command} --json` to this test");
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = ["json.md", "json/history.md"].map(|page| std::fs::read_to_string(docs.join(page)).unwrap());
    let page = pages.concat();
    let mut missing = Vec::new();
    for command in printed.iter().chain(&NO_JSON) {
        if !page.contains(&format!("`synapse {command}")) {
            missing.push(format!("the page does not name `synapse {command}`"));
        }
    }
    // `config schema` prints JSON Schema, which has names of its own.
    for (command, values) in told.0.iter().filter(|(command, _)| *command != "config schema") {
        let mut own = BTreeSet::new();
        values.iter().for_each(|value| names(value, &mut own));
        for name in own {
            if !is_snake_case(&name) && !NAMES_OF_PROTOCOLS.contains(&&*name) {
                missing.push(format!("{command}: {name} is not in snake_case"));
            }
            let is_named = page.contains(&format!("`{name}`")) || page.contains(&format!("\"{name}\""));
            if !is_named {
                missing.push(format!("{command}: the page does not explain {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn of_agents(world: &World, told: &mut Told) {
    told.run(
        world,
        "run",
        &["-d", "--name", "shout", "--role", "Dev", "--skill", "loud", "--exec", "tr a-z A-Z"],
    );
    told.run(
        world,
        "run",
        &["-d", "--name", "slow", "--exec", "cat >/dev/null; while :; do sleep 0.02; done"],
    );
    told.run(world, "send", &["shout", "hello"]);
    told.run(world, "send", &["shout", "hello", "--wait-for", "answer"]);
    told.run(world, "send", &["shout", "hello", "--response"]);
    let work = told.run(world, "send", &["slow", "work"])["task_id"].as_str().unwrap().to_owned();
    world.wait_until("it works", || world.agent("slow").task(&work)["state"] == "working");
    told.run(world, "send", &["slow", "next", "-p", "1"]);
    told.run(world, "send", &["slow", "next"]);
    told.run(world, "share", &["reading", "--from", "shout"]);
    told.run(world, "follow", &["shout"]);
    told.run(world, "follow", &["--list"]);
    told.run(world, "share", &["writing", "--from", "shout"]);
    told.run(world, "inbox", &[]);
    told.run(world, "inbox", &["slow"]);
    told.run(world, "follow", &["shout", "--stop"]);
    told.run(world, "list", &["--all"]);
    told.run(world, "explain", &["slow"]);
    told.run(world, "explain", &[&work]);
    told.run(world, "status", &["slow"]);
    told.run(world, "wait", &["shout", "slow", "--timeout", "300ms"]);
    told.run(world, "broadcast", &["hi all", "--to", "tr", "--response"]);
    told.run(world, "interrupt", &["slow", "stop that"]);
    told.run(world, "watch", &["slow", "-d"]);
    told.run(world, "watch", &["--list"]);
    told.run(world, "watch", &["--stop", "all"]);
    told.run(world, "logs", &["shout"]);
    world.run_lines("asks", "say('input_required', text='which?'); hear()", &[]);
    let asked = world.send("asks", "do it", &[]);
    world.wait_until("it asks", || world.agent("asks").task(&asked)["state"] == "input-required");
    told.run(world, "explain", &["asks"]);
    told.run(world, "logs", &["asks", "--task", &asked]);
    told.run(world, "reply", &["the answer", "--task", &asked]);
    told.run(world, "cancel", &[world.send("slow", "more", &[]).as_str()]);
    told.run(world, "upgrade-agents", &["--all", "--dry-run"]);
    told.run(world, "rename", &["slow", "slower"]);
    told.run(world, "rename", &["slower", "slow"]);
    told.run(world, "kill", &["slow"]);
    told.run(world, "send", &["slow", "later"]);
    told.run(world, "explain", &["slow"]);
    told.run(world, "inbox", &["slow"]);
    told.run(world, "list", &["--all"]);
    told.run(world, "start", &["slow"]);
    told.run(world, "kill", &["asks"]);
}

fn of_terminals(world: &World, told: &mut Told) {
    told.run(world, "run", &["-d", "--name", "term", "--", "sh"]);
    told.run(world, "screen", &["term"]);
    told.run(world, "send-keys", &["term", "Enter"]);
    told.run(world, "explain", &["term"]);
    let agent = AcpAgent::new(world, "acp");
    agent.run(world);
    for (command, turn) in [("approve", "ask rm a"), ("deny", "ask rm b")] {
        let task = world.send("acp", turn, &[]);
        world.wait_until("it asks", || !world.entry("acp").unwrap()["pending"].is_null());
        let prompt = told.run(world, "inbox", &["--approvals"])["approvals"][0]["prompt"].clone();
        told.run(world, "list", &[]);
        told.run(world, "explain", &["acp"]);
        told.run(world, command, &["acp", "--prompt", prompt["hash"].as_str().unwrap()]);
        let ended = world.synapse(&["wait", &task, "--timeout", "1m"]);
        assert!(matches!(ended.code, Some(0 | 3)), "{ended}");
    }
    told.run(world, "profile record", &["-o", "made.cast", "--name", "rec", "--", "sh", "-c", "echo hi"]);
    told.run(world, "profile list", &[]);
    let profile = told.run(world, "profile show", &["claude"])["text"].as_str().unwrap().to_owned();
    world.write("claude.yaml", &profile);
    told.run(world, "profile check", &["claude.yaml"]);
    told.run(world, "profile test", &["claude", "--recording", "made.cast"]);
    told.run(world, "explain", &["--recording", "made.cast", "--profile", "claude"]);
    told.run(world, "explain", &["--recording", "made.cast", "--profile", "claude", "--at", "0.1"]);
    told.run(world, "kill", &["term", "acp"]);
}

fn of_history(world: &World, told: &mut Told) {
    told.run(world, "history", &[]);
    told.run(world, "history search", &["hello"]);
    let first = world.json(&["history"])[0]["message_id"].as_str().unwrap().to_owned();
    told.run(world, "history show", &[&first]);
    told.run(world, "history export", &[]);
    told.run(world, "audit", &["-n", "500"]);
    told.run(world, "audit verify", &[]);
}

fn of_remotes(world: &World, told: &mut Told) {
    let stranger = Stranger::new(|heard, port| match (heard.path.as_str(), heard.method()) {
        (CARD, _) => json_answer(&card(&here(port, "/rpc"), false)),
        (_, "SendMessage") => result(&json!({ "task": task("TASK_STATE_COMPLETED", text("done")) })),
        (_, "GetTask" | "CancelTask") => result(&task("TASK_STATE_CANCELED", json!([]))),
        (_, "ListTasks") => {
            result(&json!({ "tasks": [task("TASK_STATE_WORKING", json!([]))], "totalSize": 1 }))
        }
        _ => not_found(),
    });
    told.run(world, "a2a add", &["far", &stranger.url()]);
    told.run(world, "a2a list", &[]);
    told.run(world, "a2a show", &["far"]);
    told.run(world, "a2a refresh", &[]);
    told.run(world, "list", &[]);
    told.run(world, "explain", &["far"]);
    told.run(world, "status", &["far"]);
    told.run(world, "send", &["far", "hi", "--response"]);
    let task = world.json(&["explain", "far"])["tasks"][0]["task_id"].as_str().unwrap().to_owned();
    told.run(world, "explain", &[&format!("far/{task}")]);
    told.run(world, "cancel", &[&format!("far/{task}")]);
    told.run(world, "a2a remove", &["far"]);
    told.run(world, "a2a serve", &["-d", "--name", "served", "--exec", "cat"]);
    let url = world.json(&["explain", "served"])["endpoint"].as_str().unwrap().to_owned();
    told.run(world, "explain", &[&url]);
    told.run(world, "a2a doctor", &[&url, "--wire"]);
    told.run(world, "kill", &["served"]);
}

fn of_set_up(world: &World, told: &mut Told) {
    told.run(world, "config set", &["a2a.flow", "oneway"]);
    told.run(world, "config show", &[]);
    told.run(world, "config show", &["a2a.flow"]);
    told.run(world, "config path", &[]);
    told.run(world, "config schema", &[]);
    told.run(world, "config unset", &["a2a.flow"]);
    std::fs::create_dir_all(world.file(".synapse/profiles")).unwrap();
    world.write(".synapse/profiles/mine.yaml", "name: mine\ncommand: mine\nabout: my own\n");
    told.run(world, "trust", &["--yes"]);
    told.run(world, "trust", &["--list"]);
    told.run(world, "trust", &["--revoke"]);
    told.run(world, "init", &["--mcp=codex", "--dry-run"]);
    told.run(world, "init", &["--cli", "codex", "--yes"]);
    told.run(world, "doctor", &["--fix"]);
    told.run(world, "keys token rotate", &[]);
    told.run(world, "keys token show", &[]);
    told.run(world, "keys certs make", &["--dir", "made"]);
    told.run(world, "keys certs show", &["made/ca.pem"]);
    told.run(world, "clean", &["--stopped", "--yes"]);
    told.run(world, "demo", &[]);
    world.write("cli.py", include_str!("../../testkit/src/cli.py"));
    world.write("log", "");
    let program = ["--", python(), "cli.py", "log", "mute=1"];
    told.run(world, "profile learn", &[&["--name", "fake", "--save"][..], &program].concat());
    told.run(world, "clean", &["--uninstall", "--yes"]);
}

/// Runs it in a home in which nothing has happened yet.
fn in_an_empty_home(words: &[&str]) -> Ran {
    let world = world();
    let mut command = world.command(words);
    Ran::new(words, command.env("TMPDIR", world.folder()).output().unwrap())
}

/// Checks that it failed with one JSON object on standard error, and returns its code.
fn error_code(ran: &Ran) -> String {
    let last = ran.stderr.lines().last().unwrap_or_default();
    let error: Value = serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {ran}"));
    assert!(!error["error"]["message"].as_str().unwrap().is_empty(), "{ran}");
    error["error"]["code"].as_str().unwrap().to_owned()
}

/// Finding 23: an empty result was nothing at all, and some commands printed a sentence.
#[test]
fn empty_results_are_json() {
    let (list, object) = (Value::is_array as fn(&Value) -> bool, Value::is_object as fn(&Value) -> bool);
    for (words, is_it) in [
        ("list", list),
        ("list --all", list),
        ("inbox", list),
        ("inbox --approvals", object),
        ("history", list),
        ("history search nothing", object),
        ("audit", list),
        ("follow --list", list),
        ("watch --list", list),
        ("watch --stop all", object),
        ("kill --all", list),
        ("a2a list", list),
        ("a2a refresh", list),
        ("remote list", list),
        ("trust", object),
        ("trust --list", object),
        ("trust --revoke", object),
        ("config show", object),
        ("config path", object),
        ("profile list", list),
        ("upgrade-agents --all", list),
        ("clean --yes", list),
        ("clean --uninstall --yes", object),
        ("uninstall --yes", object),
        ("init --remove --yes", list),
        ("broadcast hi", object),
    ] {
        let words: Vec<&str> = words.split(' ').chain(["--json"]).collect();
        let ran = in_an_empty_home(&words);
        if ran.code == Some(0) || !ran.stdout.is_empty() {
            let found = documents(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran}"));
            assert!(found.len() == 1 && is_it(&found[0]), "{ran}");
        } else {
            error_code(&ran);
        }
    }
    // One record for each line, so nothing is an empty file.
    let export = in_an_empty_home(&["history", "export", "--json"]);
    assert_eq!((export.code, &*export.stdout), (Some(0), ""));
}

/// Finding 23.
#[test]
fn mistakes_in_every_command_are_json() {
    let world = world();
    let mut commands = commands(&world);
    assert!(commands.len() > 50, "{commands:?}");
    commands.extend(
        ["", "a2a", "keys", "keys token", "config", "profile", "mcp", "frobnicate"].map(str::to_owned),
    );
    for former in ["status", "unfollow", "record", "remote", "token", "certs", "uninstall"] {
        commands.push(former.to_owned());
    }
    // It searches for any text, also for one that begins with a dash.
    commands.retain(|command| command != "history search");
    for command in commands {
        let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
        for mistake in [&["--json", "--no-such-flag"][..], &["--no-such-flag", "--json"]] {
            let ran = world.synapse(&[&words[..], mistake].concat()).exits(2);
            assert_eq!((error_code(&ran), &*ran.stdout), ("usage".to_owned(), ""), "{ran}");
        }
    }
    for (words, code) in [
        (&["send", "nobody", "hi"][..], "no_such_agent"),
        (&["explain", "nobody"], "no_such_agent"),
        (&["a2a", "show", "nobody"], "refused"),
        (&["profile", "show", "nobody"], "refused"),
        (&["config", "show", "nothing"], "usage"),
        (&["cancel", "0123abcd"], "no_such_task"),
        (&["certs", "show", "nothing.pem"], "usage"),
        (&["audit", "verify"], "no_log"),
        (&["clean", "--forget", "nobody"], "no_such_agent"),
    ] {
        let ran = world.synapse(&[words, &["--json"]].concat());
        assert_ne!(ran.code, Some(0), "{ran}");
        assert_eq!((error_code(&ran), &*ran.stdout), (code.to_owned(), ""), "{ran}");
    }
}
