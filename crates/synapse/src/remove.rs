//! Removing what is ours: an agent that is no longer wanted, or a whole home.
//!
//! Invariant: an agent is removed only under its lock, so that nobody can hold it; a home only if it looks like one
//! of ours, and of what is in it only what we put there, by name.
//!
//! Not here: stopping agents, asking the person (`cli/clean`, `cli/uninstall`).

use crate::agents::Roll;
use crate::doctor::mend::not_held;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use synapse_core::ids::AgentId;
use synapse_core::message::Who;
use synapse_node::post::SpoolLetter;
use synapse_store::home::{AgentDir, Home};
use synapse_store::known::Known;
use synapse_store::lifetime;
use synapse_store::registry;
use synapse_store::spool::{Found, Spool};
use synapse_store::{History, check, files};

/// What waits for an agent that does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mail {
    pub spooled: usize,
    pub waiting: usize,
    pub open_tasks: usize,
}

impl Mail {
    pub fn is_none(self) -> bool {
        self == Self { spooled: 0, waiting: 0, open_tasks: 0 }
    }

    pub fn shown(self) -> String {
        format!("{} messages and {} open tasks", self.spooled + self.waiting, self.open_tasks)
    }
}

/// Looks only: whether an agent is old is told by when its files were changed.
pub fn mail_of(dir: &AgentDir) -> Result<Mail, String> {
    let _claim = not_held(dir.path())?;
    mail_under_lock(dir)
}

fn mail_under_lock(dir: &AgentDir) -> Result<Mail, String> {
    let spool = dir.spool();
    let spooled = match spool.exists() {
        true => Spool::open(&spool).and_then(|spool| spool.waiting()).map_err(|e| e.to_string())?,
        false => 0,
    };
    let state = check::state(&dir.journal()).map_err(|e| e.to_string())?.unwrap_or_default();
    let waiting = state.mailboxes.values().map(|mailbox| mailbox.len()).sum();
    Ok(Mail { spooled, waiting, open_tasks: state.tasks.len() })
}

/// Whether a stopped agent only ran for seconds and never got anything. Takes no lock.
pub fn is_short_try(roll: &Roll, known: &Known, now_ms: u64) -> bool {
    // What a sandbox hides may be mail.
    !roll.is_confined()
        && lifetime::is_short_try(&roll.home.agent(&known.id), Path::new(&known.working_dir), now_ms)
}

/// The agents that answers and notes may still be sent to: they asked for something that is not answered, or follow
/// another agent. None if a journal or a spool cannot be read.
pub fn awaited(roll: &Roll) -> Option<BTreeSet<AgentId>> {
    let mut all = BTreeSet::new();
    for known in &roll.known {
        let dir = roll.home.agent(&known.id);
        for letter in letters(&dir.spool())? {
            add_agent(&mut all, &letter.from.who);
        }
        let Some(history) = History::look_into(&dir.journal()).ok()? else { continue };
        let state = history.state().ok()?;
        let requesters = state.tasks.values().map(|task| &task.requester.who);
        let followers = state.followers.values().flatten().map(|follower| &follower.who);
        requesters.chain(followers).for_each(|who| add_agent(&mut all, who));
    }
    Some(all)
}

fn add_agent(all: &mut BTreeSet<AgentId>, who: &Who) {
    if let Who::Agent(id) = who {
        all.insert(*id);
    }
}

/// What waits in a spool; none if some of it cannot be read.
fn letters(spool: &Path) -> Option<Vec<SpoolLetter>> {
    if !spool.exists() {
        return Some(Vec::new());
    }
    let spool = Spool::open(spool).ok()?;
    let found = spool.take().ok()?;
    let read = |found: &Found| match found {
        Found::Letter { bytes, .. } => serde_json::from_slice(bytes).ok(),
        Found::Bad { .. } => None,
    };
    let letters: Vec<SpoolLetter> = found.iter().map(read).collect::<Option<_>>()?;
    (letters.len() >= spool.waiting().ok()?).then_some(letters)
}

