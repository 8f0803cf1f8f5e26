//! `cargo xtask interop`: other makers' frameworks call our agent, and our client calls theirs. The
//! results are the table in `docs/a2a-interop.md`.
//!
//! Each framework has exact versions in its own folder (`sdk`). The models are functions. Nothing
//! leaves this machine, except to download packages. A case is `ok` or `failed`, or the framework
//! `lacks` it.
//!
//! Not here: the scripts themselves (`crates/synapse/tests/interop`).

mod ours;
mod page;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::sdk::{self, Kit};
use ours::Ours;

const PAGE: &str = "docs/a2a-interop.md";

/// One framework.
struct Framework {
    name: &'static str,
    kit: &'static Kit,
    client: Script,
    server: Script,
    /// What the maker must change, if a case is known to fail.
    known: Option<&'static str>,
}

/// The client or the server script of a framework.
enum Script {
    File(&'static str),
    /// Why there is none.
    None(&'static str),
}

use Script::File;

// tidy: table
const FRAMEWORKS: &[Framework] = &[
    Framework {
        name: "google-adk 2.13.0",
        kit: &sdk::ADK,
        client: File("adk_client.py"),
        server: File("adk_server.py"),
        known: None,
    },
    Framework {
        name: "LangGraph (langgraph-api 0.16.7)",
        kit: &sdk::LANGGRAPH,
        client: Script::None("no client of its own; its pages use a2a-sdk"),
        server: File("langgraph_server.py"),
        known: None,
    },
    Framework {
        name: "CrewAI 1.15.30",
        kit: &sdk::CREWAI,
        client: File("crewai_client.py"),
        server: File("crewai_server.py"),
        known: None,
    },
    Framework {
        name: "Strands 1.62.0",
        kit: &sdk::STRANDS,
        client: File("strands_client.py"),
        server: File("strands_server.py"),
        known: None,
    },
    Framework {
        name: "fasta2a 0.6.1",
        kit: &sdk::FASTA2A_06,
        client: File("fasta2a_client.py"),
        server: File("fasta2a_server.py"),
        known: None,
    },
    Framework {
        name: "fasta2a 2.1.1",
        kit: &sdk::FASTA2A_2,
        client: File("fasta2a_client.py"),
        server: File("fasta2a_server.py"),
        known: None,
    },
    Framework {
        name: "pydantic-ai 2.62.0 (by fasta2a 2.1.1)",
        kit: &sdk::PYDANTIC_AI,
        client: Script::None("no client of its own; it has fasta2a's"),
        server: File("pydantic_ai_server.py"),
        known: None,
    },
    Framework {
        name: "a2a-sdk 0.2.16 (Python)",
        kit: &sdk::PYTHON_02,
        client: File("a2a_sdk_02_client.py"),
        server: File("a2a_sdk_old_server.py"),
        known: None,
    },
    Framework {
        name: "a2a-sdk 0.3.26 (Python)",
        kit: &sdk::PYTHON_03,
        client: File("../sdk/python_03.py"),
        server: File("a2a_sdk_old_server.py"),
        known: None,
    },
    Framework {
        name: "a2a-sdk 1.3.0 (Python)",
        kit: &sdk::PYTHON_1,
        client: File("../sdk/python_1.py"),
        server: File("../sdk/python_server.py"),
        known: None,
    },
    Framework {
        name: "@a2a-js/sdk 1.3.0",
        kit: &sdk::JS_SERVER,
        client: File("../sdk/js.mjs"),
        server: File("js_server.mjs"),
        known: None,
    },
];

/// The result of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    Lacks(String),
    Failed(String),
}

/// Cases in the order in which they ran.
type Cases = Vec<(String, Verdict)>;

/// The results of one framework.
struct Row {
    framework: &'static Framework,
    calls_us: Cases,
    called_by_us: Cases,
}

/// Runs the frameworks whose name contains one of the words. `--write` updates the table in the
/// docs.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let write = words.iter().any(|word| word == "--write");
    let only: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let wanted = |one: &&Framework| {
        only.is_empty() || only.iter().any(|word| one.name.to_lowercase().contains(&word.to_lowercase()))
    };
    let chosen: Vec<&'static Framework> = FRAMEWORKS.iter().filter(wanted).collect();
    if chosen.is_empty() || (write && !only.is_empty()) {
        bail!("name no framework with --write, or one of: {}", names().join(", "));
    }
    let rows = chosen.into_iter().map(|one| row(root, one)).collect::<anyhow::Result<Vec<Row>>>()?;
    if write {
        std::fs::write(root.join(PAGE), page::written(&rows)).with_context(|| format!("writing {PAGE}"))?;
        println!("{PAGE} is written");
    }
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| row.failed() && row.framework.known.is_none())
        .map(|r| r.framework.name)
        .collect();
    if !failed.is_empty() {
        bail!("not every case passed: {}", failed.join(", "));
    }
    Ok(())
}

fn names() -> Vec<&'static str> {
    FRAMEWORKS.iter().map(|one| one.name).collect()
}

