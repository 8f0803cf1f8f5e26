//! The round trip of one key to the program and back to the person's terminal, compared with a bare
//! terminal.
//!
//! The program echoes every byte. Keys are sent one at a time, as a person types, in blocks that
//! alternate between the two terminals, so that other work on the machine affects both.

use std::path::Path;
use std::time::{Duration, Instant};

use super::output;
use super::pty::Pty;
use super::rivals::{Rivals, Wrapper};
use super::{COLUMNS, ROWS};
use crate::bench::Bench;
use crate::bench::report::Row;

const ADDED_P99_MS_MAX: f64 = 1.0;
/// Keys in one block.
const BLOCK: usize = 50;
/// The pause between two keys: fast for a person, and long enough for every process to sleep again.
const PAUSE: Duration = Duration::from_millis(4);
/// A byte that does not occur in the output.
const KEY: u8 = 0x1e;

pub(in crate::bench) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let blocks = bench.pick(40, 10);
    let quiet = both(bench, "stty raw -echo; printf '\\176READY~'; exec cat", blocks)?;
    let busy = both(bench, &printing(&output::file(&bench.folder, 1)?), blocks / 2)?;
    let row = |name: &str, both: &mut Both, bar: Option<f64>| {
        let [wrapped, bare] = [&mut both.wrapped, &mut both.bare];
        let added = wrapped.ms(0.99) - bare.ms(0.99);
        let row = match bar {
            Some(bar) => Row::at_most(name, added, "ms", bar),
            None => Row::told(name, added, "ms"),
        };
        row.beside("added at p50", wrapped.ms(0.5) - bare.ms(0.5), "ms")
            .beside("p99", wrapped.ms(0.99), "ms")
            .beside("bare p99", bare.ms(0.99), "ms")
            .beside("bare p50", bare.ms(0.5), "ms")
    };
    let (mut quiet, mut busy) = (quiet, busy);
    Ok(vec![
        row("a key and its echo, added at p99", &mut quiet, Some(ADDED_P99_MS_MAX)),
        row("… while the program prints 1 MB/s", &mut busy, None),
    ])
}

/// A program that repeatedly prints something and pauses, and echoes keys meanwhile.
fn printing(file: &Path) -> String {
    format!(
        "stty raw -echo; printf '\\176READY~'; \
         (while :; do head -c 20000 '{}'; sleep 0.02; done) & exec cat",
        file.display()
    )
}

struct Both {
    wrapped: Latencies,
    bare: Latencies,
}

fn both(bench: &Bench, line: &str, blocks: usize) -> anyhow::Result<Both> {
    let rivals = Rivals::new(bench);
    let mut wrapped = open(&rivals, Wrapper::Synapse, line)?;
    let measured = (|| {
        let mut bare = open(&rivals, Wrapper::Nothing, line)?;
        let mut both = Both { wrapped: Latencies::default(), bare: Latencies::default() };
        for block in 0..=blocks {
            // The idle terminal must still be read, or its program would block.
            let (a, b) = (&mut wrapped, &mut bare);
            let some = std::thread::scope(|scope| {
                let idle = scope.spawn(|| b.drain(block_span()));
                let typed = type_keys(a);
                idle.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
                typed
            })?;
            let others = std::thread::scope(|scope| {
                let idle = scope.spawn(|| wrapped.drain(block_span()));
                let typed = type_keys(&mut bare);
                idle.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
                typed
            })?;
            // The first block is the warm-up.
            if block > 0 {
                both.wrapped.0.extend(some);
                both.bare.0.extend(others);
            }
        }
        Ok(both)
    })();
    rivals.end(Wrapper::Synapse)?;
    measured
}

fn block_span() -> Duration {
    PAUSE * u32::try_from(BLOCK).unwrap_or(1)
}

fn open(rivals: &Rivals<'_>, wrapper: Wrapper, line: &str) -> anyhow::Result<Pty> {
    let mut pty = Pty::start(&rivals.command(wrapper, line)?, COLUMNS, ROWS)?;
    pty.read_until("~READY~")?;
    Ok(pty)
}

/// Types one block of keys. Returns the round trip of each in milliseconds.
fn type_keys(pty: &mut Pty) -> anyhow::Result<Vec<f64>> {
    let mut took = Vec::with_capacity(BLOCK);
    for _ in 0..BLOCK {
        let began = Instant::now();
        pty.keys(&[KEY])?;
        while !pty.read()?.contains(&KEY) {}
        took.push(began.elapsed().as_secs_f64() * 1e3);
        pty.drain(PAUSE)?;
    }
    Ok(took)
}

#[derive(Default)]
struct Latencies(Vec<f64>);

impl Latencies {
    /// The time in milliseconds that this share of the keys did not exceed.
    fn ms(&mut self, share: f64) -> f64 {
        self.0.sort_by(f64::total_cmp);
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
    }
}
