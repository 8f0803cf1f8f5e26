//! The terminal of an agent: a PTY that lives as long as its program, whoever watches.
//!
//! The holder is the session's leader and keeps the master; the program runs in a process group of its own in
//! the foreground, so job control works as under a shell. Nodes and viewers are clients of a Unix socket; they
//! come and go, and the program notices nothing.
//!
//! Invariants: what the program prints is in the tail or in the last picture, up to a bound that is told when it
//! is passed; a client that does not read is let go, and never stops the others; bytes from several writers are
//! not mixed while one of them has the keyboard.
//! Not here: what the bytes mean (`synapse-terminal`), where the socket is (the caller).

mod clients;
mod desk;
mod gather;
mod kept;
mod rate_limit;
pub mod visitors;
pub mod wire;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetpgrp, tcsetwinsize};

use crate::process::ProcessMark;
use crate::reaper::Death;
use desk::Desk;
use visitors::Doorkeeper;

/// What runs in the terminal.
#[derive(Debug, Clone)]
pub struct Program {
    pub argv: Vec<String>,
    pub folder: PathBuf,
    /// Set, or taken out where there is no value.
    pub env: BTreeMap<String, Option<String>>,
    pub columns: u16,
    pub rows: u16,
}

/// A terminal with its program under way.
pub struct Terminal {
    program: u32,
    orders: Sender<Order>,
    ringer: UnixRinger,
    desk: Option<JoinHandle<()>>,
}

/// What the holder tells the desk.
pub(crate) enum Order {
    /// The program ended so.
    Ended(Death),
    /// The agent is stopped, for this reason; none if somebody asked for it.
    Stopped(String),
    /// The program stopped itself (Ctrl-Z).
    Suspended,
    /// This process is the node, and no other is; none while there is no node.
    Node(Option<ProcessMark>),
}

/// Wakes the desk out of its sleep.
struct UnixRinger(std::os::unix::net::UnixStream);

impl Terminal {
    /// Opens a terminal, starts the program in it, and serves those who connect to `socket` and whom `doorkeeper`
    /// knows.
    ///
    /// This process must be the leader of its session and have no terminal yet.
    pub fn start(program: &Program, socket: UnixListener, doorkeeper: Doorkeeper) -> io::Result<Self> {
        let size = desk::within(program.columns, program.rows);
        let (master, slave) = open(size.0, size.1)?;
        rustix::process::ioctl_tiocsctty(&slave)?;
        let pid = spawn(program, &slave)?;
        let (orders, taken) = channel();
        let (ears, rope) = std::os::unix::net::UnixStream::pair()?;
        // Without our end, the master tells when nobody has the program's side any more.
        drop(slave);
        let desk = Desk::new(master, socket, ears, taken, size, doorkeeper)?;
        let thread = std::thread::Builder::new()
            .name("desk".into())
            .stack_size(DESK_STACK)
            .spawn(move || desk.work())?;
        Ok(Self { program: pid, orders, ringer: UnixRinger(rope), desk: Some(thread) })
    }

    /// The program's process, for whoever reaps.
    pub fn program(&self) -> u32 {
        self.program
    }

    /// The program is dead: the clients hear the rest of its output, and then how it ended.
    pub fn ended(&mut self, death: Death) {
        self.close(Order::Ended(death));
    }

    /// The agent was stopped and its program with it: viewers hear the rest of its output, and that. Does nothing after
    /// `ended`.
    pub fn stopped(&mut self, why: &str) {
        self.close(Order::Stopped(why.to_owned()));
    }

    fn close(&mut self, order: Order) {
        if let Some(desk) = self.desk.take() {
            self.order(order);
            let _ = desk.join();
        }
    }

    /// The holder has started this process as its node, or has none.
    pub fn node_is(&self, node: Option<ProcessMark>) {
        self.order(Order::Node(node));
    }

    pub fn suspended(&self) {
        self.order(Order::Suspended);
    }

    fn order(&self, order: Order) {
        use std::io::Write as _;
        if self.orders.send(order).is_ok() {
            let _ = (&self.ringer.0).write(b"!");
        }
    }
}

/// Enough for a few small buffers; the rest is on the heap.
const DESK_STACK: usize = 128 << 10;

fn open(columns: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    // In a second step, since not every system can do both at once; nothing is started meanwhile.
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty())?;
    tcsetwinsize(&slave, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((master, slave))
}

fn spawn(program: &Program, slave: &OwnedFd) -> io::Result<u32> {
    let Some((name, args)) = program.argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program is named"));
    };
    let end = || slave.try_clone().map(Stdio::from);
    let mut command = Command::new(name);
    command.args(args).current_dir(&program.folder).stdin(end()?).stdout(end()?).stderr(end()?);
    for (variable, value) in &program.env {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    let child = crate::cores::spawn(command.process_group(0))?;
    let pid = child.id();
    // In front: keys and their signals are the program's. It may have begun to read already and been stopped for
    // it; it is then told to go on.
    if let Some(group) = crate::os::pid_of(pid) {
        tcsetpgrp(slave, group)?;
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::CONT);
    }
    Ok(pid)
}

pub(crate) type Orders = Receiver<Order>;
