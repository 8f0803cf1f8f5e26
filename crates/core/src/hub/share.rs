//! What agents share about their work, and who follows it (PTY-10).
//!
//! Not here: delivering it to the followers (`synapse-node` writes notes into their spools).

use super::Hub;
use crate::agents::Context;
use crate::effect::{Answer, Effect, Output};
use crate::ids::{AgentId, Timestamp};
use crate::message::Proof;
use crate::policy::{self, About, Caller, Verb};
use crate::record::Record;
use crate::refusal::Refusal;

impl Hub {
    /// Shares a text. The same text again is not recorded again, so a repeated share
    /// reaches its followers once.
    pub(super) fn share(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        agent: AgentId,
        text: Option<String>,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        policy::may(&self.rules, caller, Verb::Share, About { worker: Some(agent), requester: None })?;
        if let Some(text) = &text {
            let (bytes, max) = (text.len(), self.limits.context_bytes_max);
            if bytes > max {
                return Err(Refusal::TooLarge { bytes, max });
            }
            if text.trim().is_empty() {
                return Err(Refusal::bad_field("text", "it is empty"));
            }
        }
        let before = self.state.contexts.get(&agent).map(|context| &context.text);
        if before != text.as_ref() {
            let by_user = caller.agent().is_none();
            let context = text.map(|text| Context { text, since: now, by_user });
            self.emit(now, Record::Shared { agent, context: context.clone() }, out);
            out.effects.push(Effect::Context { agent, context });
        }
        Ok(self.shared(&agent))
    }

    pub(super) fn follow(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        agent: AgentId,
        on: bool,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        policy::may(&self.rules, caller, Verb::Read, About::default())?;
        let mut follower = caller.sender();
        // Only the address of the follower counts, not how the caller was authenticated.
        follower.proof = Proof::Own;
        let followers = self.state.followers.get(&agent).map_or(&[][..], Vec::as_slice);
        let follows = followers.iter().any(|other| other.who == follower.who);
        let max = self.limits.followers_max;
        if on && !follows && followers.len() >= max {
            return Err(Refusal::bad_field("follow", format!("{max} follow it already, the most that may")));
        }
        if on != follows {
            self.emit(now, Record::Followed { agent, follower, on }, out);
        }
        Ok(self.shared(&agent))
    }

    pub(super) fn shared(&self, agent: &AgentId) -> Answer {
        Answer::Shared {
            context: self.state.contexts.get(agent).cloned(),
            followers: self.state.followers.get(agent).cloned().unwrap_or_default(),
        }
    }

    /// After a start: shows what was shared before, which still holds.
    pub(super) fn show_context(&self, agent: AgentId, out: &mut Output) {
        if let Some(context) = self.state.contexts.get(&agent) {
            out.effects.push(Effect::Context { agent, context: Some(context.clone()) });
        }
    }
}