impl Row {
    fn failed(&self) -> bool {
        let mut all = self.calls_us.iter().chain(&self.called_by_us);
        all.any(|(_, verdict)| matches!(verdict, Verdict::Failed(_)))
    }
}

fn row(root: &Path, framework: &'static Framework) -> anyhow::Result<Row> {
    let folder = sdk::ensure(root, framework.kit)?;
    println!("{}", framework.name);
    let ours = Ours::new(root)?;
    let calls_us = match &framework.client {
        Script::None(why) => vec![("all".to_owned(), Verdict::Lacks((*why).to_owned()))],
        File(script) => calls_us(root, &folder, script, &ours)?,
    };
    let called_by_us = match &framework.server {
        Script::None(why) => vec![("all".to_owned(), Verdict::Lacks((*why).to_owned()))],
        File(script) => called_by_us(root, &folder, script, &ours)?,
    };
    for (side, cases) in [("calls us", &calls_us), ("called by us", &called_by_us)] {
        for (case, verdict) in cases {
            println!("  {side}: {case}: {}", page::words(verdict));
        }
    }
    Ok(Row { framework, calls_us, called_by_us })
}

fn interpreter(folder: &Path, script: &str) -> PathBuf {
    if script.ends_with(".mjs") { PathBuf::from("node") } else { folder.join("bin/python") }
}

fn scripts(root: &Path) -> PathBuf {
    root.join("crates/synapse/tests/interop")
}

/// The command for a script, with the environment that all scripts get.
fn prepared(root: &Path, folder: &Path, script: &str) -> Command {
    let mut command = Command::new(interpreter(folder, script));
    command.arg(scripts(root).join(script));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONWARNINGS", "ignore");
    command.env("NO_PROXY", "127.0.0.1,localhost").stderr(Stdio::null());
    command
}

/// The framework's client calls our agent.
fn calls_us(root: &Path, folder: &Path, script: &str, ours: &Ours) -> anyhow::Result<Cases> {
    let is_official = script.starts_with("../sdk/");
    let agent = ours.serve(root, is_official)?;
    let mut command = prepared(root, folder, script);
    command.arg(&agent.url);
    if is_official {
        command.arg(ours.token());
    }
    if script.ends_with(".mjs") {
        command.arg(folder);
    }
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {script}"))?;
    Ok(verdicts(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses the output of a script: `ok CASE`, `failed CASE: WHY`, `lacks CASE: WHY`.
fn verdicts(said: &str) -> Cases {
    let read = |line: &str| {
        let (word, rest) = line.split_once(' ')?;
        let (case, why) = rest.split_once(": ").unwrap_or((rest, ""));
        let verdict = match word {
            "ok" => return Some((rest.to_owned(), Verdict::Ok)),
            "failed" | "FAILED" => Verdict::Failed(why.to_owned()),
            "lacks" => Verdict::Lacks(why.to_owned()),
            _ => return None,
        };
        Some((case.to_owned(), verdict))
    };
    let cases: Cases = said.lines().filter_map(read).collect();
    if cases.is_empty() {
        return vec![("all".to_owned(), Verdict::Failed("the script said nothing".to_owned()))];
    }
    cases
}

/// Our client calls the framework's server.
fn called_by_us(root: &Path, folder: &Path, script: &str, ours: &Ours) -> anyhow::Result<Cases> {
    let mut command = prepared(root, folder, script);
    if script.ends_with(".mjs") {
        command.arg(folder);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().with_context(|| format!("starting {script}"))?;
    let url = ours::first_line(server.stdout.take().context("it has no output")?);
    let cases = match url.as_deref().and_then(|line| line.strip_prefix("ready ")) {
        Some(url) => ours.cases(url.trim()),
        None => vec![("all".to_owned(), Verdict::Failed("the server did not start".to_owned()))],
    };
    // The server exits when its input ends. If it does not, it is killed.
    if let Some(mut input) = server.stdin.take() {
        let _ = input.flush();
    }
    ours::end(&mut server);
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_of_a_script() {
        let said = "ok send\nnoise\nlacks stream: has none\nfailed get: KeyError: x\nok GRPC/0.3 send\n";
        let expected = [
            ("send", Verdict::Ok),
            ("stream", Verdict::Lacks("has none".into())),
            ("get", Verdict::Failed("KeyError: x".into())),
            ("GRPC/0.3 send", Verdict::Ok),
        ];
        let expected: Cases = expected.map(|(case, verdict)| (case.to_owned(), verdict)).to_vec();
        assert_eq!(verdicts(said), expected);
        assert!(matches!(verdicts("")[0].1, Verdict::Failed(_)));
    }

    #[test]
    fn every_script_is_there() {
        let root = crate::shell::root();
        for framework in FRAMEWORKS {
            for script in [&framework.client, &framework.server] {
                if let File(name) = script {
                    assert!(scripts(&root).join(name).exists(), "{name}");
                }
            }
        }
    }
}
