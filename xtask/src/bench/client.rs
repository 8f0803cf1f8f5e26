//! The load generator: many keep-alive connections, one request at a time on each, hand-written
//! HTTP.
//!
//! It must cost less than the server it loads. So requests are prebuilt bytes, and responses are
//! read only as far as needed to know where they end and whether they succeeded.
//!
//! Invariant: a round ends, by count or by time, and at the latest after `ROUND_MAX`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::rustls::ClientConfig;

use super::streaming;

const THREADS: usize = 2;
const ROUND_MAX: Duration = Duration::from_secs(120);
/// The length of a message's text.
const TEXT_BYTES: usize = 300;

/// Where the requests go.
#[derive(Debug, Clone)]
pub(super) enum Door {
    Unix(PathBuf),
    Tcp(u16),
    Tls(u16, Arc<ClientConfig>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Ask {
    Status,
    /// One message per request, each with its own id.
    Message,
    /// The same messages over one request per connection, with this many in flight on each.
    Stream(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Count(u64),
    Elapsed(Duration),
}

pub(super) struct Round {
    pub(super) door: Door,
    pub(super) connections: usize,
    pub(super) ask: Ask,
    pub(super) until: Until,
}

/// The result of a round.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) answered: u64,
    pub(super) took: Duration,
    pub(super) latencies_us: Vec<u32>,
}

impl Tally {
    pub(super) fn per_second(&self) -> f64 {
        self.answered as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// The latency in milliseconds that this share of the responses did not exceed.
    pub(super) fn latency_ms(&mut self, share: f64) -> f64 {
        self.latencies_us.sort_unstable();
        let last = self.latencies_us.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        f64::from(self.latencies_us.get(at).copied().unwrap_or(0)) / 1000.0
    }
}

impl Round {
    /// Connects and warms up, then runs `before`, then starts the load on all threads at once.
    pub(super) fn run(&self, before: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Tally> {
        let gate = Arc::new(Barrier::new(THREADS + 1));
        let next = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for n in 0..THREADS {
            let share = self.connections / THREADS + usize::from(n < self.connections % THREADS);
            let hand = Hand {
                door: self.door.clone(),
                request: request(self.ask, &self.door),
                ask: self.ask,
                until: self.until,
                next: next.clone(),
            };
            let gate = gate.clone();
            threads.push(std::thread::spawn(move || hand.work(share, &gate)));
        }
        gate.wait();
        let ready = before();
        let began = Instant::now();
        gate.wait();
        let mut tally = Tally::default();
        for thread in threads {
            let part = thread.join().map_err(|_| anyhow::anyhow!("a thread of the load panicked"))??;
            tally.answered += part.answered;
            tally.latencies_us.extend(part.latencies_us);
        }
        tally.took = began.elapsed();
        ready.map(|()| tally)
    }
}

/// One thread of the load generator.
struct Hand {
    door: Door,
    request: Request,
    ask: Ask,
    until: Until,
    next: Arc<AtomicU64>,
}

impl Hand {
    fn work(self, share: usize, gate: &Barrier) -> anyhow::Result<Tally> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let opened = runtime.context("a runtime").and_then(|runtime| {
            let lines = runtime.block_on(async {
                let opened = tokio::time::timeout(ROUND_MAX, self.open(share)).await;
                opened.context("the connections did not open")?
            })?;
            Ok((runtime, lines))
        });
        // Always reach both barriers, even after a failure, because the other threads wait there.
        gate.wait();
        gate.wait();
        let (runtime, lines) = opened?;
        runtime.block_on(async {
            let (until, next) = (self.until, &self.next);
            let shared: Vec<_> = lines
                .into_iter()
                .map(|line| match (self.ask, until) {
                    (Ask::Stream(in_flight), Until::Count(max)) => {
                        tokio::spawn(streaming::run(line, self.request.clone(), in_flight, max, next.clone()))
                    }
                    _ => tokio::spawn(line.ask_on(self.request.clone(), until, next.clone())),
                })
                .collect();
            let all = async {
                let mut tally = Tally::default();
                for one in shared {
                    let latencies = one.await.context("a connection's task")??;
                    tally.answered += latencies.len() as u64;
                    tally.latencies_us.extend(latencies);
                }
                anyhow::Ok(tally)
            };
            tokio::time::timeout(ROUND_MAX, all).await.context("the round did not end")?
        })
    }

    /// Opens connections and makes one request on each, because the node identifies the caller at
    /// the first request.
    async fn open(&self, count: usize) -> anyhow::Result<Vec<Line>> {
        let warm = request(Ask::Status, &self.door);
        let mut lines = Vec::with_capacity(count);
        for _ in 0..count {
            let mut line = Line::connect(&self.door).await?;
            line.ask(&warm.bytes).await?;
            lines.push(line);
        }
        Ok(lines)
    }
}

pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// One connection.
pub(super) struct Line {
    pub(super) wire: Box<dyn Wire>,
    answer: Vec<u8>,
}

impl Line {
    pub(super) async fn connect(door: &Door) -> anyhow::Result<Self> {
        let dial = async |port: u16| {
            let stream = TcpStream::connect(("127.0.0.1", port)).await.context("connecting by TCP")?;
            stream.set_nodelay(true)?;
            anyhow::Ok(stream)
        };
        let wire: Box<dyn Wire> = match door {
            Door::Unix(path) => {
                let (address, _guard) = synapse_store::home::socket_address(path)?;
                Box::new(UnixStream::connect(&address).await.context("connecting to the Unix socket")?)
            }
            Door::Tcp(port) => Box::new(dial(*port).await?),
            Door::Tls(port, config) => {
                let name = synapse_tls::client::server_name("localhost")?;
                let connector = tokio_rustls::TlsConnector::from(config.clone());
                let stream = connector.connect(name, dial(*port).await?).await;
                Box::new(stream.context("the TLS handshake")?)
            }
        };
        Ok(Self { wire, answer: vec![0; 16 << 10] })
    }

    /// Sends requests until the round is over. Returns the latencies in microseconds.
    async fn ask_on(
        mut self,
        mut request: Request,
        until: Until,
        next: Arc<AtomicU64>,
    ) -> anyhow::Result<Vec<u32>> {
        let began = Instant::now();
        let mut latencies = Vec::with_capacity(1024);
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let over = match until {
                Until::Count(max) => n >= max,
                Until::Elapsed(max) => began.elapsed() >= max,
            };
            if over {
                return Ok(latencies);
            }
            request.stamp(n);
            let asked = Instant::now();
            self.ask(&request.bytes).await?;
            latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
    }

    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.wire.write_all(request).await?;
        let mut have = 0;
        loop {
            if let Some((head, whole)) = extent(&self.answer[..have])
                && have >= whole
            {
                let answer = &self.answer[..whole];
                if !answer.starts_with(b"HTTP/1.1 200") {
                    bail!("refused: {}", String::from_utf8_lossy(answer));
                }
                return Ok(&answer[head..]);
            }
            ensure!(have < self.answer.len(), "an answer of more than {} bytes", self.answer.len());
            let read = self.wire.read(&mut self.answer[have..]).await?;
            ensure!(read > 0, "the connection was closed before the answer");
            have += read;
        }
    }
}

/// Where the head and the whole response end, once the head has arrived.
fn extent(answer: &[u8]) -> Option<(usize, usize)> {
    const LENGTH: &[u8] = b"content-length: ";
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let mut length = 0;
    for line in answer[..head].split(|byte| *byte == b'\n') {
        if line.len() > LENGTH.len() && line[..LENGTH.len()].eq_ignore_ascii_case(LENGTH) {
            let digits = line[LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            length = digits.fold(0, |sum, digit| 10 * sum + usize::from(digit - b'0'));
        }
    }
    Some((head, head + length))
}

/// Makes a single GET request.
pub(super) fn get(door: &Door, path: &str) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(async {
        let mut line = Line::connect(door).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", host(door));
        Ok::<_, anyhow::Error>(line.ask(request.as_bytes()).await?.to_vec())
    });
    String::from_utf8(asked?).context("an answer that is no text")
}

/// A request as bytes. In a message, only the id changes.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    id_at: Option<usize>,
}

/// The last group of a UUID.
const COUNTER_DIGITS: usize = 12;

impl Request {
    /// The length of the part of the id that is changed in place.
    pub(super) const DIGITS: usize = COUNTER_DIGITS;

