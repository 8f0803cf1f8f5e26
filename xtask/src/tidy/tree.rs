//! The files of the repository: those that are tracked, or would be once they are added.
//!
//! They are read once, for all rules. Binary files (with a NUL, or invalid UTF-8) are listed
//! without text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::shell;

/// Maps each path from the root, with `/`, to the text of the file. `None` if it is binary.
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Lists the paths without reading the files.
    pub(crate) fn list(root: &Path) -> anyhow::Result<Self> {
        let files = tracked(root)?.into_iter().filter(|path| root.join(path).is_file());
        Ok(Self { files: files.map(|path| (path, None)).collect() })
    }

    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::list(root)?;
        for (path, text) in &mut tree.files {
            let bytes = fs::read(root.join(path)).with_context(|| format!("reading {path}"))?;
            *text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        }
        Ok(tree)
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Self { files: files.collect() }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether `path` is one of the files, or a folder that contains one.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty() || self.files.contains_key(path) || self.paths().any(|file| file.starts_with(&folder))
    }
}

fn tracked(root: &Path) -> anyhow::Result<Vec<String>> {
    // Without `safe.directory`, git lists nothing in a repository that another user checked out.
    let list = ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"];
    if root.join(".git").exists() {
        let listed = shell::read(root, &list)?;
        return Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect());
    }
    // An unpacked archive has no git: list everything except what a build leaves behind.
    let mut paths = Vec::new();
    walk(root, "", &mut paths)?;
    Ok(paths)
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(root.join(below)).with_context(|| format!("listing {below}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if !entry.file_type()?.is_dir() {
            paths.push(path);
        } else if name != "target" {
            walk(root, &path, paths)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/guide.md", ""), ("README.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/") && tree.has("README.md"));
        assert!(!tree.has("doc") && !tree.has("docs/guide"));
    }

    #[test]
    fn the_tree_lists_this_very_file_and_nothing_built() {
        let tree = Tree::read(&shell::root()).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").unwrap().starts_with("//!"));
        assert!(tree.paths().all(|path| !path.starts_with("target/")));
    }

    #[test]
    fn without_git_the_folders_are_walked() {
        let mut paths = Vec::new();
        walk(&shell::root().join("xtask"), "", &mut paths).unwrap();
        assert!(paths.contains(&"src/tidy/tree.rs".to_owned()));
    }
}
