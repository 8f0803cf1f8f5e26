//! Builds the document at `/openapi.json` (DIR-3, A9).
//!
//! Most of it comes from the annotations of the doors. `general.json` adds what applies to all of
//! them, such as authentication and error responses. `constraints.json` adds the constraints of
//! fields, and `a2a.json` the paths that share one handler and so cannot be annotated. All three
//! are merged as RFC 7396 describes.
//!
//! Invariant: every route of the router is in the document; the tests below and `schemathesis`
//! check it.

use http::StatusCode;
use serde_json::{Map, Value, json};
use synapse_a2a::fault::Kind;
use synapse_a2a::v03;
use utoipa::openapi::OpenApi;

const GENERAL: &str = include_str!("describe/general.json");
const CONSTRAINTS: &str = include_str!("describe/constraints.json");
const A2A: &str = include_str!("describe/a2a.json");

const REST: &str = "/a2a/v1/";
const RPC: &str = "/api/v1/agent";
const RPC_WITH_SLASH: &str = super::a2a::rpc::PATH_WITH_SLASH;

pub(super) fn document(generated: OpenApi) -> Value {
    let mut all = serde_json::to_value(generated).unwrap_or_default();
    for part in [GENERAL, CONSTRAINTS, A2A] {
        merge(&mut all, &read(part));
    }
    // Some clients add a slash to the URL that the card names.
    let mut with_slash = all["paths"][RPC].clone();
    with_slash["post"]["operationId"] = "a2a_with_slash".into();
    all["paths"][RPC_WITH_SLASH] = with_slash;
    for (path, item) in all["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            if method == "parameters" {
                continue;
            }
            complete(path, operation);
        }
    }
    all
}

fn read(part: &str) -> Value {
    serde_json::from_str(part).expect("a test reads all three")
}

/// Merges a patch into a document (RFC 7396): objects are merged, `null` removes, anything else
/// replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(name);
            }
            value => merge(target.entry(name.as_str()).or_insert(Value::Null), value),
        }
    }
}

/// Adds what every operation has: a tag, its security if it differs from the default, and its error
/// responses.
fn complete(path: &str, operation: &mut Value) {
    operation["tags"] = json!([tag(path)]);
    if let Some(security) = security(path) {
        operation["security"] = security;
    }
    let has_body = operation.get("requestBody").is_some();
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    responses.remove("default");
    for (status, response) in refusals(path, has_body) {
        responses.entry(status).or_insert(response);
    }
    for (status, response) in responses {
        // Every response must have a description (OpenAPI 3.1, Response Object).
        if response.get("$ref").is_none() && response["description"].as_str().is_none_or(str::is_empty) {
            let status = status.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
            response["description"] =
                status.and_then(|status| status.canonical_reason()).unwrap_or("Done").into();
        }
    }
}

fn tag(path: &str) -> &'static str {
    match path {
        RPC | RPC_WITH_SLASH => "a2a",
        "/message" => "messages",
        "/api/v1/screen" | "/api/v1/terminal" | "/api/v1/signal" | "/api/v1/prompt" | "/api/v1/approve"
        | "/api/v1/keys" => "terminal",
        "/status" | "/healthz" | "/metrics" | "/api/v1/stop" | "/api/v1/restart" => "node",
        "/openapi.json" => "discovery",
        path if path.starts_with("/.well-known/") => "discovery",
        path if path.starts_with("/api/v1/") => "messages",
        _ => "a2a",
    }
}

/// Returns the security of a path where it differs from the default; `auth::is_public` has the same
/// list.
fn security(path: &str) -> Option<Value> {
    match path {
        "/healthz" | "/openapi.json" => Some(json!([])),
        "/status" => Some(json!([{}, { "bearer": [] }, { "mutualTls": [] }])),
        path if path.starts_with("/.well-known/") => Some(json!([])),
        _ => None,
    }
}

/// Returns the error responses of an operation by status.
fn refusals(path: &str, has_body: bool) -> Vec<(String, Value)> {
    if path.starts_with(REST) {
        return a2a_refusals();
    }
    let shared = |status: u16, name: &str| {
        (status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }))
    };
    let mut all = vec![
        shared(400, "BadRequest"),
        shared(401, "Unauthorized"),
        shared(403, "Forbidden"),
        shared(426, "UpgradeRequired"),
        shared(429, "TooMany"),
        shared(503, "Unavailable"),
    ];
    if path.starts_with("/api/v1/") || path == "/message" {
        all.extend([shared(404, "NotFound"), shared(409, "Conflict"), shared(507, "NotStored")]);
    }
    if has_body {
        all.push(shared(413, "TooLarge"));
    }
    if [RPC, RPC_WITH_SLASH].contains(&path) {
        // Errors outside the call itself have an HTTP status and a JSON-RPC envelope.
        let answer = json!({ "$ref": "#/components/schemas/RpcAnswer" });
        for (status, response) in &mut all {
            if !matches!(status.as_str(), "400" | "426") {
                *response = json!({
                    "description": "The call was refused before it was read",
                    "content": { "application/json": { "schema": answer } },
                });
            }
        }
    }
    all
}

