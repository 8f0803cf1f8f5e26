//! What is asked, in which order. Each step asks through the probe, and has what came judged.

pub(super) mod ask;
pub(super) mod call;
pub(super) mod card;
pub(super) mod others;
pub(super) mod sent;

use super::finding::Check;
use super::judge::answer::Tally;
use super::probe::{Patience, Probe};
use crate::a2a::card::{Binding, Interface};
use crate::web;
use serde_json::Value;
use synapse_a2a::fault::Kind;

/// One interface of 1.0 under examination.
pub(super) struct Desk<'a> {
    pub at: Interface,
    pub about: String,
    pub card: &'a Value,
    /// The card has an interface of 0.3 in the same binding at the same host.
    pub speaks_old: bool,
    pub tally: Tally,
    /// For ids that nobody has used before.
    pub mark: String,
}

impl Desk<'_> {
    fn binding(&self) -> Binding {
        self.at.binding
    }

    fn declares(&self, capability: &str) -> bool {
        self.card["capabilities"][capability] == true
    }

    /// A task that never was.
    fn nobody(&self) -> String {
        format!("synapse-doctor-no-such-task-{}", self.mark)
    }

    /// One request that has to be refused with one of these errors.
    async fn refused(
        &mut self,
        probe: &mut Probe,
        check: &Check,
        asked: &str,
        request: web::Request,
        wanted: &[Kind],
    ) {
        let came = probe.ask(probe.as_known(request), Patience::Short).await;
        let verdict = match came {
            Ok(answer) => self.tally.refused(self.binding(), asked, &answer, wanted),
            Err(none) => none.verdict(),
        };
        probe.find(check, &self.about, asked, verdict);
    }
}
