//! `synapse broadcast`: one message to many agents, each at its own node, and who took it.
//!
//! All of them get it under one id, so that saying it again with `--message-id` reaches only those who do not
//! have it yet.

use super::wait::{self, Reached};
use super::{WaitFor, duration, send, text_of};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_core::routes::{Candidate, Target};
use synapse_dialects::api::AnswerView;
use synapse_dialects::error::ErrorInfo;
use synapse_dialects::message::{ChainField, MessageRequest, request_to_core};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Agents that are written to at the same time.
const AT_ONCE: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Args)]
pub(super) struct Broadcast {
    /// Text of the message; read from stdin if `-` or omitted
    message: Option<String>,
    /// Read the message from a file
    #[arg(long, value_name = "PATH", conflicts_with = "message")]
    file: Option<std::path::PathBuf>,
    /// Send only to this type or `skill:<NAME>`
    #[arg(long, value_name = "WHO", default_value = "all")]
    to: String,
    /// Include agents that are not running
    #[arg(short, long)]
    all: bool,
    /// Priority from 1 (note) to 5 (emergency)
    #[arg(short, long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=5))]
    priority: u64,
    /// Send on behalf of one of your agents
    #[arg(short, long, value_name = "AGENT")]
    from: Option<String>,
    /// Wait for the replies and print them
    #[arg(long)]
    response: bool,
    /// Maximum time to wait, e.g. 30s, 5m [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Use this message id; sending it again has no effect
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
}

/// What became of it at one agent; stable.
#[derive(Serialize)]
struct Sent {
    name: String,
    agent_id: AgentId,
    /// `stored`, `spooled` or `refused`; with `--response` also the state of the task, or `timed-out`.
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    duplicate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<AnswerView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorInfo>,
}

#[derive(Serialize)]
struct Told {
    message_id: String,
    sent: Vec<Sent>,
    /// How many have it.
    taken: usize,
    not_taken: usize,
}

pub(super) async fn broadcast(args: Broadcast, json: bool) -> Done {
    let text = text_of(args.message, args.file.as_deref())?;
    let roll = Arc::new(Roll::call()?);
    let speaker = match &args.from {
        Some(raw) => Some(roll.find_one(raw)?.id),
        None => roll.own_agent(),
    };
    let to = receivers(&roll.candidates, &args.to, args.all, speaker)?;
    let wait_for = send::wait_for(&roll, None, args.response)?;
    let message_id = args.message_id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let chain = std::env::var("SYNAPSE_CHAIN").ok().and_then(|raw| serde_json::from_str(&raw).ok());
    let whole = ChainField { correlation_id: message_id.clone(), parent_message_id: None, hops: 0 };
    let request = MessageRequest {
        message: text.into(),
        priority: Some(args.priority),
        from: args.from.as_deref().map(|raw| roll.speaker(raw)).transpose()?,
        message_id: Some(message_id.clone()),
        response_expected: Some(wait_for == WaitFor::Answer),
        chain: Some(chain.unwrap_or(whole)),
        ..MessageRequest::default()
    };
    request_to_core(request.clone())?;
    let timeout = args.timeout.unwrap_or(TIMEOUT);
    let sending = to_all(&roll, to, request, wait_for, timeout, json);
    let sent = tokio::task::LocalSet::new().run_until(sending).await;
    tell(Told::new(message_id, sent), json)
}

/// Who is meant, without the one who speaks.
fn receivers(
    all: &[Candidate],
    to: &str,
    stopped_too: bool,
    speaker: Option<AgentId>,
) -> Result<Vec<Candidate>, Fail> {
    let skill = match Target::parse(to) {
        Ok(Target::Skill(skill)) => Some(skill),
        Ok(_) => None,
        Err(bad) => return Err(Fail::usage(bad.to_string())),
    };
    let meant = |candidate: &&Candidate| match &skill {
        Some(skill) => candidate.capabilities.contains(skill),
        None => to == "all" || candidate.kind.as_str().eq_ignore_ascii_case(to),
    };
    let reached = |candidate: &&Candidate| stopped_too || candidate.live;
    let others = all.iter().filter(|candidate| Some(candidate.id) != speaker);
    let found: Vec<Candidate> = others.filter(meant).filter(reached).cloned().collect();
    if found.is_empty() {
        let whom = if to == "all" { "no other agent runs".to_owned() } else { format!("no {to} runs") };
        return Err(Fail::refused(format!(
            "{whom}; `synapse list --all` shows who is known, `--all` writes to those that do not run as well"
        )));
    }
    Ok(found)
}

