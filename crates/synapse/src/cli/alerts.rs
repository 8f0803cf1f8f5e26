//! Agents that begin to wait for a person, as a terminal tells of them: once for each prompt, by a bell and one line.
//!
//! Not here: the user's own command (`synapse_node`'s `notify`), drawing the line (`viewer`).

use super::bell::Bell;
use crate::agents::Roll;
use crate::show;
use std::collections::BTreeMap;
use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_core::ids::AgentId;
use synapse_settings::Places;
use synapse_store::home::Home;
use synapse_store::registry::{self, Entry};

/// Looked at again after this long, whatever the folder says.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Busy agents write their entries often; no more than so many looks.
const GATHER: Duration = Duration::from_millis(200);
const ASKS_CHARS_MAX: usize = 160;

/// Which prompts a terminal has told of.
#[derive(Debug)]
pub(super) struct Alerts {
    /// Prompts that are older were there before the terminal was.
    since_ms: u64,
    /// `told_at_ms` of the last prompt of each agent.
    told: BTreeMap<String, u64>,
}

impl Alerts {
    pub(super) fn new(now_ms: u64) -> Self {
        Self { since_ms: now_ms, told: BTreeMap::new() }
    }

    /// Those of the agents that wait now, given by id and `told_at_ms`, of which nobody was told.
    pub(super) fn fresh(&mut self, waiting: &[(String, u64)]) -> Vec<String> {
        let before = std::mem::take(&mut self.told);
        self.told = waiting.iter().cloned().collect();
        let is_fresh =
            |id: &str, at: u64| at >= self.since_ms && before.get(id).is_none_or(|told| *told < at);
        let fresh = waiting.iter().filter(|(id, at)| is_fresh(id, *at));
        let fresh: Vec<String> = fresh.map(|(id, _)| id.clone()).collect();
        // An agent whose entry cannot be read for a moment still has the same prompt afterwards.
        for (id, at) in before {
            self.told.entry(id).or_insert(at);
        }
        self.told.retain(|_, at| *at >= self.since_ms);
        fresh
    }
}

/// Whether the user wants bells.
pub(super) fn are_wanted(home: &Home) -> bool {
    let here = std::env::current_dir().unwrap_or_default();
    synapse_settings::load(&Places::here(home.root(), &here)).settings.notify.bell
}

/// Calls `tell` whenever agents begin to wait, until it says that it is enough. It gets a line about the others; none
/// if only the agent of this terminal waits, which the person can see.
pub fn follow(home: &Home, own: AgentId, tell: &dyn Fn(Option<String>) -> bool) {
    let mut alerts = Alerts::new(synapse_node::driver::now().0);
    let bell = Bell::at(home.registry_dir());
    let _ = super::block_on(async {
        loop {
            let waiting = waiting(home);
            let waits =
                |entry: &Entry| Some((entry.agent_id.to_string(), entry.pending.as_ref()?.told_at_ms));
            let fresh = alerts.fresh(&waiting.iter().filter_map(waits).collect::<Vec<_>>());
            let fresh: Vec<&Entry> =
                waiting.iter().filter(|entry| fresh.contains(&entry.agent_id.to_string())).collect();
            if !fresh.is_empty() && are_wanted(home) && !tell(words(home, &own, &fresh)) {
                return Ok(());
            }
            bell.rung(LOOK_AGAIN).await;
            tokio::time::sleep(GATHER).await;
        }
    });
}

fn waiting(home: &Home) -> Vec<Entry> {
    let waits = |entry: &Entry| entry.status == AgentState::Waiting && entry.pending.is_some();
    registry::look(home).agents.into_iter().filter(waits).collect()
}

fn words(home: &Home, own: &AgentId, fresh: &[&Entry]) -> Option<String> {
    let others: Vec<&Entry> = fresh.iter().copied().filter(|entry| entry.agent_id != *own).collect();
    if others.is_empty() {
        return None;
    }
    let (roll, _) = Roll::look(home.clone());
    let labels: Vec<String> = others.iter().map(|entry| roll.label(&entry.agent_id)).collect();
    Some(match (&others[..], &labels[..]) {
        ([one], [label]) => about_one(label, one),
        _ => format!("{} agents wait for you (synapse inbox): {}", labels.len(), labels.join(", ")),
    })
}

/// The command comes first, since the line may be cut at its end.
fn about_one(label: &str, entry: &Entry) -> String {
    let pending = entry.pending.as_ref();
    let verb = if pending.is_some_and(|one| one.decidable && one.complete) { "approve" } else { "attach" };
    let asks = pending.map(|one| show::line(&one.asks, ASKS_CHARS_MAX)).filter(|asks| !asks.is_empty());
    let asks = asks.unwrap_or_else(|| "asks for a decision".to_owned());
    format!("{label} waits for you (synapse {verb} {label}): {asks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prompt_is_told_once() {
        let mut alerts = Alerts::new(100);
        let mut see = |waiting: &[(&str, u64)]| {
            let waiting: Vec<(String, u64)> =
                waiting.iter().map(|(id, at)| ((*id).to_owned(), *at)).collect();
            alerts.fresh(&waiting).join(" ")
        };
        assert_eq!(see(&[("a", 99)]), "", "it waited before this terminal was there");
        assert_eq!(see(&[("a", 99), ("b", 100)]), "b", "it began while this terminal started");
        assert_eq!(see(&[("a", 99), ("b", 100)]), "");
        assert_eq!(see(&[("a", 120), ("b", 100)]), "a", "its next prompt");
        assert_eq!(see(&[]), "");
        assert_eq!(
            see(&[("a", 120), ("b", 130), ("c", 131)]),
            "b c",
            "that of a node which restarted is the same"
        );
    }
}
