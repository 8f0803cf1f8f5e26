//! The sending side of the connection from a viewer to the holder, across reconnects.
//!
//! Not here: what arrives over it (`viewer`).

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use synapse_holder::terminal::wire::{Ask, send};

/// The connection to the holder. After a disconnect it is replaced by a new one.
#[derive(Default)]
pub(super) struct Line {
    end: Mutex<End>,
    back: Condvar,
    /// The same stream, to end a blocked send: the sender holds the other lock, perhaps for long.
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

    pub(super) fn pick_up(&self, stream: &UnixStream) -> io::Result<()> {
        *self.plug() = Some(stream.try_clone()?);
        self.end().stream = Some(stream.try_clone()?);
        self.back.notify_all();
        Ok(())
    }

    pub(super) fn hang_up(&self) {
        self.end().stream = None;
    }

    /// Closes the connection for good, and ends the thread that reads from it.
    pub(super) fn close(&self) {
        if let Some(stream) = self.plug().take() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let mut end = self.end();
        (end.is_closed, end.stream) = (true, None);
        self.back.notify_all();
    }

    /// Sends now, or returns false.
    pub(super) fn ask(&self, ask: &Ask) -> bool {
        self.end().stream.as_mut().is_some_and(|stream| send(stream, ask).is_ok())
    }

    /// Sends, and waits for the next connection if this one is dead. Returns false if there will be
    /// none.
    pub(super) fn ask_or_wait(&self, ask: &Ask) -> bool {
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
