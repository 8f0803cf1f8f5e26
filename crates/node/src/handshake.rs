//! TLS handshakes: each with a deadline, and a limited number at once. A new one replaces the
//! oldest.
//!
//! So a caller that opens connections and stays silent keeps nobody else out: a good client is done
//! within milliseconds, long before it would be the oldest.
//!
//! Not here: certificates and keys (`synapse-tls`), what happens on the connection afterwards
//! (`listen`).

use crate::auth::TlsPeer;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use synapse_tls::{Certificate, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The maximum number of handshakes at once; fewer than connections, so that they cannot use up all
/// of those.
const AT_ONCE_MAX: usize = 128;
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long and how much to read from a refused client, so that the reason reaches it: closing a
/// socket with unread bytes would discard the reason.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 64 << 10;
/// The first byte of every TLS connection.
const HANDSHAKE_RECORD: u8 = 0x16;

const PLAIN_ANSWER: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\
Connection: close\r\n\r\n\
{\"error\":{\"code\":\"tls_required\",\"message\":\"this port speaks TLS; call it as https://, not http://\"}}";

pub struct Handshakes {
    server: Server,
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    next: u64,
    /// Dropping a sender ends its handshake.
    all: VecDeque<(u64, oneshot::Sender<()>)>,
}

impl Handshakes {
    pub fn new(server: Server) -> Self {
        Self { server, under_way: Mutex::default() }
    }

    /// Returns the secured stream, or why the handshake failed.
    pub async fn shake(
        self: &Arc<Self>,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, TlsPeer), String> {
        let (place, evicted) = self.enter();
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(TIMEOUT, self.shake_hands(stream)) => {
                shaken.unwrap_or_else(|_| Err(format!("not done within {} s", TIMEOUT.as_secs())))
            }
            _ = evicted => Err("it made room for others".into()),
        };
        drop(place);
        shaken
    }

    async fn shake_hands(&self, stream: TcpStream) -> Result<(TlsStream<TcpStream>, TlsPeer), String> {
        let mut first = [0];
        let seen = stream.peek(&mut first).await.map_err(|e| e.to_string())?;
        if seen == 0 {
            return Err("it closed without a word".into());
        }
        if first[0] != HANDSHAKE_RECORD {
            // A client that starts with a letter probably speaks HTTP; others would not understand
            // the answer.
            let answer = if first[0].is_ascii_uppercase() { PLAIN_ANSWER } else { "" };
            dismiss(stream, answer).await;
            return Err("it does not speak TLS".into());
        }
        let loaded = self.server.current(Instant::now());
        let accepting = TlsAcceptor::from(loaded.config.clone()).accept(stream).into_fallible();
        let stream = match accepting.await {
            Ok(stream) => stream,
            Err((e, stream)) => {
                dismiss(stream, "").await;
                return Err(e.to_string());
            }
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let certificate = shown.map(|der| Certificate::read(der)).transpose();
        // It was verified by a trusted CA, and yet we cannot parse it: treat it as an error.
        let certificate = certificate.map_err(|why| format!("its certificate cannot be read: {why}"))?;
        Ok((stream, TlsPeer { hosts: loaded.hosts.clone(), certificate }))
    }

    fn enter(self: &Arc<Self>) -> (Place, oneshot::Receiver<()>) {
        let (stay, evicted) = oneshot::channel();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.all.len() >= AT_ONCE_MAX {
            under_way.all.pop_front();
        }
        let id = under_way.next;
        under_way.next += 1;
        under_way.all.push_back((id, stay));
        (Place { id, of: self.clone() }, evicted)
    }
}

/// A slot among the running handshakes, released however the handshake ends.
struct Place {
    id: u64,
    of: Arc<Handshakes>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.of.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.all.retain(|(id, _)| *id != self.id);
    }
}

/// Sends a last answer, and waits a little until the client has read it.
async fn dismiss(mut stream: TcpStream, last_word: &str) {
    let heard = async {
        stream.write_all(last_word.as_bytes()).await?;
        stream.shutdown().await?;
        let (mut rest, mut read) = (vec![0; 4 << 10], 0);
        while read < LINGER_BYTES_MAX {
            match stream.read(&mut rest).await? {
                0 => break,
                n => read += n,
            }
        }
        std::io::Result::Ok(())
    };
    let _ = tokio::time::timeout(LINGER, heard).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_answer_is_as_long_as_it_says() {
        let (head, body) = PLAIN_ANSWER.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{} bytes", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok(), "{body}");
    }
}
