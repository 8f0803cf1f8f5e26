//! Who is let in to the terminal, as what, and what is written down of it.
//!
//! The user's processes may be what they ask to be. The node is the holder's own child and no other process. A process
//! under an agent may only look, after the node has said that it may. A process that cannot be seen is nobody.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::net::RecvFlags;

use super::super::clients::{Client, Guest};
use super::super::visitors::{ViewerAct, ViewerEvent, Visitor};
use super::super::wire::{Role, Tell};
use super::{CLIENTS_MAX, Desk};
use crate::peer::SocketPeer;

/// Places that processes under agents can take; the others stay free for the user and the node.
const AGENTS_MAX: usize = 4;
/// Connections that are accepted in one round of the desk, most of which may be closed already.
const ACCEPTED_MAX: usize = 32;
/// Connections whose process is identified in one round.
const IDENTIFIED_MAX: usize = 4;
/// Clients that may be connected and have not said hello. No fewer than are identified in a round, so that each of
/// them is read once.
const SILENT_MAX: usize = 8;
/// Keys after so long a rest are another run of typing, with a line of its own in the log.
const TYPING_REST: Duration = Duration::from_secs(30);

const ONLY_LOOK: &str = "a process that an agent started may only look at a terminal; \
     keys, the lead and recordings are the user's";
const NODE_AWAY: &str = "the node that knows the rights of agents is not there; try again in a moment";
const NOT_THE_NODE: &str = "only the node that the holder started is its node";

impl Desk {
    /// Accepts a bounded number of connections in each round, because identifying a process takes a while. The next
    /// poll reports those that are left.
    pub(super) fn accept(&mut self) {
        let mut identified = 0;
        for _ in 0..ACCEPTED_MAX {
            if identified >= IDENTIFIED_MAX {
                return;
            }
            let Ok((stream, _)) = self.socket.accept() else { return };
            if self.clients.len() >= CLIENTS_MAX || has_hung_up(&stream) {
                continue;
            }
            identified += 1;
            match self.guest(&stream) {
                Ok(guest) => self.await_hello(stream, guest),
                Err(refused) => self.note(&refused, ViewerAct::Refused, None),
            }
        }
    }

    /// The process that connected; an error if it may not even say hello.
    fn guest(&mut self, stream: &UnixStream) -> Result<Guest, Guest> {
        self.visits += 1;
        let number = self.visits;
        let peer = SocketPeer::of(stream).ok();
        let own = rustix::process::geteuid().as_raw();
        let peer = peer.filter(|peer| peer.uid == own || peer.uid == 0);
        let Some(process) = peer.and_then(|peer| peer.process.ok().flatten()) else {
            return Err(Guest::nobody(number));
        };
        let (pid, start_time, now) = (process.pid, process.start_time, Instant::now());
        let is_node = self.is_node(pid, start_time);
        if !is_node && let Some(known) = self.connection_rates.exceeded_by(pid, start_time, now) {
            return Err(Guest { number, ..known.clone() });
        }
        let who = (self.doorkeeper)(&process);
        let guest = Guest { number, who, pid, start_time, program: process.name() };
        let is_admitted = match &guest.who {
            Visitor::User => true,
            Visitor::Nobody => false,
            Visitor::Agents(_) if is_node => true,
            Visitor::Agents(_) => {
                self.connection_rates.remember(&guest, now);
                self.has_place_for_agent()
            }
        };
        if is_admitted { Ok(guest) } else { Err(guest) }
    }

    /// Whether this is the process that the holder started as its node.
    fn is_node(&self, pid: u32, start_time: u64) -> bool {
        self.node.as_ref().is_some_and(|node| (node.pid, node.start_time) == (pid, start_time))
    }

    /// Whether this client takes one of the places for processes under agents.
    fn is_agents(&self, client: &Client) -> bool {
        let guest = &client.guest;
        matches!(guest.who, Visitor::Agents(_))
            && client.role != Some(Role::Node)
            && !self.is_node(guest.pid, guest.start_time)
    }

    /// Whether a process under an agent may connect; the oldest one that has not said hello makes room.
    fn has_place_for_agent(&mut self) -> bool {
        if self.clients.iter().filter(|client| self.is_agents(client)).count() < AGENTS_MAX {
            return true;
        }
        let silent = self.clients.iter().position(|client| client.awaits_hello() && self.is_agents(client));
        silent.map(|n| self.clients.remove(n)).is_some()
    }

