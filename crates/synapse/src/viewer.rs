//! The viewer: brings an agent's terminal to this one, and the keys of this one to it.
//!
//! It holds nothing: closing it, losing it or killing it changes nothing for the agent. Queries of the program are
//! taken out of what is shown, since they are answered already.
//! Not here: which agent (`cli::attach`), the terminal itself (`synapse-holder`).

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTERM, SIGWINCH};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use synapse_holder::terminal::wire::{Ask, Frames, Role, Tell, receive, send};
use synapse_store::home::socket_address;
use synapse_terminal::{LEAVE, LEAVE_ALTERNATE, Strip};

/// How a look at a terminal ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    /// The person went away; the agent goes on.
    Detached,
    /// The program ended: exit code, or 128 and the signal.
    Ended(i32),
    /// Whoever holds the terminal is gone, or let us go.
    Lost,
}

/// Ctrl-b, as in tmux; then `d` detaches and another Ctrl-b is a Ctrl-b.
const PREFIX: u8 = 0x02;

/// Shows the terminal behind `socket` until something ends it.
pub fn view(socket: &Path, role: Role) -> io::Result<Left> {
    let stream = connect(socket)?;
    let raw = Raw::enter()?;
    let writer = Arc::new(Mutex::new(stream.try_clone()?));
    hello(&writer, role)?;
    let gone = Arc::new(AtomicBool::new(false));
    let keys = Keys { writer: writer.clone(), gone: gone.clone(), stream: stream.try_clone()? };
    std::thread::Builder::new().name("keys".into()).spawn(move || keys.work())?;
    watch_signals(writer.clone(), gone.clone(), stream.try_clone()?)?;
    let left = show(stream, &writer, &raw, &gone);
    drop(raw);
    left
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let (address, _guard) = socket_address(socket).map_err(io::Error::other)?;
    UnixStream::connect(address)
}

type Writer = Arc<Mutex<UnixStream>>;

fn ask(writer: &Writer, ask: &Ask) -> io::Result<()> {
    send(&mut *writer.lock().unwrap_or_else(PoisonError::into_inner), ask)
}

fn window() -> (u16, u16) {
    tcgetwinsize(io::stdout()).map_or((80, 24), |size| (size.ws_col, size.ws_row))
}

fn hello(writer: &Writer, role: Role) -> io::Result<()> {
    let (columns, rows) = window();
    ask(writer, &Ask::Hello { role, columns, rows })
}

fn show(mut stream: UnixStream, writer: &Writer, raw: &Raw, gone: &AtomicBool) -> io::Result<Left> {
    // Not through `stdout`: it would cut every piece in two at its last line end.
    let (mut frames, mut strip, mut shown) = (Frames::default(), Strip::default(), Vec::new());
    let mut is_fresh = true;
    let mut out = std::fs::File::from(rustix::io::dup(rustix::stdio::stdout())?);
    loop {
        let Some(tell) = receive(&mut stream, &mut frames)? else {
            return Ok(if gone.load(Ordering::SeqCst) { Left::Detached } else { Left::Lost });
        };
        match tell {
            Tell::Picture(bytes) | Tell::Output(bytes) => {
                shown.clear();
                strip.pass(&bytes, &mut shown);
                raw.on_alternate.store(strip.on_alternate(), Ordering::SeqCst);
                out.write_all(&shown)?;
            }
            Tell::Suspended => {
                raw.suspend()?;
                ask(writer, &Ask::Continue)?;
                ask(writer, &Ask::Repaint)?;
            }
            Tell::Ended { code, signaled } => {
                return Ok(Left::Ended(if signaled { 128 + code } else { code }));
            }
            // Again: we were behind, and everything is drawn anew.
            Tell::Welcome { .. } => {
                out.write_all(if strip.on_alternate() { LEAVE_ALTERNATE } else { "" }.as_bytes())?;
                out.write_all(if is_fresh { "" } else { LEAVE }.as_bytes())?;
                (strip, is_fresh) = (Strip::default(), false);
            }
            Tell::Typed(_) | Tell::Resized { .. } | Tell::Leads(_) => {}
        }
    }
}

/// Keys of the person, on their way to the program.
struct Keys {
    writer: Writer,
    gone: Arc<AtomicBool>,
    stream: UnixStream,
}

impl Keys {
    fn work(self) {
        let (mut buffer, mut prefixed) = ([0; 4096], false);
        loop {
            let read = match io::stdin().read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            let (bytes, detach) = without_prefix(&buffer[..read], &mut prefixed);
            if !bytes.is_empty() && ask(&self.writer, &Ask::Input(bytes)).is_err() {
                return;
            }
            if detach {
                break;
            }
        }
        // Ends the other thread's wait.
        self.gone.store(true, Ordering::SeqCst);
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// What goes to the program, and whether the person wants to go.
fn without_prefix(bytes: &[u8], prefixed: &mut bool) -> (Vec<u8>, bool) {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match (std::mem::take(prefixed), *byte) {
            (false, PREFIX) => *prefixed = true,
            (false, byte) => out.push(byte),
            (true, b'd') => return (out, true),
            (true, PREFIX) => out.push(PREFIX),
            // Not for us: both go on.
            (true, byte) => out.extend([PREFIX, byte]),
        }
    }
    (out, false)
}

/// A new size goes on; a terminal that vanishes is a person who left.
fn watch_signals(writer: Writer, gone: Arc<AtomicBool>, stream: UnixStream) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGWINCH, SIGCONT, SIGHUP, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if matches!(signal, SIGHUP | SIGTERM) {
                gone.store(true, Ordering::SeqCst);
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
            let (columns, rows) = window();
            if ask(&writer, &Ask::Resize { columns, rows }).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// This terminal, handing every key on as it is; as it was before once dropped.
struct Raw {
    before: Termios,
    on_alternate: AtomicBool,
}

impl Raw {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let raw = Self { before, on_alternate: AtomicBool::new(false) };
        raw.make_raw()?;
        Ok(raw)
    }

    fn make_raw(&self) -> io::Result<()> {
        let mut mode = self.before.clone();
        mode.make_raw();
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &mode)?)
    }

    fn restore(&self) {
        let mut out = io::stdout();
        let alternate = if self.on_alternate.load(Ordering::SeqCst) { LEAVE_ALTERNATE } else { "" };
        let _ = write!(out, "{LEAVE}{alternate}").and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }

    /// Stops this process as the program stopped itself, and comes back when the shell says so.
    fn suspend(&self) -> io::Result<()> {
        self.restore();
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::STOP)?;
        self.make_raw()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_and_what_follows_it() {
        let table: &[(&[u8], &[u8], bool, bool)] = &[
            (b"abc", b"abc", false, false),
            (b"a\x02d", b"a", true, false),
            (b"\x02\x02x", b"\x02x", false, false),
            (b"\x02x", b"\x02x", false, false),
            (b"a\x02", b"a", false, true),
        ];
        for (typed, sent, detach, still) in table {
            let mut prefixed = false;
            assert_eq!(without_prefix(typed, &mut prefixed), (sent.to_vec(), *detach), "{typed:?}");
            assert_eq!(prefixed, *still, "{typed:?}");
        }
        let mut prefixed = true;
        assert_eq!(without_prefix(b"d", &mut prefixed), (vec![], true));
    }
}
