//! Routes: which agents a target means.
//!
//! Matching is exact, never by substring. The live are asked first, then the known; several matches are an
//! answer that lists them, no match is one that names the nearest.
//! Not here: where candidates come from (a hub's own agents, or the registry on disk).

use crate::ids::{AgentId, AgentType, Label};
use serde::{Deserialize, Serialize};

/// What a caller wrote to say whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The agent of the node that was asked.
    Here,
    Named(String),
    Everyone,
    /// Any agent with this capability: `skill:review`.
    Skill(Label),
}

impl Target {
    pub const CHARS_MAX: usize = 160;

    pub fn parse(raw: &str) -> Result<Self, crate::ids::BadId> {
        let bad = |rule| crate::ids::BadId { what: "target", raw: raw.chars().take(80).collect(), rule };
        if raw.is_empty() || raw.chars().count() > Self::CHARS_MAX {
            return Err(bad("it must be 1 to 160 characters"));
        }
        if raw.chars().any(|c| c.is_control() || c == '/' || c.is_whitespace()) {
            return Err(bad("it must not contain spaces, slashes or control characters"));
        }
        if let Some(skill) = raw.strip_prefix("skill:") {
            return Ok(Self::Skill(Label::parse(skill)?));
        }
        Ok(if raw == "broadcast" { Self::Everyone } else { Self::Named(raw.to_owned()) })
    }
}

/// An agent as far as routing cares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    pub id: AgentId,
    #[serde(rename = "type")]
    pub kind: AgentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Label>,
    /// Its port now, or the last it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Label>,
    pub live: bool,
}

impl Candidate {
    /// The shortest form that names this agent among these others.
    pub fn call_it(&self, among: &[Self]) -> String {
        let mut forms = Vec::new();
        forms.extend(self.name.as_ref().map(ToString::to_string));
        if self.live {
            forms.extend(self.port.map(|port| format!("{}-{port}", self.kind)));
        }
        forms
            .into_iter()
            .find(|form| {
                moved(form, among).is_none()
                    && matches!(matching(form, among).as_slice(), [one] if one.id == self.id)
            })
            .unwrap_or_else(|| self.id.short())
    }

    fn is_called(&self, name: &str) -> bool {
        self.is_called_by_port(name)
            || self.name.as_ref().is_some_and(|own| own.as_str().eq_ignore_ascii_case(name))
            || self.kind.as_str().eq_ignore_ascii_case(name)
            || is_id_prefix(name, &self.id)
    }

    fn is_called_by_port(&self, name: &str) -> bool {
        let short = name.strip_prefix("synapse-").unwrap_or(name);
        self.port.is_some_and(|port| {
            short
                .strip_suffix(&port.to_string())
                .and_then(|rest| rest.strip_suffix('-'))
                .is_some_and(|kind| kind.eq_ignore_ascii_case(self.kind.as_str()))
        })
    }
}

fn is_id_prefix(name: &str, id: &AgentId) -> bool {
    let hex = name.strip_prefix("0x").unwrap_or(name);
    hex.len() >= 8 && id.to_string().starts_with(hex)
}

/// Why a target means nobody, or too many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoRoute {
    Unknown {
        nearest: Vec<String>,
    },
    Ambiguous {
        candidates: Vec<String>,
    },
    /// The handle was one agent's, and its port now belongs to another.
    Moved {
        was: String,
        now: String,
    },
}

/// The agents a target means: one for a name; all the able for a skill, of which the caller takes the
/// least busy; everyone that is live for a broadcast.
pub fn resolve(target: &Target, among: &[Candidate]) -> Result<Vec<AgentId>, NoRoute> {
    match target {
        Target::Everyone => Ok(among.iter().filter(|c| c.live).map(|c| c.id).collect()),
        Target::Skill(skill) => {
            let able = |live| among.iter().filter(move |c| c.live == live && c.capabilities.contains(skill));
            let ids: Vec<AgentId> = able(true).map(|c| c.id).collect();
            let ids = if ids.is_empty() { able(false).map(|c| c.id).collect() } else { ids };
            if ids.is_empty() { Err(NoRoute::Unknown { nearest: Vec::new() }) } else { Ok(ids) }
        }
        Target::Here if among.len() == 1 => Ok(vec![among[0].id]),
        Target::Here => one_of(among.iter().collect(), among, ""),
        Target::Named(name) => named(name, among),
    }
}

fn named(name: &str, among: &[Candidate]) -> Result<Vec<AgentId>, NoRoute> {
    if let Some((known, usurper)) = moved(name, among) {
        return Err(NoRoute::Moved { was: describe(known), now: usurper.call_it(among) });
    }
    one_of(matching(name, among), among, name)
}

/// A handle whose port now belongs to another agent than the one it named.
fn moved<'a>(name: &str, among: &'a [Candidate]) -> Option<(&'a Candidate, &'a Candidate)> {
    if among.iter().any(|c| c.live && c.is_called_by_port(name)) {
        return None;
    }
    let known = among.iter().find(|c| !c.live && c.is_called_by_port(name))?;
    among.iter().find(|c| c.live && c.port == known.port).map(|usurper| (known, usurper))
}

/// Who is called so: the live, or if none is, the known.
fn matching<'a>(name: &str, among: &'a [Candidate]) -> Vec<&'a Candidate> {
    // A name that a person gave wins over a type of the same spelling.
    let given = |c: &&Candidate| c.name.as_ref().is_some_and(|own| own.as_str().eq_ignore_ascii_case(name));
    let mut found: Vec<&Candidate> = among.iter().filter(given).collect();
    if found.is_empty() {
        found = among.iter().filter(|c| c.is_called(name)).collect();
    }
    if found.iter().any(|c| c.live) {
        found.retain(|c| c.live);
    }
    found
}

