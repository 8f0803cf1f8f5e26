//! Processes held by descriptor, so that a pid which is given out again never names the wrong one.
//!
//! A pid is only a number: the process that connected may be gone, and another may have its number. A
//! `PinnedProcess` holds the process itself (a pidfd where the kernel has them), and what was read by its number
//! counts only if the process is still alive afterwards.
//!
//! Invariant: a process that is gone is never a peer, and neither is one that started after the connection.
//! Not here: which agent a process belongs to (`synapse-node`'s `ancestry`).

use crate::limit::SystemLimit;
use crate::os::{self, PeerDescriptor};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// One process. While it is alive, its pid belongs to it and to nobody else.
#[derive(Debug)]
pub struct PinnedProcess {
    pub pid: u32,
    pub start_time: u64,
    /// None where the system has no descriptors for processes.
    descriptor: Option<OwnedFd>,
}

impl PinnedProcess {
    /// Pins the process that has this pid now; `None` if there is none, an error if a system limit prevents it.
    pub fn open(pid: u32) -> Result<Option<Self>, SystemLimit> {
        Self::with(pid, os::open_process(pid)?)
    }

    fn with(pid: u32, descriptor: Option<OwnedFd>) -> Result<Option<Self>, SystemLimit> {
        let stat = SystemLimit::check(os::look_at(pid))?.ok().flatten();
        let Some(stat) = stat.filter(|stat| !stat.is_zombie) else { return Ok(None) };
        let process = Self { pid, start_time: stat.start_time, descriptor };
        Ok(process.check_alive()?.then_some(process))
    }

    /// Whether it has not ended: what was read by its pid until now was about this process. An error if a system limit
    /// prevented the look.
    pub fn check_alive(&self) -> Result<bool, SystemLimit> {
        if let Some(descriptor) = &self.descriptor {
            return Ok(!os::has_ended(descriptor));
        }
        let stat = SystemLimit::check(os::look_at(self.pid))?.ok().flatten();
        Ok(stat.is_some_and(|stat| !stat.is_zombie && stat.start_time == self.start_time))
    }

    /// What the process calls itself, for people to read; anybody can choose a name.
    pub fn name(&self) -> String {
        os::name_of(self.pid).unwrap_or_default()
    }
}

/// The other end of a Unix socket.
#[derive(Debug)]
pub struct SocketPeer {
    pub uid: u32,
    /// The process that connected; none if it has ended, or cannot be seen from here. An error if a system limit
    /// prevented the look.
    pub process: Result<Option<PinnedProcess>, SystemLimit>,
}

impl SocketPeer {
    /// Asks the kernel who connected. Call it as soon as the connection is accepted.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let socket = socket.as_fd();
        let (pid, uid) = os::peer_credentials(socket)?;
        let process = os::peer_descriptor(socket).and_then(|descriptor| match descriptor {
            PeerDescriptor::Process(descriptor) => PinnedProcess::with(pid, Some(descriptor)),
            PeerDescriptor::Gone => Ok(None),
            PeerDescriptor::Unsupported => connected_by(pid, os::now_as_start_time()?),
        });
        Ok(Self { uid, process })
    }
}

/// Without a descriptor from the socket: the process with this pid, unless it is younger than the connection.
fn connected_by(pid: u32, accepted: Option<u64>) -> Result<Option<PinnedProcess>, SystemLimit> {
    let is_older = |process: &PinnedProcess| accepted.is_none_or(|accepted| process.start_time <= accepted);
    Ok(PinnedProcess::open(pid)?.filter(is_older))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Child, Command, Stdio};

    fn child() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn peer_of_a_socket_is_the_process_that_connected() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let _client = UnixStream::connect(dir.path().join("s")).unwrap();
        let (served, _) = listener.accept().unwrap();
        let peer = SocketPeer::of(&served).unwrap();
        let process = peer.process.unwrap().unwrap();
        assert_eq!((process.pid, peer.uid), (std::process::id(), rustix::process::getuid().as_raw()));
        assert!(process.check_alive().unwrap());
    }

    /// Finding H2: the process that connected has ended, whoever has its socket now.
    #[test]
    fn peer_that_exited_before_accept_is_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let mut connector = Command::new("python3")
            .arg("-c")
            .arg("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])")
            .arg(&path)
            .spawn()
            .unwrap();
        assert!(connector.wait().unwrap().success());
        let (served, _) = listener.accept().unwrap();
        assert!(SocketPeer::of(&served).unwrap().process.unwrap().is_none());
    }

    /// Finding H2, on kernels without `SO_PEERPIDFD`: a pid that was given out again after the connection is nobody.
    #[test]
    fn process_younger_than_its_connection_is_nobody() {
        let mut child = child();
        let started = os::stat(child.id()).unwrap().start_time;
        assert!(
            connected_by(child.id(), Some(started - 1)).unwrap().is_none(),
            "it started after the accept"
        );
        assert!(connected_by(child.id(), Some(started)).unwrap().is_some(), "in the same tick");
        let now = os::now_as_start_time().unwrap().unwrap();
        assert!(now >= started && now < started + 60 * 100, "one clock: {started} {now}");
        assert!(connected_by(child.id(), Some(now)).unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(connected_by(child.id(), Some(now)).unwrap().is_none());
    }

    #[test]
    fn pinned_process_is_not_alive_once_it_exited() {
        let mut child = child();
        let pinned = PinnedProcess::open(child.id()).unwrap().unwrap();
        let unpinned =
            PinnedProcess { descriptor: None, ..PinnedProcess::open(child.id()).unwrap().unwrap() };
        assert!(pinned.check_alive().unwrap() && unpinned.check_alive().unwrap());
        assert_eq!(pinned.name(), "cat");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!pinned.check_alive().unwrap() && !unpinned.check_alive().unwrap());
    }
}
