//! A scripted terminal program, and what it was typed: for tests of all that stands between a program and a person.

use crate::world::{World, python};

const SCRIPT: &str = include_str!("tui.py");

/// One run of the program. See `tui.py` for what it does when it is told to.
pub struct Tui {
    log: String,
}

impl Tui {
    /// Puts the program into the world's folder; `name` is the name of the agent it will be.
    pub fn new(world: &World, name: &str) -> Self {
        world.write("tui.py", SCRIPT);
        let log = format!("{name}.typed");
        world.write(&log, "");
        Self { log }
    }

    /// What starts it, after `synapse run … --`.
    pub fn command(&self) -> [&str; 3] {
        [python(), "tui.py", &self.log]
    }

    /// Every byte that reached it as keys.
    pub fn typed(&self, world: &World) -> String {
        world.read(&self.log)
    }
}
