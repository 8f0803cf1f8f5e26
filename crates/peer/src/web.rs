//! Calls to URLs that came from outside: webhooks, agents elsewhere, documents they name.
//!
//! Every target is taken for an attempt to reach what only this machine can (SSRF) until it is shown to be none. The
//! URL is read strictly (`target`), its name is looked up once, every address it has is judged (`address`), and the
//! connection goes to one of just these. No redirect is followed, no proxy is taken from the environment, nothing is
//! decompressed, and what comes back is limited in size and time.
//!
//! Invariant: no byte leaves for an address that was not judged. One call is one connection.
//! Not here: calls to nodes of this user (`Client`, `remote`), what an answer means, trying again.

pub mod address;
mod dial;
mod error;
mod h2;
pub mod target;
#[cfg(test)]
mod tests;

pub use error::{Wait, WebError};
pub use target::{Reach, Rules, Target, TargetFault};

use bytes::{Bytes, BytesMut};
use dial::{Lookup, Running};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;
use synapse_tls::ClientFiles;
use tokio_rustls::rustls::ClientConfig;

/// What a client may do, for all of its calls.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub rules: Rules,
    /// Whom to believe, and what to show of ourselves.
    pub tls: ClientFiles,
}

/// How long and how much, for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Looking up the name, connecting and proving who is there.
    pub connect: Duration,
    /// From the first step to the end of the answer; of a stream, to the end of its head.
    pub whole: Duration,
    /// Between two pieces of a stream.
    pub quiet: Duration,
    /// Counted as they arrive, whatever the head promised.
    pub answer_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            whole: Duration::from_secs(30),
            quiet: Duration::from_secs(120),
            answer_bytes_max: 1 << 20,
        }
    }
}

/// One call. `Host`, `Content-Length` and `Connection` are set for it.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    pub url: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub limits: Limits,
}

impl Request {
    pub fn get(url: &str) -> Self {
        Self::new(Method::GET, url)
    }

    pub fn post(url: &str, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut request = Self::new(Method::POST, url);
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        request.body = body.into();
        request
    }