/// How long ago the agent's files were last written; `None` if unknown.
pub fn idle_for(dir: &AgentDir) -> Option<Duration> {
    let files = [dir.journal(), dir.log(), dir.known(), dir.spool().join("new")];
    let dates = files.iter().filter_map(|path| path.metadata().and_then(|found| found.modified()).ok());
    SystemTime::now().duration_since(dates.max()?).ok()
}

/// What keeps an agent from being removed if it has come since the person was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptBy {
    /// Nothing: its mail is given up.
    Nothing,
    Mail,
    /// Mail, and whatever is in its journal.
    Use,
}

/// Removes an agent with its history.
pub fn forget(dir: &AgentDir, kept_by: KeptBy) -> Result<(), String> {
    let _claim = not_held(dir.path())?;
    if kept_by != KeptBy::Nothing && !mail_under_lock(dir)?.is_none() {
        return Err("mail came for it meanwhile".to_owned());
    }
    if kept_by == KeptBy::Use && lifetime::is_used(dir) {
        return Err("it was used meanwhile".to_owned());
    }
    // First the file by which it is found: half of an agent must not get mail.
    files::remove(&dir.known()).map_err(|e| e.to_string())?;
    std::fs::remove_dir_all(dir.path()).map_err(|e| e.to_string())
}

/// What a home is seen to be, before anything in it is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looks {
    pub is_there: bool,
    pub is_link: bool,
    pub is_folder: bool,
    pub is_ours: bool,
    /// The root of the system, or the person's own folder, or one that holds it.
    pub holds_person: bool,
    pub has_agents: bool,
    /// A file that only a start of an agent makes.
    pub has_mark: bool,
}

impl Looks {
    pub fn at(root: &Path) -> Self {
        let found = root.symlink_metadata().ok();
        let person = std::env::var_os("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
        let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self {
            is_there: found.is_some(),
            is_link: found.as_ref().is_some_and(|found| found.file_type().is_symlink()),
            is_folder: found.as_ref().is_some_and(std::fs::Metadata::is_dir),
            is_ours: found.as_ref().is_some_and(|found| found.uid() == files::our_uid()),
            holds_person: real.parent().is_none() || person.is_some_and(|person| person.starts_with(&real)),
            has_agents: root.join("agents").is_dir(),
            has_mark: root.join("hostname").is_file() || root.join("token").is_file(),
        }
    }

    /// Why a home is not to be removed; none if it may be.
    pub fn objection(&self) -> Option<&'static str> {
        match self {
            Self { is_link: true, .. } => Some("it is a symbolic link, which is not followed"),
            Self { holds_person: true, .. } => Some("your own folder is in it"),
            Self { is_folder: false, .. } => Some("it is not a folder"),
            Self { is_ours: false, .. } => Some("it belongs to another user"),
            Self { has_agents: true, has_mark: true, .. } => None,
            _ => Some(
                "it does not look like a home of synapse: there are no agents in it, or no hostname and no token",
            ),
        }
    }
}

/// What we put into a home. A name that is not here is somebody else's, and stays.
const OWN: &[&str] = &[
    "agents",
    "audit",
    "card.key",
    "certs",
    "holders",
    "hostname",
    // Of an agent that works in the user's own folder.
    "outbox",
    "profiles",
    "registry",
    "remotes",
    "settings.json",
    "token",
    "token.old",
    "trusted.json",
    "user",
    "watches",
];
/// What mail and history are made of: in the home, and in the folder of an agent.
const MAIL: &[&str] = &["agents", "user", "hostname", "outbox"];
const MAIL_OF_AGENT: &[&str] = &[
    "journal.db",
    "journal.db-wal",
    "journal.db-shm",
    "journal.db-head",
    "journal.lost",
    "spool",
    "known.json",
];

/// Which names of a home go and which stay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub goes: Vec<String>,
    pub stays: Vec<String>,
    pub not_ours: Vec<String>,
}

