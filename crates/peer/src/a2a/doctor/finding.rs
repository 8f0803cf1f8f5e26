//! What the doctor says of one thing: what was asked, what was expected, what came, what to change. Pure.

use serde::Serialize;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// Not looked at; says why.
    Skipped,
    /// Worth knowing, and nobody's fault.
    Note,
    /// The protocol says SHOULD.
    Warning,
    /// The protocol says MUST.
    Wrong,
}

impl Level {
    pub const ALL: [Self; 5] = [Self::Ok, Self::Note, Self::Warning, Self::Wrong, Self::Skipped];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// One row of the table of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// A stable name for programs.
    pub name: &'static str,
    /// Of the A2A specification 1.0.1; empty where it says nothing.
    pub section: &'static str,
    /// What it is if it is not as expected.
    pub else_level: Level,
    pub expected: &'static str,
    /// What to change.
    pub help: &'static str,
}

/// What a look at an answer leads to, with what came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Ok(String),
    Note(String),
    /// Not as it must be, but not as bad as the check's own level.
    Warning(String),
    /// Not as expected.
    Off(String),
    Skipped(String),
}

/// One thing that was looked at. Stable as `a2a doctor --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    /// `card`, or the interface.
    pub about: String,
    pub level: Level,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub section: &'static str,
    pub asked: String,
    pub expected: &'static str,
    pub came: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'static str>,
}

const CAME_CHARS_MAX: usize = 400;

impl Check {
    pub(super) fn finding(&self, about: &str, asked: impl Into<String>, verdict: Verdict) -> Finding {
        let (level, came) = match verdict {
            Verdict::Ok(came) => (Level::Ok, came),
            Verdict::Note(came) => (Level::Note, came),
            Verdict::Warning(came) => (Level::Warning, came),
            Verdict::Off(came) => (self.else_level, came),
            Verdict::Skipped(why) => (Level::Skipped, why),
        };
        Finding {
            check: self.name,
            about: about.to_owned(),
            level,
            section: self.section,
            asked: asked.into(),
            expected: self.expected,
            came: cut(&came, CAME_CHARS_MAX),
            help: matches!(level, Level::Warning | Level::Wrong).then_some(self.help),
        }
    }
}

/// So many characters of it at most, on one line.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    let one: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(chars_max).collect();
    if text.chars().nth(chars_max).is_some() { format!("{one}…") } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_fails_says_what_to_change() {
        let check =
            Check { name: "x", section: "1.2", else_level: Level::Wrong, expected: "a", help: "do it" };
        let table = [
            (Verdict::Ok("a".into()), Level::Ok, None),
            (Verdict::Note("a".into()), Level::Note, None),
            (Verdict::Warning("b".into()), Level::Warning, Some("do it")),
            (Verdict::Off("b".into()), Level::Wrong, Some("do it")),
            (Verdict::Skipped("no time".into()), Level::Skipped, None),
        ];
        for (verdict, level, help) in table {
            let found = check.finding("card", "GET", verdict);
            assert_eq!((found.level, found.help), (level, help));
        }
        assert_eq!(cut("a\nb\u{1b}cd", 4), "a b …");
    }
}
