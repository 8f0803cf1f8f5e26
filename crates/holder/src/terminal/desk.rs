//! The desk: one thread that moves bytes between the program and its clients.
//!
//! It sleeps until something moves. Output goes to the tail and to every client; input of the viewer who leads, and
//! of the node, goes to the program in the order it came.
//!
//! The node, recorders and the viewer who leads set the pace, as any terminal does: while one of them has much to read, the
//! program waits, unless they do not read at all. Other viewers may fall behind; they are then shown everything anew.

mod admission;
mod asks;
mod input;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::clients::Client;
use super::gather::{Gather, Left};
use super::kept::Kept;
pub(super) use asks::within;
use input::Input;

use super::rate_limit::ConnectionRates;
use super::visitors::{Doorkeeper, Untold};
use super::wire::{Composer, Rgb, Role, Tell};
use super::{Order, Orders};
use crate::process::ProcessMark;
use crate::reaper::Death;

/// Keys that may wait for a program that does not read; more are not taken from those who press them.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// The window gets another size at most this often.
const FIT_PAUSE: Duration = Duration::from_millis(50);
/// So long the window is narrower to have all drawn again: until a busy program has looked.
const NARROW: Duration = Duration::from_millis(250);
const CLIENTS_MAX: usize = 16;
/// A program that lives no longer than this has ended at once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// After the program's end: how long its children may go on printing.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// The same while what it printed itself may not all be read.
const LAST_WORDS_MAX: Duration = Duration::from_secs(10);
/// After the program's end: how long clients may rest before they have heard of it.
const FAREWELL: Duration = Duration::from_secs(2);
/// And how long they may take in all.
const FAREWELL_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether a closed terminal was opened again; one that was closed for less is not told.
const REOPENED: Duration = Duration::from_secs(1);
/// Nobody looks: programs cut their footers in windows smaller than this.
const UNSEEN: (u16, u16) = (120, 40);

/// How the program came to its end.
#[derive(Debug, Clone)]
enum End {
    /// By itself.
    Program(Death),
    /// With its agent, which was stopped for this reason; none if somebody asked for it.
    Stopped(String),
}

pub(super) struct Desk {
    master: OwnedFd,
    socket: UnixListener,
    ears: UnixStream,
    orders: Orders,
    clients: Vec<Client>,
    size: (u16, u16),
    kept: Kept,
    /// Of the terminal of the person who leads, or who led last.
    colours: Option<(Rgb, Rgb)>,
    /// What the node said last of what the program does.
    state: Option<Tell>,
    /// What the node said last of the place where the person writes.
    composer: Composer,
    /// How many typed bytes this node was told of.
    typed_told: u64,
    input: Input,
    /// When the window last got its size, and when it gets the newest that came since.
    fitted_at: Instant,
    fit_at: Option<Instant>,
    /// The window is a column narrower than it should be until then (`repaint`).
    narrow_until: Option<Instant>,
    /// Keys of people, while the node has the keyboard.
    held: Vec<u8>,
    keyboard_until: Option<Instant>,
    ended: Option<(End, Instant)>,
    /// All that was printed before the end is read.
    emptied: bool,
    farewell_said: bool,
    /// Since when no process has the program's side of the terminal open.
    closed_since: Option<Instant>,
    /// The node knows that it is closed.
    closed_told: bool,
    /// Output that is read and not yet told.
    gather: Gather,
    began: Instant,
    /// A viewer has been here.
    was_viewed: bool,
    /// The program stopped itself.
    sleeps: bool,
    doorkeeper: Doorkeeper,
    /// The process that the holder started as its node.
    node: Option<ProcessMark>,
    /// How many have connected.
    visits: u64,
    connection_rates: ConnectionRates,
    untold: Untold,
}

