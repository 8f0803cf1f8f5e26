//! What an agent shares about its work, who follows it (PTY-10), and interrupting it.

use crate::api::SenderView;
use crate::message::{ChainField, MessageAccepted};
use crate::{parse, time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use synapse_core::agents::Context;
use synapse_core::effect::Interruption;
use synapse_core::ids::TaskId;
use utoipa::ToSchema;

/// What an agent is doing, in its own words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContextView {
    pub text: String,
    /// RFC 3339.
    pub since: String,
    pub by_user: bool,
}

impl From<&Context> for ContextView {
    fn from(context: &Context) -> Self {
        Self { text: context.text.clone(), since: time::show(context.since), by_user: context.by_user }
    }
}

/// Say what this agent is doing; without a text, take it back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ShareRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "parse::optional_object")]
    pub chain: Option<ChainField>,
}

/// What is shared now, and who hears it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SharedView {
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
    pub followers: Vec<SenderView>,
    /// Followers whose note could not be written, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_told: Vec<NotTold>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotTold {
    pub follower: SenderView,
    pub why: String,
}

/// Hear what this agent shares, or no longer.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FollowRequest {
    pub follow: bool,
    /// Follow on behalf of an agent of yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Interrupt what this agent is doing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct InterruptRequest {
    /// For the history of what is interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// A message that is next in its mailbox; a text, or `{role, parts}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub message: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_expected: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "parse::optional_object")]
    pub chain: Option<ChainField>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InterruptAnswer {
    pub tasks: Vec<InterruptedTask>,
    /// What became of the message that came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageAccepted>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InterruptedTask {
    pub task_id: String,
    /// `told`: its program knows, and decides. `stopping`: a plain command, which is being canceled.
    pub what: String,
}

impl From<&(TaskId, Interruption)> for InterruptedTask {
    fn from((task, what): &(TaskId, Interruption)) -> Self {
        let what = match what {
            Interruption::Told => "told",
            Interruption::Stopping => "stopping",
        };
        Self { task_id: task.to_string(), what: what.to_owned() }
    }
}
