//! Policy: whether this caller may do this, to this task, now (REST-4).
//!
//! The table is data: each role has a row of verbs. Rows come from the user's settings; a role
//! without a row has the rights of agents. Some rights are fixed in this file, and no row can grant
//! them: only the user may approve, press keys and manage, and only over the Unix socket.
//!
//! Callers are already authenticated when they get here; this module only decides rights.
//! Invariant: a check allocates nothing unless it refuses.
//! Not here: how a caller is authenticated (`synapse-node`'s `auth`), where settings come
//! from (`synapse-settings`).

use crate::ids::{AgentId, Label, LinkId};
use crate::message::{Proof, Sender, Who};
use crate::refusal::Refusal;
use std::collections::BTreeMap;

/// An authenticated caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Caller {
    /// The user of this machine, in a process that no agent started.
    User { proof: Proof },
    /// The user, acting for one of their agents.
    UserAs { agent: AgentId, label: String, proof: Proof },
    /// A process of an agent that belongs to the same user.
    Agent { id: AgentId, label: String, role: Option<Label>, proof: Proof },
    /// The holder of a secret or a certificate that does not stand for an agent.
    Named { name: Label, role: Option<Label>, proof: Proof },
    /// A hand of this node that works for the agent of that link.
    Hand { link: LinkId, agent: AgentId },
    /// A caller without any proof.
    Stranger,
}

impl Caller {
    pub fn label(&self) -> String {
        match self {
            Self::User { .. } => "user".into(),
            Self::UserAs { label, .. } => format!("{label} (by user)"),
            Self::Agent { label, .. } => label.clone(),
            Self::Named { name, .. } => name.to_string(),
            Self::Hand { .. } => "node".into(),
            Self::Stranger => "a caller without a token".into(),
        }
    }

    pub fn sender(&self) -> Sender {
        let sender = |who, label: &str, proof| Sender { who, label: label.to_owned(), by_user: false, proof };
        match self {
            Self::User { proof } => Sender::user(*proof),
            Self::UserAs { agent, label, proof } => {
                Sender { by_user: true, ..sender(Who::Agent(*agent), label, *proof) }
            }
            Self::Agent { id, label, proof, .. } => sender(Who::Agent(*id), label, *proof),
            Self::Named { name, proof, .. } => sender(Who::Named(name.clone()), name.as_str(), *proof),
            Self::Hand { agent, .. } => sender(Who::Agent(*agent), &agent.short(), Proof::Own),
            Self::Stranger => sender(Who::User, "stranger", Proof::Spool),
        }
    }

    /// The agent whose rights apply; `None` for a user who acts for an agent, who
    /// keeps the user's rights.
    pub fn agent(&self) -> Option<AgentId> {
        match self {
            Self::Agent { id, .. } | Self::Hand { agent: id, .. } => Some(*id),
            Self::User { .. } | Self::UserAs { .. } | Self::Named { .. } | Self::Stranger => None,
        }
    }

    pub fn is_person(&self) -> bool {
        matches!(self, Self::User { .. } | Self::UserAs { .. })
    }

    pub fn role(&self) -> Option<&Label> {
        match self {
            Self::Agent { role, .. } | Self::Named { role, .. } => role.as_ref(),
            _ => None,
        }
    }

    pub fn proof(&self) -> Option<Proof> {
        match self {
            Self::User { proof }
            | Self::UserAs { proof, .. }
            | Self::Agent { proof, .. }
            | Self::Named { proof, .. } => Some(*proof),
            Self::Hand { .. } => Some(Proof::Own),
            Self::Stranger => None,
        }
    }
}

/// The actions that rights apply to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Verb {
    ReadStatus,
    /// Read mail, tasks, receipts and events: everything that shows what was said.
    Read,
    /// Send messages, and cancel one's own requests.
    Message,
    /// Answer, or report on, a task of one's own agent.
    Reply,
    Interrupt,
    /// `POST /tasks` of the REST dialect.
    Assign,
    /// Answer, or report on, any task.
    Report,
    /// Cancel any task.
    Cancel,
    /// Share what an agent is doing.
    Share,
    Approve,
    /// Press keys in the agent's terminal.
    Keys,
    /// Stop the agent, manage keys and settings.
    Manage,
}

impl Verb {
    pub const ALL: [Self; 11] = [
        Self::ReadStatus,
        Self::Read,
        Self::Message,
        Self::Reply,
        Self::Interrupt,
        Self::Assign,
        Self::Report,
        Self::Cancel,
        Self::Approve,
        Self::Keys,
        Self::Manage,
    ];

