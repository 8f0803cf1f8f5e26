//! Recordings: asciinema casts of real sessions, and how well the states seen agree with the true ones.
//!
//! Agreement: every 0.1 s from the first true idle on; 0.7 s of grace after each true change could be seen. Between a
//! change and when it could be seen, a program may report it already; nothing is counted there.

use crate::fold::Verdict;
use crate::profile::Profile;
use crate::screen::Size;
use crate::watch::Watch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

/// One thing that happened in a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub at_ms: u64,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Output(String),
    Input(String),
    Resize(Size),
    /// A note at this time, which is not shown on the screen.
    Marker(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub size: Size,
    pub events: Vec<Event>,
}

/// A true state, from when on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct True {
    t: f64,
    state: TrueState,
    /// When the change could be seen.
    #[serde(default)]
    t_ui: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TrueState {
    Starting,
    Idle,
    Busy,
    Waiting,
    Error,
    Unknown,
}

impl TrueState {
    fn state(self) -> AgentState {
        match self {
            Self::Starting => AgentState::Starting,
            Self::Idle => AgentState::Idle,
            Self::Busy => AgentState::Busy,
            Self::Waiting => AgentState::Waiting,
            Self::Error => AgentState::Error,
            Self::Unknown => AgentState::Unknown,
        }
    }
}

/// Why a file is no recording, or no truth.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadRecording {
    pub line: usize,
    pub why: String,
}

impl Recording {
    /// Reads an asciinema cast, version 2.
    pub fn parse(text: &str) -> Result<Self, BadRecording> {
        #[derive(Deserialize)]
        struct Head {
            version: u64,
            width: u16,
            height: u16,
        }
        let bad = |line: usize, why: String| BadRecording { line, why };
        let mut lines = text.lines().enumerate();
        let (_, first) = lines.next().ok_or_else(|| bad(1, "it is empty".into()))?;
        let head: Head =
            serde_json::from_str(first).map_err(|e| bad(1, format!("not the head of a cast: {e}")))?;
        if head.version != 2 {
            return Err(bad(1, format!("version {} is not known; use asciinema's version 2", head.version)));
        }
        let mut events: Vec<Event> = Vec::new();
        for (n, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let (at, kind, data): (f64, String, String) =
                serde_json::from_str(line).map_err(|e| bad(n + 1, format!("not an event: {e}")))?;
            if !at.is_finite() || at < 0.0 {
                return Err(bad(n + 1, format!("{at} is no time")));
            }
            let what = match kind.as_str() {
                "o" => What::Output(data),
                "i" => What::Input(data),
                "m" => What::Marker(data),
                "r" => match data.split_once('x').map(|(c, r)| (c.parse(), r.parse())) {
                    Some((Ok(columns), Ok(rows))) => What::Resize(Size::new(columns, rows)),
                    _ => return Err(bad(n + 1, format!("{data:?} is no size"))),
                },
                _ => continue,
            };
            events.push(Event { at_ms: (at * 1000.0).round() as u64, what });
        }
        Ok(Self { size: Size::new(head.width, head.height), events })
    }
}

/// Reads the true states of a recording.
pub fn parse_truth(text: &str) -> Result<Vec<True>, BadRecording> {
    serde_json::from_str(text).map_err(|e| BadRecording { line: e.line(), why: e.to_string() })
}

/// How well the states agree. The names are part of `synapse profile test --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// Share of the samples that were right, 0 to 1.
    pub agreement: f64,
    pub samples: usize,
    /// How long true waiting was seen as idle or busy.
    pub waiting_missed_ms: u64,
    /// How long true waiting was seen as idle.
    pub waiting_as_idle_ms: u64,
    pub delay_ms_p95: Option<u64>,
    /// `true>seen`, and how long, milliseconds.
    pub confusions: BTreeMap<String, u64>,
}

/// A state seen, from when on.
pub type Timeline = Vec<(u64, AgentState)>;

