//! What can go wrong with an A2A request: one table, three forms (checklist 1; J7–J9, H6–H7, R5).
//!
//! Each fault has its code in JSON-RPC, HTTP and gRPC, and a reason for programs. Where one field is at fault, it is
//! named. Not here: what a refusal of the core means in other dialects (`synapse-dialects`).

use serde_json::{Value, json};
use synapse_core::Refusal;
use synapse_dialects::error::retry_after_s;

/// Why a request is not served, worded for whoever sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub kind: Kind,
    pub message: String,
    /// The field at fault.
    pub field: Option<String>,
    /// When it may be tried again.
    pub retry_after_s: Option<u64>,
}

/// The rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    TaskNotFound,
    TaskNotCancelable,
    PushNotSupported,
    Unsupported,
    ContentType,
    BadAgentAnswer,
    NoExtendedCard,
    ExtensionRequired,
    Version,
    Parse,
    Request,
    Method,
    Params,
    Internal,
    Unauthenticated,
    Denied,
    TooLarge,
    TooMany,
    Stopping,
}

/// One row: what a kind is called on each wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes {
    pub json_rpc: i32,
    pub http: u16,
    /// The number and the name of the gRPC status.
    pub grpc: (i32, &'static str),
    pub reason: &'static str,
}

/// Whose reasons these are.
pub const DOMAIN: &str = "a2a-protocol.org";

const INVALID_ARGUMENT: (i32, &str) = (3, "INVALID_ARGUMENT");
const NOT_FOUND: (i32, &str) = (5, "NOT_FOUND");
const PERMISSION_DENIED: (i32, &str) = (7, "PERMISSION_DENIED");
const RESOURCE_EXHAUSTED: (i32, &str) = (8, "RESOURCE_EXHAUSTED");
const FAILED_PRECONDITION: (i32, &str) = (9, "FAILED_PRECONDITION");
const UNIMPLEMENTED: (i32, &str) = (12, "UNIMPLEMENTED");
const INTERNAL: (i32, &str) = (13, "INTERNAL");
const UNAVAILABLE: (i32, &str) = (14, "UNAVAILABLE");
const UNAUTHENTICATED: (i32, &str) = (16, "UNAUTHENTICATED");

impl Kind {
    pub const ALL: [Self; 19] = [
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::PushNotSupported,
        Self::Unsupported,
        Self::ContentType,
        Self::BadAgentAnswer,
        Self::NoExtendedCard,
        Self::ExtensionRequired,
        Self::Version,
        Self::Parse,
        Self::Request,
        Self::Method,
        Self::Params,
        Self::Internal,
        Self::Unauthenticated,
        Self::Denied,
        Self::TooLarge,
        Self::TooMany,
        Self::Stopping,
    ];

