//! Routes: resolves a target to agents.
//!
//! Matching is exact, never by substring. Of several matches, running agents come before stopped
//! ones, then agents in the caller's folder before others, then a given name before a type. A tie
//! returns all candidates; no match returns the nearest names.
//! Not here: where candidates come from (a hub's own agents, or the registry on disk),
//! which folders are near.

use crate::ids::{AgentId, AgentType, Label};
use serde::{Deserialize, Serialize};

/// A target as a caller wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The agent of the node that got the request.
    Here,
    /// A label, handle or id, with or without `@place`.
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
        let (label, _) = split_place(raw);
        if raw.chars().any(|c| c.is_control() || c.is_whitespace()) || label.contains('/') {
            return Err(bad("it must not contain spaces or control characters, nor slashes before an `@`"));
        }
        if let Some(skill) = raw.strip_prefix("skill:") {
            return Ok(Self::Skill(Label::parse(skill)?));
        }
        Ok(if raw == "broadcast" { Self::Everyone } else { Self::Named(raw.to_owned()) })
    }
}

/// Splits `claude@p2` into `claude` and `p2`.
fn split_place(raw: &str) -> (&str, Option<&str>) {
    match raw.split_once('@') {
        Some((label, place)) if !label.is_empty() && !place.is_empty() => (label, Some(place)),
        _ => (raw, None),
    }
}

/// The fields of an agent that routing needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    pub id: AgentId,
    #[serde(rename = "type")]
    pub kind: AgentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Label>,
    /// Its number among the unnamed agents of its type and folder; absent for the
    /// first and for named ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Its current port, or the last one it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Label>,
    pub live: bool,
    /// Its working folder; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub folder: String,
    /// Names that it had before. No target means an agent by one of these, but a hint
    /// says how the agent is called now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_names: Vec<Label>,
}

/// The folders whose agents are preferred: the caller's own, then its parents up to
/// the repository's root.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NearFolders(Vec<String>);

impl NearFolders {
    /// Takes the folders with the nearest first.
    pub fn new(folders: Vec<String>) -> Self {
        Self(folders)
    }

    /// Returns how many folders are nearer than this one.
    pub fn rank(&self, folder: &str) -> usize {
        self.0.iter().position(|near| near == folder).unwrap_or(usize::MAX)
    }
}

/// How a label matches an agent; the better match is the lesser.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// A given name, a handle, a number or an id.
    Exact,
    Type,
}

impl Candidate {
    /// Returns the shortest form that names this agent among these others, for a
    /// caller in these folders.
    pub fn call_it(&self, among: &[Self], near: &NearFolders) -> String {
        let means_it = |form: &String| {
            moved(form, among).is_none()
                && matches!(best(form, among, near).as_slice(), [one] if one.id == self.id)
        };
        self.forms().into_iter().find(means_it).unwrap_or_else(|| self.id.short())
    }

    /// Returns the shortest form that names this agent among these others, for a caller in any
    /// folder. It adds a place where folder or kind of match would otherwise decide.
    pub fn call_it_anywhere(&self, among: &[Self]) -> String {
        let means_it = |form: &String| {
            let found = least(fitting(form, among), |(one, _)| !one.live);
            moved(form, among).is_none() && matches!(found.as_slice(), [(one, _)] if one.id == self.id)
        };
        self.forms().into_iter().find(means_it).unwrap_or_else(|| self.id.short())
    }

    /// Returns all forms of its name, the shortest first.
    fn forms(&self) -> Vec<String> {
        let mut labels = vec![self.plain_label()];
        if self.name.is_none() {
            labels.push(format!("{}#{}", self.kind, self.number.unwrap_or(1)));
        }
        let mut forms = Vec::new();
        for label in labels {
            let places = places(&self.folder).into_iter().map(|place| format!("{label}@{place}"));
            forms.extend(std::iter::once(label.clone()).chain(places));
        }
        forms.extend(self.port.filter(|_| self.live).map(|port| format!("{}-{port}", self.kind)));
        forms.retain(|form| Target::parse(form).is_ok());
        forms
    }

