//! The outbox: files in an agent's working folder, for its processes in sandboxes
//! without sockets (CLI-10).
//!
//! `.synapse/outbox/<agent>/` is a maildir like the spool, beside which are the agent's key and the
//! answers. A file is trusted if it carries the right code (HMAC-SHA256) under the key. The node
//! keeps the key in its own home and writes it here again at each start, so that a key that came
//! with a cloned project is useless.
//!
//! Invariant: no link is followed, nothing of another user is trusted, nothing
//! is read without a limit.
//! Not here: what calls and answers say (`synapse-dialects`), carrying them out (`synapse-node`).

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use synapse_core::ids::AgentId;

use crate::audit::Hash;
use crate::files::{self, Access, FileError};
use crate::home::AgentDir;
use crate::spool::{Spool, SpoolError, SpoolId};

/// The path of outboxes, relative to the working folder.
const FOLDER: &str = ".synapse/outbox";

#[derive(Debug)]
pub struct Outbox {
    path: PathBuf,
    key: Key,
    spool: Spool,
    /// The folder of the answers, for the node. Held open, because a process of the agent
    /// may replace it by a link.
    answers: Option<OwnedFd>,
}

/// The secret that an agent's processes share with its node.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The purpose of a code, so that a call can never pass for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Call,
    Answer,
}

impl Outbox {
    /// For the node: creates the outbox of an agent in its working folder, with
    /// the agent's key in it.
    pub fn make(working_dir: &Path, agent: &AgentDir) -> Result<Self, SpoolError> {
        let key = Key::load_or_make(&agent.path().join("outbox.key"))?;
        let all = working_dir.join(FOLDER);
        // Creates each directory separately, so that a link in a cloned
        // project cannot redirect them.
        if let Some(parent) = all.parent() {
            files::own_dir(parent)?;
        }
        files::private_dir(&all)?;
        let ignore = all.join(".gitignore");
        if files::read_private(&ignore, 64, Access::Plain).ok().as_deref() != Some(IGNORE) {
            files::write_volatile(&ignore, IGNORE)?;
        }
        let path = all.join(folder_name(&agent.id()));
        let mut outbox = Self::at(path, key)?;
        outbox.answers = Some(files::open_private_dir(&outbox.replies())?);
        files::write_private(&outbox.path.join(KEY), outbox.key.hex().as_bytes())?;
        Ok(outbox)
    }

    /// For a process of the agent: opens the outbox that the node created.
    pub fn open(path: &Path) -> Result<Self, SpoolError> {
        let bytes = files::read_private(&path.join(KEY), 128, Access::Secret)?;
        let damaged = || FileError::io(&path.join(KEY), "read", io::Error::other("this is no key"));
        let key = Key::parse(&bytes).ok_or_else(damaged)?;
        Self::at(path.to_owned(), key)
    }

