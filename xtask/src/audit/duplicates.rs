//! Packages with more than one version in `Cargo.lock`, each with the reason why that is accepted.

use std::collections::BTreeMap;

use anyhow::bail;

use super::Package;

/// Name, number of versions, and which dependency keeps the older ones.
const KNOWN: &[(&str, usize, &str)] = &[
    ("base64", 2, "pem, of rcgen, is at 0.23; tonic, pbjson and we are at 0.22"),
    ("bitflags", 2, "defmt, an optional part of jiff that is never compiled, is at 1"),
    ("const-oid", 2, "der, of x509-cert, is at 0.9; digest is at 0.10"),
    ("foldhash", 2, "as hashbrown"),
    ("getrandom", 3, "ring is at 0.2, bolero (tests) at 0.3"),
    ("hashbrown", 2, "petgraph, of prost-build, by which pbjson-types is built, is at 0.15"),
    ("r-efi", 2, "as getrandom; never compiled for our systems"),
    ("rand", 2, "bolero (tests) is at 0.9"),
    ("rand_core", 2, "as rand"),
    ("syn", 2, "many macros have not moved from 2 to 3"),
    ("toml_datetime", 2, "as toml_edit"),
    ("toml_edit", 2, "proc-macro-crate, of bolero (tests), is at 0.20"),
    ("windows-sys", 3, "never compiled for our systems"),
    ("winnow", 2, "as toml_edit"),
];

pub(super) fn check(packages: &[Package]) -> anyhow::Result<String> {
    judge(packages, KNOWN)
}

fn judge(packages: &[Package], known: &[(&str, usize, &str)]) -> anyhow::Result<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut wrong = Vec::new();
    for (name, versions) in &versions {
        let listed = known.iter().find(|row| row.0 == *name).map(|row| row.1);
        if listed != Some(versions.len()) {
            wrong.push(format!(
                "  {name}: {} (`cargo tree -i {name}@…` shows who wants it)",
                versions.join(", ")
            ));
        }
    }
    for (name, ..) in known.iter().filter(|row| !versions.contains_key(row.0)) {
        wrong.push(format!("  {name}: no longer a duplicate, take it off the list"));
    }
    if !wrong.is_empty() {
        bail!("duplicates that differ from the list in xtask/src/audit/duplicates.rs:\n{}", wrong.join("\n"));
    }
    Ok(format!("duplicates: {} packages in more than one version, all known", versions.len()))
}

#[cfg(test)]
mod tests {
    use super::super::package;
    use super::*;

    #[test]
    fn new_duplicate_is_named() {
        let packages = ["1.0.0", "2.0.0"].map(|version| package("twice", version, "MIT"));
        let said = judge(&packages, &[]).unwrap_err().to_string();
        assert!(said.contains("twice: 1.0.0, 2.0.0"), "{said}");
        assert!(judge(&packages, &[("twice", 2, "because")]).is_ok());
        assert!(judge(&packages, &[("twice", 3, "because")]).is_err());
        let said = judge(&packages[..1], &[("twice", 2, "because")]).unwrap_err().to_string();
        assert!(said.contains("no longer a duplicate"), "{said}");
    }
}
