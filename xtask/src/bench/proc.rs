//! What the kernel knows about a process: CPU time, private memory, wake-ups.
//!
//! CPU time comes from clocks with nanoseconds: the ticks of `/proc/<pid>/stat` are as long as some
//! of the bars.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::ClockId;
use nix::unistd::Pid;

/// User and system time of a process, including threads that have ended.
pub(super) fn cpu_of(pid: u32) -> anyhow::Result<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid)?);
    let clock = ClockId::pid_cpu_clock_id(pid).with_context(|| format!("the CPU clock of process {pid}"))?;
    Ok(Duration::from(clock.now()?))
}

/// User and system time of this process.
pub(super) fn own_cpu() -> anyhow::Result<Duration> {
    Ok(both(&getrusage(UsageWho::RUSAGE_SELF)?))
}

/// User and system time of all children that were waited for.
pub(super) fn children_cpu() -> anyhow::Result<Duration> {
    Ok(both(&getrusage(UsageWho::RUSAGE_CHILDREN)?))
}

fn both(usage: &Usage) -> Duration {
    let micros = |time: TimeVal| {
        let (s, us) = (time.tv_sec().unsigned_abs(), time.tv_usec().unsigned_abs());
        Duration::from_micros(1_000_000 * s + us)
    };
    micros(usage.user_time()) + micros(usage.system_time())
}

/// Memory that only this process uses, in bytes.
pub(super) fn private_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, &["Private_Clean:", "Private_Dirty:"])
}

/// The part of the private memory that was written to, in bytes. This excludes code that merely no
/// other process maps now.
pub(super) fn written_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, &["Private_Dirty:"])
}

fn memory(pid: u32, kinds: &[&str]) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    Ok(1024 * sum_of(&text, kinds))
}

/// The peak memory of a process, in megabytes.
pub(super) fn peak_mb(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    Ok(sum_of(&text, &["VmHWM:"]) as f64 / 1024.0)
}

/// How often each thread of a process went to sleep voluntarily. Each sleep ends with a wake-up.
pub(super) struct Sleeps(BTreeMap<OsString, u64>);

impl Sleeps {
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let folder = format!("/proc/{pid}/task");
        let mut counts = BTreeMap::new();
        for thread in fs::read_dir(&folder).with_context(|| format!("reading {folder}"))? {
            let thread = thread?;
            // The thread ended after the folder was read. Treat it as if it had ended just before.
            let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
            counts.insert(thread.file_name(), sum_of(&status, &["voluntary_ctxt_switches:"]));
        }
        Ok(Self(counts))
    }

    /// Wake-ups since `before`. A thread that ended meanwhile woke once more, to exit.
    pub(super) fn since(&self, before: &Self) -> u64 {
        let ended = before.0.keys().filter(|thread| !self.0.contains_key(*thread)).count() as u64;
        let slept =
            |(thread, now): (&OsString, &u64)| now.saturating_sub(before.0.get(thread).copied().unwrap_or(0));
        ended + self.0.iter().map(slept).sum::<u64>()
    }
}

/// The sum of the numbers on the lines with these names.
fn sum_of(text: &str, names: &[&str]) -> u64 {
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        names.contains(&words.next()?).then(|| words.next()?.parse::<u64>().ok())?
    };
    text.lines().filter_map(number).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_by_their_whole_name() {
        let text = "Rss: 9 kB\nPrivate_Clean:   3 kB\nPrivate_Dirty: 4 kB\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(sum_of(text, &["Private_Clean:", "Private_Dirty:"]), 7);
        assert_eq!(sum_of(text, &["voluntary_ctxt_switches:"]), 0);
    }

    #[test]
    fn a_thread_that_ended_counts_once() {
        let sleeps = |counts: &[(&str, u64)]| Sleeps(counts.iter().map(|(t, n)| (t.into(), *n)).collect());
        let (before, after) = (sleeps(&[("1", 5), ("2", 900)]), sleeps(&[("1", 7), ("3", 4)]));
        assert_eq!(after.since(&before), 2 + 4 + 1);
    }

    #[test]
    fn this_process_has_clocks_and_memory() {
        let own = std::process::id();
        assert!(cpu_of(own).unwrap() > Duration::ZERO);
        assert!(own_cpu().unwrap() > Duration::ZERO);
        // In this order, because reading the files uses memory too.
        let written = written_bytes(own).unwrap();
        assert!(written > 0 && private_bytes(own).unwrap() >= written);
        assert!(Sleeps::of(own).is_ok() && children_cpu().is_ok());
    }
}
