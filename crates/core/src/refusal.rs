//! Refusal: the only error that callers see. Every variant is one that the caller can act on.
//!
//! The text is written for the caller: what failed, why, and what helps. `code` is
//! stable; doors translate it.
//! Not here: error codes of any wire (`synapse-dialects`).

use crate::ids::{BadId, MessageId};
use crate::routes::Choice;
use crate::task::TaskState;

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    #[error("no agent is called {target:?}{}{}", if *renamed { " any more" } else { "" }, did_you_mean(nearest))]
    NoSuchAgent {
        target: String,
        nearest: Vec<String>,
        /// The nearest ones had this name before they were renamed.
        renamed: bool,
    },
    #[error("{target:?} could mean {}; use one of these", or_list(choices.iter().map(|choice| &*choice.target)))]
    Ambiguous { target: String, choices: Vec<Choice> },
    #[error("{target:?} was {was}, but its port now belongs to {now}; name the one you mean")]
    HandleMoved { target: String, was: String, now: String },
    #[error("the name {name} is taken by {by}; choose another name, or rename that one first")]
    NameTaken { name: String, by: String },
    #[error("{agent} already has {waiting} messages waiting, the most it may; retry when it has read some")]
    MailboxFull { agent: String, waiting: usize },
    #[error("{field}: {why}")]
    BadField { field: String, why: String },
    #[error("the message has {bytes} bytes, more than the {max} allowed; send a file or a shorter text")]
    TooLarge { bytes: usize, max: usize },
    #[error("message id {message} was already used for another content; use a new id")]
    Conflict { message: MessageId },
    #[error("unknown task {task:?}; `synapse history` lists messages and their tasks")]
    NoSuchTask { task: String },
    #[error("{task:?} could be several tasks; use more digits of the id")]
    AmbiguousTask { task: String },
    #[error("no message {message:?} is known here")]
    NoSuchMessage { message: String },
    #[error("task {task} is already {}; send a new message instead", state.name())]
    TaskEnded { task: String, state: TaskState },
    #[error("task {task} is {}, which does not allow this", state.name())]
    NotNow { task: String, state: TaskState },
    #[error("{who} may not {verb}; it needs {need}")]
    NotAllowed { who: String, verb: &'static str, need: &'static str },
    #[error(
        "{why}; use the Unix socket, or a secret as `Authorization: Bearer …`; the user's is in ~/.synapse/token"
    )]
    NotProven { why: String },
    #[error("{limit}, so the caller cannot be identified; retry in a moment")]
    SystemLimit { limit: String },
    #[error("{address} may not call; `network.allow` in the user's settings lists who may")]
    AddressRefused { address: String },
    #[error("too many wrong secrets from {address}; retry in {} s", retry_after_ms.div_ceil(1000))]
    TooManyGuesses { address: String, retry_after_ms: u64 },
    #[error(
        "this message is the {hops}th in a chain of causes, beyond the limit of {max}; a person must go on from here"
    )]
    ChainTooLong { hops: u8, max: u8 },
    #[error("more than {max} messages a minute to {to}; retry in {} s", retry_after_ms.div_ceil(1000))]
    TooFast { to: String, max: u32, retry_after_ms: u64 },
    #[error("the same text went to {to} {repeats} times within ten minutes; say something new, or stop")]
    NoProgress { to: String, repeats: u32 },
    #[error("too many open tasks ({max}); end some first")]
    TooManyTasks { max: usize },
    #[error("{who} already follows {max} streams of events here, the most it may; end some first")]
    TooManyFollowers { who: String, max: usize },
    #[error("large answers wait to be read by others, as many as may; retry when they have been read")]
    AnswersUnread,
    #[error("{why}")]
    NotPressed { why: String },
    #[error("too much is waiting to be stored; retry in a moment")]
    Busy,
    #[error("this node is stopping; retry in a moment")]
    Stopping,
    #[error("nothing was stored: {why}")]
    NotStored { why: String },
}

impl Refusal {
    /// Returns a stable name for programs.
    // tidy: table
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuchAgent { .. } => "no_such_agent",
            Self::Ambiguous { .. } => "ambiguous_target",
            Self::HandleMoved { .. } => "handle_moved",
            Self::NameTaken { .. } => "name_taken",
            Self::MailboxFull { .. } => "mailbox_full",
            Self::BadField { .. } => "bad_field",
            Self::TooLarge { .. } => "too_large",
            Self::Conflict { .. } => "conflict",
            Self::NoSuchTask { .. } => "no_such_task",
            Self::AmbiguousTask { .. } => "ambiguous_task",
            Self::NoSuchMessage { .. } => "no_such_message",
            Self::TaskEnded { .. } => "task_ended",
            Self::NotNow { .. } => "not_now",
            Self::NotAllowed { .. } => "not_allowed",
            Self::NotProven { .. } => "not_proven",
            Self::SystemLimit { .. } => "system_limit",
            Self::AddressRefused { .. } => "address_refused",
            Self::TooManyGuesses { .. } => "too_many_guesses",
            Self::ChainTooLong { .. } => "chain_too_long",
            Self::TooFast { .. } => "too_fast",
            Self::NoProgress { .. } => "no_progress",
            Self::TooManyTasks { .. } => "too_many_tasks",
            Self::TooManyFollowers { .. } => "too_many_followers",
            Self::AnswersUnread => "answers_unread",
            Self::NotPressed { .. } => "not_pressed",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            Self::NotStored { .. } => "not_stored",
        }
    }

    /// Whether the loop guard refused; the user is alerted then.
    pub fn is_trip(&self) -> bool {
        matches!(self, Self::ChainTooLong { .. } | Self::TooFast { .. } | Self::NoProgress { .. })
    }

    pub fn bad_field(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::BadField { field: field.into(), why: why.into() }
    }
}

impl From<BadId> for Refusal {
    fn from(bad: BadId) -> Self {
        Self::BadField { field: bad.what.to_owned(), why: bad.to_string() }
    }
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() {
        "; `synapse list` shows who is here".to_owned()
    } else {
        format!("; did you mean {}?", or_list(nearest.iter().map(String::as_str)))
    }
}

/// Joins the words: `a`, `a or b`, `a, b or c`.
fn or_list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
