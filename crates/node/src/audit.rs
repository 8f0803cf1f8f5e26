//! The audit log of a node: one line for every change, and for every refusal (REST-9).
//!
//! A request collects facts while it is processed (`note`), and writes its line before its response
//! is sent. Lines go through a bounded queue to a separate thread. When the queue is full, a
//! request waits a short time; lines that still find no room are counted, and the log says how many
//! are missing.
//!
//! Not here: the thread and its disk (`writer`), the format of a line (`synapse-dialects`), the
//! hash chain (`synapse-store`).

mod queue;
mod writer;

use crate::driver::now;
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, Uri};
use queue::Queue;
use std::cell::RefCell;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use synapse_core::effect::{Draft, Taken};
use synapse_core::ids::{MessageId, TaskId};
use synapse_core::message::{Body, Digest};
use synapse_core::policy::Caller;
use synapse_core::routes::Target;
use synapse_core::{Refusal, Timestamp};
use synapse_dialects::audit::{self, Actor, Line, RequestId};
use synapse_dialects::{error, time};
use synapse_store::audit::{AuditLog, Bounds, Hash};
use synapse_store::files::FileError;
use synapse_store::known::Known;

/// A handle to the log; cheap to clone. If the log is off, every call does nothing.
#[derive(Clone)]
pub struct Audit(Option<Arc<Inner>>);

struct Inner {
    queue: Arc<Queue>,
    bodies: bool,
    start: u32,
    requests: AtomicU64,
    strangers: Mutex<Strangers>,
}

/// How long a request waits for room.
const WAIT_MAX: Duration = Duration::from_millis(500);
const NOTE_CHARS_MAX: usize = 1_000;
const CLOSE_MAX: Duration = Duration::from_secs(2);

impl Audit {
    pub fn off() -> Self {
        Self(None)
    }

    /// Starts the writer. If the log cannot be opened, the writer reports it and tries again.
    pub fn start(dir: PathBuf, chosen: &synapse_settings::Audit) -> std::io::Result<Self> {
        if !chosen.enabled {
            return Ok(Self::off());
        }
        let queue = Arc::new(Queue::default());
        let writer = writer::Writer::new(dir, bounds(chosen), queue.clone());
        std::thread::Builder::new().name("audit".into()).spawn(move || writer.run())?;
        let mut start = [0; 4];
        getrandom::fill(&mut start).map_err(|e| std::io::Error::other(e.to_string()))?;
        Ok(Self(Some(Arc::new(Inner {
            queue,
            bodies: chosen.bodies,
            start: u32::from_le_bytes(start),
            requests: AtomicU64::new(0),
            strangers: Mutex::new(Strangers::new(Instant::now())),
        }))))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Queues a line; waits a while for room.
    pub async fn write(&self, line: Line) {
        const PAUSE: Duration = Duration::from_millis(2);
        let Some(inner) = &self.0 else { return };
        let Some(mut line) = inner.queue.put(line) else { return };
        let began = Instant::now();
        while began.elapsed() < WAIT_MAX {
            tokio::time::sleep(PAUSE).await;
            line = match inner.queue.put(line) {
                None => return,
                Some(line) => line,
            };
        }
        inner.queue.lose();
    }

    /// Like `write`, for places that must not wait.
    pub fn write_now(&self, line: Line) {
        if let Some(inner) = &self.0
            && inner.queue.put(line).is_some()
        {
            inner.queue.lose();
        }
    }

    /// Writes the last line. Returns when everything is on disk, or after a while.
    pub async fn close(&self, why: &'static str) {
        let Some(inner) = &self.0 else { return };
        let left = inner.strangers().suppressed;
        let mut stop = Line::new(now(), &Actor::node(), "node", "stop");
        stop.note = Some(why.into());
        stop.more = left;
        self.write(stop).await;
        let (done, closed) = std::sync::mpsc::channel();
        inner.queue.close(done);
        let closing = tokio::task::spawn_blocking(move || closed.recv_timeout(CLOSE_MAX));
        let _ = tokio::time::timeout(2 * CLOSE_MAX, closing).await;
    }

    /// Processes a request and logs its outcome.
    pub async fn request(&self, method: Method, uri: Uri, work: impl Future<Output = Response>) -> Response {
        let Some(inner) = &self.0 else { return work.await };
        let (at, began) = (now(), Instant::now());
        let facts = RefCell::new(Facts { bodies: inner.bodies, ..Facts::default() });
        let scope = async {
            let answer = work.await;
            (answer, NOTE.with(RefCell::take))
        };
        let (mut answer, facts) = NOTE.scope(facts, scope).await;
        let status = answer.status();
        let changes = audit::changes_state(method.as_str(), uri.path());
        let refused_outright = matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        );
        if !(changes && !facts.line_each || refused_outright || facts.line_each && !status.is_success()) {
            return answer;
        }
        let mut line = facts.line(at, "http", audit::verb(method.as_str(), uri.path()));
        line.path = Some(audit::path(uri.path()));
        line.status = Some(status.as_u16());
        if line.code.is_none() && !status.is_success() {
            line.code = Some(code_of(status).into());
        }
        line.took_us = Some(micros(began));
        if line.proof.is_none() && line.is_refusal() {
            let Some(more) = inner.strangers().admit(Instant::now()) else { return answer };
            line.more = more;
        }
        let id = RequestId { start: inner.start, count: inner.requests.fetch_add(1, Relaxed) };
        line.request = Some(id);
        if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
            answer.headers_mut().insert("x-request-id", value);
        }
        self.write(line).await;
        answer
    }

    /// Logs a client that was rejected before it could send a request.
    pub fn turned_away(&self, from: IpAddr, verb: &'static str, code: &'static str) {
        let Some(inner) = &self.0 else { return };
        let Some(more) = inner.strangers().admit(Instant::now()) else { return };
        let mut line = Line::new(now(), &Actor::of(&Caller::Stranger), "tcp", verb);
        line.code = Some(code.into());
        line.note = Some(came_from(from));
        line.more = more;
        self.write_now(line);
    }

    /// Writes one line to the log of an agent that does not run; the caller holds its lock.
    pub fn write_offline(dir: &Path, chosen: &synapse_settings::Audit, line: &Line) -> Result<(), FileError> {
        if !chosen.enabled {
            return Ok(());
        }
        let at = time::show(line.at);
        let mut log = AuditLog::open(dir, bounds(chosen), &at)?;
        let mut fields = Vec::new();
        line.write(&mut fields);
        log.push(&fields, &at)?;
        log.sync(true)
    }

    /// Begins the line of a message that did not arrive as a separate request.
    pub fn message(&self, who: &Actor, door: &'static str) -> Record {
        let bodies = self.0.as_ref().is_some_and(|inner| inner.bodies);
        let actor = self.is_on().then(|| who.clone());
        Record { at: now(), began: Instant::now(), door, facts: Facts { bodies, actor, ..Facts::default() } }
    }
}

