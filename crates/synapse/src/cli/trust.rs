//! `synapse trust`: shows what a project's files ask for, and remembers that the user allows it (H3).
//!
//! Each file is read once. What is shown, what is hashed and what is remembered are the same bytes; a file that changes
//! meanwhile is not trusted. Not for agents: an agent can write in its project.
//! Not here: what counts without trust (`synapse-node`, `synapse-settings`).

use super::confirm;
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::{diff, show};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use synapse_node::driver::now;
use synapse_node::profiles;
use synapse_settings::disk::{self, user_folder};
use synapse_settings::project::{self, FOLDER, Roots, Search};
use synapse_settings::trust::{self, TrustError, TrustList, TrustedFile};
use synapse_store::home::Home;
use synapse_terminal::added::ProjectRules;
use synapse_terminal::profile::PROFILE_BYTES_MAX;

#[derive(Args)]
pub(super) struct Trust {
    /// Folder of the project [default: this one]
    folder: Option<PathBuf>,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["folder", "revoke", "yes"])]
    list: bool,
    /// Stop trusting the files of this folder
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn trust(args: &Trust, json: bool) -> Done {
    let roll = Roll::call()?;
    let home = &roll.home;
    if args.list {
        return list(home, json);
    }
    if let Some(id) = roll.caller("decide which projects are trusted")? {
        return Err(Fail::refused(format!(
            "{} may not decide which projects are trusted; only the user may, in a process that no agent started",
            roll.label(&id)
        )));
    }
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_dir()?,
    };
    if !folder.is_dir() {
        return Err(Fail::usage(format!("{} is not a folder", show::safe(&folder.display().to_string()))));
    }
    home.ensure()?;
    if args.revoke { revoke(home, &folder, json) } else { allow(home, &folder, args.yes, json) }
}

/// A file that asks for more than a project gets without trust.
struct Candidate {
    path: PathBuf,
    text: String,
    /// What is in effect in its place.
    instead: String,
}

fn allow(home: &Home, folder: &Path, yes: bool, json: bool) -> Done {
    let user_folder = user_folder();
    let roots = Search { folder, home: home.root(), user_folder: user_folder.as_deref() }.roots();
    let mut asks = Vec::new();
    asks.extend(settings(home, &roots)?);
    asks.extend(profiles_of(home, &roots)?);
    if asks.is_empty() {
        if json {
            show::json(&json!({ "trusted": [] }));
        } else {
            show::out("nothing to trust: no file of this project asks for more than it gets");
        }
        return Ok(());
    }
    if !json {
        for ask in &asks {
            let name = show::safe(&ask.path.display().to_string());
            diff::lines(&name, &ask.instead, &ask.text).iter().for_each(|line| show::out(&show::safe(line)));
        }
    }
    if !yes {
        let files =
            if asks.len() == 1 { "this file".to_owned() } else { format!("these {} files", asks.len()) };
        let question = format!("Trust {files}? They can then start programs as you.");
        confirm(&question, "nothing is trusted", json)?;
    }
    let at_ms = now().0;
    let file = |ask: &Candidate| TrustedFile {
        path: ask.path.clone(),
        sha256: trust::hash(ask.text.as_bytes()),
        at_ms,
    };
    let trusted: Vec<TrustedFile> = asks.iter().map(file).collect();
    trust::add(home.root(), trusted.clone())?;
    if json {
        show::json(&json!({ "trusted": trusted }));
        return Ok(());
    }
    for file in &trusted {
        show::out(&format!("trusted {}, until it changes", show::safe(&file.path.display().to_string())));
    }
    Ok(())
}

/// The nearest settings, unless they are trusted already.
fn settings(home: &Home, roots: &Roots) -> Result<Option<Candidate>, Fail> {
    let known = TrustList::load(home.root())?;
    for root in &roots.folders {
        let read = project::read(root, &[disk::FILE], disk::BYTES_MAX);
        let Some(bytes) = read.map_err(|ignored| Fail::refused(ignored.to_string()))? else { continue };
        let path = root.join(FOLDER).join(disk::FILE);
        let is_trusted = known.trusts(&path, &bytes);
        let text = text_of(&path, bytes)?;
        let places = synapse_settings::Places::here(home.root(), root);
        let asks = synapse_settings::load(&places).ignored.len();
        return Ok((asks > 0 && !is_trusted).then_some(Candidate { path, text, instead: String::new() }));
    }
    Ok(None)
}

