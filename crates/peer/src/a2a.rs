//! Agents elsewhere that speak A2A: their cards, and the operations, as their caller (A9, A10, A22–A25, V6).
//!
//! The user's word is enough to call a host, also a private one; the card's word is not: it may name the host that it
//! came from, or one that the user has allowed. Secrets go to these alone, encrypted, and only in the way the card says.
//! Whatever an agent elsewhere says is data of a stranger.
//!
//! Not here: who is called by which name (`synapse-store`'s remotes), words for people (`synapse`).

mod call;
pub mod card;
pub mod doctor;
mod error;
mod find;
mod follow;
#[cfg(test)]
mod fuzz;
mod grpc;
mod lenient;
mod picture;
mod sse;
mod trust;
mod url;
mod wire;

pub use card::{At, Card, Interface};
pub use error::AskError;
pub use find::{Found, Look, again, look};
pub use follow::{Begin, Ears};
pub use picture::{Answer, Picture};
pub use trust::{Trust, check};
pub use url::HttpUrl;
pub use wire::{WireEvent, WireTap};

use crate::Credentials;
use crate::web::{self, Limits, Reach, Rules};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use call::{Ask, Shape};
use card::Credential;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value;
use std::time::Duration;
use synapse_a2a::wire::from_json;
use synapse_a2a::{Kind, pb};

/// A task may bring files.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A server may wait for the end of a task though it was asked not to; whoever sends has a limit of their own.
const SENT_WITHIN: Duration = Duration::from_secs(24 * 3_600);
/// Media types of a card that are said to be accepted.
const MODES_MAX: usize = 30;
const MODE_BYTES_MAX: usize = 100;
/// The type of a stream of events.
const SSE: &str = "text/event-stream";
/// Tasks that are shown.
const PAGE: u32 = 20;

/// An agent elsewhere, ready to be called.
#[derive(Debug)]
pub struct Agent {
    pub card: Card,
    pub at: At,
    web: web::Client,
    secret: Option<(HeaderName, HeaderValue)>,
    tap: Option<WireTap>,
}

/// A task, in short.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskLine {
    pub id: String,
    pub state: &'static str,
}

/// A client for what the user typed: any host, but only as safe as it was typed.
pub fn client(typed: &HttpUrl, with: &Credentials) -> web::Client {
    let rules = Rules { reach: Reach::Private, plain_http: !typed.origin().is_https };
    web::Client::new(web::Options { rules, tls: with.tls.clone() })
}

impl Agent {
    /// Nothing is sent yet.
    pub fn new(
        web: web::Client,
        found: Found,
        with: &Credentials,
        allow_hosts: &[String],
    ) -> Result<Self, AskError> {
        let at = found.place(allow_hosts)?;
        let secret = secret(&found.card, at.url(), with)?;
        Ok(Self { card: found.card, at, web, secret, tap: None })
    }

    /// Shows what was odd about the card, and all further traffic.
    pub fn tap(&mut self, tap: WireTap) {
        self.tap = Some(tap);
        self.card.notes.iter().for_each(|note| self.odd(note));
    }

    fn see(&self, event: WireEvent<'_>) {
        if let Some(tap) = &self.tap {
            tap.see(event);
        }
    }

    /// What the server did wrong, and what was made of it.
    fn odd(&self, note: &str) {
        self.see(WireEvent::Odd(note));
    }

