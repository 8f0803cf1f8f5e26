//! The program as one of our agents: its profile, its start, and messages to it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use synapse_core::agents::AgentState;
use synapse_store::registry::Entry;

use super::log::Log;
use super::post::Post;
use super::{AGENT, ms_between, now_ns};
use crate::bench::Bench;

/// The name of the profile and of the program.
pub(super) const PROFILE: &str = "benched";
/// Longer than any message takes here.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two messages, after which the program is idle and every process sleeps again.
const PAUSE: Duration = Duration::from_millis(700);

pub(super) struct Ours<'a> {
    bench: &'a Bench,
    pub(super) name: &'static str,
    pub(super) entry: Entry,
    pub(super) log: Log,
    sent: usize,
}

/// The times of one message, in milliseconds since the start of its sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) first: f64,
    pub(super) enter: f64,
    /// When the sender has exited, or has its answer.
    pub(super) told: f64,
}

impl<'a> Ours<'a> {
    /// Starts the program with these arguments and waits until it is idle. `submit` is that part of
    /// the profile.
    pub(super) fn start(
        bench: &'a Bench,
        name: &'static str,
        submit: &str,
        words: &[&str],
    ) -> anyhow::Result<Self> {
        let home = bench.stage.home().root();
        profile(home, submit)?;
        let file = home.join(format!("{name}.log"));
        let log = Log::new(&file)?;
        let file = file.to_str().context("a folder with a plain name")?;
        let mut line = vec![PROFILE, "-d", "--name", name, "--", file];
        line.extend(words);
        bench.stage.must(&line)?;
        let entry = bench.stage.wait_for(name, |entry| entry.status == AgentState::Idle)?;
        Ok(Self { bench, name, entry, log, sent: 0 })
    }

    pub(super) fn open(&self) -> anyhow::Result<Post> {
        Post::unix(&self.entry.socket)
    }

    fn text(&mut self) -> String {
        self.sent += 1;
        format!("message {}-{:05}, of no great length", self.name, self.sent)
    }

    /// Runs `synapse send`, with these arguments after the message.
    pub(super) fn send(&mut self, words: &[&str]) -> anyhow::Result<Arrival> {
        let text = self.text();
        let mut line = vec!["send", self.name, &text];
        line.extend(words);
        let mut command = self.bench.stage.command(&line);
        let from = self.log.events.len();
        let began = now_ns();
        let ended = command.spawn()?.wait()?;
        let told = now_ns();
        anyhow::ensure!(ended.success(), "`synapse send` ended with {ended}");
        self.arrival(from, &text, began, told)
    }

    /// Sends the same kind of message with one request on an open connection.
    pub(super) fn post(&mut self, post: &mut Post) -> anyhow::Result<Arrival> {
        let text = self.text();
        let from = self.log.events.len();
        let began = now_ns();
        let (status, answer) = post.ask("/message", &json!({ "message": text }))?;
        let told = now_ns();
        anyhow::ensure!(status == 200, "not taken: {answer}");
        self.arrival(from, &text, began, told)
    }

    fn arrival(&mut self, from: usize, text: &str, began: u64, told: u64) -> anyhow::Result<Arrival> {
        let given = self.log.wait(from, "given", text, PATIENCE)?;
        let first = ms_between(began, self.log.last_before(given, "first")?);
        let enter = ms_between(began, self.log.last_before(given, "enter")?);
        self.log.wait(given, "idle", "", PATIENCE)?;
        std::thread::sleep(PAUSE);
        Ok(Arrival { first, enter, told: ms_between(began, told) })
    }
}

fn profile(home: &Path, submit: &str) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("where this program is")?;
    let folder = home.join("profiles");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let text = format!(
        "name: {PROFILE}\ncommand: {own:?}\nargs: [{AGENT}]\nstatus: {{ apps: [{PROFILE}] }}\n\
         screen:\n  - {{ state: busy, name: working, any: ['^working$'] }}\n  \
         - {{ state: idle, name: ready, any: ['^ready$'] }}\n\
         composer: {{ mark: '^❯ ?', end: '^─{{8,}}' }}\nsubmit: {submit}\n"
    );
    let file = folder.join(format!("{PROFILE}.yaml"));
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_terminal::Profile;

    #[test]
    fn the_profile_is_whole() {
        let home = tempfile::tempdir().unwrap();
        for (submit, settle_ms) in [("{}", 150), ("{ settle_ms: 20 }", 20)] {
            profile(home.path(), submit).unwrap();
            let text = std::fs::read_to_string(home.path().join("profiles/benched.yaml")).unwrap();
            let profile = Profile::parse(&text).unwrap();
            assert_eq!((profile.name.as_str(), profile.submit.settle_ms), (PROFILE, settle_ms));
            assert!(profile.composer.is_some());
        }
    }
}
