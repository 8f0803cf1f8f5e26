//! The desk: one thread that moves bytes between the program and its clients.
//!
//! It sleeps until something moves. Output goes to the tail and to every client; input of the viewer who leads, and
//! of the node, goes to the program in the order it came.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};

use super::clients::Client;
use super::kept::Kept;
use super::wire::{Ask, Rgb, Role, Tell};
use super::{Order, Orders};
use crate::reaper::Death;

/// Input that may wait for a program that does not read.
const INPUT_BYTES_MAX: usize = 64 << 10;
const CLIENTS_MAX: usize = 16;
/// A program that lives no longer than this has ended at once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// After the program's end: how long its children may go on printing.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// After the program's end: how long clients may take to hear of it.
const FAREWELL: Duration = Duration::from_secs(2);
/// Nobody looks: programs cut their footers in windows smaller than this.
const UNSEEN: (u16, u16) = (120, 40);

pub(super) struct Desk {
    master: OwnedFd,
    slave: Option<OwnedFd>,
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
    input: VecDeque<u8>,
    /// Keys of people, while the node has the keyboard.
    held: Vec<u8>,
    keyboard_until: Option<Instant>,
    ended: Option<(Death, Instant)>,
    farewell_said: bool,
    master_closed: bool,
    began: Instant,
    /// A viewer has been here.
    was_viewed: bool,
    /// The program stopped itself.
    sleeps: bool,
}

