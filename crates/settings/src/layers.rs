//! Layers: defaults, the user's file, the project's file, the environment; later ones win.
//!
//! Loading always returns usable settings. Faulty values are left out, a role whose rights are
//! invalid gets none, and any doubt about a guarded setting closes the network.
//!
//! Invariant: pure; guarded settings come from the user's file or are the defaults.
//! Not here: reading files (`disk`), parsing one text (`document`).

use crate::document::{self, Context, Document, Entry};
use crate::fault::{Fault, Faults, Source, Wrong};
use crate::keys::{self, KEYS, Key, ProjectMay};
use crate::kinds::{Ground, Value};
use crate::project::IgnoredFile;
use crate::{Secret, Settings, Tls};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The layers to combine. A text is `Err` if its file exists but cannot be read.
#[derive(Debug)]
pub struct Layers<'a> {
    pub user: (&'a Path, Option<Result<&'a str, crate::fault::FileWrong>>),
    pub project: Option<(&'a Path, Result<&'a str, crate::fault::FileWrong>)>,
    /// Whether the user trusts that exact content of the project's file.
    pub project_is_trusted: bool,
    /// The environment variables; unknown ones are ignored.
    pub variables: &'a BTreeMap<String, String>,
    /// The user's home folder, for `~/`.
    pub user_folder: Option<&'a Path>,
}

/// Loaded settings, and where each came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub settings: Settings,
    /// Every setting that has a value, in the order of the table.
    pub origins: Vec<Setting>,
    pub files: Files,
    /// The faults; the faulty values are not in the settings above.
    pub faults: Vec<Fault>,
    /// What an untrusted project asks for and does not get.
    pub ignored: Vec<Ignored>,
}

/// A setting or file of a project that is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    #[error("{}:{line}: {key} is ignored: {}", .file.display(), why(*.may))]
    Setting { file: PathBuf, line: usize, key: String, may: ProjectMay },
    #[error("{}: ignored: {}", .0.path.display(), .0.why)]
    File(IgnoredFile),
}

fn why(may: ProjectMay) -> String {
    let may = if may == ProjectMay::OnceTrusted { "not set it" } else { may.name() };
    format!("a project that is not trusted may {may}; `synapse trust` shows what it asks for")
}

/// One effective setting.
#[derive(Debug, Clone)]
pub struct Setting {
    pub key: &'static Key,
    /// The path with the name in place of the `*`.
    pub path: String,
    /// `None` if it has no default and is not set.
    pub value: Option<Value>,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    User {
        file: PathBuf,
        line: usize,
    },
    Project {
        file: PathBuf,
        line: usize,
    },
    Variable {
        name: String,
    },
    /// The restrictive value, because something is wrong with a guarded setting.
    Careful,
}

impl Origin {
    /// Returns the place to look for it: the file, or the variable.
    pub fn place(&self) -> Option<String> {
        match self {
            Self::Default | Self::Careful => None,
            Self::User { file, .. } | Self::Project { file, .. } => Some(file.display().to_string()),
            Self::Variable { name } => Some(name.clone()),
        }
    }
}

/// The files that were searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub user: PathBuf,
    pub user_found: bool,
    /// The nearest one, if there is one.
    pub project: Option<PathBuf>,
}

impl Loaded {
    /// Returns the settings only if there are no faults.
    pub fn faultless(self) -> Result<Self, Faults> {
        if self.faults.is_empty() { Ok(self) } else { Err(Faults(self.faults)) }
    }

    pub fn origin(&self, path: &str) -> &Origin {
        self.origins.iter().find(|one| one.path == path).map_or(&Origin::Default, |one| &one.origin)
    }

    /// Whether a guarded setting may differ from what the user meant.
    pub fn guard_in_doubt(&self) -> bool {
        self.faults.iter().any(touches_guard)
    }
}

/// Combines all layers.
pub fn layer(layers: &Layers<'_>) -> Loaded {
    let (user_file, ref user_text) = layers.user;
    let mut laid = Laid::default();
    let user = |text: &Result<&str, _>| read(text, user_file, Source::User(user_file.to_owned()), layers);
    let user = user_text.as_ref().map(user).unwrap_or_default();
    laid.put(user, |line| Origin::User { file: user_file.to_owned(), line });
    laid.check_together(user_file);
    if let Some((file, text)) = &layers.project {
        let mut project = read(text, file, Source::Project((*file).to_owned()), layers);
        if !layers.project_is_trusted {
            laid.keep_careful(file, &mut project);
        }
        laid.put(project, |line| Origin::Project { file: (*file).to_owned(), line });
    }
    let variables = from_variables(layers);
    laid.faults.extend(variables.faults);
    for entry in variables.entries {
        let name = entry.key.variable().unwrap_or_default();
        laid.values.insert(entry.key.path.to_owned(), (entry, Origin::Variable { name }));
    }
    let files = Files {
        user: user_file.to_owned(),
        user_found: user_text.is_some(),
        project: layers.project.as_ref().map(|(file, _)| (*file).to_owned()),
    };
    laid.finish(files)
}

