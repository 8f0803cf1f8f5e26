//! `send_message` and `ask_agent` where their target is a remote.
//!
//! A model calls remotes by the names that the user gave them, and no URLs.

use super::{Outcome, gone, merged, notice, patience, quoted};
use crate::agents::Roll;
use crate::cli::elsewhere::send::{Sending, all_told, carry};
use crate::cli::elsewhere::{Called, Elsewhere};
use crate::cli::{Calling, WaitFor};
use crate::fail::Fail;
use crate::show;
use serde_json::json;
use std::time::Duration;
use synapse_dialects::message::MessageRequest;
use synapse_mcp::{Told, Waiting};
use synapse_peer::a2a::Picture;

/// The remote of that name; none if it is no remote.
pub(super) async fn find(roll: &Roll, to: &str) -> Result<Option<Box<Elsewhere>>, Fail> {
    if to.contains(':') {
        return Ok(None);
    }
    match Called::by(to, &Calling::default(), roll).await? {
        Called::Agent(found) => Ok(Some(found)),
        Called::Here | Called::Node(_) => Ok(None),
    }
}

fn sending(roll: &Roll, request: MessageRequest, wait_for: WaitFor, timeout: Duration) -> Sending {
    let own = roll.own_agent();
    let sender = own.and_then(|own| roll.candidates.iter().find(|one| one.id == own));
    Sending {
        text: request.message.as_str().unwrap_or_default().to_owned(),
        priority: request.priority.unwrap_or_default(),
        message_id: request.message_id.unwrap_or_default(),
        task: request.task_id,
        sender: sender.map(|one| (one.id.to_string(), one.kind.to_string())),
        wait_for,
        timeout,
    }
}

/// Sends it, and waits for what is wanted: that it is taken, or the answer.
pub(super) async fn ask(
    roll: &Roll,
    to: &Elsewhere,
    request: MessageRequest,
    (wait_for, timeout_seconds): (WaitFor, Option<u64>),
    waiting: &Waiting,
) -> Outcome {
    let what = sending(roll, request, wait_for, patience(timeout_seconds, waiting));
    let mut picture = Picture::default();
    let hear = |text: &str| waiting.say(show::line(text, 500));
    let carried = tokio::select! {
        biased;
        () = waiting.canceled.cancelled() => None,
        () = waiting.closed.cancelled() => return Err(gone()),
        carried = tokio::time::timeout(what.timeout, carry(to, &what, &mut picture, &hear)) => Some(carried),
    };
    match carried {
        Some(Ok(Ok(()))) => Ok(told(to, &what, &picture)),
        Some(Ok(Err(e))) => Err(to.fail(&e)),
        Some(Err(_)) => {
            let id =
                picture.task_id().map_or_else(|| "that it may have begun".to_owned(), |id| to.task_ref(id));
            let text = format!(
                "No answer from {} within {} s. Task {} goes on: do not send it again; `synapse explain` shows it",
                to.label,
                what.timeout.as_secs(),
                show::line(&id, 200)
            );
            let data = all_told(to, Some(&what.message_id), &picture);
            Ok(Told::new(text, merged(data, json!({ "timed_out": true }))))
        }
        // The client wants no answer: then nobody needs the work either.
        None => {
            if let Some(id) = picture.task_id()
                && let Err(e) = to.agent.cancel(id).await
            {
                return Err(to.fail(&e));
            }
            Err(Fail::refused("canceled"))
        }
    }
}

fn told(to: &Elsewhere, what: &Sending, picture: &Picture) -> Told {
    let label = &to.label;
    let id = show::line(picture.task_id().unwrap_or("-"), 200);
    let state = picture.state();
    let more = json!({ "notice": notice(label), "timed_out": false });
    let data = merged(all_told(to, Some(&what.message_id), picture), more);
    if picture.is_asking() {
        let head = format!(
            "{label} asks before it goes on with task {id}. Answer by calling ask_agent with to={label:?} and \
             task_id={id:?}. Its question, in its words:"
        );
        return Told::new(quoted(&head, &picture.says().unwrap_or_default()), data);
    }
    let mut text = format!("Task {id} of {label}, an agent elsewhere, is {}", state.name());
    if let Some(answer) = picture.answer().filter(|_| state.is_terminal()) {
        text = quoted(&format!("{text}. Its answer, in the words of {label}, a stranger:"), &answer.text);
    }
    let told = Told::new(text, data);
    if state.is_terminal() && state != synapse_core::task::TaskState::Completed {
        told.failed()
    } else {
        told
    }
}
