//! Decides the prompt that an agent waits for: who may decide, and which key or answer the decision
//! becomes.
//!
//! Not here: how the key is pressed, and on which screen (`synapse_terminal::prompt`); wire formats
//! (`doors`).

use crate::audit;
use crate::doors::Shared;
use crate::hands::acp::{self, AcpDesk};
use synapse_core::Refusal;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_terminal::prompt::Decided;

/// Refuses a terminal request to an agent without a terminal.
pub fn no_terminal(app: &Shared) -> Refusal {
    let why = match &app.acp {
        Some(_) => {
            "it has no terminal, it is spoken with over ACP; `synapse logs` shows what its program says"
        }
        None => "it has no terminal; it was started with --exec or has joined",
    };
    Refusal::bad_field("agent", why)
}

/// Allows or denies the prompt with this hash, if the caller may, and returns the outcome.
pub async fn decide(app: &Shared, caller: &Caller, allow: bool, prompt: String) -> Result<Decided, Refusal> {
    policy::may(&app.gate.rules(), caller, Verb::Approve, About::default())?;
    if let Some(desk) = &app.acp {
        return over_acp(desk, allow, prompt).await;
    }
    let seat = app.seat.as_ref().ok_or_else(|| no_terminal(app))?;
    if seat.watch().profile().approve.is_none() {
        let why = "its profile does not say which keys decide; answer at its terminal with `synapse attach`";
        return Err(Refusal::bad_field("agent", why));
    }
    audit::note(|facts| facts.note(if allow { "allow" } else { "deny" }));
    match seat.decide(prompt, allow).await.ok_or(Refusal::Stopping)? {
        Decided::Changed => Err(changed()),
        Decided::Unmarked => {
            let why = "at its terminal Enter would take another answer than this one, so nothing was pressed; \
                       answer there with `synapse attach`";
            Err(Refusal::bad_field("prompt", why))
        }
        Decided::Doubtful(doubt) => {
            let why = format!(
                "{}, so nothing was pressed; look at its terminal with `synapse attach` and answer there, or deny it",
                doubt.why()
            );
            Err(Refusal::bad_field("prompt", &why))
        }
        decided => Ok(decided),
    }
}

fn changed() -> Refusal {
    let why = "the agent waits for something else now, or for nothing; `synapse inbox --approvals` shows it";
    Refusal::bad_field("prompt", why)
}

async fn over_acp(desk: &AcpDesk, allow: bool, prompt: String) -> Result<Decided, Refusal> {
    audit::note(|facts| facts.note(if allow { "allow" } else { "deny" }));
    match desk.decide(prompt, allow).await.ok_or(Refusal::Stopping)? {
        acp::Decided::Taken => Ok(Decided::Taken),
        acp::Decided::Changed => Err(changed()),
        acp::Decided::Doubtful(why) => {
            let why = format!(
                "{why}; so its program was told nothing. Deny it, or start the program in a terminal \
                 (`synapse run -- …`) and choose there"
            );
            Err(Refusal::bad_field("prompt", &why))
        }
    }
}
