//! The viewer: shows an agent's terminal in this one, and sends the keys typed here to it.
//!
//! It keeps no state of the agent: closing, losing or killing it changes nothing for the agent. It
//! removes the program's queries from the output, because the node answers them. If the holder
//! drops it for reading too slowly, it reconnects and redraws, and sends the keys typed meanwhile.
//! `@agent …` at an empty composer is a message for that agent; the last line shows its receipt or
//! answer.
//! Invariant: however the viewer ends, it restores the terminal.
//! Not here: which agent (`cli::attach`), the terminal itself (`synapse-holder`).

mod alerts;
mod at;
mod bottom;
mod job;
mod keys;
mod line;
mod person;
mod prefix;
mod shown;

pub use at::{Message, Name};
pub use person::Person;
pub use prefix::warn as warn_of_prefix;

use crate::cli::send::at::{self as messages, Outcome};
use at::{At, Said};
use bottom::Bottom;
use keys::{Heard, Keys};
use line::Line;
use prefix::Prefix;
use rustix::process::Signal;
use shown::Shown;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_holder::terminal::wire::{Ask, Frames, LEVEL, Role, Tell, receive, send};
use synapse_store::home::{Home, socket_address};

/// How a viewer ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    /// The person detached; the agent keeps running.
    Detached,
    /// A signal ended the viewer; the agent keeps running.
    Signaled(i32),
    /// The program ended: exit code, or 128 plus the signal.
    Ended(i32),
    /// The agent was stopped, and its program with it. The reason; empty if somebody asked for it.
    Stopped(String),
    /// The holder is gone.
    Lost,
    /// The holder denied access; the reason.
    Refused(String),
}

/// The holder drops viewers that read too slowly. After this many reconnects, something is wrong.
const LOST_MAX: usize = 100;
/// How long a notice about the keyboard covers the last line.
const NOTICE_TIME: Duration = Duration::from_millis(1500);
/// How long the result of a message covers the last line.
const NEWS_TIME: Duration = Duration::from_secs(6);
/// How long the notice about waiting messages covers the last line.
const MAIL_TIME: Duration = Duration::from_secs(3);
/// The limit of the person's messages in flight, because answers may take long.
const SENDING_MAX: usize = 16;
/// How long the viewer waits for a terminal that accepts no more output before it exits.
const FAREWELL: Duration = Duration::from_secs(1);

const DROPPED: &str = "dropped: the program asks a question, and this text could have answered it";
const TOO_MANY: &str = "not sent: too many messages are unanswered; try again after the next answer";

/// Shows the terminal of an agent until something ends it.
pub fn view(person: Person, home: &Home, agent: AgentId, role: Role) -> io::Result<Left> {
    let mut person = person;
    let socket = &home.agent(&agent).terminal();
    let typed = std::mem::take(&mut person.typed);
    let viewer = Arc::new(Viewer {
        person: Mutex::new(person),
        shown: Mutex::default(),
        line: Line::default(),
        role,
        gone: AtomicI32::new(STAYS),
        leads: AtomicBool::new(false),
        was_told: AtomicBool::new(false),
        at: Mutex::default(),
        bottom: Mutex::default(),
        sending: AtomicUsize::new(0),
        program_sleeps: AtomicBool::new(false),
        prefix: Prefix::of(home),
        home: home.clone(),
        agent,
    });
    // Connect first. If that fails, nothing reads the keys.
    let mut stream = viewer.connect(socket)?;
    watch_signals(viewer.clone())?;
    let listener = viewer.clone();
    std::thread::Builder::new().name("keys".into()).spawn(move || listen(&listener, &typed))?;
    alerts::start(&viewer)?;
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
        viewer.at().connection_broke();
        match viewer.connect(socket) {
            Ok(next) => stream = next,
            Err(_) => break Ok(Left::Lost),
        }
    };
    // A program that exited by itself left the cursor where the shell may continue.
    viewer.restore(!matches!(left, Ok(Left::Ended(_) | Left::Refused(_))));
    left
}

const STAYS: i32 = -1;
const DETACHED: i32 = 0;

struct Viewer {
    person: Mutex<Person>,
    shown: Mutex<Shown>,
    line: Line,
    role: Role,
    /// `STAYS`, `DETACHED`, or the signal that ends the viewer.
    gone: AtomicI32,
    leads: AtomicBool,
    /// Whether the holder has said who leads.
    was_told: AtomicBool,
    /// The person's lines to other agents.
    at: Mutex<At>,
    bottom: Mutex<Bottom>,
    sending: AtomicUsize,
    /// The program stopped itself. It continues when the viewer does.
    program_sleeps: AtomicBool,
    prefix: Prefix,
    home: Home,
    /// The agent whose terminal this is.
    agent: AgentId,
}