    // tidy: table
    pub fn codes(self) -> Codes {
        let row = |json_rpc, http, grpc, reason| Codes { json_rpc, http, grpc, reason };
        match self {
            Self::TaskNotFound => row(-32001, 404, NOT_FOUND, "TASK_NOT_FOUND"),
            Self::TaskNotCancelable => row(-32002, 400, FAILED_PRECONDITION, "TASK_NOT_CANCELABLE"),
            Self::PushNotSupported => {
                row(-32003, 400, FAILED_PRECONDITION, "PUSH_NOTIFICATION_NOT_SUPPORTED")
            }
            Self::Unsupported => row(-32004, 400, FAILED_PRECONDITION, "UNSUPPORTED_OPERATION"),
            Self::ContentType => row(-32005, 400, INVALID_ARGUMENT, "CONTENT_TYPE_NOT_SUPPORTED"),
            Self::BadAgentAnswer => row(-32006, 500, INTERNAL, "INVALID_AGENT_RESPONSE"),
            Self::NoExtendedCard => {
                row(-32007, 400, FAILED_PRECONDITION, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
            }
            Self::ExtensionRequired => row(-32008, 400, FAILED_PRECONDITION, "EXTENSION_SUPPORT_REQUIRED"),
            Self::Version => row(-32009, 400, FAILED_PRECONDITION, "VERSION_NOT_SUPPORTED"),
            Self::Parse => row(-32700, 400, INVALID_ARGUMENT, "JSON_PARSE_ERROR"),
            Self::Request => row(-32600, 400, INVALID_ARGUMENT, "INVALID_REQUEST"),
            Self::Method => row(-32601, 404, UNIMPLEMENTED, "METHOD_NOT_FOUND"),
            Self::Params => row(-32602, 400, INVALID_ARGUMENT, "INVALID_PARAMS"),
            Self::Internal => row(-32603, 500, INTERNAL, "INTERNAL_ERROR"),
            Self::Unauthenticated => row(-32010, 401, UNAUTHENTICATED, "UNAUTHENTICATED"),
            Self::Denied => row(-32011, 403, PERMISSION_DENIED, "PERMISSION_DENIED"),
            Self::TooLarge => row(-32012, 413, RESOURCE_EXHAUSTED, "TOO_LARGE"),
            Self::TooMany => row(-32013, 429, RESOURCE_EXHAUSTED, "RATE_LIMITED"),
            Self::Stopping => row(-32014, 503, UNAVAILABLE, "UNAVAILABLE"),
        }
    }
}

impl Fault {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), field: None, retry_after_s: None }
    }

    /// A field of the request is at fault.
    pub fn params(field: impl Into<String>, why: impl AsRef<str>) -> Self {
        let field = field.into();
        let message = format!("{field}: {}", why.as_ref());
        Self { field: Some(field), ..Self::new(Kind::Params, message) }
    }

    pub fn no_such_task(id: &str) -> Self {
        let message = format!("there is no task {id:?}, or it is not yours to see");
        Self::new(Kind::TaskNotFound, message)
    }

    /// As the core refused it.
    // tidy: table
    pub fn of(refusal: &Refusal) -> Self {
        let kind = match refusal {
            Refusal::BadField { .. }
            | Refusal::Conflict { .. }
            | Refusal::NoSuchAgent { .. }
            | Refusal::Ambiguous { .. }
            | Refusal::HandleMoved { .. }
            | Refusal::NameTaken { .. }
            | Refusal::AmbiguousTask { .. } => Kind::Params,
            Refusal::NoSuchTask { .. } | Refusal::NoSuchMessage { .. } => Kind::TaskNotFound,
            Refusal::TaskEnded { .. } | Refusal::NotNow { .. } | Refusal::NotPressed { .. } => {
                Kind::Unsupported
            }
            Refusal::NotProven { .. } => Kind::Unauthenticated,
            Refusal::NotAllowed { .. } | Refusal::AddressRefused { .. } => Kind::Denied,
            Refusal::TooLarge { .. } => Kind::TooLarge,
            Refusal::MailboxFull { .. }
            | Refusal::TooManyGuesses { .. }
            | Refusal::ChainTooLong { .. }
            | Refusal::TooFast { .. }
            | Refusal::NoProgress { .. }
            | Refusal::TooManyTasks { .. }
            | Refusal::TooManyFollowers { .. }
            | Refusal::AnswersUnread
            | Refusal::Busy => Kind::TooMany,
            Refusal::SystemLimit { .. } | Refusal::Stopping => Kind::Stopping,
            Refusal::NotStored { .. } => Kind::Internal,
        };
        let field = match refusal {
            Refusal::BadField { field, .. } => Some(field.clone()),
            _ => None,
        };
        Self { kind, message: refusal.to_string(), field, retry_after_s: retry_after_s(refusal) }
    }

    /// What follows the message in every binding: objects that say of which type they are.
    pub fn details(&self) -> Value {
        let codes = self.kind.codes();
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": codes.reason,
            "domain": DOMAIN,
        });
        if let Some(seconds) = self.retry_after_s {
            info["metadata"] = json!({ "retryAfterSeconds": seconds.to_string() });
        }
        let mut details = vec![info];
        if let Some(field) = &self.field {
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{ "field": field, "description": self.message }],
            }));
        }
        Value::Array(details)
    }

    /// The `error` of a JSON-RPC answer (J7).
    pub fn json_rpc(&self) -> Value {
        json!({ "code": self.kind.codes().json_rpc, "message": self.message, "data": self.details() })
    }

    /// The body of an HTTP+JSON answer (H6).
    pub fn http(&self) -> Value {
        let codes = self.kind.codes();
        json!({ "error": {
            "code": codes.http,
            "status": codes.grpc.1,
            "message": self.message,
            "details": self.details(),
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E1, J8, H7: no code or reason stands for two things, and every form carries it.
    #[test]
    fn every_kind_has_its_own_codes_in_every_form() {
        let mut codes: Vec<i32> = Kind::ALL.iter().map(|kind| kind.codes().json_rpc).collect();
        let mut reasons: Vec<&str> = Kind::ALL.iter().map(|kind| kind.codes().reason).collect();
        codes.sort_unstable();
        codes.dedup();
        reasons.sort_unstable();
        reasons.dedup();
        assert_eq!((codes.len(), reasons.len()), (Kind::ALL.len(), Kind::ALL.len()));
        for kind in Kind::ALL {
            let (fault, row) = (Fault::new(kind, "why"), kind.codes());
            let rpc = fault.json_rpc();
            assert_eq!(rpc["code"], row.json_rpc);
            assert_eq!(rpc["data"][0]["reason"], row.reason);
            assert_eq!(rpc["data"][0]["domain"], DOMAIN);
            let http = fault.http();
            assert_eq!(http["error"]["code"], row.http);
            assert_eq!(http["error"]["status"], row.grpc.1);
            assert_eq!(http["error"]["details"], rpc["data"]);
        }
    }

    /// E6: the field at fault is named.
    #[test]
    fn the_field_at_fault_is_named() {
        let fault = Fault::params("message.parts", "at least one is needed");
        let details = fault.details();
        assert_eq!(details[1]["fieldViolations"][0]["field"], "message.parts");
        let fault = Fault::of(&Refusal::bad_field("priority", "it must be 1 to 5"));
        assert_eq!((fault.kind, fault.field.as_deref()), (Kind::Params, Some("priority")));
    }

    /// E17: who is too fast learns when to come back.
    #[test]
    fn the_time_to_come_back_is_told() {
        let fault = Fault::of(&Refusal::TooFast { to: "echo".into(), max: 60, retry_after_ms: 1_200 });
        assert_eq!((fault.kind, fault.retry_after_s), (Kind::TooMany, Some(2)));
        assert_eq!(fault.details()[0]["metadata"]["retryAfterSeconds"], "2");
    }
}
