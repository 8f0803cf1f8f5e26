//! Finds profiles: in the user's home, then in the program, and what a project adds to them. Also
//! applies a changed profile while its program runs.
//!
//! A project's profile is merged into the user's or shipped one of its name, but only as far as it
//! makes us more careful (`synapse_terminal::added`). Once the user trusts the file as it is, it
//! counts in full, like the user's own files (H3).
//!
//! Invariant: a broken file of the user is reported, and never silently replaced by a shipped one.
//! Notices list what a project is not granted. A running program keeps its profile until a valid
//! one replaces it.
//! Not here: the content of a profile (`synapse-terminal`), which files of a project may be read
//! (`synapse-settings`).

use crate::driver::now;
use crate::hands::terminal::Seat;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use synapse_settings::disk::user_folder;
use synapse_settings::project::{self, FOLDER, Search};
use synapse_settings::trust::TrustList;
use synapse_store::home::Home;
use synapse_terminal::added::ProjectRules;
use synapse_terminal::profile::{self, BadProfile, PROFILE_BYTES_MAX, Profile};
use tokio::sync::Notify;

/// A profile, its text, and where it came from.
#[derive(Debug, Clone)]
pub struct Found {
    /// Includes the additions of a project.
    pub profile: Profile,
    pub text: String,
    /// `None` for a shipped profile.
    pub file: Option<PathBuf>,
    /// The project's profile of this name, if it is not trusted.
    pub project: Option<ProjectPart>,
}

/// A project's profile that is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPart {
    pub file: PathBuf,
    pub text: String,
}

impl Found {
    /// Describes the source: the file or `shipped`, and the project's file.
    pub fn from(&self) -> String {
        let own = self.file.as_ref().map_or_else(|| "shipped".to_owned(), |file| file.display().to_string());
        match &self.project {
            Some(part) => format!("{own}, with rules of {}", part.file.display()),
            None => own,
        }
    }

    /// Returns the complete source text: if this is the same, so is the profile.
    pub fn made_of(&self) -> String {
        made_of(&self.text, self.project.as_ref().map(|part| part.text.as_str()))
    }
}

pub fn made_of(text: &str, project: Option<&str>) -> String {
    project.map_or_else(|| text.to_owned(), |project| format!("{text}\n--- project\n{project}"))
}

/// Parses a profile and adds the rules of a project.
pub fn assemble(text: &str, project: Option<&str>) -> Result<Profile, BadProfile> {
    let profile = Profile::parse(text)?;
    Ok(match project.and_then(|text| ProjectRules::parse(text).ok()) {
        Some(rules) => rules.add_to(profile).0,
        None => profile,
    })
}

/// Something that is ignored in a project, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub file: PathBuf,
    /// The name of the affected profile.
    pub profile: Option<String>,
    pub why: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

/// Why a file is not a valid profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", .file.display())]
pub struct BadFile {
    pub file: PathBuf,
    pub why: String,
}

/// Returns the folder of the user's own profiles.
fn own_folder(home: &Home) -> PathBuf {
    home.root().join(PROFILES)
}

const PROFILES: &str = "profiles";
/// The maximum number of profiles in a project.
const PROJECT_FILES_MAX: usize = 64;

/// The profiles of the project that a folder belongs to.
struct ProjectProfiles {
    root: Option<PathBuf>,
    trusted: TrustList,
    notices: Vec<Notice>,
}

/// A file of a project as it was read.
enum ProjectFile {
    /// It counts like one of the user's files.
    Trusted(Found),
    Untrusted(ProjectPart),
}

impl ProjectProfiles {
    fn open(home: &Home, folder: &Path) -> Self {
        let user_folder = user_folder();
        let search = Search { folder, home: home.root(), user_folder: user_folder.as_deref() };
        let roots = search.roots();
        let has_profiles = |root: &&PathBuf| root.join(FOLDER).join(PROFILES).symlink_metadata().is_ok();
        let root = roots.folders.iter().find(has_profiles).cloned();
        let trusted = TrustList::load(home.root()).unwrap_or_default();
        Self { root, trusted, notices: Vec::new() }
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        let root = self.root.as_ref()?;
        Some(root.join(FOLDER).join(PROFILES).join(format!("{name}.yaml")))
    }

