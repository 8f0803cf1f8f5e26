//! `synapse explain` and `synapse cancel` for remote agents and their tasks.

use super::Elsewhere;
use super::send::{all_told, mark};
use crate::cli::status::Wanted;
use crate::fail::{self, Done, Fail};
use crate::show;
use serde_json::json;
use std::time::Duration;
use synapse_peer::a2a::{AskError, Begin, Ears, Picture};

/// How long a task may take to stop.
const PATIENCE: Duration = Duration::from_secs(15);

/// What its card says, and which tasks it has of ours.
pub(in crate::cli) async fn status(of: &Elsewhere, wanted: Wanted, json: bool) -> Done {
    let tasks = match of.agent.tasks().await {
        Ok(tasks) => tasks,
        // 0.3 has no list; others do not tell whoever asks.
        Err(AskError::Unusable { .. } | AskError::Refused { .. } | AskError::NotUnderstood { .. }) => {
            Vec::new()
        }
        Err(e) => return Err(of.fail(&e)),
    };
    let card = &of.agent.card;
    if json {
        let tasks: Vec<_> = tasks
            .iter()
            .map(|task| json!({ "task_id": task.id, "task": of.task_ref(&task.id), "state": task.state }))
            .collect();
        let mut value = json!({
            "agent_name": of.label, "remote": true, "card_name": card.name, "description": card.description,
            "version": card.version, "skills": card.skills, "streaming": card.streaming,
            "endpoint": of.agent.at.url().to_string(), "binding": of.agent.at.binding(),
            "protocol": of.agent.at.version(), "tasks": tasks, "untrusted": true,
        });
        match wanted {
            Wanted::Status => value["agentName"] = of.label.clone().into(),
            Wanted::Explanation => {
                (value["kind"], value["agent"]) = ("remote".into(), of.label.clone().into());
            }
        }
        show::json(&value);
        return Ok(());
    }
    let mut rows = vec![
        ("agent", format!("{} ({}, elsewhere)", show::cell(&of.label, 200), show::cell(&card.name, 60))),
        ("about", show::cell(&card.description, 80)),
        ("version", show::cell(&card.version, 40)),
        ("skills", show::cell(&card.skills.join(", "), 80)),
        ("speaks", of.agent.at.to_string()),
        ("streams", if card.streaming { "yes" } else { "no" }.to_owned()),
    ];
    for task in &tasks {
        rows.push((
            "task",
            format!("{} {}", show::cell(&of.task_ref(&task.id), 200), show::state(task.state)),
        ));
    }
    for (name, text) in rows.iter().filter(|(_, text)| !text.is_empty()) {
        show::out(&format!("{}  {text}", show::paint("2", &format!("{name:7}"))));
    }
    Ok(())
}

pub(in crate::cli) async fn task(of: &Elsewhere, id: &str, wanted: Wanted, json: bool) -> Done {
    let picture = of.agent.task(id).await.map_err(|e| of.fail(&e))?;
    tell(of, &picture, wanted, json);
    Ok(())
}

pub(in crate::cli) async fn cancel(of: &Elsewhere, id: &str, json: bool) -> Done {
    let mut picture = of.agent.cancel(id).await.map_err(|e| of.fail(&e))?;
    if !picture.state().is_terminal() {
        // Asked to stop, it may need a while; a question that it had is not waited for.
        let ears = Ears { hear: &|_| {}, enough: &|_| false };
        let followed = of.agent.follow(Begin::Task(id), &mut picture, &ears);
        match tokio::time::timeout(PATIENCE, followed).await {
            Ok(done) => done.map_err(|e| of.fail(&e))?,
            Err(_) => {
                let (task, s) = (show::cell(&of.task_ref(id), 200), PATIENCE.as_secs());
                let message = format!("{} was told to stop {task}, and has not within {s} s", of.label);
                return Err(Fail::new(fail::TIMED_OUT, "timed_out", message));
            }
        }
    }
    if json {
        show::json(&all_told(of, None, &picture));
    } else {
        show::out(&format!("task {} is {}", show::cell(&of.task_ref(id), 200), picture.state().name()));
    }
    Ok(())
}

fn tell(of: &Elsewhere, picture: &Picture, wanted: Wanted, json: bool) {
    if json {
        let mut value = all_told(of, None, picture);
        if wanted == Wanted::Explanation {
            value["kind"] = "task".into();
        }
        show::json(&value);
        return;
    }
    let id = picture.task_id().unwrap_or_default();
    show::out(&format!(
        "task {} is {}",
        show::cell(&of.task_ref(id), 200),
        show::state(picture.state().name())
    ));
    let is_over = picture.state().is_terminal();
    if let Some(answer) = picture.answer().filter(|answer| is_over && !answer.text.is_empty()) {
        mark(of);
        show::out(&show::safe(&answer.text));
    } else if let Some(says) = picture.says() {
        show::out(&format!("it says: {}", show::safe(&says)));
    }
}
