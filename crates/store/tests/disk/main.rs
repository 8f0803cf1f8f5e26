//! Files on a hostile or broken disk: real directories, links, modes, owners, pipes.
//!
//! Tests that need a second user run only as root, and print a note when they are skipped.
//! Not here: the journal.

#![allow(clippy::unwrap_used)]

mod agents;
mod audit;
mod files;
mod spool;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use synapse_store::files::our_uid;
use synapse_store::home::Home;

pub(crate) const NOBODY: u32 = 65534;

pub(crate) struct Temp {
    _dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) home: Home,
}

pub(crate) fn temp() -> Temp {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let home = Home::at(path.join("synapse"), path.join("a2a").join("registry"));
    Temp { _dir: dir, path, home }
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a file to another user; returns `false`, with a note, if that is not permitted.
pub(crate) fn give_away(path: &Path) -> bool {
    if our_uid() != 0 {
        eprintln!("not root: what another user owns is not tested here");
        return false;
    }
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    true
}

pub(crate) fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
