//! The viewer: brings an agent's terminal to this one, and the keys of this one to it.
//!
//! It holds nothing: closing it, losing it or killing it changes nothing for the agent. Queries of the program are
//! taken out of what is shown, since they are answered already. A viewer that was let go because it did not read
//! connects again and is drawn anew; what was typed meanwhile waits for that.
//! Invariant: however it is left, the terminal is as it was before.
//! Not here: which agent (`cli::attach`), the terminal itself (`synapse-holder`).

mod keys;
mod person;

pub use person::Person;

use keys::{Heard, Keys};
use rustix::process::{Signal, getpgid, getpgrp, getppid, getsid};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synapse_holder::terminal::wire::{Ask, Frames, Role, Tell, receive, send};
use synapse_store::home::socket_address;
use synapse_terminal::Strip;

/// How a look at a terminal ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    /// The person went away; the agent goes on.
    Detached,
    /// A signal ended the viewer; the agent goes on.
    Signaled(i32),
    /// The program ended: exit code, or 128 and the signal.
    Ended(i32),
    /// Whoever holds the terminal is gone.
    Lost,
}

/// A viewer is let go when it does not read; after so many times something is wrong.
const LOST_MAX: usize = 100;
/// How long a word of ours covers the last line.
const NOTICE_TIME: Duration = Duration::from_millis(1500);
/// A terminal that takes nothing more does not keep us from ending.
const FAREWELL: Duration = Duration::from_secs(1);

const LOOKING_ON: &str = "another viewer has the keyboard, you look on. Ctrl-b t takes it, Ctrl-b d leaves";

/// Shows the terminal behind `socket` until something ends it.
pub fn view(person: Person, socket: &Path, role: Role) -> io::Result<Left> {
    let mut person = person;
    let typed = std::mem::take(&mut person.typed);
    let viewer = Arc::new(Viewer {
        person: Mutex::new(person),
        shown: Mutex::default(),
        line: Line::default(),
        role,
        gone: AtomicI32::new(STAYS),
        leads: AtomicBool::new(false),
        was_told: AtomicBool::new(false),
        notices: AtomicBool::new(false),
        program_sleeps: AtomicBool::new(false),
    });
    // Connected first: if that fails, nobody reads the keys in vain.
    let mut stream = viewer.connect(socket)?;
    watch_signals(viewer.clone())?;
    let listener = viewer.clone();
    std::thread::Builder::new().name("keys".into()).spawn(move || listen(&listener, &typed))?;
    let mut lost = 0;
    let left = loop {
        let left = show(&viewer, stream);
        if let Some(left) = viewer.left() {
            break Ok(left);
        }
        match left {
            Ok(Left::Lost) if socket.exists() && lost < LOST_MAX => lost += 1,
            other => break other,
        }
        viewer.line.hang_up();
        match viewer.connect(socket) {
            Ok(next) => stream = next,
            Err(_) => break Ok(Left::Lost),
        }
    };
    viewer.restore();
    left
}

const STAYS: i32 = -1;
const DETACHED: i32 = 0;

struct Viewer {
    person: Mutex<Person>,
    shown: Mutex<Shown>,
    line: Line,
    role: Role,
    /// `STAYS`, `DETACHED`, or the signal that ends us.
    gone: AtomicI32,
    leads: AtomicBool,
    /// Who leads is known.
    was_told: AtomicBool,
    /// A word of ours is on the last line.
    notices: AtomicBool,
    /// The program stopped itself; it goes on when we do.
    program_sleeps: AtomicBool,
}

/// What this terminal shows. Whoever writes to it has the lock.
#[derive(Default)]
struct Shown {
    strip: Strip,
    /// The shell has the terminal.
    is_away: bool,
    /// What comes before the next picture is for a screen that is no longer there.
    awaits_picture: bool,
    has_begun: bool,
}

impl Shown {
    fn draw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_away || self.awaits_picture {
            return Ok(());
        }
        let mut shown = Vec::with_capacity(bytes.len());
        self.strip.pass(bytes, &mut shown);
        person::write_all(&shown)
    }

    /// A picture comes: what was shown before it is undone, or modes would be asked for twice.
    fn begin(&mut self) -> io::Result<()> {
        self.awaits_picture = false;
        if !std::mem::replace(&mut self.has_begun, true) || self.is_away {
            return Ok(());
        }
        let leave = self.leave();
        person::write_all(leave.as_bytes())
    }

    /// Undoes all that was shown.
    fn leave(&mut self) -> String {
        std::mem::take(&mut self.strip).leave()
    }
}

