//! Follows what an agent is doing, as its node tells everyone: each change, with the node's own time of it.

use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Since 1970, milliseconds.
    pub at_ms: u64,
    pub state: String,
    pub why: String,
}

impl Seen {
    pub fn json(&self) -> Value {
        json!({ "at_ms": self.at_ms, "state": self.state, "why": self.why })
    }
}

/// `synapse list --watch --json`, for one agent. Nothing is polled.
pub struct States {
    child: Child,
    seen: Shared,
}

type Shared = Arc<(Mutex<Vec<Seen>>, Condvar)>;

impl States {
    /// `synapse` is the binary, with the environment it is to have. Start this before the agent to miss nothing.
    pub fn follow(mut synapse: Command, name: &str) -> io::Result<Self> {
        synapse.args(["list", "--watch", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = synapse.spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let (seen, name) = (Shared::default(), name.to_owned());
        let to = seen.clone();
        std::thread::Builder::new().name("states".into()).spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let Ok(change) = serde_json::from_str::<Value>(&line) else { continue };
                if change["agent"]["name"] == name.as_str() {
                    note(&mut lock(&to), &change);
                    to.1.notify_all();
                }
            }
        })?;
        Ok(Self { child, seen })
    }

    pub fn all(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// Waits until it is in this state and has been since `from_ms` or later; when that began.
    pub fn wait_for(&self, state: &str, from_ms: u64, patience: Duration) -> Option<u64> {
        let until = Instant::now() + patience;
        let mut seen = lock(&self.seen);
        loop {
            if let Some(last) = seen.last().filter(|last| last.state == state && last.at_ms >= from_ms) {
                return Some(last.at_ms);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            seen = self.seen.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn note(seen: &mut Vec<Seen>, change: &Value) {
    let agent = &change["agent"];
    let text = |name: &str| agent[name].as_str().unwrap_or_default().to_owned();
    let state = if change["change"] == "gone" { "gone".to_owned() } else { text("state") };
    match seen.last_mut() {
        Some(last) if last.state == state => last.why = text("why"),
        _ => {
            seen.push(Seen { at_ms: agent["since_ms"].as_u64().unwrap_or_default(), state, why: text("why") })
        }
    }
}

fn lock(seen: &(Mutex<Vec<Seen>>, Condvar)) -> MutexGuard<'_, Vec<Seen>> {
    seen.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for States {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_state_is_a_change() {
        let mut seen = Vec::new();
        for (change, state, since, why) in [
            ("here", "starting", 1, "a"),
            ("state", "idle", 5, "b"),
            ("state", "idle", 5, "c"),
            ("gone", "idle", 5, "c"),
        ] {
            note(
                &mut seen,
                &json!({ "change": change, "agent": { "state": state, "since_ms": since, "why": why } }),
            );
        }
        let short: Vec<_> = seen.iter().map(|s| (s.at_ms, s.state.as_str(), s.why.as_str())).collect();
        assert_eq!(short, [(1, "starting", "a"), (5, "idle", "c"), (5, "gone", "c")]);
    }
}
