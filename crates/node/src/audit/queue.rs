//! The queue of lines for the writer: two buffers that are swapped, so that a line needs no
//! separate allocation or wake-up.
//!
//! Invariant: bounded in lines and in bytes; a full queue rejects at once.

use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synapse_core::message::Body;
use synapse_dialects::audit::Line;

/// The maximum number of lines waiting for the writer.
pub(super) const LINES_MAX: usize = 4_096;
/// The maximum size of their message bodies, if bodies are logged.
pub(super) const BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<Line>,
    body_bytes: usize,
    /// Lines that found no room.
    lost: u64,
    closing: Option<Sender<()>>,
    /// The writer sleeps until it is notified.
    asleep: bool,
}

/// What the writer takes at once, besides the lines.
pub(super) struct Taken {
    pub(super) lost: u64,
    /// Set if this is the end: whom to notify when everything is written.
    pub(super) closing: Option<Sender<()>>,
}

impl Queue {
    /// Returns the line if there is no room for it.
    pub(super) fn put(&self, line: Line) -> Option<Line> {
        let bytes = line.body.as_ref().map_or(0, Body::bytes);
        let mut waiting = self.lock();
        let full = waiting.lines.len() >= LINES_MAX || bytes > 0 && waiting.body_bytes + bytes > BYTES_MAX;
        if full {
            return Some(line);
        }
        waiting.body_bytes += bytes;
        waiting.lines.push(line);
        self.wake(waiting);
        None
    }

    /// Counts a line that found no room.
    pub(super) fn lose(&self) {
        let mut waiting = self.lock();
        waiting.lost += 1;
        self.wake(waiting);
    }

    pub(super) fn close(&self, done: Sender<()>) {
        let mut waiting = self.lock();
        waiting.closing = Some(done);
        self.wake(waiting);
    }

    /// Sleeps until there is something to take, or for this long. Returns false if there is
    /// nothing.
    pub(super) fn wait(&self, limit: Option<Duration>) -> bool {
        let mut waiting = self.lock();
        let idle = |waiting: &mut Waiting| {
            waiting.lines.is_empty() && waiting.lost == 0 && waiting.closing.is_none()
        };
        waiting.asleep = true;
        waiting = match limit {
            None => self.news.wait_while(waiting, idle).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.news.wait_timeout_while(waiting, limit, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        waiting.asleep = false;
        !idle(&mut waiting)
    }

    /// Takes all lines in exchange for an empty buffer.
    pub(super) fn take(&self, empty: &mut Vec<Line>) -> Taken {
        debug_assert!(empty.is_empty(), "what is handed in is lost");
        let mut waiting = self.lock();
        std::mem::swap(&mut waiting.lines, empty);
        waiting.body_bytes = 0;
        Taken { lost: std::mem::take(&mut waiting.lost), closing: waiting.closing.take() }
    }

    /// Frees the large buffer of a burst.
    pub(super) fn shrink(&self) {
        let mut waiting = self.lock();
        if waiting.lines.is_empty() {
            waiting.lines = Vec::new();
        }
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let was_asleep = std::mem::take(&mut waiting.asleep);
        drop(waiting);
        if was_asleep {
            self.news.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::Timestamp;
    use synapse_core::message::Content;
    use synapse_dialects::audit::Actor;

    fn line(body_bytes: usize) -> Line {
        let mut line = Line::new(Timestamp(1), &Actor::node(), "http", "send");
        line.body = (body_bytes > 0).then(|| Body::of(&Content::text("x".repeat(body_bytes))));
        line
    }

    #[test]
    fn a_full_queue_says_so_and_has_room_again_when_it_was_emptied() {
        let queue = Queue::default();
        assert!((0..LINES_MAX).all(|_| queue.put(line(0)).is_none()));
        assert!(queue.put(line(0)).is_some());
        queue.lose();
        let mut batch = Vec::new();
        assert_eq!((queue.take(&mut batch).lost, batch.len()), (1, LINES_MAX));
        let large = BYTES_MAX / 3;
        let taken = (0..10).take_while(|_| queue.put(line(large)).is_none()).count();
        assert_eq!(taken, 2, "bodies are bounded by their bytes");
        assert!(queue.put(line(0)).is_none(), "lines without one still have room");
    }

    #[test]
    fn the_writer_sleeps_until_something_comes() {
        let queue = std::sync::Arc::new(Queue::default());
        assert!(!queue.wait(Some(Duration::from_millis(1))));
        let waiter = std::thread::spawn({
            let queue = queue.clone();
            move || queue.wait(None)
        });
        assert!(queue.put(line(0)).is_none());
        assert!(waiter.join().unwrap());
        queue.take(&mut Vec::new());
        let (done, _closed) = std::sync::mpsc::channel();
        queue.close(done);
        assert!(queue.wait(None) && queue.take(&mut Vec::new()).closing.is_some());
    }
}
