//! What a person wants done at a terminal's keyboard, on its way from a door to the typist: a
//! decision on a prompt, or keys.
//!
//! Not here: who may wish (the doors), carrying it out (`typist/keys`).

use super::terminal::Seat;
use std::sync::PoisonError;
use synapse_terminal::keys::{Key, Pressed};
use synapse_terminal::prompt::Decided;
use tokio::sync::{mpsc, oneshot};

/// The number of wishes that can wait at the same time.
pub(super) const WISHES_MAX: usize = 8;

pub(super) enum Wish {
    /// Allow or deny, but only the prompt with this hash.
    Decide { hash: String, allow: bool, reply: oneshot::Sender<Decided> },
    /// Press these keys, whatever is on the screen.
    Press { keys: Vec<Key>, wait: bool, reply: oneshot::Sender<Result<Pressed, Taken>> },
}

/// Why the keyboard is not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken(pub &'static str);

impl Seat {
    /// Decides a prompt. Returns `None` if no typist is there to press the key.
    pub async fn decide(&self, hash: String, allow: bool) -> Option<Decided> {
        let (reply, heard) = oneshot::channel();
        self.wishes.try_send(Wish::Decide { hash, allow, reply }).ok()?;
        heard.await.ok()
    }

    /// Presses keys; with `wait`, after the message that is being typed. Returns `None` if no
    /// typist is there to press them.
    pub async fn press(&self, keys: Vec<Key>, wait: bool) -> Option<Result<Pressed, Taken>> {
        let (reply, heard) = oneshot::channel();
        self.wishes.try_send(Wish::Press { keys, wait, reply }).ok()?;
        heard.await.ok()
    }

    pub(super) fn take_wishes(&self) -> Option<mpsc::Receiver<Wish>> {
        self.wished.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
