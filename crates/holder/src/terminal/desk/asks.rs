//! What clients ask of the desk: who they are, keys, sizes, pictures; and who of the viewers leads.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};

use super::super::wire::{Ask, Composer, Role, Tell};
use super::{Desk, INPUT_BYTES_MAX, UNSEEN, ended};

impl Desk {
    pub(super) fn asked(&mut self, n: usize, ask: Ask) {
        let (role, leads) = (self.clients[n].role, self.leader() == Some(n));
        match (ask, role) {
            (Ask::Hello { role, columns, rows }, None) => self.greet(n, role, (columns, rows)),
            // Only after a hello, and only once.
            (_, None) | (Ask::Hello { .. }, Some(_)) => self.clients[n].is_gone = true,
            (Ask::Input(bytes), Some(Role::Node)) => {
                self.tell_role(Role::Recorder, &Tell::Typed(bytes.clone()));
                self.input.extend(bytes);
            }
            (Ask::Input(bytes), Some(_)) => {
                self.clients[n].typed += bytes.len() as u64;
                if leads {
                    self.typed(bytes);
                }
            }
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
                self.tell_role(Role::Node, &Tell::Keyboard(true));
            }
            (Ask::Continue, Some(_)) if leads => self.wake(),
            (Ask::Repaint, Some(_)) => self.repaint(),
            (Ask::Again, Some(_)) => self.replay(n),
            (Ask::State { state, why }, Some(Role::Node)) => {
                let told = Tell::State { state, why };
                self.tell_role(Role::Recorder, &told);
                self.state = Some(told);
            }
            (Ask::Composer { composer, typed }, Some(Role::Node)) => {
                // What it saw before it knew of the last keys it will say again.
                let is_stale = typed.is_some_and(|typed| typed != self.typed_told);
                if composer != Composer::Empty || !is_stale {
                    self.composer = composer;
                    self.tell_composer();
                }
            }
            (Ask::Notice(words), Some(Role::Node)) => {
                if let Some(leader) = self.leader() {
                    self.clients[leader].tell(&Tell::Notice(words));
                }
            }
            (Ask::Yield, Some(_)) if leads => self.tell_role(Role::Node, &Tell::Yield),
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
            (self.composer, self.typed_told) = (Composer::Other, 0);
            self.tell_composer();
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
        // Before there is anything to see, so that the first key finds it known.
        if self.leader() == Some(n) {
            self.tell_composer();
        }
        self.replay(n);
        if role == Role::Node && self.closed_told {
            self.clients[n].tell(&Tell::Closed(true));
        }
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

    /// All there is to see, from the beginning.
    pub(super) fn replay(&mut self, n: usize) {
        self.clients[n].is_behind = false;
        let tells = self.kept.replay(self.size);
        tells.iter().for_each(|tell| self.clients[n].tell(tell));
    }

    pub(super) fn tell_role(&mut self, role: Role, tell: &Tell) {
        for client in self.clients.iter_mut().filter(|client| client.role == Some(role)) {
            client.tell(tell);
        }
    }

    /// The viewer whose keys and size count: one who asked to lead, else the first that may type.
    pub(super) fn leader(&self) -> Option<usize> {
        let find = |role| self.clients.iter().position(|c| c.role == Some(role) && !c.is_gone);
        find(Role::Leader).or_else(|| find(Role::Viewer))
    }

    pub(super) fn tell_who_leads(&mut self) {
        let leader = self.leader();
        for (n, client) in self.clients.iter_mut().enumerate().filter(|(_, client)| client.is_viewer()) {
            client.tell(&Tell::Leads(leader == Some(n)));
        }
        self.tell_composer();
    }

    /// Whoever leads knows where keys would go.
    pub(super) fn tell_composer(&mut self) {
        if let Some(leader) = self.leader() {
            // Keys that are held back will be in it.
            let composer = match self.composer {
                Composer::Empty if !self.held.is_empty() => Composer::Other,
                composer => composer,
            };
            let client = &mut self.clients[leader];
            client.tell(&Tell::Composer { composer, typed: Some(client.typed) });
        }
    }

    /// The window is as large as that of the viewer who leads; unseen, it is not small.
    pub(super) fn fit(&mut self) {
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
        // Until the node has seen what came of it.
        if self.composer == Composer::Empty {
            self.composer = Composer::Other;
        }
        self.typed_told += bytes.len() as u64;
        let typed = Tell::Typed(bytes);
        self.tell_role(Role::Node, &typed);
        self.tell_role(Role::Recorder, &typed);
        if let Tell::Typed(bytes) = typed {
            self.input.extend(bytes);
        }
    }

    pub(super) fn give_back_keyboard(&mut self) {
        self.keyboard_until = None;
        self.tell_role(Role::Node, &Tell::Keyboard(false));
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
}

/// A window that a model of it can have too: 10,000 columns are fine, 10,000 rows of them are not.
pub(in crate::terminal) fn within(columns: u16, rows: u16) -> (u16, u16) {
    const SIDE_MAX: u16 = 10_000;
    const CELLS_MAX: u32 = 1_000_000;
    let columns = columns.clamp(1, SIDE_MAX);
    let rows_max = u16::try_from(CELLS_MAX / u32::from(columns)).unwrap_or(SIDE_MAX).min(SIDE_MAX);
    (columns, rows.clamp(1, rows_max))
}

#[cfg(test)]
mod tests {
    use super::super::super::clients::Client;
    use super::*;
    use crate::terminal::wire::Frames;
    use rustix::pty::{OpenptFlags, openpt};
    use std::io::Read as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::mpsc::channel;

    /// A desk without a program, with a node and a person at it.
    struct Room {
        desk: Desk,
        person: UnixStream,
        _node: UnixStream,
        _dir: tempfile::TempDir,
    }

    const NODE: usize = 0;
    const PERSON: usize = 1;

    impl Room {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            let socket = UnixListener::bind(dir.path().join("s")).unwrap();
            let (ears, _) = UnixStream::pair().unwrap();
            let mut desk = Desk::new(master, socket, ears, channel().1, (80, 24)).unwrap();
            let [node, person] = [Role::Node, Role::Viewer].map(|role| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                desk.clients.push(Client::new(ours).unwrap());
                desk.asked(desk.clients.len() - 1, Ask::Hello { role, columns: 80, rows: 24 });
                theirs
            });
            Self { desk, person, _node: node, _dir: dir }
        }

        fn says(&mut self, composer: Composer, typed: u64) {
            self.desk.asked(NODE, Ask::Composer { composer, typed: Some(typed) });
        }

        /// What the person was told of the composer since this was last asked.
        fn told(&mut self) -> Vec<(Composer, Option<u64>)> {
            self.desk.let_go();
            self.person.set_nonblocking(true).unwrap();
            let (mut frames, mut bytes) = (Frames::default(), vec![0; 1 << 16]);
            while let Ok(read @ 1..) = self.person.read(&mut bytes) {
                frames.feed(&bytes[..read]);
            }
            let mut told = Vec::new();
            while let Some(tell) = frames.next_tell().unwrap() {
                if let Tell::Composer { composer, typed } = tell {
                    told.push((composer, typed));
                }
            }
            told
        }
    }

