//! The files of an audit log: appended to, rotated by size, limited in number, with a
//! head file beside them.
//!
//! A file is named after the number of its first line. The head names the last line that is safely
//! on disk; it is written after that line was synced, so it is never ahead of an untampered log.
//!
//! Invariant: written bytes never change. A line broken off by a crash stays, and the next line
//! says so. Where the head is ahead of the files, the chain continues from the head, so a restart
//! does not hide truncation.
//! Not here: threads and when to sync (`synapse-node`'s `audit`).

use super::verify::number_in;
use super::{Hash, Head, Link, Linked, Mark, Report, Verifier};
use crate::anchor::Anchor;
use crate::files::{self, Access, FileError};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// How much of the log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub file_bytes_max: u64,
    pub files_max: usize,
}

impl Bounds {
    /// Keeps at least two files: the mark about removed files must outlive the removal.
    pub fn new(file_bytes_max: u64, files_max: usize) -> Self {
        Self { file_bytes_max: file_bytes_max.max(4 << 10), files_max: files_max.max(2) }
    }
}

/// One log, open for appending. Its only writer is the node, which runs under the agent's lock.
#[derive(Debug)]
pub struct AuditLog {
    dir: PathBuf,
    bounds: Bounds,
    file: File,
    path: PathBuf,
    anchor: Anchor,
    bytes: u64,
    chain: Link,
    /// Lines that are linked but not written yet.
    staged: Vec<u8>,
    /// The last line found when the log was opened.
    found: Found,
}

/// The state of the log when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub seq: u64,
    /// Whether the line before ours records an orderly stop; `None` if there is no line.
    pub stopped: Option<bool>,
}

impl AuditLog {
    /// Opens the log in this folder, or creates it. `at` is the time, for marks about a crash.
    pub fn open(dir: &Path, bounds: Bounds, at: &str) -> Result<Self, FileError> {
        files::private_dir(dir)?;
        let head = read_head(dir)?;
        let names = files_in(dir)?;
        if head == Head::Missing && names.is_empty() {
            files::write_private(&dir.join(HEAD), Link::START.head_text().as_bytes())?;
        }
        let mut tail = Tail::default();
        for (index, name) in names.iter().rev().enumerate() {
            let seen = Tail::read(&dir.join(name))?;
            if index == 0 {
                tail.torn = seen.torn;
            }
            if seen.last.is_some() {
                tail.last = seen.last;
                tail.stopped = seen.stopped;
                break;
            }
        }
        let found = tail.last.unwrap_or(Link::START);
        // Trust a head that is ahead or names another line, so that missing lines show.
        let chain = match head {
            Head::At(head) if head.seq >= found.seq => head,
            _ => found,
        };
        let path = names.last().map_or_else(|| dir.join(file_name(chain.seq + 1)), |name| dir.join(name));
        let file = append_to(&path)?;
        let anchor = Anchor::of([path.as_path()]);
        let bytes = file.metadata().map_err(|e| FileError::io(&path, "look at", e))?.len();
        let found = Found { seq: found.seq, stopped: tail.last.map(|_| tail.stopped) };
        let mut log =
            Self { dir: dir.to_owned(), bounds, file, anchor, path, bytes, chain, staged: Vec::new(), found };
        if let Some(torn) = tail.torn {
            log.staged.push(b'\n');
            if let Some((bytes, digest)) = torn {
                log.stage(&Mark::Torn { bytes, digest: digest.to_string() }.fields(at));
            }
        }
        if head == Head::Missing && !names.is_empty() {
            log.stage(&Mark::Headless {}.fields(at));
        }
        log.flush()?;
        Ok(log)
    }

    pub fn found(&self) -> Found {
        self.found
    }

    /// Returns the last line, written or not.
    pub fn end(&self) -> Link {
        self.chain
    }

