//! The agent's outbox: carries out the requests of its sandboxed processes as the agent, and
//! answers in the folder (CLI-10).
//!
//! A call is a file with a code made with the agent's key. It is forwarded over the socket of the
//! node it names. There the kernel sees that we run below the agent; so the rights are the agent's,
//! and the proof is `outbox`.
//!
//! Invariant: a call that cannot be authenticated is set aside and reported, and never stops the
//! others. A call that must not be repeated is not repeated after a crash: its answer says that its
//! outcome is unknown.
//! Not here: the files (`synapse-store`), the format of calls (`synapse-dialects`).

use crate::doors::Shared;
use crate::driver::now;
use http::{HeaderMap, Method};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::message::Proof;
use synapse_core::policy::Caller;
use synapse_dialects::audit::{self, Actor, Line};
use synapse_dialects::error::{self, ErrorBody};
use synapse_dialects::outbox::{Ask, Call, Frame, RollRequest};
use synapse_peer::{CallError, Client};
use synapse_store::outbox::{Answering, Outbox};
use synapse_store::registry::{self, RegistrySnapshot};
use synapse_store::spool::{Found, SpoolId};
use tokio::sync::{Notify, Semaphore};

/// Calls that are carried out at once; further ones wait for those.
const AT_ONCE_MAX: usize = 32;
/// Streams that are forwarded at once; further ones are refused.
const FOLLOWED_MAX: usize = 64;
/// The polling interval for folders that send no events, such as one shared by a virtual machine.
const LOOK_EVERY: Duration = Duration::from_secs(20);
const CALL_MAX: Duration = Duration::from_secs(25);
/// How long one stream is forwarded; after that the caller has to ask again.
const FOLLOW_MAX: Duration = Duration::from_secs(300);

/// Takes calls for as long as the node runs.
pub async fn take_in(outbox: Arc<Outbox>, news: Arc<Notify>, app: Shared) {
    let desk = Arc::new(Desk {
        outbox,
        app,
        room: Arc::new(Semaphore::new(AT_ONCE_MAX)),
        followers: Semaphore::new(FOLLOWED_MAX),
        under_way: Mutex::default(),
        seen: Mutex::default(),
    });
    loop {
        let looked = desk.changed();
        if !desk.look().await {
            return;
        }
        // Wait for an event, or poll, which costs one system call.
        while tokio::time::timeout(LOOK_EVERY, news.notified()).await.is_err() && desk.changed() == looked {
            if desk.app.stop.is_cancelled() {
                return;
            }
        }
    }
}

struct Desk {
    outbox: Arc<Outbox>,
    app: Shared,
    room: Arc<Semaphore>,
    followers: Semaphore,
    /// The files whose call is being carried out.
    under_way: Mutex<HashSet<SpoolId>>,
    /// Used ids, kept for as long as a copy of the call would be accepted as fresh.
    seen: Mutex<HashMap<String, u64>>,
}

impl Desk {
    /// Returns when the folder last changed.
    fn changed(&self) -> Option<std::time::SystemTime> {
        std::fs::metadata(self.outbox.spool().arrivals()).and_then(|m| m.modified()).ok()
    }

    /// Begins all waiting calls. Returns false when the node is stopping.
    async fn look(self: &Arc<Self>) -> bool {
        let outbox = self.outbox.clone();
        let taken = tokio::task::spawn_blocking(move || {
            outbox.sweep();
            outbox.spool().take()
        });
        let found = match taken.await {
            Ok(Ok(found)) => found,
            Ok(Err(e)) => {
                tracing::warn!(error = %e, "the outbox cannot be read");
                return true;
            }
            Err(_) => return false,
        };
        for one in found {
            match one {
                Found::Letter { name, bytes } => self.begin(name, &bytes).await,
                Found::Bad { name, why } => {
                    tracing::warn!(file = %name, %why, "a file in the outbox was set aside");
                    self.app.audit.write(aside("bad_file")).await;
                }
            }
        }
        true
    }

    async fn begin(self: &Arc<Self>, name: SpoolId, bytes: &[u8]) {
        if !lock(&self.under_way).insert(name.clone()) {
            return;
        }
        let read = match self.outbox.unseal(bytes) {
            Some(call) => Call::read(call, &self.app.agent.id, now()).and_then(|call| self.once(call)),
            None => Err(Refusal::bad_field("code", "it does not carry the code of this agent's key")),
        };
        let call = match read {
            Ok(call) => call,
            Err(refusal) => {
                tracing::warn!(file = %name, %refusal, "a file in the outbox was set aside");
                self.app.audit.write(aside(refusal.code())).await;
                let _ = self.outbox.spool().set_aside(&name, &refusal.to_string());
                lock(&self.under_way).remove(&name);
                return;
            }
        };
        let room = match call.ask {
            Ask::Follow => None,
            _ => self.room.clone().acquire_owned().await.ok(),
        };
        let desk = self.clone();
        tokio::spawn(async move {
            desk.answer(&call).await;
            let _ = desk.outbox.spool().done(&name);
            lock(&desk.under_way).remove(&name);
            drop(room);
        });
    }

