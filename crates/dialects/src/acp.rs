//! The Agent Client Protocol (ACP), version 1, client side: JSON-RPC 2.0, one JSON object per line.
//!
//! Only what a client without its own files and terminals needs. Unknown fields and unknown kinds
//! of updates are ignored.
//!
//! Invariant: every line of the program becomes one of these types or a `BadLine`; nothing
//! here panics or blocks.
//! Not here: which message may follow which (`node/hands/acp/session`), processes and pipes.

use serde::Deserialize;
use serde_json::{Value, json};

/// The protocol version that this client speaks.
pub const VERSION: u64 = 1;

/// The JSON-RPC error code for an unknown method.
pub const NO_METHOD: i64 = -32601;
/// The JSON-RPC error code for invalid parameters.
pub const BAD_PARAMS: i64 = -32602;
/// The ACP error code for a required login.
pub const LOGIN_REQUIRED: i64 = -32000;

/// The longest id that a request of the program may have.
const ID_BYTES_MAX: usize = 256;

/// One line from the program.
#[derive(Debug, Clone, PartialEq)]
pub enum FromProgram {
    /// The response to a request of ours.
    Answer {
        id: u64,
        outcome: Result<Value, RpcError>,
    },
    /// A request that expects a response.
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

/// The id of a request from the program, as the program wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestId(Value);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RpcError {
    pub code: i64,
    #[serde(default)]
    pub message: String,
    /// More details, in any form.
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

    /// Returns a successful response.
    pub fn answer(&self, result: &Value) -> String {
        line(&json!({ "jsonrpc": "2.0", "id": self.0, "result": result }))
    }

    /// Returns an error response.
    pub fn refuse(&self, code: i64, message: &str) -> String {
        line(&json!({ "jsonrpc": "2.0", "id": self.0, "error": { "code": code, "message": message } }))
    }
}

impl RpcError {
    /// Returns the error as one text. Some programs give the reason only in `data`.
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

/// Returns the first request. We offer neither files nor terminals: the program uses its
/// own, under its own rules.
pub fn initialize(id: u64, client_version: &str) -> String {
    let params = json!({
        "protocolVersion": VERSION,
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
        "clientInfo": { "name": "synapse", "title": "Synapse", "version": client_version },
    });
    request(id, "initialize", &params)
}

/// An MCP server that the agent starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct McpServer {
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

/// Returns the request for a new session in this folder, with these servers.
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

/// Returns the request for one turn.
pub fn prompt(id: u64, session: &str, text: &str) -> String {
    let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
    request(id, "session/prompt", &params)
}

/// Returns the notification that cancels the current turn; its response says `cancelled`.
pub fn cancel(session: &str) -> String {
    line(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }))
}

/// Returns the response to a permission request: this option, or cancelled
/// because the turn is over.
pub fn decision(option: Option<&str>) -> Value {
    match option {
        Some(id) => json!({ "outcome": { "outcome": "selected", "optionId": id } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    }
}

/// The program's response to `initialize`.
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

/// A login method.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct AuthMethod {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: String,
}

/// The response to `session/new`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSession {
    pub session_id: String,
}

/// The response to `session/prompt`, at the end of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptEnd {
    pub stop_reason: String,
}

/// A `session/update` notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUpdate {
    pub session: String,
    pub update: Update,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// A piece of the agent's reply.
    Message(Chunk),
    /// A tool call began.
    ToolCall { title: String },
    /// A tool call ended, successfully or not.
    ToolEnded,
    /// Other activity within a turn: a thought, a plan, a step of a tool.
    Work,
    /// An update that belongs to no turn, such as the list of commands.
    Aside,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub content: ChunkContent,
    /// The id of the message, if the program sends one; it separates one message from the next.
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkContent {
    Text(String),
    /// Content of this type, which we do not keep.
    Other(String),
}

impl SessionUpdate {
    /// Parses the parameters; `None` if they do not fit.
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

/// The program asks for permission to use a tool.
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
    /// The kind of tool: `read`, `edit`, `execute` and so on.
    #[serde(default)]
    pub kind: Option<String>,
    /// The input of the tool, if the program sends it.
    #[serde(default)]
    pub raw_input: Option<Value>,
    /// What the program shows about the call: texts and changes to files.
    #[serde(default)]
    pub content: Option<Vec<Value>>,
}

/// An option that the program offers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    pub option_id: String,
    #[serde(default)]
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`; later
    /// versions may add others.
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
