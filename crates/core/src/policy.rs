//! Policy: may this caller do this, to this task, now (REST-4).
//!
//! Callers are already proven when they get here; this room only knows rights.
//! Not here: how a caller is proven (`synapse-node`'s `auth`), the rule table in settings (later).

use crate::ids::{AgentId, Label, LinkId};
use crate::message::{Proof, Sender, Who};
use crate::refusal::Refusal;

/// Who asks, after the doors have proven it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Caller {
    /// The person whose machine this is, in a process that no agent started.
    User { proof: Proof },
    /// The person, speaking for an agent of theirs.
    UserAs { agent: AgentId, label: String, proof: Proof },
    /// A process under an agent of the same user.
    Agent { id: AgentId, label: String, role: Option<Label>, proof: Proof },
    /// This node's own hand, doing the work of the agent at that link.
    Hand { link: LinkId, agent: AgentId },
    /// Somebody on loopback without a token.
    Stranger,
}

impl Caller {
    pub fn label(&self) -> String {
        match self {
            Self::User { .. } => "user".into(),
            Self::UserAs { label, .. } => format!("{label} (by user)"),
            Self::Agent { label, .. } => label.clone(),
            Self::Hand { .. } => "node".into(),
            Self::Stranger => "a caller without a token".into(),
        }
    }

    pub fn sender(&self) -> Sender {
        match self {
            Self::User { proof } => Sender::user(*proof),
            Self::UserAs { agent, label, proof } => {
                Sender { who: Who::Agent(*agent), label: label.clone(), by_user: true, proof: *proof }
            }
            Self::Agent { id, label, proof, .. } => {
                Sender { who: Who::Agent(*id), label: label.clone(), by_user: false, proof: *proof }
            }
            Self::Hand { agent, .. } => {
                Sender { who: Who::Agent(*agent), label: agent.short(), by_user: false, proof: Proof::Own }
            }
            Self::Stranger => {
                Sender { who: Who::User, label: "stranger".into(), by_user: false, proof: Proof::Spool }
            }
        }
    }

    /// The agent whose rights apply; a person speaking for an agent keeps the person's rights.
    pub fn agent(&self) -> Option<AgentId> {
        match self {
            Self::Agent { id, .. } | Self::Hand { agent: id, .. } => Some(*id),
            Self::User { .. } | Self::UserAs { .. } | Self::Stranger => None,
        }
    }

    fn is_person(&self) -> bool {
        matches!(self, Self::User { .. } | Self::UserAs { .. })
    }

    fn is_coordinator(&self) -> bool {
        matches!(self, Self::Agent { role: Some(role), .. } if role.as_str().eq_ignore_ascii_case("coordinator"))
    }
}

/// What can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    ReadStatus,
    /// Mail, tasks, receipts, events: everything that shows what was said.
    Read,
    Message,
    Interrupt,
    /// `POST /tasks` of the REST dialect.
    Assign,
    /// Reply to, or report on, a task.
    Report,
    Cancel,
    /// Say for an agent what it is doing.
    Share,
    Approve,
    /// Stop the agent, manage keys and settings.
    Manage,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadStatus => "read the status",
            Self::Read => "read mail and tasks",
            Self::Message => "send messages",
            Self::Interrupt => "interrupt",
            Self::Assign => "assign tasks",
            Self::Report => "report on this task",
            Self::Cancel => "cancel this task",
            Self::Share => "share for this agent",
            Self::Approve => "approve",
            Self::Manage => "manage this agent",
        }
    }
}

/// What the verb is about, as far as rights depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The agent that holds the task.
    pub worker: Option<AgentId>,
    pub requester: Option<&'a Who>,
}

/// The default table: the first row that fits decides.
pub fn may(caller: &Caller, verb: Verb, about: About<'_>) -> Result<(), Refusal> {
    let is_worker = caller.agent().is_some() && caller.agent() == about.worker;
    let is_requester =
        caller.agent().is_some_and(|id| about.requester.is_some_and(|who| *who == Who::Agent(id)));
    let allowed = match verb {
        Verb::ReadStatus => true,
        _ if caller.is_person() => true,
        _ if *caller == Caller::Stranger => false,
        Verb::Message | Verb::Interrupt | Verb::Read => true,
        Verb::Assign => caller.is_coordinator(),
        Verb::Report => is_worker || caller.is_coordinator(),
        Verb::Share => is_worker,
        Verb::Cancel => is_requester || caller.is_coordinator(),
        Verb::Approve | Verb::Manage => false,
    };
    if allowed {
        return Ok(());
    }
    Err(Refusal::NotAllowed { who: caller.label(), verb: verb.name(), need: needed(verb) })
}

fn needed(verb: Verb) -> &'static str {
    match verb {
        Verb::ReadStatus | Verb::Read | Verb::Message | Verb::Interrupt => {
            "the Unix socket, or the token in ~/.synapse/token as `Authorization: Bearer …`"
        }
        Verb::Assign => "the role Coordinator",
        Verb::Report => "being the agent that holds the task, or the role Coordinator",
        Verb::Cancel => "being the one who asked for the task, or the role Coordinator",
        Verb::Share => "being that agent, or the user",
        Verb::Approve | Verb::Manage => "being the user, in a process that no agent started",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers() -> [(&'static str, Caller); 6] {
        let agent = |n: u8, role: Option<&str>| Caller::Agent {
            id: AgentId::from_bytes([n; 32]),
            label: format!("agent-{n}"),
            role: role.map(|r| Label::parse(r).unwrap()),
            proof: Proof::Socket,
        };
        [
            ("user", Caller::User { proof: Proof::Socket }),
            ("worker", agent(1, Some("Developer"))),
            ("requester", agent(2, None)),
            ("other", agent(3, Some("Reviewer"))),
            ("coordinator", agent(4, Some("coordinator"))),
            ("stranger", Caller::Stranger),
        ]
    }

    /// REST-4's default, as a table: verb, then who may.
    #[test]
    fn the_default_table() {
        let table = [
            (Verb::ReadStatus, "user worker requester other coordinator stranger"),
            (Verb::Read, "user worker requester other coordinator"),
            (Verb::Message, "user worker requester other coordinator"),
            (Verb::Interrupt, "user worker requester other coordinator"),
            (Verb::Assign, "user coordinator"),
            (Verb::Report, "user worker coordinator"),
            (Verb::Cancel, "user requester coordinator"),
            (Verb::Share, "user worker"),
            (Verb::Approve, "user"),
            (Verb::Manage, "user"),
        ];
        let asked_by = Who::Agent(AgentId::from_bytes([2; 32]));
        let about = About { worker: Some(AgentId::from_bytes([1; 32])), requester: Some(&asked_by) };
        for (verb, expected) in table {
            let who: Vec<_> = callers()
                .iter()
                .filter(|(_, c)| may(c, verb, about).is_ok())
                .map(|(name, _)| *name)
                .collect();
            assert_eq!(who.join(" "), expected, "{verb:?}");
        }
    }
}
