//! A scripted CLI agent with a composer, and what it was given: the truth for tests of delivery.

use crate::world::{Ran, World, python};
use serde_json::Value;

const SCRIPT: &str = include_str!("cli.py");

/// One such CLI, as an agent called `scripted`.
pub struct Cli<'a> {
    world: &'a World,
    log: String,
}

impl<'a> Cli<'a> {
    /// Starts it, detached; `how` are the options of `cli.py`; `wedged=MS` is one of its profile.
    pub fn start(world: &'a World, name: &str, how: &[&str]) -> Self {
        let log = world.write(&format!("{name}.log"), "").display().to_string();
        let script = world.write("cli.py", SCRIPT).display().to_string();
        let profile = format!(
            "name: scripted\ncommand: {python}\nargs: [{script:?}]\nstatus: {{ apps: [scripted] }}\n\
             screen:\n  - {{ state: waiting, name: choice, any: ['^> 1\\. '] }}\n  \
             - {{ state: busy, name: working, any: ['^working'] }}\n  \
             - {{ state: idle, name: ready, any: ['^ready$'] }}\n\
             composer:\n  mark: '^> '\n  end: '^─{{8,}}'\n  \
             collapsed: [{{ shows: '\\[Pasted (\\d+) lines\\]', counts: line_ends }}]\n\
             limits: [{{ shows: '^\\* limit reached(?:, until (?P<until>[^\\n]+))?$' }}]\n\
             timing: {{ ready_ms: 50, wedged_ms: {wedged} }}\n\
             submit: {{ settle_ms: 20 }}\n\
             interrupt: {{ key: escape, times: 1 }}\n\
             approve: {{ allow: y, deny: escape }}\n{hooks}",
            python = python(),
            hooks = if how.iter().any(|word| word.starts_with("log=")) { "hooks: copilot\n" } else { "" },
            wedged = how.iter().find_map(|word| word.strip_prefix("wedged=")).unwrap_or("600000"),
        );
        let profiles = world.home().join("profiles");
        std::fs::create_dir_all(&profiles).expect("a folder");
        std::fs::write(profiles.join("scripted.yaml"), &profile).expect("a file");
        let mut words = vec!["scripted", "-d", "--name", name, "--", log.as_str()];
        words.extend(how);
        let mut command = world.command(&words);
        command.env("COPILOT_HOME", world.file("copilot"));
        Ran::new(&words, command.output().expect("it runs")).ok();
        let cli = Self { world, log };
        world.wait_until("the CLI is ready", || world.ok(&["list"]).contains("idle"));
        cli
    }

    /// Everything it logged.
    pub fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The texts it was given, in order.
    pub fn given(&self) -> Vec<String> {
        self.all("given").iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// What it logged under one name.
    pub fn all(&self, name: &str) -> Vec<Value> {
        self.log().iter().filter_map(|line| line.get(name).cloned()).collect()
    }

    /// Waits until an agent asks for approval; the hash of its prompt.
    pub fn prompt(&self) -> String {
        self.world.wait_for("a prompt", || {
            let approvals = self.world.json(&["inbox", "--approvals"]);
            approvals["approvals"][0]["prompt"]["hash"].as_str().map(str::to_owned)
        })
    }

    /// Waits until it was given so many texts; gives them back.
    pub fn was_given(&self, count: usize) -> Vec<String> {
        self.world.wait_for(&format!("{count} texts given"), || {
            let given = self.given();
            (given.len() >= count).then_some(given)
        })
    }
}
