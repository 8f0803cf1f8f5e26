//! The Agent Client Protocol (ACP), version 1, from the side of the client: JSON-RPC 2.0, one JSON object per line.
//!
//! Only what a client without files and terminals of its own needs. Fields that we do not know are ignored, and so are
//! kinds of updates.
//!
//! Invariant: whatever the program writes becomes one of these types or a `BadLine`; nothing here panics or waits.
//! Not here: which message may follow which (`node/hands/acp/session`), processes and pipes.

use serde::Deserialize;
use serde_json::{Value, json};

/// The version of the protocol that we speak.
pub const VERSION: u64 = 1;

/// JSON-RPC error code: method not found.
pub const NO_METHOD: i64 = -32601;
/// JSON-RPC: the parameters do not fit.
pub const BAD_PARAMS: i64 = -32602;
/// ACP: the user has to log in first.
pub const LOGIN_REQUIRED: i64 = -32000;

/// Longest id of a request of the program.
const ID_BYTES_MAX: usize = 256;

/// One line of the program.
#[derive(Debug, Clone, PartialEq)]
pub enum FromProgram {
    /// The answer to a request of ours.
    Answer {
        id: u64,
        outcome: Result<Value, RpcError>,
    },
    /// It wants an answer.
    Request {
        id: RequestId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
}

/// The id of a request of the program, as it wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestId(Value);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RpcError {
    pub code: i64,
    #[serde(default)]
    pub message: String,
    /// More about it, in whatever form.
    #[serde(default)]
    pub data: Value,
}

/// Why a line is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("it is no message of JSON-RPC 2.0")]
    NotRpc,
    #[error("it answers no request of ours: its id is not one that we gave")]
    WrongId,
}

impl FromProgram {
    pub fn read(line: &[u8]) -> Result<Self, BadLine> {
        let value: Value = serde_json::from_slice(line).map_err(|e| BadLine::NotJson(e.to_string()))?;
        let Value::Object(mut fields) = value else { return Err(BadLine::NotRpc) };
        let id = fields.remove("id").filter(|id| !id.is_null());
        match fields.remove("method") {
            Some(Value::String(method)) => {
                let params = fields.remove("params").unwrap_or_default();
                match id {
                    None => Ok(Self::Notification { method, params }),
                    Some(id) => Ok(Self::Request { id: RequestId::read(id)?, method, params }),
                }
            }
            Some(_) => Err(BadLine::NotRpc),
            None => {
                let outcome = match (fields.remove("error"), fields.remove("result")) {
                    (Some(error), _) if !error.is_null() => {
                        Err(serde_json::from_value(error).map_err(|_| BadLine::NotRpc)?)
                    }
                    (_, Some(result)) => Ok(result),
                    (_, None) => return Err(BadLine::NotRpc),
                };
                let id = id.and_then(|id| id.as_u64()).ok_or(BadLine::WrongId)?;
                Ok(Self::Answer { id, outcome })
            }
        }
    }
}

impl RequestId {
    fn read(id: Value) -> Result<Self, BadLine> {
        let fits = match &id {
            Value::String(text) => text.len() <= ID_BYTES_MAX,
            Value::Number(_) => true,
            _ => false,
        };
        if fits { Ok(Self(id)) } else { Err(BadLine::NotRpc) }
    }

    /// Our answer.
    pub fn answer(&self, result: &Value) -> String {
        line(&json!({ "jsonrpc": "2.0", "id": self.0, "result": result }))
    }

    /// That there is none, and why.
    pub fn refuse(&self, code: i64, message: &str) -> String {
        line(&json!({ "jsonrpc": "2.0", "id": self.0, "error": { "code": code, "message": message } }))
    }
}

impl RpcError {
    /// What happened, in one text. Some programs tell the reason only in `data`.
    pub fn words(&self) -> String {
        let details = match &self.data {
            Value::String(text) => Some(text.as_str()),
            Value::Object(fields) => {
                ["details", "message", "error"].iter().find_map(|name| fields.get(*name)?.as_str())
            }
            _ => None,
        };
        match details.filter(|details| !details.is_empty() && *details != self.message) {
            Some(details) => format!("{}: {details} (code {})", self.message, self.code),
            None => format!("{} (code {})", self.message, self.code),
        }
    }
}

