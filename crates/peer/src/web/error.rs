//! Why a call to somewhere on the web came to nothing, in words: what happened, why, what helps.

use super::target::TargetFault;
use std::time::Duration;

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Name,
    Connection,
    Answer,
    /// The next piece of an answer that had begun.
    Piece,
}

impl Wait {
    fn words(self) -> &'static str {
        match self {
            Self::Name => "its name was not found",
            Self::Connection => "there was no connection",
            Self::Answer => "there was no whole answer",
            Self::Piece => "nothing more came",
        }
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum WebError {
    /// Nothing was sent.
    #[error("the URL is not called: {0}")]
    Target(#[from] TargetFault),
    /// What we were to send cannot be sent; nobody was called.
    #[error("the request cannot be sent: {why}")]
    Request { why: String },
    #[error("{host} has no address: {why}; check the name")]
    NoSuchName { host: String, why: String },
    #[error("{host} cannot be reached: {why}; check that it runs and that no firewall is between")]
    Unreachable { host: String, why: String },
    #[error("{why}")]
    Untrusted { host: String, code: &'static str, why: String },
    #[error("{host}: {} within {} s; it may be overloaded", .wait.words(), .after.as_secs_f32())]
    Slow { host: String, wait: Wait, after: Duration },
    #[error(
        "{host} closed the connection before its answer was whole ({why}); whether it did anything is unknown"
    )]
    Dropped { host: String, why: String },
    #[error("{host} does not answer in HTTP ({why}); check scheme and port")]
    NotHttp { host: String, why: String },
    #[error("the answer of {host} is larger than {bytes_max} bytes; the rest was not read")]
    TooLarge { host: String, bytes_max: usize },
    #[error("the head of the answer of {host} is too large")]
    HeadTooLarge { host: String },
    /// It is for the caller to ask again there, after a look at the place.
    #[error("{host} sends callers elsewhere (status {status}), which is not followed; use the final URL")]
    Redirected { host: String, status: u16, to: Option<String> },
    #[error("{host} answered with status {status}")]
    Answered { host: String, status: u16 },
}

impl WebError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Target(fault) => fault.code(),
            Self::Request { .. } => "request_invalid",
            Self::NoSuchName { .. } => "no_such_name",
            Self::Unreachable { .. } => "unreachable",
            Self::Untrusted { code, .. } => code,
            Self::Slow { .. } => "timeout",
            Self::Dropped { .. } => "dropped",
            Self::NotHttp { .. } => "not_http",
            Self::TooLarge { .. } | Self::HeadTooLarge { .. } => "too_large",
            Self::Redirected { .. } => "redirect_refused",
            Self::Answered { .. } => "status",
        }
    }

    /// Whether the same call may work later with nobody changing the URL.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NoSuchName { .. } | Self::Unreachable { .. } | Self::Slow { .. } | Self::Dropped { .. } => {
                true
            }
            // Certificates are renewed, and servers are put right.
            Self::Untrusted { .. } | Self::NotHttp { .. } => true,
            Self::Answered { status, .. } => matches!(status, 408 | 425 | 429 | 500..),
            Self::Target(_) | Self::Request { .. } | Self::Redirected { .. } => false,
            Self::TooLarge { .. } | Self::HeadTooLarge { .. } => false,
        }
    }
}
