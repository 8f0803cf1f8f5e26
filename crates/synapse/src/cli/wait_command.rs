//! `synapse wait`: until agents are idle, or tasks are done or answered (CLI-9).
//!
//! It follows the events of each node and the files of the registry; nodes that die and agents that are stopped
//! and started again meanwhile are followed on.

use super::bell::Bell;
use super::{duration, explain, facts, reason};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use synapse_core::ids::{AgentId, TaskRef};
use synapse_dialects::api::{AnswerView, TaskView};
use synapse_peer::LineStream;
use tokio::task::JoinSet;
use tokio::task::LocalSet;

const TIMEOUT: Duration = Duration::from_secs(600);
/// We look again after this long even if nobody told us anything.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Each of them is a connection.
const TARGETS_MAX: usize = 64;

#[derive(Args)]
pub(super) struct Wait {
    /// Agents or tasks (id or its first eight digits)
    #[arg(required = true, value_name = "AGENT|TASK")]
    targets: Vec<String>,
    /// Return when one of them is reached
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// Return when all of them are reached (default)
    #[arg(long)]
    all: bool,
    /// Wait for this [default: idle for agents, done for tasks]
    #[arg(long, value_enum)]
    until: Option<Until>,
    /// Maximum time to wait, e.g. 30s, 5m [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Until {
    /// The agent has no task and no waiting messages
    Idle,
    /// The task has ended, with or without success
    Done,
    /// The task has a reply
    Reply,
}

#[derive(Clone)]
pub(super) enum Goal {
    Idle { target: String, agent: AgentId },
    Task { target: String, agent: AgentId, task: String, reply: bool },
}

/// One that is there; stable.
#[derive(Serialize)]
pub(super) struct Arrived {
    pub target: String,
    pub agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub state: String,
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerView>,
    #[serde(skip)]
    pub failed: bool,
}

#[derive(Serialize)]
pub(super) struct Missing {
    pub target: String,
    pub why: String,
}

#[derive(Serialize)]
pub(super) struct Waited {
    pub reached: Vec<Arrived>,
    pub missing: Vec<Missing>,
    pub timed_out: bool,
}

pub(super) async fn wait(args: Wait, json: bool) -> Done {
    let roll = Arc::new(Roll::call()?);
    if args.targets.len() > TARGETS_MAX {
        return Err(Fail::usage(format!("{} targets; at most {TARGETS_MAX} at once", args.targets.len())));
    }
    let goals = goals(&roll, &args.targets, args.until).await?;
    let timeout = args.timeout.unwrap_or(TIMEOUT);
    let tell = |arrived: &Arrived| {
        if !json {
            show::out(&line(arrived, show::cell));
        }
    };
    let waited = LocalSet::new().run_until(wait_for_all(&roll, goals, args.any, timeout, &tell)).await;
    if json {
        show::json(&waited);
    }
    outcome(&waited, timeout)
}

pub(super) async fn goals(roll: &Roll, targets: &[String], until: Option<Until>) -> Result<Vec<Goal>, Fail> {
    let mut goals = Vec::new();
    for raw in targets {
        goals.push(goal(roll, raw, until).await?);
    }
    Ok(goals)
}

async fn goal(roll: &Roll, raw: &str, until: Option<Until>) -> Result<Goal, Fail> {
    let target = raw.to_owned();
    let unknown = match (roll.find_one(raw), until) {
        (Ok(one), None | Some(Until::Idle)) => return Ok(Goal::Idle { target, agent: one.id }),
        (Ok(_), Some(_)) => {
            return Err(Fail::usage(format!(
                "{raw:?} is an agent; `--until done` and `reply` are for tasks"
            )));
        }
        (Err(unknown), _) => unknown,
    };
    let Ok(name) = TaskRef::parse(raw) else { return Err(unknown) };
    if until == Some(Until::Idle) {
        return Err(Fail::usage(format!("{raw:?} is no agent; `--until idle` is for agents")));
    }
    let (agent, view) = roll.node_of_task(&name).await?;
    Ok(Goal::Task { target, agent, task: view.task_id, reply: until == Some(Until::Reply) })
}

