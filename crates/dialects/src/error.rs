//! Refusals on the wire: `{error: {code, message, details?}}` and an HTTP status (REST-7).

use serde::{Deserialize, Serialize};
use serde_json::json;
use synapse_core::Refusal;
use utoipa::ToSchema;

/// Why a request was refused, and what helps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorInfo {
    /// Stable, for programs.
    #[schema(example = "no_such_agent")]
    pub code: String,
    /// For people: what happened, why, and what helps.
    pub message: String,
    /// What the code leaves open: the field at fault, candidates, limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl From<&Refusal> for ErrorBody {
    fn from(refusal: &Refusal) -> Self {
        let info = ErrorInfo {
            code: refusal.code().into(),
            message: refusal.to_string(),
            details: details(refusal),
        };
        Self { error: info }
    }
}

impl ErrorBody {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { error: ErrorInfo { code: code.into(), message: message.into(), details: None } }
    }
}

/// Returns the HTTP status. There is no `_` arm, so a new refusal does not compile without one.
// tidy: table
pub fn status(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::BadField { .. } => 400,
        Refusal::NotProven { .. } => 401,
        Refusal::NotAllowed { .. } | Refusal::AddressRefused { .. } => 403,
        Refusal::NoSuchAgent { .. } | Refusal::NoSuchTask { .. } | Refusal::NoSuchMessage { .. } => 404,
        Refusal::Ambiguous { .. } | Refusal::AmbiguousTask { .. } | Refusal::HandleMoved { .. } => 409,
        Refusal::Conflict { .. } | Refusal::TaskEnded { .. } | Refusal::NotNow { .. } => 409,
        Refusal::NameTaken { .. } | Refusal::NotPressed { .. } => 409,
        Refusal::TooLarge { .. } => 413,
        Refusal::MailboxFull { .. }
        | Refusal::TooFast { .. }
        | Refusal::TooManyTasks { .. }
        | Refusal::TooManyFollowers { .. }
        | Refusal::AnswersUnread
        | Refusal::TooManyGuesses { .. }
        | Refusal::Busy => 429,
        Refusal::ChainTooLong { .. } | Refusal::NoProgress { .. } => 429,
        Refusal::SystemLimit { .. } | Refusal::Stopping => 503,
        Refusal::NotStored { .. } => 507,
    }
}

/// Returns how long to wait before a retry, if a retry could help.
pub fn retry_after_s(refusal: &Refusal) -> Option<u64> {
    match refusal {
        Refusal::TooFast { retry_after_ms, .. } | Refusal::TooManyGuesses { retry_after_ms, .. } => {
            Some(retry_after_ms.div_ceil(1000))
        }
        Refusal::MailboxFull { .. } | Refusal::Busy | Refusal::Stopping | Refusal::SystemLimit { .. } => {
            Some(1)
        }
        _ => None,
    }
}

fn details(refusal: &Refusal) -> Option<serde_json::Value> {
    Some(match refusal {
        Refusal::BadField { field, .. } => json!({ "field": field }),
        Refusal::NoSuchAgent { target, nearest, renamed: false } => {
            json!({ "target": target, "nearest": nearest })
        }
        Refusal::NoSuchAgent { target, nearest, renamed: true } => {
            json!({ "target": target, "nearest": nearest, "renamed": true })
        }
        Refusal::NameTaken { name, by } => json!({ "name": name, "by": by }),
        Refusal::Ambiguous { target, choices } => {
            let candidates: Vec<&str> = choices.iter().map(|choice| &*choice.target).collect();
            json!({ "target": target, "candidates": candidates })
        }
        Refusal::HandleMoved { target, was, now } => json!({ "target": target, "was": was, "now": now }),
        Refusal::MailboxFull { agent, waiting } => json!({ "agent": agent, "waiting": waiting }),
        Refusal::TooLarge { bytes, max } => json!({ "bytes": bytes, "max": max }),
        Refusal::TaskEnded { task, state } | Refusal::NotNow { task, state } => {
            json!({ "task": task, "state": state.name() })
        }
        Refusal::TooFast { retry_after_ms, .. } | Refusal::TooManyGuesses { retry_after_ms, .. } => {
            json!({ "retry_after_ms": retry_after_ms })
        }
        Refusal::ChainTooLong { hops, max } => json!({ "hops": hops, "max": max }),
        _ => return None,
    })
}
