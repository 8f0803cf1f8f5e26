//! What a person types to another agent at the composer of a real CLI, and what only looks like it (PTY-11).

use std::time::Duration;

use anyhow::ensure;
use serde_json::Value;
use synapse_terminal::composer::Holds;

use super::super::stage::Stage;
use super::between::nothing_new;
use super::{Count, composer_of, settle, wait_until};

pub(super) const PARTS: usize = 2;

/// A person looks before they type, and after.
const LOOKS: Duration = Duration::from_millis(2_500);

pub(super) fn at(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    let other = format!("other{}", count.round);
    stage.site.synapse(&["run", "-d", "--name", &other, "--exec", "cat"])?;
    let done = goes_to_it(stage, &other).and_then(|()| {
        count.one();
        is_the_programs(stage)
    });
    stage.site.synapse(&["kill", &other])?;
    done?;
    count.one();
    Ok(())
}

/// The line goes to the agent, and the program sees none of it.
fn goes_to_it(stage: &mut Stage, other: &str) -> anyhow::Result<()> {
    const TEXT: &str = "only for the other one";
    let place = stage.site.mock.log().len();
    settle(stage)?;
    std::thread::sleep(LOOKS);
    stage.type_keys(&format!("@{other} {TEXT}\r"));
    let history = ["history", other];
    wait_until(stage, &format!("{other} has the line"), || {
        let all = stage.site.json(&history).ok();
        let all = all.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        all.iter().any(|one| one["text"] == TEXT && one["from"]["sender_id"] == "user")
    })?;
    std::thread::sleep(LOOKS);
    let (holds, screen) = (composer_of(stage)?, stage.recorder.screen());
    ensure!(holds == Holds::Empty, "the composer holds {holds:?}:\n{screen}");
    ensure!(!screen.contains(TEXT), "the program was given some of it:\n{screen}");
    nothing_new(stage, place)
}

/// What names no agent is in the composer as it was typed.
fn is_the_programs(stage: &mut Stage) -> anyhow::Result<()> {
    const TEXT: &str = "@nobody/here is a file";
    let place = stage.site.mock.log().len();
    stage.type_text(TEXT)?;
    std::thread::sleep(LOOKS);
    let (holds, wanted) = (composer_of(stage)?, Holds::Text(TEXT.replace(' ', "")));
    ensure!(holds == wanted, "{TEXT:?} was typed; the composer holds {holds:?}");
    for _ in TEXT.chars() {
        stage.type_keys("\u{7f}");
    }
    settle(stage)?;
    nothing_new(stage, place)
}
