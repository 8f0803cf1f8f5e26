//! The same CLI a second time, without a terminal: over the Agent Client Protocol, in the same home and with the same mock.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use synapse_testkit::mock_llm::{What, numbered_lines};

use super::super::catalog::Cli;
use super::super::stage::{PATIENCE, Stage};
use super::{Count, begun, header};

/// What makes a CLI speak the protocol.
const STARTS: &[(&str, &[&str])] = &[("gemini", &["--acp"]), ("opencode", &["acp"])];

pub(super) const PARTS: usize = 6;
/// Of a long answer.
const LINES: u64 = 300;
/// Between two looks.
const BETWEEN: Duration = Duration::from_millis(50);

pub(super) fn args_of(cli: &Cli) -> Option<&'static [&'static str]> {
    STARTS.iter().find(|(name, _)| *name == cli.name).map(|(_, args)| *args)
}

pub(super) fn acp(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    let args = args_of(stage.cli).context("it does not speak ACP")?;
    let name = format!("{}-acp-{}", stage.cli.name, count.round);
    let start = ["run", "--acp", "--detach", "--name", &name, "--", stage.cli.name];
    stage.site.synapse(&[&start[..], args].concat())?;
    let agent = Agent { stage, name };
    let parts = [Agent::answers, Agent::approve, Agent::deny, Agent::cancel, Agent::tools, Agent::crash];
    for part in parts {
        agent.wait_state("idle")?;
        part(&agent)?;
        count.one();
    }
    agent.stage.site.synapse(&["kill", &agent.name]).map(drop)
}

struct Agent<'a> {
    stage: &'a Stage,
    name: String,
}

