//! `synapse send-keys`: presses keys in an agent's terminal, for a person who is not attached to it.

use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use synapse_dialects::terminal::{KeysAnswer, KeysRequest};

#[derive(Args)]
pub(super) struct SendKeys {
    /// Whose terminal: a name, type, handle, start of an id
    agent: String,
    /// Enter Escape Tab Space Backspace Delete Insert Up Down Left Right Home End PageUp PageDown F1 to F12, with C- (Ctrl), M- (Alt) or S- (Shift)
    /// in front; anything else is typed as it is
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// All of it is text, also what is the name of a key
    #[arg(short, long)]
    literal: bool,
    /// If a message is being typed there just now, wait for its end
    #[arg(long)]
    wait: bool,
}

pub(super) async fn send_keys(args: SendKeys, json: bool) -> Done {
    let roll = Roll::call()?;
    let to = roll.find_one(&args.agent)?;
    let label = roll.label(&to.id);
    if !to.live {
        let message = format!("{label} is not running, so there is no terminal to press keys in");
        return Err(Fail::new(fail::REFUSED, "not_running", message));
    }
    let request = KeysRequest { keys: args.keys, literal: args.literal, wait: args.wait };
    let answer: KeysAnswer = roll.connect(&to.id).await?.post("/api/v1/keys", &request).await?;
    match json {
        true => show::json(&json!({ "agent_id": to.id, "pressed": answer.pressed })),
        false => show::out(&format!("{label}: pressed {}", show::safe(&answer.pressed.join(" ")))),
    }
    Ok(())
}
