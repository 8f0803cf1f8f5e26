//! What clients ask of the desk: who they are, keys, sizes, pictures; and who of the viewers leads.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};

use super::super::wire::{Ask, Composer, Role, Tell};
use super::{Desk, FIT_PAUSE, INPUT_BYTES_MAX, NARROW, UNSEEN};

impl Desk {
    pub(super) fn asked(&mut self, n: usize, ask: Ask) {
        let (role, leads) = (self.clients[n].role, self.leader() == Some(n));
        match (ask, role) {
            (_, None) if self.clients[n].asked_to_look.is_some() => {}
            (Ask::Hello { role, columns, rows, level }, None) => {
                self.hello(n, role, (columns, rows), level);
            }
            // Only after a hello, and only once.
            (_, None) | (Ask::Hello { .. }, Some(_)) => self.close_for_bad_frame(n),
            (Ask::Input(bytes), Some(Role::Node)) => {
                self.tell_role(Role::Recorder, &Tell::Typed(bytes.clone()));
                self.input.keys(&bytes);
            }
            (Ask::Press { upto, keys }, Some(Role::Node)) => self.press_if_quiet(upto, keys),
            (Ask::Input(bytes), Some(_)) => {
                self.clients[n].typed += bytes.len() as u64;
                if leads {
                    self.note_typing(n);
                    self.typed(bytes);
                }
            }
            (Ask::Resize { columns, rows }, Some(_)) => {
                self.clients[n].size = (columns, rows);
                self.fit_soon();
            }
            (Ask::Answer { upto, bytes }, Some(Role::Node)) => {
                self.kept.answered(upto);
                self.input.answer(bytes);
            }
            (Ask::Picture { upto, columns, rows, drawn }, Some(Role::Node)) => {
                self.kept.draw(upto, (columns, rows), drawn);
            }
            (Ask::Keyboard { ms: 0 }, Some(Role::Node)) => self.give_back_keyboard(),
            (Ask::Keyboard { ms }, Some(Role::Node)) => self.lend_keyboard(ms),
            (Ask::Continue, Some(_)) if leads => self.wake(),
            // Looking changes nothing, and an agent may do no more.
            (Ask::Repaint, Some(_)) if role == Some(Role::Node) || self.clients[n].is_users() => {
                self.repaint()
            }
            (Ask::Admit { viewer, refused }, Some(Role::Node)) => self.admit(viewer, refused),
            // Replayed by `let_go` once its queue is empty: however often it asks, one replay waits for it.
            (Ask::Again, Some(_)) => self.clients[n].is_behind = true,
            (Ask::State { state, why }, Some(Role::Node)) => {
                let told = Tell::State { state, why };
                self.tell_role(Role::Recorder, &told);
                self.state = Some(told);
            }
            (Ask::Composer { composer, typed }, Some(Role::Node)) => self.seen_composer(composer, typed),
            (Ask::Notice(words), Some(Role::Node)) => {
                if let Some(leader) = self.leader() {
                    self.clients[leader].tell(&Tell::Notice(words));
                }
            }
            (Ask::Yield, Some(_)) if leads => self.tell_role(Role::Node, &Tell::Yield),
            (Ask::Take, Some(Role::Viewer)) => {
                self.nobody_leads();
                self.clients[n].role = Some(Role::Leader);
                self.note_take(n);
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

    /// The node has seen all output up to this place, and its keys answer that. Whatever else is there by now it has to
    /// see first: it may be a question, which Enter would answer.
    fn press_if_quiet(&mut self, upto: u64, keys: Vec<u8>) {
        self.read_master();
        self.print();
        let is_quiet = self.kept.printed() == upto && !self.is_blocked();
        if is_quiet {
            self.input.keys(&keys);
            self.write_master();
            self.tell_role(Role::Recorder, &Tell::Typed(keys));
        }
        self.tell_role(Role::Node, &Tell::Pressed(is_quiet));
    }

    /// What the node sees of the place where the person writes.
    fn seen_composer(&mut self, composer: Composer, typed: Option<u64>) {
        // What it saw before it knew of the last keys it will say again.
        let is_stale = typed.is_some_and(|typed| typed != self.typed_told);
        if composer != Composer::Empty || !is_stale {
            self.composer = composer;
            self.tell_composer();
        }
    }

    /// Keeps the keys of people back for so long: the node types.
    fn lend_keyboard(&mut self, ms: u32) {
        const KEYBOARD_MAX: Duration = Duration::from_secs(10);
        let wished = Duration::from_millis(u64::from(ms)).min(KEYBOARD_MAX);
        self.keyboard_until = Some(Instant::now() + wished);
        self.tell_role(Role::Node, &Tell::Keyboard(true));
    }

    /// Lets a client in as what it is.
    pub(super) fn greet(&mut self, n: usize, role: Role, size: (u16, u16)) {
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
        if let Some((end, _)) = self.ended.as_ref().filter(|_| self.farewell_said) {
            end.tell(&mut self.clients[n]);
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

    /// Sizes that come faster than this are not all tried: each costs the program and every client a drawing.
    fn fit_soon(&mut self) {
        let due = self.fitted_at + FIT_PAUSE;
        match Instant::now() >= due {
            true => self.fit(),
            false => self.fit_at = Some(due),
        }
    }

    /// Fits to the newest size, if that is due.
    pub(super) fn fit_if_due(&mut self) {
        if self.narrow_until.is_some_and(|due| due <= Instant::now()) {
            self.narrow_until = None;
            self.set_window(self.size);
        }
        if self.fit_at.is_some_and(|due| due <= Instant::now()) {
            self.fit();
        }
    }

    /// The window is as large as that of the viewer who leads; unseen, it is not small.
    pub(super) fn fit(&mut self) {
        let seen = self.leader().map(|n| self.clients[n].size);
        let (columns, rows) = seen.unwrap_or((self.size.0.max(UNSEEN.0), self.size.1.max(UNSEEN.1)));
        let wished = within(columns, rows);
        (self.fit_at, self.fitted_at) = (None, Instant::now());
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

    /// A changed size makes every full-screen program draw anew, if it is still changed when the program looks. Those
    /// that run on Node.js look once for several signals; many draw all again only for another width.
    fn repaint(&mut self) {
        let (columns, rows) = self.size;
        self.narrow_until = Some(Instant::now() + NARROW);
        self.set_window((columns.saturating_sub(1).max(1), rows));
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
        self.kept.typed();
        let typed = Tell::Typed(bytes);
        self.tell_role(Role::Node, &typed);
        self.tell_role(Role::Recorder, &typed);
        if let Tell::Typed(bytes) = typed {
            self.input.keys(&bytes);
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

/// A window that a model of it can have too: 1,000 columns are fine, 1,000 rows of them are not.
pub(in crate::terminal) fn within(columns: u16, rows: u16) -> (u16, u16) {
    const SIDE_MAX: u16 = 1_000;
    const CELLS_MAX: u32 = 250_000;
    let columns = columns.clamp(1, SIDE_MAX);
    let rows_max = u16::try_from(CELLS_MAX / u32::from(columns)).unwrap_or(SIDE_MAX).min(SIDE_MAX);
    (columns, rows.clamp(1, rows_max))
}

#[cfg(test)]
mod tests {
    use super::super::super::clients::{Client, Guest};
    use super::*;
    use crate::process::ProcessMark;
    use crate::terminal::visitors::Visitor;
    use crate::terminal::wire::Frames;
    use rustix::pty::{OpenptFlags, openpt};
    use std::io::Read as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::mpsc::channel;

    /// A desk without a program, with a node and a person at it.
    struct Room {
        desk: Desk,
        person: UnixStream,
        node: UnixStream,
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
            let doorkeeper = Box::new(|_: &crate::peer::PinnedProcess| Visitor::User);
            let mut desk = Desk::new(master, socket, ears, channel().1, (80, 24), doorkeeper).unwrap();
            let own = ProcessMark::own().unwrap();
            desk.node = Some(own.clone());
            let [node, person] = [Role::Node, Role::Viewer].map(|role| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                let guest = Guest {
                    number: 0,
                    who: Visitor::User,
                    pid: own.pid,
                    start_time: own.start_time,
                    program: String::new(),
                };
                desk.clients.push(Client::new(ours, guest).unwrap());
                desk.asked(desk.clients.len() - 1, Ask::Hello { role, columns: 80, rows: 24, level: 0 });
                theirs
            });
            Self { desk, person, node, _dir: dir }
        }

        fn says(&mut self, composer: Composer, typed: u64) {
            self.desk.asked(NODE, Ask::Composer { composer, typed: Some(typed) });
        }

        /// What the person was told of the composer since this was last asked.
        fn told(&mut self) -> Vec<(Composer, Option<u64>)> {
            self.desk.let_go();
            let composer = |tell| match tell {
                Tell::Composer { composer, typed } => Some((composer, typed)),
                _ => None,
            };
            tells(&mut self.person).into_iter().filter_map(composer).collect()
        }

        /// Which keys of the node were pressed since this was last asked.
        fn pressed(&mut self) -> Vec<bool> {
            self.desk.let_go();
            let pressed = |tell| match tell {
                Tell::Pressed(pressed) => Some(pressed),
                _ => None,
            };
            tells(&mut self.node).into_iter().filter_map(pressed).collect()
        }
    }

    fn tells(from: &mut UnixStream) -> Vec<Tell> {
        more_tells(&mut Frames::default(), from)
    }

    /// Whole frames; the beginning of the next one stays in `frames`.
    fn more_tells(frames: &mut Frames, from: &mut UnixStream) -> Vec<Tell> {
        from.set_nonblocking(true).unwrap();
        let mut bytes = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            frames.feed(&bytes[..read]);
        }
        std::iter::from_fn(|| frames.next_tell().unwrap()).collect()
    }

    /// Finding L16: a question that is drawn after the node's last look is not answered by its Enter.
    #[test]
    fn enter_is_not_pressed_into_what_the_node_has_not_seen() {
        let mut room = Room::new();
        let (master, slave) = crate::terminal::open(80, 24).unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        room.desk.master = master;
        room.pressed();
        rustix::io::write(&slave, b"Allow this?").unwrap();
        rustix::event::poll(
            &mut [rustix::event::PollFd::new(&room.desk.master, rustix::event::PollFlags::IN)],
            None,
        )
        .unwrap();
        let enter = |upto: u64| Ask::Press { upto, keys: b"\r".to_vec() };
        room.desk.asked(NODE, enter(0));
        assert_eq!((room.pressed(), room.desk.kept.printed()), (vec![false], 11));
        room.desk.asked(PERSON, enter(11));
        assert!(room.pressed().is_empty(), "only the node's");
        room.desk.asked(NODE, enter(11));
        assert_eq!(room.pressed(), [true]);
        let mut read = [0; 8];
        assert_eq!(rustix::io::read(&slave, &mut read), Ok(1), "as a line, the terminal is not raw");
    }

    /// Finding H1, review: 12,000 requests for a replay (60 KB) each queued the picture and the tail, and the holder
    /// grew from 34 to 482 MB.
    #[test]
    fn many_requests_for_a_replay_queue_one() {
        const TAIL: usize = 40 << 10;
        let mut room = Room::new();
        room.told();
        room.desk.kept.print(&[b'x'; TAIL]);
        // Something waits for the client already.
        room.desk.clients[PERSON].show(&[b"before"]);
        for _ in 0..1_000 {
            room.desk.asked(PERSON, Ask::Again);
        }
        assert!(room.desk.clients[PERSON].waiting() < 100, "nothing is queued before the queue is empty");
        room.desk.let_go();
        assert!(room.desk.clients[PERSON].waiting() < 2 * TAIL);
        let (mut frames, mut told) = (Frames::default(), Vec::new());
        for _ in 0..100 {
            room.desk.let_go();
            told.extend(more_tells(&mut frames, &mut room.person));
        }
        assert_eq!(told[0], Tell::Output(b"before".to_vec()));
        assert_eq!(told.iter().filter(|tell| matches!(tell, Tell::Welcome { .. })).count(), 1);
        assert_eq!(told.last(), Some(&Tell::Output(vec![b'x'; TAIL])), "and it is whole");
        room.desk.asked(PERSON, Ask::Again);
        room.desk.let_go();
        assert!(room.desk.clients[PERSON].waiting() > TAIL, "the next request counts");
    }

    /// Defect K: the size was changed and changed back before a program on Node.js could see it.
    #[test]
    fn repaint_changes_the_size_for_a_while() {
        let mut room = Room::new();
        let (master, slave) = crate::terminal::open(80, 24).unwrap();
        room.desk.master = master;
        let columns = || rustix::termios::tcgetwinsize(&slave).unwrap().ws_col;
        room.desk.asked(NODE, Ask::Repaint);
        room.desk.fit_if_due();
        assert_eq!((columns(), room.desk.size), (79, (80, 24)));
        assert!(room.desk.wake_at(Instant::now()).is_some_and(|at| at <= Instant::now() + NARROW));
        room.desk.narrow_until = Some(Instant::now());
        room.desk.fit_if_due();
        assert_eq!((columns(), room.desk.narrow_until), (80, None));
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

    /// Finding M9: a viewer that sends sizes as fast as it can.
    #[test]
    fn only_the_newest_of_many_sizes_is_tried() {
        let mut room = Room::new();
        room.told();
        room.desk.fitted_at = Instant::now() + Duration::from_secs(60);
        for n in 0..1_000 {
            room.desk.asked(PERSON, Ask::Resize { columns: 1 + n % 2, rows: 10_000 });
        }
        room.desk.asked(PERSON, Ask::Resize { columns: 10_000, rows: 100 });
        room.desk.fit_if_due();
        assert_eq!(room.desk.size, (80, 24), "not yet");
        room.desk.fit_at = Some(Instant::now());
        room.desk.fit_if_due();
        assert_eq!((room.desk.size, room.desk.fit_at), ((1_000, 100), None));
        assert_eq!(room.desk.kept.replay((1_000, 100)).len(), 3, "welcome, picture, one size");
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