impl Viewer {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self) -> MutexGuard<'_, At> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bottom(&self) -> MutexGuard<'_, Bottom> {
        self.bottom.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn person(&self) -> MutexGuard<'_, Person> {
        self.person.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, socket: &Path) -> io::Result<UnixStream> {
        let (address, _guard) = socket_address(socket).map_err(io::Error::other)?;
        let mut stream = UnixStream::connect(address)?;
        let (columns, rows) = Person::window();
        send(&mut stream, &Ask::Hello { role: self.role, columns, rows, level: LEVEL })?;
        if let Some((ink, paper)) = self.person().colours() {
            send(&mut stream, &Ask::Colours { ink, paper })?;
        }
        self.line.pick_up(&stream)?;
        Ok(stream)
    }

    /// How the viewer was left, if it was.
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

    /// Restores the terminal. With `below`, the shell continues below the program's last output.
    fn restore(&self, below: bool) {
        let _ = self.uncover();
        let mut shown = self.shown();
        // After this, the viewer draws nothing more.
        shown.is_away = true;
        let leave = shown.leave(below.then(Person::window));
        drop(shown);
        self.person().restore(&leave);
    }

    /// Draws the viewer's own text on the last line.
    fn draw_bottom(&self) -> io::Result<()> {
        let drawn = self.bottom().sequence(Person::window());
        drawn.map_or(Ok(()), |drawn| self.shown().draw_over(drawn.as_bytes()))
    }

    /// Clears the viewer's text from the last line. What it covered is not known here.
    fn uncover(&self) -> io::Result<()> {
        if !self.bottom().is_covered() {
            return Ok(());
        }
        let (_, rows) = Person::window();
        self.shown().draw_over(format!("\u{1b}7\u{1b}[{rows};1H\u{1b}[2K\u{1b}8").as_bytes())
    }

    /// Shows the line that is held back, or what it covered.
    fn show_line(&self) -> io::Result<()> {
        let line = self.at().shown();
        if self.bottom().set_line(line) {
            self.line.ask(&Ask::Again);
        }
        self.draw_bottom()
    }

    /// Stops our process group, because the program stopped itself. `watch_signals` does the rest.
    fn suspend(&self) {
        if job::can_be_resumed() && rustix::process::kill_current_process_group(Signal::TSTP).is_ok() {
            return;
        }
        self.resume();
    }

    /// Gives the terminal back to the shell, and stops.
    fn step_aside(&self) {
        if !job::can_be_resumed() {
            return;
        }
        let _ = self.uncover();
        let mut shown = self.shown();
        if !std::mem::replace(&mut shown.is_away, true) {
            // A program that stopped itself has already made room for the shell.
            let below = !self.program_sleeps.load(Ordering::SeqCst);
            let leave = shown.leave(below.then(Person::window));
            self.person().restore(&leave);
        }
        drop(shown);
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    }

    /// Takes the terminal back and redraws it. A stopped program continues.
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

    /// Whether another viewer leads, as far as the holder has said.
    fn looks_on(&self) -> bool {
        self.was_told.load(Ordering::SeqCst) && !self.leads.load(Ordering::SeqCst)
    }

    fn resize(&self) {
        let (columns, rows) = Person::window();
        self.line.ask(&Ask::Resize { columns, rows });
    }
}

