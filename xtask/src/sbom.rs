//! The software bill of materials as CycloneDX 1.6: every package that is linked into `synapse`,
//! with its version, licence, checksum and dependents.
//!
//! Sources are `cargo metadata` for one system and the checksums in `Cargo.lock`. Not included:
//! packages that only build or test the binary.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::{Value, json};

/// Builds the bill of a package from the output of `cargo metadata` and the text of `Cargo.lock`.
pub(crate) fn of(metadata: &Value, lock: &str, package: &str) -> anyhow::Result<Value> {
    let sums = checksums(lock);
    let linked = linked(metadata, package)?;
    let (mut root, mut components, mut dependencies) = (Value::Null, Vec::new(), Vec::new());
    for (own, needs) in &linked {
        let refs: Vec<String> = needs.iter().map(|needed| purl(needed)).collect();
        dependencies.push(json!({ "ref": purl(own), "dependsOn": refs }));
        if own["name"] == package {
            root = component(own, "application", &sums);
        } else {
            components.push(component(own, "library", &sums));
        }
    }
    dependencies.sort_by_key(|entry| entry["ref"].to_string());
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": root },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The package and all that is linked into it, each with what it needs, sorted by id.
pub(crate) fn linked<'a>(
    metadata: &'a Value,
    package: &str,
) -> anyhow::Result<Vec<(&'a Value, Vec<&'a Value>)>> {
    let packages = by_id(&metadata["packages"], "id").context("no packages in `cargo metadata`")?;
    let nodes = by_id(&metadata["resolve"]["nodes"], "id").context("nothing resolved in `cargo metadata`")?;
    let root = packages.iter().find(|(_, found)| found["name"] == package).map(|(id, _)| *id);
    let mut ahead = vec![root.with_context(|| format!("no package called {package}"))?];
    let mut linked = BTreeMap::new();
    while let Some(id) = ahead.pop() {
        if linked.contains_key(id) {
            continue;
        }
        let mut needs = linked_deps(nodes.get(id).with_context(|| format!("{id} is not resolved"))?);
        needs.retain(|id| packages.get(id).is_some_and(|found| !is_macro(found)));
        let found = needs.iter().filter_map(|id| packages.get(id)).copied().collect();
        linked.insert(id, (packages[id], found));
        ahead.extend(needs);
    }
    Ok(linked.into_values().collect())
}

fn by_id<'a>(list: &'a Value, key: &str) -> Option<BTreeMap<&'a str, &'a Value>> {
    Some(list.as_array()?.iter().filter_map(|entry| Some((entry[key].as_str()?, entry))).collect())
}

/// Whether this is a proc macro, which runs only during compilation.
fn is_macro(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    targets.filter_map(|target| target["kind"].as_array()).flatten().any(|kind| kind == "proc-macro")
}

/// The packages that a package links: not those of its build script or its tests.
fn linked_deps(node: &Value) -> Vec<&str> {
    let is_linked = |dep: &&Value| {
        dep["dep_kinds"].as_array().is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let deps = node["deps"].as_array().into_iter().flatten();
    deps.filter(is_linked).filter_map(|dep| dep["pkg"].as_str()).collect()
}

fn purl(package: &Value) -> String {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    // A package URL encodes `+` as `%2B`.
    format!("pkg:cargo/{}@{}", text("name"), text("version").replace('+', "%2B"))
}

fn component(package: &Value, kind: &str, sums: &BTreeMap<(String, String), String>) -> Value {
    let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": text("name"),
        "version": text("version"),
        "purl": purl(package),
    });
    let licence = text("license").replace('/', " OR ");
    if !licence.is_empty() {
        let words: Vec<&str> = licence.split_whitespace().collect();
        component["licenses"] = json!([{ "expression": words.join(" ") }]);
    }
    if let Some(sum) = sums.get(&(text("name"), text("version"))) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

/// Maps name and version to the checksum in `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut sums = BTreeMap::new();
    for entry in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
            line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) = (field("name"), field("version"), field("checksum")) {
            sums.insert((name, version), sum);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{audit, shell};
    use std::collections::BTreeSet;

    /// Checks what the schema of CycloneDX 1.6 requires of the parts that we write.
    fn check(bom: &Value) {
        assert_eq!((&bom["bomFormat"], &bom["specVersion"]), (&json!("CycloneDX"), &json!("1.6")));
        assert!(bom["version"].as_u64().is_some_and(|version| version >= 1));
        let mut refs = BTreeSet::new();
        let components = bom["components"].as_array().unwrap().iter();
        for component in components.chain([&bom["metadata"]["component"]]) {
            assert!(["library", "application"].contains(&component["type"].as_str().unwrap()), "{component}");
            assert!(component["name"].as_str().is_some_and(|name| !name.is_empty()), "{component}");
            assert!(component["purl"].as_str().unwrap().starts_with("pkg:cargo/"), "{component}");
            assert!(refs.insert(component["bom-ref"].as_str().unwrap()), "twice: {component}");
            assert!(component["licenses"][0]["expression"].is_string(), "{component}");
            for hash in component["hashes"].as_array().into_iter().flatten() {
                let sum = hash["content"].as_str().unwrap();
                assert!(hash["alg"] == "SHA-256" && sum.len() == 64, "{component}");
                assert!(sum.bytes().all(|digit| digit.is_ascii_hexdigit()), "{component}");
            }
        }
        let mut told = BTreeSet::new();
        for entry in bom["dependencies"].as_array().unwrap() {
            assert!(told.insert(entry["ref"].as_str().unwrap()), "twice: {entry}");
            for needed in entry["dependsOn"].as_array().unwrap() {
                assert!(refs.contains(needed.as_str().unwrap()), "{needed} is not a component");
            }
        }
        assert_eq!(refs, told);
    }

    #[test]
    fn bill_names_what_is_linked_and_nothing_else() {
        let deps = |list: &[(&str, Option<&str>)]| -> Vec<Value> {
            list.iter().map(|(pkg, kind)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] })).collect()
        };
        let package =
            |id: &str| json!({ "id": id, "name": id, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let packages = ["app", "used", "deep", "builder", "tester"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "app", "deps": deps(&[("used", None), ("builder", Some("build")), ("tester", Some("dev"))]) },
                { "id": "used", "deps": deps(&[("deep", None)]) },
                { "id": "deep", "deps": [] },
                { "id": "builder", "deps": [] },
                { "id": "tester", "deps": [] },
            ]},
        });
        let sum = "ab".repeat(32);
        let lock = format!("[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"{sum}\"\n");
        let bom = of(&metadata, &lock, "app").unwrap();
        check(&bom);
        let names: Vec<&Value> = bom["components"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["deep", "used"]);
        assert_eq!(bom["components"][1]["hashes"][0]["content"], sum.as_str());
        assert_eq!(bom["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(of(&metadata, "", "absent").is_err());
    }

    /// Finding D: the bill of the real workspace has what the schema requires.
    #[test]
    fn bill_of_the_tree_is_valid() {
        let root = shell::root();
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
        let bom = of(&audit::metadata(&root, &[]).unwrap(), &lock, "synapse").unwrap();
        check(&bom);
        let text = bom.to_string();
        assert!(text.contains("pkg:cargo/rustls@") && !text.contains("pkg:cargo/bolero@"), "{text}");
        assert!(!text.contains(root.to_str().unwrap()), "no path of this machine is in it");
    }
}
