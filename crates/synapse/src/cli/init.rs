//! `synapse init`: teaches agents how to reach each other, in the files of instructions they read, and tells their
//! programs to start our tools, in their settings (PTY-13).
//!
//! What is to change is shown before it is written, and a person is asked. Files are replaced whole, with the mode
//! they had; a link is followed only to a file that lies within the same folder, and stays a link.
//!
//! Not here: the block itself (`teach`), the entry in settings (`register`).

use super::confirm;
use crate::fail::{self, Done, Fail};
use crate::register::{self, Form};
use crate::teach::{self, Left};
use crate::{diff, program, show};
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
    /// Tell these programs to start `synapse mcp serve`, in their settings, instead of writing instructions
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CLI", conflicts_with = "cli")]
    mcp: Vec<McpCli>,
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

/// The programs that start servers of tools, by their settings.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum McpCli {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

impl McpCli {
    const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    fn form(self) -> Form {
        match self {
            Self::Claude => Form::Claude,
            Self::Codex => Form::Codex,
            Self::Gemini => Form::Gemini,
            Self::Opencode => Form::Opencode,
        }
    }

    fn file(self, base: &Path, user: bool) -> PathBuf {
        match (self, user) {
            (Self::Claude, false) => base.join(".mcp.json"),
            // In the folder, if there is one of its own; else beside it.
            (Self::Claude, true) => {
                own_folder("CLAUDE_CONFIG_DIR").unwrap_or_else(|| base.to_owned()).join(".claude.json")
            }
            (Self::Codex, false) => base.join(".codex/config.toml"),
            (Self::Codex, true) => {
                own_folder("CODEX_HOME").unwrap_or_else(|| base.join(".codex")).join("config.toml")
            }
            (Self::Gemini, _) => base.join(".gemini/settings.json"),
            (Self::Opencode, false) => with_comments(base.join("opencode.json")),
            (Self::Opencode, true) => {
                let config = own_folder("XDG_CONFIG_HOME").unwrap_or_else(|| base.join(".config"));
                with_comments(config.join("opencode/opencode.json"))
            }
        }
    }
}

/// Its settings may be called `.jsonc`.
fn with_comments(file: PathBuf) -> PathBuf {
    let other = file.with_extension("jsonc");
    if other.is_file() && !file.exists() { other } else { file }
}

/// What is put into a file, or taken out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Lesson,
    Server(Form),
}

impl What {
    fn is_in(self, file: &[u8]) -> bool {
        match self {
            Self::Lesson => teaches(file),
            Self::Server(form) => register::is_in(form, file),
        }
    }

    fn put_in(self, file: Option<&[u8]>) -> Result<Vec<u8>, String> {
        match self {
            Self::Lesson => teach::put_in(file).map_err(|broken| broken.to_string()),
            Self::Server(form) => {
                register::put_in(form, file, &command()?).map_err(|broken| broken.to_string())
            }
        }
    }

    fn take_out(self, file: &[u8]) -> Result<Left, String> {
        match self {
            Self::Lesson => teach::take_out(file).map_err(|broken| broken.to_string()),
            Self::Server(form) => register::take_out(form, file).map_err(|broken| broken.to_string()),
        }
    }

    /// Instructions are read whole by a model; settings are not.
    fn bytes_max(self) -> u64 {
        match self {
            Self::Lesson => 1 << 20,
            Self::Server(_) => 16 << 20,
        }
    }
}

/// How the program is started: by its name where that is found, since such files are shared.
fn command() -> Result<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join("synapse").is_file()) {
        return Ok("synapse".to_owned());
    }
    let installed =
        program::installed().map_err(|e| format!("where this program is cannot be told: {e:#}"))?;
    Ok(installed.display().to_string())
}

const NEW_MODE: u32 = 0o644;
/// Settings of a person may come to hold secrets.
const NEW_MODE_OF_USER: u32 = 0o600;

