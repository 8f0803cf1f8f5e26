//! `synapse config`: which settings hold, where each came from, and changing them.
//!
//! Not here: what the settings are (`synapse-settings`).

use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use synapse_settings::disk::{self, ChangeError, Whose};
use synapse_settings::edit::{CannotChange, Change};
use synapse_settings::keys::ProjectMay;
use synapse_settings::kinds::Kind;
use synapse_settings::layers::Setting;
use synapse_settings::views::{self, LoadedView, SettingView};
use synapse_settings::{KEYS, Key, Loaded, Origin, Places, document, keys};
use synapse_store::home::Home;

#[derive(Args)]
pub(super) struct Config {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show each setting, its value and its source
    Show {
        /// One setting (`a2a.flow`) or a section (`network`)
        key: Option<String>,
    },
    /// Change settings in a file; keep its comments and order
    Set {
        /// Settings and their values; a list is `a,b`
        #[arg(value_names = ["KEY", "VALUE"], num_args = 2.., required = true)]
        pairs: Vec<String>,
        #[command(flatten)]
        to: To,
    },
    /// Remove settings from a file
    Unset {
        /// Settings or whole sections
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        to: To,
    },
    /// Show which files are read
    Path,
    /// Print the JSON Schema of a settings file, for editors
    Schema,
}

#[derive(Args)]
struct To {
    /// Change your own file (default)
    #[arg(long)]
    user: bool,
    /// Change the project's file, or create it in this folder
    #[arg(long, conflicts_with = "user")]
    project: bool,
}

pub(super) fn config(args: &Config, json: bool) -> Done {
    let home = Home::from_env()?;
    let places = Places::here(home.root(), &std::env::current_dir()?);
    match &args.what {
        What::Show { key } => show(&places, key.as_deref(), json),
        What::Set { pairs, to } => set(&home, &places, pairs, to, json),
        What::Unset { keys, to } => unset(&home, &places, keys, to, json),
        What::Path => path(&places, json),
        What::Schema => {
            show::out(&format!("{:#}", views::schema()));
            Ok(())
        }
    }
}

/// Shows what holds even if something is wrong: that is when one wants to see it.
fn show(places: &Places, key: Option<&str>, json: bool) -> Done {
    let loaded = synapse_settings::load(places);
    match key {
        Some(path) if keys::find(path).is_some() => one(&loaded, path, json),
        Some(section) if !in_section(section).is_empty() => all(&loaded, section, json),
        Some(other) => return Err(unknown(other)),
        None => all(&loaded, "", json),
    }
    if !json {
        crate::profiles::warn(&loaded.ignored);
    }
    loaded.faultless()?;
    Ok(())
}

fn all(loaded: &Loaded, section: &str, json: bool) {
    let wanted = |one: &Setting| section.is_empty() || is_within(&one.path, section);
    if json {
        return show::json(&LoadedView::new(loaded, wanted));
    }
    let mut rows = Vec::new();
    for key in KEYS {
        let own: Vec<&Setting> =
            loaded.origins.iter().filter(|one| one.key.path == key.path && wanted(one)).collect();
        // A row for what could be set, unless there is one that shows how.
        let before_name = key.path.split('*').next().unwrap_or_default();
        let has_names = loaded.origins.iter().any(|one| one.path.starts_with(before_name));
        if own.is_empty() && !has_names && in_section(section).contains(&key.path) {
            rows.push(vec![key.shown(), "not set".into(), "default".into()]);
        }
        for one in own {
            rows.push(vec![show::safe(&one.path), value_of(one), from(&one.origin)]);
        }
    }
    show::out(&show::table(&["SETTING", "VALUE", "FROM"], &rows));
}

