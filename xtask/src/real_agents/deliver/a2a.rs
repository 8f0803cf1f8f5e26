//! A real CLI as an A2A agent: the official Python SDK gives it tasks over each binding, is asked, decides, cancels.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use synapse_testkit::mock_llm::{Entry, What};

use super::super::stage::Stage;
use super::{Count, begun, settle};
use crate::sdk;

pub(super) const BINDINGS: [&str; 3] = ["JSONRPC", "HTTP+JSON", "GRPC"];
const CASES: [&str; 3] = ["streams", "asks", "canceled"];

pub(super) fn a2a(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    for (n, binding) in BINDINGS.into_iter().enumerate() {
        over(stage, binding, &format!("a2a{}{n}", count.round)).with_context(|| binding.to_owned())?;
        count.one();
    }
    Ok(())
}

fn over(stage: &Stage, binding: &str, tag: &str) -> anyhow::Result<()> {
    let place = stage.site.mock.log().len();
    let entry = stage.site.entry(stage.cli.name).context("it is not in the registry")?;
    let socket = PathBuf::from(entry["socket"].as_str().context("no socket")?);
    let (folder, name) = (socket.parent().context("no folder")?, socket.file_name().context("no name")?);
    let script = root().join("crates/synapse/tests/sdk/wrapped.py");
    // From its folder: the whole path of the socket is longer than a socket's may be.
    let output = Command::new(sdk::python(&root(), &sdk::PYTHON_1))
        .arg("-B")
        .arg(script)
        .arg(name)
        .args([binding, tag])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .context("starting Python")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let whole = || format!("{said}{}\n{}", String::from_utf8_lossy(&output.stderr), stage.recorder.screen());
    ensure!(output.status.success(), "{}", whole());
    for case in CASES {
        ensure!(said.lines().any(|line| line == format!("ok {binding} {case}")), "no {case}: {}", whole());
    }
    ensure!(made(&stage.site.work, tag)? == 1, "the tool that was allowed has not run once");
    settle(stage)?;
    is_given_up(stage, place, &format!("talk on {tag}"))
}

/// The turn that was canceled would have gone on for a minute. If its model was asked at all, it is not any more.
fn is_given_up(stage: &Stage, place: usize, text: &str) -> anyhow::Result<()> {
    let entries = stage.site.mock.log().entries();
    let has_text =
        |entry: &&Entry| begun(entry).is_some_and(|parts| parts.iter().any(|part| part.contains(text)));
    let Some(request) = entries.iter().skip(place).find(has_text).map(|entry| entry.request) else {
        return Ok(());
    };
    stage.wait_mock(place, "the canceled turn is given up", |entry| {
        (entry.request == request && matches!(entry.what, What::Aborted { turn: true })).then_some(())
    })
}

fn made(work: &Path, tag: &str) -> anyhow::Result<usize> {
    let names = std::fs::read_dir(work)?.flatten().map(|file| file.file_name());
    Ok(names.filter(|name| name.to_string_lossy().starts_with(&format!("{tag}-"))).count())
}

fn root() -> PathBuf {
    crate::shell::root()
}
