//! How long a message takes to the model of a real CLI, and the model's answer back to the sender.
//!
//! The log of the mock says when its model was asked and when the last byte of its answer went out. `synapse explain`
//! says when the node had the text in the composer, and when the turn had begun.
//! Not here: what is a good time (`bench/delivery/clis`).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use synapse_testkit::mock_llm::{What, now_ms};

use super::catalog::{self, Cli};
use super::stage::Stage;
use super::{deliver, install, own_network};
use crate::shell;

/// The inner word by which this binary measures in a network of its own.
pub(crate) const INSIDE: &str = "__cli-speed";

/// Between two messages: by then the CLI has come to rest.
const PAUSE: Duration = Duration::from_secs(1);
/// A short turn: the model thinks, and says something.
const TURN: &str = "{{think 300; stream 700; mark}}";

/// What was measured of one CLI, milliseconds; one number for each message.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CliSpeed {
    pub(crate) name: String,
    /// From the start of `synapse send` to the request at the model.
    pub(crate) request_ms: Vec<f64>,
    /// Parts of that: until the text was seen in the composer, and until the node knew that the turn had begun, both
    /// since the message was accepted.
    pub(crate) written_ms: Vec<f64>,
    pub(crate) submitted_ms: Vec<f64>,
    /// From the last byte of the model's answer to the printed answer, and to the state idle.
    pub(crate) answer_ms: Vec<f64>,
    pub(crate) idle_ms: Vec<f64>,
    /// Why it could not be measured.
    pub(crate) failed: Option<String>,
}

/// Measures every CLI that is installed, each in its newest version, with so many messages.
pub(crate) fn measure(root: &Path, synapse: &Path, sends: usize) -> anyhow::Result<Vec<CliSpeed>> {
    let agents = root.join("target/agents");
    let mut names: Vec<&str> = catalog::ALL.iter().map(|cli| cli.name).collect();
    names.dedup();
    let (here, absent): (Vec<&str>, Vec<&str>) = names
        .into_iter()
        .partition(|name| catalog::find(name).is_ok_and(|cli| install::is_there(&agents, cli)));
    if !absent.is_empty() {
        eprintln!("not installed: {0}; `cargo xtask real-agents --agents {0}` does it", absent.join(","));
    }
    ensure!(!here.is_empty(), "no CLI is installed below {}", agents.display());
    let own = std::env::current_exe().context("finding this program")?;
    let network = own_network(root)?;
    let output = Command::new(network[0])
        .args(&network[1..])
        .arg(own)
        .arg(INSIDE)
        .args([synapse.as_os_str(), sends.to_string().as_ref()])
        .args(&here)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting in a network of its own")?;
    ensure!(output.status.success(), "the CLIs could not be measured: {}", output.status);
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().map(|line| CliSpeed::read(&serde_json::from_str(line)?)).collect()
}

/// The part in the network of its own: one line of JSON for each CLI.
pub(crate) fn inside(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let [synapse, sends, names @ ..] = words else { anyhow::bail!("{INSIDE} needs the binary and a number") };
    let sends: usize = sends.parse().context("how many messages")?;
    shell::show(root, &["ip", "link", "set", "lo", "up"], &[]).context("bringing loopback up")?;
    for name in names {
        let cli = catalog::find(name)?;
        eprintln!("measuring: {} {}, {sends} messages", cli.name, cli.version);
        let mut speed = CliSpeed { name: format!("{} {}", cli.name, cli.version), ..CliSpeed::default() };
        if let Err(error) = one(root, Path::new(synapse), cli, sends, &mut speed) {
            speed.failed = Some(format!("{error:#}"));
        }
        println!("{}", speed.json());
    }
    Ok(())
}

fn one(
    root: &Path,
    synapse: &Path,
    cli: &'static Cli,
    sends: usize,
    speed: &mut CliSpeed,
) -> anyhow::Result<()> {
    let agents = root.join("target/agents");
    let kept = agents.join("runs").join(format!("speed-{}-{}", cli.name, now_ms()));
    let stage = Stage::begin(synapse, &agents, cli, &kept, &super::wish(&[])?)?;
    stage.wait_state("idle", 0)?;
    // The first warms everything up.
    for n in 0..=sends {
        let before = speed.clone();
        send(&stage, n, speed).with_context(|| format!("message {n}; see {}", kept.display()))?;
        if n == 0 {
            *speed = before;
        }
    }
    drop(stage);
    std::fs::remove_dir_all(&kept).with_context(|| format!("removing {}", kept.display()))
}

