//! Asking through the outbox: a file out, a file back, for processes that may not use sockets (CLI-10).
//!
//! The node of the agent carries the call out as that agent. Waiting is polling: a sandbox that denies sockets may
//! deny watching files as well, and the one who waits is a command that ends soon.

use crate::{CallError, refused};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use synapse_core::ids::AgentId;
use synapse_core::routes::Candidate;
use synapse_dialects::outbox::{Ask, Call, Frame, RollRequest};
use synapse_store::outbox::{self, Outbox, Reader};
use synapse_store::registry::RegistrySnapshot;
use synapse_store::spool::SpoolId;

/// How long a node may take to answer; one that has not even taken the call by then will not.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The outbox of the agent that this process belongs to.
#[derive(Clone, Debug)]
pub struct Own {
    outbox: Arc<Outbox>,
    pub agent: AgentId,
}

/// Who is on this machine, as the agent's node sees it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum RollAnswer {
    Snapshot(RegistrySnapshot),
    /// From a node of an older version.
    Candidates(Vec<Candidate>),
}

impl Own {
    pub fn folder(&self) -> &Path {
        self.outbox.path()
    }

    /// From the environment that a node gives to its commands, else from the folders above.
    pub fn find(named: Option<&Path>, folder: &Path, agent: AgentId) -> Option<Self> {
        let path = outbox::find(named, folder, &agent)?;
        Outbox::open(&path).ok().map(|outbox| Self { outbox: Arc::new(outbox), agent })
    }

    /// A line to the node of this agent, or of our own.
    pub fn line(&self, to: Option<AgentId>) -> Line {
        Line { own: self.clone(), to }
    }

    /// Who is on this machine, where this process cannot see it. Blocks.
    pub fn roll(&self) -> Result<RollAnswer, CallError> {
        let not_understood = |e: serde_json::Error| CallError::NotUnderstood { why: e.to_string() };
        let request = serde_json::to_value(RollRequest { snapshot: true }).map_err(not_understood)?;
        let mut waiting = self.line(None).put(Ask::Roll, String::new(), None, request)?;
        let began = Instant::now();
        let mut pause = PAUSE_MIN;
        let first = loop {
            if let Some(frame) = waiting.look()? {
                break frame;
            }
            waiting.give_up_after(began)?;
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        };
        let text = waiting.answer(first)?;
        serde_json::from_str(&text).map_err(not_understood)
    }
}

/// A way to one node through the outbox.
#[derive(Clone, Debug)]
pub struct Line {
    own: Own,
    to: Option<AgentId>,
}

impl Line {
    pub fn folder(&self) -> &Path {
        self.own.outbox.path()
    }

    pub(crate) async fn ask(
        &self,
        method: &Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<String, CallError> {
        let ask = if *method == Method::GET { Ask::Get } else { Ask::Post };
        let body = body.map(serde_json::to_value).transpose();
        let body = body.map_err(|e| CallError::NotUnderstood { why: e.to_string() })?.unwrap_or_default();
        let mut waiting = self.put(ask, path.to_owned(), None, body)?;
        let first = waiting.first().await?;
        waiting.answer(first)
    }

    pub(crate) async fn follow(&self, path: &str, after: Option<u64>) -> Result<Followed, CallError> {
        let mut waiting = self.put(Ask::Follow, path.to_owned(), after, Value::Null)?;
        let first = waiting.first().await?;
        if first.status != Some(200) || first.end {
            waiting.answer(first)?;
            return Err(unreachable(self.folder(), &"it did not begin"));
        }
        Ok(Followed { waiting })
    }

    fn put(&self, ask: Ask, path: String, after: Option<u64>, body: Value) -> Result<Waiting, CallError> {
        let failed = |e: &dyn std::fmt::Display| unreachable(self.folder(), e);
        let id = outbox::fresh_id().map_err(|e| failed(&e))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let (agent, to) = (self.own.agent, self.to);
        let call = Call { v: Call::VERSION, id: id.clone(), at_ms, agent, to, ask, path, after, body };
        let bytes = serde_json::to_vec(&call).map_err(|e| failed(&e))?;
        let file = self.own.outbox.put(&bytes).map_err(|e| failed(&e))?;
        let reader = self.own.outbox.reader(&id);
        let frames = Vec::new().into_iter();
        Ok(Waiting { own: self.own.clone(), file, id, reader, frames, next: 0 })
    }
}

/// A call that is under way.
struct Waiting {
    own: Own,
    file: SpoolId,
    id: String,
    reader: Reader,
    frames: std::vec::IntoIter<Vec<u8>>,
    next: u64,
}

impl Waiting {
    /// The next frame, if it is there.
    fn look(&mut self) -> Result<Option<Frame>, CallError> {
        let folder = self.own.outbox.path();
        if self.frames.len() == 0 {
            self.frames = self.reader.news().map_err(|e| unreachable(folder, &e))?.into_iter();
        }
        let Some(bytes) = self.frames.next() else { return Ok(None) };
        let frame: Frame =
            serde_json::from_slice(&bytes).map_err(|e| CallError::NotUnderstood { why: e.to_string() })?;
        if frame.id != self.id || frame.n != self.next {
            return Err(unreachable(folder, &"its answer was begun anew"));
        }
        self.next += 1;
        Ok(Some(frame))
    }

    async fn first(&mut self) -> Result<Frame, CallError> {
        let began = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(frame) = self.look()? {
                return Ok(frame);
            }
            self.give_up_after(began)?;
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    fn give_up_after(&self, began: Instant) -> Result<(), CallError> {
        if began.elapsed() < ANSWER_WITHIN {
            return Ok(());
        }
        let why =
            format!("it was not answered within {} s; is the agent's node running?", ANSWER_WITHIN.as_secs());
        Err(unreachable(self.own.outbox.path(), &why))
    }

    /// What a whole answer says, or why there is none.
    fn answer(&self, frame: Frame) -> Result<String, CallError> {
        if let Some(why) = frame.unreachable {
            return Err(unreachable(self.own.outbox.path(), &why));
        }
        let (status, text) = (frame.status.unwrap_or(0), frame.body.unwrap_or_default());
        if !(200..300).contains(&status) {
            return Err(refused(status, serde_json::from_str(&text).ok()));
        }
        Ok(if status == 202 && text.is_empty() { "null".into() } else { text })
    }
}

/// What nobody has taken is taken back: nothing happens later that the caller was told had failed.
impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.own.outbox.spool().done(&self.file);
    }
}

/// Lines that come through the outbox.
pub(crate) struct Followed {
    waiting: Waiting,
}

impl Followed {
    /// None when it is over, however it ended: whoever follows asks again.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let mut pause = PAUSE_MIN;
        loop {
            match self.waiting.look().ok()? {
                Some(frame) if frame.end => return None,
                Some(frame) => {
                    if let Some(line) = frame.line {
                        return Some(line);
                    }
                }
                None => {
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(PAUSE_MAX);
                }
            }
        }
    }
}

fn unreachable(folder: &Path, why: &dyn std::fmt::Display) -> CallError {
    crate::unreachable(&folder.display().to_string(), why)
}
