//! A terminal for tests: a program runs in it, keys go in, and what it shows is waited for.
//!
//! It answers what every terminal answers (its attributes), and its colours if it is told to. It can hang, and it can
//! vanish as a window that is closed.

use crate::mock_llm::now_ms;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A program in a terminal of its own.
pub struct Pty {
    master: Option<File>,
    child: Child,
    shown: Arc<(Mutex<Shown>, Condvar)>,
    reader: Option<JoinHandle<()>>,
    /// Wakes the reader.
    rope: UnixStream,
}

#[derive(Default)]
struct Shown {
    bytes: Vec<u8>,
    /// When each piece of the bytes came, and how long it is.
    pieces: Vec<(u64, usize)>,
    is_closed: bool,
    /// Reads nothing more, as a terminal that hangs.
    is_stuck: bool,
    is_over: bool,
}

/// What this terminal says when it is asked for its colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// Nothing, as many do.
    Silent,
    /// Text of `010203` on `fdf6e3`.
    Light,
    /// These: of text and of the background, as red, green and blue.
    Own([u8; 3], [u8; 3]),
}

impl Colours {
    fn known(self) -> Option<([u8; 3], [u8; 3])> {
        match self {
            Self::Silent => None,
            Self::Light => Some(([1, 2, 3], [0xfd, 0xf6, 0xe3])),
            Self::Own(text, background) => Some((text, background)),
        }
    }
}

impl Pty {
    /// Starts it as a shell would: the terminal is its own, so signals of the terminal reach it.
    pub fn start(program: &Command, columns: u16, rows: u16) -> Self {
        Self::coloured(program, columns, rows, Colours::Silent)
    }

