//! Where the terminal model leaves its events.

use alacritty_terminal::event::{Event, EventListener};
use std::sync::{Arc, Mutex, PoisonError};

/// Events of the model, picked up after each piece of bytes.
#[derive(Clone, Default)]
pub(super) struct Mailslot(Arc<Mutex<Vec<Event>>>);

impl Mailslot {
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventListener for Mailslot {
    fn send_event(&self, event: Event) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Far more than one read of the PTY can ask; a flood of queries is not worth our memory.
        const EVENTS_MAX: usize = 4_096;
        if events.len() < EVENTS_MAX {
            events.push(event);
        }
    }
}