    /// Returns the verb as a refusal shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadStatus => "read the status",
            Self::Read => "read mail and tasks",
            Self::Message => "send messages",
            Self::Reply => "reply to this task",
            Self::Interrupt => "interrupt",
            Self::Assign => "assign tasks",
            Self::Report => "report on this task",
            Self::Cancel => "cancel this task",
            Self::Share => "share for this agent",
            Self::Approve => "approve",
            Self::Keys => "press keys",
            Self::Manage => "manage this agent",
        }
    }

    /// Returns the verb as settings write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadStatus => "read_status",
            Self::Read => "read",
            Self::Message => "message",
            Self::Reply => "reply",
            Self::Interrupt => "interrupt",
            Self::Assign => "assign",
            Self::Report => "report",
            Self::Cancel => "cancel",
            Self::Share => "share",
            Self::Approve => "approve",
            Self::Keys => "keys",
            Self::Manage => "manage",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }
}

/// A set of verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verbs(u16);

impl Verbs {
    pub const NONE: Self = Self(0);

    pub const fn of(verbs: &[Verb]) -> Self {
        let (mut bits, mut n) = (0, 0);
        while n < verbs.len() {
            bits |= 1 << verbs[n] as u16;
            n += 1;
        }
        Self(bits)
    }

    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub const fn has(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u16) != 0
    }

    pub fn is_within(self, other: Self) -> bool {
        self.only(other) == self
    }
}

const ALL: Verbs = Verbs::of(&Verb::ALL);
const OF_AGENTS: Verbs =
    Verbs::of(&[Verb::ReadStatus, Verb::Read, Verb::Message, Verb::Reply, Verb::Interrupt]);
const OF_COORDINATORS: Verbs = OF_AGENTS.and(Verbs::of(&[Verb::Assign, Verb::Report, Verb::Cancel]));
/// The verbs that no role can be given.
const OF_THE_USER_ALONE: Verbs = Verbs::of(&[Verb::Approve, Verb::Keys, Verb::Manage]);
const STATUS: Verbs = Verbs::of(&[Verb::ReadStatus]);
/// The verbs of anyone who is admitted without proof: send tasks and read one's own.
const ANYONE: Verbs = Verbs::of(&[Verb::ReadStatus, Verb::Read, Verb::Message]);
const MESSAGE: Verbs = Verbs::of(&[Verb::Message]);

/// Which role may do what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// For agents without a role, and roles without a row.
    agent: Verbs,
    /// A short list, searched without regard to case.
    roles: Vec<(Label, Verbs)>,
}

/// Why a table of rights is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum BadRights {
    #[error("rights.{role}: {why}")]
    Role { role: String, why: String },
    #[error("rights.{role}: {verb:?} is no right; use some of {}", words())]
    Verb { role: String, verb: String },
    #[error(
        "rights.{role}: {verb:?} cannot be given away: only the user may, in a process that no agent started"
    )]
    OfTheUserAlone { role: String, verb: &'static str },
    #[error("rights: {count} roles, more than the {} that are looked at", Rules::ROLES_MAX)]
    TooMany { count: usize },
}

impl Default for Rules {
    fn default() -> Self {
        let coordinator = Label::parse(COORDINATOR).expect("a plain word is a label");
        Self { agent: OF_AGENTS, roles: vec![(coordinator, OF_COORDINATORS)] }
    }
}

impl Rules {
    pub const ROLES_MAX: usize = 64;
    /// The row of agents without a role.
    pub const AGENT: &'static str = "agent";

    /// Returns the default table with some rows replaced. Each row maps a role to names of verbs;
    /// every row may read the status.
    pub fn with(rows: &BTreeMap<String, Vec<String>>) -> Result<Self, BadRights> {
        if rows.len() > Self::ROLES_MAX {
            return Err(BadRights::TooMany { count: rows.len() });
        }
        let mut rules = Self::default();
        for (role, words) in rows {
            let wrong = |why: String| BadRights::Role { role: role.clone(), why };
            let label = Label::parse(role).map_err(|bad| wrong(bad.to_string()))?;
            if label.as_str().eq_ignore_ascii_case("user") {
                return Err(wrong("the user may do all, and that cannot be changed".into()));
            }
            let row = row_of(role, words)?;
            if label.as_str().eq_ignore_ascii_case(Self::AGENT) {
                rules.agent = row;
                continue;
            }
            match rules.roles.iter_mut().find(|(known, _)| same(known, &label)) {
                Some((_, known)) => *known = row,
                None => rules.roles.push((label, row)),
            }
        }
        Ok(rules)
    }

