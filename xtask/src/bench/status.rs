//! `GET /status` on open connections, compared with a responder that does nothing else.

use std::time::Duration;

use super::client::{Ask, Door, Round, Until};
use super::report::Row;
use super::responder::Responder;
use super::{Bench, proc};

const CONNECTIONS: usize = 16;
const PER_SECOND_MIN: f64 = 25_000.0;

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let span = bench.pick(Duration::from_secs(5), Duration::from_secs(2));
    bench.stage.start("asked")?;
    let asked = bench.stage.wait_for("asked", |_| true)?;
    let responder = Responder::start()?;
    let limit = load(Door::Tcp(responder.port), span, None)?;
    drop(responder);
    let tcp = load(Door::Tcp(asked.port), span, Some(asked.node_pid))?;
    let unix = load(Door::Unix(asked.socket.clone()), span, Some(asked.node_pid))?;
    Ok(vec![
        Row::at_least("GET /status by TCP, 16 connections", tcp.per_second, "/s", PER_SECOND_MIN)
            .beside("bare responder", limit.per_second, "/s")
            .beside("for a CPU second of the node", tcp.per_cpu_second, "")
            .beside("p99", tcp.p99_ms, "ms"),
        Row::told("GET /status by Unix socket", unix.per_second, "/s")
            .beside("for a CPU second of the node", unix.per_cpu_second, "")
            .beside("p99", unix.p99_ms, "ms"),
    ])
}

struct Loaded {
    per_second: f64,
    per_cpu_second: f64,
    p99_ms: f64,
}

fn load(door: Door, span: Duration, node: Option<u32>) -> anyhow::Result<Loaded> {
    let round = Round { door, connections: CONNECTIONS, ask: Ask::Status, until: Until::Elapsed(span) };
    let cpu = || node.map_or(Ok(Duration::ZERO), proc::cpu_of);
    let mut before = Duration::ZERO;
    let mut tally = round.run(|| {
        before = cpu()?;
        Ok(())
    })?;
    let spent = cpu()? - before;
    Ok(Loaded {
        per_second: tally.per_second(),
        per_cpu_second: if spent.is_zero() { 0.0 } else { tally.answered as f64 / spent.as_secs_f64() },
        p99_ms: tally.latency_ms(0.99),
    })
}
