//! `synapse init`: teaches agents how to reach each other, in the files of instructions they read, and tells their
//! programs to start our tools, in their settings (PTY-13).
//!
//! What is to change is shown before it is written, and a person is asked. Files are replaced whole, with the mode
//! they had; a link is followed only to a file that lies within the same folder, and stays a link.
//!
//! Not here: the block itself (`teach`), the entry in settings (`register`), which CLI has which files (`clis`).

mod clis;

pub(super) use clis::AgentCli;

use super::confirm;
use crate::fail::{self, Done, Fail};
use crate::register::{self, Form};
use crate::teach::{self, Left};
use crate::{diff, program, show};
use clap::Args;
use clis::{McpCli, project_file, user_file};
use serde::Serialize;
use std::io::IsTerminal as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use synapse_store::files;

#[derive(Args)]
pub(super) struct Init {
    /// Teach these CLIs only; default: those that are installed, and the files that are there
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CLI")]
    cli: Vec<AgentCli>,
    /// Register `synapse mcp serve` in the settings of these CLIs; default: those that are installed
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CLI", num_args = 0..=1, conflicts_with = "cli")]
    mcp: Option<Vec<McpCli>>,
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
    if program::on_path("synapse").is_some() {
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
    let changes = plan_all(&base, wanted(args, &base)?, args)?;
    if !json {
        changes.iter().for_each(Change::tell);
    }
    let write = changes.iter().any(Change::is_one) && !args.dry_run;
    if write && !args.yes {
        confirm("Write this?", "nothing was written", json)?;
    }
    if write {
        write_all(&changes)?;
    }
    if json {
        show::json(&changes.iter().map(|change| change.row(write)).collect::<Vec<_>>());
        return Ok(());
    }
    if write {
        tell_written(&changes);
    }
    if args.mcp.is_none() && args.cli.is_empty() && !args.remove { offer_tools(&base, args) } else { Ok(()) }
}

fn plan_all(base: &Path, wanted: Vec<(PathBuf, What)>, args: &Init) -> Result<Vec<Change>, Fail> {
    let mut changes: Vec<Change> = Vec::new();
    for (shown, what) in wanted {
        let change = plan(base, shown, what, args)?;
        // CLAUDE.md is often a link to AGENTS.md: one file, one block.
        if changes.iter().all(|known| known.path != change.path) {
            changes.push(change);
        }
    }
    Ok(changes)
}

fn write_all(changes: &[Change]) -> Done {
    changes.iter().filter(|change| change.is_one()).try_for_each(Change::write)
}

fn tell_written(changes: &[Change]) {
    for change in changes.iter().filter(|change| change.is_one()) {
        show::out(&format!("{} {}", change.action(), change.shown.display()));
    }
}

/// The CLIs that are installed can have the same as tools: asks once at a terminal, elsewhere names the command.
fn offer_tools(base: &Path, args: &Init) -> Done {
    let clis = McpCli::installed();
    let files = clis.iter().map(|cli| (cli.file(base, args.user), What::Server(cli.form())));
    // Settings that cannot be read are named by the command itself.
    let planned = plan_all(base, files.collect(), args);
    if planned.as_ref().is_ok_and(|changes| !changes.iter().any(Change::is_one)) {
        return Ok(());
    }
    let command = if args.user { "synapse init --mcp --user" } else { "synapse init --mcp" };
    let names = clis.iter().map(|cli| cli.command()).collect::<Vec<_>>().join(", ");
    let can_ask = std::io::stdin().is_terminal() && show::on_terminal() && !args.yes && !args.dry_run;
    let Some(changes) = planned.ok().filter(|_| can_ask) else {
        show::out(&format!("MCP tools for {names}: {command}"));
        return Ok(());
    };
    changes.iter().for_each(Change::tell);
    if confirm(&format!("Register the MCP tools of Synapse with {names}?"), "", false).is_err() {
        show::out(&format!("not registered; later: {command}"));
        return Ok(());
    }
    write_all(&changes)?;
    tell_written(&changes);
    Ok(())
}

/// Which files, and what of them.
fn wanted(args: &Init, base: &Path) -> Result<Vec<(PathBuf, What)>, Fail> {
    if let Some(named) = &args.mcp {
        let clis = mcp_clis(named, args.remove)?;
        let files = clis.iter().map(|cli| (cli.file(base, args.user), What::Server(cli.form())));
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

/// Those named, or all that are installed; to remove, all that are known.
fn mcp_clis(named: &[McpCli], remove: bool) -> Result<Vec<McpCli>, Fail> {
    if remove && named.is_empty() {
        return Ok(McpCli::ALL.to_vec());
    }
    let clis = if named.is_empty() { McpCli::installed() } else { named.to_vec() };
    if clis.is_empty() {
        let known = McpCli::ALL.map(McpCli::command).join(", ");
        return Err(Fail::usage(format!(
            "no CLI was registered: none of {known} is on PATH\nhint: name one, as in `synapse init --mcp=claude`"
        )));
    }
    Ok(clis)
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

/// The files of a project: those asked for; or those of the CLIs that are installed and those that are there, or else
/// the one that most CLIs read.
fn of_project(args: &Init, base: &Path) -> Vec<PathBuf> {
    if !args.cli.is_empty() {
        return unique(args.cli.iter().map(|cli| project_file(base, cli)));
    }
    let is_installed = |cli: &AgentCli| !args.remove && program::on_path(cli.command()).is_some();
    let installed: Vec<PathBuf> =
        AgentCli::ALL.iter().filter(|cli| is_installed(cli)).map(|cli| project_file(base, cli)).collect();
    let all = unique(AgentCli::ALL.iter().map(|cli| project_file(base, cli)));
    let is_wanted = |path: &PathBuf| installed.contains(path) || path.symlink_metadata().is_ok();
    let wanted: Vec<PathBuf> = all.into_iter().filter(is_wanted).collect();
    if wanted.is_empty() && !args.remove { vec![base.join("AGENTS.md")] } else { wanted }
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
