//! Processes as a test sees them: who belongs to a home, who is below whom, and the end of them.
//!
//! Invariant: only a process that carries the home of the test in its environment, or is below one that
//! does, is ever signalled by `end_all`.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::{HashMap, HashSet};
use std::path::Path;

pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, state)| state != 'Z' && state != 'X')
}

/// `kill -9`.
pub fn kill9(pid: u32) {
    signal(pid, Signal::KILL);
}

pub fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

/// As Ctrl-C.
pub fn interrupt(pid: u32) {
    signal(pid, Signal::INT);
}

/// As a terminal that vanishes.
pub fn hang_up(pid: u32) {
    signal(pid, Signal::HUP);
}

/// As Ctrl-Z: it may do something about it.
pub fn suspend(pid: u32) {
    signal(pid, Signal::TSTP);
}

pub fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, state)| state == 'T')
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// Every living process that was started within this home, or one in a folder below it, and all below them.
pub fn of_home(home: &Path) -> Vec<u32> {
    let needle = format!("SYNAPSE_HOME={}", home.display());
    let parents: HashMap<u32, u32> = all()
        .into_iter()
        .filter_map(|pid| Some((pid, stat(pid)?.0)))
        .filter(|(pid, _)| is_alive(*pid))
        .collect();
    let mut ours: HashSet<u32> = parents
        .keys()
        .copied()
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|b| *b == 0).any(|variable| variable.starts_with(needle.as_bytes()))
        })
        .collect();
    loop {
        let more: Vec<u32> = parents
            .iter()
            .filter(|(pid, parent)| ours.contains(parent) && !ours.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        ours.extend(more);
    }
    ours.remove(&std::process::id());
    let mut ours: Vec<u32> = ours.into_iter().collect();
    ours.sort_unstable();
    ours
}

/// Kills everything of a home. Holders are stopped first, so that nothing is started again meanwhile.
pub fn end_all(home: &Path) {
    const ROUNDS_MAX: usize = 100;
    for _ in 0..ROUNDS_MAX {
        let left = of_home(home);
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|pid| signal(*pid, Signal::STOP));
        left.iter().for_each(|pid| kill9(*pid));
        crate::world::pause();
    }
}

/// Lets a process open so many more files than it has open now, up to a thousand.
#[cfg(target_os = "linux")]
pub fn leave_free(pid: u32, free: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let used: Vec<u64> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("it runs")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let limit = (0..1024).filter(|fd| !used.contains(fd)).nth(free).unwrap_or(1024);
    let limit = Rlimit { current: Some(limit), maximum: getrlimit(Resource::Nofile).maximum };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    prlimit(pid, Resource::Nofile, limit).expect("it is ours");
}

/// The most memory it ever had, MB.
pub fn peak_memory_mb(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(u64::MAX) / 1024
}

/// How many bytes it has read from anywhere.
pub fn read_so_far(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
}

/// What a process is called with, for messages.
pub fn command_line(pid: u32) -> String {
    let raw = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&raw).replace('\0', " ").trim().to_owned()
}

fn all() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Parent and state.
fn stat(pid: u32) -> Option<(u32, char)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may contain anything.
    let mut rest = text.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?.chars().next()?;
    Some((rest.next()?.parse().ok()?, state))
}

/// The processes that this one started and that live.
pub fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// All that live below this process.
pub fn below(pid: u32) -> Vec<u32> {
    let children = children_of(pid);
    let further: Vec<u32> = children.iter().flat_map(|child| below(*child)).collect();
    [children, further].concat()
}

/// Stops it as Ctrl-Z would, but so that it cannot refuse.
pub fn stop(pid: u32) {
    signal(pid, Signal::STOP);
}

pub fn go_on(pid: u32) {
    signal(pid, Signal::CONT);
}