    pub(super) fn new(bytes: Vec<u8>, id_at: Option<usize>) -> Self {
        Self { bytes, id_at }
    }

    pub(super) fn stamp(&mut self, n: u64) {
        let Some(at) = self.id_at else { return };
        for (place, digit) in self.bytes[at..at + COUNTER_DIGITS].iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(n >> (4 * place)) as usize & 15];
        }
    }
}

pub(super) fn host(door: &Door) -> String {
    match door {
        Door::Unix(_) => "localhost".to_owned(),
        Door::Tcp(port) | Door::Tls(port, _) => format!("localhost:{port}"),
    }
}

fn request(ask: Ask, door: &Door) -> Request {
    let host = host(door);
    match ask {
        Ask::Status => Request {
            bytes: format!("GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(),
            id_at: None,
        },
        Ask::Message | Ask::Stream(_) => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let ms = format!("{:012x}", since.as_millis());
            let text: String = "message ".chars().cycle().take(TEXT_BYTES).collect();
            // Like a UUIDv7: the time first, so that ids are in order.
            let front = format!(r#"{{"message":"{text}","message_id":"{}-{}-7000-8000-"#, &ms[..8], &ms[8..]);
            let body = format!(r#"{front}{}"}}"#, "0".repeat(COUNTER_DIGITS));
            if let Ask::Stream(_) = ask {
                return Request { bytes: format!("{body}\n").into_bytes(), id_at: Some(front.len()) };
            }
            let head = format!(
                "POST /message HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let id_at = Some(head.len() + front.len());
            Request { bytes: format!("{head}{body}").into_bytes(), id_at }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_its_head_says() {
        assert_eq!(extent(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n"), None);
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nx: y\r\n\r\nab";
        assert_eq!(extent(text), Some((text.len() - 2, text.len() + 10)));
        assert_eq!(extent(b"HTTP/1.1 204 No\r\n\r\n"), Some((19, 19)));
    }

    #[test]
    fn every_message_has_an_id_of_its_own() {
        let mut request = request(Ask::Message, &Door::Tcp(8100));
        request.stamp(0xabc);
        let text = String::from_utf8(request.bytes.clone()).unwrap();
        assert!(text.ends_with("-7000-8000-000000000abc\"}"), "{text}");
        let body: serde_json::Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(body["message"].as_str().unwrap().len(), TEXT_BYTES);
        assert_eq!(body["message_id"].as_str().unwrap().len(), 36);
    }

    #[test]
    fn latencies_by_share() {
        let mut tally =
            Tally { latencies_us: (1..=100).rev().map(|ms| ms * 1000).collect(), ..Tally::default() };
        assert!((tally.latency_ms(0.5) - 51.0).abs() < 1.5);
        assert!((tally.latency_ms(1.0) - 100.0).abs() < 1e-9);
        assert!(Tally::default().latency_ms(0.99) < 1e-9);
    }
}
