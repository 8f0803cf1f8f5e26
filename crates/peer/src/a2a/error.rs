//! Why an agent elsewhere did not do what was asked: one error for all bindings and versions, and what helps (E1).

use super::card::Credential;
use crate::web::WebError;
use serde_json::Value;
use synapse_a2a::fault::{DOMAIN, Kind};
use synapse_a2a::grpc::Told;

#[derive(Debug, Clone, thiserror::Error)]
pub enum AskError {
    /// It answered in the words of the protocol, and said no.
    #[error("it says no: {message}{}", help(*.kind, .field.as_deref(), *.retry_after_s))]
    Refused {
        /// None for a code that the protocol does not have.
        kind: Option<Kind>,
        code: i64,
        message: String,
        field: Option<String>,
        retry_after_s: Option<u64>,
        /// The body named no error of the protocol: `kind` is a guess from the HTTP status.
        by_status: bool,
    },
    /// Nothing says who we are, or not to its liking.
    #[error("it does not let us in (status {status}): {}", wanted(*.had_secret, .wants))]
    NotLetIn { status: u16, had_secret: bool, wants: Credential },
    #[error(transparent)]
    Web(#[from] WebError),
    #[error("its answer was not understood: {why}; `synapse a2a show` tells what its card promises")]
    NotUnderstood { why: String },
    #[error("there is no agent card at {at}: {why}")]
    NoCard { at: String, why: String },
    #[error("{why}")]
    NotSpoken { why: String },
    /// Its card sends us to somebody else.
    #[error(
        "its card at {card} says to call {host}, which is another host; nothing was sent there. \
         If that is right, allow it: --allow-host {host}"
    )]
    OtherHost { card: String, host: String },
    /// What we were to show cannot be shown; nobody was called.
    #[error("{why}")]
    Unusable { why: String },
    #[error("{why}")]
    Distrusted { why: String },
    /// The stream ended before it said which task it tells of.
    #[error(
        "the connection broke before it said which task it had begun, so whether it has begun one is not known ({why}). \
         Sent again with `--message-id {message_id}`, a server that knows its messages takes it for the same"
    )]
    NotKnown { message_id: String, why: String },
    /// The task goes on; we do not hear of it any more.
    #[error(
        "the connection broke and {tries} tries to take it up again failed, the last one so: {why}. The task goes on"
    )]
    Lost { tries: u32, why: String },
}

