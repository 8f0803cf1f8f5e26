//! Handing a message to an agent: to its node if that answers, else to its spool.
//!
//! Invariant: what was handed over is on disk. A message that went both ways has one id, and so is one message.

use crate::agents::Roll;
use crate::cli::wait;
use crate::fail::{self, Fail};
use crate::show;
use std::time::{Duration, Instant};
use synapse_core::message::{Proof, Sender, Who};
use synapse_core::routes::Candidate;
use synapse_dialects::message::{MessageAccepted, MessageRequest};
use synapse_peer::CallError;
use synapse_store::spool::{Spool, SpoolId};

/// How long a node that has died is waited for: its holder starts the next one.
const RESTARTS_WITHIN: Duration = Duration::from_secs(5);
/// A node that has not answered by then gets the message through its spool as well.
const SLOW_AFTER: Duration = Duration::from_millis(1500);
/// How long a slow node may take after that to say what the task is called.
const SLOW_PATIENCE: Duration = Duration::from_secs(8);

pub(in crate::cli) fn stored_line(accepted: &MessageAccepted, label: &str) -> String {
    let task = accepted.task_id.as_deref().map_or("", |task| &task[..8.min(task.len())]);
    match (accepted.status.as_str(), accepted.duplicate, accepted.ahead) {
        ("spooled", ..) => match accepted.why.as_deref() {
            Some(NOT_RUNNING) => {
                format!("stored for {label}, which is not running; it will get it at its next start")
            }
            Some(why) => format!("stored for {label}, which will get it as soon as it responds ({why})"),
            None => format!("stored for {label}, which has not taken it in yet"),
        },
        (_, true, _) => format!("already stored for {label}, task {task}{}", noted(accepted)),
        (_, _, 0) => format!("stored for {label}, task {task}{}", noted(accepted)),
        (_, _, ahead) => format!("stored for {label}, task {task}, {ahead} ahead of it{}", noted(accepted)),
    }
}

/// Why it stays in the mailbox, if that is known.
fn noted(accepted: &MessageAccepted) -> String {
    accepted.why.as_deref().map_or_else(String::new, |why| format!("; it {}", show::cell(why, 160)))
}

const NOT_RUNNING: &str = "not running";

/// To the node if it answers, to the spool if it does not. That a node is slow is told before the end.
pub(in crate::cli) async fn hand_over(
    roll: &Roll,
    to: &Candidate,
    request: &MessageRequest,
    tell: &dyn Fn(&MessageAccepted),
) -> Result<MessageAccepted, Fail> {
    if !to.live {
        return leave(roll, to, request, NOT_RUNNING.to_owned()).await;
    }
    let mut posting = std::pin::pin!(post(roll, to, request));
    // From a sandbox each call goes through files, and takes longer.
    let posted = match roll.sandboxed() {
        Some(_) => posting.await,
        None => match tokio::time::timeout(SLOW_AFTER, posting.as_mut()).await {
            Ok(posted) => posted,
            Err(_) => return slowly(roll, to, request, posting, tell).await,
        },
    };
    match posted {
        Ok(accepted) => Ok(accepted),
        // Its holder may be between two nodes: the spool is on disk, and is read by the next one.
        Err(e) => match is_silent(&e) {
            Some(why) => leave(roll, to, request, why).await,
            None => Err(e.into()),
        },
    }
}

/// Several times at most, since a node may restart in between.
async fn post(roll: &Roll, to: &Candidate, request: &MessageRequest) -> Result<MessageAccepted, CallError> {
    wait::patiently(RESTARTS_WITHIN, async || {
        let mut client = roll.connect(&to.id).await?;
        client.post::<MessageAccepted>("/message", request).await
    })
    .await
}

/// Why nothing came from the node, if that is what happened.
fn is_silent(error: &CallError) -> Option<String> {
    match error {
        CallError::Unreachable { .. } => Some("its node is being restarted".to_owned()),
        CallError::NotResponding { why } => Some(why.clone()),
        _ => None,
    }
}

/// The node has the request, or will have; what it does with it is not known. So the message is put where it cannot
/// be lost, and the answer is waited for a little longer.
async fn slowly(
    roll: &Roll,
    to: &Candidate,
    request: &MessageRequest,
    posting: impl Future<Output = Result<MessageAccepted, CallError>>,
    tell: &dyn Fn(&MessageAccepted),
) -> Result<MessageAccepted, Fail> {
    let Ok((spooled, mut accepted)) = spool(roll, to, request, "it has not answered yet".to_owned()) else {
        // The node is the only one who could take it.
        return Ok(posting.await?);
    };
    tell(&accepted);
    match tokio::time::timeout(SLOW_PATIENCE, posting).await {
        Ok(Ok(taken)) => {
            spooled.withdraw();
            return Ok(taken);
        }
        // It would refuse the letter as well.
        Ok(Err(e)) if !e.may_work_later() => {
            spooled.withdraw();
            return Err(e.into());
        }
        Ok(Err(e)) => accepted.why = Some(is_silent(&e).unwrap_or_else(|| e.to_string())),
        Err(_) => {
            let within = SLOW_AFTER + SLOW_PATIENCE;
            accepted.why = Some(format!("no answer within {:.1} s", within.as_secs_f64()));
        }
    }
    roll.went("spool");
    Ok(accepted)
}

