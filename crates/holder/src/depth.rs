//! How many agents a process runs below, as a number that it inherits and cannot lower.
//!
//! A holder lowers the hard limit of `RLIMIT_LOCKS` by one before it starts anything. Linux has not used this limit
//! since 2.4.25, so nothing else changes. Everything below the holder inherits it, in whatever session, PID namespace
//! or folder it goes on, and also when the holder is gone; only root can raise a hard limit again.
//!
//! Invariant: a process below an agent is deeper than every process that the agent's user started beside it.
//! Not here: which agents these are (`synapse-node`'s `ancestry`). Systems other than Linux have no depth: it is 0.

use std::io;

#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit of a process at depth 0, if it has one.
#[cfg(target_os = "linux")]
const TOP: u64 = 1 << 40;

/// Makes this process, and all that it starts from now on, one deeper.
#[cfg(target_os = "linux")]
pub fn descend() -> io::Result<()> {
    let next = TOP.saturating_sub(own()).saturating_sub(1);
    Ok(setrlimit(Resource::Locks, Rlimit { current: Some(next), maximum: Some(next) })?)
}

/// The depth of this process.
#[cfg(target_os = "linux")]
pub fn own() -> u64 {
    depth_at(getrlimit(Resource::Locks).maximum)
}

/// The depth of another process.
#[cfg(target_os = "linux")]
pub fn of(pid: u32) -> io::Result<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
    read(&limits)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the limits of a process cannot be read"))
}

#[cfg(target_os = "linux")]
fn read(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(depth_at(None)),
        hard => Some(depth_at(Some(hard.parse().ok()?))),
    }
}

#[cfg(target_os = "linux")]
fn depth_at(hard: Option<u64>) -> u64 {
    hard.map_or(0, |hard| TOP.saturating_sub(hard))
}

#[cfg(not(target_os = "linux"))]
pub fn descend() -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub fn own() -> u64 {
    0
}

#[cfg(not(target_os = "linux"))]
pub fn of(_pid: u32) -> io::Result<u64> {
    Ok(0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn depth_is_read_from_the_limits_of_a_process() {
        let line =
            |hard: &str| format!("Limit Soft Hard\nMax file locks            unlimited   {hard}   locks\n");
        let table = [
            ("unlimited", Some(0)),
            ("1099511627775", Some(1)),
            ("1099511627774", Some(2)),
            // Lowered further by the process itself, to hide: it is only deeper.
            ("1000", Some(TOP - 1000)),
            // Of somebody else, and higher than any of ours.
            ("1099511627777", Some(0)),
            ("?", None),
        ];
        for (hard, depth) in table {
            assert_eq!(read(&line(hard)), depth, "{hard}");
        }
        assert_eq!(read("nothing"), None);
        assert_eq!(of(std::process::id()).unwrap(), own());
    }

    /// Findings H2, L11: neither another session nor a dead parent brings a process up again. A shell tries, since what is
    /// lowered here would stay so for this whole process.
    #[test]
    fn limit_cannot_be_raised_again() {
        let script = "import os, resource as r\n\
            r.setrlimit(10, (1099511627775, 1099511627775))\n\
            assert os.fork() != 0 or os.setsid() >= 0\n\
            try: r.setrlimit(10, (r.RLIM_INFINITY, r.RLIM_INFINITY)); print('raised')\n\
            except (ValueError, OSError): print('kept', r.getrlimit(10)[1])\n";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", script]);
        let said = command.output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let is_root = rustix::process::geteuid().is_root();
        assert!(said.lines().all(|line| is_root || line == "kept 1099511627775"), "{said}");
        assert!(!said.is_empty());
    }
}
