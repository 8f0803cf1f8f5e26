//! The registry: which agents run now, for our own programs and for other tools (PTY-6).
//!
//! One JSON file per agent, named after its id, replaced whole. Our entries identify their process
//! by pid, start time and boot, so that a reader can tell a dead process from a reused pid. Other
//! tools keep files in the same folder: they are read leniently and never changed.
//!
//! Invariant: only a file with our mark is ever removed, and only when its process is proven
//! gone. What cannot be known (a sandbox with its own pids, no `/proc`) is not proof, so
//! nothing is removed then.
//! Not here: what survives a run (`known`), asking an agent whether it answers (`synapse-node`).

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
pub use snapshot::{ObservedAgent, RegistrySnapshot, candidates, label, merge, near_folders};

/// A running agent, as its node publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub agent_id: AgentId,
    pub agent_type: AgentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Label>,
    /// Its number among the unnamed agents of its type and folder; absent for the
    /// first and for named ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Label>,
    /// Such as `http://localhost:8100`.
    pub endpoint: String,
    pub port: u16,
    /// The path of the Unix socket of its node.
    pub socket: PathBuf,
    #[serde(deserialize_with = "state_or_unknown")]
    pub status: AgentState,
    #[serde(default)]
    pub status_why: String,
    #[serde(default)]
    pub status_since_ms: u64,
    /// The beginning of what the agent says it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_since_ms: Option<u64>,
    /// The holder's process: the agent lives as long as it does.
    pub pid: u32,
    /// The holder's start time; 0 if the system does not report it, and then only
    /// the pid identifies it.
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
    /// The version of the program that wrote the entry.
    #[serde(default)]
    pub version: String,
    /// The interface level of its node; 0 for nodes from before there were levels.
    #[serde(default)]
    pub api: u32,
    /// The version of its holder, which may be older than its node; empty if unknown.
    #[serde(default)]
    pub holder_version: String,
    /// The version of the CLI in its terminal, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// Whether its profile was tested with that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli_tested: Option<bool>,
    /// The prompt that waits for a person's decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingPrompt>,
}

/// The scope in which a pid is valid: one boot of one machine, and one pid namespace in it.
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
    /// Returns the scope of this process; fields that the system does not report are empty.
    pub fn here() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let space = std::fs::read_link("/proc/self/ns/pid");
        Self {
            boot: boot.map(|id| id.trim().to_owned()).unwrap_or_default(),
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid_space: space.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default(),
        }
    }

    /// Whether a pid means the same process in both scopes.
    fn shares_pids_with(&self, other: &Self) -> bool {
        // A boot id identifies its machine; without one, compare the names.
        let is_named = !self.boot.is_empty() || self.machine == other.machine;
        // A sandbox often has its own pid namespace. From there every agent would look dead.
        self.boot == other.boot && is_named && self.pid_space == other.pid_space
    }
}

/// The content of the registry folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    /// Our entries whose agents are not proven dead.
    pub agents: Vec<Entry>,
    pub dead_removed: usize,
    /// Our files whose agents are dead and that still exist.
    pub dead: Vec<PathBuf>,
    pub foreign: Vec<ForeignEntry>,
    /// Skipped files; neither followed nor removed.
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
    /// How much of the shared context an entry holds; the node has all of it.
    pub const CONTEXT_CHARS_MAX: usize = 240;

    /// Returns the entry of an agent that starts now: process `holder` holds it, and
    /// this process is its node.
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

    /// Returns whether the agent is known to live, known to be gone, or neither.
    pub fn life(&self, here: &Place) -> Life {
        life(self, here, &mut HashMap::new())
    }

    /// Returns it as a live candidate for routing. Its former names are not in the entry.
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
            former_names: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Alive,
    Gone,
    /// It may be alive, but its pid means nothing in this scope.
    Unknown,
    /// On another machine that shares this home; its endpoint is not reachable from here.
    Elsewhere,
}

/// Returns the entry of one agent if it exists and is ours. Does not check whether the agent lives.
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

/// Removes the entry of an agent if it still belongs to process `pid`; returns whether it did.
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

/// Reads the folder and removes our dead entries.
pub fn scan(home: &Home) -> Scan {
    read_all(home, true)
}

/// Reads the folder without changing it.
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

/// What the content of a file is. Parsing never fails: a file that is not ours is
/// another tool's, or damaged.
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

/// One scan of the folder.
struct Look<'a> {
    path: &'a Path,
    dir: BorrowedFd<'a>,
    here: Place,
    /// The processes checked so far: agents of one holder share a pid.
    seen: HashMap<u32, Process>,
    scan: Scan,
    clears: bool,
}

impl Look<'_> {
    fn at(&mut self, name: &OsStr) {
        let path = || self.path.join(name);
        let bytes = match files::read_at(self.dir, name, BYTES_MAX, Access::Any, path) {
            Ok(bytes) => bytes,
            // Removed between the listing and now.
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

/// Removes a file that still has this content. A restarted agent may have written its new entry
/// meanwhile. So the file is first renamed, read again, and put back if it changed.
fn remove_if_unchanged(dir: BorrowedFd<'_>, name: &OsStr, bytes: &[u8]) -> bool {
    let Ok(random) = files::random_hex::<8>() else { return false };
    let aside = files::draft_name(&random);
    if rustix::fs::renameat(dir, name, dir, &aside).is_err() {
        return false;
    }
    let taken = files::read_at(dir, aside.as_ref(), BYTES_MAX, Access::Any, || PathBuf::from(&aside));
    let is_same = taken.is_ok_and(|taken| taken == bytes);
    if !is_same {
        // A link does not replace: if there is an even newer entry, that one stays.
        let _ = rustix::fs::linkat(dir, &aside, dir, name, AtFlags::empty());
    }
    let _ = rustix::fs::unlinkat(dir, &aside, AtFlags::empty());
    is_same
}

/// Maps states that only a newer version knows to `Unknown`.
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
