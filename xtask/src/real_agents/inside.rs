//! The part that runs in a network with only loopback.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use synapse_testkit::mock_llm::now_ms;

use super::Wish;
use super::catalog::Cli;
use super::judge::{Cell, grace_ms};
use super::report::{self, Round};
use super::scenario;
use super::stage::Stage;
use crate::shell;

pub(super) fn run(root: &Path, agents: &Path, wish: &Wish) -> anyhow::Result<()> {
    shell::show(root, &["ip", "link", "set", "lo", "up"], &[]).context("bringing loopback up")?;
    let synapse = root.join("target/debug/synapse");
    let version = shell::read(root, &[&synapse.to_string_lossy(), "--version"])?;
    let mut rounds = Vec::new();
    for n in 1..=wish.rounds {
        for clis in wish.clis.chunks(AT_ONCE) {
            let names: Vec<&str> = clis.iter().map(|cli| cli.name).collect();
            eprintln!("round {n} of {}: {}", wish.rounds, names.join(", "));
            rounds.extend(side_by_side(&synapse, agents, clis, n, wish)?);
        }
    }
    let good = rounds.iter().all(Round::is_good);
    if wish.json {
        println!("{:#}", report::json(version.trim(), &rounds));
    } else {
        print!("{}", report::table(version.trim(), &rounds));
    }
    if !good {
        bail!("not every step was seen as it was");
    }
    Ok(())
}

/// They wait more than they work; more of them at once would only measure the machine.
const AT_ONCE: usize = 2;

fn side_by_side(
    synapse: &Path,
    agents: &Path,
    clis: &[&'static Cli],
    n: usize,
    wish: &Wish,
) -> anyhow::Result<Vec<Round>> {
    std::thread::scope(|scope| {
        let each = clis.iter().map(|cli| scope.spawn(|| round(synapse, agents, cli, n, wish)));
        let each: Vec<_> = each.collect();
        let broke = |_| Err(anyhow!("a round broke off; what it said is above"));
        each.into_iter().map(|one| one.join().unwrap_or_else(broke)).collect()
    })
}

/// One CLI through all steps. What was recorded is kept if something is wrong, or if that is wished.
fn round(synapse: &Path, agents: &Path, cli: &'static Cli, n: usize, wish: &Wish) -> anyhow::Result<Round> {
    // Called after the moment, so that two may run beside each other.
    let kept = agents.join("runs").join(format!("{}-{}-{n}", cli.name, now_ms()));
    let before = load();
    let cells = match Stage::begin(synapse, agents, cli, &kept) {
        Ok(mut stage) => {
            let grace = grace_now(before);
            let (cells, truth) = scenario::play(&mut stage, wish.more, || grace_now(before).max(grace));
            stage.keep(&truth)?;
            cells
        }
        Err(error) => vec![Cell::failed("start", format!("{error:#}"))],
    };
    let round = Round {
        cli,
        n,
        steps: scenario::names(wish.more),
        grace_ms: grace_now(before),
        cells,
        kept: kept.clone(),
    };
    if round.is_good() && !wish.keep {
        fs::remove_dir_all(&kept).with_context(|| format!("removing {}", kept.display()))?;
    }
    Ok(round)
}

/// How many programs wanted to run, over the last minute.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn grace_now(before: f64) -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    grace_ms(load().max(before), cores)
}
