//! Which program a holder starts as the next node: the one that is installed, not the one that was.
//!
//! The path is written down in the agent's folder, by the holder when it starts and by `upgrade-agents`. A program
//! that is gone from there is no reason to lose an agent: then the holder starts its own again, which the kernel
//! keeps for as long as it runs.
//!
//! Not here: when a node is replaced (`cli/upgrade`, `synapse-holder`).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use synapse_store::files::{self, Access, FileError};
use synapse_store::home::{AgentDir, Home};

const PATH_BYTES_MAX: usize = 4096;

/// Where this program is installed.
pub fn installed() -> std::io::Result<PathBuf> {
    std::env::current_exe().map(|path| as_installed(&path))
}

/// Linux says ` (deleted)` of a program whose file was replaced; what is there now is the upgrade.
pub fn as_installed(path: &Path) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(before) if !path.exists() => PathBuf::from(OsString::from_vec(before.to_vec())),
        _ => path.to_owned(),
    }
}

/// A program that a shell would find by this name.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| may_run(file))
}

pub fn may_run(file: &Path) -> bool {
    use rustix::fs::{Access, access};
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

pub fn write_down(dir: &AgentDir, program: &Path) -> Result<(), FileError> {
    files::write_private(&dir.program(), program.as_os_str().as_bytes())
}

/// Variables that hold secrets of the settings. Nothing that is started for an agent may inherit them (M6).
pub fn secret_variables(home: &Home, folder: &Path) -> Vec<String> {
    synapse_settings::load(&synapse_settings::Places::here(home.root(), folder)).settings.secret_variables()
}

/// Takes them out of what a command of this process inherits.
pub fn withhold_secrets(command: &mut Command) {
    let here = std::env::current_dir().unwrap_or_default();
    let variables = Home::from_env().map(|home| secret_variables(&home, &here)).unwrap_or_default();
    for variable in variables {
        command.env_remove(variable);
    }
}

/// The program for the next node.
pub fn next_node(dir: &AgentDir) -> Command {
    let noted = files::read_private(&dir.program(), PATH_BYTES_MAX, Access::Plain).ok();
    let noted = noted.map(|bytes| PathBuf::from(OsString::from_vec(bytes)));
    match noted.filter(|path| path.is_absolute() && path.is_file()) {
        Some(path) => Command::new(path),
        None => synapse_holder::same_program().unwrap_or_else(|_| Command::new("synapse")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_is_known_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("synapse (deleted)");
        assert_eq!(as_installed(&odd), folder.path().join("synapse"));
        std::fs::write(&odd, "").unwrap();
        assert_eq!(as_installed(&odd), odd, "a file may be called so");
        assert_eq!(as_installed(Path::new("/bin/sh")), Path::new("/bin/sh"));
    }
}
