//! What an answer says in its binding, and whether it is the error that was expected (J1, J7–J9, H1, H6–H8, E1). Pure.

use super::super::finding::{Verdict, cut};
use super::list;
use crate::a2a::card::Binding;
use crate::a2a::content_type as media_of;
use crate::web;
use http::header;
use serde_json::Value;
use synapse_a2a::fault::{DOMAIN, Kind};

/// The id of every request that has one: each has a connection of its own.
pub(in super::super) const RPC_ID: u64 = 1;

/// An answer, read.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Outcome {
    Result(Value),
    Error(Told),
    /// It is nothing that the binding knows.
    Strange(String),
}

/// An error in the words of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Told {
    /// Of JSON-RPC, or the status of HTTP.
    code: i64,
    message: String,
    info: Info,
    /// What is wrong with its form.
    shape: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Info {
    None,
    Some { reason: String, domain: String },
}

const SHOWN_CHARS: usize = 160;

pub(in super::super) fn read(binding: Binding, answer: &web::Response) -> Outcome {
    let status = answer.status.as_u16();
    if answer.status.is_redirection() {
        let to = answer.headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
        return Outcome::Strange(format!(
            "status {status} to {}; redirects are not followed",
            cut(to, SHOWN_CHARS)
        ));
    }
    let strange = |why: &str| {
        let body = String::from_utf8_lossy(answer.body.get(..1_000).unwrap_or(&answer.body));
        let body = if body.trim().is_empty() { "empty".to_owned() } else { cut(body.trim(), SHOWN_CHARS) };
        let media = media_of(&answer.headers);
        let media = if media.is_empty() { "no Content-Type" } else { &media };
        Outcome::Strange(format!("status {status}, {why} ({media}): {body}"))
    };
    let Ok(value) = serde_json::from_slice::<Value>(&answer.body) else { return strange("no JSON") };
    match binding {
        Binding::JsonRpc if value["jsonrpc"] != "2.0" => strange("no answer of JSON-RPC 2.0"),
        Binding::JsonRpc => match (value.get("error").filter(|e| !e.is_null()), value.get("result")) {
            (Some(_), Some(result)) if !result.is_null() => strange("both an error and a result"),
            (Some(error), _) => Outcome::Error(told_by_rpc(error, &value["id"])),
            (None, Some(_)) if value["id"] != RPC_ID => strange("the id of another request"),
            (None, Some(result)) => Outcome::Result(result.clone()),
            (None, None) => strange("neither a result nor an error"),
        },
        Binding::HttpJson if answer.status.is_success() => Outcome::Result(value),
        Binding::HttpJson => match value.get("error").filter(|error| error.is_object()) {
            Some(error) => Outcome::Error(told_by_http(error, status)),
            None => strange("no error of A2A"),
        },
    }
}

fn told_by_rpc(error: &Value, id: &Value) -> Told {
    let mut shape = form(error, "data");
    if error["code"].as_i64().is_none() {
        shape = Some("its code is no number".into());
    } else if !id.is_null() && *id != RPC_ID {
        shape = Some("it has the id of another request".into());
    }
    let code = error["code"].as_i64().unwrap_or_default();
    Told { code, message: message(error), info: info(&error["data"]), shape }
}

fn told_by_http(error: &Value, status: u16) -> Told {
    let mut shape = form(error, "details");
    if error["code"].as_u64() != Some(u64::from(status)) {
        shape =
            Some(format!("its code is {}, and the status is {status}", cut(&error["code"].to_string(), 40)));
    } else if !error["status"].is_string() {
        shape = Some("it has no status (as NOT_FOUND)".into());
    }
    Told { code: i64::from(status), message: message(error), info: info(&error["details"]), shape }
}

fn message(error: &Value) -> String {
    cut(error["message"].as_str().unwrap_or_default(), SHOWN_CHARS)
}

fn form(error: &Value, details: &str) -> Option<String> {
    if error["message"].as_str().is_none_or(str::is_empty) {
        return Some("it has no message".into());
    }
    match &error[details] {
        Value::Null => None,
        Value::Array(all) if all.iter().all(|one| one["@type"].is_string()) => None,
        Value::Array(_) => Some(format!("its {details} has objects without @type")),
        _ => Some(format!("its {details} is no list")),
    }
}

