//! A thousand streams on one task: what they cost the node, and how soon all of them have an event.
//!
//! Half use TCP and half the Unix socket, because each allows only some five hundred connections.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::client::{Door, Line};
use super::super::report::{Row, median};
use super::super::{Bench, proc};
use super::inbox::{Inbox, report};
use super::load::Server;
use super::server_of;

const STREAMS: usize = 1000;
const MB_MAX: f64 = 50.0;
const EVENT_MS_MAX: f64 = 50.0;
const PATIENCE: Duration = Duration::from_secs(30);

pub(in super::super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let entry = bench.stage.sink("streams")?;
    let tcp = server_of(&bench.stage, &entry)?;
    let unix = Server { door: Door::Unix(entry.socket.clone()), token: None, ..tcp.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let events = bench.pick(20, 5);
    runtime.block_on(async {
        let mut inbox = Inbox::open(&entry.socket).await?;
        let mut line = Line::connect(&unix.door).await?;
        let params = r#"{"message":{"messageId":"hold","role":"ROLE_USER","parts":[{"text":"hold"}]},"configuration":{"returnImmediately":true}}"#;
        let answer: serde_json::Value = serde_json::from_slice(line.ask(&unix.call("SendMessage", params)).await?)?;
        let task = answer["result"]["task"]["id"].as_str().with_context(|| format!("a task in {answer}"))?.to_owned();
        let message = inbox.next().await?;
        report(&mut line, &json!({ "type": "seen", "message_id": message.id })).await?;
        let megabytes = || anyhow::Ok(proc::private_bytes(entry.node_pid)? as f64 / f64::from(1 << 20));
        let before = megabytes()?;
        let mut streams = Vec::with_capacity(STREAMS);
        for n in 0..STREAMS {
            let server = if n % 2 == 0 { &tcp } else { &unix };
            streams.push(Stream::open(server, &task).await?);
        }
        let added = megabytes()? - before;
        let mut times = Vec::new();
        for n in 0..events {
            let text = format!("event {n} for all");
            let began = Instant::now();
            report(&mut line, &json!({ "type": "progress", "text": text, "message_id": message.id })).await?;
            for stream in &mut streams {
                stream.wait_for(text.as_bytes()).await?;
            }
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let with_events = megabytes()? - before;
        report(&mut line, &json!({ "type": "completed", "text": "over", "message_id": message.id })).await?;
        let slowest = times.iter().copied().fold(0.0, f64::max);
        Ok(vec![
            Row::at_most("1,000 streams on one task: memory added", added.max(with_events), "MB", MB_MAX)
                .beside("before any event", added, "MB"),
            Row::at_most("1,000 streams on one task: an event to all", median(&times), "ms", EVENT_MS_MAX)
                .beside("slowest", slowest, "ms"),
        ])
    })
}

/// One subscriber.
struct Stream {
    line: Line,
    have: Vec<u8>,
}

impl Stream {
    /// Opens a stream and waits until the task itself has arrived.
    async fn open(server: &Server, task: &str) -> anyhow::Result<Self> {
        let mut line = Line::connect(&server.door).await?;
        line.wire.write_all(&server.call("SubscribeToTask", &format!(r#"{{"id":"{task}"}}"#))).await?;
        let mut stream = Self { line, have: Vec::new() };
        stream.wait_for(br#""task":"#).await?;
        Ok(stream)
    }

    /// Reads until these bytes have arrived, and discards everything up to them.
    async fn wait_for(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let mut buffer = [0; 4096];
        let came = async {
            loop {
                if let Some(at) = self.have.windows(wanted.len()).position(|part| part == wanted) {
                    self.have.drain(..at + wanted.len());
                    return anyhow::Ok(());
                }
                let read = self.line.wire.read(&mut buffer).await?;
                ensure!(read > 0, "a stream ended: {}", String::from_utf8_lossy(&self.have));
                self.have.extend_from_slice(&buffer[..read]);
            }
        };
        tokio::time::timeout(PATIENCE, came).await.context("an event did not come")?
    }
}
