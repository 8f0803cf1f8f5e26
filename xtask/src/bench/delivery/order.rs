//! Checks that messages left a mailbox in the order of its rules: priority before age, with ageing.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use synapse_core::ids::Timestamp;
use synapse_core::mailbox::{self, Slot};
use synapse_core::message::Priority;
use synapse_core::settings::Limits;

/// A message that was put into the mailbox. Its index in the list is its age.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queued {
    /// On the users' scale of five.
    pub(super) priority: u64,
    pub(super) since_ms: u64,
}

/// How long before its first byte a message was chosen, at most.
const CHOSEN_MS_MAX: u64 = 1_000;

/// Counts messages that left although another should have gone first. `left` has their indexes and
/// arrival times, in order.
pub(super) fn overtaken(queued: &[Queued], left: &[(usize, u64)]) -> anyhow::Result<usize> {
    let ageing_ms = Limits::default().ageing_ms;
    let slots = queued.iter().map(|one| {
        let priority = Priority::from_five(one.priority)?;
        Ok(Slot { priority, since: Timestamp(one.since_ms), bytes: 0, tries: 0 })
    });
    let slots: Vec<Slot> = slots.collect::<anyhow::Result<_>>()?;
    let rank = |at: usize, now: u64| (mailbox::level(&slots[at], Timestamp(now), ageing_ms), Reverse(at));
    let mut waiting: BTreeSet<usize> = (0..slots.len()).collect();
    let mut count = 0;
    for &(at, came_ms) in left {
        waiting.remove(&at);
        let others_first = |now: u64| waiting.iter().any(|other| rank(*other, now) > rank(at, now));
        // Ageing may have changed the order between the choice and the first byte.
        if others_first(came_ms) && others_first(came_ms.saturating_sub(CHOSEN_MS_MAX)) {
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(priorities: &[u64], left: &[(usize, u64)], expected: usize) {
        let queued: Vec<Queued> = priorities
            .iter()
            .zip(0..)
            .map(|(priority, n)| Queued { priority: *priority, since_ms: n })
            .collect();
        assert_eq!(overtaken(&queued, left).unwrap(), expected, "{priorities:?} {left:?}");
    }

    #[test]
    fn priority_goes_before_age() {
        check(&[2, 4, 3, 4], &[(1, 10), (3, 20), (2, 30), (0, 40)], 0);
        check(&[2, 4, 3, 4], &[(3, 10), (1, 20), (2, 30), (0, 40)], 1);
        check(&[2, 4, 3, 4], &[(0, 10), (1, 20), (2, 30), (3, 40)], 2);
    }

    #[test]
    fn what_has_waited_long_has_gained() {
        let two_minutes = 2 * 60_000 + 500;
        // Ageing moved both up. The older one is the first of its new level.
        check(&[3, 4], &[(0, two_minutes), (1, two_minutes + 10)], 0);
        check(&[3, 4], &[(0, 60_000), (1, two_minutes)], 1);
        // At that very moment, either order is right.
        check(&[3, 4], &[(1, two_minutes), (0, two_minutes + 10)], 0);
    }
}
