//! Diagnoses a home: collects facts, judges them, and repairs what is safe to repair (CLI-9).
//!
//! `facts` only reads, `judge` only decides, `mend` only does what a finding proposed.
//!
//! Not here: how findings are printed (`cli/doctor`).

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
    /// It works, but not well, or not for long.
    Warn,
    /// Something does not work, or is not safe.
    Bad,
}

/// The result of one check. Stable as `doctor --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The area: `home`, `permissions`, `journals`, …
    pub area: &'static str,
    pub mark: Mark,
    pub what: String,
    /// Why it matters. Empty if the result is ok.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The command that helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    #[serde(skip)]
    pub fix: Option<Fix>,
    /// A change to a profile that only a person makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProfileProposal>,
    /// Rows of a screen that show the problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
}

/// Lines to add to a profile, and how to test them. Only a person adds them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileProposal {
    pub file: PathBuf,
    /// Where in the file.
    pub place: String,
    pub lines: Vec<String>,
    /// Commands that create the file if it does not exist, and test it afterwards.
    pub steps: Vec<String>,
}

/// The repairs that `doctor --fix` and `clean` may make. Each checks again first, so it is safe at
/// any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    Chmod {
        path: PathBuf,
        mode: u32,
    },
    /// Removes a file that nobody writes any more.
    Remove {
        path: PathBuf,
    },
    /// Removes a file of an agent, only while nobody holds that agent.
    RemoveOfAgent {
        dir: PathBuf,
        path: PathBuf,
    },
    /// Repairs a journal that lost records, only while nobody holds its agent. The damaged files
    /// are kept.
    RepairJournal {
        dir: PathBuf,
        path: PathBuf,
    },
    /// Removes our registry entries whose process is gone.
    ClearRegistry,
    /// Removes the home of a demo that was left behind, only while nobody holds an agent in it.
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

/// A path, quoted for a shell if necessary.
pub fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,~".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