const STEP_MS: u64 = 100;
const GRACE_MS: u64 = 700;

/// Plays a recording through the code that runs live.
pub fn play(recording: &Recording, profile: Profile) -> Timeline {
    play_in_pieces(recording, profile, &mut |left| left)
}

/// The same with output and input in pieces: `piece` gets how many bytes are left and gives how many come next, at
/// least one. The states must not depend on it.
pub fn play_in_pieces(
    recording: &Recording,
    profile: Profile,
    piece: &mut dyn FnMut(usize) -> usize,
) -> Timeline {
    let mut timeline = Timeline::new();
    watched_in_pieces(recording, profile, end_of(recording), piece, |at, watch| {
        if timeline.last().is_none_or(|(_, last)| *last != watch.state()) {
            timeline.push((at, watch.state()));
        }
    });
    timeline
}

/// Every verdict, and from when on it held.
pub fn verdicts(recording: &Recording, profile: Profile) -> Vec<(u64, Verdict)> {
    let mut told: Vec<(u64, Verdict)> = Vec::new();
    watched(recording, profile, end_of(recording), |at, watch| {
        let new = watch.verdict();
        if told
            .last()
            .is_none_or(|(_, last)| (last.state, last.source, &last.why) != (new.state, new.source, &new.why))
        {
            told.push((at, new.clone()));
        }
    });
    told
}

/// A moment after the last event: what is due by then has happened.
fn end_of(recording: &Recording) -> u64 {
    recording.events.last().map_or(0, |event| event.at_ms) + 2_000
}

/// Plays a recording up to a moment, and tells after each change what was seen; the watch as it then is.
pub fn watched(recording: &Recording, profile: Profile, end: u64, note: impl FnMut(u64, &Watch)) -> Watch {
    watched_in_pieces(recording, profile, end, &mut |left| left, note)
}

fn watched_in_pieces(
    recording: &Recording,
    profile: Profile,
    end: u64,
    piece: &mut dyn FnMut(usize) -> usize,
    mut note: impl FnMut(u64, &Watch),
) -> Watch {
    let mut watch = Watch::new(Timestamp(0), profile, recording.size, 100);
    note(0, &watch);
    let until = recording.events.iter().take_while(|event| event.at_ms <= end);
    for (at, what) in until.map(|e| (e.at_ms, Some(&e.what))).chain([(end, None)]) {
        while let Some(due) = watch.next_tick().filter(|due| due.0 < at) {
            watch.tick(due);
            note(due.0, &watch);
            if watch.next_tick() == Some(due) {
                break;
            }
        }
        let now = Timestamp(at);
        match what {
            Some(What::Output(text)) => {
                in_pieces(text.as_bytes(), piece, |bytes| drop(watch.output(now, bytes)));
            }
            Some(What::Input(text)) => in_pieces(text.as_bytes(), piece, |bytes| watch.input(now, bytes)),
            Some(What::Resize(size)) => watch.resize(now, *size),
            Some(What::Marker(_)) | None => watch.tick(now),
        }
        note(at, &watch);
    }
    watch
}

fn in_pieces(mut bytes: &[u8], piece: &mut dyn FnMut(usize) -> usize, mut take: impl FnMut(&[u8])) {
    while !bytes.is_empty() {
        let (first, rest) = bytes.split_at(piece(bytes.len()).clamp(1, bytes.len()));
        take(first);
        bytes = rest;
    }
}

fn state_at(timeline: &Timeline, at: u64) -> AgentState {
    let after = timeline.partition_point(|(from, _)| *from <= at);
    timeline[after.saturating_sub(1)].1
}

/// A true change, and when it could be seen.
struct Change {
    at_ms: u64,
    seen_ms: u64,
    state: AgentState,
}

