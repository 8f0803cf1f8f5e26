//! The set `terminal`: what the wrapper between a program and a person's terminal costs.
//!
//! Everything runs in a PTY of the benchmark, which acts as the person's terminal and reads all
//! output. Rivals get the same program, the same bytes and the same window size.

mod flood;
mod keys;
mod memory;
mod output;
mod pty;
mod rivals;

pub(super) use flood::measure as flood;
pub(super) use keys::measure as keys;
pub(super) use memory::{flat, quiet};
pub(super) use pty::Pty;

use std::time::{Duration, Instant};

use anyhow::bail;
use synapse_store::registry::Entry;

use super::client::{Door, get};

/// The window size of all measurements here.
pub(super) const COLUMNS: u16 = 120;
pub(super) const ROWS: u16 = 40;

/// The screen as the node sees it.
fn screen_of(agent: &Entry) -> anyhow::Result<Vec<String>> {
    let text = get(&Door::Unix(agent.socket.clone()), "/api/v1/screen?format=text")?;
    let rows = text.split_once("\r\n\r\n").map_or(text.as_str(), |(_, body)| body);
    Ok(rows.lines().map(str::to_owned).collect())
}

/// Waits until the node's screen model shows `part`. Polls rarely, since each poll costs the node a
/// little.
fn wait_for_screen(agent: &Entry, part: &str) -> anyhow::Result<Vec<String>> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let began = Instant::now();
    loop {
        let rows = screen_of(agent)?;
        if rows.iter().any(|row| row.contains(part)) {
            return Ok(rows);
        }
        if began.elapsed() > PATIENCE {
            bail!(
                "the node does not show {part:?} within {} s, but:\n{}",
                PATIENCE.as_secs(),
                rows.join("\n")
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
