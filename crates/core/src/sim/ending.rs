//! The end of a world: the faults stop, everyone finishes, and the result is
//! compared with every promise.

use super::world::{Event, World};
use super::{Broken, Rule};

impl World {
    /// Stops the faults and restarts every node.
    pub(super) fn become_calm(&mut self) -> Result<(), Broken> {
        self.calm = true;
        self.tell(|| "the faults stop".into());
        for node in 0..self.nodes.len() {
            self.nodes[node].disk.full = false;
            self.after(0, Event::Restart(node));
        }
        self.programs_pull_together();
        Ok(())
    }

    /// Checks that this disk has everything that was acknowledged to a client.
    pub(super) fn check_acknowledged(&self, node: usize) -> Result<(), Broken> {
        let disk = &self.nodes[node].disk;
        for errand in self.errands.iter().filter(|e| e.node == node) {
            for message in &errand.acknowledged {
                if !disk.accepted.contains_key(message) {
                    let what =
                        format!("{message} was acknowledged, and the disk of node {node} does not have it");
                    return Err(Broken::new(Rule::NothingAcknowledgedIsLost, what));
                }
            }
        }
        Ok(())
    }

    /// Gives up work that nobody owns, once nothing happens any more. Returns
    /// true if there was any.
    pub(super) fn wind_up(&mut self) -> bool {
        let mut more = false;
        for program in 0..self.programs.len() {
            more |= self.sweep(program);
        }
        for watcher in 0..self.watchers.len() {
            more |= self.watcher_returns(watcher);
        }
        more
    }

    pub(super) fn check_the_end(&mut self) -> Result<(), Broken> {
        for node in 0..self.nodes.len() {
            self.check_acknowledged(node)?;
            self.nodes[node].compare()?;
            self.report.dead_letters += self.nodes[node].checker.dead_letters;
            self.report.ended += self.nodes[node].disk.ended.len() as u64;
            self.check_rest(node)?;
        }
        self.check_errands()?;
        self.check_watchers()
    }

    /// Checks that at rest every open message is with its agent or is a note that nobody takes, and
    /// that every acknowledged message is open or its task ended.
    fn check_rest(&self, node: usize) -> Result<(), Broken> {
        let here = &self.nodes[node];
        let Some(hub) = &here.hub else {
            return Err(Broken::new(Rule::TheWorldComesToRest, format!("node {node} is not up at the end")));
        };
        for open in hub.state().letters.values().filter(|open| !open.handed) {
            let takes_notes =
                self.programs.iter().any(|p| p.node == node && p.agent == open.letter.to && p.takes_notes());
            if !open.letter.priority.is_note() || takes_notes {
                let holds = self.programs_of(node, &open.letter.to);
                let what = format!("{} still waits ({:?}); {holds}", open.letter.id, open.trail.hold());
                return Err(Broken::new(Rule::TheWorldComesToRest, what));
            }
        }
        for errand in self.errands.iter().filter(|e| e.node == node) {
            for message in &errand.acknowledged {
                let (task, _) = here.disk.accepted[message];
                let open = hub.state().letters.contains_key(message);
                if !open && !here.disk.ended.contains_key(&task) {
                    let what = format!("{message} was acknowledged, is not open, and its task never ended");
                    return Err(Broken::new(Rule::NothingAcknowledgedIsLost, what));
                }
            }
        }
        Ok(())
    }
}
