//! Faults that need no request: processes die and restart, disks fill up, clocks jump.
//!
//! Not here: a crash in the middle of a turn (`world`), a bad network (`clients`), bad
//! programs (`programs`).

use super::Broken;
use super::world::{Event, World};

impl World {
    pub(super) fn disk_fills(&mut self, node: usize) {
        if self.calm {
            return;
        }
        self.nodes[node].disk.full = true;
        self.tell(|| format!("node {node}: the disk is full"));
        let a_while = self.dice.within(200, 8_000);
        self.after(a_while, Event::DiskFree(node));
        let again = self.dice.within(10_000, 120_000);
        self.after(again, Event::DiskFull(node));
    }

    pub(super) fn clock_jumps(&mut self, node: usize) {
        if self.calm {
            return;
        }
        self.report.clock_jumps += 1;
        let most = *self.dice.pick(&[90_000, 600_000, 14_400_000]);
        let jump = i64::try_from(self.dice.below(2 * most)).expect("hours fit")
            - i64::try_from(most).expect("hours fit");
        self.nodes[node].clock_off_ms += jump;
        self.nodes[node].wake_at = None;
        self.tell(|| format!("node {node}: its clock jumps by {} s", jump / 1000));
        self.plan_turn(node, 0);
        let again = self.dice.within(20_000, 300_000);
        self.after(again, Event::ClockJumps(node));
    }

    pub(super) fn crash(&mut self, node: usize, when: &str) -> Result<(), Broken> {
        if !self.nodes[node].is_up() {
            return Ok(());
        }
        self.report.crashes += 1;
        self.tell(|| format!("node {node}: crashes {when}"));
        let fresh = std::mem::take(&mut self.nodes[node].disk.fresh);
        self.nodes[node].checker.committed(&fresh)?;
        self.nodes[node].crash();
        self.asks.retain(|_, (at, _)| *at != node);
        self.programs_lose_their_node(node);
        self.watchers_lose_their_node(node);
        let soon = self.dice.within(10, 5_000);
        self.after(soon, Event::Restart(node));
        Ok(())
    }

    pub(super) fn restart(&mut self, node: usize) -> Result<(), Broken> {
        if self.nodes[node].is_up() {
            return Ok(());
        }
        self.check_acknowledged(node)?;
        let time = self.time;
        let before = self.nodes[node].disk.entries.len();
        let started = self.nodes[node].start(time, &mut self.dice)?;
        if started.is_none() {
            self.tell(|| format!("node {node}: cannot start, its disk is full"));
            self.after(1_000, Event::Restart(node));
            return Ok(());
        }
        self.nodes[node].disk.settle();
        let how = if self.nodes[node].disk.has_snapshot() { "with" } else { "without" };
        self.tell(|| format!("node {node}: starts {how} a snapshot"));
        self.tell_records(node, before);
        self.plan_turn(node, 0);
        self.plan_wake(node);
        Ok(())
    }
}
