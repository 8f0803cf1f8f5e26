//! Links in the docs: every link between files has a target, and the README names no page that does
//! not exist.
//!
//! Not here: links to the web. They change without us, and no check may need a network.

use super::Violation;
use super::tree::Tree;

const README: &str = "README.md";

/// All broken links of all pages.
pub(super) fn links(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        found.extend(page_links(path, text, tree));
    }
    match tree.text(README) {
        Some(text) => found.extend(named_pages(text, tree)),
        None => found.push(Violation::new(README, 1, "there is no README: write one")),
    }
    found
}

fn page_links(path: &str, text: &str, tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, prose) in prose_lines(text) {
        for target in targets(&without_code(prose)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) };
            let Some(file) = file.filter(|file| tree.has(file)) else {
                let what = format!("a link to `{target}`, which is not in the tree: mend or drop it");
                found.push(Violation::new(path, line, what));
                continue;
            };
            let page = tree.text(&file).filter(|_| file.ends_with(".md"));
            if !heading.is_empty() && page.is_some_and(|page| !headings(page).contains(&heading.to_owned())) {
                let what = format!("a link to `#{heading}`, but {file} has no such heading");
                found.push(Violation::new(path, line, what));
            }
        }
    }
    found
}

/// Pages that the README names without a link and that do not exist: `docs/guide.md`, `STYLE.md`.
fn named_pages(text: &str, tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, prose) in prose_lines(text) {
        let of_a_path = |c: char| c.is_alphanumeric() || "_-./~:".contains(c);
        for word in prose.split(|c| !of_a_path(c)).map(|word| word.trim_end_matches(['.', ':'])) {
            let is_ours = !word.contains(':') && !word.starts_with(['~', '/']);
            let page = word.strip_prefix("./").unwrap_or(word);
            if page.ends_with(".md") && page != ".md" && is_ours && !tree.has(page) {
                let what = format!("it names `{page}`, which is not in the tree: write it or drop the name");
                found.push(Violation::new(README, line, what));
            }
        }
    }
    found
}

/// The lines outside fenced code, numbered from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// The line without the text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The targets of `[text](target)` and `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let inline = line.match_indices("](").map(|(at, _)| &line[at + 2..]).filter(|rest| rest.contains(')'));
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    let end_of = |rest: &str| rest.find([')', ' ']).unwrap_or(rest.len());
    inline.chain(definition).map(|rest| rest[..end_of(rest)].to_owned()).collect()
}

/// Resolves `target` relative to `page`, as a path from the root. `None` if it leaves the
/// repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') { vec![] } else { page.split('/').collect() };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a page's headings: lower case, hyphens for spaces, no other punctuation.
fn headings(page: &str) -> Vec<String> {
    let titles = prose_lines(page).filter(|(_, line)| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
    };
    titles.map(|(_, line)| anchor(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let found: Vec<String> = links(&Tree::of(files)).iter().map(Violation::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn a_link_leads_to_a_file_or_a_folder() {
        let readme = ("README.md", "See [a](docs/a.md), [docs](docs/), [site](https://example.org/x.md).\n");
        check(&[readme, ("docs/a.md", "[up](../README.md) [here](#part-one)\n\n## Part one\n")], &[]);
        check(
            &[readme],
            &[
                "README.md:1: a link to `docs/a.md`",
                "README.md:1: a link to `docs/`",
                "README.md:1: it names `docs/a.md`",
            ],
        );
    }

    #[test]
    fn a_link_leads_to_a_heading() {
        let files =
            |page| [("README.md", "hello"), ("docs/a.md", page), ("docs/b.md", "# What's `new`, really?\n")];
        check(&files("[b](b.md#whats-new-really)"), &[]);
        check(&files("x\n[b](b.md#old)"), &["docs/a.md:2: a link to `#old`"]);
        check(&files("[up](../../b.md)"), &["docs/a.md:1: a link to `../../b.md`"]);
        check(&files("[b]: c.md"), &["docs/a.md:1: a link to `c.md`"]);
    }

    #[test]
    fn code_is_no_link() {
        check(&[("README.md", "```\n[a](no.md) and OTHER.md\n```\n`f[0](x)`\n")], &[]);
    }

    #[test]
    fn the_readme_names_no_missing_page() {
        check(
            &[("README.md", "a\nRead `docs/guide.md`, or ~/.synapse/notes.md.\n")],
            &["README.md:2: it names `docs/guide.md`"],
        );
        check(&[("README.md", "Read `./STYLE.md`."), ("STYLE.md", "")], &[]);
    }

    #[test]
    fn a_tree_without_a_readme_is_told_so() {
        check(&[], &["README.md:1: there is no README"]);
    }
}
