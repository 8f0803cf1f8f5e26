//! Reads `/proc`: which socket a connection belongs to, which processes have it open, and who runs
//! below an agent.
//!
//! Invariant: if a system limit prevents a lookup, the lookup returns that limit. What was not seen
//! for lack of file descriptors is never treated as absent.
//! Not here: the conclusions (`owner`).

use super::ancestry::{self, Unreadable};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use synapse_holder::SystemLimit;
use synapse_store::files::our_uid;
use synapse_store::home::Home;

/// The other end of a connection in the kernel's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// The inode of its socket, and the user who owns it.
    Socket {
        inode: u64,
        uid: u32,
    },
    /// No process has it any more.
    Closed,
    /// More than one socket has these addresses. The kernel allows that if they are bound to
    /// different devices.
    Several,
    None,
    /// The list is missing, as in some strict sandboxes, or too long.
    Unreadable,
}

impl Row {
    /// A row may be listed twice while others change.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, row) | (row, Self::None) => row,
            (first, second) if first == second => first,
            _ => Self::Several,
        }
    }
}

/// The maximum number of connections read from a list.
const ROWS_MAX: usize = 2 << 20;
/// The maximum number of open files that one lookup checks.
const FILES_MAX: usize = 500_000;

/// Whether the addresses prove that the other end is on this machine. No other machine can reach
/// loopback.
pub(super) fn is_near(remote: SocketAddr, local: SocketAddr) -> bool {
    let (from, to) = (remote.ip().to_canonical(), local.ip().to_canonical());
    from.is_loopback() || to.is_loopback() || from == to || is_own_address(remote)
}

/// Whether this machine has that address: only then a socket can be bound to it, unless the system
/// allows every address. If the check is impossible, the answer is yes.
fn is_own_address(mut address: SocketAddr) -> bool {
    address.set_port(0);
    address.set_ip(address.ip().to_canonical());
    let version = if address.is_ipv4() { "ipv4" } else { "ipv6" };
    let allows_all = || {
        let setting = std::fs::read_to_string(format!("/proc/sys/net/{version}/ip_nonlocal_bind"));
        setting.is_ok_and(|value| value.trim() != "0")
    };
    match UdpSocket::bind(address) {
        Ok(_) => !allows_all(),
        Err(error) => error.kind() != ErrorKind::AddrNotAvailable,
    }
}

pub(super) fn socket_of(remote: SocketAddr, local: SocketAddr) -> Result<Row, SystemLimit> {
    let mut found = Row::Unreadable;
    // An IPv6 socket may carry IPv4, and is then only in the IPv6 list.
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let row = match SystemLimit::check(std::fs::File::open(table))? {
            Ok(file) => row_in(BufReader::with_capacity(64 << 10, file), remote, local),
            // A system may lack one of the protocols.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(_) => Row::Unreadable,
        };
        found = match (found, row) {
            (_, Row::Unreadable) => return Ok(Row::Unreadable),
            (Row::Unreadable, row) => row,
            (first, row) => first.or(row),
        };
    }
    Ok(found)
}

/// Reads all rows of the list, since a second socket may have the same addresses.
pub(super) fn row_in(mut table: impl BufRead, remote: SocketAddr, local: SocketAddr) -> Row {
    let plain = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    let (remote, local) = (plain(remote), plain(local));
    let (mut found, mut line) = (Row::None, String::new());
    for _ in 0..ROWS_MAX {
        line.clear();
        match table.read_line(&mut line) {
            Ok(0) => return found,
            Ok(_) => found = found.or(row_of(&line, remote, local).unwrap_or(Row::None)),
            Err(_) => return Row::Unreadable,
        }
    }
    Row::Unreadable
}

/// Parses one line; returns `None` if it is about other addresses.
fn row_of(line: &str, remote: (IpAddr, u16), local: (IpAddr, u16)) -> Option<Row> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if address(words.next()?)? != remote || address(words.next()?)? != local {
        return None;
    }
    let (uid, inode) = (words.nth(4)?, words.nth(1)?);
    Some(match (inode.parse(), uid.parse::<u32>()) {
        (Ok(0) | Err(_), _) | (_, Err(_)) => Row::Closed,
        (Ok(inode), Ok(uid)) => Row::Socket { inode, uid },
    })
}

