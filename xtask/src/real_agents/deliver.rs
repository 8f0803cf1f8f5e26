//! Messages into a real CLI: does its model receive them, once and exactly, and nothing else but them?
//!
//! The truth is the log of the mock: what the model received. What must not have run is told by files that must not
//! be there. Each case leaves the CLI idle with an empty composer, so that all of them share one that runs.
//! Not here: the cases in which a person, a turn or a crash comes between (`between`), lines to other agents (`at`), tasks
//! over A2A (`a2a`), the same CLI without a terminal (`acp`), conversations after a power cut (`resume`).

mod a2a;
mod acp;
mod at;
mod between;
mod resume;

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use synapse_terminal::composer::Holds;
use synapse_terminal::profile::shipped;
use synapse_testkit::mock_llm::{Entry, What, numbered_lines};

use super::catalog::Cli;
use super::judge::Cell;
use super::stage::{PATIENCE, Stage};

/// One row of the list below: its name, of how many parts it is, and what is done.
type Case = (&'static str, usize, fn(&mut Stage, &mut Count) -> anyhow::Result<()>);

const CASES: &[Case] = &[
    ("exact", EXACT, exact),
    ("hostile", HOSTILE.len(), hostile),
    ("prompt", between::DECISIONS, between::prompt),
    ("kept draft", 1, between::draft),
    ("urgent", 1, between::urgent),
    ("crash", between::KILLS, between::crash),
    ("answer", 3, answer),
    ("at", at::PARTS, at::at),
    ("a2a", a2a::BINDINGS.len(), a2a::a2a),
    ("acp", acp::PARTS, acp::acp),
    ("resume", resume::PARTS, resume::resume),
];

/// How far a case came, and in which round.
pub(super) struct Count {
    pub round: usize,
    done: usize,
}

impl Count {
    fn one(&mut self) {
        self.done += 1;
    }
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, ..)| *name)
}

/// Whether this CLI can go through this case at all.
pub(super) fn is_for(case: &str, cli: &Cli) -> bool {
    case != "acp" || acp::args_of(cli).is_some()
}

/// Takes a CLI that is idle through those cases that are wanted. One that fails does not stop the others unless it
/// leaves the CLI in a state in which nothing can be typed.
pub(super) fn play(stage: &mut Stage, round: usize, wanted: impl Fn(&str) -> bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (name, of, case) in CASES.iter().filter(|(name, ..)| wanted(name)) {
        let mut count = Count { round, done: 0 };
        let came = case(stage, &mut count).and_then(|()| is_well(stage));
        let fault = came.as_ref().err().map(|error| format!("{error:#}"));
        cells.push(Cell::counted(name, (count.done, *of), fault));
        if came.is_err() && settle(stage).is_err() {
            break;
        }
    }
    cells
}

/// A message that the node has accepted.
struct Sent {
    /// What it begins with where it is typed.
    header: String,
}

fn header(task: &str) -> String {
    format!("[A2A:{}:user]", task.get(..8).unwrap_or(task))
}

/// Sends it and does not wait for anything.
fn send(stage: &Stage, text: &str, more: &[&str]) -> anyhow::Result<Sent> {
    let accepted = stage.site.json(&[&["send", stage.cli.name, text], more].concat())?;
    let task = accepted["task_id"].as_str().context("no task")?;
    Ok(Sent { header: header(task) })
}

/// Sends it and waits for the proof that it was submitted.
fn submit(stage: &Stage, text: &str) -> anyhow::Result<Sent> {
    let args = ["send", stage.cli.name, text, "--wait-for", stage.cli.proves, "--timeout", "90s"];
    let told = stage.site.json(&args).with_context(|| stage.recorder.screen())?;
    let receipt = told["receipt"].as_str().unwrap_or_default();
    ensure!(receipt == stage.cli.proves, "{text:?}: not {}, but {told}", stage.cli.proves);
    let task = told["task_id"].as_str().context("no task")?;
    Ok(Sent { header: header(task) })
}

