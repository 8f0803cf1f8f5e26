//! `synapse approve`, `synapse deny`: your word on what an agent waits for. It names the prompt, so that it never
//! answers another one.

use super::confirm;
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use std::io::IsTerminal as _;
use synapse_dialects::terminal::{DecisionAnswer, DecisionRequest, PromptView};

#[derive(Args)]
pub(super) struct Decision {
    /// Name, type, handle or id prefix
    agent: String,
    /// Hash of the prompt, from `synapse inbox --approvals` [default: show and ask]
    #[arg(long, value_name = "HASH")]
    prompt: Option<String>,
}

pub(super) async fn decide(args: Decision, allow: bool, json: bool) -> Done {
    let roll = Roll::call()?;
    let to = roll.find_one(&args.agent)?;
    let label = roll.label(&to.id);
    let prompt = match args.prompt {
        Some(hash) => hash,
        None => {
            let view: PromptView = roll.connect(&to.id).await?.get("/api/v1/prompt").await?;
            let verb = if allow { "approve" } else { "deny" };
            let if_not = format!("name the prompt: synapse {verb} {label} --prompt {}", view.hash);
            if json || !std::io::stdin().is_terminal() || !show::err_on_terminal() {
                return Err(Fail::usage(if_not));
            }
            show::out(&question(&view));
            if allow && let Some(doubt) = &view.doubt {
                let why = format!("this prompt cannot be approved from here: {doubt}");
                return Err(Fail::usage(format!("{why}; answer it with `synapse attach {label}`")));
            }
            confirm(&format!("{verb} this for {label}?"), "nothing was pressed", json)?;
            view.hash
        }
    };
    let request = DecisionRequest { prompt, allow };
    let answer: DecisionAnswer = roll.connect(&to.id).await?.post("/api/v1/approve", &request).await?;
    if answer.decided == "ignored" {
        let message = format!(
            "the key was pressed and {label} still shows the prompt; `synapse attach {label}` brings you there"
        );
        return Err(Fail::new(fail::ERROR, "ignored", message));
    }
    match json {
        true => show::json(&json!({ "agent_id": to.id, "allowed": allow })),
        false => show::out(&format!("{label}: {}", if allow { "approved" } else { "denied" })),
    }
    Ok(())
}

/// All that an approver has to read.
pub(super) fn question(view: &PromptView) -> String {
    let mut all = Vec::new();
    // Over ACP the command is part of what the program tells.
    if let Some(command) = view.command.as_ref().filter(|_| view.source != "acp") {
        all.push(show::paint("1", &format!("command, as its {} tells it:", view.source)));
        all.push(show::safe(command));
        all.push(show::paint("1", "its screen:"));
    }
    all.push(show::safe(&view.text));
    if let Some(doubt) = &view.doubt {
        all.push(show::paint("1", &format!("not to be approved from here: {doubt}")));
    }
    all.join("\n")
}

/// Every agent that waits for a person, with what it asks.
pub(super) async fn list(json: bool) -> Done {
    let roll = Roll::call()?;
    let mut found = Vec::new();
    for entry in &roll.scan.agents {
        let id = entry.agent_id;
        if let Ok(mut client) = roll.connect(&id).await
            && let Ok(prompt) = client.get::<PromptView>("/api/v1/prompt").await
        {
            found.push((id, roll.label(&id), prompt));
        }
    }
    if json {
        let found: Vec<_> = found
            .iter()
            .map(|(id, label, prompt)| json!({ "agent_id": id, "agent": label, "prompt": prompt }))
            .collect();
        show::json(&json!({ "approvals": found }));
        return Ok(());
    }
    if found.is_empty() {
        show::out("no agent waits for you");
    }
    for (n, (_, label, prompt)) in found.iter().enumerate() {
        if n > 0 {
            show::out("");
        }
        show::out(&show::paint("1", &format!("{label} waits for you, prompt {}", prompt.hash)));
        show::out(&question(prompt));
        show::out(&format!("  {}", prompt.commands(label, true).line()));
    }
    Ok(())
}
