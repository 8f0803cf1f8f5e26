//! The clients of a terminal: connections with bounded queues, and who of the viewers leads.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::visitors::Visitor;
use super::wire::{self, Ask, BadFrame, Frames, Role, Tell};

/// What may wait for one client; at this the program is not read any further, or the client falls behind.
pub(super) const QUEUE_BYTES_MAX: usize = 256 << 10;
/// For the node it is more: the more of a flood it has at once, the less of it has to be drawn.
const NODE_QUEUE_BYTES_MAX: usize = 1 << 20;
/// What is read from one client before the others have their turn.
const READ_BYTES_MAX: usize = 64 << 10;
/// The node sends pictures. Read in small pieces, one would arrive after megabytes of newer output.
const NODE_READ_BYTES_MAX: usize = wire::FRAME_BYTES_MAX;
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

    /// Whether it has connected and not yet said what it wants to be.
    pub(super) fn awaits_hello(&self) -> bool {
        self.role.is_none() && self.asked_to_look.is_none() && !self.is_gone
    }

    /// Reads what the client said, up to a bound. The rest stays in its socket, and the next poll reports it again.
    ///
    /// After an error the client has to be closed: where its next frame begins is not known.
    pub(super) fn read(&mut self, asks: &mut Vec<Ask>) -> Result<(), BadFrame> {
        if self.awaits_hello() {
            asks.extend(self.read_hello()?);
            return Ok(());
        }
        let (mut left, frame_bytes_max) = match self.role {
            Some(Role::Node) => (NODE_READ_BYTES_MAX, wire::FRAME_BYTES_MAX),
            Some(_) => (READ_BYTES_MAX, wire::FRAME_BYTES_MAX),
            // It waits for the node's word, and what it says until then is not heeded.
            None => (READ_BYTES_MAX, READ_BYTES_MAX),
        };
        let mut buffer = [0; 16 << 10];
        while left > 0 {
            let wanted = left.min(buffer.len());
            let read = self.feed_frames(&mut buffer[..wanted]);
            left -= read;
            if read < wanted {
                break;
            }
        }
        while let Some(ask) = self.frames.next_ask_within(frame_bytes_max)? {
            asks.push(ask);
        }
        Ok(())
    }

    /// Reads the first frame and not a byte more: nothing is buffered for a client whose role is not known.
    fn read_hello(&mut self) -> Result<Option<Ask>, BadFrame> {
        let mut buffer = [0; wire::HELLO_BYTES_MAX];
        loop {
            let wanted = self.frames.missing().min(buffer.len());
            let read = self.feed_frames(&mut buffer[..wanted]);
            let hello = self.frames.next_ask_within(wire::HELLO_BYTES_MAX)?;
            if hello.is_some() || read < wanted {
                return Ok(hello);
            }
        }
    }

    /// Reads once; how much came.
    fn feed_frames(&mut self, buffer: &mut [u8]) -> usize {
        loop {
            match (&self.stream).read(buffer) {
                Ok(read) if read > 0 => {
                    self.frames.feed(&buffer[..read]);
                    return read;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return 0,
                Ok(_) | Err(_) => {
                    self.is_gone = true;
                    return 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(role: Option<Role>) -> (Client, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut client = Client::new(ours, Guest::nobody(1)).unwrap();
        client.role = role;
        theirs.set_nonblocking(true).unwrap();
        (client, theirs)
    }

    /// Writes pieces until the socket is full; how many bytes it took.
    fn fill(socket: &UnixStream, piece: &[u8]) -> usize {
        let sent = (0..10_000).map_while(|_| (&*socket).write(piece).ok());
        sent.sum()
    }

    /// Finding H1, review: one read went on for as long as the client kept its socket full. Three clients that did so
    /// made the holder peak at 889 MB.
    #[test]
    fn one_read_takes_a_bounded_share_and_the_next_ones_the_rest() {
        let (mut client, theirs) = client(Some(Role::Reader));
        rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 4 * READ_BYTES_MAX).unwrap();
        let mut frame = Vec::new();
        Ask::Input(vec![b'x'; 4_091]).write(&mut frame);
        let sent = fill(&theirs, &frame);
        assert!(sent > 2 * READ_BYTES_MAX, "the socket takes more than two shares: {sent}");
        let mut asks = Vec::new();
        for round in 1..=sent.div_ceil(READ_BYTES_MAX) {
            client.read(&mut asks).unwrap();
            assert!(asks.len() * frame.len() <= round * READ_BYTES_MAX, "{} frames", asks.len());
        }
        assert_eq!((asks.len(), client.is_gone), (sent / frame.len(), false), "nothing is lost");
    }

    /// Finding H1, review: what a client sent before its hello was buffered, up to the longest frame there is.
    #[test]
    fn first_frame_is_short_and_nothing_after_it_is_buffered() {
        let mut hello = Vec::new();
        Ask::Hello { role: Role::Reader, columns: 80, rows: 24, level: wire::LEVEL }.write(&mut hello);
        let mut asks = Vec::new();

        let (mut polite, theirs) = client(None);
        (&theirs).write_all(&hello[..7]).unwrap();
        polite.read(&mut asks).unwrap();
        assert!(asks.is_empty() && polite.awaits_hello(), "the rest may still come");
        (&theirs).write_all(&[&hello[7..], &[b'?'; 1_000]].concat()).unwrap();
        polite.read(&mut asks).unwrap();
        assert_eq!((asks.len(), polite.frames.buffered()), (1, 0), "the hello, and not a byte more");

        let (mut flooding, theirs) = client(None);
        let head = [b"i".as_slice(), &u32::try_from(wire::FRAME_BYTES_MAX).unwrap().to_le_bytes()].concat();
        (&theirs).write_all(&head).unwrap();
        fill(&theirs, &[b'x'; 4_096]);
        assert!(matches!(flooding.read(&mut asks), Err(BadFrame::TooLong(_))));
        assert!(flooding.frames.buffered() <= wire::HELLO_BYTES_MAX, "{}", flooding.frames.buffered());
    }
}