    /// Refuses a copy of a call.
    fn once(&self, call: Call) -> Result<Call, Refusal> {
        let mut seen = lock(&self.seen);
        let oldest = now().0.saturating_sub(Call::AGE_MS_MAX);
        seen.retain(|_, at| *at >= oldest);
        match seen.insert(call.id.clone(), call.at_ms) {
            None => Ok(call),
            Some(_) => Err(Refusal::bad_field("id", "it was used before")),
        }
    }

    async fn answer(&self, call: &Call) {
        let begun_before = self.outbox.is_begun(&call.id);
        let mut frames = match self.outbox.begin(&call.id) {
            Ok(answering) => Frames { answering, id: call.id.clone(), n: 0 },
            Err(e) => {
                tracing::warn!(error = %e, "an answer cannot be put into the outbox");
                return;
            }
        };
        let record = self.app.audit.message(&self.actor(), "outbox");
        let done = if begun_before && !call.may_be_repeated() {
            let why = "the node died while it did this; look what became of it before you ask again";
            frames.last(Frame { unreachable: Some(why.into()), ..Frame::default() });
            Err(Refusal::Stopping)
        } else {
            self.carry_out(call, &mut frames).await
        };
        if call.ask != Ask::Post {
            return;
        }
        let refusal = done.as_ref().err();
        if let Some(mut line) = record.end("send", refusal) {
            line.verb = audit::verb("POST", audit::path(&call.path).as_str());
            line.path = Some(audit::path(&call.path));
            line.target = call.to.map(|id| id.to_string());
            if let Ok(status) = done {
                line.status = Some(status);
                line.code = (status >= 400).then(|| "refused".into());
            }
            self.app.audit.write(line).await;
        }
    }

    /// Returns the status from the node, or an error if no node was reached.
    async fn carry_out(&self, call: &Call, frames: &mut Frames) -> Result<u16, Refusal> {
        if call.ask == Ask::Roll {
            frames.whole(200, self.roll(call).await);
            return Ok(200);
        }
        let carried = tokio::time::timeout(CALL_MAX, self.ask(call, frames)).await;
        let done = match carried {
            Ok(done) => done,
            Err(_) => Err(CallError::Unreachable { path: String::new(), why: "it took too long".into() }),
        };
        match done {
            Ok(Asked::Whole { status, body }) => {
                frames.whole(status, String::from_utf8_lossy(&body).into_owned());
                Ok(status)
            }
            Ok(Asked::Stream(lines)) => {
                let Ok(_room) = self.followers.try_acquire() else {
                    frames.last(Frame::default());
                    return Err(Refusal::Busy);
                };
                let _ = tokio::time::timeout(FOLLOW_MAX, frames.follow(*lines, &self.app)).await;
                frames.last(Frame::default());
                Ok(200)
            }
            Err(CallError::Refused { status, info }) => {
                let body = serde_json::to_string(&ErrorBody { error: info }).unwrap_or_default();
                frames.whole(status, body);
                Ok(status)
            }
            Err(e) => {
                frames.last(Frame { unreachable: Some(e.to_string()), ..Frame::default() });
                Err(Refusal::NotStored { why: e.to_string() })
            }
        }
    }

    /// Returns the agents on this machine, as JSON.
    async fn roll(&self, call: &Call) -> String {
        let request: RollRequest = serde_json::from_value(call.body.clone()).unwrap_or_default();
        let home = self.app.home.clone();
        let look = move || match request.snapshot {
            true => serde_json::to_string(&RegistrySnapshot::take(&home)),
            false => serde_json::to_string(&registry::candidates(&home)),
        };
        tokio::task::spawn_blocking(look).await.ok().and_then(Result::ok).unwrap_or_default()
    }

