//! `--check`: each package is installed, and does what the README says in its first minute.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use synapse_testkit::World;

use super::build::Built;
use super::contents::{COMMAND, Contents};
use super::install::{Installed, WAYS};
use super::{SUMS, elf, empty_root};
use crate::shell;

const CHAPTER: &str = "## A first message in one minute";
/// What the commands of that chapter print.
const PRINTED: &[&str] = &["HELLO", "WELCOME BACK"];

pub(super) fn run(root: &Path, packages: &Path, contents: &Contents, own: &Built) -> anyhow::Result<()> {
    shell::read(packages, &["sha256sum", "--check", "--strict", SUMS])?;
    println!("{SUMS}: fits all files");
    elf::ensure_static(&own.binary)?;
    println!("static: no loader, no libraries");
    allocator_is_ours(root, &own.path)?;
    println!("allocator: mimalloc");
    for install in WAYS {
        let scratch = tempfile::Builder::new().prefix("synapse-dist-").tempdir()?;
        let installed = install(packages, contents, own.target, scratch.path())?;
        try_out(&installed, contents, scratch.path()).with_context(|| format!("by {}", installed.way))?;
        println!("{}: version, completions, man pages and the README's first minute", installed.way);
    }
    empty_root::run(root, &own.binary)
}

/// The allocator of musl is slow with several threads, and the one that is linked in says its name.
fn allocator_is_ours(root: &Path, binary: &Path) -> anyhow::Result<()> {
    let line = format!("MIMALLOC_VERBOSE=1 '{}' --version 2>&1", binary.display());
    let said = shell::read(root, &["sh", "-c", &line])?;
    ensure!(said.contains("mimalloc: process init"), "mimalloc does not run in the binary: {said}");
    Ok(())
}

fn try_out(installed: &Installed, contents: &Contents, scratch: &Path) -> anyhow::Result<()> {
    let version = installed.version(scratch)?;
    ensure!(version.trim() == format!("{COMMAND} {}", contents.version), "--version prints {version:?}");
    installed.has_texts(contents)?;
    first_minute(installed, &String::from_utf8_lossy(&contents.readme), scratch)
}

/// Runs the chapter in a fresh home, which has to be without processes at the end.
fn first_minute(installed: &Installed, readme: &str, scratch: &Path) -> anyhow::Result<()> {
    let (person, work) = (scratch.join("person"), scratch.join("work"));
    fs::create_dir(&person)?;
    // It ends what is still running when it is dropped.
    let world = World::at(COMMAND, &person.join(".synapse"), &work);
    let mut shell = world.prepare(Command::new("sh"), &["-e", "-c", &commands(readme)?]);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", installed.bin.display());
    shell.env_clear().env("PATH", path).env("HOME", &person).env("SYNAPSE_HOME", world.home());
    let output = shell.output().context("starting sh")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let is_missing = |wanted: &&&str| !printed.lines().any(|line| line == **wanted);
    if !output.status.success() {
        bail!("the README's first minute ended with {}:\n{printed}{complaint}", output.status);
    }
    if let Some(missing) = PRINTED.iter().find(is_missing) {
        bail!("the README's first minute does not print {missing}:\n{printed}{complaint}");
    }
    let left = world.processes();
    ensure!(left.is_empty(), "the README's first minute left processes: {left:?}");
    Ok(())
}

/// The `sh` blocks of the chapter.
fn commands(readme: &str) -> anyhow::Result<String> {
    let (_, chapter) =
        readme.split_once(CHAPTER).with_context(|| format!("the README has no `{CHAPTER}`"))?;
    let chapter = chapter.split("\n## ").next().unwrap_or_default();
    let blocks = chapter.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let commands: String = blocks.collect();
    ensure!(!commands.is_empty(), "the README has no commands below `{CHAPTER}`");
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_minute_is_taken_from_the_readme() {
        let readme = fs::read_to_string(shell::root().join("README.md")).unwrap();
        let commands = commands(&readme).unwrap();
        for wanted in ["synapse run -d", "synapse send shout 'hello' --response", "synapse kill shout"] {
            assert!(commands.contains(wanted), "{wanted} is not in {commands}");
        }
        assert!(super::commands(&format!("{CHAPTER}\nno code\n## Next\n```sh\nls\n```")).is_err());
    }
}
