//! The two bindings of A2A 0.3, as its libraries call them.

use serde_json::{Value, json};
use synapse_testkit::world::Agent;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Binding {
    Rpc,
    Rest,
}

pub const BINDINGS: [Binding; 2] = [Binding::Rpc, Binding::Rest];

/// Why a call failed: the JSON-RPC code, the HTTP status, and the whole error.
pub type Failed = (i64, u16, Value);

impl Binding {
    /// Calls a method the way the libraries of 0.3 do: without a version header.
    pub fn ask(
        self,
        agent: &Agent,
        method: &str,
        params: &Value,
        last: Option<&str>,
    ) -> synapse_testkit::http::Answer {
        let headers: Vec<(&str, &str)> = last.map(|id| ("Last-Event-ID", id)).into_iter().collect();
        match self {
            Self::Rpc => {
                let call = json!({ "jsonrpc": "2.0", "id": "7", "method": method, "params": params });
                agent.unix().ask("POST", "/api/v1/agent", &headers, call.to_string().as_bytes())
            }
            Self::Rest => {
                let id = params["id"].as_str().unwrap_or_default();
                let webhook = params["pushNotificationConfigId"].as_str().unwrap_or_default();
                let (verb, path) = match method {
                    "message/send" => ("POST", "/a2a/v1/message:send".to_owned()),
                    "message/stream" => ("POST", "/a2a/v1/message:stream".to_owned()),
                    "tasks/get" => {
                        let length = params.get("historyLength").map(|n| format!("?historyLength={n}"));
                        ("GET", format!("/a2a/v1/tasks/{id}{}", length.unwrap_or_default()))
                    }
                    "tasks/cancel" => ("POST", format!("/a2a/v1/tasks/{id}:cancel")),
                    "tasks/resubscribe" => ("GET", format!("/a2a/v1/tasks/{id}:subscribe")),
                    "tasks/pushNotificationConfig/set" => {
                        let task = params["parent"].as_str().unwrap_or_default();
                        ("POST", format!("/a2a/v1/{task}/pushNotificationConfigs"))
                    }
                    "tasks/pushNotificationConfig/list" => {
                        ("GET", format!("/a2a/v1/tasks/{id}/pushNotificationConfigs"))
                    }
                    "tasks/pushNotificationConfig/get" => {
                        ("GET", format!("/a2a/v1/tasks/{id}/pushNotificationConfigs/{webhook}"))
                    }
                    "tasks/pushNotificationConfig/delete" => {
                        ("DELETE", format!("/a2a/v1/tasks/{id}/pushNotificationConfigs/{webhook}"))
                    }
                    "agent/getAuthenticatedExtendedCard" => ("GET", "/a2a/v1/card".to_owned()),
                    other => panic!("{other}"),
                };
                let body = if verb == "POST" { params.to_string() } else { String::new() };
                agent.unix().ask(verb, &path, &headers, body.as_bytes())
            }
        }
    }

    pub fn call(self, agent: &Agent, method: &str, params: &Value) -> Result<Value, Failed> {
        let answer = self.ask(agent, method, params, None);
        let value = answer.json();
        assert_eq!(answer.header("content-type"), Some("application/json"), "{value}");
        let error = match self {
            Self::Rpc => {
                assert_eq!((&value["jsonrpc"], &value["id"]), (&json!("2.0"), &json!("7")), "{value}");
                match value.get("error") {
                    None => return Ok(value["result"].clone()),
                    Some(error) => error.clone(),
                }
            }
            Self::Rest if answer.status == 200 => return Ok(value),
            Self::Rest => value,
        };
        assert!(error["message"].is_string(), "{error}");
        Err((error["code"].as_i64().unwrap_or_else(|| panic!("{error}")), answer.status, error))
    }

    /// Returns all events of a stream, with their ids.
    pub fn stream(
        self,
        agent: &Agent,
        method: &str,
        params: &Value,
        last: Option<&str>,
    ) -> Vec<(String, Value)> {
        let answer = self.ask(agent, method, params, last);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.text());
        let text = String::from_utf8_lossy(&answer.body);
        let event = |block: &str| {
            let field = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{block}"))
            };
            let data: Value = serde_json::from_str(field("data: ")).unwrap();
            let inside = match self {
                Self::Rpc => {
                    assert_eq!((&data["jsonrpc"], &data["id"]), (&json!("2.0"), &json!("7")));
                    data["result"].clone()
                }
                Self::Rest => data,
            };
            (field("id: ").to_owned(), inside)
        };
        text.split("\n\n").filter(|block| block.contains("data: ")).map(event).collect()
    }

    pub fn message(self, id: &str, text: &str) -> Value {
        match self {
            Self::Rpc => json!({ "message": {
                "kind": "message", "messageId": id, "role": "user", "parts": [{ "kind": "text", "text": text }],
            }, "configuration": { "acceptedOutputModes": [], "blocking": true } }),
            Self::Rest => json!({
                "message": { "messageId": id, "role": "ROLE_USER", "content": [{ "text": text }] },
                "configuration": { "blocking": true },
            }),
        }
    }

    pub fn send(self, agent: &Agent, asked: &Value) -> Value {
        let sent = self.call(agent, "message/send", asked).unwrap_or_else(|failed| panic!("{failed:?}"));
        match self {
            Self::Rpc => {
                assert_eq!(sent["kind"], "task", "{sent}");
                sent
            }
            Self::Rest => sent["task"].clone(),
        }
    }

    /// Spells a task state as this binding does.
    pub fn state(self, word: &str) -> String {
        match self {
            Self::Rpc => word.to_owned(),
            Self::Rest if word == "canceled" => "TASK_STATE_CANCELLED".to_owned(),
            Self::Rest => format!("TASK_STATE_{}", word.to_uppercase().replace('-', "_")),
        }
    }

    /// Returns the kind of an event, and its content.
    pub fn told(self, event: &Value) -> (String, Value) {
        match self {
            Self::Rpc => (event["kind"].as_str().unwrap().to_owned(), event.clone()),
            Self::Rest => {
                let (name, inside) = event.as_object().unwrap().iter().next().unwrap();
                let kind = match name.as_str() {
                    "statusUpdate" => "status-update",
                    "artifactUpdate" => "artifact-update",
                    other => other,
                };
                (kind.to_owned(), inside.clone())
            }
        }
    }
}
