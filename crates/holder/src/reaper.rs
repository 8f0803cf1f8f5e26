//! The reaper: takes notice of every death below this process, and can end
//! everything that is left.
//!
//! Once it stands, an orphan below us becomes our child, however it was
//! started; so "no children" means "no descendants".
//!
//! Invariant: a process is signalled only while it is found in our tree.
//! Not here: when to end a tree (`holder`, `runner`).

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, wait};

use crate::bell::{Bell, Ringer};
use crate::limit::SystemLimit;
use crate::os;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    Exited(i32),
    Signaled(i32),
}

/// What one round of reaping found.
#[derive(Debug)]
pub struct Harvest {
    pub deaths: Vec<(u32, Death)>,
    /// Those that were stopped, as by Ctrl-Z.
    pub stopped: Vec<u32>,
    /// Nothing lives below this process any more.
    pub is_childless: bool,
}

impl Harvest {
    pub fn death_of(&self, pid: u32) -> Option<Death> {
        self.deaths.iter().find(|(dead, _)| *dead == pid).map(|(_, death)| *death)
    }
}

/// What was asked to end, was killed, and still stands.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "processes {left:?} outlive SIGKILL after {waited:?}; they hang in the kernel or belong to \
     another user: end them by hand, or reboot"
)]
pub struct TreeStands {
    pub left: Vec<u32>,
    pub waited: Duration,
}

/// Owns the children of this process. One per process.
pub struct Reaper {
    bell: Bell,
}

impl Reaper {
    /// Adopts orphans from now on, and takes over SIGCHLD, SIGTERM, SIGINT,
    /// SIGHUP and SIGPIPE.
    pub fn stand() -> io::Result<Self> {
        let bell = Bell::hang()?;
        os::become_subreaper()?;
        Ok(Self { bell })
    }

    /// Whether SIGTERM or SIGINT has come.
    pub fn told_to_stop(&self) -> bool {
        self.bell.told_to_stop()
    }

    /// Sleeps until a child may have died, a signal came, or `until` has come;
    /// may also wake early.
    pub fn wait(&self, until: Option<Instant>) -> io::Result<()> {
        self.bell.wait(until)
    }

    pub(crate) fn ringer(&self) -> io::Result<Ringer> {
        self.bell.ringer()
    }

    /// Takes notice of all that died since, without waiting.
    pub fn reap(&self) -> io::Result<Harvest> {
        let (mut deaths, mut stopped) = (Vec::new(), Vec::new());
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) => {
                    let pid = pid.as_raw_nonzero().get().unsigned_abs();
                    deaths.extend(death_from(status).map(|death| (pid, death)));
                    stopped.extend(status.stopped().then_some(pid));
                }
                Ok(None) => return Ok(Harvest { deaths, stopped, is_childless: false }),
                Err(Errno::CHILD) => return Ok(Harvest { deaths, stopped, is_childless: true }),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Asks everything below to end, waits up to `grace`, then kills until
    /// nothing is left.
    pub fn end_tree(&self, grace: Duration) -> Result<(), TreeStands> {
        if self.is_childless() {
            return Ok(());
        }
        // CONT lets a stopped process hear TERM.
        signal_all(&descendants(std::process::id()), &[Signal::TERM, Signal::CONT]);
        if self.becomes_childless(Instant::now() + grace) {
            return Ok(());
        }
        let give_up = Instant::now() + KILL_TIME_MAX;
        loop {
            signal_all(&freeze(), &[Signal::KILL]);
            if self.becomes_childless((Instant::now() + KILL_AGAIN_AFTER).min(give_up)) {
                return Ok(());
            }
            if Instant::now() >= give_up {
                let left = descendants(std::process::id());
                return Err(TreeStands { left, waited: KILL_TIME_MAX });
            }
        }
    }

    fn becomes_childless(&self, until: Instant) -> bool {
        loop {
            if self.is_childless() {
                return true;
            }
            // A bell that fails must not keep the tree alive: go on to kill.
            if Instant::now() >= until || self.wait(Some(until)).is_err() {
                return false;
            }
        }
    }

    fn is_childless(&self) -> bool {
        self.reap().is_ok_and(|harvest| harvest.is_childless)
    }
}

