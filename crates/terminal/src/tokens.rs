//! Reads one key from the bytes a terminal sends: a character, one of the few keys that edit a line, or something else.
//!
//! Keys come plain, or as sequences of kitty's keyboard protocol if the program asked for that. A lone escape at the end
//! of the bytes is the key Esc, and an escape with one byte behind it is that key with Alt. A caller that may see a
//! sequence cut in two uses `key_reader`, which waits for the rest.
//! Not here: what is done with the keys (`watch`; the viewer of the binary).

/// One key, or one word of the terminal itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    Text(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    /// Ctrl-C.
    Cancel,
    /// Ctrl-U.
    Clear,
    /// Ctrl-W.
    Word,
    PasteBegins,
    PasteEnds,
    /// Not typed: focus, mouse, answers to questions, a modifier alone.
    Report,
    /// A key was let go.
    Release,
    /// Any other key.
    Key,
}

/// A sequence that is longer than this is taken as it is.
const SEQUENCE_BYTES_MAX: usize = 4096;

/// The first token and how many bytes it has; none if its end has not come yet. `bytes` is not empty.
pub fn first(bytes: &[u8]) -> Option<(Token, usize)> {
    let one = |token| Some((token, 1));
    match bytes[0] {
        b'\r' => one(Token::Enter),
        b'\t' => one(Token::Tab),
        0x7f | 0x08 => one(Token::Backspace),
        0x03 => one(Token::Cancel),
        0x15 => one(Token::Clear),
        0x17 => one(Token::Word),
        0x1b => escape(bytes),
        byte @ 0x20..=0x7e => one(Token::Text(char::from(byte))),
        0x80.. => character(bytes),
        _ => one(Token::Key),
    }
}

fn character(bytes: &[u8]) -> Option<(Token, usize)> {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((Token::Key, 1)),
    };
    let there = &bytes[..length.min(bytes.len())];
    match std::str::from_utf8(there) {
        Ok(text) => text.chars().next().map(|c| {
            let token = if c.is_control() { Token::Key } else { Token::Text(c) };
            (token, length)
        }),
        Err(e) if e.error_len().is_none() && bytes.len() < length => None,
        Err(_) => Some((Token::Key, 1)),
    }
}

fn escape(bytes: &[u8]) -> Option<(Token, usize)> {
    match bytes {
        [_] | [_, 0x1b, ..] => Some((Token::Escape, 1)),
        // With Alt.
        [_, ..=0x7f] => Some((Token::Key, 2)),
        [_, b'[', ..] => control(bytes),
        [_, b'O', ..] => Some((Token::Key, 3)),
        [_, b']' | b'P' | b'_' | b'^', ..] => string(bytes),
        [_, 0x80..=0xff, ..] => character(&bytes[1..]).map(|(_, length)| (Token::Key, 1 + length)),
        _ => Some((Token::Key, 2)),
    }
}

/// A string of the terminal, up to its end mark.
fn string(bytes: &[u8]) -> Option<(Token, usize)> {
    let end = bytes.iter().skip(2).position(|byte| matches!(byte, 0x07 | 0x1b)).map(|at| at + 2);
    match end {
        Some(end) if bytes[end] == 0x07 => Some((Token::Report, end + 1)),
        Some(end) if bytes.get(end + 1) == Some(&b'\\') => Some((Token::Report, end + 2)),
        Some(end) if end + 1 < bytes.len() => Some((Token::Report, end)),
        _ => too_long(bytes),
    }
}

fn too_long(bytes: &[u8]) -> Option<(Token, usize)> {
    (bytes.len() >= SEQUENCE_BYTES_MAX).then_some((Token::Report, bytes.len()))
}

fn control(bytes: &[u8]) -> Option<(Token, usize)> {
    let Some(end) = bytes.iter().skip(2).position(|byte| !matches!(byte, 0x20..=0x3f)).map(|at| at + 2)
    else {
        return too_long(bytes);
    };
    let (inner, last, length) = (&bytes[2..end], bytes[end], end + 1);
    // The old form of mouse reports has three bytes behind it.
    if inner.is_empty() && last == b'M' {
        return (bytes.len() >= length + 3).then_some((Token::Report, length + 3));
    }
    if !(0x40..=0x7e).contains(&last) {
        return Some((Token::Key, end));
    }
    let token = match (inner, last) {
        (b"200", b'~') => Token::PasteBegins,
        (b"201", b'~') => Token::PasteEnds,
        (b"", b'I' | b'O') => Token::Report,
        ([b'<' | b'?' | b'>' | b'=', ..], _) => Token::Report,
        (_, b't') => Token::Report,
        ([_, ..], b'R') if !inner.starts_with(b"1;") => Token::Report,
        (_, b'u') => kitty(inner),
        _ if event(inner) == "3" => Token::Release,
        _ => Token::Key,
    };
    Some((token, length))
}

