//! The set `delivery`: how messages reach the programs of agents.
//!
//! The program is one of our own. It logs, with the machine's monotonic clock, when the first byte
//! of a message arrives and when its turn ends. Rivals get the same program and the same messages.
//! Not here: the cost of a tool call (`mcp`), which needs no terminal.

pub(crate) mod agent;
mod arrive;
mod clis;
mod drain;
mod hcom;
mod log;
mod order;
mod ours;
mod post;
mod synapse_a2a;
mod witness;

pub(super) use arrive::measure as arrive;
pub(super) use clis::measure as clis;
pub(super) use drain::measure as drain;

use std::time::Duration;

use nix::time::ClockId;

/// The hidden subcommand that makes this binary act as that program.
pub(crate) const AGENT: &str = "__agent";

/// Nanoseconds of the monotonic clock, which all processes share.
fn now_ns() -> u64 {
    // Every supported system has this clock.
    let since = ClockId::CLOCK_MONOTONIC.now().map(Duration::from).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn ms_between(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}

/// Times of one kind, milliseconds.
#[derive(Debug, Default, Clone)]
struct Times(Vec<f64>);

impl Times {
    fn push(&mut self, ms: f64) {
        self.0.push(ms);
    }

    /// The time in milliseconds that this share of them did not exceed.
    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_by_share() {
        let times = Times((1..=101).rev().map(f64::from).collect());
        for (share, ms) in [(0.0, 1.0), (0.5, 51.0), (0.99, 100.0), (1.0, 101.0)] {
            assert!((times.at(share) - ms).abs() < 1e-9, "{share}");
        }
        assert!(Times::default().at(0.5).abs() < 1e-9);
    }

    #[test]
    fn the_clock_goes_on() {
        let before = now_ns();
        assert!(before > 0 && now_ns() >= before);
        assert!((ms_between(1_000_000, 3_500_000) - 2.5).abs() < 1e-9);
        assert!(ms_between(2, 1).abs() < 1e-9);
    }
}
