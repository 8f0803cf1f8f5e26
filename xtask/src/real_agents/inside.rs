//! The part that runs in a network with only loopback.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow, bail};
use synapse_testkit::mock_llm::now_ms;

use super::catalog::Cli;
use super::judge::{Cell, grace_ms};
use super::report::{self, Round};
use super::stage::Stage;
use super::{Wish, catalog, deliver, page, scenario, talk};
use crate::shell;

pub(super) fn run(root: &Path, agents: &Path, wish: &Wish) -> anyhow::Result<()> {
    shell::show(root, &["ip", "link", "set", "lo", "up"], &[]).context("bringing loopback up")?;
    let synapse = root.join("target/debug/synapse");
    let version = shell::read(root, &[&synapse.to_string_lossy(), "--version"])?;
    let page = wish.write.then(|| page::Page::open(root, wish.add)).transpose()?;
    let _load = wish.load.then(Load::begin);
    let mut rounds = Vec::new();
    for n in 1..=wish.rounds {
        for clis in wish.clis.chunks(wish.at_once) {
            let names: Vec<&str> = clis.iter().map(|cli| cli.name).collect();
            eprintln!("round {n} of {}: {}", wish.rounds, names.join(", "));
            rounds.extend(side_by_side(&synapse, agents, clis, n, wish)?);
        }
        let talks = wish.talks();
        if !talks.is_empty() {
            eprintln!("round {n} of {}: {}", wish.rounds, talks.join(", "));
            rounds.extend(talks_of(&synapse, agents, &talks, n, wish)?);
        }
        // Ten rounds of all CLIs take hours. A run that is interrupted keeps its finished rounds.
        if let Some(page) = &page {
            page.write(root, wish.size, wish.load, &rounds)?;
        }
    }
    let mut failed = rounds.iter().filter(|round| !round.is_good()).count();
    let repeated = if wish.retry { repeat_failed(&synapse, agents, &rounds, wish)? } else { Vec::new() };
    failed -= repeated.iter().filter(|round| round.is_good()).count();
    if wish.json {
        println!("{:#}", report::json(version.trim(), &rounds));
    } else {
        print!("{}", report::table(version.trim(), &rounds));
        if !repeated.is_empty() {
            println!("\nwhat failed, once more");
            print!("{}", report::table(version.trim(), &repeated));
        }
    }
    if failed > 0 {
        bail!("{failed} rounds failed");
    }
    Ok(())
}

/// Programs of others on a machine that may be busy: each round that failed, a second time. Both tries are shown, and
/// only the first goes on the page.
fn repeat_failed(synapse: &Path, agents: &Path, rounds: &[Round], wish: &Wish) -> anyhow::Result<Vec<Round>> {
    let mut repeated = Vec::new();
    for failed in rounds.iter().filter(|round| !round.is_good()) {
        eprintln!("once more: {}", failed.name());
        match failed.clis[..] {
            [cli] => repeated.push(round(synapse, agents, cli, failed.n, wish)?),
            _ => repeated.extend(talks_of(synapse, agents, &failed.steps, failed.n, wish)?),
        }
    }
    Ok(repeated)
}

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
    let kept = agents.join("runs").join(format!("{}-{}-{}-{n}", cli.name, cli.version, now_ms()));
    let before = load();
    // Its question is approved from elsewhere.
    let is_too_low = |step: &str| step == "a2a" && wish.size.1 < cli.approve_rows_min;
    let can = |step: &&str| !cli.without.contains(step) && !is_too_low(step) && deliver::is_for(step, cli);
    let steps: Vec<&str> = wish.steps().into_iter().filter(can).collect();
    let cells = match Stage::begin(synapse, agents, cli, &kept, wish) {
        Ok(mut stage) => {
            let grace = grace_now(before);
            let (mut cells, truth) = scenario::play(&mut stage, &steps, || grace_now(before).max(grace));
            // Not after a step that could not be done: who knows what it has left behind.
            if cells.iter().all(|cell| cell.is_good() || cell.samples > 0) {
                cells.extend(deliver::play(&mut stage, n, |case| steps.contains(&case)));
            }
            stage.keep(&truth)?;
            cells
        }
        Err(error) => vec![Cell::failed("start", format!("{error:#}"))],
    };
    let round = Round { clis: vec![cli], n, steps, grace_ms: grace_now(before), cells, kept: kept.clone() };
    forget(&round, wish)?;
    Ok(round)
}

/// The talks, at once; each in a home of its own.
fn talks_of(
    synapse: &Path,
    agents: &Path,
    talks: &[&'static str],
    n: usize,
    wish: &Wish,
) -> anyhow::Result<Vec<Round>> {
    let clis = vec![catalog::find("codex")?, catalog::find("claude")?];
    let one = |talk: &'static str| {
        let kept = agents.join("runs").join(format!("{}-{}-{n}", talk.replace(' ', "-"), now_ms()));
        let cells = talk::play(talk, synapse, agents, &kept);
        let round = Round { clis: clis.clone(), n, steps: vec![talk], grace_ms: 0, cells, kept };
        forget(&round, wish).map(|()| round)
    };
    std::thread::scope(|scope| {
        let each: Vec<_> = talks.iter().map(|talk| scope.spawn(|| one(talk))).collect();
        let broke = |_| Err(anyhow!("a talk broke off; what it said is above"));
        each.into_iter().map(|one| one.join().unwrap_or_else(broke)).collect()
    })
}

/// What was recorded of a round is not needed if all was well.
fn forget(round: &Round, wish: &Wish) -> anyhow::Result<()> {
    if round.is_good() && !wish.keep {
        fs::remove_dir_all(&round.kept).with_context(|| format!("removing {}", round.kept.display()))?;
    }
    Ok(())
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

/// Keeps every core busy until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let over = over.clone();
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