    /// Returns what an agent with this role may do.
    pub fn of_role(&self, role: Option<&Label>) -> Verbs {
        let row = role.and_then(|role| self.roles.iter().find(|(known, _)| same(known, role)));
        row.map_or(self.agent, |(_, row)| *row)
    }

    /// Returns what this caller may do, before considering the task.
    fn of(&self, caller: &Caller) -> Verbs {
        let row = match caller {
            Caller::User { .. } | Caller::UserAs { .. } => ALL,
            Caller::Agent { role, .. } => self.of_role(role.as_ref()),
            Caller::Named { role: Some(role), .. } => self.of_role(Some(role)),
            // A letter passed on by another node of this user, which already
            // checked the sender's rights.
            Caller::Named { role: None, proof: Proof::Spool | Proof::Token, .. } => MESSAGE,
            Caller::Named { role: None, proof: Proof::Open, .. } => ANYONE,
            Caller::Named { role: None, .. } => STATUS,
            Caller::Hand { .. } => OF_AGENTS,
            Caller::Stranger => STATUS,
        };
        match caller.proof() {
            Some(Proof::Socket) => row,
            // A caller known only from a file may leave a message, and nothing else.
            Some(Proof::Spool) => row.only(MESSAGE),
            _ => row.without(OF_THE_USER_ALONE),
        }
    }
}

fn row_of(role: &str, words: &[String]) -> Result<Verbs, BadRights> {
    let mut row = STATUS;
    for word in words {
        let unknown = || BadRights::Verb { role: role.to_owned(), verb: word.chars().take(64).collect() };
        let verb = Verb::parse(word).ok_or_else(unknown)?;
        if OF_THE_USER_ALONE.has(verb) {
            return Err(BadRights::OfTheUserAlone { role: role.to_owned(), verb: verb.word() });
        }
        row = row.and(Verbs::of(&[verb]));
    }
    Ok(row)
}

/// Returns the rights that a role can be given, as settings spell them.
pub fn rights() -> impl Iterator<Item = &'static str> {
    Verb::ALL.into_iter().filter(|verb| !OF_THE_USER_ALONE.has(*verb)).map(Verb::word)
}

fn words() -> String {
    rights().collect::<Vec<_>>().join(", ")
}

/// Compares roles without case: `coordinator` and `Coordinator` are one role.
fn same(a: &Label, b: &Label) -> bool {
    a.as_str().eq_ignore_ascii_case(b.as_str())
}

const COORDINATOR: &str = "Coordinator";

/// The task that the verb applies to, as far as rights depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The agent that holds the task.
    pub worker: Option<AgentId>,
    pub requester: Option<&'a Who>,
}

/// Checks whether the caller may; a refusal says what would be needed.
pub fn may(rules: &Rules, caller: &Caller, verb: Verb, about: About<'_>) -> Result<(), Refusal> {
    let row = rules.of(caller);
    let allowed = match verb {
        Verb::Reply | Verb::Report => row.has(Verb::Report) || (row.has(Verb::Reply) && holds(caller, about)),
        Verb::Cancel => row.has(Verb::Cancel) || (row.has(Verb::Message) && asked(caller, about)),
        Verb::Share => row.has(Verb::Reply) && (caller.is_person() || holds(caller, about)),
        other => row.has(other),
    };
    if allowed { Ok(()) } else { Err(refused(caller, verb, row)) }
}

fn holds(caller: &Caller, about: About<'_>) -> bool {
    caller.agent().is_some() && caller.agent() == about.worker
}

fn asked(caller: &Caller, about: About<'_>) -> bool {
    match (caller, about.requester) {
        (Caller::Agent { id, .. } | Caller::Hand { agent: id, .. }, Some(Who::Agent(by))) => id == by,
        (Caller::Named { name, .. }, Some(Who::Named(by))) => name == by,
        _ => false,
    }
}

fn refused(caller: &Caller, verb: Verb, row: Verbs) -> Refusal {
    if let Caller::Stranger = caller {
        return Refusal::NotProven { why: format!("{} may not {}", caller.label(), verb.name()) };
    }
    let who = match caller.role() {
        Some(role) => format!("{} (role {role})", caller.label()),
        None => caller.label(),
    };
    Refusal::NotAllowed { who, verb: verb.name(), need: needed(caller, verb, row) }
}

