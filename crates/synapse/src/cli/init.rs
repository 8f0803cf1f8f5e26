//! `synapse init`: teaches agents how to reach each other, in the files of instructions they read (PTY-13).
//!
//! What is to change is shown before it is written, and a person is asked. Files are replaced whole, with the mode
//! they had; a link is followed only to a file that lies within the same folder, and stays a link.
//!
//! Not here: the block itself (`teach`).

use super::confirm;
use crate::fail::{self, Done, Fail};
use crate::teach::{self, Left};
use crate::{diff, show};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use synapse_store::files;

#[derive(Args)]
pub(super) struct Init {
    /// For these programs only; default: the files that are there
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CLI")]
    cli: Vec<AgentCli>,
    /// In your own files, for all projects
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// In the files of this folder (default)
    #[arg(long)]
    project: bool,
    /// Take it out again
    #[arg(long)]
    remove: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

/// The programs that read instructions from files.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AgentCli {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Copilot,
}

impl AgentCli {
    pub(super) const ALL: [Self; 5] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode, Self::Copilot];
}

const FILE_BYTES_MAX: u64 = 1 << 20;
const NEW_MODE: u32 = 0o644;

/// A file and what is to become of it.
struct Change {
    /// As the person knows it.
    shown: PathBuf,
    /// Where it really is.
    path: PathBuf,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    mode: u32,
}

/// One file of `init --json`; stable.
#[derive(Serialize)]
struct Row {
    path: String,
    /// `created`, `updated`, `removed`, `deleted` or `unchanged`.
    action: &'static str,
    /// False with `--dry-run`.
    written: bool,
}

pub(super) fn init(args: &Init, json: bool) -> Done {
    let base = base(args.user)?;
    let paths = if args.user { of_user(args, &base)? } else { of_project(args, &base) };
    let mut changes: Vec<Change> = Vec::new();
    for shown in paths {
        let change = plan(&base, shown, args.remove)?;
        // CLAUDE.md is often a link to AGENTS.md: one file, one block.
        if changes.iter().all(|known| known.path != change.path) {
            changes.push(change);
        }
    }
    let some_change = changes.iter().any(Change::is_one);
    if !json {
        changes.iter().for_each(Change::tell);
    }
    let write = some_change && !args.dry_run;
    if write && !args.yes {
        confirm("Write this?", "nothing was written", json)?;
    }
    for change in changes.iter().filter(|change| write && change.is_one()) {
        change.write()?;
    }
    if json {
        show::json(&changes.iter().map(|change| change.row(write)).collect::<Vec<_>>());
    } else if write {
        for change in changes.iter().filter(|change| change.is_one()) {
            show::out(&format!("{} {}", change.action(), change.shown.display()));
        }
    }
    Ok(())
}

fn base(user: bool) -> Result<PathBuf, Fail> {
    let folder = if user {
        let home = std::env::var_os("HOME").filter(|home| Path::new(home).is_absolute());
        PathBuf::from(home.ok_or_else(|| Fail::usage("HOME is not set, so there is no folder of the user"))?)
    } else {
        std::env::current_dir()?
    };
    Ok(folder.canonicalize()?)
}

/// The files that these programs read, in this folder or of the user.
pub(super) fn files_of(clis: &[AgentCli], user: bool) -> Result<Vec<PathBuf>, Fail> {
    let base = base(user)?;
    Ok(unique(clis.iter().map(|cli| if user { user_file(&base, cli) } else { project_file(&base, cli) })))
}

/// The files of a project: those asked for, or those that are there, or else the one that most programs read.
fn of_project(args: &Init, base: &Path) -> Vec<PathBuf> {
    if !args.cli.is_empty() {
        return unique(args.cli.iter().map(|cli| project_file(base, cli)));
    }
    let all = ["CLAUDE.md", "GEMINI.md", "AGENTS.md"].map(|name| base.join(name));
    let there: Vec<PathBuf> = all.iter().filter(|path| path.symlink_metadata().is_ok()).cloned().collect();
    if there.is_empty() && !args.remove { vec![base.join("AGENTS.md")] } else { there }
}

/// The user's own files: those asked for, or those of the programs that have a folder there.
fn of_user(args: &Init, base: &Path) -> Result<Vec<PathBuf>, Fail> {
    let file = |cli: &AgentCli| user_file(base, cli);
    if !args.cli.is_empty() {
        return Ok(unique(args.cli.iter().map(file)));
    }
    let all = unique(AgentCli::ALL.iter().map(file));
    let here = all.into_iter().filter(|file| file.parent().is_some_and(Path::is_dir)).collect::<Vec<_>>();
    if here.is_empty() {
        return Err(Fail::usage("none of the agent programs has a folder here yet; name one with --cli"));
    }
    Ok(here)
}

fn project_file(base: &Path, cli: &AgentCli) -> PathBuf {
    base.join(match cli {
        AgentCli::Claude => "CLAUDE.md",
        AgentCli::Gemini => "GEMINI.md",
        AgentCli::Codex | AgentCli::Opencode | AgentCli::Copilot => "AGENTS.md",
    })
}