/// What the model was told in a new turn, part by part.
pub(super) fn begun(entry: &Entry) -> Option<&[String]> {
    match &entry.what {
        What::Began { turn: true, parts, results, .. } if results.is_empty() => Some(parts),
        _ => None,
    }
}

/// Every text with this in it that the model was told after a place of the log.
fn arrivals(stage: &Stage, place: usize, needle: &str) -> Vec<String> {
    let entries = stage.site.mock.log().entries();
    let parts = entries.iter().skip(place).filter_map(begun).flatten();
    parts.filter(|part| part.contains(needle)).cloned().collect()
}

/// The text with this in it reaches the model, and is `expected` but for one line end.
fn arrives(stage: &Stage, place: usize, sent: &Sent, body: &str) -> anyhow::Result<()> {
    let what = format!("{} reaches the model", sent.header);
    let part = stage.wait_mock(place, &what, |entry| {
        begun(entry)?.iter().find(|part| part.contains(&sent.header)).cloned()
    })?;
    let expected = format!("{} {body}", sent.header);
    ensure!(same(&part, &expected), "{}", difference(&part, &expected));
    Ok(())
}

/// But for one blank at its end: a line end stops popups, and OpenCode makes a space of it.
fn same(told: &str, expected: &str) -> bool {
    told.strip_suffix(['\n', ' ']).unwrap_or(told) == expected
}

/// Where two texts part, with a little of each.
fn difference(told: &str, expected: &str) -> String {
    const CHARS_MAX: usize = 80;
    let at = told.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str| text.chars().skip(at).take(CHARS_MAX).collect::<String>();
    format!("after {at} characters sent was {:?}, and the model was told {:?}", rest(expected), rest(told))
}

/// It has reached the model once, and not once more.
fn came_once(stage: &Stage, place: usize, sent: &Sent) -> anyhow::Result<()> {
    let all = arrivals(stage, place, &sent.header);
    ensure!(all.len() == 1, "{} reached the model {} times: {all:?}", sent.header, all.len());
    Ok(())
}

const EXACT: usize = 3;

fn exact(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    let line =
        "a line that is long enough to be wrapped somewhere, with some (signs) in it: #, 'x', \"y\" = {z}\n";
    let submit = shipped(stage.cli.name).context("no profile")?.submit;
    let mut long = String::new();
    for n in 1.. {
        let next = format!("{long}{n:3} {line}");
        if next.len() > LONG_BYTES || !submit.fits_inline(&next) {
            break;
        }
        long = next;
    }
    let texts: [&str; EXACT] =
        ["the tests fail on main", long.trim_end(), "日本語のメッセージ、改行なし 👩‍💻 そして 👨‍👩‍👧 と é"];
    deliver_all(stage, count, texts.map(|text| (text, text)).as_slice())
}

/// As long as a message may be that is typed whole.
const LONG_BYTES: usize = 8_000;

/// Each is sent, arrives as it should, and once.
fn deliver_all(stage: &Stage, count: &mut Count, texts: &[(&str, &str)]) -> anyhow::Result<()> {
    let first = stage.site.mock.log().len();
    let mut all = Vec::new();
    for (text, body) in texts {
        let place = stage.site.mock.log().len();
        let sent = submit(stage, text)?;
        arrives(stage, place, &sent, body)?;
        all.push(sent);
        count.one();
    }
    settle(stage)?;
    all.iter().try_for_each(|sent| came_once(stage, first, sent))
}

/// What would run something if it were typed as it is, and how it has to arrive.
const HOSTILE: &[(&str, &str)] = &[
    ("!touch x", "!touch x"),
    (" !touch x", " !touch x"),
    ("/help", "/help"),
    ("out\u{1b}[201~\r!touch x", "out[201~\n!touch x"),
    ("and look at @word", "and look at @word"),
    ("stop\u{3} it", "stop it"),
];

fn hostile(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    deliver_all(stage, count, HOSTILE)?;
    ensure!(!stage.site.work.join("x").exists(), "a message has run a command: the file x is there");
    Ok(())
}

/// Lines of a long answer: more than any screen has.
const LONG_LINES: u64 = 300;

