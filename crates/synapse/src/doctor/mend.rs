//! Makes the repair that a finding proposed. Everything is checked again just before.
//!
//! Invariant: only files of this user are touched, and links are not followed. Files of an agent
//! are touched only while we hold the agent's lock, so that nobody else can.

use super::Fix;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use synapse_holder::{Claim, HoldError};
use synapse_store::files;
use synapse_store::home::Home;
use synapse_store::registry;

/// Makes the repair. The error says why it was not made.
pub fn mend(home: &Home, fix: &Fix) -> Result<(), String> {
    match fix {
        Fix::Chmod { path, mode } => {
            ours(path)?;
            let mode = std::fs::Permissions::from_mode(*mode);
            std::fs::set_permissions(path, mode).map_err(|e| e.to_string())
        }
        Fix::Remove { path } => remove(path),
        Fix::RemoveOfAgent { dir, path } => {
            let _claim = not_held(dir)?;
            remove(path)
        }
        Fix::RepairJournal { dir, path } => {
            let _claim = not_held(dir)?;
            // The repair writes a report of what it restored and lost, which `facts` reads.
            synapse_store::repair::repair(path).map(drop).map_err(|e| e.to_string())
        }
        Fix::ClearRegistry => {
            registry::scan(home);
            Ok(())
        }
        Fix::RemoveDemo { path } => remove_demo(path),
    }
}

/// Takes the lock of an agent that nobody holds. A missing folder counts as not held.
pub fn not_held(dir: &Path) -> Result<Option<Claim>, String> {
    if !dir.exists() {
        return Ok(None);
    }
    match synapse_holder::claim(dir) {
        Ok(claim) => Ok(Some(claim)),
        Err(HoldError::AlreadyHeld { .. }) => Err("the agent runs, so it is in use".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn remove(path: &Path) -> Result<(), String> {
    match ours(path) {
        Ok(()) => std::fs::remove_file(path).map_err(|e| e.to_string()),
        // Already removed.
        Err(_) if path.symlink_metadata().is_err() => Ok(()),
        Err(why) => Err(why),
    }
}

/// Removes the home of a demo, unless one of its agents is held.
fn remove_demo(path: &Path) -> Result<(), String> {
    ours(path)?;
    let agents = std::fs::read_dir(path.join("agents")).into_iter().flatten().flatten();
    let claims: Result<Vec<_>, String> = agents.map(|agent| not_held(&agent.path())).collect();
    claims?;
    std::fs::remove_dir_all(path).map_err(|e| e.to_string())
}

fn ours(path: &Path) -> Result<(), String> {
    let found = path.symlink_metadata().map_err(|e| e.to_string())?;
    if found.uid() != files::our_uid() {
        return Err(format!("it belongs to another user (uid {})", found.uid()));
    }
    if found.file_type().is_symlink() {
        return Err("it is a symbolic link".to_owned());
    }
    Ok(())
}