/// The event in the second field: 1 pressed, 2 again, 3 let go.
fn event(inner: &[u8]) -> &str {
    let text = std::str::from_utf8(inner).unwrap_or_default();
    text.split(';').nth(1).and_then(|field| field.split(':').nth(1)).unwrap_or("1")
}

/// `code:shifted:base ; modifiers:event ; text`
fn kitty(inner: &[u8]) -> Token {
    const SHIFT: u32 = 1;
    const CTRL: u32 = 4;
    const LOCKS: u32 = 64 | 128;
    const MODIFIERS: std::ops::RangeInclusive<u32> = 57441..=57454;
    if event(inner) == "3" {
        return Token::Release;
    }
    let text = std::str::from_utf8(inner).unwrap_or_default();
    let field = |n: usize, part: usize| {
        text.split(';').nth(n)?.split(':').nth(part)?.parse::<u32>().ok().filter(|number| *number > 0)
    };
    let Some(code) = field(0, 0) else { return Token::Key };
    let held = field(1, 0).unwrap_or(1).saturating_sub(1) & !LOCKS;
    let letter = |code: u32| char::from_u32(code).filter(|c| !c.is_control() && !is_function(*c));
    match (code, held) {
        (code, _) if MODIFIERS.contains(&code) => Token::Report,
        (13, 0) => Token::Enter,
        (27, 0) => Token::Escape,
        (9, 0) => Token::Tab,
        (127, 0) => Token::Backspace,
        (99, CTRL) => Token::Cancel,
        (117, CTRL) => Token::Clear,
        (119, CTRL) => Token::Word,
        (code, 0 | SHIFT) => {
            let plain = if held == SHIFT { field(0, 1) } else { Some(code) };
            field(2, 0).or(plain).and_then(letter).map_or(Token::Key, Token::Text)
        }
        _ => Token::Key,
    }
}

/// Keys without a character of their own are in the area of Unicode for private use.
fn is_function(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_is() {
        type Row = (&'static [u8], Option<(Token, usize)>);
        let table: &[Row] = &[
            (b"ab", Some((Token::Text('a'), 1))),
            ("＠x".as_bytes(), Some((Token::Text('＠'), 3))),
            (&"＠".as_bytes()[..2], None),
            ("👩".as_bytes(), Some((Token::Text('👩'), 4))),
            (b"\xff", Some((Token::Key, 1))),
            (b"\xe3x", Some((Token::Key, 1))),
            (b"\r", Some((Token::Enter, 1))),
            (b"\n", Some((Token::Key, 1))),
            (b"\x7f", Some((Token::Backspace, 1))),
            (b"\x1b", Some((Token::Escape, 1))),
            (b"\x1b\x1b", Some((Token::Escape, 1))),
            (b"\x1bx", Some((Token::Key, 2))),
            (b"\x1b[", Some((Token::Key, 2))),
            (b"\x1b[A@", Some((Token::Key, 3))),
            (b"\x1bOA", Some((Token::Key, 3))),
            (b"\x1b[20", None),
            (b"\x1b[200~@", Some((Token::PasteBegins, 6))),
            (b"\x1b[201~", Some((Token::PasteEnds, 6))),
            (b"\x1b[I", Some((Token::Report, 3))),
            (b"\x1b[<0;3;4M", Some((Token::Report, 9))),
            (b"\x1b[M !!", Some((Token::Report, 6))),
            (b"\x1b[M !", None),
            (b"\x1b[?62;22c", Some((Token::Report, 9))),
            (b"\x1b[12;40R", Some((Token::Report, 8))),
            (b"\x1b[1;5R", Some((Token::Key, 6))),
            (b"\x1b]11;rgb:0/0/0\x07x", Some((Token::Report, 15))),
            (b"\x1b]11;rgb:0/0/0\x1b\\x", Some((Token::Report, 16))),
            (b"\x1b]11;rgb", None),
            // Of kitty's keyboard.
            (b"\x1b[27u", Some((Token::Escape, 5))),
            (b"\x1b[27;129u", Some((Token::Escape, 9))),
            (b"\x1b[99;5u", Some((Token::Cancel, 7))),
            (b"\x1b[117;5:1u", Some((Token::Clear, 10))),
            (b"\x1b[97;1:3u", Some((Token::Release, 9))),
            (b"\x1b[1;1:3A", Some((Token::Release, 8))),
            (b"\x1b[64u", Some((Token::Text('@'), 5))),
            (b"\x1b[50:64;2u", Some((Token::Text('@'), 10))),
            (b"\x1b[50;2;64u", Some((Token::Text('@'), 10))),
            (b"\x1b[50;2u", Some((Token::Key, 7))),
            (b"\x1b[57441;2u", Some((Token::Report, 10))),
            (b"\x1b[57376u", Some((Token::Key, 8))),
        ];
        for (bytes, expected) in table {
            assert_eq!(first(bytes), *expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn any_bytes_are_read_to_their_end() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let Some((_, length)) = first(rest) else { break };
                assert!(length > 0 && length <= rest.len(), "{rest:?}");
                rest = &rest[length..];
            }
        });
    }
}