    /// Links a line. The next `flush` writes it; a rotation writes it earlier.
    pub fn push(&mut self, fields: &[u8], at: &str) -> Result<(), FileError> {
        let line_bytes = fields.len() as u64 + LINK_BYTES_MAX;
        let after = self.bytes + self.staged.len() as u64 + line_bytes;
        if after > self.bounds.file_bytes_max && self.bytes + self.staged.len() as u64 > 0 {
            self.rotate(at)?;
        }
        self.stage(fields);
        Ok(())
    }

    fn stage(&mut self, fields: &[u8]) {
        self.chain.seal(fields, &mut self.staged);
    }

    /// Writes the linked lines in one piece. After an error the log must be opened again.
    pub fn flush(&mut self) -> Result<(), FileError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.staged).map_err(|e| FileError::io(&self.path, "write to", e))?;
        self.bytes += self.staged.len() as u64;
        self.staged.clear();
        // Do not keep the memory of a burst.
        self.staged.shrink_to(STAGED_BYTES_KEPT);
        Ok(())
    }

    /// Syncs everything written and updates the head. With `durably`, the head is synced too.
    pub fn sync(&mut self, durably: bool) -> Result<(), FileError> {
        self.flush()?;
        // The next opening reports which lines are missing.
        if !self.anchor.holds() {
            let gone = io::Error::other("it was removed or replaced while it was open");
            return Err(FileError::io(&self.path, "write to", gone));
        }
        self.file.sync_data().map_err(|e| FileError::io(&self.path, "sync", e))?;
        let (head, text) = (self.dir.join(HEAD), self.chain.head_text());
        if durably {
            files::write_private(&head, text.as_bytes())
        } else {
            files::write_volatile(&head, text.as_bytes())
        }
    }

    /// Continues in a new file, and removes the oldest if there are too many. The new file begins
    /// with a mark about that.
    fn rotate(&mut self, at: &str) -> Result<(), FileError> {
        self.sync(true)?;
        let path = self.dir.join(file_name(self.chain.seq + 1));
        self.file = append_to(&path)?;
        self.anchor = Anchor::of([path.as_path()]);
        self.path = path;
        self.bytes = 0;
        let names = files_in(&self.dir)?;
        let surplus = names.len().saturating_sub(self.bounds.files_max);
        if surplus == 0 {
            return Ok(());
        }
        let through = number_in(&names[surplus]).unwrap_or(1).saturating_sub(1);
        self.stage(&Mark::Dropped { through }.fields(at));
        self.sync(true)?;
        for name in &names[..surplus] {
            files::remove(&self.dir.join(name))?;
        }
        Ok(())
    }
}

/// Returns the files of a log, oldest first. Other files in the folder are ignored.
pub fn files_in(dir: &Path) -> Result<Vec<String>, FileError> {
    let listed = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|e| FileError::io(dir, "list", e))?,
    };
    let names = listed.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| number_in(name).is_some()).collect();
    names.sort_unstable();
    Ok(names)
}

pub fn read_head(dir: &Path) -> Result<Head, FileError> {
    const HEAD_BYTES_MAX: usize = 1024;
    match files::read_private(&dir.join(HEAD), HEAD_BYTES_MAX, Access::Plain) {
        Ok(bytes) => Ok(Link::parse_head(&bytes).map_or(Head::Missing, Head::At)),
        Err(error) if error.is_missing() => Ok(Head::Missing),
        Err(error) => Err(error),
    }
}

/// Verifies all files of a log, which may grow meanwhile.
pub fn verify_folder(dir: &Path) -> Result<Report, FileError> {
    const LOOKS: usize = 3;
    let mut look = 1;
    loop {
        // Read the head first: the files only grow after it.
        let mut verifier = Verifier::new(read_head(dir)?);
        let names = files_in(dir)?;
        let mut gone = None;
        for (index, name) in names.iter().enumerate() {
            match files::read_private(&dir.join(name), FILE_BYTES_MAX, Access::Plain) {
                Ok(bytes) => verifier.file(name, &bytes, index + 1 == names.len()),
                Err(error) if error.is_missing() => gone = Some(error),
                Err(error) => return Err(error),
            }
        }
        match gone {
            // Rotation may remove the oldest file meanwhile.
            Some(_) if look < LOOKS => look += 1,
            Some(error) => return Err(error),
            None => return Ok(verifier.finish()),
        }
    }
}

