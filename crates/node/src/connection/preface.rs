//! Detects the HTTP version of a connection from its first bytes, which are then read again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// The first bytes of every HTTP/2 connection, and of no HTTP/1.1 connection.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns the stream from its beginning, and whether it speaks HTTP/2. Reads no more than it
/// needs, and has no time limit.
pub(super) async fn sniff<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<(Rewound<S>, bool)> {
    let (mut head, mut to) = ([0; PREFACE.len()], 0);
    while to < head.len() && PREFACE.starts_with(&head[..to]) {
        match stream.read(&mut head[to..]).await? {
            0 => break,
            n => to += n,
        }
    }
    let is_http2 = head == *PREFACE;
    Ok((Rewound { head, from: 0, to, stream }, is_http2))
}

/// A stream whose first bytes are read again.
pub(super) struct Rewound<S> {
    head: [u8; PREFACE.len()],
    from: usize,
    to: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.from == self.to {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let to = self.to.min(self.from + buf.remaining());
        buf.put_slice(&self.head[self.from..to]);
        self.from = to;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    /// However the bytes are split, all of them are read again, and the result is the same.
    #[tokio::test]
    async fn what_was_read_comes_again() {
        let whole = [PREFACE.as_slice(), b"and more"].concat();
        let cases: [(&[u8], bool); 7] = [
            (&whole, true),
            (PREFACE, true),
            (&PREFACE[..20], false),
            (b"POST /message HTTP/1.1\r\n\r\n", false),
            (b"PRI * HTTP/1.1\r\n\r\nmore than the preface has", false),
            (b"P", false),
            (b"", false),
        ];
        for (said, expected) in cases {
            for step in [1, 2, 7, 100] {
                let (mut near, far) = tokio::io::duplex(step);
                let text = said.to_vec();
                let writer = tokio::spawn(async move { near.write_all(&text).await });
                let (mut stream, is_http2) = sniff(far).await.unwrap();
                let mut again = Vec::new();
                stream.read_to_end(&mut again).await.unwrap();
                writer.await.unwrap().unwrap();
                assert_eq!((is_http2, again.as_slice()), (expected, said), "{step} at once");
            }
        }
    }
}
