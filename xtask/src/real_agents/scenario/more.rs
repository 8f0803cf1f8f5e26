//! Steps beyond the first four, for `--more`: a model that is silent, questions one after the other, a refusal, an error,
//! and a short script that is recorded at several sizes of the terminal.

use anyhow::ensure;
use std::time::Duration;
use synapse_testkit::mock_llm::{Entry, What, now_ms};

use super::super::judge::True;
use super::super::stage::Stage;
use super::{HOLDS, LAG_MS, Step, Told, hold, question_is_shown, wait_for_end, wait_for_question};

pub(super) const STEPS: &[Step] = &[
    ("silence", silence),
    ("two asks", two_questions),
    ("refusal", refusal),
    ("error", error),
    ("draft", draft),
    ("sizes", sizes),
];

/// The model says nothing for long.
fn silence(stage: &mut Stage) -> anyhow::Result<Told> {
    let from_ms = now_ms();
    let asked = stage.ask("think hard {{think 12000; stream 1000; mark}}")?;
    let idle = wait_for_end(stage, asked.place)?;
    hold(HOLDS);
    let truth = vec![True::new(from_ms, "idle"), True::new(asked.enter_ms, "busy"), idle];
    Ok(Told { truth, from_ms })
}

fn two_questions(stage: &mut Stage) -> anyhow::Result<Told> {
    let from_ms = now_ms();
    let asked = stage.ask("both {{ask mkdir one; stream 2500; ask rmdir one; stream 2500; mark}}")?;
    let first = wait_for_question(stage, asked.place)?;
    let place = stage.site.mock.log().len();
    let allowed = stage.press(stage.cli.allow);
    let second = wait_for_question(stage, place)?;
    ensure!(stage.site.work.join("one").exists(), "the first was allowed and did not run");
    let place = stage.site.mock.log().len();
    let allowed_again = stage.press(stage.cli.allow);
    let idle = wait_for_end(stage, place)?;
    hold(HOLDS);
    let truth = vec![
        True::new(from_ms, "idle"),
        True::new(asked.enter_ms, "busy"),
        first,
        True::new(allowed, "busy"),
        second,
        True::new(allowed_again, "busy"),
        idle,
    ];
    Ok(Told { truth, from_ms })
}

/// The question is answered with Esc. Some CLIs end the turn at that, some tell the model.
fn refusal(stage: &mut Stage) -> anyhow::Result<Told> {
    const A_WHILE: Duration = Duration::from_secs(5);
    let from_ms = now_ms();
    let asked = stage.ask("may I {{stream 800; ask touch refused; stream 2500; mark}}")?;
    let waiting = wait_for_question(stage, asked.place)?;
    let place = stage.site.mock.log().len();
    let refused = stage.press(stage.cli.deny);
    let mut truth = vec![True::new(from_ms, "idle"), True::new(asked.enter_ms, "busy"), waiting];
    let goes_on =
        stage.site.mock.log().wait_for(place, A_WHILE, |entry| {
            matches!(entry.what, What::Began { turn: true, .. }).then_some(())
        });
    if goes_on.is_some() {
        truth.push(True::new(refused, "busy"));
        truth.push(wait_for_end(stage, place)?);
    } else {
        stage.wait_state("idle", refused)?;
        truth.push(True::new(refused, "idle"));
    }
    hold(HOLDS);
    ensure!(!stage.site.work.join("refused").exists(), "the tool was refused and ran");
    Ok(Told { truth, from_ms })
}

/// Some CLIs ask again when they are answered with an error; the last answer counts.
fn error(stage: &mut Stage) -> anyhow::Result<Told> {
    let from_ms = now_ms();
    let asked = stage.ask("fail now {{error 400}}")?;
    let is_error = |entry: &Entry| matches!(entry.what, What::Failed { .. }).then_some(entry.at_ms);
    let first = stage.wait_mock(asked.place, "the error", is_error)?;
    stage.wait_state("idle", first.saturating_sub(LAG_MS))?;
    hold(HOLDS);
    let last = stage.site.mock.log().entries().iter().filter_map(is_error).next_back().unwrap_or(first);
    let truth = vec![True::new(from_ms, "idle"), True::new(asked.enter_ms, "busy"), True::new(last, "idle")];
    Ok(Told { truth, from_ms })
}

/// An answer and a permission, short enough to be kept as a recording. With `--resize` the terminal changes its size
/// while the question is shown.
fn sizes(stage: &mut Stage) -> anyhow::Result<Told> {
    const A_MOMENT: Duration = Duration::from_millis(1_200);
    const MADE: &str = "made-at-this-size";
    let from_ms = now_ms();
    let first = stage.ask_pasted("say it {{think 300; stream 300; mark}}")?;
    let answered = wait_for_end(stage, first.place)?;
    hold(A_MOMENT);
    let second =
        stage.ask_pasted(&format!("make it {{{{stream 300; ask touch {MADE}; stream 600; mark}}}}"))?;
    let (called, shown) = question_is_shown(stage, second.place)?;
    stage.wait_state("waiting", called.saturating_sub(LAG_MS))?;
    hold(A_MOMENT);
    if stage.resize() {
        hold(A_MOMENT);
    }
    let place = stage.site.mock.log().len();
    let allowed = stage.press(stage.cli.allow);
    let mut truth = vec![
        True::new(from_ms, "idle"),
        True::new(first.enter_ms, "busy"),
        answered,
        True::new(second.enter_ms, "busy"),
        True::shown(called, "waiting", shown),
    ];
    if stage.cli.continues {
        truth.extend([True::new(allowed, "busy"), wait_for_end(stage, place)?]);
    } else {
        stage.wait_state("idle", allowed)?;
        truth.push(True::new(allowed, "idle"));
    }
    hold(A_MOMENT);
    ensure!(stage.site.work.join(MADE).exists(), "the tool was allowed and did not run");
    Ok(Told { truth, from_ms })
}

/// A text that is typed and taken back is no turn.
fn draft(stage: &mut Stage) -> anyhow::Result<Told> {
    let from_ms = now_ms();
    let place = stage.site.mock.log().len();
    let text = "never mind";
    stage.type_text(text)?;
    hold(HOLDS);
    for _ in text.chars() {
        stage.press("\u{7f}");
    }
    hold(HOLDS);
    let asked = stage.site.mock.log().entries()[place..].len();
    ensure!(asked == 0, "the model was asked although nothing was sent");
    Ok(Told { truth: vec![True::new(from_ms, "idle")], from_ms })
}
