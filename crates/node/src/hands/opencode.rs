//! A client of OpenCode's own server: which sessions work, what they ask the person, and which
//! prompts they received.
//!
//! The server is a process of the agent and cannot be trusted. So it is called only if the kernel
//! says that the other end belongs to this agent, and then with the key of this start. Lines and
//! responses are bounded; a line that is too long or malformed is skipped. While the server is
//! unreachable, the state comes from the screen.
//! Not here: what the events mean (`synapse_terminal::opencode`).

use super::terminal::Seat;
use crate::driver::now;
use crate::owner::{self, Owner};
use base64::Engine as _;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_store::home::Home;
use synapse_terminal::hooks::{Event, Text};
use synapse_terminal::opencode::{
    Given, Sessions, is_plain, is_top_session, last_answer, last_given, last_session,
};
use tokio::net::TcpStream;

/// The user name for the server; the password is the key of this start of the program.
pub const USER: &str = "synapse";
/// The longest line that is parsed.
const LINE_BYTES_MAX: usize = 256 << 10;
const ANSWER_BYTES_MAX: usize = 1 << 20;
const CALL_MAX: Duration = Duration::from_secs(5);
/// The server sends a heartbeat every ten seconds. After this much silence we reconnect.
const SILENCE_MAX: Duration = Duration::from_secs(45);
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The server to listen to.
#[derive(Clone)]
pub struct Server {
    pub home: Home,
    pub agent: AgentId,
    pub port: u16,
    /// `None` if the person chose the port; then guarding it is up to them.
    pub key: Option<String>,
    pub seat: Seat,
}

type Failed = String;

