//! A server on loopback that answers as its script says: for tests of what calls other servers.
//!
//! One connection for each request, and the connection ends when the script has. What was heard can be looked at.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as a stranger hears it.
#[derive(Debug, Clone)]
pub struct Heard {
    pub verb: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Heard {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }
}

/// A server that answers as its script says, one connection for each request.
pub struct Stranger {
    pub port: u16,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Stranger {
    pub fn new(script: impl Fn(&Heard, u16) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::writing(move |heard, port, stream| drop(stream.write_all(&script(heard, port))))
    }

    pub fn writing(script: impl Fn(&Heard, u16, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (list, script) = (heard.clone(), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (list, script) = (list.clone(), script.clone());
                std::thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    list.lock().unwrap().push(request.clone());
                    script(&request, port, &mut stream.try_clone().unwrap());
                });
            }
        });
        Self { port, heard }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    pub fn methods(&self) -> Vec<String> {
        self.heard().iter().map(|heard| heard.method().to_owned()).filter(|m| !m.is_empty()).collect()
    }
}

fn read(stream: &TcpStream) -> Option<Heard> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (verb, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, n)| n.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Heard { verb, path, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}

pub fn answer(status: &str, head: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub fn json_answer(value: &Value) -> Vec<u8> {
    answer("200 OK", "Content-Type: application/json\r\n", &value.to_string())
}

pub fn result(result: &Value) -> Vec<u8> {
    json_answer(&json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
}

pub fn error(code: i64, message: &str) -> Vec<u8> {
    json_answer(&json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": message } }))
}

pub fn not_found() -> Vec<u8> {
    answer("404 Not Found", "", "nothing here")
}

/// Where a card is.
pub const CARD: &str = "/.well-known/agent-card.json";

/// The card of an agent of JSON-RPC at this URL.
pub fn card(url: &str, streaming: bool) -> Value {
    json!({
        "name": "Strange", "description": "does things", "version": "7", "skills": [{ "id": "echo" }],
        "capabilities": { "streaming": streaming },
        "supportedInterfaces": [{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
    })
}

/// A URL of the stranger itself.
pub fn here(port: u16, path: &str) -> String {
    format!("http://127.0.0.1:{port}{path}")
}

/// A task of A2A 1.0, with an id that has to be encoded in paths.
pub fn task(state: &str, artifacts: Value) -> Value {
    json!({ "id": "t/1", "contextId": "c", "status": { "state": state }, "artifacts": artifacts })
}

/// Artifacts that are one text.
pub fn text(text: &str) -> Value {
    json!([{ "artifactId": "a", "parts": [{ "text": text }] }])
}
