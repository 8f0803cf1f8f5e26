//! Limits how often something may happen: refusals in the log, connections of one process.
//!
//! Invariant: the memory of a limit is bounded, however many processes connect.
//! Not here: what happens to what is too much (`visitors`, `desk/admission`).

use super::clients::Guest;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A number of tokens that grows back over time.
#[derive(Debug)]
pub(super) struct TokenBucket {
    tokens: u32,
    tokens_max: u32,
    /// One token comes back in this time.
    every: Duration,
    /// Up to when tokens are counted.
    since: Instant,
}

impl TokenBucket {
    pub(super) fn new(tokens_max: u32, every: Duration, now: Instant) -> Self {
        Self { tokens: tokens_max, tokens_max, every, since: now }
    }

    /// Takes a token; false if there is none.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since).as_nanos() / self.every.as_nanos().max(1);
        if let Ok(passed) = u32::try_from(passed) {
            self.tokens = self.tokens.saturating_add(passed).min(self.tokens_max);
            self.since += self.every * passed;
        } else {
            (self.tokens, self.since) = (self.tokens_max, now);
        }
        let is_taken = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        is_taken
    }
}

/// Processes under agents that connected lately, and how often they may still do so.
#[derive(Debug, Default)]
pub(super) struct ConnectionRates {
    processes: VecDeque<(Guest, TokenBucket)>,
}

impl ConnectionRates {
    /// Processes that are remembered; the oldest is forgotten first.
    const PROCESSES_MAX: usize = 32;
    /// A process may connect so often at once, and then once in a while.
    pub(super) const CONNECTIONS_MAX: u32 = 16;
    const CONNECTION_EVERY: Duration = Duration::from_millis(250);

    /// Counts a connection. If it is one too many, returns what was known of the process at its first connection.
    pub(super) fn exceeded_by(&mut self, pid: u32, start_time: u64, now: Instant) -> Option<&Guest> {
        let is_meant = |(guest, _): &&mut (Guest, _)| (guest.pid, guest.start_time) == (pid, start_time);
        let (guest, bucket) = self.processes.iter_mut().find(is_meant)?;
        (!bucket.take(now)).then_some(&*guest)
    }

    /// Remembers a process under an agent, with this connection as its first.
    pub(super) fn remember(&mut self, guest: &Guest, now: Instant) {
        let is_known =
            |(known, _): &(Guest, _)| (known.pid, known.start_time) == (guest.pid, guest.start_time);
        if self.processes.iter().any(is_known) {
            return;
        }
        if self.processes.len() >= Self::PROCESSES_MAX {
            self.processes.pop_front();
        }
        let mut bucket = TokenBucket::new(Self::CONNECTIONS_MAX, Self::CONNECTION_EVERY, now);
        bucket.take(now);
        self.processes.push_back((guest.clone(), bucket));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_grow_back_up_to_the_maximum() {
        let (now, every) = (Instant::now(), Duration::from_millis(100));
        let mut bucket = TokenBucket::new(2, every, now);
        let mut takes = |at_ms: u64, times: usize| {
            let at = now + Duration::from_millis(at_ms);
            (0..times).filter(|_| bucket.take(at)).count()
        };
        assert_eq!(takes(0, 5), 2);
        assert_eq!(takes(99, 1), 0);
        assert_eq!(takes(150, 5), 1);
        assert_eq!(takes(200, 5), 1, "half of the time had passed before");
        assert_eq!(takes(1_000_000, 5), 2);
    }

    /// Finding H1, review: a process under an agent that connects in a loop.
    #[test]
    fn each_process_has_a_limit_of_its_own() {
        let (mut rates, now) = (ConnectionRates::default(), Instant::now());
        let guest = |pid: u32| Guest { pid, start_time: 7, ..Guest::nobody(1) };
        let mut connects = |pid: u32, at: Instant| {
            let is_refused = rates.exceeded_by(pid, 7, at).is_some();
            rates.remember(&guest(pid), at);
            !is_refused
        };
        assert_eq!((0..100).filter(|_| connects(1, now)).count(), 16);
        assert!(connects(2, now), "another process");
        assert_eq!((0..100).filter(|_| connects(1, now + Duration::from_secs(1))).count(), 4);
        (3..1_000).for_each(|pid| assert!(connects(pid, now)));
        assert_eq!(rates.processes.len(), ConnectionRates::PROCESSES_MAX);
    }
}