fn info(details: &Value) -> Info {
    let is_info =
        |one: &&Value| one["@type"].as_str().is_some_and(|kind| kind.ends_with("google.rpc.ErrorInfo"));
    let text = |one: &Value, name: &str| cut(one[name].as_str().unwrap_or_default(), 80);
    match list(details).iter().find(is_info) {
        Some(one) => Info::Some { reason: text(one, "reason"), domain: text(one, "domain") },
        None => Info::None,
    }
}

impl Told {
    /// Which error it is, by the code of the binding; over HTTP by the reason, where the status has several.
    pub(in super::super) fn is(&self, binding: Binding, kind: Kind) -> bool {
        let codes = kind.codes();
        match binding {
            Binding::JsonRpc => self.code == i64::from(codes.json_rpc),
            Binding::HttpJson => {
                let is_status = self.code == i64::from(codes.http)
                    || old_status(kind).is_some_and(|old| self.code == old);
                let is_reason = match &self.info {
                    Info::Some { reason, .. } => reason == codes.reason || !is_of_a2a(kind),
                    Info::None => true,
                };
                is_status && is_reason
            }
        }
    }

    pub(in super::super) fn words(&self, binding: Binding) -> String {
        let name = match (binding, &self.info) {
            (Binding::JsonRpc, _) => {
                let kind = Kind::ALL.into_iter().find(|kind| i64::from(kind.codes().json_rpc) == self.code);
                format!(
                    "error {}{}",
                    self.code,
                    kind.map(|kind| format!(" ({})", name(kind))).unwrap_or_default()
                )
            }
            (Binding::HttpJson, Info::Some { reason, .. }) => format!("status {} {reason}", self.code),
            (Binding::HttpJson, Info::None) => format!("status {}", self.code),
        };
        if self.message.is_empty() { name } else { format!("{name}: {}", self.message) }
    }
}

/// Statuses that the first edition of 1.0 had.
fn old_status(kind: Kind) -> Option<i64> {
    match kind {
        Kind::TaskNotCancelable => Some(409),
        Kind::ContentType => Some(415),
        Kind::BadAgentAnswer => Some(502),
        _ => None,
    }
}

fn is_of_a2a(kind: Kind) -> bool {
    (-32009..=-32001).contains(&kind.codes().json_rpc)
}

/// As the protocol calls it.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::TaskNotFound => "TaskNotFoundError",
        Kind::TaskNotCancelable => "TaskNotCancelableError",
        Kind::PushNotSupported => "PushNotificationNotSupportedError",
        Kind::Unsupported => "UnsupportedOperationError",
        Kind::ContentType => "ContentTypeNotSupportedError",
        Kind::BadAgentAnswer => "InvalidAgentResponseError",
        Kind::NoExtendedCard => "ExtendedAgentCardNotConfiguredError",
        Kind::ExtensionRequired => "ExtensionSupportRequiredError",
        Kind::Version => "VersionNotSupportedError",
        Kind::Parse => "JSONParseError",
        Kind::Request => "InvalidRequestError",
        Kind::Method => "MethodNotFoundError",
        Kind::Params => "InvalidParamsError",
        Kind::Internal => "InternalError",
        Kind::Unauthenticated => "not authenticated",
        Kind::Denied => "not allowed",
        Kind::TooLarge => "too large",
        Kind::TooMany => "too many",
        Kind::Stopping => "stopping",
    }
}

/// What all answers of one interface have in common.
#[derive(Debug, Default)]
pub(in super::super) struct Tally {
    errors: usize,
    shapes: Vec<String>,
    infos: Vec<String>,
    infos_right: usize,
    answers: usize,
    media: Vec<String>,
}