/// Reads the person's keys and passes them on.
fn listen(viewer: &Arc<Viewer>, early: &[u8]) {
    let (mut buffer, mut keys) = ([0; 4096], Keys::new(viewer.prefix.0));
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

/// Handles keys and commands. Returns whether the person stays attached.
fn heard(viewer: &Arc<Viewer>, heard: Vec<Heard>) -> bool {
    heard.into_iter().all(|heard| match heard {
        Heard::Detach => false,
        Heard::Take => viewer.line.ask_or_wait(&Ask::Take),
        Heard::Yield => viewer.line.ask_or_wait(&Ask::Yield),
        // The holder decides who may type. If it is not this viewer, as far as we know, say so.
        Heard::Typed(bytes) => typed(viewer, &bytes) && (!viewer.looks_on() || look_on(viewer).is_ok()),
    })
}

/// Passes keys to the program, or handles them as a line for another agent.
fn typed(viewer: &Arc<Viewer>, bytes: &[u8]) -> bool {
    let said = viewer.at().hear(bytes, &mut || messages::names(&viewer.home, &viewer.agent));
    let stays = said.into_iter().all(|said| match said {
        Said::Pass(bytes) => viewer.line.ask_or_wait(&Ask::Input(bytes)),
        Said::Send(message) => send_message(viewer, message).is_ok(),
        Said::Lost => notice(viewer, DROPPED.to_owned(), NEWS_TIME).is_ok(),
    });
    stays && viewer.show_line().is_ok()
}

/// Sends a message in the background. The result is shown as a notice.
fn send_message(viewer: &Arc<Viewer>, message: Message) -> io::Result<()> {
    if viewer.sending.fetch_add(1, Ordering::SeqCst) >= SENDING_MAX {
        viewer.sending.fetch_sub(1, Ordering::SeqCst);
        return notice(viewer, TOO_MANY.to_owned(), NEWS_TIME);
    }
    let viewer = viewer.clone();
    std::thread::Builder::new().name("message".into()).spawn(move || {
        let tell = |words: String| drop(notice(&viewer, words, NEWS_TIME));
        let came = messages::send(&viewer.home, &viewer.agent, message.clone(), &tell);
        viewer.sending.fetch_sub(1, Ordering::SeqCst);
        match came {
            Outcome::Told(words) => tell(words),
            Outcome::Refused(why) => {
                let names = messages::names(&viewer.home, &viewer.agent);
                if viewer.at().reopen(&message, &why, names) {
                    let _ = viewer.show_line();
                } else {
                    tell(why);
                }
            }
        }
    })?;
    Ok(())
}

/// Shows what arrives over one connection, until it ends.
fn show(viewer: &Arc<Viewer>, mut stream: UnixStream) -> io::Result<Left> {
    let mut frames = Frames::default();
    while let Ok(Some(tell)) = receive(&mut stream, &mut frames) {
        let drawn = match tell {
            Tell::Welcome { .. } => viewer.shown().begin(),
            Tell::Picture(bytes) | Tell::Output(bytes) => {
                let drawn = viewer.shown().draw(&bytes);
                drawn.and_then(|()| viewer.draw_bottom())
            }
            Tell::Leads(leads) => {
                viewer.leads.store(leads, Ordering::SeqCst);
                viewer.was_told.store(true, Ordering::SeqCst);
                if !leads {
                    viewer.at().looks_on();
                    let _ = viewer.show_line();
                } else if viewer.bottom().withdraw(&viewer.prefix.looking_on()) {
                    viewer.line.ask(&Ask::Again);
                }
                if leads || viewer.role == Role::Reader { Ok(()) } else { look_on(viewer) }
            }
            Tell::Composer { composer, typed } => {
                viewer.at().composer(composer, typed);
                viewer.show_line()
            }
            Tell::Suspended => {
                viewer.program_sleeps.store(true, Ordering::SeqCst);
                viewer.suspend();
                Ok(())
            }
            Tell::Ended { code, signaled } => {
                return Ok(Left::Ended(if signaled { 128 + code } else { code }));
            }
            Tell::Stopped(why) => return Ok(Left::Stopped(why)),
            Tell::Refused(why) => return Ok(Left::Refused(why)),
            Tell::Notice(words) if messages::are_notices_wanted(&viewer.home) => {
                notice(viewer, viewer.prefix.complete(words), MAIL_TIME)
            }
            Tell::Notice(_)
            | Tell::Yield
            | Tell::Typed(_)
            | Tell::Keyboard(_)
            | Tell::Pressed(_)
            | Tell::Closed(_)
            | Tell::Resized { .. }
            | Tell::Colours { .. }
            | Tell::Viewer(_)
            | Tell::State { .. } => Ok(()),
        };
        // If the terminal is gone, the person has left.
        if drawn.is_err() {
            viewer.go(DETACHED);
        }
    }
    Ok(Left::Lost)
}

/// Tells the person that another viewer has the keyboard.
fn look_on(viewer: &Arc<Viewer>) -> io::Result<()> {
    viewer.shown().draw_over(b"\x07")?;
    notice(viewer, viewer.prefix.looking_on(), NOTICE_TIME)
}

/// Shows a notice for a while, then redraws what it covered.
fn notice(viewer: &Arc<Viewer>, words: String, time: Duration) -> io::Result<()> {
    let is_alone = viewer.bottom().set_notice(words, time);
    viewer.draw_bottom()?;
    if !is_alone {
        return Ok(());
    }
    let viewer = viewer.clone();
    std::thread::Builder::new().name("notice".into()).spawn(move || {
        loop {
            let left = viewer.bottom().notice_left();
            match left {
                Some(left) => std::thread::sleep(left),
                None => break,
            }
        }
        if !viewer.bottom().is_covered() {
            viewer.line.ask(&Ask::Again);
        }
    })?;
    Ok(())
}

/// Forwards a new window size, detaches when the terminal is gone, and restores the terminal before
/// stopping.
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

/// Lets the other threads exit in order, since their connection is closed. If one is stuck, exits
/// without it.
fn end_soon(viewer: &Viewer, signal: i32) {
    viewer.go(signal);
    std::thread::sleep(FAREWELL);
    if let Ok(person) = viewer.person.try_lock() {
        person.restore("");
    }
    std::process::exit(128 + signal);
}
