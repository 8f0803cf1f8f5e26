//! What a person types: what of it is for the program, and what is for the viewer.
//!
//! Ctrl-b is ours, as in tmux: `d` after it detaches, `t` takes the keyboard, `m` lets mail come, another Ctrl-b is a Ctrl-b. Everything else
//! goes on byte for byte; a Ctrl-b in a paste is no key. A program that asked for kitty's keyboard gets keys as
//! sequences, and ours are known in that form too.
//! Not here: reading them and sending them on (`viewer`).

/// What was heard, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    Typed(Vec<u8>),
    Detach,
    Take,
    Yield,
}

const PREFIX: u8 = 0x02;

#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The prefix as it was typed, while it waits for what follows.
    prefix: Option<Vec<u8>>,
    in_paste: bool,
    /// The last bytes, to see a mark of a paste that comes in pieces.
    last: Vec<u8>,
}

/// One key: its letter, whether Ctrl alone was held, whether it was let go, and its bytes.
struct Key<'a> {
    letter: u8,
    is_ctrl: bool,
    is_plain: bool,
    is_release: bool,
    bytes: &'a [u8],
}

impl Keys {
    pub(super) fn hear(&mut self, bytes: &[u8]) -> Vec<Heard> {
        let (mut heard, mut typed, mut rest) = (Vec::new(), Vec::new(), bytes);
        while !rest.is_empty() {
            let key = key(rest);
            rest = &rest[key.bytes.len()..];
            self.look_for_paste(key.bytes);
            let is_prefix = key.letter == b'b' && key.is_ctrl && !key.is_release && !self.in_paste;
            let Some(prefix) = self.prefix.take() else {
                if is_prefix {
                    self.prefix = Some(key.bytes.to_vec());
                } else {
                    typed.extend_from_slice(key.bytes);
                }
                continue;
            };
            match key {
                // The fingers leave the prefix.
                Key { is_release: true, .. } => self.prefix = Some(prefix),
                Key { letter: b'd', is_plain: true, .. } => {
                    hand_over(&mut typed, &mut heard);
                    heard.push(Heard::Detach);
                    return heard;
                }
                Key { letter: b't', is_plain: true, .. } => {
                    hand_over(&mut typed, &mut heard);
                    heard.push(Heard::Take);
                }
                Key { letter: b'm', is_plain: true, .. } => {
                    hand_over(&mut typed, &mut heard);
                    heard.push(Heard::Yield);
                }
                _ if is_prefix => typed.extend_from_slice(key.bytes),
                // Not for us: both go on.
                _ => {
                    typed.extend_from_slice(&prefix);
                    typed.extend_from_slice(key.bytes);
                }
            }
        }
        hand_over(&mut typed, &mut heard);
        heard
    }

    fn look_for_paste(&mut self, bytes: &[u8]) {
        const MARK: usize = 6;
        for byte in bytes {
            self.last.push(*byte);
            if self.last.ends_with(b"\x1b[200~") {
                self.in_paste = true;
            } else if self.last.ends_with(b"\x1b[201~") {
                self.in_paste = false;
            }
            if self.last.len() > 2 * MARK {
                self.last.drain(..MARK);
            }
        }
    }
}

fn hand_over(typed: &mut Vec<u8>, heard: &mut Vec<Heard>) {
    if !typed.is_empty() {
        heard.push(Heard::Typed(std::mem::take(typed)));
    }
}

fn key(bytes: &[u8]) -> Key<'_> {
    if let Some(key) = kitty_key(bytes) {
        return key;
    }
    let letter = if bytes[0] == PREFIX { b'b' } else { bytes[0] };
    let is_ctrl = bytes[0] == PREFIX;
    Key { letter, is_ctrl, is_plain: !is_ctrl, is_release: false, bytes: &bytes[..1] }
}