impl Desk {
    pub(super) fn new(
        master: OwnedFd,
        socket: UnixListener,
        ears: UnixStream,
        orders: Orders,
        size: (u16, u16),
        doorkeeper: Doorkeeper,
    ) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&master, true)?;
        socket.set_nonblocking(true)?;
        ears.set_nonblocking(true)?;
        Ok(Self {
            master,
            socket,
            ears,
            orders,
            clients: Vec::new(),
            size,
            kept: Kept::new(size),
            colours: None,
            state: None,
            composer: Composer::default(),
            typed_told: 0,
            input: Input::default(),
            fitted_at: Instant::now(),
            fit_at: None,
            narrow_until: None,
            held: Vec::new(),
            keyboard_until: None,
            ended: None,
            emptied: false,
            farewell_said: false,
            closed_since: None,
            closed_told: false,
            gather: Gather::new(),
            began: Instant::now(),
            was_viewed: false,
            sleeps: false,
            doorkeeper,
            node: None,
            visits: 0,
            connection_rates: ConnectionRates::default(),
            untold: Untold::new(),
        })
    }

    pub(super) fn work(mut self) {
        while !self.is_done() {
            self.serve_round();
        }
    }

    /// Waits until something moves, and serves everybody once. Each has a bounded share of a round.
    fn serve_round(&mut self) {
        let ready = self.sleep().unwrap_or_else(|_| {
            // A failed poll would spin; there is nothing else this thread could do.
            std::thread::sleep(Duration::from_millis(50));
            Ready::default()
        });
        if ready.master || self.ended.is_some() || self.closed_since.is_some() {
            self.read_master();
        }
        if !ready.others && self.gather.until().is_some_and(|until| until > Instant::now()) {
            return;
        }
        // Whatever else happens, it happens after what was printed before.
        self.print();
        self.take_orders();
        self.accept();
        self.read_clients();
        self.fit_if_due();
        self.write_master();
        self.say_farewell();
        self.let_go();
    }

    fn is_done(&self) -> bool {
        let Some((end, since)) = &self.ended else { return false };
        let heard = self.clients.iter().all(|client| client.waiting() == 0 || client.resting() > FAREWELL);
        // The command that stopped the agent waits for the holder.
        if matches!(end, End::Stopped(_)) {
            return self.farewell_said && heard || since.elapsed() > FAREWELL;
        }
        // Whoever started a program that ended at once is still on the way to look at it.
        let awaited =
            !self.was_viewed && since.duration_since(self.began) < AT_ONCE && since.elapsed() < AT_ONCE;
        self.farewell_said && !awaited && (heard || since.elapsed() > FAREWELL_MAX)
    }

    /// When to look again though nothing moves.
    fn wake_at(&self, now: Instant) -> Option<Instant> {
        let deadlines = self.clients.iter().filter_map(Client::deadline).chain(self.keyboard_until);
        let farewell = self.ended.as_ref().map(|(_, since)| {
            let due = *since + if self.farewell_said && !self.was_viewed { AT_ONCE } else { LAST_WORDS };
            // Somebody still reads, or what was printed does: now and then is enough.
            if due > now { due } else { now + LAST_WORDS }
        });
        let reopened = self.closed_since.filter(|_| self.ended.is_none()).map(|_| now + REOPENED);
        let sizes = self.fit_at.into_iter().chain(self.narrow_until);
        deadlines.chain(farewell).chain(reopened).chain(self.gather.until()).chain(sizes).min()
    }

    fn sleep(&mut self) -> io::Result<Ready> {
        let now = Instant::now();
        let timeout = self
            .wake_at(now)
            .map(|until| Timespec::try_from(until.saturating_duration_since(now)))
            .transpose()
            .map_err(io::Error::other)?;
        let mut of_master = PollFlags::empty();
        if !self.is_blocked() && !self.farewell_said {
            of_master |= PollFlags::IN;
        }
        if !self.input.is_empty() {
            of_master |= PollFlags::OUT;
        }
        let mut fds = vec![PollFd::new(&self.ears, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        let mut polled = Vec::with_capacity(self.clients.len());
        for (n, client) in self.clients.iter().enumerate() {
            let mut wanted = PollFlags::empty();
            if self.may_ask(client) {
                wanted |= PollFlags::IN;
            }
            if client.waiting() > 0 {
                wanted |= PollFlags::OUT;
            }
            if !wanted.is_empty() {
                fds.push(PollFd::new(client.stream(), wanted));
                polled.push(n);
            }
        }
        // A closed master is always ready; it is left out once that is known.
        if self.closed_since.is_none() && !of_master.is_empty() {
            fds.push(PollFd::new(&self.master, of_master));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(e) => return Err(e.into()),
        }
        let moved: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        let (others, master) = moved.split_at(2 + polled.len());
        for (n, moved) in polled.into_iter().zip(&others[2..]) {
            self.clients[n].is_ready |= !(*moved - PollFlags::OUT).is_empty();
        }
        Ok(Ready {
            master: master.iter().any(|moved| !(*moved - PollFlags::OUT).is_empty()),
            others: others.iter().chain(master).any(|moved| !(*moved - PollFlags::IN).is_empty())
                || others.iter().any(|moved| !moved.is_empty()),
        })
    }

    /// Somebody who sets the pace has enough to read.
    fn is_blocked(&self) -> bool {
        let leader = self.leader();
        let paces = |(n, client): (usize, &Client)| {
            matches!(client.role, Some(Role::Node | Role::Recorder)) || leader == Some(n)
        };
        self.clients.iter().enumerate().any(|(n, client)| client.is_full() && paces((n, client)))
    }

    fn take_orders(&mut self) {
        let mut rings = [0; 64];
        while matches!(rustix::io::read(&self.ears, &mut rings), Ok(read) if read > 0) {}
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Ended(death) => self.ended = Some((End::Program(death), Instant::now())),
                Order::Stopped(why) => self.ended = Some((End::Stopped(why), Instant::now())),
                Order::Node(node) => self.node = node,
                // The person whose program it is gets the shell back; the others look on.
                Order::Suspended => {
                    self.sleeps = true;
                    if let Some(leader) = self.leader() {
                        self.clients[leader].tell(&Tell::Suspended);
                    }
                }
            }
        }
    }

    fn read_clients(&mut self) {
        if self.keyboard_until.is_some_and(|until| until <= Instant::now()) {
            self.give_back_keyboard();
        }
        for n in 0..self.clients.len() {
            if self.may_ask(&self.clients[n]) && std::mem::take(&mut self.clients[n].is_ready) {
                self.read_client(n);
            }
        }
    }

    fn read_client(&mut self, n: usize) {
        let awaited_hello = self.clients[n].awaits_hello();
        let mut asks = Vec::new();
        let read = self.clients[n].read(&mut asks);
        asks.into_iter().for_each(|ask| self.asked(n, ask));
        if read.is_err() {
            self.close_for_bad_frame(n);
        }
        // In the same round: a client may send keys with its hello and leave before the next one.
        if awaited_hello && !self.clients[n].awaits_hello() && !self.clients[n].is_gone {
            self.read_client(n);
        }
    }

    /// Whoever types waits while the program does not read. The node is always heard: it tells others what there is
    /// to see, and would not read if nobody read what it says.
    fn may_ask(&self, client: &Client) -> bool {
        client.role == Some(Role::Node) || self.input.waiting() < INPUT_BYTES_MAX
    }

    fn read_master(&mut self) {
        if self.farewell_said || self.is_blocked() {
            return;
        }
        let left = self.gather.read(&self.master);
        self.emptied |= left == Left::Nothing && self.ended.is_some();
        self.closed_since = (left == Left::Closed).then(|| self.closed_since.unwrap_or_else(Instant::now));
        let closed = self.closed_since.is_some_and(|since| since.elapsed() >= REOPENED);
        if closed != self.closed_told && self.ended.is_none() {
            self.closed_told = closed;
            self.tell_role(Role::Node, &Tell::Closed(closed));
        }
    }

    fn print(&mut self) {
        let leader = self.leader();
        let bytes = self.gather.take();
        if bytes.is_empty() {
            return;
        }
        self.kept.print(bytes);
        for (n, client) in self.clients.iter_mut().enumerate().filter(|(_, client)| client.role.is_some()) {
            client.is_behind |= client.is_full() && client.is_viewer() && leader != Some(n);
            if !client.is_behind {
                client.show(&[bytes]);
            }
        }
    }

    /// Once all it printed is read; what it left behind may hold its end of the terminal open for longer.
    fn say_farewell(&mut self) {
        let Some((end, since)) = self.ended.clone() else { return };
        let patience = if self.emptied { LAST_WORDS } else { LAST_WORDS_MAX };
        if self.farewell_said || !(self.closed_since.is_some() || since.elapsed() >= patience) {
            return;
        }
        self.farewell_said = true;
        for n in 0..self.clients.len() {
            if self.clients[n].is_behind {
                self.replay(n);
            }
        }
        for client in self.clients.iter_mut().filter(|client| client.role.is_some()) {
            end.tell(client);
        }
    }

    fn write_master(&mut self) {
        while !self.input.is_empty() && self.closed_since.is_none() {
            match rustix::io::write(self.master.as_fd(), self.input.next()) {
                Ok(written) => self.input.written(written),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.input.clear(),
            }
        }
    }

    fn let_go(&mut self) {
        let now = Instant::now();
        self.clients.iter_mut().for_each(|client| client.flush(now));
        for n in 0..self.clients.len() {
            if self.clients[n].is_behind && self.clients[n].waiting() == 0 {
                self.replay(n);
            }
        }
        let viewers = self.clients.iter().filter(|client| client.is_viewer()).count();
        self.clients.retain(|client| !client.is_gone);
        if self.clients.iter().filter(|client| client.is_viewer()).count() != viewers {
            self.tell_who_leads();
            self.fit();
        }
        // What nobody looks at is not known.
        if self.composer != Composer::Other && !self.clients.iter().any(|c| c.role == Some(Role::Node)) {
            self.composer = Composer::Other;
            self.tell_composer();
        }
    }
}

