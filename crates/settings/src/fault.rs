//! Faults: what is wrong with a setting, where, and what helps.
//!
//! Invariant: a fault never repeats what may be a secret, and ends with a command
//! or an edit that helps.
//! Not here: finding them (`document`, `layers`, `disk`).

use crate::kinds::Kind;
use std::fmt;
use std::path::{Path, PathBuf};

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub source: Source,
    /// Line and column, both from 1.
    pub at: Option<(usize, usize)>,
    /// The path of the setting; `None` if it is about the whole file.
    pub key: Option<String>,
    pub wrong: Wrong,
}

/// The source of a faulty value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    User(PathBuf),
    Project(PathBuf),
    Variable(String),
}

impl Source {
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::User(file) | Self::Project(file) => Some(file),
            Self::Variable(_) => None,
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("this is not JSON with comments: {0}")]
    Syntax(String),
    #[error("it holds {found}, where settings are one object: {{ … }}")]
    NoObject { found: &'static str },
    #[error("{key} is no setting{}", did_you_mean(.nearest.as_deref()))]
    Unknown { key: String, nearest: Option<String> },
    #[error("{key} is here again; it is on line {first} already")]
    Twice { key: String, first: usize },
    #[error("{key} is {found}; it must be {allowed}")]
    Misfit { key: String, found: String, allowed: String, kind: Option<Kind> },
    #[error("{key} has a name that cannot be: it must be {rule}")]
    BadName { key: String, rule: &'static str },
    #[error("{key} has more than {max} names")]
    TooManyNames { key: String, max: usize },
    #[error("{key} gives `approve`, which no role can have: only the user approves")]
    Approve { key: String },
    #[error(
        "{key} guards this machine, so a project may not set it: whoever can write in the project could open the machine"
    )]
    Guarded { key: String, user_file: PathBuf },
    #[error("{key} guards this machine, so it is set in the user's file alone, not by a variable")]
    GuardedVariable { key: String, user_file: PathBuf },
    #[error(
        "{key} holds the secret itself, and settings are shown and copied; name the file or the variable it is in"
    )]
    LiteralSecret { key: String, name: String },
    #[error("{key} is not complete: {missing}")]
    Incomplete { key: String, missing: &'static str, command: String },
    #[error("more is wrong from here on")]
    TooMany,
    #[error("{0}")]
    File(FileWrong),
}

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileWrong {
    #[error("it is a folder, where a file should be")]
    Folder,
    #[error("it is not a plain file")]
    NotAFile,
    #[error("it is not a folder")]
    NotAFolder,
    #[error("it is a symbolic link, and a project's are not followed")]
    Link,
    #[error("it has more than {max} bytes")]
    TooLarge { max: u64 },
    #[error("it is not UTF-8 text from line {line} on")]
    NotUtf8 { line: usize },
    #[error("it is a circle of symbolic links")]
    LinkCircle,
    #[error("it belongs to another user (uid {uid}), so it is not trusted")]
    Foreign { uid: u32 },
    #[error("other users of this machine may write it (mode {mode:03o}), so it is not trusted")]
    TooOpen { mode: u32 },
    #[error("it cannot be read: {0}")]
    Io(String),
}

impl Fault {
    /// Returns the file, the line, or the command to fix it.
    fn help(&self) -> String {
        let Some(file) = self.source.file() else {
            let Source::Variable(name) = &self.source else { return String::new() };
            return match &self.wrong {
                Wrong::GuardedVariable { key, .. } => {
                    format!("`unset {name}`, then `synapse config set {key} VALUE --user`")
                }
                _ => format!("change it, or `unset {name}`"),
            };
        };
        let place = file.display();
        let edit = || match self.at {
            Some((line, _)) => format!("edit {place} line {line}"),
            None => format!("edit {place}"),
        };
        let to = if matches!(self.source, Source::Project(_)) { " --project" } else { "" };
        match &self.wrong {
            Wrong::Syntax(_) | Wrong::NoObject { .. } | Wrong::Twice { .. } | Wrong::BadName { .. } => edit(),
            Wrong::TooManyNames { .. } | Wrong::Approve { .. } | Wrong::TooMany => edit(),
            Wrong::Unknown { .. } => format!("{}; `synapse config show` lists all settings", edit()),
            Wrong::Misfit { key, kind: Some(kind), .. } if !kind.is_list() && *kind != Kind::Path => {
                format!("{}, or `synapse config set {key} {}{to}`", edit(), kind.example().shown())
            }
            Wrong::Misfit { .. } => edit(),
            Wrong::Guarded { key, user_file } => {
                format!(
                    "{}, and set it in {} if you want it: `synapse config set {key} VALUE --user`",
                    edit(),
                    user_file.display()
                )
            }
            Wrong::LiteralSecret { name, .. } => format!(
                "{}: put the secret into a file for you alone, `chmod 600` it, and \
                 `synapse config set secrets.{name}.file PATH secrets.{name}.role ROLE`",
                edit()
            ),
            Wrong::Incomplete { command, .. } => format!("`synapse config {command}`"),
            Wrong::GuardedVariable { .. } => edit(),
            Wrong::File(wrong) => match wrong {
                FileWrong::NotUtf8 { .. } => format!("look at it: `file {place}`"),
                FileWrong::TooOpen { .. } => format!("look at what is in it, then: `chmod go-w {place}`"),
                FileWrong::Foreign { .. } => {
                    format!("look at it, and take it over or away: `ls -lL {place}`")
                }
                FileWrong::Folder
                | FileWrong::NotAFile
                | FileWrong::NotAFolder
                | FileWrong::Link
                | FileWrong::LinkCircle => format!("move it away: `ls -ld {place}`"),
                FileWrong::TooLarge { .. } | FileWrong::Io(_) => format!("look at it: `ls -l {place}`"),
            },
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source, self.at) {
            (Source::Variable(name), _) => write!(f, "{name}: ")?,
            (Source::User(file) | Source::Project(file), None) => write!(f, "{}: ", file.display())?,
            (Source::User(file) | Source::Project(file), Some((line, column))) => {
                write!(f, "{}:{line}:{column}: ", file.display())?;
            }
        }
        write!(f, "{}; {}", self.wrong, self.help())
    }
}

/// All faults of a load; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.0.iter().enumerate() {
            let between = if n == 0 { "" } else { "\n" };
            write!(f, "{between}{fault}")?;
        }
        Ok(())
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default()
}
