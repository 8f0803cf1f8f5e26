//! Rules: patterns on a title or on the rows of a screen that tell a state.
//!
//! The first rule that fits decides. Patterns see the lowest rows that are not empty, as one text with line
//! ends, so `^` and `$` mean a row's.

pub use crate::choice::looks_like_a_choice;
use crate::pattern::{Line, PATTERN_BYTES_MAX, PatternText};
use regex_lite::Regex;
use serde::Deserialize;
use serde_saphyr::Spanned;

/// What a piece of evidence says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sees {
    Idle,
    Busy,
    Waiting,
}

impl Sees {
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Rule {
    pub name: String,
    pub state: Sees,
    rows: usize,
    any: Vec<Regex>,
    all: Vec<Regex>,
    none: Vec<Regex>,
}

/// A rule as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleText {
    state: Spanned<Sees>,
    /// Shown when it wins; the state if absent.
    #[serde(default)]
    name: Option<String>,
    /// How many of the lowest rows it looks at.
    #[serde(default = "rows_default")]
    rows: usize,
    #[serde(default)]
    any: Vec<PatternText>,
    #[serde(default)]
    all: Vec<PatternText>,
    #[serde(default)]
    none: Vec<PatternText>,
}

/// How many rows rules look at unless they say otherwise.
pub const ROWS: usize = 14;

fn rows_default() -> usize {
    ROWS
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    #[error("{line}{part} rule '{rule}': the pattern {pattern:?} is not valid: {why}")]
    Pattern { line: Line, part: &'static str, rule: String, pattern: String, why: String },
    #[error("{line}{part} rule '{rule}' has no pattern: give any, all or none")]
    Empty { line: Line, part: &'static str, rule: String },
    #[error("{line}approve.frame: `top: {top}` needs a title")]
    NoTitle { line: Line, top: &'static str },
    #[error("{line}composer: {why}")]
    Composer { line: Line, why: &'static str },
    #[error("{line}resume: {why}")]
    Resume { line: Line, why: &'static str },
}

impl RuleText {
    pub(crate) fn state(&self) -> Sees {
        self.state.value
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.state().name())
    }

    pub(crate) fn rename(&mut self, name: String) {
        self.name = Some(name);
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.any.iter().chain(&self.all).chain(&self.none).map(PatternText::as_str)
    }

    pub(crate) fn compile(self, part: &'static str) -> Result<Rule, BadRule> {
        self.compile_within(part, PATTERN_BYTES_MAX)
    }

    /// As `compile`, with a bound on the size of each compiled pattern.
    pub(crate) fn compile_within(self, part: &'static str, bytes_max: usize) -> Result<Rule, BadRule> {
        let (name, state) = (self.name().to_owned(), self.state());
        if self.any.is_empty() && self.all.is_empty() && self.none.is_empty() {
            return Err(BadRule::Empty { line: self.state.referenced.into(), part, rule: name });
        }
        let compile = |patterns: Vec<PatternText>| {
            let one = |pattern: PatternText| pattern.compile_for_rows(part, &name, bytes_max);
            patterns.into_iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        let (any, all, none) = (compile(self.any)?, compile(self.all)?, compile(self.none)?);
        Ok(Rule { name, state, rows: self.rows.clamp(1, 100), any, all, none })
    }
}

impl Rule {
    /// Whether it fits a text.
    pub fn fits(&self, text: &str) -> bool {
        (self.any.is_empty() || self.any.iter().any(|pattern| pattern.is_match(text)))
            && self.all.iter().all(|pattern| pattern.is_match(text))
            && !self.none.iter().any(|pattern| pattern.is_match(text))
    }
}

/// The first rule that fits the lowest rows of a screen.
pub fn on_screen<'a>(rules: &'a [Rule], rows: &[String]) -> Option<&'a Rule> {
    on_screen_where(rules, rows, |_| true)
}

/// As `on_screen`, among those of the rules that `wanted` names.
pub(crate) fn on_screen_where<'a>(
    rules: &'a [Rule],
    rows: &[String],
    wanted: impl Fn(&Rule) -> bool,
) -> Option<&'a Rule> {
    let mut last: Option<(usize, String)> = None;
    rules.iter().filter(|rule| wanted(rule)).find(|rule| {
        let text = match &last {
            Some((rows, text)) if *rows == rule.rows => text,
            _ => &last.insert((rule.rows, lowest(rows, rule.rows))).1,
        };
        rule.fits(text)
    })
}

pub fn on_title<'a>(rules: &'a [Rule], title: &str) -> Option<&'a Rule> {
    rules.iter().find(|rule| rule.fits(title))
}

/// The lowest `count` rows that are not empty, in their order.
pub fn lowest(rows: &[String], count: usize) -> String {
    let mut kept: Vec<&str> =
        rows.iter().rev().map(String::as_str).filter(|row| !row.is_empty()).take(count).collect();
    kept.reverse();
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rows_are_those_with_something_in_them() {
        let rows: Vec<String> = ["a", "", "b", "c", ""].map(String::from).to_vec();
        assert_eq!(lowest(&rows, 2), "b\nc");
        assert_eq!(lowest(&rows, 9), "a\nb\nc");
    }
}
