//! The cost of one command: the CPU time of its process from start to end, as the kernel counts it.
//!
//! Compared with `true`, which does nothing: the cost of any process.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::report::{Row, median};
use super::{Bench, proc};

const SEND_MS_MAX: f64 = 8.0;
const VERSION_MS_MAX: f64 = 3.0;
const LIST_MS_MAX: f64 = 50.0;
const AGENTS: usize = 100;
const AGENTS_AT_ONCE: usize = 8;

pub(super) fn one_process(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let runs = bench.pick(200, 50);
    bench.stage.sink("reader")?;
    let send = || bench.stage.command(&["send", "reader", "a message of no great length"]);
    let floor = median_of(runs, idle_process)?;
    let version = median_of(runs, || bench.stage.command(&["--version"]))?;
    let sent = median_of(runs, send)?;
    let row = |name, cost: Cost, bar| {
        Row::at_most(name, cost.cpu_ms, "ms CPU", bar).beside("`true`", floor.cpu_ms, "ms CPU").beside(
            "wall",
            cost.wall_ms,
            "ms",
        )
    };
    Ok(vec![
        row("`synapse --version`", version, VERSION_MS_MAX),
        row("`synapse send`, start to stored", sent, SEND_MS_MAX),
    ])
}

pub(super) fn list(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let began = Instant::now();
    let names: Vec<String> = (0..AGENTS).map(|n| format!("a{n:03}")).collect();
    for some in names.chunks(AGENTS_AT_ONCE) {
        std::thread::scope(|scope| {
            let starts: Vec<_> = some.iter().map(|name| scope.spawn(|| bench.stage.start(name))).collect();
            for start in starts {
                start.join().map_err(|_| anyhow::anyhow!("a start panicked"))??;
            }
            anyhow::Ok(())
        })?;
    }
    let started = began.elapsed().as_secs_f64();
    let found = bench.stage.entries().len();
    anyhow::ensure!(found == AGENTS, "{found} of {AGENTS} agents run");
    let listed = median_of(20, || bench.stage.command(&["list"]))?;
    Ok(vec![
        Row::at_most("`synapse list` of 100 agents", listed.cpu_ms, "ms CPU", LIST_MS_MAX)
            .beside("wall", listed.wall_ms, "ms")
            .beside("starting them", started, "s"),
    ])
}

fn idle_process() -> Command {
    let mut command = Command::new("true");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[derive(Clone, Copy)]
pub(super) struct Cost {
    pub(super) cpu_ms: f64,
    pub(super) wall_ms: f64,
}

/// Runs the command this many times, one after another. No other child process may be waited for
/// meanwhile.
pub(super) fn median_of(runs: usize, command: impl Fn() -> Command) -> anyhow::Result<Cost> {
    let (mut cpu, mut wall) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for _ in 0..runs {
        let mut command = command();
        let (before, began) = (proc::children_cpu()?, Instant::now());
        let ended = command.status()?;
        anyhow::ensure!(ended.success(), "{command:?} ended with {ended}");
        wall.push(began.elapsed().as_secs_f64() * 1e3);
        cpu.push((proc::children_cpu()? - before).as_secs_f64() * 1e3);
    }
    Ok(Cost { cpu_ms: median(&cpu), wall_ms: median(&wall) })
}
