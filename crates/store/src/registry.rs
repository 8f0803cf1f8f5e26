//! The registry: who runs now, for our own programs and for the tools of others (PTY-6).
//!
//! One JSON file per agent, named after its id, replaced whole. An entry of ours names its process by pid,
//! start time and boot, so a reader can tell a dead one from a pid that was given out again. Other tools
//! keep files in the same folder: they are read leniently and never touched.
//!
//! Invariant: only a file with our mark is ever removed, and only when its process is proven gone. What
//! cannot be known (a sandbox with its own pids, no `/proc`) is not proof; nothing is removed from there.
//! Not here: what outlives a run (`known`), asking an agent whether it answers (`synapse-node`).

mod foreign;
mod pending;
mod process;
mod snapshot;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir};
use serde::{Deserialize, Deserializer, Serialize};
use synapse_core::agents::AgentState;
use synapse_core::ids::{AgentId, AgentType, Label};
use synapse_core::routes::Candidate;

use crate::files::{self, Access, FileError, Problem};
use crate::home::Home;
use crate::known::Known;
pub use foreign::ForeignEntry;
pub use pending::PendingPrompt;
pub use process::{NodeProcess, is_stopped};
use process::{Process, look_at};
pub use snapshot::{ObservedAgent, RegistrySnapshot, candidates, merge, near_folders};

/// A running agent, as it tells the folder about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub agent_id: AgentId,
    pub agent_type: AgentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Label>,
    /// Which of the unnamed agents of its type and folder it is; absent of the first and of named ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Label>,
    /// Such as `http://localhost:8100`.
    pub endpoint: String,
    pub port: u16,
    /// Path of the Unix socket of its node.
    pub socket: PathBuf,
    #[serde(deserialize_with = "state_or_unknown")]
    pub status: AgentState,
    #[serde(default)]
    pub status_why: String,
    #[serde(default)]
    pub status_since_ms: u64,
    /// What the agent says it is doing, the beginning of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_since_ms: Option<u64>,
    /// The holder: as long as it lives, so does the agent.
    pub pid: u32,
    /// 0 if the system would not tell; then the pid alone has to do.
    pub start_time: u64,
    #[serde(flatten)]
    pub place: Place,
    pub node_pid: u32,
    pub node_start_time: u64,
    pub working_dir: String,
    pub hostname: String,
    #[serde(default)]
    pub capabilities: Vec<Label>,
    pub started_at_ms: u64,
    /// Of the program that wrote it.
    #[serde(default)]
    pub version: String,
    /// Which level of the interface its node speaks; 0 is one from before there were levels.
    #[serde(default)]
    pub api: u32,
    /// Of its holder, which may be older than its node; empty if that did not tell.
    #[serde(default)]
    pub holder_version: String,
    /// Of the CLI in its terminal, as far as that told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// Whether its profile was checked with that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli_tested: Option<bool>,
    /// What it waits for a person to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingPrompt>,
}

/// Where a pid means something: one boot of one machine, and within it one space of pids.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    #[serde(default)]
    pub boot: String,
    #[serde(default)]
    pub machine: String,
    #[serde(default)]
    pub pid_space: String,
}

impl Place {
    /// Where this process runs; empty in what the system does not tell.
    pub fn here() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let space = std::fs::read_link("/proc/self/ns/pid");
        Self {
            boot: boot.map(|id| id.trim().to_owned()).unwrap_or_default(),
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid_space: space.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default(),
        }
    }

    /// Whether a pid means the same process in both.
    fn shares_pids_with(&self, other: &Self) -> bool {
        // A boot names its machine, whatever that is called; without one the name has to do.
        let is_named = !self.boot.is_empty() || self.machine == other.machine;
        // A sandbox often has pids of its own. Seen from there every agent would look dead.
        self.boot == other.boot && is_named && self.pid_space == other.pid_space
    }
}

