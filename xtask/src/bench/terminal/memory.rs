//! Memory of a terminal agent: right after its start, with full scrollback, and during long output.
//!
//! Measured is the private memory of holder and node together, without the program.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use synapse_store::registry::Entry;
use synapse_terminal::SCROLLBACK;

use super::output;
use super::{screen_of, wait_for_screen};
use crate::bench::Bench;
use crate::bench::proc::{self, Sleeps};
use crate::bench::report::Row;

const FRESH_MB_MAX: f64 = 11.0;
const FULL_MB_MAX: f64 = 20.0;
const WAKE_UPS_MAX: f64 = 1.0;
/// The time span that the bar on wake-ups applies to.
const SPAN: Duration = Duration::from_secs(5);
const SETTLE: Duration = Duration::from_secs(4);
/// How much more memory the second half of a long flood may need than the first.
const GROWTH_MB_MAX: f64 = 1.0;

pub(in crate::bench) fn quiet(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    start(bench, "fresh", "exec sleep 1000")?;
    let fresh = bench.stage.wait_for("fresh", |_| true)?;
    std::thread::sleep(SETTLE);
    let mut rows = vec![
        row("fresh idle agent, private memory", &fresh, FRESH_MB_MAX)?,
        wake_ups(&fresh, bench.pick(Duration::from_secs(20), Duration::from_secs(6)))?,
    ];
    // One agent at a time: two would share the program's code, and each would seem smaller.
    bench.stage.stop("fresh")?;
    let file = output::file(&bench.folder, 1)?;
    start(bench, "full", &full_scrollback(&file))?;
    let full = bench.stage.wait_for("full", |_| true)?;
    wait_for_screen(&full, "~END~")?;
    std::thread::sleep(SETTLE);
    rows.push(row(&format!("with {SCROLLBACK} lines of scrollback"), &full, FULL_MB_MAX)?);
    Ok(rows)
}

/// Prints far more lines than are kept.
fn full_scrollback(file: &Path) -> String {
    format!("cat '{}'; printf '\\176END~'; exec sleep 1000", file.display())
}

fn start(bench: &Bench, name: &str, line: &str) -> anyhow::Result<()> {
    bench.stage.must(&["run", "--detach", "--name", name, "--", "sh", "-c", line])
}

fn row(name: &str, agent: &Entry, bar: f64) -> anyhow::Result<Row> {
    let (holder, node) = of_both(agent, proc::private_bytes)?;
    let (of_holder, of_node) = of_both(agent, proc::written_bytes)?;
    Ok(Row::at_most(name, holder + node, "MB", bar)
        .beside("its node", node, "MB")
        .beside("its holder", holder, "MB")
        .beside("both without the program's code", of_holder + of_node, "MB"))
}

/// The memory of the holder and of the node, in megabytes.
fn of_both(agent: &Entry, bytes: impl Fn(u32) -> anyhow::Result<u64>) -> anyhow::Result<(f64, f64)> {
    let mb = |pid| Ok::<_, anyhow::Error>(bytes(pid)? as f64 / f64::from(1 << 20));
    Ok((mb(agent.pid)?, mb(agent.node_pid)?))
}

fn wake_ups(agent: &Entry, watched: Duration) -> anyhow::Result<Row> {
    let sleeps = || Ok::<_, anyhow::Error>((Sleeps::of(agent.pid)?, Sleeps::of(agent.node_pid)?));
    let before = sleeps()?;
    std::thread::sleep(watched);
    let after = sleeps()?;
    let per_span = |count: u64| count as f64 * SPAN.as_secs_f64() / watched.as_secs_f64();
    let (holder, node) = (per_span(after.0.since(&before.0)), per_span(after.1.since(&before.1)));
    Ok(Row::at_most("… wake-ups in 5 s, both", holder + node, "", WAKE_UPS_MAX).beside("its node", node, ""))
}

/// Much more output than is ever kept: memory must not grow with it. Nobody is attached, so only
/// the node limits the speed.
pub(in crate::bench) fn flat(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (megabytes, times) = bench.pick((200, 10), (20, 5));
    let file = output::file(&bench.folder, megabytes)?;
    let line = format!(
        "n=0; while [ $n -lt {times} ]; do cat '{}'; n=$((n+1)); done; printf '\\176END~'; exec sleep 1000",
        file.display()
    );
    start(bench, "long", &line)?;
    let agent = bench.stage.wait_for("long", |_| true)?;
    let began = Instant::now();
    let samples = sample(&agent)?;
    let took = began.elapsed().as_secs_f64();
    let half = samples.len() / 2;
    let most = samples.iter().copied().fold(0.0, f64::max);
    // During the first samples the buffers still grow. How much output is buffered at a sample is
    // chance, so compare the medians of many samples.
    let (early, late) = (median(&samples[half / 4..half]), median(&samples[half..]));
    let gigabytes = (megabytes * times) as f64 / 1e3;
    Ok(vec![
        Row::at_most(
            format!("{gigabytes:.1} GB of output, memory added by its second half"),
            late - early,
            "MB",
            GROWTH_MB_MAX,
        )
        .beside("median of the first", early, "MB")
        .beside("of the second", late, "MB")
        .beside("most", most, "MB")
        .beside("speed, nobody watching", gigabytes * 1e3 / took, "MB/s"),
    ])
}

fn median(some: &[f64]) -> f64 {
    let mut sorted = some.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Samples the memory of both until the end of the output is on the screen, in megabytes.
fn sample(agent: &Entry) -> anyhow::Result<Vec<f64>> {
    const EVERY: Duration = Duration::from_millis(100);
    const PATIENCE: Duration = Duration::from_secs(600);
    let (began, mut samples) = (Instant::now(), Vec::new());
    loop {
        let (holder, node) = of_both(agent, proc::private_bytes).context("the agent while it prints")?;
        samples.push(holder + node);
        if screen_of(agent)?.iter().any(|row| row.contains("~END~")) {
            return Ok(samples);
        }
        if began.elapsed() > PATIENCE {
            bail!("the output did not come to its end within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(EVERY);
    }
}