    /// Adds a client. If too many have not said hello, closes the oldest of them, and processes under agents first.
    fn await_hello(&mut self, stream: UnixStream, guest: Guest) {
        let Ok(client) = Client::new(stream, guest) else { return };
        self.clients.push(client);
        let silent: Vec<usize> =
            (0..self.clients.len()).filter(|&n| self.clients[n].awaits_hello()).collect();
        if silent.len() > SILENT_MAX {
            let of_agent = silent.iter().find(|&&n| self.is_agents(&self.clients[n]));
            self.clients.remove(*of_agent.unwrap_or(&silent[0]));
        }
    }

    /// The first word of a client: what it wants to be.
    pub(super) fn hello(&mut self, n: usize, role: Role, size: (u16, u16), level: u8) {
        let client = &mut self.clients[n];
        client.level = level;
        let guest = client.guest.clone();
        match (&guest.who, role) {
            (_, Role::Node) if self.is_node(guest.pid, guest.start_time) => {
                self.greet(n, role, size);
                self.tell_untold();
            }
            (_, Role::Node) => self.refuse(n, role, NOT_THE_NODE),
            (Visitor::User, _) => {
                self.note(&guest, ViewerAct::Attach, Some(role));
                if role == Role::Leader {
                    self.note(&guest, ViewerAct::Take, Some(role));
                }
                self.greet(n, role, size);
            }
            (Visitor::Agents(_), Role::Reader) if self.hearing_node().is_some() => {
                self.clients[n].asked_to_look = Some(size);
                self.note(&guest, ViewerAct::AskToLook, Some(role));
            }
            (Visitor::Agents(_), Role::Reader) => self.refuse(n, role, NODE_AWAY),
            (Visitor::Agents(_), _) => self.refuse(n, role, ONLY_LOOK),
            (Visitor::Nobody, _) => self.clients[n].is_gone = true,
        }
    }

    /// What the node says of an agent that wants to look.
    pub(super) fn admit(&mut self, number: u64, refused: Option<String>) {
        let waits = |client: &Client| client.guest.number == number && !client.is_gone;
        let Some(n) = self.clients.iter().position(waits) else { return };
        let Some(size) = self.clients[n].asked_to_look.take() else { return };
        match refused {
            None => self.greet(n, Role::Reader, size),
            Some(why) => self.turn_away(n, &why),
        }
    }

    fn refuse(&mut self, n: usize, role: Role, why: &str) {
        let guest = self.clients[n].guest.clone();
        self.note(&guest, ViewerAct::Refused, Some(role));
        self.turn_away(n, why);
    }

    /// Closes the connection of a client that broke the protocol. Before its hello this is a refusal, and recorded as one.
    pub(super) fn close_for_bad_frame(&mut self, n: usize) {
        if self.clients[n].awaits_hello() {
            let guest = self.clients[n].guest.clone();
            self.note(&guest, ViewerAct::Refused, None);
        }
        self.clients[n].is_gone = true;
    }

    /// Says why, to those who understand it, and closes the connection.
    fn turn_away(&mut self, n: usize, why: &str) {
        let client = &mut self.clients[n];
        if client.level >= 1 {
            client.tell(&Tell::Refused(why.to_owned()));
            client.flush(Instant::now());
        }
        client.is_gone = true;
    }

    /// A viewer typed; told once for each run of typing, and never what.
    pub(super) fn note_typing(&mut self, n: usize) {
        let now = Instant::now();
        let client = &mut self.clients[n];
        let before = client.typed_at.replace(now);
        if before.is_none_or(|before| now.duration_since(before) > TYPING_REST) {
            let (guest, role) = (client.guest.clone(), client.role);
            self.note(&guest, ViewerAct::Type, role);
        }
    }

    pub(super) fn note_take(&mut self, n: usize) {
        let (guest, role) = (self.clients[n].guest.clone(), self.clients[n].role);
        self.note(&guest, ViewerAct::Take, role);
    }

