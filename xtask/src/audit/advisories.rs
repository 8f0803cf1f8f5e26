//! Known vulnerabilities, from a copy of RustSec's database that is kept in the repository.
//!
//! The copy holds, for every advisory, what is needed to judge a version, and none of its text.
//! `refresh` copies the whole database. A copy may also cover only the packages that it lists
//! (`packages`); the check names those of `Cargo.lock` that it does not cover. Not here: network
//! access; the check reads the copy and prints its date.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::Package;
use crate::shell;

const COPY: &str = "xtask/advisories.json";
const SOURCE: &str = "https://github.com/rustsec/advisory-db";

/// Advisories that do not affect us, each with the reason.
const IGNORED: &[(&str, &str)] = &[];

pub(super) fn check(root: &Path, packages: &[Package]) -> anyhow::Result<String> {
    let path = root.join(COPY);
    if !path.exists() {
        return Ok(format!("advisories: NOT CHECKED, there is no {COPY}; run `cargo xtask audit --refresh`"));
    }
    let text = fs::read_to_string(&path).with_context(|| format!("reading {COPY}"))?;
    judge(&serde_json::from_str(&text).with_context(|| format!("reading {COPY}"))?, packages, IGNORED)
}

fn judge(copy: &Value, packages: &[Package], ignored: &[(&str, &str)]) -> anyhow::Result<String> {
    let date = copy["date"].as_str().context("the copy does not say of which day it is")?;
    let advisories = copy["advisories"].as_array().context("the copy has no advisories")?;
    let mut found = Vec::new();
    for advisory in advisories {
        let id = advisory["id"].as_str().unwrap_or_default();
        if ignored.iter().any(|row| row.0 == id) {
            continue;
        }
        for package in packages.iter().filter(|package| advisory["package"] == package.name.as_str()) {
            if concerns(advisory, &package.version)? {
                let kind = advisory["informational"].as_str().unwrap_or("vulnerability");
                let (name, version) = (&package.name, &package.version);
                found.push(format!("  {name} {version}: {kind}, https://rustsec.org/advisories/{id}"));
            }
        }
    }
    if !found.is_empty() {
        bail!("advisories of {date} that concern us:\n{}", found.join("\n"));
    }
    let unknown = match copy["packages"].as_array() {
        Some(covered) => not_covered(covered, packages),
        None => String::new(),
    };
    Ok(format!("advisories: none of {} concerns us; the copy is of {date}{unknown}", advisories.len()))
}

/// Names the packages that a partial copy does not cover.
fn not_covered(covered: &[Value], packages: &[Package]) -> String {
    let missing =
        packages.iter().filter(|package| !covered.iter().any(|name| *name == package.name.as_str()));
    let missing: Vec<&str> = missing.map(|package| package.name.as_str()).collect();
    if missing.is_empty() {
        return String::new();
    }
    format!("\nadvisories: NOT CHECKED for {}; run `cargo xtask audit --refresh`", missing.join(", "))
}

