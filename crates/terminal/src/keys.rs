//! Keys by their names, as `synapse send-keys` takes them: which bytes a program gets for them, and pressing them.
//!
//! `Enter`, `C-c`, `M-x`, `S-Tab`, `F5` are keys; anything else is text. Each is written alone: programs take a fast burst with
//! an Enter at its end for a paste, and an Escape with something right after it for another key.
//! Invariant: a text has no control characters, so what is said of it (its length) hides no key.
//! Not here: who may press keys (`synapse-core`'s `policy`), when a message is being typed (the node).

use crate::turn::Sight;
use std::fmt;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

/// At most this many keys at once, and characters in one text.
pub const KEYS_MAX: usize = 32;
pub const TEXT_CHARS_MAX: usize = 1_000;

/// One thing to press.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Named {
        name: String,
        code: Code,
    },
    /// Typed as it is, not pasted.
    Text(String),
}

/// How a key is told to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    Bytes(Vec<u8>),
    /// One of the keys that are told otherwise in application mode, by its last letter.
    Cursor(u8),
}

/// Why a word is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("nothing to press; name keys such as Enter, Escape, C-c, or give a text")]
    Nothing,
    #[error("{count} keys are more than the {KEYS_MAX} that are pressed at once")]
    TooMany { count: usize },
    #[error("a text of {chars} characters is longer than {TEXT_CHARS_MAX}; `synapse send` is for messages")]
    TooLong { chars: usize },
    #[error("{0:?} is a key that terminals have no code for")]
    NoCode(String),
    #[error("a text has a control character in it; name it as a key: Enter, Tab, Escape, C-x")]
    Control,
}

/// What a key without Ctrl, Alt and Shift is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// One byte.
    Byte(u8),
    /// `CSI letter`, or `SS3 letter` in application mode.
    Cursor(u8),
    /// `SS3 letter`.
    Function(u8),
    /// `CSI number ~`.
    Number(u8),
}

// tidy: table
const NAMED: &[(&str, Base)] = &[
    ("Enter", Base::Byte(b'\r')),
    ("Escape", Base::Byte(0x1b)),
    ("Esc", Base::Byte(0x1b)),
    ("Tab", Base::Byte(b'\t')),
    ("Space", Base::Byte(b' ')),
    ("Backspace", Base::Byte(0x7f)),
    ("BSpace", Base::Byte(0x7f)),
    ("Up", Base::Cursor(b'A')),
    ("Down", Base::Cursor(b'B')),
    ("Right", Base::Cursor(b'C')),
    ("Left", Base::Cursor(b'D')),
    ("Home", Base::Cursor(b'H')),
    ("End", Base::Cursor(b'F')),
    ("Insert", Base::Number(2)),
    ("Delete", Base::Number(3)),
    ("PageUp", Base::Number(5)),
    ("PageDown", Base::Number(6)),
    ("F1", Base::Function(b'P')),
    ("F2", Base::Function(b'Q')),
    ("F3", Base::Function(b'R')),
    ("F4", Base::Function(b'S')),
    ("F5", Base::Number(15)),
    ("F6", Base::Number(17)),
    ("F7", Base::Number(18)),
    ("F8", Base::Number(19)),
    ("F9", Base::Number(20)),
    ("F10", Base::Number(21)),
    ("F11", Base::Number(23)),
    ("F12", Base::Number(24)),
];

/// What is held down meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    ctrl: bool,
    alt: bool,
    shift: bool,
}

impl Held {
    /// As xterm counts it in a sequence; 1 is nothing.
    fn number(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl)
    }
}

/// Reads words as keys; with `literal` all of them are text.
pub fn read(words: &[String], literal: bool) -> Result<Vec<Key>, BadKey> {
    if words.len() > KEYS_MAX {
        return Err(BadKey::TooMany { count: words.len() });
    }
    let keys: Result<Vec<Key>, BadKey> =
        words.iter().filter(|word| !word.is_empty()).map(|word| Key::read(word, literal)).collect();
    match keys {
        Ok(keys) if keys.is_empty() => Err(BadKey::Nothing),
        other => other,
    }
}

impl Key {
    fn read(word: &str, literal: bool) -> Result<Self, BadKey> {
        let named = if literal { None } else { named(word) };
        match named {
            Some(Some(code)) => Ok(Self::Named { name: word.to_owned(), code }),
            Some(None) => Err(BadKey::NoCode(word.to_owned())),
            None => Self::text(word),
        }
    }

    fn text(word: &str) -> Result<Self, BadKey> {
        let chars = word.chars().count();
        if chars > TEXT_CHARS_MAX {
            return Err(BadKey::TooLong { chars });
        }
        if word.chars().any(char::is_control) {
            return Err(BadKey::Control);
        }
        Ok(Self::Text(word.to_owned()))
    }