/// `CSI letter ; modifiers : event u`, as kitty's keyboard protocol has it.
fn kitty_key(bytes: &[u8]) -> Option<Key<'_>> {
    const LONGEST: usize = 24;
    let inner = bytes.strip_prefix(b"\x1b[")?;
    let end = inner.iter().take(LONGEST).position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b':'))?;
    if inner[end] != b'u' {
        return None;
    }
    let mut fields = std::str::from_utf8(&inner[..end]).ok()?.split(';');
    let letter = fields.next()?.split(':').next()?.parse::<u32>().ok()?;
    let mut second = fields.next().unwrap_or_default().split(':');
    let modifiers = second.next().and_then(|text| text.parse::<u32>().ok()).unwrap_or(1).saturating_sub(1);
    let event = second.next().unwrap_or("1");
    // The locks of capitals and digits are no modifiers to us.
    let held = modifiers & !(64 | 128);
    Some(Key {
        letter: u8::try_from(letter).unwrap_or(0),
        is_ctrl: held == 4,
        is_plain: held == 0,
        is_release: event == "3",
        bytes: &bytes[..end + 3],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&[u8]]) -> Vec<Heard> {
        let mut keys = Keys::default();
        pieces.iter().flat_map(|piece| keys.hear(piece)).collect()
    }

    fn typed(bytes: &[u8]) -> Heard {
        Heard::Typed(bytes.to_vec())
    }

    #[test]
    fn the_prefix_and_what_follows_it() {
        assert_eq!(heard(&[b"abc"]), [typed(b"abc")]);
        assert_eq!(heard(&[b"a\x02dz"]), [typed(b"a"), Heard::Detach]);
        assert_eq!(heard(&[b"\x02\x02x"]), [typed(b"\x02x")]);
        assert_eq!(heard(&[b"\x02x"]), [typed(b"\x02x")]);
        assert_eq!(heard(&[b"a\x02"]), [typed(b"a")]);
        assert_eq!(heard(&[b"\x02", b"d"]), [Heard::Detach]);
        assert_eq!(heard(&[b"\x02", b"ty"]), [Heard::Take, typed(b"y")]);
        assert_eq!(heard(&[b"a\x02my"]), [typed(b"a"), Heard::Yield, typed(b"y")]);
    }

    #[test]
    fn a_prefix_in_a_paste_is_text() {
        let paste = b"\x1b[200~a\x02d\x1b[201~";
        assert_eq!(heard(&[paste]), [typed(paste)]);
        let pieces: Vec<&[u8]> = paste.chunks(1).collect();
        let told: Vec<u8> = heard(&pieces)
            .into_iter()
            .flat_map(|heard| if let Heard::Typed(bytes) = heard { bytes } else { panic!("{heard:?}") })
            .collect();
        assert_eq!(told, paste);
        assert_eq!(heard(&[paste, b"\x02d"]), [typed(paste), Heard::Detach]);
    }

    #[test]
    fn the_prefix_as_a_sequence() {
        assert_eq!(heard(&[b"\x1b[98;5ud"]), [Heard::Detach]);
        assert_eq!(heard(&[b"\x1b[98;5u\x1b[98;5:3u\x1b[100u"]), [Heard::Detach]);
        assert_eq!(heard(&[b"\x1b[98;133:1u", b"\x1b[100;1:1u"]), [Heard::Detach]);
        // A plain b, a c with Ctrl, an arrow: not ours.
        for other in
            [&b"\x1b[98u"[..], b"\x1b[99;5u", b"\x1b[A", b"\x1b[<0;3;4M", b"\x1b[I", b"\x1bb", b"\x1b"]
        {
            assert_eq!(heard(&[other]), [typed(other)]);
        }
        assert_eq!(heard(&[b"\x1b[98;5u\x1b[99;5u"]), [typed(b"\x1b[98;5u\x1b[99;5u")]);
    }

    #[test]
    fn any_bytes_without_the_prefix_pass_as_they_are() {
        bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, piece)| {
            let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != PREFIX).collect();
            let pieces: Vec<&[u8]> = bytes.chunks(usize::from(*piece).max(1)).collect();
            let kitty = bytes.windows(4).any(|four| four == b"\x1b[98");
            let told: Vec<u8> = heard(&pieces)
                .into_iter()
                .flat_map(|heard| if let Heard::Typed(bytes) = heard { bytes } else { Vec::new() })
                .collect();
            assert!(kitty || told == bytes);
        });
    }
}
