//! A webhook on this machine, for what nodes push: keeps what it was sent, and answers as it is told.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a webhook was sent.
#[derive(Debug, Clone)]
pub struct Heard {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Heard {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// In one word: what it asks, or the text of an artifact, or the state.
    pub fn word(&self) -> String {
        let text = |path: &str| self.body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        text("/artifactUpdate/artifact/parts/0/text")
            .or_else(|| text("/statusUpdate/status/message/parts/0/text"))
            .or_else(|| text("/statusUpdate/status/state"))
            .or_else(|| text("/task/status/state"))
            .unwrap_or_else(|| panic!("{self:?}"))
    }
}

/// Answers 200, unless it was told what else to answer first.
#[derive(Debug)]
pub struct Site {
    pub port: u16,
    heard: Arc<Mutex<Vec<Heard>>>,
    answers: Arc<Mutex<VecDeque<String>>>,
    stop: Arc<AtomicBool>,
}

impl Site {
    pub fn open() -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn at(listener: TcpListener) -> Self {
        let port = listener.local_addr().unwrap().port();
        let site = Self { port, heard: Arc::default(), answers: Arc::default(), stop: Arc::default() };
        let (heard, answers, stop) = (site.heard.clone(), site.answers.clone(), site.stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let (heard, answers) = (heard.clone(), answers.clone());
                std::thread::spawn(move || serve(stream, &heard, &answers));
            }
        });
        site
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    pub fn words(&self) -> Vec<String> {
        self.heard().iter().map(Heard::word).collect()
    }

    /// Answers so, in this order, before it answers 200 again; `wait` answers nothing.
    pub fn will_answer(&self, answers: &[&str]) {
        self.answers.lock().unwrap().extend(answers.iter().map(|answer| (*answer).to_owned()));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(mut stream: TcpStream, heard: &Mutex<Vec<Heard>>, answers: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer = answers.lock().unwrap().pop_front();
    let body = serde_json::from_slice(&body).unwrap();
    heard.lock().unwrap().push(Heard { line: line.trim_end().to_owned(), headers, body });
    match answer.as_deref() {
        // Until the other side hangs up.
        Some("wait") => drop(reader.read(&mut [0])),
        answer => {
            let status = answer.unwrap_or("200 OK");
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        }
    }
}
