//! Patterns as a profile has them: a regular expression and its line, so that an error can name the place.

use crate::rules::BadRule;
use regex_lite::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// Largest compiled pattern of a profile that is trusted, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 10 << 20;

/// A line of a profile, as the beginning of an error. Nothing if the line is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line(u64);

impl From<Location> for Line {
    fn from(location: Location) -> Self {
        Self(location.line())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, "line {line}: "),
        }
    }
}

/// A regular expression as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct PatternText(Spanned<String>);

impl PatternText {
    pub(crate) fn as_str(&self) -> &str {
        &self.0.value
    }

    /// For a single row.
    pub(crate) fn compile(self, part: &'static str, rule: &str) -> Result<Regex, BadRule> {
        let compiled = RegexBuilder::new(self.as_str()).size_limit(PATTERN_BYTES_MAX).build();
        compiled.map_err(|error| self.into_bad_rule(part, rule, &error))
    }

    /// For many rows: `^` and `$` mean those of each row.
    pub(crate) fn compile_for_rows(
        self,
        part: &'static str,
        rule: &str,
        bytes_max: usize,
    ) -> Result<Regex, BadRule> {
        let compiled = RegexBuilder::new(&format!("(?m){}", self.as_str())).size_limit(bytes_max).build();
        compiled.map_err(|error| self.into_bad_rule(part, rule, &error))
    }

    fn into_bad_rule(self, part: &'static str, rule: &str, error: &regex_lite::Error) -> BadRule {
        let line = self.0.referenced.into();
        let (rule, why) = (rule.to_owned(), error.to_string());
        BadRule::Pattern { line, part, rule, pattern: self.0.value, why }
    }
}
