//! The archive that is unpacked anywhere: binary, licence, README, completions and man pages.

use super::File;
use super::archive::{self, Entry, PROGRAM};
use super::contents::{COMMAND, Contents};
use super::target::Target;

pub(super) fn pack(contents: &Contents, target: &Target, binary: &[u8]) -> anyhow::Result<File> {
    let name = stem(contents, target);
    let mut entries = vec![Entry::new(COMMAND, PROGRAM, binary)];
    entries.extend(contents.papers());
    entries.extend(contents.completion_scripts(|shell| format!("completions/{shell}")));
    entries.extend(contents.man_pages("man/man1"));
    let bytes = archive::gzip(&archive::tar(&format!("{name}/"), &entries)?)?;
    Ok(File { name: format!("{name}.tar.gz"), bytes })
}

/// The name of the folder in the archive, and of what belongs to it.
pub(super) fn stem(contents: &Contents, target: &Target) -> String {
    format!("{COMMAND}-{}-{}", contents.version, target.triple)
}
