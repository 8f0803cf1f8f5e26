//! The person's terminal: passes every key on unchanged, finds out the colours, and restores the
//! terminal at the end.
//!
//! The colours are queried before anything is shown, followed by a query that every terminal
//! answers and that marks the end. Keys typed meanwhile are kept, and a late answer is not taken
//! for keys.

use super::job::is_in_front;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io;
use std::time::{Duration, Instant};
use synapse_holder::terminal::wire::Rgb;

/// How long to wait for the terminal's colours.
const COLOURS_TIME: Duration = Duration::from_millis(250);
/// How long a late answer may still arrive.
const LATE: Duration = Duration::from_secs(5);
/// Queries for the text colour, the background colour, and the device attributes as end marker.
const QUESTION: &[u8] = b"\x1b]10;?\x1b\\\x1b]11;?\x1b\\\x1b[c";

/// The person's terminal while the viewer uses it.
pub struct Person {
    before: Termios,
    pub(super) answers: Answers,
    /// Keys typed before anything read them.
    pub(super) typed: Vec<u8>,
}

impl Person {
    /// Switches the terminal to raw mode and queries its colours. Dropping it restores the
    /// terminal.
    pub fn meet() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut person = Self { before, answers: Answers::default(), typed: Vec::new() };
        person.make_raw()?;
        if speaks(std::env::var("TERM").as_deref().unwrap_or_default()) {
            person.ask()?;
        }
        Ok(person)
    }

    /// The colours of text and background, if the terminal reported them.
    pub fn colours(&self) -> Option<(Rgb, Rgb)> {
        self.answers.ink.zip(self.answers.paper)
    }

    pub(super) fn window() -> (u16, u16) {
        tcgetwinsize(io::stdout()).map_or((80, 24), |size| (size.ws_col, size.ws_row))
    }

    fn ask(&mut self) -> io::Result<()> {
        write_all(QUESTION)?;
        let began = Instant::now();
        self.answers.until = Some(began + LATE);
        let mut buffer = [0; 1024];
        while !self.answers.are_complete() {
            let left = COLOURS_TIME.saturating_sub(began.elapsed());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            let stdin = io::stdin();
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            if left.is_zero() || matches!(poll(&mut fds, Some(&timeout)), Ok(0)) {
                break;
            }
            match rustix::io::read(&stdin, &mut buffer) {
                Ok(0) => break,
                Ok(read) => self.typed.extend(self.answers.take_out(&buffer[..read])),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    pub(super) fn make_raw(&self) -> io::Result<()> {
        let mut mode = self.before.clone();
        mode.make_raw();
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &mode)?)
    }

    /// Restores the terminal. `leave` undoes what was shown.
    pub(super) fn restore(&self, leave: &str) {
        if is_in_front() {
            let _ = write_all(leave.as_bytes());
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.restore("");
    }
}

/// Writes without Rust's own buffer, which would split frames at line ends.
pub(super) fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let stdout = io::stdout();
        match rustix::io::write(&stdout, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            // Another process made the terminal non-blocking. Leave it so.
            Err(rustix::io::Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], None);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Whether the terminal understands the queries. Others would print them.
fn speaks(term: &str) -> bool {
    !matches!(term, "" | "dumb" | "linux")
}

/// Removes the answers to our queries from what is typed.
#[derive(Debug, Default)]
pub(super) struct Answers {
    ink: Option<Rgb>,
    paper: Option<Rgb>,
    has_ended: bool,
    /// When to stop waiting for answers.
    until: Option<Instant>,
    held: Vec<u8>,
}

/// The maximum length of an answer.
const ANSWER_BYTES_MAX: usize = 128;

impl Answers {
    pub(super) fn are_complete(&self) -> bool {
        self.has_ended || self.until.is_none_or(|until| Instant::now() > until)
    }

    /// Returns these bytes without the answers in them.
    pub(super) fn take_out(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        if self.are_complete() {
            return all;
        }
        let (mut typed, mut rest) = (Vec::new(), &all[..]);
        while let Some(first) = rest.first() {
            match answer(rest) {
                Some(length) => {
                    self.note(&rest[..length]);
                    rest = &rest[length..];
                }
                // It may be the beginning of an answer. An escape alone is a key.
                None if might_be(rest) => {
                    self.held = rest.to_vec();
                    break;
                }
                None => {
                    typed.push(*first);
                    rest = &rest[1..];
                }
            }
        }
        typed
    }

    fn note(&mut self, answer: &[u8]) {
        let text = String::from_utf8_lossy(answer);
        if let Some(colour) = text.strip_prefix("\u{1b}]10;") {
            self.ink = rgb(colour);
        } else if let Some(colour) = text.strip_prefix("\u{1b}]11;") {
            self.paper = rgb(colour);
        } else {
            self.has_ended = true;
        }
    }
}

/// The length of the answer at the beginning, if there is one.
fn answer(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"\x1b]10;") || bytes.starts_with(b"\x1b]11;") {
        let end =
            bytes.iter().take(ANSWER_BYTES_MAX).skip(2).position(|byte| matches!(byte, 0x07 | 0x1b))? + 2;
        return match (bytes[end], bytes.get(end + 1)) {
            (0x07, _) => Some(end + 1),
            (_, Some(b'\\')) => Some(end + 2),
            _ => None,
        };
    }
    let inner = bytes.strip_prefix(b"\x1b[?")?;
    let end = inner.iter().take(ANSWER_BYTES_MAX).position(|byte| !matches!(byte, b'0'..=b'9' | b';'))?;
    (inner[end] == b'c').then_some(end + 4)
}

