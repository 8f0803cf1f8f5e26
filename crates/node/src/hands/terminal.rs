//! The terminal hand: watches the agent's terminal, which the holder keeps, and reports what the
//! agent does.
//!
//! It is a client of the holder like any viewer. Output goes into the model. Answers to the
//! program's queries and pictures of the screen go back to the holder, so that the next node
//! continues from there after a crash.
//! Not here: typing messages into the terminal (`typist`), what the evidence means
//! (`synapse-terminal`).

mod disagreement;
mod drawing;
mod due;
mod pending;
mod repaint;
mod session;
mod taken;
mod typing;
mod viewers;

use super::opencode::Server;
use super::place::Place;
use super::session_log::SessionLogs;
use super::typist::Typist;
use super::version;
use super::wishes::{WISHES_MAX, Wish};
use crate::doors::Shared;
use crate::driver::now;
use crate::launch::Tells;
use crate::registrar::{Cli, Look};
use crate::serve::is_restart;
use disagreement::Recorded;
use pending::Announcer;
use session::{Session, SessionKeeper};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_core::effect::Input;
use synapse_core::ids::{AgentId, Timestamp};
use synapse_holder::terminal::wire::{Ask, Frames, LEVEL, Role, Tell};
use synapse_store::ended::Ended;
use synapse_store::home::{AgentDir, socket_address};
use synapse_store::registry::PendingPrompt;
use synapse_terminal::hooks::Event;
use synapse_terminal::request::PermissionRequest;
use synapse_terminal::{Profile, SCROLLBACK, Sees, Size, Watch};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};
pub use typing::Typing;

/// The doors' view of the terminal.
#[derive(Clone)]
pub struct Seat {
    watch: Arc<Mutex<Watch>>,
    cli: Arc<watch::Sender<Cli>>,
    chosen: Arc<Mutex<Chosen>>,
    tells: Arc<Tells>,
    session_logs: Option<SessionLogs>,
    session: Arc<Session>,
    typing: Arc<Typing>,
    /// The key that its hooks must present; `None` if it has no hooks.
    key: Option<Arc<str>>,
    /// Why its server cannot be reached.
    trouble: Arc<Mutex<Option<String>>>,
    /// The prompt that waits for a person, as people see it.
    pending: Arc<watch::Sender<Option<PendingPrompt>>>,
    /// Notified when something arrives by another way than the terminal.
    bell: Arc<Notify>,
    pub(super) wishes: mpsc::Sender<Wish>,
    /// The receiver of wishes, until the typist takes it.
    pub(super) wished: Arc<Mutex<Option<mpsc::Receiver<Wish>>>>,
}

/// The active profile, and the state of its file.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    text: String,
    /// The path of its file, or that it is shipped with the program.
    pub from: String,
    /// Why the current content of the file is not used.
    pub fault: Option<String>,
    /// How often the profile was replaced.
    changes: u32,
}

impl Seat {
    /// Creates the seat. `text` is the complete source of the profile.
    pub fn new(profile: Profile, text: String, tells: Tells, typing: Typing, key: Option<String>) -> Self {
        let mut watch = Watch::new(now(), typing.settle(profile), Size::DETACHED, SCROLLBACK);
        watch.set_zone(jiff::tz::TimeZone::system());
        let (wishes, wished) = mpsc::channel(WISHES_MAX);
        Self {
            watch: Arc::new(Mutex::new(watch)),
            cli: Arc::new(watch::Sender::new(Cli::default())),
            chosen: Arc::new(Mutex::new(Chosen { text, ..Chosen::default() })),
            session_logs: SessionLogs::of(&tells),
            session: Arc::default(),
            tells: Arc::new(tells),
            typing: Arc::new(typing),
            key: key.map(Into::into),
            trouble: Arc::default(),
            pending: Arc::new(watch::Sender::new(None)),
            bell: Arc::default(),
            wishes,
            wished: Arc::new(Mutex::new(Some(wished))),
        }
    }

    /// Returns what the program reports besides its screen.
    pub fn tells(&self) -> &Tells {
        &self.tells
    }

    /// Returns the logs in which the program records its sessions, if it does.
    pub(super) fn session_logs(&self) -> Option<SessionLogs> {
        self.session_logs.clone()
    }