fn one_of(found: Vec<&Candidate>, among: &[Candidate], wanted: &str) -> Result<Vec<AgentId>, NoRoute> {
    match found.as_slice() {
        [only] => Ok(vec![only.id]),
        [] => Err(NoRoute::Unknown { nearest: nearest(wanted, among) }),
        several => Err(NoRoute::Ambiguous { candidates: several.iter().map(|c| c.call_it(among)).collect() }),
    }
}

fn describe(candidate: &Candidate) -> String {
    match &candidate.name {
        Some(name) => format!("{name} ({}, stopped)", candidate.id.short()),
        None => format!("{} (stopped)", candidate.id.short()),
    }
}

/// Up to three names that look like the one that was wanted.
fn nearest(wanted: &str, among: &[Candidate]) -> Vec<String> {
    const NEAREST_MAX: usize = 3;
    let wanted = wanted.to_ascii_lowercase();
    let mut scored: Vec<(usize, String)> = among
        .iter()
        .map(|c| {
            let forms = [
                Some(c.kind.to_string()),
                c.name.as_ref().map(ToString::to_string),
                c.port.map(|p| format!("{}-{p}", c.kind)),
            ];
            let near = forms.iter().flatten().map(|form| distance(&wanted, &form.to_ascii_lowercase())).min();
            (near.unwrap_or(usize::MAX), c.call_it(among))
        })
        .filter(|(score, _)| *score <= 2.max(wanted.len() / 3))
        .collect();
    scored.sort();
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(NEAREST_MAX).map(|(_, form)| form).collect()
}

/// How many letters one must add, drop, change or swap.
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(n: u8, kind: &str, name: Option<&str>, port: Option<u16>, live: bool) -> Candidate {
        Candidate {
            id: AgentId::from_bytes([n; 32]),
            kind: AgentType::parse(kind).unwrap(),
            name: name.map(|n| Label::parse(n).unwrap()),
            port,
            capabilities: vec![Label::parse("review").unwrap()],
            live,
        }
    }

    fn world() -> Vec<Candidate> {
        vec![
            agent(0x11, "claude", None, Some(8100), true),
            agent(0x22, "claude", Some("ana"), Some(8101), true),
            agent(0x33, "codex", None, Some(8102), true),
            agent(0x44, "gemini", None, Some(8103), false),
            agent(0x55, "codex", None, Some(8100), false),
            agent(0x66, "opencode", Some("gemini"), None, false),
        ]
    }

    fn check(target: &str, expected: &str) {
        let world = world();
        let found = match resolve(&Target::parse(target).unwrap(), &world) {
            Ok(ids) => ids.iter().map(|id| id.to_string()[..2].to_owned()).collect::<Vec<_>>().join(" "),
            Err(NoRoute::Unknown { nearest }) => format!("unknown; {}", nearest.join(" ")),
            Err(NoRoute::Ambiguous { candidates }) => format!("ambiguous: {}", candidates.join(" ")),
            Err(NoRoute::Moved { was, now }) => format!("moved: {was}; {now}"),
        };
        assert_eq!(found, expected, "{target}");
    }

    #[test]
    fn targets_by_handle_type_name_and_id() {
        check("synapse-claude-8100", "11");
        check("claude-8101", "22");
        check("Claude-8101", "22");
        check("ana", "22");
        check("codex", "33");
        check("codex-8102", "33");
        check("22222222", "22");
        check("0x2222222222", "22");
        check("broadcast", "11 22 33");
    }

    #[test]
    fn several_matches_are_listed_in_the_form_to_use() {
        check("claude", "ambiguous: claude-8100 ana");
        check("skill:review", "11 22 33");
        check("skill:paint", "unknown; ");
    }

    #[test]
    fn the_known_but_stopped_are_found_after_the_live() {
        check("gemini-8103", "44");
        check("opencode", "66");
        check("gemini", "66");
        check("4444444444", "44");
    }

    #[test]
    fn a_handle_whose_port_has_a_new_owner_is_refused_naming_both() {
        check("codex-8100", "moved: 555555555555 (stopped); claude-8100");
    }

    #[test]
    fn nothing_matches_by_substring() {
        check("clau", "unknown; ana claude-8100");
        check("claud", "unknown; ana claude-8100");
        check("a", "unknown; ana");
        check("2222222", "unknown; ");
        check("claude-810", "unknown; ana claude-8100");
        check("synapse-8100", "unknown; ");
    }

    #[test]
    fn targets_that_cannot_be() {
        for raw in ["", "a b", "a/b", "../x", "a\u{7}", &"x".repeat(161), "skill:", "skill:a/b"] {
            assert!(Target::parse(raw).is_err(), "{raw:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_call_it_says_resolves_to_that_agent(kinds in proptest::collection::vec((0u8..3, proptest::option::of(0u8..3), proptest::option::of(0u16..4), proptest::bool::ANY), 1..8)) {
            let world: Vec<_> = kinds.iter().enumerate().map(|(n, (kind, name, port, live))| {
                agent(0x10 + n as u8, ["a", "b", "c"][*kind as usize], name.map(|n| ["x", "y", "a"][n as usize]), port.map(|p| 8100 + p), *live)
            }).collect();
            for one in &world {
                let form = Target::Named(one.call_it(&world));
                proptest::prop_assert_eq!(resolve(&form, &world), Ok(vec![one.id]));
            }
        }
    }
}
