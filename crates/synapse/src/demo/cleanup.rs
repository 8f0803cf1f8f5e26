//! Cleans up after a demo: stops its agents and removes its home.
//!
//! Agents are found by their locks, because one that was interrupted while starting is not in the
//! registry yet.

use std::path::Path;
use std::time::{Duration, Instant};
use synapse_holder::{ProcessMark, holder_of};
use synapse_store::home::Home;

/// A holder gives its node and its commands at most this long.
const AGENTS_TIME: Duration = Duration::from_secs(20);
const FOLDER_TIME: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Stops all agents of this home. Returns whether all have ended.
pub(super) fn end_agents(home: &Home) -> bool {
    let began = Instant::now();
    let mut asked: Vec<ProcessMark> = Vec::new();
    loop {
        let running = holders(home);
        if running.is_empty() {
            return true;
        }
        if began.elapsed() > AGENTS_TIME {
            return false;
        }
        for holder in running.into_iter().filter(|holder| !asked.contains(holder)).collect::<Vec<_>>() {
            holder.terminate();
            asked.push(holder);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Removes the home. If a file is written meanwhile, the next attempt removes it.
pub(super) fn remove(root: &Path) -> bool {
    let began = Instant::now();
    while root.exists() && std::fs::remove_dir_all(root).is_err() && root.exists() {
        if began.elapsed() > FOLDER_TIME {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

fn holders(home: &Home) -> Vec<ProcessMark> {
    let agents = std::fs::read_dir(home.agents_dir()).into_iter().flatten().flatten();
    agents.filter_map(|agent| holder_of(&agent.path())).collect()
}
