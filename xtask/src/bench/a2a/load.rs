//! The load generator of this set: SendMessage over JSON-RPC, one request at a time on each
//! connection.
//!
//! Invariant: a response counts only if its task is completed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};

use super::super::client::{Door, Line, Request, Tally, host};

const THREADS: usize = 2;
const ROUND_MAX: Duration = Duration::from_secs(1800);
/// The length of a message's text.
const TEXT_BYTES: usize = 300;
const DONE: &[u8] = b"TASK_STATE_COMPLETED";

/// A server, and how to call it.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) door: Door,
    pub(super) path: String,
    pub(super) token: Option<String>,
}

impl Server {
    /// The head of a request, except for its last line.
    pub(super) fn head(&self, length: usize) -> String {
        let login = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n{}Content-Length: {length}\r\n\r\n",
            self.path,
            host(&self.door),
            login.unwrap_or_default(),
        )
    }

    /// A whole request.
    pub(super) fn call(&self, method: &str, params: &str) -> Vec<u8> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        format!("{}{body}", self.head(body.len())).into_bytes()
    }

    /// A request whose message id is changed in place. The prefix is the time, so ids are unique as
    /// long as no two requests are built in the same millisecond.
    fn message(&self) -> Request {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let text: String = "message ".chars().cycle().take(TEXT_BYTES).collect();
        let front = format!(r#"{{"message":{{"messageId":"{:x}-"#, since.as_millis());
        let params = format!(
            r#"{front}{}","role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}}}"#,
            "0".repeat(Request::DIGITS)
        );
        let bytes = self.call("SendMessage", &params);
        let id_at = bytes.len() - 1 - params.len() + front.len();
        Request::new(bytes, Some(id_at))
    }

    /// Sends `count` requests over this many connections. Calls `before` once all are open and none
    /// has started.
    pub(super) fn load(
        &self,
        connections: usize,
        count: u64,
        before: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Tally> {
        let gate = Arc::new(Barrier::new(THREADS + 1));
        // The first requests are the warm-up.
        let next = Arc::new(AtomicU64::new(connections as u64));
        let request = self.message();
        let mut threads = Vec::new();
        for n in 0..THREADS {
            let share = connections / THREADS + usize::from(n < connections % THREADS);
            let hand = Hand {
                server: self.clone(),
                request: request.clone(),
                next: next.clone(),
                until: count + connections as u64,
            };
            let (gate, first) = (gate.clone(), (n * connections.div_ceil(THREADS)) as u64);
            threads.push(std::thread::spawn(move || hand.work(share, first, &gate)));
        }
        gate.wait();
        let ready = before();
        let began = Instant::now();
        gate.wait();
        let mut tally = Tally::default();
        for thread in threads {
            let part = thread.join().map_err(|_| anyhow::anyhow!("a thread of the load panicked"))??;
            tally.answered += part.len() as u64;
            tally.latencies_us.extend(part);
        }
        tally.took = began.elapsed();
        ensure!(tally.answered == count, "{} of {count} were answered", tally.answered);
        ready.map(|()| tally)
    }
}

/// One thread of the load generator.
struct Hand {
    server: Server,
    request: Request,
    next: Arc<AtomicU64>,
    until: u64,
}

impl Hand {
    fn work(self, share: usize, first: u64, gate: &Barrier) -> anyhow::Result<Vec<u32>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let opened = runtime.context("a runtime").and_then(|runtime| {
            let lines = runtime.block_on(async {
                let opened = tokio::time::timeout(ROUND_MAX, self.open(share, first)).await;
                opened.context("the connections did not open")?
            })?;
            Ok((runtime, lines))
        });
        // Always reach both barriers, even after a failure, because the other threads wait there.
        gate.wait();
        gate.wait();
        let (runtime, lines) = opened?;
        runtime.block_on(async {
            let asked: Vec<_> = lines
                .into_iter()
                .map(|line| tokio::spawn(ask_on(line, self.request.clone(), self.next.clone(), self.until)))
                .collect();
            let all = async {
                let mut latencies = Vec::new();
                for one in asked {
                    latencies.extend(one.await.context("a connection's task")??);
                }
                anyhow::Ok(latencies)
            };
            tokio::time::timeout(ROUND_MAX, all).await.context("the round did not end")?
        })
    }

    /// Opens connections, and makes one request on each.
    async fn open(&self, share: usize, first: u64) -> anyhow::Result<Vec<Line>> {
        let mut lines = Vec::with_capacity(share);
        for n in 0..share {
            let mut line = Line::connect(&self.server.door).await?;
            let mut request = self.request.clone();
            request.stamp(first + n as u64);
            check(line.ask(&request.bytes).await?)?;
            lines.push(line);
        }
        Ok(lines)
    }
}

async fn ask_on(
    mut line: Line,
    mut request: Request,
    next: Arc<AtomicU64>,
    until: u64,
) -> anyhow::Result<Vec<u32>> {
    let mut latencies = Vec::with_capacity(1024);
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= until {
            return Ok(latencies);
        }
        request.stamp(n);
        let asked = Instant::now();
        check(line.ask(&request.bytes).await?)?;
        latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
}

fn check(answer: &[u8]) -> anyhow::Result<()> {
    let done = answer.windows(DONE.len()).any(|part| part == DONE);
    ensure!(done, "its task is not completed: {}", String::from_utf8_lossy(answer));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_whole_and_has_its_own_id() {
        let server = Server { door: Door::Tcp(8100), path: "/rpc".into(), token: Some("secret".into()) };
        let mut request = server.message();
        request.stamp(0xabc);
        let text = String::from_utf8(request.bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("POST /rpc ") && head.contains("Authorization: Bearer secret\r\n"), "{head}");
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let message = &body["params"]["message"];
        assert!(message["messageId"].as_str().unwrap().ends_with("-000000000abc"), "{message}");
        assert_eq!(message["parts"][0]["text"].as_str().unwrap().len(), TEXT_BYTES);
    }

    #[test]
    fn an_answer_that_is_not_done_does_not_count() {
        assert!(check(br#"{"result":{"task":{"status":{"state":"TASK_STATE_COMPLETED"}}}}"#).is_ok());
        assert!(check(br#"{"error":{"code":-32603}}"#).is_err());
    }
}
