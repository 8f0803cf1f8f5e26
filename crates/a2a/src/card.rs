//! Agent cards: from a plain description to the card of 1.0, and to one document that clients of 0.3 read too (A1–A13,
//! L3, L4), and to the document of `/.well-known/agent.json` (DIR-2).
//!
//! A client of 1.0 ignores the fields of 0.3 and the other way round; what both call the same says the same to both.
//! Not here: signatures (`signing`), what an agent is (`synapse-node`), how documents are served.

use crate::fault::{Fault, Kind};
use crate::pb;
use crate::wire::to_json;
use pb::security_scheme::Scheme;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Characters of a text in a card, at most.
pub const TEXT_CHARS_MAX: usize = 1_000;
/// Characters of a name or a tag.
pub const NAME_CHARS_MAX: usize = 100;

pub const V10: &str = "1.0";
pub const V03: &str = "0.3";
/// How cards of 0.3 write it.
const V03_FULL: &str = "0.3.0";

const BEARER: &str = "bearer";
const MTLS: &str = "mtls";

/// What a card tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Description {
    pub name: String,
    pub description: String,
    pub version: String,
    pub provider: Option<Provider>,
    /// In the order of preference (A8).
    pub interfaces: Vec<Interface>,
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
    pub skills: Vec<Skill>,
    /// Callers must show a certificate.
    pub mtls: bool,
    /// Callers need not prove anything.
    pub open: bool,
    pub streaming: bool,
    pub push_notifications: bool,
    pub extensions: Vec<pb::AgentExtension>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub organization: String,
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub url: String,
    pub binding: &'static str,
    pub version: &'static str,
}

/// How the protocol travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    JsonRpc,
    HttpJson,
    Grpc,
}

impl Binding {
    /// By its name in settings and flags.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "jsonrpc" => Some(Self::JsonRpc),
            "http" => Some(Self::HttpJson),
            "grpc" => Some(Self::Grpc),
            _ => None,
        }
    }

    /// Its name on a card.
    pub fn on_card(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
}

impl Description {
    /// A3–A13. Text is cleaned: whoever shows a card shows it to a person or a model.
    pub fn card(&self) -> pb::AgentCard {
        pb::AgentCard {
            name: clean(&self.name, NAME_CHARS_MAX),
            description: clean(&self.description, TEXT_CHARS_MAX),
            supported_interfaces: self.interfaces.iter().map(interface).collect(),
            provider: self.provider.as_ref().map(|provider| pb::AgentProvider {
                url: provider.url.clone(),
                organization: clean(&provider.organization, NAME_CHARS_MAX),
            }),
            version: self.version.clone(),
            capabilities: Some(pb::AgentCapabilities {
                streaming: Some(self.streaming),
                push_notifications: Some(self.push_notifications),
                extensions: self.extensions.clone(),
                // Where callers prove nothing there is nobody whom more could be told (A16).
                extended_agent_card: Some(!self.open),
            }),
            security_schemes: schemes(self.mtls),
            security_requirements: if self.open { Vec::new() } else { requirements(self.mtls) },
            default_input_modes: self.input_modes.clone(),
            default_output_modes: self.output_modes.clone(),
            skills: self.skills.iter().map(skill).collect(),
            ..pb::AgentCard::default()
        }
    }
}

fn interface(one: &Interface) -> pb::AgentInterface {
    pb::AgentInterface {
        url: one.url.clone(),
        protocol_binding: one.binding.into(),
        protocol_version: one.version.into(),
        ..pb::AgentInterface::default()
    }
}

fn skill(one: &Skill) -> pb::AgentSkill {
    pb::AgentSkill {
        id: clean(&one.id, NAME_CHARS_MAX),
        name: clean(&one.name, NAME_CHARS_MAX),
        description: clean(&one.description, TEXT_CHARS_MAX),
        tags: one.tags.iter().map(|tag| clean(tag, NAME_CHARS_MAX)).collect(),
        ..pb::AgentSkill::default()
    }
}

