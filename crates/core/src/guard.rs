//! The loop guard: ends conversations that only feed themselves.
//!
//! It limits what one agent sends to another in three ways: the length of the chain of causes, the
//! messages per minute, and how often the very same text is repeated. Named callers have a
//! per-minute limit that only a flood reaches; the user has none. A trip always rejects the message
//! and alerts the user; it is never silent.
//! Volatile: a restart resets the counts, but not the chain, which travels in the message.

use crate::ids::{AgentId, Label, Timestamp};
use crate::message::{Digest, Sender, Who};
use crate::refusal::Refusal;
use crate::settings::Limits;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug, Default)]
pub struct Guard {
    pairs: BTreeMap<(AgentId, AgentId), Pair>,
    named: BTreeMap<Label, Count>,
}

/// Messages of one caller in the minute that began at `since`.
#[derive(Clone, Copy, Debug)]
struct Count {
    since: Timestamp,
    messages: u32,
}

#[derive(Clone, Debug, Default)]
struct Pair {
    minute: VecDeque<Timestamp>,
    said: VecDeque<(Timestamp, Digest)>,
    reported: Option<Timestamp>,
}

const MINUTE_MS: u64 = 60_000;
const REPEAT_WINDOW_MS: u64 = 600_000;
const SAID_MAX: usize = 64;
const PAIRS_MAX: usize = 4_096;
const NAMED_MAX: usize = 1_024;

impl Guard {
    /// Counts this message, or returns why it is rejected.
    pub fn pass(
        &mut self,
        now: Timestamp,
        from: &Sender,
        to: AgentId,
        hops: u8,
        digest: Digest,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        if hops > limits.hops_max {
            return Err(Refusal::ChainTooLong { hops, max: limits.hops_max });
        }
        let sender = match &from.who {
            Who::User => return Ok(()),
            Who::Named(name) => return self.pass_named(now, name, to, limits),
            Who::Agent(sender) => *sender,
        };
        if from.by_user {
            return Ok(());
        }
        if self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&(sender, to)) {
            self.pairs.retain(|_, pair| pair.is_recent(now));
        }
        let pair = self.pairs.entry((sender, to)).or_default();
        pair.forget(now);
        if pair.minute.len() >= limits.pair_per_minute_max as usize {
            let retry_after_ms = MINUTE_MS.saturating_sub(now.since_ms(pair.minute[0]));
            return Err(Refusal::TooFast { to: to.short(), max: limits.pair_per_minute_max, retry_after_ms });
        }
        let repeats = pair.said.iter().filter(|(_, said)| *said == digest).count();
        if repeats >= limits.repeats_max as usize {
            return Err(Refusal::NoProgress { to: to.short(), repeats: limits.repeats_max });
        }
        pair.minute.push_back(now);
        pair.said.push_back((now, digest));
        if pair.said.len() > SAID_MAX {
            pair.said.pop_front();
        }
        Ok(())
    }

    fn pass_named(
        &mut self,
        now: Timestamp,
        name: &Label,
        to: AgentId,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let max = limits.named_per_minute_max;
        if self.named.len() >= NAMED_MAX && !self.named.contains_key(name) {
            self.named.retain(|_, count| now.since_ms(count.since) < MINUTE_MS);
        }
        let count = self.named.entry(name.clone()).or_insert(Count { since: now, messages: 0 });
        let gone_ms = now.since_ms(count.since);
        if gone_ms >= MINUTE_MS {
            *count = Count { since: now, messages: 0 };
        } else if count.messages >= max {
            let retry_after_ms = MINUTE_MS - gone_ms;
            return Err(Refusal::TooFast { to: to.short(), max, retry_after_ms });
        }
        count.messages += 1;
        Ok(())
    }
}

impl Guard {
    /// Returns whether to report a trip of this pair: once a minute, so that refusing a flood
    /// does not cause another.
    pub fn is_news(&mut self, now: Timestamp, from: &Sender, to: AgentId) -> bool {
        let sender = if let Who::Agent(id) = from.who { id } else { AgentId::from_bytes([0; 32]) };
        if self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&(sender, to)) {
            return false;
        }
        let pair = self.pairs.entry((sender, to)).or_default();
        let news = pair.reported.is_none_or(|at| now.since_ms(at) >= MINUTE_MS);
        if news {
            pair.reported = Some(now);
        }
        news
    }
}

impl Pair {
    fn forget(&mut self, now: Timestamp) {
        while self.minute.front().is_some_and(|at| now.since_ms(*at) >= MINUTE_MS) {
            self.minute.pop_front();
        }
        while self.said.front().is_some_and(|(at, _)| now.since_ms(*at) >= REPEAT_WINDOW_MS) {
            self.said.pop_front();
        }
    }

