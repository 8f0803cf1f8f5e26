//! Events: every journaled record, as sent to subscribers of `/api/v1/events`
//! and of `send --response`.

use crate::api::{AnswerView, MessageView, SenderView, happened};
use crate::share::ContextView;
use crate::time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use synapse_core::record::{Entry, Record, Said};
use utoipa::ToSchema;

/// One event. `id` is its place in the node's journal: come back with the last one you saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    pub id: u64,
    pub at: String,
    /// accepted, leased, returned, receipt, handed, task, progress, artifact, cancel, interrupt, ended, agent, shared,
    /// followed, loop.
    pub event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[schema(value_type = Object)]
    pub data: Value,
}

impl From<&Entry> for EventView {
    fn from(entry: &Entry) -> Self {
        Self {
            id: entry.seq.0,
            at: time::show(entry.at),
            event: entry.record.name().to_owned(),
            task_id: entry.record.task().map(|task| task.to_string()),
            data: data(&entry.record),
        }
    }
}

fn data(record: &Record) -> Value {
    match record {
        Record::Known(agent) => json!({ "agent_id": agent.id, "label": agent.label() }),
        Record::Accepted { letter, body, .. } => json!(MessageView::new(letter, Some(body), None)),
        Record::Leased { message, until, .. } => {
            json!({ "message_id": message, "until": time::show(*until) })
        }
        Record::Returned { message, why, .. } => json!({ "message_id": message, "why": why }),
        Record::Marked { message, what, .. } | Record::Handed { message, what, .. } => {
            let (what, why) = happened(what);
            json!({ "message_id": message, "receipt": what, "why": why })
        }
        Record::Moved { to, said, .. } => {
            let prompt = said.as_ref().map(AnswerView::of);
            json!({ "state": to.to.name(), "by": to.by, "why": to.why, "prompt": prompt })
        }
        Record::Said { what: Said::Progress { text, percent }, .. } => {
            json!({ "text": text, "percent": percent })
        }
        Record::Said { what: Said::Artifact { id, name, content, append, last }, .. } => json!({
            "artifact_id": id, "name": name, "append": append, "last": last,
            "content": AnswerView::of(content).content,
        }),
        Record::CancelAsked { asked, .. } => json!({ "by": asked.by, "why": asked.why }),
        Record::Interrupted { by, why, .. } => json!({ "by": by, "why": why }),
        Record::Shared { agent, context } => {
            json!({ "agent_id": agent, "context": context.as_ref().map(ContextView::from) })
        }
        Record::Followed { agent, follower, on } => {
            json!({ "agent_id": agent, "follower": SenderView::from(follower), "follows": on })
        }
        Record::Ended { ending, archive, .. } => json!({
            "state": ending.state.name(), "by": ending.by, "why": ending.why,
            "answer": ending.answer.as_ref().map(AnswerView::of), "dead_letter": archive.dead_letter,
            "agent_id": archive.task.agent,
        }),
        Record::Tripped { from, to, why } => json!({ "from": from, "agent_id": to, "why": why }),
    }
}
