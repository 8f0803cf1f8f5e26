//! The disk of a simulated node: entries, sometimes a snapshot, sometimes full.
//!
//! It also plays the store's part in lookups: which key was used for what, which task has ended.
//! Always: a commit is whole or not at all.

use crate::cycle::Journal;
use crate::effect::{EndedTask, Prior};
use crate::ids::{MessageId, TaskId, TaskRef};
use crate::message::Digest;
use crate::record::{Entry, Record};
use crate::state::State;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) entries: Vec<Arc<Entry>>,
    snapshot: Option<String>,
    /// Nothing can be written.
    pub(super) full: bool,
    /// The process dies in the next commit, before anything is written.
    pub(super) dying: bool,
    /// Acknowledges before anything is written; `settle` writes.
    pub(super) late: bool,
    pub(super) pending: Vec<Arc<Entry>>,
    /// What the last turn wrote, for the checker.
    pub(super) fresh: Vec<Arc<Entry>>,
    pub(super) priors: BTreeMap<String, Prior>,
    pub(super) ended: BTreeMap<TaskId, EndedTask>,
    /// Every message ever accepted, with the digest of its body.
    pub(super) accepted: BTreeMap<MessageId, (TaskId, Digest)>,
}

impl Journal for Disk {
    type Error = String;

    fn commit(&mut self, entries: &[Arc<Entry>]) -> Result<(), String> {
        if self.dying {
            return Err("the process died".into());
        }
        if self.full {
            return Err("disk full".into());
        }
        self.fresh.extend(entries.iter().cloned());
        if self.late {
            self.pending.extend(entries.iter().cloned());
        } else {
            self.write(entries.to_vec());
        }
        Ok(())
    }

    fn recover(&mut self) -> Result<State, String> {
        if self.dying {
            return Err("the process died".into());
        }
        self.settle();
        self.replay(true)
    }
}

impl Disk {
    pub(super) fn settle(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.write(pending);
    }

    fn write(&mut self, entries: Vec<Arc<Entry>>) {
        for entry in entries {
            match &entry.record {
                Record::Accepted { letter, .. } => {
                    let prior = Prior {
                        agent: letter.to,
                        message: letter.id.clone(),
                        task: letter.task,
                        digest: letter.digest,
                    };
                    self.priors.insert(letter.key().text(), prior);
                    self.accepted.insert(letter.id.clone(), (letter.task, letter.digest));
                }
                Record::Ended { task, ending, archive } => {
                    let ended = EndedTask {
                        agent: archive.task.agent,
                        id: *task,
                        state: ending.state,
                        requester: archive.task.requester.clone(),
                        message: archive.task.messages[0].clone(),
                    };
                    self.ended.insert(*task, ended);
                }
                _ => {}
            }
            self.entries.push(entry);
        }
    }

    /// Loses the last `count` entries, as a crash would if the disk lied about its sync.
    pub(super) fn lose_last(&mut self, count: usize) {
        let kept: Vec<_> = self.entries[..self.entries.len().saturating_sub(count)].to_vec();
        *self = Self { late: self.late, full: self.full, ..Self::default() };
        self.write(kept);
    }

    pub(super) fn save_snapshot(&mut self, state: &State) {
        self.snapshot = serde_json::to_string(state).ok();
    }

    pub(super) fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Rebuilds the state from the entries: from the snapshot on, or from the very first.
    pub(super) fn replay(&self, from_snapshot: bool) -> Result<State, String> {
        let mut state = match &self.snapshot {
            Some(text) if from_snapshot => {
                serde_json::from_str(text).map_err(|e| format!("snapshot: {e}"))?
            }
            _ => State::default(),
        };
        state.rebuild_indexes();
        let from = state.seq;
        for entry in self.entries.iter().skip_while(|e| e.seq <= from) {
            state
                .apply(entry)
                .map_err(|unfit| format!("entry {} ({}): {unfit}", entry.seq.0, entry.record.name()))?;
        }
        Ok(state)
    }

    pub(super) fn ended_named(&self, name: &TaskRef) -> Option<EndedTask> {
        self.ended.iter().find(|(id, _)| name.names(id)).map(|(_, ended)| ended.clone())
    }
}
