//! A minimal HTTP server: reads a request, writes a fixed response. Shows the cost of the client
//! and the kernel.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The length of a status response with its head.
const ANSWER_BYTES: usize = 400;

/// Answers on a port of 127.0.0.1 until it is dropped, on two threads like a node.
pub(super) struct Responder {
    pub(super) port: u16,
    _runtime: tokio::runtime::Runtime,
}

impl Responder {
    pub(super) fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))));
        let listener = listener.context("a port for the responder")?;
        let port = listener.local_addr()?.port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream));
            }
        });
        Ok(Self { port, _runtime: runtime })
    }
}

async fn answer_all(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let answer = answer();
    let mut heard = [0; 4096];
    let mut have = 0;
    loop {
        let read = stream.read(&mut heard[have..]).await?;
        if read == 0 {
            return Ok(());
        }
        have += read;
        if heard[..have].ends_with(b"\r\n\r\n") || have == heard.len() {
            have = 0;
            stream.write_all(&answer).await?;
        }
    }
}

fn answer() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
    let body = ANSWER_BYTES - head.len() - "300\r\n\r\n".len();
    format!("{head}{body}\r\n\r\n{}", "x".repeat(body)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        assert_eq!(answer().len(), ANSWER_BYTES);
    }
}
