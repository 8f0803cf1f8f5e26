//! Memory over many tasks: the node's memory after a tenth of them, and after all.

use super::super::report::Row;
use super::super::{Bench, proc};
use super::server_of;

const CONNECTIONS: usize = 16;
/// How much memory all ended tasks together may leave in use.
const GROWTH_MB_MAX: f64 = 10.0;

pub(in super::super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let entry = bench.stage.echo("flat")?;
    let server = server_of(&bench.stage, &entry)?;
    let (tasks, name) = bench.pick(
        (1_000_000, "memory from task 100,000 to 1,000,000: growth"),
        (5_000, "memory from task 500 to 5,000: growth"),
    );
    let megabytes = || anyhow::Ok(proc::private_bytes(entry.node_pid)? as f64 / f64::from(1 << 20));
    let first = tasks / 10;
    server.load(CONNECTIONS, first, || Ok(()))?;
    let early = megabytes()?;
    let tally = server.load(CONNECTIONS, tasks - first, || Ok(()))?;
    let late = megabytes()?;
    let journal = std::fs::metadata(bench.stage.journal_of(&entry))?.len() as f64 / f64::from(1 << 20);
    Ok(vec![
        Row::at_most(name, (late - early).max(0.0), "MB", GROWTH_MB_MAX)
            .beside("in the end", late, "MB")
            .beside("on disk", journal, "MB")
            .beside("tasks", tally.per_second(), "/s"),
    ])
}