    async fn ask(&self, call: &Call, frames: &mut Frames) -> Result<Asked, CallError> {
        let to = call.to.unwrap_or(self.app.agent.id);
        let mut client = Client::connect_watched(&self.app.home.agent(&to).socket()).await?.for_outbox();
        if call.ask == Ask::Follow {
            let lines = client.lines(&call.path, call.after).await?;
            frames.add(Frame { status: Some(200), ..Frame::default() });
            return Ok(Asked::Stream(Box::new(lines)));
        }
        let (method, body) = match call.ask {
            Ask::Post => (Method::POST, Some(&call.body)),
            _ => (Method::GET, None),
        };
        let (status, body) = client.forward(method, &call.path, body).await?;
        Ok(Asked::Whole { status, body })
    }

    fn actor(&self) -> Actor {
        let agent = &self.app.agent;
        Actor::of(&Caller::Agent {
            id: agent.id,
            label: agent.label(),
            role: agent.role.clone(),
            proof: Proof::Outbox,
        })
    }
}

enum Asked {
    Whole { status: u16, body: bytes::Bytes },
    Stream(Box<synapse_peer::LineStream>),
}

/// An answer, written frame by frame.
struct Frames {
    answering: Answering,
    id: String,
    n: u64,
}

impl Frames {
    fn whole(&mut self, status: u16, body: String) {
        self.last(Frame { status: Some(status), body: Some(body), ..Frame::default() });
    }

    fn last(&mut self, frame: Frame) {
        self.add(Frame { end: true, ..frame });
    }

    /// Adds a frame. Returns false if the caller has given up.
    fn add(&mut self, mut frame: Frame) -> bool {
        frame.id.clone_from(&self.id);
        frame.n = self.n;
        self.n += 1;
        let bytes = serde_json::to_vec(&frame).expect("a frame is plain data and always has a JSON form");
        self.answering.add(&bytes).unwrap_or(false)
    }

    async fn follow(&mut self, mut lines: synapse_peer::LineStream, app: &Shared) {
        const WANTED_EVERY: Duration = Duration::from_secs(5);
        loop {
            let next = tokio::select! {
                next = tokio::time::timeout(WANTED_EVERY, lines.next()) => next,
                () = app.stop.cancelled() => return,
            };
            let wanted = match next {
                Ok(Some(line)) => self.add(Frame { line: Some(line), ..Frame::default() }),
                Ok(None) => return,
                Err(_) => self.answering.is_wanted(),
            };
            if !wanted {
                return;
            }
        }
    }
}

/// Returns the audit line for a file that was set aside.
fn aside(code: &'static str) -> Line {
    let mut line = Line::new(now(), &Actor::node(), "outbox", "set_aside");
    line.status = Some(error::status(&Refusal::bad_field("", "")));
    line.code = Some(code.into());
    line
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lowers the proof of a caller that says it forwards from an outbox. This can only lower trust: a
/// node whose holder is gone is no longer below its agent, and must not become the person because
/// of that.
pub fn passed_on(caller: Caller, headers: &HeaderMap) -> Caller {
    if headers.get(synapse_peer::VIA).is_none_or(|via| via != synapse_peer::VIA_OUTBOX) {
        return caller;
    }
    match caller {
        Caller::Agent { id, label, role, .. } => Caller::Agent { id, label, role, proof: Proof::Outbox },
        _ => Caller::Stranger,
    }
}

/// Creates the outbox if the working folder allows it.
pub fn open(working_dir: &std::path::Path, agent: &synapse_store::home::AgentDir) -> Option<Arc<Outbox>> {
    match Outbox::make(working_dir, agent) {
        Ok(outbox) => Some(Arc::new(outbox)),
        Err(e) => {
            tracing::info!(error = %e, "no outbox: sandboxes without sockets cannot be served");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::ids::AgentId;

    /// CLI-10: a request through an outbox is the agent's, and never the person's.
    #[test]
    fn what_is_passed_on_is_believed_less() {
        let agent =
            |proof| Caller::Agent { id: AgentId::from_bytes([1; 32]), label: "a".into(), role: None, proof };
        let (socket, user) = (Proof::Socket, Caller::User { proof: Proof::Socket });
        let with = |via: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static(synapse_peer::VIA),
                http::HeaderValue::from_static(via),
            )])
        };
        let cases = [
            (agent(socket), HeaderMap::new(), agent(socket)),
            (agent(socket), with("outbox"), agent(Proof::Outbox)),
            (agent(socket), with("post"), agent(socket)),
            (user.clone(), HeaderMap::new(), user.clone()),
            (user, with("outbox"), Caller::Stranger),
            (Caller::Stranger, with("outbox"), Caller::Stranger),
        ];
        for (caller, headers, expected) in cases {
            assert_eq!(passed_on(caller.clone(), &headers), expected, "{caller:?} {headers:?}");
        }
    }
}
