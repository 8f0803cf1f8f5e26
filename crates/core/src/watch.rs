//! Watchers: subscriptions to events, from a given event on.
//!
//! Every journaled record is an event, and its sequence number is the event's id. A watcher
//! says after which event it resumes. What it missed is replayed from a ring of recent events.
//! If the ring does not reach back far enough, the watcher gets the ring's first id, and reads
//! the rest from the journal.
//!
//! Invariant: a watcher gets each event of its topic once, in order, or an error that it is behind.
//! Volatile: watchers do not survive a restart; they return with the last id they saw.

use crate::ids::{AgentId, Seq, TaskId, WatcherId};
use crate::record::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic {
    All,
    Task(TaskId),
    Agent(AgentId),
    /// What a person should know at once: loop trips, dead letters.
    Alerts,
}

impl Topic {
    pub fn covers(&self, entry: &Entry) -> bool {
        match self {
            Self::All => true,
            Self::Task(id) => entry.record.task() == Some(*id),
            Self::Agent(id) => entry.record.agent() == Some(*id),
            Self::Alerts => entry.record.is_alert(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Watchers {
    ring: VecDeque<Arc<Entry>>,
    ring_bytes: usize,
    following: BTreeMap<WatcherId, Topic>,
}

/// The ring does not reach back to where the watcher left off; the journal has the
/// events before this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Behind {
    pub oldest_in_memory: Seq,
}

impl Watchers {
    /// Subscribes, and returns the events missed since `after`.
    pub fn follow(
        &mut self,
        watcher: WatcherId,
        topic: Topic,
        after: Seq,
        latest: Seq,
    ) -> Result<Vec<Arc<Entry>>, Behind> {
        let oldest = self.ring.front().map_or(latest.next(), |entry| entry.seq);
        if after.next() < oldest {
            return Err(Behind { oldest_in_memory: oldest });
        }
        self.following.insert(watcher, topic);
        Ok(self.ring.iter().filter(|e| e.seq > after && topic.covers(e)).cloned().collect())
    }

    /// Subscribes from the next event on.
    pub fn begin(&mut self, watcher: WatcherId, topic: Topic) {
        self.following.insert(watcher, topic);
    }

    pub fn leave(&mut self, watcher: WatcherId) {
        self.following.remove(&watcher);
    }

    pub fn count(&self) -> usize {
        self.following.len()
    }

    /// Adds a new event to the ring and returns the watchers that subscribed to it.
    pub fn happened(&mut self, entry: &Arc<Entry>, events_max: usize, bytes_max: usize) -> Vec<WatcherId> {
        self.ring_bytes += entry.record.weight();
        self.ring.push_back(entry.clone());
        while self.ring.len() > events_max || self.ring_bytes > bytes_max {
            let Some(gone) = self.ring.pop_front() else { break };
            self.ring_bytes -= gone.record.weight();
        }
        self.following.iter().filter(|(_, topic)| topic.covers(entry)).map(|(who, _)| *who).collect()
    }

    /// Returns the event with this sequence number, if it is still in memory.
    pub fn at(&self, seq: Seq) -> Option<&Arc<Entry>> {
        let nth = seq.0.checked_sub(self.ring.front()?.seq.0)?;
        self.ring.get(usize::try_from(nth).ok()?)
    }

    /// Drops events that never reached the disk.
    pub fn forget_after(&mut self, seq: Seq) {
        while self.ring.back().is_some_and(|entry| entry.seq > seq) {
            if let Some(gone) = self.ring.pop_back() {
                self.ring_bytes -= gone.record.weight();
            }
        }
    }
}
