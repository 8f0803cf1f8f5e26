//! A program connected to a node, as with `synapse join`: receives messages and reports on them.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::client::{Door, Line};

const WINDOW: usize = 256;

/// Reports the progress of a message.
pub(super) async fn report(line: &mut Line, said: &Value) -> anyhow::Result<()> {
    let body = said.to_string();
    let request = format!(
        "POST /api/v1/inbox/report HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    line.ask(request.as_bytes()).await.map(drop)
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: String,
    text: String,
}

/// The stream of messages that a node delivers.
pub(super) struct Inbox {
    line: Line,
    lines: Lines,
}

impl Inbox {
    pub(super) async fn open(socket: &Path) -> anyhow::Result<Self> {
        let mut line = Line::connect(&Door::Unix(PathBuf::from(socket))).await?;
        let request = format!("GET /api/v1/inbox/stream?window={WINDOW} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        line.wire.write_all(request.as_bytes()).await?;
        let mut inbox = Self { line, lines: Lines::default() };
        // The greeting says that the link is open.
        let hello = inbox.line().await?;
        ensure!(hello["type"] == "hello", "the node did not greet: {hello}");
        Ok(inbox)
    }

    /// Returns the next message and skips other lines.
    pub(super) async fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            let line = self.line().await?;
            if line["type"] == "message" {
                let field = |name: &str| line[name].as_str().map(str::to_owned);
                return Ok(Message {
                    id: field("message_id").context("a message has an id")?,
                    text: field("text").unwrap_or_default(),
                });
            }
        }
    }

    async fn line(&mut self) -> anyhow::Result<Value> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            if let Some(line) = self.lines.next() {
                return serde_json::from_slice(&line).context("a line of the inbox");
            }
            let read = self.line.wire.read(&mut buffer).await?;
            ensure!(read > 0, "the node closed the inbox");
            self.lines.push(&buffer[..read]);
        }
    }
}

/// JSON lines in a chunked body. They begin with a brace, which headers and chunk framing never do.
#[derive(Default)]
struct Lines {
    have: Vec<u8>,
}

impl Lines {
    fn push(&mut self, data: &[u8]) {
        self.have.extend_from_slice(data);
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = self.have.iter().position(|byte| *byte == b'\n')?;
            let line: Vec<u8> = self.have.drain(..=end).collect();
            if line.first() == Some(&b'{') {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_among_their_framing() {
        let mut lines = Lines::default();
        lines.push(b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n8\r\n{\"a\":1}\n\r\n4\r\n{\"b\"");
        assert_eq!(lines.next(), Some(b"{\"a\":1}\n".to_vec()));
        assert_eq!(lines.next(), None);
    }
}
