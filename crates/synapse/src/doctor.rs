//! Is everything as it should be? Facts are gathered, judged, and what is safe to mend is mended (CLI-9).
//!
//! `facts` only looks, `judge` only thinks, `mend` only does what a finding proposed.
//!
//! Not here: how findings are shown (`cli/doctor`).

pub mod facts;
pub mod judge;
pub mod mend;
mod profiles;
pub mod programs;

use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    Ok,
    /// It works, but not as well or not for long.
    Warn,
    /// Something does not work, or is not safe.
    Bad,
}

/// One thing that was looked at. Stable as `doctor --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: `home`, `permissions`, `journals`, …
    pub area: &'static str,
    pub mark: Mark,
    pub what: String,
    /// Why it matters; empty if all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The command that helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    #[serde(skip)]
    pub fix: Option<Fix>,
    /// A change of a profile that only a person makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProfileProposal>,
    /// Rows of a screen that show what was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
}

/// Lines to add to a profile, and how to try them out. Nobody adds them but a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileProposal {
    pub file: PathBuf,
    /// Where in the file.
    pub place: String,
    pub lines: Vec<String>,
    /// Commands that make the file, if it is not there yet, and test it afterwards.
    pub steps: Vec<String>,
}

/// What `doctor --fix` and `clean` may do. Each is safe whenever it is done: it is checked again first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    Chmod {
        path: PathBuf,
        mode: u32,
    },
    /// A file that nobody writes any more.
    Remove {
        path: PathBuf,
    },
    /// A file of an agent; only while nobody holds that agent.
    RemoveOfAgent {
        dir: PathBuf,
        path: PathBuf,
    },
    /// A journal that has lost records; only while nobody holds its agent. The damaged files are kept.
    RepairJournal {
        dir: PathBuf,
        path: PathBuf,
    },
    /// Entries of ours whose process is gone.
    ClearRegistry,
    /// A throw-away home that a demonstration left; only while nobody holds an agent in it.
    RemoveDemo {
        path: PathBuf,
    },
}

impl Finding {
    fn ok(area: &'static str, what: impl Into<String>) -> Self {
        Self::new(Mark::Ok, area, what, "")
    }

    fn new(mark: Mark, area: &'static str, what: impl Into<String>, why: impl Into<String>) -> Self {
        let (what, why) = (what.into(), why.into());
        Self { area, mark, what, why, help: None, fix: None, proposal: None, rows: Vec::new() }
    }

    fn help(mut self, command: impl Into<String>) -> Self {
        self.help = Some(command.into());
        self
    }

    fn fix(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }
}

/// A path as it can be typed into a shell.
pub fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,~".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
