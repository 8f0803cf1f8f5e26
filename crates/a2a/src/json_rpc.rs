//! The envelope of JSON-RPC 2.0 (J1–J9).
//!
//! Invariant: an answer carries the id of its request, and `null` if that could not be read.

use crate::fault::{Fault, Kind};
use serde_json::{Map, Value};

/// A call as it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: Value,
    pub method: String,
    pub params: Value,
}

/// Why there is no call, and the id it would have had.
#[derive(Debug, Clone, PartialEq)]
pub struct NoCall {
    pub id: Value,
    pub fault: Fault,
}

pub fn read(bytes: &[u8]) -> Result<Call, NoCall> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| NoCall {
        id: Value::Null,
        fault: Fault::new(Kind::Parse, format!("the body is no JSON: {e}")),
    })?;
    let refuse = |id: Value, why: &str| NoCall { id, fault: Fault::new(Kind::Request, why) };
    let mut object = match value {
        Value::Object(object) => object,
        Value::Array(_) => {
            return Err(refuse(Value::Null, "batches are not part of A2A; send one request at a time"));
        }
        _ => return Err(refuse(Value::Null, "a request is an object")),
    };
    let id = match object.remove("id") {
        Some(id @ (Value::String(_) | Value::Null)) => id,
        Some(Value::Number(id)) if id.is_i64() || id.is_u64() => Value::Number(id),
        Some(_) => return Err(refuse(Value::Null, "`id` must be a text or a whole number")),
        None => return Err(refuse(Value::Null, "`id` is missing; A2A has no notifications")),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(refuse(id, "`jsonrpc` must be \"2.0\""));
    }
    let method = match object.remove("method") {
        Some(Value::String(method)) => method,
        _ => return Err(refuse(id, "`method` must be a text")),
    };
    let params = match object.remove("params") {
        None => Value::Object(Map::new()),
        Some(params @ Value::Object(_)) => params,
        Some(_) => {
            let fault = Fault::params("params", "it must be an object");
            return Err(NoCall { id, fault });
        }
    };
    Ok(Call { id, method, params })
}

pub fn answer(id: &Value, result: Result<Value, Fault>) -> Value {
    let (name, value) = match result {
        Ok(result) => ("result", result),
        Err(fault) => ("error", fault.json_rpc()),
    };
    // Not `json!`, which would copy all of it.
    Value::Object(Map::from_iter([
        ("jsonrpc".to_owned(), "2.0".into()),
        ("id".to_owned(), id.clone()),
        (name.to_owned(), value),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// J4, J9: each broken envelope gets its own code, with the id where there is one.
    #[test]
    fn broken_envelopes() {
        let cases = [
            ("{", Value::Null, -32700),
            ("", Value::Null, -32700),
            ("7", Value::Null, -32600),
            ("[]", Value::Null, -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","method":"GetTask"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"GetTask"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"1.0","id":7,"method":"GetTask"}"#, json!(7), -32600),
            (r#"{"id":"a","method":"GetTask"}"#, json!("a"), -32600),
            (r#"{"jsonrpc":"2.0","id":7}"#, json!(7), -32600),
            (r#"{"jsonrpc":"2.0","id":7,"method":8}"#, json!(7), -32600),
            (r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":[1]}"#, json!(7), -32602),
            (r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":"x"}"#, json!(7), -32602),
        ];
        for (text, id, code) in cases {
            let refused = read(text.as_bytes()).unwrap_err();
            assert_eq!((&refused.id, refused.fault.kind.codes().json_rpc), (&id, code), "{text}");
        }
    }

    #[test]
    fn a_whole_one() {
        let call = read(br#"{"jsonrpc":"2.0","id":"x","method":"GetTask","params":{"id":"t"}}"#).unwrap();
        assert_eq!(call, Call { id: json!("x"), method: "GetTask".into(), params: json!({ "id": "t" }) });
        let told = answer(&call.id, Ok(json!({})));
        assert_eq!(told, json!({ "jsonrpc": "2.0", "id": "x", "result": {} }));
        let told = answer(&call.id, Err(Fault::no_such_task("t")));
        assert_eq!((&told["id"], &told["error"]["code"]), (&json!("x"), &json!(-32001)));
    }
}
