//! Profiles, as commands look for them: what is wrong with a file is told as a mistake of whoever wrote it.

use crate::fail::Fail;
use std::path::Path;
use synapse_node::profiles::{self, BadFile};
use synapse_store::home::Home;

pub use synapse_node::profiles::{Found, Notice};

/// The profile of this name or alias, none if nobody has it; and what is not taken from the project.
pub fn find(home: &Home, folder: &Path, name: &str) -> Result<(Option<Found>, Vec<Notice>), Fail> {
    profiles::find(home, folder, name).map_err(told)
}

/// Every profile there is, by name; and what is not taken from the project.
pub fn all(home: &Home, folder: &Path) -> Result<(Vec<Found>, Vec<Notice>), Fail> {
    profiles::all(home, folder).map_err(told)
}

/// Reads one file; what is wrong is said with its name.
pub fn read(file: &Path) -> Result<Found, Fail> {
    profiles::read(file).map_err(told)
}

/// Says on standard error what is ignored of the settings of a project.
pub fn warn_of_settings(home: &Home, folder: &Path) {
    let places = synapse_settings::Places::here(home.root(), folder);
    warn(&synapse_settings::load(&places).ignored);
}

/// Says on standard error what is ignored of a project.
pub fn warn(notices: impl IntoIterator<Item = impl std::fmt::Display>) {
    for notice in notices {
        let warning = crate::show::paint_err("33", "warning");
        eprintln!("{warning}: {}", crate::show::safe(&notice.to_string()));
    }
}

fn told(bad: BadFile) -> Fail {
    Fail::usage(bad.to_string())
}