    pub fn new(method: Method, url: &str) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self { method, url: url.to_owned(), headers, body, limits: Limits::default() }
    }

    /// With one header more; a secret is not shown by anything that prints this.
    pub fn header(mut self, name: &'static str, value: &str, is_secret: bool) -> Result<Self, WebError> {
        let mut value = HeaderValue::from_str(value).map_err(|_| WebError::Request {
            why: format!("the value of the header {name} has characters that no header may have"),
        })?;
        value.set_sensitive(is_secret);
        self.headers.insert(name, value);
        Ok(self)
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Response {
    pub host: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Response {
    /// The answer, if it says yes; a place to go on to is not a yes.
    pub fn success(self) -> Result<Self, WebError> {
        match refusal(&self.host, self.status, &self.headers) {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }
}

/// An answer whose body is still coming. Dropped, it hangs up.
#[derive(Debug)]
pub struct Streaming {
    pub host: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// What came after the body.
    pub trailers: HeaderMap,
    body: Incoming,
    limits: Limits,
    bytes: usize,
    _connection: Running,
}

/// Calls URLs. Cheap to clone; all share one configuration of TLS, which is read when it is first needed.
#[derive(Debug, Clone)]
pub struct Client {
    options: Options,
    lookup: Lookup,
    tls: Arc<tokio::sync::OnceCell<Arc<ClientConfig>>>,
}

impl Client {
    pub fn new(options: Options) -> Self {
        Self { options, lookup: Lookup::System, tls: Arc::default() }
    }

    /// Whether a URL may be called, as far as it alone can tell. Nothing is looked up and nobody is called.
    pub fn check(&self, url: &str) -> Result<Target, TargetFault> {
        Target::parse(url, self.options.rules)
    }

    /// As `check`, and its name is looked up and every address judged.
    pub async fn check_name(&self, url: &str, limits: Limits) -> Result<Target, WebError> {
        let target = self.check(url)?;
        self.addresses(&target, limits).await?;
        Ok(target)
    }

    /// One call and its whole answer, whatever its status.
    pub async fn fetch(&self, request: Request) -> Result<Response, WebError> {
        let (limits, host) = (request.limits, self.check(&request.url)?.authority());
        let whole = async {
            let mut streaming = self.open(request).await?;
            let mut body = BytesMut::new();
            while let Some(piece) = streaming.piece().await? {
                body.extend_from_slice(&piece);
            }
            let Streaming { host, status, headers, .. } = streaming;
            Ok(Response { host, status, headers, body: body.freeze() })
        };
        let slow = WebError::Slow { host, wait: Wait::Answer, after: limits.whole };
        tokio::time::timeout(limits.whole, whole).await.unwrap_or(Err(slow))
    }

    /// One call, answered piece by piece.
    pub async fn stream(&self, request: Request) -> Result<Streaming, WebError> {
        let (limits, host) = (request.limits, self.check(&request.url)?.authority());
        let slow = WebError::Slow { host, wait: Wait::Answer, after: limits.whole };
        tokio::time::timeout(limits.whole, self.open(request)).await.unwrap_or(Err(slow))
    }

    /// From the URL to the head of the answer.
    async fn open(&self, request: Request) -> Result<Streaming, WebError> {
        let limits = request.limits;
        let target = self.check(&request.url)?;
        let host = target.authority();
        let message = message(&target, request)?;
        let connecting = self.connect(&target, limits);
        let slow = WebError::Slow { host: host.clone(), wait: Wait::Connection, after: limits.connect };
        let mut guarded = tokio::time::timeout(limits.connect, connecting).await.unwrap_or(Err(slow))?;
        let response = guarded.send(message, &host).await?;
        Ok(Streaming::new(host, response, limits, guarded.into_running()))
    }
}

impl Streaming {
    fn new(host: String, response: http::Response<Incoming>, limits: Limits, running: Running) -> Self {
        let (head, body) = response.into_parts();
        let (status, headers, trailers) = (head.status, head.headers, HeaderMap::new());
        Self { host, status, headers, trailers, body, limits, bytes: 0, _connection: running }
    }

    /// As of a whole answer.
    pub fn success(self) -> Result<Self, WebError> {
        match refusal(&self.host, self.status, &self.headers) {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }

    /// The next piece of the body; none at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, WebError> {
        let slow = WebError::Slow { host: self.host.clone(), wait: Wait::Piece, after: self.limits.quiet };
        tokio::time::timeout(self.limits.quiet, self.piece()).await.unwrap_or(Err(slow))
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, WebError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|e| dial::broken(&self.host, &e))?;
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(other) => {
                    self.trailers.extend(other.into_trailers().unwrap_or_default());
                    continue;
                }
            };
            self.bytes = self.bytes.saturating_add(data.len());
            if self.bytes > self.limits.answer_bytes_max {
                let bytes_max = self.limits.answer_bytes_max;
                return Err(WebError::TooLarge { host: self.host.clone(), bytes_max });
            }
            return Ok(Some(data));
        }
        Ok(None)
    }
}

fn refusal(host: &str, status: StatusCode, headers: &HeaderMap) -> Option<WebError> {
    let (host, code) = (host.to_owned(), status.as_u16());
    if status.is_redirection() {
        let to = headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
        return Some(WebError::Redirected { host, status: code, to });
    }
    (!status.is_success()).then_some(WebError::Answered { host, status: code })
}

/// What goes over the wire.
fn message(target: &Target, request: Request) -> Result<http::Request<Full<Bytes>>, WebError> {
    let wrong = |e: &dyn std::fmt::Display| WebError::Request { why: e.to_string() };
    let mut message = http::Request::new(Full::new(request.body));
    *message.method_mut() = request.method;
    *message.uri_mut() = target.path.parse().map_err(|e: http::uri::InvalidUri| wrong(&e))?;
    let headers = message.headers_mut();
    *headers = request.headers;
    for ours in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::EXPECT, header::UPGRADE] {
        headers.remove(ours);
    }
    let host = HeaderValue::from_str(&target.authority()).map_err(|e| wrong(&e))?;
    headers.insert(header::HOST, host);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if !headers.contains_key(header::USER_AGENT) {
        let name = concat!("synapse/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(name));
    }
    Ok(message)
}
