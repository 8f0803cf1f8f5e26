//! The load of a sender with several messages in flight on one connection: `POST /api/v1/stream`.
//!
//! It is one request with a chunked body. For all messages that one read acknowledged, it sends new
//! ones in one write.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::{Line, Request};

const HEAD: &[u8] = b"POST /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Keeps `in_flight` messages in flight until `max` were sent in total. Returns the latencies in
/// microseconds.
pub(super) async fn run(
    mut line: Line,
    mut message: Request,
    in_flight: usize,
    max: u64,
    next: Arc<AtomicU64>,
) -> anyhow::Result<Vec<u32>> {
    line.wire.write_all(HEAD).await?;
    let mut sent: VecDeque<Instant> = VecDeque::with_capacity(in_flight);
    let mut latencies = Vec::with_capacity(1024);
    let mut answers = Answers::default();
    let (mut room, mut over) = (in_flight, false);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let mut out = Vec::with_capacity(room * (message.bytes.len() + 16));
        while room > 0 && !over {
            let n = next.fetch_add(1, Ordering::Relaxed);
            over = n >= max;
            if !over {
                message.stamp(n);
                out.extend_from_slice(format!("{:x}\r\n", message.bytes.len()).as_bytes());
                out.extend_from_slice(&message.bytes);
                out.extend_from_slice(b"\r\n");
                sent.push_back(Instant::now());
                room -= 1;
            }
        }
        line.wire.write_all(&out).await?;
        if sent.is_empty() {
            line.wire.write_all(b"0\r\n\r\n").await?;
            return Ok(latencies);
        }
        let read = line.wire.read(&mut buffer).await?;
        ensure!(read > 0, "the stream was closed with {} messages under way", sent.len());
        for _ in 0..answers.count(&buffer[..read])? {
            let Some(at) = sent.pop_front() else { bail!("an answer to nothing") };
            latencies.push(u32::try_from(at.elapsed().as_micros()).unwrap_or(u32::MAX));
            room += 1;
        }
    }
}

/// Counts responses by their ends: an object's brace and a line end, which chunk framing never
/// contains.
#[derive(Default)]
struct Answers {
    last: u8,
}

impl Answers {
    fn count(&mut self, data: &[u8]) -> anyhow::Result<usize> {
        if data.windows(8).any(|w| w == b"\"error\":") {
            bail!("refused: {}", String::from_utf8_lossy(data));
        }
        let mut count = 0;
        for byte in data {
            count += usize::from(self.last == b'}' && *byte == b'\n');
            self.last = *byte;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_across_reads() {
        let mut answers = Answers::default();
        assert_eq!(answers.count(b"HTTP/1.1 200 OK\r\n\r\n5\r\n{a:1}").unwrap(), 0);
        assert_eq!(answers.count(b"\n\r\n5\r\n{b:2}\n\r\n").unwrap(), 2);
        assert!(answers.count(b"{\"error\":{}}\n").is_err());
    }
}
