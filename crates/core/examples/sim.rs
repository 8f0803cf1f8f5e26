//! Runs the simulation for many seeds on all cores.
//!
//! Start it with `cargo run --release -p synapse-core --example sim`.
//!
//! `--seeds N` sets how many seeds to run, `--first-seed M` where to start, `--steps K` how long
//! each run is, and `--break NAME` which fault to inject on purpose. A violation is printed with
//! its story and the command that reproduces it; the exit code is then 1.

// This binary runs the pure code: it may use the clock and the command line.
#![allow(clippy::disallowed_methods)]

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use synapse_core::sim::{self, Breakage, Options, Report, Violation};

const USAGE: &str = "usage: sim [--seeds N] [--first-seed M] [--steps K] [--break NAME]";
const STORY_LINES: usize = 30;
/// Enough to see a pattern; the rest is only counted.
const STORIES_MAX: u64 = 3;

struct Wanted {
    seeds: u64,
    first_seed: u64,
    options: Options,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match parse(&words) {
        Ok(wanted) => run(&wanted),
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(words: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted { seeds: 100, first_seed: 0, options: Options::default() };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
        match name.as_str() {
            "--seeds" => wanted.seeds = number()?,
            "--first-seed" => wanted.first_seed = number()?,
            "--steps" => wanted.options.steps = number()?,
            "--break" => {
                let names: Vec<&str> = Breakage::ALL.iter().map(|b| b.name()).collect();
                let known = Breakage::parse(value);
                wanted.options.breakage =
                    Some(known.ok_or_else(|| format!("--break is one of: {}", names.join(", ")))?);
            }
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(wanted)
}

fn run(wanted: &Wanted) -> ExitCode {
    let began = Instant::now();
    let (next, violations) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = Mutex::new(Report::default());
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= wanted.seeds {
                        break;
                    }
                    match one(wanted.first_seed + n, &wanted.options) {
                        Ok(report) => add(&mut total.lock().expect("nobody panics holding it"), &report),
                        Err(violation) => {
                            if violations.fetch_add(1, Ordering::Relaxed) < STORIES_MAX {
                                show(&violation, &wanted.options);
                            }
                        }
                    }
                    if (n + 1).is_multiple_of(100) {
                        println!("{} seeds, {:.1} s", n + 1, began.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    let (report, violations) =
        (total.into_inner().expect("nobody panics holding it"), violations.into_inner());
    println!(
        "{} seeds: {} steps, {} turns, {} records, {} messages accepted, {} refused, {} deliveries, \
         {} tasks begun, {} ended, {} dead letters, {} crashes, {} commit failures, {} clock jumps, \
         {} events watched; {violations} violations; {:.1} s",
        wanted.seeds,
        report.steps,
        report.turns,
        report.records,
        report.accepted,
        report.refused,
        report.deliveries,
        report.begun,
        report.ended,
        report.dead_letters,
        report.crashes,
        report.commit_failures,
        report.clock_jumps,
        report.events_watched,
        began.elapsed().as_secs_f64()
    );
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one seed. A panic of the core counts as a violation, so that its seed is reported.
fn one(seed: u64, options: &Options) -> Result<Report, Violation> {
    catch_unwind(AssertUnwindSafe(|| sim::run(seed, options))).unwrap_or_else(|_| {
        let what = "the core panicked, see above".to_owned();
        Err(Violation { seed, step: 0, rule: sim::Rule::ReplayIsTheLiveState, what, story: Vec::new() })
    })
}

fn add(total: &mut Report, one: &Report) {
    total.steps += one.steps;
    total.turns += one.turns;
    total.records += one.records;
    total.accepted += one.accepted;
    total.refused += one.refused;
    total.deliveries += one.deliveries;
    total.begun += one.begun;
    total.ended += one.ended;
    total.dead_letters += one.dead_letters;
    total.crashes += one.crashes;
    total.commit_failures += one.commit_failures;
    total.clock_jumps += one.clock_jumps;
    total.events_watched += one.events_watched;
}

fn show(violation: &Violation, options: &Options) {
    let story = &violation.story[violation.story.len().saturating_sub(STORY_LINES)..];
    let broken = options.breakage.map_or(String::new(), |b| format!(" --break {}", b.name()));
    println!(
        "VIOLATION {violation}\n  {}\n  alone: cargo xtask sim --seeds 1 --first-seed {} --steps {}{broken}",
        story.join("\n  "),
        violation.seed,
        options.steps
    );
}
