//! The agent card, from 0.3 to 1.0 and back (L3).
//!
//! Of the interfaces of a card of 1.0, those of version 0.3 are told; if there are none, all are, since the same URLs
//! serve both here.

use super::Form;
use super::data::{Fields, fields, insert, take};
use crate::fault::{Fault, Kind};
use serde_json::{Map, Value, json};

const VERSION: &str = "0.3.0";

/// Named differently in the two versions, otherwise the same: in 1.0 a field says which scheme it is, in 0.3 `type`.
// tidy: table
const SCHEMES: &[(&str, &str)] = &[
    ("apiKey", "apiKeySecurityScheme"),
    ("http", "httpAuthSecurityScheme"),
    ("oauth2", "oauth2SecurityScheme"),
    ("openIdConnect", "openIdConnectSecurityScheme"),
    ("mutualTLS", "mtlsSecurityScheme"),
];

/// Fields of a card that both have.
// tidy: table
const SAME: &[&str] = &[
    "name",
    "description",
    "version",
    "provider",
    "documentationUrl",
    "iconUrl",
    "defaultInputModes",
    "defaultOutputModes",
];

pub(super) fn to_old(mut new: Fields, form: Form) -> Result<Value, Fault> {
    let mut old = Map::new();
    for name in SAME {
        insert(&mut old, name, new.remove(*name));
    }
    for (name, empty) in [
        ("name", json!("")),
        ("description", json!("")),
        ("version", json!("")),
        ("defaultInputModes", json!([])),
        ("defaultOutputModes", json!([])),
    ] {
        old.entry(name).or_insert(empty);
    }
    let interfaces = interfaces_to_old(new.remove("supportedInterfaces"));
    let first = interfaces
        .first()
        .cloned()
        .ok_or_else(|| Fault::new(Kind::Internal, "a card without an interface"))?;
    insert(&mut old, "url", first.get("url").cloned());
    insert(&mut old, "preferredTransport", first.get("transport").cloned());
    old.insert("additionalInterfaces".into(), Value::Array(interfaces));
    old.insert("protocolVersion".into(), VERSION.into());
    let mut capabilities = object(new.remove("capabilities"));
    insert(&mut old, "supportsAuthenticatedExtendedCard", capabilities.remove("extendedAgentCard"));
    old.insert("capabilities".into(), Value::Object(capabilities));
    if let Some(Value::Object(schemes)) = new.remove("securitySchemes") {
        let schemes = schemes.into_iter().map(|(name, scheme)| (name, scheme_to_old(scheme, form)));
        old.insert("securitySchemes".into(), Value::Object(schemes.collect()));
    }
    insert(&mut old, "security", new.remove("securityRequirements").map(security_to_old));
    let skills = list(new.remove("skills")).into_iter().map(skill_to_old);
    old.insert("skills".into(), skills.collect());
    Ok(Value::Object(old))
}

/// As the proto of 0.3 has it: there too what is required is in lists that are called so.
pub(super) fn to_proto(mut new: Fields) -> Result<Value, Fault> {
    let required = new.get("securityRequirements").cloned();
    let skills = list(new.get("skills").cloned());
    new.remove("securityRequirements");
    let mut old = to_old(new, Form::Rest)?;
    if let Some(required) = required {
        old["security"] = required;
    }
    for (skill, new) in old["skills"].as_array_mut().into_iter().flatten().zip(skills) {
        if let Some(required) = new.get("securityRequirements") {
            skill["security"] = required.clone();
        }
    }
    Ok(old)
}

/// A card that came as the proto has it, as the schema has it.
pub(super) fn of_proto(mut card: Value) -> Value {
    let to_schema = |holder: &mut Value| {
        if let Some(security) = holder.get_mut("security") {
            *security = security_to_old(security.take());
        }
    };
    to_schema(&mut card);
    card.get_mut("skills").and_then(Value::as_array_mut).into_iter().flatten().for_each(to_schema);
    for scheme in card.get_mut("securitySchemes").and_then(Value::as_object_mut).into_iter().flatten() {
        *scheme.1 = scheme_to_old(scheme.1.take(), Form::Rpc);
    }
    card
}

fn interfaces_to_old(new: Option<Value>) -> Vec<Value> {
    let all = list(new);
    let is_old =
        |one: &&Value| one["protocolVersion"].as_str().is_some_and(|version| version.starts_with("0.3"));
    let own: Vec<Value> = all.iter().filter(is_old).cloned().collect();
    let told = if own.is_empty() { all } else { own };
    told.iter().map(|one| json!({ "url": one["url"], "transport": one["protocolBinding"] })).collect()
}

