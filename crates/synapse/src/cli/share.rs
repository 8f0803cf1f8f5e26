//! `synapse share`: an agent says what it is doing (PTY-10). `list` and `explain` show it; its followers get a note.

use super::{text_of, wait};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use synapse_core::ids::AgentId;
use synapse_dialects::share::{ShareRequest, SharedView};

#[derive(Args)]
pub(super) struct Share {
    /// What the agent is doing; read from stdin if `-` or omitted
    text: Option<String>,
    /// Clear what was shared
    #[arg(long, conflicts_with = "text")]
    clear: bool,
    /// Publish for one of your agents [default: this agent]
    #[arg(short, long, value_name = "AGENT")]
    from: Option<String>,
}

pub(super) async fn share(args: Share, json: bool) -> Done {
    let text = if args.clear { None } else { Some(text_of(args.text, None)?) };
    let roll = Roll::call()?;
    let agent = match &args.from {
        Some(raw) => roll.find_one(raw)?.id,
        None => roll.own_agent_for("tell which agent shares this")?.ok_or_else(|| {
            Fail::usage("who shares? Run this under an agent, or name one of yours with --from")
        })?,
    };
    let shared = share_for(&roll, &agent, text).await?;
    if json {
        show::json(&shared);
    } else {
        show::out(&line(&shared, &roll.label(&agent)));
    }
    match shared.not_told.first() {
        None => Ok(()),
        Some(one) => {
            let message = format!(
                "{} could not be told: {}; share the same again to try once more",
                one.follower.shown(),
                one.why
            );
            Err(Fail::new(fail::ERROR, "not_told", message))
        }
    }
}

/// What an agent shares from now on; without a text, nothing.
pub(super) async fn share_for(
    roll: &Roll,
    agent: &AgentId,
    text: Option<String>,
) -> Result<SharedView, Fail> {
    if !roll.is_held(agent) {
        let message = format!("{} is not running; start it, then share", roll.label(agent));
        return Err(Fail::new(fail::TIMED_OUT, "not_running", message));
    }
    let chain = std::env::var("SYNAPSE_CHAIN").ok().and_then(|raw| serde_json::from_str(&raw).ok());
    let request = ShareRequest { text, chain };
    let shared = wait::patiently(super::facts::PATIENCE, async || {
        roll.connect(agent).await?.post("/api/v1/shared", &request).await
    });
    Ok(shared.await?)
}

pub(super) fn line(shared: &SharedView, label: &str) -> String {
    if shared.context.is_none() {
        return format!("{label} shares nothing now");
    }
    let told = shared.followers.len() - shared.not_told.len();
    format!("shared by {label}; {told} of {} followers told", shared.followers.len())
}
