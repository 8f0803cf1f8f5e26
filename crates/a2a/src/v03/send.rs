//! What a message is sent with, and how much of a task is asked for.

use super::data::{Fields, fields, insert, message_to_new, message_to_old, take};
use super::{Form, push};
use crate::fault::Fault;
use serde_json::{Map, Value};

pub(super) fn send_to_new(mut old: Fields, form: Form) -> Result<Value, Fault> {
    let mut new = Map::new();
    if let Some(message) = take(&mut old, &["message", "request"]) {
        new.insert("message".into(), message_to_new("message", message, form)?);
    }
    insert(&mut new, "metadata", take(&mut old, &["metadata"]));
    insert(&mut new, "tenant", take(&mut old, &["tenant"]));
    if let Some(configuration) = take(&mut old, &["configuration"]) {
        let task = new.get("message").and_then(|message| message.get("taskId")).cloned();
        let configuration = fields("configuration", configuration)?;
        new.insert("configuration".into(), configuration_to_new(configuration, task, form)?);
    }
    Ok(Value::Object(new))
}

/// `blocking` that is not said is yes in the schema, and no in the proto, which cannot tell them apart.
fn configuration_to_new(mut old: Fields, task: Option<Value>, form: Form) -> Result<Value, Fault> {
    let mut new = Map::new();
    let waits = match take(&mut old, &["blocking"]) {
        Some(Value::Bool(waits)) => waits,
        Some(_) => return Err(Fault::params("configuration.blocking", "it must be true or false")),
        None => form == Form::Rpc,
    };
    new.insert("returnImmediately".into(), (!waits).into());
    let modes = take(&mut old, &["acceptedOutputModes", "accepted_output_modes"]);
    insert(&mut new, "acceptedOutputModes", modes.map(media_types));
    let length = take(&mut old, &["historyLength", "history_length"]);
    insert(&mut new, "historyLength", length.filter(|length| !is_zero(length)));
    if let Some(config) = take(&mut old, &["pushNotificationConfig", "pushNotification", "push_notification"])
    {
        let config = push::config_to_new("configuration.pushNotificationConfig", config, task)?;
        new.insert("taskPushNotificationConfig".into(), config);
    }
    Ok(Value::Object(new))
}

/// Older clients say `text` for the media type of a text.
fn media_types(modes: Value) -> Value {
    match modes {
        Value::Array(modes) => {
            modes.into_iter().map(|mode| if mode == "text" { "text/plain".into() } else { mode }).collect()
        }
        other => other,
    }
}

/// In 0.3 no messages at all cannot be asked for: zero is no limit.
fn is_zero(length: &Value) -> bool {
    length.as_i64() == Some(0)
}

pub(super) fn get_to_new(mut old: Fields) -> Value {
    let length = take(&mut old, &["historyLength", "history_length"]).filter(|length| !is_zero(length));
    insert(&mut old, "historyLength", length);
    Value::Object(old)
}

pub(super) fn send_to_old(mut new: Fields, form: Form) -> Result<Value, Fault> {
    let mut old = Map::new();
    if let Some(Value::Object(message)) = new.remove("message") {
        old.insert("message".into(), message_to_old(message, form)?);
    }
    match (new.remove("configuration"), form) {
        (Some(Value::Object(configuration)), _) => {
            old.insert("configuration".into(), configuration_to_old(configuration, form)?);
        }
        // What says nothing waits in the schema, and does not in the proto.
        (_, Form::Rest) => {
            old.insert("configuration".into(), configuration_to_old(Map::new(), form)?);
        }
        (_, Form::Rpc) => {}
    }
    insert(&mut old, "metadata", new.remove("metadata"));
    Ok(Value::Object(old))
}

fn configuration_to_old(mut new: Fields, form: Form) -> Result<Value, Fault> {
    let at_once = new.remove("returnImmediately") == Some(Value::Bool(true));
    let mut old: Fields = Map::new();
    old.insert("blocking".into(), (!at_once).into());
    for name in ["acceptedOutputModes", "historyLength"] {
        insert(&mut old, name, new.remove(name));
    }
    if let Some(config) = new.remove("taskPushNotificationConfig") {
        let name = match form {
            Form::Rpc => "pushNotificationConfig",
            Form::Rest => "pushNotification",
        };
        old.insert(name.into(), push::config_to_old(&crate::wire::from_json(config)?));
    }
    Ok(Value::Object(old))
}
