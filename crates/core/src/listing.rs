//! A caller's tasks in pages, the most recently changed first.
//!
//! Tasks change while a caller pages through them. The first page fixes a snapshot time; on later
//! pages every task keeps the position it had then, so none is listed twice and none is skipped
//! because it moved to the front. The store has the ended tasks and follows the same rule.

use crate::ids::{TaskId, Tenant, Timestamp};
use crate::task::{Move, Task, TaskState};

/// Which tasks to list, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Only tasks of this tenant; without one, only tasks without a tenant.
    pub tenant: Option<Tenant>,
    pub context: Option<String>,
    pub state: Option<TaskState>,
    /// Only tasks whose state changed at this time or later.
    pub since: Option<Timestamp>,
    /// Where the page before ended; absent for the first page.
    pub below: Option<Below>,
    pub max: usize,
}

/// The position at which a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Below {
    pub at: Timestamp,
    pub id: TaskId,
    /// When the first page was made.
    pub as_of: Timestamp,
}

impl Listing {
    /// Returns the sort key of a task, or `None` if it does not match or is on an earlier page.
    pub fn place(&self, task: &Task, opened: Timestamp) -> Option<Timestamp> {
        if !self.wants(task, opened) {
            return None;
        }
        let Some(below) = self.below else { return Some(changed(&task.history, opened)) };
        let then = task.history.iter().rposition(|moved| moved.at <= below.as_of).map_or(0, |n| n + 1);
        let at = changed(&task.history[..then], opened);
        (at <= below.as_of && (at, task.id) < (below.at, below.id)).then_some(at)
    }

    /// Whether the task matches the filters, on any page.
    pub fn wants(&self, task: &Task, opened: Timestamp) -> bool {
        self.tenant == task.tenant
            && self.state.is_none_or(|state| state == task.state)
            && self.since.is_none_or(|since| changed(&task.history, opened) >= since)
            && self.context.as_ref().is_none_or(|context| *context == task.conversation())
    }
}

/// Returns when the task entered its current state.
fn changed(history: &[Move], opened: Timestamp) -> Timestamp {
    history.last().map_or(opened, |last| last.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::AgentId;
    use crate::ids::AgentType;
    use crate::message::{Expects, Proof, Sender};

    fn task(moves: &[(u64, TaskState)]) -> Task {
        Task {
            id: TaskId::parse("0123456789abcdef0123456789abcdef").unwrap(),
            caller_id: None,
            context: None,
            tenant: None,
            agent: AgentId::derive("h", "/", &AgentType::parse("sh").unwrap(), None),
            requester: Sender::user(Proof::Socket),
            expects: Expects::Answer,
            state: moves.last().map_or(TaskState::Submitted, |(_, to)| *to),
            messages: Vec::new(),
            history: moves
                .iter()
                .map(|(at, to)| Move { at: Timestamp(*at), to: *to, by: "x".into(), why: String::new() })
                .collect(),
            asks: None,
            questions: Vec::new(),
            timeout_ms: None,
            deadline: None,
            cancel: None,
            said_bytes: 0,
            artifacts: crate::task::ArtifactCount::default(),
        }
    }

    const ALL: Listing =
        Listing { tenant: None, context: None, state: None, since: None, below: None, max: 9 };

    fn after(at: u64, as_of: u64) -> Listing {
        let id = TaskId::parse("00000000000000000000000000000000").unwrap();
        Listing { below: Some(Below { at: Timestamp(at), id, as_of: Timestamp(as_of) }), ..ALL }
    }

    #[test]
    fn a_task_that_moves_keeps_its_place_on_later_pages() {
        let opened = Timestamp(10);
        let moved = task(&[(20, TaskState::Working), (50, TaskState::InputRequired)]);
        assert_eq!(ALL.place(&moved, opened), Some(Timestamp(50)));
        // The first page was made at 40 and ended at 30; at that time the task's key was 20.
        assert_eq!(after(30, 40).place(&moved, opened), Some(Timestamp(20)));
        // This page ended at 15, so the task was on it.
        assert_eq!(after(15, 40).place(&moved, opened), None);
        // Before its first move a task is listed by the time it was opened.
        assert_eq!(after(15, 12).place(&moved, opened), Some(Timestamp(10)));
        // The task did not exist yet.
        assert_eq!(after(9, 9).place(&moved, opened), None);
    }

    #[test]
    fn what_is_not_wanted_has_no_place() {
        let opened = Timestamp(10);
        let working = task(&[(20, TaskState::Working)]);
        let id = working.id.to_string();
        let cases = [
            (Listing { state: Some(TaskState::Working), ..ALL }, true),
            (Listing { state: Some(TaskState::Submitted), ..ALL }, false),
            (Listing { since: Some(Timestamp(20)), ..ALL }, true),
            (Listing { since: Some(Timestamp(21)), ..ALL }, false),
            (Listing { context: Some(id), ..ALL }, true),
            (Listing { context: Some("other".into()), ..ALL }, false),
        ];
        for (listing, wanted) in cases {
            assert_eq!(listing.place(&working, opened).is_some(), wanted, "{listing:?}");
        }
    }
}
