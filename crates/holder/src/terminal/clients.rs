//! The clients of a terminal: connections with bounded queues, and who of the viewers leads.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::wire::{Ask, Frames, Role, Tell};

/// What may wait for one client; at this the program is not read any further.
pub(super) const QUEUE_BYTES_MAX: usize = 1 << 20;
/// How long a client may leave its queue full before it is let go.
const STUCK: Duration = Duration::from_secs(2);
/// A client that connects and says nothing is let go after this.
const SILENT: Duration = Duration::from_secs(5);

pub(super) struct Client {
    stream: UnixStream,
    pub(super) role: Option<Role>,
    frames: Frames,
    queue: Vec<u8>,
    /// How much of the queue's front is written.
    sent: usize,
    /// Since when the queue has been full without moving.
    full_since: Option<Instant>,
    since: Instant,
    pub(super) size: (u16, u16),
    pub(super) is_gone: bool,
}

impl Client {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            role: None,
            frames: Frames::default(),
            queue: Vec::new(),
            sent: 0,
            full_since: None,
            since: Instant::now(),
            size: (0, 0),
            is_gone: false,
        })
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn is_viewer(&self) -> bool {
        matches!(self.role, Some(Role::Viewer | Role::Leader | Role::Reader))
    }

    pub(super) fn tell(&mut self, tell: &Tell) {
        if !self.is_gone {
            tell.write(&mut self.queue);
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len() - self.sent
    }

    pub(super) fn is_full(&self) -> bool {
        !self.is_gone && self.waiting() >= QUEUE_BYTES_MAX
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self, now: Instant) {
        while self.sent < self.queue.len() && !self.is_gone {
            match (&self.stream).write(&self.queue[self.sent..]) {
                Ok(0) => self.is_gone = true,
                Ok(written) => {
                    self.sent += written;
                    self.full_since = None;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_gone = true,
            }
        }
        if self.sent == self.queue.len() {
            self.queue.clear();
            self.queue.shrink_to(64 << 10);
            self.sent = 0;
        } else if self.sent > QUEUE_BYTES_MAX / 2 {
            self.queue.drain(..self.sent);
            self.sent = 0;
        }
        if self.is_full() {
            let since = *self.full_since.get_or_insert(now);
            self.is_gone |= now.duration_since(since) > STUCK;
        }
        self.is_gone |= self.role.is_none() && now.duration_since(self.since) > SILENT;
    }

    /// When `flush` should look again though nothing moves.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let silent = self.role.is_none().then(|| self.since + SILENT);
        self.full_since.map(|since| since + STUCK).into_iter().chain(silent).min()
    }

    /// Reads what the client said; a wrong word ends it.
    pub(super) fn read(&mut self) -> Vec<Ask> {
        let mut buffer = [0; 16 << 10];
        let mut asks = Vec::new();
        loop {
            match (&self.stream).read(&mut buffer) {
                Ok(0) => {
                    self.is_gone = true;
                    break;
                }
                Ok(read) => {
                    self.frames.feed(&buffer[..read]);
                    if read < buffer.len() {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.is_gone = true;
                    break;
                }
            }
        }
        loop {
            match self.frames.next_ask() {
                Ok(Some(ask)) => asks.push(ask),
                Ok(None) => return asks,
                Err(_) => {
                    self.is_gone = true;
                    return asks;
                }
            }
        }
    }
}
