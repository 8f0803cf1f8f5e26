//! Collects the facts about a home and its machine. Reads only: it changes and removes nothing, and
//! creates only one temporary file to read its date.
//!
//! Not here: what the facts mean (`judge`).

use super::programs;
use rustix::fs::{StatVfs, statvfs};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path as FsPath, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use synapse_core::ids::AgentId;
use synapse_core::routes::Candidate;
use synapse_dialects::level::{self, Levels};
use synapse_node::ancestry::{self, Kin};
use synapse_store::OpenError;
use synapse_store::disagreement::RuleDisagreement;
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::notified::NotifierResult;
use synapse_store::registry::{self, Scan};
use synapse_store::{check, files, holders, repair};

/// Younger files may be in use.
const STALE: Duration = Duration::from_secs(3_600);
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);
const PORTS: std::ops::RangeInclusive<u16> = 8100..=8999;
/// The limit of items that are listed one by one.
pub const LISTED_MAX: usize = 1_000;

pub struct Facts {
    pub home: PathBuf,
    pub home_is_there: bool,
    pub our_uid: u32,
    pub paths: Vec<Path>,
    /// The type of the file system under the home, where the system tells it.
    pub file_system: Option<u64>,
    pub disk: Option<Disk>,
    pub clock: Clock,
    pub journals: Vec<Journal>,
    pub stale: Vec<Stale>,
    pub problems: Vec<(PathBuf, String)>,
    pub nodes: Vec<Node>,
    pub ports: Vec<Port>,
    /// Whether a new agent would get a port.
    pub free_port: bool,
    pub open_files: Option<u64>,
    pub programs: Vec<Program>,
    /// The result of the last command that notified the user, for each agent.
    pub notified: Vec<(String, NotifierResult)>,
    /// Agents whose program and profile contradict each other.
    pub disagreements: Vec<(String, RuleDisagreement)>,
    /// Settings and profiles of the project in this folder that are ignored.
    pub ignored: Vec<String>,
    pub own: Levels,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub path: PathBuf,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub is_link: bool,
    pub is_kind: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Accessible only to this user.
    Folder,
    /// Other tools have files there too. Each file is checked.
    SharedFolder,
    Secret,
    Plain,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Folder | Self::SharedFolder => "a folder",
            Self::Secret | Self::Plain => "a plain file",
        }
    }

    /// The permission bits that must not be set, and the mode that fixes them.
    pub fn forbidden(self) -> (u32, u32) {
        match self {
            Self::Folder => (0o077, 0o700),
            Self::SharedFolder => (0o022, 0o700),
            Self::Secret => (0o077, 0o600),
            Self::Plain => (0o022, 0o600),
        }
    }
}

pub struct Disk {
    pub free_bytes: u64,
    pub inodes: u64,
    pub free_inodes: u64,
}

pub struct Clock {
    pub now_ms: u64,
    /// The date of a file that was just written.
    pub file_ms: Option<u64>,
    /// The time of the newest record in all journals, and its agent.
    pub newest: Option<(u64, String)>,
}

