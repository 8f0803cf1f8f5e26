//! Tokens: secrets that authenticate a caller on TCP as this user, or as one of this user's agents.
//!
//! One for the user and one for each agent, created when first needed and kept until rotated.
//! Everyone who can read the file may act as its owner, so it is refused if anyone else could have
//! read or written it. Of a replaced token only the hash is kept, beside it in `token.old`, with
//! the time until which it is still accepted.
//!
//! Invariant: of any number of processes that create it at once, all get the same one.
//! Not here: comparing it with a caller's secret, which must take constant time.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use sha2::{Digest as _, Sha256};
use synapse_core::ids::AgentId;

use crate::files::{self, Access, FileError};
use crate::home::{AgentDir, Home};

/// A secret: 64 hex digits, after the id of its agent if it belongs to one.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<str>);

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("there is no token at {} yet; the first agent that starts makes one", .path.display())]
    Missing { path: PathBuf },
    #[error(
        "the token in {} is damaged; remove it, a new one is made at the next start, \
         and restart the agents that run: `rm {0}`", .path.display()
    )]
    Damaged { path: PathBuf },
    #[error("another process is rotating {}; try again in a moment", .path.display())]
    Rotating { path: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Token {
    /// Loads the user's token.
    pub fn load(home: &Home) -> Result<Self, TokenError> {
        TokenFile::of_user(home).load()
    }

    /// Loads the user's token, or creates it on first use.
    pub fn load_or_make(home: &Home) -> Result<Self, TokenError> {
        TokenFile::of_user(home).load_or_make()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn digest(&self) -> [u8; 32] {
        digest_of(self.0.as_bytes())
    }

    /// Returns the agent whose token this could be, judging by its format alone.
    pub fn claims(given: &[u8]) -> Option<AgentId> {
        let (id, rest) = std::str::from_utf8(given).ok()?.split_once(BETWEEN)?;
        is_secret(rest).then(|| AgentId::parse(id).ok()).flatten()
    }

    fn parse(bytes: &[u8], owner: Option<AgentId>) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        let fits = match owner {
            None => is_secret(text),
            Some(owner) => Self::claims(text.as_bytes()) == Some(owner),
        };
        fits.then(|| Self(text.into()))
    }
}

/// Returns the hash that is compared and stored instead of a secret.
pub fn digest_of(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The token file of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
    owner: Option<AgentId>,
}

/// The hash of a replaced token, and until when it is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    pub digest: [u8; 32],
    pub until_ms: u64,
}

impl TokenFile {
    /// How many replaced tokens are kept.
    pub const REPLACED_MAX: usize = 8;

    pub fn of_user(home: &Home) -> Self {
        Self { path: home.token_file(), owner: None }
    }

    pub fn of_agent(dir: &AgentDir) -> Self {
        Self { path: dir.token(), owner: Some(dir.id()) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file with replaced tokens.
    pub fn old_path(&self) -> PathBuf {
        self.path.with_extension("old")
    }

    pub fn load(&self) -> Result<Token, TokenError> {
        self.read()?.ok_or_else(|| TokenError::Missing { path: self.path.clone() })
    }

    /// Loads the token, or creates it on first use.
    pub fn load_or_make(&self) -> Result<Token, TokenError> {
        if let Some(token) = self.read()? {
            return Ok(token);
        }
        files::private_dir(self.path.parent().unwrap_or(Path::new("/")))?;
        let fresh = self.fresh()?;
        if files::create_private(&self.path, fresh.0.as_bytes())? {
            return Ok(fresh);
        }
        // Another process was faster; use its token.
        self.load()
    }

    /// Replaces the token. The previous one is accepted until `now_ms + overlap_ms`.
    pub fn rotate(&self, now_ms: u64, overlap_ms: u64) -> Result<(), TokenError> {
        files::private_dir(self.path.parent().unwrap_or(Path::new("/")))?;
        let _lock = self.lock()?;
        if let Some(token) = self.read()? {
            let digest = token.digest();
            let mut replaced = self.replaced()?;
            replaced.retain(|old| old.digest != digest);
            replaced.push(Replaced { digest, until_ms: now_ms.saturating_add(overlap_ms) });
            let surplus = replaced.len().saturating_sub(Self::REPLACED_MAX);
            // Written first: if the process dies in between, the current token stays valid.
            files::write_private(&self.old_path(), text_of(&replaced[surplus..]).as_bytes())?;
        }
        Ok(files::write_private(&self.path, self.fresh()?.0.as_bytes())?)
    }

    /// Returns the replaced tokens, latest last, whether still accepted or not.
    pub fn replaced(&self) -> Result<Vec<Replaced>, TokenError> {
        let path = self.old_path();
        match files::read_private(&path, OLD_BYTES_MAX, Access::Secret) {
            Ok(bytes) => parse_replaced(&bytes).ok_or(TokenError::Damaged { path }),
            Err(error) if error.is_missing() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self) -> Result<Option<Token>, TokenError> {
        match files::read_private(&self.path, BYTES_MAX, Access::Secret) {
            Ok(bytes) => {
                let damaged = || TokenError::Damaged { path: self.path.clone() };
                Token::parse(&bytes, self.owner).ok_or_else(damaged).map(Some)
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn fresh(&self) -> Result<Token, TokenError> {
        let secret = files::random_hex::<32>().map_err(|error| FileError::io(&self.path, "make", error))?;
        let owner = self.owner.map_or_else(String::new, |id| format!("{id}{BETWEEN}"));
        Ok(Token(format!("{owner}{secret}").into()))
    }

    /// Locks the file: concurrent rotations would each overwrite the other's new token.
    fn lock(&self) -> Result<std::fs::File, TokenError> {
        const PATIENCE: Duration = Duration::from_secs(2);
        let path = self.path.with_extension("lock");
        let io = |doing, errno: rustix::io::Errno| TokenError::from(FileError::io(&path, doing, errno));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| io("open", errno))?;
        let began = Instant::now();
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file.into()),
                Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(TokenError::Rotating { path: self.path.clone() });
                }
                Err(errno) => return Err(io("lock", errno)),
            }
        }
    }
}

fn is_secret(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes one line per token: the hash, and until when it is accepted.
fn text_of(replaced: &[Replaced]) -> String {
    replaced.iter().fold(String::new(), |mut text, old| {
        let _ = writeln!(text, "{} {}", AgentId::from_bytes(old.digest), old.until_ms);
        text
    })
}

fn parse_replaced(bytes: &[u8]) -> Option<Vec<Replaced>> {
    let lines = std::str::from_utf8(bytes).ok()?.lines().take(TokenFile::REPLACED_MAX);
    lines
        .map(|line| {
            let (hex, until) = line.split_once(' ')?;
            // `AgentId` parses the hash, because it has the same format: 32 bytes in hex.
            let digest = AgentId::parse(hex).ok()?.to_bytes();
            Some(Replaced { digest, until_ms: until.parse().ok()? })
        })
        .collect()
}

const DIGITS: usize = 64;
const BETWEEN: char = '.';
/// More than the digits: a person may have added a line break.
const BYTES_MAX: usize = 256;
const OLD_BYTES_MAX: usize = 1024;
