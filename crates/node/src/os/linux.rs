//! Linux: the parent death signal, and process descriptors.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// Makes the kernel send this process SIGTERM when its parent dies.
pub(crate) fn end_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
}

/// Waits for the end of a process without polling.
pub(crate) struct EndOf(AsyncFd<OwnedFd>);

impl EndOf {
    /// Returns `None` if there is no such process, or an error if the system has no descriptor for
    /// it.
    pub(crate) fn process(pid: u32) -> std::io::Result<Option<Self>> {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(pidfd) => watched(pidfd).map(|end| Some(Self(end))),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) async fn wait(&self) {
        let _ = self.0.readable().await;
    }
}

#[allow(unsafe_code)]
fn watched(pidfd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor must stay open and the same while it is registered. It is owned, moved
    // into the `AsyncFd` and never taken out or duplicated, so nothing else can close or replace it
    // before that drops.
    unsafe { AsyncFd::register(pidfd) }.map_err(std::io::Error::from)
}

/// Releases the memory pages of our own code. Pages that are needed again are loaded at their next
/// use. Pages that only the start needed stay out, so an idle node uses little memory.
#[allow(unsafe_code)]
pub(crate) fn give_back_code() {
    let (Ok(maps), Ok(own)) =
        (std::fs::read_to_string("/proc/self/maps"), std::fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    for (start, length) in own_code(&maps, &own.to_string_lossy()) {
        // SAFETY: the range is one whole mapping of our program's file, as the kernel just listed
        // it: private, readable and executable, never writable. So no page of it differs from the
        // file. The file cannot be written while it runs (ETXTBSY), and a released page is read
        // again with the same bytes when it is touched.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

/// Returns the start and length of our own code mappings.
fn own_code(maps: &str, own: &str) -> Vec<(usize, usize)> {
    let place = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let mode = words.next()?;
        let path = words.nth(3)?.trim_start();
        let number = |raw| usize::from_str_radix(raw, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        (mode == "r-xp" && path == own && end > start).then_some((start, end - start))
    };
    maps.lines().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_code_is_found() {
        let maps = "\
55d0c0000000-55d0c0100000 r--p 00000000 fe:00 123                        /usr/bin/synapse
55d0c0100000-55d0c0900000 r-xp 00100000 fe:00 123                        /usr/bin/synapse
55d0c0900000-55d0c0a00000 r--p 00900000 fe:00 123                        /usr/bin/synapse
55d0c0a00000-55d0c0a10000 rw-p 00a00000 fe:00 123                        /usr/bin/synapse
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000100000 r-xp 00000000 fe:00 77                         /usr/lib/libc.so.6
7f0000200000-7f0000201000 r-xp 00000000 00:00 0                          [vdso]
nonsense
";
        assert_eq!(own_code(maps, "/usr/bin/synapse"), [(0x55d0_c010_0000, 0x80_0000)]);
        assert_eq!(own_code(maps, "/usr/bin/other"), []);
    }

    /// The pages are released, and the code still runs.
    #[test]
    fn code_that_was_given_back_still_runs() {
        let resident = || {
            let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
            let line = rollup.lines().find(|line| line.starts_with("Rss:")).unwrap().to_owned();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        let before = resident();
        give_back_code();
        assert!(resident() < before, "nothing was given back of {before} kB");
    }
}
