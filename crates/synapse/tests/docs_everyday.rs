//! The docs on the everyday commands are true: the examples in `docs/troubleshooting.md` work, and
//! the commands print the objects in `docs/json.md`.

use crate::world;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use synapse_testkit::{Ran, World};

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Runs all `sh` blocks of the page in one shell, starting in an empty folder.
#[test]
fn heavy_what_the_page_on_troubles_shows_works() {
    let world = world();
    let text = std::fs::read_to_string(page("troubleshooting.md")).unwrap();
    let blocks: Vec<&str> =
        text.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect();
    assert!(blocks.len() >= 8, "{} blocks", blocks.len());
    let here = world.exe().parent().unwrap().display().to_string();
    let path = format!("{here}:{}", std::env::var("PATH").unwrap_or_default());
    let script = blocks.join("\n");
    let mut shell = world.prepare(Command::new("sh"), &["-e", "-c", &script]);
    let ran = Ran::new(&["the page"], shell.env("PATH", &path).output().unwrap()).ok();
    let all = format!("{}{}", ran.stdout, ran.stderr);
    for words in [
        "did you mean",
        "has been busy for",
        "is not running",
        "an answer to what task",
        "took the red one",
        "oneway, so this does not wait",
        "already used for another content",
        "being stopped",
        "poked slow (1 of 1)",
    ] {
        assert!(all.contains(words), "{words:?} is not in\n{all}");
    }
    world.wait_until("the page cleans up", || world.processes().is_empty());
}

/// Compares the objects of `docs/json.md` with what the commands print in a small world. A new
/// field changes the page; a field that is removed or changes its meaning breaks scripts.
#[test]
fn golden_the_page_of_json_shows_what_is_printed() {
    let world = world();
    let told = all_told(&world);
    let plain = Plain::new(&world, told.iter().map(|(_, value)| value));
    let path = page("json.md");
    let mut text = std::fs::read_to_string(&path).unwrap();
    for (name, value) in &told {
        text = with_block(&text, name, &format!("{:#}", plain.value(value)));
    }
    synapse_testkit::golden::check(&path, &text);
}

fn all_told(world: &World) -> Vec<(&'static str, Value)> {
    let exec = "cat >/dev/null; while [ ! -e go ]; do sleep 0.02; done; echo HELLO";
    let more = ["--role", "Developer", "--skill", "shouting", "--type", "tr"];
    let agent = world.run("shout", exec, &more);
    world.run("quiet", "cat", &["--type", "cat"]);
    world.ok(&["share", "warming up", "--from", "shout"]);
    world.ok(&["follow", "quiet"]);
    world.ok(&["share", "resting", "--from", "quiet"]);
    let mut told = vec![("send", world.json(&["send", "shout", "hello", "--message-id", "mine-1"]))];
    let task = told[0].1["task_id"].as_str().unwrap().to_owned();
    world.wait_until("it works", || agent.task(&task)["state"] == "working");
    world.wait_until("the list says so", || {
        world.entry("shout").is_some_and(|entry| entry["status"] == "busy" && entry["context"].is_string())
    });
    world.ok(&["send", "shout", "and this", "--message-id", "mine-2"]);
    told.push(("list", json!([world.json(&["list"])[1]])));
    told.push(("status", in_order(world.json(&["status", "shout"]))));
    told.push(("inbox of an agent", world.json(&["inbox", "shout"])));
    told.push(("inbox of the user", world.json(&["inbox"])));
    told.push(("explain", world.json(&["explain", "mine-2"])));
    told.push(("share", world.json(&["share", "still warming up", "--from", "shout"])));
    let late = world.synapse(&["wait", "quiet", "shout", "--timeout", "1s", "--json"]).exits(4);
    told.push(("wait", late.json()));
    told.push(("interrupt", world.json(&["interrupt", "shout", "stop that", "--message-id", "mine-3"])));
    world.write("go", "");
    let answer = world.json(&["send", "shout", "again", "--message-id", "mine-4", "--response"]);
    told.push(("send --response", answer));
    let all = ["broadcast", "hi all", "--message-id", "mine-5", "--to", "cat", "--response"];
    told.push(("broadcast", world.json(&all)));
    let refused = world.synapse(&["send", "shuot", "hi", "--json"]).exits(5);
    told.push(("error", serde_json::from_str(&refused.stderr).unwrap()));
    told
}

/// Tasks are listed in the order of their random ids. Puts the one that is being worked on first.
fn in_order(mut status: Value) -> Value {
    let tasks = status["tasks"].as_array_mut().unwrap();
    tasks.sort_by_key(|task| std::cmp::Reverse(task["state"].as_str().unwrap().to_owned()));
    status
}

/// Puts the object into the page's block of this name.
fn with_block(page: &str, name: &str, text: &str) -> String {
    let fence = format!("```json {name}\n");
    let found = page.find(&fence).unwrap_or_else(|| panic!("the page has no block `json {name}`"));
    let start = found + fence.len();
    let end = start + page[start..].find("```").unwrap();
    format!("{}{text}\n{}", &page[..start], &page[end..])
}

/// Replaces what differs from run to run.
struct Plain {
    names: Vec<(String, String)>,
}

impl Plain {
    fn new<'a>(world: &World, values: impl Iterator<Item = &'a Value>) -> Self {
        let mut names = vec![(world.folder().display().to_string(), "/srv/project".to_owned())];
        for value in values {
            collect(value, &mut names);
        }
        // Longer ones first: the short form of an id is a prefix of the long one.
        names.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Self { names }
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), self.field(key, value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn field(&self, key: &str, value: &Value) -> Value {
        match key {
            "pid" => json!(4711),
            "port" => json!(8100),
            "event_id" => json!(42),
            "after_ms" => json!(7),
            "since_ms" | "context_since_ms" => json!(1_794_735_000_000_u64),
            "version" => json!("0.1.0"),
            "conversation" => json!("<CONVERSATION>"),
            _ => self.value(value),
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.names {
            text = text.replace(from, to);
        }
        let words: Vec<&str> = text.split(' ').collect();
        let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_unit = |word: &str| matches!(word.trim_end_matches([';', ',', ')']), "s" | "min");
        let is_time = |n: usize| is_number(words[n]) && words.get(n + 1).is_some_and(|next| is_unit(next));
        let plain = words.iter().enumerate().map(|(n, word)| if is_time(n) { "5" } else { word });
        plain.collect::<Vec<_>>().join(" ")
    }
}

fn collect(value: &Value, names: &mut Vec<(String, String)>) {
    let mut add = |from: &str, to: &str| {
        if !names.iter().any(|(known, _)| known == from) {
            names.push((from.to_owned(), to.to_owned()));
        }
    };
    match value {
        Value::Object(fields) => fields.values().for_each(|value| collect(value, names)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::String(text) => {
            let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            match text.len() {
                64 if hex => add(text, "<AGENT ID>"),
                32 if hex => {
                    add(text, "<TASK ID>");
                    add(&text[..8], "0123abcd");
                }
                36 if text.matches('-').count() == 4 => add(text, "<MESSAGE ID>"),
                24 if text.ends_with('Z') && text.contains('T') => add(text, "2026-11-15T09:30:00.000Z"),
                _ => {
                    if let Some(port) = text.strip_prefix("http://localhost:") {
                        add(text, "http://localhost:8100");
                        add(&format!("-{port}"), "-8100");
                    }
                }
            }
        }
        _ => {}
    }
}
