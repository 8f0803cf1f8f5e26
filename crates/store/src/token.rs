//! The token: what proves to a door on TCP that a caller is this user.
//!
//! One per user, made when first needed and then kept; everyone who can read the file may speak for the
//! user, so it is refused if anyone else could have read or written it.
//!
//! Invariant: of any number of processes that make it at once, all get the same one.
//! Not here: comparing it with what a caller brings, which must take the same time for every guess.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::files::{self, Access, FileError};
use crate::home::Home;

/// The secret of one user: 64 hex digits.
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
    #[error(transparent)]
    File(#[from] FileError),
}

impl Token {
    pub fn load(home: &Home) -> Result<Self, TokenError> {
        let path = home.token_file();
        read(&path)?.ok_or(TokenError::Missing { path })
    }

    /// The token, made now if this is its first use.
    pub fn load_or_make(home: &Home) -> Result<Self, TokenError> {
        let path = home.token_file();
        if let Some(token) = read(&path)? {
            return Ok(token);
        }
        files::private_dir(home.root())?;
        let fresh = files::random_hex::<32>().map_err(|error| FileError::io(&path, "make", error))?;
        if files::create_private(&path, fresh.as_bytes())? {
            return Ok(Self(fresh.into()));
        }
        // Another process was faster; what is there now is the one.
        read(&path)?.ok_or(TokenError::Missing { path })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == DIGITS && is_hex).then(|| Self(text.into()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

fn read(path: &Path) -> Result<Option<Token>, TokenError> {
    match files::read_private(path, BYTES_MAX, Access::Secret) {
        Ok(bytes) => {
            let damaged = || TokenError::Damaged { path: path.to_owned() };
            Token::parse(&bytes).ok_or_else(damaged).map(Some)
        }
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

const DIGITS: usize = 64;
/// More than the digits: a person may have added a line break.
const BYTES_MAX: usize = 128;