fn might_be(bytes: &[u8]) -> bool {
    if bytes.len() < 2 || bytes.len() >= ANSWER_BYTES_MAX {
        return false;
    }
    let begins = |front: &[u8]| front.starts_with(bytes) || bytes.starts_with(front);
    let attributes = begins(b"\x1b[?") && bytes.iter().skip(3).all(|byte| matches!(byte, b'0'..=b'9' | b';'));
    attributes || begins(b"\x1b]10;") || begins(b"\x1b]11;")
}

/// Parses `rgb:ffff/8080/00`, with one to four digits each.
fn rgb(text: &str) -> Option<Rgb> {
    let text = text.trim_end_matches(['\u{7}', '\u{1b}', '\\']);
    let digits = text.strip_prefix("rgb:").or_else(|| text.strip_prefix("rgba:"))?;
    let mut parts = digits.split('/').map(|part| {
        let value = u32::from_str_radix(part, 16).ok().filter(|_| (1..=4).contains(&part.len()))?;
        let most = (1_u32 << (4 * part.len())) - 1;
        u8::try_from((value * 255 + most / 2) / most).ok()
    });
    Some([parts.next()??, parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Answers {
        Answers { until: Some(Instant::now() + Duration::from_secs(60)), ..Answers::default() }
    }

    #[test]
    fn colours_are_read_in_every_form() {
        for (text, expected) in [
            ("rgb:ffff/8080/0000\u{1b}\\", Some([255, 128, 0])),
            ("rgb:ff/80/00\u{7}", Some([255, 128, 0])),
            ("rgb:f/0/8", Some([255, 0, 136])),
            ("rgba:1e1e/1e1e/2e2e/ffff\u{7}", Some([30, 30, 46])),
            ("#ffffff", None),
            ("rgb:ff/80", None),
            ("rgb:fffff/0/0", None),
        ] {
            assert_eq!(rgb(text), expected, "{text:?}");
        }
    }

    #[test]
    fn answers_are_taken_out_and_keys_are_not() {
        let all = b"a\x1b]10;rgb:c8c8/c8c8/c8c8\x1b\\b\x1b]11;rgb:1e/1e/2e\x07\x1b[A\x1b[?62;22cd";
        for piece in [1, 2, 7, 100] {
            let mut answers = asked();
            let typed: Vec<u8> = all.chunks(piece).flat_map(|part| answers.take_out(part)).collect();
            // A lone escape is a key at once, so byte by byte no answer is recognised.
            if piece > 1 {
                let typed = String::from_utf8_lossy(&typed);
                if piece == 100 {
                    assert_eq!(typed, "ab\u{1b}[Ad");
                    assert_eq!(answers.ink, Some([200, 200, 200]));
                    assert_eq!(answers.paper, Some([30, 30, 46]));
                    assert!(answers.are_complete());
                }
            }
        }
        let mut answers = asked();
        assert_eq!(answers.take_out(b"\x1b"), b"\x1b");
        assert_eq!(answers.take_out(b"\x1b]11;rgb:00"), b"");
        assert_eq!(answers.take_out(b"/00/00\x1b"), b"");
        assert_eq!(answers.take_out(b"\\x\x1b[?6c"), b"x");
        assert_eq!(answers.take_out(b"\x1b[?6c"), b"\x1b[?6c", "one question, one end");
    }

    #[test]
    fn without_a_question_everything_is_typed() {
        let mut answers = Answers::default();
        assert_eq!(answers.take_out(b"\x1b[?6c"), b"\x1b[?6c");
    }
}
