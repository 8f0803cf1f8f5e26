//! Giving an agent a name, another one, or none. Everything that belongs to the agent is filed
//! under its id, so only the name changes.
//!
//! Not here: whether another agent has the name (`routes`), where a stopped agent keeps it
//! (`synapse-store`'s `known`).

use super::Hub;
use crate::agents::Agent;
use crate::effect::{Answer, Output};
use crate::ids::{AgentId, Label, Timestamp};
use crate::policy::{About, Caller, Verb};
use crate::record::Record;
use crate::refusal::Refusal;

impl Hub {
    pub(super) fn rename(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        id: AgentId,
        name: Option<Label>,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        self.may(caller, Verb::Manage, About::default())?;
        // Until its first record is on disk, there is no agent to rename.
        let before = self.state.agents.get(&id).ok_or(Refusal::Busy)?;
        if before.name != name {
            self.emit(now, Record::Known(Agent { name, ..before.clone() }), out);
        }
        Ok(Answer::Renamed)
    }
}
