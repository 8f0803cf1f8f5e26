//! HTTP+JSON: which operation a verb, a path, a query and a body ask for (H2–H5, H10).
//!
//! A path is read into the name of an operation and the fields that it carries; the query and the body add theirs. From
//! there on a request is the same as in JSON-RPC.

use crate::fault::{Fault, Kind};
use crate::operation::Request;
use serde_json::{Map, Value};

/// What a verb and a path ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    method: &'static str,
    has_body: bool,
    fields: Map<String, Value>,
}

/// The verb, the path in pieces (`{x}` is a field, `{x}:word` a field with a word behind it), the operation, whether it
/// has a body.
pub(crate) type Row = (&'static str, &'static [&'static str], &'static str, bool);

// tidy: table
const ROWS: &[Row] = &[
    ("POST", &["message:send"], "SendMessage", true),
    ("POST", &["message:stream"], "SendStreamingMessage", true),
    ("GET", &["tasks"], "ListTasks", false),
    ("GET", &["tasks", "{id}"], "GetTask", false),
    ("POST", &["tasks", "{id}:cancel"], "CancelTask", true),
    // The text of the specification has one verb, its proto the other (H10).
    ("GET", &["tasks", "{id}:subscribe"], "SubscribeToTask", false),
    ("POST", &["tasks", "{id}:subscribe"], "SubscribeToTask", false),
    ("POST", &["tasks", "{taskId}", PUSH], "CreateTaskPushNotificationConfig", true),
    ("GET", &["tasks", "{taskId}", PUSH], "ListTaskPushNotificationConfigs", false),
    ("GET", &["tasks", "{taskId}", PUSH, "{id}"], "GetTaskPushNotificationConfig", false),
    ("DELETE", &["tasks", "{taskId}", PUSH, "{id}"], "DeleteTaskPushNotificationConfig", false),
    ("GET", &["extendedAgentCard"], "GetExtendedAgentCard", false),
];

const PUSH: &str = "pushNotificationConfigs";

impl Path {
    /// A path below the prefix of the binding, with or without a tenant before it.
    pub fn read(verb: &http::Method, path: &str) -> Result<Self, Fault> {
        Self::read_among(ROWS, verb, path)
    }

    /// One of these rows.
    pub(crate) fn read_among(rows: &[Row], verb: &http::Method, path: &str) -> Result<Self, Fault> {
        // Some clients and proxies add a slash to every URL.
        let path = path.strip_suffix('/').unwrap_or(path);
        let pieces: Vec<String> = path.split('/').map(decoded).collect::<Result<_, _>>()?;
        let known = |pieces: &[String]| rows.iter().find_map(|row| fits(row, verb.as_str(), pieces));
        let no_such = || Fault::new(Kind::Method, format!("there is no {verb} /{path} in A2A"));
        if let Some(path) = known(&pieces) {
            return Ok(path);
        }
        let (tenant, rest) = pieces.split_first().ok_or_else(no_such)?;
        let mut path = known(rest).ok_or_else(no_such)?;
        path.fields.insert("tenant".into(), tenant.as_str().into());
        Ok(path)
    }

    pub fn has_body(&self) -> bool {
        self.has_body
    }
}

/// Every verb and path below the prefix of the binding.
pub fn rows() -> impl Iterator<Item = (&'static str, String)> {
    listed(ROWS)
}

pub(crate) fn listed(rows: &'static [Row]) -> impl Iterator<Item = (&'static str, String)> {
    rows.iter().map(|(verb, pattern, ..)| (*verb, pattern.join("/")))
}

/// The verbs that a path takes; none if there is no such path.
pub fn verbs(path: &str) -> Vec<&'static str> {
    verbs_among(ROWS, path)
}