/// `--response` brings what the model said, whole and without anything else: a short answer and a long one. What is
/// answered to a message that nobody waits for is in the history.
fn answer(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    let (text, request) = ask(stage, "what is it {{say it is; mark}}")?;
    ensure!(text == format!("it ismark{request}"), "the model said mark{request}; the answer is {text:?}");
    count.one();
    let (text, _) = ask(stage, &format!("tell me all {{{{lines {LONG_LINES}}}}}"))?;
    let lines = numbered_lines(LONG_LINES);
    ensure!(text == lines, "{}", difference(&text, &lines));
    count.one();
    settle(stage)?;
    one_way_answer(stage)?;
    count.one();
    settle(stage)
}

/// Sends a question, and gives its answer and the number of the request that brought it to the model.
fn ask(stage: &mut Stage, question: &str) -> anyhow::Result<(String, usize)> {
    let place = stage.site.mock.log().len();
    let args = ["send", stage.cli.name, question, "--response", "--timeout", "90s"];
    let told = stage.site.json(&args).with_context(|| stage.recorder.screen())?;
    let needle = header(told["task_id"].as_str().context("no task")?);
    let request = stage.wait_mock(place, "the question reaches the model", |entry| {
        begun(entry)?.iter().any(|part| part.contains(&needle)).then_some(entry.request)
    })?;
    let (text, why) = (told["answer"]["text"].as_str().unwrap_or_default(), told["why"].to_string());
    let source = stage.cli.answers_from;
    ensure!(why.contains(source), "the answer is not from its {source}: {why}");
    Ok((text.to_owned(), request))
}

/// What is answered to a message that nobody waits for is in the history.
fn one_way_answer(stage: &mut Stage) -> anyhow::Result<()> {
    let place = stage.site.mock.log().len();
    let told = stage.site.json(&["send", stage.cli.name, "and this {{say it is; mark}}"])?;
    let task = told["task_id"].as_str().context("no task")?;
    let needle = header(task);
    let request = stage.wait_mock(place, "the message reaches the model", |entry| {
        begun(entry)?.iter().any(|part| part.contains(&needle)).then_some(entry.request)
    })?;
    let (mark, mut last) = (format!("mark{request}"), serde_json::Value::Null);
    let waited = wait_until(stage, "the answer is in the history", || {
        last = stage.site.json(&["history", "--task", task]).unwrap_or_default();
        last[0]["outcome"]["answer"]["text"].as_str().is_some_and(|text| text.contains(&mark))
    });
    waited.with_context(|| format!("the model said {mark}; the history has {last}"))
}

/// Waits until it holds.
fn wait_until(stage: &Stage, what: &str, mut holds: impl FnMut() -> bool) -> anyhow::Result<()> {
    const BETWEEN: Duration = Duration::from_millis(50);
    let until = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > until {
            bail!("not within {} s: {what}\n{}", PATIENCE.as_secs(), stage.recorder.screen());
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(())
}

fn composer_of(stage: &Stage) -> anyhow::Result<Holds> {
    let profile = shipped(stage.cli.name).context("no profile")?;
    let composer = profile.composer.context("its profile has no composer")?;
    Ok(stage.recorder.composer(&composer))
}

/// Waits until the CLI is idle and its composer is empty.
pub(super) fn settle(stage: &Stage) -> anyhow::Result<()> {
    stage.wait_state("idle", 0)?;
    wait_until(stage, "the composer is empty", || composer_of(stage).is_ok_and(|holds| holds == Holds::Empty))
}

/// The CLI lives and is idle.
fn is_well(stage: &Stage) -> anyhow::Result<()> {
    ensure!(!stage.recorder.has_ended(), "the CLI has ended");
    stage.wait_state("idle", 0).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_blank_at_the_end_is_no_difference() {
        for (told, good) in [("ab", true), ("ab\n", true), ("ab ", true), ("ab\n\n", false), ("a b", false)] {
            assert_eq!(same(told, "ab"), good, "{told:?}");
        }
        assert!(difference("abX", "abY").contains("after 2 characters sent was \"Y\""));
    }
}
