//! `GET /api/v1/terminal`, the state of an agent in a terminal with all evidence for it; and `POST
//! /api/v1/signal`, with which its own hooks add evidence.

use crate::parse;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TerminalView {
    pub state: String,
    /// RFC 3339.
    pub since: String,
    /// Which kind of evidence decided: exit, hook, native, status, title, screen, typed or silence.
    pub source: String,
    /// The rule or the report that decided.
    pub why: String,
    /// Why that source decided, and no other.
    #[serde(default)]
    pub because: String,
    /// Every source with an opinion, best first.
    pub evidence: Vec<Evidence>,
    pub profile: String,
    /// The file of the profile, or `shipped`.
    #[serde(default)]
    pub profile_from: String,
    /// Why what is in that file now is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_fault: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the profile was checked with this version; absent if the version is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<bool>,
    /// Beginnings of the versions that the profile was checked with.
    #[serde(default)]
    pub tested_versions: Vec<String>,
    /// How messages get to the program.
    #[serde(default)]
    pub way_in: String,
    /// Why no message is ever typed to it; absent if messages are typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untyped: Option<String>,
    /// It says that its usage limit is reached; then nothing is typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PausedView>,
    /// It says that it works, but nothing has come from it for long: since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wedged_since: Option<String>,
    pub title: String,
    pub columns: u16,
    pub rows: u16,
    /// What the program is made to tell besides what it shows.
    #[serde(default)]
    pub tells: TellsView,
    /// What it waits for, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptView>,
}

/// A usage limit, as the program tells of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PausedView {
    pub limit: String,
    /// RFC 3339.
    pub since: String,
    /// When it goes on, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// That time, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// What a program is made to tell besides what it shows, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TellsView {
    /// `hooks`, `server` or `nothing`.
    pub way: String,
    /// Why it is not used, or not heard; empty if all is well.
    pub why: String,
    pub events: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// When it took its last prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_at: Option<String>,
    /// When its last turn ended with an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_at: Option<String>,
}

/// An event, told by the hook program of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalRequest {
    /// The secret of this start of the program.
    pub key: String,
    /// The event, as the CLI names it.
    pub event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The tool that it is about, or the kind of a notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "parse::optional_object")]
    pub prompt: Option<SignalText>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "parse::optional_object")]
    pub answer: Option<SignalText>,
    /// What a tool is to run, if the event asks for permission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<SignalText>,
}

/// A text, and how long it was before it was cut.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalText {
    pub text: String,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evidence {
    pub source: String,
    /// `idle`, `busy` or `waiting`.
    pub says: String,
    pub since: String,
    /// When it last said so; for hooks, the last event.
    #[serde(default)]
    pub at: String,
    /// How far it can be believed: `sure`, `high`, `fair` or `low`.
    #[serde(default)]
    pub confidence: String,
    pub why: String,
}

/// What an agent waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptView {
    /// Names this prompt; a decision carries it.
    pub hash: String,
    /// As the screen shows it.
    pub text: String,
    pub choices: Vec<String>,
    /// RFC 3339.
    pub since: String,
    /// Whether its profile knows the keys that decide.
    pub decidable: bool,
    /// Whether all that it asks is in `text` and `command`. One that is not complete can be denied and not approved.
    #[serde(default)]
    pub complete: bool,
    /// Why it is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// The command, as the program itself tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where `command` comes from: `hook` or `server`; `screen` if it is only in `text`.
    #[serde(default)]
    pub source: String,
    /// What it asks for, in one line, such as `asks to run: touch notes.txt`.
    #[serde(default)]
    pub asks: String,
    /// Whether `asks` is the whole question.
    #[serde(default)]
    pub asks_all: bool,
    /// The question alone: `text` without frames, answers and the names of keys.
    #[serde(default)]
    pub question: String,
}

/// The commands with which a user can decide a prompt.
///
/// A command that names the prompt decides it without showing it. So `approve` names it only where
/// the whole question is shown beside it; otherwise it shows the question first and asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptCommands {
    /// `None` if it must not, or cannot, be approved from elsewhere.
    pub approve: Option<String>,
    pub deny: Option<String>,
    /// Set if it must be answered at its terminal.
    pub attach: Option<String>,
}

impl PromptCommands {
    /// Builds the commands. `is_shown` says that the reader sees the whole question.
    pub fn new(agent: &str, prompt: &PromptRef<'_>, is_shown: bool) -> Self {
        let PromptRef { hash, is_decidable, is_complete } = *prompt;
        let approve = match is_shown {
            true => format!("synapse approve {agent} --prompt {hash}"),
            false => format!("synapse approve {agent}"),
        };
        let is_approvable = is_decidable && is_complete;
        Self {
            approve: is_approvable.then_some(approve),
            deny: is_decidable.then(|| format!("synapse deny {agent} --prompt {hash}")),
            attach: (!is_approvable).then(|| format!("synapse attach {agent}")),
        }
    }

    /// Returns all of them in one line.
    pub fn line(&self) -> String {
        let all: Vec<&str> =
            [&self.approve, &self.attach, &self.deny].into_iter().filter_map(|one| one.as_deref()).collect();
        all.join("   or   ")
    }
}

/// What is needed of a prompt to build its commands.
#[derive(Debug, Clone, Copy)]
pub struct PromptRef<'a> {
    pub hash: &'a str,
    pub is_decidable: bool,
    pub is_complete: bool,
}

impl PromptView {
    /// Returns the commands to decide it. `is_shown` says that the reader sees the whole question.
    pub fn commands(&self, agent: &str, is_shown: bool) -> PromptCommands {
        let prompt = PromptRef { hash: &self.hash, is_decidable: self.decidable, is_complete: self.complete };
        PromptCommands::new(agent, &prompt, is_shown)
    }
}

/// Keys to press in an agent's terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeysRequest {
    /// Names of keys, such as `Enter`, `C-c`, `F5`; anything else is typed as text.
    pub keys: Vec<String>,
    /// All of it is text.
    #[serde(default)]
    pub literal: bool,
    /// Wait for the end of a message that is being typed.
    #[serde(default)]
    pub wait: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeysAnswer {
    /// By name; of a text only how long it is.
    pub pressed: Vec<String>,
}

/// A person's word on a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// The hash of the prompt that is meant.
    pub prompt: String,
    pub allow: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionAnswer {
    /// `taken`: the key was pressed and the prompt is gone. `ignored`: it was pressed and the prompt is still there.
    pub decided: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding H4: a command that approves without showing the question appears only
    /// beside the whole question.
    #[test]
    fn commands_name_the_prompt_only_beside_the_whole_question() {
        for (is_decidable, is_complete, is_shown, expected) in [
            (true, true, true, "synapse approve ana --prompt 0a   or   synapse deny ana --prompt 0a"),
            (true, true, false, "synapse approve ana   or   synapse deny ana --prompt 0a"),
            (true, false, true, "synapse attach ana   or   synapse deny ana --prompt 0a"),
            (false, true, true, "synapse attach ana"),
        ] {
            let prompt = PromptRef { hash: "0a", is_decidable, is_complete };
            assert_eq!(PromptCommands::new("ana", &prompt, is_shown).line(), expected);
        }
    }
}