/// All that is in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    /// Ours, and not proven dead.
    pub agents: Vec<Entry>,
    pub dead_removed: usize,
    /// Files of ours whose agents are gone and that are still there.
    pub dead: Vec<PathBuf>,
    pub foreign: Vec<ForeignEntry>,
    /// Passed over; neither followed nor removed.
    pub problems: Vec<Problem>,
}

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("there is no process {pid} that could hold the agent; it has ended, or /proc is not mounted")]
    NoSuchProcess { pid: u32 },
    #[error("the entry of agent {id} has no JSON form: {why}")]
    NotWritable { id: AgentId, why: String },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Entry {
    /// As much of the shared context as a list has room for; the node has all of it.
    pub const CONTEXT_CHARS_MAX: usize = 240;

    /// The entry of an agent that starts now: held by process `holder`, its node is this process.
    pub fn starting(
        known: &Known,
        holder: u32,
        port: u16,
        socket: PathBuf,
        now_ms: u64,
    ) -> Result<Self, RegistryError> {
        let start_time = |pid| match look_at(pid) {
            Process::Runs { start_time, .. } => Ok(start_time),
            Process::Hidden => Ok(0),
            Process::Gone => Err(RegistryError::NoSuchProcess { pid }),
        };
        let node_pid = std::process::id();
        Ok(Self {
            agent_id: known.id,
            agent_type: known.kind.clone(),
            name: known.name.clone(),
            number: known.number(),
            role: known.role.clone(),
            endpoint: format!("http://localhost:{port}"),
            port,
            socket,
            status: AgentState::Starting,
            status_why: "just started".to_owned(),
            status_since_ms: now_ms,
            context: None,
            context_since_ms: None,
            pid: holder,
            start_time: start_time(holder)?,
            place: Place::here(),
            node_pid,
            node_start_time: start_time(node_pid)?,
            working_dir: known.working_dir.clone(),
            hostname: known.hostname.clone(),
            capabilities: known.capabilities.clone(),
            started_at_ms: now_ms,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            api: 0,
            holder_version: String::new(),
            cli_version: None,
            cli_tested: None,
            pending: None,
        })
    }

    /// Writes or replaces the entry. Not synced: after a power cut the agent is gone as well.
    pub fn write(&self, home: &Home) -> Result<(), RegistryError> {
        let no_form = |error: serde_json::Error| RegistryError::NotWritable {
            id: self.agent_id,
            why: error.to_string(),
        };
        let text = serde_json::to_vec_pretty(&Written { schema: SCHEMA, entry: self }).map_err(no_form)?;
        let path = path_of(home, &self.agent_id);
        match files::write_volatile(&path, &text) {
            Err(error) if error.is_missing() => {
                files::adopt_dir(home.registry_dir())?;
                Ok(files::write_volatile(&path, &text)?)
            }
            written => Ok(written?),
        }
    }

    /// Whether the agent is known to live, known to be gone, or neither.
    pub fn life(&self, here: &Place) -> Life {
        life(self, here, &mut HashMap::new())
    }

    /// As routing sees it.
    pub fn candidate(&self) -> Candidate {
        Candidate {
            id: self.agent_id,
            kind: self.agent_type.clone(),
            name: self.name.clone(),
            number: self.number,
            port: Some(self.port),
            capabilities: self.capabilities.clone(),
            live: true,
            folder: self.working_dir.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Alive,
    Gone,
    /// It may well live, but its pid means nothing here.
    Unknown,
    /// On another machine that shares this home; its endpoint is not reachable from here.
    Elsewhere,
}

/// The entry of one agent, if it is there and ours. Whether the agent lives is not looked at.
pub fn read(home: &Home, id: &AgentId) -> Option<Entry> {
    let dir = files::open_own_dir(home.registry_dir()).ok().flatten()?;
    let name = format!("{id}{SUFFIX}");
    let path = || path_of(home, id);
    let bytes = files::read_at(dir.as_fd(), name.as_ref(), BYTES_MAX, Access::Any, path).ok()?;
    match read_entry(&bytes) {
        Read::Ours(entry) if entry.agent_id == *id => Some(*entry),
        _ => None,
    }
}

/// Removes the entry of an agent if it still is that of process `pid`; says whether it was.
pub fn remove(home: &Home, id: &AgentId, pid: u32) -> Result<bool, RegistryError> {
    let Some(dir) = files::open_own_dir(home.registry_dir())? else { return Ok(false) };
    let path = path_of(home, id);
    let name = format!("{id}{SUFFIX}");
    let bytes = match files::read_at(dir.as_fd(), name.as_ref(), BYTES_MAX, Access::Any, || path.clone()) {
        Ok(bytes) => bytes,
        Err(error) if error.is_missing() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let is_its = matches!(read_entry(&bytes), Read::Ours(entry) if entry.pid == pid);
    Ok(is_its && remove_if_unchanged(dir.as_fd(), name.as_ref(), &bytes))
}

/// Reads the folder and clears it of our dead.
pub fn scan(home: &Home) -> Scan {
    read_all(home, true)
}

/// Reads the folder and changes nothing.
pub fn look(home: &Home) -> Scan {
    read_all(home, false)
}

fn read_all(home: &Home, clears: bool) -> Scan {
    let mut scan = Scan::default();
    let path = home.registry_dir();
    let dir = match files::open_own_dir(path) {
        Ok(Some(dir)) => dir,
        Ok(None) => return scan,
        Err(error) => {
            scan.problems.push(Problem::new(path.to_owned(), error));
            return scan;
        }
    };
    let entries = match Dir::read_from(&dir) {
        Ok(entries) => entries,
        Err(error) => {
            scan.problems.push(Problem::new(path.to_owned(), error));
            return scan;
        }
    };
    let mut look = Look { path, dir: dir.as_fd(), here: Place::here(), seen: HashMap::new(), scan, clears };
    let mut files_seen = 0;
    for entry in entries.flatten() {
        let name = entry.file_name().to_bytes();
        if clears && files::is_draft(name) {
            files::sweep_draft(dir.as_fd(), files::os_str(entry.file_name()), files::now_s());
        }
        if name.starts_with(b".") || !name.ends_with(SUFFIX.as_bytes()) {
            continue;
        }
        files_seen += 1;
        if files_seen > FILES_MAX {
            let why = format!("it holds more than {FILES_MAX} files; the rest was not read");
            look.scan.problems.push(Problem::new(path.to_owned(), why));
            break;
        }
        look.at(files::os_str(entry.file_name()));
    }
    look.scan.agents.sort_by_key(|entry| entry.agent_id);
    look.scan
}

/// What the text of a file is. Never fails: what is not ours is someone else's, or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    Ours(Box<Entry>),
    Foreign(ForeignEntry),
    Damaged(String),
}

pub fn read_entry(bytes: &[u8]) -> Read {
    let mark = serde_json::from_slice::<Mark<'_>>(bytes).ok().and_then(|mark| mark.schema);
    match mark.as_deref() {
        Some(SCHEMA) => {
            let mut text = serde_json::Deserializer::from_slice(bytes);
            match serde_path_to_error::deserialize(&mut text) {
                Ok(entry) => Read::Ours(Box::new(entry)),
                Err(error) => Read::Damaged(format!("an entry of ours is damaged: {error}")),
            }
        }
        Some(schema) if schema.starts_with(SCHEMA_FAMILY) => {
            let schema: String = schema.chars().filter(|c| !c.is_control()).take(64).collect();
            Read::Damaged(format!("written by another version of synapse ({schema}); upgrade synapse"))
        }
        _ => match serde_json::from_slice(bytes) {
            Ok(serde_json::Value::Object(fields)) => Read::Foreign(ForeignEntry::read(&fields)),
            Ok(_) => Read::Damaged("it is JSON, but no object".to_owned()),
            Err(error) => Read::Damaged(format!("it is not JSON: {error}")),
        },
    }
}

/// One look through the folder.
struct Look<'a> {
    path: &'a Path,
    dir: BorrowedFd<'a>,
    here: Place,
    /// Processes looked at so far: agents of one holder share a pid.
    seen: HashMap<u32, Process>,
    scan: Scan,
    clears: bool,
}

impl Look<'_> {
    fn at(&mut self, name: &OsStr) {
        let path = || self.path.join(name);
        let bytes = match files::read_at(self.dir, name, BYTES_MAX, Access::Any, path) {
            Ok(bytes) => bytes,
            // Gone between the listing and now.
            Err(error) if error.is_missing() => return,
            Err(error) => return self.scan.problems.push(Problem::new(path(), error)),
        };
        match read_entry(&bytes) {
            Read::Ours(entry) => self.ours(name, *entry, &bytes),
            Read::Foreign(entry) => self.scan.foreign.push(ForeignEntry { path: path(), ..entry }),
            Read::Damaged(why) => self.scan.problems.push(Problem::new(path(), why)),
        }
    }

    fn ours(&mut self, name: &OsStr, entry: Entry, bytes: &[u8]) {
        let path = || self.path.join(name);
        if name != OsStr::new(&format!("{}{SUFFIX}", entry.agent_id)) {
            let why = format!("it speaks of agent {}, whose entry is another file", entry.agent_id.short());
            return self.scan.problems.push(Problem::new(path(), why));
        }
        match life(&entry, &self.here, &mut self.seen) {
            Life::Alive | Life::Unknown => self.scan.agents.push(entry),
            Life::Gone if self.clears && remove_if_unchanged(self.dir, name, bytes) => {
                self.scan.dead_removed += 1;
            }
            Life::Gone => self.scan.dead.push(path()),
            Life::Elsewhere => {
                let machine: String = entry.place.machine.chars().filter(|c| !c.is_control()).collect();
                let why = format!("this agent runs, or ran, on the machine {machine:?}; remove it there");
                self.scan.problems.push(Problem::new(path(), why));
            }
        }
    }
}

