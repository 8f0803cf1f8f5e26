//! `synapse cancel`: stops a task, and says how it ended.

use super::elsewhere;
use super::wait::{self, Reached};
use super::{Calling, WaitFor};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use std::time::Duration;
use synapse_core::ids::TaskRef;
use synapse_dialects::api::{CancelRequest, TaskView};
use synapse_dialects::message::MessageAccepted;

/// More than the hand gives a stubborn process before it is killed.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Args)]
pub(super) struct Cancel {
    /// Task id or its first eight digits; `name/id` for a remote
    task: String,
    /// Remote or URL that has the task
    #[arg(long, alias = "at", value_name = "REMOTE")]
    remote: Option<String>,
    /// Reason to record in the history of the task
    #[arg(long, default_value = "canceled by the user")]
    why: String,
}

pub(super) async fn cancel(args: Cancel, calling: &Calling, json: bool) -> Done {
    let roll = Roll::call()?;
    if let Some((there, task)) =
        elsewhere::of_task(&args.task, args.remote.as_deref(), calling, &roll).await?
    {
        return elsewhere::show::cancel(&there, &task, json).await;
    }
    let name = TaskRef::parse(&args.task).map_err(|bad| Fail::usage(bad.to_string()))?;
    let (node, _) = roll.node_of_task(&name).await?;
    let request = CancelRequest { why: Some(args.why) };
    let path = format!("/api/v1/tasks/{}/cancel", name.as_str());
    let mut client = roll.connect(&node).await?;
    let mut task: TaskView = client.post(&path, &request).await?;
    if task.canceling {
        let since = MessageAccepted {
            message_id: String::new(),
            task_id: Some(task.task_id.clone()),
            agent_id: task.agent_id.clone(),
            status: "stored".into(),
            duplicate: true,
            ahead: 0,
            event_id: None,
            why: None,
        };
        if let Reached::TimedOut { .. } =
            wait::until(&roll, &node, &since, WaitFor::Answer, PATIENCE, wait::Ears::DEAF).await?
        {
            let message = format!(
                "task {} has not stopped within {} s; `synapse kill` ends its agent",
                task.short_id,
                PATIENCE.as_secs()
            );
            return Err(Fail::new(fail::TIMED_OUT, "timed_out", message));
        }
        task = client.get(&format!("/api/v1/tasks/{}", task.task_id)).await?;
    }
    if json {
        show::json(&task);
    } else {
        show::out(&format!("task {} is {}", task.short_id, task.state));
    }
    Ok(())
}