pub(crate) fn verbs_among(rows: &[Row], path: &str) -> Vec<&'static str> {
    let reads = |verb: &&str| {
        http::Method::from_bytes(verb.as_bytes())
            .is_ok_and(|verb| Path::read_among(rows, &verb, path).is_ok())
    };
    ["GET", "POST", "DELETE"].into_iter().filter(reads).collect()
}

fn fits(row: &Row, verb: &str, pieces: &[String]) -> Option<Path> {
    let (row_verb, pattern, method, has_body) = *row;
    if verb != row_verb || pieces.len() != pattern.len() {
        return None;
    }
    let mut fields = Map::new();
    for (piece, pattern) in pieces.iter().zip(pattern) {
        let Some((name, word)) = pattern.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
            if piece == pattern {
                continue;
            }
            return None;
        };
        let value = piece.strip_suffix(word)?;
        // A word behind an id is never part of the id.
        if value.is_empty() || (word.is_empty() && value.contains(':')) {
            return None;
        }
        fields.insert(name.to_owned(), value.into());
    }
    Some(Path { method, has_body, fields })
}

pub fn request(path: Path, query: &str, body: &[u8]) -> Result<Request, Fault> {
    let (method, fields) = asked(path, query, body)?;
    Request::of_method(method, Value::Object(fields))
}

/// What is in the path wins over what is in the body, and that over the query.
pub(crate) fn asked(
    path: Path,
    query: &str,
    body: &[u8],
) -> Result<(&'static str, Map<String, Value>), Fault> {
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = typed(&name, &value)?;
        fields.insert(name.into_owned(), value);
    }
    if path.has_body && !body.is_empty() {
        let read: Map<String, Value> = serde_json::from_slice(body)
            .map_err(|e| Fault::new(Kind::Parse, format!("the body is no JSON object: {e}")))?;
        fields.extend(read);
    }
    fields.extend(path.fields);
    Ok((path.method, fields))
}

/// A query has only text; some fields are numbers or yes and no (H5).
fn typed(name: &str, raw: &str) -> Result<Value, Fault> {
    match name {
        "historyLength" | "pageSize" => {
            raw.parse::<i32>().map(Value::from).map_err(|_| Fault::params(name, "it must be a whole number"))
        }
        "includeArtifacts" => {
            raw.parse::<bool>().map(Value::from).map_err(|_| Fault::params(name, "it must be true or false"))
        }
        _ => Ok(raw.into()),
    }
}

