//! Every bound of the core in one place. No queue, history or retry is without one.
//!
//! Not here: bounds on bytes before they are parsed (`synapse-node`), retention on disk (`synapse-store`).

use serde::{Deserialize, Serialize};

/// The limits a hub works within; the defaults are those of the requirements (X-12, ENV-8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest body of one message, bytes.
    pub message_bytes_max: usize,
    /// Most messages waiting in one mailbox.
    pub mailbox_max: usize,
    /// Most bytes waiting in one mailbox.
    pub mailbox_bytes_max: u64,
    /// How long a link may keep a message before it goes back, milliseconds.
    pub lease_ms: u64,
    /// How often a message is handed out before it is a dead letter.
    pub tries_max: u8,
    /// First pause before a message is handed out again; doubles with each try.
    pub retry_delay_ms: u64,
    /// A waiting message gains one level each time this much has passed. Levels 9 and 10 are never reached so.
    pub ageing_ms: u64,
    /// Most open tasks in one node.
    pub open_tasks_max: usize,
    /// Most moves in one task's history.
    pub moves_max: usize,
    /// Most bytes of artifacts and progress one task may emit.
    pub artifact_bytes_max: u64,
    /// Longest chain of messages that cause messages.
    pub hops_max: u8,
    /// Most messages from one agent to another within a minute.
    pub pair_per_minute_max: u32,
    /// Most messages of a caller that is neither the user nor an agent within a minute.
    pub named_per_minute_max: u32,
    /// How often one agent may say the very same thing to another within ten minutes.
    pub repeats_max: u32,
    /// Events kept in memory for watchers that return; older ones are read from the journal.
    pub ring_events_max: usize,
    pub ring_bytes_max: usize,
    /// Most tasks of one hand that wait for input without taking a place in its window; more than these take one.
    pub asking_tasks_max: usize,
    /// How long a task may wait for input before it fails.
    pub asking_ms: u64,
    /// How long the tasks of an agent wait for its program to come back.
    pub absence_ms: u64,
    /// Longest text an agent may share of what it does, bytes.
    pub context_bytes_max: usize,
    /// Most followers of one agent.
    pub followers_max: usize,
    /// How far a message's own time stamp may be from ours.
    pub clock_skew_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 1 << 20,
            mailbox_max: 10_000,
            mailbox_bytes_max: 256 << 20,
            lease_ms: 60_000,
            tries_max: 3,
            retry_delay_ms: 1_000,
            ageing_ms: 60_000,
            open_tasks_max: 20_000,
            moves_max: 1_000,
            artifact_bytes_max: 32 << 20,
            hops_max: 16,
            pair_per_minute_max: 60,
            named_per_minute_max: 6_000,
            repeats_max: 5,
            ring_events_max: 1_024,
            ring_bytes_max: 1 << 20,
            asking_tasks_max: 64,
            asking_ms: 7 * 24 * 3_600_000,
            absence_ms: 90_000,
            context_bytes_max: 4 << 10,
            followers_max: 64,
            clock_skew_ms_max: 24 * 3_600_000,
        }
    }
}
