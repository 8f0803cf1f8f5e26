//! What was true, what was seen, and whether they agree.
//!
//! Every 0.1 s of a step is looked at, but for a while after each true change, the grace: 0.7 s as for recordings, and
//! longer on a machine that has more to do than it can.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A true state, from when on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct True {
    pub at_ms: u64,
    pub state: &'static str,
    /// When the change could be seen from outside.
    pub shown_ms: u64,
}

impl True {
    pub fn new(at_ms: u64, state: &'static str) -> Self {
        Self { at_ms, state, shown_ms: at_ms }
    }

    pub fn shown(at_ms: u64, state: &'static str, shown_ms: u64) -> Self {
        Self { at_ms, state, shown_ms }
    }
}

/// A state that the node told, from when on.
pub(super) type Seen = (u64, String);

/// One step of one CLI, judged.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub step: &'static str,
    pub samples: usize,
    pub right: usize,
    /// For each change, how long until it was seen.
    pub delays_ms: Vec<u64>,
    /// All the states told, in order.
    pub states: Vec<String>,
    pub faults: Vec<String>,
    /// How many of its parts were done, of how many, where it has parts.
    pub parts: Option<(usize, usize)>,
}

const AGREEMENT_MIN: f64 = 0.97;
const STEP_MS: usize = 100;
pub(super) const GRACE_MS: u64 = 700;
const GRACE_MS_MAX: u64 = 2_000;

/// The grace for a machine on which so many programs want to run on so many cores.
pub(super) fn grace_ms(load: f64, cores: usize) -> u64 {
    let times = (load / cores.max(1) as f64).max(1.0);
    ((GRACE_MS as f64 * times) as u64).min(GRACE_MS_MAX)
}

impl Cell {
    /// Judges what was seen between `from` and `to`. `seen` begins with the state at `from`, or before.
    pub fn judge(
        step: &'static str,
        truth: &[True],
        seen: &[Seen],
        (from, to): (u64, u64),
        grace_ms: u64,
    ) -> Self {
        let states = names(&within(seen, from, to));
        let mut cell = Self { states, ..Self::new(step) };
        let expected: Vec<&str> = truth.iter().map(|one| one.state).collect();
        let longer = names(&without_short_busy(within(seen, from, to), grace_ms));
        if cell.states != expected && longer != expected {
            cell.faults.push(format!("told {}; true was {}", cell.states.join("→"), expected.join("→")));
        }
        let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
        for at in (from..to).step_by(STEP_MS) {
            let Some(now) = truth.iter().rev().find(|one| one.at_ms <= at) else { continue };
            if at < now.shown_ms + grace_ms {
                continue;
            }
            cell.samples += 1;
            let told = state_at(seen, at);
            if told == now.state {
                cell.right += 1;
            } else {
                *wrong.entry(format!("{} told as {told}", now.state)).or_default() += STEP_MS;
            }
        }
        for (what, ms) in wrong {
            // However short: an Enter at that moment would approve.
            if what.starts_with("waiting") || cell.agreement() < AGREEMENT_MIN {
                cell.faults.push(format!("{what} for {:.1} s", ms as f64 / 1000.0));
            }
        }
        cell.delays_ms = delays(truth, seen, to);
        cell
    }

    pub(super) fn new(step: &'static str) -> Self {
        Self {
            step,
            samples: 0,
            right: 0,
            delays_ms: Vec::new(),
            states: Vec::new(),
            faults: Vec::new(),
            parts: None,
        }
    }

    pub fn failed(step: &'static str, fault: String) -> Self {
        Self { faults: vec![fault], ..Self::new(step) }
    }

    /// A case of several parts, and why not all of them are good.
    pub fn counted(step: &'static str, parts: (usize, usize), fault: Option<String>) -> Self {
        Self { parts: Some(parts), faults: fault.into_iter().collect(), ..Self::new(step) }
    }

    /// For a table.
    pub fn mark(&self) -> String {
        let mark = if self.is_good() { "✓" } else { "✗" };
        self.parts.map_or_else(|| mark.to_owned(), |(done, of)| format!("{mark} {done}/{of}"))
    }

    pub fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    pub fn agreement(&self) -> f64 {
        if self.samples == 0 { 1.0 } else { self.right as f64 / self.samples as f64 }
    }

    pub fn json(&self) -> Value {
        json!({
            "step": self.step, "good": self.is_good(), "agreement": self.agreement(), "samples": self.samples,
            "delays_ms": self.delays_ms, "states": self.states, "faults": self.faults,
            "done": self.parts.map(|(done, _)| done), "of": self.parts.map(|(_, of)| of),
        })
    }
}