/// A version is affected unless it is patched or was never affected.
fn concerns(advisory: &Value, version: &str) -> anyhow::Result<bool> {
    let version = semver::Version::parse(version).with_context(|| format!("the version {version:?}"))?;
    for list in ["patched", "unaffected"] {
        for raw in advisory[list].as_array().into_iter().flatten() {
            let raw = raw.as_str().unwrap_or_default();
            let range =
                semver::VersionReq::parse(raw).with_context(|| format!("{}: {raw:?}", advisory["id"]))?;
            if range.matches(&version) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Fetches the database with git and writes the copy.
pub(super) fn refresh(root: &Path) -> anyhow::Result<()> {
    let folder = root.join("target/advisory-db");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    let path = folder.to_str().context("the path of the tree is not UTF-8")?;
    shell::show(root, &["git", "clone", "--quiet", "--depth", "1", SOURCE, path], &[])?;
    let date = shell::read(&folder, &["git", "log", "-1", "--format=%cs"])?;
    let commit = shell::read(&folder, &["git", "log", "-1", "--format=%H"])?;
    let copy = copy_of(&folder.join("crates"), date.trim(), commit.trim())?;
    fs::write(root.join(COPY), copy).with_context(|| format!("writing {COPY}"))
}

/// All advisories below a folder, one per line.
fn copy_of(crates: &Path, date: &str, commit: &str) -> anyhow::Result<String> {
    let mut advisories = Vec::new();
    for package in fs::read_dir(crates).with_context(|| format!("reading {}", crates.display()))? {
        for file in fs::read_dir(package?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path)?;
                advisories.extend(reduced(&text).with_context(|| format!("reading {}", path.display()))?);
            }
        }
    }
    advisories.sort_by_key(|advisory| advisory["id"].to_string());
    let lines: Vec<String> = advisories.iter().map(ToString::to_string).collect();
    Ok(format!(
        "{{\n\"source\": {},\n\"commit\": {},\n\"date\": {},\n\"advisories\": [\n{}\n]\n}}\n",
        json!(SOURCE),
        json!(commit),
        json!(date),
        lines.join(",\n")
    ))
}

/// Keeps what is needed of an advisory, which is fenced TOML followed by text. None if it was
/// withdrawn.
fn reduced(text: &str) -> anyhow::Result<Option<Value>> {
    let rest = text.trim_start().strip_prefix("```toml").context("it does not begin with TOML")?;
    let (toml, _) = rest.split_once("```").context("its TOML does not end")?;
    let toml: toml_edit::DocumentMut = toml.parse().context("its TOML cannot be read")?;
    let advisory = &toml["advisory"];
    if advisory.get("withdrawn").is_some() {
        return Ok(None);
    }
    let field = |name: &str| advisory.get(name).and_then(|value| value.as_str());
    let ranges = |name: &str| {
        let list = toml.get("versions").and_then(|versions| versions.get(name)?.as_array());
        list.into_iter().flatten().filter_map(|range| range.as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    Ok(Some(json!({
        "id": field("id").context("it has no id")?,
        "package": field("package").context("it names no package")?,
        "informational": field("informational"),
        "patched": ranges("patched"),
        "unaffected": ranges("unaffected"),
    })))
}

#[cfg(test)]
mod tests {
    use super::super::package;
    use super::*;

    const EXAMPLE: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2001-0001\"\npackage = \"example\"\n\
        date = \"2001-01-01\"\n\n[versions]\npatched = [\">= 1.2.3\"]\nunaffected = [\"< 1.0.0\"]\n```\n\n\
        # It forgets\n\nWords.\n";

    #[test]
    fn advisory_is_reduced_to_what_judges_a_version() {
        let advisory = reduced(EXAMPLE).unwrap().unwrap();
        for (version, affected) in [("0.9.9", false), ("1.0.0", true), ("1.2.2", true), ("1.2.3", false)] {
            assert_eq!(concerns(&advisory, version).unwrap(), affected, "{version}");
        }
        let withdrawn = EXAMPLE.replace("date =", "withdrawn = \"2001-02-01\"\ndate =");
        assert_eq!(reduced(&withdrawn).unwrap(), None);
        assert!(reduced("words").is_err());
    }

    #[test]
    fn affected_package_is_named_with_the_day_of_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("example")).unwrap();
        fs::write(folder.path().join("example/RUSTSEC-2001-0001.md"), EXAMPLE).unwrap();
        let copy = copy_of(folder.path(), "2001-03-01", "abc").unwrap();
        let copy: Value = serde_json::from_str(&copy).unwrap();
        let bad = [package("example", "1.1.0", "MIT"), package("other", "1.1.0", "MIT")];
        let said = judge(&copy, &bad, &[]).unwrap_err().to_string();
        assert!(said.contains("2001-03-01"), "{said}");
        assert!(
            said.contains("example 1.1.0: vulnerability, https://rustsec.org/advisories/RUSTSEC-2001-0001")
        );
        assert!(judge(&copy, &bad, &[("RUSTSEC-2001-0001", "not used")]).is_ok());
        let said = judge(&copy, &[package("example", "1.3.0", "MIT")], &[]).unwrap();
        assert!(said.ends_with("the copy is of 2001-03-01"), "{said}");
    }

    #[test]
    fn packages_that_the_copy_does_not_cover_are_named() {
        let copy = json!({ "date": "2001-03-01", "packages": ["example"], "advisories": [] });
        let packages = [package("example", "1.0.0", "MIT"), package("fresh", "1.0.0", "MIT")];
        let said = judge(&copy, &packages, &[]).unwrap();
        assert!(said.contains("NOT CHECKED for fresh;"), "{said}");
        assert!(!judge(&copy, &packages[..1], &[]).unwrap().contains("NOT CHECKED"));
    }

    #[test]
    fn missing_copy_is_said_and_nothing_is_claimed() {
        let root = tempfile::tempdir().unwrap();
        assert!(check(root.path(), &[]).unwrap().contains("NOT CHECKED"));
    }
}
