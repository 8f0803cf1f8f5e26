//! Our side: a temporary home, the agent to call, and the client.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Cases, Verdict};

const START_WITHIN: Duration = Duration::from_secs(120);
const END_WITHIN: Duration = Duration::from_secs(10);
const CALL_WITHIN: &str = "60s";
/// The timeout of a message whose answer is not waited for.
const BEGIN_WITHIN: &str = "20s";

pub(super) struct Ours {
    binary: PathBuf,
    home: tempfile::TempDir,
}

/// A running agent of ours. It is stopped when dropped.
pub(super) struct Served<'a> {
    pub(super) url: String,
    ours: &'a Ours,
}

/// One thing that our client does with the server at a URL.
type Case = fn(&Ours, &str) -> anyhow::Result<Verdict>;

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = self.ours.synapse(&["kill", "words"]);
    }
}

impl Ours {
    pub(super) fn new(root: &Path) -> anyhow::Result<Self> {
        let binary = root.join("target/debug/synapse");
        ensure!(binary.exists(), "build it first: `cargo build --package synapse`");
        Ok(Self { binary, home: tempfile::tempdir()? })
    }

    pub(super) fn token(&self) -> PathBuf {
        self.home.path().join("token")
    }

    fn synapse(&self, words: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(&self.binary);
        command.args(words).current_dir(self.home.path()).stdin(Stdio::null());
        command.env("SYNAPSE_HOME", self.home.path()).env("HOME", self.home.path());
        command.output().with_context(|| format!("running synapse {}", words.join(" ")))
    }