impl AskError {
    /// It does not stream, whatever its card says; nothing has begun. A bare status 404 says so only for a message that
    /// names no task: otherwise the task may be what was not found.
    pub(super) fn refuses_stream(&self, names_task: bool) -> bool {
        let Self::Refused { kind, code, by_status, .. } = self else { return false };
        match (kind, code) {
            (Some(Kind::Unsupported | Kind::Method), _) => true,
            (None, 405 | 406 | 415) => true,
            (_, 501) => *by_status,
            (_, 404) => *by_status && !names_task,
            _ => false,
        }
    }

    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { kind: Some(kind), .. } => name_of(*kind),
            Self::Refused { kind: None, .. } => "refused",
            Self::NotLetIn { .. } => "not_let_in",
            Self::Web(error) => error.code(),
            Self::NotUnderstood { .. } => "not_understood",
            Self::NoCard { .. } => "no_card",
            Self::NotSpoken { .. } => "not_spoken",
            Self::OtherHost { .. } => "other_host",
            Self::Unusable { .. } => "usage",
            Self::Distrusted { .. } => "distrusted",
            Self::NotKnown { .. } => "not_known",
            Self::Lost { .. } => "lost",
        }
    }

    /// Whether the same question may be answered a moment later.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Web(error) => error.is_passing(),
            Self::Refused { kind, .. } => matches!(kind, Some(Kind::TooMany | Kind::Stopping)),
            _ => false,
        }
    }

    pub(super) fn is(&self, wanted: Kind) -> bool {
        matches!(self, Self::Refused { kind: Some(kind), .. } if *kind == wanted)
    }

    /// The `error` of JSON-RPC.
    pub(super) fn of_rpc(error: &Value) -> Self {
        let code = error["code"].as_i64().unwrap_or_default();
        Self::told(kind_of_rpc(code), code, words_of(error), &error["data"])
    }

    /// An error event of a stream over HTTP+JSON. The status of the answer was 200, so only the body counts.
    pub(super) fn of_http_event(event: &Value) -> Self {
        let status = event["error"]["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        let mut error = Self::of_http(status, event);
        if let Self::Refused { by_status, .. } = &mut error {
            *by_status = false;
        }
        error
    }

    /// The body of an answer of HTTP+JSON. In 1.0 it has `error`; 0.3 left it open, and servers send the code of JSON-RPC.
    pub(super) fn of_http(status: u16, body: &Value) -> Self {
        let error = body.get("error").filter(|error| error.is_object()).unwrap_or(body);
        let by_code = error["code"].as_i64().filter(|code| *code < 0).and_then(kind_of_rpc);
        let guess = match status {
            404 => Some(Kind::TaskNotFound),
            413 => Some(Kind::TooLarge),
            429 => Some(Kind::TooMany),
            503 => Some(Kind::Stopping),
            500.. => Some(Kind::Internal),
            _ => None,
        };
        let unnamed = format!("HTTP status {status}");
        let words = words_of(error).or_else(|| body["error"].as_str()).unwrap_or(&unnamed);
        let details = if error["details"].is_array() { &error["details"] } else { &error["data"] };
        let mut told = Self::told(by_code, i64::from(status), Some(words), details);
        if let Self::Refused { kind: kind @ None, by_status, .. } = &mut told {
            let names_reason = |one: &Value| one["reason"].is_string();
            *by_status = !details.as_array().is_some_and(|all| all.iter().any(names_reason));
            *kind = guess;
        }
        told
    }

    /// The status with which a call of gRPC ended.
    pub(super) fn of_grpc(told: Told) -> Self {
        let by_code = match told.code {
            5 => Some(Kind::TaskNotFound),
            7 => Some(Kind::Denied),
            8 => Some(Kind::TooMany),
            12 => Some(Kind::Unsupported),
            13 => Some(Kind::Internal),
            14 => Some(Kind::Stopping),
            16 => Some(Kind::Unauthenticated),
            _ => None,
        };
        let reason = told.reason.as_deref();
        let by_reason = Kind::ALL.into_iter().find(|kind| Some(kind.codes().reason) == reason);
        let words = if told.message.is_empty() { "without a word" } else { &told.message };
        Self::Refused {
            kind: by_reason.or(by_code),
            code: i64::from(told.code),
            message: short(words),
            field: told.field.as_deref().map(short),
            retry_after_s: told.retry_after_s,
            by_status: false,
        }
    }

    /// A reason in the details counts more than a code.
    fn told(kind: Option<Kind>, code: i64, message: Option<&str>, details: &Value) -> Self {
        let details = details.as_array().map_or(&[][..], Vec::as_slice);
        let info = details.iter().find(|one| one["domain"] == DOMAIN && one["reason"].is_string());
        let reason = info.and_then(|info| info["reason"].as_str());
        let by_reason =
            reason.and_then(|reason| Kind::ALL.into_iter().find(|kind| kind.codes().reason == reason));
        let violations = details.iter().find_map(|one| one["fieldViolations"].as_array());
        let field = violations.and_then(|all| all.first()?["field"].as_str());
        let retry = info.and_then(|info| info["metadata"]["retryAfterSeconds"].as_str()?.parse().ok());
        Self::Refused {
            kind: by_reason.or(kind),
            code,
            message: short(message.unwrap_or("without a word")),
            field: field.map(short),
            retry_after_s: retry,
            by_status: false,
        }
    }
}

fn kind_of_rpc(code: i64) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| i64::from(kind.codes().json_rpc) == code)
}

