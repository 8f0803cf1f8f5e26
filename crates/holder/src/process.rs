//! Processes by name: a mark that means one process and no other, and the way
//! up from a process to its ancestors.
//!
//! Invariant: a mark never means a second process, even when its pid is given
//! out again or the machine was booted in between.
//! Not here: descendants and how to end them (`reaper`).

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::limit::SystemLimit;
use crate::os;

/// One process, told apart from every other that had or will have its pid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessMark {
    pub pid: u32,
    pub start_time: u64,
    #[serde(default)]
    pub boot: String,
}

impl ProcessMark {
    /// The mark of a living process; `None` if there is none with this pid.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = os::stat(pid).filter(|stat| !stat.is_zombie)?;
        Some(Self { pid, start_time: stat.start_time, boot: os::boot_id() })
    }

    /// The mark of this process. Fails only where the system tells nothing
    /// about processes, such as a sandbox without `/proc`.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "cannot look up this very process; is /proc mounted?")
        })
    }

    /// Whether this very process lives; a zombie does not.
    pub fn is_alive(&self) -> bool {
        os::stat(self.pid).is_some_and(|stat| self.is(&stat)) && self.boot == os::boot_id()
    }

    /// As `is_alive`; an error if a limit of the system kept us from looking.
    pub fn check_alive(&self) -> io::Result<bool> {
        Ok(os::look_at(self.pid)?.is_some_and(|stat| self.is(&stat)) && self.boot == os::boot_id())
    }

    /// Asks this very process to end (SIGTERM); says whether it was there to
    /// be asked.
    pub fn terminate(&self) -> bool {
        self.signal(Signal::TERM)
    }

    /// Ends this very process at once (SIGKILL), but not what it started; says
    /// whether it was there.
    pub fn kill(&self) -> bool {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> bool {
        self.boot == os::boot_id() && os::signal_if(self.pid, signal, |stat| self.is(stat))
    }

    fn is(&self, stat: &os::Stat) -> bool {
        !stat.is_zombie && stat.start_time == self.start_time
    }
}

/// A process on the way up from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ancestor {
    pub pid: u32,
    pub start_time: u64,
}

/// `pid` and all above it, itself first, up to the first process of the system; `None` if one of them could not be
/// seen or changed meanwhile. An error if a system limit prevented the look.
///
/// The way is climbed twice. Whoever was met both times lived in between, so its pid meant it, and the parent that
/// its child named in the second climb is the process that is listed, not a later one with the same pid.
pub fn lineage(pid: u32) -> Result<Option<Vec<Ancestor>>, SystemLimit> {
    let first = climb(pid)?;
    Ok(if climb(pid)? == first { first } else { None })
}

fn climb(pid: u32) -> Result<Option<Vec<Ancestor>>, SystemLimit> {
    let mut line: Vec<Ancestor> = Vec::with_capacity(16);
    let mut next = pid;
    // Process 1 is above everybody. 0 is above whoever was put into our PID namespace from outside.
    while next > 1 || line.is_empty() {
        if line.len() >= ANCESTORS_MAX || line.iter().any(|seen| seen.pid == next) {
            return Ok(None);
        }
        let stat = SystemLimit::check(os::look_at(next))?.ok().flatten();
        let Some(stat) = stat.filter(|stat| !stat.is_zombie) else { return Ok(None) };
        line.push(Ancestor { pid: next, start_time: stat.start_time });
        next = stat.parent;
    }
    Ok(Some(line))
}

/// `pid` and who started it, upwards: itself first, at most 64. Ends below
/// the first process of the system, or where a process has vanished.
pub fn ancestors(pid: u32) -> Vec<u32> {
    let mut line = Vec::new();
    let mut next = Some(pid);
    while let Some(pid) = next
        && pid > 1
        && line.len() < ANCESTORS_MAX
        // Pids may be reused while we climb, and then even form a ring.
        && !line.contains(&pid)
    {
        line.push(pid);
        next = parent_of(pid);
    }
    line
}

/// Who started `pid`, or who took it over when that one died; `None` if there
/// is no such process or it has no parent.
pub fn parent_of(pid: u32) -> Option<u32> {
    os::stat(pid).map(|stat| stat.parent).filter(|parent| *parent != 0)
}

/// Where `pid` stands among the jobs of its shell; `None` if there is no such process.
pub fn job_of(pid: u32) -> Option<os::Job> {
    os::stat(pid).map(|stat| stat.job)
}

/// Starts this very program again, even if its file was replaced or removed meanwhile: what two processes of one
/// node share on disk must be of one version.
pub fn same_program() -> io::Result<Command> {
    let mut command = Command::new(os::own_program()?);
    command.arg0("synapse");
    Ok(command)
}

const ANCESTORS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_means_this_process_and_not_another_life_of_its_pid() {
        let own = ProcessMark::own().unwrap();
        assert!(own.is_alive());
        let earlier = ProcessMark { start_time: own.start_time - 1, ..own.clone() };
        assert!(!earlier.is_alive());
        assert!(!earlier.terminate());
        let before_boot = ProcessMark { boot: "another".into(), ..own.clone() };
        assert!(!before_boot.is_alive());
        assert!(!before_boot.terminate());
        let text = serde_json::to_string(&own).unwrap();
        assert_eq!(serde_json::from_str::<ProcessMark>(&text).unwrap(), own);
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mark = ProcessMark::of(child.id()).unwrap();
        assert!(mark.is_alive());
        assert!(mark.kill());
        // Waits for the death without taking notice of it: a zombie remains.
        let pid = rustix::process::Pid::from_child(&child);
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
        assert!(!mark.is_alive());
        assert_eq!(ProcessMark::of(mark.pid), None);
        child.wait().unwrap();
        assert!(!mark.is_alive());
    }

    #[test]
    fn ancestors_start_with_the_process_and_climb() {
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        assert_eq!(parent_of(own), Some(parent));
        let line = ancestors(own);
        assert_eq!(line[0], own);
        assert!(parent == 1 || line[1] == parent, "{line:?}");
        assert!(!line.contains(&1) && !line.contains(&0), "{line:?}");
        let lineage: Vec<u32> = lineage(own).unwrap().unwrap().iter().map(|seen| seen.pid).collect();
        assert_eq!(lineage, line);
        assert_eq!((super::lineage(0), super::lineage(u32::MAX)), (Ok(None), Ok(None)));
        assert_eq!(super::lineage(1).unwrap().unwrap().len(), 1);
        assert_eq!(ancestors(0), Vec::<u32>::new());
        assert_eq!(ancestors(u32::MAX), vec![u32::MAX]);
        assert_eq!(parent_of(u32::MAX), None);
    }
}