/// Parses `0100007F:1FA4`: words of four bytes in the CPU's byte order, then the port.
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

/// A process that has a socket open, and its descriptor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pid: u32,
    descriptor: PathBuf,
    socket: u64,
}

impl Place {
    pub(super) fn is_current(&self) -> bool {
        std::fs::read_link(&self.descriptor).is_ok_and(|target| is_socket(&target, self.socket))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// All processes that have it open.
    Found(Vec<Place>),
    /// No visible process has it; the `hidden` ones are of our user and conceal their open files.
    None {
        hidden: Vec<u32>,
    },
    TooMany,
}

/// Returns all processes, youngest first.
pub(super) fn all_processes() -> Result<Vec<u32>, SystemLimit> {
    let mut pids = numbers_in("/proc")?;
    pids.sort_unstable_by(|a, b| b.cmp(a));
    Ok(pids)
}

/// Finds which of these processes have the socket open. Checks their threads only if no process
/// lists it.
pub(super) fn search(pids: &[u32], socket: u64) -> Result<Search, SystemLimit> {
    let (mut found, mut hidden, mut looked) = (Vec::new(), Vec::new(), 0);
    for pid in pids {
        match files_of(&format!("/proc/{pid}/fd"), socket, &mut looked)? {
            Ok(Some(descriptor)) => found.push(Place { pid: *pid, descriptor, socket }),
            Err(e) if e.kind() == ErrorKind::PermissionDenied && is_ours(*pid)? => hidden.push(*pid),
            Ok(None) | Err(_) => {}
        }
        if looked > FILES_MAX {
            return Ok(Search::TooMany);
        }
    }
    if !found.is_empty() {
        return Ok(Search::Found(found));
    }
    // A thread can have separate open files (`unshare(CLONE_FILES)`) that its process does not
    // list.
    for pid in pids {
        let threads = format!("/proc/{pid}/task");
        for thread in numbers_in(&threads)?.into_iter().filter(|thread| thread != pid) {
            let descriptor = files_of(&format!("{threads}/{thread}/fd"), socket, &mut looked)?;
            if let Ok(Some(descriptor)) = descriptor {
                found.push(Place { pid: *pid, descriptor, socket });
            }
            if looked > FILES_MAX {
                return Ok(Search::TooMany);
            }
        }
    }
    Ok(if found.is_empty() { Search::None { hidden } } else { Search::Found(found) })
}

/// Returns the descriptor of this socket among the open files in a folder of `/proc`.
fn files_of(
    folder: &str,
    socket: u64,
    looked: &mut usize,
) -> Result<std::io::Result<Option<PathBuf>>, SystemLimit> {
    let files = match SystemLimit::check(std::fs::read_dir(folder))? {
        Ok(files) => files,
        Err(error) => return Ok(Err(error)),
    };
    for file in files.flatten() {
        *looked += 1;
        let path = file.path();
        if std::fs::read_link(&path).is_ok_and(|target| is_socket(&target, socket)) {
            return Ok(Ok(Some(path)));
        }
    }
    Ok(Ok(None))
}

fn is_socket(target: &Path, socket: u64) -> bool {
    let number = target.to_str().and_then(|target| target.strip_prefix("socket:[")?.strip_suffix(']'));
    number.is_some_and(|number| number.parse() == Ok(socket))
}

/// Whether a process runs as our user. The owner of its folder is root if it conceals itself.
fn is_ours(pid: u32) -> Result<bool, SystemLimit> {
    let own = our_uid();
    let is_owner = std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == own);
    Ok(is_owner || runs_as(pid, own)?)
}

