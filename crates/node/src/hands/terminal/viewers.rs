//! Viewers of the terminal: logs who looks and types, and admits agents that may read.
//!
//! The holder knows which process connected and tells us. It lets an agent look only after we allow
//! it. Not here: how the holder identifies the process (`synapse-holder`'s `terminal/visitors`).

use super::Sitting;
use crate::ancestry::Kin;
use synapse_core::Timestamp;
use synapse_core::ids::AgentId;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::audit::{self, Actor, Line};
use synapse_dialects::error;
use synapse_holder::terminal::visitors::{ViewerAct, ViewerEvent, Visitor};
use synapse_holder::terminal::wire::Ask;

impl Sitting<'_> {
    /// Handles a viewer event. Returns false if the holder cannot be answered.
    pub(super) async fn viewer(&mut self, event: &ViewerEvent) -> bool {
        let app = &self.hand.app;
        let caller = app.gate.by_ancestry(&kin(&event.who)).unwrap_or(Caller::Stranger);
        let (verb, refusal) = match event.act {
            ViewerAct::Attach => ("attach", None),
            ViewerAct::Take => ("take", None),
            ViewerAct::Type => ("type", None),
            ViewerAct::Refused => ("attach", Some(refused(&caller))),
            // The same right as for `GET /api/v1/screen`.
            ViewerAct::AskToLook => {
                let may = policy::may(&app.gate.rules(), &caller, Verb::Read, About::default());
                ("attach", may.err())
            }
            ViewerAct::Other => return true,
        };
        let mut line = Line::new(Timestamp(event.at_ms), &Actor::of(&caller), "terminal", verb);
        line.status = Some(refusal.as_ref().map_or(200, error::status));
        line.code = refusal.as_ref().map(|refusal| refusal.code().into());
        line.note = Some(note(event).into());
        line.more = event.dropped;
        app.audit.write_now(line);
        if event.act != ViewerAct::AskToLook {
            return true;
        }
        let refused = refusal.map(|refusal| refusal.to_string());
        self.ask(Ask::Admit { viewer: event.viewer, refused }).await
    }
}

/// One invalid id makes the whole visitor unknown.
fn kin(who: &Visitor) -> Kin {
    match who {
        Visitor::User => Kin::Person,
        Visitor::Nobody => Kin::Gone,
        Visitor::Agents(ids) => {
            let ids: Result<Vec<AgentId>, _> = ids.iter().map(|id| AgentId::parse(id)).collect();
            ids.ok().filter(|ids| !ids.is_empty()).map_or(Kin::Gone, Kin::Under)
        }
    }
}

fn refused(caller: &Caller) -> synapse_core::Refusal {
    synapse_core::Refusal::NotAllowed {
        who: caller.label(),
        verb: "type in this terminal",
        need: "being the user, in a process that no agent started",
    }
}

/// Describes the process in our own words; it can choose its name freely.
fn note(event: &ViewerEvent) -> String {
    const NAME_CHARS_MAX: usize = 32;
    let mut note = match event.pid {
        0 => "a process that cannot be seen".to_owned(),
        pid => format!("process {pid} ({})", audit::plain(&event.program, NAME_CHARS_MAX)),
    };
    if !event.role.is_empty() {
        note.push_str(" as ");
        note.push_str(&audit::plain(&event.role, NAME_CHARS_MAX));
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_that_cannot_be_named_are_nobody() {
        let id = AgentId::parse(&"0a".repeat(32)).unwrap();
        let named = |ids: &[&str]| kin(&Visitor::Agents(ids.iter().map(|id| (*id).to_owned()).collect()));
        assert_eq!(named(&[]), Kin::Gone);
        assert_eq!(named(&["no id"]), Kin::Gone);
        assert_eq!(named(&[&id.to_string()]), Kin::Under(vec![id]));
        assert_eq!(named(&[&id.to_string(), "?"]), Kin::Gone);
        assert_eq!(kin(&Visitor::User), Kin::Person);
    }
}
