//! Reads what a program prints, and gathers a flood into larger pieces.
//!
//! The kernel hands out 4 KiB at a time. Passing on each of them alone would wake every client for it, which costs
//! more than all else; so while much comes at once, a piece waits a moment for the next. What comes alone, as the echo
//! of a key does, never waits.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Pieces of a flood are about this large.
const GATHER_BYTES: usize = 64 << 10;
/// What comes in a piece as large as this may be a flood.
const FLOOD_BYTES: usize = 4_000;
/// How long a piece may wait for the next.
const GATHER: Duration = Duration::from_micros(300);

pub(super) struct Gather {
    buffer: Box<[u8]>,
    filled: usize,
    until: Option<Instant>,
}

/// What is left in the terminal after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// Perhaps more.
    Some,
    /// All ends of the program's side are closed.
    Closed,
}

impl Gather {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; 2 * GATHER_BYTES].into_boxed_slice(), filled: 0, until: None }
    }

    /// Reads what there is, up to a bound.
    pub(super) fn read(&mut self, master: &OwnedFd) -> Left {
        let before = self.filled;
        let left = loop {
            if self.filled >= GATHER_BYTES {
                break Left::Some;
            }
            match rustix::io::read(master.as_fd(), &mut self.buffer[self.filled..]) {
                Ok(read) if read > 0 => self.filled += read,
                Err(Errno::AGAIN) => break Left::Nothing,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => break Left::Closed,
            }
        };
        let goes_on = left == Left::Nothing && self.filled - before >= FLOOD_BYTES;
        self.until = goes_on.then(|| Instant::now() + GATHER);
        left
    }

    /// Until when what was read should wait for more.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Everything that was read.
    pub(super) fn take(&mut self) -> &[u8] {
        self.until = None;
        &self.buffer[..std::mem::take(&mut self.filled)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

    #[test]
    fn a_flood_waits_for_more_and_a_key_does_not() {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (from, to) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        sockopt::set_socket_send_buffer_size(&to, 4 * GATHER_BYTES).unwrap();
        let mut gather = Gather::new();
        assert_eq!((gather.read(&from), gather.until(), gather.take()), (Left::Nothing, None, &b""[..]));
        rustix::io::write(&to, b"x").unwrap();
        assert_eq!((gather.read(&from), gather.until()), (Left::Nothing, None));
        assert_eq!(gather.take(), b"x");
        rustix::io::write(&to, &[b'a'; FLOOD_BYTES]).unwrap();
        assert_eq!(gather.read(&from), Left::Nothing);
        assert!(gather.until().is_some());
        rustix::io::write(&to, b"end").unwrap();
        assert_eq!((gather.read(&from), gather.until()), (Left::Nothing, None), "the flood is over");
        assert!(gather.take().ends_with(b"aend"));
        rustix::io::write(&to, &vec![b'b'; 3 * GATHER_BYTES / 2]).unwrap();
        assert_eq!(gather.read(&from), Left::Some);
        assert_eq!(gather.until(), None, "enough is not held back");
        drop(to);
        assert_eq!(gather.read(&from), Left::Some);
        assert_eq!(gather.take().len(), 3 * GATHER_BYTES / 2);
        assert_eq!(gather.read(&from), Left::Closed);
    }
}