    /// What the program gets; `application` is its mode of the cursor keys.
    pub fn bytes(&self, application: bool) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Named { code: Code::Bytes(bytes), .. } => bytes.clone(),
            Self::Named { code: Code::Cursor(letter), .. } => {
                vec![0x1b, if application { b'O' } else { b'[' }, *letter]
            }
        }
    }
}

/// The name, or of a text only how long it is: it may be a secret.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { name, .. } => f.write_str(name),
            Self::Text(text) => match text.chars().count() {
                1 => f.write_str("text(1 character)"),
                chars => write!(f, "text({chars} characters)"),
            },
        }
    }
}

/// None if the word is no key; a key without a code is none inside.
fn named(word: &str) -> Option<Option<Code>> {
    let (held, rest) = held(word);
    let mut chars = rest.chars();
    let code = match (NAMED.iter().find(|(name, _)| *name == rest), chars.next(), chars.next()) {
        (Some((_, base)), ..) => code(*base, held),
        // A single character is a key only while something is held.
        (None, Some(letter), None) if held != Held::default() => character(letter, held),
        _ => return None,
    };
    Some(code)
}

/// `C-M-x` is Ctrl and Alt held with an x.
fn held(word: &str) -> (Held, &str) {
    let (mut held, mut rest) = (Held::default(), word);
    loop {
        let (flag, after) = match rest.split_at_checked(2) {
            Some(("C-", after)) => (&mut held.ctrl, after),
            Some(("M-", after)) => (&mut held.alt, after),
            Some(("S-", after)) => (&mut held.shift, after),
            _ => return (held, rest),
        };
        if after.is_empty() || std::mem::replace(flag, true) {
            return (Held::default(), word);
        }
        rest = after;
    }
}

fn code(base: Base, held: Held) -> Option<Code> {
    let number = held.number();
    let text = match (base, number) {
        (Base::Byte(byte), _) => return plain(byte, held).map(Code::Bytes),
        (Base::Cursor(letter), 1) => return Some(Code::Cursor(letter)),
        (Base::Function(letter), 1) => format!("\u{1b}O{}", char::from(letter)),
        (Base::Cursor(letter) | Base::Function(letter), _) => {
            format!("\u{1b}[1;{number}{}", char::from(letter))
        }
        (Base::Number(key), 1) => format!("\u{1b}[{key}~"),
        (Base::Number(key), _) => format!("\u{1b}[{key};{number}~"),
    };
    Some(Code::Bytes(text.into_bytes()))
}

/// Keys of one byte: few can be held with something and still be told from others.
fn plain(byte: u8, held: Held) -> Option<Vec<u8>> {
    let bytes = match (byte, held.ctrl, held.shift) {
        (byte, false, false) => vec![byte],
        (b'\t', false, true) => b"\x1b[Z".to_vec(),
        (b' ', true, false) => vec![0],
        (0x7f, true, false) => vec![0x08],
        _ => return None,
    };
    Some(with_alt(bytes, held.alt))
}

fn character(letter: char, held: Held) -> Option<Code> {
    if held.shift {
        return None;
    }
    let bytes = match (letter, held.ctrl) {
        (letter, false) if letter.is_control() => return None,
        (letter, false) => letter.to_string().into_bytes(),
        ('?', true) => vec![0x7f],
        ('/', true) => vec![0x1f],
        (letter @ ('a'..='z' | 'A'..='Z' | '@' | '[' | '\\' | ']' | '^' | '_'), true) => {
            vec![u8::try_from(letter).ok()? & 0x1f]
        }
        _ => return None,
    };
    Some(Code::Bytes(with_alt(bytes, held.alt)))
}

fn with_alt(mut bytes: Vec<u8>, alt: bool) -> Vec<u8> {
    if alt {
        bytes.insert(0, 0x1b);
    }
    bytes
}

/// Keys on their way to a program.
#[derive(Debug)]
pub struct Pressing {
    keys: Vec<Key>,
    pressed: usize,
    /// Not before this: the program has to have taken the last one for what it was.
    next_at: Timestamp,
    /// Given up if it is not done by then.
    until: Timestamp,
    outcome: Option<Pressed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Press {
    Wait { until: Timestamp },
    TakeKeyboard { ms: u32 },
    ReleaseKeyboard,
    Press(Key),
    Done(Pressed),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    All,
    /// The program has ended; so many were pressed before.
    Ended {
        pressed: usize,
    },
    /// The keyboard was not to be had; so many were pressed before.
    NoKeyboard {
        pressed: usize,
    },
}

/// After a key, and after a text: some programs take a key within 100 ms of a text for a part of a paste.
const KEY_GAP_MS: u64 = 40;
const TEXT_GAP_MS: u64 = 150;
/// Longer than all of them take, and within what the holder grants.
const KEYBOARD_MS: u32 = 8_000;
const PATIENCE_MS: u64 = 9_000;

impl Pressing {
    pub fn new(keys: Vec<Key>, now: Timestamp) -> Self {
        Self { keys, pressed: 0, next_at: now, until: now.plus_ms(PATIENCE_MS), outcome: None }
    }

