//! Identities of agents: which one a start gets, and giving an agent another name.
//!
//! An id is made from the host, the folder, the type and a suffix, which is the agent's first name
//! or its number. It never changes. A name is looked up among the known agents, because an agent
//! may have another name now than the one in its id.
//!
//! Not here: whether the agent already runs (its holder's lock), telling its node.

use crate::home::Home;
use crate::known::{Known, KnownError};
use crate::registry;
use synapse_core::Refusal;
use synapse_core::ids::{AgentId, AgentType, Label};
use synapse_core::routes;

/// Where an agent is started, and its type.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    pub hostname: &'a str,
    pub folder: &'a str,
    pub kind: &'a AgentType,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub id: AgentId,
    pub suffix: Option<String>,
}

impl Origin<'_> {
    /// Returns the identity of the agent with this name: one that has it already, or a new one.
    pub fn of_name(&self, name: &Label, known: &[Known]) -> Identity {
        if let Some(found) = self.known_here(known).find(|known| known.name.as_ref() == Some(name)) {
            return Identity::of(found);
        }
        // An agent whose first name this was keeps its identity under its present name.
        let suffixes = std::iter::once(name.to_string()).chain((2..u32::MAX).map(|n| format!("{name}~{n}")));
        let is_free = |one: &Identity| known.iter().all(|known| known.id != one.id);
        let mut free = suffixes.map(|suffix| self.derive(Some(suffix))).filter(is_free);
        free.next().unwrap_or_else(|| self.derive(Some(name.to_string())))
    }

    /// Returns the identity of the unnamed agent with this number, known or new; `None` if the
    /// agent with this number has a name now.
    pub fn of_number(&self, number: u32, known: &[Known]) -> Option<Identity> {
        match self.known_here(known).find(|known| known.reserved_number() == Some(number)) {
            Some(found) => found.name.is_none().then(|| Identity::of(found)),
            None => Some(self.derive((number > 1).then(|| number.to_string()))),
        }
    }

    fn known_here<'k>(&'k self, known: &'k [Known]) -> impl Iterator<Item = &'k Known> {
        let is_here = |known: &&Known| {
            known.hostname == self.hostname && known.working_dir == self.folder && known.kind == *self.kind
        };
        known.iter().filter(is_here)
    }

    fn derive(&self, suffix: Option<String>) -> Identity {
        Identity { id: AgentId::derive(self.hostname, self.folder, self.kind, suffix.as_deref()), suffix }
    }
}

impl Identity {
    fn of(known: &Known) -> Self {
        Self { id: known.id, suffix: known.suffix.clone() }
    }
}

/// Why an agent was not renamed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RenameError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Known(#[from] KnownError),
}

/// Gives a known agent this name, or takes its name away, and returns what is known of it before and
/// after. The caller is the agent's node, or holds its lock.
pub fn rename(home: &Home, id: &AgentId, name: Option<Label>) -> Result<(Known, Known), RenameError> {
    let unknown = || Refusal::NoSuchAgent { target: id.short(), nearest: Vec::new(), renamed: false };
    let before = Known::load(&home.agent(id))?.ok_or_else(unknown)?;
    let (all, _) = Known::all(home);
    if let Some(name) = &name {
        let among = registry::merge(&registry::look(home), &all);
        if let Some(other) = routes::holder_of_name(name, id, &before.working_dir, &among) {
            let by = other.call_it_anywhere(&among);
            return Err(Refusal::NameTaken { name: name.to_string(), by }.into());
        }
    }
    let after = renamed(&before, name, &all);
    if after != before {
        after.save(home)?;
    }
    Ok((before, after))
}

