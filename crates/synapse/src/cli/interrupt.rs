//! `synapse interrupt`: what an agent is doing is interrupted, and what you say is next (X-4, PTY-9).

use super::wait;
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use synapse_dialects::message::MessageRequest;
use synapse_dialects::share::{InterruptAnswer, InterruptRequest};

#[derive(Args)]
pub(super) struct Interrupt {
    /// Name, type, handle or id prefix
    agent: String,
    /// Reason or new instructions, sent as the next message
    message: Option<String>,
    /// Only interrupt; record the message as the reason
    #[arg(long)]
    only: bool,
    /// Send on behalf of one of your agents
    #[arg(short, long, value_name = "AGENT")]
    from: Option<String>,
    /// Use this message id; sending it again has no effect
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
}

pub(super) async fn interrupt(args: Interrupt, json: bool) -> Done {
    let roll = Roll::call()?;
    let to = roll.find_one(&args.agent)?;
    let label = roll.label(&to.id);
    let from = args.from.as_deref().map(|raw| roll.speaker(raw)).transpose()?;
    let message_id = args.message_id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let chain = std::env::var("SYNAPSE_CHAIN").ok().and_then(|raw| serde_json::from_str(&raw).ok());
    let message = args.message.clone().filter(|_| !args.only);
    if !to.live {
        return not_running(&roll, to, message, from, message_id, json).await;
    }
    let request = InterruptRequest {
        why: args.message,
        message_id: message.as_ref().map(|_| message_id),
        message: message.map(Into::into),
        from,
        response_expected: None,
        chain,
    };
    let answer: InterruptAnswer = wait::patiently(super::facts::PATIENCE, async || {
        roll.connect(&to.id).await?.post("/api/v1/interrupt", &request).await
    })
    .await?;
    if json {
        show::json(&answer);
        return Ok(());
    }
    for task in &answer.tasks {
        let short = &task.task_id[..8.min(task.task_id.len())];
        show::out(&match task.what.as_str() {
            "stopping" => {
                format!("task {short} is a plain command, so it is being stopped and counts as canceled")
            }
            _ => format!("task {short} was told; its program decides what to do"),
        });
    }
    match &answer.message {
        Some(accepted) if accepted.duplicate => {
            show::out(&format!("{label} was already interrupted with this message"));
        }
        Some(_) if answer.tasks.is_empty() => {
            show::out(&format!("{label} was not at work; your message is next"))
        }
        Some(_) => show::out(&format!("your message is next for {label}")),
        None if answer.tasks.is_empty() => {
            show::out(&format!("{label} was not at work; nothing to interrupt"))
        }
        None => {}
    }
    Ok(())
}

/// Nothing to interrupt; a message is kept and will be first.
async fn not_running(
    roll: &Roll,
    to: &synapse_core::routes::Candidate,
    message: Option<String>,
    from: Option<String>,
    message_id: String,
    json: bool,
) -> Done {
    let label = roll.label(&to.id);
    let Some(message) = message else {
        let message = format!("{label} is not running, so there is nothing to interrupt");
        return Err(Fail::new(fail::TIMED_OUT, "not_running", message));
    };
    let request = MessageRequest {
        message: message.into(),
        priority: Some(5),
        from,
        message_id: Some(message_id),
        ..MessageRequest::default()
    };
    let accepted = super::send::hand_over(roll, to, &request, &|_| {}).await?;
    if json {
        show::json(&json!({ "tasks": [], "message": accepted }));
    } else {
        show::out(&format!("{label} is not running; your message will be the first it reads"));
    }
    Ok(())
}
