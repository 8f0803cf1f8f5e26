//! Whose a TCP connection from this machine is: a stolen token does not make an agent the person.
//!
//! The kernel lists connections with the number of the socket at the other end, and each process with the
//! sockets it has open. So the process is found, and from it the agent. Looked up once for each connection that
//! brings a secret, off the async threads, and within bounds.
//!
//! Invariant: a process under an agent is never taken for the person because it was quick, hid its open files, or
//! passed its socket from child to child. Not here: systems other than Linux, where nothing is seen.

#[cfg(target_os = "linux")]
use crate::ancestry::{self, Kin};
use std::net::SocketAddr;
use synapse_core::ids::AgentId;
use synapse_store::home::Home;

/// Who has the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A process under these agents, nearest first.
    Agents(Vec<AgentId>),
    /// A process that no agent started.
    Person,
    /// Not a process that we could see, and none under an agent: another machine, another user, a container.
    Elsewhere,
    /// It may be anybody's; says why.
    Nobody(&'static str),
}

/// Finds the process whose connection goes from `remote` to us at `local`.
#[cfg(target_os = "linux")]
pub fn of(home: &Home, remote: SocketAddr, local: SocketAddr) -> Owner {
    const LOOKS: usize = 4;
    let mut before = None;
    for _ in 0..LOOKS {
        let socket = match linux::socket_of(remote, local) {
            linux::Row::Socket(socket) => socket,
            linux::Row::OfUser => return Owner::Elsewhere,
            linux::Row::None if !remote.ip().to_canonical().is_loopback() => return Owner::Elsewhere,
            // The list may miss a row when others change meanwhile.
            linux::Row::None => continue,
            linux::Row::Closed => {
                return Owner::Nobody("the calling process closed its connection before it could be seen");
            }
            linux::Row::Unreadable => return Owner::Elsewhere,
        };
        let hidden = match linux::process_with(socket) {
            linux::Search::Found(pid) => match ancestry::kin(home, pid) {
                Kin::Person => return Owner::Person,
                Kin::Under(agents) => return Owner::Agents(agents),
                Kin::Gone => continue,
            },
            linux::Search::TooMany => {
                return Owner::Nobody("too many files are open on this machine to find the calling process");
            }
            linux::Search::None { hidden } => hidden,
        };
        if hidden.iter().any(|pid| ancestry::kin(home, *pid) != Kin::Person) {
            return Owner::Nobody(
                "the calling process cannot be seen, and one under an agent hides its files",
            );
        }
        // Nobody has it, and nothing under an agent came or went since the last look: it is not one of those.
        let below = Some(linux::below_agents(home));
        if before == below {
            return Owner::Elsewhere;
        }
        before = below;
    }
    Owner::Nobody("the calling process could not be found; try again")
}

#[cfg(not(target_os = "linux"))]
pub fn of(_home: &Home, _remote: SocketAddr, _local: SocketAddr) -> Owner {
    Owner::Elsewhere
}

/// Finds the process that takes connections at `address` of loopback. In the kernel's list its other end is nowhere.
pub fn of_listener(home: &Home, address: SocketAddr) -> Owner {
    of(home, address, SocketAddr::from(([0, 0, 0, 0], 0)))
}

#[cfg(target_os = "linux")]
mod linux {
    use super::ancestry;
    use std::collections::BTreeSet;
    use std::io::Read as _;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::os::unix::fs::MetadataExt as _;
    use synapse_store::files::our_uid;
    use synapse_store::home::Home;