pub fn plan(names: &[String], keep_mail: bool) -> Plan {
    let mut plan = Plan::default();
    for name in names {
        let is_draft = name.starts_with(".synapse-draft-");
        let list = match name.as_str() {
            name if keep_mail && MAIL.contains(&name) => &mut plan.stays,
            name if OWN.contains(&name) || is_draft => &mut plan.goes,
            _ => &mut plan.not_ours,
        };
        list.push(name.clone());
    }
    plan
}

pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Removes what the plan says, and the home itself if nothing is left in it. All agents must have been stopped.
pub fn remove_home(home: &Home, ids: &[AgentId], plan: &Plan, keep_mail: bool) -> Result<(), String> {
    let told = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let mut claims = Vec::new();
    for id in ids {
        claims.push(
            not_held(home.agent(id).path()).map_err(|why| format!("{}: {why}", registry::label(home, id)))?,
        );
    }
    for name in &plan.goes {
        let path = home.root().join(name);
        match name.as_str() {
            // Other tools may have entries in it.
            "registry" => drop(std::fs::remove_dir(&path)),
            _ if path.symlink_metadata().is_ok_and(|found| found.is_dir()) => {
                std::fs::remove_dir_all(&path).map_err(|e| told(&path, e))?;
            }
            _ => std::fs::remove_file(&path).map_err(|e| told(&path, e))?,
        }
    }
    if keep_mail {
        for id in ids {
            strip(home.agent(id).path()).map_err(|e| told(home.agent(id).path(), e))?;
        }
        return Ok(());
    }
    // Each fails if something is left, such as entries of other tools, which then stays.
    let _ = std::fs::remove_dir(home.root());
    let registry = home.registry_dir();
    let _ = std::fs::remove_dir(registry);
    if let Some(shared) =
        registry.parent().filter(|parent| parent.file_name().is_some_and(|name| name == ".a2a"))
    {
        let _ = std::fs::remove_dir(shared);
    }
    Ok(())
}

/// Leaves of an agent's folder what its next start needs to have its mail and history again.
fn strip(dir: &Path) -> std::io::Result<()> {
    for name in names_in(dir).into_iter().filter(|name| !MAIL_OF_AGENT.contains(&name.as_str())) {
        let path = dir.join(name);
        if path.symlink_metadata()?.is_dir() {
            std::fs::remove_dir_all(&path)?
        } else {
            std::fs::remove_file(&path)?
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_home_of_ours_is_removed() {
        let ours = Looks {
            is_there: true,
            is_link: false,
            is_folder: true,
            is_ours: true,
            holds_person: false,
            has_agents: true,
            has_mark: true,
        };
        assert_eq!(ours.objection(), None);
        let table = [
            (Looks { is_link: true, ..ours.clone() }, "symbolic link"),
            (Looks { holds_person: true, ..ours.clone() }, "your own folder"),
            (Looks { is_folder: false, ..ours.clone() }, "not a folder"),
            (Looks { is_ours: false, ..ours.clone() }, "another user"),
            (Looks { has_agents: false, ..ours.clone() }, "does not look like"),
            (Looks { has_mark: false, ..ours }, "does not look like"),
        ];
        for (looks, why) in table {
            assert!(looks.objection().is_some_and(|said| said.contains(why)), "{looks:?}");
        }
        assert!(Looks::at(Path::new("/")).holds_person);
    }

    #[test]
    fn names_of_others_stay() {
        let names =
            ["agents", "notes.txt", "token", ".synapse-draft-1-x", "user", "hostname"].map(str::to_owned);
        let all = plan(&names, false);
        assert_eq!(all.goes, ["agents", "token", ".synapse-draft-1-x", "user", "hostname"]);
        assert_eq!(all.not_ours, ["notes.txt"]);
        let kept = plan(&names, true);
        assert_eq!(
            (kept.goes.len(), kept.stays),
            (2, ["agents", "user", "hostname"].map(str::to_owned).to_vec())
        );
    }
}