/// One message with its answer.
fn send(stage: &Stage, n: usize, speed: &mut CliSpeed) -> anyhow::Result<()> {
    deliver::settle(stage)?;
    std::thread::sleep(PAUSE);
    let (place, mark) = (stage.site.mock.log().len(), format!("speed-{n:03}"));
    let text = format!("{mark} is what this message is about {TURN}");
    let began = now_ms();
    let told = stage.site.json(&["send", stage.cli.name, &text, "--response", "--timeout", "90s"])?;
    let printed = now_ms();
    let (request, asked) = stage.wait_mock(place, "the message reaches the model", |entry| {
        let parts = deliver::begun(entry)?;
        parts.iter().any(|part| part.contains(&mark)).then_some((entry.request, entry.at_ms))
    })?;
    let ended = stage.wait_mock(place, "the end of the answer", |entry| {
        let is_end = entry.request == request && matches!(entry.what, What::Ended { .. });
        is_end.then_some(entry.at_ms)
    })?;
    let push = |times: &mut Vec<f64>, from: u64, to: u64| times.push(to as f64 - from as f64);
    push(&mut speed.request_ms, began, asked);
    push(&mut speed.answer_ms, ended, printed);
    push(&mut speed.idle_ms, ended, stage.wait_state("idle", 0)?);
    let task = told["task_id"].as_str().context("no task")?;
    let steps = steps(&stage.site.json(&["explain", task])?);
    for (name, times) in [("written", &mut speed.written_ms), ("submitted", &mut speed.submitted_ms)] {
        let found = steps.iter().find(|(what, _)| what.starts_with(name));
        times.extend(found.map(|(_, ms)| *ms as f64));
    }
    Ok(())
}

/// What happened to a message, and how long after it was accepted.
fn steps(explained: &Value) -> Vec<(String, u64)> {
    let timeline = explained["timeline"].as_array().map_or(&[][..], Vec::as_slice);
    let mut since = 0;
    let step = |one: &Value| {
        since += one["after_ms"].as_u64().unwrap_or(0);
        (one["what"].as_str().unwrap_or_default().to_owned(), since)
    };
    timeline.iter().map(step).collect()
}

impl CliSpeed {
    fn lists(&mut self) -> [(&'static str, &mut Vec<f64>); 5] {
        [
            ("request", &mut self.request_ms),
            ("written", &mut self.written_ms),
            ("submitted", &mut self.submitted_ms),
            ("answer", &mut self.answer_ms),
            ("idle", &mut self.idle_ms),
        ]
    }

    fn json(&self) -> Value {
        let mut line = json!({ "name": self.name, "failed": self.failed });
        for (name, times) in self.clone().lists() {
            line[name] = json!(times);
        }
        line
    }

    fn read(line: &Value) -> anyhow::Result<Self> {
        let name = line["name"].as_str().context("a line without a name")?.to_owned();
        let failed = line["failed"].as_str().map(str::to_owned);
        let mut speed = Self { name, failed, ..Self::default() };
        for (name, times) in speed.lists() {
            let all = line[name].as_array().with_context(|| format!("{name} is missing: {line}"))?;
            times.extend(all.iter().filter_map(Value::as_f64));
        }
        Ok(speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_times_are_read_as_they_were_told() {
        let speed = CliSpeed {
            name: "codex 1.0".into(),
            request_ms: vec![301.0, 2.5],
            answer_ms: vec![-1.0],
            failed: Some("why".into()),
            ..CliSpeed::default()
        };
        assert_eq!(CliSpeed::read(&speed.json()).unwrap(), speed);
        assert!(CliSpeed::read(&json!({ "name": "x" })).is_err());
    }

    #[test]
    fn steps_of_a_timeline_add_up() {
        let told = json!({ "timeline": [
            { "what": "accepted", "after_ms": 0 }, { "what": "written", "after_ms": 200 },
            { "what": "submitted", "after_ms": 50 },
        ] });
        let expected = [("accepted", 0), ("written", 200), ("submitted", 250)];
        let steps = steps(&told);
        let steps: Vec<(&str, u64)> = steps.iter().map(|(what, ms)| (what.as_str(), *ms)).collect();
        assert_eq!(steps, expected);
    }
}
