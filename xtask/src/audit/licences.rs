//! Which licences our dependencies may have: SPDX expressions checked against one list.

use anyhow::bail;

use super::Package;

/// Licences that allow distributing a binary with nothing more than a notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Exceptions that only add permissions to a licence.
const EXCEPTIONS: &[&str] = &["LLVM-exception"];

pub(super) fn check(packages: &[Package]) -> anyhow::Result<String> {
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !is_allowed(&package.licence))
        .map(|package| format!("  {} {}: {:?}", package.name, package.version, package.licence))
        .collect();
    if !refused.is_empty() {
        bail!("licences that are not on the list in xtask/src/audit/licences.rs:\n{}", refused.join("\n"));
    }
    Ok(format!("licences: all {} packages are on the list", packages.len()))
}

/// Whether allowed licences satisfy the expression. An expression that cannot be parsed is not
/// allowed.
fn is_allowed(expression: &str) -> bool {
    // Before SPDX, cargo used a slash for `OR`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, next: 0 };
    reader.any_of().is_some_and(|met| met && reader.next == words.len())
}

struct Reader<'a> {
    words: &'a [&'a str],
    next: usize,
}

impl Reader<'_> {
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.next) == Some(&word);
        self.next += usize::from(is_next);
        is_next
    }

    /// `OR` binds weaker than `AND`.
    fn any_of(&mut self) -> Option<bool> {
        let mut met = self.all_of()?;
        while self.takes("OR") {
            met |= self.all_of()?;
        }
        Some(met)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let met = self.any_of()?;
            return self.takes(")").then_some(met);
        }
        let name = *self.words.get(self.next)?;
        self.next += 1;
        if ["OR", "AND", "WITH", ")"].contains(&name) {
            return None;
        }
        let mut met = ALLOWED.contains(&name);
        if self.takes("WITH") {
            met &= EXCEPTIONS.contains(self.words.get(self.next)?);
            self.next += 1;
        }
        Some(met)
    }
}

#[cfg(test)]
mod tests {
    use super::super::package;
    use super::*;

    #[test]
    fn expressions_are_judged() {
        for allowed in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "GPL-3.0-only AND MIT OR ISC",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "MIT AND (GPL-3.0-only OR AGPL-3.0-only)",
            "Apache-2.0 WITH Other-exception",
            "MIT OR",
            "MIT Apache-2.0",
            "(MIT",
            "MIT)",
            "WITH",
        ] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn package_with_another_licence_is_named() {
        let said = check(&[package("fine", "1.0.0", "MIT"), package("other", "2.0.0", "AGPL-3.0-only")]);
        let said = said.unwrap_err().to_string();
        assert!(said.contains("other 2.0.0") && !said.contains("fine"), "{said}");
    }
}
