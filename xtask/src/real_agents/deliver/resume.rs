//! After a power cut, `synapse start` gives each of two agents in one folder the conversation that it had.
//!
//! Both run the same CLI, in the same home and with the same mock as the one in front of the person. All their processes
//! are killed with -9, and each is asked for a word that only it was told.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use synapse_testkit::processes;

use super::super::stage::{PATIENCE, Stage};
use super::Count;

pub(super) const PARTS: usize = 4;
const BETWEEN: Duration = Duration::from_millis(50);

pub(super) fn resume(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    let pair = ["first", "second"].map(|which| Agent {
        name: format!("{}-{which}-{}", stage.cli.name, count.round),
        word: format!("{which}word{}", count.round),
        stage,
    });
    for agent in &pair {
        agent.begin()?;
    }
    for agent in &pair {
        agent.cut_off()?;
    }
    for (agent, other) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
        let told = stage.site.json(&["start", &agent.name])?;
        ensure!(told["resumed_conversation"] == true, "{} was not resumed: {told}", agent.name);
        // Not before it is ready: this waits in its mailbox until its composer is seen.
        agent.says(&agent.word, &format!("recalled {}", agent.word))?;
        count.one();
        agent.says(&other.word, &format!("never told {}", other.word))?;
        count.one();
    }
    for agent in &pair {
        stage.site.synapse(&["kill", &agent.name])?;
    }
    Ok(())
}

struct Agent<'a> {
    stage: &'a Stage,
    name: String,
    /// What it alone is told.
    word: String,
}

impl Agent<'_> {
    fn begin(&self) -> anyhow::Result<()> {
        let start = [self.stage.cli.name, "--detach", "--name", &self.name, "--"];
        self.stage.site.synapse(&[&start[..], self.stage.cli.args].concat())?;
        let told = self.ask(&format!("the word is {} {{{{say noted}}}}", self.word))?;
        ensure!(told["answer"]["text"] == "noted", "{told}");
        self.wait("it is idle", || self.entry().filter(|entry| entry["status"] == "idle")).map(drop)
    }

    /// Kills its holder and all below it.
    fn cut_off(&self) -> anyhow::Result<()> {
        let holder = self.entry().and_then(|entry| entry["pid"].as_u64()).context("it has no holder")?;
        let holder = u32::try_from(holder)?;
        let all: Vec<u32> = std::iter::once(holder).chain(processes::below(holder)).collect();
        // First all are stopped, so that nothing is started again meanwhile.
        all.iter().for_each(|pid| processes::stop(*pid));
        all.iter().for_each(|pid| processes::kill9(*pid));
        let is_gone = || all.iter().all(|pid| !processes::is_alive(*pid)).then_some(());
        self.wait("it is dead", is_gone)
    }

    fn says(&self, asked: &str, expected: &str) -> anyhow::Result<()> {
        let told = self.ask(&format!("and {{{{recall {asked}}}}}"))?;
        ensure!(told["answer"]["text"] == expected, "{}: {expected:?} was expected: {told}", self.name);
        Ok(())
    }

    fn ask(&self, text: &str) -> anyhow::Result<Value> {
        self.stage.site.json(&["send", &self.name, text, "--response", "--timeout", "90s"])
    }

    fn entry(&self) -> Option<Value> {
        self.stage.site.entry(&self.name)
    }

    fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(found) = look() {
                return Ok(found);
            }
            sleep(BETWEEN);
        }
        bail!("{}: not within {} s: {what}", self.name, PATIENCE.as_secs())
    }
}