    fn fit(&self, label: &str) -> Option<Fit> {
        let is_exact = self.is_called_by_port(label)
            || self.name.as_ref().is_some_and(|own| own.as_str().eq_ignore_ascii_case(label))
            || self.is_called_by_number(label)
            || is_id_prefix(label, &self.id);
        let is_type = || self.kind.as_str().eq_ignore_ascii_case(label);
        if is_exact { Some(Fit::Exact) } else { is_type().then_some(Fit::Type) }
    }

    fn was_called(&self, label: &str) -> bool {
        self.former_names.iter().any(|former| former.as_str().eq_ignore_ascii_case(label))
    }

    fn is_called_by_number(&self, label: &str) -> bool {
        self.name.is_none()
            && label.split_once('#').is_some_and(|(kind, number)| {
                kind.eq_ignore_ascii_case(self.kind.as_str())
                    && number.parse() == Ok(self.number.unwrap_or(1))
            })
    }

    fn is_called_by_port(&self, label: &str) -> bool {
        let short = label.strip_prefix("synapse-").unwrap_or(label);
        self.port.is_some_and(|port| {
            short
                .strip_suffix(&port.to_string())
                .and_then(|rest| rest.strip_suffix('-'))
                .is_some_and(|kind| kind.eq_ignore_ascii_case(self.kind.as_str()))
        })
    }

    /// Returns its name, or else its type: what a person calls it when no other agent has the same.
    pub fn plain_label(&self) -> String {
        self.name.as_ref().map_or_else(|| self.kind.to_string(), ToString::to_string)
    }
}

/// Returns the places that stand for a folder, for use after `@`: its last part, its last
/// two, …, the full path.
fn places(folder: &str) -> Vec<String> {
    let parts: Vec<String> = folder_parts(folder).collect();
    let ends = (0..parts.len()).rev().map(|from| parts[from..].join("/"));
    ends.chain((!folder.is_empty()).then(|| format!("/{}", parts.join("/")))).collect()
}

/// Returns the parts of a folder's path as a target spells them: blanks become `-`.
fn folder_parts(folder: &str) -> impl DoubleEndedIterator<Item = String> {
    let typed = |c: char| if c.is_whitespace() || c.is_control() { '-' } else { c };
    folder.split('/').filter(|part| !part.is_empty()).map(move |part| part.chars().map(typed).collect())
}

/// Whether a place names this folder: the last parts of its path, or the full path.
fn is_at(folder: &str, place: &str) -> bool {
    if folder.is_empty() {
        return false;
    }
    let (own, wanted): (Vec<_>, Vec<_>) = (folder_parts(folder).collect(), folder_parts(place).collect());
    if place.starts_with('/') {
        return own == wanted;
    }
    let is_same = |(own, wanted): (&String, &String)| own.eq_ignore_ascii_case(wanted);
    !wanted.is_empty() && own.len() >= wanted.len() && own.iter().rev().zip(wanted.iter().rev()).all(is_same)
}

fn is_id_prefix(name: &str, id: &AgentId) -> bool {
    let hex = name.strip_prefix("0x").unwrap_or(name);
    hex.len() >= 8 && id.to_string().starts_with(hex)
}

/// One of several agents that a target could mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    pub id: AgentId,
    /// The target to write instead.
    pub target: String,
}

/// Why a target matches no agent, or too many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoRoute {
    Unknown {
        nearest: Vec<String>,
        /// The nearest ones had this name before they were renamed.
        renamed: bool,
    },
    Ambiguous {
        choices: Vec<Choice>,
    },
    /// The handle belonged to one agent, and its port now belongs to another.
    Moved {
        /// The name or type of the one that it named.
        was: String,
        /// The folder of that one; empty if unknown.
        folder: String,
        now: String,
    },
}

/// Returns the agents that a target means: one for a name; all capable and nearest ones for a
/// skill, of which the caller takes the least busy; every live one for a broadcast.
pub fn resolve(target: &Target, among: &[Candidate], near: &NearFolders) -> Result<Vec<AgentId>, NoRoute> {
    match target {
        Target::Everyone => Ok(among.iter().filter(|c| c.live).map(|c| c.id).collect()),
        Target::Skill(skill) => {
            let able = among.iter().filter(|c| c.capabilities.contains(skill));
            let ids: Vec<_> = least(able, |c| (!c.live, near.rank(&c.folder))).iter().map(|c| c.id).collect();
            let unknown = || NoRoute::Unknown { nearest: Vec::new(), renamed: false };
            if ids.is_empty() { Err(unknown()) } else { Ok(ids) }
        }
        Target::Here if among.len() == 1 => Ok(vec![among[0].id]),
        Target::Here => one_of(among.iter().collect(), among, near, ""),
        Target::Named(name) => named(name, among, near),
    }
}