impl Viewer {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn person(&self) -> MutexGuard<'_, Person> {
        self.person.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, socket: &Path) -> io::Result<UnixStream> {
        let (address, _guard) = socket_address(socket).map_err(io::Error::other)?;
        let mut stream = UnixStream::connect(address)?;
        let (columns, rows) = Person::window();
        send(&mut stream, &Ask::Hello { role: self.role, columns, rows })?;
        if let Some((ink, paper)) = self.person().colours() {
            send(&mut stream, &Ask::Colours { ink, paper })?;
        }
        self.line.pick_up(&stream)?;
        Ok(stream)
    }

    /// How we left, if we did.
    fn left(&self) -> Option<Left> {
        match self.gone.load(Ordering::SeqCst) {
            STAYS => None,
            DETACHED => Some(Left::Detached),
            signal => Some(Left::Signaled(signal)),
        }
    }

    fn go(&self, how: i32) {
        let _ = self.gone.compare_exchange(STAYS, how, Ordering::SeqCst, Ordering::SeqCst);
        self.line.close();
    }

    fn restore(&self) {
        let leave = self.shown().leave();
        self.person().restore(&leave);
    }

    /// Says on the last line why keys do nothing.
    fn draw_notice(&self) -> io::Result<()> {
        let (columns, rows) = Person::window();
        let words: String = LOOKING_ON.chars().take(usize::from(columns).saturating_sub(2)).collect();
        let line = format!("\u{1b}7\u{1b}[{rows};1H\u{1b}[0;7m {words} \u{1b}[0m\u{1b}8\u{7}");
        self.shown().draw(line.as_bytes())
    }

    /// Stops whatever runs with us, as the program stopped itself; `watch_signals` does the rest.
    fn suspend(&self) {
        if can_be_resumed() && rustix::process::kill_current_process_group(Signal::TSTP).is_ok() {
            return;
        }
        self.resume();
    }

    /// Gives the terminal back to the shell, and stops.
    fn step_aside(&self) {
        if !can_be_resumed() {
            return;
        }
        let mut shown = self.shown();
        if !std::mem::replace(&mut shown.is_away, true) {
            let leave = shown.leave();
            self.person().restore(&leave);
        }
        drop(shown);
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    }

    /// The terminal is ours again: everything is drawn anew, and the program goes on if it slept.
    fn resume(&self) {
        let mut shown = self.shown();
        let _ = self.person().make_raw();
        (shown.is_away, shown.awaits_picture) = (false, true);
        drop(shown);
        if self.program_sleeps.swap(false, Ordering::SeqCst) {
            self.line.ask(&Ask::Continue);
        }
        self.resize();
        self.line.ask(&Ask::Again);
        self.line.ask(&Ask::Repaint);
    }

    /// Another one leads, as far as we were told.
    fn looks_on(&self) -> bool {
        self.was_told.load(Ordering::SeqCst) && !self.leads.load(Ordering::SeqCst)
    }

    fn resize(&self) {
        let (columns, rows) = Person::window();
        self.line.ask(&Ask::Resize { columns, rows });
    }
}

/// Keys of the person, on their way to the program.
fn listen(viewer: &Arc<Viewer>, early: &[u8]) {
    let (mut buffer, mut keys) = ([0; 4096], Keys::default());
    let mut stays = heard(viewer, keys.hear(early));
    while stays {
        let read = match rustix::io::read(io::stdin(), &mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Err(_) => break,
        };
        let typed = viewer.person().answers.take_out(&buffer[..read]);
        stays = heard(viewer, keys.hear(&typed));
    }
    viewer.go(DETACHED);
}

/// Whether the person stays.
fn heard(viewer: &Arc<Viewer>, heard: Vec<Heard>) -> bool {
    heard.into_iter().all(|heard| match heard {
        Heard::Detach => false,
        Heard::Take => viewer.line.ask_or_wait(&Ask::Take),
        // Whether it may type is the holder's to say; if it may not, as far as we know, the person should know.
        Heard::Typed(bytes) => {
            viewer.line.ask_or_wait(&Ask::Input(bytes)) && (!viewer.looks_on() || notice(viewer).is_ok())
        }
    })
}