    /// Returns the names of its profiles.
    fn names(&mut self) -> Vec<String> {
        let Some(root) = &self.root else { return Vec::new() };
        match project::names(root, &[PROFILES], PROJECT_FILES_MAX) {
            Ok(names) => {
                names.iter().filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned)).collect()
            }
            Err(at) => {
                self.notices.push(Notice {
                    file: at.path,
                    profile: None,
                    why: format!("ignored: {}", at.why),
                });
                Vec::new()
            }
        }
    }

    /// Reads a profile once, so that the bytes checked against the trust list are the bytes that
    /// are parsed.
    fn read(&mut self, name: &str) -> Option<ProjectFile> {
        let (root, file) = (self.root.as_ref()?, self.file(name)?);
        let mut ignore = |file: PathBuf, why: String| {
            self.notices.push(Notice {
                file,
                profile: Some(name.to_owned()),
                why: format!("ignored: {why}"),
            });
            None
        };
        if name.contains('/') {
            return None;
        }
        let bytes = match project::read(root, &[PROFILES, &format!("{name}.yaml")], PROFILE_BYTES_MAX as u64)
        {
            Ok(bytes) => bytes?,
            Err(at) => return ignore(at.path, at.why.to_string()),
        };
        let is_trusted = self.trusted.trusts(&file, &bytes);
        let Ok(text) = String::from_utf8(bytes) else {
            return ignore(file, "it is not UTF-8 text".to_owned());
        };
        if !is_trusted {
            return Some(ProjectFile::Untrusted(ProjectPart { file, text }));
        }
        match whole(&file, text) {
            Ok(found) => Some(ProjectFile::Trusted(found)),
            Err(bad) => ignore(file, bad.why),
        }
    }

    /// Returns the profile of this name, merged with the user's one.
    fn merge(&mut self, name: &str, own: Option<Found>) -> Option<Found> {
        let part = match self.read(name) {
            None => return own,
            Some(ProjectFile::Trusted(found)) => return Some(found),
            Some(ProjectFile::Untrusted(part)) => part,
        };
        let mut notice = |why: String| {
            self.notices.push(Notice { file: part.file.clone(), profile: Some(name.to_owned()), why });
        };
        let Some(mut own) = own else {
            notice(format!("ignored: you have no profile called {name}, and {UNTRUSTED}"));
            return None;
        };
        match ProjectRules::parse(&part.text) {
            Ok(rules) if rules.name == own.profile.name => {
                let (merged, ignored) = rules.add_to(own.profile);
                if !ignored.is_empty() {
                    notice(format!("ignored {}: {UNTRUSTED}", ignored.join(", ")));
                }
                own.profile = merged;
                own.project = Some(part);
            }
            Ok(rules) => notice(format!("ignored: it is called {:?} inside", rules.name)),
            Err(e) => notice(format!("ignored: {e}")),
        }
        Some(own)
    }
}

/// Why something was ignored.
const UNTRUSTED: &str = "this project is not trusted; `synapse trust` shows what it asks for";

/// Returns the profile with this name or alias, or `None`, and notices of what is ignored in the
/// project.
pub fn find(home: &Home, folder: &Path, name: &str) -> Result<(Option<Found>, Vec<Notice>), BadFile> {
    let name = name.to_lowercase();
    if let (Some(found), notices) = named(home, folder, &name)? {
        return Ok((Some(found), notices));
    }
    let (all, mut notices) = all(home, folder)?;
    let found = all.into_iter().find(|found| found.profile.aliases.contains(&name));
    let meant = found.as_ref().map_or(&name, |found| &found.profile.name);
    notices.retain(|notice| notice.profile.as_ref().is_none_or(|profile| profile == meant));
    Ok((found, notices))
}