    fn note(&mut self, guest: &Guest, act: ViewerAct, role: Option<Role>) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let event = ViewerEvent {
            viewer: guest.number,
            act,
            who: guest.who.clone(),
            pid: guest.pid,
            program: guest.program.clone(),
            role: role.map_or("", Role::name).to_owned(),
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            dropped: 0,
        };
        self.untold.put(event, Instant::now());
        self.tell_untold();
    }

    /// The node, if it is there and understands what viewers do.
    fn hearing_node(&self) -> Option<usize> {
        self.clients.iter().position(|c| c.role == Some(Role::Node) && c.level >= 1 && !c.is_gone)
    }

    fn tell_untold(&mut self) {
        let Some(node) = self.hearing_node() else { return };
        while let Some(event) = self.untold.take() {
            self.clients[node].tell(&Tell::Viewer(Box::new(event)));
        }
    }
}

/// Whether the other end has closed the connection and sent nothing.
fn has_hung_up(stream: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(stream, &mut [0; 1], flags), Ok((_, 0)))
}

#[cfg(test)]
mod tests {
    use super::super::Desk;
    use super::*;
    use crate::process::ProcessMark;
    use crate::terminal::wire::{Ask, Frames, LEVEL};
    use rustix::pty::{OpenptFlags, openpt};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    /// A desk without a program whose visitors are all `who`; this process is its node if `is_node`.
    struct Lobby {
        desk: Desk,
        /// How many processes were identified.
        identified: Arc<AtomicUsize>,
        dir: tempfile::TempDir,
    }

    impl Lobby {
        fn new(who: Visitor, is_node: bool) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            let socket = UnixListener::bind(dir.path().join("s")).unwrap();
            let (ears, _) = UnixStream::pair().unwrap();
            let identified = Arc::new(AtomicUsize::new(0));
            let count = identified.clone();
            let doorkeeper = Box::new(move |_: &crate::peer::PinnedProcess| {
                count.fetch_add(1, Ordering::Relaxed);
                who.clone()
            });
            let mut desk = Desk::new(master, socket, ears, channel().1, (80, 24), doorkeeper).unwrap();
            desk.node = is_node.then(|| ProcessMark::own().unwrap());
            Self { desk, identified, dir }
        }

        fn connects(&self) -> UnixStream {
            UnixStream::connect(self.dir.path().join("s")).unwrap()
        }

        fn identified(&self) -> usize {
            self.identified.load(Ordering::Relaxed)
        }

        /// Connects and says who it is; the number of the client.
        fn comes(&mut self, role: Role, level: u8) -> (Option<usize>, UnixStream) {
            let before = self.desk.clients.len();
            let stream = self.connects();
            self.desk.accept();
            let n = (self.desk.clients.len() > before).then_some(before);
            if let Some(n) = n {
                self.desk.asked(n, Ask::Hello { role, columns: 80, rows: 24, level });
            }
            (n, stream)
        }