/// A12. Each has a description: a verifier that drops what is empty would otherwise lose the scheme.
fn schemes(mtls: bool) -> HashMap<String, pb::SecurityScheme> {
    let bearer = Scheme::HttpAuthSecurityScheme(pb::HttpAuthSecurityScheme {
        description: "A token or secret of the agent's owner".into(),
        scheme: "Bearer".into(),
        bearer_format: String::new(),
    });
    let certificate = Scheme::MtlsSecurityScheme(pb::MutualTlsSecurityScheme {
        description: "A client certificate of the agent's authority".into(),
    });
    let both = [(BEARER, Some(bearer)), (MTLS, mtls.then_some(certificate))];
    both.into_iter()
        .filter_map(|(name, scheme)| Some((name.into(), pb::SecurityScheme { scheme: Some(scheme?) })))
        .collect()
}

/// One of these is enough. A certificate that the settings give a name to needs no token beside it.
fn requirements(mtls: bool) -> Vec<pb::SecurityRequirement> {
    let ways: &[&[&str]] = if mtls { &[&[MTLS], &[MTLS, BEARER]] } else { &[&[BEARER]] };
    let all = |names: &[&str]| names.iter().map(|name| ((*name).into(), pb::StringList::default())).collect();
    ways.iter().map(|names| pb::SecurityRequirement { schemes: all(names) }).collect()
}

/// The card with nothing that 1.0 does not know, for readers that refuse unknown fields (measured A8).
pub fn strict_document(card: &pb::AgentCard) -> Result<Value, Fault> {
    to_json(card)
}

/// The card as one document for both versions: with the fields of 0.3 if it has interfaces of 0.3.
pub fn document(card: &pb::AgentCard) -> Result<Value, Fault> {
    let mut document = to_json(card)?;
    let old: Vec<Value> = card
        .supported_interfaces
        .iter()
        .filter(|one| one.protocol_version == V03)
        .map(|one| json!({ "url": one.url, "transport": one.protocol_binding }))
        .collect();
    let Some(first) = old.first().cloned() else { return Ok(document) };
    let fields = document
        .as_object_mut()
        .ok_or_else(|| Fault::new(Kind::Internal, "a card that is no object; see the node's log"))?;
    fields.insert("url".into(), first["url"].clone());
    fields.insert("preferredTransport".into(), first["transport"].clone());
    fields.insert("additionalInterfaces".into(), Value::Array(old));
    fields.insert("protocolVersion".into(), V03_FULL.into());
    let extended = card.capabilities.as_ref().and_then(|some| some.extended_agent_card);
    fields.insert("supportsAuthenticatedExtendedCard".into(), extended.unwrap_or_default().into());
    let security = card.security_requirements.iter().map(|one| {
        let pairs = one.schemes.iter().map(|(name, scopes)| (name.clone(), scopes.list.clone().into()));
        Value::Object(pairs.collect())
    });
    fields.insert("security".into(), Value::Array(security.collect()));
    if let Some(schemes) = fields.get_mut("securitySchemes").and_then(Value::as_object_mut) {
        schemes.values_mut().filter_map(Value::as_object_mut).for_each(also_as_03);
    }
    Ok(document)
}

/// A scheme of 0.3 says by `type` what 1.0 says by the name of the field around it. With both, each version finds its own.
fn also_as_03(scheme: &mut Map<String, Value>) {
    const TYPES: [(&str, &str); 2] =
        [("httpAuthSecurityScheme", "http"), ("mtlsSecurityScheme", "mutualTLS")];
    for (name, kind) in TYPES {
        if let Some(Value::Object(inside)) = scheme.get(name).cloned() {
            scheme.extend(inside);
            scheme.insert("type".into(), kind.into());
        }
    }
}

/// DIR-2: how to connect, for whoever found the agent elsewhere; and the card, for clients of 0.2 that look here.
pub fn agent_json(card: &pb::AgentCard, agent_id: &str, endpoint: &str, spec: &str) -> Result<Value, Fault> {
    let mut document = document(card)?;
    document["agent_id"] = format!("0x{agent_id}").into();
    document["endpoints"] = json!([{ "url": endpoint, "spec": spec }]);
    Ok(document)
}