    /// Whether this is the key of the program's hooks.
    pub fn has_key(&self, given: &str) -> bool {
        use subtle::ConstantTimeEq as _;
        self.key.as_ref().is_some_and(|key| key.as_bytes().ct_eq(given.as_bytes()).into())
    }

    /// Handles an event from the program's hooks.
    pub fn signal(&self, now: Timestamp, event: &Event) {
        self.watch().hooked(now, event);
        self.note_session(event);
        self.bell.notify_one();
    }

    pub fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what the program's own server reports and asks; nothing while the server cannot
    /// be reached.
    pub fn serves(&self, now: Timestamp, says: Option<(Sees, String)>, requests: Vec<PermissionRequest>) {
        self.watch().served(now, says, requests);
        self.bell.notify_one();
    }

    /// Returns why the program's server cannot be reached.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_trouble(&self, why: Option<String>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if *trouble != why {
            match &why {
                Some(why) => tracing::info!(%why, "its server is not heard; its screen tells"),
                None => tracing::info!("its server is heard"),
            }
            *trouble = why;
        }
    }

    /// Returns the key that guards the program's server.
    fn key(&self) -> Option<String> {
        self.key.as_deref().map(str::to_owned)
    }

    /// Watches what is known of the program's version.
    pub fn cli(&self) -> watch::Receiver<Cli> {
        self.cli.subscribe()
    }

    /// Stores the version that the program reported.
    pub(super) fn said_version(&self, said: &str) {
        let Some(version) = synapse_terminal::profile::version_in(said) else { return };
        let tested = self.watch().profile().version.is_tested(version);
        self.cli.send_replace(Cli { version: Some(version.to_owned()), tested });
    }
}

pub struct TerminalHand {
    pub agent: AgentId,
    pub dir: AgentDir,
    pub seat: Seat,
    /// The program as it was started, to ask it for its version.
    pub program: String,
    pub app: Shared,
}

