//! Facts about the machine that explain the numbers: cores, kernel, disk, and load.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};

use super::report::median;

/// Above this load, other work runs on the machine.
const LOAD_QUIET: f64 = 1.0;

pub(super) fn facts(folder: &Path) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let cores = std::thread::available_parallelism()?.get();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = load_average()?;
    if load > LOAD_QUIET {
        eprintln!("the load average is {load}: other work is going on, times will be too long");
    }
    Ok(vec![
        ("cores", json!(cores)),
        ("kernel", json!(kernel.trim())),
        ("fdatasync of 4 KiB appended, p50 µs", json!(sync_micros(folder)?.round())),
        ("load average at the start", json!(load)),
    ])
}

fn load_average() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("reading /proc/loadavg")?;
    text.split_whitespace().next().context("an empty load average")?.parse().context("the load average")
}

/// The minimum cost of one durable write.
fn sync_micros(folder: &Path) -> anyhow::Result<f64> {
    const WRITES: usize = 300;
    let path = folder.join("sync.tmp");
    let mut file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
    let mut took = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    fs::remove_file(&path)?;
    Ok(median(&took))
}
