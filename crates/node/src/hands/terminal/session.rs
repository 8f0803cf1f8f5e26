//! The session that the program is in, recorded for `synapse start`, which resumes it.
//!
//! Hooks, the program's server and its session log name the session. An id is recorded only in the
//! form that the profile names, because it becomes an argument later.
//! Not here: which events name a session (`synapse_terminal::hooks`), resuming it (the binary).

use super::{Seat, TerminalHand};
use crate::driver::now;
use crate::launch::Tells;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;
use synapse_store::cli_session::CliSession;
use synapse_store::known::Known;
use synapse_terminal::composer::Holds;
use synapse_terminal::hooks::{Event, SessionChange, Text, session_change};
use synapse_terminal::text::Typed;
use synapse_terminal::turn::Sight;

/// How long a look at the session logs may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A program that is idle for this long is taken to have loaded its earlier conversation.
const LOADING_MS_MAX: u64 = 15_000;

/// What is known of the program's session.
#[derive(Default)]
pub(super) struct Session {
    /// What was reported last.
    reported: Mutex<Option<SessionChange>>,
    /// The one that the program was started with. It counts once it has a log.
    expected: Mutex<Option<String>>,
    /// The program was started with an earlier one, which may not be loaded yet.
    is_loading: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    /// Sets the session that the program was started with, and whether it has to load that.
    pub fn expect_session(&self, session: Option<String>, is_loading: bool) {
        *lock(&self.session.expected) = session;
        self.session.is_loading.store(is_loading, Ordering::Relaxed);
    }

    /// Returns until when at the latest a program that is idle may still be loading its earlier
    /// conversation. What is typed before that would begin another one.
    pub(crate) fn loading_until(&self, sight: &Sight) -> Option<Timestamp> {
        if !self.session.is_loading.load(Ordering::Relaxed) || sight.state != AgentState::Idle {
            return None;
        }
        let until = sight.state_since.plus_ms(LOADING_MS_MAX);
        let is_loaded = {
            let watch = self.watch();
            let resume = watch.profile().resume.as_ref();
            resume.and_then(|resume| resume.is_loaded(&watch.conversation())).unwrap_or(true)
        };
        // Without its composer, it is not known which rows are above that.
        let is_over = sight.now >= until || (is_loaded && sight.composer != Holds::Unknown);
        self.session.is_loading.store(!is_over, Ordering::Relaxed);
        (!is_over).then_some(until)
    }

    /// Reports a session that was given something by this program.
    pub(crate) fn is_in_session(&self, session: String) {
        let now = Some(SessionChange::In(session));
        let before = std::mem::replace(&mut *lock(&self.session.reported), now.clone());
        if before != now {
            self.bell.notify_one();
        }
    }

    /// Reports the session of the last prompt if that is this text, which we typed. What another
    /// program was given is not ours.
    pub(crate) fn was_given(&self, typed: &Typed) {
        let session = {
            let watch = self.watch();
            let is_it =
                |(prompt, _): &&(Text, Timestamp)| prompt.text.trim_end() == typed.as_str().trim_end();
            watch.heard().prompt.as_ref().filter(is_it).and(watch.heard().session.clone())
        };
        if let (Some(session), Tells::OpencodeServer { .. }) = (session, self.tells()) {
            self.is_in_session(session);
        }
    }

    pub(super) fn note_session(&self, event: &Event) {
        if let Some(change) = session_change(event) {
            *lock(&self.session.reported) = Some(change);
        }
    }
}

/// Writes the session of one terminal down.
pub(super) struct SessionKeeper {
    /// What is written down.
    written: Option<String>,
    last_state: AgentState,
    /// The program has worked since it was started, or since this node was.
    has_worked: bool,
}

impl SessionKeeper {
    /// Reads what an earlier node or start has written down.
    pub(super) async fn new(hand: &TerminalHand) -> Self {
        let dir = hand.dir.clone();
        let read = move || {
            let started_ms = Known::load(&dir).ok().flatten().map_or(0, |known| known.last_started_ms);
            CliSession::load(&dir).map(|found| (found.since_ms >= started_ms, found.id))
        };
        let read = tokio::task::spawn_blocking(read).await.ok().flatten();
        if let Some((true, id)) = &read {
            let mut reported = lock(&hand.seat.session.reported);
            reported.get_or_insert(SessionChange::In(id.clone()));
        }
        Self { written: read.map(|(_, id)| id), last_state: AgentState::Unknown, has_worked: false }
    }

    /// Writes down a session that was reported since.
    pub(super) async fn keep(&mut self, hand: &TerminalHand) {
        let state = hand.seat.watch().state();
        let before = std::mem::replace(&mut self.last_state, state);
        self.has_worked |= state == AgentState::Busy;
        let has_ended_a_turn = self.has_worked && state == AgentState::Idle && before != state;
        if has_ended_a_turn && lock(&hand.seat.session.reported).is_none() {
            find_log_of_expected(hand).await;
        }
        let reported = lock(&hand.seat.session.reported).clone();
        let session = match reported {
            None => return,
            Some(SessionChange::Left) => None,
            Some(SessionChange::In(id)) if self.written.as_ref() == Some(&id) => return,
            Some(SessionChange::In(id)) => {
                let watch = hand.seat.watch();
                let form = watch.profile().resume.as_ref().map(|resume| resume.session());
                let Some(id) = form.and_then(|form| form.parse(&id)) else { return };
                Some(id.as_str().to_owned())
            }
        };
        if session == self.written {
            return;
        }
        self.written.clone_from(&session);
        let dir = hand.dir.clone();
        let write = move || match session {
            Some(id) => CliSession { id, since_ms: now().0 }.save(&dir),
            None => CliSession::forget(&dir),
        };
        if let Ok(Err(e)) = tokio::task::spawn_blocking(write).await {
            tracing::warn!(error = %e, "the session of the program could not be written down");
        }
    }
}

/// Reports the session that the program was started with once it has a log.
async fn find_log_of_expected(hand: &TerminalHand) {
    let expected = lock(&hand.seat.session.expected).clone();
    let (Some(session), Some(logs)) = (expected, hand.seat.session_logs()) else { return };
    let id = session.clone();
    let look = tokio::task::spawn_blocking(move || logs.has(&id));
    if let Ok(Ok(true)) = tokio::time::timeout(PATIENCE, look).await {
        hand.seat.is_in_session(session);
    }
}