    /// What the kernel's list says of the other end.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Row {
        /// The number of its socket; it is of our own user.
        Socket(u64),
        /// It is another user's.
        OfUser,
        /// No process has it any more.
        Closed,
        None,
        /// There is no list, as on some systems with a strict sandbox.
        Unreadable,
    }

    /// A hundred thousand connections.
    const TABLE_BYTES_MAX: u64 = 16 << 20;
    /// Open files that one look goes through.
    const FILES_MAX: usize = 500_000;

    pub(super) fn socket_of(remote: SocketAddr, local: SocketAddr) -> Row {
        let mut found = Row::Unreadable;
        // A socket of the newer kind may speak the older protocol, and is then only in the newer list.
        for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
            let Ok(file) = std::fs::File::open(table) else { continue };
            let mut text = String::new();
            if file.take(TABLE_BYTES_MAX).read_to_string(&mut text).is_err() {
                continue;
            }
            match row_in(&text, remote, local, our_uid()) {
                Row::None => found = Row::None,
                row => return row,
            }
        }
        found
    }

    pub(super) fn row_in(table: &str, remote: SocketAddr, local: SocketAddr, own: u32) -> Row {
        let plain = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        let wanted = (plain(remote), plain(local));
        for line in table.lines().skip(1) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, from, to, _, _, _, _, uid, _, inode, ..] = words[..] else { continue };
            if address(from) != Some(wanted.0) || address(to) != Some(wanted.1) {
                continue;
            }
            return match (inode.parse(), uid.parse::<u32>()) {
                (Ok(0) | Err(_), _) | (_, Err(_)) => Row::Closed,
                (Ok(_), Ok(uid)) if uid != own => Row::OfUser,
                (Ok(inode), Ok(_)) => Row::Socket(inode),
            };
        }
        Row::None
    }

    /// `0100007F:1FA4`: words of four bytes as the processor has them, then the port.
    fn address(raw: &str) -> Option<(IpAddr, u16)> {
        let (ip, port) = raw.split_once(':')?;
        let mut bytes = [0u8; 16];
        let words = ip.len() / 8;
        if !ip.is_ascii() || !matches!(ip.len(), 8 | 32) {
            return None;
        }
        for n in 0..words {
            let word = u32::from_str_radix(&ip[8 * n..8 * n + 8], 16).ok()?;
            bytes[4 * n..4 * n + 4].copy_from_slice(&word.to_ne_bytes());
        }
        let ip = match words {
            1 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            _ => IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(),
        };
        Some((ip, u16::from_str_radix(port, 16).ok()?))
    }

    #[derive(Debug, PartialEq, Eq)]
    pub(super) enum Search {
        Found(u32),
        /// Nobody that can be seen; these are of our user and hide what they have open.
        None {
            hidden: Vec<u32>,
        },
        TooMany,
    }

    /// A process that has this socket open, youngest first since callers are young.
    pub(super) fn process_with(socket: u64) -> Search {
        let wanted = format!("socket:[{socket}]");
        let mut pids = numbers_in("/proc");
        pids.sort_unstable_by(|a, b| b.cmp(a));
        let (mut hidden, mut looked) = (Vec::new(), 0);
        for pid in pids {
            match std::fs::read_dir(format!("/proc/{pid}/fd")) {
                Ok(files) => {
                    for file in files.flatten() {
                        looked += 1;
                        let target = std::fs::read_link(file.path());
                        if target.is_ok_and(|target| target.as_os_str() == wanted.as_str()) {
                            return Search::Found(pid);
                        }
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied && is_ours(pid) => {
                    hidden.push(pid);
                }
                Err(_) => {}
            }
            if looked > FILES_MAX {
                return Search::TooMany;
            }
        }
        Search::None { hidden }
    }

    /// Whether it runs as our user: its folder's owner says root if it hides.
    fn is_ours(pid: u32) -> bool {
        let own = our_uid();
        if std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == own) {
            return true;
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        uids.is_some_and(|uids| uids.split_ascii_whitespace().any(|uid| uid.parse() == Ok(own)))
    }

    /// All processes under all agents of this home.
    pub(super) fn below_agents(home: &Home) -> BTreeSet<u32> {
        let holders = home.root().join("holders");
        let pids = numbers_in(holders.to_str().unwrap_or_default());
        let held = pids.into_iter().filter(|pid| ancestry::held_by(home, *pid).is_some());
        held.flat_map(synapse_holder::descendants).collect()
    }

    fn numbers_in(folder: &str) -> Vec<u32> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1FA4 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:C350 0100007F:1FA4 01 00000000:00000000 00:00000000 00000000  1000        0 22 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:1FA4 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 33 1 0000000000000000 20 4 30 10 -1
   3: 0100007F:C351 0100007F:1FA4 04 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 30 10 -1
   4: 0100007F:C352 0100007F:1FA4 01 00000000:00000000 00:00000000 00000000  1001        0 44 1 0000000000000000 20 4 30 10 -1
   5: 0000000000000000FFFF00000100007F:C353 0000000000000000FFFF00000100007F:1FA4 01 00000000:00000000 00:00000000 00000000  1000        0 55 1
   6: 00000000000000000000000001000000:C354 00000000000000000000000001000000:1FA4 01 00000000:00000000 00:00000000 00000000  1000        0 66 1
   7: half a line
";

        #[test]
        #[cfg(target_endian = "little")]
        fn the_other_end_is_found_in_the_kernels_list() {
            let cases = [
                ("127.0.0.1:50000", "127.0.0.1:8100", Row::Socket(22)),
                ("127.0.0.1:50001", "127.0.0.1:8100", Row::Closed),
                ("127.0.0.1:50002", "127.0.0.1:8100", Row::OfUser),
                ("127.0.0.1:50003", "127.0.0.1:8100", Row::Socket(55)),
                ("[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:8100", Row::Socket(22)),
                ("[::1]:50004", "[::1]:8100", Row::Socket(66)),
                ("127.0.0.1:8100", "0.0.0.0:0", Row::Socket(11)),
                ("127.0.0.1:50009", "127.0.0.1:8100", Row::None),
                ("127.0.0.1:50000", "127.0.0.1:8101", Row::None),
            ];
            for (remote, local, row) in cases {
                let found = row_in(TABLE, remote.parse().unwrap(), local.parse().unwrap(), 1000);
                assert_eq!(found, row, "{remote} -> {local}");
            }
        }

        /// The real list, and this very process.
        #[test]
        fn a_connection_of_our_own_is_found_at_our_own_process() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (served, remote) = listener.accept().unwrap();
            let local = served.local_addr().unwrap();
            let Row::Socket(socket) = socket_of(remote, local) else { panic!("not in the list") };
            assert_eq!(process_with(socket), Search::Found(std::process::id()));
            let (port, address) = (remote.port(), client.local_addr().unwrap());
            assert_eq!(port, address.port());
            drop(client);
            assert!(matches!(socket_of(remote, local), Row::Closed | Row::None));
        }

        #[test]
        fn fuzz_the_list_never_panics() {
            let address = "127.0.0.1:1".parse().unwrap();
            bolero::check!().with_type::<String>().for_each(|text: &String| {
                let _ = row_in(&format!("head\n{text}"), address, address, 0);
            });
        }
    }
}