/// The end of one file.
#[derive(Default)]
struct Tail {
    last: Option<Link>,
    stopped: bool,
    /// What follows the last whole line: `Some(None)` if only its line end is missing, or the size
    /// and hash of a fragment.
    torn: Option<Option<(u64, Hash)>>,
}

impl Tail {
    /// Reads backwards, as far as needed.
    fn read(path: &Path) -> Result<Self, FileError> {
        let failed = |e: io::Error| FileError::io(path, "read", e);
        let mut file = open(path, OFlags::RDONLY)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut window = TAIL_BYTES;
        loop {
            let from = length.saturating_sub(window);
            file.seek(SeekFrom::Start(from)).map_err(failed)?;
            let mut bytes = Vec::new();
            (&mut file).take(length - from).read_to_end(&mut bytes).map_err(failed)?;
            let tail = Self::of(&bytes);
            if tail.last.is_some() || from == 0 {
                return Ok(tail);
            }
            window = window.saturating_mul(8);
        }
    }

    /// Parses the last bytes of a file, which may begin in the middle of a line.
    fn of(bytes: &[u8]) -> Self {
        let mut end = bytes.len();
        loop {
            let ended = bytes[..end].ends_with(b"\n");
            let line_end = end - usize::from(ended);
            let begin = bytes[..line_end].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            let line = &bytes[begin..line_end];
            if let Some(linked) = Linked::parse(line) {
                let last = Some(Link { seq: linked.seq, hash: Hash::of(line) });
                let after = &bytes[end..];
                let stopped = says_stop(line) || is_of_command(line) && Self::of(&bytes[..begin]).stopped;
                let torn = match (after.is_empty(), ended) {
                    (true, true) => None,
                    (true, false) => Some(None),
                    (false, _) => Some(Some((after.len() as u64, Hash::of(after)))),
                };
                return Self { last, stopped, torn };
            }
            if begin == 0 {
                let torn = (!bytes.is_empty()).then(|| Some((bytes.len() as u64, Hash::of(bytes))));
                return Self { last: None, stopped: false, torn };
            }
            end = begin;
        }
    }
}

#[derive(serde::Deserialize)]
struct Said {
    door: String,
    verb: String,
}

/// Whether a line records the orderly stop of a node.
fn says_stop(line: &[u8]) -> bool {
    serde_json::from_slice::<Said>(line).is_ok_and(|said| said.door == "node" && said.verb == "stop")
}

/// Whether a command wrote the line while no node ran, so that it says nothing about the node
/// before it.
fn is_of_command(line: &[u8]) -> bool {
    serde_json::from_slice::<Said>(line).is_ok_and(|said| said.door == super::COMMAND_DOOR)
}

fn append_to(path: &Path) -> Result<File, FileError> {
    open(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
}

/// Opens a file that must be plain and writable only by this user.
fn open(path: &Path, flags: OFlags) -> Result<File, FileError> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    let file = File::from(opened.map_err(|errno| match errno {
        rustix::io::Errno::LOOP => FileError::Symlink { path: path.to_owned() },
        errno => FileError::io(path, "open", errno),
    })?);
    files::check_open(&file, Access::Plain, path)?;
    Ok(file)
}

fn file_name(first: u64) -> String {
    format!("{first:020}.jsonl")
}

const HEAD: &str = "head";
/// The maximum size of a line's `seq`, `prev` and line end.
const LINK_BYTES_MAX: u64 = 110;
const TAIL_BYTES: u64 = 64 << 10;
const STAGED_BYTES_KEPT: usize = 256 << 10;
/// The most that is read of one file.
const FILE_BYTES_MAX: usize = 1 << 30;
