//! One Rust file as the rules see it: its text, its code, and which lines are tests.

use super::mask::mask;

pub(super) struct Source<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    /// The text with comments and literals blanked out, see `mask`.
    pub(super) code: String,
    /// For each line, whether it belongs to a test.
    tests: Vec<bool>,
}

/// A function with a body. Lines are numbered from 1, and the last one is included.
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) first_line: usize,
    pub(super) last_line: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(path: &'a str, text: &'a str) -> Self {
        let code = mask(text);
        let lines = text.lines().count();
        let tests = if is_test_file(path) || code.contains("#![cfg(test)]") {
            vec![true; lines]
        } else {
            vec![false; lines]
        };
        let mut source = Self { path, text, code, tests };
        source.mark_test_items();
        source
    }

    /// The lines of code outside tests, numbered from 1.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbered().filter(|(line, _)| !self.is_test(*line))
    }

    /// The lines of code inside tests, numbered from 1.
    pub(super) fn test_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbered().filter(|(line, _)| self.is_test(*line))
    }

    /// All lines of code, numbered from 1.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The original line, including comments.
    pub(super) fn written(&self, line: usize) -> &str {
        self.text.lines().nth(line - 1).unwrap_or_default()
    }

    pub(super) fn is_test(&self, line: usize) -> bool {
        self.tests.get(line - 1).copied().unwrap_or_default()
    }

    pub(super) fn line_of(&self, offset: usize) -> usize {
        1 + self.code[..offset].matches('\n').count()
    }

    pub(super) fn functions(&self) -> Vec<Function<'_>> {
        let mut functions = Vec::new();
        for at in words(&self.code, "fn") {
            let after = self.code[at + 2..].trim_start();
            let name = &after[..after.find(|c| !is_word(c)).unwrap_or(after.len())];
            // Without a name it is a type such as `fn(u8) -> u8`, without a body a declaration in a
            // trait.
            if let Some(end) = item_end(&self.code, at)
                && !name.is_empty()
                && self.code[..end].ends_with('}')
            {
                let (first_line, last_line) = (self.line_of(at), self.line_of(end));
                functions.push(Function { name, first_line, last_line });
            }
        }
        functions
    }

    fn mark_test_items(&mut self) {
        for (at, _) in self.code.match_indices("#[cfg(") {
            let attribute = &self.code[at..self.code[at..].find(']').map_or(self.code.len(), |end| at + end)];
            let for_tests = words(attribute, "test").next().is_some() && !attribute.contains("not(test");
            if !for_tests {
                continue;
            }
            let end = item_end(&self.code, at).unwrap_or(self.code.len());
            let (first, last) = (self.line_of(at), self.line_of(end));
            let last = last.min(self.tests.len());
            self.tests[first - 1..last].fill(true);
        }
    }
}

/// Whether a file contains only tests, or only helpers for tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "benches")
        || path.starts_with("crates/testkit/")
}

/// The positions of `word` in `code`, as a whole word.
pub(super) fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The end of the item that begins at `from`: after its `;`, or after its body's closing brace.
fn item_end(code: &str, from: usize) -> Option<usize> {
    let mut round = 0;
    let mut braces = 0;
    for (at, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => round += 1,
            ')' | ']' => round -= 1,
            '{' => braces += 1,
            '}' => braces -= 1,
            _ => {}
        }
        let ended = match c {
            ';' => round == 0 && braces == 0,
            '}' => braces <= 0 && round <= 0,
            _ => false,
        };
        if ended {
            return Some(from + at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_lines(path: &str, text: &str) -> Vec<usize> {
        Source::new(path, text).test_lines().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_test_item_ends_where_it_ends() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { \"}\" }\n}\nfn c() {}\n";
        assert_eq!(test_lines("crates/core/src/a.rs", text), [2, 3, 4, 5]);
        assert_eq!(test_lines("a.rs", "#[cfg(test)]\nmod tests;\nfn c() {}\n"), [1, 2]);
        assert_eq!(test_lines("a.rs", "#[cfg(all(test, unix))]\nuse a::{b, c};\nfn c() {}\n"), [1, 2]);
        assert_eq!(test_lines("a.rs", "#[cfg(not(test))]\nfn c() {}\n"), [0; 0]);
    }

    #[test]
    fn some_files_are_tests_from_end_to_end() {
        assert_eq!(test_lines("crates/node/tests/a.rs", "a\nb\n"), [1, 2]);
        assert_eq!(test_lines("crates/node/src/driver/tests.rs", "a\n"), [1]);
        assert_eq!(test_lines("crates/testkit/src/lib.rs", "a\n"), [1]);
        assert_eq!(test_lines("crates/node/src/latests.rs", "a\n"), [0; 0]);
    }

    #[test]
    fn functions_are_found_with_their_ends() {
        let text = "trait T {\n  fn promise(&self) -> [u8; 4];\n  fn kept<'a>(x: fn(u8) -> u8)\n  where\n    u8: Copy,\n  {\n    let _ = '}';\n  }\n}\n";
        let source = Source::new("a.rs", text);
        let found: Vec<_> =
            source.functions().iter().map(|f| (f.name.to_owned(), f.first_line, f.last_line)).collect();
        assert_eq!(found, [("kept".to_owned(), 3, 8)]);
    }
}
