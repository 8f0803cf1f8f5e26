//! How a command fails: what happened, why, the command that helps, and an exit code that programs can use (CLI-9).

use synapse_core::Refusal;
use synapse_dialects::error::{ErrorBody, ErrorInfo};
use synapse_peer::CallError;
use synapse_store::spool::SpoolError;

/// Exit codes; stable.
pub const ERROR: u8 = 1;
pub const USAGE: u8 = 2;
pub const TASK_FAILED: u8 = 3;
pub const TIMED_OUT: u8 = 4;
pub const REFUSED: u8 = 5;
/// As in shells: a person pressed Ctrl-C.
pub const INTERRUPTED: u8 = 130;
/// As in shells: what is named is no program that may be run, or is not there.
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;

const TOO_LARGE: &str = "too_large";

#[derive(Debug)]
pub struct Fail {
    pub code: u8,
    pub info: ErrorInfo,
}

pub type Done = Result<(), Fail>;

impl Fail {
    pub fn new(code: u8, name: &str, message: impl Into<String>) -> Self {
        Self { code, info: ErrorBody::new(name, message).error }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, "usage", message)
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(REFUSED, "refused", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        let mut fail = Self::new(REFUSED, TOO_LARGE, message);
        fail.hint_at_files();
        fail
    }

    /// `--file` sends the text of a file, and so is no way out.
    fn hint_at_files(&mut self) {
        if self.info.code == TOO_LARGE {
            self.info.message.push_str("; or save it where the agent can read it, and send the path");
        }
    }

    /// Only an exit code: what ended has said itself why.
    pub fn ended(code: u8) -> Self {
        Self::new(code, "ended", "")
    }

    /// Written to standard error, as JSON if the command speaks JSON.
    pub fn tell(&self, json: bool) {
        if json {
            let body = ErrorBody { error: self.info.clone() };
            eprintln!("{}", serde_json::to_string(&body).unwrap_or_default());
            return;
        }
        if self.info.message.is_empty() {
            return;
        }
        let red = crate::show::paint_err("31;1", "error");
        let choices = self.info.details.as_ref().and_then(crate::agents::choices::shown);
        // A node elsewhere may have written it.
        let message = choices.unwrap_or_else(|| crate::show::safe(&self.info.message));
        eprintln!("{red}: {message}");
    }
}

impl From<anyhow::Error> for Fail {
    fn from(error: anyhow::Error) -> Self {
        Self::new(ERROR, "error", format!("{error:#}"))
    }
}

impl From<Refusal> for Fail {
    fn from(refusal: Refusal) -> Self {
        let code = if matches!(refusal, Refusal::BadField { .. }) { USAGE } else { REFUSED };
        let mut fail = Self { code, info: ErrorBody::from(&refusal).error };
        fail.hint_at_files();
        fail
    }
}

impl From<CallError> for Fail {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { status, info } => {
                let code = if status == 400 { USAGE } else { REFUSED };
                let mut fail = Self { code, info };
                fail.hint_at_files();
                fail
            }
            CallError::OtherVersion { why } => Self::new(ERROR, "other_version", why),
            CallError::Untrusted { code, why } => Self::new(ERROR, code, why),
            CallError::Unusable { why } => Self::usage(why),
            CallError::NotResponding { .. } => Self::new(ERROR, "not_responding", error.to_string()),
            other => Self::new(ERROR, "unreachable", other.to_string()),
        }
    }
}

impl From<SpoolError> for Fail {
    fn from(error: SpoolError) -> Self {
        match error {
            // As a node would refuse it.
            SpoolError::TooLarge { bytes, max } => Refusal::TooLarge { bytes, max }.into(),
            other => Self::new(ERROR, "error", other.to_string()),
        }
    }
}

impl From<synapse_settings::Faults> for Fail {
    fn from(faults: synapse_settings::Faults) -> Self {
        Self::new(USAGE, "settings", crate::show::safe(&faults.to_string()))
    }
}

macro_rules! fails_as_error {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Fail {
            fn from(error: $kind) -> Self {
                Self::new(ERROR, "error", error.to_string())
            }
        }
    )*};
}

fails_as_error!(
    std::io::Error,
    synapse_store::files::FileError,
    synapse_store::home::HomeError,
    synapse_store::known::KnownError
);
