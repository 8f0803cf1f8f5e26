//! One of this type already runs in this folder: attach to it, start another, or neither.
//!
//! Only agents with a terminal count, and only programs that have a profile: two scripts in a shell are two programs.
//! Not here: which of several gets which mailbox (`launch`).

use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use crate::viewer::{self, Person};
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use synapse_core::ids::{AgentId, AgentType};
use synapse_holder::terminal::wire::Role;
use synapse_store::known::Known;

/// How often the question is asked.
const TRIES_MAX: u32 = 3;

/// What is to be started.
pub(super) struct Wanted<'a> {
    /// None without a profile.
    pub(super) kind: Option<&'a AgentType>,
    pub(super) name: Option<&'a str>,
    /// Only this one, if its conversation is wanted.
    pub(super) id: Option<AgentId>,
    pub(super) folder: &'a Path,
}

/// An agent that is in the way of starting one.
pub(super) struct Running {
    roll: Roll,
    id: AgentId,
    kind: AgentType,
    label: String,
    /// Further ones, by what they are called.
    others: Vec<String>,
}

/// What the person wants instead.
pub(super) enum Answer {
    Attach,
    StartAnother,
}

impl Running {
    pub(super) fn find(wanted: &Wanted<'_>) -> Result<Option<Self>, Fail> {
        let (Ok(folder), (roll, _)) = (wanted.folder.canonicalize(), Roll::call_quietly()?) else {
            return Ok(None);
        };
        let is_meant = |known: &Known| match (wanted.name, wanted.id) {
            (Some(name), _) => known.name.as_ref().is_some_and(|own| own.as_str() == name),
            (None, Some(id)) => known.id == id,
            (None, None) => wanted.kind == Some(&known.kind),
        };
        let runs = |known: &Known| {
            let is_here = Path::new(&known.working_dir) == folder;
            is_here && roll.home.agent(&known.id).terminal().exists() && roll.is_held(&known.id)
        };
        let mut found: Vec<&Known> =
            roll.known.iter().filter(|known| is_meant(known) && runs(known)).collect();
        // The plain one first, then the one that was started last.
        found.sort_by_key(|known| (known.suffix.is_some(), std::cmp::Reverse(known.last_started_ms)));
        let Some(first) = found.first() else { return Ok(None) };
        let (id, kind, label) = (first.id, first.kind.clone(), roll.label(&first.id));
        let others = found.iter().skip(1).map(|known| roll.label(&known.id)).collect();
        Ok(Some(Self { roll, id, kind, label, others }))
    }

    /// That nothing was started, and the two commands of which one is meant.
    pub(super) fn refusal(&self, name: Option<&str>, start_another: &str) -> Fail {
        let attach = format!("synapse attach {}", self.label);
        let (what, hint) = match name {
            Some(name) => (
                format!("an agent named {name} already runs in this folder"),
                format!("`{attach}` shows it; choose another --name for a new one"),
            ),
            None => (
                format!("{} already runs in this folder{}", self.label, self.tell_others()),
                format!("`{attach}` shows it, `{start_another}` starts another one"),
            ),
        };
        let mut fail = Fail::new(
            fail::REFUSED,
            "already_running",
            format!("{} was not started: {what}\nhint: {hint}", self.kind),
        );
        let mut details = serde_json::json!({ "agent_id": self.id, "name": self.label, "attach": attach });
        if name.is_none() {
            details["start_another"] = start_another.into();
        }
        fail.info.details = Some(details);
        fail
    }

    fn tell_others(&self) -> String {
        if self.others.is_empty() { String::new() } else { format!(", and so do {}", self.others.join(", ")) }
    }

    /// Asks at the terminal. An agent is not asked: it may not attach.
    pub(super) fn ask(&self, are_args_given: bool) -> Result<Option<Answer>, Fail> {
        if !matches!(self.roll.caller("attach"), Ok(None)) {
            return Ok(None);
        }
        let entry = self.roll.scan.agents.iter().find(|entry| entry.agent_id == self.id);
        let state = entry.map_or_else(String::new, |entry| format!(" ({})", entry.status.name()));
        show::out(&format!("{} already runs in this folder{state}{}", self.label, self.tell_others()));
        if are_args_given {
            let note = "the arguments you gave are used only if you start another one";
            show::out(&show::paint("2", note));
        }
        for _ in 0..TRIES_MAX {
            let mut out = std::io::stdout();
            write!(out, "Attach to it? [Enter = attach, n = start another, Ctrl-C = neither] ")?;
            out.flush()?;
            let mut answer = String::new();
            if std::io::stdin().lock().read_line(&mut answer)? == 0 {
                break;
            }
            match answer.trim().to_ascii_lowercase().as_str() {
                "" | "y" | "yes" | "a" | "attach" => return Ok(Some(Answer::Attach)),
                "n" | "no" | "new" => return Ok(Some(Answer::StartAnother)),
                "q" | "quit" => break,
                _ => {}
            }
        }
        Err(Fail::refused("nothing was started"))
    }

    pub(super) fn attach(&self) -> Done {
        viewer::warn_of_prefix(&self.roll.home);
        let left = viewer::view(Person::meet()?, &self.roll.home, self.id, Role::Viewer)?;
        super::tell_left(&self.label, &left)
    }
}