fn line(message: &Value) -> String {
    let mut line = message.to_string();
    line.push('\n');
    line
}

fn request(id: u64, method: &str, params: &Value) -> String {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// The first request. We offer neither files nor terminals: the program uses its own, under its own rules.
pub fn initialize(id: u64, client_version: &str) -> String {
    let params = json!({
        "protocolVersion": VERSION,
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
        "clientInfo": { "name": "synapse", "title": "Synapse", "version": client_version },
    });
    request(id, "initialize", &params)
}

/// A program that the agent starts and asks over MCP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct McpServer {
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

/// A conversation in this folder, with these servers.
pub fn new_session(id: u64, folder: &str, servers: &[McpServer]) -> String {
    let servers: Vec<Value> = servers
        .iter()
        .map(|server| {
            let env: Vec<Value> =
                server.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
            json!({ "name": server.name, "command": server.command, "args": server.args, "env": env })
        })
        .collect();
    request(id, "session/new", &json!({ "cwd": folder, "mcpServers": servers }))
}

/// One turn.
pub fn prompt(id: u64, session: &str, text: &str) -> String {
    let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
    request(id, "session/prompt", &params)
}

/// Ends the turn that is under way; its answer says `cancelled`.
pub fn cancel(session: &str) -> String {
    line(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }))
}

/// Our word on a permission request: this option, or none because the turn is over.
pub fn decision(option: Option<&str>) -> Value {
    match option {
        Some(id) => json!({ "outcome": { "outcome": "selected", "optionId": id } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    }
}

/// What the program says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialized {
    pub protocol_version: u64,
    #[serde(default)]
    pub agent_info: Option<AgentInfo>,
    #[serde(default)]
    pub auth_methods: Vec<AuthMethod>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct AgentInfo {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub version: String,
}

/// A way to log in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct AuthMethod {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: String,
}

/// The conversation that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSession {
    pub session_id: String,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptEnd {
    pub stop_reason: String,
}

/// Something that happens in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUpdate {
    pub session: String,
    pub update: Update,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// A piece of what the agent says.
    Message(Chunk),
    /// It began to use a tool.
    ToolCall { title: String },
    /// A tool has ended, well or not.
    ToolEnded,
    /// Something else that only happens within a turn: a thought, a plan, a step of a tool.
    Work,
    /// Something that is about no turn, such as the commands it knows.
    Aside,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub content: ChunkContent,
    /// Tells one message from the next, if the program says so.
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkContent {
    Text(String),
    /// Of this type, and nothing that we keep.
    Other(String),
}

impl SessionUpdate {
    /// None if the parameters do not fit.
    pub fn read(params: &Value) -> Option<Self> {
        let session = params.get("sessionId")?.as_str()?.to_owned();
        let update = params.get("update")?;
        let text = |name: &str| update.get(name).and_then(Value::as_str).map(str::to_owned);
        let update = match update.get("sessionUpdate")?.as_str()? {
            "agent_message_chunk" => {
                let content = update.get("content")?;
                let content = match content.get("type")?.as_str()? {
                    "text" => ChunkContent::Text(content.get("text")?.as_str()?.to_owned()),
                    other => ChunkContent::Other(other.to_owned()),
                };
                Update::Message(Chunk { content, message: text("messageId") })
            }
            "tool_call" => Update::ToolCall { title: text("title").unwrap_or_default() },
            "tool_call_update" if matches!(text("status").as_deref(), Some("completed" | "failed")) => {
                Update::ToolEnded
            }
            "user_message_chunk" | "agent_thought_chunk" | "tool_call_update" | "plan" => Update::Work,
            _ => Update::Aside,
        };
        Some(Self { session, update })
    }
}

/// The program asks whether it may use a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest {
    pub session_id: String,
    pub tool_call: ToolCall,
    pub options: Vec<PermissionOption>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    #[serde(default)]
    pub title: Option<String>,
    /// `read`, `edit`, `execute` and so on.
    #[serde(default)]
    pub kind: Option<String>,
    /// What the tool is given, if the program tells.
    #[serde(default)]
    pub raw_input: Option<Value>,
    /// What it shows of it: texts and changes of files.
    #[serde(default)]
    pub content: Option<Vec<Value>>,
}

