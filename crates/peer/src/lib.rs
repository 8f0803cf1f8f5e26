//! Everything Synapse says to the socket of another: here, to a node of this user.
//!
//! One small HTTP client: ask, or follow a stream of lines. Over the Unix socket; where a sandbox denies that, over
//! TCP with a token that was named; where it denies both, through files in the agent's outbox (CLI-10).
//!
//! Not here: which node to call (`synapse-store`'s registry), what the words mean (`synapse-dialects`).

pub mod outbox;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
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
use tokio::net::{TcpStream, UnixStream};

/// How a forwarded call says where it came from; it can only lower what is believed of the caller.
pub const VIA: &str = "x-synapse-via";
pub const VIA_OUTBOX: &str = "outbox";

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
    wire: Wire,
    /// What every request carries besides its own.
    headers: Vec<(HeaderName, HeaderValue)>,
}

enum Wire {
    Socket(http1::SendRequest<Full<Bytes>>),
    Outbox(outbox::Line),
}

/// By which way a node was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Socket,
    Http,
    Outbox,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Http => "http",
            Self::Outbox => "outbox",
        }
    }
}

/// Whether this process may use sockets at all. A sandbox answers at once; nothing is sent.
pub fn sockets_work() -> bool {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, socketpair};
    static WORK: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let one = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).is_ok();
    // The pair, because the runtime needs one for itself before it can use any other.
    let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).is_ok();
    *WORK.get_or_init(|| pair() && (one(AddressFamily::UNIX) || one(AddressFamily::INET)))
}

/// Whether this is the answer of a sandbox rather than of a node that is not there.
fn is_denied(error: &std::io::Error, socket: &Path) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
    let hidden = || socket.parent().is_none_or(|dir| !dir.exists());
    let no_family = error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error());
    no_family
        || match error.kind() {
            PermissionDenied | Unsupported => true,
            NotFound => hidden(),
            _ => false,
        }
}

/// A place to ask, and the other ways there if a sandbox denies the first.
pub struct Ways<'a> {
    pub socket: &'a Path,
    /// The port on loopback, and a token that somebody named for this process.
    pub http: Option<(u16, String)>,
    /// Looked for only when it is needed.
    pub outbox: &'a dyn Fn() -> Option<outbox::Line>,
}

impl Client {
    pub async fn connect(socket: &Path) -> Result<Self, CallError> {
        Self::connect_unix(socket).await.map_err(|e| unreachable(socket, &e))
    }

    /// The Unix socket; if a sandbox denies it, the port; if it denies that too, the outbox.
    pub async fn reach(ways: Ways<'_>) -> Result<Self, CallError> {
        let denied = match Self::connect_unix(ways.socket).await {
            Ok(client) => return Ok(client),
            Err(e) if is_denied(&e, ways.socket) => e,
            Err(e) => return Err(unreachable(ways.socket, &e)),
        };
        if let Some((port, token)) = &ways.http
            && let Ok(client) = Self::connect_tcp(*port, token).await
        {
            return Ok(client);
        }
        match (ways.outbox)() {
            Some(line) => {
                Ok(Self { path: line.folder().to_owned(), wire: Wire::Outbox(line), headers: Vec::new() })
            }
            None => Err(unreachable(ways.socket, &denied)),
        }
    }

