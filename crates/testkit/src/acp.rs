//! A scripted agent over the Agent Client Protocol, and what it was given.

use crate::world::{World, python};
use serde_json::Value;

const SCRIPT: &str = include_str!("acp.py");

/// One agent. See `acp.py` for what it does when it is told to.
pub struct AcpAgent {
    name: String,
    log: String,
}

impl AcpAgent {
    /// Puts the program into the world's folder.
    pub fn new(world: &World, name: &str) -> Self {
        world.write("acp.py", SCRIPT);
        let log = format!("{name}.given");
        world.write(&log, "");
        Self { name: name.to_owned(), log }
    }

    /// Starts it, and waits until its session is open.
    pub fn run(&self, world: &World) {
        self.start(world, &[]);
        self.wait_for(world, "idle");
    }

    /// Starts it in this mood.
    pub fn start(&self, world: &World, mood: &[&str]) {
        let ours = ["run", "--acp", "--detach", "--name", &self.name, "--", python(), "acp.py", &self.log];
        world.ok(&[&ours[..], mood].concat());
    }

    pub fn wait_for(&self, world: &World, state: &str) {
        world.wait_until(&format!("{} is {state}", self.name), || {
            world.entry(&self.name).is_some_and(|entry| entry["status"] == state)
        });
    }

    /// Every message that reached it.
    pub fn given(&self, world: &World) -> Vec<Value> {
        let lines = world.lines(&self.log);
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The texts that it was prompted with.
    pub fn prompts(&self, world: &World) -> Vec<String> {
        let given = self.given(world);
        let prompts = given.iter().filter(|message| message["method"] == "session/prompt");
        let text = |message: &Value| message["params"]["prompt"][0]["text"].as_str().map(str::to_owned);
        prompts.filter_map(text).collect()
    }
}
