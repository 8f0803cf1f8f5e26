//! The containers that packages come in: tar, gzip, ar and zip.
//!
//! Written here and not by the programs of that name, so that the same entries give the same bytes
//! on every machine: in the order they are given, owned by root, all of one date.

use std::io::Write as _;

use anyhow::{Context, ensure};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc, GzBuilder};

/// The date of every file in a package, as it is written in letters.
pub(super) const DATE: &str = "Sat, 01 Jan 2000 00:00:00 +0000";
/// The same date in seconds since 1970.
const DATE_S: u64 = 946_684_800;
/// The same date as MS-DOS writes it (years since 1980, month, day); the time is 0.
const DATE_DOS: u16 = (20 << 9) | (1 << 5) | 1;

pub(super) const PROGRAM: u32 = 0o755;
pub(super) const TEXT: u32 = 0o644;

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Relative, with `/` between its parts.
    pub(super) path: String,
    /// `PROGRAM` or `TEXT`.
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl Entry {
    pub(super) fn new(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, bytes: bytes.into() }
    }
}

/// A tar archive (ustar) of `entries` and the folders above them. `prefix` is put before each path,
/// such as `./` or `package/`.
pub(super) fn tar(prefix: &str, entries: &[Entry]) -> anyhow::Result<Vec<u8>> {
    let mut archive = Vec::new();
    for folder in folders(prefix, entries) {
        archive.extend(tar_header(&folder, PROGRAM, 0, b'5')?);
    }
    for entry in entries {
        archive.extend(tar_header(&format!("{prefix}{}", entry.path), entry.mode, entry.bytes.len(), b'0')?);
        archive.extend(&entry.bytes);
        pad(&mut archive, 512);
    }
    archive.extend([0; 1024]);
    Ok(archive)
}

/// Every folder above an entry, parents first.
fn folders(prefix: &str, entries: &[Entry]) -> Vec<String> {
    let mut folders = Vec::new();
    for entry in entries {
        let path = format!("{prefix}{}", entry.path);
        for (at, _) in path.match_indices('/') {
            folders.push(path[..=at].to_owned());
        }
    }
    folders.sort();
    folders.dedup();
    folders
}

fn tar_header(path: &str, mode: u32, size: usize, kind: u8) -> anyhow::Result<[u8; 512]> {
    ensure!(path.len() <= 100, "{path} is too long for a tar archive: 100 bytes are the limit");
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, &format!("{DATE_S:011o}"));
    // The checksum counts its own field as spaces.
    put(148, "        ");
    put(257, "ustar\x0000");
    put(265, "root");
    put(297, "root");
    header[156] = kind;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Ok(header)
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

/// Compressed as by `gzip -9n`.
pub(super) fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes).context("compressing")?;
    encoder.finish().context("compressing")
}

/// An ar archive, which a `.deb` is.
pub(super) fn ar(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header = format!("{name:<16}{DATE_S:<12}0     0     100644  {:<10}`\n", bytes.len());
        archive.extend(header.as_bytes());
        archive.extend(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

/// A zip archive, which a wheel is.
pub(super) fn zip(entries: &[Entry]) -> anyhow::Result<Vec<u8>> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
        deflate.write_all(&entry.bytes).context("compressing")?;
        let packed = deflate.finish().context("compressing")?;
        let mut crc = Crc::new();
        crc.update(&entry.bytes);
        let at = four(archive.len())?;
        // Version 2.0, no flags, deflated; then date, checksum, sizes, and no extra field.
        let mut common = Vec::new();
        common.extend([20, 0, 0, 0, 8, 0, 0, 0]);
        common.extend(DATE_DOS.to_le_bytes());
        common.extend(crc.sum().to_le_bytes());
        common.extend(four(packed.len())?);
        common.extend(four(entry.bytes.len())?);
        common.extend(u16::try_from(entry.path.len()).context("a path in a zip archive")?.to_le_bytes());
        common.extend([0; 2]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(entry.path.as_bytes());
        archive.extend(packed);
        // Made on Unix (3), so that the mode in the upper half of the attributes counts.
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        // No comment, first disk, no internal attributes.
        directory.extend([0; 6]);
        directory.extend(((0o100_000 | entry.mode) << 16).to_le_bytes());
        directory.extend(at);
        directory.extend(entry.path.as_bytes());
    }
    let (at, size) = (four(archive.len())?, four(directory.len())?);
    let count = u16::try_from(entries.len()).context("a zip archive")?.to_le_bytes();
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count, count].concat());
    archive.extend([size, at].concat());
    archive.extend([0; 2]);
    Ok(archive)
}

fn four(size: usize) -> anyhow::Result<[u8; 4]> {
    Ok(u32::try_from(size).context("a zip archive of more than 4 GB")?.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    use crate::shell;

    fn entries() -> Vec<Entry> {
        // Long enough to be worth compressing, and of odd length.
        let text = "a line of text\n".repeat(1000) + "end";
        vec![Entry::new("bin/run", PROGRAM, "#!/bin/sh\necho ran\n"), Entry::new("doc/text", TEXT, text)]
    }

    /// Unpacks `bytes` with a program that others wrote, and compares.
    fn check(bytes: &[u8], unpack: &[&str], below: &str) {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("packed"), bytes).unwrap();
        shell::read(scratch.path(), unpack).unwrap();
        for entry in entries() {
            let file = scratch.path().join(below).join(&entry.path);
            assert_eq!(fs::read(&file).unwrap(), entry.bytes, "{}", entry.path);
        }
        let program = scratch.path().join(below).join("bin/run");
        let program = program.strip_prefix(scratch.path()).unwrap_or(Path::new("/")).to_str().unwrap();
        assert_eq!(shell::read(scratch.path(), &[&format!("./{program}")]).unwrap(), "ran\n");
    }

    #[test]
    fn tar_unpacks_what_was_packed() {
        let packed = gzip(&tar("package/", &entries()).unwrap()).unwrap();
        check(&packed, &["tar", "-xzf", "packed"], "package");
        let long = [Entry::new("a".repeat(101), TEXT, "")];
        assert!(tar("", &long).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn tar_lists_folders_first_and_root_as_owner() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("packed"), tar("./", &entries()).unwrap()).unwrap();
        let list = shell::read(scratch.path(), &["tar", "-tf", "packed"]).unwrap();
        let list: Vec<&str> = list.lines().collect();
        assert_eq!(list, ["./", "./bin/", "./doc/", "./bin/run", "./doc/text"]);
        let long = shell::read(scratch.path(), &["tar", "-tvf", "packed"]).unwrap();
        assert!(long.lines().all(|line| line.contains("root/root")), "{long}");
    }

    #[test]
    fn zip_unpacks_what_was_packed() {
        let packed = zip(&entries()).unwrap();
        assert!(packed.len() < 2000, "{} bytes: nothing was compressed", packed.len());
        // `zipfile` of Python checks every checksum, but sets no modes.
        let unpack = "import os, zipfile\n\
                      archive = zipfile.ZipFile('packed')\n\
                      archive.testzip() is None or exit('bad')\n\
                      archive.extractall('out')\n\
                      for info in archive.infolist():\n \
                          os.chmod('out/' + info.filename, info.external_attr >> 16 & 0o777)\n";
        check(&packed, &["python3", "-c", unpack], "out");
    }

    #[test]
    fn ar_unpacks_what_was_packed() {
        let packed = gzip(&tar("", &entries()).unwrap()).unwrap();
        let packed = ar(&[("odd", b"odd".to_vec()), ("data.tar.gz", packed)]);
        check(&packed, &["sh", "-c", "ar p packed data.tar.gz | tar -xz"], ".");
    }
}