    pub fn coloured(program: &Command, columns: u16, rows: u16, colours: Colours) -> Self {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("TERM", "xterm-256color");
        if let Some(folder) = program.get_current_dir() {
            command.current_dir(folder);
        }
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("its grant");
        unlockpt(&master).expect("its lock");
        let name = rustix::pty::ptsname(&master, Vec::new()).expect("its name");
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("its other end");
        resize(&master, columns, rows);
        let end = || Stdio::from(slave.try_clone().expect("a copy"));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts");
        drop((command, slave));
        let shown: Arc<(Mutex<Shown>, Condvar)> = Arc::default();
        let (from, to) = (File::from(master.try_clone().expect("a copy")), shown.clone());
        let (rope, ears) = UnixStream::pair().expect("a rope");
        let reader = std::thread::spawn(move || serve(from, &ears, &to, colours));
        Self { master: Some(File::from(master)), child, shown, reader: Some(reader), rope }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn master(&self) -> &File {
        self.master.as_ref().expect("the terminal is there")
    }

    pub fn keys(&mut self, keys: &str) {
        self.master().write_all(keys.as_bytes()).expect("keys go in");
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        resize(self.master(), columns, rows);
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was shown, colours and all.
    pub fn text(&self) -> String {
        text(&self.shown().bytes)
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.shown().bytes.clone()
    }

    /// The same in the pieces in which it came, each with its time in milliseconds since 1970.
    pub fn pieces(&self) -> Vec<(u64, Vec<u8>)> {
        let shown = self.shown();
        let mut rest = &shown.bytes[..];
        let piece = |&(at_ms, length): &(u64, usize)| Some((at_ms, rest.split_off(..length)?.to_vec()));
        shown.pieces.iter().filter_map(piece).collect()
    }

    /// Forgets what was shown, so that a wait is for what comes.
    pub fn forget(&self) {
        let mut shown = self.shown();
        shown.bytes.clear();
        shown.pieces.clear();
    }

    /// From now on it reads nothing, as a terminal that hangs.
    pub fn stick(&self) {
        self.shown().is_stuck = true;
    }

    pub fn go_on(&self) {
        self.shown().is_stuck = false;
        self.shown.1.notify_all();
    }

    /// Whether it hands on every key as it is, and does not show what is typed.
    pub fn is_raw(&self) -> bool {
        let mode = tcgetattr(self.master()).expect("a mode");
        !mode.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// The terminal vanishes, as a window that is closed.
    pub fn vanish(&mut self) {
        self.shown().is_over = true;
        self.shown.1.notify_all();
        let _ = (&self.rope).write(b"!");
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.master = None;
    }

    /// Waits until `part` has been shown.
    pub fn wait_for(&self, part: &str) {
        // Only what is new is looked at: a flood is long.
        let mut from = 0;
        self.wait_until(&format!("{part:?} is shown"), |bytes| {
            let found = text(&bytes[from..]).contains(part);
            from = bytes.len().saturating_sub(part.len());
            if found { Ok(()) } else { Err(String::new()) }
        });
    }

    /// Waits until what was shown is as wished; says instead what is there.
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut(&[u8]) -> Result<(), String>) {
        let began = Instant::now();
        let mut shown = self.shown();
        while let Err(instead) = holds(&shown.bytes) {
            let left = PATIENCE.saturating_sub(began.elapsed());
            if left.is_zero() || shown.is_closed {
                let instead = if instead.is_empty() { format!("{:?}", text(&shown.bytes)) } else { instead };
                panic!("not within {PATIENCE:?}: {what}; shown:\n{instead}");
            }
            shown = self.shown.1.wait_timeout(shown, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the program has ended.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("its end");
        // What it printed last may still be on its way.
        let began = Instant::now();
        let mut shown = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !shown.is_closed && began.elapsed() < PATIENCE {
            shown = self.shown.1.wait_timeout(shown, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        let text = text(&shown.bytes);
        drop(shown);
        (status, text)
    }

    /// Waits until the program has ended, whatever else still has the terminal.
    pub fn status(&mut self) -> ExitStatus {
        self.child.wait().expect("its end")
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.shown().is_over = true;
        self.shown.1.notify_all();
        let _ = (&self.rope).write(b"!");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Shows what comes, until the terminal is over.
fn serve(mut master: File, ears: &UnixStream, to: &(Mutex<Shown>, Condvar), colours: Colours) {
    let lock = || to.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut buffer = [0; 16 << 10];
    loop {
        let mut shown = lock();
        while shown.is_stuck && !shown.is_over {
            shown = to.1.wait(shown).unwrap_or_else(PoisonError::into_inner);
        }
        if shown.is_over {
            break;
        }
        drop(shown);
        let mut fds = [PollFd::new(&master, PollFlags::IN), PollFd::new(ears, PollFlags::IN)];
        if poll(&mut fds, None).is_err() || fds[0].revents().is_empty() {
            continue;
        }
        let Ok(read @ 1..) = master.read(&mut buffer) else { break };
        answer(&mut master, &buffer[..read], colours);
        let mut shown = lock();
        shown.bytes.extend_from_slice(&buffer[..read]);
        shown.pieces.push((now_ms(), read));
        drop(shown);
        to.1.notify_all();
    }
    lock().is_closed = true;
    to.1.notify_all();
}

/// Only questions that come in one piece: ours do.
fn answer(master: &mut File, bytes: &[u8], colours: Colours) {
    let asks = |question: &[u8]| bytes.windows(question.len()).any(|some| some == question);
    let mut said = Vec::new();
    if let Some((text, background)) = colours.known() {
        for (number, [r, g, b]) in [(10, text), (11, background)] {
            if asks(format!("\x1b]{number};?").as_bytes()) {
                let answer = format!("\x1b]{number};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}\x1b\\");
                said.extend_from_slice(answer.as_bytes());
            }
        }
    }
    if asks(b"\x1b[c") {
        said.extend_from_slice(b"\x1b[?62;22c");
    }
    let _ = master.write_all(&said);
}

fn resize(master: &impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).expect("a size");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_was_shown_since_it_was_forgotten() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; read -r line; echo two"]);
        let mut pty = Pty::start(&command, 20, 5);
        pty.wait_for("one\r\n");
        pty.forget();
        let began = now_ms();
        pty.keys("\r");
        pty.wait_for("two\r\n");
        let pieces = pty.pieces();
        assert_eq!(pieces.iter().flat_map(|(_, bytes)| bytes).copied().collect::<Vec<_>>(), pty.bytes());
        assert!(!pty.text().contains("one") && pieces.iter().all(|(at_ms, _)| *at_ms >= began), "{pieces:?}");
    }

    #[test]
    fn colours_are_told_when_they_are_asked_for() {
        const ASK: &str =
            r"stty raw -echo; printf '\033]10;?\033\\\033[c'; dd bs=1 count=25 2>/dev/null | od -c";
        let mut command = Command::new("sh");
        command.args(["-c", ASK]);
        let pty = Pty::coloured(&command, 80, 24, Colours::Own([1, 2, 0xff], [0, 0, 0]));
        pty.wait_for("r   g   b   :   0   1   0   1   /   0");
    }
}