    fn is_recent(&self, now: Timestamp) -> bool {
        self.said.back().is_some_and(|(at, _)| now.since_ms(*at) < MINUTE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E17: a named caller can send again once its minute is over.
    #[test]
    fn a_flood_of_a_named_caller_is_stopped_for_the_rest_of_its_minute() {
        let limits = Limits { named_per_minute_max: 3, ..Limits::default() };
        let (mut guard, to) = (Guard::default(), AgentId::from_bytes([1; 32]));
        let digest = Body::of(&Content::text("x")).digest();
        let mut send = |at: u64, name: &str| {
            let who = Who::Named(Label::parse(name).unwrap());
            let from = Sender { who, label: name.into(), by_user: false, proof: Proof::Open };
            guard.pass(Timestamp(at), &from, to, 0, digest, &limits)
        };
        for at in [1_000, 2_000, 3_000] {
            assert_eq!(send(at, "ci"), Ok(()));
        }
        let refused = send(21_000, "ci").unwrap_err();
        assert!(matches!(refused, Refusal::TooFast { max: 3, retry_after_ms: 40_000, .. }), "{refused:?}");
        assert_eq!(send(21_000, "other"), Ok(()));
        assert_eq!(send(61_000, "ci"), Ok(()));
    }

    use crate::message::{Body, Content, Proof};

    fn agent(n: u8) -> Sender {
        Sender {
            who: Who::Agent(AgentId::from_bytes([n; 32])),
            label: "a".into(),
            by_user: false,
            proof: Proof::Own,
        }
    }

    fn said(text: &str) -> Digest {
        Body::of(&Content::text(text)).digest()
    }

    #[test]
    fn a_pair_has_a_rate_and_a_person_has_none() {
        let (mut guard, limits) = (Guard::default(), Limits::default());
        let to = AgentId::from_bytes([9; 32]);
        let mut pass =
            |from: &Sender, at: u64, text: &str| guard.pass(Timestamp(at), from, to, 0, said(text), &limits);
        for n in 0..60 {
            pass(&agent(1), n, &format!("message {n}")).unwrap();
        }
        let refused = pass(&agent(1), 60, "one more").unwrap_err();
        assert!(matches!(refused, Refusal::TooFast { retry_after_ms: 59_940, .. }), "{refused:?}");
        pass(&agent(2), 60, "another pair").unwrap();
        pass(&agent(1), 60_000, "a minute later").unwrap();
        for n in 0..1000 {
            pass(&Sender::user(Proof::Socket), n, "people may repeat themselves").unwrap();
        }
    }

    #[test]
    fn a_trip_is_reported_once_a_minute() {
        let mut guard = Guard::default();
        let to = AgentId::from_bytes([9; 32]);
        let told: Vec<bool> = [0, 1, 59_999, 60_000, 60_001]
            .into_iter()
            .map(|at| guard.is_news(Timestamp(at), &agent(1), to))
            .collect();
        assert_eq!(told, [true, false, false, true, false]);
        assert!(guard.is_news(Timestamp(2), &agent(2), to));
    }

    #[test]
    fn saying_the_same_again_and_again_is_no_progress() {
        let (mut guard, limits) = (Guard::default(), Limits::default());
        let to = AgentId::from_bytes([9; 32]);
        for n in 0..5 {
            guard.pass(Timestamp(n * 70_000), &agent(1), to, 0, said("thanks!"), &limits).unwrap();
        }
        let again = guard.pass(Timestamp(400_000), &agent(1), to, 0, said("thanks!"), &limits);
        assert_eq!(again, Err(Refusal::NoProgress { to: to.short(), repeats: 5 }));
        guard.pass(Timestamp(400_000), &agent(1), to, 0, said("here is the patch"), &limits).unwrap();
        guard.pass(Timestamp(1_000_000), &agent(1), to, 0, said("thanks!"), &limits).unwrap();
    }

    #[test]
    fn a_chain_has_an_end_for_everybody() {
        let (mut guard, limits) = (Guard::default(), Limits::default());
        let to = AgentId::from_bytes([9; 32]);
        let user = Sender::user(Proof::Socket);
        guard.pass(Timestamp(0), &user, to, 16, said("x"), &limits).unwrap();
        let refused = guard.pass(Timestamp(0), &user, to, 17, said("x"), &limits);
        assert_eq!(refused, Err(Refusal::ChainTooLong { hops: 17, max: 16 }));
    }
}