fn one(loaded: &Loaded, path: &str, json: bool) {
    let Some((key, _)) = keys::find(path) else { return };
    let unset = Setting { key, path: path.to_owned(), value: None, origin: Origin::Default };
    let setting = loaded.origins.iter().find(|one| one.path == path).unwrap_or(&unset);
    if json {
        return show::json(&SettingView::new(setting));
    }
    let default = key.default().map_or_else(|| "not set".to_owned(), |value| value.shown());
    let project = match key.project {
        ProjectMay::Never => None,
        ProjectMay::Set => Some("a project's file".to_owned()),
        may => Some(format!("a project's file ({}, unless it is trusted)", may.name())),
    };
    let set_by = match (key.guarded, project) {
        (true, _) | (false, None) => "your own file alone, since it guards this machine".to_owned(),
        (false, Some(project)) => {
            let all = [Some("your file".to_owned()), Some(project), key.variable()];
            all.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
    };
    let rows = [
        ("value", value_of(setting)),
        ("from", from(&setting.origin)),
        ("default", default),
        ("must be", key.kind.allowed()),
        ("set by", set_by),
    ];
    let lines: Vec<String> = rows.iter().map(|(name, value)| format!("{name:<8} {value}")).collect();
    show::out(&format!("{}: {}\n{}", show::safe(path), key.help, lines.join("\n")));
}

fn value_of(setting: &Setting) -> String {
    setting.value.as_ref().map_or_else(|| "not set".to_owned(), |value| show::safe(&value.shown()))
}

fn from(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::User { file, line } | Origin::Project { file, line } => {
            show::safe(&format!("{}:{line}", file.display()))
        }
        Origin::Variable { name } => name.clone(),
        Origin::Careful => "something is wrong, so this is the careful value".to_owned(),
    }
}

/// The rows of the table that a section has; a section may end with a name (`secrets.ci`).
fn in_section(section: &str) -> Vec<&'static str> {
    let named = ["secrets.", "tls.identities."].iter().find(|open| {
        section.strip_prefix(**open).is_some_and(|name| document::check_name(section, name).is_ok())
    });
    let section = named.map_or_else(|| section.to_owned(), |open| format!("{open}*"));
    let within = |key: &&Key| section.is_empty() || is_within(key.path, &section);
    KEYS.iter().filter(within).map(|key| key.path).collect()
}