impl Tally {
    /// Whether an answer is one of these errors.
    pub(in super::super) fn refused(
        &mut self,
        binding: Binding,
        asked: &str,
        answer: &web::Response,
        wanted: &[Kind],
    ) -> Verdict {
        let outcome = self.read(binding, asked, answer);
        match outcome {
            Outcome::Result(value) => {
                Verdict::Off(format!("no error, but {}", cut(&value.to_string(), SHOWN_CHARS)))
            }
            Outcome::Strange(why) => Verdict::Off(why),
            Outcome::Error(told) => {
                let fits = wanted.iter().copied().find(|kind| told.is(binding, *kind));
                let needs = fits.or_else(|| wanted.first().copied());
                if let Some(kind) = needs.filter(|kind| is_of_a2a(*kind)) {
                    self.look_at_info(asked, &told, fits.is_some().then_some(kind));
                }
                let words = told.words(binding);
                match fits {
                    Some(_) => Verdict::Ok(words),
                    None => Verdict::Off(words),
                }
            }
        }
    }

    /// Reads an answer, and keeps what is odd about its form.
    pub(in super::super) fn read(
        &mut self,
        binding: Binding,
        asked: &str,
        answer: &web::Response,
    ) -> Outcome {
        let outcome = read(binding, answer);
        let is_error = matches!(outcome, Outcome::Error(_));
        if let Outcome::Error(told) = &outcome {
            self.errors += 1;
            if let Some(why) = &told.shape {
                self.shapes.push(format!("{asked}: {why}"));
            }
        }
        if !matches!(outcome, Outcome::Strange(_)) {
            let media = media_of(&answer.headers);
            let is_right = match (binding, media.as_str()) {
                (Binding::JsonRpc, media) => media == "application/json",
                (Binding::HttpJson, "application/a2a+json") => true,
                (Binding::HttpJson, media) => is_error && media == "application/json",
            };
            self.answers += 1;
            if !is_right {
                let shown = if media.is_empty() { "none".to_owned() } else { cut(&media, 60) };
                self.media.push(format!("{asked}: {shown}"));
            }
        }
        outcome
    }

    fn look_at_info(&mut self, asked: &str, told: &Told, kind: Option<Kind>) {
        let wrong = match &told.info {
            Info::None => "none".to_owned(),
            Info::Some { domain, .. } if domain != DOMAIN => format!("of the domain {domain:?}"),
            Info::Some { reason, .. } if kind.is_some_and(|kind| reason != kind.codes().reason) => {
                format!("with the reason {reason:?}")
            }
            Info::Some { .. } => {
                self.infos_right += 1;
                return;
            }
        };
        self.infos.push(format!("{asked}: {wrong}"));
    }

    pub(in super::super) fn shape(&self) -> Verdict {
        match (self.errors, self.shapes.is_empty()) {
            (0, _) => Verdict::Skipped("there was no error of the protocol to look at".into()),
            (n, true) => Verdict::Ok(format!("{n} errors")),
            (_, false) => Verdict::Off(some_of(&self.shapes)),
        }
    }

    /// J8, H7.
    pub(in super::super) fn info(&self) -> Verdict {
        match (self.infos.is_empty(), self.infos_right) {
            (true, 0) => Verdict::Skipped("there was no error of A2A to look at".into()),
            (true, n) => Verdict::Ok(format!("{n} errors")),
            (false, _) => Verdict::Off(some_of(&self.infos)),
        }
    }

    /// J1, H1.
    pub(in super::super) fn media(&self) -> Verdict {
        match (self.answers, self.media.is_empty()) {
            (0, _) => Verdict::Skipped("there was no answer to look at".into()),
            (n, true) => Verdict::Ok(format!("{n} answers")),
            (_, false) => Verdict::Off(some_of(&self.media)),
        }
    }
}

