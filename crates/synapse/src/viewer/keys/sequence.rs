//! One key as a terminal sends it: a byte, or a sequence of kitty's keyboard protocol or of xterm's
//! `modifyOtherKeys`.
//!
//! Codex, Gemini CLI, OpenCode and others switch on such sequences, and then Ctrl-b arrives as `CSI
//! 98;5u` or `CSI 27;5;98~`. As bytes, terminals send Ctrl-\ for Ctrl-4, Ctrl-] for Ctrl-5 and so
//! on, like the VT100, for keyboards that lack these keys. As sequences they send Ctrl-4 itself, so
//! this module knows these keys too.
//! Not here: what a key means (`keys`).

use synapse_settings::PrefixKey;

/// One key, and the bytes that it was sent as.
#[derive(Debug)]
pub(super) struct Key<'a> {
    form: Form,
    pub(super) bytes: &'a [u8],
}

#[derive(Debug)]
enum Form {
    Byte(u8),
    Sequence {
        code: u32,
        /// The code of the same key with Shift.
        shifted: Option<u32>,
        /// The code of the key at the same position on a US keyboard.
        base: Option<u32>,
        /// The modifiers, without Caps Lock and Num Lock.
        held: u32,
        is_pressed: bool,
    },
}

const SHIFT: u32 = 1;
const CTRL: u32 = 4;
const LOCKS: u32 = 64 | 128;
/// Longer than any sequence of a key.
const SEQUENCE_BYTES_MAX: usize = 24;

impl<'a> Key<'a> {
    /// The first key of these bytes, which must not be empty.
    pub(super) fn first(bytes: &'a [u8]) -> Self {
        sequence(bytes).unwrap_or(Self { form: Form::Byte(bytes[0]), bytes: &bytes[..1] })
    }

    /// Whether the key was pressed: neither a release nor a repeat.
    pub(super) fn is_pressed(&self) -> bool {
        matches!(self.form, Form::Byte(_) | Form::Sequence { is_pressed: true, .. })
    }

    /// Whether it is Shift, Ctrl or another modifier alone.
    pub(super) fn is_modifier(&self) -> bool {
        matches!(self.form, Form::Sequence { code: 57358..=57360 | 57441..=57454, .. })
    }

    /// Whether it is this letter without Ctrl and Alt.
    pub(super) fn is_plain(&self, letter: char) -> bool {
        match self.form {
            Form::Byte(byte) => char::from(byte) == letter,
            Form::Sequence { code, base, held, .. } => held == 0 && is_at(letter, code, base),
        }
    }

    /// Whether it is this key together with Ctrl.
    pub(super) fn is_control(&self, key: PrefixKey) -> bool {
        match self.form {
            Form::Byte(byte) => byte == key.byte(),
            Form::Sequence { code, shifted, base, held, .. } => match held {
                CTRL => is_at(key.key(), code, base) || as_vt100(code, false) == Some(key.key()),
                // With Shift a letter is another key. Other characters may need Shift to be typed.
                held if held == CTRL | SHIFT && !key.key().is_ascii_alphabetic() => {
                    [Some(code), shifted].contains(&Some(key.key().into()))
                        || as_vt100(code, true) == Some(key.key())
                }
                _ => false,
            },
        }
    }
}

/// Whether a key is this letter, or is at its position on a keyboard of another script.
fn is_at(letter: char, code: u32, base: Option<u32>) -> bool {
    let letter = u32::from(letter);
    code == letter || code > 0x7f && base == Some(letter)
}

/// The control key that terminals send as a byte for Ctrl with this key.
fn as_vt100(code: u32, shift: bool) -> Option<char> {
    match (char::from_u32(code)?, shift) {
        ('2' | ' ', false) | ('2', true) => Some('@'),
        ('4', false) => Some('\\'),
        ('5', false) => Some(']'),
        ('6', _) => Some('^'),
        ('7' | '/', false) | ('-', true) => Some('_'),
        _ => None,
    }
}

/// Parses `CSI code:shifted:base ; modifiers:event ; text u`, or `CSI 27 ; modifiers ; code ~`.
fn sequence(bytes: &[u8]) -> Option<Key<'_>> {
    let inner = bytes.strip_prefix(b"\x1b[")?;
    let is_inner = |byte: &u8| matches!(byte, b'0'..=b'9' | b';' | b':');
    let end = inner.iter().take(SEQUENCE_BYTES_MAX).position(|byte| !is_inner(byte))?;
    let text = std::str::from_utf8(&inner[..end]).ok()?;
    let fields: Vec<Vec<Option<u32>>> =
        text.split(';').map(|field| field.split(':').map(|part| part.parse().ok()).collect()).collect();
    let field = |n: usize, part: usize| fields.get(n).and_then(|field| field.get(part).copied().flatten());
    let held = field(1, 0).unwrap_or(1).saturating_sub(1) & !LOCKS;
    let form = match inner[end] {
        b'u' => Form::Sequence {
            code: field(0, 0)?,
            shifted: field(0, 1),
            base: field(0, 2),
            held,
            is_pressed: field(1, 1).is_none_or(|event| event == 1),
        },
        b'~' if field(0, 0) == Some(27) => {
            Form::Sequence { code: field(2, 0)?, shifted: None, base: None, held, is_pressed: true }
        }
        _ => return None,
    };
    // The introducer, the fields and the final letter.
    Some(Key { form, bytes: &bytes[..end + 3] })
}