    /// With the media types that are accepted: all that the card declares. Some servers fail without the list.
    fn with_output_modes(&self, mut message: Value) -> Value {
        let declared = self.card.value["defaultOutputModes"].as_array().into_iter().flatten();
        let declared = declared.filter_map(Value::as_str).filter(|mode| mode.len() <= MODE_BYTES_MAX);
        let mut modes: Vec<&str> = vec!["text/plain", "application/json"];
        for mode in declared.take(MODES_MAX) {
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        message["configuration"]["acceptedOutputModes"] = modes.into();
        message
    }

    /// Sends a message; returns with the task as it is then, or with the answer.
    pub async fn send(&self, message: Value, at_once: bool) -> Result<Picture, AskError> {
        let mut picture = Picture::default();
        let is_known = |picture: &Picture| picture.task_id().is_some();
        let ears = Ears { hear: &|_| {}, enough: &is_known };
        self.send_into(message, at_once, &mut picture, &ears).await?;
        Ok(picture)
    }

    /// Sends a message and adds what is answered to `picture`.
    async fn send_into(
        &self,
        message: Value,
        at_once: bool,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<(), AskError> {
        use pb::send_message_response::Payload;
        let mut message = self.with_output_modes(message);
        if at_once {
            message["configuration"]["returnImmediately"] = true.into();
        }
        let message_id = message["message"]["messageId"].as_str().unwrap_or_default().to_owned();
        let ask = Ask::Send(message);
        let sent: pb::SendMessageResponse = match &self.at {
            At::Grpc(_) => self.ask(ask, Shape::Response).await?,
            At::Json(at) => {
                let mut stream = self.web.stream(self.limited(&ask)?).await?;
                if stream.status.is_success() && content_type(&stream.headers) == SSE {
                    return self.hear_sent(at, stream, message_id, picture, ears).await;
                }
                let body = follow::whole(&mut stream).await?;
                self.read_answer(at, Shape::Response, (stream.status, &stream.headers), &body)?
            }
        };
        let answered = match sent.payload {
            Some(Payload::Task(task)) => Picture::of_task(task),
            Some(Payload::Message(message)) => Picture::of_message(message),
            None => return Err(call::not_understood("it holds neither a task nor a message")),
        };
        let told = picture.see(answered).map_err(|why| call::not_understood(&why))?;
        told.iter().for_each(|told| (ears.hear)(told));
        Ok(())
    }

    pub async fn task(&self, id: &str) -> Result<Picture, AskError> {
        self.ask(Ask::Get(id), Shape::Task).await.map(Picture::of_task)
    }

    pub async fn cancel(&self, id: &str) -> Result<Picture, AskError> {
        self.ask(Ask::Cancel(id), Shape::Task).await.map(Picture::of_task)
    }

    /// The newest tasks of ours.
    pub async fn tasks(&self) -> Result<Vec<TaskLine>, AskError> {
        let page: pb::ListTasksResponse = self.ask(Ask::List { page_size: PAGE }, Shape::Page).await?;
        let line = |task: pb::Task| TaskLine { state: picture::state_of(&task).name(), id: task.id };
        Ok(page.tasks.into_iter().take(PAGE as usize).map(line).collect())
    }

    /// What only known callers are shown: that takes the place of the card, if there is one and we have something that says
    /// who we are (A17).
    pub async fn extended(&self) -> Result<Option<Card>, AskError> {
        if !self.card.has_extended || self.secret.is_none() {
            return Ok(None);
        }
        let value: serde_json::Value = self.ask(Ask::ExtendedCard, Shape::Card).await?;
        Card::read_from(value, self.at.url()).map(Some).map_err(|why| call::not_understood(&why))
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, ask: Ask<'_>, shape: Shape) -> Result<T, AskError> {
        let request = self.limited(&ask)?;
        let at = match &self.at {
            At::Json(at) => at,
            At::Grpc(at) => {
                let mut stream = self.web.stream_h2(request).await?;
                self.check_grpc(&stream)?;
                let answer = grpc::answer(&ask, at.version, &mut stream, ANSWER_BYTES_MAX)
                    .await
                    .map_err(|e| self.or_not_let_in(e))?;
                return from_json(answer).map_err(|fault| call::not_understood(&fault.message));
            }
        };
        let answer = self.web.fetch(request).await?;
        self.read_answer(at, shape, (answer.status, &answer.headers), &answer.body)
    }

    /// The request of an operation that has one answer, with its limits.
    fn limited(&self, ask: &Ask<'_>) -> Result<web::Request, AskError> {
        let mut request = self.request(ask)?;
        let whole = if matches!(ask, Ask::Send(_)) { SENT_WITHIN } else { ANSWER_WITHIN };
        request.limits =
            Limits { whole, quiet: whole, answer_bytes_max: ANSWER_BYTES_MAX, ..Limits::default() };
        Ok(request)
    }

    /// The one answer of an operation.
    fn read_answer<T: serde::de::DeserializeOwned>(
        &self,
        at: &Interface,
        shape: Shape,
        (status, headers): (StatusCode, &HeaderMap),
        body: &[u8],
    ) -> Result<T, AskError> {
        self.see(WireEvent::Received { status: Some(status.as_u16()), body });
        self.check_status(status, headers)?;
        let note = lenient::media(&content_type(headers), status.as_u16(), body)?;
        note.iter().for_each(|note| self.odd(note));
        let read = call::read(at, shape, status.as_u16(), body)?;
        read.notes.iter().for_each(|note| self.odd(note));
        Ok(read.value)
    }

    fn check_grpc(&self, stream: &web::Streaming) -> Result<(), AskError> {
        self.check_status(stream.status, &stream.headers)?;
        let media = content_type(&stream.headers);
        if grpc::is_grpc(&media) {
            return Ok(());
        }
        match stream.status.as_u16() {
            200..300 => Err(call::not_understood(&format!("it is {media:?}, where gRPC was asked for"))),
            status => Err(AskError::of_http(status, &Value::Null)),
        }
    }

    /// gRPC has its own way to say that a caller is not let in.
    fn or_not_let_in(&self, error: AskError) -> AskError {
        let status = match &error {
            AskError::Refused { kind: Some(Kind::Unauthenticated), .. } => 401,
            AskError::Refused { kind: Some(Kind::Denied), .. } => 403,
            _ => return error,
        };
        AskError::NotLetIn { status, had_secret: self.secret.is_some(), wants: self.card.credential.clone() }
    }

    /// With what proves who we are (E13).
    fn request(&self, ask: &Ask<'_>) -> Result<web::Request, AskError> {
        let mut request = match &self.at {
            At::Json(at) => ask.request(at)?,
            At::Grpc(at) => grpc::request(ask, at)?,
        };
        if let Some((name, value)) = &self.secret {
            request.headers.insert(name.clone(), value.clone());
        }
        let (verb, url, body) = (request.method.as_str(), request.url.as_str(), &request.body);
        self.see(WireEvent::Sent { verb, url, body });
        Ok(request)
    }

    /// What HTTP says before anybody speaks A2A.
    fn check_status(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), AskError> {
        if status.is_redirection() {
            let to = headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
            let host = self.at.url().origin().host.clone();
            return Err(web::WebError::Redirected { host, status: status.as_u16(), to }.into());
        }
        if matches!(status.as_u16(), 401 | 403) {
            let (had_secret, wants) = (self.secret.is_some(), self.card.credential.clone());
            return Err(AskError::NotLetIn { status: status.as_u16(), had_secret, wants });
        }
        Ok(())
    }
}

/// A message of one text, as 1.0 has it; what else is known stands beside it (CLI-8).
#[derive(Debug, Clone, Default)]
pub struct Words<'a> {
    pub message_id: &'a str,
    pub text: &'a str,
    pub task_id: Option<&'a str>,
    pub context_id: Option<&'a str>,
    pub priority: u64,
    pub response_expected: bool,
    /// Id and type of who sends it.
    pub sender: Option<(&'a str, &'a str)>,
}

impl Words<'_> {
    pub fn to_json(&self) -> Value {
        let mut message = serde_json::json!({
            "messageId": self.message_id,
            "role": "ROLE_USER",
            "parts": [{ "text": self.text }],
            "metadata": { "priority": self.priority },
        });
        for (name, id) in [("taskId", self.task_id), ("contextId", self.context_id)] {
            if let Some(id) = id {
                message[name] = id.into();
            }
        }
        let mut metadata =
            serde_json::json!({ "priority": self.priority, "response_expected": self.response_expected });
        if let Some((id, kind)) = self.sender {
            metadata["sender"] = serde_json::json!({ "sender_id": id, "sender_type": kind });
        }
        serde_json::json!({ "message": message, "metadata": metadata })
    }
}