async fn to_all(
    roll: &Arc<Roll>,
    to: Vec<Candidate>,
    request: MessageRequest,
    wait_for: WaitFor,
    timeout: Duration,
    json: bool,
) -> Vec<Sent> {
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut under_way = JoinSet::new();
    for one in to {
        let (roll, request, at_once) = (roll.clone(), request.clone(), at_once.clone());
        under_way.spawn_local(async move {
            let room = at_once.acquire().await;
            let mut sent = hand_over(&roll, &one, &request).await;
            // Others may be written to while this one is thinking.
            drop(room);
            if let (WaitFor::Answer, Ok(accepted)) = (wait_for, &sent.1)
                && accepted.status != "spooled"
            {
                wait_for_answer(&roll, &one, accepted, timeout, &mut sent.0).await;
            }
            sent.0
        });
    }
    let mut all = Vec::new();
    while let Some(joined) = under_way.join_next().await {
        let Ok(sent) = joined else { continue };
        if let (Some(answer), false) = (&sent.answer, json) {
            show::out(&format!("{}: {}", show::paint("1", &sent.name), show::safe(&answer.text)));
        }
        all.push(sent);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

type Accepted = Result<synapse_dialects::message::MessageAccepted, ()>;

async fn hand_over(roll: &Roll, to: &Candidate, request: &MessageRequest) -> (Sent, Accepted) {
    let mut sent = Sent {
        name: roll.label(&to.id),
        agent_id: to.id,
        status: "refused".into(),
        task_id: None,
        duplicate: false,
        answer: None,
        error: None,
    };
    match send::hand_over(roll, to, request, &|_| {}).await {
        Ok(accepted) => {
            sent.status.clone_from(&accepted.status);
            sent.task_id.clone_from(&accepted.task_id);
            sent.duplicate = accepted.duplicate;
            (sent, Ok(accepted))
        }
        Err(fail) => {
            sent.error = Some(fail.info);
            (sent, Err(()))
        }
    }
}

async fn wait_for_answer(
    roll: &Roll,
    to: &Candidate,
    accepted: &synapse_dialects::message::MessageAccepted,
    timeout: Duration,
    sent: &mut Sent,
) {
    match wait::until(roll, &to.id, accepted, WaitFor::Answer, timeout, wait::Ears::DEAF).await {
        Ok(Reached::Ended { state, why, answer }) => {
            if state != "completed" {
                sent.error = Some(Fail::new(fail::TASK_FAILED, "task_failed", why).info);
            }
            (sent.status, sent.answer) = (state, answer);
        }
        Ok(Reached::TimedOut { .. } | Reached::Step(_) | Reached::Asks(_)) => {
            sent.status = "timed-out".into();
            let task = accepted.task_id.as_deref().unwrap_or_default();
            let why = super::explain::why_not(roll, &to.id, task).await;
            sent.error = Some(Fail::new(fail::TIMED_OUT, "timed_out", why).info);
        }
        Err(fail) => {
            sent.status = "timed-out".into();
            sent.error = Some(fail.info);
        }
    }
}

impl Told {
    fn new(message_id: String, sent: Vec<Sent>) -> Self {
        let not_taken = sent.iter().filter(|one| one.status == "refused").count();
        Self { message_id, taken: sent.len() - not_taken, not_taken, sent }
    }

    /// All took it and, if that was asked for, did it.
    fn outcome(&self) -> Done {
        let count =
            |statuses: &[&str]| self.sent.iter().filter(|one| statuses.contains(&&*one.status)).count();
        let refused = count(&["refused"]);
        let late = count(&["timed-out"]);
        let failed = count(&["failed", "canceled", "rejected"]);
        let again =
            format!("the same again with `--message-id {}` reaches only those without it", self.message_id);
        match (refused, late, failed) {
            (0, 0, 0) => Ok(()),
            (0, 0, n) => Err(Fail::new(fail::TASK_FAILED, "task_failed", format!("{n} could not do it"))),
            (0, n, _) => Err(Fail::new(
                fail::TIMED_OUT,
                "timed_out",
                format!("{n} have not answered; their tasks go on"),
            )),
            (n, _, _) => Err(Fail::refused(format!("{n} of {} did not take it; {again}", self.sent.len()))),
        }
    }
}

fn tell(told: Told, json: bool) -> Done {
    if json {
        show::json(&told);
        return told.outcome();
    }
    let rows: Vec<Vec<String>> = told
        .sent
        .iter()
        .map(|one| {
            let task = one.task_id.as_deref().and_then(|task| task.get(..8)).unwrap_or("-");
            let status = if one.duplicate && one.status == "stored" { "stored before" } else { &one.status };
            let why = one.error.as_ref().map_or("", |error| error.message.as_str());
            vec![one.name.clone(), show::state(status), task.to_owned(), show::cell(why, 80)]
        })
        .collect();
    show::out(&show::table(&["AGENT", "MESSAGE", "TASK", "WHY"], &rows));
    told.outcome()
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::ids::{AgentType, Label};

    fn candidate(n: u8, kind: &str, skills: &[&str], live: bool) -> Candidate {
        Candidate {
            number: None,
            folder: String::new(),
            former_names: Vec::new(),
            id: AgentId::from_bytes([n; 32]),
            kind: AgentType::parse(kind).unwrap(),
            name: None,
            port: None,
            capabilities: skills.iter().map(|skill| Label::parse(skill).unwrap()).collect(),
            live,
        }
    }

    #[test]
    fn who_is_meant_by_a_broadcast() {
        let all = [
            candidate(1, "claude", &["review"], true),
            candidate(2, "codex", &[], true),
            candidate(3, "claude", &[], false),
        ];
        let check = |to: &str, stopped: bool, speaker: Option<u8>, expected: &[u8]| {
            let speaker = speaker.map(|n| AgentId::from_bytes([n; 32]));
            let found = receivers(&all, to, stopped, speaker).unwrap_or_default();
            let ids: Vec<AgentId> = found.iter().map(|candidate| candidate.id).collect();
            let expected: Vec<AgentId> = expected.iter().map(|n| AgentId::from_bytes([*n; 32])).collect();
            assert_eq!(ids, expected, "{to} {stopped} {speaker:?}");
        };
        check("all", false, None, &[1, 2]);
        check("all", true, None, &[1, 2, 3]);
        check("all", true, Some(2), &[1, 3]);
        check("CLAUDE", false, None, &[1]);
        check("claude", true, Some(1), &[3]);
        check("skill:review", false, None, &[1]);
        check("skill:cook", true, None, &[]);
        check("clau", true, None, &[]);
        assert_eq!(receivers(&all, "gemini", true, None).unwrap_err().code, fail::REFUSED);
        assert_eq!(receivers(&all, "a b", true, None).unwrap_err().code, fail::USAGE);
    }
}
