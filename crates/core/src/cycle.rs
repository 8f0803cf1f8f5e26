//! One cycle: decide a batch, commit it, and only then release its effects.
//!
//! This is the only place that enforces **no acknowledgement before the commit**; the node's
//! driver and the simulation both call it. If a batch cannot be committed, it is rolled back:
//! the state is reloaded from the journal, and every caller in the batch gets an error saying
//! that nothing was stored.

use crate::effect::{Effect, Input, Output};
use crate::hub::Hub;
use crate::ids::{AskId, Timestamp};
use crate::record::Entry;
use crate::refusal::Refusal;
use crate::state::State;
use std::sync::Arc;

/// The journal operations that a cycle needs.
pub trait Journal {
    type Error: std::fmt::Display;

    /// Commits all of these entries or none, and returns once they are on disk.
    fn commit(&mut self, entries: &[Arc<Entry>]) -> Result<(), Self::Error>;

    /// Loads the state from the journal.
    fn recover(&mut self) -> Result<State, Self::Error>;
}

/// The journal can neither be written nor read back, so this process must exit. Everything
/// acknowledged is on disk, and the next process loads it.
#[derive(Debug, thiserror::Error)]
#[error("the journal cannot be written ({commit}) nor read again ({recover})")]
pub struct Lost {
    pub commit: String,
    pub recover: String,
}

/// Runs a batch. The returned effects may be carried out: their records are on disk.
pub fn turn<J: Journal>(
    hub: &mut Hub,
    now: Timestamp,
    batch: impl IntoIterator<Item = Input>,
    journal: &mut J,
) -> Result<Turned, Lost> {
    let mut out = Output::default();
    let mut asks = Vec::new();
    for input in batch {
        if let Input::Asked { ask, .. } = &input {
            asks.push(*ask);
        }
        hub.handle(now, input, &mut out);
    }
    settle(hub, out, asks, journal)
}

/// Like `turn`, for the records that a hub makes when it restarts.
pub fn restart<J: Journal>(hub: &mut Hub, now: Timestamp, journal: &mut J) -> Result<Turned, Lost> {
    let mut out = Output::default();
    hub.restarted(now, &mut out);
    settle(hub, out, Vec::new(), journal)
}

#[derive(Debug, Default)]
pub struct Turned {
    pub effects: Vec<Effect>,
    pub records: usize,
    /// Why nothing of this batch was stored.
    pub failed: Option<String>,
}

fn settle<J: Journal>(hub: &mut Hub, out: Output, asks: Vec<AskId>, journal: &mut J) -> Result<Turned, Lost> {
    let records = out.entries.len();
    if records == 0 {
        return Ok(Turned { effects: out.effects, records, failed: None });
    }
    let Err(error) = journal.commit(&out.entries) else {
        hub.stored();
        return Ok(Turned { effects: out.effects, records, failed: None });
    };
    let why = error.to_string();
    match journal.recover() {
        Ok(state) => hub.roll_back(state),
        Err(recover) => return Err(Lost { commit: why, recover: recover.to_string() }),
    }
    let refuse = |ask| Effect::Reply { ask, answer: Box::new(Err(Refusal::NotStored { why: why.clone() })) };
    let effects = asks.into_iter().map(refuse).collect();
    Ok(Turned { effects, records: 0, failed: Some(why) })
}
