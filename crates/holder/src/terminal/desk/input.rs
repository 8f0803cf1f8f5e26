//! What waits to be written to the program: keys, and answers to its queries.
//!
//! Keys go first. Answers are for a program that reads: of one that does not, or that asks more than it reads, what
//! does not fit is dropped, as a terminal does whose buffer is full.
//! Invariants: both are bounded; an answer that is begun is finished before anything else is written.

use std::collections::VecDeque;

/// Answers that may wait. A program asks a dozen things when it starts.
const ANSWERS_BYTES_MAX: usize = 16 << 10;
/// The node may type this much; what is more is dropped. It types one message at a time.
const KEYS_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct Input {
    keys: VecDeque<u8>,
    answers: VecDeque<u8>,
    /// How much is left of a piece of answers of which a part is written.
    begun: usize,
    /// How long each piece of answers is.
    pieces: VecDeque<usize>,
}

impl Input {
    pub(super) fn keys(&mut self, bytes: &[u8]) {
        let room = KEYS_BYTES_MAX.saturating_sub(self.keys.len());
        self.keys.extend(&bytes[..bytes.len().min(room)]);
    }

    pub(super) fn answer(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() && self.answers.len() + bytes.len() <= ANSWERS_BYTES_MAX {
            self.pieces.push_back(bytes.len());
            self.answers.extend(bytes);
        }
    }

    /// Keys that wait.
    pub(super) fn waiting(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.answers.is_empty()
    }

    /// What is to be written next.
    pub(super) fn next(&self) -> &[u8] {
        if self.begun == 0 && !self.keys.is_empty() {
            return self.keys.as_slices().0;
        }
        let (front, _) = self.answers.as_slices();
        let piece = if self.begun > 0 { self.begun } else { self.pieces.front().copied().unwrap_or(0) };
        &front[..front.len().min(piece)]
    }

    /// So much of `next` is written.
    pub(super) fn written(&mut self, count: usize) {
        if self.begun == 0 && !self.keys.is_empty() {
            self.keys.drain(..count);
            return;
        }
        let piece = if self.begun > 0 { self.begun } else { self.pieces.front().copied().unwrap_or(0) };
        self.answers.drain(..count.min(self.answers.len()));
        self.begun = piece.saturating_sub(count);
        if self.begun == 0 {
            self.pieces.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(input: &mut Input, max: usize) -> String {
        let some = input.next();
        let some = some[..some.len().min(max)].to_vec();
        input.written(some.len());
        String::from_utf8(some).unwrap()
    }

    #[test]
    fn keys_go_before_answers_and_never_into_one() {
        let mut input = Input::default();
        input.answer(b"[?6c".to_vec());
        input.answer(b"[0n".to_vec());
        assert_eq!(take(&mut input, 2), "[?");
        input.keys(b"key");
        assert_eq!(take(&mut input, 99), "6c", "what is begun is finished");
        assert_eq!((take(&mut input, 2), take(&mut input, 2)), ("ke".into(), "y".into()));
        assert_eq!(take(&mut input, 99), "[0n");
        assert!(input.is_empty() && input.next().is_empty());
    }

    /// Finding L12: a program that asks and never reads.
    #[test]
    fn answers_that_nobody_reads_are_dropped_and_keys_are_not() {
        let mut input = Input::default();
        for _ in 0..100_000 {
            input.answer(b"\x1b[?6c".to_vec());
        }
        assert!(input.answers.len() <= ANSWERS_BYTES_MAX);
        assert_eq!(input.waiting(), 0, "answers do not keep keys away");
        input.keys(b"q");
        assert_eq!(take(&mut input, 99), "q");
        input.keys(&vec![b'x'; 2 * KEYS_BYTES_MAX]);
        assert_eq!(input.waiting(), KEYS_BYTES_MAX);
    }
}
