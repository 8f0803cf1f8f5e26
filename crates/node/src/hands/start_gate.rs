//! Holds back an agent's messages while a system limit keeps its commands from starting.
//!
//! They stay in the mailbox, uncounted, and `synapse explain` names the limit. The next ones are
//! tried after a pause that doubles up to a bound.
//!
//! Not here: what a limit is (`synapse-holder`), commands that were accepted and wait for their
//! runner (`exec`).

use crate::doors::Shared;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synapse_core::effect::Input;
use synapse_core::ids::LinkId;

pub(super) struct StartGate {
    app: Shared,
    backoff: Mutex<Backoff>,
}

#[derive(Default)]
struct Backoff {
    pause: Duration,
    is_closed: bool,
}

const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(15);

impl StartGate {
    pub(super) fn new(app: Shared) -> Arc<Self> {
        Arc::new(Self { app, backoff: Mutex::default() })
    }

    /// Stops delivery on this link for a while, and returns for how long.
    pub(super) fn close(self: &Arc<Self>, link: LinkId, why: &str) -> Duration {
        let pause = {
            let mut backoff = self.lock();
            if backoff.is_closed {
                return backoff.pause;
            }
            backoff.is_closed = true;
            backoff.pause = (backoff.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            backoff.pause
        };
        tracing::warn!(why, ?pause, "commands cannot be started; messages wait");
        self.app.handle.tell(Input::Gate { link, held: Some(why.to_owned()) });
        let gate = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            gate.lock().is_closed = false;
            gate.app.handle.tell(Input::Gate { link, held: None });
        });
        pause
    }

    /// A command has started, so the next pause is short again.
    pub(super) fn reset(&self) {
        let mut backoff = self.lock();
        if !backoff.is_closed {
            backoff.pause = Duration::ZERO;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
