//! `cargo xtask mock-llm`: runs the mock of a model as a process, for trying a CLI by hand.
//!
//! It prints its port and runs until it is killed. Not here: how it answers
//! (`synapse_testkit::mock_llm`).

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use synapse_testkit::mock_llm::{MockLlm, Script};

pub(crate) fn run(words: &[String]) -> anyhow::Result<()> {
    let (mut port, mut log, mut script) = (0, None, Script::default());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--port" => port = value()?.parse().context("--port needs a number")?,
            "--log" => log = Some(PathBuf::from(value()?)),
            "--script" => {
                let path = value()?;
                let text = std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
                script = Script::parse(&text).map_err(|why| anyhow!("{path}: {why}"))?;
            }
            _ => bail!("`{word}` is not a word of mock-llm"),
        }
    }
    let mock = MockLlm::start(port, script, log.as_deref()).context("starting the mock")?;
    println!("http://127.0.0.1:{}", mock.port());
    loop {
        std::thread::park();
    }
}