fn named(name: &str, among: &[Candidate], near: &NearFolders) -> Result<Vec<AgentId>, NoRoute> {
    if let Some((known, usurper)) = moved(name, among) {
        let (was, folder) = (known.plain_label(), known.folder.clone());
        return Err(NoRoute::Moved { was, folder, now: usurper.call_it(among, near) });
    }
    one_of(best(name, among, near), among, near, name)
}

/// Finds a handle whose port now belongs to another agent than the one it named.
fn moved<'a>(name: &str, among: &'a [Candidate]) -> Option<(&'a Candidate, &'a Candidate)> {
    if among.iter().any(|c| c.live && c.is_called_by_port(name)) {
        return None;
    }
    let known = among.iter().find(|c| !c.live && c.is_called_by_port(name))?;
    among.iter().find(|c| c.live && c.port == known.port).map(|usurper| (known, usurper))
}

/// Returns the best matches for a name: running before stopped, near before
/// others, names before types.
fn best<'a>(name: &str, among: &'a [Candidate], near: &NearFolders) -> Vec<&'a Candidate> {
    let found = least(fitting(name, among), |(c, fit)| (!c.live, near.rank(&c.folder), *fit));
    found.into_iter().map(|(c, _)| c).collect()
}

/// Returns every agent that the name matches, and how.
fn fitting<'a>(name: &str, among: &'a [Candidate]) -> impl Iterator<Item = (&'a Candidate, Fit)> {
    let (label, place) = split_place(name);
    let fits = move |c: &'a Candidate| {
        let fit = c.fit(label).filter(|_| place.is_none_or(|place| is_at(&c.folder, place)))?;
        Some((c, fit))
    };
    among.iter().filter_map(fits).collect::<Vec<_>>().into_iter()
}

/// Returns all items that share the least key.
fn least<T, K: Ord>(all: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut found: Vec<T> = all.collect();
    if let Some(least) = found.iter().map(&key).min() {
        found.retain(|one| key(one) == least);
    }
    found
}

fn one_of(
    found: Vec<&Candidate>,
    among: &[Candidate],
    near: &NearFolders,
    wanted: &str,
) -> Result<Vec<AgentId>, NoRoute> {
    match found.as_slice() {
        [only] => Ok(vec![only.id]),
        [] => {
            let renamed = renamed(wanted, among, near);
            Err(match renamed.is_empty() {
                true => NoRoute::Unknown { nearest: nearest(wanted, among, near), renamed: false },
                false => NoRoute::Unknown { nearest: renamed, renamed: true },
            })
        }
        several => {
            let choice = |c: &&Candidate| Choice { id: c.id, target: c.call_it(among, near) };
            let mut choices: Vec<Choice> = several.iter().map(choice).collect();
            choices.sort_by(|a, b| a.target.cmp(&b.target));
            Err(NoRoute::Ambiguous { choices })
        }
    }
}

/// Describes a stopped agent: `shout (~/try, stopped)`.
pub fn describe_stopped(label: &str, folder: &str) -> String {
    match folder {
        "" => format!("{label} (stopped)"),
        folder => format!("{label} ({folder}, stopped)"),
    }
}

/// The most names that a hint offers.
const NEAREST_MAX: usize = 3;

/// Returns how agents are called now that once had the wanted name, the nearest first.
fn renamed(wanted: &str, among: &[Candidate], near: &NearFolders) -> Vec<String> {
    let (label, place) = split_place(wanted);
    let is_meant = |c: &&Candidate| c.was_called(label) && place.is_none_or(|place| is_at(&c.folder, place));
    let mut found: Vec<&Candidate> = among.iter().filter(is_meant).collect();
    found.sort_by_key(|c| (!c.live, near.rank(&c.folder)));
    found.into_iter().take(NEAREST_MAX).map(|c| c.call_it(among, near)).collect()
}

