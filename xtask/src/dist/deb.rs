//! The package of Debian and its descendants: an ar archive of two tar archives.
//!
//! It depends on nothing and runs no script.

use anyhow::ensure;
use md5::{Digest as _, Md5};

use super::archive::{self, Entry, PROGRAM, TEXT};
use super::contents::{COMMAND, Contents, PACKAGE};
use super::target::Target;
use super::{File, hex, notices};

/// The field is required, and the project has no mailing address: RFC 2606 reserves this domain.
const MAINTAINER: &str = "Synapse contributors <synapse-agents@synapse-agents.invalid>";

/// The longer description; Debian wants more than the summary.
const DESCRIPTION: &str = " Puts an address and a mailbox on Claude Code, Codex, Gemini CLI, OpenCode
 and other command-line agents, and on scripts: they message each other, and
 messages wait on disk for an agent that is busy or not running. Each agent
 is an A2A server.
 .
 The binary is linked statically.
";

pub(super) fn pack(contents: &Contents, target: &Target, binary: &[u8]) -> anyhow::Result<File> {
    let files = files(contents, binary)?;
    let control = [
        Entry::new("control", TEXT, control(contents, target, &files)?),
        Entry::new("md5sums", TEXT, md5sums(&files)),
    ];
    let bytes = archive::ar(&[
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", archive::gzip(&archive::tar("./", &control)?)?),
        ("data.tar.gz", archive::gzip(&archive::tar("./", &files)?)?),
    ]);
    Ok(File { name: file_name(contents, target)?, bytes })
}

pub(super) fn file_name(contents: &Contents, target: &Target) -> anyhow::Result<String> {
    Ok(format!("{PACKAGE}_{}_{}.deb", version(&contents.version)?, target.debian))
}

/// The folder where the packages of a system put completions for this shell.
pub(super) fn completions(shell: &str) -> &'static str {
    match shell {
        "bash" => "usr/share/bash-completion/completions",
        "zsh" => "usr/share/zsh/vendor-completions",
        _ => "usr/share/fish/vendor_completions.d",
    }
}

/// Debian compares `1.0.0~rc.1` as older than `1.0.0`, and would take `-` for the start of its own revision.
fn version(version: &str) -> anyhow::Result<String> {
    ensure!(!version.contains('+'), "version {version} has build metadata, which a package cannot have");
    Ok(format!("{}-1", version.replace('-', "~")))
}

fn files(contents: &Contents, binary: &[u8]) -> anyhow::Result<Vec<Entry>> {
    let doc = format!("usr/share/doc/{PACKAGE}");
    let mut files = vec![
        Entry::new(format!("usr/bin/{COMMAND}"), PROGRAM, binary),
        Entry::new(format!("{doc}/README.md"), TEXT, contents.readme.clone()),
        Entry::new(format!("{doc}/{}.gz", notices::FILE), TEXT, archive::gzip(&contents.notices)?),
        Entry::new(format!("{doc}/changelog.Debian.gz"), TEXT, archive::gzip(changes(contents)?.as_bytes())?),
        Entry::new(format!("{doc}/changelog.gz"), TEXT, archive::gzip(&contents.changelog)?),
        Entry::new(format!("{doc}/copyright"), TEXT, copyright(contents)),
    ];
    files.extend(contents.completion_scripts(|shell| completions(shell).to_owned()));
    for (name, page) in &contents.man {
        files.push(Entry::new(format!("usr/share/man/man1/{name}.gz"), TEXT, archive::gzip(page)?));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn control(contents: &Contents, target: &Target, files: &[Entry]) -> anyhow::Result<String> {
    // In KiB, each file rounded up.
    let size: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let fields = [
        ("Package", PACKAGE.to_owned()),
        ("Version", version(&contents.version)?),
        ("Architecture", target.debian.to_owned()),
        ("Maintainer", MAINTAINER.to_owned()),
        ("Installed-Size", size.to_string()),
        // Debian's own `synapse`, a launcher for the desktop, has a program of the same name.
        ("Conflicts", COMMAND.to_owned()),
        ("Section", "utils".to_owned()),
        ("Priority", "optional".to_owned()),
        ("Homepage", contents.homepage.clone()),
        ("Description", contents.summary.clone()),
    ];
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    Ok(lines + DESCRIPTION)
}

fn md5sums(files: &[Entry]) -> String {
    files.iter().map(|file| format!("{}  {}\n", hex(&Md5::digest(&file.bytes)), file.path)).collect()
}

/// What changed in the package, which is nothing: the rest is in the changelog of the project.
fn changes(contents: &Contents) -> anyhow::Result<String> {
    let version = version(&contents.version)?;
    Ok(format!(
        "{PACKAGE} ({version}) unstable; urgency=medium

  * Version {}: see changelog.gz.

 -- {MAINTAINER}  {}
",
        contents.version,
        archive::DATE
    ))
}

/// In the form that Debian's tools read. Its systems have the text of the licence.
fn copyright(contents: &Contents) -> String {
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: {COMMAND}
Source: {}
Comment: The licences of what is linked into the binary are in {}.gz.

Files: *
Copyright: © Synapse contributors
License: Apache-2.0
 On Debian systems, the text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
",
        contents.homepage,
        notices::FILE
    )
}