/// The profiles that ask for more than they get.
fn profiles_of(home: &Home, roots: &Roots) -> Result<Vec<Candidate>, Fail> {
    const FILES_MAX: usize = 64;
    const PROFILES: &str = "profiles";
    let known = TrustList::load(home.root())?;
    let has_profiles = |root: &&PathBuf| root.join(FOLDER).join(PROFILES).symlink_metadata().is_ok();
    let Some(root) = roots.folders.iter().find(has_profiles) else { return Ok(Vec::new()) };
    let refused = |ignored: project::IgnoredFile| Fail::refused(ignored.to_string());
    let mut asks = Vec::new();
    for file in project::names(root, &[PROFILES], FILES_MAX).map_err(refused)? {
        let Some(name) = file.strip_suffix(".yaml") else { continue };
        let bytes = project::read(root, &[PROFILES, &file], PROFILE_BYTES_MAX as u64).map_err(refused)?;
        let Some(bytes) = bytes else { continue };
        let path = root.join(FOLDER).join(PROFILES).join(&file);
        if known.trusts(&path, &bytes) {
            continue;
        }
        let text = text_of(&path, bytes)?;
        let own = profiles::own(home, name).map_err(|bad| Fail::usage(bad.to_string()))?;
        let adds_only = ProjectRules::parse(&text).is_ok_and(|rules| rules.ignored.is_empty());
        if own.is_some() && adds_only {
            continue;
        }
        profiles::whole(&path, text.clone()).map_err(|bad| Fail::usage(bad.to_string()))?;
        asks.push(Candidate { path, text, instead: own.map_or_else(String::new, |own| own.text) });
    }
    Ok(asks)
}

fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, Fail> {
    String::from_utf8(bytes).map_err(|_| Fail::usage(format!("{}: it is not UTF-8 text", path.display())))
}

fn revoke(home: &Home, folder: &Path, json: bool) -> Done {
    let folder = folder.canonicalize()?;
    let gone = trust::revoke(home.root(), |path| path.starts_with(&folder))?;
    if json {
        show::json(&json!({ "revoked": gone }));
    } else if gone.is_empty() {
        show::out("nothing in this folder is trusted");
    } else {
        for path in &gone {
            show::out(&format!("no longer trusted: {}", show::safe(&path.display().to_string())));
        }
    }
    Ok(())
}

fn list(home: &Home, json: bool) -> Done {
    let known = TrustList::load(home.root())?;
    // For the list alone, so a link or a foreign file does no harm here.
    let state = |file: &TrustedFile| match std::fs::read(&file.path) {
        Ok(bytes) if trust::hash(&bytes) == file.sha256 => "trusted",
        Ok(_) => "changed, so not trusted",
        Err(_) => "gone",
    };
    if json {
        let row =
            |file: &TrustedFile| json!({ "path": file.path, "sha256": file.sha256, "state": state(file) });
        show::json(&json!({ "files": known.files.iter().map(row).collect::<Vec<_>>() }));
        return Ok(());
    }
    if known.files.is_empty() {
        show::out("no project's files are trusted");
        return Ok(());
    }
    let row = |file: &TrustedFile| {
        vec![
            show::safe(&file.path.display().to_string()),
            state(file).to_owned(),
            show::ago(now().0.saturating_sub(file.at_ms)),
        ]
    };
    let rows: Vec<Vec<String>> = known.files.iter().map(row).collect();
    show::out(&show::table(&["FILE", "STATE", "SINCE"], &rows));
    Ok(())
}

impl From<TrustError> for Fail {
    fn from(error: TrustError) -> Self {
        Self::new(crate::fail::ERROR, "trust", error.to_string())
    }
}
