//! The line protocol of programs: one JSON object per line, both ways.
//!
//! A command agent with `--jsonl` gets one `message` line and reports its progress. A program
//! under `synapse join` gets many messages and reports on each. A ten-line script in any language
//! is a full streaming agent.

use crate::api::MessageView;
use crate::message::parts;
use crate::parse;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use synapse_core::Refusal;
use synapse_core::effect::Report;
use synapse_core::message::{Body, Content};
use synapse_core::receipt::Step;
use synapse_core::record::Said;
use synapse_core::task::TaskState;
use utoipa::ToSchema;

/// A line that a program reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToProgram {
    /// Identifies the agent; the first line under `join`.
    Hello {
        agent_id: String,
        label: String,
        /// The file with the agent's token, for calls over TCP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_file: Option<String>,
    },
    Message(Box<MessageView>),
    /// The answer to the program's `input_required`.
    Input(Box<MessageView>),
    /// Tells the program to stop working on this task.
    Cancel {
        task_id: String,
        why: String,
    },
    /// Tells the program that this task was interrupted. The task continues
    /// unless the program ends it.
    Interrupt {
        task_id: String,
        from: String,
        why: String,
    },
    /// A line of the program was not understood; it had no effect.
    Error {
        message: String,
        line: String,
    },
    /// Under `join`: the requested change is on disk.
    Ok {
        of: String,
    },
}

impl ToProgram {
    pub fn line(&self) -> String {
        let line = match self {
            Self::Message(view) => serde_json::to_string(&Self::Message(Box::new(view.for_program()))),
            Self::Input(view) => serde_json::to_string(&Self::Input(Box::new(view.for_program()))),
            other => serde_json::to_string(other),
        };
        let mut line = line.expect("views are plain data and always have a JSON form");
        line.push('\n');
        line
    }
}

/// What a program says about a message it was given. Under `join`, `message_id` says about which message; alone it may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromProgram {
    Seen {
        #[serde(default)]
        message_id: Option<String>,
    },
    Progress {
        text: String,
        #[serde(default, deserialize_with = "parse::optional_whole_number")]
        percent: Option<u8>,
        #[serde(default)]
        message_id: Option<String>,
    },
    /// Whole, or in chunks: `append` adds to the one with the same id, `last` closes it. Without `artifact_id` the id is
    /// the name, or else `artifact-1`, `artifact-2` and so on; a chunk without both belongs to the artifact before it.
    Artifact {
        #[serde(default)]
        artifact_id: Option<String>,
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        data: Option<Value>,
        #[serde(default)]
        url: Option<String>,
        #[serde(default)]
        bytes: Option<String>,
        #[serde(default)]
        media_type: Option<String>,
        /// What the part's file is called; `name` is what the artifact is.
        #[serde(default)]
        filename: Option<String>,
        #[serde(default)]
        append: bool,
        #[serde(default = "yes")]
        last: bool,
        #[serde(default)]
        message_id: Option<String>,
    },
    /// A message to somebody, without a task for you.
    Send {
        to: String,
        text: String,
        #[serde(default)]
        priority: Option<u64>,
    },
    InputRequired {
        text: String,
        #[serde(default)]
        message_id: Option<String>,
    },
    /// As `input_required`, for what only somebody with credentials can give.
    AuthRequired {
        text: String,
        #[serde(default)]
        message_id: Option<String>,
    },
    /// An answer that ends it at once, as a message and not as the result of a task.
    Message {
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        data: Option<Value>,
        #[serde(default)]
        parts: Option<Vec<Value>>,
        #[serde(default)]
        message_id: Option<String>,
    },
    Rejected {
        why: String,
        #[serde(default)]
        message_id: Option<String>,
    },
    Failed {
        why: String,
        #[serde(default)]
        message_id: Option<String>,
    },
    Completed {
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        data: Option<Value>,
        #[serde(default)]
        parts: Option<Vec<Value>>,
        #[serde(default)]
        message_id: Option<String>,
    },
}

fn yes() -> bool {
    true
}

impl FromProgram {
    /// Returns the message id, to be filled in when only one message is possible.
    pub fn message_id_mut(&mut self) -> Option<&mut Option<String>> {
        match self {
            Self::Send { .. } => None,
            Self::Seen { message_id }
            | Self::Progress { message_id, .. }
            | Self::Artifact { message_id, .. }
            | Self::InputRequired { message_id, .. }
            | Self::AuthRequired { message_id, .. }
            | Self::Message { message_id, .. }
            | Self::Rejected { message_id, .. }
            | Self::Failed { message_id, .. }
            | Self::Completed { message_id, .. } => Some(message_id),
        }
    }

