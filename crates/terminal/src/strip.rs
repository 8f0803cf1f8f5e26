//! What a person's terminal must not see: the queries a program sends. They are answered once, by us; a second answer
//! would arrive as keys.
//!
//! Everything else passes through byte for byte. A sequence that is not whole yet is held back until it is, up to a
//! bound; text is never held back.

use crate::keyboard::{Change, Keyboard};
use crate::picture::{LEAVE, LEAVE_ALTERNATE};

/// Holds the beginning of a sequence whose end has not come.
#[derive(Debug, Default)]
pub struct Strip {
    held: Vec<u8>,
    on_alternate: bool,
    /// Within a string that is too long to be held back, such as an image: its end has not come.
    in_string: bool,
    /// Within a frame that the terminal is to show at once (mode 2026).
    in_frame: bool,
    keyboard: Keyboard,
    /// The program asked for keys with modifiers as sequences (xterm's `modifyOtherKeys`).
    modified_keys: bool,
}

/// Longer sequences are no queries: images, clipboards.
const HELD_MAX: usize = 256;

enum Found {
    /// A whole sequence of this length.
    Whole(usize),
    /// Its end has not come yet.
    Open,
}

impl Strip {
    /// What of these bytes, and of those held back, may be shown.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let joined;
        let mut rest = if self.held.is_empty() {
            bytes
        } else {
            self.held.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.held);
            &joined
        };
        while let Some(at) = memchr::memchr2(0x1b, 0x05, rest) {
            self.text(&rest[..at], out);
            rest = &rest[at..];
            // ENQ asks for a word of the terminal's choice.
            if rest[0] == 0x05 {
                rest = &rest[1..];
                continue;
            }
            match extent(rest) {
                Found::Whole(length) => {
                    // An escape ends every string.
                    self.in_string = false;
                    self.note(&rest[..length]);
                    if !is_query(&rest[..length]) {
                        out.extend_from_slice(&rest[..length]);
                    }
                    rest = &rest[length..];
                }
                Found::Open if rest.len() < HELD_MAX => {
                    self.held = rest.to_vec();
                    return;
                }
                Found::Open => {
                    self.in_string = rest[1] != b'[';
                    out.push(rest[0]);
                    rest = &rest[1..];
                }
            }
        }
        self.text(rest, out);
    }

    fn text(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.in_string && bytes.iter().any(|byte| matches!(byte, 0x07 | 0x18 | 0x1a)) {
            self.in_string = false;
        }
        out.extend_from_slice(bytes);
    }
}

impl Strip {
    /// What undoes in a person's terminal all that was passed: modes, keyboard, the alternate screen.
    pub fn leave(&self) -> String {
        let mut out = String::new();
        // Only if it is on: elsewhere it would move the cursor.
        if self.on_alternate {
            out.push_str(&self.keyboard.take_back(true));
            out.push_str(LEAVE_ALTERNATE);
        }
        out.push_str(LEAVE);
        out.push_str(&self.keyboard.take_back(false));
        // Only if it is on: not every terminal knows it.
        if self.modified_keys {
            out.push_str("\u{1b}[>4m");
        }
        out
    }

    /// Whether what was passed ends between two sequences: something else may be shown now.
    pub fn is_whole(&self) -> bool {
        self.held.is_empty() && !self.in_string
    }

    /// Whether what was passed ends on the alternate screen.
    pub fn is_on_alternate(&self) -> bool {
        self.on_alternate
    }

    /// Whether what was passed ends within a frame.
    pub fn is_in_frame(&self) -> bool {
        self.in_frame
    }

    fn note(&mut self, sequence: &[u8]) {
        match sequence {
            b"\x1b[?1049h" | b"\x1b[?1047h" | b"\x1b[?47h" => self.switch(true),
            b"\x1b[?1049l" | b"\x1b[?1047l" | b"\x1b[?47l" => self.switch(false),
            b"\x1bc" => {
                (self.on_alternate, self.in_frame) = (false, false);
                (self.keyboard, self.modified_keys) = (Keyboard::default(), false);
            }
            [0x1b, b'[', b'>', b'4', level @ .., b'm'] => {
                self.modified_keys = matches!(level, b";1" | b";2" | b";3");
            }
            [0x1b, b'[', b'?', modes @ .., end @ (b'h' | b'l')]
                if modes.split(|byte| *byte == b';').any(|mode| mode == b"2026") =>
            {
                self.in_frame = *end == b'h';
            }
            [0x1b, b'[', inner @ .., b'u'] => {
                if let Some(change) = Change::parse(inner) {
                    self.keyboard.change(change);
                }
            }
            _ => {}
        }
    }