fn some_of(all: &[String]) -> String {
    const SHOWN: usize = 3;
    let first = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    match all.len() {
        0..=SHOWN => first,
        n => format!("{first}; and {} more", n - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue, StatusCode};
    use serde_json::json;
    use synapse_a2a::Fault;

    fn answer(status: u16, media: &'static str, body: &str) -> web::Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        let status = StatusCode::from_u16(status).unwrap();
        web::Response { host: "a".into(), status, headers, body: body.to_owned().into() }
    }

    fn by(binding: Binding, fault: &Fault) -> web::Response {
        match binding {
            Binding::JsonRpc => {
                let body = json!({ "jsonrpc": "2.0", "id": 1, "error": fault.json_rpc() });
                answer(200, "application/json", &body.to_string())
            }
            Binding::HttpJson => {
                answer(fault.kind.codes().http, "application/a2a+json", &fault.http().to_string())
            }
        }
    }

    /// Every row of the table of faults is known again, and taken for no other.
    #[test]
    fn our_own_errors_are_right() {
        for binding in [Binding::JsonRpc, Binding::HttpJson] {
            let mut tally = Tally::default();
            for kind in Kind::ALL {
                let verdict = tally.refused(binding, "x", &by(binding, &Fault::new(kind, "why")), &[kind]);
                assert!(
                    matches!(&verdict, Verdict::Ok(came) if came.contains("why")),
                    "{kind:?}: {verdict:?}"
                );
                let other = if kind == Kind::TaskNotFound { Kind::Version } else { Kind::TaskNotFound };
                let verdict =
                    Tally::default().refused(binding, "x", &by(binding, &Fault::new(kind, "why")), &[other]);
                assert!(matches!(verdict, Verdict::Off(_)), "{kind:?}");
            }
            for verdict in [tally.shape(), tally.info(), tally.media()] {
                assert!(matches!(verdict, Verdict::Ok(_)), "{verdict:?}");
            }
        }
    }

    /// J7, J8, H6, H7, J1, H1.
    #[test]
    fn what_is_odd_about_an_error_is_named() {
        let rpc = |error: Value| json!({ "jsonrpc": "2.0", "id": 1, "error": error }).to_string();
        let bare = rpc(json!({ "code": -32001, "message": "no" }));
        let mut tally = Tally::default();
        tally.refused(Binding::JsonRpc, "GetTask", &answer(200, "text/json", &bare), &[Kind::TaskNotFound]);
        assert_eq!(tally.info(), Verdict::Off("GetTask: none".into()));
        assert_eq!(tally.media(), Verdict::Off("GetTask: text/json".into()));
        assert!(matches!(tally.shape(), Verdict::Ok(_)));
        let table = [
            (json!({ "code": "x", "message": "no" }), "no number"),
            (json!({ "code": -32001 }), "no message"),
            (json!({ "code": -32001, "message": "no", "data": "x" }), "no list"),
            (json!({ "code": -32001, "message": "no", "data": [{}] }), "without @type"),
        ];
        for (error, words) in table {
            let mut tally = Tally::default();
            tally.refused(
                Binding::JsonRpc,
                "x",
                &answer(200, "application/json", &rpc(error)),
                &[Kind::TaskNotFound],
            );
            assert!(matches!(tally.shape(), Verdict::Off(why) if why.contains(words)), "{words}");
        }
        let info = |domain: &str, reason: &str| {
            json!({ "error": { "code": 404, "status": "NOT_FOUND", "message": "no", "details": [
                { "@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": domain, "reason": reason }] } })
            .to_string()
        };
        for (domain, reason, words) in [("x.org", "TASK_NOT_FOUND", "x.org"), (DOMAIN, "GONE", "")] {
            let mut tally = Tally::default();
            let came = answer(404, "application/json", &info(domain, reason));
            let verdict = tally.refused(Binding::HttpJson, "x", &came, &[Kind::TaskNotFound]);
            match words {
                "" => assert!(matches!(verdict, Verdict::Off(_))),
                words => {
                    assert!(matches!(tally.info(), Verdict::Off(why) if why.contains(words)))
                }
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let table = [
            (answer(500, "text/html", "<html>oh"), "status 500, no JSON (text/html): <html>oh"),
            (answer(200, "application/json", "{}"), "no answer of JSON-RPC 2.0"),
            (answer(302, "text/plain", ""), "redirects are not followed"),
            (answer(200, "application/json", r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), "another request"),
            (answer(200, "application/json", r#"{"jsonrpc":"2.0","id":1}"#), "neither"),
        ];
        for (came, words) in table {
            let outcome = read(Binding::JsonRpc, &came);
            assert!(matches!(&outcome, Outcome::Strange(why) if why.contains(words)), "{outcome:?}");
        }
        let plain = read(Binding::HttpJson, &answer(404, "application/json", r#"{"detail":"Not Found"}"#));
        assert!(matches!(plain, Outcome::Strange(why) if why.contains("no error of A2A")));
    }
}
