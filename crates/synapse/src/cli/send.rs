//! `synapse send`: find the agent, hand it the message, and wait as long as was asked.

pub mod at;
mod handover;
mod waiting;

pub(super) use handover::{hand_over, stored_line};

use super::elsewhere::{self, Called, send::Sending};
use super::there::There;
use super::wait::{self, Ears, Place, Reached};
use super::{Calling, Send, WaitFor, text_of};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use serde_json::json;
use std::time::{Duration, Instant};
use synapse_core::ids::TaskRef;
use synapse_core::routes::Candidate;
use synapse_dialects::message::{ChainField, MessageAccepted, MessageRequest, request_to_core};
use synapse_peer::CallError;
use synapse_settings::Places;
use waiting::Awaited;

const TIMEOUT: Duration = Duration::from_secs(600);

pub(super) async fn send(args: Send, calling: &Calling, json: bool) -> Done {
    let text = text_of(args.message.clone(), args.file.as_deref())?;
    let roll = Roll::call()?;
    let mut called = Called::by(&args.agent, calling, &roll).await?;
    match (&called, args.reply_to.clone()) {
        (Called::Node(there), Some(task)) => {
            return super::reply::to_task_there(there, &task, text, json).await;
        }
        (Called::Here, Some(task)) => return super::reply::to_task(&roll, task, text, json).await,
        _ => {}
    }
    let wait_for = wait_for(&roll, args.wait_for, args.response)?;
    if let Called::Agent(to) = &mut called {
        if args.wire {
            to.agent.tap(elsewhere::wire::tap());
        }
        let sending = sending(&roll, args, text, wait_for)?;
        return elsewhere::send::send(to, sending, json).await;
    }
    let from = match (&args.from, &called) {
        (Some(raw), Called::Here) => Some(roll.speaker(raw)?),
        (from, _) => from.clone(),
    };
    let mut request = MessageRequest { from, task_id: args.task, ..request(text, args.priority, wait_for) };
    request.message_id = args.message_id.or(request.message_id);
    // A wrong message is refused here as it would be there, whoever runs.
    request_to_core(request.clone())?;
    let timeout = args.timeout.unwrap_or(TIMEOUT);
    if let Called::Node(there) = called {
        return to_there(&there, request, wait_for, timeout, json).await;
    }
    match roll.find(&args.agent)?[..] {
        [one] => to_one(&roll, one, request, wait_for, timeout, json).await,
        [] => Err(Fail::refused("nobody is running; `synapse list --all` shows who is known")),
        ref several => to_many(&roll, several, &request, json).await,
    }
}

/// A message for an agent elsewhere; who sends it is told as far as it is an agent.
fn sending(roll: &Roll, args: Send, text: String, wait_for: WaitFor) -> Result<Sending, Fail> {
    let sender = match (&args.from, roll.own_agent()) {
        (Some(raw), _) => Some(roll.find_one(raw)?),
        (None, own) => own.and_then(|own| roll.candidates.iter().find(|one| one.id == own)),
    };
    let own = request(text.clone(), args.priority, wait_for);
    // A wrong message is refused here as it would be by one of ours.
    request_to_core(own.clone())?;
    Ok(Sending {
        text,
        priority: args.priority,
        message_id: args.message_id.or(own.message_id).unwrap_or_default(),
        task: args.reply_to.or(args.task),
        sender: sender.map(|one| (one.id.to_string(), one.kind.to_string())),
        wait_for,
        timeout: args.timeout.unwrap_or(TIMEOUT),
    })
}

/// A message of this process, with an id of its own.
fn request(text: String, priority: u64, wait_for: WaitFor) -> MessageRequest {
    let chain = std::env::var("SYNAPSE_CHAIN").ok();
    MessageRequest {
        message: text.into(),
        priority: Some(priority),
        message_id: Some(uuid::Uuid::now_v7().to_string()),
        response_expected: Some(wait_for == WaitFor::Answer),
        chain: chain.and_then(|raw| serde_json::from_str::<ChainField>(&raw).ok()),
        ..MessageRequest::default()
    }
}

/// What the flags ask for, unless the settings say otherwise (CLI-7); then that is told.
pub(super) fn wait_for(roll: &Roll, step: Option<WaitFor>, response: bool) -> Result<WaitFor, Fail> {
    let asked = step.unwrap_or(if response { WaitFor::Answer } else { WaitFor::Stored });
    let places = Places::here(roll.home.root(), &std::env::current_dir()?);
    let loaded = synapse_settings::load(&places).faultless()?;
    let waits = loaded.settings.a2a.flow.waits(asked == WaitFor::Answer);
    let told = |what: &str| {
        let place = loaded.origin("a2a.flow").place().map_or_else(String::new, |place| format!(" ({place})"));
        eprintln!("{}", show::paint_err("2", &format!("a2a.flow{place}: {what}")));
    };
    Ok(match (asked, waits) {
        (WaitFor::Answer, false) => {
            told("oneway, so this does not wait for the answer");
            WaitFor::Stored
        }
        (WaitFor::Stored, true) if step.is_none() => {
            told("roundtrip, so this waits for the answer");
            WaitFor::Answer
        }
        _ => asked,
    })
}

