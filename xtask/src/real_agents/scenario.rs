//! What a person does with a CLI: start it, ask, allow something, stop it in the middle. And what is true meanwhile.

use std::time::Duration;

use anyhow::{bail, ensure};
use synapse_testkit::mock_llm::{What, now_ms};

use super::judge::{Cell, Seen, True};
use super::stage::{PATIENCE, Stage};

mod more;

/// A name for the table, and what is done.
type Step = (&'static str, fn(&mut Stage) -> anyhow::Result<Told>);

const FIRST: &[Step] =
    &[("start", start), ("turn", turn), ("permission", permission), ("interrupt", interrupt)];

fn steps(more: bool) -> impl Iterator<Item = &'static Step> {
    FIRST.iter().chain(if more { more::STEPS } else { &[] })
}

pub(super) fn names(more: bool) -> Vec<&'static str> {
    steps(more).map(|(name, _)| *name).collect()
}

/// How long a state has to stay when nothing happens.
const HOLDS: Duration = Duration::from_secs(3);
/// A permission that is asked for is asked for until somebody answers.
const WAITS: Duration = Duration::from_secs(5);

/// What one step came to.
struct Told {
    truth: Vec<True>,
    from_ms: u64,
}

/// Takes the CLI through all steps; after one that could not be done, the rest are not tried.
pub(super) fn play(stage: &mut Stage, wanted: &[&str], grace_ms: impl Fn() -> u64) -> (Vec<Cell>, Vec<True>) {
    let (mut cells, mut truth) = (Vec::new(), Vec::new());
    for (name, step) in steps(true).filter(|(name, _)| wanted.contains(name)) {
        match step(stage) {
            Ok(told) => {
                let seen: Vec<Seen> =
                    stage.states.all().into_iter().map(|seen| (seen.at_ms, seen.state)).collect();
                let within = (told.from_ms, now_ms());
                cells.push(Cell::judge(name, &told.truth, &seen, within, grace_ms()));
                truth.extend(told.truth);
            }
            Err(error) => {
                cells.push(Cell::failed(name, format!("{error:#}")));
                break;
            }
        }
    }
    (cells, truth)
}

fn start(stage: &mut Stage) -> anyhow::Result<Told> {
    let idle = stage.wait_state("idle", 0)?;
    hold(HOLDS);
    // From when the node first says anything. Whether the CLI was ready indeed shows in the next step, when it is
    // given a text.
    let from_ms = stage.states.all().first().map_or(idle, |first| first.at_ms);
    Ok(Told { truth: vec![True::new(from_ms, "starting"), True::new(idle, "idle")], from_ms })
}

fn turn(stage: &mut Stage) -> anyhow::Result<Told> {
    let from_ms = now_ms();
    let asked = stage.ask("count slowly {{think 500; stream 4000; mark}}")?;
    let idle = wait_for_end(stage, asked.place)?;
    hold(HOLDS);
    let truth = vec![True::new(from_ms, "idle"), True::new(asked.enter_ms, "busy"), idle];
    Ok(Told { truth, from_ms })
}

fn permission(stage: &mut Stage) -> anyhow::Result<Told> {
    const MADE: &str = "made-by-the-tool";
    let from_ms = now_ms();
    let asked = stage.ask(&format!("make it {{{{stream 800; ask touch {MADE}; stream 2500; mark}}}}"))?;
    let waiting = wait_for_question(stage, asked.place)?;
    let place = stage.site.mock.log().len();
    ensure!(!stage.site.work.join(MADE).exists(), "the tool ran before it was allowed");
    let allowed = stage.press(stage.cli.allow);
    let mut truth = vec![True::new(from_ms, "idle"), True::new(asked.enter_ms, "busy"), waiting];
    if stage.cli.continues {
        truth.extend([True::new(allowed, "busy"), wait_for_end(stage, place)?]);
    } else {
        stage.wait_state("idle", allowed)?;
        truth.push(True::new(allowed, "idle"));
    }
    hold(HOLDS);
    ensure!(stage.site.work.join(MADE).exists(), "the tool was allowed and did not run");
    Ok(Told { truth, from_ms })
}

/// Waits until the CLI asks for a permission, and then for a while, in which nothing may change.
fn wait_for_question(stage: &Stage, place: usize) -> anyhow::Result<True> {
    let (called, shown) = question_is_shown(stage, place)?;
    stage.wait_state("waiting", called.saturating_sub(LAG_MS))?;
    hold(WAITS);
    // Between the call and the question nobody can see that it waits.
    Ok(True::shown(called, "waiting", shown))
}

/// Waits until the model calls the tool and the CLI asks for a permission; when each of them was.
fn question_is_shown(stage: &Stage, place: usize) -> anyhow::Result<(u64, u64)> {
    let called = stage.wait_mock(place, "the call of the tool", |entry| match entry.what {
        What::Asked { .. } => Some(entry.at_ms),
        _ => None,
    })?;
    let question = stage.cli.question;
    let Some(shown) = stage.recorder.wait_shown(question, PATIENCE) else {
        bail!("{question:?} is not shown:\n{}", stage.recorder.screen());
    };
    Ok((called, shown))
}

fn interrupt(stage: &mut Stage) -> anyhow::Result<Told> {
    const BETWEEN: Duration = Duration::from_millis(600);
    const TEXT: &str = "talk on {{stream 60000}}";
    let from_ms = now_ms();
    let asked = stage.ask(TEXT)?;
    stage.wait_state("busy", from_ms)?;
    hold(WAITS);
    let mut pressed = now_ms();
    for (n, key) in stage.cli.stop.iter().enumerate() {
        if n > 0 {
            hold(BETWEEN);
        }
        pressed = stage.press(key);
    }
    let stopped = stage.wait_mock(asked.place, "the answer is given up", |entry| match entry.what {
        What::Aborted { turn: true } => Some(entry.at_ms),
        _ => None,
    })?;
    stage.wait_state("idle", from_ms + 1)?;
    hold(HOLDS);
    // Some CLIs put the text back into the composer, for its person to go on from.
    stage.erase_draft(TEXT);
    let truth = vec![
        True::new(from_ms, "idle"),
        True::new(asked.enter_ms, "busy"),
        True::shown(pressed, "idle", stopped.max(pressed)),
    ];
    Ok(Told { truth, from_ms })
}

/// A CLI may show the end of an answer a moment before the mock has written down that it sent it.
const LAG_MS: u64 = 200;

/// Waits until the turn has ended and the node says so. A slow CLI shows the end of the answer, which is its mark,
/// long after it has it.
fn wait_for_end(stage: &Stage, place: usize) -> anyhow::Result<True> {
    const A_WHILE: Duration = Duration::from_secs(10);
    let (ended, request) = stage.wait_mock(place, "the end of the answer", |entry| {
        (entry.what == What::Ended { turn: true }).then_some((entry.at_ms, entry.request))
    })?;
    let shown = stage.recorder.wait_shown(&format!("mark{request}"), A_WHILE).unwrap_or(ended);
    stage.wait_state("idle", ended.saturating_sub(LAG_MS))?;
    Ok(True::shown(ended, "idle", shown))
}

/// Time passes and nothing is done: what is told meanwhile is judged.
fn hold(time: Duration) {
    std::thread::sleep(time);
}
