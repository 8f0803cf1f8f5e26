//! Home: the paths of all files.
//!
//! One root (`~/.synapse`, or `$SYNAPSE_HOME`) and one registry shared with other tools
//! (`~/.a2a/registry`, or `registry` within `$SYNAPSE_HOME`): one variable is enough
//! for a throw-away home.
//!
//! Invariant: all paths are absolute, and none contains a name that an agent or a caller chose.
//! Not here: what is in the files.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use synapse_core::ids::AgentId;

use crate::files::{self, FileError};

/// All paths of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    registry: PathBuf,
}

/// Why there is no home, or no usable address in it.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error(
        "neither HOME nor SYNAPSE_HOME is set, so there is no place for files; \
         set one: `export SYNAPSE_HOME=<directory>`"
    )]
    Unset,
    #[error(
        "{variable} is {value:?}, which depends on the current directory; \
         set it to a path that starts with `/`"
    )]
    Relative { variable: &'static str, value: OsString },
    #[error(
        "the socket path {} has {} bytes and {max} fit; set SYNAPSE_HOME to a shorter path",
        .path.display(), .path.as_os_str().len()
    )]
    SocketPathTooLong { path: PathBuf, max: usize },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Home {
    pub fn from_env() -> Result<Self, HomeError> {
        Self::from_vars(std::env::var_os("SYNAPSE_HOME"), std::env::var_os("HOME"))
    }

    /// Builds it from the values of SYNAPSE_HOME and HOME; an empty value counts as unset.
    pub fn from_vars(synapse_home: Option<OsString>, home: Option<OsString>) -> Result<Self, HomeError> {
        if let Some(root) = absolute("SYNAPSE_HOME", synapse_home)? {
            return Ok(Self { registry: root.join("registry"), root });
        }
        let home = absolute("HOME", home)?.ok_or(HomeError::Unset)?;
        Ok(Self { root: home.join(".synapse"), registry: home.join(".a2a").join("registry") })
    }

    /// Whether this is the default home, which `SYNAPSE_HOME` did not change.
    pub fn is_default(&self) -> bool {
        let default = Self::from_vars(None, std::env::var_os("HOME"));
        default.is_ok_and(|default| default.root == self.root)
    }

    pub fn at(root: impl Into<PathBuf>, registry: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), registry: registry.into() }
    }

    /// Creates the directories, or checks that existing ones belong to this user alone.
    pub fn ensure(&self) -> Result<(), FileError> {
        files::private_dir(&self.root)?;
        files::private_dir(&self.agents_dir())?;
        files::private_dir(&self.root.join("user"))?;
        // Another tool may have created it with wider permissions; each entry in
        // it is checked instead.
        files::adopt_dir(&self.registry)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn registry_dir(&self) -> &Path {
        &self.registry
    }

    pub fn token_file(&self) -> PathBuf {
        self.root.join("token")
    }

    /// The key that signs agent cards.
    pub fn card_key(&self) -> PathBuf {
        self.root.join("card.key")
    }

    pub fn agents_dir(&self) -> PathBuf {
        self.root.join("agents")
    }

    pub fn agent(&self, id: &AgentId) -> AgentDir {
        AgentDir { path: self.agents_dir().join(id.to_string()), id: *id }
    }

    /// The spool with mail for the user.
    pub fn user_spool(&self) -> PathBuf {
        self.root.join("user").join("spool")
    }
}

/// The directory of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDir {
    path: PathBuf,
    id: AgentId,
}

impl AgentDir {
    /// Creates the directory, or checks that the existing one belongs to this user alone.
    pub fn ensure(&self) -> Result<(), FileError> {
        files::private_dir(&self.path)
    }

    pub fn id(&self) -> AgentId {
        self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.db")
    }

    pub fn search_index(&self) -> PathBuf {
        self.path.join("search.db")
    }

    pub fn spool(&self) -> PathBuf {
        self.path.join("spool")
    }

    pub fn socket(&self) -> PathBuf {
        self.path.join("node.sock")
    }

    /// The socket on which the holder serves the agent's terminal.
    pub fn terminal(&self) -> PathBuf {
        self.path.join("term.sock")
    }