/// Returns the agent with which `id` in this folder would be confused if it had this name: another
/// agent of the folder with the same name, or any agent that has it as a handle or start of its id.
pub fn holder_of_name<'a>(
    name: &Label,
    id: &AgentId,
    folder: &str,
    among: &'a [Candidate],
) -> Option<&'a Candidate> {
    let name = name.as_str();
    let has_it = |c: &&Candidate| {
        let has_name = c.name.as_ref().is_some_and(|own| own.as_str().eq_ignore_ascii_case(name));
        has_name && c.folder == folder || c.is_called_by_port(name) || is_id_prefix(name, &c.id)
    };
    among.iter().filter(|c| c.id != *id).find(has_it)
}

/// Returns up to three names that look like the wanted one.
fn nearest(wanted: &str, among: &[Candidate], near: &NearFolders) -> Vec<String> {
    let wanted = split_place(wanted).0.to_ascii_lowercase();
    let mut scored: Vec<(usize, bool, String)> = among
        .iter()
        .map(|c| {
            let forms = [
                Some(c.kind.to_string()),
                c.name.as_ref().map(ToString::to_string),
                c.port.map(|p| format!("{}-{p}", c.kind)),
            ];
            let far = forms.iter().flatten().map(|form| distance(&wanted, &form.to_ascii_lowercase())).min();
            (far.unwrap_or(usize::MAX), !c.live, c.call_it(among, near))
        })
        .filter(|(score, ..)| *score <= 2.max(wanted.len() / 3))
        .collect();
    scored.sort();
    scored.dedup_by(|a, b| a.2 == b.2);
    scored.into_iter().take(NEAREST_MAX).map(|(.., form)| form).collect()
}

