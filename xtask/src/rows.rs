//! `cargo xtask rows`: writes the page `docs/a2a-rows.md`, which says which tests cover which
//! requirement ("row") of A2A.
//!
//! A test names its rows at the beginning of a line of its doc comment: `/// S9, C8–C10: …`. A line
//! comment in its body that begins so counts too, and in the SDK scripts the comment above a case.
//! `rows.tsv` lists the rows.
//!
//! Not here: whether a test really covers the rows it names; reviewers judge that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

use crate::tidy::tree::Tree;

const PAGE: &str = "docs/a2a-rows.md";
const ROWS: &str = include_str!("rows.tsv");

/// Writes the page.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let page = page(root)?;
    let path = root.join(PAGE);
    std::fs::write(&path, page).with_context(|| format!("writing {PAGE}"))?;
    println!("{PAGE} is written");
    Ok(())
}

/// One row of the table.
struct Row<'a> {
    id: &'a str,
    level: &'a str,
    who: &'a str,
    text: &'a str,
    /// Why the row does not apply to us, if it does not.
    not_ours: Option<&'a str>,
    /// Why it has no test, if there is a reason.
    why: Option<&'a str>,
}

fn rows() -> Vec<Row<'static>> {
    let lines = ROWS.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().unwrap_or_default();
        let (id, level, who, text) = (cell(), cell(), cell(), cell());
        let said = |cell: &'static str| Some(cell).filter(|cell| !cell.is_empty());
        Row { id, level, who, text, not_ours: said(cell()), why: said(cell()) }
    };
    lines.map(row).collect()
}

/// Maps the id of a row to the tests that name it, each as file and name.
type Named = BTreeMap<String, BTreeSet<(String, String)>>;

fn page(root: &Path) -> anyhow::Result<String> {
    let tree = Tree::read(root)?;
    let mut named = Named::new();
    for (path, text) in tree.texts() {
        let rust = path.ends_with(".rs") && !path.starts_with("xtask/");
        let script = path.contains("/tests/sdk/");
        if rust || script {
            for (row, test) in if rust { in_rust(text) } else { in_script(text) } {
                named.entry(row).or_default().insert((path.to_owned(), test));
            }
        }
    }
    let rows = rows();
    let unknown: Vec<&String> =
        named.keys().filter(|id| !rows.iter().any(|row| row.id == id.as_str())).collect();
    anyhow::ensure!(unknown.is_empty(), "tests name rows that are not in rows.tsv: {unknown:?}");
    Ok(written(&rows, &named))
}

fn written(rows: &[Row<'_>], named: &Named) -> String {
    let ours: Vec<&Row<'_>> = rows.iter().filter(|row| row.not_ours.is_none()).collect();
    let (held, open): (Vec<&Row<'_>>, Vec<&Row<'_>>) =
        ours.iter().partition(|row| named.contains_key(row.id));
    let mut page = String::from("# A2A 1.0, row by row\n\nWritten by `cargo xtask rows`; do not edit.\n\n");
    let _ = writeln!(
        page,
        "What the protocol asks for, in our words, and the tests that hold it. Of {} rows, {} are ours; {} of them have \
         a test that names them.\n\n| row | level | for | what | tests |\n|---|---|---|---|---|",
        rows.len(),
        ours.len(),
        held.len()
    );
    for row in &held {
        let tests = named.get(row.id).into_iter().flatten();
        let tests: Vec<String> = tests.map(|(path, test)| format!("[{test}](../{path})")).collect();
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} |",
            row.id,
            row.level,
            row.who,
            row.text,
            tests.join(", ")
        );
    }
    let mut list = |title: &str, none: &str, rows: &[&Row<'_>]| {
        let _ = writeln!(page, "\n## {title}\n");
        if rows.is_empty() {
            let _ = writeln!(page, "{none}");
            return;
        }
        page.push_str("| row | level | for | what |\n|---|---|---|---|\n");
        for row in rows {
            let why = row.not_ours.or(row.why).map(|why| format!("; {why}")).unwrap_or_default();
            let _ = writeln!(page, "| {} | {} | {} | {}{why} |", row.id, row.level, row.who, row.text);
        }
    };
    list("Without a test", "None.", &open);
    let others: Vec<&Row<'_>> = rows.iter().filter(|row| row.not_ours.is_some()).collect();
    list("Not ours", "None.", &others);
    page
}

