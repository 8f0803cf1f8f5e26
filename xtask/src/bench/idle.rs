//! An agent without requests: its memory, how often it wakes, what its start costs.

use std::time::{Duration, Instant};

use synapse_store::registry::Entry;

use super::client::{Door, get};
use super::proc::Sleeps;
use super::report::{Row, median};
use super::{Bench, proc};

const SETTLE: Duration = Duration::from_secs(4);
const NODE_MB_MAX: f64 = 10.0;
const WAKE_UPS_MAX: f64 = 1.0;
/// The time span that the bar on wake-ups applies to.
const SPAN: Duration = Duration::from_secs(5);
const START_MS_MAX: f64 = 40.0;
const STARTS: usize = 10;

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    bench.stage.start("quiet")?;
    let quiet = bench.stage.wait_for("quiet", |_| true)?;
    std::thread::sleep(SETTLE);
    let mut rows = memory(&quiet)?;
    rows.extend(wake_ups(&quiet, bench.pick(Duration::from_secs(20), Duration::from_secs(6)))?);
    rows.push(cold_start(bench)?);
    Ok(rows)
}

fn memory(quiet: &Entry) -> anyhow::Result<Vec<Row>> {
    let mb = |pid| Ok::<_, anyhow::Error>(proc::private_bytes(pid)? as f64 / f64::from(1 << 20));
    let (node, holder) = (mb(quiet.node_pid)?, mb(quiet.pid)?);
    Ok(vec![
        Row::at_most("idle node, private memory", node, "MB", NODE_MB_MAX)
            .beside("its holder", holder, "MB")
            .beside("both", node + holder, "MB"),
    ])
}

fn wake_ups(quiet: &Entry, watched: Duration) -> anyhow::Result<Vec<Row>> {
    let before = (Sleeps::of(quiet.node_pid)?, Sleeps::of(quiet.pid)?, proc::cpu_of(quiet.node_pid)?);
    std::thread::sleep(watched);
    let per_span = |count: u64| count as f64 * SPAN.as_secs_f64() / watched.as_secs_f64();
    let node = per_span(Sleeps::of(quiet.node_pid)?.since(&before.0));
    let holder = per_span(Sleeps::of(quiet.pid)?.since(&before.1));
    let cpu = (proc::cpu_of(quiet.node_pid)? - before.2).as_secs_f64() * 1e3;
    Ok(vec![
        Row::at_most("idle node, wake-ups in 5 s", node, "", WAKE_UPS_MAX).beside("CPU meanwhile", cpu, "ms"),
        Row::at_most("idle holder, wake-ups in 5 s", holder, "", WAKE_UPS_MAX),
    ])
}

/// The CPU time that the node has used when its port first answers.
fn cold_start(bench: &Bench) -> anyhow::Result<Row> {
    let (mut node_ms, mut holder_ms, mut wall_ms) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..STARTS {
        let name = format!("fresh-{n}");
        let began = Instant::now();
        bench.stage.start(&name)?;
        let entry = bench.stage.wait_for(&name, |_| true)?;
        get(&Door::Tcp(entry.port), "/status")?;
        node_ms.push(proc::cpu_of(entry.node_pid)?.as_secs_f64() * 1e3);
        wall_ms.push(began.elapsed().as_secs_f64() * 1e3);
        holder_ms.push(proc::cpu_of(entry.pid)?.as_secs_f64() * 1e3);
        bench.stage.stop(&name)?;
    }
    Ok(Row::at_most("cold start until /status answers", median(&node_ms), "ms CPU", START_MS_MAX)
        .beside("its holder", median(&holder_ms), "ms CPU")
        .beside("wall from `synapse run`", median(&wall_ms), "ms"))
}
