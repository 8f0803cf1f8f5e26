//! A model server that is none: it speaks the APIs of four vendors and answers as it is told to.
//!
//! What it does is in the text it is sent, `{{stream 3000; ask touch made; output}}`, or in a script with rules; see
//! `script`. What it was sent and when each answer began, asked for a tool and ended is in its log, which is the
//! truth that others are measured by.
//!
//! Invariants: it listens on 127.0.0.1 only; it keeps no state between requests, so a request that is sent again is
//! answered again the same way; an answer whose reader has gone is logged as aborted when that happens.
//! Not here: what each API looks like on the wire (`responses`, `chat`, `messages`, `gemini`).

mod chat;
mod gemini;
mod log;
mod messages;
mod responses;
mod script;
mod tools;
mod wire;

pub use log::{Entry, Log, What, now_ms};
pub use script::{Script, Step, numbered_lines};
pub use tools::{Call, Tool};

use serde_json::{Value, json};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use wire::{Gone, Request, Wire};

/// What a request told the model.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Told {
    /// The last message of the user, part by part: what a CLI adds on its own often is a part of its own.
    pub parts: Vec<String>,
    /// What the user said before that.
    pub earlier: Vec<String>,
    /// What the tools that were called since then have answered.
    pub results: Vec<String>,
    pub tools: Vec<Tool>,
    pub streams: bool,
    /// The answer has to be JSON of this shape.
    pub shape: Option<Value>,
    /// The CLI offers no tools. It reads commands from the text of the answers, and asks before it runs them.
    pub is_plain: bool,
}

impl Told {
    /// Takes one more message of the user.
    pub fn said(&mut self, parts: Vec<String>) {
        self.earlier.append(&mut self.parts);
        self.parts = parts;
        self.results.clear();
    }

    /// Whether the user said this before the last message.
    pub fn recalls(&self, text: &str) -> bool {
        self.earlier.iter().any(|earlier| earlier.contains(text))
    }

    pub fn text(&self) -> String {
        self.parts.join("\n")
    }

    /// Whether it belongs to a turn, and not to what CLIs ask a model for on the side, such as a title.
    pub fn is_turn(&self) -> bool {
        // Qwen Code asks for what its user could write next, with all its tools.
        if self.parts.iter().any(|part| part.starts_with("[SUGGESTION MODE")) {
            return false;
        }
        (self.is_plain || tools::shell(&self.tools).is_some()) && self.shape.is_none()
    }
}

/// How one API says an answer. Each function gives the bytes for the wire.
pub(crate) trait Voice {
    fn begin(&mut self) -> String;
    fn say(&mut self, text: &str) -> String;
    /// The end, with a tool call before it if there is one.
    fn end(&mut self, call: Option<&Call>) -> String;
    /// The same in one piece, for who did not ask for a stream.
    fn whole(&mut self, text: &str, call: Option<&Call>) -> Value;
    fn error(&self, status: u16) -> Value;
}

/// One server-sent event.
pub(crate) fn event(name: Option<&str>, data: &Value) -> String {
    let name = name.map_or_else(String::new, |name| format!("event: {name}\n"));
    format!("{name}data: {data}\n\n")
}

/// The text of a content that is a string or a list of parts, part by part.
pub(crate) fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.as_str().or(part["text"].as_str()))
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A server that runs until it is dropped.
pub struct MockLlm {
    address: SocketAddr,
    log: Arc<Log>,
    closing: Arc<AtomicBool>,
}

/// More at once than any CLI opens.
const CONNECTIONS_MAX: usize = 64;

