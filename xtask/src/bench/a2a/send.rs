//! SendMessage to an echo over 16 connections, compared with the official servers and with the
//! disk's limit.
//!
//! The servers take turns, so that a slow minute slows all of them. A task of ours is some records
//! in some commits. SQLite alone, with as many rows in commits of the same size, gives the limit of
//! the run.

use anyhow::Context;

use super::super::accept::Counters;
use super::super::client::Door;
use super::super::raw::{self, Shape};
use super::super::report::{Row, median};
use super::super::{Bench, proc};
use super::rivals::Rival;
use super::server_of;

const CONNECTIONS: usize = 16;
const PYTHON_MIN: f64 = 20.0;
const RUST_MIN: f64 = 1.0;
const LIMIT_SHARE_MIN: f64 = 0.8;
const CPU_MS_MAX: f64 = 0.1;

#[derive(Default)]
struct Rounds {
    ours: Vec<f64>,
    python: Vec<f64>,
    rust: Vec<f64>,
    node_ms: Vec<f64>,
    own_ms: Vec<f64>,
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
    records: Vec<f64>,
    commits: Vec<f64>,
}

pub(in super::super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    // First, because building them takes minutes.
    let (python, rust) = (Rival::python(bench)?, Rival::rust(bench));
    let entry = bench.stage.echo("echo")?;
    let server = server_of(&bench.stage, &entry)?;
    let (many, few) = (bench.pick(20_000, 500), bench.pick(2_000, 100));
    let door = Door::Unix(entry.socket.clone());
    let mut rounds = Rounds::default();
    let mut before_load = None;
    for _ in 0..bench.pick(5, 2) {
        let mut tally = server.load(CONNECTIONS, many, || {
            let counted = Counters::read(&door)?;
            before_load = Some((counted, proc::cpu_of(entry.node_pid)?, proc::own_cpu()?));
            Ok(())
        })?;
        let (counted, node, own) = before_load.take().context("the round began")?;
        let each_ms = 1e3 / many as f64;
        rounds.node_ms.push((proc::cpu_of(entry.node_pid)? - node).as_secs_f64() * each_ms);
        rounds.own_ms.push((proc::own_cpu()? - own).as_secs_f64() * each_ms);
        let after = Counters::read(&door)?;
        rounds.records.push((after.records - counted.records) as f64 / many as f64);
        rounds.commits.push((after.commits - counted.commits) as f64 / many as f64);
        rounds.ours.push(tally.per_second());
        rounds.p50_ms.push(tally.latency_ms(0.5));
        rounds.p99_ms.push(tally.latency_ms(0.99));
        rounds.python.push(python.server.load(CONNECTIONS, few, || Ok(()))?.per_second());
        if let Ok(rust) = &rust {
            rounds.rust.push(rust.server.load(CONNECTIONS, many, || Ok(()))?.per_second());
        }
    }
    bench.stage.stop("echo")?;
    let (head_bytes, body_bytes) = raw::lengths(&bench.stage.journal_of(&entry))?;
    let (records, commits) = (median(&rounds.records), median(&rounds.commits));
    let batch = (records / commits.max(1e-9)).round() as usize;
    let shape = Shape { head_bytes, body_bytes, batch };
    let rows = raw::rows_per_second(&bench.folder, bench.pick(20_000, 1_000), shape)?;
    let memory = rust.as_ref().map(Rival::megabytes).map_err(|error| format!("{error:#}"));
    Ok(rounds.rows(rows / records.max(1e-9), memory))
}

impl Rounds {
    fn rows(&self, limit: f64, rust: Result<anyhow::Result<f64>, String>) -> Vec<Row> {
        let ours = median(&self.ours);
        let python = median(&self.python);
        let mut rows = vec![
            Row::told("SendMessage, 16 connections, durable", ours, "/s")
                .beside("p50", median(&self.p50_ms), "ms")
                .beside("p99", median(&self.p99_ms), "ms")
                .beside("records a task", median(&self.records), "")
                .beside("commits a task", median(&self.commits), ""),
            Row::at_least(
                "SendMessage: beside the Python SDK's server",
                ours / python.max(1e-9),
                "×",
                PYTHON_MIN,
            )
            .beside("it", python, "/s"),
        ];
        rows.push(match rust {
            Err(why) => Row::missing("SendMessage: beside the Rust crate", "×", RUST_MIN, why),
            Ok(memory) => self.beside_rust(ours, limit, memory.unwrap_or_default()),
        });
        rows.push(
            Row::at_most("SendMessage: node's CPU for one", median(&self.node_ms), "ms", CPU_MS_MAX).beside(
                "client and echo",
                median(&self.own_ms),
                "ms",
            ),
        );
        rows
    }

    /// The Rust crate stores nothing. If the disk is slower than the crate, the disk's limit is the
    /// comparison.
    fn beside_rust(&self, ours: f64, limit: f64, memory: f64) -> Row {
        let rust = median(&self.rust);
        let row = if limit < rust {
            let share = ours / limit.max(1e-9);
            Row::at_least("SendMessage: share of the commit limit", share, "×", LIMIT_SHARE_MIN)
        } else {
            Row::at_least("SendMessage: beside the Rust crate", ours / rust.max(1e-9), "×", RUST_MIN)
        };
        let row = row.beside("the Rust crate, which keeps nothing", rust, "/s");
        row.beside("its memory", memory, "MB").beside("commit limit", limit, "/s")
    }
}
