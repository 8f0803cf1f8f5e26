//! The pure crates do no I/O: no clock, no environment, no disk, no socket, no process, no thread.
//!
//! Their tests may. This module checks the source text, `arrows` checks the dependencies, and
//! clippy checks the calls.

use super::Violation;
use super::source::{Source, is_word, words};

const PURE: &[&str] = &["crates/core/src/", "crates/dialects/src/"];

/// Modules of `std` that a pure crate must not use, and what to do instead.
const MODULES: &[(&str, &str)] = &[
    ("env", "take the setting as an argument"),
    ("fs", "leave the disk to `store`"),
    ("net", "leave sockets to `node` and `peer`; plain addresses are in `core::net`"),
    ("process", "leave processes to `holder`"),
    ("thread", "leave threads to whoever drives this code"),
];
const CLOCK: &str = "take the time as an argument";

pub(super) fn touches_nothing(file: &Source<'_>) -> Vec<Violation> {
    if !PURE.iter().any(|room| file.path.starts_with(room)) {
        return vec![];
    }
    let mut found = Vec::new();
    let mut add = |at: usize, what: String| {
        let line = file.line_of(at);
        if !file.is_test(line) {
            found.push(Violation::new(file.path, line, what));
        }
    };
    for at in words(&file.code, "std") {
        for path in used_paths(&file.code[at + 3..]) {
            for (module, instead) in MODULES {
                if path == *module || path.starts_with(&format!("{module}::")) {
                    add(at, format!("`std::{module}` in a pure crate: {instead}"));
                }
            }
            if path == "time::Instant" || path.starts_with("time::Instant::") {
                add(at, format!("`std::time::Instant` in a pure crate: {CLOCK}"));
            }
        }
    }
    for at in words(&file.code, "SystemTime") {
        add(at, format!("`SystemTime` in a pure crate: {CLOCK}"));
    }
    for at in words(&file.code, "Instant").filter(|at| file.code[*at..].starts_with("Instant::now")) {
        add(at, format!("`Instant::now` in a pure crate: {CLOCK}"));
    }
    found.dedup();
    found
}

/// The paths after `std`, spelled out: `::{a, b::{c, d}}` gives `a`, `b::c` and `b::d`.
fn used_paths(after: &str) -> Vec<String> {
    let mut depth = 0;
    let end = after.find(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth <= 0 && c != ':' && !is_word(c)
    });
    let tree = &after[..end.unwrap_or(after.len())];
    let paths = spelled_out(tree.trim_start_matches("::"));
    paths.iter().map(|path| path.trim_start_matches("::").to_owned()).collect()
}

/// Spells out a tree of imports, which `used_paths` gives without its last brace.
fn spelled_out(tree: &str) -> Vec<String> {
    let Some((prefix, group)) = tree.split_once('{') else {
        // `a as b` is still a use of `a`.
        return vec![tree.split_whitespace().next().unwrap_or_default().to_owned()];
    };
    let mut depth = 0;
    let parts = group.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    let spell = |part: &str| spelled_out(part.trim().trim_end_matches('}'));
    parts.flat_map(spell).map(|path| format!("{}{path}", prefix.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let found = touches_nothing(&Source::new("crates/core/src/hub.rs", text));
        let found: Vec<_> = found.iter().map(|v| (v.line, v.what.split('`').nth(1).unwrap())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn each_way_to_the_world_is_seen() {
        check("use std::time::Instant;\n", &[(1, "std::time::Instant")]);
        check("use std::time::{Duration, Instant};\n", &[(1, "std::time::Instant")]);
        check("fn f() {\n  SystemTime::now();\n}\n", &[(2, "SystemTime")]);
        check("fn f(now: Instant) { Instant::now() }\n", &[(1, "Instant::now")]);
        check("fn f() { std::env::var(x) }\n", &[(1, "std::env")]);
        check("use std::fs;\n", &[(1, "std::fs")]);
        check("use std::net::TcpStream;\n", &[(1, "std::net")]);
        check("use std::process::Command;\n", &[(1, "std::process")]);
        check("use std::thread::spawn;\n", &[(1, "std::thread")]);
    }

    #[test]
    fn a_group_hides_nothing() {
        check("use std::{fmt, fs};\n", &[(1, "std::fs")]);
        check(
            "use std::{\n  collections::{BTreeMap, BTreeSet},\n  env,\n  net::{self, IpAddr},\n};\n",
            &[(1, "std::env"), (1, "std::net")],
        );
        check("use std::{fmt, time::{Duration, Instant}};\n", &[(1, "std::time::Instant")]);
        check("use std::{fs as disk, fmt::{self, Write as _}};\n", &[(1, "std::fs")]);
    }

    #[test]
    fn what_only_sounds_like_it_is_fine() {
        check("use std::fmt;\nuse std::time::Duration;\nuse core::net::IpAddr;\n", &[]);
        check("// std::fs is not for us\nfn f() { \"std::env\" }\n", &[]);
        check("use std::{fmt, collections::BTreeMap};\nfn envelope(fs: Fs) {}\n", &[]);
    }

    #[test]
    fn tests_and_other_crates_may() {
        check("#[cfg(test)]\nmod tests {\n  use std::fs;\n}\n", &[]);
        assert_eq!(touches_nothing(&Source::new("crates/node/src/a.rs", "use std::fs;")), []);
        assert_eq!(touches_nothing(&Source::new("crates/core/tests/a.rs", "use std::fs;")), []);
        assert_eq!(touches_nothing(&Source::new("crates/dialects/src/a.rs", "use std::fs;")).len(), 1);
    }
}