/// Returns how many letters one must add, drop, change or swap to turn one word into the other.
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

    fn agent(
        n: u8,
        kind: &str,
        name: Option<&str>,
        port: Option<u16>,
        live: bool,
        folder: &str,
    ) -> Candidate {
        Candidate {
            id: AgentId::from_bytes([n; 32]),
            kind: AgentType::parse(kind).unwrap(),
            name: name.map(|n| Label::parse(n).unwrap()),
            number: None,
            port,
            capabilities: vec![Label::parse("review").unwrap()],
            live,
            folder: folder.to_owned(),
            former_names: Vec::new(),
        }
    }

    fn near(folders: &[&str]) -> NearFolders {
        NearFolders::new(folders.iter().map(|folder| (*folder).to_owned()).collect())
    }

    fn found(target: &str, world: &[Candidate], near: &NearFolders) -> String {
        match resolve(&Target::parse(target).unwrap(), world, near) {
            Ok(ids) => ids.iter().map(|id| id.to_string()[..2].to_owned()).collect::<Vec<_>>().join(" "),
            Err(NoRoute::Unknown { nearest, renamed }) => {
                format!("{}; {}", if renamed { "renamed" } else { "unknown" }, nearest.join(" "))
            }
            Err(NoRoute::Ambiguous { choices }) => {
                let targets: Vec<_> = choices.iter().map(|choice| choice.target.as_str()).collect();
                format!("ambiguous: {}", targets.join(" "))
            }
            Err(NoRoute::Moved { was, folder, now }) => {
                format!("moved: {}; {now}", describe_stopped(&was, &folder))
            }
        }
    }

    fn world() -> Vec<Candidate> {
        vec![
            agent(0x11, "claude", None, Some(8100), true, "/w/p1"),
            agent(0x22, "claude", Some("ana"), Some(8101), true, "/w/p2"),
            agent(0x33, "codex", None, Some(8102), true, "/w/p1"),
            agent(0x44, "gemini", None, Some(8103), false, "/w/p1"),
            agent(0x55, "codex", None, Some(8100), false, "/w/p2"),
            agent(0x66, "opencode", Some("gemini"), None, false, "/w/p2"),
        ]
    }

    fn check(target: &str, expected: &str) {
        assert_eq!(found(target, &world(), &NearFolders::default()), expected, "{target}");
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
        check("claude", "ambiguous: ana claude@p1");
        check("skill:review", "11 22 33");
        check("skill:paint", "unknown; ");
    }

    #[test]
    fn stopped_agents_are_found_after_running_ones() {
        check("gemini-8103", "44");
        check("opencode", "66");
        check("gemini", "66");
        check("4444444444", "44");
    }

    #[test]
    fn a_handle_whose_port_has_a_new_owner_is_refused_naming_both() {
        check("codex-8100", "moved: codex (/w/p2, stopped); claude@p1");
    }

    #[test]
    fn nothing_matches_by_substring() {
        check("clau", "unknown; ana claude@p1");
        check("claud", "unknown; ana claude@p1");
        check("a", "unknown; ana");
        check("2222222", "unknown; ");
        check("claude-810", "unknown; ana claude@p1");
        check("synapse-8100", "unknown; ");
    }

    /// Regression: a stopped agent's name hid a running type of that name, and two agents with one
    /// name showed as hashes.
    #[test]
    fn running_come_before_stopped_then_the_folder_then_the_name() {
        let world = [
            agent(0x11, "sh", Some("shout"), Some(8100), false, "/w/p1"),
            agent(0x22, "sh", Some("shout"), Some(8101), false, "/w/p2"),
            agent(0x33, "codex", None, Some(8102), true, "/w/p1"),
            agent(0x44, "sh", Some("codex"), Some(8103), false, "/w/p2"),
            agent(0x55, "claude", None, Some(8104), true, "/w/p1"),
            agent(0x66, "claude", None, Some(8105), true, "/w/p2"),
            agent(0x77, "opencode", Some("claude"), Some(8106), true, "/w/p2"),
            agent(0x88, "gemini", None, Some(8107), true, "/w"),
            agent(0x99, "gemini", None, Some(8108), false, "/w/p2/deep"),
        ];
        let nowhere = NearFolders::default();
        let (p1, deep) = (near(&["/w/p1"]), near(&["/w/p2/deep", "/w/p2"]));
        for (target, from, expected) in [
            ("shout", &nowhere, "ambiguous: shout@p1 shout@p2"),
            ("shout", &p1, "11"),
            ("shout", &deep, "22"),
            ("shout@p1", &deep, "11"),
            ("codex", &nowhere, "33"),
            ("codex", &deep, "33"),
            ("codex@p2", &nowhere, "44"),
            ("claude", &p1, "55"),
            // Same folder and a given name: comes before the type.
            ("claude", &deep, "77"),
            ("claude@p2", &p1, "77"),
            ("claude", &nowhere, "77"),
            ("gemini", &deep, "88"),
            ("gemini@deep", &p1, "99"),
            ("gemini@p2/deep", &p1, "99"),
            ("gemini@/w/p2/deep", &p1, "99"),
            ("gemini@P2/Deep", &p1, "99"),
            ("gemini@/p2/deep", &p1, "unknown; gemini gemini@deep"),
            ("shout@p3", &nowhere, "unknown; shout@p1 shout@p2"),
            ("skill:review", &p1, "33 55"),
            ("skill:review", &deep, "66 77"),
        ] {
            assert_eq!(found(target, &world, from), expected, "{target} from {from:?}");
        }
        let called = |n: usize, from: &NearFolders| world[n].call_it(&world, from);
        assert_eq!(called(4, &p1), "claude");
        // In another folder a name may mean another agent.
        let anywhere: Vec<_> = world.iter().map(|one| one.call_it_anywhere(&world)).collect();
        assert_eq!(anywhere[6], "opencode-8106", "of two in one folder only the name wins, and only there");
        assert_eq!((&*anywhere[4], &*anywhere[2], &*anywhere[0]), ("claude@p1", "codex", "shout@p1"));
        assert_eq!(called(4, &deep), "claude@p1");
        assert_eq!(called(5, &deep), "claude#1");
        assert_eq!(called(0, &nowhere), "shout@p1");
        assert_eq!(called(8, &nowhere), "gemini@deep");
    }

    /// A hash is shown only where nothing else tells two agents apart.
    #[test]
    fn further_agents_of_a_folder_are_called_by_number() {
        let mut world = vec![
            agent(0x11, "claude", None, Some(8100), false, "/w/p1"),
            agent(0x22, "claude", None, Some(8101), false, "/w/p1"),
            agent(0x33, "claude", None, None, true, "/w/my project"),
        ];
        world[1].number = Some(2);
        let nowhere = NearFolders::default();
        let called: Vec<_> = world.iter().map(|one| one.call_it(&world, &nowhere)).collect();
        assert_eq!(called, ["claude#1@p1", "claude#2", "claude"]);
        assert_eq!(found("claude@my-project", &world, &nowhere), "33");
        assert_eq!(found("claude#2", &world, &nowhere), "22");
        assert_eq!(found("claude#3", &world, &nowhere), "unknown; claude claude#1@p1 claude#2");
    }

    #[test]
    fn former_name_leads_to_the_present_one() {
        let (mut world, nowhere) = (world(), NearFolders::default());
        for renamed in [1, 4] {
            world[renamed].former_names = vec![Label::parse("anna").unwrap()];
        }
        assert_eq!(found("Anna", &world, &nowhere), "renamed; ana codex@p2", "the running one first");
        assert_eq!(found("anna@p2", &world, &nowhere), "renamed; ana codex@p2");
        assert_eq!(found("anna@p1", &world, &nowhere), "unknown; ana");
        world[5].name = Some(Label::parse("anna").unwrap());
        assert_eq!(found("anna", &world, &nowhere), "66", "whoever has it now is meant");
    }

    #[test]
    fn name_is_taken_in_its_folder_and_as_a_handle_anywhere() {
        let world = world();
        let taken = |name: &str, id: u8, folder: &str| {
            let name = Label::parse(name).unwrap();
            holder_of_name(&name, &AgentId::from_bytes([id; 32]), folder, &world)
                .map(|c| c.id.to_string()[..2].to_owned())
        };
        assert_eq!(taken("ANA", 0x55, "/w/p2").as_deref(), Some("22"));
        assert_eq!(taken("ana", 0x55, "/w/p1"), None, "another folder");
        assert_eq!(taken("ana", 0x22, "/w/p2"), None, "its own");
        assert_eq!(taken("gemini", 0x11, "/w/p2").as_deref(), Some("66"), "a stopped one too");
        assert_eq!(taken("codex", 0x11, "/w/p1"), None, "a type is no name");
        assert_eq!(taken("claude-8100", 0x33, "/elsewhere").as_deref(), Some("11"));
        assert_eq!(taken("22222222", 0x33, "/elsewhere").as_deref(), Some("22"));
    }

    #[test]
    fn targets_that_cannot_be() {
        for raw in ["", "a b", "a/b", "../x", "a/b@c", "a\u{7}", &"x".repeat(161), "skill:", "skill:a/b"] {
            assert!(Target::parse(raw).is_err(), "{raw:?}");
        }
        for raw in ["a@b", "a@b/c", "a@/b", "a@", "@b"] {
            assert_eq!(Target::parse(raw), Ok(Target::Named(raw.to_owned())), "{raw:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_call_it_says_resolves_to_that_agent(
            kinds in proptest::collection::vec((0u8..3, proptest::option::of(0u8..3), proptest::option::of(0u16..4), proptest::bool::ANY, 0usize..5), 1..8),
            here in 0usize..5,
        ) {
            const FOLDERS: [&str; 5] = ["/w/a", "/w/a/b", "/x/a", "/", ""];
            let world: Vec<_> = kinds.iter().enumerate().map(|(n, (kind, name, port, live, folder))| {
                let name = name.map(|n| ["x", "y", "a"][n as usize]);
                agent(0x10 + n as u8, ["a", "b", "c"][*kind as usize], name, port.map(|p| 8100 + p), *live, FOLDERS[*folder])
            }).collect();
            let near = near(&FOLDERS[here..]);
            for one in &world {
                let form = Target::Named(one.call_it(&world, &near));
                proptest::prop_assert_eq!(resolve(&form, &world, &near), Ok(vec![one.id]));
                let form = Target::Named(one.call_it_anywhere(&world));
                proptest::prop_assert_eq!(resolve(&form, &world, &near), Ok(vec![one.id]));
            }
        }
    }
}
