//! Where profiles are: in the project, in the home, and in the program, in this order; and taking up a changed one
//! while its program runs.
//!
//! Invariant: a file that is broken is told with its name, and never silently passed over for a shipped one. A
//! running program keeps the profile it has until a whole one takes its place.
//! Not here: what a profile says (`synapse-terminal`).

use crate::driver::now;
use crate::hands::terminal::Seat;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use synapse_store::home::Home;
use synapse_terminal::profile::{self, PROFILE_BYTES_MAX, Profile};
use tokio::sync::Notify;

/// A profile, its text, and where it came from.
#[derive(Debug, Clone)]
pub struct Found {
    pub profile: Profile,
    pub text: String,
    /// None: part of the program.
    pub file: Option<PathBuf>,
}

impl Found {
    /// The file, or that it is shipped.
    pub fn from(&self) -> String {
        self.file.as_ref().map_or_else(|| "shipped".to_owned(), |file| file.display().to_string())
    }
}

/// Why a file is no profile, with its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", .file.display())]
pub struct BadFile {
    pub file: PathBuf,
    pub why: String,
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
pub fn find(home: &Home, folder: &Path, name: &str) -> Result<Option<Found>, BadFile> {
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
pub fn all(home: &Home, folder: &Path) -> Result<Vec<Found>, BadFile> {
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
        if !found.iter().any(|other| other.profile.name == *name)
            && let Some(profile) = profile::shipped(name)
        {
            found.push(Found { profile, text: (*text).to_owned(), file: None });
        }
    }
    found.sort_by(|a, b| a.profile.name.cmp(&b.profile.name));
    Ok(found)
}

/// Reads one file; what is wrong is said with its name.
pub fn read(file: &Path) -> Result<Found, BadFile> {
    let told = |why: String| BadFile { file: file.to_owned(), why };
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

/// The profile of exactly this name; the files of others do not matter.
fn named(home: &Home, folder: &Path, name: &str) -> Result<Option<Found>, BadFile> {
    let files = folders(home, folder).into_iter().map(|dir| dir.join(format!("{name}.yaml")));
    for file in files {
        if file.is_file() {
            return read(&file).map(Some);
        }
    }
    let shipped = profile::SHIPPED.iter().find(|(known, _)| *known == name);
    let profile = profile::shipped(name);
    Ok(shipped.zip(profile).map(|((_, text), profile)| Found { profile, text: (*text).into(), file: None }))
}

/// Takes up the profile of a running program whenever its file changes.
pub struct Reload {
    pub home: Home,
    /// Where its project is looked for.
    pub folder: PathBuf,
    pub seat: Seat,
    pub news: Arc<Notify>,
    /// Watches folders that were not there at first as soon as they are.
    pub watch: Box<dyn Fn(&Path) + Send>,
}

impl Reload {
    /// The folders whose news are for this, and those in which they may be made later.
    pub fn watched(home: &Home, folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let own = folders(home, folder);
        let parents = own.iter().filter_map(|dir| dir.parent().map(Path::to_owned)).collect();
        (own, parents)
    }

    pub async fn work(self) {
        /// Editors write in steps.
        const SETTLE: Duration = Duration::from_millis(100);
        let (own, _) = Self::watched(&self.home, &self.folder);
        loop {
            own.iter().filter(|dir| dir.is_dir()).for_each(|dir| (self.watch)(dir));
            let (home, folder, name) =
                (self.home.clone(), self.folder.clone(), self.seat.watch().profile().name.clone());
            let found = tokio::task::spawn_blocking(move || named(&home, &folder, &name)).await;
            if let Ok(found) = found {
                self.seat.take_up(now(), found);
            }
            self.news.notified().await;
            tokio::time::sleep(SETTLE).await;
        }
    }
}
