//! Looks on at an agent's terminal, keeps all that is printed and typed with its time, and knows what is shown.
//!
//! It is one more client of the holder, so it sees the bytes as the program printed them, queries and all, and what it
//! keeps can be replayed. What is shown is told by a screen of its own, not by the node's.

use crate::mock_llm::now_ms;
use serde_json::json;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synapse_holder::terminal::wire::{Ask, Frames, LEVEL, Role, Tell, receive, send};
use synapse_terminal::composer::{Composer, Holds};
use synapse_terminal::{Screen, Size};

pub struct Recorder {
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

struct Seen {
    screen: Screen,
    /// The size of the terminal when the recording began.
    first_size: Size,
    /// When, `o` for printed, `i` for typed or `r` for resized, and what.
    events: Vec<(u64, &'static str, String)>,
    /// The beginning of a character whose rest has not come yet.
    carried: Vec<u8>,
    /// The program has ended, or its holder.
    ended: bool,
}

impl Recorder {
    /// `socket` is that of the agent's terminal.
    pub fn start(socket: &Path) -> io::Result<Self> {
        let folder = socket.parent().ok_or(io::ErrorKind::NotFound)?;
        // Socket addresses are short; a path through the folder's descriptor always fits.
        let opened = std::fs::File::open(folder)?;
        let name = socket.file_name().unwrap_or_default().to_string_lossy();
        let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/{name}", opened.as_raw_fd()))?;
        // Unlike a viewer's, its size changes nothing.
        send(&mut stream, &Ask::Hello { role: Role::Recorder, columns: 0, rows: 0, level: LEVEL })?;
        let size = Size::DETACHED;
        let screen = Screen::new(size, 0);
        let seen = Seen { screen, first_size: size, events: Vec::new(), carried: Vec::new(), ended: false };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let to = seen.clone();
        std::thread::Builder::new().name("recorder".into()).spawn(move || {
            let mut frames = Frames::default();
            while let Ok(Some(tell)) = receive(&mut stream, &mut frames) {
                lock(&to).take(tell);
                to.1.notify_all();
            }
            lock(&to).ended = true;
            to.1.notify_all();
        })?;
        Ok(Self { seen })
    }

    /// Notes what somebody typed.
    pub fn typed(&self, keys: &str) {
        lock(&self.seen).events.push((now_ms(), "i", keys.to_owned()));
    }

    pub fn has_ended(&self) -> bool {
        lock(&self.seen).ended
    }

    /// What is shown now, row by row.
    pub fn screen(&self) -> String {
        lock(&self.seen).screen.rows().join("\n").trim_end().to_owned()
    }

    /// What its composer holds now.
    pub fn composer(&self, composer: &Composer) -> Holds {
        composer.read(&lock(&self.seen).screen)
    }

    /// Waits until what is shown has this text; when that was.
    pub fn wait_shown(&self, text: &str, patience: Duration) -> Option<u64> {
        self.wait_until(patience, |screen| screen.contains(text))
    }

    pub fn wait_until(&self, patience: Duration, holds: impl Fn(&str) -> bool) -> Option<u64> {
        let until = Instant::now() + patience;
        let mut seen = lock(&self.seen);
        loop {
            if holds(&seen.screen.rows().join("\n")) {
                return Some(now_ms());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.ended {
                return None;
            }
            seen = self.seen.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// An asciinema cast, version 2, whose time begins at `from_ms`.
    pub fn cast(&self, from_ms: u64, title: &str) -> String {
        let seen = lock(&self.seen);
        let (columns, rows) = (seen.first_size.columns(), seen.first_size.rows());
        let head = json!({ "version": 2, "width": columns, "height": rows, "title": title });
        let mut lines = vec![head.to_string()];
        for (at, kind, text) in &seen.events {
            lines.push(json!([at.saturating_sub(from_ms) as f64 / 1000.0, kind, text]).to_string());
        }
        lines.join("\n") + "\n"
    }
}

impl Seen {
    fn take(&mut self, tell: Tell) {
        match tell {
            Tell::Output(bytes) | Tell::Picture(bytes) if !bytes.is_empty() => {
                self.screen.feed(&bytes, &mut Vec::new());
                self.carried.extend(bytes);
                let whole = whole(&self.carried);
                let text = String::from_utf8_lossy(&self.carried[..whole]).into_owned();
                self.carried.drain(..whole);
                self.events.push((now_ms(), "o", text));
            }
            Tell::Welcome { columns, rows, .. } => {
                self.first_size = Size::new(columns, rows);
                self.screen.resize(self.first_size);
            }
            Tell::Resized { columns, rows } => {
                let size = Size::new(columns, rows);
                if size != self.screen.size() {
                    self.events.push((now_ms(), "r", format!("{columns}x{rows}")));
                }
                self.screen.resize(size);
            }
            Tell::Ended { .. } => self.ended = true,
            _ => {}
        }
    }
}

/// How much of these bytes does not end in the middle of a character.
fn whole(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

fn lock(seen: &(Mutex<Seen>, Condvar)) -> MutexGuard<'_, Seen> {
    seen.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cast_has_the_size_of_the_terminal_and_its_changes() {
        let screen = Screen::new(Size::DETACHED, 0);
        let first_size = Size::DETACHED;
        let mut seen = Seen { screen, first_size, events: Vec::new(), carried: Vec::new(), ended: false };
        let (upto, answered, lost, guards, typed) = (0, 0, false, true, false);
        seen.take(Tell::Welcome { columns: 80, rows: 24, upto, answered, lost, guards, typed });
        seen.take(Tell::Resized { columns: 80, rows: 24 });
        seen.take(Tell::Output(b"x".to_vec()));
        seen.take(Tell::Resized { columns: 100, rows: 30 });
        let recorder = Recorder { seen: Arc::new((Mutex::new(seen), Condvar::new())) };
        let cast = recorder.cast(0, "test");
        let lines: Vec<&str> = cast.lines().collect();
        assert!(lines[0].contains("\"width\":80") && lines[0].contains("\"height\":24"), "{cast}");
        assert!(lines.len() == 3 && lines[2].ends_with("\"r\",\"100x30\"]"), "{cast}");
    }

    #[test]
    fn a_character_is_not_cut_in_two() {
        let bytes = "a⠂".as_bytes();
        assert_eq!((whole(bytes), whole(&bytes[..3]), whole(&bytes[..1])), (4, 1, 1));
        assert_eq!(whole(b"a\xff"), 2, "what is no text does not wait for more");
    }
}
