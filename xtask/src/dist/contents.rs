//! What every package holds beside the binary: licence, README, completions and man pages.
//!
//! Completions and man pages are printed by the binary itself, so they belong to it. They are the
//! same for every machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use super::archive::{Entry, TEXT};
use super::notices;
use crate::audit;

/// The name of the packages. Those of the registries are called so because `synapse` is taken there.
pub(super) const PACKAGE: &str = "synapse-agents";
/// The name of the command.
pub(super) const COMMAND: &str = "synapse";

/// The shells with completions, and the names under which they look for them.
const COMPLETIONS: &[(&str, &str)] = &[("bash", "synapse"), ("zsh", "_synapse"), ("fish", "synapse.fish")];

#[derive(Debug, Clone)]
pub(super) struct Contents {
    /// As in `Cargo.toml`: `1.2.0`, `1.2.0-rc.1`.
    pub(super) version: String,
    pub(super) summary: String,
    pub(super) homepage: String,
    pub(super) licence: Vec<u8>,
    pub(super) readme: Vec<u8>,
    pub(super) changelog: Vec<u8>,
    /// The licences of what is linked into the binary.
    pub(super) notices: Vec<u8>,
    pub(super) completions: Vec<Completion>,
    /// One page per command: `synapse.1`, `synapse-send.1`, …, sorted.
    pub(super) man: Vec<(String, Vec<u8>)>,
}

#[derive(Debug, Clone)]
pub(super) struct Completion {
    pub(super) shell: &'static str,
    /// The name of the file, which the shell looks for.
    pub(super) file: &'static str,
    pub(super) script: Vec<u8>,
}

impl Contents {
    /// Reads the files of the tree and runs `binary` for the rest.
    pub(super) fn gather(root: &Path, binary: &Path) -> anyhow::Result<Self> {
        let metadata = audit::metadata(root, &["--no-deps"])?;
        let packages = metadata["packages"].as_array().context("no packages in `cargo metadata`")?;
        let package = packages.iter().find(|package| package["name"] == "synapse");
        let package = package.context("no package called synapse in `cargo metadata`")?;
        let field = |name: &str| text(package, name);
        let read = |name: &str| fs::read(root.join(name)).with_context(|| format!("reading {name}"));
        let scratch = tempfile::tempdir().context("a folder for the man pages")?;
        let pages = scratch.path().join("man").display().to_string();
        ask(binary, scratch.path(), &["man", "--dir", &pages])?;
        let completion = |(shell, file): &(&'static str, &'static str)| {
            let script = ask(binary, scratch.path(), &["completions", shell])?;
            anyhow::Ok(Completion { shell, file, script })
        };
        Ok(Self {
            version: field("version")?,
            summary: field("description")?,
            homepage: field("repository")?,
            licence: read("LICENSE")?,
            readme: read("README.md")?,
            changelog: read("CHANGELOG.md")?,
            notices: notices::gather(root)?.into_bytes(),
            completions: COMPLETIONS.iter().map(completion).collect::<Result<_, _>>()?,
            man: files(Path::new(&pages))?,
        })
    }

    /// Licences and README, as they are called everywhere.
    pub(super) fn papers(&self) -> Vec<Entry> {
        vec![
            Entry::new("LICENSE", TEXT, self.licence.clone()),
            Entry::new("README.md", TEXT, self.readme.clone()),
            Entry::new(notices::FILE, TEXT, self.notices.clone()),
        ]
    }

    /// The man pages in a folder.
    pub(super) fn man_pages(&self, folder: &str) -> Vec<Entry> {
        self.man
            .iter()
            .map(|(name, page)| Entry::new(format!("{folder}/{name}"), TEXT, page.clone()))
            .collect()
    }

    /// The completions in a folder for each shell, as `place` says.
    pub(super) fn completion_scripts(&self, place: impl Fn(&str) -> String) -> Vec<Entry> {
        let entry = |own: &Completion| {
            Entry::new(format!("{}/{}", place(own.shell), own.file), TEXT, own.script.clone())
        };
        self.completions.iter().map(entry).collect()
    }
}

fn text(package: &Value, name: &str) -> anyhow::Result<String> {
    let text = package[name].as_str().with_context(|| format!("the package synapse has no {name}"))?;
    Ok(text.to_owned())
}

/// What `binary` prints. It gets an empty environment and a home that is thrown away.
fn ask(binary: &Path, home: &Path, args: &[&str]) -> anyhow::Result<Vec<u8>> {
    let line = || format!("`{} {}`", binary.display(), args.join(" "));
    let output = Command::new(binary)
        .args(args)
        .env_clear()
        .env("HOME", home)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", line()))?;
    if !output.status.success() {
        bail!("{} ended with {}: {}", line(), output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

/// Names and contents of the files in a folder, sorted by name.
fn files(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let file = file?;
        files.push((file.file_name().to_string_lossy().into_owned(), fs::read(file.path())?));
    }
    files.sort();
    Ok(files)
}