/// Returns what is known of an agent once it has this name.
fn renamed(before: &Known, name: Option<Label>, all: &[Known]) -> Known {
    const FORMER_NAMES_MAX: usize = 8;
    let mut after = before.clone();
    if before.name == name {
        return after;
    }
    after.former_names.extend(before.name.clone());
    after.former_names.retain(|former| Some(former) != name.as_ref());
    let surplus = after.former_names.len().saturating_sub(FORMER_NAMES_MAX);
    after.former_names.drain(..surplus);
    if name.is_none() && before.reserved_number().is_none() {
        let origin = Origin { hostname: &before.hostname, folder: &before.working_dir, kind: &before.kind };
        let taken: Vec<u32> = origin.known_here(all).filter_map(Known::reserved_number).collect();
        after.assigned_number = (1..u32::MAX).find(|number| !taken.contains(number));
    }
    after.name = name;
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "cat";

    fn kind() -> AgentType {
        AgentType::parse(KIND).unwrap()
    }

    fn label(name: &str) -> Label {
        Label::parse(name).unwrap()
    }

    fn known(identity: Identity, name: Option<&str>) -> Known {
        Known {
            id: identity.id,
            kind: kind(),
            name: name.map(label),
            former_names: Vec::new(),
            suffix: identity.suffix,
            assigned_number: None,
            role: None,
            capabilities: Vec::new(),
            working_dir: "/w".into(),
            hostname: "host".into(),
            port: None,
            first_seen_ms: 1,
            last_started_ms: 1,
            started_by: None,
        }
    }

    fn suffix(identity: &Identity) -> &str {
        identity.suffix.as_deref().unwrap_or("-")
    }

    #[test]
    fn renamed_agent_keeps_its_identity_and_frees_its_first_name() {
        let kind = kind();
        let origin = Origin { hostname: "host", folder: "/w", kind: &kind };
        let shout = known(origin.of_name(&label("shout"), &[]), Some("shout"));
        assert_eq!(shout.id, AgentId::derive("host", "/w", &kind, Some("shout")));
        let loud = renamed(&shout, Some(label("loud")), std::slice::from_ref(&shout));
        assert_eq!((loud.id, loud.former_names.clone()), (shout.id, vec![label("shout")]));
        let mut all = vec![loud.clone()];
        assert_eq!(origin.of_name(&label("loud"), &all).id, shout.id);
        let second = origin.of_name(&label("shout"), &all);
        assert_eq!(suffix(&second), "shout~2");
        all.push(known(second.clone(), Some("shout")));
        assert_eq!(origin.of_name(&label("shout"), &all), second, "the same one at its next start");
        // Elsewhere the name is free as it always was.
        let elsewhere = Origin { folder: "/other", ..origin };
        assert_eq!(suffix(&elsewhere.of_name(&label("loud"), &all)), "loud");
        let back = renamed(&loud, Some(label("shout")), &all);
        assert_eq!(back.former_names, [label("loud")]);
    }

    #[test]
    fn unnamed_agent_that_gets_a_name_and_loses_it_has_its_number_again() {
        let kind = kind();
        let origin = Origin { hostname: "host", folder: "/w", kind: &kind };
        let first = known(origin.of_number(1, &[]).unwrap(), None);
        assert_eq!((suffix(&origin.of_number(1, &[]).unwrap()), first.number()), ("-", None));
        let ana = renamed(&first, Some(label("ana")), std::slice::from_ref(&first));
        let all = [ana.clone()];
        assert_eq!(origin.of_number(1, &all), None, "it has a name now");
        assert_eq!(suffix(&origin.of_number(2, &all).unwrap()), "2");
        let cleared = renamed(&ana, None, &all);
        assert_eq!((cleared.number(), cleared.assigned_number), (None, None));
        assert_eq!(origin.of_number(1, &[cleared]).unwrap().id, first.id);
    }

    #[test]
    fn agent_whose_name_is_taken_away_gets_a_free_number() {
        let kind = kind();
        let origin = Origin { hostname: "host", folder: "/w", kind: &kind };
        let shout = known(origin.of_name(&label("shout"), &[]), Some("shout"));
        // Alone, it is the first; beside two others, the third.
        let alone = renamed(&shout, None, std::slice::from_ref(&shout));
        assert_eq!((alone.number(), alone.reserved_number()), (None, Some(1)));
        assert_eq!(origin.of_number(1, &[alone]).unwrap().id, shout.id);
        let named_first = known(origin.of_number(1, &[]).unwrap(), Some("ana"));
        let second = known(origin.of_number(2, &[]).unwrap(), None);
        let all = [shout.clone(), named_first, second];
        let third = renamed(&shout, None, &all);
        assert_eq!(third.number(), Some(3));
        let again = renamed(&renamed(&third, Some(label("x")), &all), None, &all);
        assert_eq!(again.number(), Some(3), "it keeps its number");
    }

    #[test]
    fn number_is_not_a_name() {
        let kind = kind();
        let origin = Origin { hostname: "host", folder: "/w", kind: &kind };
        let two = known(origin.of_name(&label("2"), &[]), Some("2"));
        assert_eq!(origin.of_number(2, &[two]), None);
    }
}