    /// Starts the agent that does what the first word of a message says. The scripts of the
    /// official SDKs bring a token and try every binding. The others run without a token and with
    /// the default bindings.
    pub(super) fn serve(&self, root: &Path, is_official: bool) -> anyhow::Result<Served<'_>> {
        // The webhooks of the scripts are on this machine.
        self.synapse(&["config", "set", "network.push_private", "true"])?;
        let script = root.join("crates/synapse/tests/sdk/agent.py");
        let exec = format!("python3 '{}'", script.display());
        let words = ["a2a", "serve", "--exec", &exec, "--jsonl", "--name", "words", "--parallel", "8"];
        let shown = if is_official { ["--interfaces", "jsonrpc,http,grpc"] } else { ["--auth", "none"] };
        let said = self.synapse(&[&words[..], &shown, &["--detach", "--json"]].concat())?;
        let started: Value = serde_json::from_slice(&said.stdout)
            .with_context(|| format!("starting our agent: {}", String::from_utf8_lossy(&said.stderr)))?;
        let url = started["endpoint"].as_str().context("it did not say where it is")?.to_owned();
        Ok(Served { url, ours: self })
    }

    /// What our client can do with a server that echoes messages.
    pub(super) fn cases(&self, url: &str) -> Cases {
        let cases: [(&str, Case); 5] = [
            ("send", Self::send),
            ("get", Self::get),
            ("remote", Self::remote),
            ("multi-turn", Self::multi_turn),
            ("cancel", Self::cancel),
        ];
        let judged = |(name, case): (&str, Case)| {
            let verdict = case(self, url).unwrap_or_else(|e| Verdict::Failed(short(&format!("{e:#}"))));
            (name.to_owned(), verdict)
        };
        cases.into_iter().map(judged).collect()
    }

    fn answer(&self, words: &[&str]) -> anyhow::Result<Value> {
        let said = self.synapse(&[words, &["--json"]].concat())?;
        let line = String::from_utf8_lossy(&said.stdout).into_owned();
        serde_json::from_str(line.lines().next().unwrap_or_default())
            .with_context(|| short(&String::from_utf8_lossy(&said.stderr)))
    }

    /// Streams if the card declares streaming, otherwise polls.
    fn send(&self, url: &str) -> anyhow::Result<Verdict> {
        let told = self.answer(&["send", url, "hello there", "--response", "--timeout", CALL_WITHIN])?;
        Ok(expect(told["answer"]["text"].as_str().is_some_and(|text| text.contains("hello there")), &told))
    }

    fn get(&self, url: &str) -> anyhow::Result<Verdict> {
        let begun = self.answer(&["send", url, "hello again"])?;
        let Some(task) = begun["task_id"].as_str() else { return Ok(expect(false, &begun)) };
        let until = Instant::now() + START_WITHIN;
        loop {
            let told = self.answer(&["status", task, "--at", url])?;
            if told["state"] == "completed" {
                let text = told["answer"]["text"].as_str().unwrap_or_default();
                let only_state = || Verdict::Lacks("its GetTask tells the state, and not the answer".into());
                return Ok(if text.contains("hello again") { Verdict::Ok } else { only_state() });
            }
            if Instant::now() > until {
                return Ok(expect(false, &told));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn remote(&self, url: &str) -> anyhow::Result<Verdict> {
        let added = self.synapse(&["remote", "add", "other", url])?;
        ensure!(added.status.success(), "{}", short(&String::from_utf8_lossy(&added.stderr)));
        let told = self.answer(&["send", "other", "by name", "--response", "--timeout", CALL_WITHIN]);
        self.synapse(&["remote", "remove", "other"])?;
        let told = told?;
        Ok(expect(told["answer"]["text"].as_str().is_some_and(|text| text.contains("by name")), &told))
    }

    fn multi_turn(&self, url: &str) -> anyhow::Result<Verdict> {
        let asked = self.answer(&["send", url, "ask", "--response", "--timeout", CALL_WITHIN])?;
        if asked["state"] == "completed" {
            return Ok(Verdict::Lacks("its agent asks nothing here".into()));
        }
        let Some(task) = asked["task_id"].as_str().filter(|_| asked["state"] == "input-required") else {
            return Ok(expect(false, &asked));
        };
        let words = ["send", url, "blue", "--task", task, "--response", "--timeout", CALL_WITHIN];
        let told = self.answer(&words)?;
        Ok(expect(told["answer"]["text"].as_str().is_some_and(|text| text.contains("blue")), &told))
    }

    fn cancel(&self, url: &str) -> anyhow::Result<Verdict> {
        let Ok(begun) = self.answer(&["send", url, "long", "--timeout", BEGIN_WITHIN]) else {
            return Ok(Verdict::Lacks("it answers only once a task has ended".into()));
        };
        let Some(task) = begun["task_id"].as_str() else { return Ok(expect(false, &begun)) };
        let now = self.answer(&["status", task, "--at", url])?;
        if now["state"] == "completed" {
            return Ok(Verdict::Lacks("its agent has ended before".into()));
        }
        let canceled = self.synapse(&["cancel", task, "--at", url])?;
        if !canceled.status.success() {
            let why = short(&String::from_utf8_lossy(&canceled.stderr));
            let now = self.answer(&["status", task, "--at", url])?;
            let ended = now["state"] == "completed";
            return Ok(if ended {
                Verdict::Lacks("its agent has ended before".into())
            } else {
                Verdict::Failed(why)
            });
        }
        let now = self.answer(&["status", task, "--at", url])?;
        let ended = now["state"] == "completed";
        Ok(if ended { Verdict::Lacks("its agent has ended before".into()) } else { Verdict::Ok })
    }
}

fn expect(fits: bool, seen: &Value) -> Verdict {
    if fits { Verdict::Ok } else { Verdict::Failed(short(&seen.to_string())) }
}

/// The text as one short line.
fn short(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
}

/// The first line of the output, if it arrives in time. The rest is read and discarded.
pub(super) fn first_line(output: impl Read + Send + 'static) -> Option<String> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    told.recv_timeout(START_WITHIN).ok()
}

/// Waits a short time for the process to exit, then kills it.
pub(super) fn end(process: &mut Child) {
    let until = Instant::now() + END_WITHIN;
    while Instant::now() < until {
        if matches!(process.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = process.kill();
    let _ = process.wait();
}
