//! `synapse status`, the former name of `synapse explain`: the state of one agent and its open tasks.

use super::Calling;
use super::elsewhere::{self, Called};
use super::facts;
use super::there::There;
use crate::agents::Roll;
use crate::fail::Done;
use crate::show;
use clap::Args;
use serde_json::{Value, json};
use synapse_core::ids::AgentId;
use synapse_dialects::api::TaskView;
use synapse_dialects::status::StatusView;
use synapse_peer::CallError;
use synapse_store::registry::Entry;
use synapse_store::spool::Spool;

#[derive(Args)]
pub(super) struct Status {
    /// Agent, remote, task of a remote (`name/id`) or URL
    agent: String,
    /// Remote or URL that has the task, if AGENT is a task id
    #[arg(long, value_name = "REMOTE")]
    at: Option<String>,
}

/// Which command prints it: both show the same, under different names in JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// `synapse status`, which also has its older names.
    Status,
    /// `synapse explain`, where `kind` and `agent` come first.
    Explanation,
}

pub(super) async fn status(args: Status, calling: &Calling, json: bool) -> Done {
    let roll = Roll::call()?;
    if let Some((there, task)) = elsewhere::of_task(&args.agent, args.at.as_deref(), calling, &roll).await? {
        return elsewhere::show::task(&there, &task, Wanted::Status, json).await;
    }
    match Called::by(&args.agent, calling, &roll).await? {
        Called::Node(there) => return of_there(&there, Wanted::Status, json).await,
        Called::Agent(there) => return elsewhere::show::status(&there, Wanted::Status, json).await,
        Called::Here => {}
    }
    let one = roll.find_one(&args.agent)?;
    let label = roll.label(&one.id);
    if !one.live {
        return not_running(&roll, &one.id, json);
    }
    let entry = roll.scan.agents.iter().find(|entry| entry.agent_id == one.id);
    let (status, tasks) = match ask(&roll, &one.id).await {
        Ok(answered) => answered,
        Err(CallError::NotResponding { why }) => {
            not_responding(&roll, &one.id, &why, json);
            return Ok(());
        }
        Err(other) => return Err(other.into()),
    };
    if json {
        show::json(&all_told(&status, &tasks, entry));
        return Ok(());
    }
    let mut lines = vec![
        vec!["agent".to_owned(), format!("{} ({})", label, status.agent_type)],
        vec![
            "state".to_owned(),
            format!(
                "{} ({}), since {}",
                show::state(&status.state),
                show::cell(
                    status.asks.as_deref().unwrap_or(facts::why_for_people(&status.state, &status.why)),
                    100
                ),
                status.since
            ),
        ],
        vec!["waiting".to_owned(), messages(status.waiting)],
        vec!["id".to_owned(), status.agent_id.clone()],
    ];
    if let Some(entry) = entry {
        lines.push(vec!["handle".into(), format!("synapse-{}-{}", entry.agent_type, entry.port)]);
        lines.push(vec!["endpoint".into(), entry.endpoint.clone()]);
        lines.push(vec!["folder".into(), entry.working_dir.clone()]);
        lines.push(vec!["log".into(), roll.home.agent(&one.id).log().display().to_string()]);
    }
    for task in tasks.iter().filter(|task| task.state != "submitted").take(10) {
        lines.push(vec![
            "task".into(),
            format!(
                "{} {} for {}",
                task.short_id,
                show::state(&task.state),
                show::cell(&roll.sender(&task.requester), 40)
            ),
        ]);
    }
    print(&lines);
    Ok(())
}

async fn ask(roll: &Roll, id: &AgentId) -> Result<(StatusView, Vec<TaskView>), CallError> {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
    super::wait::patiently(PATIENCE, async || {
        let mut client = roll.connect(id).await?.within(facts::ANSWERS_WITHIN);
        Ok((client.get("/status").await?, client.get("/api/v1/tasks").await?))
    })
    .await
}

fn not_running(roll: &Roll, id: &AgentId, json: bool) -> Done {
    let label = roll.label(id);
    let waiting = Spool::open(&roll.home.agent(id).spool())?.waiting()?;
    if json {
        show::json(&with_snake_case(
            json!({ "agentName": label, "state": "offline", "running": false, "spooled": waiting }),
        ));
    } else {
        show::out(&format!(
            "{label} is not running; new messages: {waiting}. They are kept until it runs again"
        ));
    }
    Ok(())
}

/// What is known of an agent whose node says nothing.
fn not_responding(roll: &Roll, id: &AgentId, why: &str, json: bool) {
    let label = roll.label(id);
    let spooled = Spool::open(&roll.home.agent(id).spool()).and_then(|spool| spool.waiting()).unwrap_or(0);
    if json {
        show::json(&with_snake_case(json!({
            "agentName": label, "state": "unknown", "running": true, "responding": false, "why": why,
            "spooled": spooled,
        })));
        return;
    }
    show::out(&format!("{label} is not responding: {why}"));
    show::out(&format!("new messages: {spooled}. They are kept until it responds again"));
}

/// What anybody may see of a node elsewhere; its tasks are shown to those who may read them.
pub(super) async fn of_there(there: &There, wanted: Wanted, json: bool) -> Done {
    let status = there.status().await?;
    if json {
        let mut value = serde_json::to_value(&status).unwrap_or_default();
        value["running"] = true.into();
        match wanted {
            Wanted::Status => show::json(&with_snake_case(value)),
            Wanted::Explanation => {
                let mut value = in_snake_case(&value);
                (value["kind"], value["agent"]) = ("agent".into(), status.agent_name.into());
                show::json(&value);
            }
        }
        return Ok(());
    }
    let row = |name: &str, text: String| vec![name.to_owned(), text];
    print(&[
        row(
            "agent",
            format!("{} ({})", show::cell(&status.agent_name, 60), show::cell(&status.agent_type, 40)),
        ),
        row("state", format!("{} ({})", show::cell(&status.state, 20), show::cell(&status.why, 60))),
        row("waiting", format!("{} messages", status.waiting)),
        row("id", show::cell(&status.agent_id, 64)),
        row("endpoint", there.to_string()),
    ]);
    Ok(())
}

fn print(lines: &[Vec<String>]) {
    let width = lines.iter().map(|l| l[0].len()).max().unwrap_or(0);
    for line in lines {
        show::out(&format!("{}  {}", show::paint("2", &format!("{:width$}", line[0])), line[1]));
    }
}

/// The fields of `GET /status` are in camelCase, for programs that expect REST-3.
fn in_snake_case(value: &Value) -> Value {
    let snake = |name: &str| {
        name.chars().fold(String::new(), |mut snake, c| {
            if c.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
            snake
        })
    };
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (snake(name), value.clone())).collect()
}

/// All fields under both names; the older ones stay.
fn with_snake_case(mut value: Value) -> Value {
    let more = in_snake_case(&value);
    if let (Some(fields), Value::Object(more)) = (value.as_object_mut(), more) {
        fields.extend(more);
    }
    value
}

pub(super) fn all_told(status: &StatusView, tasks: &[TaskView], entry: Option<&Entry>) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    value["running"] = true.into();
    value["tasks"] = serde_json::to_value(tasks).unwrap_or_default();
    if let Some(entry) = entry {
        value["handle"] = format!("synapse-{}-{}", entry.agent_type, entry.port).into();
        value["endpoint"] = entry.endpoint.clone().into();
        value["folder"] = entry.working_dir.clone().into();
    }
    with_snake_case(value)
}

fn messages(count: usize) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}