    async fn connect_unix(socket: &Path) -> std::io::Result<Self> {
        if !sockets_work() {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let (address, _guard) = socket_address(socket).map_err(std::io::Error::other)?;
        let stream = UnixStream::connect(&address).await?;
        Self::over(TokioIo::new(stream), socket.to_owned(), Vec::new()).await
    }

    async fn connect_tcp(port: u16, token: &str) -> std::io::Result<Self> {
        if !sockets_work() {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(std::io::Error::other)?;
        bearer.set_sensitive(true);
        let host = HeaderValue::from_str(&format!("localhost:{port}")).map_err(std::io::Error::other)?;
        let headers = vec![(header::AUTHORIZATION, bearer), (header::HOST, host)];
        Self::over(TokioIo::new(stream), format!("127.0.0.1:{port}").into(), headers).await
    }

    async fn over<S>(
        stream: TokioIo<S>,
        path: PathBuf,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> std::io::Result<Self>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(stream).await.map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self { path, wire: Wire::Socket(sender), headers })
    }

    /// Says with every request that it is passed on from an outbox.
    #[must_use]
    pub fn for_outbox(mut self) -> Self {
        self.headers.push((HeaderName::from_static(VIA), HeaderValue::from_static(VIA_OUTBOX)));
        self
    }

    pub fn way(&self) -> Way {
        match &self.wire {
            Wire::Outbox(_) => Way::Outbox,
            Wire::Socket(_) if self.headers.iter().any(|(name, _)| name == header::AUTHORIZATION) => {
                Way::Http
            }
            Wire::Socket(_) => Way::Socket,
        }
    }

    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, CallError> {
        self.ask(Method::GET, path, None::<&()>).await
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
        if let Wire::Outbox(line) = &self.wire {
            let body = Source::Outbox(line.follow(path, after).await?);
            return Ok(LineStream { body, rest: Vec::new(), scanned: 0, _keep: self });
        }
        let request = self.request(Method::GET, path, None::<&()>, after)?;
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let body = Source::Http(response.into_body());
        Ok(LineStream { body, rest: Vec::new(), scanned: 0, _keep: self })
    }

    /// Asks without a word of its own on the answer: its status and what it says.
    pub async fn forward(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<(u16, Bytes), CallError> {
        let request = self.request(method, path, body, None)?;
        let response = self.send(request).await?;
        let status = response.status().as_u16();
        Ok((status, self.read(response).await?))
    }

    async fn ask<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, CallError> {
        if let Wire::Outbox(line) = &self.wire {
            let text = line.ask(&method, path, body).await?;
            return serde_json::from_str(&text).map_err(|e| CallError::NotUnderstood { why: e.to_string() });
        }
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
        let mut request = Request::builder().method(method).uri(path);
        if !self.headers.iter().any(|(name, _)| name == header::HOST) {
            request = request.header(header::HOST, "localhost");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
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
        let sent = match &mut self.wire {
            Wire::Socket(sender) => match sender.ready().await {
                Ok(()) => sender.send_request(request).await,
                Err(e) => Err(e),
            },
            Wire::Outbox(_) => return Err(self.unreachable(&"an outbox takes no requests of this kind")),
        };
        let response = sent.map_err(|e| self.unreachable(&e))?;
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
        refused(status, body)
    }

    fn unreachable(&self, why: &dyn std::fmt::Display) -> CallError {
        unreachable(&self.path, why)
    }
}

fn unreachable(path: &Path, why: &dyn std::fmt::Display) -> CallError {
    CallError::Unreachable { path: path.display().to_string(), why: why.to_string() }
}

fn refused(status: u16, body: Option<ErrorBody>) -> CallError {
    let info = body.map(|body| body.error);
    let info = info.unwrap_or_else(|| ErrorBody::new("unknown", format!("HTTP status {status}")).error);
    if status == level::UPGRADE_REQUIRED {
        return CallError::OtherVersion { why: info.message };
    }
    CallError::Refused { status, info }
}

/// Lines as they arrive.
pub struct LineStream {
    body: Source,
    rest: Vec<u8>,
    scanned: usize,
    _keep: Client,
}

enum Source {
    Http(Incoming),
    Outbox(outbox::Followed),
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
            match &mut self.body {
                Source::Http(body) => {
                    let frame = body.frame().await?.ok()?;
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Source::Outbox(followed) => {
                    self.rest.extend(followed.next().await?.into_bytes());
                    self.rest.push(b'\n');
                }
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
