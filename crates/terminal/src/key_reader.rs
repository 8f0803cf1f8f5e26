//! Reads the keys that go to a program, from bytes that may be cut anywhere.
//!
//! A read may end in the middle of a sequence, for example of the end of a paste. What is unfinished is kept until the
//! rest comes. An escape alone is the key Esc only if nothing follows it for a moment.

use crate::tokens::{self, Token};
use synapse_core::ids::Timestamp;

/// The rest of a sequence follows its escape within this; otherwise the escape was a key.
const SEQUENCE_MS: u64 = 50;

#[derive(Debug, Clone, Default)]
pub(crate) struct KeyReader {
    /// The beginning of a sequence, and when its last byte came.
    unfinished: Vec<u8>,
    since: Timestamp,
    in_paste: bool,
}

/// A key that was pressed, or text that was pasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keystroke {
    Key(Token),
    /// A character, or a line end, of a paste.
    Pasted(Token),
}

impl KeyReader {
    pub(crate) fn read(&mut self, now: Timestamp, bytes: &[u8], mut each: impl FnMut(Keystroke)) {
        if bytes.is_empty() {
            return;
        }
        self.unfinished.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.unfinished);
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            // These two could be keys, Esc and Alt-[, as well as the beginning of a sequence.
            let is_cut = matches!(rest, [0x1b] | [0x1b, b'[']);
            let Some((token, length)) = tokens::first(rest).filter(|_| !is_cut) else { break };
            self.take(token, &mut each);
            rest = &rest[length..];
        }
        (self.unfinished, self.since) = (rest.to_vec(), now);
    }

    fn take(&mut self, token: Token, each: &mut impl FnMut(Keystroke)) {
        match token {
            Token::PasteBegins => self.in_paste = true,
            Token::PasteEnds => self.in_paste = false,
            token if self.in_paste => each(Keystroke::Pasted(token)),
            token => each(Keystroke::Key(token)),
        }
    }

    /// When `expire` has something to do, if no byte comes before.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        // A paste that takes long is still a paste, and may end at any time.
        (!self.unfinished.is_empty() && !self.in_paste).then(|| self.since.plus_ms(SEQUENCE_MS))
    }

    /// The rest of a sequence did not come in time: an escape was the key Esc, anything else is no key.
    pub(crate) fn expire(&mut self, now: Timestamp, mut each: impl FnMut(Keystroke)) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        if std::mem::take(&mut self.unfinished) == [0x1b] {
            each(Keystroke::Key(Token::Escape));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(pieces: &[(u64, &[u8])]) -> Vec<Keystroke> {
        let (mut reader, mut seen) = (KeyReader::default(), Vec::new());
        for (at, bytes) in pieces {
            reader.expire(Timestamp(*at), |key| seen.push(key));
            reader.read(Timestamp(*at), bytes, |key| seen.push(key));
        }
        reader.expire(Timestamp(1_000_000), |key| seen.push(key));
        seen
    }

    /// Defect E: the end of a paste that came in two reads was not seen, and so no Enter after it.
    #[test]
    fn end_of_paste_is_seen_wherever_it_is_cut() {
        let bytes = b"\x1b[200~a\rb\x1b[201~\rx\x1b[A\x1b[13u";
        let whole = typed(&[(0, bytes)]);
        use Token::{Enter, Key, Text};
        assert_eq!(
            whole,
            [
                Keystroke::Pasted(Text('a')),
                Keystroke::Pasted(Enter),
                Keystroke::Pasted(Text('b')),
                Keystroke::Key(Enter),
                Keystroke::Key(Text('x')),
                Keystroke::Key(Key),
                Keystroke::Key(Enter)
            ]
        );
        for cut in 1..bytes.len() {
            assert_eq!(typed(&[(0, &bytes[..cut]), (30, &bytes[cut..])]), whole, "cut at {cut}");
        }
        let single: Vec<(u64, &[u8])> = bytes.chunks(1).map(|byte| (5, byte)).collect();
        assert_eq!(typed(&single), whole);
    }

    #[test]
    fn escape_with_nothing_behind_it_is_a_key() {
        assert_eq!(typed(&[(0, b"\x1b")]), [Keystroke::Key(Token::Escape)]);
        assert_eq!(
            typed(&[(0, b"\x1b"), (60, b"[A")]),
            [
                Keystroke::Key(Token::Escape),
                Keystroke::Key(Token::Text('[')),
                Keystroke::Key(Token::Text('A'))
            ]
        );
        assert_eq!(typed(&[(0, b"\x1b[20")]), []);
    }

    /// The end of a slow paste still ends it.
    #[test]
    fn paste_that_pauses_in_its_end_mark_is_over_when_the_mark_is_whole() {
        let pieces: &[(u64, &[u8])] = &[(0, b"\x1b[200~a\x1b[20"), (500, b"1~"), (600, b"\r")];
        assert_eq!(typed(pieces), [Keystroke::Pasted(Token::Text('a')), Keystroke::Key(Token::Enter)]);
    }
}