/// The text of an error: an object with one of the usual fields, or the text alone.
fn words_of(error: &Value) -> Option<&str> {
    let fields = ["message", "detail", "title", "error_description"];
    let words = fields.into_iter().find_map(|name| error[name].as_str()).or_else(|| error.as_str());
    words.filter(|words| !words.trim().is_empty())
}

/// What others wrote, no longer than a person reads.
fn short(text: &str) -> String {
    const CHARS_MAX: usize = 500;
    text.chars().take(CHARS_MAX).collect()
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::TaskNotFound => "task_not_found",
        Kind::TaskNotCancelable => "task_not_cancelable",
        Kind::Unsupported => "unsupported_operation",
        Kind::Version => "version_not_supported",
        Kind::TooMany => "too_many",
        Kind::Unauthenticated | Kind::Denied => "not_let_in",
        _ => "refused",
    }
}

// tidy: table
fn help(kind: Option<Kind>, field: Option<&str>, retry_after_s: Option<u64>) -> String {
    let hint = match kind {
        Some(Kind::TaskNotFound) => "; it has no such task, or it is not yours: check the id",
        Some(Kind::TaskNotCancelable) => "; the task is over",
        Some(Kind::Unsupported) => "; the agent does not do this, or the task is over",
        Some(Kind::ContentType) => "; send text",
        Some(Kind::ExtensionRequired) => "; it needs an extension that is not spoken here",
        Some(Kind::Version) => "; its card may be old: `synapse a2a refresh`",
        Some(Kind::Unauthenticated | Kind::Denied) => "; give a token with --token-file",
        Some(Kind::TooLarge) => "; send less",
        Some(Kind::TooMany | Kind::Stopping) => "; try again later",
        Some(Kind::Internal | Kind::BadAgentAnswer) => "; the fault is on its side",
        _ => "",
    };
    let at = field.map_or_else(String::new, |field| format!(" (at {field})"));
    let when = retry_after_s.map_or_else(String::new, |s| format!(" ({s} s)"));
    format!("{at}{hint}{when}")
}