/// What `sleep` was woken by.
#[derive(Default)]
struct Ready {
    /// The program printed, or closed its end.
    master: bool,
    /// Anything else.
    others: bool,
}

impl End {
    /// The last word to a client. A node is stopped before its program; a recording of it just ends.
    fn tell(&self, client: &mut Client) {
        const TERMINATED: i32 = 15;
        let (code, signaled) = match self {
            Self::Stopped(why) if client.is_viewer() && client.level >= 2 => {
                return client.tell(&Tell::Stopped(why.clone()));
            }
            Self::Stopped(_) if !client.is_viewer() => return,
            Self::Stopped(_) => (TERMINATED, true),
            Self::Program(Death::Exited(code)) => (*code, false),
            Self::Program(Death::Signaled(number)) => (*number, true),
        };
        client.tell(&Tell::Ended { code, signaled });
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::Guest;
    use super::super::wire::{Frames, receive};
    use super::*;

    /// A viewer of an older version ends as if its program was terminated.
    #[test]
    fn viewers_hear_that_the_agent_was_stopped_as_far_as_they_know_it() {
        let terminated = Tell::Ended { code: 15, signaled: true };
        for (role, level, expected) in [
            (Role::Viewer, 2, Some(Tell::Stopped("why".into()))),
            (Role::Reader, 2, Some(Tell::Stopped("why".into()))),
            (Role::Leader, 1, Some(terminated.clone())),
            (Role::Viewer, 0, Some(terminated)),
            (Role::Recorder, 2, None),
            (Role::Node, 2, None),
        ] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut client = Client::new(ours, Guest::nobody(1)).unwrap();
            (client.role, client.level) = (Some(role), level);
            End::Stopped("why".into()).tell(&mut client);
            client.flush(Instant::now());
            drop(client);
            let told = receive(&mut theirs, &mut Frames::default()).unwrap();
            assert_eq!(told, expected, "{role:?} {level}");
        }
    }
}
