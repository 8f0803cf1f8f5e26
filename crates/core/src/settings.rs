//! All limits of the core in one place. Every queue, history and retry has one.
//!
//! Not here: limits on bytes before they are parsed (`synapse-node`), retention on
//! disk (`synapse-store`).

use serde::{Deserialize, Serialize};

/// The limits of a hub; the defaults come from the requirements (X-12, ENV-8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest body of one message, bytes.
    pub message_bytes_max: usize,
    /// Most messages waiting in one mailbox.
    pub mailbox_max: usize,
    /// Most bytes waiting in one mailbox.
    pub mailbox_bytes_max: u64,
    /// How long a link may keep a message before it is returned, milliseconds.
    pub lease_ms: u64,
    /// How often a message is delivered before it becomes a dead letter.
    pub tries_max: u8,
    /// First pause before a message is delivered again; doubles with each try.
    pub retry_delay_ms: u64,
    /// A waiting message gains one level each time this much has passed. Ageing never
    /// reaches levels 9 and 10.
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
    /// Most messages within a minute from a caller that is neither the user nor an agent.
    pub named_per_minute_max: u32,
    /// How often one agent may send the very same text to another within ten minutes.
    pub repeats_max: u32,
    /// Events kept in memory for watchers that reconnect; older ones are read from the journal.
    pub ring_events_max: usize,
    pub ring_bytes_max: usize,
    /// Most tasks of one hand that wait for input without counting against its
    /// window; further ones count.
    pub asking_tasks_max: usize,
    /// How long a task may wait for input before it fails.
    pub asking_ms: u64,
    /// How long the tasks of an agent wait for its program to reconnect.
    pub absence_ms: u64,
    /// Longest text that an agent may share about what it does, bytes.
    pub context_bytes_max: usize,
    /// Most followers of one agent.
    pub followers_max: usize,
    /// How far a message's own timestamp may be from the local clock.
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
