//! HTTP/2, as gRPC needs it: a call, or only whether it is spoken at all.

use super::dial::{HEAD_BYTES_MAX, Running, broken, dial};
use super::target::Target;
use super::{Client, Limits, Request, Streaming, Wait, WebError};
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use synapse_tls::Trouble;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

/// How a client begins (RFC 9113, 3.4), with settings that say nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const FRAME_HEAD_BYTES: usize = 9;
const SETTINGS: u8 = 4;

impl Client {
    /// An error if whoever is at this URL does not begin to speak HTTP/2.
    pub async fn speaks_h2(&self, url: &str, limits: Limits) -> Result<(), WebError> {
        let target = self.check(url)?;
        let host = target.authority();
        let slow = WebError::Slow { host: host.clone(), wait: Wait::Answer, after: limits.whole };
        let meet = async { greet(self.meet(&target, limits).await?, &host).await };
        tokio::time::timeout(limits.whole, meet).await.unwrap_or(Err(slow))
    }

    /// As `stream`, over HTTP/2. What comes after the body is there when the body is read.
    pub async fn stream_h2(&self, request: Request) -> Result<Streaming, WebError> {
        let (limits, target) = (request.limits, self.check(&request.url)?);
        let host = target.authority();
        let slow = WebError::Slow { host: host.clone(), wait: Wait::Answer, after: limits.whole };
        tokio::time::timeout(limits.whole, self.open_h2(&target, request)).await.unwrap_or(Err(slow))
    }

    async fn open_h2(&self, target: &Target, request: Request) -> Result<Streaming, WebError> {
        let (limits, host) = (request.limits, target.authority());
        let message = message(target, request)?;
        let slow = WebError::Slow { host: host.clone(), wait: Wait::Connection, after: limits.connect };
        let meeting = tokio::time::timeout(limits.connect, self.meet(target, limits));
        let stream = meeting.await.unwrap_or(Err(slow))?;
        let trouble = Arc::new(OnceLock::new());
        let stream = Witness { stream, trouble: trouble.clone() };
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_header_list_size(HEAD_BYTES_MAX);
        let shaken = builder.handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await;
        let failed = |e: hyper::Error| match trouble.get() {
            None => broken(&host, &e),
            Some((trouble, told)) => self.untrusted(&host, *trouble, told),
        };
        let (mut sender, connection) = shaken.map_err(failed)?;
        let running = Running::of(connection);
        sender.ready().await.map_err(failed)?;
        let response = sender.send_request(message).await.map_err(failed)?;
        Ok(Streaming::new(host, response, limits, running))
    }

    /// A connection to one of the judged addresses, on which HTTP/2 may be begun.
    async fn meet(&self, target: &Target, limits: Limits) -> Result<Box<dyn Wire>, WebError> {
        let host = target.authority();
        let addresses = self.addresses(target, limits).await?;
        let stream = dial(&host, &addresses, limits.connect).await?;
        if !target.is_https {
            return Ok(Box::new(stream));
        }
        let mut config = (*self.tls().await?).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Box::new(self.shake_hands(target, Arc::new(config), stream).await?))
    }
}

/// Something to read from and write to.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

/// Notes why TLS gave up: that we are not let in is told after the handshake, and HTTP/2 keeps only the words of it.
struct Witness {
    stream: Box<dyn Wire>,
    trouble: Arc<OnceLock<(Trouble, String)>>,
}

impl AsyncRead for Witness {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if let Poll::Ready(Err(e)) = &read
            && let Some(found) = Trouble::among(e)
        {
            let _ = self.trouble.set(found);
        }
        read
    }
}

impl AsyncWrite for Witness {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What goes over the wire: the host is part of what is asked for, and a connection has no headers of its own.
fn message(target: &Target, request: Request) -> Result<http::Request<Full<Bytes>>, WebError> {
    let wrong = |e: &dyn std::fmt::Display| WebError::Request { why: e.to_string() };
    let scheme = if target.is_https { "https" } else { "http" };
    let uri = format!("{scheme}://{}{}", target.authority(), target.path);
    let mut message = http::Request::new(Full::new(request.body));
    *message.method_mut() = request.method;
    *message.uri_mut() = uri.parse().map_err(|e: http::uri::InvalidUri| wrong(&e))?;
    *message.headers_mut() = request.headers;
    for ours in [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
        message.headers_mut().remove(ours);
    }
    let name = concat!("synapse/", env!("CARGO_PKG_VERSION"));
    message.headers_mut().entry(header::USER_AGENT).or_insert(HeaderValue::from_static(name));
    Ok(message)
}

async fn greet<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, host: &str) -> Result<(), WebError> {
    let dropped = |e: std::io::Error| WebError::Dropped { host: host.to_owned(), why: e.to_string() };
    stream.write_all(PREFACE).await.map_err(dropped)?;
    stream.flush().await.map_err(dropped)?;
    let mut head = [0; FRAME_HEAD_BYTES];
    stream.read_exact(&mut head).await.map_err(dropped)?;
    if head.get(3) == Some(&SETTINGS) {
        return Ok(());
    }
    let said: String = String::from_utf8_lossy(&head).chars().filter(|c| !c.is_control()).collect();
    Err(WebError::NotHttp { host: host.to_owned(), why: format!("no HTTP/2: it says {said:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::{Options, Reach, Rules};
    use tokio::net::TcpListener;

    async fn met(says: &'static [u8]) -> Result<(), WebError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = vec![0; PREFACE.len()];
            stream.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, PREFACE);
            stream.write_all(says).await.unwrap();
        });
        let rules = Rules { reach: Reach::Private, plain_http: false };
        Client::new(Options { rules, ..Options::default() }).speaks_h2(&url, Limits::default()).await
    }

    #[tokio::test]
    async fn who_speaks_http_2_begins_with_settings() {
        met(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64").await.unwrap();
        let why = met(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap_err();
        assert!(matches!(&why, WebError::NotHttp { why, .. } if why.contains("HTTP/1.1")), "{why}");
        assert!(matches!(met(b"").await, Err(WebError::Dropped { .. })));
    }
}
