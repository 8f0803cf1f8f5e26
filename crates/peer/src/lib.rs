//! Everything Synapse says to the socket of another: here, to a node; in `web`, to anyone a URL names.
//!
//! One small HTTP client: ask, or follow a stream of lines. Over the Unix socket of a node of this user; where a
//! sandbox denies that, over loopback with a token that was named, or through files in the agent's outbox (`outbox`,
//! CLI-10). To a node elsewhere, over TCP and TLS (`remote`).
//!
//! Not here: which node to call (`synapse-store`'s registry), what the words mean (`synapse-dialects`).

pub mod a2a;
mod lines;
pub mod outbox;
pub mod remote;
mod stopped;
pub mod web;

pub use lines::{LineStream, SentEvent};
pub use remote::{Credentials, Url};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lines::Source;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;
use synapse_dialects::error::{ErrorBody, ErrorInfo};
use synapse_dialects::level;
use synapse_store::home::socket_address;
use synapse_tls::Trouble;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

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
    /// It is there and says nothing; whether it will do what was asked is not known.
    #[error("the agent is not responding: {why}")]
    NotResponding { why: String },
    /// There is no trust between us, one way or the other.
    #[error("{why}")]
    Untrusted { code: &'static str, why: String },
    /// What we were to bring cannot be used; nobody was called.
    #[error("{why}")]
    Unusable { why: String },
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
            Self::Untrusted { .. } | Self::Unusable { .. } | Self::NotResponding { .. } => false,
            Self::NotUnderstood { .. } | Self::OtherVersion { .. } => false,
        }
    }

    /// Whether it may work at some later time, for callers that wait as long as the agent lives.
    pub fn may_work_later(&self) -> bool {
        self.is_passing() || matches!(self, Self::NotResponding { .. })
    }
}

/// A connection to one node. Answers come in the order of the questions.
pub struct Client {
    /// The socket, the URL or the folder.
    path: String,
    wire: Wire,
    /// What every request carries besides its own: where it goes, and whatever proves who we are.
    headers: Vec<(HeaderName, HeaderValue)>,
    /// For a connection that others could have tampered with.
    trust: Option<(Url, Credentials)>,
    /// The process at the other end, for callers that do not wait while it is stopped.
    peer_pid: Option<u32>,
    answer_within: Duration,
}

enum Wire {
    Socket {
        sender: http1::SendRequest<Full<Bytes>>,
        /// Why the connection ended, if it ended badly.
        ended: JoinHandle<Result<(), hyper::Error>>,
    },
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
    let one = |family| socket_with(family, SocketType::STREAM, SocketFlags::empty(), None).is_ok();
    // The pair, because the runtime needs one for itself before it can use any other.
    let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None).is_ok();
    *WORK.get_or_init(|| pair() && (one(AddressFamily::UNIX) || one(AddressFamily::INET)))
}

/// Whether this is the answer of a sandbox rather than of a node that is not there.
fn is_denied(error: &std::io::Error, socket: &Path) -> bool {
    use std::io::ErrorKind::{PermissionDenied, Unsupported};
    let no_family = error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error());
    no_family
        || match error.kind() {
            PermissionDenied | Unsupported => true,
            // Its folder is hidden; however that came to light.
            _ => socket.parent().is_none_or(|dir| !dir.exists()),
        }
}

/// Whether a sandbox denies this process the socket of a node. A node that does not run denies nothing. Never waits.
pub fn is_socket_denied(socket: &Path) -> bool {
    if !sockets_work() {
        return true;
    }
    probe(socket).is_err_and(|error| is_denied(&error, socket))
}

/// Begins to connect, and hangs up.
fn probe(socket: &Path) -> std::io::Result<()> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let (address, _guard) = socket_address(socket).map_err(std::io::Error::other)?;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    // A node that is stopped takes no more connections at some time, and must not stop us too.
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(connect(&fd, &SocketAddrUnix::new(&address)?)?)
}

/// A place to ask, and the other ways there if a sandbox denies the first.
pub struct Ways<'a> {
    pub socket: &'a Path,
    /// The port on loopback, and a token that somebody named for this process.
    pub http: Option<(Url, Credentials)>,
    /// Looked for only when it is needed.
    pub outbox: &'a dyn Fn() -> Option<outbox::Line>,
}

/// How long a node may think before it begins to answer. Whatever takes longer comes as a stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

impl Client {
    pub async fn connect(socket: &Path) -> Result<Self, CallError> {
        let failed = |e: std::io::Error| unreachable(&socket.display().to_string(), &e);
        let stream = dial(socket).await.map_err(failed)?;
        Self::over_socket(stream, socket).await
    }

    /// As `connect`, for callers that have something else to do while the node's process is stopped: a request then
    /// fails soon.
    pub async fn connect_watched(socket: &Path) -> Result<Self, CallError> {
        let failed = |e: std::io::Error| unreachable(&socket.display().to_string(), &e);
        Self::over_watched(dial(socket).await.map_err(failed)?, socket).await
    }

