//! The shape of files and functions: a file head, size limits, no `mod.rs`.

use super::Violation;
use super::source::{Source, is_test_file};

const FILE_LINES_MAX: usize = 500;
const DOOR_LINES_MAX: usize = 250;
const FUNCTION_LINES_MAX: usize = 70;
/// The limit for a test of the whole program, which tells a story and may be a little longer.
const STORY_LINES_MAX: usize = 100;

const TABLE: &str = "// tidy: table";
const DOORS: &str = "crates/node/src/doors/";

pub(super) fn opens_with_a_head(file: &Source<'_>) -> Vec<Violation> {
    if file.text.starts_with("//!") {
        return vec![];
    }
    let what = "no head: open the file with `//!` and say what it is, what always holds, what is not in it";
    vec![Violation::new(file.path, 1, what)]
}

pub(super) fn is_no_mod_rs(file: &Source<'_>) -> Vec<Violation> {
    let Some(folder) = file.path.strip_suffix("/mod.rs") else { return vec![] };
    vec![Violation::new(file.path, 1, format!("a mod.rs: call it {folder}.rs"))]
}

pub(super) fn file_fits(file: &Source<'_>) -> Vec<Violation> {
    let lines = lines_before_tests(file);
    let is_table =
        file.text.lines().take_while(|line| line.starts_with("//")).any(|line| line.contains(TABLE));
    if lines <= FILE_LINES_MAX || is_table {
        return vec![];
    }
    let what = format!(
        "{lines} lines before the tests, at most {FILE_LINES_MAX}: give one of its ideas a file of its own"
    );
    vec![Violation::new(file.path, FILE_LINES_MAX + 1, what)]
}

/// A door must be short and cannot be marked as a table: its logic belongs elsewhere.
pub(super) fn door_fits(file: &Source<'_>) -> Vec<Violation> {
    let lines = lines_before_tests(file);
    if lines <= DOOR_LINES_MAX || !file.path.starts_with(DOORS) {
        return vec![];
    }
    let what = format!(
        "a door of {lines} lines, at most {DOOR_LINES_MAX}: move what it decides into the core, what it spells into its dialect"
    );
    vec![Violation::new(file.path, DOOR_LINES_MAX + 1, what)]
}

pub(super) fn functions_fit(file: &Source<'_>) -> Vec<Violation> {
    let is_story = file.path.split('/').any(|part| part == "tests");
    let most = if is_story { STORY_LINES_MAX } else { FUNCTION_LINES_MAX };
    let mut found = Vec::new();
    for function in file.functions() {
        let lines = function.last_line - function.first_line + 1;
        if lines > most && !is_marked_table(file, function.first_line) {
            let what = format!(
                "`{}` has {lines} lines, at most {most}: split it, or mark a mere list with `{TABLE}`",
                function.name
            );
            found.push(Violation::new(file.path, function.first_line, what));
        }
    }
    found
}

/// Whether the mark is on the first line, or above it among comments and attributes.
fn is_marked_table(file: &Source<'_>, first_line: usize) -> bool {
    let is_head = |line: &&str| line.starts_with("//") || line.starts_with("#[");
    let written: Vec<&str> = file.text.lines().take(first_line).map(str::trim).collect();
    let Some((own, above)) = written.split_last() else { return false };
    own.contains(TABLE) || above.iter().rev().copied().take_while(is_head).any(|line| line.contains(TABLE))
}

