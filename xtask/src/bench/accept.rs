//! Messages into one mailbox, each acknowledged after fsync, compared with SQLite's own commits of
//! the same size.
//!
//! Rounds of both alternate, so that a slow minute of the disk slows both. A mailbox holds 10,000
//! messages, so each round uses a new one.

use anyhow::Context;

use super::client::{Ask, Door, Round, Tally, Until, get};
use super::raw::{self, Shape};
use super::report::{Row, median};
use super::{Bench, proc};

/// Below the limit of a mailbox.
const MESSAGES: u64 = 9_500;
const CLIENTS: usize = 32;
const IN_FLIGHT: usize = 16;
/// The rows per commit to compare 32 callers with that wait for each answer: a commit for half of
/// them.
const ROWS_ONE_EACH: usize = 16;

const PER_SECOND_MIN: f64 = 10_000.0;
const SHARE_OF_RAW_MIN: f64 = 0.5;

/// The result of one round against the node.
struct Taken {
    tally: Tally,
    shape: Shape,
    node_us: f64,
    client_us: f64,
}

/// The rounds for one number of connections, node and raw SQLite alternating.
#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    raw: Vec<f64>,
    batch: Vec<f64>,
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
    node_us: Vec<f64>,
    client_us: Vec<f64>,
}

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let count = bench.pick(5, 2);
    let pipelined = rounds(bench, "pipelined", (CLIENTS, Ask::Stream(IN_FLIGHT)), count, None)?;
    let requests = rounds(bench, "requests", (CLIENTS * IN_FLIGHT, Ask::Message), count, None)?;
    let one_each = rounds(bench, "one-each", (CLIENTS, Ask::Message), count, Some(ROWS_ONE_EACH))?;
    let mut rows = vec![Row::at_least(
        "durable accept, 32 clients × 16 in flight",
        median(&pipelined.per_second),
        "/s",
        PER_SECOND_MIN,
    )];
    rows.extend(pipelined.rows("durable accept, 32 × 16"));
    rows.push(Row::at_least(
        "durable accept, a request each on 512 connections",
        median(&requests.per_second),
        "/s",
        PER_SECOND_MIN,
    ));
    rows.extend(requests.told("durable accept, 512 connections"));
    rows.push(Row::told("durable accept, 32 clients, one at a time", median(&one_each.per_second), "/s"));
    rows.extend(one_each.rows("durable accept, 32 × 1"));
    Ok(rows)
}

impl Rounds {
    /// How many cores are busy. If all are, the processor is the limit, not the disk.
    fn cores_busy(&self) -> f64 {
        median(&self.per_second) * (median(&self.node_us) + median(&self.client_us)) / 1e6
    }

    fn rows(&self, name: &str) -> Vec<Row> {
        let mut rows = self.told(name);
        let share = self.share();
        rows[0] = Row::at_least(format!("{name}: share of raw SQLite"), share, "×", SHARE_OF_RAW_MIN)
            .beside("raw SQLite", median(&self.raw), "rows/s")
            .beside("node's batch", median(&self.batch), "rows");
        rows
    }

    fn share(&self) -> f64 {
        let shares: Vec<f64> = self.per_second.iter().zip(&self.raw).map(|(node, raw)| node / raw).collect();
        median(&shares)
    }

    /// The same rows without a bar.
    fn told(&self, name: &str) -> Vec<Row> {
        vec![
            Row::told(format!("{name}: share of raw SQLite"), self.share(), "×")
                .beside("raw SQLite", median(&self.raw), "rows/s")
                .beside("node's batch", median(&self.batch), "rows"),
            Row::told(format!("{name}: latency p50"), median(&self.p50_ms), "ms").beside(
                "p99",
                median(&self.p99_ms),
                "ms",
            ),
            Row::told(format!("{name}: node's CPU for one"), median(&self.node_us), "µs")
                .beside("client's", median(&self.client_us), "µs")
                .beside("cores busy with both", self.cores_busy(), ""),
        ]
    }
}

fn rounds(
    bench: &Bench,
    name: &str,
    load: (usize, Ask),
    count: usize,
    raw_rows: Option<usize>,
) -> anyhow::Result<Rounds> {
    let mut rounds = Rounds::default();
    // The first round tells the shape of the rows and warms up the disk. It is not counted.
    let mut shape = one(bench, &format!("{name}-warm"), load)?.shape;
    for n in 0..count {
        let batch = raw_rows.unwrap_or(shape.batch);
        rounds.raw.push(raw::rows_per_second(&bench.folder, MESSAGES as usize, Shape { batch, ..shape })?);
        let mut taken = one(bench, &format!("{name}-{n}"), load)?;
        shape = taken.shape;
        rounds.per_second.push(taken.tally.per_second());
        rounds.batch.push(shape.batch as f64);
        rounds.p50_ms.push(taken.tally.latency_ms(0.5));
        rounds.p99_ms.push(taken.tally.latency_ms(0.99));
        rounds.node_us.push(taken.node_us);
        rounds.client_us.push(taken.client_us);
    }
    Ok(rounds)
}

fn one(bench: &Bench, name: &str, (connections, ask): (usize, Ask)) -> anyhow::Result<Taken> {
    let sink = bench.stage.sink(name)?;
    let door = Door::Unix(sink.socket.clone());
    let round = Round { door: door.clone(), connections, ask, until: Until::Count(MESSAGES) };
    let mut before = (Counters::default(), proc::own_cpu()?, proc::cpu_of(sink.node_pid)?);
    let tally = round.run(|| {
        before = (Counters::read(&door)?, proc::own_cpu()?, proc::cpu_of(sink.node_pid)?);
        Ok(())
    })?;
    let (node, own) = (proc::cpu_of(sink.node_pid)? - before.2, proc::own_cpu()? - before.1);
    let after = Counters::read(&door)?;
    anyhow::ensure!(tally.answered == MESSAGES, "{} of {MESSAGES} messages were taken", tally.answered);
    bench.stage.stop(name)?;
    let (head_bytes, body_bytes) = raw::lengths(&bench.stage.journal_of(&sink))?;
    let (records, commits) = (after.records - before.0.records, after.commits - before.0.commits);
    let batch = (records as f64 / commits.max(1) as f64).round() as usize;
    let each = 1e6 / MESSAGES as f64;
    Ok(Taken {
        tally,
        shape: Shape { head_bytes, body_bytes, batch },
        node_us: node.as_secs_f64() * each,
        client_us: own.as_secs_f64() * each,
    })
}

/// The counters that the node reports.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) records: u64,
    pub(super) commits: u64,
}

impl Counters {
    pub(super) fn read(door: &Door) -> anyhow::Result<Self> {
        Self::parse(&get(door, "/metrics")?)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let counter = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|n| n.trim().parse().ok()).with_context(|| format!("/metrics has no {name}"))
        };
        Ok(Self { records: counter("synapse_records_total")?, commits: counter("synapse_commits_total")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_among_their_help() {
        let text = "# HELP synapse_records_total all\nsynapse_records_total 12\nsynapse_commits_total 3\n";
        assert_eq!(Counters::parse(text).unwrap(), Counters { records: 12, commits: 3 });
        assert!(Counters::parse("").is_err());
    }
}
