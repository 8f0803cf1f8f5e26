//! `synapse follow`: subscribes to what an agent shares (PTY-10).
//!
//! Who follows gets a note for each thing that is shared: an agent in its inbox, a person in theirs. `--tail`
//! follows only while it runs, and leaves no trace.

use super::bell::Bell;
use super::wait;
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_dialects::event::EventView;
use synapse_dialects::share::{FollowRequest, SharedView};

#[derive(Args)]
pub(super) struct Follow {
    /// Name, type, handle or id prefix
    #[arg(required_unless_present = "list")]
    agent: Option<String>,
    /// List the running agents you follow
    #[arg(long, conflicts_with_all = ["agent", "tail"])]
    list: bool,
    /// Print what it shares until Ctrl-C, without subscribing
    #[arg(long)]
    tail: bool,
    /// Unsubscribe
    #[arg(long, conflicts_with_all = ["list", "tail"])]
    stop: bool,
    /// Act for one of your agents [default: this agent, or you]
    #[arg(short, long, value_name = "AGENT")]
    from: Option<String>,
}

#[derive(Args)]
pub(super) struct Unfollow {
    /// Name, type, handle or id prefix
    agent: String,
    /// Unsubscribe one of your agents [default: this agent, or you]
    #[arg(short, long, value_name = "AGENT")]
    from: Option<String>,
}

pub(super) async fn follow(args: Follow, json: bool) -> Done {
    let roll = Roll::call()?;
    match args.agent {
        Some(raw) if args.tail => tail(&roll, roll.find_one(&raw)?.id, json).await,
        Some(raw) => change(&roll, &raw, !args.stop, args.from, json).await,
        None => list(&roll, args.from, json).await,
    }
}

pub(super) async fn unfollow(args: Unfollow, json: bool) -> Done {
    let roll = Roll::call()?;
    change(&roll, &args.agent, false, args.from, json).await
}

async fn change(roll: &Roll, raw: &str, follow: bool, from: Option<String>, json: bool) -> Done {
    let id = roll.find_one(raw)?.id;
    let label = roll.label(&id);
    if !roll.is_held(&id) {
        let message =
            format!("{label} is not running, and only its node has its followers; start it, then try again");
        return Err(Fail::new(fail::TIMED_OUT, "not_running", message));
    }
    let from = from.as_deref().map(|raw| roll.speaker(raw)).transpose()?;
    let request = FollowRequest { follow, from };
    let shared: SharedView = wait::patiently(super::facts::PATIENCE, async || {
        roll.connect(&id).await?.post("/api/v1/follow", &request).await
    })
    .await?;
    if json {
        show::json(&shared);
    } else if follow {
        show::out(&format!("subscribed; what {label} shares comes to your inbox"));
    } else {
        show::out(&format!("unsubscribed from {label}"));
    }
    Ok(())
}

async fn list(roll: &Roll, from: Option<String>, json: bool) -> Done {
    let who = match &from {
        Some(raw) => Some(roll.find_one(raw)?.id),
        None => roll.own_agent(),
    };
    let who = who.map_or_else(|| "user".to_owned(), |id| id.to_string());
    let (mut rows, mut views) = (Vec::new(), Vec::new());
    for entry in &roll.scan.agents {
        let Ok(mut client) = roll.connect(&entry.agent_id).await else { continue };
        let Ok(shared) = client.get::<SharedView>("/api/v1/shared").await else { continue };
        if !shared.followers.iter().any(|follower| follower.sender_id == who) {
            continue;
        }
        let (since, text) = shared.context.as_ref().map_or(("-", "nothing"), |c| (&c.since, &c.text));
        rows.push(vec![roll.label(&entry.agent_id), since.to_owned(), show::cell(text, 80)]);
        views.push(shared);
    }
    if json {
        show::json(&views);
    } else if rows.is_empty() {
        show::out("you follow no running agent; `synapse follow <AGENT>` subscribes");
    } else {
        show::out(&show::table(&["AGENT", "SINCE", "SHARES"], &rows));
    }
    Ok(())
}

/// What it shares, as it does, across restarts of its node.
async fn tail(roll: &Roll, id: AgentId, json: bool) -> Done {
    let label = roll.label(&id);
    let bell = Bell::at(roll.home.registry_dir());
    let (mut after, mut last) = (None, None);
    loop {
        if let Ok(client) = roll.connect(&id).await
            && let Ok(mut events) = client.lines(&format!("/api/v1/events?agent={id}"), after).await
        {
            // Asked once we follow, so that nothing between question and stream is missed.
            if let Ok(mut client) = roll.connect(&id).await
                && let Ok(shared) = client.get::<SharedView>("/api/v1/shared").await
            {
                say(&label, &json!(shared.context), &mut last, json);
            }
            while let Some(event) = events.next_event().await {
                after = event.id.or(after);
                let Ok(view) = serde_json::from_str::<EventView>(&event.data) else { continue };
                if view.event == "shared" {
                    say(&label, &view.data["context"], &mut last, json);
                }
            }
        }
        bell.rung(Duration::from_secs(2)).await;
    }
}

fn say(label: &str, context: &serde_json::Value, last: &mut Option<serde_json::Value>, json: bool) {
    if last.as_ref() == Some(context) || (last.is_none() && context.is_null()) {
        return;
    }
    *last = Some(context.clone());
    if json {
        show::json(&json!({ "agent": label, "context": context }));
        return;
    }
    match context["text"].as_str() {
        Some(text) => {
            let since = context["since"].as_str().unwrap_or_default();
            show::out(&format!("{} {label}: {}", show::paint("2", since), show::safe(text)));
        }
        None => show::out(&format!("{label} shares nothing now")),
    }
}
