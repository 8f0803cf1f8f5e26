//! `synapse send-keys`: presses keys in an agent's terminal, for a person who is not attached to it.

use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use synapse_dialects::terminal::{KeysAnswer, KeysRequest};

#[derive(Args)]
pub(super) struct SendKeys {
    /// Name, type, handle or id prefix
    agent: String,
    /// Keys such as Enter, Escape, C-c or F5; anything else is typed
    ///
    /// Keys are Enter, Escape, Tab, Space, Backspace, Delete, Insert, Up, Down, Left, Right, Home, End, PageUp, PageDown
    /// and F1 to F12, with C- (Ctrl), M- (Alt) or S- (Shift) in front.
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Type everything as text, including key names
    #[arg(short, long)]
    literal: bool,
    /// Wait while a message is being typed there
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
