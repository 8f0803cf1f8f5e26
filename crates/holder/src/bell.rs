//! The bell: the one thing a holder or runner sleeps on.
//!
//! Signals ring it, and so may other threads of the process. Whoever wakes
//! looks at the world again; a ring carries no news of its own.
//!
//! Invariant: a ring between a look and the next sleep ends that sleep at
//! once, so no news is slept through.
//! Not here: what the news was (`reaper` asks the kernel, pumps set a cell).

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::{flag, low_level::pipe};

pub(crate) struct Bell {
    ears: UnixStream,
    rope: UnixStream,
    told_to_stop: Arc<AtomicBool>,
}

impl Bell {
    /// Takes over SIGCHLD, SIGTERM, SIGINT, SIGHUP and SIGPIPE of this process.
    pub(crate) fn hang() -> io::Result<Self> {
        let (ears, rope) = UnixStream::pair()?;
        ears.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let told_to_stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // The flag before the ring: actions run in this order, and a
            // sleeper that wakes by the ring must find the flag set.
            flag::register(signal, Arc::clone(&told_to_stop))?;
            pipe::register(signal, rope.try_clone()?)?;
        }
        pipe::register(SIGCHLD, rope.try_clone()?)?;
        // A handler that does nothing rather than "ignore": the latter would
        // be inherited by every process we start, a handler is not.
        for signal in [SIGHUP, SIGPIPE] {
            flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(Self { ears, rope, told_to_stop })
    }

    /// Whether SIGTERM or SIGINT has come.
    pub(crate) fn told_to_stop(&self) -> bool {
        self.told_to_stop.load(Ordering::SeqCst)
    }

    pub(crate) fn ringer(&self) -> io::Result<Ringer> {
        Ok(Ringer(self.rope.try_clone()?))
    }

    /// Sleeps until the bell rings or `until` has come; may also wake early.
    pub(crate) fn wait(&self, until: Option<Instant>) -> io::Result<()> {
        let timeout = until
            .map(|until| Timespec::try_from(until.saturating_duration_since(Instant::now())))
            .transpose()
            .map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&self.ears, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.silence()
    }

    fn silence(&self) -> io::Result<()> {
        let mut rings = [0; 256];
        loop {
            match (&self.ears).read(&mut rings) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Rings the bell from another thread.
pub(crate) struct Ringer(UnixStream);

impl Ringer {
    pub(crate) fn ring(&self) {
        // A full bell rings already, and a bell that is gone wakes nobody.
        let _ = (&self.0).write(b"!");
    }
}
