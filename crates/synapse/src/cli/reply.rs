//! `synapse reply`: answers a task by its id, never by a port (CLI-6).

use super::text_of;
use super::there::There;
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::show;
use clap::Args;
use synapse_core::ids::{AgentId, TaskRef};
use synapse_dialects::api::{ReplyAnswer, ReplyRequest};

#[derive(Args)]
pub(super) struct Reply {
    /// Text of the reply; read from stdin if `-` or omitted
    message: Option<String>,
    /// Task id [default: the last one this agent received]
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Mark the task as failed, with the reply as the reason
    #[arg(long)]
    fail: bool,
}

pub(super) async fn reply(args: Reply, json: bool) -> Done {
    let text = text_of(args.message, None)?;
    let roll = Roll::call()?;
    tell(Some(&roll), &answer(&roll, args.task, text, args.fail).await?, json);
    Ok(())
}

pub(super) async fn to_task(roll: &Roll, task: String, text: String, json: bool) -> Done {
    tell(Some(roll), &answer(roll, Some(task), text, false).await?, json);
    Ok(())
}

pub(super) async fn to_task_there(there: &There, task: &str, text: String, json: bool) -> Done {
    TaskRef::parse(task).map_err(|bad| Fail::usage(bad.to_string()))?;
    let request = ReplyRequest { task_id: Some(task.to_owned()), message: text.into(), failed: false };
    let answer = there.ask(async |client| client.post("/api/v1/reply", &request).await).await?;
    tell(None, &answer, json);
    Ok(())
}

/// By its id, or the last one that reached the agent we run under.
pub(super) async fn answer(
    roll: &Roll,
    task: Option<String>,
    text: String,
    failed: bool,
) -> Result<ReplyAnswer, Fail> {
    let task = task.or_else(|| std::env::var("SYNAPSE_TASK_ID").ok().filter(|t| !t.is_empty()));
    if let Some(task) = task {
        let name = TaskRef::parse(&task).map_err(|bad| Fail::usage(bad.to_string()))?;
        let (node, _) = roll.node_of_task(&name).await?;
        return answer_at(roll, &node, Some(task), text, failed).await;
    }
    match roll.own_agent_for("tell which task to answer")? {
        Some(own) => answer_at(roll, &own, None, text, failed).await,
        None => Err(Fail::usage("no task given\nhint: pass --task TASK, or run this inside an agent")),
    }
}

async fn answer_at(
    roll: &Roll,
    node: &AgentId,
    task: Option<String>,
    text: String,
    failed: bool,
) -> Result<ReplyAnswer, Fail> {
    let request = ReplyRequest { task_id: task, message: text.into(), failed };
    Ok(roll.connect(node).await?.post("/api/v1/reply", &request).await?)
}

fn tell(roll: Option<&Roll>, answer: &ReplyAnswer, json: bool) {
    if json {
        match roll {
            Some(roll) => show::json(&roll.with_way(answer)),
            None => show::json(answer),
        }
        return;
    }
    show::out(&line(answer));
}

pub(super) fn line(answer: &ReplyAnswer) -> String {
    let short = show::line(answer.task_id.get(..8).unwrap_or("?"), 8);
    match &answer.sent_to {
        None => format!("task {short} answered"),
        Some(to) => format!(
            "nobody waits for task {short}; sent to {} as a message linked to it",
            show::line(&to.label, 60)
        ),
    }
}