impl Agent<'_> {
    fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(found) = look() {
                return Ok(found);
            }
            std::thread::sleep(BETWEEN);
        }
        bail!("{}: not within {} s: {what}", self.name, PATIENCE.as_secs())
    }

    fn wait_state(&self, state: &str) -> anyhow::Result<()> {
        let is_so = || self.stage.site.entry(&self.name).filter(|entry| entry["status"] == state);
        self.wait(&format!("it is {state}"), is_so).map(drop)
    }

    /// Sends it and waits for the end of its task, whatever that is.
    fn ask(&self, text: &str) -> anyhow::Result<Value> {
        let mut command = self.stage.site.command();
        command.args(["send", &self.name, text, "--response", "--json", "--timeout", "90s"]);
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&said)
            .with_context(|| format!("{text:?}: {said}{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// The same, while something else is done.
    fn ask_and(&self, text: &str, then: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Value> {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| self.ask(text));
            let done = then();
            let told = asking.join().unwrap_or_else(|_| bail!("asking broke off"));
            done.and(told)
        })
    }

    /// The same, and whatever it asks for is allowed: some ask before they call a tool of a server.
    fn ask_and_approve(&self, text: &str) -> anyhow::Result<Value> {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| self.ask(text));
            while !asking.is_finished() {
                let entry = self.stage.site.entry(&self.name).unwrap_or_default();
                if let Some(hash) = entry["pending"]["prompt"].as_str() {
                    // It may be over by now.
                    let _ = self.stage.site.synapse(&["approve", &self.name, "--prompt", hash]);
                }
                std::thread::sleep(BETWEEN);
            }
            asking.join().unwrap_or_else(|_| bail!("asking broke off"))
        })
    }

    fn decide(&self, verb: &str) -> anyhow::Result<()> {
        let pending = self.wait("it asks", || {
            let entry = self.stage.site.entry(&self.name)?;
            entry["pending"]["prompt"].as_str().map(|hash| (hash.to_owned(), entry["pending"].clone()))
        });
        let (hash, pending) = pending?;
        let asks = pending["asks"].as_str().unwrap_or_default();
        ensure!(asks.starts_with("asks to run: touch acp-"), "{pending}");
        self.stage.site.synapse(&[verb, &self.name, "--prompt", &hash]).map(drop)
    }

    /// A line and many lines come back as the model said them, and the model was told what was sent.
    fn answers(&self) -> anyhow::Result<()> {
        for (text, said) in
            [("{{say a word}}", "a word".to_owned()), ("{{lines 300}}", numbered_lines(LINES))]
        {
            let place = self.stage.site.mock.log().len();
            let told = self.ask(text)?;
            let metadata = &told["answer"]["content"]["metadata"];
            ensure!(told["state"] == "completed" && metadata["source"] == "acp", "{told}");
            ensure!(metadata["complete"] == true, "{told}");
            ensure!(told["answer"]["text"] == said.trim_end(), "{told}");
            let expected = format!("{} {text}", header(told["task_id"].as_str().unwrap_or_default()));
            self.stage.wait_mock(place, "the model is told", |entry| {
                begun(entry)?.iter().any(|part| part.trim() == expected).then_some(())
            })?;
        }
        Ok(())
    }

    fn approve(&self) -> anyhow::Result<()> {
        let told = self.ask_and("{{ask touch acp-yes; say it ran}}", || self.decide("approve"))?;
        ensure!(told["state"] == "completed" && told["answer"]["text"] == "it ran", "{told}");
        ensure!(self.stage.site.work.join("acp-yes").exists(), "what was allowed has not run");
        std::fs::remove_file(self.stage.site.work.join("acp-yes")).context("taking it away")
    }

    fn deny(&self) -> anyhow::Result<()> {
        let told = self.ask_and("{{ask touch acp-no; say so not}}", || self.decide("deny"))?;
        let went_on = told["state"] == "completed" && told["answer"]["text"] == "so not";
        ensure!(went_on || told["state"] == "rejected", "{told}");
        ensure!(!self.stage.site.work.join("acp-no").exists(), "what was denied has run");
        Ok(())
    }

    fn cancel(&self) -> anyhow::Result<()> {
        let place = self.stage.site.mock.log().len();
        let text = "{{stream 60000}} over acp";
        let told = self.ask_and(text, || {
            let request = self.stage.wait_mock(place, "its model begins", |entry| {
                begun(entry)?.iter().any(|part| part.contains(text)).then_some(entry.request)
            })?;
            self.wait_state("busy")?;
            self.stage.site.synapse(&["interrupt", &self.name, "{{say next}}"])?;
            self.stage.wait_mock(place, "the turn is given up", |entry| {
                (entry.request == request && matches!(entry.what, What::Aborted { .. })).then_some(())
            })
        })?;
        ensure!(told["state"] == "canceled", "{told}");
        self.stage.wait_mock(place, "the next message reaches the model", |entry| {
            begun(entry)?.iter().any(|part| part.contains("URGENT: {{say next}}")).then_some(())
        })
    }

    /// It has our tools, and they are its own: it finds itself among the agents.
    fn tools(&self) -> anyhow::Result<()> {
        let told = self.ask_and_approve("{{call list_agents {}; output}}")?;
        let text = told["answer"]["text"].as_str().unwrap_or_default();
        ensure!(text.contains(&self.name) && text.contains("you"), "{told}");
        Ok(())
    }

    /// The node is killed while its program works: the next one says that it is unknown, and goes on.
    fn crash(&self) -> anyhow::Result<()> {
        let place = self.stage.site.mock.log().len();
        let text = "{{stream 60000}} until the crash";
        let told = self.ask_and(text, || {
            self.stage.wait_mock(place, "its model begins", |entry| {
                begun(entry)?.iter().any(|part| part.contains(text)).then_some(())
            })?;
            let pid = || self.stage.site.entry(&self.name).and_then(|entry| entry["node_pid"].as_u64());
            let before = pid().and_then(|pid| u32::try_from(pid).ok()).context("no node")?;
            // Its first words have to be seen: a turn that is known to run is not begun again.
            std::thread::sleep(Duration::from_secs(1));
            synapse_testkit::processes::kill9(before);
            Ok(())
        })?;
        ensure!(told["state"] == "failed", "{told}");
        ensure!(told["why"].as_str().is_some_and(|why| why.contains("unknown")), "{told}");
        let told = self.ask("{{say still there}}")?;
        ensure!(told["answer"]["text"] == "still there", "{told}");
        Ok(())
    }
}
