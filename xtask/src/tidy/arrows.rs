//! Which crate may depend on which, and what the pure crates may never depend on, directly or not.
//!
//! Dependencies for tests are free: a crate may test itself with anything.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::Violation;
use crate::shell;

/// A crate, and the crates it may depend on. A new crate needs a row here.
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("dialects", &["core"]),
    ("a2a-v1", &[]),
    ("a2a-v03", &[]),
    ("a2a", &["a2a-v1", "a2a-v03", "core", "dialects"]),
    ("store", &["core"]),
    ("holder", &[]),
    ("tls", &[]),
    ("peer", &["a2a", "core", "dialects", "store", "tls"]),
    ("settings", &["core"]),
    ("terminal", &["core"]),
    ("mcp", &["dialects"]),
    ("node", &["a2a", "core", "dialects", "store", "holder", "peer", "settings", "terminal", "tls"]),
    (
        "synapse",
        &["core", "dialects", "store", "holder", "peer", "mcp", "node", "settings", "terminal", "tls"],
    ),
    ("testkit", &["core", "dialects", "store", "holder", "peer", "node", "settings", "synapse", "terminal"]),
    ("xtask", &["core", "holder", "store", "terminal", "testkit", "tls"]),
];

/// Crates that decide and do no I/O.
const PURE: &[&str] = &["core", "dialects"];
/// Crates that do I/O: sockets, disks, clocks, randomness.
const IMPURE: &[&str] = &["tokio", "axum", "hyper", "rusqlite", "rustix", "getrandom"];

/// Dependencies between our crates that are not in the table.
pub(super) fn between_crates(root: &Path) -> anyhow::Result<Vec<Violation>> {
    let metadata =
        shell::read(root, &["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"])?;
    let metadata: Value = serde_json::from_str(&metadata).context("reading `cargo metadata`")?;
    let line_of = |manifest: &str, dependency: &str| {
        let text = fs::read_to_string(root.join(manifest)).unwrap_or_default();
        1 + text.lines().position(|line| line.starts_with(dependency)).unwrap_or_default()
    };
    Ok(forbidden_arrows(&metadata, line_of))
}

/// I/O crates among the dependencies of the pure crates.
pub(super) fn below_pure_crates(root: &Path) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for room in PURE {
        let package = package_of(room);
        let tree = ["cargo", "tree", "-p", &package, "-e", "normal", "--prefix", "none", "--locked"];
        found.extend(impure_crates(room, &shell::read(root, &tree)?));
    }
    Ok(found)
}

fn forbidden_arrows(metadata: &Value, line_of: impl Fn(&str, &str) -> usize) -> Vec<Violation> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let room = manifest.trim_end_matches("/Cargo.toml").trim_start_matches("crates/");
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == room) else {
            let what =
                format!("`{room}` is no room yet: say in xtask/src/tidy/arrows.rs what it may stand on");
            found.push(Violation::new(manifest, 1, what));
            continue;
        };
        if name != package_of(room) {
            let what = format!("package `{name}` in folder `{room}`: call it `{}`", package_of(room));
            found.push(Violation::new(manifest, line_of(manifest, "name"), what));
        }
        let for_tests = |dependency: &&Value| dependency["kind"] == "dev";
        for dependency in list(&package["dependencies"]).iter().filter(|dependency| !for_tests(dependency)) {
            let below = dependency["name"].as_str().unwrap_or_default();
            let Some((on, _)) = ARROWS.iter().find(|(known, _)| package_of(known) == below) else { continue };
            if !allowed.contains(on) {
                let what = format!("`{room}` may not stand on `{on}`: {}", allowed_in_words(allowed));
                found.push(Violation::new(manifest, line_of(manifest, below), what));
            }
        }
    }
    found
}