fn wanted(had_secret: bool, wants: &Credential) -> String {
    let how = match wants {
        Credential::Bearer => "a bearer token".to_owned(),
        Credential::Basic => "a user and a password, as `user:password`".to_owned(),
        Credential::Header(name) => format!("a key in the header {name}"),
        Credential::Other(what) => return format!("it wants {what}, which is not spoken here"),
    };
    match had_secret {
        true => format!("it wants {how}, and what was shown is not to its liking; is it still good?"),
        false => format!(
            "it wants {how}; name the file that has it with --token-file, or the variable with --token-env"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use synapse_a2a::Fault;

    fn by_grpc(fault: &Fault) -> AskError {
        let mut headers = http::HeaderMap::new();
        synapse_a2a::grpc::Status::Fault(fault.clone()).write(&mut headers);
        AskError::of_grpc(Told::read(&headers).unwrap())
    }

    /// Every row of the table of faults comes back as itself from each binding.
    #[test]
    fn the_same_fault_by_each_binding() {
        for kind in Kind::ALL {
            let fault = Fault::new(kind, "why");
            for error in [
                AskError::of_rpc(&fault.json_rpc()),
                AskError::of_http(kind.codes().http, &fault.http()),
                by_grpc(&fault),
            ] {
                assert!(error.is(kind), "{kind:?}: {error:?}");
                assert!(error.to_string().contains("why"), "{error}");
            }
        }
        let fault = Fault::params("message.parts", "none");
        for error in
            [AskError::of_rpc(&fault.json_rpc()), AskError::of_http(400, &fault.http()), by_grpc(&fault)]
        {
            assert!(error.to_string().contains("(at message.parts)"), "{error}");
        }
    }

    #[test]
    fn errors_in_other_shapes_are_told_too() {
        let table = [
            (
                AskError::of_rpc(&json!({ "code": -32001, "message": "gone" })),
                Some(Kind::TaskNotFound),
                "gone",
            ),
            (AskError::of_rpc(&json!({ "code": 7 })), None, "without a word"),
            (AskError::of_rpc(&json!("")), None, "without a word"),
            (
                AskError::of_http(404, &json!({ "detail": "Not Found" })),
                Some(Kind::TaskNotFound),
                "Not Found",
            ),
            (AskError::of_http(502, &json!(null)), Some(Kind::Internal), "HTTP status 502"),
            (AskError::of_http(418, &json!({ "error": {} })), None, "HTTP status 418"),
        ];
        for (error, expected, words) in table {
            let AskError::Refused { kind, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*kind, expected, "{error:?}");
            assert!(error.to_string().contains(words), "{error}");
        }
        let long = AskError::of_rpc(&json!({ "code": 1, "message": "x".repeat(100_000) }));
        assert!(long.to_string().len() < 1_000);
    }

    /// Finding A6: an error that is a text was shown as "without a word".
    #[test]
    fn an_error_that_is_a_text_is_shown() {
        for error in [
            AskError::of_rpc(&json!("it broke")),
            AskError::of_http(418, &json!({ "error": "it broke" })),
            AskError::of_http(418, &json!("it broke")),
            AskError::of_http(418, &json!({ "error": "teapot", "message": "it broke" })),
            AskError::of_http(418, &json!({ "error": "teapot", "error_description": "it broke" })),
            AskError::of_http_event(&json!({ "error": "it broke" })),
        ] {
            assert!(error.to_string().contains("says no: it broke"), "{error}");
        }
    }

    /// Finding A6: servers of 0.3 send codes of JSON-RPC over HTTP+JSON, and the kind of the error was lost.
    #[test]
    fn codes_of_json_rpc_count_over_http() {
        for (status, body, expected) in [
            (400, json!({ "code": -32004, "message": "no" }), Some(Kind::Unsupported)),
            (500, json!({ "code": -32002, "message": "no" }), Some(Kind::TaskNotCancelable)),
            (404, json!({ "error": { "code": -32601, "message": "no" } }), Some(Kind::Method)),
            (404, json!({ "code": -1, "message": "no" }), Some(Kind::TaskNotFound)),
            (400, json!({ "code": 32004, "message": "no" }), None),
        ] {
            let error = AskError::of_http(status, &body);
            let AskError::Refused { kind, code, .. } = &error else { panic!("{error:?}") };
            assert_eq!((*kind, *code), (expected, i64::from(status)), "{body}");
        }
        // A reason counts more than a code.
        let mut both = Fault::new(Kind::Version, "why").http();
        both["error"]["code"] = (-32004).into();
        assert!(AskError::of_http(400, &both).is(Kind::Version));
    }

    /// Finding A6: a path for streams that is not there did not count as a refusal, since 404 and 501 have a kind.
    #[test]
    fn a_missing_stream_is_told_from_a_missing_task() {
        let not_found = json!({ "detail": "Not Found" });
        let reason = Fault::new(Kind::TaskNotFound, "gone").http();
        for (error, of_new, of_task) in [
            (AskError::of_http(404, &not_found), true, false),
            (AskError::of_http(404, &json!(null)), true, false),
            (AskError::of_http(501, &json!(null)), true, true),
            (AskError::of_http(405, &json!(null)), true, true),
            (AskError::of_http(404, &reason), false, false),
            (
                AskError::of_http(404, &json!({ "error": { "details": [{ "reason": "AGENT_ASLEEP" }] } })),
                false,
                false,
            ),
            (AskError::of_http(404, &json!({ "code": -32001 })), false, false),
            (AskError::of_http(404, &json!({ "code": -32601 })), true, true),
            (AskError::of_http(500, &json!(null)), false, false),
            (AskError::of_http(503, &json!(null)), false, false),
            (AskError::of_http_event(&json!({ "error": { "code": 404 } })), false, false),
        ] {
            assert_eq!(
                (error.refuses_stream(false), error.refuses_stream(true)),
                (of_new, of_task),
                "{error:?}"
            );
        }
    }
}
