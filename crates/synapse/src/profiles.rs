//! Profiles, as commands look for them: what is wrong with a file is told as a mistake of whoever wrote it.

use crate::fail::Fail;
use std::path::Path;
use synapse_node::profiles::{self, BadFile};
use synapse_store::home::Home;

pub use synapse_node::profiles::Found;

/// The profile of this name or alias; none if nobody has it.
pub fn find(home: &Home, folder: &Path, name: &str) -> Result<Option<Found>, Fail> {
    profiles::find(home, folder, name).map_err(told)
}

/// Every profile there is, by name; own ones hide shipped ones.
pub fn all(home: &Home, folder: &Path) -> Result<Vec<Found>, Fail> {
    profiles::all(home, folder).map_err(told)
}

/// Reads one file; what is wrong is said with its name.
pub fn read(file: &Path) -> Result<Found, Fail> {
    profiles::read(file).map_err(told)
}

fn told(bad: BadFile) -> Fail {
    Fail::usage(bad.to_string())
}