fn bounds(chosen: &synapse_settings::Audit) -> Bounds {
    Bounds::new(chosen.file_bytes_max, usize::try_from(chosen.files_max).unwrap_or(usize::MAX))
}

/// Returns the note about a new name.
pub fn renamed(before: &Known, after: &Known) -> String {
    match (&before.name, &after.name) {
        (Some(was), Some(name)) => format!("{was} is now {name}"),
        (None, Some(name)) => format!("named {name}"),
        (Some(was), None) => format!("no longer named {was}"),
        (None, None) => "without a name, as before".to_owned(),
    }
}

impl Inner {
    fn strangers(&self) -> std::sync::MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The facts collected about a request while it is processed.
#[derive(Default)]
pub struct Facts {
    bodies: bool,
    actor: Option<Actor>,
    target: Option<String>,
    message: Option<MessageId>,
    task: Option<TaskId>,
    code: Option<&'static str>,
    note: Option<String>,
    from: Option<IpAddr>,
    raw: bytes::Bytes,
    /// Of `raw`, log only the size and the digest.
    is_veiled: bool,
    said: Option<(u64, Digest)>,
    length: Option<u64>,
    body: Option<Body>,
    /// The request contains messages that are logged with one line each.
    pub line_each: bool,
}

tokio::task_local! {
    static NOTE: RefCell<Facts>;
}

/// Adds facts to the current request; does nothing outside of one.
pub fn note(add: impl FnOnce(&mut Facts)) {
    let _ = NOTE.try_with(|facts| add(&mut facts.borrow_mut()));
}

impl Facts {
    pub fn caller(&mut self, caller: &Caller) {
        self.actor = Some(Actor::of(caller));
    }

    /// Sets the address of the caller, which is logged only if nothing else is known of it.
    pub fn from(&mut self, address: Option<IpAddr>) {
        self.from = address;
    }

    pub fn refusal(&mut self, refusal: &Refusal) {
        self.code = Some(refusal.code());
    }

    pub fn code(&mut self, code: &'static str) {
        self.code = Some(code);
    }

    /// Sets a further note, worded by us.
    pub fn note(&mut self, note: impl Into<String>) {
        self.note = Some(audit::plain(&note.into(), NOTE_CHARS_MAX));
    }

    pub fn raw(&mut self, bytes: &bytes::Bytes) {
        self.raw = bytes.clone();
    }

    /// Sets whether the text must not be logged, even if the user chose to log bodies.
    pub fn veil(&mut self, is_veiled: bool) {
        self.is_veiled = is_veiled;
    }

    /// The request contains a secret of the caller: never log its text.
    pub fn secret(&mut self) {
        self.raw = bytes::Bytes::new();
    }

    /// The request contains keys that a person pressed, which may be a password: log only its
    /// length. The digest of a short text would reveal the text.
    pub fn only_length(&mut self) {
        self.length = Some(self.raw.len() as u64);
        self.secret();
    }