/// Must run in a `LocalSet`.
pub(super) async fn wait_for_all(
    roll: &Arc<Roll>,
    goals: Vec<Goal>,
    any: bool,
    timeout: Duration,
    tell: &dyn Fn(&Arrived),
) -> Waited {
    let mut under_way = JoinSet::new();
    for goal in goals.clone() {
        let roll = roll.clone();
        under_way.spawn_local(async move {
            match goal {
                Goal::Idle { target, agent } => until_idle(&roll, target, &agent).await,
                Goal::Task { target, agent, task, reply } => {
                    until_done(&roll, target, &agent, &task, reply).await
                }
            }
        });
    }
    let mut waited = Waited { reached: Vec::new(), missing: Vec::new(), timed_out: false };
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        match tokio::time::timeout_at(deadline, under_way.join_next()).await {
            Ok(Some(Ok(arrived))) => {
                tell(&arrived);
                waited.reached.push(arrived);
                if any {
                    break;
                }
            }
            Ok(Some(Err(_))) => {}
            Ok(None) => break,
            Err(_) => {
                waited.timed_out = true;
                break;
            }
        }
    }
    under_way.abort_all();
    if waited.timed_out {
        for goal in goals {
            let (Goal::Idle { target, .. } | Goal::Task { target, .. }) = &goal;
            if waited.reached.iter().any(|arrived| arrived.target == *target) {
                continue;
            }
            let why = match &goal {
                Goal::Idle { agent, .. } => explain::why_not_idle(roll, agent).await,
                Goal::Task { agent, task, .. } => explain::why_not(roll, agent, task).await,
            };
            waited.missing.push(Missing { target: target.clone(), why });
        }
    }
    waited
}

async fn until_idle(roll: &Roll, target: String, id: &AgentId) -> Arrived {
    let bell = Bell::at(roll.home.registry_dir());
    let mut events = None;
    loop {
        if events.is_none() {
            events = follow(roll, id, "/api/v1/events").await;
        }
        let known = facts::gather(roll, id, Duration::ZERO).await;
        if let Ok(node) = &known.node
            && reason::is_idle(node)
        {
            return Arrived {
                target,
                agent: known.label.clone(),
                task_id: None,
                state: "idle".into(),
                why: node.status.why.clone(),
                answer: None,
                failed: false,
            };
        }
        news(&mut events, &bell).await;
    }
}

async fn until_done(roll: &Roll, target: String, id: &AgentId, task: &str, reply: bool) -> Arrived {
    let bell = Bell::at(roll.home.registry_dir());
    let mut events = None;
    loop {
        if events.is_none() {
            events = follow(roll, id, &format!("/api/v1/events?task={task}")).await;
        }
        let view = match roll.connect(id).await {
            Ok(mut client) => client.get::<TaskView>(&format!("/api/v1/tasks/{task}")).await.ok(),
            Err(_) => None,
        };
        if let Some(view) = view
            && matches!(view.state.as_str(), "completed" | "failed" | "canceled" | "rejected")
        {
            let unanswered = reply && view.answer.is_none();
            return Arrived {
                target,
                agent: roll.label(id),
                task_id: Some(view.task_id),
                failed: view.state != "completed" || unanswered,
                why: view.history.last().map_or_else(String::new, |last| last.why.clone()),
                state: view.state,
                answer: view.answer,
            };
        }
        news(&mut events, &bell).await;
    }
}

/// Follows from now on; none while no node is there.
async fn follow(roll: &Roll, id: &AgentId, path: &str) -> Option<LineStream> {
    roll.connect(id).await.ok()?.lines(path, None).await.ok()
}

/// Returns when something happened that may be what we wait for.
async fn news(events: &mut Option<LineStream>, bell: &Bell) {
    /// What comes in a burst is looked at once.
    const BURST: Duration = Duration::from_millis(20);
    let Some(stream) = events else { return bell.rung(LOOK_AGAIN).await };
    let ended = tokio::select! {
        event = stream.next_event() => event.is_none(),
        () = bell.rung(LOOK_AGAIN) => false,
    };
    if ended {
        *events = None;
        // Its node may be between two lives; the next one writes to the registry.
        return bell.rung(Duration::from_millis(100)).await;
    }
    while let Ok(Some(_)) = tokio::time::timeout(BURST, stream.next_event()).await {}
}

pub(super) fn line(arrived: &Arrived, cut: fn(&str, usize) -> String) -> String {
    let answer = arrived.answer.as_ref().map(|answer| answer.text.as_str());
    let said = cut(answer.unwrap_or(&arrived.why), 100);
    match &arrived.task_id {
        None => format!("{} is {} ({said})", arrived.agent, show::state(&arrived.state)),
        Some(task) => {
            let short = &task[..8.min(task.len())];
            format!("task {short} of {} is {}: {said}", arrived.agent, show::state(&arrived.state))
        }
    }
}

fn outcome(waited: &Waited, timeout: Duration) -> Done {
    if waited.timed_out {
        let missing: Vec<String> = waited
            .missing
            .iter()
            .map(|one| format!("{}: {}", one.target, show::cell_err(&one.why, 240)))
            .collect();
        let message = format!("not within {} s:\n  {}", timeout.as_secs(), missing.join("\n  "));
        return Err(Fail::new(fail::TIMED_OUT, "timed_out", message));
    }
    match waited.reached.iter().find(|arrived| arrived.failed) {
        None => Ok(()),
        Some(one) => {
            let message =
                format!("{} is {} without what was wanted: {}", one.target, one.state, show::safe(&one.why));
            Err(Fail::new(fail::TASK_FAILED, "task_failed", message))
        }
    }
}