/// The secret in the header that the card asks for; not for a wire on which others could read it.
fn secret(
    card: &Card,
    at: &HttpUrl,
    with: &Credentials,
) -> Result<Option<(HeaderName, HeaderValue)>, AskError> {
    let unusable = |why: String| AskError::Unusable { why };
    let Some(secret) = with.secret().map_err(|e| unusable(e.to_string()))? else { return Ok(None) };
    let origin = at.origin();
    if !origin.is_https && !origin.is_loopback() {
        let why =
            format!("the token is not sent to {origin}, where others could read it on the way; use https://");
        return Err(unusable(why));
    }
    let (name, text) = match &card.credential {
        Credential::Bearer => (header::AUTHORIZATION, format!("Bearer {secret}")),
        Credential::Basic => (header::AUTHORIZATION, format!("Basic {}", STANDARD.encode(&secret))),
        Credential::Header(name) => {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| unusable(e.to_string()))?;
            (name, secret)
        }
        Credential::Other(what) => {
            return Err(unusable(format!(
                "it wants {what}, which is not spoken here; the token was not sent"
            )));
        }
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| unusable("the token has characters that no header may have".into()))?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

fn content_type(headers: &HeaderMap) -> String {
    let raw = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    raw.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn card(scheme: Value) -> Card {
        Card::read(json!({
            "name": "a",
            "supportedInterfaces": [],
            "url": "https://a/x",
            "securitySchemes": { "s": scheme },
            "security": [{ "s": [] }],
        }))
        .unwrap()
    }

    /// E13: in the way of the card, to nobody who could be overheard, and never shown.
    #[test]
    fn a_secret_goes_only_where_it_may() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        synapse_store::files::create_private(&path, b"s3c:r3t\n").unwrap();
        let with = Credentials { token_file: Some(path), ..Credentials::default() };
        let at = |raw: &str| HttpUrl::parse(raw).unwrap();
        let table = [
            (json!({ "type": "http", "scheme": "bearer" }), "authorization", "Bearer s3c:r3t"),
            (json!({ "type": "http", "scheme": "basic" }), "authorization", "Basic czNjOnIzdA=="),
            (json!({ "type": "apiKey", "in": "header", "name": "X-Key" }), "x-key", "s3c:r3t"),
        ];
        for (scheme, name, value) in table {
            let found = secret(&card(scheme), &at("https://far.example/x"), &with).unwrap().unwrap();
            assert_eq!((found.0.as_str(), &found.1), (name, &HeaderValue::from_static(value)));
            assert!(!format!("{found:?}").contains("r3t"));
        }
        let bearer = card(json!({ "type": "http", "scheme": "bearer" }));
        assert!(secret(&bearer, &at("http://127.0.0.1:1/"), &with).unwrap().is_some());
        let why = secret(&bearer, &at("http://far.example/"), &with).unwrap_err();
        assert!(why.to_string().contains("use https://"), "{why}");
        let query = card(json!({ "type": "apiKey", "in": "query", "name": "k" }));
        assert!(secret(&query, &at("https://a/"), &with).unwrap_err().to_string().contains("not sent"));
        assert!(secret(&bearer, &at("http://far.example/"), &Credentials::default()).unwrap().is_none());
    }

    /// CLI-8.
    #[test]
    fn a_message_on_the_wire() {
        let words = Words {
            message_id: "m",
            text: "hi",
            task_id: Some("t"),
            priority: 5,
            response_expected: true,
            sender: Some(("id", "claude")),
            ..Words::default()
        };
        assert_eq!(
            words.to_json(),
            json!({
                "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }], "taskId": "t", "metadata": { "priority": 5 } },
                "metadata": { "priority": 5, "response_expected": true, "sender": { "sender_id": "id", "sender_type": "claude" } },
            })
        );
    }
}