/// Shows what comes over one connection, until it ends.
fn show(viewer: &Arc<Viewer>, mut stream: UnixStream) -> io::Result<Left> {
    let mut frames = Frames::default();
    while let Ok(Some(tell)) = receive(&mut stream, &mut frames) {
        let drawn = match tell {
            Tell::Welcome { .. } => viewer.shown().begin(),
            Tell::Picture(bytes) | Tell::Output(bytes) => viewer.shown().draw(&bytes),
            Tell::Leads(leads) => {
                viewer.leads.store(leads, Ordering::SeqCst);
                viewer.was_told.store(true, Ordering::SeqCst);
                if leads || viewer.role == Role::Reader { Ok(()) } else { notice(viewer) }
            }
            Tell::Suspended => {
                viewer.program_sleeps.store(true, Ordering::SeqCst);
                viewer.suspend();
                Ok(())
            }
            Tell::Ended { code, signaled } => {
                return Ok(Left::Ended(if signaled { 128 + code } else { code }));
            }
            Tell::Typed(_) | Tell::Resized { .. } | Tell::Colours { .. } | Tell::State { .. } => Ok(()),
        };
        // A terminal that vanished is a person who left.
        if drawn.is_err() {
            viewer.go(DETACHED);
        }
    }
    Ok(Left::Lost)
}

/// Tells the person for a moment that another one has the keyboard; then what that covered is drawn again.
fn notice(viewer: &Arc<Viewer>) -> io::Result<()> {
    viewer.draw_notice()?;
    if !viewer.notices.swap(true, Ordering::SeqCst) {
        let viewer = viewer.clone();
        std::thread::Builder::new().name("notice".into()).spawn(move || {
            std::thread::sleep(NOTICE_TIME);
            viewer.notices.store(false, Ordering::SeqCst);
            viewer.line.ask(&Ask::Again);
        })?;
    }
    Ok(())
}

/// The connection to the holder; another one after we were let go.
#[derive(Default)]
struct Line {
    end: Mutex<End>,
    back: Condvar,
    /// The same stream, for whoever ends a wait on it: who sends has the lock, perhaps for long.
    plug: Mutex<Option<UnixStream>>,
}

#[derive(Default)]
struct End {
    stream: Option<UnixStream>,
    is_closed: bool,
}

impl Line {
    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plug(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.plug.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pick_up(&self, stream: &UnixStream) -> io::Result<()> {
        *self.plug() = Some(stream.try_clone()?);
        self.end().stream = Some(stream.try_clone()?);
        self.back.notify_all();
        Ok(())
    }

    fn hang_up(&self) {
        self.end().stream = None;
    }

    /// For good; ends whoever reads from it, too.
    fn close(&self) {
        if let Some(stream) = self.plug().take() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let mut end = self.end();
        (end.is_closed, end.stream) = (true, None);
        self.back.notify_all();
    }

    /// Now or not at all.
    fn ask(&self, ask: &Ask) -> bool {
        self.end().stream.as_mut().is_some_and(|stream| send(stream, ask).is_ok())
    }

    /// Keys wait for the next connection if this one is dead. False when there will be none.
    fn ask_or_wait(&self, ask: &Ask) -> bool {
        let mut end = self.end();
        loop {
            if end.is_closed {
                return false;
            }
            match end.stream.as_mut().map(|stream| send(stream, ask)) {
                Some(Ok(())) => return true,
                Some(Err(_)) => end.stream = None,
                None => end = self.back.wait(end).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Whether a shell waits for us that could bring us back: one of our session, outside of our process group.
fn can_be_resumed() -> bool {
    let (own, session) = (getpgrp(), getsid(None));
    let mut above = getppid();
    while let Some(pid) = above {
        match getpgid(Some(pid)) {
            Ok(group) if group == own => {}
            Ok(_) => return session.is_ok() && getsid(Some(pid)) == session,
            Err(_) => return false,
        }
        let next = u32::try_from(pid.as_raw_nonzero().get()).ok().and_then(synapse_holder::parent_of);
        above = next.and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?));
    }
    false
}

/// A new size goes on; a terminal that vanishes is a person who left; stopping gives the terminal back first.
fn watch_signals(viewer: Arc<Viewer>) -> io::Result<()> {
    let all = [SIGWINCH, SIGCONT, SIGTSTP, SIGHUP, SIGTERM, SIGINT, SIGQUIT];
    let mut signals = signal_hook::iterator::Signals::new(all)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGWINCH => viewer.resize(),
                SIGCONT => viewer.resume(),
                SIGTSTP => viewer.step_aside(),
                _ => return end_soon(&viewer, signal),
            }
        }
    })?;
    Ok(())
}

/// The others see that the line is closed and end in order; if one of them is stuck, it ends without.
fn end_soon(viewer: &Viewer, signal: i32) {
    viewer.go(signal);
    std::thread::sleep(FAREWELL);
    if let Ok(person) = viewer.person.try_lock() {
        person.restore("");
    }
    std::process::exit(128 + signal);
}