fn needed(caller: &Caller, verb: Verb, row: Verbs) -> &'static str {
    match verb {
        Verb::Approve | Verb::Keys | Verb::Manage if caller.is_person() => {
            "the Unix socket, so use the `synapse` command"
        }
        Verb::Share => "being that agent, or the user",
        Verb::Approve | Verb::Keys | Verb::Manage => "being the user, in a process that no agent started",
        _ if caller.proof() == Some(Proof::Spool) => {
            "the Unix socket; a letter in a spool can only be a message"
        }
        Verb::Assign => "the role Coordinator, or one with the right `assign`",
        Verb::Reply | Verb::Report if row.has(Verb::Reply) => {
            "being the agent that holds the task, or the role Coordinator"
        }
        Verb::Cancel if row.has(Verb::Message) => {
            "being the one who asked for the task, or the role Coordinator"
        }
        Verb::ReadStatus => "a role with the right `read_status`; see `rights` in the user's settings",
        Verb::Read => "a role with the right `read`; see `rights` in the user's settings",
        Verb::Message => "a role with the right `message`; see `rights` in the user's settings",
        Verb::Reply | Verb::Report => "a role with the right `reply`; see `rights` in the user's settings",
        Verb::Interrupt => "a role with the right `interrupt`; see `rights` in the user's settings",
        Verb::Cancel => "a role with the right `cancel`; see `rights` in the user's settings",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(n: u8, role: Option<&str>, proof: Proof) -> Caller {
        let role = role.map(|r| Label::parse(r).unwrap());
        Caller::Agent { id: AgentId::from_bytes([n; 32]), label: format!("agent-{n}"), role, proof }
    }

    fn named(name: &str, role: Option<&str>, proof: Proof) -> Caller {
        let label = |raw| Label::parse(raw).unwrap();
        Caller::Named { name: label(name), role: role.map(label), proof }
    }

    // tidy: table
    fn callers() -> Vec<(&'static str, Caller)> {
        use Proof::{Certificate, Outbox, Secret, Socket, Spool, Token};
        let id = AgentId::from_bytes([3; 32]);
        let user_as = |proof| Caller::UserAs { agent: id, label: "x".into(), proof };
        vec![
            ("user", Caller::User { proof: Socket }),
            ("user-as", user_as(Socket)),
            ("user-tcp", Caller::User { proof: Token }),
            ("user-as-tcp", user_as(Token)),
            ("user-file", Caller::User { proof: Spool }),
            ("worker", agent(1, Some("Developer"), Socket)),
            ("requester", agent(2, None, Token)),
            ("other", agent(3, Some("Reviewer"), Socket)),
            ("coordinator", agent(4, Some("coordinator"), Socket)),
            ("worker-boxed", agent(1, None, Outbox)),
            ("coordinator-file", agent(4, Some("Coordinator"), Spool)),
            ("hand", Caller::Hand { link: LinkId(1), agent: AgentId::from_bytes([1; 32]) }),
            ("secret-coordinator", named("ci", Some("Coordinator"), Secret)),
            ("secret-developer", named("dev", Some("Developer"), Secret)),
            ("secret-no-role", named("ops", None, Secret)),
            ("certificate-no-role", named("ops", None, Certificate)),
            ("passed-on", named("ops", None, Token)),
            ("stranger", Caller::Stranger),
        ]
    }

    fn check(rules: &Rules, table: &[(Verb, &str)]) {
        let asked_by = Who::Agent(AgentId::from_bytes([2; 32]));
        let about = About { worker: Some(AgentId::from_bytes([1; 32])), requester: Some(&asked_by) };
        for (verb, expected) in table {
            let who: Vec<_> = callers()
                .iter()
                .filter(|(_, c)| may(rules, c, *verb, about).is_ok())
                .map(|(name, _)| *name)
                .collect();
            assert_eq!(who.join(" "), *expected, "{verb:?}");
        }
    }

    /// REST-4's default and X-10's limits as a table: each verb with the callers that may.
    #[test]
    fn the_default_table() {
        let people = "user user-as user-tcp user-as-tcp";
        let agents = "worker requester other coordinator worker-boxed";
        let remote = "secret-coordinator secret-developer";
        let known = format!("{people} {agents} hand {remote}");
        let messages = format!("{people} user-file {agents} coordinator-file hand {remote} passed-on");
        let reports = format!("{people} worker coordinator worker-boxed hand secret-coordinator");
        check(
            &Rules::default(),
            &[
                (Verb::ReadStatus, &format!("{known} secret-no-role certificate-no-role stranger")),
                (Verb::Read, &known),
                (Verb::Message, &messages),
                (Verb::Reply, &reports),
                (Verb::Interrupt, &known),
                (Verb::Assign, &format!("{people} coordinator secret-coordinator")),
                (Verb::Report, &reports),
                (Verb::Cancel, &format!("{people} requester coordinator secret-coordinator")),
                (Verb::Share, &format!("{people} worker worker-boxed hand")),
                (Verb::Approve, "user user-as"),
                (Verb::Keys, "user user-as"),
                (Verb::Manage, "user user-as"),
            ],
        );
    }

    fn rules(rows: &[(&str, &[&str])]) -> Result<Rules, BadRights> {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        Rules::with(&rows.iter().map(|(role, words)| ((*role).to_owned(), own(words))).collect())
    }

    /// REST-4: a row in settings replaces the default row of that role only.
    #[test]
    fn rows_from_settings() {
        let people = "user user-as user-tcp user-as-tcp";
        let rules =
            rules(&[("COORDINATOR", &["assign"]), ("reviewer", &["read", "cancel"]), ("agent", &["reply"])])
                .unwrap();
        check(
            &rules,
            &[
                (Verb::Read, &format!("{people} other hand")),
                (Verb::Message, &format!("{people} user-file hand passed-on")),
                (Verb::Assign, &format!("{people} coordinator secret-coordinator")),
                (Verb::Report, &format!("{people} worker worker-boxed hand")),
                (Verb::Cancel, &format!("{people} other")),
                (Verb::Approve, "user user-as"),
            ],
        );
    }

    #[test]
    fn a_table_that_cannot_be_meant_is_refused() {
        let cases = [
            ("Reviewer", "raed", "rights.Reviewer: \"raed\" is no right; use some of read_status, read"),
            ("Reviewer", "approve", "cannot be given away"),
            ("Coordinator", "keys", "cannot be given away"),
            ("Coordinator", "manage", "only the user may, in a process that no agent started"),
            ("User", "read", "the user may do all"),
            ("a b", "read", "rights.a b: "),
        ];
        for (role, verb, words) in cases {
            let told = rules(&[(role, &[verb])]).unwrap_err().to_string();
            assert!(told.contains(words), "{told}");
        }
        let many = (0..65).map(|n| (format!("r{n}"), Vec::new())).collect();
        assert_eq!(Rules::with(&many), Err(BadRights::TooMany { count: 65 }));
    }

    /// A refusal names the caller, the verb, and what would be needed.
    #[test]
    fn refusals_say_what_is_needed() {
        let rules = rules(&[("Reviewer", &["read"])]).unwrap();
        let cases = [
            (
                agent(3, Some("Reviewer"), Proof::Socket),
                Verb::Message,
                "agent-3 (role Reviewer) may not send messages; it needs a role with the right `message`; \
                 see `rights` in the user's settings",
            ),
            (
                agent(2, None, Proof::Socket),
                Verb::Report,
                "agent-2 may not report on this task; it needs being the agent that holds the task, or the role \
                 Coordinator",
            ),
            (
                Caller::User { proof: Proof::Token },
                Verb::Manage,
                "user may not manage this agent; it needs the Unix socket, so use the `synapse` command",
            ),
            (
                Caller::Stranger,
                Verb::Message,
                "a caller without a token may not send messages; use the Unix socket, or a secret as \
                 `Authorization: Bearer …`; the user's is in ~/.synapse/token",
            ),
        ];
        for (caller, verb, words) in cases {
            let told = may(&rules, &caller, verb, About::default()).unwrap_err().to_string();
            assert_eq!(told, words);
        }
    }

    /// A requester may cancel its own task, also as a named caller.
    #[test]
    fn a_named_caller_cancels_what_it_asked_for() {
        let (own, other) =
            (Who::Named(Label::parse("dev").unwrap()), Who::Named(Label::parse("ci").unwrap()));
        let dev = named("dev", Some("Developer"), Proof::Secret);
        let about = |who| About { worker: None, requester: Some(who) };
        assert!(may(&Rules::default(), &dev, Verb::Cancel, about(&own)).is_ok());
        assert!(may(&Rules::default(), &dev, Verb::Cancel, about(&other)).is_err());
    }
}
