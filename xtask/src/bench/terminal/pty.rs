//! The person's terminal: a PTY that runs the measured program, and reads all its output.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};

use super::output::MARK;

/// Longer than any silence of a working program here.
const SILENCE_MAX: Duration = Duration::from_secs(60);

pub(in crate::bench) struct Pty {
    master: File,
    child: Child,
    /// What arrived after the last marker.
    rest: Vec<u8>,
    buffer: Box<[u8; 64 << 10]>,
}

/// The output up to a marker.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) bytes: u64,
    /// A checksum without carriage returns, because a terminal adds those before line ends.
    pub(super) sum: u64,
}

impl Came {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let mut returns = 0_u64;
        let mut sum = 0_u64;
        for byte in bytes {
            returns += u64::from(*byte == b'\r');
            sum += u64::from(*byte);
        }
        self.bytes += bytes.len() as u64 - returns;
        self.sum += sum - returns * u64::from(b'\r');
    }
}

impl Pty {
    /// Starts the program as a shell would, in a session with this as its terminal.
    pub(in crate::bench) fn start(program: &Command, columns: u16, rows: u16) -> anyhow::Result<Self> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let ends = openpty(Some(&size), None).context("opening a terminal")?;
        fcntl(&ends.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        fcntl(&ends.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = program.get_current_dir() {
            command.current_dir(folder);
        }
        let end = || ends.slave.try_clone().map(Stdio::from);
        let child = command.stdin(end()?).stdout(end()?).stderr(end()?).spawn().context("starting it")?;
        Ok(Self { master: File::from(ends.master), child, rest: Vec::new(), buffer: Box::new([0; 64 << 10]) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn keys(&mut self, keys: &[u8]) -> anyhow::Result<()> {
        // A few bytes always fit into the buffer.
        self.master.write_all(keys).context("typing")
    }

    /// Waits for output and returns it, at least one byte.
    pub(super) fn read(&mut self) -> anyhow::Result<&[u8]> {
        loop {
            match self.master.read(&mut self.buffer[..]) {
                Ok(0) => bail!("the program closed its terminal"),
                Ok(read) => return Ok(&self.buffer[..read]),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => self.wait()?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e).context("reading what the program shows"),
            }
        }
    }

    fn wait(&self) -> anyhow::Result<()> {
        let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(SILENCE_MAX).context("a time to wait")?;
        if poll(&mut fds, patience)? == 0 {
            bail!("nothing was shown for {} s", SILENCE_MAX.as_secs());
        }
        Ok(())
    }

    /// Reads until `mark` was shown, and returns the output before it.
    pub(super) fn read_until(&mut self, mark: &str) -> anyhow::Result<Came> {
        let mark = mark.as_bytes();
        debug_assert_eq!(mark.first(), Some(&MARK));
        let (mut came, mut seen) = (Came::default(), std::mem::take(&mut self.rest));
        loop {
            // A marker may arrive in pieces, so keep everything from its first byte on.
            if let Some(at) = seen.iter().position(|byte| *byte == MARK) {
                if let Some(end) = seen.windows(mark.len()).position(|part| part == mark) {
                    came.add(&seen[..end]);
                    self.rest = seen.split_off(end + mark.len());
                    return Ok(came);
                }
                // After a false start, only the end can still become the marker.
                let keep = seen.len().saturating_sub(mark.len()).max(at);
                came.add(&seen[..keep]);
                seen.drain(..keep);
            } else {
                came.add(&seen);
                seen.clear();
            }
            let shown = self.read().with_context(|| {
                format!(
                    "waiting for {:?}; last seen: {:?}",
                    String::from_utf8_lossy(mark),
                    String::from_utf8_lossy(&seen)
                )
            })?;
            seen.extend_from_slice(shown);
        }
    }

    /// Reads and discards output for this long.
    pub(in crate::bench) fn drain(&mut self, span: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        while began.elapsed() < span {
            match self.master.read(&mut self.buffer[..]) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        Ok(())
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_counted_up_to_the_mark() {
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'ab\\n~c~END'; read word; printf \"$word~END\"; read end"]);
        let mut pty = Pty::start(&command, 80, 24).unwrap();
        let mut expected = Came::default();
        expected.add(b"ab\r\n~c");
        assert_eq!(pty.read_until("~END").unwrap(), expected);
        assert_eq!(expected.bytes, 5);
        pty.keys(b"xyz\n").unwrap();
        // Echoed by the terminal, then by the program.
        assert_eq!(pty.read_until("~END").unwrap().bytes, 7);
    }
}
