//! The tap: sees the control sequences that matter to us in a stream of bytes, and where each of them ends.
//!
//! It runs beside the terminal model on the same bytes. The model answers what it knows; the tap finds what
//! the model drops (status reports, version and keyboard queries, frames). Knowing where a sequence ends lets
//! both answer strictly in the order asked.
//!
//! Invariants: any chunking of the same bytes gives the same sequences; memory is bounded whatever comes.
//! Not here: what a sequence means for the state (`status`, `fold`), drawing (`screen`).

use crate::keyboard::Change;
use memchr::memchr;

/// A sequence that matters, seen whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tapped {
    /// `OSC 7501 ; …`, with how it was ended.
    Status { payload: String, end: &'static str },
    /// `CSI > q`: which terminal is this?
    Version,
    /// `CSI ? u`: which keyboard mode is on?
    Keyboard,
    /// `CSI ? 996 n`: dark or light?
    Theme,
    /// `CSI > 4 ; ? m`: how are modified keys sent?
    ModifiedKeys,
    /// `CSI 16 t`: how large is a cell?
    CellSize,
    /// `DCS + q …`: what can this terminal do?
    Capability,
    /// `CSI ? 2026 h` and `l`: a frame begins or is complete.
    Frame { begins: bool },
    /// `OSC 9 ; text`, `OSC 777 ; notify ; …`: it wants a person's attention.
    Notice(String),
    /// `CSI top ; bottom r`: which rows scroll; 0 means as far as possible.
    Region { top: u16, bottom: u16 },
    /// `CSI > flags u` and its kin: which keys are to be told how.
    Keys(Change),
    /// `CSI ? 1049 h` and `l`: the other of the two screens.
    Screen { alternate: bool },
    /// A whole reset of the terminal.
    Reset,
}

/// Longest payload of an OSC that is kept; a status report has at most 4096 bytes.
const OSC_BYTES_MAX: usize = 4_096;
/// Longest parameters of a CSI that are kept.
const CSI_BYTES_MAX: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    Ground,
    Escape,
    /// `ESC` and an intermediate byte: one more ends it.
    EscapeMore,
    Csi,
    Osc,
    Dcs,
    /// APC, PM, SOS: skipped to their end.
    Other,
}

#[derive(Debug, Default)]
pub struct Tap {
    at: At,
    kept: Vec<u8>,
    /// More came than is kept: the sequence is not one of ours.
    cut: bool,
    /// Bytes of the sequence under way, from its escape on.
    length: usize,
}

impl Tap {
    /// Bytes of the sequence under way that have come so far; 0 between two of them.
    pub fn unfinished(&self) -> usize {
        if self.is_between() { 0 } else { self.length }
    }

    /// No sequence is under way.
    pub fn is_between(&self) -> bool {
        self.at == At::Ground
    }

    /// The next sequence that matters in `bytes`, and how many bytes were used up to its end; none if all of
    /// them were used without one.
    pub fn next(&mut self, bytes: &[u8]) -> Option<(Tapped, usize)> {
        let mut used = 0;
        while used < bytes.len() {
            if self.at == At::Ground {
                used += memchr(0x1b, &bytes[used..])?;
            }
            let byte = bytes[used];
            used += 1;
            // An escape ends whatever is under way and begins the next sequence.
            self.length = if byte == 0x1b { 1 } else { self.length.saturating_add(1) };
            if let Some(tapped) = self.step(byte) {
                return Some((tapped, used));
            }
        }
        None
    }

    fn step(&mut self, byte: u8) -> Option<Tapped> {
        match (self.at, byte) {
            // Both end whatever is under way, everywhere.
            (_, 0x18 | 0x1a) => {
                self.at = At::Ground;
                None
            }
            (At::Ground, 0x1b) => {
                self.at = At::Escape;
                None
            }
            (At::Ground, _) => None,
            // A string ends with its escape, whether or not the backslash follows.
            (At::Osc, 0x1b) => {
                self.at = At::Escape;
                self.osc("\u{1b}\\")
            }
            (At::Osc, 0x07) => {
                self.at = At::Ground;
                self.osc("\u{7}")
            }
            (At::Dcs, 0x1b) => {
                self.at = At::Escape;
                (!self.cut && self.kept.starts_with(b"+q")).then_some(Tapped::Capability)
            }
            (_, 0x1b) => {
                self.at = At::Escape;
                None
            }
            (At::Escape, _) => self.after_escape(byte),
            (At::EscapeMore, 0x30..=0x7e) => {
                self.at = At::Ground;
                None
            }
            (At::EscapeMore, _) => None,
            (At::Csi, 0x40..=0x7e) => {
                self.at = At::Ground;
                self.csi(byte)
            }
            (At::Csi, 0x20..=0x3f) => {
                self.keep(byte, CSI_BYTES_MAX);
                None
            }
            // Other control bytes act at once and do not end it.
            (At::Csi, _) => None,
            (At::Osc | At::Dcs, _) => {
                self.keep(byte, OSC_BYTES_MAX);
                None
            }
            (At::Other, _) => None,
        }
    }

    fn after_escape(&mut self, byte: u8) -> Option<Tapped> {
        self.kept.clear();
        self.cut = false;
        self.at = match byte {
            b'[' => At::Csi,
            b']' => At::Osc,
            b'P' => At::Dcs,
            b'X' | b'^' | b'_' => At::Other,
            0x20..=0x2f => At::EscapeMore,
            // Control bytes act at once; the escape goes on.
            0x00..=0x1f => At::Escape,
            _ => At::Ground,
        };
        (byte == b'c').then_some(Tapped::Reset)
    }

