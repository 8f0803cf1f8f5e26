//! Whether HTTP/2 is spoken somewhere, as gRPC needs it: both sides introduce themselves, and nothing is asked.

use super::dial::{dial, unusable};
use super::{Client, Limits, Wait, WebError};
use std::sync::Arc;
use synapse_tls::Trouble;
use synapse_tls::client;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

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
        let meet = async {
            let addresses = self.addresses(&target, limits).await?;
            let stream = dial(&host, &addresses, limits.connect).await?;
            if !target.is_https {
                return greet(stream, &host).await;
            }
            let mut config = (*self.tls().await?).clone();
            config.alpn_protocols = vec![b"h2".to_vec()];
            let name = client::server_name(&target.host.to_string()).map_err(|e| unusable(&e))?;
            let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
            let stream = shaken.map_err(|e| {
                let found = Trouble::among(&e).unwrap_or((Trouble::HungUp, e.to_string()));
                let why = found.0.words(&host, self.options.tls.ca.as_deref(), &found.1);
                WebError::Untrusted { host: host.clone(), code: found.0.code(), why }
            })?;
            greet(stream, &host).await
        };
        tokio::time::timeout(limits.whole, meet).await.unwrap_or(Err(slow))
    }
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
