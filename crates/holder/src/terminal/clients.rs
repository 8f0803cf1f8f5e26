//! The clients of a terminal: connections with bounded queues, and who of the viewers leads.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::visitors::Visitor;
use super::wire::{self, Ask, Frames, Role, Tell};

/// What may wait for one client; at this the program is not read any further, or the client falls behind.
pub(super) const QUEUE_BYTES_MAX: usize = 256 << 10;
/// For the node it is more: the more of a flood it has at once, the less of it has to be drawn.
const NODE_QUEUE_BYTES_MAX: usize = 1 << 20;
/// How long a client may leave its queue full before it is let go.
const STUCK: Duration = Duration::from_secs(2);
/// A client that connects and says nothing is let go after this.
const SILENT: Duration = Duration::from_secs(5);

/// The process behind a connection, as it was when it connected.
#[derive(Debug, Clone)]
pub(super) struct Guest {
    /// Of this connection.
    pub(super) number: u64,
    pub(super) who: Visitor,
    pub(super) pid: u32,
    pub(super) start_time: u64,
    /// What it calls itself.
    pub(super) program: String,
}

impl Guest {
    pub(super) fn nobody(number: u64) -> Self {
        Self { number, who: Visitor::Nobody, pid: 0, start_time: 0, program: String::new() }
    }
}

pub(super) struct Client {
    stream: UnixStream,
    pub(super) guest: Guest,
    pub(super) role: Option<Role>,
    /// Which frames it understands.
    pub(super) level: u8,
    /// A process under an agent waits for the node to let it look, in a window of this size.
    pub(super) asked_to_look: Option<(u16, u16)>,
    /// When it last typed.
    pub(super) typed_at: Option<Instant>,
    frames: Frames,
    queue: Vec<u8>,
    /// How much of the queue's front is written.
    sent: usize,
    /// Since when the queue has been full without moving.
    full_since: Option<Instant>,
    since: Instant,
    /// When it last took something.
    moved: Instant,
    pub(super) size: (u16, u16),
    /// How many bytes of input came from it.
    pub(super) typed: u64,
    /// Something came from it, as far as is known.
    pub(super) is_ready: bool,
    /// It is sent a replay once its queue is empty: it asked for one, or output was not queued for it.
    pub(super) is_behind: bool,
    pub(super) is_gone: bool,
}

impl Client {
    pub(super) fn new(stream: UnixStream, guest: Guest) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let now = Instant::now();
        Ok(Self {
            stream,
            guest,
            role: None,
            level: 0,
            asked_to_look: None,
            typed_at: None,
            frames: Frames::default(),
            queue: Vec::new(),
            sent: 0,
            full_since: None,
            since: now,
            moved: now,
            size: (0, 0),
            typed: 0,
            is_ready: true,
            is_behind: false,
            is_gone: false,
        })
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether no agent started it.
    pub(super) fn is_users(&self) -> bool {
        self.guest.who == Visitor::User
    }

    pub(super) fn is_viewer(&self) -> bool {
        matches!(self.role, Some(Role::Viewer | Role::Leader | Role::Reader))
    }

    pub(super) fn tell(&mut self, tell: &Tell) {
        if !self.is_gone {
            self.begin_to_wait();
            tell.write(&mut self.queue);
        }
    }

    /// Output in one or two pieces.
    pub(super) fn show(&mut self, pieces: &[&[u8]]) {
        if !self.is_gone {
            self.begin_to_wait();
            wire::output(&mut self.queue, pieces);
        }
    }

    /// From now on it can be late.
    fn begin_to_wait(&mut self) {
        if self.waiting() == 0 {
            self.moved = Instant::now();
        }
    }

    /// How long it has not taken what waits for it.
    pub(super) fn resting(&self) -> Duration {
        if self.waiting() == 0 { Duration::ZERO } else { self.moved.elapsed() }
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len() - self.sent
    }

    pub(super) fn is_full(&self) -> bool {
        let max = if self.role == Some(Role::Node) { NODE_QUEUE_BYTES_MAX } else { QUEUE_BYTES_MAX };
        !self.is_gone && self.waiting() >= max
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self, now: Instant) {
        while self.sent < self.queue.len() && !self.is_gone {
            match (&self.stream).write(&self.queue[self.sent..]) {
                Ok(0) => self.is_gone = true,
                Ok(written) => {
                    self.sent += written;
                    self.full_since = None;
                    self.moved = now;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_gone = true,
            }
        }
        if self.sent == self.queue.len() {
            self.queue.clear();
            // A picture was in it; what output needs is kept, or a flood would make room again and again.
            self.queue.shrink_to(QUEUE_BYTES_MAX);
            self.sent = 0;
        } else if self.sent > QUEUE_BYTES_MAX / 2 && self.sent * 2 > self.queue.len() {
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