    pub fn known(&self) -> PathBuf {
        self.path.join("known.json")
    }

    /// Identifies the process of its ACP program.
    pub fn acp_program(&self) -> PathBuf {
        self.path.join("acp.json")
    }

    /// How its program ended, if it ended by itself.
    pub fn ended(&self) -> PathBuf {
        self.path.join("ended.json")
    }

    /// How long it ran in its whole life.
    pub fn lifetime(&self) -> PathBuf {
        self.path.join("lifetime.json")
    }

    /// The last session of its CLI.
    pub fn cli_session(&self) -> PathBuf {
        self.path.join("session.json")
    }

    /// Exists while the agent should run.
    pub fn should_run(&self) -> PathBuf {
        self.path.join("should-run")
    }

    /// Where the screen rules of its profile contradict the program's own reports.
    pub fn disagreement(&self) -> PathBuf {
        self.path.join("disagreement.json")
    }

    /// The result of the last attempt to notify the user.
    pub fn notified(&self) -> PathBuf {
        self.path.join("notified.json")
    }

    /// The commands that notify the user, while they run.
    pub fn notify(&self) -> PathBuf {
        self.path.join("notify")
    }

    pub fn launch(&self) -> PathBuf {
        self.path.join("launch.json")
    }

    /// The name of the program that the holder starts as the next node.
    pub fn program(&self) -> PathBuf {
        self.path.join("program")
    }

    pub fn token(&self) -> PathBuf {
        self.path.join("token")
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// The folder of its audit log.
    pub fn audit(&self) -> PathBuf {
        self.path.join("audit")
    }

    /// The hook files that make its program report its state.
    pub fn hooks(&self) -> PathBuf {
        self.path.join("hooks")
    }

    /// The secret that the program's hooks send; new at each start of the program.
    pub fn hook_key(&self) -> PathBuf {
        self.hooks().join("key")
    }

    /// Messages that are too long to be typed.
    pub fn mail(&self) -> PathBuf {
        self.path.join("mail")
    }

    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// Files that came with messages.
    pub fn attachments(&self) -> PathBuf {
        self.path.join("files")
    }

    /// The webhooks that are called for its tasks.
    pub fn webhooks(&self) -> PathBuf {
        self.path.join("webhooks")
    }
}

/// Returns a path by which a Unix socket can be bound or reached, however long its own path is. The
/// descriptor, if any, must stay open while that path is used.
pub fn socket_address(path: &Path) -> Result<(PathBuf, Option<OwnedFd>), HomeError> {
    if path.as_os_str().len() <= SOCKET_PATH_MAX {
        return Ok((path.to_owned(), None));
    }
    through_its_directory(path)
}

#[cfg(target_os = "linux")]
fn through_its_directory(path: &Path) -> Result<(PathBuf, Option<OwnedFd>), HomeError> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd as _;

    let too_long = || HomeError::SocketPathTooLong { path: path.to_owned(), max: SOCKET_PATH_MAX };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Err(too_long()) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd =
        rustix::fs::open(dir, flags, Mode::empty()).map_err(|errno| FileError::io(dir, "open", errno))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())).join(name);
    if short.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(too_long());
    }
    Ok((short, Some(fd)))
}

#[cfg(not(target_os = "linux"))]
fn through_its_directory(path: &Path) -> Result<(PathBuf, Option<OwnedFd>), HomeError> {
    Err(HomeError::SocketPathTooLong { path: path.to_owned(), max: SOCKET_PATH_MAX })
}

fn absolute(variable: &'static str, value: Option<OsString>) -> Result<Option<PathBuf>, HomeError> {
    match value {
        Some(value) if Path::new(&value).is_absolute() => Ok(Some(PathBuf::from(value))),
        Some(value) if !is_blank(&value) => Err(HomeError::Relative { variable, value }),
        _ => Ok(None),
    }
}

fn is_blank(value: &OsStr) -> bool {
    value.as_bytes().iter().all(u8::is_ascii_whitespace)
}

/// The longest path that fits into a socket address with its terminating zero.
const SOCKET_PATH_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