/// Over HTTP+JSON one library reads the JSON of the schema here and the other that of the proto, so both are told.
fn scheme_to_old(new: Value, form: Form) -> Value {
    let mut new = object(Some(new));
    for (kind, name) in SCHEMES {
        if let Some(Value::Object(mut scheme)) = new.remove(*name) {
            if form == Form::Rest {
                scheme.insert((*name).to_owned(), Value::Object(scheme.clone()));
            }
            if let Some(place) = scheme.remove("location") {
                scheme.insert("in".into(), place);
            }
            scheme.insert("type".into(), (*kind).into());
            return Value::Object(scheme);
        }
    }
    Value::Object(new)
}

/// In 1.0 the scopes of a scheme are in a list that is called so.
fn security_to_old(new: Value) -> Value {
    let one = |requirement: Value| -> Value {
        let schemes = object(object(Some(requirement)).remove("schemes"));
        let schemes = schemes
            .into_iter()
            .map(|(name, scopes)| (name, Value::Array(list(object(Some(scopes)).remove("list")))));
        Value::Object(schemes.collect())
    };
    list(Some(new)).into_iter().map(one).collect()
}

fn skill_to_old(new: Value) -> Value {
    let mut skill = object(Some(new));
    let security = skill.remove("securityRequirements").map(security_to_old);
    insert(&mut skill, "security", security);
    for (name, empty) in
        [("id", json!("")), ("name", json!("")), ("description", json!("")), ("tags", json!([]))]
    {
        skill.entry(name).or_insert(empty);
    }
    Value::Object(skill)
}

pub(super) fn to_new(old: Value) -> Result<Value, Fault> {
    let mut old = fields("card", old)?;
    let mut new = Map::new();
    for name in SAME {
        insert(&mut new, name, old.remove(*name));
    }
    new.insert("supportedInterfaces".into(), interfaces_to_new(&mut old)?);
    let mut capabilities = object(old.remove("capabilities"));
    capabilities.retain(|_, value| !value.is_null());
    insert(&mut capabilities, "extendedAgentCard", old.remove("supportsAuthenticatedExtendedCard"));
    new.insert("capabilities".into(), Value::Object(capabilities));
    if let Some(Value::Object(schemes)) = old.remove("securitySchemes") {
        let schemes = schemes.into_iter().map(|(name, scheme)| (name, scheme_to_new(scheme)));
        new.insert("securitySchemes".into(), Value::Object(schemes.collect()));
    }
    insert(&mut new, "securityRequirements", old.remove("security").map(security_to_new));
    let skills = list(old.remove("skills")).into_iter().map(|skill| {
        let mut skill = object(Some(skill));
        skill.retain(|_, value| !value.is_null());
        let security = skill.remove("security").map(security_to_new);
        insert(&mut skill, "securityRequirements", security);
        Value::Object(skill)
    });
    new.insert("skills".into(), skills.collect());
    insert(&mut new, "signatures", old.remove("signatures"));
    Ok(Value::Object(new))
}

/// The preferred one first. The same place and transport twice is one.
fn interfaces_to_new(old: &mut Fields) -> Result<Value, Fault> {
    let url = take(old, &["url"]).ok_or_else(|| Fault::params("card.url", "it is missing"))?;
    let transport = take(old, &["preferredTransport"]).unwrap_or_else(|| "JSONRPC".into());
    let mut all = vec![(url, transport)];
    for mut one in list(old.remove("additionalInterfaces")).into_iter().map(|one| object(Some(one))) {
        if let (Some(url), Some(transport)) = (one.remove("url"), one.remove("transport"))
            && !all.contains(&(url.clone(), transport.clone()))
        {
            all.push((url, transport));
        }
    }
    let told = all.into_iter().map(
        |(url, transport)| json!({ "url": url, "protocolBinding": transport, "protocolVersion": "0.3" }),
    );
    Ok(told.collect())
}

fn scheme_to_new(old: Value) -> Value {
    let mut scheme = object(Some(old));
    scheme.retain(|_, value| !value.is_null());
    let kind = scheme.remove("type");
    if let Some(place) = scheme.remove("in") {
        scheme.insert("location".into(), place);
    }
    // A server may offer several flows in 0.3, and one in 1.0.
    if let Some(Value::Object(flows)) = scheme.get_mut("flows") {
        let first = std::mem::take(flows).into_iter().find(|(_, flow)| flow.is_object());
        flows.extend(first);
    }
    match SCHEMES.iter().find(|(name, _)| kind.as_ref().is_some_and(|kind| kind == name)) {
        Some((_, name)) => json!({ *name: scheme }),
        None => json!({}),
    }
}

fn security_to_new(old: Value) -> Value {
    let one = |requirement: Value| -> Value {
        let schemes =
            object(Some(requirement)).into_iter().map(|(name, scopes)| (name, json!({ "list": scopes })));
        json!({ "schemes": Value::Object(schemes.collect()) })
    };
    list(Some(old)).into_iter().map(one).collect()
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn object(value: Option<Value>) -> Fields {
    match value {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
