//! Everything Synapse says to the socket of another: here, to a node of this user.
//!
//! One small HTTP client over a Unix socket: ask, or follow a stream of lines. The token and TCP are for programs
//! that cannot use the socket; our own commands can.
//!
//! Not here: which node to call (`synapse-store`'s registry), what the words mean (`synapse-dialects`).

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use synapse_dialects::error::{ErrorBody, ErrorInfo};
use synapse_dialects::level;
use synapse_store::home::socket_address;
use tokio::net::UnixStream;

/// Why a node did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It answered, and said no.
    #[error("{}", .info.message)]
    Refused { status: u16, info: ErrorInfo },
    /// Nobody is there, or not any more; nothing is known of what was asked last.
    #[error("the node at {path} does not answer: {why}")]
    Unreachable { path: String, why: String },
    #[error("the node's answer was not understood ({why}); is it of another version?")]
    NotUnderstood { why: String },
    /// Both live, and one of them has to be upgraded; says which.
    #[error("{why}")]
    OtherVersion { why: String },
}

impl CallError {
    /// Whether the same call may work a moment later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { info, .. } => matches!(info.code.as_str(), "busy" | "stopping"),
            Self::NotUnderstood { .. } | Self::OtherVersion { .. } => false,
        }
    }
}

/// A connection to one node. Answers come in the order of the questions.
pub struct Client {
    path: PathBuf,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Client {
    pub async fn connect(socket: &Path) -> Result<Self, CallError> {
        let unreachable = |why: String| CallError::Unreachable { path: socket.display().to_string(), why };
        let (address, _guard) = socket_address(socket).map_err(|e| unreachable(e.to_string()))?;
        let stream = UnixStream::connect(&address).await.map_err(|e| unreachable(e.to_string()))?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| unreachable(e.to_string()))?;
        tokio::spawn(connection);
        Ok(Self { path: socket.to_owned(), sender })
    }

    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, CallError> {
        self.ask(Method::GET, path, None::<&()>).await
    }

    /// An answer that is text, as it is.
    pub async fn get_text(&mut self, path: &str) -> Result<String, CallError> {
        let request = self.request(Method::GET, path, None::<&()>, None)?;
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let bytes = self.read(response).await?;
        String::from_utf8(bytes.to_vec()).map_err(|e| CallError::NotUnderstood { why: e.to_string() })
    }

    pub async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Follows a stream, line by line.
    pub async fn lines(mut self, path: &str, after: Option<u64>) -> Result<LineStream, CallError> {
        let request = self.request(Method::GET, path, None::<&()>, after)?;
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        Ok(LineStream { body: response.into_body(), rest: Vec::new(), scanned: 0, _keep: self })
    }

    async fn ask<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, CallError> {
        let request = self.request(method, path, body, None)?;
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let accepted = response.status() == StatusCode::ACCEPTED;
        let bytes = self.read(response).await?;
        let text: &[u8] = if accepted && bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(text).map_err(|e| CallError::NotUnderstood { why: e.to_string() })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        after: Option<u64>,
    ) -> Result<Request<Full<Bytes>>, CallError> {
        let wrong = |why: String| CallError::NotUnderstood { why };
        let bytes = match body {
            Some(body) => serde_json::to_vec(body).map_err(|e| wrong(e.to_string()))?,
            None => Vec::new(),
        };
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        request = request.header(level::LEVEL_HEADER, level::OWN.to_string());
        request = request.header(level::VERSION_HEADER, level::VERSION);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        request.body(Full::new(bytes.into())).map_err(|e| wrong(e.to_string()))
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<http::Response<Incoming>, CallError> {
        let sent = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let response = sent.await.map_err(|e| self.unreachable(&e))?;
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let (theirs, version) = (text(level::LEVEL_HEADER), text(level::VERSION_HEADER));
        level::check_answer(level::OWN, theirs, version).map_err(|why| CallError::OtherVersion { why })?;
        Ok(response)
    }

    async fn read(&self, response: http::Response<Incoming>) -> Result<Bytes, CallError> {
        const ANSWER_BYTES_MAX: usize = 64 << 20;
        let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        body.collect().await.map(|b| b.to_bytes()).map_err(|e| self.unreachable(&e))
    }

    async fn refused(&self, response: http::Response<Incoming>) -> CallError {
        let status = response.status().as_u16();
        let body = match self.read(response).await {
            Ok(bytes) => serde_json::from_slice::<ErrorBody>(&bytes).ok(),
            Err(e) => return e,
        };
        let info = body.map(|body| body.error);
        let info = info.unwrap_or_else(|| ErrorBody::new("unknown", format!("HTTP status {status}")).error);
        if status == level::UPGRADE_REQUIRED {
            return CallError::OtherVersion { why: info.message };
        }
        CallError::Refused { status, info }
    }

    fn unreachable(&self, why: &dyn std::fmt::Display) -> CallError {
        CallError::Unreachable { path: self.path.display().to_string(), why: why.to_string() }
    }
}

/// Lines as they arrive.
pub struct LineStream {
    body: Incoming,
    rest: Vec<u8>,
    scanned: usize,
    _keep: Client,
}

/// More than any line of ours; a stream without line ends is not ours.
const LINE_BYTES_MAX: usize = 8 << 20;

impl LineStream {
    /// The next line without its end; none when the stream is over, however it ended.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(found) = self.rest[self.scanned..].iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=self.scanned + found).collect();
                self.scanned = 0;
                return String::from_utf8(line).ok().map(|line| line.trim_end().to_owned());
            }
            self.scanned = self.rest.len();
            if self.rest.len() > LINE_BYTES_MAX {
                return None;
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }

    /// The next server-sent event: its data.
    pub async fn next_event(&mut self) -> Option<SentEvent> {
        let mut event = SentEvent::default();
        loop {
            let line = self.next().await?;
            if line.is_empty() {
                if !event.data.is_empty() {
                    return Some(event);
                }
            } else if let Some(data) = line.strip_prefix("data: ") {
                event.data.push_str(data);
            } else if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut event.name);
            } else if let Some(id) = line.strip_prefix("id: ") {
                event.id = id.parse().ok();
            }
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SentEvent {
    pub id: Option<u64>,
    pub name: String,
    pub data: String,
}
