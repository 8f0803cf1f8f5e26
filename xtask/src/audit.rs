//! `cargo xtask audit`: licences, known vulnerabilities and duplicates of our dependencies, checked
//! offline.
//!
//! Licences come from `cargo metadata` and must be on a list. Vulnerabilities come from a copy of
//! RustSec's advisories, `xtask/advisories.json`, which `--refresh` fetches with git. The check
//! prints the date of the copy, or that there is none. Duplicates are packages with more than one
//! version in `Cargo.lock`.

mod advisories;
mod duplicates;
mod licences;

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::shell;

/// A third-party package of `Cargo.lock`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The licence field of its manifest; empty if there is none.
    pub(crate) licence: String,
}

pub(crate) fn run(root: &Path, refresh: bool) -> anyhow::Result<()> {
    if refresh {
        advisories::refresh(root)?;
    }
    let packages = foreign(&metadata(root, &[])?)?;
    let checks =
        [licences::check(&packages), advisories::check(root, &packages), duplicates::check(&packages)];
    let mut found = Vec::new();
    for check in checks {
        match check {
            Ok(said) => println!("{said}"),
            Err(error) => found.push(format!("{error:#}")),
        }
    }
    if !found.is_empty() {
        bail!("{}", found.join("\n"));
    }
    Ok(())
}

/// Runs `cargo metadata` for the workspace and all its dependencies.
pub(crate) fn metadata(root: &Path, more: &[&str]) -> anyhow::Result<Value> {
    let line = [&["cargo", "metadata", "--format-version", "1", "--locked"], more].concat();
    serde_json::from_str(&shell::read(root, &line)?).context("reading `cargo metadata`")
}

/// The third-party packages.
fn foreign(metadata: &Value) -> anyhow::Result<Vec<Package>> {
    let packages = metadata["packages"].as_array().context("no packages in `cargo metadata`")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut foreign: Vec<Package> = packages
        .iter()
        .filter(|package| !package["source"].is_null())
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
        })
        .collect();
    foreign.sort();
    Ok(foreign)
}

#[cfg(test)]
pub(crate) fn package(name: &str, version: &str, licence: &str) -> Package {
    Package { name: name.into(), version: version.into(), licence: licence.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding D: the current tree passes. A dependency with another licence or a second version
    /// fails here.
    #[test]
    fn dependencies_of_the_tree_pass_the_audit() {
        let packages = foreign(&metadata(&shell::root(), &[]).unwrap()).unwrap();
        assert!(packages.len() > 100, "{}", packages.len());
        licences::check(&packages).unwrap();
        duplicates::check(&packages).unwrap();
        advisories::check(&shell::root(), &packages).unwrap();
    }
}