async fn to_one(
    roll: &Roll,
    to: &Candidate,
    request: MessageRequest,
    wait_for: WaitFor,
    timeout: Duration,
    json: bool,
) -> Done {
    let began = Instant::now();
    let label = roll.label(&to.id);
    let warn = |accepted: &MessageAccepted| {
        if !json {
            eprintln!("{}", show::paint_err("2", &stored_line(accepted, &label)));
        }
    };
    let mut accepted = hand_over(roll, to, &request, &warn).await?;
    if wait_for != WaitFor::Stored && accepted.status == "spooled" && to.live {
        warn(&accepted);
        let awaited = Awaited { roll, agent: &to.id, label: &label, accepted: &accepted };
        let responds = async { Ok(handover::once_it_responds(roll, to, &request, timeout).await) };
        let taken = awaited.unless_interrupted(responds, false).await?;
        accepted = taken.unwrap_or(accepted);
    }
    let spooled = accepted.status == "spooled";
    if wait_for == WaitFor::Stored || spooled {
        if json {
            show::json(&roll.with_way(&accepted));
        } else {
            show::out(&stored_line(&accepted, &label));
        }
        if spooled && wait_for != WaitFor::Stored {
            return Err(handover::no_answer_yet(&accepted, &label));
        }
        return Ok(());
    }
    if show::err_on_terminal() {
        warn(&accepted);
    }
    let left = timeout.saturating_sub(began.elapsed());
    let awaited = Awaited { roll, agent: &to.id, label: &label, accepted: &accepted };
    let until = wait::until(roll, &to.id, &accepted, wait_for, left, Ears::of_person(json));
    let reached = awaited.unless_interrupted(until, !json).await?;
    if let Reached::TimedOut { last, .. } = &reached {
        let last = last.as_deref().unwrap_or("stored");
        return Err(nothing_came(roll, to, &accepted, timeout, last).await);
    }
    tell(Some(roll), &reached, &accepted, &label, json)
}

/// There is no spool on another machine: it is stored there, or it is not.
async fn to_there(
    there: &There,
    request: MessageRequest,
    wait_for: WaitFor,
    timeout: Duration,
    json: bool,
) -> Done {
    let accepted: MessageAccepted = there.ask(async |client| client.post("/message", &request).await).await?;
    // Whoever answers may be anybody; from here on its ids are used as ours would be.
    if accepted.task_id.as_deref().is_some_and(|task| TaskRef::parse(task).is_err()) {
        return Err(CallError::NotUnderstood { why: "its task has no id of ours".into() }.into());
    }
    let label = there.to_string();
    if wait_for == WaitFor::Stored {
        if json {
            show::json(&accepted);
        } else {
            show::out(&stored_line(&accepted, &label));
        }
        return Ok(());
    }
    if show::err_on_terminal() && !json {
        eprintln!("{}", show::paint_err("2", &stored_line(&accepted, &label)));
    }
    let place = Place::There(there);
    let reached = wait::until_at(&place, &accepted, wait_for, timeout, Ears::of_person(json)).await?;
    tell(None, &reached, &accepted, &label, json)
}

async fn to_many(roll: &Roll, to: &[&Candidate], request: &MessageRequest, json: bool) -> Done {
    let mut failed = None;
    for one in to {
        match hand_over(roll, one, request, &|_| {}).await {
            Ok(accepted) if json => show::json(&roll.with_way(&accepted)),
            Ok(accepted) => show::out(&stored_line(&accepted, &roll.label(&one.id))),
            Err(fail) => {
                fail.tell(json);
                failed = Some(fail);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// With the way it went, if that is ours to know.
fn tell(roll: Option<&Roll>, reached: &Reached, accepted: &MessageAccepted, label: &str, json: bool) -> Done {
    let task = accepted.task_id.clone().unwrap_or_default();
    let short = &task[..8.min(task.len())];
    let show_json = |told: serde_json::Value| match roll {
        Some(roll) => show::json(&roll.with_way(&told)),
        None => show::json(&told),
    };
    match reached {
        // Only those who can answer it stop at a question.
        Reached::Asks(asked) => Err(Fail::refused(format!("{label} asks: {}", show::safe(&asked.question)))),
        Reached::Step(step) => {
            if json {
                let told = json!({ "message_id": accepted.message_id, "task_id": task, "receipt": step });
                show_json(told);
            } else {
                show::out(&format!("{step} by {label}, task {short}"));
            }
            Ok(())
        }
        Reached::Ended { state, why, answer } => {
            if json {
                show_json(json!({
                    "message_id": accepted.message_id, "task_id": task, "state": state, "why": why, "answer": answer,
                }));
            } else if let Some(answer) = answer {
                show::out(&show::safe(&answer.text));
            }
            if state == "completed" {
                return Ok(());
            }
            let message = format!("task {short} {state}: {}", show::safe(why));
            Err(Fail::new(fail::TASK_FAILED, "task_failed", message))
        }
        Reached::TimedOut { after, last } => {
            let (after, last) = (after.as_secs(), last.as_deref().unwrap_or("stored"));
            let message = format!(
                "nothing more from {label} within {after} s; the message is {last}, and task {short} goes on"
            );
            Err(Fail::new(fail::TIMED_OUT, "timed_out", message))
        }
    }
}

/// Why no answer came (CLI-11), in two lines.
async fn nothing_came(
    roll: &Roll,
    to: &Candidate,
    accepted: &MessageAccepted,
    after: Duration,
    last: &str,
) -> Fail {
    let label = roll.label(&to.id);
    let task = accepted.task_id.as_deref().unwrap_or_default();
    let why = super::explain::why_not(roll, &to.id, task).await;
    let message = format!(
        "nothing more from {label} within {} s; the message is {last}, and the task goes on: {why}\n  `synapse explain {}` tells all of it",
        after.as_secs(),
        &task[..8.min(task.len())]
    );
    Fail::new(fail::TIMED_OUT, "timed_out", message)
}
