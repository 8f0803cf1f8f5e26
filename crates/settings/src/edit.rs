//! Changes single settings in a text; comments, order and everything else stay.
//!
//! Invariant: pure; a change that would add a fault is refused.
//! Not here: which file, and writing it.

use crate::document::{self, form, without_mark};
use crate::fault::{Fault, Faults, FileWrong, Wrong};
use crate::keys::{self, Key};
use crate::kinds::{Ground, Kind, Raw};
use crate::layers::{self, Layers};
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use std::collections::BTreeMap;
use std::path::Path;

/// One change to a file.
#[derive(Debug, Clone)]
pub enum Change<'a> {
    Set {
        key: &'static Key,
        name: &'a str,
        value: &'a str,
    },
    /// Removes a setting, or a section with everything in it.
    Unset {
        path: &'a str,
    },
}

/// Why a text was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotChange {
    /// The file is already invalid.
    #[error("{0}")]
    Faults(Faults),
    #[error("{0}, so nothing was changed; `synapse config show {1}` tells more")]
    Value(Wrong, String),
    #[error(
        "{0}, so nothing was changed; what belongs together is set together: `synapse config set KEY VALUE KEY VALUE`"
    )]
    Alone(Wrong),
    #[error("{path} cannot be put in, since what stands there is no object; edit {file}")]
    InTheWay { path: String, file: String },
}

/// The file that a text comes from.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    pub file: &'a Path,
    pub is_project: bool,
    pub user_file: &'a Path,
    pub user_folder: Option<&'a Path>,
}

/// Returns the changed text, and the faults it had before and still has.
pub fn change(text: &str, changes: &[Change<'_>], of: Of<'_>) -> Result<(String, Vec<Fault>), CannotChange> {
    let text = without_mark(text);
    let before = faults(text, of);
    let unreadable = || CannotChange::Faults(Faults(before.clone()));
    if document::too_deep(text).is_some() {
        return Err(unreadable());
    }
    let root = CstRootNode::parse(text, &form()).map_err(|_| unreadable())?;
    let object = root.object_value_or_create().ok_or_else(unreadable)?;
    for change in changes {
        match change {
            Change::Set { key, name, value } => {
                check(key, name, value, of)?;
                let in_the_way =
                    || CannotChange::InTheWay { path: key.named(name), file: of.file.display().to_string() };
                set(&object, &key.steps(name), to_input(typed(key.kind, value))).ok_or_else(in_the_way)?;
            }
            Change::Unset { path } => drop(unset(&object, &steps_of(path))),
        }
    }
    let mut changed = root.to_string();
    if !changed.ends_with('\n') {
        changed.push('\n');
    }
    let after = faults(&changed, of);
    let like = |a: &Fault, b: &Fault| {
        a.key == b.key && std::mem::discriminant(&a.wrong) == std::mem::discriminant(&b.wrong)
    };
    let (old, new): (Vec<_>, Vec<_>) =
        after.into_iter().partition(|fault| before.iter().any(|had| like(had, fault)));
    match new.into_iter().next() {
        None => Ok((changed, old)),
        Some(Fault { wrong: wrong @ Wrong::Incomplete { .. }, .. }) => Err(CannotChange::Alone(wrong)),
        Some(fault) => Err(CannotChange::Value(fault.wrong, fault.key.unwrap_or_default())),
    }
}

fn check(key: &Key, name: &str, value: &str, of: Of<'_>) -> Result<(), CannotChange> {
    let ground = Ground { folder: of.file.parent().unwrap_or(Path::new("/")), user: of.user_folder };
    let path = key.named(name);
    let checked = key.kind.check(&typed(key.kind, value), ground);
    checked.map(drop).map_err(|misfit| CannotChange::Value(document::wrong_of(misfit, key, &path), path))
}

fn faults(text: &str, of: Of<'_>) -> Vec<Fault> {
    let none: Option<Result<&str, FileWrong>> = None;
    layers::layer(&Layers {
        user: (of.user_file, if of.is_project { none } else { Some(Ok(text)) }),
        project: of.is_project.then_some((of.file, Ok(text))),
        project_is_trusted: true,
        variables: &BTreeMap::new(),
        user_folder: of.user_folder,
    })
    .faults
}

fn set(root: &CstObject, steps: &[&str], value: CstInputValue) -> Option<()> {
    let (last, sections) = steps.split_last()?;
    let mut object = root.clone();
    for section in sections {
        object = object.object_value_or_create(section)?;
    }
    match object.get(last) {
        Some(property) => property.set_value(value),
        None => drop(object.append(last, value)),
    }
    Some(())
}

/// Removes a setting, and sections that become empty.
fn unset(root: &CstObject, steps: &[&str]) -> Option<()> {
    let (first, rest) = steps.split_first()?;
    let property = root.get(first)?;
    if !rest.is_empty() {
        let object = property.object_value()?;
        unset(&object, rest)?;
        // Keep an empty section that contains a comment, which may explain it.
        let holds_comment = object.children().iter().any(jsonc_parser::cst::CstNode::is_comment);
        if !object.properties().is_empty() || holds_comment {
            return Some(());
        }
    }
    property.remove();
    Some(())
}

/// Splits the path of a setting or a section. A name may contain dots, so the known parts
/// around it are removed first.
fn steps_of(path: &str) -> Vec<&str> {
    if let Some((key, name)) = keys::find(path) {
        return key.path.split('.').map(|step| if step == "*" { name } else { step }).collect();
    }
    for prefix in ["secrets.", "tls.identities."] {
        if let Some(name) = path.strip_prefix(prefix).filter(|name| !name.is_empty()) {
            return prefix.trim_end_matches('.').split('.').chain([name]).collect();
        }
    }
    path.split('.').collect()
}

/// Parses what a person typed; a list may also be JSON.
fn typed(kind: Kind, text: &str) -> Raw {
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(words) if kind.is_list() => Raw::List(words.into_iter().map(Raw::Text).collect()),
        _ => kind.raw_of(text),
    }
}

/// Converts a value that was already checked.
fn to_input(raw: Raw) -> CstInputValue {
    match raw {
        Raw::Null => CstInputValue::Null,
        Raw::Bool(truth) => CstInputValue::Bool(truth),
        // Normalized, without leading zeros and signs, which JSON does not allow.
        Raw::Number(digits) => CstInputValue::Number(digits.parse::<u64>().unwrap_or_default().to_string()),
        Raw::Text(text) => CstInputValue::String(text),
        Raw::List(list) => CstInputValue::Array(list.into_iter().map(to_input).collect()),
        Raw::Object => CstInputValue::Object(Vec::new()),
    }
}