fn read(
    text: &Result<&str, crate::fault::FileWrong>,
    file: &Path,
    source: Source,
    layers: &Layers<'_>,
) -> Document {
    match text {
        Ok(text) => {
            let folder = file.parent().unwrap_or(Path::new("/"));
            let ground = Ground { folder, user: layers.user_folder };
            document::read(text, &Context { source, ground, user_file: layers.user.0 })
        }
        Err(wrong) => {
            let fault = Fault { source, at: None, key: None, wrong: Wrong::File(wrong.clone()) };
            Document { entries: Vec::new(), faults: vec![fault] }
        }
    }
}

/// Reads the environment: scalar values of settings that are not guarded. An empty
/// variable counts as unset.
fn from_variables(layers: &Layers<'_>) -> Document {
    let mut document = Document::default();
    for key in KEYS {
        let Some(name) = key.variable_name() else { continue };
        let Some(text) = layers.variables.get(&name).filter(|text| !text.trim().is_empty()) else { continue };
        let wrong = if key.guarded {
            let user_file = layers.user.0.to_owned();
            Wrong::GuardedVariable { key: key.path.to_owned(), user_file }
        } else {
            let ground = Ground { folder: Path::new("/"), user: layers.user_folder };
            match key.kind.check(&key.kind.raw_of(text.trim()), ground) {
                Ok(value) => {
                    document.entries.push(Entry { key, name: String::new(), value, line: 0 });
                    continue;
                }
                Err(misfit) => document::wrong_of(misfit, key, key.path),
            }
        };
        let source = Source::Variable(name);
        document.faults.push(Fault { source, at: None, key: Some(key.path.to_owned()), wrong });
    }
    document
}

/// The values combined so far, by path.
#[derive(Default)]
struct Laid {
    values: BTreeMap<String, (Entry, Origin)>,
    faults: Vec<Fault>,
    ignored: Vec<Ignored>,
    /// The variables of secrets that were left out.
    unused_secret_variables: BTreeSet<String>,
}

impl Laid {
    /// Keeps only those of a project's settings that need no trust (H3).
    fn keep_careful(&mut self, file: &Path, project: &mut Document) {
        project.entries.retain(|entry| {
            let key = entry.key.named(&entry.name);
            let own = self.values.get(&key).map(|(entry, _)| entry.value.clone());
            let may = entry.key.project;
            let allowed = may.allows(own.or_else(|| entry.key.default()).as_ref(), &entry.value);
            if !allowed {
                let (file, line) = (file.to_owned(), entry.line);
                self.ignored.push(Ignored::Setting { file, line, key, may });
            }
            allowed
        });
    }

    fn put(&mut self, document: Document, origin: impl Fn(usize) -> Origin) {
        for entry in document.entries {
            let origin = origin(entry.line);
            self.values.insert(entry.key.named(&entry.name), (entry, origin));
        }
        self.faults.extend(document.faults);
    }

    /// Checks settings that are valid only together. All of them are guarded, so they
    /// are in the user's file.
    fn check_together(&mut self, user_file: &Path) {
        let settings = self.settings();
        for (name, secret) in &settings.secrets {
            if let Some((missing, command)) = secret_lacks(name, secret) {
                self.unused_secret_variables.extend(secret.env.clone());
                self.incomplete(user_file, ("secrets.*", name), missing, command);
            }
        }
        for (name, identity) in &settings.tls.identities {
            if identity.role.is_none() && identity.agent.is_none() {
                let command = format!("set tls.identities.{name}.role ROLE");
                self.incomplete(
                    user_file,
                    ("tls.identities.*", name),
                    "it needs a role or an agent",
                    command,
                );
            }
        }
        if let Some((missing, command)) = tls_lacks(&settings.tls) {
            self.incomplete(user_file, ("tls", ""), missing, command.into());
        }
    }

