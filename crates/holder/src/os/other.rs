//! Systems without `/proc`: answers from `ps`, and looks at intervals.
//!
//! There is no subreaper, so an orphan that leaves the tree is lost to us, and
//! a signal may in theory meet a reused pid.
//! Not here: Linux (`os/linux.rs`), the only system where all promises hold.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{self, Signal};

use super::{Job, Stat, pid_of};

pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

pub(crate) fn boot_id() -> String {
    String::new()
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let line = ps(&["-o", "ppid=,pgid=,tty=,state=,lstart=", "-p", &pid.to_string()])?;
    let mut words = line.split_ascii_whitespace();
    let parent = words.next()?.parse().ok()?;
    let group = words.next()?.parse().ok()?;
    let terminal = words.next().filter(|name| !name.contains('?')).map_or(0, |name| number_of(&name));
    let is_zombie = words.next()?.starts_with('Z');
    // The start is a date in words; any number that follows from it will do.
    let start_time = number_of(&words.collect::<Vec<_>>());
    Some(Stat { parent, job: Job { group, terminal }, is_zombie, start_time })
}

fn number_of(words: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn all_parents() -> Vec<(u32, u32)> {
    ps(&["-A", "-o", "pid=,ppid="])
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect()
}

pub(crate) fn lists_children() -> bool {
    false
}

pub(crate) fn children_of(_pid: u32) -> Vec<u32> {
    Vec::new()
}

pub(crate) fn signal_if(pid: u32, signal: Signal, is_meant: impl Fn(&Stat) -> bool) -> bool {
    let Some(target) = pid_of(pid) else {
        return false;
    };
    stat(pid).is_some_and(|seen| is_meant(&seen)) && process::kill_process(target, signal).is_ok()
}

pub(crate) struct InputWatch;

impl InputWatch {
    pub(crate) fn new(_file: &Path, _folder: &Path) -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn wait(&self) -> io::Result<()> {
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }
}

fn ps(arguments: &[&str]) -> Option<String> {
    let output = Command::new("ps").args(arguments).env("LC_ALL", "C").output().ok()?;
    String::from_utf8(output.stdout).ok()
}

const LOOK_EVERY: Duration = Duration::from_millis(200);
