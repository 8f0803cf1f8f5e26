//! The last bytes of a stream, and how they read as text.
//!
//! Invariant: a tail never holds more than twice what it promises to keep.
//! Not here: where the bytes come from (`runner`).

/// Keeps the last `keep` bytes of what is pushed.
pub(crate) struct Tail {
    bytes: Vec<u8>,
    keep: usize,
}

impl Tail {
    pub(crate) fn new(keep: usize) -> Self {
        Self { bytes: Vec::new(), keep }
    }

    pub(crate) fn push(&mut self, more: &[u8]) {
        let more = &more[more.len().saturating_sub(self.keep)..];
        if self.bytes.len() + more.len() > self.keep * 2 {
            let surplus = (self.bytes.len() + more.len() - self.keep).min(self.bytes.len());
            self.bytes.drain(..surplus);
        }
        self.bytes.extend_from_slice(more);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(self.keep)..]
    }
}

/// The end of `bytes` as text of at most `bytes_max` bytes that is safe to
/// show: no control characters but newline and tab, no colour codes.
pub(crate) fn readable(bytes: &[u8], bytes_max: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                // A control sequence ends with its first byte of `@` to `~`.
                while rest.next().is_some_and(|char| !('@'..='~').contains(&char)) {}
            }
            '\n' | '\t' => shown.push(char),
            _ if char.is_control() => {}
            _ => shown.push(char),
        }
    }
    let from = shown.ceil_char_boundary(shown.len().saturating_sub(bytes_max));
    shown.split_off(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_end_whatever_the_pieces() {
        for piece in 1..20 {
            let all: Vec<u8> = (0..100).collect();
            let mut tail = Tail::new(10);
            for part in all.chunks(piece) {
                tail.push(part);
                assert!(tail.bytes.len() <= 20);
            }
            assert_eq!(tail.bytes(), &all[90..], "pieces of {piece}");
        }
        let mut short = Tail::new(10);
        short.push(b"abc");
        assert_eq!(short.bytes(), b"abc");
    }

    #[test]
    fn a_tail_reads_as_plain_text() {
        let table: &[(&[u8], usize, &str)] = &[
            (b"plain\nlines\there\n", 99, "plain\nlines\there\n"),
            (b"\x1b[31mred\x1b[0m\r\x07!", 99, "red!"),
            (b"cut \x1b[3", 99, "cut "),
            (b"\xff\xfe", 99, "\u{fffd}\u{fffd}"),
            (b"0123456789", 4, "6789"),
            ("aäöü".as_bytes(), 5, "öü"),
            ("c1 \u{9b}x".as_bytes(), 99, "c1 x"),
            (b"", 0, ""),
        ];
        for (bytes, bytes_max, expected) in table {
            assert_eq!(readable(bytes, *bytes_max), *expected, "{}", bytes.escape_ascii());
        }
    }
}
