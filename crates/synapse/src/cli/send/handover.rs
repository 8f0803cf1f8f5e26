//! Handing a message to an agent: to its node if that answers, else to its spool.

use crate::agents::Roll;
use crate::cli::wait;
use crate::fail::Fail;
use std::time::Duration;
use synapse_core::message::{Proof, Sender, Who};
use synapse_core::routes::Candidate;
use synapse_dialects::message::{MessageAccepted, MessageRequest};
use synapse_peer::CallError;

pub(in crate::cli) fn stored_line(accepted: &MessageAccepted, label: &str) -> String {
    let task = accepted.task_id.as_deref().map_or("", |task| &task[..8.min(task.len())]);
    match (accepted.status.as_str(), accepted.duplicate, accepted.ahead) {
        ("spooled", ..) => {
            format!("stored for {label}, which is not running; it will get it at its next start")
        }
        (_, true, _) => format!("already stored for {label}, task {task}"),
        (_, _, 0) => format!("stored for {label}, task {task}"),
        (_, _, ahead) => format!("stored for {label}, task {task}, {ahead} ahead of it"),
    }
}

/// To the node if it runs, to the spool if it does not; twice at most, since a node may restart in between.
pub(in crate::cli) async fn hand_over(
    roll: &Roll,
    to: &Candidate,
    request: &MessageRequest,
) -> Result<MessageAccepted, Fail> {
    if to.live {
        let sent = wait::patiently(Duration::from_secs(5), async || {
            let mut client = roll.connect(&to.id).await?;
            client.post::<MessageAccepted>("/message", request).await
        });
        match sent.await {
            Ok(accepted) => return Ok(accepted),
            // Its holder may be between two nodes: the spool is on disk, and is read by the next one.
            Err(CallError::Unreachable { .. }) => {}
            Err(other) => return Err(other.into()),
        }
    }
    let spooled = match roll.sandboxed() {
        Some(_) => Err(Fail::refused("the home cannot be written to from here")),
        None => spool(roll, to, request),
    };
    match (spooled, roll.outbox()) {
        (Ok(accepted), _) => {
            roll.went("spool");
            Ok(accepted)
        }
        // Our own node writes the file that we may not.
        (Err(_), Some(own)) => {
            let mut client = roll.connect(&own.agent).await?;
            let target = Some(to.id.to_string());
            Ok(client.post("/message", &MessageRequest { target, ..request.clone() }).await?)
        }
        (Err(fail), None) => Err(fail),
    }
}

fn spool(roll: &Roll, to: &Candidate, request: &MessageRequest) -> Result<MessageAccepted, Fail> {
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
    Ok(MessageAccepted {
        message_id: request.message_id.clone().unwrap_or_else(|| name.as_str().to_owned()),
        task_id: None,
        agent_id: to.id.to_string(),
        status: "spooled".into(),
        duplicate: false,
        ahead: 0,
        event_id: None,
    })
}