    /// Sets the content of a message, and its target if that is not the agent of this node.
    pub fn draft(&mut self, draft: &Draft) {
        self.said = Some((draft.body.bytes() as u64, draft.body.digest()));
        self.body = self.bodies.then(|| draft.body.clone());
        self.message.clone_from(&draft.sender_id);
        self.target = match &draft.to {
            Target::Here => None,
            Target::Named(name) => Some(audit::plain(name, Target::CHARS_MAX)),
            Target::Everyone => Some("broadcast".into()),
            Target::Skill(skill) => Some(format!("skill:{skill}")),
        };
    }

    /// Sets a message that a program sends to another agent.
    pub fn said(&mut self, to: &str, message: &serde_json::Value) {
        self.target = Some(audit::plain(to, Target::CHARS_MAX));
        self.raw = serde_json::to_vec(message).unwrap_or_default().into();
    }

    pub fn ended(&mut self, message: &MessageId, answer: Option<&Body>) {
        self.message = Some(message.clone());
        self.said = answer.map(|body| (body.bytes() as u64, body.digest()));
        self.body = answer.filter(|_| self.bodies).cloned();
    }

    pub fn taken(&mut self, taken: &Taken) {
        self.message = Some(taken.message.clone());
        self.task = Some(taken.task);
    }

    pub fn message(&mut self, id: &MessageId) {
        self.message = Some(id.clone());
    }

    /// Sets the task as the caller named it, if that is a whole id.
    pub fn task(&mut self, named: &str) {
        self.task = TaskId::parse(named).ok();
    }

    fn line(self, at: Timestamp, door: &'static str, verb: impl Into<audit::Word>) -> Line {
        let came_from = self.from.filter(|_| self.actor.is_none()).map(came_from);
        let note = self.note.map(Into::into).or(came_from);
        let stranger = || Actor::of(&Caller::Stranger);
        let mut line = Line::new(at, &self.actor.unwrap_or_else(stranger), door, verb);
        line.note = note;
        line.target = self.target;
        line.message = self.message;
        line.task = self.task;
        line.code = self.code.map(Into::into);
        line.body = self.body;
        line.bytes = self.length;
        if let Some((bytes, digest)) = self.said {
            (line.bytes, line.digest) = (Some(bytes), Some(digest));
        } else if !self.raw.is_empty() {
            (line.bytes, line.digest) = (Some(self.raw.len() as u64), Some(Digest(Hash::of(&self.raw).0)));
            let is_told = self.bodies && !self.is_veiled;
            line.body = is_told.then(|| Body::kept(&String::from_utf8_lossy(&self.raw)));
        }
        line
    }
}

/// The line of one message, until its outcome is known.
pub struct Record {
    at: Timestamp,
    began: Instant,
    door: &'static str,
    /// Without an actor if there is no log.
    facts: Facts,
}

impl Record {
    pub fn add(&mut self, add: impl FnOnce(&mut Facts)) {
        if self.facts.actor.is_some() {
            add(&mut self.facts);
        }
    }

    /// Completes the line with the outcome of the message.
    pub fn end(self, verb: &'static str, refusal: Option<&Refusal>) -> Option<Line> {
        self.facts.actor.as_ref()?;
        let mut line = self.facts.line(self.at, self.door, verb);
        line.status = Some(refusal.map_or(200, error::status));
        line.code = refusal.map(|refusal| refusal.code().into());
        line.took_us = Some(micros(self.began));
        Some(line)
    }
}

/// Limits lines about unknown callers, so that they cannot fill the log: a burst, then a rate per
/// second.
struct Strangers {
    tokens: f64,
    at: Instant,
    suppressed: u64,
}

impl Strangers {
    const BURST: f64 = 50.0;
    const PER_SECOND: f64 = 5.0;

    fn new(at: Instant) -> Self {
        Self { tokens: Self::BURST, at, suppressed: 0 }
    }

    /// Returns how many were suppressed since the last line, if a line is allowed now.
    fn admit(&mut self, at: Instant) -> Option<u64> {
        let elapsed = at.saturating_duration_since(self.at).as_secs_f64();
        self.at = at;
        self.tokens = (self.tokens + elapsed * Self::PER_SECOND).min(Self::BURST);
        if self.tokens < 1.0 {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Returns the code of an error response that did not come from a refusal.
fn code_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        _ => "refused",
    }
}

fn came_from(address: IpAddr) -> audit::Word {
    format!("from {address}").into()
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_fill_the_log() {
        let began = Instant::now();
        let mut strangers = Strangers::new(began);
        let written = (0..1_000).filter(|_| strangers.admit(began).is_some()).count();
        assert_eq!((written, strangers.suppressed), (50, 950));
        assert_eq!(strangers.admit(began + Duration::from_secs(1)), Some(950), "the next one tells how many");
        assert_eq!(strangers.admit(began + Duration::from_secs(1)), Some(0));
    }
}