    fn at(path: PathBuf, key: Key) -> Result<Self, SpoolError> {
        let spool = Spool::open_strict(&path)?;
        Ok(Self { path, key, spool, answers: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Writes a call; it is on disk when this returns `Ok`.
    pub fn put(&self, call: &[u8]) -> Result<SpoolId, SpoolError> {
        let mut bytes = self.key.code(Kind::Call, call).to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend(call);
        self.spool.put(&bytes)
    }

    /// Returns the call in a file, if its code is right.
    pub fn unseal<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (code, call) = (bytes.get(..64)?, bytes.get(65..)?);
        (bytes[64] == b'\n' && self.key.fits(Kind::Call, call, code)).then_some(call)
    }

    /// Whether an answer to this call exists, finished or not.
    pub fn is_begun(&self, id: &str) -> bool {
        let Some(answers) = &self.answers else { return false };
        rustix::fs::statat(answers, reply_name(id), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Starts an answer; an earlier one for the same call is replaced.
    pub fn begin(&self, id: &str) -> Result<Answering, FileError> {
        let (path, name) = (self.reply_path(id), reply_name(id));
        let absent = || FileError::io(&path, "create", io::Error::other("only the node writes answers"));
        let answers = self.answers.as_ref().ok_or_else(absent)?;
        match rustix::fs::unlinkat(answers, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(FileError::io(&path, "remove", errno)),
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(answers, &name, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(opened.map_err(|errno| FileError::io(&path, "create", errno))?);
        Ok(Answering { file, key: self.key.clone(), bytes: 0 })
    }

    /// Returns a reader for an answer that is still being written.
    pub fn reader(&self, id: &str) -> Reader {
        Reader { path: self.reply_path(id), key: self.key.clone(), offset: 0, rest: Vec::new() }
    }

    /// Removes answers that nobody has fetched.
    pub fn sweep(&self) {
        const FETCHED_WITHIN_S: u64 = 3600;
        let now_s = files::now_s();
        let Some(answers) = &self.answers else { return };
        let Ok(entries) = rustix::fs::Dir::read_from(answers) else { return };
        for entry in entries.flatten().filter(|entry| is_reply_name(entry.file_name().to_bytes())) {
            let stat = rustix::fs::statat(answers, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| files::is_older(&stat, now_s, FETCHED_WITHIN_S)) {
                let _ = rustix::fs::unlinkat(answers, entry.file_name(), AtFlags::empty());
            }
        }
    }

    fn replies(&self) -> PathBuf {
        self.path.join("replies")
    }

    fn reply_path(&self, id: &str) -> PathBuf {
        self.replies().join(reply_name(id))
    }
}

fn reply_name(id: &str) -> String {
    format!("{id}.json")
}

fn is_reply_name(name: &[u8]) -> bool {
    let id = name.strip_suffix(b".json").unwrap_or_default();
    id.len() == 32 && id.iter().all(u8::is_ascii_hexdigit)
}

/// Finds the outbox of an agent for one of its processes: the named one, or one in
/// this folder or a parent.
pub fn find(named: Option<&Path>, folder: &Path, agent: &AgentId) -> Option<PathBuf> {
    let is_one = |path: &PathBuf| rustix::fs::lstat(path.join(KEY)).is_ok();
    let above = folder.ancestors().map(|dir| place(dir, agent));
    named.map(Path::to_owned).into_iter().chain(above).find(is_one)
}

/// Returns an unused id.
pub fn fresh_id() -> io::Result<String> {
    files::random_hex::<16>()
}

/// An answer that is being written.
#[derive(Debug)]
pub struct Answering {
    file: File,
    key: Key,
    bytes: usize,
}

impl Answering {
    /// The size limit of an answer; the reader of a longer one asks again.
    pub const BYTES_MAX: usize = 64 << 20;

    /// Appends a frame; `false` if nobody reads any more, or the answer is too long.
    pub fn add(&mut self, frame: &[u8]) -> io::Result<bool> {
        let mut line = self.key.code(Kind::Answer, frame).to_string().into_bytes();
        line.push(b' ');
        line.extend(frame);
        line.push(b'\n');
        self.bytes += line.len();
        if !self.is_wanted() || self.bytes > Self::BYTES_MAX {
            return Ok(false);
        }
        self.file.write_all(&line)?;
        Ok(true)
    }

    /// Whether the reader still wants more; it removes the file when it has read enough.
    pub fn is_wanted(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink > 0)
    }
}

/// Reads one answer; removes the file when it has read enough.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    key: Key,
    offset: u64,
    rest: Vec<u8>,
}

impl Reader {
    /// Returns the new frames. Fails if the file is not what our node wrote.
    pub fn news(&mut self) -> Result<Vec<Vec<u8>>, FileError> {
        let failed = |e: io::Error| FileError::io(&self.path, "read", e);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) if self.offset == 0 => return Ok(Vec::new()),
            Err(errno) => return Err(failed(errno.into())),
        };
        files::check_open(&file, Access::Secret, &self.path)?;
        if file.metadata().map_err(failed)?.len() < self.offset {
            return Err(failed(io::Error::other("it was begun anew")));
        }
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let left = (Answering::BYTES_MAX as u64 + 1).saturating_sub(self.offset);
        let got = file.take(left).read_to_end(&mut self.rest).map_err(failed)?;
        self.offset += got as u64;
        let mut frames = Vec::new();
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let whole = line.len() > 66 && line[64] == b' ';
            if !whole || !self.key.fits(Kind::Answer, &line[65..end], &line[..64]) {
                return Err(FileError::io(&self.path, "believe", io::Error::other("its code is wrong")));
            }
            frames.push(line[65..end].to_vec());
        }
        Ok(frames)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Key {
    fn load_or_make(path: &Path) -> Result<Self, FileError> {
        let read = |path: &Path| match files::read_private(path, 128, Access::Secret) {
            Ok(bytes) => Ok(Self::parse(&bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        };
        if let Some(key) = read(path)? {
            return Ok(key);
        }
        let fresh = files::random_hex::<32>().map_err(|e| FileError::io(path, "make", e))?;
        files::write_private(path, fresh.as_bytes())?;
        let lost = || FileError::io(path, "read", io::Error::other("it changed meanwhile"));
        read(path)?.ok_or_else(lost)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        Hash::parse(std::str::from_utf8(bytes).ok()?.trim_end()).map(|hash| Self(hash.0))
    }

    fn hex(&self) -> String {
        Hash(self.0).to_string()
    }

    fn code(&self, kind: Kind, bytes: &[u8]) -> Hash {
        let purpose: &[u8] = match kind {
            Kind::Call => b"synapse outbox call\n",
            Kind::Answer => b"synapse outbox answer\n",
        };
        hmac(&self.0, &[purpose, bytes])
    }

    /// Compares in constant time.
    fn fits(&self, kind: Kind, bytes: &[u8], code: &[u8]) -> bool {
        let right = self.code(kind, bytes).to_string();
        let differences = right.as_bytes().iter().zip(code).fold(0, |all, (a, b)| all | (a ^ b));
        code.len() == right.len() && std::hint::black_box(differences) == 0
    }
}

/// HMAC-SHA256 (RFC 2104) under a key of at most one block.
fn hmac(key: &[u8], pieces: &[&[u8]]) -> Hash {
    const BLOCK: usize = 64;
    let mut padded = [0u8; BLOCK];
    padded[..key.len()].copy_from_slice(key);
    let keyed = |pad: u8| Sha256::new_with_prefix(padded.map(|byte| byte ^ pad));
    let mut inner = keyed(0x36);
    pieces.iter().for_each(|piece| inner.update(piece));
    let mut outer = keyed(0x5c);
    outer.update(inner.finalize());
    Hash(outer.finalize().into())
}

/// Returns the path of the outbox of an agent that works in this folder.
pub fn place(folder: &Path, agent: &AgentId) -> PathBuf {
    folder.join(FOLDER).join(folder_name(agent))
}

/// Shortened, so that paths stay short; agents with the same prefix would fail each other's checks.
fn folder_name(agent: &AgentId) -> String {
    agent.to_string().chars().take(16).collect()
}

const KEY: &str = "key";
const IGNORE: &[u8] = b"*\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, cases 1, 2 and 3 (keys of at most one block).
    #[test]
    fn codes_are_those_of_the_standard() {
        let table: [(&[u8], &[u8], &str); 3] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
        ];
        for (key, text, code) in table {
            assert_eq!(hmac(key, &[text]).to_string(), code);
            let (a, b) = text.split_at(3);
            assert_eq!(hmac(key, &[a, b]).to_string(), code, "in pieces");
        }
    }

    #[test]
    fn a_code_fits_its_bytes_its_key_and_its_kind_only() {
        let key = Key([7; 32]);
        let code = key.code(Kind::Call, b"text").to_string();
        assert!(key.fits(Kind::Call, b"text", code.as_bytes()));
        assert!(!key.fits(Kind::Call, b"texT", code.as_bytes()));
        assert!(!key.fits(Kind::Answer, b"text", code.as_bytes()));
        assert!(!Key([8; 32]).fits(Kind::Call, b"text", code.as_bytes()));
        assert!(!key.fits(Kind::Call, b"text", &code.as_bytes()[..63]));
        assert!(!key.fits(Kind::Call, b"text", b""));
        assert_eq!(format!("{key:?}"), "Key(..)");
    }

    /// A process of the agent can write here, and must not redirect the node.
    #[test]
    fn link_in_place_of_the_answers_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let (work, elsewhere) = (root.path().join("work"), root.path().join("elsewhere"));
        let home = crate::home::Home::at(root.path().join("home"), root.path().join("registry"));
        let agent = home.agent(&AgentId::from_bytes([7; 32]));
        for dir in [&work, &elsewhere] {
            std::fs::create_dir(dir).unwrap();
        }
        files::private_dir(agent.path()).unwrap();
        let outbox = Outbox::make(&work, &agent).unwrap();
        let id = fresh_id().unwrap();
        let (theirs, ours) = (elsewhere.join("id_ed25519"), elsewhere.join(reply_name(&id)));
        for (file, of) in [(&theirs, "key"), (&ours, "answer")] {
            std::fs::write(file, of).unwrap();
            let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
            File::options().write(true).open(file).unwrap().set_modified(long_ago).unwrap();
        }
        std::fs::rename(outbox.replies(), outbox.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, outbox.replies()).unwrap();
        outbox.sweep();
        assert!(!outbox.is_begun(&id));
        drop(outbox.begin(&id).unwrap());
        assert!(outbox.is_begun(&id) && outbox.path().join("moved").join(reply_name(&id)).exists());
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "key");
        assert_eq!(std::fs::read_to_string(&ours).unwrap(), "answer");
    }

    #[test]
    fn only_answers_are_swept() {
        assert!(is_reply_name(b"00112233445566778899aabbccddeeff.json"));
        for other in ["", ".json", "..", "key", "0011.json", "00112233445566778899aabbccddeeff", "x.json"] {
            assert!(!is_reply_name(other.as_bytes()), "{other}");
        }
    }
}