impl Server {
    /// Listens for as long as the program runs; dropping the future ends it.
    pub async fn listen(self) {
        let mut pause = PAUSE_MIN;
        loop {
            let mut heard = false;
            let Err(why) = self.follow(&mut heard).await;
            self.seat.serves(now(), None, Vec::new());
            self.seat.set_trouble(Some(why));
            pause = if heard { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Handles one connection until it fails.
    async fn follow(&self, heard: &mut bool) -> Result<std::convert::Infallible, Failed> {
        // Open the stream before reading the state, so that nothing is missed in between.
        let mut events = self.get("/event").await?;
        let mut sessions = Sessions::read(
            &self.whole("/session/status").await?,
            &self.whole("/permission").await?,
            &self.whole("/question").await?,
        )?;
        *heard = true;
        self.seat.set_trouble(None);
        self.seat.serves(now(), Some(sessions.says()), sessions.requests());
        // The server may have received a message of ours while nobody listened. Events from
        // the stream are newer than that.
        let mut earlier = std::pin::pin!(self.last_given());
        let mut wants_earlier = true;
        let mut lines = Lines::default();
        // Dropped with the connection, which ends its tasks.
        let (mut answers, mut sessions_seen) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
        loop {
            let frame = tokio::select! {
                given = &mut earlier, if wants_earlier => {
                    wants_earlier = false;
                    given.into_iter().for_each(|given| self.was_given(given));
                    continue;
                }
                frame = tokio::time::timeout(SILENCE_MAX, events.body_mut().frame()) => frame,
            };
            let frame =
                frame.map_err(|_| "its server has gone silent")?.ok_or("its server closed the connection")?;
            let frame = frame.map_err(|e| format!("its server broke off: {e}"))?;
            let Ok(bytes) = frame.into_data() else { continue };
            let (mut changed, mut given, mut ended) = (false, Vec::new(), None);
            lines.feed(&bytes, |line| {
                changed |= line.strip_prefix(b"data:").is_some_and(|event| sessions.take(event));
                given.extend(sessions.given());
                ended = sessions.ended().or(ended.take());
            });
            wants_earlier &= given.is_empty();
            for given in given {
                // Only events are about this program: what was given earlier may be another one's.
                sessions_seen.abort_all();
                sessions_seen.spawn(self.clone().see_session(given.session.clone()));
                self.was_given(given);
            }
            if changed {
                self.seat.serves(now(), Some(sessions.says()), sessions.requests());
            }
            if let Some(session) = ended {
                answers.abort_all();
                answers.spawn(self.clone().fetch_answer(session));
            }
        }
    }

    /// Fetches the model's last text in a turn that has ended.
    async fn fetch_answer(self, session: String) {
        const NEWEST: usize = 20;
        let path = format!("/session/{session}/message?limit={NEWEST}");
        let Ok(messages) = self.whole(&path).await else { return };
        // Its prompt may have come before we listened.
        self.clone().see_session(session.clone()).await;
        let Some(text) = last_answer(&messages) else { return };
        let answer = Some(Text { bytes: text.len() as u64, text });
        let (name, session) = ("answer".to_owned(), Some(session));
        self.seat.signal(now(), &Event { name, session, answer, ..Event::default() });
    }

    /// Reports the session that the program is in, unless one of its agents has begun it.
    async fn see_session(self, session: String) {
        if !is_plain(&session) {
            return;
        }
        let Ok(about) = self.whole(&format!("/session/{session}")).await else { return };
        if is_top_session(&about, &session) {
            self.seat.is_in_session(session);
        }
    }

    /// Reports that a session received this prompt, which proves its arrival.
    fn was_given(&self, Given { session, text }: Given) {
        let prompt = Text { bytes: text.len() as u64, text };
        let (name, prompt) = ("message".to_owned(), Some(prompt));
        self.seat.signal(now(), &Event { name, session: Some(session), prompt, ..Event::default() });
    }

    async fn last_given(&self) -> Option<Given> {
        const NEWEST: usize = 4;
        let session = last_session(&self.whole("/session").await.ok()?)?;
        let path = format!("/session/{session}/message?limit={NEWEST}");
        last_given(&self.whole(&path).await.ok()?)
    }

    async fn whole(&self, path: &str) -> Result<Bytes, Failed> {
        let answer = self.get(path).await?;
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect();
        let body = tokio::time::timeout(CALL_MAX, body).await.map_err(|_| "its server does not answer")?;
        body.map(|body| body.to_bytes()).map_err(|e| format!("{path} of its server: {e}"))
    }

    /// Sends a GET request on a separate connection.
    async fn get(&self, path: &str) -> Result<Response<Incoming>, Failed> {
        let asked = tokio::time::timeout(CALL_MAX, self.ask(path)).await;
        let answer = asked.map_err(|_| "its server does not answer")??;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            http::StatusCode::UNAUTHORIZED => Err("its server wants a password that we do not have".into()),
            status => Err(format!("its server answers {path} with {status}")),
        }
    }

    async fn ask(&self, path: &str) -> Result<Response<Incoming>, Failed> {
        let told =
            |e: &dyn std::fmt::Display| format!("its server at port {} cannot be reached: {e}", self.port);
        let there = SocketAddr::from(([127, 0, 0, 1], self.port));
        let stream = TcpStream::connect(there).await.map_err(|e| told(&e))?;
        let home = self.home.clone();
        // Ask about the listener, not the connection: the server may accept that only when data
        // arrives.
        let looked = tokio::task::spawn_blocking(move || owner::of_listener(&home, there)).await;
        match looked.map_err(|e| told(&e))? {
            Owner::Agents(agents) if agents.first() == Some(&self.agent) => {}
            _ => return Err(told(&"who listens there is not seen to be this agent")),
        }
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| told(&e))?;
        tokio::spawn(connection);
        let mut request = Request::get(path).header(header::HOST, format!("127.0.0.1:{}", self.port));
        if let Some(key) = &self.key {
            let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{key}"));
            request = request.header(header::AUTHORIZATION, format!("Basic {encoded}"));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|e| told(&e))?;
        sender.send_request(request).await.map_err(|e| told(&e))
    }
}

/// Splits a stream into lines. A line that is too long is skipped to its end.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
    skips: bool,
}

impl Lines {
    fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = end.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 1..]));
            if self.skips || self.begun.len() + part.len() > LINE_BYTES_MAX {
                self.skips = true;
                self.begun = Vec::new();
            } else {
                self.begun.extend_from_slice(part);
            }
            if end.is_some() {
                if !std::mem::take(&mut self.skips) {
                    line(self.begun.trim_ascii());
                }
                self.begun.clear();
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for part in parts {
            lines.feed(part, |line| found.push(String::from_utf8_lossy(line).into_owned()));
            assert!(lines.begun.len() <= LINE_BYTES_MAX);
        }
        found
    }

    #[test]
    fn lines_are_cut_however_they_come_and_long_ones_are_passed_over() {
        assert_eq!(lines(&[b"data: 1\n\nda", b"ta: 2\r\n", b"rest"]), ["data: 1", "", "data: 2"]);
        let long = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(lines(&[b"a\n", &long, b"y", b"z", &long, b"\nb\n"]), ["a", "b"]);
        assert_eq!(lines(&[&long, b"\n"]).len(), 1, "just not too long");
    }
}
