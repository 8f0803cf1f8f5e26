//! Limits of the system: which one an error names, in words that tell a person what to raise.
//!
//! Invariant: what ran into one of these may go well later, and was not done by half.
//! Not here: what to do about it (`runner`, the node's hands).

use std::fmt;
use std::io;

use rustix::io::Errno;

/// A bound of the operating system that passes when others let go of what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemLimit {
    /// Files that one process may have open.
    OpenFiles,
    /// Files that all processes together may have open.
    SystemFiles,
    /// Processes and threads of this user, or of this container.
    Processes,
    Memory,
    Disk,
    DiskQuota,
}

impl SystemLimit {
    /// The limit that this error came from; `None` if it has another cause.
    pub fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::MFILE => Some(Self::OpenFiles),
            Errno::NFILE => Some(Self::SystemFiles),
            // Only `fork` and `clone` fail with this here: no descriptor that we read from this way is non-blocking.
            Errno::AGAIN => Some(Self::Processes),
            Errno::NOMEM => Some(Self::Memory),
            Errno::NOSPC => Some(Self::Disk),
            Errno::DQUOT => Some(Self::DiskQuota),
            _ => None,
        }
    }

    /// The limit behind an error that was passed on by others, such as one of a file that could not be read.
    pub fn behind(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes.filter_map(|error| error.downcast_ref()).find_map(Self::of)
    }

    /// Separates what a limit prevented from what failed for another reason: only the former may go well later.
    pub fn check<T>(result: io::Result<T>) -> Result<io::Result<T>, Self> {
        match result {
            Err(error) => Self::of(&error).map_or(Ok(Err(error)), Err),
            done => Ok(done),
        }
    }
}

impl fmt::Display for SystemLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenFiles => "the limit of open files is reached (RLIMIT_NOFILE, `ulimit -n`)",
            Self::SystemFiles => "the system's limit of open files is reached (sysctl fs.file-max)",
            Self::Processes => "the limit of processes is reached (`ulimit -u`, or pids.max of the cgroup)",
            Self::Memory => "the system has no memory left",
            Self::Disk => "the disk is full",
            Self::DiskQuota => "the disk quota is used up",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding A1: an error of a limit names it, and no other error is taken for one.
    #[test]
    fn errors_name_the_limit_they_come_from() {
        let table = [
            (Errno::MFILE, Some(SystemLimit::OpenFiles)),
            (Errno::NFILE, Some(SystemLimit::SystemFiles)),
            (Errno::AGAIN, Some(SystemLimit::Processes)),
            (Errno::NOMEM, Some(SystemLimit::Memory)),
            (Errno::NOSPC, Some(SystemLimit::Disk)),
            (Errno::DQUOT, Some(SystemLimit::DiskQuota)),
            (Errno::NOENT, None),
            (Errno::ACCESS, None),
            (Errno::TOOBIG, None),
        ];
        for (errno, limit) in table {
            assert_eq!(SystemLimit::of(&errno.into()), limit, "{errno}");
        }
        assert_eq!(SystemLimit::of(&io::Error::other("a word")), None);
    }

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read it")]
    struct NotRead(#[source] io::Error);

    #[test]
    fn limit_is_found_behind_errors_of_others() {
        let behind = |errno: Errno| SystemLimit::behind(&NotRead(errno.into()));
        assert_eq!(behind(Errno::NFILE), Some(SystemLimit::SystemFiles));
        assert_eq!(behind(Errno::NOENT), None);
        assert_eq!(SystemLimit::check::<()>(Err(Errno::MFILE.into())).unwrap_err(), SystemLimit::OpenFiles);
        assert!(SystemLimit::check::<()>(Err(Errno::NOENT.into())).unwrap().is_err());
    }
}
