//! The prefix key: the key with Ctrl that a person presses before a viewer command,
//! such as `d` to detach.
//!
//! Accepts the spellings of tmux and docker (`C-b`, `^b`, `ctrl-b`, `ctrl+b`) and stores `C-b`.
//! Invariant: a `PrefixKey` never sends the same byte as Tab, Enter, Backspace or Escape.
//! Not here: how a terminal sends it (the viewer of the binary).

use std::fmt;

/// A key with Ctrl, as its lower-case letter or one of `@ \ ] ^ _`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixKey(char);

/// The value that turns the prefix key off.
pub const NO_PREFIX: &str = "none";

impl Default for PrefixKey {
    /// Returns the key on which dtach and abduco detach. No shell, multiplexer or agent CLI
    /// that we know of uses it.
    fn default() -> Self {
        Self('\\')
    }
}

impl PrefixKey {
    /// Parses `C-b`, `^b`, `ctrl-b` or `ctrl+b`, in any case.
    pub fn parse(raw: &str) -> Option<Self> {
        let lower = raw.trim().to_ascii_lowercase();
        let forms = ["c-", "ctrl-", "ctrl+", "^"];
        let key = forms.iter().find_map(|form| lower.strip_prefix(form))?;
        let mut chars = key.chars();
        let (key, None) = (chars.next()?, chars.next()) else { return None };
        // Ctrl-h, Ctrl-i, Ctrl-j, Ctrl-m and Ctrl-[ are Backspace, Tab, newline, Enter and Escape.
        let is_other_key = matches!(key, 'h' | 'i' | 'j' | 'm');
        let is_allowed = key.is_ascii_lowercase() || matches!(key, '@' | '\\' | ']' | '^' | '_');
        (is_allowed && !is_other_key).then_some(Self(key))
    }

    /// Returns the key that is pressed together with Ctrl.
    pub fn key(self) -> char {
        self.0
    }

    /// Returns the byte that a terminal sends for it.
    pub fn byte(self) -> u8 {
        // All keys that `parse` allows are ASCII.
        u8::try_from(self.0.to_ascii_uppercase()).unwrap_or_default() & 0x1f
    }

    /// Returns its name for people: `Ctrl-b`.
    pub fn name(self) -> String {
        format!("Ctrl-{}", self.0)
    }
}

/// Writes it as in a file: `C-b`.
impl fmt::Display for PrefixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C-{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_read_as_people_write_it() {
        for (raw, expected) in [
            ("C-b", Some(("C-b", 0x02))),
            ("c-B", Some(("C-b", 0x02))),
            ("^B", Some(("C-b", 0x02))),
            ("ctrl-a", Some(("C-a", 0x01))),
            ("Ctrl+a", Some(("C-a", 0x01))),
            (" C-] ", Some(("C-]", 0x1d))),
            ("ctrl-]", Some(("C-]", 0x1d))),
            ("C-\\", Some(("C-\\", 0x1c))),
            ("^\\", Some(("C-\\", 0x1c))),
            ("^^", Some(("C-^", 0x1e))),
            ("C-_", Some(("C-_", 0x1f))),
            ("C-@", Some(("C-@", 0x00))),
            ("b", None),
            ("C-", None),
            ("C-bb", None),
            ("C-1", None),
            ("M-b", None),
            ("F12", None),
            // These are keys of their own.
            ("C-[", None),
            ("C-i", None),
            ("C-m", None),
            ("C-j", None),
            ("C-h", None),
            ("C-é", None),
        ] {
            let read = PrefixKey::parse(raw);
            let expected = expected.map(|(text, byte)| (text.to_owned(), byte));
            assert_eq!(read.map(|key| (key.to_string(), key.byte())), expected, "{raw:?}");
        }
        assert_eq!(PrefixKey::default().name(), "Ctrl-\\");
    }
}