/// Returns one response for each HTTP status that a fault has in either version of A2A.
fn a2a_refusals() -> Vec<(String, Value)> {
    let mut statuses: Vec<u16> =
        Kind::ALL.iter().flat_map(|kind| [kind.codes().http, v03::rest::status(*kind)]).collect();
    statuses.push(StatusCode::METHOD_NOT_ALLOWED.as_u16());
    statuses.sort_unstable();
    statuses.dedup();
    let response = |status: u16| {
        let name = if status == 405 { "A2aMethodNotAllowed" } else { "A2aFault" };
        (status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }))
    };
    statuses.into_iter().map(response).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn whole() -> Value {
        super::super::description()
    }

    fn operations(document: &Value) -> BTreeSet<(String, String)> {
        let paths = document["paths"].as_object().unwrap();
        let named = |(path, item): (&String, &Value)| {
            let methods = item.as_object().unwrap().keys().filter(|method| *method != "parameters");
            methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
        };
        paths.iter().flat_map(named).collect()
    }

    /// Finding A9: every route of the router is in the document. Annotated routes are there by
    /// construction; the others are in one table, and nothing else may add a route.
    #[test]
    fn every_route_is_in_the_document() {
        let described = operations(&whole());
        for (route, _) in super::super::by_hand() {
            let begin = route.split_once("{*").map_or(route, |(begin, _)| begin);
            assert!(described.iter().any(|(_, path)| path.starts_with(begin)), "{route} is not described");
        }
        for row in synapse_a2a::rest::rows().chain(v03::rest::rows()) {
            let (verb, path) = (row.0.to_owned(), format!("{REST}{}", row.1));
            let same = |(method, own): &(String, String)| *method == verb && shape(own) == shape(&path);
            assert!(described.iter().any(same), "{verb} {path} is not described");
        }
        let doors = include_str!("../doors.rs");
        assert_eq!(doors.matches(".route(").count(), 1, "routes are added in `by_hand` or with `routes!`");
    }

    /// Finding A9: the document describes no path that the A2A door does not serve.
    #[test]
    fn described_a2a_paths_exist() {
        let served: BTreeSet<(String, String)> = synapse_a2a::rest::rows()
            .chain(v03::rest::rows())
            .map(|(verb, path)| (verb.to_owned(), shape(&format!("{REST}{path}"))))
            .collect();
        for (method, path) in operations(&whole()).into_iter().filter(|(_, path)| path.starts_with(REST)) {
            assert!(served.contains(&(method.clone(), shape(&path))), "{method} {path}");
        }
    }

    /// Replaces the names of path parameters, which may differ.
    fn shape(path: &str) -> String {
        let piece = |piece: &str| match piece.split_once('}') {
            Some((_, word)) if piece.starts_with('{') => format!("{{}}{word}"),
            _ => piece.to_owned(),
        };
        path.split('/').map(piece).collect::<Vec<_>>().join("/")
    }

    /// Finding A9: every constraint names an existing schema and field.
    #[test]
    fn constraints_fit_the_generated_schemas() {
        let generated = serde_json::to_value(super::super::generated()).unwrap();
        let patch = read(CONSTRAINTS);
        for (name, schema) in patch["components"]["schemas"].as_object().unwrap() {
            let own = &generated["components"]["schemas"][name];
            if own.is_null() {
                assert!(schema.get("description").or(schema.get("type")).is_some(), "{name} is not there");
                continue;
            }
            for field in schema["properties"].as_object().into_iter().flatten().map(|(field, _)| field) {
                assert!(!own["properties"][field].is_null(), "{name}.{field} is not there");
            }
        }
        for path in patch["paths"].as_object().unwrap().keys() {
            assert!(!generated["paths"][path].is_null(), "{path} is not there");
        }
    }

    /// Finding A9: every operation has security and error responses in our format.
    #[test]
    fn every_operation_has_security_and_refusals() {
        let document = whole();
        assert!(document["components"]["securitySchemes"]["bearer"].is_object());
        assert!(!document["security"].as_array().unwrap().is_empty());
        for (method, path) in operations(&document) {
            let operation = &document["paths"][&path][method.to_lowercase()];
            for status in ["400", "401", "403", "429"] {
                assert!(operation["responses"][status].is_object(), "{method} {path} has no {status}");
            }
            assert!(operation["operationId"].is_string(), "{method} {path}");
        }
    }
}