/// What of a card is signed (A19, A20): no signatures, nothing that is unset or its default, but all that is required.
pub fn signed_fields(card: &pb::AgentCard) -> Value {
    let bare = pb::AgentCard { signatures: Vec::new(), ..card.clone() };
    let mut fields = serde_json::to_value(&bare).unwrap_or_default();
    require(&mut fields, REQUIRED);
    fields
}

/// Fields that a message must have, and the messages in it.
struct Required {
    texts: &'static [&'static str],
    lists: &'static [&'static str],
    maps: &'static [&'static str],
    inside: &'static [(&'static str, Shape, &'static Required)],
}

#[derive(Clone, Copy)]
enum Shape {
    One,
    List,
    Map,
}

const NONE: Required = Required { texts: &[], lists: &[], maps: &[], inside: &[] };

// tidy: table
const REQUIRED: &Required = &Required {
    texts: &["name", "description", "version"],
    lists: &["supportedInterfaces", "defaultInputModes", "defaultOutputModes", "skills"],
    inside: &[
        (
            "supportedInterfaces",
            Shape::List,
            &Required { texts: &["url", "protocolBinding", "protocolVersion"], ..NONE },
        ),
        ("provider", Shape::One, &Required { texts: &["url", "organization"], ..NONE }),
        (
            "skills",
            Shape::List,
            &Required { texts: &["id", "name", "description"], lists: &["tags"], ..NONE },
        ),
        (
            "securitySchemes",
            Shape::Map,
            &Required {
                inside: &[
                    ("apiKeySecurityScheme", Shape::One, &Required { texts: &["location", "name"], ..NONE }),
                    ("httpAuthSecurityScheme", Shape::One, &Required { texts: &["scheme"], ..NONE }),
                    (
                        "openIdConnectSecurityScheme",
                        Shape::One,
                        &Required { texts: &["openIdConnectUrl"], ..NONE },
                    ),
                    (
                        "oauth2SecurityScheme",
                        Shape::One,
                        &Required { inside: &[("flows", Shape::One, FLOWS)], ..NONE },
                    ),
                ],
                ..NONE
            },
        ),
    ],
    ..NONE
};

// tidy: table
const FLOWS: &Required = &Required {
    inside: &[
        (
            "authorizationCode",
            Shape::One,
            &Required { texts: &["authorizationUrl", "tokenUrl"], maps: &["scopes"], ..NONE },
        ),
        ("clientCredentials", Shape::One, &Required { texts: &["tokenUrl"], maps: &["scopes"], ..NONE }),
        (
            "deviceCode",
            Shape::One,
            &Required { texts: &["deviceAuthorizationUrl", "tokenUrl"], maps: &["scopes"], ..NONE },
        ),
    ],
    ..NONE
};

fn require(message: &mut Value, required: &Required) {
    let Some(fields) = message.as_object_mut() else { return };
    let defaults = [(required.texts, json!("")), (required.lists, json!([])), (required.maps, json!({}))];
    for (names, default) in defaults {
        for name in names {
            fields.entry(*name).or_insert_with(|| default.clone());
        }
    }
    for (name, shape, inside) in required.inside {
        match (fields.get_mut(*name), shape) {
            (Some(one), Shape::One) => require(one, inside),
            (Some(Value::Array(list)), Shape::List) => list.iter_mut().for_each(|one| require(one, inside)),
            (Some(Value::Object(map)), Shape::Map) => map.values_mut().for_each(|one| require(one, inside)),
            _ => {}
        }
    }
}

/// One line of plain text within bounds: nothing that moves a cursor, turns the direction or cannot be seen.
pub fn clean(text: &str, chars_max: usize) -> String {
    let seen = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !is_hidden(*c));
    let line: String = seen.collect();
    line.split(' ')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(chars_max)
        .collect()
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
pub(crate) mod tests;
