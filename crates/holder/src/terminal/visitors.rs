//! Who comes to a terminal, and what is written down of it (X-10).
//!
//! A terminal can approve anything, so its keys are the user's alone. The holder asks the kernel which process
//! connected, and a `Doorkeeper` where that process stands. A process under an agent may at most look, and only
//! if the node says so, since the node knows the rights.
//!
//! Not here: what the desk makes of it (`desk/admission`), which process is under which agent (`synapse-node`).

use super::rate_limit::TokenBucket;
use crate::peer::PinnedProcess;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Who connected to a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visitor {
    /// A process that no agent started.
    User,
    /// A process under these agents, by their ids, nearest first.
    Agents(Vec<String>),
    /// It has gone, is of another user, or cannot be seen.
    Nobody,
}

/// Says where a process stands.
pub type Doorkeeper = Box<dyn Fn(&PinnedProcess) -> Visitor + Send>;

/// What a viewer did, for the node to write down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerEvent {
    /// A number of this connection, as long as the holder lives.
    pub viewer: u64,
    pub act: ViewerAct,
    pub who: Visitor,
    pub pid: u32,
    /// What its process calls itself.
    pub program: String,
    /// As what it came: `viewer`, `leader`, `reader`, `recorder`, `node`; empty if it was not asked.
    pub role: String,
    pub at_ms: u64,
    /// How many events before this one were not kept.
    #[serde(default)]
    pub dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewerAct {
    Attach,
    /// An agent wants to look: the node answers with `Ask::Admit`.
    AskToLook,
    /// It took the lead.
    Take,
    /// It began to type.
    Type,
    /// It was not let in.
    Refused,
    /// Something that a newer holder tells.
    #[serde(other)]
    Other,
}

/// Events that wait for a node.
#[derive(Debug)]
pub(super) struct Untold {
    events: VecDeque<ViewerEvent>,
    dropped: u64,
    /// Limits the refusals among them.
    refusals: TokenBucket,
}

impl Untold {
    const EVENTS_MAX: usize = 256;
    /// So many refusals at once, and then one in a while: whoever knocks all day does not fill the log.
    const REFUSALS_MAX: u32 = 16;
    const REFUSAL_EVERY: Duration = Duration::from_secs(1);

    pub(super) fn new() -> Self {
        let refusals = TokenBucket::new(Self::REFUSALS_MAX, Self::REFUSAL_EVERY, Instant::now());
        Self { events: VecDeque::new(), dropped: 0, refusals }
    }

    /// Keeps an event until it is taken, or counts it.
    pub(super) fn put(&mut self, event: ViewerEvent, now: Instant) {
        let is_told = event.act != ViewerAct::Refused || self.refusals.take(now);
        if is_told && self.events.len() < Self::EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.dropped += 1;
        }
    }

    /// The oldest event, with how many are missing.
    pub(super) fn take(&mut self) -> Option<ViewerEvent> {
        let event = self.events.pop_front()?;
        Some(ViewerEvent { dropped: std::mem::take(&mut self.dropped), ..event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(viewer: u64, act: ViewerAct) -> ViewerEvent {
        let (who, role) = (Visitor::User, "viewer".to_owned());
        ViewerEvent { viewer, act, who, pid: 1, program: "x".into(), role, at_ms: 0, dropped: 0 }
    }

    /// Finding H1: while the node is away events are kept up to a bound, and what is missing is counted.
    #[test]
    fn events_beyond_the_bound_are_counted() {
        let (mut untold, now) = (Untold::new(), Instant::now());
        (0..300).for_each(|n| untold.put(event(n, ViewerAct::Type), now));
        let first = untold.take().unwrap();
        assert_eq!((first.viewer, first.dropped), (0, 44));
        let rest: Vec<ViewerEvent> = std::iter::from_fn(|| untold.take()).collect();
        assert_eq!((rest.len(), rest[0].dropped), (255, 0));
        untold.put(event(300, ViewerAct::Attach), now);
        assert_eq!(untold.take(), Some(event(300, ViewerAct::Attach)));
    }

    #[test]
    fn refusals_cannot_fill_the_log() {
        let (mut untold, now) = (Untold::new(), Instant::now());
        (0..100).for_each(|n| untold.put(event(n, ViewerAct::Refused), now));
        assert_eq!(std::iter::from_fn(|| untold.take()).count(), 16);
        untold.put(event(100, ViewerAct::Attach), now);
        assert_eq!(untold.take().unwrap().dropped, 0, "told with the first of them");
        untold.put(event(101, ViewerAct::Refused), now + Duration::from_secs(2));
        assert_eq!(untold.take().unwrap().viewer, 101);
    }

    #[test]
    fn event_of_a_newer_holder_is_read() {
        let text =
            r#"{"viewer":1,"act":"sing","who":"nobody","pid":2,"program":"","role":"","at_ms":3,"key":4}"#;
        let read: ViewerEvent = serde_json::from_str(text).unwrap();
        assert_eq!((read.act, read.who, read.dropped), (ViewerAct::Other, Visitor::Nobody, 0));
    }
}