fn impure_crates(room: &str, tree: &str) -> Vec<Violation> {
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    let impure = names.into_iter().filter(|name| IMPURE.contains(name));
    let tell = |name| {
        let package = package_of(room);
        let what = format!(
            "`{name}` stands below `{room}`, which is pure: `cargo tree -p {package} -e normal -i {name}` shows how it got there"
        );
        Violation::new(&format!("crates/{room}/Cargo.toml"), 1, what)
    };
    impure.map(tell).collect()
}

fn package_of(room: &str) -> String {
    if ["synapse", "xtask"].contains(&room) { room.to_owned() } else { format!("synapse-{room}") }
}

fn allowed_in_words(allowed: &[&str]) -> String {
    if allowed.is_empty() {
        "it stands on none of ours".to_owned()
    } else {
        format!("only on {}", allowed.join(", "))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Checks one crate in `folder` called `name`, whose dependencies each have a kind.
    #[track_caller]
    fn check(folder: &str, name: &str, dependencies: &[(&str, Option<&str>)], expected: &[&str]) {
        let dependencies: Vec<Value> =
            dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
        let metadata = json!({
            "workspace_root": "/here",
            "packages": [{
                "name": name,
                "manifest_path": format!("/here/{folder}/Cargo.toml"),
                "dependencies": dependencies,
            }],
        });
        let found = forbidden_arrows(&metadata, |_, _| 9);
        let found: Vec<String> = found.iter().map(Violation::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn an_arrow_against_the_grain_is_seen() {
        check("crates/core", "synapse-core", &[("serde", None)], &[]);
        check(
            "crates/core",
            "synapse-core",
            &[("synapse-store", None)],
            &["crates/core/Cargo.toml:9: `core` may not stand on `store`: it stands on none of ours"],
        );
        check(
            "crates/store",
            "synapse-store",
            &[("synapse-core", None), ("synapse-dialects", None)],
            &["crates/store/Cargo.toml:9: `store` may not stand on `dialects`: only on core"],
        );
        check(
            "crates/node",
            "synapse-node",
            &[("synapse", Some("build"))],
            &["crates/node/Cargo.toml:9: `node` may not"],
        );
        check(
            "crates/synapse",
            "synapse",
            &[("synapse-testkit", None)],
            &["crates/synapse/Cargo.toml:9: `synapse` may not"],
        );
        check(
            "xtask",
            "xtask",
            &[("synapse-core", None), ("synapse-node", None)],
            &["xtask/Cargo.toml:9: `xtask` may not"],
        );
    }

    #[test]
    fn tests_stand_on_what_they_like() {
        check("crates/core", "synapse-core", &[("synapse-testkit", Some("dev"))], &[]);
        check("crates/testkit", "synapse-testkit", &[("synapse-node", None)], &[]);
    }

    #[test]
    fn a_crate_has_a_room_and_its_name() {
        check("crates/attic", "synapse-attic", &[], &["crates/attic/Cargo.toml:1: `attic` is no room yet"]);
        check("crates/core", "core", &[], &["crates/core/Cargo.toml:9: package `core` in folder `core`"]);
    }

    #[test]
    fn what_touches_the_world_is_seen_below_the_pure() {
        let tree = "synapse-core v0.1.0 (crates/core)\nserde v1.0.0\nuuid v1.0.0\n";
        assert_eq!(impure_crates("core", tree), []);
        let found =
            impure_crates("core", &format!("{tree}tokio v1.0.0\ntokio v1.0.0 (*)\ngetrandom v0.4.0\n"));
        assert_eq!(found.len(), 2);
        assert!(found[1].to_string().starts_with("crates/core/Cargo.toml:1: `tokio` stands below `core`"));
    }

    #[test]
    fn the_table_has_no_circle() {
        for (index, (room, below)) in ARROWS.iter().enumerate().filter(|(_, (room, _))| *room != "xtask") {
            let earlier: Vec<_> = ARROWS[..index].iter().map(|(room, _)| *room).collect();
            assert!(below.iter().all(|on| earlier.contains(on)), "{room} stands on a later room");
        }
    }
}
