//! The reported states of a wrapped agent while its node is killed and restarted (defects A and L).

use crate::stage;
use serde_json::json;
use stage::{PROFILE, Stage};
use std::time::Duration;
use synapse_testkit::states::States;

const ROUNDS: usize = 6;

/// A program whose title says idle, like that of Claude Code while it shows a prompt.
fn titled() -> Stage {
    let rule = "title:\n  - state: idle\n    any: ['^ready']\nscreen:";
    Stage::with(&PROFILE.replace("screen:", rule), &[])
}

fn draw(stage: &mut Stage, text: &str) {
    stage.order(&json!(["show", format!("\u{1b}]2;ready\u{7}{text}")]));
}

/// All states that were reported while the node was killed repeatedly.
fn told_over_restarts(stage: &Stage, state: &str) -> Vec<String> {
    let states = States::follow(stage.world.command(&[]), "cli").unwrap();
    states.wait_for(state, 0, Duration::from_secs(60)).unwrap();
    for _ in 0..ROUNDS {
        stage.world.kill_node("cli");
        stage.becomes(state);
    }
    states.all().into_iter().map(|seen| seen.state).collect()
}

/// Defect A: the title was read at once, the screen 40 ms later. In between, the agent was reported
/// idle.
#[test]
fn prompt_that_stands_over_a_restart_is_never_told_as_idle() {
    let mut stage = titled();
    draw(&mut stage, "Allow this? (y/n)");
    stage.becomes("waiting");
    let mut waits_for_idle = stage.world.program(&["wait", "cli", "--timeout", "60s"]);
    let told = told_over_restarts(&stage, "waiting");
    assert!(told.iter().all(|state| ["waiting", "unknown"].contains(&state.as_str())), "{told:?}");
    assert!(!waits_for_idle.has_ended(), "`wait` took a restart for idle");
    draw(&mut stage, "> ready");
    assert!(waits_for_idle.wait().success());
}

/// Defect L: a working program was reported as starting.
#[test]
fn busy_agent_is_not_starting_after_a_restart() {
    let mut stage = Stage::new(&[]);
    stage.order(&json!(["show", "working"]));
    stage.becomes("busy");
    let told = told_over_restarts(&stage, "busy");
    assert!(told.iter().all(|state| ["busy", "unknown"].contains(&state.as_str())), "{told:?}");
}
