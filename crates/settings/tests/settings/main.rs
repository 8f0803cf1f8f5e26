//! Settings from texts and files to values: parsing, errors, and writing.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod disk;
mod edit;
mod fuzz;
mod golden;
mod layers;

use std::collections::BTreeMap;
use std::path::Path;
use synapse_settings::Loaded;
use synapse_settings::layers::{Layers, layer};

pub(crate) const USER: &str = "/u/.synapse/settings.json";
pub(crate) const PROJECT: &str = "/p/.synapse/settings.json";

/// Loads the texts of the user's and the project's file, and variables.
pub(crate) fn load(user: Option<&str>, project: Option<&str>, variables: &[(&str, &str)]) -> Loaded {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    layer(&Layers {
        user: (Path::new(USER), user.map(Ok)),
        project: project.map(|text| (Path::new(PROJECT), Ok(text))),
        project_is_trusted: false,
        variables: &variables,
        user_folder: Some(Path::new("/u")),
    })
}