impl TerminalHand {
    /// Watches the terminal until the program has ended.
    pub async fn work(self) {
        let withheld = self.app.gate.secret_variables();
        tokio::spawn(version::ask(self.seat.clone(), self.program.clone(), withheld));
        let mut typist = match Typist::open(self.app.clone(), self.seat.clone()).await {
            Ok(typist) => typist,
            Err(refusal) => {
                tracing::error!(%refusal, "nothing can be typed into the terminal");
                return;
            }
        };
        // Dropped at the end of this function, which ends its tasks.
        let mut listening = tokio::task::JoinSet::new();
        if let Tells::OpencodeServer { port, guarded } = *self.seat.tells() {
            let key = self.seat.key().filter(|_| guarded);
            let (home, agent, seat) = (self.app.home.clone(), self.agent, self.seat.clone());
            listening.spawn(Server { home, agent, port, key, seat }.listen());
        }
        const PAUSE: Duration = Duration::from_millis(100);
        let mut announcer = Announcer::new(self.seat.pending.borrow().clone());
        let (mut recorded, mut sessions) = (Recorded::default(), SessionKeeper::new(&self).await);
        loop {
            match self.connect().await {
                Ok(stream) => {
                    typist.sits_down();
                    let sitting = Sitting::new(&self, stream, &mut typist, &mut announcer);
                    if sitting.work(&mut recorded, &mut sessions).await {
                        typist.farewell();
                        return;
                    }
                }
                Err(e) => tracing::warn!(error = %e, "the terminal cannot be reached"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn connect(&self) -> std::io::Result<UnixStream> {
        let (address, _guard) = socket_address(&self.dir.terminal()).map_err(std::io::Error::other)?;
        let mut stream = UnixStream::connect(&address).await?;
        let mut hello = Vec::new();
        Ask::Hello { role: Role::Node, columns: 0, rows: 0, level: LEVEL }.write(&mut hello);
        stream.write_all(&hello).await?;
        Ok(stream)
    }

    fn show(&self, state: AgentState, why: String) {
        self.app.handle.tell(Input::Presence { agent: self.agent, state, why });
    }
}

/// One connection to the holder.
struct Sitting<'a> {
    hand: &'a TerminalHand,
    typist: &'a mut Typist,
    announcer: &'a mut Announcer,
    stream: UnixStream,
    frames: Frames,
    /// Our position in the output.
    upto: u64,
    /// Whether the holder has welcomed us and said where the output stands. Until then the
    /// program's state is unknown.
    welcomed: bool,
    /// Up to this position another node has answered the program's queries.
    answered: u64,
    drawn_upto: u64,
    /// Whether the holder can press keys on the condition that nothing was printed meanwhile.
    guards: bool,
    /// Keys sent on that condition, until the holder reports whether it pressed them.
    guarded: Option<Vec<u8>>,
    /// The last picture was drawn because of the amount of output.
    floods: bool,
    /// When to draw a picture if no more output arrives.
    picture_at: Option<Instant>,
    shown: Option<(AgentState, String)>,
    place: Place,
    repaint: repaint::Repaint,
    news: watch::Receiver<Look>,
    ended: bool,
}

impl<'a> Sitting<'a> {
    fn new(
        hand: &'a TerminalHand,
        stream: UnixStream,
        typist: &'a mut Typist,
        announcer: &'a mut Announcer,
    ) -> Self {
        Self {
            hand,
            typist,
            announcer,
            stream,
            frames: Frames::default(),
            upto: 0,
            welcomed: false,
            answered: 0,
            drawn_upto: 0,
            guards: false,
            guarded: None,
            floods: false,
            picture_at: None,
            shown: None,
            place: Place::default(),
            repaint: repaint::Repaint::default(),
            news: hand.app.shown.news(),
            ended: false,
        }
    }

    /// Runs until the connection ends. Returns whether the program has ended too.
    async fn work(mut self, recorded: &mut Recorded, sessions: &mut SessionKeeper) -> bool {
        let mut buffer = vec![0; 64 << 10];
        while !self.ended {
            let wake = self.next_wake();
            let read = tokio::select! {
                read = self.stream.read(&mut buffer) => Some(read),
                () = self.hand.seat.bell.notified() => None,
                () = self.typist.hear() => None,
                Ok(()) = self.news.changed() => None,
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => None,
            };
            match read {
                Some(Ok(0)) | Some(Err(_)) => break,
                Some(Ok(read)) => {
                    self.frames.feed(&buffer[..read]);
                    if !self.take_frames(&mut buffer).await {
                        break;
                    }
                }
                None => {}
            }
            self.hand.seat.watch().tick(now());
            self.announcer.look(now(), self.hand);
            recorded.keep(self.hand).await;
            sessions.keep(self.hand).await;
            if !self.tell().await || !self.type_on().await || !self.draw().await {
                break;
            }
        }
        self.ended
    }

    fn next_wake(&self) -> Option<Instant> {
        let tick = self.hand.seat.watch().next_tick().map(|due| {
            let wait = due.since_ms(now()).max(1);
            Instant::now() + Duration::from_millis(wait)
        });
        let ours = [self.typist.wake, self.announcer.due].into_iter().flatten().min().map(|due| {
            let wait = due.since_ms(now()).max(1);
            Instant::now() + Duration::from_millis(wait)
        });
        [tick, self.picture_at, ours, self.place.due, self.repaint.due].into_iter().flatten().min()
    }

    async fn told(&mut self, tell: Tell) -> bool {
        match tell {
            Tell::Welcome { columns, rows, upto, answered, lost, guards, typed } => {
                (self.guards, self.guarded, self.welcomed) = (guards, None, true);
                (self.upto, self.drawn_upto, self.answered) = (upto, upto, answered);
                // Only the first node of a program that sees all of its output may report it as
                // starting.
                let is_first = !is_restart() && !self.hand.seat.watch().has_seen();
                if upto > 0 || answered > 0 || !is_first {
                    self.restart(Size::new(columns, rows), &[]);
                } else {
                    self.hand.seat.watch().resize(now(), Size::new(columns, rows));
                }
                // A person may type before the first node connects; the content of the input line
                // is then unknown.
                if typed && is_first {
                    self.hand.seat.watch().forget_keys();
                }
                // Some of the output is lost, so only a full repaint makes the screen correct.
                return !lost || self.ask(Ask::Repaint).await;
            }
            Tell::Picture(drawn) if !drawn.is_empty() => {
                let size = self.hand.seat.watch().screen().size();
                self.restart(size, &drawn);
            }
            Tell::Output(bytes) => return bytes.is_empty() || self.printed(&bytes).await,
            Tell::Typed(bytes) => {
                self.hand.seat.watch().input(now(), &bytes);
                self.typist.person_typed();
                self.announcer.answered();
                self.place.typed(bytes.len());
            }
            Tell::Pressed(pressed) => match self.guarded.take() {
                Some(keys) if pressed => {
                    self.hand.seat.watch().input(now(), &keys);
                    self.announcer.answered();
                }
                _ => self.typist.was_not_pressed(),
            },
            Tell::Keyboard(yours) => self.typist.has_keyboard(yours),
            Tell::Closed(closed) => self.hand.seat.watch().closed(now(), closed),
            Tell::Yield => self.typist.person_yields(),
            Tell::Resized { columns, rows } => {
                let seat = self.hand.seat.clone();
                let resize = move || seat.watch().resize(now(), Size::new(columns, rows));
                // Reflowing a large grid takes a while, so it runs on a blocking thread.
                let _ = tokio::task::spawn_blocking(resize).await;
                self.draw_when_quiet();
            }
            Tell::Ended { code, signaled } => {
                self.program_ended(code, signaled);
                self.ended = true;
            }
            Tell::Colours { ink, paper } => self.hand.seat.watch().set_colours(ink, paper),
            Tell::Viewer(event) => return self.viewer(&event).await,
            Tell::Refused(why) => {
                tracing::warn!(%why, "the holder does not take this process for its node");
                return false;
            }
            Tell::Picture(_) | Tell::Leads(_) | Tell::Suspended | Tell::State { .. } => {}
            Tell::Composer { .. } | Tell::Notice(_) | Tell::Stopped(_) => {}
        }
        true
    }

    /// Ends the agent with its program. Saves how the program ended, for `synapse list --all`.
    fn program_ended(&self, code: i32, signaled: bool) {
        let mut why = if signaled { format!("killed by signal {code}") } else { format!("exit code {code}") };
        let failed = signaled || code != 0;
        let mut watch = self.hand.seat.watch();
        if failed && let Some(words) = watch.screen().last_words() {
            why.push_str(": ");
            why.push_str(&words);
        }
        watch.exited(now(), failed, &why);
        if let Err(e) = (Ended { failed, why, at_ms: now().0 }).save(&self.hand.dir) {
            tracing::warn!(error = %e, "how the program ended could not be written down");
        }
    }

    /// Handles output. Queries that an earlier node answered are not answered again: a second
    /// answer would arrive as keys.
    async fn printed(&mut self, bytes: &[u8]) -> bool {
        let known = usize::try_from(self.answered.saturating_sub(self.upto)).unwrap_or(usize::MAX);
        let (old, new) = bytes.split_at(known.min(bytes.len()));
        self.upto += bytes.len() as u64;
        self.draw_when_quiet();
        self.place.printed();
        let answers = {
            let mut watch = self.hand.seat.watch();
            drop(watch.output(now(), old));
            taken::within(watch.output(now(), new))
        };
        // All answers in one request, since a partial answer leaves the program's queries neither
        // answered nor open.
        answers.is_empty() || self.ask(Ask::Answer { upto: self.upto, bytes: answers.into_bytes() }).await
    }

    fn restart(&self, size: Size, picture: &[u8]) {
        let mut watch = self.hand.seat.watch();
        let mut next = Watch::resumed(now(), watch.profile().clone(), size, SCROLLBACK, picture);
        next.succeed(now(), &watch);
        // What was typed meanwhile is unknown.
        if is_restart() || watch.has_seen() {
            next.forget_keys();
        }
        if matches!(self.hand.seat.tells(), Tells::OpencodeServer { .. }) {
            next.await_server(now());
        }
        *watch = next;
    }

    /// Reports a changed state to the driver, and through the holder to recorders.
    async fn tell(&mut self) -> bool {
        let (state, why) = {
            let watch = self.hand.seat.watch();
            (watch.state(), watch.why(now()))
        };
        if !self.welcomed || self.shown.as_ref() == Some(&(state, why.clone())) {
            return true;
        }
        self.shown = Some((state, why.clone()));
        self.hand.show(state, why.clone());
        self.ask(Ask::State { state: state.name().to_owned(), why }).await
    }

    async fn ask(&mut self, ask: Ask) -> bool {
        let mut bytes = Vec::new();
        ask.write(&mut bytes);
        self.stream.write_all(&bytes).await.is_ok()
    }
}
