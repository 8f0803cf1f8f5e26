//! The output pump of a runner: what the command says goes into `out`, up to its limit.
//!
//! Invariant: a full disk ends no command. The pump waits for room and reads nothing, so the command waits too.
//! Not here: when to give up that wait (`runner`).

use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::{PIPE_PIECE, ROOM_PAUSE_MAX, ROOM_PAUSE_MIN};
use crate::bell::Ringer;
use crate::limit::SystemLimit;
use crate::run_dir::RunDir;

/// Copies what the command says into `out`.
pub(super) struct OutputPump {
    pub(super) out: File,
    pub(super) limit: u64,
    pub(super) run: RunDir,
    pub(super) room: Arc<RoomWait>,
    pub(super) fault: Arc<OnceLock<Fault>>,
    pub(super) ringer: Ringer,
    pub(super) finished: Sender<()>,
}

impl OutputPump {
    pub(super) fn keep(mut self, said: PipeReader) {
        if let Err(fault) = self.copy(said) {
            // Only set here, so it is not set yet.
            let _ = self.fault.set(fault);
            self.ringer.ring();
        }
        let _ = self.finished.send(());
    }

    fn copy(&mut self, mut said: PipeReader) -> Result<(), Fault> {
        let mut buffer = vec![0; PIPE_PIECE];
        let mut room = self.limit;
        loop {
            let piece = match said.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => &buffer[..count],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Fault::NotKept(error)),
            };
            let fits = usize::try_from(room).unwrap_or(usize::MAX).min(piece.len());
            self.write(&piece[..fits])?;
            if fits < piece.len() {
                return Err(Fault::OverLimit);
            }
            room -= fits as u64;
        }
    }

    /// Writes all of it, once there is room.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        let mut pause = None;
        while !bytes.is_empty() {
            let limit = match self.out.write(bytes) {
                Ok(0) => return Err(Fault::NotKept(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    bytes = &bytes[count..];
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => SystemLimit::of(&error).ok_or(Fault::NotKept(error))?,
            };
            if pause.is_none() {
                self.run.note_wait_for_room(true);
            }
            let next = pause.map_or(ROOM_PAUSE_MIN, |pause: Duration| (pause * 2).min(ROOM_PAUSE_MAX));
            pause = Some(next);
            if !self.room.wait(next) {
                self.room.end();
                return Err(Fault::GivenUp(limit));
            }
        }
        if pause.is_some() {
            self.room.end();
            self.run.note_wait_for_room(false);
        }
        Ok(())
    }
}

/// Why the output is not kept any further.
pub(super) enum Fault {
    OverLimit,
    NotKept(io::Error),
    /// The command was ended while its output waited for room on the disk.
    GivenUp(SystemLimit),
}

/// The wait of the output pump for room on the disk.
#[derive(Default)]
pub(super) struct RoomWait {
    state: Mutex<RoomState>,
    changed: Condvar,
}

#[derive(Default)]
struct RoomState {
    is_waiting: bool,
    is_given_up: bool,
}

impl RoomWait {
    /// Waits for `pause`; false if the wait is given up.
    fn wait(&self, pause: Duration) -> bool {
        let mut state = self.lock();
        state.is_waiting = true;
        let waited = self.changed.wait_timeout_while(state, pause, |state| !state.is_given_up);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.is_given_up
    }

    fn end(&self) {
        self.lock().is_waiting = false;
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.lock().is_waiting
    }

    pub(super) fn give_up(&self) {
        self.lock().is_given_up = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