fn state_at(seen: &[Seen], at: u64) -> &str {
    seen.iter().rev().find(|(from, _)| *from <= at).map_or("nothing", |(_, state)| state)
}

/// What was told, beginning with what held at `from`.
fn within(seen: &[Seen], from: u64, to: u64) -> Vec<Seen> {
    let before = seen.iter().rev().find(|(at, _)| *at <= from).into_iter();
    before.chain(seen.iter().filter(|(at, _)| *at > from && *at < to)).cloned().collect()
}

/// A program whose question was just refused may work for a moment more, and may be said to.
fn without_short_busy(seen: Vec<Seen>, grace_ms: u64) -> Vec<Seen> {
    let is_left_out = |n: usize| {
        let (Some((_, before)), Some((until, after))) = (n.checked_sub(1).map(|b| &seen[b]), seen.get(n + 1))
        else {
            return false;
        };
        let (from, state) = &seen[n];
        state == "busy" && before == "waiting" && after == "idle" && until - from < grace_ms
    };
    (0..seen.len()).filter(|n| !is_left_out(*n)).map(|n| seen[n].clone()).collect()
}

fn names(seen: &[Seen]) -> Vec<String> {
    let mut states: Vec<String> = seen.iter().map(|(_, state)| state.clone()).collect();
    states.dedup();
    states
}

/// For each true change but the first: how long after it could be seen the node told it.
fn delays(truth: &[True], seen: &[Seen], to: u64) -> Vec<u64> {
    let mut delays = Vec::new();
    for (n, one) in truth.iter().enumerate().skip(1) {
        let until = truth.get(n + 1).map_or(to, |next| next.at_ms);
        let told = seen.iter().rev().find(|(at, state)| *at < until && state == one.state);
        let first = told.map_or(until, |(at, _)| *at);
        delays.push(first.saturating_sub(one.shown_ms));
    }
    delays
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds and states, such as `0 idle, 1.5 busy`.
    fn read(text: &str) -> Vec<(u64, String)> {
        let parts = text.split(", ").map(|part| part.split_once(' ').unwrap());
        parts.map(|(at, state)| ((at.parse::<f64>().unwrap() * 1000.0) as u64, state.to_owned())).collect()
    }

    fn check(truth: &str, seen: &str, good: bool, fault: &str) -> Cell {
        const KNOWN: [&str; 4] = ["starting", "idle", "busy", "waiting"];
        let name = |state: &str| KNOWN.into_iter().find(|known| *known == state).unwrap();
        let truth: Vec<True> = read(truth).iter().map(|(at, state)| True::new(*at, name(state))).collect();
        let cell = Cell::judge("test", &truth, &read(seen), (0, 20_000), GRACE_MS);
        assert_eq!(cell.is_good(), good, "{cell:?}");
        assert!(cell.faults.join("; ").contains(fault), "{cell:?}");
        cell
    }

    #[test]
    fn what_is_told_in_time_is_good() {
        let cell = check("0 idle, 2 busy, 9 idle", "0 idle, 2.2 busy, 9.5 idle", true, "");
        assert_eq!((cell.delays_ms.as_slice(), cell.agreement()), ([200, 500].as_slice(), 1.0));
    }

    #[test]
    fn a_short_lie_is_a_lie() {
        check(
            "0 idle, 2 busy, 9 idle",
            "0 idle, 2 busy, 4 idle, 4.1 busy, 9 idle",
            false,
            "idle→busy→idle→busy→idle",
        );
        check("0 idle, 2 waiting", "0 idle, 2 waiting, 19.8 busy", false, "waiting told as busy for 0.2 s");
        check("0 idle, 2 busy, 9 idle", "0 idle, 2 busy, 12 idle", false, "idle told as busy");
        check("0 idle, 2 busy", "0 idle", false, "busy told as idle");
    }

    #[test]
    fn a_moment_of_work_after_a_refusal_is_none() {
        check(
            "0 idle, 2 busy, 2.5 waiting, 9 idle",
            "0 idle, 2 busy, 2.5 waiting, 9 busy, 9.5 idle",
            true,
            "",
        );
        check("0 idle, 2 waiting, 9 idle", "0 idle, 2 waiting, 9 busy, 12 idle", false, "busy");
    }

    #[test]
    fn a_loaded_machine_is_given_more_time() {
        assert_eq!((grace_ms(0.3, 2), grace_ms(4.0, 2), grace_ms(90.0, 2)), (700, 1400, 2000));
    }
}
