//! From a target to a connection: look up once, judge all, connect to one of them, prove the name.

use super::target::{Host, Target};
use super::{Client, Limits, Wait, WebError};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use synapse_tls::Trouble;
use synapse_tls::client::{self, SetupError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

/// A name with more addresses than these is tried at the first ones; all are judged.
const TRIED_MAX: usize = 4;
pub(super) const HEAD_BYTES_MAX: u32 = 64 << 10;
const HEADERS_MAX: usize = 100;

/// Who knows the addresses of a name.
#[derive(Debug, Clone)]
pub(super) enum Lookup {
    System,
    /// What a name leads to in a test.
    #[cfg(test)]
    Fixed(Vec<IpAddr>),
}

/// A connection that ends with this.
#[derive(Debug)]
pub(super) struct Running {
    task: JoinHandle<()>,
    /// Of HTTP/1: a connection nobody can send on any more may hang up.
    _sender: Option<http1::SendRequest<Full<Bytes>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    /// How it ends is told to whoever waits for the answer.
    pub(super) fn of(connection: impl Future<Output = Result<(), hyper::Error>> + Send + 'static) -> Self {
        Self { task: tokio::spawn(async { drop(connection.await) }), _sender: None }
    }
}

#[derive(Debug)]
pub(super) struct Guarded {
    sender: http1::SendRequest<Full<Bytes>>,
    running: Running,
}

impl Guarded {
    pub(super) fn into_running(mut self) -> Running {
        self.running._sender = Some(self.sender);
        self.running
    }

    pub(super) async fn send(
        &mut self,
        message: http::Request<Full<Bytes>>,
        host: &str,
    ) -> Result<http::Response<Incoming>, WebError> {
        let broken = |e: hyper::Error| broken(host, &e);
        self.sender.ready().await.map_err(broken)?;
        self.sender.send_request(message).await.map_err(broken)
    }
}

impl Client {
    pub(super) async fn connect(&self, target: &Target, limits: Limits) -> Result<Guarded, WebError> {
        let host = target.authority();
        let addresses = self.addresses(target, limits).await?;
        let tls = if target.is_https { Some(self.tls().await?) } else { None };
        let stream = dial(&host, &addresses, limits.connect).await?;
        match tls {
            None => over(stream, &host).await,
            Some(config) => {
                let stream = self.shake_hands(target, config, stream).await?;
                over(stream, &host).await
            }
        }
    }

    /// TLS over a connection, with whoever the target names.
    pub(super) async fn shake_hands(
        &self,
        target: &Target,
        config: Arc<ClientConfig>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, WebError> {
        let name = client::server_name(&target.host.to_string()).map_err(|e| unusable(&e))?;
        let shaken = TlsConnector::from(config).connect(name, stream).await;
        shaken.map_err(|e| {
            let (trouble, told) = Trouble::among(&e).unwrap_or((Trouble::HungUp, e.to_string()));
            self.untrusted(&target.authority(), trouble, &told)
        })
    }

    pub(super) fn untrusted(&self, host: &str, trouble: Trouble, told: &str) -> WebError {
        let why = trouble.words(host, self.options.tls.ca.as_deref(), told);
        WebError::Untrusted { host: host.to_owned(), code: trouble.code(), why }
    }

    /// Every address of the host, all of them judged: one that is refused refuses the whole.
    pub(super) async fn addresses(
        &self,
        target: &Target,
        limits: Limits,
    ) -> Result<Vec<SocketAddr>, WebError> {
        let found = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.look_up(name, target.port, limits).await?,
        };
        for address in &found {
            target.check_address(*address)?;
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, target.port)).collect())
    }

    async fn look_up(&self, name: &str, port: u16, limits: Limits) -> Result<Vec<IpAddr>, WebError> {
        let none = |why: String| WebError::NoSuchName { host: name.to_owned(), why };
        match &self.lookup {
            #[cfg(test)]
            Lookup::Fixed(addresses) => Ok(addresses.clone()),
            Lookup::System => {
                let slow = WebError::Slow { host: name.to_owned(), wait: Wait::Name, after: limits.connect };
                let asked = tokio::time::timeout(limits.connect, tokio::net::lookup_host((name, port))).await;
                let found = asked.map_err(|_| slow)?.map_err(|e| none(e.to_string()))?;
                let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                if found.is_empty() {
                    Err(none("its name is known, but leads nowhere".into()))
                } else {
                    Ok(found)
                }
            }
        }
    }

    /// Read from the disk once; what could not be read is tried again with the next call.
    pub(super) async fn tls(&self) -> Result<Arc<ClientConfig>, WebError> {
        let read = || async {
            let files = self.options.tls.clone();
            let read = tokio::task::spawn_blocking(move || client::config(&files)).await;
            read.map_err(|e| WebError::Request { why: e.to_string() })?.map_err(|e| unusable(&e))
        };
        self.tls.get_or_try_init(read).await.cloned()
    }
}

/// The first address that takes the connection. A silent one leaves time for the others.
pub(super) async fn dial(
    host: &str,
    addresses: &[SocketAddr],
    within: Duration,
) -> Result<TcpStream, WebError> {
    let mut why = "it has no address".to_owned();
    let each = within / u32::try_from(addresses.len().clamp(1, TRIED_MAX)).unwrap_or(1);
    for address in addresses.iter().take(TRIED_MAX) {
        match tokio::time::timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(e)) => why = e.to_string(),
            Err(_) => why = format!("no connection within {} s", each.as_secs_f32()),
        }
    }
    Err(WebError::Unreachable { host: host.to_owned(), why })
}

async fn over<S>(stream: S, host: &str) -> Result<Guarded, WebError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX as usize).max_headers(HEADERS_MAX);
    let shaken = builder.handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|e| broken(host, &e))?;
    Ok(Guarded { sender, running: Running::of(connection) })
}

fn unusable(error: &SetupError) -> WebError {
    WebError::Request { why: error.to_string() }
}

/// What became of a connection that was there.
pub(super) fn broken(host: &str, error: &hyper::Error) -> WebError {
    let host = host.to_owned();
    if let Some((trouble, told)) = Trouble::among(error) {
        let why = trouble.words(&host, None, &told);
        return WebError::Untrusted { host, code: trouble.code(), why };
    }
    let why = error.to_string();
    if error.is_parse_too_large() {
        WebError::HeadTooLarge { host }
    } else if error.is_parse() && !error.is_incomplete_message() {
        WebError::NotHttp { host, why }
    } else {
        WebError::Dropped { host, why }
    }
}
