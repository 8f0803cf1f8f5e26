//! Skimming: of a flood, only what will still be there at its end is drawn.
//!
//! Lines that scroll out above all that is kept leave nothing behind but colours. In a run of plain text, colours and
//! moves within a few rows, everything before the last screens can be left out, and the grid ends up the same.
//!
//! Invariant: drawing `carry` and then the text from `from` on gives the same screen, scrollback and cursor as
//! drawing all of it.
//! Not here: whether the terminal is in a state in which that holds (`screen`).

/// What of a text has to be drawn.
#[derive(Debug, PartialEq, Eq)]
pub struct Skimmed {
    /// Drawn first: the colours at that place.
    pub carry: String,
    pub from: usize,
    /// Up to here the text was looked at; what follows is more than plain text.
    pub upto: usize,
}

/// Texts shorter than this are not worth it.
pub const BYTES_MIN: usize = 64 << 10;

/// Where `text` is plain, how much of it can be left out for a screen of so many rows with so many lines above it.
pub fn skim(text: &str, rows: usize, scrollback: usize) -> Skimmed {
    let (plain, mut lines) = look(text.as_bytes(), rows);
    let all = Skimmed { carry: String::new(), from: 0, upto: plain.upto };
    let needed = scrollback + 2 * rows + 8;
    let Some(most) = plain.down.checked_sub(needed) else { return all };
    // The last line end with enough below it.
    while lines.last().is_some_and(|line| line.down > most) {
        lines.pop();
    }
    match lines.last() {
        Some(line) => Skimmed { carry: carry(&text[..line.ends]), from: line.ends, upto: plain.upto },
        None => all,
    }
}

/// What was seen of a text.
struct Plain {
    upto: usize,
    /// By how many rows it goes down, on the whole.
    down: usize,
}

/// A line end after which the cursor is in the first column, outside a frame.
struct LineEnd {
    ends: usize,
    down: usize,
}

fn look(bytes: &[u8], rows: usize) -> (Plain, Vec<LineEnd>) {
    let (mut at, mut down, mut in_frame, mut lines) = (0, 0_usize, false, Vec::new());
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => {
                at += 1;
                down += 1;
                if at >= 2 && bytes[at - 2] == b'\r' && !in_frame {
                    lines.push(LineEnd { ends: at, down });
                }
            }
            0x20..=0x7e | 0x80.. => at += 1 + printable(&bytes[at + 1..]),
            b'\r' | b'\t' | 0x08 => at += 1,
            0x1b => match sequence(&bytes[at..]) {
                Some((Sequence::Local, used)) => at += used,
                Some((Sequence::Frame(begins), used)) => {
                    in_frame = begins;
                    let at_start = bytes[..at].ends_with(b"\r\n");
                    at += used;
                    if at_start && !in_frame {
                        lines.push(LineEnd { ends: at, down });
                    }
                }
                Some((Sequence::Up(by), used)) if by <= rows => {
                    down = down.saturating_sub(by);
                    // What it goes up over is drawn again: no line end before that is a place to begin.
                    while lines.last().is_some_and(|line: &LineEnd| line.down > down) {
                        lines.pop();
                    }
                    at += used;
                }
                _ => break,
            },
            _ => break,
        }
    }
    (Plain { upto: at, down }, lines)
}

/// How many bytes at the start of `bytes` are surely no controls: eight at a time, so perhaps not all of them.
fn printable(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x80 * ONES;
    let is_printable = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let below_space = word.wrapping_sub(0x20 * ONES) & !word & TOPS;
        let delete = word ^ (0x7f * ONES);
        below_space | (delete.wrapping_sub(ONES) & !delete & TOPS) == 0
    };
    let (words, _) = bytes.as_chunks::<8>();
    8 * words.iter().take_while(|word| is_printable(word)).count()
}

enum Sequence {
    /// Colours, and what happens within a row.
    Local,
    Up(usize),
    /// A synchronized frame begins or ends.
    Frame(bool),
}

/// The sequence at the start of `bytes`, if it is one of the plain ones and whole.
fn sequence(bytes: &[u8]) -> Option<(Sequence, usize)> {
    const BYTES_MAX: usize = 40;
    let inside = bytes.strip_prefix(b"\x1b[")?;
    let end = inside.iter().take(BYTES_MAX).position(|b| (0x40..=0x7e).contains(b))?;
    let (parameters, used) = (&inside[..end], end + 3);
    let numbers = parameters.iter().all(|b| b.is_ascii_digit() || matches!(b, b';' | b':'));
    let sequence = match (inside[end], parameters) {
        (b'm' | b'K' | b'G' | b'C' | b'D' | b'X', _) if numbers => Sequence::Local,
        (b'A', _) if numbers => {
            Sequence::Up(std::str::from_utf8(parameters).ok()?.parse().unwrap_or(1).max(1))
        }
        (b'h', b"?2026") => Sequence::Frame(true),
        (b'l', b"?2026") => Sequence::Frame(false),
        _ => return None,
    };
    Some((sequence, used))
}

