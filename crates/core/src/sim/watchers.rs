//! Watchers that come, leave, fall behind and return; each must see every event once, in order.

use super::world::{Asker, Event, Reply, World};
use super::{Breakage, Broken, Rule};
use crate::effect::{Answer, Command, Facts, Fresh, Input};
use crate::ids::{Seq, WatcherId};
use crate::message::Proof;
use crate::policy::Caller;
use crate::record::Entry;
use crate::watch::Topic;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Watcher {
    node: usize,
    topic: Topic,
    /// Every event up to here was checked; `None` until the node gives it a position.
    last: Option<Seq>,
    following: bool,
    asking: bool,
}

impl World {
    pub(super) fn settle_watchers(&mut self) {
        for n in 0..self.dice.within(1, 4) {
            let node = self.dice.index(self.nodes.len());
            let agent = self.dice.index(self.nodes[node].agents.len());
            let topic = match self.dice.below(4) {
                0 | 1 => Topic::All,
                2 => Topic::Agent(self.nodes[node].agents[agent].id),
                _ => Topic::Alerts,
            };
            let last = self.dice.percent(60).then_some(Seq(0));
            self.watchers.push(Watcher { node, topic, last, following: false, asking: false });
            let soon = self.dice.within(10, 20_000);
            self.after(soon, Event::Watcher(usize::try_from(n).expect("four at most")));
        }
    }

    pub(super) fn watcher_acts(&mut self, watcher: usize) -> Result<(), Broken> {
        let node = self.watchers[watcher].node;
        if self.watchers[watcher].following {
            if self.calm {
                return Ok(());
            }
            self.watchers[watcher].following = false;
            self.tell(|| format!("watcher {watcher}: leaves"));
            if self.nodes[node].is_up() {
                self.arrive(node, Input::WatcherLeft { watcher: WatcherId(watcher as u64) });
            }
        } else if self.nodes[node].is_up() && !self.watchers[watcher].asking {
            self.ask_to_follow(watcher);
        }
        if !self.calm {
            let again = self.dice.within(500, 20_000);
            self.after(again, Event::Watcher(watcher));
        }
        Ok(())
    }

    /// In a calm world: makes a watcher that does not follow yet do so. Returns true if
    /// that schedules an event.
    pub(super) fn watcher_returns(&mut self, watcher: usize) -> bool {
        let idle = !self.watchers[watcher].following && !self.watchers[watcher].asking;
        if idle {
            self.after(1, Event::Watcher(watcher));
        }
        idle
    }

    fn ask_to_follow(&mut self, watcher: usize) {
        let Watcher { node, topic, last, .. } = self.watchers[watcher];
        self.watchers[watcher].asking = true;
        let ask = self.new_ask(node, Asker::Watcher { watcher });
        let command = Command::Watch { watcher: WatcherId(watcher as u64), topic, after: last };
        let caller = Caller::User { proof: Proof::Socket };
        self.arrive(
            node,
            Input::Asked { ask, caller, command, facts: Facts::default(), fresh: Fresh::default() },
        );
    }

    pub(super) fn watcher_told(&mut self, watcher: usize, reply: Reply) -> Result<(), Broken> {
        self.watchers[watcher].asking = false;
        match reply {
            Ok(Answer::Following { missed, latest }) => {
                self.tell(|| format!("watcher {watcher}: follows, {} missed", missed.len()));
                let fresh = self.watchers[watcher].last.is_none();
                self.watchers[watcher].following = true;
                for entry in &missed {
                    self.saw(watcher, entry)?;
                }
                if fresh {
                    self.watchers[watcher].last = Some(latest);
                } else {
                    self.reached(watcher, latest)?;
                }
            }
            Ok(Answer::Behind(behind)) => {
                self.tell(|| format!("watcher {watcher}: is behind {}", behind.oldest_in_memory.0));
                let (node, last) =
                    (self.watchers[watcher].node, self.watchers[watcher].last.unwrap_or_default());
                let gap: Vec<Arc<Entry>> =
                    self.nodes[node].disk.entries.iter().filter(|e| e.seq > last).cloned().collect();
                let topic = self.watchers[watcher].topic;
                for entry in gap.iter().filter(|e| topic.covers(e)) {
                    self.saw(watcher, entry)?;
                }
                if let Some(end) = gap.last() {
                    self.watchers[watcher].last = Some(end.seq);
                }
                self.ask_to_follow(watcher);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn watcher_sees(&mut self, watcher: WatcherId, entry: &Arc<Entry>) -> Result<(), Broken> {
        let watcher = usize::try_from(watcher.0).expect("made from an index");
        let skips = self.breaks(Breakage::SkipEvent) && self.dice.percent(5);
        if !self.watchers[watcher].following || skips {
            return Ok(());
        }
        self.saw(watcher, entry)
    }

    /// Checks one event of its topic: newer than all before, and none left out in between.
    fn saw(&mut self, watcher: usize, entry: &Entry) -> Result<(), Broken> {
        self.report.events_watched += 1;
        let Watcher { last, topic, .. } = self.watchers[watcher];
        let last = last.unwrap_or_default();
        if entry.seq <= last || !topic.covers(entry) {
            let what = format!("watcher {watcher} gets event {} after {}", entry.seq.0, last.0);
            return Err(Broken::new(Rule::WatchersSeeEverythingOnce, what));
        }
        self.reached(watcher, Seq(entry.seq.0 - 1))?;
        self.watchers[watcher].last = Some(entry.seq);
        Ok(())
    }

    /// Checks that no event of its topic up to here was left out.
    fn reached(&mut self, watcher: usize, to: Seq) -> Result<(), Broken> {
        let Watcher { node, topic, last, .. } = self.watchers[watcher];
        let last = last.unwrap_or_default();
        let disk = &self.nodes[node].disk;
        let from = usize::try_from(last.0).expect("a journal fits in memory");
        let until = usize::try_from(to.0).expect("a journal fits in memory").min(disk.entries.len());
        let missed = disk.entries.get(from..until).and_then(|gap| gap.iter().find(|e| topic.covers(e)));
        if let Some(missed) = missed {
            let what =
                format!("watcher {watcher} never saw event {} ({})", missed.seq.0, missed.record.name());
            return Err(Broken::new(Rule::WatchersSeeEverythingOnce, what));
        }
        self.watchers[watcher].last = Some(to.max(last));
        Ok(())
    }

    pub(super) fn watchers_lose_their_node(&mut self, node: usize) {
        for watcher in self.watchers.iter_mut().filter(|w| w.node == node) {
            (watcher.following, watcher.asking) = (false, false);
        }
    }

    pub(super) fn check_watchers(&mut self) -> Result<(), Broken> {
        for watcher in 0..self.watchers.len() {
            let latest = self.nodes[self.watchers[watcher].node].checker.state.seq;
            self.reached(watcher, latest)?;
        }
        Ok(())
    }
}