fn decoded(piece: &str) -> Result<String, Fault> {
    let decoded = percent_encoding::percent_decode_str(piece).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| Fault::new(Kind::Request, "the path is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb;
    use http::Method;
    use serde_json::json;

    fn fields(path: &Path) -> Value {
        Value::Object(path.fields.clone())
    }

    /// H2, H10: paths and verbs, each also below a tenant.
    #[test]
    fn paths() {
        let cases = [
            (Method::POST, "message:send", "SendMessage", json!({})),
            (Method::POST, "message:stream", "SendStreamingMessage", json!({})),
            (Method::GET, "tasks", "ListTasks", json!({})),
            (Method::GET, "tasks/t1", "GetTask", json!({ "id": "t1" })),
            (Method::POST, "tasks/t1:cancel", "CancelTask", json!({ "id": "t1" })),
            (Method::GET, "tasks/t1:subscribe", "SubscribeToTask", json!({ "id": "t1" })),
            (Method::POST, "tasks/t1:subscribe", "SubscribeToTask", json!({ "id": "t1" })),
            (Method::POST, "tasks/t%31%3Acancel", "CancelTask", json!({ "id": "t1" })),
            (
                Method::POST,
                "tasks/t1/pushNotificationConfigs",
                "CreateTaskPushNotificationConfig",
                json!({ "taskId": "t1" }),
            ),
            (
                Method::DELETE,
                "tasks/t1/pushNotificationConfigs/c1",
                "DeleteTaskPushNotificationConfig",
                json!({ "taskId": "t1", "id": "c1" }),
            ),
            (Method::GET, "extendedAgentCard", "GetExtendedAgentCard", json!({})),
        ];
        for (verb, raw, method, expected) in cases {
            let path = Path::read(&verb, raw).unwrap();
            assert_eq!((path.method, fields(&path)), (method, expected.clone()), "{raw}");
            let below = Path::read(&verb, &format!("ac%20me/{raw}")).unwrap();
            let mut with_tenant = expected;
            with_tenant["tenant"] = "ac me".into();
            assert_eq!((below.method, fields(&below)), (method, with_tenant), "{raw}");
            // Finding A9: a slash at the end changes nothing.
            assert_eq!(Path::read(&verb, &format!("{raw}/")), Ok(path));
            assert_eq!(Path::read(&verb, &format!("ac%20me/{raw}/")), Ok(below));
        }
        let wrong = [
            (Method::GET, "message:send"),
            (Method::POST, "tasks/t1"),
            (Method::GET, "tasks/t1:cancel"),
            (Method::POST, "tasks/t1:explode"),
            (Method::GET, "tasks/t1:explode"),
            (Method::GET, "a/b/tasks/t1"),
            (Method::GET, "tasks//"),
            (Method::GET, "/"),
            (Method::GET, ""),
            (Method::DELETE, "tasks"),
        ];
        for (verb, raw) in wrong {
            assert_eq!(Path::read(&verb, raw).unwrap_err().kind, Kind::Method, "{verb} {raw}");
        }
    }

    /// Finding A9: a path that exists says which verbs it takes.
    #[test]
    fn wrong_verb_is_told_the_right_ones() {
        assert_eq!(verbs("tasks/t1:subscribe"), ["GET", "POST"]);
        assert_eq!(verbs("acme/tasks/t1/pushNotificationConfigs/c1"), ["GET", "DELETE"]);
        assert_eq!(verbs("nothing/at/all"), [""; 0]);
        assert!(rows().any(|row| row == ("POST", "tasks/{id}:cancel".to_owned())));
    }

    /// H4, H5: what a query says has its type, and what is none is refused with its name.
    #[test]
    fn queries() {
        let read = |query: &str| request(Path::read(&Method::GET, "tasks").unwrap(), query, b"");
        let query = "contextId=a%20b&status=TASK_STATE_WORKING&pageSize=7&includeArtifacts=true&x=y\
                     &statusTimestampAfter=2026-01-01T00%3A00%3A00Z";
        let Request::List(asked) = read(query).unwrap() else { panic!("no list") };
        assert_eq!((asked.context_id.as_str(), asked.page_size), ("a b", Some(7)));
        assert_eq!((asked.status(), asked.include_artifacts), (pb::TaskState::Working, Some(true)));
        assert_eq!(asked.status_timestamp_after.unwrap().seconds, 1_767_225_600);
        for (query, field) in [
            ("pageSize=x", "pageSize"),
            ("historyLength=1.5", "historyLength"),
            ("includeArtifacts=1", "includeArtifacts"),
            ("status=SLEEPING", "status"),
            ("statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ] {
            let fault = read(query).unwrap_err();
            assert_eq!((fault.kind, fault.field.as_deref()), (Kind::Params, Some(field)), "{query}");
        }
    }

    /// The path says which task it is, whatever the body says.
    #[test]
    fn the_path_wins() {
        let path = Path::read(&Method::POST, "tasks/t1/pushNotificationConfigs").unwrap();
        let body = br#"{"taskId": "t2", "url": "https://example.com"}"#;
        let Request::CreatePush(asked) = request(path, "", body).unwrap() else { panic!("no push") };
        assert_eq!((asked.task_id.as_str(), asked.url.as_str()), ("t1", "https://example.com"));
        let path = Path::read(&Method::POST, "message:send").unwrap();
        assert_eq!(request(path, "", b"[1]").unwrap_err().kind, Kind::Parse);
    }
}