    pub fn next(&mut self, sight: &Sight) -> Press {
        if let Some(outcome) = self.outcome {
            return if sight.keyboard { Press::ReleaseKeyboard } else { Press::Done(outcome) };
        }
        if matches!(sight.state, AgentState::Error | AgentState::Offline) {
            return self.ends(sight, self.when_ended());
        }
        let pressed = self.pressed;
        if self.next_at > sight.now {
            return Press::Wait { until: self.next_at };
        }
        let Some(key) = self.keys.get(pressed) else { return self.ends(sight, Pressed::All) };
        if self.until <= sight.now {
            return self.ends(sight, Pressed::NoKeyboard { pressed });
        }
        if !sight.keyboard {
            return Press::TakeKeyboard { ms: KEYBOARD_MS };
        }
        let gap = if matches!(key, Key::Text(_)) { TEXT_GAP_MS } else { KEY_GAP_MS };
        let key = key.clone();
        (self.pressed, self.next_at) = (pressed + 1, sight.now.plus_ms(gap));
        Press::Press(key)
    }

    /// What is to be said if the program has ended: the last key may have been what ended it.
    pub fn when_ended(&self) -> Pressed {
        match self.pressed {
            pressed if pressed == self.keys.len() => Pressed::All,
            pressed => Pressed::Ended { pressed },
        }
    }