    fn keep(&mut self, byte: u8, max: usize) {
        if self.kept.len() < max {
            self.kept.push(byte);
        } else {
            self.cut = true;
        }
    }

    fn csi(&mut self, last: u8) -> Option<Tapped> {
        if self.cut {
            return None;
        }
        match (self.kept.as_slice(), last) {
            (b">" | b">0", b'q') => Some(Tapped::Version),
            (b"?", b'u') => Some(Tapped::Keyboard),
            (b"?996", b'n') => Some(Tapped::Theme),
            (b">4;?" | b"?4", b'm') => Some(Tapped::ModifiedKeys),
            (b"16", b't') => Some(Tapped::CellSize),
            (b"?2026", b'h') => Some(Tapped::Frame { begins: true }),
            (b"?2026", b'l') => Some(Tapped::Frame { begins: false }),
            (b"?1049" | b"?1047" | b"?47", b'h') => Some(Tapped::Screen { alternate: true }),
            (b"?1049" | b"?1047" | b"?47", b'l') => Some(Tapped::Screen { alternate: false }),
            (b"!", b'p') => Some(Tapped::Reset),
            (inner, b'u') => Change::parse(inner).map(Tapped::Keys),
            (digits, b'r') => region(digits),
            _ => None,
        }
    }

    fn osc(&mut self, end: &'static str) -> Option<Tapped> {
        if self.cut {
            return None;
        }
        let text = String::from_utf8_lossy(&self.kept);
        if let Some(payload) = text.strip_prefix("7501;") {
            return Some(Tapped::Status { payload: payload.to_owned(), end });
        }
        let notice = text.strip_prefix("9;").or_else(|| text.strip_prefix("777;notify;"))?;
        // `9;4;…` is a progress bar.
        (!notice.starts_with("4;")).then(|| Tapped::Notice(notice.to_owned()))
    }
}

fn region(digits: &[u8]) -> Option<Tapped> {
    let text = std::str::from_utf8(digits).ok()?;
    let (top, bottom) = text.split_once(';').unwrap_or((text, ""));
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse().ok() };
    Some(Tapped::Region { top: number(top)?, bottom: number(bottom)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], chunk: usize) -> Vec<Tapped> {
        let (mut tap, mut found) = (Tap::default(), Vec::new());
        for mut part in bytes.chunks(chunk.max(1)) {
            while let Some((tapped, used)) = tap.next(part) {
                found.push(tapped);
                part = &part[used..];
            }
        }
        found
    }

    fn status(payload: &str, end: &'static str) -> Tapped {
        Tapped::Status { payload: payload.into(), end }
    }

    #[test]
    fn what_is_seen_in_which_bytes() {
        let table: &[(&str, &[Tapped])] = &[
            ("plain text", &[]),
            (
                "\u{1b}[>0q\u{1b}[?u\u{1b}]7501;?\u{7}\u{1b}[c",
                &[Tapped::Version, Tapped::Keyboard, status("?", "\u{7}")],
            ),
            ("\u{1b}]7501;state=idle:app=codex\u{1b}\\x", &[status("state=idle:app=codex", "\u{1b}\\")]),
            ("\u{1b}]0;title\u{7}\u{1b}]9;done\u{7}\u{1b}]9;4;1;50\u{7}", &[Tapped::Notice("done".into())]),
            (
                "\u{1b}[?2026h frame \u{1b}[?2026l",
                &[Tapped::Frame { begins: true }, Tapped::Frame { begins: false }],
            ),
            (
                "\u{1b}P+q544e\u{1b}\\\u{1b}[?996n\u{1b}[16t\u{1b}[>4;?m",
                &[Tapped::Capability, Tapped::Theme, Tapped::CellSize, Tapped::ModifiedKeys],
            ),
            // An escape ends a string and begins something new.
            ("\u{1b}]7501;state=idle\u{1b}[?u", &[status("state=idle", "\u{1b}\\"), Tapped::Keyboard]),
            // What is cut short, cancelled or hidden in another string is not there.
            ("\u{1b}]7501;state=idle", &[]),
            ("\u{1b}]7501;state=idle\u{18}", &[]),
            ("\u{1b}_G]7501;state=idle\u{7}\u{1b}\\", &[]),
            ("\u{1b}c", &[Tapped::Reset]),
            ("\u{1b}(B\u{1b}[?u", &[Tapped::Keyboard]),
        ];
        for (bytes, expected) in table {
            for chunk in [1, 2, 3, 7, 1000] {
                assert_eq!(all(bytes.as_bytes(), chunk), *expected, "{bytes:?} in pieces of {chunk}");
            }
        }
    }

    #[test]
    fn a_string_without_end_is_bounded_and_is_none_of_ours() {
        let mut bytes = b"\x1b]7501;msg=".to_vec();
        bytes.resize(1 << 20, b'x');
        bytes.extend(b"\x07\x1b[?u");
        let mut tap = Tap::default();
        assert_eq!(tap.next(&bytes).map(|(tapped, _)| tapped), Some(Tapped::Keyboard));
        assert!(tap.kept.capacity() <= 2 * OSC_BYTES_MAX);
    }

    #[test]
    fn any_chunking_sees_the_same() {
        bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, chunk)| {
            assert_eq!(all(bytes, usize::from(*chunk)), all(bytes, usize::MAX));
        });
    }
}
