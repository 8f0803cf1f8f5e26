//! Changing one setting in a text; comments, order and everything else stay.
//!
//! Invariant: pure; a change that would bring a new fault is refused.
//! Not here: which file, and writing it.

use crate::document::{form, without_mark};
use crate::fault::{Fault, Faults, FileWrong};
use crate::keys::{self, Key};
use crate::kinds::{Kind, Raw};
use crate::layers::{self, Layers};
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use std::collections::BTreeMap;
use std::path::Path;

/// One thing to do to a file.
#[derive(Debug, Clone)]
pub enum Change<'a> {
    Set {
        key: &'static Key,
        name: &'a str,
        value: &'a str,
    },
    /// A setting, or a section with all that is in it.
    Unset {
        path: &'a str,
    },
}

/// Why a text was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotChange {
    #[error("{0}")]
    Faults(Faults),
    #[error("{path} cannot be put in, since what stands there is no object; edit {file}")]
    InTheWay { path: String, file: String },
}

/// The file a text is from.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    pub file: &'a Path,
    pub is_project: bool,
    pub user_file: &'a Path,
    pub user_folder: Option<&'a Path>,
}

/// The text after the changes, and the faults it had before and still has.
pub fn change(text: &str, changes: &[Change<'_>], of: Of<'_>) -> Result<(String, Vec<Fault>), CannotChange> {
    let text = without_mark(text);
    let before = faults(text, of);
    let unreadable = || CannotChange::Faults(Faults(before.clone()));
    let root = CstRootNode::parse(text, &form()).map_err(|_| unreadable())?;
    let object = root.object_value_or_create().ok_or_else(unreadable)?;
    for change in changes {
        match change {
            Change::Set { key, name, value } => {
                let in_the_way =
                    || CannotChange::InTheWay { path: key.named(name), file: of.file.display().to_string() };
                set(&object, &key.steps(name), input(key.kind, value)).ok_or_else(in_the_way)?;
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
    let asked = |fault: &Fault| {
        let set = changes.iter().filter_map(|change| match change {
            Change::Set { key, name, .. } => Some(key.named(name)),
            Change::Unset { .. } => None,
        });
        set.into_iter().any(|path| fault.key.as_deref() == Some(&path))
    };
    let (old, new): (Vec<_>, Vec<_>) =
        after.into_iter().partition(|fault| !asked(fault) && before.iter().any(|had| like(had, fault)));
    if new.is_empty() { Ok((changed, old)) } else { Err(CannotChange::Faults(Faults(new))) }
}

fn faults(text: &str, of: Of<'_>) -> Vec<Fault> {
    let none: Option<Result<&str, FileWrong>> = None;
    layers::layer(&Layers {
        user: (of.user_file, if of.is_project { none } else { Some(Ok(text)) }),
        project: of.is_project.then_some((of.file, Ok(text))),
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

/// Sections that become empty go too.
fn unset(root: &CstObject, steps: &[&str]) -> Option<()> {
    let (first, rest) = steps.split_first()?;
    let property = root.get(first)?;
    if !rest.is_empty() {
        let object = property.object_value()?;
        unset(&object, rest)?;
        // A comment in it may be why somebody left it there.
        let holds_comment = object.children().iter().any(jsonc_parser::cst::CstNode::is_comment);
        if !object.properties().is_empty() || holds_comment {
            return Some(());
        }
    }
    property.remove();
    Some(())
}

/// The steps to a setting or a section. A name may have dots, so what is known around it is cut off first.
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

fn input(kind: Kind, text: &str) -> CstInputValue {
    // A list may also be typed as JSON has it.
    let as_json = || serde_json::from_str::<Vec<String>>(text).ok();
    if kind.is_list()
        && let Some(words) = as_json()
    {
        return CstInputValue::Array(words.into_iter().map(CstInputValue::String).collect());
    }
    to_input(kind.raw_of(text))
}

fn to_input(raw: Raw) -> CstInputValue {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match raw {
        Raw::Null => CstInputValue::Null,
        Raw::Bool(truth) => CstInputValue::Bool(truth),
        Raw::Number(digits) if is_number(&digits) && (digits == "0" || !digits.starts_with('0')) => {
            CstInputValue::Number(digits)
        }
        Raw::Number(text) | Raw::Text(text) => CstInputValue::String(text),
        Raw::List(list) => CstInputValue::Array(list.into_iter().map(to_input).collect()),
        Raw::Object => CstInputValue::Object(Vec::new()),
    }
}