impl MockLlm {
    /// Listens on a free port of 127.0.0.1, or on the one given. The log goes to `file` as well, if there is one.
    pub fn start(port: u16, script: Script, file: Option<&Path>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let address = listener.local_addr()?;
        let log = Arc::new(Log::new(file)?);
        let closing = Arc::new(AtomicBool::new(false));
        let server = Arc::new(Server { script, log: log.clone(), answers: AtomicUsize::new(0) });
        let is_closing = closing.clone();
        std::thread::Builder::new().name("mock llm".into()).spawn(move || {
            let open = Arc::new(AtomicUsize::new(0));
            for stream in listener.incoming().map_while(Result::ok) {
                if is_closing.load(Ordering::SeqCst) {
                    return;
                }
                if open.load(Ordering::SeqCst) >= CONNECTIONS_MAX {
                    continue;
                }
                open.fetch_add(1, Ordering::SeqCst);
                let (server, open) = (server.clone(), open.clone());
                std::thread::spawn(move || {
                    server.serve(stream);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        })?;
        Ok(Self { address, log, closing })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn log(&self) -> &Log {
        &self.log
    }
}

impl Drop for MockLlm {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is to end.
        let _ = TcpStream::connect(self.address);
    }
}

struct Server {
    script: Script,
    log: Arc<Log>,
    answers: AtomicUsize,
}

impl Server {
    fn serve(&self, stream: TcpStream) {
        let Ok(mut wire) = Wire::new(stream) else { return };
        while let Ok(Some(request)) = wire.read() {
            if self.answer(&mut wire, &request).is_err() || wire.is_over() {
                return;
            }
        }
    }

    fn answer(&self, wire: &mut Wire, request: &Request) -> Result<(), Gone> {
        let path = request.path.split('?').next().unwrap_or_default();
        let n = self.answers.fetch_add(1, Ordering::SeqCst) + 1;
        let body = &request.body;
        let model = body["model"].as_str().unwrap_or("mock").to_owned();
        if request.method == "POST" {
            if path.ends_with("/responses") {
                return self.turn(wire, n, "responses", responses::told(body), &mut responses::Out::new(n));
            }
            if path.ends_with("/chat/completions") {
                return self.turn(wire, n, "chat", chat::told(body), &mut chat::Out::new(n, &model));
            }
            if path.ends_with("/messages") {
                return self.turn(
                    wire,
                    n,
                    "messages",
                    messages::told(body),
                    &mut messages::Out::new(n, &model),
                );
            }
            if path.contains(":streamGenerateContent") || path.contains(":generateContent") {
                let told = gemini::told(body, path.contains(":stream"));
                return self.turn(wire, n, "gemini", told, &mut gemini::Out);
            }
        }
        self.log.add(n, What::Other { method: request.method.clone(), path: request.path.clone() });
        let (status, answer) = match path {
            _ if path.contains("/models") => (200, json!({ "object": "list", "data": [], "models": [] })),
            _ if path.ends_with("/count_tokens") => (200, json!({ "input_tokens": 100 })),
            _ if path.contains(":countTokens") => (200, json!({ "totalTokens": 100 })),
            _ => (404, json!({ "error": { "message": "the mock does not have this" } })),
        };
        wire.json(status, &answer)
    }

    /// Answers one request as the script says, and logs what it does.
    fn turn(
        &self,
        wire: &mut Wire,
        n: usize,
        api: &'static str,
        told: Told,
        voice: &mut dyn Voice,
    ) -> Result<(), Gone> {
        let turn = told.is_turn();
        self.log.add(n, What::began(api, &told));
        let done = if turn {
            self.play(wire, n, &told, voice)
        } else {
            aside(wire, &told, voice).map(|()| What::Ended { turn })
        };
        let (what, gone) = done.map_or((What::Aborted { turn }, Err(Gone)), |what| (what, Ok(())));
        self.log.add(n, what);
        gone
    }

    fn play(&self, wire: &mut Wire, n: usize, told: &Told, voice: &mut dyn Voice) -> Result<What, Gone> {
        let steps = self.script.steps(&told.text(), told.results.len());
        if let Some(Step::Error(status)) = steps.first() {
            wire.json(*status, &voice.error(*status))?;
            return Ok(What::Failed { status: *status });
        }
        let mut out = Out { wire, voice, streams: told.streams, text: String::new() };
        out.begin()?;
        for step in &steps {
            match step {
                Step::Say(text) => out.say(text)?,
                Step::Think(ms) => out.pause(*ms)?,
                Step::Stream(ms) => out.stream(*ms)?,
                Step::Output => {
                    out.say(told.results.last().map_or("no tool has answered", String::as_str))?
                }
                Step::Lines(count) => out.say(&script::numbered_lines(*count))?,
                Step::Recall(text) if told.recalls(text) => out.say(&format!("recalled {text}"))?,
                Step::Recall(text) => out.say(&format!("never told {text}"))?,
                Step::Mark => out.say(&format!("mark{n}"))?,
                Step::Run { command, .. } if told.is_plain => {
                    out.say(&format!("\n\n```bash\n{command}\n```\n"))?;
                    out.end(None)?;
                    return Ok(What::Asked { call: tools::written(n, command) });
                }
                Step::Run { .. } | Step::Call { .. } => match tools::call(n, step, &told.tools) {
                    Ok(call) => {
                        out.end(Some(&call))?;
                        return Ok(What::Asked { call });
                    }
                    Err(why) => out.say(&why)?,
                },
                Step::Error(_) => return Err(Gone),
            }
        }
        out.end(None)?;
        Ok(What::Ended { turn: true })
    }
}

/// What a CLI asks for on the side is answered at once.
fn aside(wire: &mut Wire, told: &Told, voice: &mut dyn Voice) -> Result<(), Gone> {
    let text = told
        .shape
        .as_ref()
        .map_or_else(|| "mock title".to_owned(), |shape| tools::fitting(shape).to_string());
    let mut out = Out { wire, voice, streams: told.streams, text: String::new() };
    out.begin()?;
    out.say(&text)?;
    out.end(None)
}

/// An answer on its way, as a stream or in one piece.
struct Out<'a> {
    wire: &'a mut Wire,
    voice: &'a mut dyn Voice,
    streams: bool,
    text: String,
}

/// How often a word comes while an answer streams.
const WORD_MS: u64 = 100;

impl Out<'_> {
    fn begin(&mut self) -> Result<(), Gone> {
        if !self.streams {
            return Ok(());
        }
        self.wire.begin_events()?;
        let begin = self.voice.begin();
        self.wire.write(&begin)
    }

    fn say(&mut self, text: &str) -> Result<(), Gone> {
        self.text.push_str(text);
        if !self.streams {
            return Ok(());
        }
        let said = self.voice.say(text);
        self.wire.write(&said)
    }

    fn pause(&mut self, ms: u64) -> Result<(), Gone> {
        self.wire.wait(Duration::from_millis(ms))
    }

    fn stream(&mut self, ms: u64) -> Result<(), Gone> {
        const WORDS_A_LINE: u64 = 15;
        for n in 1..=ms.div_ceil(WORD_MS) {
            self.pause(WORD_MS)?;
            let end = if n % WORDS_A_LINE == 0 { "\n\n" } else { " " };
            self.say(&format!("word{n}{end}"))?;
        }
        Ok(())
    }

    fn end(&mut self, call: Option<&Call>) -> Result<(), Gone> {
        if !self.streams {
            let whole = self.voice.whole(&self.text, call);
            return self.wire.json(200, &whole);
        }
        let end = self.voice.end(call);
        self.wire.write(&end)
    }
}

#[cfg(test)]
mod tests;
