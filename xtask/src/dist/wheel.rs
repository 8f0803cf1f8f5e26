//! The package of pip: a wheel whose only program is the binary.

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::archive::{self, Entry, PROGRAM, TEXT};
use super::contents::{COMMAND, Contents, PACKAGE};
use super::target::Target;
use super::{File, notices};

/// The systems that a static binary runs on: those with glibc under their new and their old name, and
/// those with musl. `{}` is the machine.
const PLATFORMS: &[&str] = &["manylinux_2_17_{}", "manylinux2014_{}", "musllinux_1_1_{}"];

/// The folder of the man pages, below that of the environment.
pub(super) const MAN: &str = "share/man/man1";

pub(super) fn pack(contents: &Contents, target: &Target, binary: &[u8]) -> anyhow::Result<File> {
    let version = version(&contents.version)?;
    let stem = stem(&version);
    let tags: String =
        platforms(target).iter().map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    let generator = concat!("Generator: xtask ", env!("CARGO_PKG_VERSION"));
    let wheel = format!("Wheel-Version: 1.0\n{generator}\nRoot-Is-Purelib: false\n{tags}");

    let (data, info) = (format!("{stem}.data"), format!("{stem}.dist-info"));
    let mut entries = vec![Entry::new(format!("{data}/scripts/{COMMAND}"), PROGRAM, binary)];
    entries.extend(contents.completion_scripts(|shell| format!("{data}/data/{}", completions(shell))));
    entries.extend(contents.man_pages(&format!("{data}/data/{MAN}")));
    entries.push(Entry::new(format!("{info}/METADATA"), TEXT, metadata(contents, &version)));
    entries.push(Entry::new(format!("{info}/WHEEL"), TEXT, wheel));
    entries.push(Entry::new(format!("{info}/licenses/LICENSE"), TEXT, contents.licence.clone()));
    let notices = format!("{info}/licenses/{}", notices::FILE);
    entries.push(Entry::new(notices, TEXT, contents.notices.clone()));
    // The list comes last, as the format recommends.
    entries.push(record(&format!("{info}/RECORD"), &entries));
    Ok(File { name: file_name(contents, target)?, bytes: archive::zip(&entries)? })
}

pub(super) fn file_name(contents: &Contents, target: &Target) -> anyhow::Result<String> {
    let version = version(&contents.version)?;
    Ok(format!("{}-py3-none-{}.whl", stem(&version), platforms(target).join(".")))
}

/// The folder of completions for this shell, below that of the environment.
pub(super) fn completions(shell: &str) -> &'static str {
    match shell {
        "bash" => "share/bash-completion/completions",
        "zsh" => "share/zsh/site-functions",
        _ => "share/fish/vendor_completions.d",
    }
}

fn stem(version: &str) -> String {
    format!("{}-{version}", PACKAGE.replace('-', "_"))
}

fn platforms(target: &Target) -> Vec<String> {
    PLATFORMS.iter().map(|platform| platform.replace("{}", target.machine)).collect()
}

/// Python writes `1.0.0-rc.1` as `1.0.0rc1`.
fn version(version: &str) -> anyhow::Result<String> {
    let Some((release, pre)) = version.split_once('-') else { return Ok(version.to_owned()) };
    let (word, number) = pre.split_once('.').unwrap_or((pre, "0"));
    let word = match word {
        "alpha" => "a",
        "beta" => "b",
        "rc" => "rc",
        _ => bail!("version {version} has no counterpart in Python: use alpha, beta or rc"),
    };
    let number: u32 = number.parse().with_context(|| format!("version {version}"))?;
    Ok(format!("{release}{word}{number}"))
}

fn metadata(contents: &Contents, version: &str) -> Vec<u8> {
    let head = format!(
        "Metadata-Version: 2.4
Name: {PACKAGE}
Version: {version}
Summary: {}
Project-URL: Homepage, {}
License-Expression: Apache-2.0
License-File: LICENSE
License-File: {}
Requires-Python: >=3.7
Description-Content-Type: text/markdown

",
        contents.summary,
        contents.homepage,
        notices::FILE
    );
    [head.as_bytes(), &contents.readme].concat()
}

/// The list of all files with their checksums; it has none of itself.
fn record(path: &str, entries: &[Entry]) -> Entry {
    let line = |entry: &Entry| {
        let sum = URL_SAFE_NO_PAD.encode(Sha256::digest(&entry.bytes));
        format!("{},sha256={sum},{}\n", entry.path, entry.bytes.len())
    };
    Entry::new(path, TEXT, entries.iter().map(line).collect::<String>() + path + ",,\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_spelled_as_python_does() {
        assert_eq!(version("0.1.0").unwrap(), "0.1.0");
        assert_eq!(version("1.0.0-rc.2").unwrap(), "1.0.0rc2");
        assert_eq!(version("1.0.0-beta").unwrap(), "1.0.0b0");
        assert!(version("1.0.0-nightly.3").unwrap_err().to_string().contains("alpha, beta or rc"));
    }
}
