//! Mailboxes: what waits for an agent, and in which order it is delivered.
//!
//! A message *waits* in the lane of its priority, *rests* until it may be retried, is *leased*
//! to a link, or is gone. Higher lanes go first; within a lane the oldest message does. A
//! waiting message gains a level per `ageing_ms`, up to 8, so that nothing starves and
//! emergencies are never overtaken.
//!
//! Invariant: an id is in one lane, resting, or in one lease, never in two of them.
//! Not here: the letters themselves (`state`), disk (`synapse-store`).

use crate::ids::{LinkId, Seq, Timestamp};
use crate::message::Priority;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The messages for one agent. Each is known by the sequence number of the record that
/// accepted it: smaller is older.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mailbox {
    lanes: [BTreeMap<Seq, Slot>; 10],
    resting: BTreeMap<Seq, Resting>,
    leased: BTreeMap<Seq, Lease>,
    bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slot {
    pub priority: Priority,
    pub since: Timestamp,
    pub bytes: u64,
    pub tries: u8,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Resting {
    slot: Slot,
    until: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    pub slot: Slot,
    pub link: LinkId,
    pub until: Timestamp,
}

/// A message is not where a record says it is: the journal and the state disagree.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {0:?} is not where the journal says it is")]
pub struct Misplaced(pub Seq);

impl Mailbox {
    pub fn put(&mut self, at: Seq, slot: Slot) -> Result<(), Misplaced> {
        if self.holds(at) {
            return Err(Misplaced(at));
        }
        self.bytes += slot.bytes;
        self.lane(slot.priority).insert(at, slot);
        Ok(())
    }

    /// Returns the message to deliver next: highest level after ageing, then the
    /// one that waited longest.
    pub fn first(&self, now: Timestamp, ageing_ms: u64, with_notes: bool) -> Option<Seq> {
        self.lanes
            .iter()
            .filter_map(|lane| lane.first_key_value())
            .filter(|(_, slot)| with_notes || !slot.priority.is_note())
            .max_by_key(|(at, slot)| (level(slot, now, ageing_ms), std::cmp::Reverse(**at)))
            .map(|(at, _)| *at)
    }

    pub fn lease(&mut self, at: Seq, link: LinkId, until: Timestamp) -> Result<(), Misplaced> {
        // On replay the message may still be resting, while the live mailbox had already woken it.
        let mut slot = (self.take_from_lanes(at))
            .or_else(|| self.resting.remove(&at).map(|rest| rest.slot))
            .ok_or(Misplaced(at))?;
        // Counted here, not on failure: an agent that dies on this very message never reports
        // failure, and must still use up its tries.
        slot.tries = slot.tries.saturating_add(1);
        self.leased.insert(at, Lease { slot, link, until });
        Ok(())
    }

    /// Takes a message back from an agent that had it, and lets it rest until it may be retried.
    pub fn put_to_rest(&mut self, at: Seq, slot: Slot, until: Timestamp) -> Result<(), Misplaced> {
        if self.holds(at) {
            return Err(Misplaced(at));
        }
        self.bytes += slot.bytes;
        self.resting.insert(at, Resting { slot, until });
        Ok(())
    }

    /// Ends a lease: the message returns to its old position in its lane, or rests
    /// until it may be retried.
    pub fn give_back(
        &mut self,
        at: Seq,
        rest_until: Option<Timestamp>,
        counted: bool,
    ) -> Result<(), Misplaced> {
        let mut lease = self.leased.remove(&at).ok_or(Misplaced(at))?;
        if !counted {
            lease.slot.tries = lease.slot.tries.saturating_sub(1);
        }
        match rest_until {
            Some(until) => {
                self.resting.insert(at, Resting { slot: lease.slot, until });
            }
            None => {
                self.lane(lease.slot.priority).insert(at, lease.slot);
            }
        }
        Ok(())
    }

    /// Removes a message for good: handed over, canceled or dead.
    pub fn remove(&mut self, at: Seq) -> Result<(), Misplaced> {
        let slot = (self.take_from_lanes(at))
            .or_else(|| self.leased.remove(&at).map(|lease| lease.slot))
            .or_else(|| self.resting.remove(&at).map(|rest| rest.slot))
            .ok_or(Misplaced(at))?;
        self.bytes -= slot.bytes;
        Ok(())
    }

    /// Moves messages that have rested long enough back to their lanes. Not journaled: time alone
    /// decides it, and a replay that leaves them resting wakes them at the first clock tick.
    pub fn wake(&mut self, now: Timestamp) {
        let ready: Vec<Seq> =
            self.resting.iter().filter(|(_, rest)| rest.until <= now).map(|(at, _)| *at).collect();
        for at in ready {
            if let Some(rest) = self.resting.remove(&at) {
                self.lane(rest.slot.priority).insert(at, rest.slot);
            }
        }
    }

    /// Wakes every resting message. Two mailboxes count as equal if they are equal after this.
    pub fn wake_all(&mut self) {
        self.wake(Timestamp(u64::MAX));
    }

    /// Whether the message is in its lane and may be delivered now; resting or leased
    /// messages are not waiting.
    pub fn is_waiting(&self, at: Seq) -> bool {
        self.lanes.iter().any(|lane| lane.contains_key(&at))
    }

    pub fn lease_of(&self, at: Seq) -> Option<&Lease> {
        self.leased.get(&at)
    }

    /// Returns when a resting message may be retried, and how often it was tried.
    pub fn rest_of(&self, at: Seq) -> Option<(Timestamp, u8)> {
        self.resting.get(&at).map(|rest| (rest.until, rest.slot.tries))
    }

    /// Returns how often a waiting message was delivered before.
    pub fn tries_of(&self, at: Seq) -> u8 {
        self.lanes.iter().find_map(|lane| lane.get(&at)).map_or(0, |slot| slot.tries)
    }

    pub fn leases(&self) -> impl Iterator<Item = (Seq, &Lease)> {
        self.leased.iter().map(|(at, lease)| (*at, lease))
    }

    pub fn holds(&self, at: Seq) -> bool {
        self.lanes.iter().any(|lane| lane.contains_key(&at))
            || self.leased.contains_key(&at)
            || self.resting.contains_key(&at)
    }

    /// Returns the number of waiting, resting and leased messages, which the limit applies to.
    pub fn len(&self) -> usize {
        self.waiting() + self.leased.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn waiting(&self) -> usize {
        self.lanes.iter().map(BTreeMap::len).sum::<usize>() + self.resting.len()
    }

    pub fn notes(&self) -> usize {
        self.lanes[..2].iter().map(BTreeMap::len).sum()
    }

    /// Returns how many messages would be delivered before a new one of this priority.
    pub fn ahead_of(&self, priority: Priority) -> usize {
        self.lanes[usize::from(priority.level()) - 1..].iter().map(BTreeMap::len).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns all waiting and resting messages, in the order in which they would be delivered now.
    pub fn in_order(&self, now: Timestamp, ageing_ms: u64) -> Vec<Seq> {
        let mut waiting: Vec<(&Seq, &Slot)> = self
            .lanes
            .iter()
            .flatten()
            .chain(self.resting.iter().map(|(at, rest)| (at, &rest.slot)))
            .collect();
        waiting.sort_by_key(|(at, slot)| (std::cmp::Reverse(level(slot, now, ageing_ms)), **at));
        waiting.into_iter().map(|(at, _)| *at).collect()
    }

    /// Returns when a lease expires or a rest ends next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let leases = self.leased.values().map(|lease| lease.until);
        let rests = self.resting.values().map(|rest| rest.until);
        leases.chain(rests).min()
    }

    /// Returns every id, for the checker of invariants.
    pub fn ids(&self) -> BTreeSet<Seq> {
        let lanes = self.lanes.iter().flat_map(|lane| lane.keys());
        lanes.chain(self.leased.keys()).chain(self.resting.keys()).copied().collect()
    }

    fn lane(&mut self, priority: Priority) -> &mut BTreeMap<Seq, Slot> {
        &mut self.lanes[usize::from(priority.level()) - 1]
    }

    fn take_from_lanes(&mut self, at: Seq) -> Option<Slot> {
        self.lanes.iter_mut().find_map(|lane| lane.remove(&at))
    }
}

/// Returns the level that a message has reached by waiting. Emergencies keep theirs, and no
/// other message reaches it.
pub fn level(slot: &Slot, now: Timestamp, ageing_ms: u64) -> u8 {
    let own = slot.priority.level();
    if slot.priority.is_urgent() {
        return own;
    }
    let gained = now.since_ms(slot.since) / ageing_ms.max(1);
    own.saturating_add(u8::try_from(gained).unwrap_or(u8::MAX)).min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script of one-line orders and compares the delivery order: `put <priority> <seq>`,
    /// `lease <seq>`, `back <seq>`, `rest <seq> <until>`, `clock <ms>`, `gone <seq>`.
    fn check(script: &str, leaves: &str) {
        let (mut mailbox, mut now) = (Mailbox::default(), Timestamp(0));
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let n = |i: usize| words[i].parse::<u64>().unwrap();
            match words[0] {
                "put" => {
                    let slot =
                        Slot { priority: Priority::new(n(1)).unwrap(), since: now, bytes: 10, tries: 0 };
                    mailbox.put(Seq(n(2)), slot).unwrap();
                }
                "lease" => mailbox.lease(Seq(n(1)), LinkId(1), now.plus_ms(10)).unwrap(),
                "back" => mailbox.give_back(Seq(n(1)), None, true).unwrap(),
                "rest" => mailbox.give_back(Seq(n(1)), Some(Timestamp(n(2))), true).unwrap(),
                "gone" => mailbox.remove(Seq(n(1))).unwrap(),
                "clock" => {
                    now = Timestamp(n(1));
                    mailbox.wake(now);
                }
                other => panic!("unknown order {other}"),
            }
        }
        let mut out = Vec::new();
        while let Some(at) = mailbox.first(now, 100, true) {
            out.push(at.0.to_string());
            mailbox.remove(at).unwrap();
        }
        assert_eq!(out.join(" "), leaves, "{script}");
        assert_eq!(mailbox.bytes(), 10 * mailbox.len() as u64);
    }

    #[test]
    fn higher_first_and_the_oldest_first_within_a_level() {
        check("put 6 1\nput 8 2\nput 6 3\nput 10 4\nput 2 5", "4 2 1 3 5");
    }

    #[test]
    fn a_returned_message_takes_its_old_place() {
        check("put 6 1\nput 6 2\nput 6 3\nlease 1\nlease 2\nback 2\nback 1", "1 2 3");
    }

    #[test]
    fn a_resting_message_does_not_leave_before_its_time() {
        check("put 6 1\nlease 1\nrest 1 50\nput 4 2\nclock 49", "2");
        check("put 6 1\nlease 1\nrest 1 50\nput 4 2\nclock 50", "1 2");
    }

    #[test]
    fn waiting_gains_a_level_but_never_overtakes_an_emergency() {
        check("put 4 1\nclock 199\nput 6 2", "2 1");
        check("put 4 1\nclock 200\nput 6 2", "1 2");
        check("put 1 1\nclock 100000\nput 9 2\nput 8 3", "2 1 3");
    }

    #[test]
    fn a_message_cannot_be_in_two_places() {
        let slot = Slot { priority: Priority::NORMAL, since: Timestamp(0), bytes: 1, tries: 0 };
        let mut mailbox = Mailbox::default();
        mailbox.put(Seq(1), slot.clone()).unwrap();
        assert_eq!(mailbox.put(Seq(1), slot), Err(Misplaced(Seq(1))));
        mailbox.lease(Seq(1), LinkId(1), Timestamp(5)).unwrap();
        assert_eq!(mailbox.lease(Seq(1), LinkId(2), Timestamp(5)), Err(Misplaced(Seq(1))));
        assert_eq!(mailbox.lease_of(Seq(1)).unwrap().slot.tries, 1);
        assert_eq!(mailbox.next_deadline(), Some(Timestamp(5)));
        mailbox.remove(Seq(1)).unwrap();
        assert_eq!(mailbox.remove(Seq(1)), Err(Misplaced(Seq(1))));
        assert!(mailbox.is_empty());
    }

    #[test]
    fn notes_are_left_out_for_links_that_do_not_want_them() {
        let mut mailbox = Mailbox::default();
        let slot = |p| Slot { priority: Priority::new(p).unwrap(), since: Timestamp(0), bytes: 1, tries: 0 };
        mailbox.put(Seq(1), slot(2)).unwrap();
        assert_eq!(mailbox.first(Timestamp(99_999), 100, false), None);
        assert_eq!(mailbox.notes(), 1);
        mailbox.put(Seq(2), slot(3)).unwrap();
        assert_eq!(mailbox.first(Timestamp(99_999), 100, false), Some(Seq(2)));
    }
}