    fn ends(&mut self, sight: &Sight, outcome: Pressed) -> Press {
        self.outcome = Some(outcome);
        self.next(sight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn bytes(word: &str, application: bool) -> Vec<u8> {
        Key::read(word, false).unwrap_or_else(|e| panic!("{word}: {e}")).bytes(application)
    }

    // tidy: table
    #[test]
    fn each_name_is_these_bytes() {
        let table: &[(&str, &str)] = &[
            ("Enter", "\r"),
            ("Escape", "\u{1b}"),
            ("Esc", "\u{1b}"),
            ("Tab", "\t"),
            ("S-Tab", "\u{1b}[Z"),
            ("Space", " "),
            ("C-Space", "\0"),
            ("Backspace", "\u{7f}"),
            ("BSpace", "\u{7f}"),
            ("C-Backspace", "\u{8}"),
            ("M-Backspace", "\u{1b}\u{7f}"),
            ("M-Enter", "\u{1b}\r"),
            ("Up", "\u{1b}[A"),
            ("Down", "\u{1b}[B"),
            ("Right", "\u{1b}[C"),
            ("Left", "\u{1b}[D"),
            ("Home", "\u{1b}[H"),
            ("End", "\u{1b}[F"),
            ("C-Right", "\u{1b}[1;5C"),
            ("S-Up", "\u{1b}[1;2A"),
            ("C-M-S-Left", "\u{1b}[1;8D"),
            ("Insert", "\u{1b}[2~"),
            ("Delete", "\u{1b}[3~"),
            ("C-Delete", "\u{1b}[3;5~"),
            ("PageUp", "\u{1b}[5~"),
            ("PageDown", "\u{1b}[6~"),
            ("F1", "\u{1b}OP"),
            ("F2", "\u{1b}OQ"),
            ("F3", "\u{1b}OR"),
            ("F4", "\u{1b}OS"),
            ("S-F4", "\u{1b}[1;2S"),
            ("F5", "\u{1b}[15~"),
            ("F6", "\u{1b}[17~"),
            ("F7", "\u{1b}[18~"),
            ("F8", "\u{1b}[19~"),
            ("F9", "\u{1b}[20~"),
            ("F10", "\u{1b}[21~"),
            ("F11", "\u{1b}[23~"),
            ("F12", "\u{1b}[24~"),
            ("M-F12", "\u{1b}[24;3~"),
            ("C-a", "\u{1}"),
            ("C-C", "\u{3}"),
            ("C-z", "\u{1a}"),
            ("C-[", "\u{1b}"),
            ("C-\\", "\u{1c}"),
            ("C-]", "\u{1d}"),
            ("C-_", "\u{1f}"),
            ("C-/", "\u{1f}"),
            ("C-@", "\0"),
            ("C-?", "\u{7f}"),
            ("M-x", "\u{1b}x"),
            ("M-ä", "\u{1b}ä"),
            ("C-M-x", "\u{1b}\u{18}"),
            ("M-C-x", "\u{1b}\u{18}"),
            ("C--", ""),
        ];
        for (name, told) in table {
            if told.is_empty() {
                assert_eq!(Key::read(name, false), Err(BadKey::NoCode((*name).to_owned())));
                continue;
            }
            assert_eq!(bytes(name, false), told.as_bytes(), "{name}");
            assert_eq!(Key::read(name, false).unwrap().to_string(), *name);
        }
        let others: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
        assert!(others.iter().all(|name| table.iter().any(|(tested, _)| tested == name)), "{others:?}");
    }

    #[test]
    fn only_cursor_keys_are_told_otherwise_in_application_mode() {
        for (name, base) in NAMED {
            let (normal, application) = (bytes(name, false), bytes(name, true));
            match base {
                Base::Cursor(letter) => assert_eq!(application, [0x1b, b'O', *letter], "{name}"),
                _ => assert_eq!(application, normal, "{name}"),
            }
        }
        assert_eq!(bytes("C-Up", true), b"\x1b[1;5A", "with something held it is the same in both");
    }

    #[test]
    fn anything_else_is_text_and_hides_no_key() {
        for word in
            ["y", "enter", "UP", "C-", "M-", "C-level", "C-C-c", "-", "--", "F13", "日本語", "C", "a b"]
        {
            assert_eq!(Key::read(word, false), Ok(Key::Text(word.to_owned())));
        }
        assert_eq!(Key::read("Enter", true), Ok(Key::Text("Enter".into())));
        assert_eq!(Key::read("C-c", true).unwrap().to_string(), "text(3 characters)");
        for hidden in ["\r", "yes\n", "\u{1b}[A", "a\u{3}", "\u{9b}A"] {
            assert_eq!(Key::read(hidden, false), Err(BadKey::Control), "{hidden:?}");
            assert_eq!(Key::read(hidden, true), Err(BadKey::Control), "{hidden:?}");
        }
        for no_code in ["C-Enter", "S-Enter", "S-a", "C-é", "C-1", "C-Tab"] {
            assert_eq!(Key::read(no_code, false), Err(BadKey::NoCode(no_code.to_owned())));
        }
        assert_eq!(read(&[], false), Err(BadKey::Nothing));
        assert_eq!(read(&[String::new()], false), Err(BadKey::Nothing));
        assert_eq!(read(&vec!["a".to_owned(); 33], false), Err(BadKey::TooMany { count: 33 }));
        assert_eq!(read(&["a".repeat(1_001)], false), Err(BadKey::TooLong { chars: 1_001 }));
        bolero::check!().with_type::<String>().for_each(|word| drop(Key::read(word, false)));
    }

    #[test]
    fn each_key_is_pressed_alone_with_the_keyboard_in_hand() {
        let sight = |now, keyboard| Sight { keyboard, ..Sight::at(now, AgentState::Idle) };
        let keys = read(&words("hello Enter"), false).unwrap();
        let mut pressing = Pressing::new(keys.clone(), Timestamp(0));
        assert_eq!(pressing.next(&sight(0, false)), Press::TakeKeyboard { ms: KEYBOARD_MS });
        assert_eq!(pressing.next(&sight(1, true)), Press::Press(keys[0].clone()));
        assert_eq!(pressing.next(&sight(2, true)), Press::Wait { until: Timestamp(151) });
        assert_eq!(pressing.next(&sight(151, true)), Press::Press(keys[1].clone()));
        assert_eq!(pressing.next(&sight(152, true)), Press::Wait { until: Timestamp(191) });
        assert_eq!(pressing.next(&sight(191, true)), Press::ReleaseKeyboard);
        assert_eq!(pressing.next(&sight(192, false)), Press::Done(Pressed::All));
        // The program ends in between.
        let mut ended = Pressing::new(keys.clone(), Timestamp(0));
        ended.next(&sight(0, true));
        let gone = Sight { keyboard: false, ..Sight::at(10, AgentState::Offline) };
        assert_eq!(ended.next(&gone), Press::Done(Pressed::Ended { pressed: 1 }));
        // It was the last key that ended it.
        let mut quit = Pressing::new(read(&words("C-d"), false).unwrap(), Timestamp(0));
        quit.next(&sight(0, true));
        assert_eq!(quit.next(&gone), Press::Done(Pressed::All));
        // Nobody gives the keyboard.
        let mut late = Pressing::new(keys, Timestamp(0));
        assert_eq!(late.next(&sight(5, false)), Press::TakeKeyboard { ms: KEYBOARD_MS });
        assert_eq!(late.next(&sight(9_000, false)), Press::Done(Pressed::NoKeyboard { pressed: 0 }));
    }

    #[test]
    fn the_most_keys_fit_into_the_time_they_have() {
        let longest = TEXT_GAP_MS * u64::try_from(KEYS_MAX).unwrap();
        assert!(longest < u64::from(KEYBOARD_MS) && u64::from(KEYBOARD_MS) < PATIENCE_MS);
    }
}
