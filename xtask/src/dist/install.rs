//! Installs each package as its users do, but into a folder that is thrown away, and without a network.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::contents::{COMMAND, Contents, PACKAGE};
use super::target::Target;
use super::{archive, deb, npm, tarball, wheel};
use crate::shell;

/// A package that was installed.
#[derive(Debug)]
pub(super) struct Installed {
    /// How: `deb`, `pip`, …
    pub(super) way: &'static str,
    /// The folder of the program.
    pub(super) bin: PathBuf,
    /// The folder of the man pages.
    man: PathBuf,
    /// Whether the man pages are compressed, as Debian wants them.
    man_is_compressed: bool,
    /// The folders of the completions, in the order of `Contents::completions`.
    completions: Vec<PathBuf>,
}

/// A way to install a package: the folder of the packages, what is in them, for which machine, and
/// where to.
type Install = fn(&Path, &Contents, &Target, &Path) -> anyhow::Result<Installed>;

pub(super) const WAYS: &[Install] = &[from_archive, from_deb, from_npm, from_npm_in_project, from_pip];

fn from_archive(
    packages: &Path,
    contents: &Contents,
    target: &Target,
    to: &Path,
) -> anyhow::Result<Installed> {
    let name = tarball::stem(contents, target);
    run(packages, to, &["tar", "-xzf", &format!("{name}.tar.gz"), "-C", &spelled(to)])?;
    let top = to.join(name);
    Ok(Installed {
        way: "archive",
        man: top.join("man/man1"),
        man_is_compressed: false,
        completions: folders(contents, |shell| top.join("completions").join(shell)),
        bin: top,
    })
}

fn from_deb(packages: &Path, contents: &Contents, target: &Target, to: &Path) -> anyhow::Result<Installed> {
    let package = deb::file_name(contents, target)?;
    run(packages, to, &["dpkg-deb", "--extract", &package, &spelled(to)])?;
    // Whether Debian's own program finds the fields that it looks for.
    for (field, wanted) in [("Package", PACKAGE), ("Architecture", target.debian)] {
        let found = run(packages, to, &["dpkg-deb", "--field", &package, field])?;
        ensure!(found.trim() == wanted, "{package}: the field {field} is {found:?}, not {wanted:?}");
    }
    Ok(Installed {
        way: "deb",
        bin: to.join("usr/bin"),
        man: to.join("usr/share/man/man1"),
        man_is_compressed: true,
        completions: folders(contents, |shell| to.join(deb::completions(shell))),
    })
}

fn from_npm(packages: &Path, contents: &Contents, target: &Target, to: &Path) -> anyhow::Result<Installed> {
    npm_install(packages, contents, target, to, &["--global"])?;
    let top = to.join("lib/node_modules").join(PACKAGE);
    Ok(Installed {
        way: "npm",
        bin: to.join("bin"),
        man: to.join("share/man/man1"),
        man_is_compressed: false,
        completions: folders(contents, |shell| top.join("completions").join(shell)),
    })
}

fn from_npm_in_project(
    packages: &Path,
    contents: &Contents,
    target: &Target,
    to: &Path,
) -> anyhow::Result<Installed> {
    npm_install(packages, contents, target, to, &[])?;
    let top = to.join("node_modules").join(PACKAGE);
    Ok(Installed {
        way: "npm in a project",
        bin: to.join("node_modules/.bin"),
        man: top.join("man"),
        man_is_compressed: false,
        completions: folders(contents, |shell| top.join("completions").join(shell)),
    })
}

fn npm_install(
    packages: &Path,
    contents: &Contents,
    target: &Target,
    to: &Path,
    more: &[&str],
) -> anyhow::Result<()> {
    let files = [npm::file_name(contents, PACKAGE), npm::file_name(contents, &npm::binary_package(target))];
    let files = files.map(|file| spelled(&packages.join(file)));
    let prefix = spelled(to);
    // Nothing listens at this port: what npm would fetch is missed.
    let mut line = vec!["npm", "install", "--offline", "--registry=http://127.0.0.1:9/", "--prefix", &prefix];
    line.extend(more);
    line.extend(["--no-audit", "--no-fund", "--no-update-notifier"]);
    line.extend(files.iter().map(String::as_str));
    run(to, to, &line)?;
    Ok(())
}

fn from_pip(packages: &Path, contents: &Contents, target: &Target, to: &Path) -> anyhow::Result<Installed> {
    let venv = to.join("venv");
    run(packages, to, &["python3", "-m", "venv", &spelled(&venv)])?;
    let python = spelled(&venv.join("bin/python"));
    let package = wheel::file_name(contents, target)?;
    run(packages, to, &[&python, "-m", "pip", "install", "--quiet", "--no-index", &package])?;
    Ok(Installed {
        way: "pip",
        bin: venv.join("bin"),
        man: venv.join(wheel::MAN),
        man_is_compressed: false,
        completions: folders(contents, |shell| venv.join(wheel::completions(shell))),
    })
}

impl Installed {
    pub(super) fn version(&self, home: &Path) -> anyhow::Result<String> {
        run(home, home, &[&spelled(&self.bin.join(COMMAND)), "--version"])
    }

    /// Compares the installed completions and man pages with those that were packed.
    pub(super) fn has_texts(&self, contents: &Contents) -> anyhow::Result<()> {
        let same = |file: &Path, wanted: &[u8]| {
            let found = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
            ensure!(found == wanted, "{} is not as it was packed", file.display());
            Ok(())
        };
        for (folder, completion) in self.completions.iter().zip(&contents.completions) {
            same(&folder.join(completion.file), &completion.script)?;
        }
        for (name, page) in &contents.man {
            if self.man_is_compressed {
                same(&self.man.join(format!("{name}.gz")), &archive::gzip(page)?)?;
            } else {
                same(&self.man.join(name), page)?;
            }
        }
        Ok(())
    }
}

fn folders(contents: &Contents, place: impl Fn(&str) -> PathBuf) -> Vec<PathBuf> {
    contents.completions.iter().map(|completion| place(completion.shell)).collect()
}

/// Runs a program in `folder` with an environment that has only a path and a home, which is `to`.
fn run(folder: &Path, to: &Path, line: &[&str]) -> anyhow::Result<String> {
    let home = format!("HOME={}", spelled(to));
    let path = format!("PATH={}", std::env::var("PATH").unwrap_or_default());
    shell::read(folder, &[&["env", "-i", &path, &home][..], line].concat())
}

fn spelled(path: &Path) -> String {
    path.display().to_string()
}