/// Returns all profiles by name, and notices of what is ignored in the project. The user's profiles
/// hide shipped ones.
pub fn all(home: &Home, folder: &Path) -> Result<(Vec<Found>, Vec<Notice>), BadFile> {
    let mut found: Vec<Found> = Vec::new();
    let entries = std::fs::read_dir(own_folder(home)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|p| p.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    for file in files {
        found.push(read(&file)?);
    }
    for (name, _) in profile::SHIPPED {
        if !found.iter().any(|other| other.profile.name == *name) {
            found.extend(shipped(name));
        }
    }
    let mut project = ProjectProfiles::open(home, folder);
    for name in project.names() {
        let own = found.iter().position(|one| one.profile.name == name).map(|at| found.swap_remove(at));
        found.extend(project.merge(&name, own));
    }
    found.sort_by(|a, b| a.profile.name.cmp(&b.profile.name));
    Ok((found, project.notices))
}

/// Returns the profile with exactly this name; other files are not read.
fn named(home: &Home, folder: &Path, name: &str) -> Result<(Option<Found>, Vec<Notice>), BadFile> {
    let own = own(home, name)?;
    let mut project = ProjectProfiles::open(home, folder);
    let found = project.merge(name, own);
    Ok((found, project.notices))
}

/// Returns the user's profile of this name, or the shipped one: what counts if no project is
/// trusted.
pub fn own(home: &Home, name: &str) -> Result<Option<Found>, BadFile> {
    let file = own_folder(home).join(format!("{name}.yaml"));
    if file.is_file() {
        return read(&file).map(Some);
    }
    Ok(shipped(name))
}

fn shipped(name: &str) -> Option<Found> {
    let (_, text) = profile::SHIPPED.iter().find(|(known, _)| *known == name)?;
    let profile = profile::shipped(name)?;
    Some(Found { profile, text: (*text).to_owned(), file: None, project: None })
}

/// Reads one of the user's files; an error names the file.
pub fn read(file: &Path) -> Result<Found, BadFile> {
    let told = |why: String| BadFile { file: file.to_owned(), why };
    let bytes = std::fs::metadata(file).map_err(|e| told(e.to_string()))?.len();
    if bytes > PROFILE_BYTES_MAX as u64 {
        return Err(told(format!("it has {bytes} bytes; a profile has at most {PROFILE_BYTES_MAX}")));
    }
    whole(file, std::fs::read_to_string(file).map_err(|e| told(e.to_string()))?)
}

/// Parses a profile, whose name must match its file.
pub fn whole(file: &Path, text: String) -> Result<Found, BadFile> {
    let told = |why: String| BadFile { file: file.to_owned(), why };
    let profile = Profile::parse(&text).map_err(|e| told(e.to_string()))?;
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if profile.name != stem {
        return Err(told(format!(
            "it is called {:?} inside; a profile is named after its file",
            profile.name
        )));
    }
    Ok(Found { profile, text, file: Some(file.to_owned()), project: None })
}

/// Reloads the profile of a running program whenever its file changes.
pub struct Reload {
    pub home: Home,
    /// Where its project is searched for.
    pub folder: PathBuf,
    pub seat: Seat,
    pub news: Arc<Notify>,
    /// Watches a folder; called for missing folders as soon as they exist.
    pub watch: Box<dyn Fn(&Path) + Send>,
}

impl Reload {
    /// Returns the folders to watch for changes, and their parents, in which they may be created
    /// later.
    pub fn watched(home: &Home, folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let user_folder = user_folder();
        let search = Search { folder, home: home.root(), user_folder: user_folder.as_deref() };
        let roots = search.roots().folders.into_iter().map(|root| root.join(FOLDER));
        let project = roots.filter(|dir| dir.is_dir()).take(1).map(|dir| dir.join(PROFILES));
        let own: Vec<PathBuf> = project.chain([own_folder(home)]).collect();
        let parents = own.iter().filter_map(|dir| dir.parent().map(Path::to_owned)).collect();
        (own, parents)
    }

    pub async fn work(self) {
        /// Editors write in several steps.
        const SETTLE: Duration = Duration::from_millis(100);
        let (own, _) = Self::watched(&self.home, &self.folder);
        let mut told = Vec::new();
        loop {
            own.iter().filter(|dir| dir.is_dir()).for_each(|dir| (self.watch)(dir));
            let (home, folder, name) =
                (self.home.clone(), self.folder.clone(), self.seat.watch().profile().name.clone());
            let found = tokio::task::spawn_blocking(move || named(&home, &folder, &name)).await;
            if let Ok(found) = found {
                let notices = found.as_ref().map_or_else(|_| Vec::new(), |(_, notices)| notices.clone());
                if notices != told {
                    notices.iter().for_each(|notice| tracing::warn!(%notice, "a project's profile"));
                    told = notices;
                }
                self.seat.take_up(now(), found.map(|(found, _)| found));
            }
            self.news.notified().await;
            tokio::time::sleep(SETTLE).await;
        }
    }
}
