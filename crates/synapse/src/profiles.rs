//! Where profiles are: in the project, in the home, and in the program, in this order.
//!
//! Invariant: a file that is broken is told with its name, and never silently passed over for a shipped one.

use crate::fail::Fail;
use std::path::{Path, PathBuf};
use synapse_store::home::Home;
use synapse_terminal::profile::{self, PROFILE_BYTES_MAX, Profile};

/// A profile, its text, and where it came from.
#[derive(Debug, Clone)]
pub struct Found {
    pub profile: Profile,
    pub text: String,
    /// None: part of the program.
    pub file: Option<PathBuf>,
}

/// The folders that may hold profiles, the first winning.
pub fn folders(home: &Home, folder: &Path) -> Vec<PathBuf> {
    let project = folder.ancestors().map(|dir| dir.join(".synapse")).find(|dir| dir.is_dir());
    let mut found: Vec<PathBuf> = project.into_iter().map(|dir| dir.join("profiles")).collect();
    let own = home.root().join("profiles");
    if !found.contains(&own) {
        found.push(own);
    }
    found
}

/// The profile of this name or alias; none if nobody has it.
pub fn find(home: &Home, folder: &Path, name: &str) -> Result<Option<Found>, Fail> {
    let name = name.to_lowercase();
    for dir in folders(home, folder) {
        let file = dir.join(format!("{name}.yaml"));
        if file.is_file() {
            return read(&file).map(Some);
        }
    }
    let all = all(home, folder)?;
    Ok(all.into_iter().find(|found| found.profile.name == name || found.profile.aliases.contains(&name)))
}

/// Every profile there is, by name; own ones hide shipped ones.
pub fn all(home: &Home, folder: &Path) -> Result<Vec<Found>, Fail> {
    let mut found: Vec<Found> = Vec::new();
    for dir in folders(home, folder) {
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            entries.filter(|p| p.extension().is_some_and(|e| e == "yaml")).collect();
        files.sort();
        for file in files {
            let one = read(&file)?;
            if !found.iter().any(|other| other.profile.name == one.profile.name) {
                found.push(one);
            }
        }
    }
    for (name, text) in profile::SHIPPED {
        if !found.iter().any(|other| other.profile.name == *name) {
            let profile = Profile::parse(text).map_err(|e| Fail::usage(format!("profile {name}: {e}")))?;
            found.push(Found { profile, text: (*text).to_owned(), file: None });
        }
    }
    found.sort_by(|a, b| a.profile.name.cmp(&b.profile.name));
    Ok(found)
}

/// Reads one file; what is wrong is said with its name.
pub fn read(file: &Path) -> Result<Found, Fail> {
    let told = |why: String| Fail::usage(format!("{}: {why}", file.display()));
    let bytes = std::fs::metadata(file).map_err(|e| told(e.to_string()))?.len();
    if bytes > PROFILE_BYTES_MAX as u64 {
        return Err(told(format!("it has {bytes} bytes; a profile has at most {PROFILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|e| told(e.to_string()))?;
    let profile = Profile::parse(&text).map_err(|e| told(e.to_string()))?;
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if profile.name != stem {
        return Err(told(format!(
            "it is called {:?} inside; a profile is named after its file",
            profile.name
        )));
    }
    Ok(Found { profile, text, file: Some(file.to_owned()) })
}
