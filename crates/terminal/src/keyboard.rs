//! Which keyboard modes a program has asked for (`CSI > flags u` and its kin), on each of the two screens.
//!
//! The modes are the person's terminal's to carry out; we know them to ask for them again in a later terminal, and to
//! take them back when a viewer leaves. Not here: answering `CSI ? u` (`screen`).

use std::fmt::Write as _;

/// Deeper than any program goes; what is more is forgotten from the bottom.
const DEPTH_MAX: usize = 16;

/// A change that a program asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Push(u8),
    Pop(u16),
    /// Flags, and how: 1 instead of what is on, 2 as well, 3 no longer.
    Set(u8, u8),
}

impl Change {
    /// Reads what stands between `CSI` and `u`.
    pub fn parse(inner: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(inner).ok()?;
        let number = |text: &str, absent: u16| {
            if text.is_empty() { Some(absent) } else { text.parse::<u16>().ok() }
        };
        let flags = |text: &str| number(text, 0).and_then(|flags| u8::try_from(flags).ok());
        if let Some(rest) = text.strip_prefix('>') {
            return flags(rest).map(Self::Push);
        }
        if let Some(rest) = text.strip_prefix('<') {
            return number(rest, 1).map(Self::Pop);
        }
        let rest = text.strip_prefix('=')?;
        let (set, how) = rest.split_once(';').unwrap_or((rest, ""));
        let how = u8::try_from(number(how, 1)?).ok().filter(|how| (1..=3).contains(how))?;
        Some(Self::Set(flags(set)?, how))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyboard {
    main: Modes,
    alternate: Modes,
    on_alternate: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Modes {
    pushed: Vec<u8>,
    /// Set without having been pushed.
    base: u8,
}

impl Keyboard {
    pub fn change(&mut self, change: Change) {
        let modes = if self.on_alternate { &mut self.alternate } else { &mut self.main };
        match change {
            Change::Push(flags) => {
                modes.pushed.push(flags);
                if modes.pushed.len() > DEPTH_MAX {
                    modes.pushed.remove(0);
                }
            }
            Change::Pop(count) => {
                let left = modes.pushed.len().saturating_sub(usize::from(count));
                modes.pushed.truncate(left);
            }
            Change::Set(flags, how) => {
                let on = modes.pushed.last_mut().unwrap_or(&mut modes.base);
                *on = match how {
                    1 => flags,
                    2 => *on | flags,
                    _ => *on & !flags,
                };
            }
        }
    }

    /// The program switched between the screens; each has modes of its own.
    pub fn switch(&mut self, to_alternate: bool) {
        self.on_alternate = to_alternate;
    }

    /// What asks a fresh terminal for the modes of the screen that is on.
    pub fn ask(&self) -> String {
        let modes = if self.on_alternate { &self.alternate } else { &self.main };
        let mut out = String::new();
        if modes.base != 0 {
            let _ = write!(out, "\u{1b}[={}u", modes.base);
        }
        for flags in &modes.pushed {
            let _ = write!(out, "\u{1b}[>{flags}u");
        }
        out
    }

    /// What takes back the modes of the main or of the alternate screen: no more than was asked for, since a shell may
    /// have modes of its own.
    pub fn take_back(&self, alternate: bool) -> String {
        let modes = if alternate { &self.alternate } else { &self.main };
        let mut out = String::new();
        if !modes.pushed.is_empty() {
            let _ = write!(out, "\u{1b}[<{}u", modes.pushed.len());
        }
        if modes.base != 0 {
            out.push_str("\u{1b}[=0u");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_asked_for_again_and_taken_back() {
        let table: &[(&str, &str, &str)] = &[
            ("", "", ""),
            (">1", "\u{1b}[>1u", "\u{1b}[<1u"),
            (">1 >7", "\u{1b}[>1u\u{1b}[>7u", "\u{1b}[<2u"),
            (">1 <", "", ""),
            (">1 >3 <5", "", ""),
            (">1 =4;2", "\u{1b}[>5u", "\u{1b}[<1u"),
            ("=5 =1;3", "\u{1b}[=4u", "\u{1b}[=0u"),
            ("=5;9 x", "", ""),
            (">", "\u{1b}[>0u", "\u{1b}[<1u"),
        ];
        for (said, asked, back) in table {
            let mut keyboard = Keyboard::default();
            let changes = said.split_whitespace().filter_map(|word| Change::parse(word.as_bytes()));
            changes.for_each(|change| keyboard.change(change));
            assert_eq!(keyboard.ask(), *asked, "{said}");
            assert_eq!(keyboard.take_back(false), *back, "{said}");
            assert_eq!(keyboard.take_back(true), "", "{said}");
        }
    }

    #[test]
    fn each_screen_has_its_own_and_neither_grows() {
        let mut keyboard = Keyboard::default();
        keyboard.change(Change::Push(1));
        keyboard.switch(true);
        assert_eq!(keyboard.ask(), "");
        (0..1000).for_each(|_| keyboard.change(Change::Push(2)));
        assert_eq!(keyboard.take_back(true), "\u{1b}[<16u");
        keyboard.switch(false);
        assert_eq!(keyboard.ask(), "\u{1b}[>1u");
    }
}
