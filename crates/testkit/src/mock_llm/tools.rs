//! Tools that a CLI offers, and calls of them that fit.

use super::{Step, list};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    /// What it belongs to, where that is told apart from its name: a server of tools.
    pub space: Option<String>,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Unlike all other calls'.
    pub id: String,
    pub name: String,
    /// That of the tool.
    pub space: Option<String>,
    pub arguments: Value,
}

impl Tool {
    pub(super) fn new(name: &str, schema: &Value) -> Self {
        Self { name: name.to_owned(), space: None, schema: schema.clone() }
    }
}

/// What CLIs call the tool that runs a command.
const SHELLS: &[&str] = &[
    "shell",
    "shell_command",
    "exec_command",
    "local_shell",
    "Bash",
    "bash",
    "run_shell_command",
    "powershell",
    "run_commands",
    "Execute",
];

pub(super) fn shell(tools: &[Tool]) -> Option<&Tool> {
    tools.iter().find(|tool| SHELLS.contains(&tool.name.as_str()))
}

/// The call that a step wants; or why there can be none.
pub(super) fn call(n: usize, step: &Step, tools: &[Tool]) -> Result<Call, String> {
    let id = format!("call_{n}");
    match step {
        Step::Run { command, asks } => {
            let tool = shell(tools).ok_or("no tool was offered that runs a command")?;
            let arguments = running(&tool.schema, command, *asks);
            Ok(Call { id, name: tool.name.clone(), space: tool.space.clone(), arguments })
        }
        Step::Call { name, arguments } => {
            let tool = tools.iter().find(|tool| tool.name == *name);
            // CLIs put the name of its server before that of a tool.
            let fits =
                |tool: &&Tool| tool.name.strip_suffix(name.as_str()).is_some_and(|it| it.ends_with('_'));
            let tool = tool.or_else(|| tools.iter().find(fits));
            let tool = tool.ok_or_else(|| format!("no tool called {name:?} was offered"))?;
            let (name, space) = (tool.name.clone(), tool.space.clone());
            Ok(Call { id, name, space, arguments: arguments.clone() })
        }
        _ => Err("not a call".into()),
    }
}

/// A command that stands in the text of an answer.
pub(super) fn written(n: usize, command: &str) -> Call {
    let arguments = json!({ "command": command });
    Call { id: format!("call_{n}"), name: "text".into(), space: None, arguments }
}

/// Arguments of a shell tool with this schema. What else it requires is filled in.
fn running(schema: &Value, command: &str, asks: bool) -> Value {
    let known = &schema["properties"];
    let mut arguments = match (&known["cmd"], &known["commands"], known["command"]["type"].as_str()) {
        (Value::Object(_), ..) => json!({ "cmd": command }),
        (_, Value::Object(_), _) => json!({ "commands": [command] }),
        (.., Some("array")) => json!({ "command": ["bash", "-lc", command] }),
        _ => json!({ "command": command }),
    };
    for name in list(&schema["required"]).iter().filter_map(Value::as_str) {
        if arguments[name].is_null() {
            arguments[name] = fitting(&known[name]);
        }
    }
    if asks {
        const WHY: &str = "the mock wants to see the question";
        for (name, value) in
            [("sandbox_permissions", json!("require_escalated")), ("with_escalated_permissions", json!(true))]
        {
            if known[name].is_object() {
                arguments[name] = value;
                arguments["justification"] = json!(WHY);
            }
        }
    }
    arguments
}

/// Something of this shape.
pub(super) fn fitting(shape: &Value) -> Value {
    if let Some(choices) = shape["enum"].as_array().filter(|choices| !choices.is_empty()) {
        // Asked who speaks next, the one who waits is the answer that ends a turn.
        let user = choices.iter().find(|choice| choice.as_str() == Some("user"));
        return user.unwrap_or(&choices[0]).clone();
    }
    let kind = match &shape["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind.unwrap_or("string").to_lowercase().as_str() {
        "object" => {
            let fields = shape["properties"].as_object().cloned().unwrap_or_default();
            Value::Object(
                fields.iter().map(|(name, shape)| (name.clone(), fitting(shape))).collect::<Map<_, _>>(),
            )
        }
        "array" => json!([]),
        "boolean" => json!(false),
        "number" | "integer" => json!(1),
        _ => json!("mock"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, asks: bool, arguments: Value) {
        assert_eq!(running(&schema, "ls", asks), arguments, "{schema}");
    }

    #[test]
    fn arguments_fit_the_tool() {
        check(json!({ "properties": { "cmd": { "type": "string" } } }), true, json!({ "cmd": "ls" }));
        check(
            json!({ "properties": { "command": { "type": "array" } } }),
            false,
            json!({ "command": ["bash", "-lc", "ls"] }),
        );
        check(
            json!({ "properties": { "commands": { "type": "array" } }, "required": ["commands"] }),
            false,
            json!({ "commands": ["ls"] }),
        );
        check(
            json!({
                "properties": { "command": { "type": "string" }, "description": { "type": "string" }, "n": { "type": "integer" } },
                "required": ["command", "description", "n"],
            }),
            true,
            json!({ "command": "ls", "description": "mock", "n": 1 }),
        );
        let sandboxed =
            json!({ "properties": { "cmd": {}, "sandbox_permissions": {}, "justification": {} } });
        check(sandboxed.clone(), false, json!({ "cmd": "ls" }));
        let arguments = running(&sandboxed, "ls", true);
        assert_eq!(arguments["sandbox_permissions"], "require_escalated");
        assert!(arguments["justification"].is_string());
    }

    #[test]
    fn a_shape_is_filled() {
        let shape = json!({
            "type": "OBJECT",
            "properties": { "who": { "enum": ["model", "user"] }, "why": { "type": "STRING" }, "list": { "type": "array" } },
        });
        assert_eq!(fitting(&shape), json!({ "who": "user", "why": "mock", "list": [] }));
    }

    #[test]
    fn what_was_not_offered_is_not_called() {
        let tools = [Tool::new("Bash", &json!({}))];
        let step = Step::Call { name: "mcp__x".into(), arguments: json!({}) };
        assert!(call(1, &step, &tools).unwrap_err().contains("mcp__x"));
        let step = Step::Call { name: "reply".into(), arguments: json!({}) };
        let offered = [Tool::new("mcp__synapse__reply", &json!({}))];
        assert_eq!(call(1, &step, &offered).unwrap().name, "mcp__synapse__reply");
        let offered = [Tool::new("mcp_synapse_reply", &json!({}))];
        assert_eq!(call(1, &step, &offered).unwrap().name, "mcp_synapse_reply");
        assert!(call(1, &step, &tools).is_err());
        let step = Step::Run { command: "ls".into(), asks: true };
        assert_eq!(call(1, &step, &tools).unwrap().arguments, json!({ "command": "ls" }));
        assert!(call(1, &step, &[]).is_err());
    }
}