    #[test]
    fn an_empty_composer_is_told_only_by_who_knew_of_the_last_keys() {
        let mut room = Room::new();
        room.told();
        room.says(Composer::Empty, 0);
        assert_eq!(room.told(), [(Composer::Empty, Some(0))]);
        room.desk.asked(PERSON, Ask::Input(b"mail".to_vec()));
        room.says(Composer::Empty, 0);
        assert_eq!(room.told(), [], "it did not know yet");
        room.says(Composer::Other, 0);
        room.says(Composer::Empty, 4);
        assert_eq!(room.told(), [(Composer::Other, Some(4)), (Composer::Empty, Some(4))]);
    }

    /// Keys that wait for the node will be in it; a prompt is one all the same.
    #[test]
    fn keys_that_are_held_back_are_no_empty_composer() {
        let mut room = Room::new();
        room.desk.asked(NODE, Ask::Keyboard { ms: 60_000 });
        room.desk.asked(PERSON, Ask::Input(b"x".to_vec()));
        room.told();
        room.says(Composer::Empty, 0);
        room.says(Composer::Prompt, 0);
        assert_eq!(room.told(), [(Composer::Other, Some(1)), (Composer::Prompt, Some(1))]);
        room.desk.asked(NODE, Ask::Keyboard { ms: 0 });
        room.says(Composer::Empty, 0);
        assert_eq!(room.told(), [], "the key has come, and is not known yet");
        room.says(Composer::Empty, 1);
        assert_eq!(room.told(), [(Composer::Empty, Some(1))]);
    }
}
