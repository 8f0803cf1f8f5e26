//! One open connection for one request after another, without an async runtime.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

pub(super) struct Post {
    wire: Box<dyn Wire>,
}

trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

/// Larger than any response here.
const ANSWER_BYTES_MAX: usize = 1 << 20;

impl Post {
    pub(super) fn unix(socket: &Path) -> anyhow::Result<Self> {
        // The path may be longer than the system allows for a socket.
        let (address, _folder) = synapse_store::home::socket_address(socket)?;
        let wire = UnixStream::connect(address);
        let wire = wire.with_context(|| format!("connecting to {}", socket.display()))?;
        Ok(Self { wire: Box::new(wire) })
    }

    pub(super) fn tcp(port: u16) -> anyhow::Result<Self> {
        let wire =
            TcpStream::connect(("127.0.0.1", port)).with_context(|| format!("connecting to port {port}"))?;
        wire.set_nodelay(true)?;
        Ok(Self { wire: Box::new(wire) })
    }

    /// Makes a request and returns the status and the body of the response.
    pub(super) fn ask(&mut self, path: &str, body: &Value) -> anyhow::Result<(u16, String)> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.wire.write_all(request.as_bytes())?;
        let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            if let Some(told) = whole(&answer)? {
                return Ok(told);
            }
            ensure!(answer.len() < ANSWER_BYTES_MAX, "an answer of more than {ANSWER_BYTES_MAX} bytes");
            let read = self.wire.read(&mut buffer)?;
            ensure!(read > 0, "the connection was closed before the answer");
            answer.extend_from_slice(&buffer[..read]);
        }
    }
}

/// The response, once all of it has arrived.
fn whole(answer: &[u8]) -> anyhow::Result<Option<(u16, String)>> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&answer[..end]).context("a head that is no text")?;
    let status =
        head.split(' ').nth(1).and_then(|word| word.parse().ok()).context("no status in the answer")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let Some(length) = length else { bail!("an answer without a length: {head}") };
    let body = &answer[end + 4..];
    Ok((body.len() >= length).then(|| (status, String::from_utf8_lossy(&body[..length]).into_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_when_all_of_it_is_there() {
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\ncontent-le").unwrap(), None);
        assert_eq!(whole(b"HTTP/1.1 409 No\r\nContent-Length: 4\r\n\r\nbus").unwrap(), None);
        let told = whole(b"HTTP/1.1 409 No\r\nContent-Length: 4\r\n\r\nbusy").unwrap();
        assert_eq!(told, Some((409, "busy".to_owned())));
        assert!(whole(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