/// Waits until an agent that did not respond has taken in what is in its spool; none if it has not by then.
pub(super) async fn once_it_responds(
    roll: &Roll,
    to: &Candidate,
    request: &MessageRequest,
    limit: Duration,
) -> Option<MessageAccepted> {
    const PAUSE: Duration = Duration::from_millis(250);
    let began = Instant::now();
    while roll.is_held(&to.id) {
        let left = limit.checked_sub(began.elapsed())?;
        // The same id again is the same message, and its answer names the task.
        match tokio::time::timeout(left, post(roll, to, request)).await.ok()? {
            Ok(accepted) => return Some(accepted),
            Err(e) if e.may_work_later() => tokio::time::sleep(PAUSE).await,
            Err(_) => return None,
        }
    }
    None
}

/// Why there is no answer to what is still in the spool, and how to get it.
pub(super) fn no_answer_yet(accepted: &MessageAccepted, label: &str) -> Fail {
    let again = format!(
        "repeat the command with `--message-id {} --response`; the agent processes the message only once",
        accepted.message_id
    );
    match accepted.why.as_deref() {
        Some(why) if why != NOT_RUNNING => {
            let message =
                format!("{label} is not responding ({why}), so no answer can come yet. Later, {again}");
            Fail::new(fail::TIMED_OUT, "not_responding", message)
        }
        _ => {
            let message =
                format!("{label} is not running, so no answer can come yet. Start it, then {again}");
            Fail::new(fail::TIMED_OUT, "not_running", message)
        }
    }
}

async fn leave(
    roll: &Roll,
    to: &Candidate,
    request: &MessageRequest,
    why: String,
) -> Result<MessageAccepted, Fail> {
    let spooled = match roll.sandboxed() {
        Some(_) => Err(Fail::refused("cannot write to the Synapse home folder from this sandbox")),
        None => spool(roll, to, request, why.clone()),
    };
    match (spooled, roll.outbox()) {
        (Ok((_, accepted)), _) => {
            roll.went("spool");
            Ok(accepted)
        }
        // Our own node writes the file that we may not.
        (Err(_), Some(own)) => {
            let mut client = roll.connect(&own.agent).await?;
            let target = Some(to.id.to_string());
            let accepted: MessageAccepted =
                client.post("/message", &MessageRequest { target, ..request.clone() }).await?;
            Ok(MessageAccepted { why: Some(why), ..accepted })
        }
        (Err(fail), None) => Err(fail),
    }
}

/// A letter in a spool, which can be taken back as long as its node has not taken it.
struct Spooled {
    spool: Spool,
    name: SpoolId,
}

impl Spooled {
    /// If it was taken meanwhile, that did no harm: the same id has one effect.
    fn withdraw(&self) {
        let _ = self.spool.done(&self.name);
    }
}

fn spool(
    roll: &Roll,
    to: &Candidate,
    request: &MessageRequest,
    why: String,
) -> Result<(Spooled, MessageAccepted), Fail> {
    // It is sealed as the user's, or as the agent's.
    let own = roll.caller("leave a message as the user")?;
    let from = match (&request.from, own) {
        (Some(raw), own) => {
            let id = roll.find_one(raw)?.id;
            if own.is_some_and(|own| own != id) {
                return Err(Fail::refused("an agent may not speak for another; only a person may"));
            }
            Sender {
                who: Who::Agent(id),
                label: roll.label(&id),
                by_user: own.is_none(),
                proof: Proof::Spool,
            }
        }
        (None, Some(id)) => {
            Sender { who: Who::Agent(id), label: roll.label(&id), by_user: false, proof: Proof::Spool }
        }
        (None, None) => Sender::user(Proof::Spool),
    };
    let name = synapse_node::post::spool_to(&roll.home, &to.id, from, request.clone())?;
    let spool = Spool::open(&roll.home.agent(&to.id).spool())?;
    let id = request.message_id.clone().unwrap_or_else(|| name.as_str().to_owned());
    let accepted = MessageAccepted::spooled(id, to.id.to_string(), Some(why));
    Ok((Spooled { spool, name }, accepted))
}
