//! The operations of 1.0 as requests, also such as no client would make (J2, J4, H2, H4). Pure.

use super::super::judge::answer::RPC_ID;
use crate::a2a::call::IN_PATH;
use crate::a2a::card::{Binding, Interface};
use crate::web;
use http::{HeaderValue, Method, header};
use percent_encoding::utf8_percent_encode;
use serde_json::{Value, json};

/// `A2A-Version` of a request; none is not the same as an empty one.
pub(in super::super) type Version = Option<&'static str>;
pub(in super::super) const V10: Version = Some("1.0");

/// One operation, named as 1.0 names it.
pub(in super::super) fn operation(
    at: &Interface,
    method: &str,
    params: Value,
    version: Version,
) -> web::Request {
    let request = match at.binding {
        Binding::JsonRpc => rpc(at, method, params),
        Binding::HttpJson => rest(at, method, &params),
    };
    headed(at, request, version)
}

/// A body that is no JSON, where a message is sent to.
pub(in super::super) fn broken(at: &Interface) -> web::Request {
    let url = match at.binding {
        Binding::JsonRpc => at.url.to_string(),
        Binding::HttpJson => below(at, "message:send"),
    };
    headed(at, web::Request::post(&url, media(at), "{\"jsonrpc\": \"2.0\", \"id\": 1,"), V10)
}

/// The other verb by which a task can be followed (H10).
pub(in super::super) fn subscribe_by_get(at: &Interface, id: &str) -> web::Request {
    let url = below(at, &format!("tasks/{}:subscribe", encoded(id)));
    headed(at, web::Request::get(&url), V10)
}

/// A message of one text.
pub(in super::super) fn message(text: &str, id: &str, task: Option<&str>) -> Value {
    let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] });
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    json!({ "message": message })
}

fn rpc(at: &Interface, method: &str, mut params: Value) -> web::Request {
    if let Some(tenant) = &at.tenant {
        params["tenant"] = tenant.as_str().into();
    }
    let call = json!({ "jsonrpc": "2.0", "id": RPC_ID, "method": method, "params": params });
    web::Request::post(&at.url.to_string(), media(at), call.to_string())
}

fn rest(at: &Interface, method: &str, params: &Value) -> web::Request {
    let id = encoded(params["id"].as_str().or(params["taskId"].as_str()).unwrap_or_default());
    let (verb, path) = match method {
        "SendMessage" => (Method::POST, "message:send".to_owned()),
        "SendStreamingMessage" => (Method::POST, "message:stream".to_owned()),
        "GetTask" => (Method::GET, format!("tasks/{id}{}", query(params))),
        "ListTasks" => (Method::GET, format!("tasks{}", query(params))),
        "CancelTask" => (Method::POST, format!("tasks/{id}:cancel")),
        "SubscribeToTask" => (Method::POST, format!("tasks/{id}:subscribe")),
        "ListTaskPushNotificationConfigs" => (Method::GET, format!("tasks/{id}/pushNotificationConfigs")),
        "GetExtendedAgentCard" => (Method::GET, "extendedAgentCard".to_owned()),
        other => (Method::GET, encoded(other)),
    };
    let url = below(at, &path);
    if verb == Method::GET {
        return web::Request::get(&url);
    }
    let body = if method.starts_with("Send") { params.to_string() } else { "{}".to_owned() };
    web::Request::post(&url, media(at), body)
}

/// All but the id, which is in the path.
fn query(params: &Value) -> String {
    let pairs = params.as_object().into_iter().flatten().filter(|(name, _)| *name != "id");
    let pair = |(name, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{name}={}", encoded(&text))
    };
    let all: Vec<String> = pairs.map(pair).collect();
    if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
}

fn below(at: &Interface, path: &str) -> String {
    let path = match &at.tenant {
        Some(tenant) => format!("{}/{path}", encoded(tenant)),
        None => path.to_owned(),
    };
    at.url.below(&path).to_string()
}

fn encoded(raw: &str) -> String {
    utf8_percent_encode(raw, IN_PATH).to_string()
}

fn media(at: &Interface) -> &'static str {
    match at.binding {
        Binding::JsonRpc => "application/json",
        Binding::HttpJson => "application/a2a+json",
    }
}

fn headed(at: &Interface, mut request: web::Request, version: Version) -> web::Request {
    let accept = match at.binding {
        Binding::JsonRpc => "application/json, text/event-stream",
        Binding::HttpJson => "application/a2a+json, application/json, text/event-stream",
    };
    request.headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    if let Some(version) = version {
        request.headers.insert("a2a-version", HeaderValue::from_static(version));
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{HttpUrl, card};

    /// Table 0 of the protocol.
    #[test]
    fn operations_on_the_wire() {
        let at = |binding, tenant: Option<&str>| Interface {
            url: HttpUrl::parse("https://a/x").unwrap(),
            binding,
            version: card::Version::V10,
            tenant: tenant.map(str::to_owned),
        };
        let rest = at(Binding::HttpJson, None);
        let table = [
            ("SendMessage", json!({ "message": {} }), "POST https://a/x/message:send {\"message\":{}}"),
            (
                "GetTask",
                json!({ "id": "a/b", "historyLength": 0 }),
                "GET https://a/x/tasks/a%2Fb?historyLength=0 ",
            ),
            (
                "ListTasks",
                json!({ "pageSize": 1, "pageToken": "=" }),
                "GET https://a/x/tasks?pageSize=1&pageToken=%3D ",
            ),
            ("CancelTask", json!({ "id": "t" }), "POST https://a/x/tasks/t:cancel {}"),
            ("SubscribeToTask", json!({ "id": "t" }), "POST https://a/x/tasks/t:subscribe {}"),
            (
                "ListTaskPushNotificationConfigs",
                json!({ "taskId": "t" }),
                "GET https://a/x/tasks/t/pushNotificationConfigs ",
            ),
            ("GetExtendedAgentCard", json!({}), "GET https://a/x/extendedAgentCard "),
        ];
        let show = |made: &web::Request| {
            format!("{} {} {}", made.method, made.url, String::from_utf8_lossy(&made.body))
        };
        for (method, params, expected) in table {
            assert_eq!(show(&operation(&rest, method, params, V10)), expected);
        }
        let made = operation(&at(Binding::JsonRpc, Some("t1")), "GetTask", json!({ "id": "t" }), None);
        let body: Value = serde_json::from_slice(&made.body).unwrap();
        assert_eq!(
            body,
            json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": "t", "tenant": "t1" } })
        );
        assert!(!made.headers.contains_key("a2a-version"));
        assert_eq!(
            operation(&at(Binding::HttpJson, Some("t1")), "GetTask", json!({ "id": "t" }), V10).url,
            "https://a/x/t1/tasks/t"
        );
    }
}