/// An answer that the program offers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    pub option_id: String,
    #[serde(default)]
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`; a later version may know others.
    #[serde(default)]
    pub kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_program_are_told_apart() {
        let read = |line: &str| FromProgram::read(line.as_bytes());
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":3,"result":null}"#),
            Ok(FromProgram::Answer { id: 3, outcome: Ok(Value::Null) })
        );
        let error = RpcError { code: -32000, message: "no".into(), data: Value::Null };
        assert_eq!(
            read(r#"{"id":3,"error":{"code":-32000,"message":"no"}}"#),
            Ok(FromProgram::Answer { id: 3, outcome: Err(error) })
        );
        let request = read(r#"{"id":"a","method":"fs/read_text_file","params":{}}"#).unwrap();
        let FromProgram::Request { id, method, .. } = request else { panic!("{request:?}") };
        assert_eq!(method, "fs/read_text_file");
        let refused: Value = serde_json::from_str(&id.refuse(NO_METHOD, "no")).unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("a"), &json!(-32601)));
        assert!(matches!(read(r#"{"method":"x","id":null}"#), Ok(FromProgram::Notification { .. })));
        for bad in
            ["", "{", "[]", "7", "{}", r#"{"method":7}"#, r#"{"id":{},"method":"x"}"#, r#"{"error":7}"#]
        {
            assert!(matches!(read(bad), Err(BadLine::NotJson(_) | BadLine::NotRpc)), "{bad}");
        }
        for stray in [r#"{"id":"1","result":{}}"#, r#"{"id":-1,"result":{}}"#, r#"{"result":{}}"#] {
            assert_eq!(read(stray), Err(BadLine::WrongId), "{stray}");
        }
        let long = format!(r#"{{"id":"{}","method":"x"}}"#, "i".repeat(ID_BYTES_MAX + 1));
        assert_eq!(read(&long), Err(BadLine::NotRpc));
    }

    #[test]
    fn only_what_belongs_to_a_turn_counts_as_work() {
        let read = |update: Value| {
            SessionUpdate::read(&json!({ "sessionId": "s", "update": update })).map(|read| read.update)
        };
        let text = json!({ "type": "text", "text": "hi" });
        let said = read(json!({ "sessionUpdate": "agent_message_chunk", "content": text }));
        let chunk = Chunk { content: ChunkContent::Text("hi".into()), message: None };
        assert_eq!(said, Some(Update::Message(chunk)));
        assert_eq!(read(json!({ "sessionUpdate": "available_commands_update" })), Some(Update::Aside));
        assert_eq!(read(json!({ "sessionUpdate": "agent_thought_chunk" })), Some(Update::Work));
        for (status, update) in [("completed", Update::ToolEnded), ("in_progress", Update::Work)] {
            assert_eq!(read(json!({ "sessionUpdate": "tool_call_update", "status": status })), Some(update));
        }
        assert_eq!(read(json!({ "sessionUpdate": "agent_message_chunk" })), None);
        assert_eq!(read(json!({})), None);
    }

    #[test]
    fn error_says_what_the_program_said() {
        let words = |data: Value| RpcError { code: 7, message: "it failed".into(), data }.words();
        assert_eq!(words(Value::Null), "it failed (code 7)");
        assert_eq!(words(json!({ "details": "no key" })), "it failed: no key (code 7)");
        assert_eq!(words(json!("no key")), "it failed: no key (code 7)");
        assert_eq!(words(json!({ "details": "it failed" })), "it failed (code 7)");
    }
}
