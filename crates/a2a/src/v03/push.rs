//! Where to send push notifications, from 0.3 to 1.0 and back.
//!
//! In 0.3 a webhook that was given no name has that of its task, so setting it again replaces it. It has a list of
//! schemes, of which 1.0 takes one.

use super::Form;
use super::data::{Fields, fields, insert, take};
use crate::fault::Fault;
use crate::pb;
use serde_json::{Map, Value, json};

const CONFIG: &str = "pushNotificationConfig";

/// Of a task that is named beside it; over HTTP+JSON also in a `config`, and with the name of the webhook beside it.
pub(super) fn set_to_new(mut old: Fields) -> Result<Value, Fault> {
    let mut name = take(&mut old, &["configId", "config_id"]);
    let task = take(&mut old, &["taskId", "task_id"]);
    let tenant = take(&mut old, &["tenant"]);
    if let Some(config) = take(&mut old, &["config"]) {
        old = fields("config", config)?;
    }
    let config = take(&mut old, &[CONFIG, "push_notification_config"])
        .ok_or_else(|| Fault::params(CONFIG, "it is missing"))?;
    let mut config = fields(CONFIG, config)?;
    if !config.contains_key("id") {
        insert(&mut config, "id", name.take());
    }
    let mut new = object(config_to_new(CONFIG, Value::Object(config), task.clone())?);
    insert(&mut new, "taskId", task);
    // Only the request says under which tenant it works, never the webhook inside it.
    new.remove("tenant");
    insert(&mut new, "tenant", tenant);
    Ok(Value::Object(new))
}

/// One that stands alone. `task` is the task it is for, if that is known.
pub(super) fn config_to_new(at: &str, old: Value, task: Option<Value>) -> Result<Value, Fault> {
    let mut new = fields(at, old)?;
    let is_named = new.get("id").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
    if !is_named {
        new.remove("id");
        insert(&mut new, "id", task);
    }
    if let Some(authentication) = new.remove("authentication") {
        let mut authentication = fields(&format!("{at}.authentication"), authentication)?;
        let scheme = match authentication.remove("schemes") {
            Some(Value::Array(schemes)) => schemes.into_iter().next(),
            Some(_) => {
                return Err(Fault::params(format!("{at}.authentication.schemes"), "it must be a list"));
            }
            None => None,
        };
        // Without one there is nothing to prove oneself by.
        if let Some(scheme) = scheme {
            authentication.insert("scheme".into(), scheme);
            new.insert("authentication".into(), Value::Object(authentication));
        }
    }
    Ok(Value::Object(new))
}

/// With its task, as an answer has it: in JSON-RPC beside it, in HTTP+JSON in a name that is a path.
pub(super) fn to_new(at: &str, old: Value) -> Result<Value, Fault> {
    let mut old = fields(at, old)?;
    if let Some(Value::String(name)) = old.remove("name")
        && let Some((task, _)) = name.strip_prefix("tasks/").and_then(|name| name.split_once('/'))
    {
        old.insert("taskId".into(), task.into());
    }
    set_to_new(old)
}

pub(super) fn list_to_new(old: Value) -> Result<Value, Fault> {
    let (list, token) = match old {
        Value::Array(list) => (list, None),
        other => {
            let mut page = fields("result", other)?;
            let list = match page.remove("configs") {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            (list, page.remove("nextPageToken"))
        }
    };
    let configs = list.into_iter().enumerate().map(|(n, one)| to_new(&format!("result[{n}]"), one));
    let mut new = Map::new();
    new.insert("configs".into(), Value::Array(configs.collect::<Result<_, _>>()?));
    insert(&mut new, "nextPageToken", token);
    Ok(Value::Object(new))
}

/// In 0.3 `id` is the task, and the webhook is named apart.
pub(super) fn named_to_new(mut old: Fields) -> Value {
    let mut new = Map::new();
    insert(&mut new, "taskId", take(&mut old, &["id"]));
    insert(&mut new, "id", take(&mut old, &["pushNotificationConfigId"]));
    insert(&mut new, "tenant", take(&mut old, &["tenant"]));
    Value::Object(new)
}

pub(super) fn named_to_old(task: &str, id: &str) -> Value {
    match id {
        "" => json!({ "id": task }),
        id => json!({ "id": task, "pushNotificationConfigId": id }),
    }
}

pub(super) fn to_old(config: &pb::TaskPushNotificationConfig, form: Form) -> Value {
    match form {
        Form::Rpc => json!({ "taskId": config.task_id, CONFIG: config_to_old(config) }),
        Form::Rest => {
            let name = format!("tasks/{}/pushNotificationConfigs/{}", config.task_id, config.id);
            json!({ "name": name, CONFIG: config_to_old(config) })
        }
    }
}

pub(super) fn config_to_old(config: &pb::TaskPushNotificationConfig) -> Value {
    let text = |text: &str| Some(text).filter(|text| !text.is_empty()).map(Value::from);
    let mut old = Map::new();
    insert(&mut old, "url", Some(config.url.as_str().into()));
    insert(&mut old, "id", text(&config.id));
    insert(&mut old, "token", text(&config.token));
    if let Some(authentication) = &config.authentication {
        let schemes: Vec<Value> = text(&authentication.scheme).into_iter().collect();
        let mut about = Map::from_iter([("schemes".to_owned(), Value::Array(schemes))]);
        insert(&mut about, "credentials", text(&authentication.credentials));
        old.insert("authentication".into(), Value::Object(about));
    }
    Value::Object(old)
}

fn object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