/// The rows and the tests that name them, in one Rust file.
fn in_rust(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    // The rows named above the current line, until a line that is neither comment nor attribute.
    let mut above: Vec<String> = Vec::new();
    let mut is_test = false;
    // The test whose body this is, and the indentation of its first line.
    let mut inside: Option<(String, usize)> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if let Some((test, own)) = &inside {
            if bare == "}" && indent == *own {
                inside = None;
            } else if let Some(comment) = bare.strip_prefix("// ") {
                found.extend(ids(comment).into_iter().map(|id| (id, test.clone())));
            }
            continue;
        }
        if let Some(doc) = bare.strip_prefix("///") {
            above.extend(ids(doc));
        } else if bare.starts_with("#[") {
            is_test |= bare.contains("test]") || bare.contains("test(");
        } else {
            if let Some(name) = function(bare).filter(|_| is_test) {
                found.extend(above.iter().map(|id| (id.clone(), name.to_owned())));
                inside = Some((name.to_owned(), indent)).filter(|_| !bare.ends_with('}'));
            }
            above.clear();
            is_test = false;
        }
    }
    found
}

/// The rows and the cases that name them, in one SDK script: a comment that begins with rows, above
/// a function.
fn in_script(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut above: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ").or(line.strip_prefix("// ")) {
            above.extend(ids(comment));
            continue;
        }
        let name = line.strip_prefix("async def ").or(line.strip_prefix("async function "));
        if let Some(name) = name.and_then(|rest| rest.split('(').next()) {
            found.extend(above.iter().map(|id| (id.clone(), name.to_owned())));
        }
        above.clear();
    }
    found
}

/// The name of the function that is declared on this line.
fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").unwrap_or(line);
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// The rows at the beginning of a comment, as in `S9, C8–C10: words`. Empty if it begins with
/// anything else.
fn ids(comment: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = comment.trim_start();
    while let Some((first, after)) = id(rest) {
        rest = after;
        let range = rest.strip_prefix(['–', '-']).and_then(id).filter(|(last, _)| last.0 == first.0);
        let until = range.map_or(first.1, |(last, after)| {
            rest = after;
            last.1
        });
        found.extend((first.1..=until).map(|n| format!("{}{n}", first.0)));
        match rest.strip_prefix(", ") {
            Some(more) => rest = more,
            None => break,
        }
    }
    let ends_well = rest.is_empty() || rest.starts_with([':', '.', ';', ' ', ',']) || id(rest).is_none();
    if ends_well { found } else { Vec::new() }
}

/// Reads one id, a letter of the table and a number. Returns it and the rest of the text.
fn id(text: &str) -> Option<((char, u32), &str)> {
    let letter = text.chars().next().filter(|c| "GSCTPAVJRHEBL".contains(*c))?;
    let rest = &text[1..];
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let after = &rest[digits..];
    let whole = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let number = rest[..digits].parse().ok().filter(|n| (1..100).contains(n) && whole)?;
    Some(((letter, number), after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    #[test]
    fn a_comment_that_begins_with_rows_names_them() {
        assert_eq!(ids(" S9, C8–C10: a story"), ["S9", "C8", "C9", "C10"]);
        assert_eq!(ids("T8."), ["T8"]);
        assert_eq!(ids("S13-S14, S20, and going on"), ["S13", "S14", "S20"]);
        assert!(ids("the row S9").is_empty());
        assert!(ids("A2A 1.0 at a node").is_empty());
        assert!(ids("S3cret").is_empty());
    }

    #[test]
    fn only_what_stands_above_a_test_or_in_it_counts() {
        let text = "/// S1: not a test\nfn helper() {\n}\n/// S2, and\n/// S4: more\n#[test]\nfn story() {\n    // S3: inside\n    let x = 1;\n}\n// S5: outside\n";
        let found: Vec<String> = in_rust(text).into_iter().map(|(id, test)| format!("{id} {test}")).collect();
        assert_eq!(found, ["S2 story", "S4 story", "S3 story"]);
        let script = "# S6: words\nasync def send(side):\n    # S7: no\n    pass\n";
        assert_eq!(in_script(script), [("S6".to_owned(), "send".to_owned())]);
    }

    #[test]
    fn every_row_is_whole_and_stands_once() {
        let rows = rows();
        let ids: BTreeSet<&str> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), rows.len());
        for row in &rows {
            assert!(["must", "should", "may"].contains(&row.level), "{}", row.id);
            assert!(["server", "client", "both", "tools"].contains(&row.who), "{}", row.id);
            assert!(!row.text.is_empty() && (row.not_ours.is_none() || row.why.is_none()), "{}", row.id);
        }
    }

    #[test]
    fn golden_rows_of_a2a() {
        let root = shell::root();
        synapse_testkit::golden::check(&root.join(PAGE), &page(&root).unwrap());
    }
}