/// The number of lines outside tests. A file that consists of tests counts in full, unless it is in
/// `src`.
fn lines_before_tests(file: &Source<'_>) -> usize {
    let all_tests = is_test_file(file.path) && !file.path.contains("/src/");
    let in_testkit = file.path.starts_with("crates/testkit/");
    if all_tests || in_testkit { file.text.lines().count() } else { file.code_lines().count() }
}

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;

    #[track_caller]
    fn check(rule: Rule, path: &str, text: &str, expected: &[(usize, &str)]) {
        let found = rule(&Source::new(path, text));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (violation, (line, what)) in found.iter().zip(expected) {
            assert_eq!((violation.path.as_str(), violation.line), (path, *line));
            assert!(violation.what.contains(what), "{violation}");
        }
    }

    fn lines(count: usize) -> String {
        "x\n".repeat(count)
    }

    fn function(count: usize) -> String {
        format!("fn f() {{\n{}}}\n", lines(count - 2))
    }

    #[test]
    fn a_file_opens_with_its_head() {
        check(opens_with_a_head, "a.rs", "//! What it is.\n", &[]);
        check(opens_with_a_head, "a.rs", "use std::fmt;\n", &[(1, "no head")]);
        check(opens_with_a_head, "build.rs", "\n//! Late.\n", &[(1, "no head")]);
        check(opens_with_a_head, "crates/core/tests/a.rs", "", &[(1, "no head")]);
    }

    #[test]
    fn a_module_is_named_after_what_it_is() {
        check(is_no_mod_rs, "crates/core/src/hub/mod.rs", "", &[(1, "crates/core/src/hub.rs")]);
        check(is_no_mod_rs, "crates/core/src/hub.rs", "", &[]);
    }

    #[test]
    fn a_file_is_as_long_as_its_code_and_not_as_its_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines(900));
        check(file_fits, "crates/a/src/a.rs", &(lines(500) + &tests), &[]);
        check(file_fits, "crates/a/src/a.rs", &(lines(501) + &tests), &[(501, "501 lines before the tests")]);
        check(file_fits, "crates/a/src/a/tests.rs", &lines(900), &[]);
        check(file_fits, "crates/a/tests/a.rs", &lines(501), &[(501, "at most 500")]);
        check(file_fits, "crates/testkit/src/lib.rs", &lines(501), &[(501, "at most 500")]);
    }

    #[test]
    fn an_early_test_import_frees_nothing_after_it() {
        let text = format!("#[cfg(test)]\nuse a::b;\n{}", lines(501));
        check(file_fits, "a.rs", &text, &[(501, "501 lines")]);
    }

    #[test]
    fn a_table_may_be_long_when_it_says_so_in_its_head() {
        check(file_fits, "a.rs", &format!("//! Codes.\n// tidy: table\n\n{}", lines(600)), &[]);
        check(file_fits, "a.rs", &format!("//! Codes.\n\n// tidy: table\n{}", lines(600)), &[(501, "lines")]);
    }

    #[test]
    fn a_door_is_thin_and_never_a_table() {
        let text = format!("//! A door.\n// tidy: table\n{}", lines(249));
        check(door_fits, "crates/node/src/doors/mcp.rs", &text, &[(251, "a door of 251 lines")]);
        check(door_fits, "crates/node/src/doors/mcp.rs", &lines(250), &[]);
        check(door_fits, "crates/node/src/driver.rs", &lines(300), &[]);
    }

    #[test]
    fn a_function_is_measured_from_head_to_brace() {
        check(functions_fit, "crates/a/src/a.rs", &function(70), &[]);
        check(functions_fit, "crates/a/src/a.rs", &function(71), &[(1, "`f` has 71 lines, at most 70")]);
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(71));
        check(functions_fit, "crates/a/src/a.rs", &test, &[(3, "71 lines")]);
    }

    #[test]
    fn a_story_may_be_longer() {
        check(functions_fit, "crates/a/tests/a.rs", &function(100), &[]);
        check(functions_fit, "crates/a/tests/a.rs", &function(101), &[(1, "at most 100")]);
    }

    #[test]
    fn a_function_that_is_a_table_says_so_above_it() {
        let body = function(90);
        check(functions_fit, "a.rs", &format!("// tidy: table\n/// Doc.\n#[inline]\n{body}"), &[]);
        check(functions_fit, "a.rs", &format!("// tidy: table\n\n{body}"), &[(3, "90 lines")]);
    }
}