    fn switch(&mut self, alternate: bool) {
        self.on_alternate = alternate;
        self.keyboard.switch(alternate);
    }
}

/// How far the sequence at the beginning reaches.
fn extent(bytes: &[u8]) -> Found {
    match bytes.get(1) {
        None => Found::Open,
        Some(b'[') => {
            let end = bytes[2..].iter().position(|byte| !(0x20..=0x3f).contains(byte));
            end.map_or(Found::Open, |at| Found::Whole(at + 3))
        }
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let Some(at) = bytes[2..].iter().position(|byte| matches!(byte, 0x07 | 0x1b | 0x18 | 0x1a))
            else {
                return Found::Open;
            };
            let at = at + 2;
            match (bytes[at], bytes.get(at + 1)) {
                (0x1b, None) => Found::Open,
                (0x1b, Some(b'\\')) => Found::Whole(at + 2),
                // It ends where another begins.
                (0x1b, Some(_)) => Found::Whole(at),
                _ => Found::Whole(at + 1),
            }
        }
        Some(_) => Found::Whole(2),
    }
}

fn is_query(sequence: &[u8]) -> bool {
    match sequence {
        [0x1b, b'Z'] => true,
        [0x1b, b'[', inner @ .., last] => match (inner, last) {
            // Attributes.
            (b"" | b"0" | b">" | b">0" | b"=" | b"=0", b'c') => true,
            // Status, cursor, theme.
            (b"5" | b"6" | b"?5" | b"?6" | b"?996" | b"?15" | b"?25" | b"?26", b'n') => true,
            (b">" | b">0", b'q') => true,
            (b"?", b'u') => true,
            (b">4;?" | b"?4", b'm') => true,
            // Modes.
            (inner, b'p') => inner.ends_with(b"$"),
            // Sizes and titles.
            (b"11" | b"13" | b"14" | b"14;2" | b"15" | b"16" | b"18" | b"19" | b"20" | b"21", b't') => true,
            _ => false,
        },
        [0x1b, b']', inner @ ..] => {
            let text = String::from_utf8_lossy(inner);
            let text = text.trim_end_matches(['\u{7}', '\u{1b}', '\\']);
            let code = text.split(';').next().unwrap_or_default();
            let asks = matches!(
                code,
                "4" | "5"
                    | "10"
                    | "11"
                    | "12"
                    | "13"
                    | "14"
                    | "15"
                    | "16"
                    | "17"
                    | "18"
                    | "19"
                    | "52"
                    | "7501"
            );
            asks && text.ends_with(";?")
        }
        [0x1b, b'P', inner @ ..] => inner.starts_with(b"+q") || inner.starts_with(b"$q"),
        [0x1b, b'_', b'G', inner @ ..] => {
            let control = inner.split(|byte| *byte == b';').next().unwrap_or_default();
            control.split(|byte| *byte == b',').any(|pair| pair == b"a=q")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut strip, mut out) = (Strip::default(), Vec::new());
        bytes.chunks(piece.max(1)).for_each(|part| strip.pass(part, &mut out));
        out
    }

    #[test]
    fn queries_are_taken_out_and_nothing_else() {
        let queries = [
            "\u{1b}[c",
            "\u{1b}[>c",
            "\u{1b}[6n",
            "\u{1b}[?996n",
            "\u{1b}[>0q",
            "\u{1b}[?u",
            "\u{1b}]7501;?\u{7}",
            "\u{1b}]11;?\u{1b}\\",
            "\u{1b}]4;3;?\u{7}",
            "\u{1b}[?2026$p",
            "\u{1b}[14t",
            "\u{1b}P+q544e\u{1b}\\",
            "\u{1b}_Gi=1,a=q;AAAA\u{1b}\\",
            "\u{5}",
            "\u{1b}[>4;?m",
        ];
        let others = [
            "\u{1b}[31m",
            "\u{1b}[?1049h",
            "\u{1b}]0;title\u{7}",
            "\u{1b}]7501;state=idle\u{7}",
            "\u{1b}[>7u",
            "\u{1b}[2J",
            "\u{1b}]52;c;aGk=\u{7}",
            "\u{1b}_Ga=T;AAAA\u{1b}\\",
            "\u{1b}7",
            "\u{1b}(B",
            "世界",
            "\u{1b}]8;;http://x\u{1b}\\",
            "\u{1b}]11;rgb:0/0/0\u{7}",
            "\u{1b}[8;40;120t",
        ];
        for piece in [1, 2, 5, 1000] {
            for query in queries {
                let text = format!("a{query}b");
                assert_eq!(passed(text.as_bytes(), piece), b"ab", "{query:?} in pieces of {piece}");
            }
            for other in others {
                let text = format!("a{other}b");
                assert_eq!(passed(text.as_bytes(), piece), text.as_bytes(), "{other:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn what_was_passed_is_undone_and_no_more() {
        let leave = |text: &str| {
            let (mut strip, mut out) = (Strip::default(), Vec::new());
            strip.pass(text.as_bytes(), &mut out);
            strip.leave()
        };
        assert_eq!(leave("plain"), LEAVE);
        assert_eq!(leave("\u{1b}[?1049h"), format!("{LEAVE_ALTERNATE}{LEAVE}"));
        assert_eq!(leave("\u{1b}[?1049h\u{1b}[?1049l"), LEAVE);
        assert_eq!(
            leave("\u{1b}[>1u\u{1b}[?1049h\u{1b}[>7u\u{1b}[>3u"),
            format!("\u{1b}[<2u{LEAVE_ALTERNATE}{LEAVE}\u{1b}[<1u")
        );
        assert_eq!(leave("\u{1b}[>1u\u{1b}[<u"), LEAVE);
    }

    #[test]
    fn leaving_does_not_move_the_cursor() {
        for text in ["one\r\ntwo", "one\r\ntwo\u{1b}[?1049h\u{1b}[5;5Hx", "\u{1b}[2;4rone\r\ntwo\u{1b}[2;4H"]
        {
            let mut screen = crate::Screen::new(crate::Size::new(20, 6), 0);
            let (mut strip, mut out) = (Strip::default(), Vec::new());
            strip.pass(text.as_bytes(), &mut out);
            out.extend_from_slice(strip.leave().as_bytes());
            screen.feed(&out, &mut Vec::new());
            assert_eq!(screen.cursor(), (1, 3), "{text:?}");
        }
    }

    #[test]
    fn nothing_else_is_shown_within_a_sequence_or_a_frame() {
        let long = format!("\u{1b}]52;c;{}", "x".repeat(2 * HELD_MAX));
        for (text, is_whole, is_in_frame) in [
            ("plain".to_owned(), true, false),
            ("\u{1b}]0;title".to_owned(), false, false),
            (long.clone(), false, false),
            (format!("{long}yyy"), false, false),
            (format!("{long}\u{7}"), true, false),
            (format!("{long}\u{1b}\\"), true, false),
            (format!("{long}\u{7}text"), true, false),
            ("\u{1b}[?2026hdraws".to_owned(), true, true),
            ("\u{1b}[?25;2026hdraws".to_owned(), true, true),
            ("\u{1b}[?2026hdraws\u{1b}[?2026l".to_owned(), true, false),
            ("\u{1b}[?2026hdraws\u{1b}c".to_owned(), true, false),
        ] {
            for piece in [1, 7, usize::MAX] {
                let mut strip = Strip::default();
                for part in text.as_bytes().chunks(piece.min(text.len())) {
                    strip.pass(part, &mut Vec::new());
                }
                assert_eq!(
                    (strip.is_whole(), strip.is_in_frame()),
                    (is_whole, is_in_frame),
                    "{text:.20} by {piece}"
                );
            }
        }
    }

    #[test]
    fn a_sequence_without_end_is_not_held_for_ever() {
        let text = format!("\u{1b}]0;{}", "x".repeat(2 * HELD_MAX));
        let (mut strip, mut out) = (Strip::default(), Vec::new());
        strip.pass(text.as_bytes(), &mut out);
        assert_eq!(out, text.as_bytes());
    }

    #[test]
    fn any_chunking_passes_the_same_bytes() {
        bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, piece)| {
            // Short enough that none is held beyond the bound.
            let bytes = &bytes[..bytes.len().min(HELD_MAX - 1)];
            let (mut one, mut other) = (passed(bytes, usize::from(*piece)), passed(bytes, usize::MAX));
            // What is still held at the end may be cut elsewhere.
            let shorter = one.len().min(other.len());
            one.truncate(shorter);
            other.truncate(shorter);
            assert_eq!(one, other);
        });
    }
}