pub struct Journal {
    pub agent: String,
    pub path: PathBuf,
    pub error: Option<String>,
    /// Records are missing, and the rest can be restored.
    pub is_repairable: bool,
    /// What each repair restored and lost, as long as its report is kept.
    pub repairs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    pub path: PathBuf,
    pub kind: StaleKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaleKind {
    RegistryEntry,
    Socket { agent: PathBuf },
    Holder { agent: PathBuf },
    Draft,
    Demo,
}

pub struct Node {
    pub agent: String,
    pub version: String,
    pub api: u32,
    pub holder_version: String,
    pub answers: bool,
}

pub struct Port {
    pub agent: String,
    pub port: u16,
    pub running: bool,
    /// Whether something listens on the port.
    pub taken: bool,
}

pub struct Program {
    pub name: &'static str,
    pub said: Said,
}

pub enum Said {
    NotFound,
    Version(String),
    Nothing(String),
}

/// The agents of a home, as read from its files.
struct Agents {
    scan: Scan,
    known: Vec<Known>,
    candidates: Vec<Candidate>,
    /// Every agent that has a folder.
    ids: Vec<AgentId>,
}

impl Agents {
    fn label(&self, id: &AgentId) -> String {
        let found = self.candidates.iter().find(|candidate| candidate.id == *id);
        found.map_or_else(|| id.short(), |candidate| candidate.call_it_anywhere(&self.candidates))
    }
}

/// Only the stale files.
pub fn stale_files(home: &Home) -> Vec<Stale> {
    stale(home, &agents(home).0)
}

fn agents(home: &Home) -> (Agents, Vec<files::Problem>) {
    let scan = registry::look(home);
    let (known, unread) = Known::all(home);
    let candidates = registry::merge(&scan, &known);
    (Agents { scan, known, candidates, ids: agent_ids(home) }, unread)
}

pub async fn gather(home: &Home) -> Facts {
    let (agents, mut unread) = agents(home);
    unread.extend(agents.scan.problems.iter().cloned());
    let problems = unread.into_iter().map(|problem| (problem.path, problem.why)).take(LISTED_MAX).collect();
    let (journals, newest) = journals(home, &agents);
    let room = statvfs(home.root()).ok();
    Facts {
        home: home.root().to_owned(),
        home_is_there: home.root().symlink_metadata().is_ok(),
        our_uid: files::our_uid(),
        paths: paths(home, &agents),
        file_system: file_system(home.root()),
        disk: room.map(disk),
        clock: Clock { now_ms: ms(SystemTime::now()), file_ms: date_of_a_new_file(home.root()), newest },
        journals,
        stale: stale(home, &agents),
        problems,
        nodes: nodes(home, &agents).await,
        ports: ports(&agents),
        free_port: PORTS.into_iter().any(|port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()),
        open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        programs: programs::ask_all(),
        notified: notified(home, &agents),
        disagreements: disagreements(home, &agents),
        ignored: ignored(home),
        own: level::OWN,
        version: level::VERSION.to_owned(),
    }
}

fn notified(home: &Home, agents: &Agents) -> Vec<(String, NotifierResult)> {
    let last = |id: &AgentId| Some((agents.label(id), NotifierResult::load(&home.agent(id))?));
    agents.ids.iter().filter_map(last).take(LISTED_MAX).collect()
}

/// Rows of a screen and proposals made from them are shown only to the user.
fn disagreements(home: &Home, agents: &Agents) -> Vec<(String, RuleDisagreement)> {
    let is_user = ancestry::own(home) == Kin::Person;
    let found = |id: &AgentId| {
        let mut found = RuleDisagreement::load(&home.agent(id))?;
        if !is_user {
            (found.rows, found.proposal) = (Vec::new(), None);
        }
        Some((agents.label(id), found))
    };
    agents.ids.iter().filter_map(found).take(LISTED_MAX).collect()
}

fn ignored(home: &Home) -> Vec<String> {
    let Ok(here) = std::env::current_dir() else { return Vec::new() };
    let settings = synapse_settings::load(&synapse_settings::Places::here(home.root(), &here)).ignored;
    let profiles = synapse_node::profiles::all(home, &here).map(|(_, notices)| notices).unwrap_or_default();
    let settings = settings.iter().map(ToString::to_string);
    let mut all: Vec<String> = settings.chain(profiles.iter().map(ToString::to_string)).collect();
    all.truncate(LISTED_MAX);
    all
}

fn agent_ids(home: &Home) -> Vec<AgentId> {
    let names = names_in(&home.agents_dir());
    let mut ids: Vec<AgentId> = names.iter().filter_map(|name| AgentId::parse(name).ok()).collect();
    ids.sort_unstable();
    ids
}

fn names_in(folder: &FsPath) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn paths(home: &Home, agents: &Agents) -> Vec<Path> {
    let root = home.root();
    let mut wanted = vec![
        (root.to_owned(), Kind::Folder),
        (home.agents_dir(), Kind::Folder),
        (root.join("user"), Kind::Folder),
        (root.join("holders"), Kind::Folder),
        (home.registry_dir().to_owned(), Kind::SharedFolder),
        (home.token_file(), Kind::Secret),
        (home.card_key(), Kind::Secret),
        (root.join("hostname"), Kind::Plain),
        (root.join("settings.json"), Kind::Plain),
    ];
    for id in &agents.ids {
        let dir = home.agent(id);
        wanted.push((dir.path().to_owned(), Kind::Folder));
        wanted.push((dir.spool(), Kind::Folder));
        wanted.push((dir.journal(), Kind::Secret));
        wanted.push((dir.launch(), Kind::Plain));
        wanted.push((dir.known(), Kind::Plain));
        wanted.push((dir.program(), Kind::Plain));
    }
    wanted.into_iter().filter_map(|(path, kind)| path_fact(path, kind)).collect()
}

fn path_fact(path: PathBuf, kind: Kind) -> Option<Path> {
    let found = path.symlink_metadata().ok()?;
    let is_kind = match kind {
        Kind::Folder | Kind::SharedFolder => found.is_dir(),
        Kind::Secret | Kind::Plain => found.is_file(),
    };
    let (mode, uid, is_link) = (found.mode() & 0o777, found.uid(), found.file_type().is_symlink());
    Some(Path { path, kind, mode, uid, is_link, is_kind })
}

#[cfg(target_os = "linux")]
fn file_system(path: &FsPath) -> Option<u64> {
    let told = rustix::fs::statfs(path).ok()?;
    // The width and sign of the type differ between platforms. All types fit into 32 bits.
    Some(told.f_type as u64 & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn file_system(_path: &FsPath) -> Option<u64> {
    None
}

fn disk(room: StatVfs) -> Disk {
    Disk {
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
        inodes: room.f_files,
        free_inodes: room.f_favail,
    }
}

fn ms(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn date_of_a_new_file(folder: &FsPath) -> Option<u64> {
    let path = folder.join(format!(".synapse-draft-doctor-{}", std::process::id()));
    files::write_volatile(&path, b"").ok()?;
    let date = path.metadata().and_then(|found| found.modified()).ok().map(ms);
    let _ = files::remove(&path);
    date
}

fn journals(home: &Home, agents: &Agents) -> (Vec<Journal>, Option<(u64, String)>) {
    let (mut all, mut newest) = (Vec::new(), None);
    for id in &agents.ids {
        let path = home.agent(id).journal();
        let repairs: Vec<String> = repair::reports(&path).iter().map(ToString::to_string).collect();
        let error = match check::journal(&path) {
            Ok(None) if repairs.is_empty() => continue,
            // Nothing could be restored, and the agent has not run since.
            Ok(None) => None,
            Ok(Some(seen)) => {
                newest = newest.max(seen.newest_ms.map(|at| (at, *id)));
                None
            }
            Err(e) => Some(e),
        };
        let is_repairable = error.as_ref().is_some_and(OpenError::is_repairable);
        let error = error.map(|e| e.to_string());
        all.push(Journal { agent: agents.label(id), path, error, is_repairable, repairs });
    }
    (all, newest.map(|(at, id)| (at, agents.label(&id))))
}

fn stale(home: &Home, agents: &Agents) -> Vec<Stale> {
    let mut all: Vec<Stale> = Vec::new();
    let mut add = |path: PathBuf, kind: StaleKind| all.push(Stale { path, kind });
    for path in &agents.scan.dead {
        add(path.clone(), StaleKind::RegistryEntry);
    }
    for id in &agents.ids {
        let dir = home.agent(id);
        let socket = dir.socket();
        let is_socket = socket.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
        if is_socket && synapse_holder::holder_of(dir.path()).is_none() {
            add(socket, StaleKind::Socket { agent: dir.path().to_owned() });
        }
        for draft in old_files(&dir.spool().join("tmp"), |_| true).into_iter().chain(drafts(dir.path())) {
            add(draft, StaleKind::Draft);
        }
    }
    let user = old_files(&home.user_spool().join("tmp"), |_| true);
    for draft in user.into_iter().chain(drafts(home.root())).chain(drafts(home.registry_dir())) {
        add(draft, StaleKind::Draft);
    }
    for pid in names_in(&home.root().join("holders")).iter().filter_map(|name| name.parse::<u32>().ok()) {
        if let Ok(Some(id)) = holders::claimed_by(home, pid) {
            let dir = home.agent(&id);
            if synapse_holder::holder_of(dir.path()).is_none_or(|mark| mark.pid != pid) {
                let path = home.root().join("holders").join(pid.to_string());
                add(path, StaleKind::Holder { agent: dir.path().to_owned() });
            }
        }
    }
    for demo in old_files(&std::env::temp_dir(), |name| name.starts_with("synapse-demo-")) {
        add(demo, StaleKind::Demo);
    }
    all.truncate(LISTED_MAX);
    all
}

fn drafts(folder: &FsPath) -> Vec<PathBuf> {
    old_files(folder, |name| name.starts_with(".synapse-draft-"))
}

/// Our own files or folders with a matching name that were not changed for an hour.
fn old_files(folder: &FsPath, is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let is_old = |path: &PathBuf| {
        let Ok(found) = path.symlink_metadata() else { return false };
        let age = found.modified().ok().and_then(|at| at.elapsed().ok());
        found.uid() == files::our_uid() && age.is_some_and(|age| age > STALE)
    };
    let names = names_in(folder).into_iter().filter(|name| is_meant(name));
    names.map(|name| folder.join(name)).filter(is_old).take(LISTED_MAX).collect()
}

async fn nodes(home: &Home, agents: &Agents) -> Vec<Node> {
    let mut nodes = Vec::new();
    for entry in &agents.scan.agents {
        let socket = home.agent(&entry.agent_id).socket();
        let asked = async {
            // `_guard` keeps the descriptor open, because the address leads through it.
            let (address, _guard) = synapse_store::home::socket_address(&socket).ok()?;
            tokio::net::UnixStream::connect(&address).await.ok()
        };
        let heard = tokio::time::timeout(ANSWER_PATIENCE, asked).await;
        nodes.push(Node {
            agent: agents.label(&entry.agent_id),
            version: crate::show::line(&entry.version, 32),
            api: entry.api,
            holder_version: crate::show::line(&entry.holder_version, 32),
            answers: matches!(heard, Ok(Some(_))),
        });
    }
    nodes
}

fn ports(agents: &Agents) -> Vec<Port> {
    let runs = |id: &AgentId| agents.scan.agents.iter().find(|entry| entry.agent_id == *id);
    let known = agents.known.iter().filter_map(|known| Some((known.id, known.port?)));
    let mut ports: Vec<Port> = Vec::new();
    for (id, port) in known {
        let entry = runs(&id);
        let port = entry.map_or(port, |entry| entry.port);
        // Another agent of ours may use the port by now, which is fine.
        let of_ours = agents.scan.agents.iter().any(|entry| entry.port == port && entry.agent_id != id);
        if entry.is_none() && of_ours {
            continue;
        }
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let taken = std::net::TcpStream::connect_timeout(&address, ANSWER_PATIENCE).is_ok();
        ports.push(Port { agent: agents.label(&id), port, running: entry.is_some(), taken });
    }
    ports
}