fn is_within(path: &str, section: &str) -> bool {
    path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn unknown(path: &str) -> Fail {
    let nearest =
        keys::nearest("", path).map(|near| format!("; did you mean {near}?")).unwrap_or_else(|| ";".into());
    let path: String = show::safe(path).chars().take(80).collect();
    Fail::usage(format!("{path} is no setting{nearest} `synapse config show` lists all"))
}

fn path(places: &Places, json: bool) -> Done {
    let loaded = synapse_settings::load(places);
    if json {
        show::json(&LoadedView::new(&loaded, |_| false).files);
        return Ok(());
    }
    let told = |found: bool| if found { "there" } else { "not there" };
    let project = loaded.files.project.clone().unwrap_or_else(|| places.new_project_file());
    let project_found = loaded.files.project.is_some();
    let rows = [
        ("user", &loaded.files.user, told(loaded.files.user_found)),
        ("project", &project, told(project_found)),
    ];
    let rows = rows.map(|(whose, file, told)| {
        vec![whose.to_owned(), show::safe(&file.display().to_string()), told.to_owned()]
    });
    show::out(&show::table(&["WHOSE", "FILE", "IS"], &rows));
    Ok(())
}

fn set(home: &Home, places: &Places, pairs: &[String], to: &To, json: bool) -> Done {
    if !pairs.len().is_multiple_of(2) {
        let last = pairs.last().map_or("", String::as_str);
        return Err(Fail::usage(format!("{last} has no value; `synapse config set KEY VALUE`")));
    }
    let mut wanted: Vec<(&'static Key, &str, String)> = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let (key, name) = settable(&pair[0])?;
        if key.guarded && to.project {
            return Err(guarded(places, &pair[0]));
        }
        wanted.push((key, name, as_typed(key, &pair[1], &places.folder)));
    }
    let changes: Vec<Change<'_>> =
        wanted.iter().map(|(key, name, value)| Change::Set { key, name, value }).collect();
    let file = change(home, places, to, &changes)?;
    let loaded = synapse_settings::load(places);
    let mut told = Vec::new();
    for (key, name, _) in &wanted {
        let path = key.named(name);
        let Some(setting) = loaded.origins.iter().find(|one| one.path == path) else { continue };
        if setting.origin.place() != Some(file.display().to_string()) {
            let place = setting.origin.place().unwrap_or_else(|| "a default".into());
            note(&format!("{path} stays {}: {place} has the last word", value_of(setting)));
        } else if !json {
            show::out(&format!("{path} is {} ({})", value_of(setting), file.display()));
        }
        told.push(SettingView::new(setting));
    }
    if json {
        show::json(&json!({ "file": file, "settings": told }));
    }
    Ok(())
}

fn settable(path: &str) -> Result<(&'static Key, &str), Fail> {
    let Some((key, name)) = keys::find(path) else {
        if path.starts_with("secrets.") {
            return Err(Fail::usage(
                "a secret does not stand in the settings, nor on a command line where others see it; put it into a \
                 file for you alone (`chmod 600`), then \
                 `synapse config set secrets.NAME.file PATH secrets.NAME.role ROLE`",
            ));
        }
        if !in_section(path).is_empty() {
            let rows: Vec<String> =
                KEYS.iter().filter(|key| in_section(path).contains(&key.path)).map(Key::shown).collect();
            return Err(Fail::usage(format!(
                "{path} is a section; `synapse config set` one of {}",
                rows.join(", ")
            )));
        }
        return Err(unknown(path));
    };
    if key.is_open()
        && let Err(rule) = document::check_name(key.path, name)
    {
        let path = show::safe(path);
        return Err(Fail::usage(format!(
            "the name in {path} must be {rule}; `synapse config set` with another"
        )));
    }
    Ok((key, name))
}

/// A relative path on a command line starts where the person is, and in a file at the file's folder.
fn as_typed(key: &Key, value: &str, folder: &Path) -> String {
    let relative = key.kind == Kind::Path && !value.is_empty() && !value.starts_with(['/', '~']);
    if !relative {
        return value.to_owned();
    }
    // Without the `.` that people begin such a path with.
    folder.join(value).components().collect::<PathBuf>().display().to_string()
}

fn unset(home: &Home, places: &Places, paths: &[String], to: &To, json: bool) -> Done {
    for path in paths {
        if keys::find(path).is_none() && in_section(path).is_empty() {
            return Err(unknown(path));
        }
    }
    let changes: Vec<Change<'_>> = paths.iter().map(|path| Change::Unset { path }).collect();
    let file = change(home, places, to, &changes)?;
    let loaded = synapse_settings::load(places);
    for path in paths {
        for one in loaded.origins.iter().filter(|one| is_within(&one.path, path)) {
            if let Some(place) = one.origin.place() {
                note(&format!("{} is still {}: {place} says so", one.path, value_of(one)));
            }
        }
    }
    if json {
        show::json(&json!({ "file": file, "unset": paths }));
    } else {
        show::out(&format!("{} not set in {}", paths.join(", "), file.display()));
    }
    Ok(())
}

/// Changes the file that is meant, and says what else is wrong with it.
fn change(home: &Home, places: &Places, to: &To, changes: &[Change<'_>]) -> Result<PathBuf, Fail> {
    let (file, whose) = if to.project {
        let file = places.project_file().unwrap_or_else(|| places.new_project_file());
        if places.is_users(&file) {
            return Err(Fail::refused(
                "in this folder the project's file would be your own; `synapse config set … --user` changes that",
            ));
        }
        if let Some(folder) = file.parent() {
            let told = |e| {
                Fail::from(anyhow::anyhow!(
                    "{} cannot be made: {e}; `ls -ld {}`",
                    folder.display(),
                    places.folder.display()
                ))
            };
            std::fs::create_dir_all(folder).map_err(told)?;
        }
        (file, Whose::Project)
    } else {
        // what a user has decided is not an agent's to change.
        if Roll::call()?.caller("change the user's settings")?.is_some() {
            return Err(Fail::refused(
                "an agent may not change the user's settings; ask the user to run `synapse config set` themselves",
            ));
        }
        home.ensure()?;
        (places.user_file(), Whose::User)
    };
    let left = disk::change(places, &file, whose, changes).map_err(|error| match error {
        ChangeError::Change(CannotChange::Faults(faults)) => Fail::from(faults),
        error @ ChangeError::Change(_) => Fail::usage(show::safe(&error.to_string())),
        error => Fail::new(fail::ERROR, "error", show::safe(&error.to_string())),
    })?;
    for fault in left {
        note(&format!("still wrong: {fault}"));
    }
    Ok(file)
}

fn guarded(places: &Places, path: &str) -> Fail {
    let file = places.user_file();
    Fail::refused(format!(
        "{path} guards this machine, so a project may not set it: whoever can write in the project could open the \
         machine. It belongs into {}: `synapse config set {path} VALUE --user`",
        file.display()
    ))
}

fn note(text: &str) {
    eprintln!("{}: {}", show::paint_err("33", "note"), show::safe(text));
}
