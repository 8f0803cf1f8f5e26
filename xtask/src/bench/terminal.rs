//! The set `terminal`: what the wrapper costs between a program and the terminal of a person.
//!
//! Everything runs in a PTY of the benchmark's own, which plays the person's terminal and reads all that comes. Rivals
//! get the same program, the same bytes and the same window.

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

/// The window of everything that is measured here.
pub(super) const COLUMNS: u16 = 120;
pub(super) const ROWS: u16 = 40;

/// What the node thinks is on the screen.
fn screen_of(agent: &Entry) -> anyhow::Result<Vec<String>> {
    let text = get(&Door::Unix(agent.socket.clone()), "/api/v1/screen?format=text")?;
    let rows = text.split_once("\r\n\r\n").map_or(text.as_str(), |(_, body)| body);
    Ok(rows.lines().map(str::to_owned).collect())
}

/// Waits until the node's model shows `part`; looking costs the node little and is not done often.
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