    /// Whether the program is done with the message after this line.
    pub fn is_last_word(&self) -> bool {
        matches!(
            self,
            Self::Message { .. } | Self::Rejected { .. } | Self::Failed { .. } | Self::Completed { .. }
        )
    }
}

/// A parsed line, in core types.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    Report { message_id: Option<String>, report: Report },
    Send { to: String, text: String, priority: Option<u64> },
}

pub const LINE_BYTES_MAX: usize = (1 << 20) + (64 << 10);

pub fn to_core(line: &[u8]) -> Result<Line, Refusal> {
    let said: FromProgram = parse::json(line)?;
    let report = |message_id, report| Ok(Line::Report { message_id, report });
    match said {
        FromProgram::Seen { message_id } => report(message_id, Report::Step(Step::Seen)),
        FromProgram::Progress { text, percent, message_id } => {
            report(message_id, Report::Said(Said::Progress { text, percent }))
        }
        artifact @ FromProgram::Artifact { .. } => artifact_to_core(artifact),
        FromProgram::Send { to, text, priority } => Ok(Line::Send { to, text, priority }),
        FromProgram::InputRequired { text, message_id } => {
            let prompt = Body::of(&Content::text(text));
            report(message_id, Report::NeedsInput { prompt, auth: false })
        }
        FromProgram::AuthRequired { text, message_id } => {
            let prompt = Body::of(&Content::text(text));
            report(message_id, Report::NeedsInput { prompt, auth: true })
        }
        FromProgram::Message { text, data, parts: list, message_id } => {
            let body = answer("message", text, data, list)?
                .ok_or_else(|| Refusal::bad_field("message", "it needs a text, data or parts"))?;
            report(message_id, Report::Message { body })
        }
        FromProgram::Rejected { why, message_id } => {
            report(message_id, Report::Done { state: TaskState::Rejected, answer: None, why })
        }
        FromProgram::Failed { why, message_id } => {
            report(message_id, Report::Done { state: TaskState::Failed, answer: None, why })
        }
        FromProgram::Completed { text, data, parts: list, message_id } => {
            let answer = answer("completed", text, data, list)?;
            report(message_id, Report::Done { state: TaskState::Completed, answer, why: "completed".into() })
        }
    }
}

fn answer(
    field: &str,
    text: Option<String>,
    data: Option<Value>,
    list: Option<Vec<Value>>,
) -> Result<Option<Body>, Refusal> {
    let mut all = list.unwrap_or_default();
    all.extend(text.map(|text| serde_json::json!({ "text": text })));
    all.extend(data.map(|data| serde_json::json!({ "data": data })));
    if all.is_empty() {
        return Ok(None);
    }
    let parts = parts(field, serde_json::json!({ "parts": all }))?;
    Ok(Some(Body::of(&Content { parts, ..Content::default() })))
}

fn artifact_to_core(said: FromProgram) -> Result<Line, Refusal> {
    let FromProgram::Artifact {
        artifact_id,
        name,
        text,
        data,
        url,
        bytes,
        media_type,
        filename,
        append,
        last,
        message_id,
    } = said
    else {
        return Err(Refusal::bad_field("type", "this is not an artifact"));
    };
    let mut part = serde_json::Map::new();
    part.extend(text.map(|v| ("text".to_owned(), Value::String(v))));
    part.extend(data.map(|v| ("data".to_owned(), v)));
    part.extend(url.map(|v| ("url".to_owned(), Value::String(v))));
    part.extend(bytes.map(|v| ("raw".to_owned(), Value::String(v))));
    part.extend(media_type.map(|v| ("mediaType".to_owned(), Value::String(v))));
    part.extend(filename.map(|v| ("filename".to_owned(), Value::String(v))));
    let parts = parts("artifact", serde_json::json!({ "parts": [part] }))?;
    let what = Said::Artifact {
        // Empty here: the hub chooses an id, because it knows the task's earlier artifacts.
        id: artifact_id.unwrap_or_default(),
        name,
        content: Body::of(&Content { parts, ..Content::default() }),
        append,
        last,
    };
    Ok(Line::Report { message_id, report: Report::Said(what) })
}