fn life(entry: &Entry, here: &Place, seen: &mut HashMap<u32, Process>) -> Life {
    let there = &entry.place;
    if there.boot != here.boot && !there.boot.is_empty() && !here.boot.is_empty() {
        return if there.machine == here.machine { Life::Gone } else { Life::Elsewhere };
    }
    if !there.shares_pids_with(here) {
        return Life::Unknown;
    }
    match *seen.entry(entry.pid).or_insert_with(|| look_at(entry.pid)) {
        Process::Runs { start_time, .. } if [0, start_time].contains(&entry.start_time) => Life::Alive,
        Process::Runs { .. } | Process::Gone => Life::Gone,
        Process::Hidden => Life::Unknown,
    }
}

/// Removes a file that still has this content. Between our look and now, a restarted agent may have put
/// its new entry there; so the file is first taken away, looked at again, and put back if it is another.
fn remove_if_unchanged(dir: BorrowedFd<'_>, name: &OsStr, bytes: &[u8]) -> bool {
    let Ok(random) = files::random_hex::<8>() else { return false };
    let aside = files::draft_name(&random);
    if rustix::fs::renameat(dir, name, dir, &aside).is_err() {
        return false;
    }
    let taken = files::read_at(dir, aside.as_ref(), BYTES_MAX, Access::Any, || PathBuf::from(&aside));
    let is_same = taken.is_ok_and(|taken| taken == bytes);
    if !is_same {
        // A link does not replace: if there is a still newer one, that one stays.
        let _ = rustix::fs::linkat(dir, &aside, dir, name, AtFlags::empty());
    }
    let _ = rustix::fs::unlinkat(dir, &aside, AtFlags::empty());
    is_same
}

/// A newer version may know states that this one does not.
fn state_or_unknown<'de, D: Deserializer<'de>>(from: D) -> Result<AgentState, D::Error> {
    let word = Cow::<'_, str>::deserialize(from)?;
    Ok(AgentState::ALL.into_iter().find(|state| state.name() == word).unwrap_or(AgentState::Unknown))
}

fn path_of(home: &Home, id: &AgentId) -> PathBuf {
    home.registry_dir().join(format!("{id}{SUFFIX}"))
}

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    #[serde(flatten)]
    entry: &'a Entry,
}

#[derive(Deserialize)]
struct Mark<'a> {
    #[serde(borrow, default)]
    schema: Option<Cow<'a, str>>,
}

const SCHEMA: &str = "synapse.registry.v1";
const SCHEMA_FAMILY: &str = "synapse.registry.";
const SUFFIX: &str = ".json";
const BYTES_MAX: usize = 64 * 1024;
const FILES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_came_anew_meanwhile_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let dir = std::fs::File::open(folder.path()).unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, "new").unwrap();
        assert!(!remove_if_unchanged(dir.as_fd(), "a.json".as_ref(), b"old"));
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(remove_if_unchanged(dir.as_fd(), "a.json".as_ref(), b"new"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