/// Whether a process under an agent can run as this other user, or make its socket one of that user
/// (`fchown`). Considers the living processes, their user namespaces, and the namespaces they could
/// have created.
pub(super) fn can_act_as(below: &BTreeSet<u32>, uid: u32) -> Result<bool, SystemLimit> {
    if below.is_empty() {
        return Ok(false);
    }
    if may("/etc/subuid".to_owned(), |ranges| lends(ranges, uid))? {
        return Ok(true);
    }
    for pid in below {
        if runs_as(*pid, uid)? || maps(*pid, uid)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether this process is in another user namespace than we are, and that namespace maps the user.
fn maps(pid: u32, uid: u32) -> Result<bool, SystemLimit> {
    let path = format!("/proc/{pid}/uid_map");
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user"));
    let is_ours = match (namespace("self"), namespace(&pid.to_string())) {
        (Ok(own), Ok(other)) => own == other,
        // A process that conceals itself still shows its map.
        _ => {
            let map = |path: &str| SystemLimit::check(std::fs::read(path));
            map("/proc/self/uid_map")?.ok() == map(&path)?.ok()
        }
    };
    Ok(!is_ours && may(path, |map| is_mapped(map, uid))?)
}

/// Whether a `uid_map` maps this user of ours: rows of the first id inside, the first id outside,
/// and their number.
fn is_mapped(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().skip(1);
        is_in_range(numbers.next(), numbers.next(), uid)
    })
}

/// Whether `/etc/subuid` grants this user to anybody: rows of `name:first:count`.
fn lends(ranges: &str, uid: u32) -> bool {
    ranges.lines().any(|line| {
        let mut parts = line.split(':').skip(1);
        is_in_range(parts.next(), parts.next(), uid)
    })
}

fn is_in_range(first: Option<&str>, count: Option<&str>, uid: u32) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<u64>().ok());
    let (Some(first), Some(count)) = (number(first), number(count)) else { return false };
    (first..first.saturating_add(count)).contains(&uid.into())
}

pub(super) fn runs_as(pid: u32, uid: u32) -> Result<bool, SystemLimit> {
    let status = text_of(&format!("/proc/{pid}/status"))?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    Ok(uids.is_some_and(|uids| uids.split_ascii_whitespace().any(|found| found.parse() == Ok(uid))))
}

/// Reads a file; returns an empty text if it cannot be read.
fn text_of(path: &str) -> Result<String, SystemLimit> {
    Ok(SystemLimit::check(std::fs::read_to_string(path))?.unwrap_or_default())
}

/// Whether this is a process of the SSH server, judged by its name and by a parent that runs as
/// root.
pub(super) fn forwards(pid: u32) -> Result<bool, SystemLimit> {
    let name = text_of(&format!("/proc/{pid}/comm"))?;
    if !matches!(name.trim_end(), "sshd" | "sshd-session") {
        return Ok(false);
    }
    synapse_holder::parent_of(pid).map_or(Ok(false), |parent| runs_as(parent, 0))
}

