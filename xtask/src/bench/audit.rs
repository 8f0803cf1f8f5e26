//! The cost of the audit log: the rate of durable accepts with and without it, alternating within
//! one run (REST-9).
//!
//! Other work on the machine only slows a round down, by more than the difference measured here. So
//! the best round of each is compared. A mailbox holds 10,000 messages, so each round uses a new
//! one.

use anyhow::Context;

use super::client::{Ask, Door, Round, Until};
use super::report::{Row, median};
use super::{Bench, proc};

/// Below the limit of a mailbox.
const MESSAGES: u64 = 9_500;
const CLIENTS: usize = 32;
const IN_FLIGHT: usize = 16;
const RATIO_MIN: f64 = 0.95;

#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    node_us: Vec<f64>,
}

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let streamed = compare(bench, "stream", (CLIENTS, Ask::Stream(IN_FLIGHT)))?;
    let asked = compare(bench, "request", (CLIENTS * IN_FLIGHT, Ask::Message))?;
    Ok(vec![
        row("audit on ÷ off, durable accept, 32 clients × 16 in flight", &streamed),
        row("audit on ÷ off, durable accept, a request each on 512 connections", &asked),
    ])
}

fn row(name: &str, (on, off): &(Rounds, Rounds)) -> Row {
    let best = |rounds: &Rounds| rounds.per_second.iter().copied().fold(0.0, f64::max);
    Row::at_least(name, best(on) / best(off).max(1.0), "×", RATIO_MIN)
        .beside("best on", best(on), "/s")
        .beside("best off", best(off), "/s")
        .beside("median on", median(&on.per_second), "/s")
        .beside("median off", median(&off.per_second), "/s")
        .beside("node's CPU for one, on", median(&on.node_us), "µs")
        .beside("off", median(&off.node_us), "µs")
}

fn compare(bench: &Bench, name: &str, load: (usize, Ask)) -> anyhow::Result<(Rounds, Rounds)> {
    let (mut on, mut off) = (Rounds::default(), Rounds::default());
    // The first round of each warms up the disk and is not counted.
    for n in 0..=bench.pick(12, 3) {
        // The first of a pair has colder caches, so alternate the order.
        for audited in if n % 2 == 0 { [true, false] } else { [false, true] } {
            let (rate, cpu) = one(bench, &format!("{name}-{audited}-{n}"), load, audited)?;
            let rounds = if audited { &mut on } else { &mut off };
            if n > 0 {
                rounds.per_second.push(rate);
                rounds.node_us.push(cpu);
            }
        }
    }
    Ok((on, off))
}

/// Returns messages per second, and the node's CPU time per message in microseconds.
fn one(
    bench: &Bench,
    name: &str,
    (connections, ask): (usize, Ask),
    audited: bool,
) -> anyhow::Result<(f64, f64)> {
    let settings = bench.stage.settings_file();
    let text = format!("{{\"audit\": {{\"enabled\": {audited}}}}}\n");
    std::fs::write(&settings, text).with_context(|| format!("writing {}", settings.display()))?;
    let sink = bench.stage.sink(name)?;
    let door = Door::Unix(sink.socket.clone());
    let round = Round { door, connections, ask, until: Until::Count(MESSAGES) };
    let mut before = proc::cpu_of(sink.node_pid)?;
    let tally = round.run(|| {
        before = proc::cpu_of(sink.node_pid)?;
        Ok(())
    })?;
    let cpu = proc::cpu_of(sink.node_pid)? - before;
    anyhow::ensure!(tally.answered == MESSAGES, "{} of {MESSAGES} messages were taken", tally.answered);
    bench.stage.stop(name)?;
    std::fs::remove_file(&settings).with_context(|| format!("removing {}", settings.display()))?;
    let log = bench.stage.audit_of(&sink);
    anyhow::ensure!(log.is_dir() == audited, "the audit log at {} is not as wished", log.display());
    Ok((tally.per_second(), cpu.as_secs_f64() * 1e6 / MESSAGES as f64))
}