/// A file and what is to become of it.
struct Change {
    what: What,
    /// As the person knows it.
    shown: PathBuf,
    /// Where it really is.
    path: PathBuf,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    mode: u32,
    /// A folder in the project that goes with the file if nothing else is in it.
    folder: Option<PathBuf>,
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
    let mut changes: Vec<Change> = Vec::new();
    for (shown, what) in wanted(args, &base)? {
        let change = plan(&base, shown, what, args)?;
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

/// Which files, and what of them.
fn wanted(args: &Init, base: &Path) -> Result<Vec<(PathBuf, What)>, Fail> {
    if !args.mcp.is_empty() {
        let files = args.mcp.iter().map(|cli| (cli.file(base, args.user), What::Server(cli.form())));
        return Ok(files.collect());
    }
    let lessons = if args.user { of_user(args, base) } else { Ok(of_project(args, base)) };
    if !args.remove || !args.cli.is_empty() {
        return Ok(lessons?.into_iter().map(|path| (path, What::Lesson)).collect());
    }
    // Everything of ours goes; that there is no lesson is no reason to leave the rest.
    let lessons = lessons.unwrap_or_default().into_iter().map(|path| (path, What::Lesson));
    Ok(lessons.chain(registered_in(base, args.user)).collect())
}

fn registered_in(base: &Path, user: bool) -> Vec<(PathBuf, What)> {
    let all = McpCli::ALL.map(|cli| (cli.file(base, user), What::Server(cli.form())));
    let is_in = |(path, what): &(PathBuf, What)| std::fs::read(path).is_ok_and(|file| what.is_in(&file));
    all.into_iter().filter(is_in).collect()
}

/// Settings in which programs are told to start our tools.
pub(super) fn registered(user: bool) -> Vec<PathBuf> {
    let Ok(base) = base(user) else { return Vec::new() };
    registered_in(&base, user).into_iter().map(|(path, _)| path).collect()
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
    let folder = |variable: &str, default: &str| own_folder(variable).unwrap_or_else(|| base.join(default));
    match cli {
        AgentCli::Claude => folder("CLAUDE_CONFIG_DIR", ".claude").join("CLAUDE.md"),
        AgentCli::Codex => folder("CODEX_HOME", ".codex").join("AGENTS.md"),
        AgentCli::Gemini => base.join(".gemini/GEMINI.md"),
        AgentCli::Opencode => folder("XDG_CONFIG_HOME", ".config").join("opencode/AGENTS.md"),
        AgentCli::Copilot => base.join(".copilot/copilot-instructions.md"),
    }
}

/// The folder that a variable names.
fn own_folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
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

fn plan(base: &Path, shown: PathBuf, what: What, args: &Init) -> Result<Change, Fail> {
    let bad = |why: String| Fail::new(fail::ERROR, "not_written", format!("{}: {why}", shown.display()));
    let path = target(base, &shown, args.user).map_err(bad)?;
    let (old, mode) = match std::fs::metadata(&path) {
        Ok(found) => {
            (Some(read(&path, &found, what.bytes_max()).map_err(bad)?), found.permissions().mode() & 0o777)
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let is_private = args.user && what != What::Lesson;
            (None, if is_private { NEW_MODE_OF_USER } else { NEW_MODE })
        }
        Err(e) => return Err(bad(e.to_string())),
    };
    let new = match (&old, args.remove) {
        (None, true) => None,
        (old, false) => Some(what.put_in(old.as_deref()).map_err(bad)?),
        (Some(old), true) => match what.take_out(old).map_err(bad)? {
            Left::AsItIs => Some(old.clone()),
            Left::Rest(rest) => Some(rest),
            Left::Nothing => None,
        },
    };
    if old.is_some() && old != new && mode & 0o200 == 0 {
        return Err(bad(format!("it is read-only; `chmod u+w {}` if it may be changed", path.display())));
    }
    let folder = path.parent().filter(|folder| !args.user && *folder != base).map(Path::to_owned);
    Ok(Change { what, shown, path, old, new, mode, folder })
}

/// Where a link leads. A link in somebody's project may lead anywhere, so it must stay within the folder.
fn target(base: &Path, shown: &Path, user: bool) -> Result<PathBuf, String> {
    let folder = shown.parent().and_then(|folder| folder.canonicalize().ok());
    if let Some(folder) = folder.filter(|folder| !user && !folder.starts_with(base)) {
        return Err(format!(
            "its folder is a link to {}, outside of {}; edit that one yourself",
            folder.display(),
            base.display()
        ));
    }
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

fn read(path: &Path, found: &std::fs::Metadata, bytes_max: u64) -> Result<Vec<u8>, String> {
    if !found.is_file() {
        return Err("it is not a plain file".to_owned());
    }
    if found.uid() != files::our_uid() {
        return Err(format!("it belongs to another user (uid {}), so it is left alone", found.uid()));
    }
    if found.len() > bytes_max {
        return Err(format!("it has more than {bytes_max} bytes; no agent reads that"));
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
            (Some(old), Some(new)) if self.what.is_in(old) && !self.what.is_in(new) => "removed",
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
            None => {
                files::remove(&self.path)?;
                // Fails if something is in it, which then stays.
                let _ = self.folder.as_ref().map(std::fs::remove_dir);
                Ok(())
            }
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
