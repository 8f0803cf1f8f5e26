//! A stream of lines from a node, over a connection or through an outbox; also read as server-sent events.

use crate::{Client, outbox};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// Lines as they arrive.
pub struct LineStream {
    body: Source,
    rest: Vec<u8>,
    scanned: usize,
    _keep: Client,
}

pub(crate) enum Source {
    Http(Incoming),
    Outbox(outbox::Followed),
}

/// More than any line of ours; a stream without line ends is not ours.
const LINE_BYTES_MAX: usize = 8 << 20;

impl LineStream {
    pub(crate) fn new(body: Source, keep: Client) -> Self {
        Self { body, rest: Vec::new(), scanned: 0, _keep: keep }
    }

    /// The next line without its end; none when the stream is over, however it ended.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(found) = self.rest[self.scanned..].iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=self.scanned + found).collect();
                self.scanned = 0;
                return String::from_utf8(line).ok().map(|line| line.trim_end().to_owned());
            }
            self.scanned = self.rest.len();
            if self.rest.len() > LINE_BYTES_MAX {
                return None;
            }
            match &mut self.body {
                Source::Http(body) => {
                    let frame = body.frame().await?.ok()?;
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Source::Outbox(followed) => {
                    self.rest.extend(followed.next().await?.into_bytes());
                    self.rest.push(b'\n');
                }
            }
        }
    }

    /// The next server-sent event: its data.
    pub async fn next_event(&mut self) -> Option<SentEvent> {
        let mut event = SentEvent::default();
        loop {
            let line = self.next().await?;
            if line.is_empty() {
                if !event.data.is_empty() {
                    return Some(event);
                }
            } else if let Some(data) = line.strip_prefix("data: ") {
                event.data.push_str(data);
            } else if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut event.name);
            } else if let Some(id) = line.strip_prefix("id: ") {
                event.id = id.parse().ok();
            }
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SentEvent {
    pub id: Option<u64>,
    pub name: String,
    pub data: String,
}