fn user_file(base: &Path, cli: &AgentCli) -> PathBuf {
    let folder = |variable: &str, default: &str| match std::env::var_os(variable) {
        Some(own) if Path::new(&own).is_absolute() => PathBuf::from(own),
        _ => base.join(default),
    };
    match cli {
        AgentCli::Claude => folder("CLAUDE_CONFIG_DIR", ".claude").join("CLAUDE.md"),
        AgentCli::Codex => folder("CODEX_HOME", ".codex").join("AGENTS.md"),
        AgentCli::Gemini => base.join(".gemini/GEMINI.md"),
        AgentCli::Opencode => folder("XDG_CONFIG_HOME", ".config").join("opencode/AGENTS.md"),
        AgentCli::Copilot => base.join(".copilot/copilot-instructions.md"),
    }
}

fn unique(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    for path in paths {
        if !kept.contains(&path) {
            kept.push(path);
        }
    }
    kept
}

fn plan(base: &Path, shown: PathBuf, remove: bool) -> Result<Change, Fail> {
    let bad = |why: String| Fail::new(fail::ERROR, "not_written", format!("{}: {why}", shown.display()));
    let path = target(base, &shown).map_err(bad)?;
    let (old, mode) = match std::fs::metadata(&path) {
        Ok(found) => (Some(read(&path, &found).map_err(bad)?), found.permissions().mode() & 0o777),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => (None, NEW_MODE),
        Err(e) => return Err(bad(e.to_string())),
    };
    let broken = |broken: teach::Broken| bad(broken.to_string());
    let new = match (&old, remove) {
        (None, true) => None,
        (old, false) => Some(teach::put_in(old.as_deref()).map_err(broken)?),
        (Some(old), true) => match teach::take_out(old).map_err(broken)? {
            Left::AsItIs => Some(old.clone()),
            Left::Rest(rest) => Some(rest),
            Left::Nothing => None,
        },
    };
    if old.is_some() && old != new && mode & 0o200 == 0 {
        return Err(bad(format!("it is read-only; `chmod u+w {}` if it may be changed", path.display())));
    }
    Ok(Change { shown, path, old, new, mode })
}

/// Where a link leads. A link in somebody's project may lead anywhere, so it must stay within the folder.
fn target(base: &Path, shown: &Path) -> Result<PathBuf, String> {
    match shown.symlink_metadata() {
        Ok(found) if found.file_type().is_symlink() => {
            let real = shown.canonicalize().map_err(|e| format!("it is a link that leads nowhere: {e}"))?;
            if real.starts_with(base) {
                Ok(real)
            } else {
                Err(format!(
                    "it is a link to {}, outside of {}; edit that one yourself",
                    real.display(),
                    base.display()
                ))
            }
        }
        _ => Ok(shown.to_owned()),
    }
}

fn read(path: &Path, found: &std::fs::Metadata) -> Result<Vec<u8>, String> {
    if !found.is_file() {
        return Err("it is not a plain file".to_owned());
    }
    if found.uid() != files::our_uid() {
        return Err(format!("it belongs to another user (uid {}), so it is left alone", found.uid()));
    }
    if found.len() > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes; no agent reads that"));
    }
    std::fs::read(path).map_err(|e| e.to_string())
}

impl Change {
    fn is_one(&self) -> bool {
        self.old != self.new
    }

    fn action(&self) -> &'static str {
        match (&self.old, &self.new) {
            (old, new) if old == new => "unchanged",
            (None, _) => "created",
            (_, None) => "deleted",
            (Some(old), Some(new)) if new.len() < old.len() && new != old && !teaches(new) => "removed",
            _ => "updated",
        }
    }

    fn row(&self, written: bool) -> Row {
        let written = written && self.is_one();
        Row { path: self.shown.display().to_string(), action: self.action(), written }
    }

    fn tell(&self) {
        if !self.is_one() {
            show::out(&format!("{}: nothing to change", self.shown.display()));
            return;
        }
        let text = |bytes: &Option<Vec<u8>>| {
            String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
        };
        let name = self.shown.display().to_string();
        for line in diff::lines(&name, &text(&self.old), &text(&self.new)) {
            let colour = match line.as_bytes().first() {
                Some(b'+') => "32",
                Some(b'-') => "31",
                _ => "2",
            };
            show::out(&show::paint(colour, &show::safe(&line)));
        }
    }

    fn write(&self) -> Done {
        // What was shown is what is written: nothing that came meanwhile is lost for it.
        let now = match std::fs::read(&self.path) {
            Ok(now) => Some(now),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(e.into()),
        };
        if now != self.old {
            let message = format!("{} has changed meanwhile; look at it and try again", self.shown.display());
            return Err(Fail::new(fail::ERROR, "changed", message));
        }
        match &self.new {
            None => Ok(files::remove(&self.path)?),
            Some(new) => {
                if let Some(folder) = self.path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                Ok(files::replace(&self.path, new, self.mode)?)
            }
        }
    }
}

pub(super) fn teaches(file: &[u8]) -> bool {
    !matches!(teach::take_out(file), Ok(Left::AsItIs))
}