/// Whether one of these may have the socket although it is not among its open files: sent and not
/// yet received, registered with the kernel, or mapped. A process that cannot be inspected may have
/// it.
pub(super) fn can_hide(below: &BTreeSet<u32>, socket: u64) -> Result<bool, SystemLimit> {
    let mapped = format!("socket:[{socket}]");
    for pid in below {
        let Ok(files) = SystemLimit::check(std::fs::read_dir(format!("/proc/{pid}/fd")))? else {
            return Ok(true);
        };
        if may(format!("/proc/{pid}/maps"), |maps| maps.contains(&mapped))? {
            return Ok(true);
        }
        for file in files.flatten() {
            let number = file.file_name();
            let target = std::fs::read_link(file.path()).unwrap_or_default();
            if target.as_os_str() == "anon_inode:[io_uring]"
                || may(format!("/proc/{pid}/fdinfo/{}", number.display()), sends_files)?
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether `holds` is true for the text of a file, or the file exists but cannot be read.
fn may(path: String, holds: impl Fn(&str) -> bool) -> Result<bool, SystemLimit> {
    Ok(match SystemLimit::check(std::fs::read_to_string(path))? {
        Ok(text) => holds(&text),
        Err(error) => error.kind() != ErrorKind::NotFound,
    })
}

/// Whether descriptors wait in this Unix socket to be received.
fn sends_files(about: &str) -> bool {
    let count = about.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    count.is_some_and(|count| count.trim() != "0")
}

/// Returns all processes under all agents of this home.
pub(super) fn below_agents(home: &Home) -> Result<BTreeSet<u32>, Unreadable> {
    let mut below = BTreeSet::new();
    for holder in ancestry::holders(home)? {
        below.extend(synapse_holder::check_descendants(holder)?);
    }
    Ok(below)
}

fn numbers_in(folder: &str) -> Result<Vec<u32>, SystemLimit> {
    let entries = SystemLimit::check(std::fs::read_dir(folder))?.into_iter().flatten().flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Kin;
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
        let own = |inode| Row::Socket { inode, uid: 1000 };
        let cases = [
            ("127.0.0.1:50000", "127.0.0.1:8100", own(22)),
            ("127.0.0.1:50001", "127.0.0.1:8100", Row::Closed),
            ("127.0.0.1:50002", "127.0.0.1:8100", Row::Socket { inode: 44, uid: 1001 }),
            ("127.0.0.1:50003", "127.0.0.1:8100", own(55)),
            ("[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:8100", own(22)),
            ("[::1]:50004", "[::1]:8100", own(66)),
            ("127.0.0.1:8100", "0.0.0.0:0", own(11)),
            ("127.0.0.1:50009", "127.0.0.1:8100", Row::None),
            ("127.0.0.1:50000", "127.0.0.1:8101", Row::None),
        ];
        for (remote, local, row) in cases {
            let found = row_in(TABLE.as_bytes(), remote.parse().unwrap(), local.parse().unwrap());
            assert_eq!(found, row, "{remote} -> {local}");
        }
    }

    /// Finding M5: a long list is read to its end. An endless one counts as missing.
    #[test]
    #[cfg(target_endian = "little")]
    fn row_behind_many_others_is_found() {
        let [head, other, wanted] = [0, 1, 2].map(|n| TABLE.lines().nth(n).unwrap());
        let long = format!("{head}\n{}{wanted}\n", format!("{other}{}\n", " ".repeat(30)).repeat(120_000));
        assert!(long.len() > 16 << 20, "longer than what was read of it");
        let (remote, local) = ("127.0.0.1:50000".parse().unwrap(), "127.0.0.1:8100".parse().unwrap());
        assert_eq!(row_in(long.as_bytes(), remote, local), Row::Socket { inode: 22, uid: 1000 });
        let endless = BufReader::new(std::io::repeat(b'\n'));
        assert_eq!(row_in(endless, remote, local), Row::Unreadable);
    }

    /// Finding M5: an agent's second socket with the same addresses cannot be taken for the one
    /// that calls.
    #[test]
    #[cfg(target_endian = "little")]
    fn two_sockets_with_the_same_addresses_are_not_told_apart() {
        let (remote, local) = ("127.0.0.1:50000".parse().unwrap(), "127.0.0.1:8100".parse().unwrap());
        let [head, row] = [0, 2].map(|n| TABLE.lines().nth(n).unwrap());
        let connecting = row.replace(" 01 ", " 02 ").replace(" 22 ", " 23 ");
        for (rows, expected) in [
            (vec![row, row], Row::Socket { inode: 22, uid: 1000 }),
            (vec![&connecting, row], Row::Several),
            (vec![row, &connecting, row], Row::Several),
        ] {
            let table = format!("{head}\n{}\n", rows.join("\n"));
            assert_eq!(row_in(table.as_bytes(), remote, local), expected, "{table}");
        }
    }

    /// Finding M5: a caller on this machine counts as local, whichever of its addresses it calls
    /// from.
    #[test]
    fn callers_from_any_address_of_this_machine_are_near() {
        let near = |remote: &str, local: &str| is_near(remote.parse().unwrap(), local.parse().unwrap());
        assert!(near("127.0.0.1:5", "127.0.0.1:1") && near("[::ffff:127.0.0.1]:5", "[::]:1"));
        assert!(near("203.0.113.9:5", "127.0.0.1:1") && near("[2001:db8::1]:5", "[::1]:1"));
        assert!(near("203.0.113.9:5", "[::ffff:203.0.113.9]:1"));
        assert!(!near("203.0.113.9:5", "203.0.113.8:1") && !near("[2001:db8::1]:5", "[2001:db8::2]:1"));
        // The address from which this machine calls others, if it has a route to others.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("203.0.113.9:9").is_ok() {
            let own = socket.local_addr().unwrap();
            assert!(is_near(own, "203.0.113.8:1".parse().unwrap()), "{own}");
        }
    }

    /// With the kernel's real list and this process.
    #[test]
    fn a_connection_of_our_own_is_found_at_our_own_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, remote) = listener.accept().unwrap();
        let local = served.local_addr().unwrap();
        let Row::Socket { inode: socket, uid } = socket_of(remote, local).unwrap() else {
            panic!("not in the list")
        };
        assert_eq!(uid, our_uid());
        let Search::Found(places) = search(&all_processes().unwrap(), socket).unwrap() else {
            panic!("not found")
        };
        let place = places.iter().find(|place| place.pid == std::process::id()).unwrap();
        assert!(place.is_current());
        let (port, address) = (remote.port(), client.local_addr().unwrap());
        assert_eq!(port, address.port());
        drop(client);
        assert!(!place.is_current());
        assert!(matches!(socket_of(remote, local), Ok(Row::Closed | Row::None)));
    }

    /// Finding M5: an agent that has the socket is the owner, whoever else has it.
    #[test]
    fn agents_decide_before_the_person() {
        use super::super::{Owner, decide};
        let agent = synapse_core::ids::AgentId::parse(&"ab".repeat(32)).unwrap();
        let (under, agents) = (Kin::Under(vec![agent]), Some(Owner::Agents(vec![agent])));
        let limit = SystemLimit::OpenFiles;
        let (limited, at_limit) = (Kin::Limited(limit), Some(Owner::Limited(limit)));
        for (kins, expected) in [
            (vec![Kin::Person], Some(Owner::Person)),
            (vec![Kin::Person, under.clone()], agents.clone()),
            (vec![Kin::Gone, Kin::Person, under.clone()], agents.clone()),
            (vec![Kin::Person, Kin::Gone], None),
            (vec![Kin::Person, limited.clone(), Kin::Gone], at_limit.clone()),
            (vec![Kin::Gone, limited.clone()], at_limit),
            (vec![limited, under], agents),
        ] {
            assert_eq!(decide(kins.clone().into_iter()), expected, "{kins:?}");
        }
    }

    /// Finding M5: a thread keeps a socket in its separate open files, and its process does not
    /// list it.
    #[test]
    #[allow(unsafe_code)]
    fn socket_of_a_thread_is_found() {
        use std::sync::mpsc::channel;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, remote) = listener.accept().unwrap();
        let row = socket_of(remote, served.local_addr().unwrap()).unwrap();
        let Row::Socket { inode: socket, .. } = row else { panic!("{row:?}") };
        let ((apart, is_apart), (end, is_over)) = (channel(), channel::<()>());
        let thread = std::thread::spawn(move || {
            // SAFETY: from here on this thread only waits, so it uses no descriptor of the others.
            apart.send(unsafe { libc::unshare(libc::CLONE_FILES) }).unwrap();
            let _ = is_over.recv();
        });
        assert_eq!(is_apart.recv(), Ok(0));
        drop(client);
        let own = std::process::id();
        let Search::Found(places) = search(&[own], socket).unwrap() else { panic!("not found") };
        assert!(places.iter().all(|place| place.pid == own && place.is_current()), "{places:?}");
        drop(end);
        thread.join().unwrap();
    }

    /// A connection that is shared by a process under an agent and a younger one of the person.
    struct Shared {
        root: tempfile::TempDir,
        agent: synapse_core::ids::AgentId,
        client: std::net::TcpStream,
        served: std::net::TcpStream,
        started: [std::process::Child; 2],
    }

    impl Shared {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let served = listener.accept().unwrap().0;
            let start = |script| {
                let copy = std::os::fd::OwnedFd::from(client.try_clone().unwrap());
                std::process::Command::new("sh").args(["-c", script]).stdin(copy).spawn().unwrap()
            };
            // The first shell is the holder; its child waits for the end of the connection.
            let holder = start("cat; :");
            let agent = synapse_core::ids::AgentId::parse(&"ab".repeat(32)).unwrap();
            while synapse_holder::descendants(holder.id()).is_empty() {
                std::thread::yield_now();
            }
            let person = start("exec cat");
            let shared = Self { root, agent, client, served, started: [holder, person] };
            let (home, holder) = (shared.home(), shared.started[0].id());
            home.agent(&agent).ensure().unwrap();
            synapse_store::holders::note(&home, holder, &agent).unwrap();
            let mark = synapse_holder::ProcessMark::of(holder).unwrap();
            let lock = home.agent(&agent).path().join("holder.lock");
            std::fs::write(lock, serde_json::to_vec(&mark).unwrap()).unwrap();
            shared
        }

        fn home(&self) -> Home {
            Home::at(self.root.path().join("home"), self.root.path().join("registry"))
        }

        fn owner(&self) -> super::super::Owner {
            let (remote, local) = (self.served.peer_addr().unwrap(), self.served.local_addr().unwrap());
            super::super::of(&self.home(), remote, local)
        }
    }

    impl Drop for Shared {
        fn drop(&mut self) {
            let _ = self.served.shutdown(std::net::Shutdown::Both);
            for child in &mut self.started {
                let _ = child.wait();
            }
        }
    }

    /// Finding M5: a process under an agent keeps its connection and gives a copy to a process of
    /// the person.
    #[test]
    fn shared_connection_is_the_agents() {
        use super::super::Owner;
        let shared = Shared::new();
        assert_eq!(shared.owner(), Owner::Agents(vec![shared.agent]));
        // Finding M5: an agent that may change the socket's user gains nothing by it.
        if std::os::unix::fs::fchown(&shared.client, Some(our_uid() + 1), None).is_ok() {
            assert_eq!(shared.owner(), Owner::Agents(vec![shared.agent]));
        }
    }

    /// Finding M5: an agent in a user namespace can make its socket one of any user that is mapped
    /// there.
    #[test]
    fn users_of_namespaces_are_known() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        for (uid, expected) in [(0, false), (1000, true), (1001, false), (100_000, true), (165_536, false)] {
            assert_eq!(is_mapped(map, uid), expected, "{uid}");
        }
        assert!(is_mapped("0 0 4294967295", 7) && !is_mapped("x\n0 1\n0 y 1\n", 1));
        let ranges = "# comment\nme:100000:65536\n1001:300000:10\nhalf:5\n:::\nbig:9:18446744073709551615\n";
        for (uid, expected) in [(5, false), (8, false), (9, true), (100_000, true)] {
            assert_eq!(lends(ranges, uid), expected, "{uid}");
        }
        assert!(lends("me:100000:65536", 165_535) && !lends("me:100000:65536", 165_536));
    }

    /// Finding M5: a process in our own namespace cannot become the users it maps, which may be all
    /// users.
    #[test]
    fn own_namespace_lends_no_users() {
        let own = std::process::id();
        assert!(!maps(own, our_uid() + 1).unwrap() && !can_act_as(&BTreeSet::new(), our_uid() + 1).unwrap());
        assert!(can_act_as(&BTreeSet::from([own]), our_uid()).unwrap());
    }

    /// Finding M5: a socket in flight through another socket is in no process, and the other socket
    /// shows that.
    #[test]
    fn descriptors_in_flight_are_seen() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        use std::os::fd::{AsFd as _, AsRawFd as _};
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let about = |of: &std::os::unix::net::UnixStream| {
            std::fs::read_to_string(format!("/proc/self/fdinfo/{}", of.as_raw_fd())).unwrap()
        };
        assert!(!sends_files(&about(&theirs)));
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sent = [ours.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
        let text = [std::io::IoSlice::new(b"x")];
        sendmsg(&ours, &text, &mut control, SendFlags::empty()).unwrap();
        assert!(sends_files(&about(&theirs)), "{}", about(&theirs));
    }

    /// Finding M5: a socket of our own user that no process has is nobody's, whatever secret comes
    /// over it.
    #[test]
    fn connection_in_flight_is_nobodys() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        use std::os::fd::AsFd as _;
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, remote) = listener.accept().unwrap();
        let local = served.local_addr().unwrap();
        assert_eq!(super::super::of(&home, remote, local), super::super::Owner::Person);
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sent = [client.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
        sendmsg(&ours, &[std::io::IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        drop(client);
        let found = super::super::of(&home, remote, local);
        assert!(matches!(found, super::super::Owner::Nobody(_)), "{found:?}");
    }

    #[test]
    fn fuzz_the_list_never_panics() {
        let address = "127.0.0.1:1".parse().unwrap();
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let _ = row_in(format!("head\n{text}").as_bytes(), address, address);
        });
    }
}
