//! HTTP by hand, as much as a model server needs: requests with JSON in them, answers in one piece or as events.

use serde_json::Value;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The reader of an answer went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

pub(super) struct Request {
    pub method: String,
    pub path: String,
    /// Null if it was no JSON.
    pub body: Value,
}

pub(super) struct Wire {
    reader: BufReader<TcpStream>,
    /// What was sent has no length, so that only its end ends it.
    over: bool,
}

const BODY_BYTES_MAX: u64 = 64 << 20;
/// A CLI keeps its connection open for the next turn, which may take a while.
const IDLE: Duration = Duration::from_secs(600);

impl Wire {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(stream), over: false })
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The next request; none when there will be no more.
    pub fn read(&mut self) -> io::Result<Option<Request>> {
        self.reader.get_ref().set_read_timeout(Some(IDLE))?;
        let first = self.line()?;
        let mut words = first.split(' ');
        let (Some(method), Some(path)) = (words.next().filter(|word| !word.is_empty()), words.next()) else {
            return Ok(None);
        };
        let (mut length, mut chunked, mut waits) = (0, false, false);
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(io::Error::other)?,
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "expect" => waits = true,
                _ => {}
            }
        }
        if waits {
            self.reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = if chunked { self.chunks()? } else { self.bytes(length)? };
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Ok(Some(Request { method: method.to_owned(), path: path.to_owned(), body }))
    }

    fn line(&mut self) -> io::Result<String> {
        const LINE_BYTES_MAX: u64 = 64 << 10;
        let mut line = String::new();
        (&mut self.reader).take(LINE_BYTES_MAX).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn bytes(&mut self, length: u64) -> io::Result<Vec<u8>> {
        if length > BODY_BYTES_MAX {
            return Err(io::Error::other(format!("a body of {length} bytes")));
        }
        let mut body = Vec::new();
        (&mut self.reader).take(length).read_to_end(&mut body)?;
        Ok(body)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = self.line()?;
            let size = size.split(';').next().unwrap_or_default();
            let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            let chunk = self.bytes(size.min(BODY_BYTES_MAX + 1 - body.len() as u64))?;
            body.extend(chunk);
            self.line()?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    pub fn json(&mut self, status: u16, answer: &Value) -> Result<(), Gone> {
        let answer = answer.to_string();
        let length = answer.len();
        self.write(&format!(
            "HTTP/1.1 {status} Mock\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}"
        ))
    }

    /// What follows are events, until the connection ends.
    pub fn begin_events(&mut self) -> Result<(), Gone> {
        self.over = true;
        self.write(
            "HTTP/1.1 200 Mock\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n",
        )
    }

    pub fn write(&mut self, text: &str) -> Result<(), Gone> {
        self.reader.get_mut().write_all(text.as_bytes()).map_err(|_| Gone)
    }

    /// Lets time pass, and notices at once when the reader goes away.
    pub fn wait(&mut self, time: Duration) -> Result<(), Gone> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let stream = self.reader.get_ref();
            stream.set_read_timeout(Some(left)).map_err(|_| Gone)?;
            match stream.peek(&mut [0]) {
                Ok(0) => return Err(Gone),
                // It says more before it was answered: nothing to hear until then.
                Ok(_) => std::thread::sleep(left), // tidy: wait
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
    }
}