    /// The Unix socket; if a sandbox denies it, the port; if it denies that too, the outbox. As with
    /// `connect_watched`, a stopped process is not waited for.
    pub async fn reach(ways: Ways<'_>) -> Result<Self, CallError> {
        let denied = match dial(ways.socket).await {
            Ok(stream) => return Self::over_watched(stream, ways.socket).await,
            Err(e) => e,
        };
        let failed = unreachable(&ways.socket.display().to_string(), &denied);
        if !is_denied(&denied, ways.socket) {
            return Err(failed);
        }
        if let Some((url, with)) = &ways.http
            && sockets_work()
            && let Ok(client) = Self::connect_to(url, with).await
        {
            return Ok(client);
        }
        let Some(line) = (ways.outbox)() else { return Err(failed) };
        let path = line.folder().display().to_string();
        Ok(Self::new(path, Wire::Outbox(line), Vec::new()))
    }

    async fn over_socket(stream: UnixStream, socket: &Path) -> Result<Self, CallError> {
        let host = HeaderValue::from_static("localhost");
        Self::over(stream, socket.display().to_string(), vec![(header::HOST, host)]).await
    }

    async fn over_watched(stream: UnixStream, socket: &Path) -> Result<Self, CallError> {
        let peer_pid = stopped::pid_behind(&stream);
        Ok(Self { peer_pid, ..Self::over_socket(stream, socket).await? })
    }

    async fn over<S>(
        stream: S,
        path: String,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Self, CallError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|e| unreachable(&path, &e))?;
        let wire = Wire::Socket { sender, ended: tokio::spawn(connection) };
        Ok(Self::new(path, wire, headers))
    }

    fn new(path: String, wire: Wire, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        Self { path, wire, headers, trust: None, peer_pid: None, answer_within: ANSWER_TIMEOUT }
    }

    /// How long each answer may take to begin.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.answer_within = limit;
        self
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
            Wire::Socket { .. } if Url::is_meant(&self.path) => Way::Http,
            Wire::Socket { .. } => Way::Socket,
        }
    }

    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, CallError> {
        self.ask(Method::GET, path, None::<&()>).await
    }

    /// An answer that is text, as it is.
    pub async fn get_text(&mut self, path: &str) -> Result<String, CallError> {
        if let Wire::Outbox(line) = &self.wire {
            return line.ask(&Method::GET, path, None::<&()>).await;
        }
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
        if let Wire::Outbox(line) = &self.wire {
            let body = Source::Outbox(line.follow(path, after).await?);
            return Ok(LineStream::new(body, self));
        }
        let request = self.request(Method::GET, path, None::<&()>, after)?;
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        Ok(LineStream::new(Source::Http(response.into_body()), self))
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
        let Wire::Socket { sender, .. } = &mut self.wire else {
            return Err(self.unreachable(&"an outbox takes no requests of this kind"));
        };
        let sent = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        let limit = self.answer_within;
        let answered = tokio::select! {
            answered = tokio::time::timeout(limit, sent) => answered,
            pid = stopped::seen(self.peer_pid) => return Err(stopped::error(pid)),
        };
        match answered {
            Ok(Ok(response)) => same_level(response),
            Ok(Err(e)) => Err(self.why_not(e).await),
            Err(_) => {
                Err(CallError::NotResponding { why: format!("no answer within {} s", limit.as_secs()) })
            }
        }
    }

    /// A server that wants a certificate of ours says so only after our side of the handshake is done, so its word
    /// may come as an answer to the first request, or before it, to the connection.
    async fn why_not(&mut self, error: hyper::Error) -> CallError {
        const PATIENCE: Duration = Duration::from_millis(500);
        let Some((url, with)) = &self.trust else {
            return match error.is_parse() && self.path.starts_with("http://") {
                true => CallError::Untrusted {
                    code: "tls_required",
                    why: format!(
                        "{} does not answer in HTTP; if it speaks TLS, call it as https://",
                        self.path
                    ),
                },
                false => self.unreachable(&error),
            };
        };
        let mut found = Trouble::among(&error);
        if found.is_none()
            && let Wire::Socket { ended, .. } = &mut self.wire
            && let Ok(Ok(Err(ended))) = tokio::time::timeout(PATIENCE, ended).await
        {
            found = Trouble::among(&ended);
        }
        match found {
            Some((trouble, told)) => remote::untrusted(trouble, url, with, &told),
            None => self.unreachable(&error),
        }
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

/// Connects to the Unix socket, if this process may.
async fn dial(socket: &Path) -> std::io::Result<UnixStream> {
    if !sockets_work() {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    let (address, _guard) = socket_address(socket).map_err(std::io::Error::other)?;
    UnixStream::connect(&address).await
}

fn unreachable(path: &str, why: &dyn std::fmt::Display) -> CallError {
    CallError::Unreachable { path: path.to_owned(), why: why.to_string() }
}

fn refused(status: u16, body: Option<ErrorBody>) -> CallError {
    let info = body.map(|body| body.error);
    let info = info.unwrap_or_else(|| ErrorBody::new("unknown", format!("HTTP status {status}")).error);
    if status == level::UPGRADE_REQUIRED {
        return CallError::OtherVersion { why: info.message };
    }
    CallError::Refused { status, info }
}

/// An answer of a node that speaks as we do.
fn same_level(response: http::Response<Incoming>) -> Result<http::Response<Incoming>, CallError> {
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let (theirs, version) = (text(level::LEVEL_HEADER), text(level::VERSION_HEADER));
    // A refusal without a level comes from whatever stands before a node, and says itself what is wrong.
    if theirs.is_none() && !response.status().is_success() {
        return Ok(response);
    }
    level::check_answer(level::OWN, theirs, version).map_err(|why| CallError::OtherVersion { why })?;
    Ok(response)
}
