//! Limits of open files: as many as the system allows for this node, and the user's own limit for
//! the commands it runs.
//!
//! A node needs a descriptor for each connection and each running task. Programs that use `select`
//! break above 1,024, so they get the user's own limit (`RunSpec::open_files`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::OnceLock;

/// More than a node ever needs.
const WANTED: u64 = 16_384;

/// The soft limit that this process was started with.
static OF_THE_USER: OnceLock<Option<u64>> = OnceLock::new();

/// Raises the soft limit towards the hard one.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    OF_THE_USER.get_or_init(|| limit.current);
    let granted = limit.maximum.map_or(WANTED, |hard| hard.min(WANTED));
    if limit.current.is_some_and(|soft| soft < granted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(granted), ..limit });
    }
}

/// Returns the limit for the programs that an agent runs; `None` if there is no limit.
pub(crate) fn of_the_user() -> Option<u64> {
    *OF_THE_USER.get_or_init(|| getrlimit(Resource::Nofile).current)
}

/// Sets the user's limit for a process that this node has just started. Where the system cannot,
/// the process keeps ours.
pub(crate) fn limit(pid: u32) {
    #[cfg(target_os = "linux")]
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let limit = Rlimit { current: of_the_user(), ..getrlimit(Resource::Nofile) };
        let _ = rustix::process::prlimit(Some(pid), Resource::Nofile, limit);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = pid;
}

pub(crate) fn allowed() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
