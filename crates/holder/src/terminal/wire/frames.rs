//! Cuts a stream of bytes into frames.
//!
//! Invariant: a frame that announces more bytes than its reader allows is refused by its head, before they come.
//! Not here: what a frame means (`wire`).

use super::{Ask, FRAME_BYTES_MAX, Tell, front};
use std::io::{self, Read};

#[derive(Debug, thiserror::Error)]
pub enum BadFrame {
    #[error("a frame of {0} bytes")]
    TooLong(usize),
    #[error("a frame of kind {kind} with {bytes} bytes")]
    Unknown { kind: u8, bytes: usize },
}

/// Takes whole frames out of bytes as they come.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    /// How much of its front is taken.
    taken: usize,
}

const HEAD: usize = 5;
/// What is read at once, and how much room is kept when nothing comes.
const READ_BYTES: usize = 64 << 10;

impl Frames {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.make_room();
        self.buffer.extend_from_slice(bytes);
    }

    /// Reads once; how much came, 0 at the end.
    pub(super) fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.make_room();
        let kept = self.buffer.len();
        self.buffer.resize(kept + READ_BYTES, 0);
        let read = from.read(&mut self.buffer[kept..]);
        self.buffer.truncate(kept + read.as_ref().map_or(0, |read| *read));
        read
    }

    /// What is taken makes room; a large frame does not stay for ever.
    fn make_room(&mut self) {
        self.buffer.drain(..std::mem::take(&mut self.taken));
        if self.buffer.is_empty() {
            self.buffer.shrink_to(2 * READ_BYTES);
        }
    }

    /// The next frame, if it is whole.
    fn take(&mut self, bytes_max: usize) -> Result<Option<(u8, Vec<u8>)>, BadFrame> {
        let Some(([kind, a, b, c, d], rest)) = front::<HEAD>(&self.buffer[self.taken..]) else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > bytes_max {
            return Err(BadFrame::TooLong(length));
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let content = content.to_vec();
        self.taken += HEAD + length;
        Ok(Some((kind, content)))
    }

    /// How many bytes are missing from the next frame, as far as is known: first its head, then its content.
    pub(in crate::terminal) fn missing(&self) -> usize {
        let fed = &self.buffer[self.taken..];
        let whole = front::<HEAD>(fed).map_or(HEAD, |([_, a, b, c, d], _)| {
            HEAD.saturating_add(u32::from_le_bytes([a, b, c, d]) as usize)
        });
        whole.saturating_sub(fed.len())
    }

    /// How many bytes wait for the rest of their frame.
    #[cfg(test)]
    pub(in crate::terminal) fn buffered(&self) -> usize {
        self.buffer.len() - self.taken
    }

    pub fn next_ask(&mut self) -> Result<Option<Ask>, BadFrame> {
        self.next_ask_within(FRAME_BYTES_MAX)
    }

    /// The next frame, whose content has at most so many bytes.
    pub(in crate::terminal) fn next_ask_within(&mut self, bytes_max: usize) -> Result<Option<Ask>, BadFrame> {
        self.take(bytes_max)?.map(|(kind, content)| Ask::read(kind, content)).transpose()
    }

    pub fn next_tell(&mut self) -> Result<Option<Tell>, BadFrame> {
        self.take(FRAME_BYTES_MAX)?.map(|(kind, content)| Tell::read(kind, content)).transpose()
    }
}