impl Desk {
    pub(super) fn new(
        master: OwnedFd,
        slave: OwnedFd,
        socket: UnixListener,
        ears: UnixStream,
        orders: Orders,
        size: (u16, u16),
    ) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&master, true)?;
        socket.set_nonblocking(true)?;
        ears.set_nonblocking(true)?;
        Ok(Self {
            master,
            slave: Some(slave),
            socket,
            ears,
            orders,
            clients: Vec::new(),
            size,
            kept: Kept::new(size),
            colours: None,
            state: None,
            input: VecDeque::new(),
            held: Vec::new(),
            keyboard_until: None,
            ended: None,
            farewell_said: false,
            master_closed: false,
            began: Instant::now(),
            was_viewed: false,
            sleeps: false,
        })
    }

    pub(super) fn work(mut self) {
        while !self.is_done() {
            // A failed poll would spin; there is nothing else this thread could do.
            if self.sleep().is_err() {
                std::thread::sleep(Duration::from_millis(50));
            }
            self.take_orders();
            self.accept();
            self.read_clients();
            self.read_master();
            self.write_master();
            self.say_farewell();
            self.let_go();
        }
    }

    fn is_done(&self) -> bool {
        let Some((_, since)) = self.ended else { return false };
        let heard = self.clients.iter().all(|client| client.waiting() == 0);
        // Whoever started a program that ended at once is still on the way to look at it.
        let awaited =
            !self.was_viewed && since.duration_since(self.began) < AT_ONCE && since.elapsed() < AT_ONCE;
        self.farewell_said && !awaited && (heard || since.elapsed() > FAREWELL)
    }

    fn sleep(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let deadlines = self.clients.iter().filter_map(Client::deadline).chain(self.keyboard_until);
        let patience = match (self.farewell_said, self.was_viewed) {
            (false, _) => LAST_WORDS,
            (true, true) => FAREWELL,
            (true, false) => AT_ONCE,
        };
        let farewell = self.ended.map(|(_, since)| since + patience);
        let until = deadlines.chain(farewell).min();
        let timeout = until
            .map(|until| Timespec::try_from(until.saturating_duration_since(now)))
            .transpose()
            .map_err(io::Error::other)?;
        let mut of_master = PollFlags::empty();
        if !self.clients.iter().any(Client::is_full) {
            of_master |= PollFlags::IN;
        }
        if !self.input.is_empty() {
            of_master |= PollFlags::OUT;
        }
        let mut fds = vec![PollFd::new(&self.ears, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        for client in &self.clients {
            let mut wanted = PollFlags::empty();
            if self.input.len() < INPUT_BYTES_MAX {
                wanted |= PollFlags::IN;
            }
            if client.waiting() > 0 {
                wanted |= PollFlags::OUT;
            }
            if !wanted.is_empty() {
                fds.push(PollFd::new(client.stream(), wanted));
            }
        }
        // A closed master is always ready; it is left out once that is known.
        if !self.master_closed && !of_master.is_empty() {
            fds.push(PollFd::new(&self.master, of_master));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn take_orders(&mut self) {
        let mut rings = [0; 64];
        while matches!(rustix::io::read(&self.ears, &mut rings), Ok(read) if read > 0) {}
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Ended(death) => {
                    self.ended = Some((death, Instant::now()));
                    // Without our end the master tells when all that was printed is read.
                    self.slave = None;
                }
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

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.socket.accept() {
            if self.clients.len() < CLIENTS_MAX
                && let Ok(client) = Client::new(stream)
            {
                self.clients.push(client);
            }
        }
    }

    fn read_clients(&mut self) {
        if self.keyboard_until.is_some_and(|until| until <= Instant::now()) {
            self.give_back_keyboard();
        }
        for n in 0..self.clients.len() {
            if self.input.len() >= INPUT_BYTES_MAX {
                return;
            }
            for ask in self.clients[n].read() {
                self.asked(n, ask);
            }
        }
    }

    fn asked(&mut self, n: usize, ask: Ask) {
        let (role, leads) = (self.clients[n].role, self.leader() == Some(n));
        match (ask, role) {
            (Ask::Hello { role, columns, rows }, None) => self.greet(n, role, (columns, rows)),
            // Only after a hello, and only once.
            (_, None) | (Ask::Hello { .. }, Some(_)) => self.clients[n].is_gone = true,
            (Ask::Input(bytes), Some(Role::Node)) => self.input.extend(bytes),
            (Ask::Input(bytes), Some(_)) if leads => self.typed(bytes),
            (Ask::Resize { columns, rows }, Some(_)) => {
                self.clients[n].size = (columns, rows);
                self.fit();
            }
            (Ask::Answer { upto, bytes }, Some(Role::Node)) => {
                self.kept.answered(upto);
                self.input.extend(bytes);
            }
            (Ask::Picture { upto, columns, rows, drawn }, Some(Role::Node)) => {
                self.kept.draw(upto, (columns, rows), drawn);
            }
            (Ask::Keyboard { ms: 0 }, Some(Role::Node)) => self.give_back_keyboard(),
            (Ask::Keyboard { ms }, Some(Role::Node)) => {
                const KEYBOARD_MAX: Duration = Duration::from_secs(10);
                let wished = Duration::from_millis(u64::from(ms)).min(KEYBOARD_MAX);
                self.keyboard_until = Some(Instant::now() + wished);
            }
            (Ask::Continue, Some(_)) if leads => self.wake(),
            (Ask::Repaint, Some(_)) => self.repaint(),
            (Ask::Again, Some(_)) => self.replay(n),
            (Ask::State { state, why }, Some(Role::Node)) => {
                let told = Tell::State { state, why };
                self.tell_role(Role::Recorder, &told);
                self.state = Some(told);
            }
            (Ask::Take, Some(Role::Viewer)) => {
                self.nobody_leads();
                self.clients[n].role = Some(Role::Leader);
                self.tell_who_leads();
                self.fit();
            }
            (Ask::Colours { ink, paper }, Some(_)) if leads => {
                self.colours = Some((ink, paper));
                self.tell_role(Role::Node, &Tell::Colours { ink, paper });
            }
            // What this client may not do is not done.
            _ => {}
        }
    }

    fn greet(&mut self, n: usize, role: Role, size: (u16, u16)) {
        if role == Role::Node {
            // One node at a time: the one before is dead, or should be.
            for client in self.clients.iter_mut().filter(|client| client.role == Some(Role::Node)) {
                client.is_gone = true;
            }
        }
        if role == Role::Leader {
            self.nobody_leads();
        }
        let client = &mut self.clients[n];
        (client.role, client.size) = (Some(role), size);
        if role == Role::Node
            && let Some((ink, paper)) = self.colours
        {
            client.tell(&Tell::Colours { ink, paper });
        }
        self.replay(n);
        if role == Role::Recorder
            && let Some(state) = &self.state
        {
            self.clients[n].tell(state);
        }
        self.was_viewed |= role != Role::Node;
        if let Some((death, _)) = self.ended.filter(|_| self.farewell_said) {
            self.clients[n].tell(&ended(death));
        }
        self.tell_who_leads();
        self.fit();
        // Whoever comes to a program that was left stopped wants it to go on.
        if self.leader() == Some(n) {
            self.wake();
        }
    }

    /// Whoever took over before leads again only when the next one has left.
    fn nobody_leads(&mut self) {
        for client in self.clients.iter_mut().filter(|client| client.role == Some(Role::Leader)) {
            client.role = Some(Role::Viewer);
        }
    }

    fn replay(&mut self, n: usize) {
        let tells = self.kept.replay(self.size);
        tells.iter().for_each(|tell| self.clients[n].tell(tell));
    }

    fn tell_role(&mut self, role: Role, tell: &Tell) {
        for client in self.clients.iter_mut().filter(|client| client.role == Some(role)) {
            client.tell(tell);
        }
    }

    /// The viewer whose keys and size count: one who asked to lead, else the first that may type.
    fn leader(&self) -> Option<usize> {
        let find = |role| self.clients.iter().position(|c| c.role == Some(role) && !c.is_gone);
        find(Role::Leader).or_else(|| find(Role::Viewer))
    }

    fn tell_who_leads(&mut self) {
        let leader = self.leader();
        for (n, client) in self.clients.iter_mut().enumerate().filter(|(_, client)| client.is_viewer()) {
            client.tell(&Tell::Leads(leader == Some(n)));
        }
    }

    /// The window is as large as that of the viewer who leads; unseen, it is not small.
    fn fit(&mut self) {
        let seen = self.leader().map(|n| self.clients[n].size);
        let (columns, rows) = seen.unwrap_or((self.size.0.max(UNSEEN.0), self.size.1.max(UNSEEN.1)));
        let wished = within(columns, rows);
        if wished != self.size {
            self.size = wished;
            self.kept.resized(wished);
            self.set_window(wished);
            let (columns, rows) = wished;
            for client in self.clients.iter_mut().filter(|client| client.role.is_some()) {
                client.tell(&Tell::Resized { columns, rows });
            }
        }
    }

    fn set_window(&self, (columns, rows): (u16, u16)) {
        let _ =
            tcsetwinsize(&self.master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
    }

    /// A changed size makes every full-screen program draw anew.
    fn repaint(&mut self) {
        let (columns, rows) = self.size;
        self.set_window((columns, rows.saturating_sub(1).max(1)));
        self.set_window((columns, rows));
        self.signal(Signal::WINCH);
    }

    fn typed(&mut self, bytes: Vec<u8>) {
        if self.keyboard_until.is_some() {
            let room = INPUT_BYTES_MAX.saturating_sub(self.held.len());
            self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        let typed = Tell::Typed(bytes);
        self.tell_role(Role::Node, &typed);
        self.tell_role(Role::Recorder, &typed);
        if let Tell::Typed(bytes) = typed {
            self.input.extend(bytes);
        }
    }

    fn give_back_keyboard(&mut self) {
        self.keyboard_until = None;
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.typed(held);
        }
    }

    /// A program that stopped itself goes on.
    fn wake(&mut self) {
        if std::mem::take(&mut self.sleeps) {
            self.signal(Signal::CONT);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Ok(group) = tcgetpgrp(&self.master) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn read_master(&mut self) {
        let mut buffer = [0; 32 << 10];
        // A few times at once, so that a flood costs fewer wake-ups; then the clients have their turn.
        for _ in 0..8 {
            if self.master_closed || self.clients.iter().any(Client::is_full) {
                return;
            }
            match rustix::io::read(self.master.as_fd(), &mut buffer) {
                Ok(read) if read > 0 => self.print(&buffer[..read]),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // All ends of the program's side are closed.
                Ok(_) | Err(_) => self.master_closed = true,
            }
        }
    }

    fn print(&mut self, bytes: &[u8]) {
        self.kept.print(bytes);
        let output = Tell::Output(bytes.to_vec());
        for client in self.clients.iter_mut().filter(|client| client.role.is_some()) {
            client.tell(&output);
        }
    }

    /// Once all it printed is read; what it left behind may hold its end of the terminal open for longer.
    fn say_farewell(&mut self) {
        let Some((death, since)) = self.ended else { return };
        if self.farewell_said || !(self.master_closed || since.elapsed() >= LAST_WORDS) {
            return;
        }
        self.farewell_said = true;
        for client in self.clients.iter_mut().filter(|client| client.role.is_some()) {
            client.tell(&ended(death));
        }
    }

    fn write_master(&mut self) {
        while !self.input.is_empty() && !self.master_closed {
            let (front, _) = self.input.as_slices();
            match rustix::io::write(self.master.as_fd(), front) {
                Ok(written) => drop(self.input.drain(..written)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.input.clear(),
            }
        }
    }

    fn let_go(&mut self) {
        let now = Instant::now();
        self.clients.iter_mut().for_each(|client| client.flush(now));
        let viewers = self.clients.iter().filter(|client| client.is_viewer()).count();
        self.clients.retain(|client| !client.is_gone);
        if self.clients.iter().filter(|client| client.is_viewer()).count() != viewers {
            self.tell_who_leads();
            self.fit();
        }
    }
}

/// A window that a model of it can have too: 10,000 columns are fine, 10,000 rows of them are not.
pub(super) fn within(columns: u16, rows: u16) -> (u16, u16) {
    const SIDE_MAX: u16 = 10_000;
    const CELLS_MAX: u32 = 1_000_000;
    let columns = columns.clamp(1, SIDE_MAX);
    let rows_max = u16::try_from(CELLS_MAX / u32::from(columns)).unwrap_or(SIDE_MAX).min(SIDE_MAX);
    (columns, rows.clamp(1, rows_max))
}

fn ended(death: Death) -> Tell {
    let (code, signaled) = match death {
        Death::Exited(code) => (code, false),
        Death::Signaled(number) => (number, true),
    };
    Tell::Ended { code, signaled }
}