/// What sets the colours as they are after `skipped`, and ends a frame that it may have ended.
fn carry(skipped: &str) -> String {
    let mut carry = String::new();
    if skipped.contains("\u{1b}[?2026") {
        carry.push_str("\u{1b}[?2026l");
    }
    let mut rest = &skipped[last_reset(skipped)..];
    while let Some(escape) = rest.find('\u{1b}') {
        rest = &rest[escape..];
        let used = sequence(rest.as_bytes()).map_or(1, |(_, used)| used);
        if rest[..used].ends_with('m') {
            carry.push_str(&rest[..used]);
        }
        rest = &rest[used..];
    }
    carry
}

/// Where the colours were last reset. Looked for near the end first: there is nearly always one.
fn last_reset(text: &str) -> usize {
    const NEAR: usize = 4 << 10;
    let near = text.floor_char_boundary(text.len().saturating_sub(NEAR));
    let find = |part: &str| part.rfind("\u{1b}[0m").max(part.rfind("\u{1b}[m"));
    find(&text[near..]).map(|at| near + at).or_else(|| find(text)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Screen, Size};

    const ROWS: u16 = 6;
    const ABOVE: usize = 20;

    /// The same text drawn whole and skimmed.
    fn check(before: &str, text: &str) -> bool {
        let draw = |pieces: &[&str]| {
            let mut screen = Screen::new(Size::new(20, ROWS), ABOVE);
            let mut seen = Vec::new();
            pieces.iter().for_each(|piece| screen.feed_whole(piece, &mut seen));
            screen
        };
        let skimmed = skim(text, usize::from(ROWS), ABOVE);
        let whole = draw(&[before, text]);
        let short = draw(&[before, &skimmed.carry, &text[skimmed.from..]]);
        assert_eq!(short.as_ansi(true), whole.as_ansi(true), "{before:?}\n{text:?}\n{skimmed:?}");
        skimmed.from > 0
    }

    #[test]
    fn what_scrolls_away_need_not_be_drawn() {
        let line = "\u{1b}[1;31mred \u{1b}[0mand 日本 plain\u{1b}[K\r\n";
        let frame = "\u{1b}[?2026hone\r\ntwo\r\n\u{1b}[2A\u{1b}[2Kthree\r\n\u{1b}[3Gfour\r\n\u{1b}[?2026l";
        let spinner = "\r\u{1b}[2K\u{1b}[36m⠋\u{1b}[0m busy";
        for (text, skips) in [
            (line.repeat(100), true),
            (frame.repeat(60), true),
            ([line, frame, spinner].concat().repeat(60), true),
            (format!("\u{1b}[32m{}", "green\r\n".repeat(200)), true),
            (format!("\u{1b}[32m\u{1b}[44m{}\u{1b}[0m", "x\r\n".repeat(200)), true),
            (line.repeat(5), false),
            ("no line ends ".repeat(500), false),
            (format!("{}\u{1b}[H{}", line.repeat(3), line.repeat(100)), false),
        ] {
            for before in ["", "a line\r\n", "\u{1b}[35mpurple", &line.repeat(30)] {
                assert_eq!(check(before, &text), skips, "{text:?}");
            }
        }
    }

    #[test]
    fn whatever_comes_the_screen_is_the_same() {
        const PIECES: &[&str] = &[
            "word ",
            "\r\n",
            "\n",
            "\r",
            "\t",
            "日本",
            "\u{1b}[31m",
            "\u{1b}[0m",
            "\u{1b}[m",
            "\u{1b}[K",
            "\u{1b}[2K",
            "\u{1b}[2A",
            "\u{1b}[A",
            "\u{1b}[9A",
            "\u{1b}[5G",
            "\u{1b}[?2026h",
            "\u{1b}[?2026l",
            "\u{1b}[1;44m",
            "long enough to wrap around",
            "\u{1b}[3D",
            "\u{8}",
            "\u{1b}[H",
            "\r\n\r\n\r\n\r\n",
            "x\r\n",
            "y\r\n",
        ];
        bolero::check!().with_type::<(Vec<u8>, Vec<u8>)>().for_each(|(before, text)| {
            let make = |picks: &[u8]| -> String {
                picks.iter().map(|n| PIECES[usize::from(*n) % PIECES.len()]).collect()
            };
            // Most texts are made long enough that something can be left out.
            let text = make(text).repeat(8);
            check(&make(before), &text[..skim(&text, usize::from(ROWS), ABOVE).upto]);
        });
    }
}
