//! HTTP by hand, over either socket of a node: so that a test can also say what no client would.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Longer than any answer should take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub enum Door {
    Unix(PathBuf),
    Tcp(u16),
}

#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Unix(s) => s.read(buf),
            Self::Tcp(s) => s.read(buf),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Unix(s) => s.write(buf),
            Self::Tcp(s) => s.write(buf),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Door {
    fn open(&self) -> std::io::Result<Socket> {
        Ok(match self {
            Self::Unix(path) => {
                // Socket addresses are short; a path through the folder's descriptor always fits.
                let dir = std::fs::File::open(path.parent().unwrap())?;
                let fd = std::os::fd::AsRawFd::as_raw_fd(&dir);
                let short = format!("/proc/self/fd/{fd}/{}", path.file_name().unwrap().to_str().unwrap());
                let stream = UnixStream::connect(short)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Socket::Unix(stream)
            }
            Self::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
        })
    }

    pub fn try_connect(&self) -> std::io::Result<Connection> {
        Ok(Connection { stream: BufReader::new(self.open()?), chunked: false, left: 0 })
    }

    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap_or_else(|e| panic!("{self:?} does not answer: {e}"))
    }

    /// The Host that a polite client would send.
    pub fn host(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".into(),
            Self::Tcp(port) => format!("localhost:{port}"),
        }
    }

    /// One request and its answer; `Host` and `Content-Length` are added unless given.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut connection = self.connect();
        connection.say(&self.head(method, path, headers, Some(body.len())));
        connection.say_bytes(body);
        connection.answer()
    }

    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)], length: Option<usize>) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let given = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        if !given("host") {
            head.push_str(&format!("Host: {}\r\n", self.host()));
        }
        if let Some(length) = length.filter(|_| !given("content-length") && !given("transfer-encoding")) {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head + "\r\n"
    }
}

#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Socket>,
    chunked: bool,
    left: usize,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("no JSON ({e}) in {}", self.text()))
    }

    pub fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The stable code of a refusal.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Connection {
    pub fn say(&mut self, text: &str) {
        self.say_bytes(text.as_bytes());
    }

    /// What the other side no longer wants to read is not an error here: its answer tells.
    pub fn say_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Reads one whole answer.
    pub fn answer(&mut self) -> Answer {
        let (status, headers) = self.read_head().expect("an answer came");
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length = answer.header("content-length").map(|l| l.parse::<usize>().unwrap());
        match (answer.header("transfer-encoding"), length) {
            (Some(_), _) => {
                self.chunked = true;
                self.read_to_end(&mut answer.body).unwrap();
                self.chunked = false;
            }
            (None, Some(length)) => {
                answer.body.resize(length, 0);
                self.stream.read_exact(&mut answer.body).unwrap();
            }
            (None, None) => {}
        }
        answer
    }

    pub fn read_head(&mut self) -> std::io::Result<(u16, Vec<(String, String)>)> {
        let ended = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ended());
        }
        let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(ended)?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(ended());
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok((status, headers))
    }

    /// True once the other side has closed.
    pub fn is_closed(&mut self) -> bool {
        self.stream.fill_buf().map_or(true, |more| more.is_empty())
    }
}

/// The body of a chunked answer, as it comes.
impl Read for Connection {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if !self.chunked {
            return self.stream.read(buf);
        }
        if self.left == 0 {
            let mut size = String::new();
            self.stream.read_line(&mut size)?;
            let Ok(length) = usize::from_str_radix(size.trim(), 16) else { return Ok(0) };
            if length == 0 {
                self.stream.read_line(&mut size)?;
                return Ok(0);
            }
            self.left = length;
        }
        let most = self.left.min(buf.len());
        let read = self.stream.read(&mut buf[..most])?;
        self.left -= read;
        if self.left == 0 && read > 0 {
            self.stream.read_line(&mut String::new())?;
        }
        Ok(read)
    }
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: Option<u64>,
    pub event: String,
    pub data: Value,
}

/// A stream of events that was opened and answered with 200.
#[derive(Debug)]
pub struct Events {
    lines: BufReader<Connection>,
}

impl Events {
    /// None if nobody answers: the node may be between two lives.
    pub fn open(door: &Door, path: &str, headers: &[(&str, &str)], after: Option<u64>) -> Option<Self> {
        let mut connection = door.try_connect().ok()?;
        let last = after.map(|id| id.to_string());
        let mut all = headers.to_vec();
        all.extend(last.as_deref().map(|id| ("Last-Event-ID", id)));
        connection.say(&door.head("GET", path, &all, None));
        let (status, _) = connection.read_head().ok()?;
        assert_eq!(status, 200, "{path}");
        connection.chunked = true;
        Some(Self { lines: BufReader::new(connection) })
    }

    /// None when the stream has ended.
    pub fn next_event(&mut self) -> Option<Event> {
        let mut event = Event { id: None, event: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 || !line.ends_with('\n') {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => event.id = id.parse().ok(),
                Some(("event", name)) => event.event = name.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ => return Some(event),
            }
        }
    }

    /// The lines of a stream of JSON lines.
    pub fn next_line(&mut self) -> Option<Value> {
        let mut line = String::new();
        (self.lines.read_line(&mut line).ok()? > 0).then(|| serde_json::from_str(&line).unwrap())
    }
}
