//! The rules of this repository, checked by machine.
//!
//! Each rule is a function from a file to its violations, so a test can show that it fails without
//! touching a real file. `run` collects all violations before it prints any. The tests at the end
//! check the real repository against the same rules.
//!
//! Two marks lift a rule where they stand: `// tidy: table` (a file or function that is one long
//! list may be as long as the list) and `// tidy: wait` (the polling helper of the tests may
//! sleep).

mod arrows;
mod docs;
mod mask;
mod purity;
mod shape;
mod source;
pub(crate) mod tree;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::bail;

use self::source::Source;
use self::tree::Tree;

/// A violation of a rule, and how to fix it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A rule about one Rust file.
type Rule = fn(&Source<'_>) -> Vec<Violation>;

const RULES: &[Rule] = &[
    shape::opens_with_a_head,
    shape::file_fits,
    shape::door_fits,
    shape::functions_fit,
    shape::is_no_mod_rs,
    purity::touches_nothing,
    words::leaves_nothing_unfinished,
    words::runs_every_test,
    words::sleeps_in_no_test,
];

/// Checks everything under `root` against every rule and prints all violations.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::read(root)?;
    let mut found = files(&tree);
    found.extend(docs::links(&tree));
    found.extend(arrows::between_crates(root)?);
    found.extend(arrows::below_pure_crates(root)?);
    found.sort();
    for violation in &found {
        println!("{violation}");
    }
    if !found.is_empty() {
        bail!("tidy: to mend: {}", found.len());
    }
    println!("tidy: {} files in order", tree.paths().count());
    Ok(())
}

/// The rules that look at one file at a time.
fn files(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.texts() {
        found.extend(words::names_no_machine(path, text));
        if path.ends_with(".rs") {
            let source = Source::new(path, text);
            found.extend(RULES.iter().flat_map(|rule| rule(&source)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    #[track_caller]
    fn none(found: Vec<Violation>) {
        let lines: Vec<String> = found.iter().map(Violation::to_string).collect();
        assert!(lines.is_empty(), "to mend: {}\n{}", lines.len(), lines.join("\n"));
    }

    #[test]
    fn every_file_of_the_tree_keeps_the_rules() {
        none(files(&Tree::read(&shell::root()).unwrap()));
    }

    #[test]
    fn every_link_of_the_tree_leads_somewhere() {
        none(docs::links(&Tree::read(&shell::root()).unwrap()));
    }

    #[test]
    fn every_arrow_between_crates_is_allowed() {
        none(arrows::between_crates(&shell::root()).unwrap());
    }

    #[test]
    fn nothing_impure_stands_below_a_pure_crate() {
        none(arrows::below_pure_crates(&shell::root()).unwrap());
    }

    #[test]
    fn a_violation_reads_like_a_compiler_error() {
        let violation = Violation::new("a/b.rs", 7, "too long: split it");
        assert_eq!(violation.to_string(), "a/b.rs:7: too long: split it");
    }
}