/// Everything below `root`, parents before their children. Processes that come
/// or go meanwhile may be missed, and so may those that a system limit hides.
pub fn descendants(root: u32) -> Vec<u32> {
    look_below(root).0
}

/// As `descendants`; an error if a system limit prevented a look at all of them.
pub fn check_descendants(root: u32) -> Result<Vec<u32>, SystemLimit> {
    match look_below(root) {
        (found, None) => Ok(found),
        (_, Some(limit)) => Err(limit),
    }
}

fn look_below(root: u32) -> (Vec<u32>, Option<SystemLimit>) {
    if os::lists_children() {
        let met = Cell::new(None);
        let children_of =
            |pid| os::children_of(pid).map_err(|limit| met.set(Some(limit))).unwrap_or_default();
        return (walk(root, children_of), met.get());
    }
    let (parents, met) = match os::all_parents() {
        Ok(parents) => (parents, None),
        Err(limit) => (Vec::new(), Some(limit)),
    };
    let is_child = |pid, (child, parent): &(u32, u32)| (*parent == pid).then_some(*child);
    (walk(root, |pid| parents.iter().filter_map(|row| is_child(pid, row)).collect()), met)
}

fn walk(root: u32, children_of: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let mut seen = HashSet::from([root]);
    let mut found = Vec::new();
    let mut next = children_of(root);
    while !next.is_empty() {
        next.retain(|pid| seen.insert(*pid));
        found.extend_from_slice(&next);
        next = next.iter().flat_map(|pid| children_of(*pid)).collect();
    }
    found
}

/// Stops everything below until a look finds nothing new, and gives what it
/// found: what is stopped cannot fork while the rest is being killed.
fn freeze() -> Vec<u32> {
    let mut stopped = HashSet::new();
    let mut all = Vec::new();
    for _ in 0..FREEZE_ROUNDS_MAX {
        all = descendants(std::process::id());
        let fresh: Vec<u32> = all.iter().copied().filter(|pid| stopped.insert(*pid)).collect();
        if fresh.is_empty() {
            break;
        }
        signal_all(&fresh, &[Signal::STOP]);
    }
    all
}

fn signal_all(pids: &[u32], signals: &[Signal]) {
    let own = std::process::id();
    let tree: HashSet<u32> = pids.iter().copied().chain([own]).collect();
    for pid in pids {
        for signal in signals {
            // A pid that was reused meanwhile has a parent outside of the tree.
            let in_tree = |stat: &os::Stat| tree.contains(&stat.parent) || is_below(*pid, own);
            os::signal_if(*pid, *signal, in_tree);
        }
    }
}

fn is_below(pid: u32, root: u32) -> bool {
    crate::process::ancestors(pid).contains(&root)
}

fn death_from(status: WaitStatus) -> Option<Death> {
    let exited = status.exit_status().map(Death::Exited);
    exited.or_else(|| status.terminating_signal().map(Death::Signaled))
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signaled(number) => match signal_hook::low_level::signal_name(*number) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {number}"),
            },
        }
    }
}

/// After this, what SIGKILL did not end will not end by more of it.
const KILL_TIME_MAX: Duration = Duration::from_secs(10);
const KILL_AGAIN_AFTER: Duration = Duration::from_millis(20);
const FREEZE_ROUNDS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_down_level_by_level_and_ends_in_a_ring() {
        let children = |pid| match pid {
            1 => vec![2, 3],
            2 => vec![4],
            3 => vec![5, 2],
            5 => vec![1],
            _ => vec![],
        };
        assert_eq!(walk(1, children), [2, 3, 4, 5]);
        assert_eq!(walk(9, children), Vec::<u32>::new());
    }

    #[test]
    fn a_death_is_told_in_words() {
        assert_eq!(Death::Exited(3).to_string(), "exited with code 3");
        assert_eq!(Death::Signaled(9).to_string(), "was killed by SIGKILL");
        assert_eq!(Death::Signaled(99).to_string(), "was killed by signal 99");
    }

    #[test]
    fn both_ways_to_list_children_agree() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let own = std::process::id();
        assert!(descendants(own).contains(&child.id()));
        assert!(os::all_parents().unwrap().contains(&(child.id(), own)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(own).contains(&child.id()));
    }
}
