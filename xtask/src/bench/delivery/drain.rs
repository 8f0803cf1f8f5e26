//! Many messages for a busy program: once it is idle, they arrive one by one, in order, and without
//! pauses.
//!
//! A gap is the time between the end of a turn, as the program logs it, and the first byte of the
//! next message. The program is idle then, and a message waits. Only priorities 2 to 4 are used: 1
//! is never typed, and 5 stops the current turn.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::order::{Queued, overtaken};
use super::ours::Ours;
use super::witness::Witness;
use super::{Times, ms_between, now_ns};
use crate::bench::report::Row;
use crate::bench::{Bench, proc};

const GAP_MS_MAX: f64 = 300.0;
const PATIENCE: Duration = Duration::from_secs(30);
/// A short pause before Enter, so that many messages fit in. The time between the turns is what
/// counts.
const SUBMIT: &str = "{ settle_ms: 20 }";
/// A composer must be empty for 120 ms before a message is typed. No model has a shorter turn.
const TURN: &str = "turn=150";
/// If only the screen shows the state, a turn must be long enough to be seen there.
const TURN_SEEN: &str = "turn=300";
const SEEN: Duration = Duration::from_millis(500);

pub(in crate::bench) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count = bench.pick(1_000, 100);
    let reports = drain(bench, "reports", count, &[TURN])?;
    let silent = drain(bench, "silent", count / 10, &[TURN_SEEN, "silent"])?;
    let mut rows = reports.rows(&format!("{count} waiting messages"));
    rows.extend(silent.rows(&format!("… {}, and only the screen tells its state", count / 10)));
    Ok(rows)
}

struct Drained {
    gaps: Times,
    overtaken: usize,
    took_s: f64,
    /// CPU time of the node per message, in milliseconds.
    node_cpu: f64,
    /// The delays that the machine itself caused.
    machine: Times,
}

impl Drained {
    fn rows(&self, name: &str) -> Vec<Row> {
        vec![
            Row::at_most(format!("{name}: longest gap between turns"), self.gaps.at(1.0), "ms", GAP_MS_MAX)
                .beside("p50", self.gaps.at(0.5), "ms")
                .beside("p99", self.gaps.at(0.99), "ms")
                .beside("a thread that only sleeps and syncs was late by at most", self.machine.at(1.0), "ms")
                .beside("its p99", self.machine.at(0.99), "ms")
                .beside("all of them", self.took_s, "s")
                .beside("node's CPU for one", self.node_cpu, "ms"),
            Row::at_most(format!("{name}: out of order"), self.overtaken as f64, "", 0.0),
        ]
    }
}

fn drain(bench: &Bench, name: &'static str, count: usize, words: &[&str]) -> anyhow::Result<Drained> {
    let go = bench.stage.home().root().join(format!("{name}.go"));
    let hold = format!("hold={}", go.display());
    let mut all = vec![hold.as_str()];
    all.extend(words);
    let mut ours = Ours::start(bench, name, SUBMIT, &all)?;
    let mut post = ours.open()?;
    let mut put = |text: String, priority: u64| {
        let since_ms = now_ns() / 1_000_000;
        let (status, answer) = post.ask("/message", &json!({ "message": text, "priority": priority }))?;
        anyhow::ensure!(status == 200, "not taken: {answer}");
        Ok(Queued { priority, since_ms })
    };
    put("this turn lasts until all of them wait".to_owned(), 3)?;
    let held = ours.log.wait(0, "given", "until all of them wait", PATIENCE)?;
    let queued: Vec<Queued> =
        (0..count).map(|n| put(text_of(n), priority_of(n))).collect::<anyhow::Result<_>>()?;
    std::thread::sleep(SEEN);
    let cpu = proc::cpu_of(ours.entry.node_pid)?;
    let witness = Witness::start(&bench.folder)?;
    std::fs::write(&go, "").with_context(|| format!("writing {}", go.display()))?;
    let began = ours.log.wait(held, "idle", "", PATIENCE)?;
    let (mut left, mut gaps, mut idle) = (Vec::with_capacity(count), Times::default(), began);
    for _ in 0..count {
        let given = ours.log.wait(idle, "given", "", PATIENCE)?;
        let first = ours.log.last_before(given, "first")?;
        gaps.push(ms_between(ours.log.events[idle].at, first));
        left.push((number_in(&ours.log.events[given].text)?, first / 1_000_000));
        idle = ours.log.wait(given, "idle", "", PATIENCE)?;
    }
    let took_s = ms_between(ours.log.events[began].at, ours.log.events[idle].at) / 1e3;
    let machine = witness.end()?;
    let cpu = proc::cpu_of(ours.entry.node_pid)? - cpu;
    bench.stage.stop(name)?;
    let node_cpu = cpu.as_secs_f64() * 1e3 / count as f64;
    Ok(Drained { gaps, overtaken: overtaken(&queued, &left)?, took_s, node_cpu, machine })
}

/// All three priorities, mixed, and the same in every run.
fn priority_of(n: usize) -> u64 {
    2 + (n as u64 * 7_919) % 3
}

fn text_of(n: usize) -> String {
    format!("waiting message number {n};")
}

fn number_in(text: &str) -> anyhow::Result<usize> {
    let digits = text.split("number ").nth(1).and_then(|rest| rest.split(';').next());
    digits.and_then(|digits| digits.parse().ok()).with_context(|| format!("which message is {text:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_known_again() {
        assert_eq!(number_in(&format!("[A2A:1234:user] {}", text_of(17))).unwrap(), 17);
        assert!(number_in("something else").is_err());
        let some: Vec<u64> = (0..9).map(priority_of).collect();
        for priority in 2..=4 {
            assert_eq!(some.iter().filter(|one| **one == priority).count(), 3, "{some:?}");
        }
    }
}
