//! The licences of everything that is linked into the binary: most of them ask that their text goes
//! with it.
//!
//! The texts come from the sources that cargo has fetched. Packages with the same texts share one
//! entry. A package without a text is named with the expression in its manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::target::TARGETS;
use crate::{audit, sbom};

pub(super) const FILE: &str = "THIRD-PARTY-NOTICES.txt";

const HEAD: &str = "This file is part of Synapse. Its binary contains the following works of others,
each under its own licence.
";

/// What comes with the Rust compiler, and so is in no manifest.
const COMPILER: &str = "The standard library of Rust, https://www.rust-lang.org (MIT OR Apache-2.0)
musl, https://musl.libc.org (MIT)
    Copyright © 2005-2020 Rich Felker, et al.
";

/// How the names of the files begin that hold a licence, in lower case.
const NAMES: &[&str] = &["licen", "copy", "notice", "unlicense"];

/// The notices for all targets.
pub(super) fn gather(root: &Path) -> anyhow::Result<String> {
    let mut packages = BTreeMap::new();
    for target in TARGETS {
        let metadata = audit::metadata(root, &["--filter-platform", target.triple])?;
        for (package, _) in sbom::linked(&metadata, "synapse")? {
            // Those without a source are ours.
            if !package["source"].is_null() {
                packages.insert(title(package), licences(package)?);
            }
        }
    }
    Ok(written(&packages))
}

/// `serde 1.0.2 (MIT OR Apache-2.0)`.
fn title(package: &Value) -> String {
    let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let licence = text("license").replace('/', " OR ");
    let licence: Vec<&str> = licence.split_whitespace().collect();
    format!("{} {} ({})", text("name"), text("version"), licence.join(" "))
}

/// The texts in the folder of a package.
fn licences(package: &Value) -> anyhow::Result<BTreeSet<String>> {
    let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
    let folder = Path::new(manifest).parent().context("a manifest has a folder")?;
    let mut texts = BTreeSet::new();
    for file in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let file = file?;
        let name = file.file_name().to_string_lossy().to_lowercase();
        if file.file_type()?.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            let text = fs::read(file.path()).with_context(|| format!("reading {}", file.path().display()))?;
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            texts.insert(text.trim().to_owned());
        }
    }
    Ok(texts)
}

fn written(packages: &BTreeMap<String, BTreeSet<String>>) -> String {
    // Each text once, below all that it belongs to.
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (title, texts) in packages {
        for text in texts {
            owners.entry(text).or_default().push(title);
        }
    }
    let mut parts: Vec<(Vec<&str>, &str)> = owners.into_iter().map(|(text, titles)| (titles, text)).collect();
    parts.sort();
    let bare: Vec<&str> =
        packages.iter().filter(|(_, texts)| texts.is_empty()).map(|(title, _)| title.as_str()).collect();
    let line = "-".repeat(80);
    let mut file = format!("{HEAD}\n{line}\n{COMPILER}{}\n", bare.join("\n"));
    for (titles, text) in parts {
        file.push_str(&format!("{line}\n{}\n\n{text}\n", titles.join("\n")));
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    #[test]
    fn a_text_is_written_once_below_its_packages() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let packages = BTreeMap::from([
            ("one 1.0.0 (MIT)".to_owned(), texts(&["the MIT text"])),
            ("two 2.0.0 (MIT OR ISC)".to_owned(), texts(&["the ISC text", "the MIT text"])),
            ("bare 0.1.0 (MIT)".to_owned(), texts(&[])),
        ]);
        let file = written(&packages);
        assert_eq!(file.matches("the MIT text").count(), 1);
        assert!(file.contains("\none 1.0.0 (MIT)\ntwo 2.0.0 (MIT OR ISC)\n\nthe MIT text\n"), "{file}");
        assert!(file.contains("\ntwo 2.0.0 (MIT OR ISC)\n\nthe ISC text\n"), "{file}");
        assert!(file.contains("\nbare 0.1.0 (MIT)\n"), "{file}");
    }

    #[test]
    fn notices_name_what_is_linked_and_nothing_of_ours() {
        let file = gather(&shell::root()).unwrap();
        assert!(file.contains("\nring 0.") && file.contains("\nrusqlite 0."), "{}", file.len());
        assert!(!file.contains("\nbolero "), "tests are not in the binary");
        assert!(!file.contains("\nsynapse-core "), "our own licence is in LICENSE");
    }
}