    /// Leaves out incomplete settings, and reports that unless a part is already faulty.
    fn incomplete(
        &mut self,
        file: &Path,
        (pattern, name): (&str, &str),
        missing: &'static str,
        command: String,
    ) {
        let parts: Vec<&Key> = keys::below(pattern).collect();
        let within = |entry: &Entry| {
            parts.iter().any(|key| key.path == entry.key.path) && (name.is_empty() || entry.name == name)
        };
        let lines = self.values.values().filter(|(entry, _)| within(entry)).map(|(entry, _)| entry.line);
        let at = lines.min().map(|line| (line, 1));
        self.values.retain(|_, (entry, _)| !within(entry));
        let is_part = |path: &str| parts.iter().any(|key| key.named(name) == path);
        let told = self.faults.iter().any(|fault| fault.key.as_deref().is_some_and(is_part));
        if !told {
            let key = pattern.replacen('*', name, 1);
            let wrong = Wrong::Incomplete { key: key.clone(), missing, command };
            self.faults.push(Fault { source: Source::User(file.to_owned()), at, key: Some(key), wrong });
        }
    }

    fn settings(&self) -> Settings {
        let unused_secret_variables = self.unused_secret_variables.clone();
        let mut settings = Settings { unused_secret_variables, ..Settings::default() };
        for (entry, _) in self.values.values() {
            entry.key.put(&mut settings, &entry.name, entry.value.clone());
        }
        settings
    }

    fn finish(mut self, files: Files) -> Loaded {
        self.close_what_is_in_doubt();
        let mut origins = Vec::new();
        for key in KEYS {
            let mut own: Vec<_> =
                self.values.iter().filter(|(_, (entry, _))| entry.key.path == key.path).collect();
            own.sort_by(|a, b| a.0.cmp(b.0));
            if own.is_empty() && !key.is_open() {
                let (path, value) = (key.path.to_owned(), key.default());
                origins.push(Setting { key, path, value, origin: Origin::Default });
            }
            for (path, (entry, origin)) in own {
                let (path, value) = (path.clone(), Some(entry.value.clone()));
                origins.push(Setting { key, path, value, origin: origin.clone() });
            }
        }
        Loaded { settings: self.settings(), origins, files, faults: self.faults, ignored: self.ignored }
    }

    fn close_what_is_in_doubt(&mut self) {
        if !self.faults.iter().any(touches_guard) {
            return;
        }
        self.values.retain(|path, _| {
            let is_open =
                ["network.listen", "network.allow", "network.push_private"].contains(&path.as_str());
            !is_open && !path.starts_with("tls.")
        });
        if let Some((key, _)) = keys::find("network.allow") {
            let value = Value::List(LOOPBACK.map(str::to_owned).to_vec());
            let entry = Entry { key, name: String::new(), value, line: 0 };
            self.values.insert(key.path.to_owned(), (entry, Origin::Careful));
        }
    }
}

/// The addresses that may call while a guarded setting is in doubt.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// Whether a fault may concern a guarded setting. Only the user's file has those, but a
/// misspelt section may mean one.
fn touches_guard(fault: &Fault) -> bool {
    let harmless = |key: &str| {
        let section = key.split('.').next().unwrap_or_default();
        keys::below(section).next().is_some() && keys::below(section).all(|key| !key.guarded)
    };
    matches!(fault.source, Source::User(_)) && !fault.key.as_deref().is_some_and(harmless)
}

fn secret_lacks(name: &str, secret: &Secret) -> Option<(&'static str, String)> {
    let file = format!("set secrets.{name}.file PATH");
    match (secret.file.is_some(), secret.env.is_some()) {
        (true, true) => {
            return Some((
                "it has a file and a variable, and needs one of them",
                format!("unset secrets.{name}.env"),
            ));
        }
        (false, false) => return Some(("it needs a file or a variable with the secret", file)),
        _ => {}
    }
    let nobody = secret.role.is_none() && secret.agent.is_none();
    nobody.then(|| {
        (
            "it needs a role or an agent, which its callers then have or are",
            format!("set secrets.{name}.role ROLE"),
        )
    })
}

fn tls_lacks(tls: &Tls) -> Option<(&'static str, &'static str)> {
    match (&tls.cert, &tls.key) {
        (Some(_), None) => Some(("a certificate needs its key", "set tls.key PATH")),
        (None, Some(_)) => Some(("a key needs its certificate", "set tls.cert PATH")),
        (None, None) if tls.client_ca.is_some() || !tls.identities.is_empty() => {
            Some(("client certificates need a certificate of this machine", "set tls.cert PATH tls.key PATH"))
        }
        _ if tls.client_ca.is_none() && !tls.identities.is_empty() => {
            Some(("identities need the authority of their certificates", "set tls.client_ca PATH"))
        }
        _ => None,
    }
}