        fn told(&mut self, stream: &mut UnixStream) -> Vec<Tell> {
            self.desk.clients.iter_mut().for_each(|client| client.flush(Instant::now()));
            stream.set_nonblocking(true).unwrap();
            let (mut frames, mut bytes) = (Frames::default(), vec![0; 1 << 16]);
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                frames.feed(&bytes[..read]);
            }
            std::iter::from_fn(|| frames.next_tell().unwrap()).collect()
        }
    }

    fn agent() -> Visitor {
        Visitor::Agents(vec!["a1".into()])
    }

    fn acts(told: &[Tell]) -> Vec<(ViewerAct, &str)> {
        let events = told.iter().filter_map(|tell| match tell {
            Tell::Viewer(event) => Some((event.act, event.role.as_str())),
            _ => None,
        });
        events.collect()
    }

    /// Finding H1: whatever a process under an agent asks to be, it gets no more than to look.
    #[test]
    fn process_under_an_agent_may_only_look() {
        let mut lobby = Lobby::new(agent(), true);
        let (_, mut node) = lobby.comes(Role::Node, LEVEL);
        for role in [Role::Viewer, Role::Leader, Role::Recorder] {
            let (n, mut stream) = lobby.comes(role, LEVEL);
            assert!(lobby.desk.clients[n.unwrap()].is_gone, "{role:?}");
            assert_eq!(lobby.told(&mut stream), [Tell::Refused(ONLY_LOOK.into())], "{role:?}");
            lobby.desk.let_go();
        }
        let (n, mut stream) = lobby.comes(Role::Reader, LEVEL);
        assert_eq!(lobby.desk.clients[n.unwrap()].role, None, "not before the node has said so");
        let told = lobby.told(&mut node);
        let expected = [
            (ViewerAct::Refused, "viewer"),
            (ViewerAct::Refused, "leader"),
            (ViewerAct::Refused, "recorder"),
            (ViewerAct::AskToLook, "reader"),
        ];
        assert_eq!(acts(&told), expected);
        let number = lobby.desk.clients[n.unwrap()].guest.number;
        lobby.desk.asked(n.unwrap(), Ask::Input(b"early".to_vec()));
        lobby.desk.asked(0, Ask::Admit { viewer: number, refused: None });
        assert_eq!(lobby.desk.clients[n.unwrap()].role, Some(Role::Reader));
        assert!(matches!(lobby.told(&mut stream)[0], Tell::Welcome { .. }));
        for ask in [
            Ask::Input(b"y".to_vec()),
            Ask::Take,
            Ask::Repaint,
            Ask::Continue,
            Ask::Resize { columns: 1, rows: 1 },
            Ask::Picture { upto: 0, columns: 1, rows: 1, drawn: b"forged".to_vec() },
            Ask::Admit { viewer: number, refused: None },
        ] {
            lobby.desk.asked(n.unwrap(), ask);
        }
        assert!(lobby.desk.input.is_empty() && lobby.desk.held.is_empty());
        assert_eq!((lobby.desk.leader(), lobby.desk.size), (None, (120, 40)));
    }

    #[test]
    fn agent_without_the_right_or_without_a_node_sees_nothing() {
        let mut lobby = Lobby::new(agent(), true);
        let (_, mut early) = lobby.comes(Role::Reader, LEVEL);
        assert_eq!(lobby.told(&mut early), [Tell::Refused(NODE_AWAY.into())]);
        lobby.desk.let_go();
        let (_, mut node) = lobby.comes(Role::Node, LEVEL);
        let (n, mut stream) = lobby.comes(Role::Reader, LEVEL);
        let number = lobby.desk.clients[n.unwrap()].guest.number;
        lobby.desk.asked(0, Ask::Admit { viewer: number, refused: Some("no".into()) });
        assert_eq!(lobby.told(&mut stream), [Tell::Refused("no".into())]);
        let told = lobby.told(&mut node);
        assert_eq!(acts(&told), [(ViewerAct::Refused, "reader"), (ViewerAct::AskToLook, "reader")]);
    }

    #[test]
    fn only_the_child_of_the_holder_is_its_node() {
        for who in [Visitor::User, agent()] {
            let mut lobby = Lobby::new(who, false);
            let (n, mut stream) = lobby.comes(Role::Node, LEVEL);
            assert!(lobby.desk.clients[n.unwrap()].is_gone);
            assert_eq!(lobby.told(&mut stream), [Tell::Refused(NOT_THE_NODE.into())]);
        }
        let mut lobby = Lobby::new(Visitor::Nobody, true);
        assert_eq!(lobby.comes(Role::Reader, LEVEL).0, None, "nobody is closed at once");
    }

    /// Finding H1: who came, who took the lead and who typed; once for a run of typing.
    #[test]
    fn what_the_user_does_is_kept_for_the_node() {
        let mut lobby = Lobby::new(Visitor::User, true);
        let (first, _first) = lobby.comes(Role::Viewer, 0);
        for key in [b"a", b"b", b"c"] {
            lobby.desk.asked(first.unwrap(), Ask::Input(key.to_vec()));
        }
        let (_, _second) = lobby.comes(Role::Leader, LEVEL);
        lobby.desk.asked(first.unwrap(), Ask::Input(b"not leading".to_vec()));
        lobby.desk.asked(first.unwrap(), Ask::Take);
        let (_, mut node) = lobby.comes(Role::Node, LEVEL);
        let told = lobby.told(&mut node);
        let expected = [
            (ViewerAct::Attach, "viewer"),
            (ViewerAct::Type, "viewer"),
            (ViewerAct::Attach, "leader"),
            (ViewerAct::Take, "leader"),
            (ViewerAct::Take, "leader"),
        ];
        assert_eq!(acts(&told), expected);
    }

    /// A node that is older than its holder does not know these frames, and would leave.
    #[test]
    fn older_clients_are_told_nothing_new() {
        let mut lobby = Lobby::new(Visitor::User, true);
        let (_, mut node) = lobby.comes(Role::Node, 0);
        let (_, _viewer) = lobby.comes(Role::Viewer, 0);
        assert_eq!(acts(&lobby.told(&mut node)), []);
        let mut lobby = Lobby::new(agent(), true);
        let (_, mut old) = lobby.comes(Role::Viewer, 0);
        assert_eq!(lobby.told(&mut old), []);
    }

    #[test]
    fn agents_cannot_take_every_place() {
        let mut lobby = Lobby::new(agent(), true);
        let (_, _node) = lobby.comes(Role::Node, LEVEL);
        // Otherwise all of them would be the node's own.
        lobby.desk.node = None;
        let streams: Vec<_> = (0..20).map(|_| lobby.comes(Role::Reader, LEVEL)).collect();
        assert_eq!(streams.iter().filter(|(n, _)| n.is_some()).count(), AGENTS_MAX);
    }

    /// Finding H1, review: while a client kept its socket full, the desk served nobody else.
    #[test]
    fn flood_of_one_client_does_not_keep_others_waiting() {
        const ROUNDS_MAX: usize = 1_000;
        let mut lobby = Lobby::new(Visitor::User, false);
        let (leader, mut typing) = lobby.comes(Role::Viewer, LEVEL);
        let (other, flooding) = lobby.comes(Role::Viewer, LEVEL);
        let (leader, other) = (leader.unwrap(), other.unwrap());
        flooding.set_nonblocking(true).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&flooding, 256 << 10).unwrap();
        let keys = [vec![b'i', 0, 16, 0, 0], vec![b'x'; 4_096]].concat();
        let sent: usize = (0..10_000).map_while(|_| (&flooding).write(&keys).ok()).sum();
        let total = u64::try_from(sent / keys.len() * 4_096).unwrap();
        crate::terminal::wire::send(&mut typing, &Ask::Input(b"y".to_vec())).unwrap();
        lobby.desk.serve_round();
        assert_eq!(lobby.desk.clients[leader].typed, 1);
        let typed = lobby.desk.clients[other].typed;
        assert!(typed <= 64 << 10 && typed < total, "{typed} of {total} bytes in one round");
        // The socket is reported as ready until it is empty.
        for _ in 0..ROUNDS_MAX {
            lobby.desk.serve_round();
        }
        assert_eq!(lobby.desk.clients[other].typed, total);
    }

    /// Finding H1, review: a first frame that is too long for a hello is not waited for.
    #[test]
    fn client_that_begins_with_anything_but_a_hello_is_refused() {
        let mut lobby = Lobby::new(agent(), true);
        let (_, mut node) = lobby.comes(Role::Node, LEVEL);
        lobby.desk.node = None;
        for first in [&b"i\x00\x00\x10\x00xxxx"[..], b"g\x00\x00\x00\x00", b"h\x41\x00\x00\x00r"] {
            let mut stream = lobby.connects();
            stream.write_all(first).unwrap();
            lobby.desk.serve_round();
            assert_eq!(lobby.desk.clients.len(), 1, "{first:?}: only the node is left");
            assert_eq!(acts(&lobby.told(&mut node)), [(ViewerAct::Refused, "")], "{first:?}");
        }
    }

    #[test]
    fn keys_that_come_with_the_hello_are_read_before_the_client_is_answered() {
        let mut lobby = Lobby::new(Visitor::User, false);
        let mut stream = lobby.connects();
        let mut said = Vec::new();
        Ask::Hello { role: Role::Viewer, columns: 80, rows: 24, level: LEVEL }.write(&mut said);
        Ask::Input(vec![b'x'; 1_000]).write(&mut said);
        stream.write_all(&said).unwrap();
        lobby.desk.serve_round();
        assert_eq!((lobby.desk.clients[0].role, lobby.desk.clients[0].typed), (Some(Role::Viewer), 1_000));
    }

    /// Finding H1, review: connections were accepted until there were none, and the ancestry of each was read. Three
    /// threads that connected in a loop delayed the user's keys by 5.2 s.
    #[test]
    fn connections_are_accepted_a_few_at_a_time() {
        let mut lobby = Lobby::new(Visitor::User, false);
        let (viewer, mut typing) = lobby.comes(Role::Viewer, LEVEL);
        let before = lobby.identified();
        let crowd: Vec<UnixStream> = (0..40).map(|_| lobby.connects()).collect();
        for round in 1..=crowd.len().div_ceil(IDENTIFIED_MAX) {
            crate::terminal::wire::send(&mut typing, &Ask::Input(b"y".to_vec())).unwrap();
            lobby.desk.serve_round();
            assert_eq!(lobby.identified() - before, round * IDENTIFIED_MAX);
            assert_eq!(lobby.desk.clients[viewer.unwrap()].typed, round as u64, "keys come in between");
        }
    }

    /// Finding H1, review: connections that were closed while they waited were identified all the same.
    #[test]
    fn closed_connections_are_not_identified() {
        let mut lobby = Lobby::new(Visitor::User, false);
        for _ in 0..100 {
            drop(lobby.connects());
        }
        let mut stream = lobby.connects();
        let hello = Ask::Hello { role: Role::Viewer, columns: 80, rows: 24, level: LEVEL };
        crate::terminal::wire::send(&mut stream, &hello).unwrap();
        for _ in 0..=100 / ACCEPTED_MAX {
            lobby.desk.serve_round();
        }
        assert_eq!((lobby.identified(), lobby.desk.clients.len()), (1, 1));
        assert_eq!(lobby.desk.clients[0].role, Some(Role::Viewer));
    }

    /// Finding H1, review: clients that connect and say nothing took every place for five seconds.
    #[test]
    fn oldest_client_without_a_hello_makes_room() {
        let mut lobby = Lobby::new(Visitor::User, false);
        let (viewer, _viewing) = lobby.comes(Role::Viewer, LEVEL);
        let _silent: Vec<UnixStream> = (0..40).map(|_| lobby.connects()).collect();
        for _ in 0..40 / IDENTIFIED_MAX {
            lobby.desk.serve_round();
        }
        let silent = lobby.desk.clients.iter().filter(|client| client.awaits_hello());
        let numbers: Vec<u64> = silent.map(|client| client.guest.number).collect();
        assert_eq!(numbers, (34..=41).collect::<Vec<u64>>(), "the newest");
        assert_eq!(lobby.desk.clients[viewer.unwrap()].role, Some(Role::Viewer), "who said hello stays");
        lobby.desk.doorkeeper = Box::new(|_| agent());
        let _agent = lobby.connects();
        lobby.desk.serve_round();
        assert!(lobby.desk.clients.iter().all(Client::is_users), "an agent takes no place from the user");
    }

    /// Finding H1, review: silent clients under an agent kept those of other agents out.
    #[test]
    fn agent_that_says_nothing_gives_its_place_to_the_next() {
        let mut lobby = Lobby::new(agent(), true);
        let (_, _node) = lobby.comes(Role::Node, LEVEL);
        lobby.desk.node = None;
        let _silent: Vec<UnixStream> = (0..AGENTS_MAX).map(|_| lobby.connects()).collect();
        lobby.desk.serve_round();
        let mut stream = lobby.connects();
        let hello = Ask::Hello { role: Role::Reader, columns: 80, rows: 24, level: LEVEL };
        crate::terminal::wire::send(&mut stream, &hello).unwrap();
        lobby.desk.serve_round();
        let places = lobby.desk.clients.iter().filter(|client| lobby.desk.is_agents(client));
        assert_eq!(places.clone().count(), AGENTS_MAX);
        assert_eq!(places.filter(|client| client.asked_to_look.is_some()).count(), 1);
    }

    /// Finding H1, review: a process under an agent that connects in a loop is not identified each time.
    #[test]
    fn process_under_an_agent_that_connects_too_often_is_refused() {
        const CONNECTIONS: usize = 100;
        let mut lobby = Lobby::new(agent(), false);
        let _streams: Vec<UnixStream> = (0..CONNECTIONS).map(|_| lobby.connects()).collect();
        for _ in 0..CONNECTIONS / IDENTIFIED_MAX {
            lobby.desk.serve_round();
        }
        // More only if this takes seconds.
        assert!(lobby.identified() < CONNECTIONS / 2, "{}", lobby.identified());
        assert_eq!(lobby.desk.visits, 100, "all were answered");
        let own = ProcessMark::own().unwrap();
        lobby.desk.node = Some(own);
        let (n, _node) = lobby.comes(Role::Node, LEVEL);
        assert_eq!(lobby.desk.clients[n.unwrap()].role, Some(Role::Node), "the node is never too often");
    }
}