fn changes_in(truth: &[True]) -> Vec<Change> {
    let ms = |t: f64| (t * 1000.0).round() as u64;
    let mut changes: Vec<Change> = Vec::new();
    for one in truth {
        let state = one.state.state();
        if changes.last().is_none_or(|last| last.state != state) {
            let seen_ms = ms(one.t_ui.unwrap_or(one.t));
            changes.push(Change { at_ms: ms(one.t).min(seen_ms), seen_ms, state });
        }
    }
    changes
}

/// Compares what was seen with what was true.
pub fn score(timeline: &Timeline, truth: &[True], end_ms: u64) -> Score {
    let changes = changes_in(truth);
    let first = changes
        .iter()
        .find(|change| change.state == AgentState::Idle)
        .map_or(end_ms, |change| change.seen_ms);
    let (mut right, mut samples, mut missed, mut as_idle) = (0, 0, 0, 0);
    let mut confusions = BTreeMap::new();
    for at in (first..end_ms).step_by(STEP_MS as usize) {
        let now = &changes[changes.partition_point(|change| change.at_ms <= at).saturating_sub(1)];
        if at < now.seen_ms + GRACE_MS {
            continue;
        }
        samples += 1;
        let (state, seen) = (now.state, state_at(timeline, at));
        if seen == state {
            right += 1;
            continue;
        }
        *confusions.entry(format!("{}>{}", state.name(), seen.name())).or_insert(0) += STEP_MS;
        if state == AgentState::Waiting && matches!(seen, AgentState::Idle | AgentState::Busy) {
            missed += STEP_MS;
            as_idle += if seen == AgentState::Idle { STEP_MS } else { 0 };
        }
    }
    let agreement = if samples == 0 { 1.0 } else { f64::from(right) / samples as f64 };
    let delay_ms_p95 = p95(delays(timeline, &changes, end_ms));
    Score {
        agreement,
        samples,
        waiting_missed_ms: missed,
        waiting_as_idle_ms: as_idle,
        delay_ms_p95,
        confusions,
    }
}

/// For each true change after the first idle: how long until it was seen.
fn delays(timeline: &Timeline, changes: &[Change], end_ms: u64) -> Vec<u64> {
    let from = changes.iter().position(|change| change.state == AgentState::Idle).unwrap_or(changes.len());
    // What became true after the last event cannot be seen in it.
    let later = changes.iter().enumerate().skip(from + 1).filter(|(_, change)| change.seen_ms < end_ms);
    later
        .map(|(n, Change { seen_ms: at, state, .. })| {
            let until = changes.get(n + 1).map_or(end_ms, |next| next.seen_ms.min(end_ms));
            (*at..until).find(|t| state_at(timeline, *t) == *state).map_or(until - at, |t| t - at)
        })
        .collect()
}

fn p95(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    Some(values[(last as f64 * 0.95).round() as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codex reports a permission half a second before it draws the question.
    #[test]
    fn report_before_the_change_could_be_seen_is_not_wrong() {
        let truth = r#"[{"t":0,"state":"idle"},{"t":1,"state":"busy"},{"t":2,"state":"waiting","t_ui":4}]"#;
        let truth = parse_truth(truth).unwrap();
        for (reported_ms, agreement) in [(2_000, true), (4_000, true), (1_800, false), (5_000, false)] {
            let seen =
                vec![(0, AgentState::Idle), (1_000, AgentState::Busy), (reported_ms, AgentState::Waiting)];
            let score = score(&seen, &truth, 6_000);
            assert_eq!(score.agreement > 0.999, agreement, "{reported_ms}: {score:?}");
        }
    }

    #[test]
    fn a_truth_that_goes_on_after_the_recording_is_scored_up_to_its_end() {
        let truth = r#"[{"t":0,"state":"idle"},{"t":0.5,"state":"busy"},{"t":3,"state":"idle"},{"t":4,"state":"error"}]"#;
        let seen = vec![(0, AgentState::Idle), (600, AgentState::Busy)];
        let score = score(&seen, &parse_truth(truth).unwrap(), 2_000);
        assert_eq!((score.agreement, score.delay_ms_p95), (1.0, Some(100)));
    }
}
