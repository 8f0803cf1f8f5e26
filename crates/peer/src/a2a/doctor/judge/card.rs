//! Whether a card is what it has to be (A3–A5, A11, A12, A24, A26, L3). Pure.

use super::super::finding::{Verdict, cut};
use super::{list, text_of};
use crate::a2a::content_type as media_of;
use crate::web;
use http::header;
use serde_json::Value;

/// An interface as a card tells it, read or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    pub url: String,
    pub binding: String,
    pub version: String,
    pub tenant: Option<String>,
}

const LIST_MAX: usize = 20;

/// Whether it is a card of 0.3 or earlier, and nothing more.
pub(in super::super) fn is_old(card: &Value) -> bool {
    list(&card["supportedInterfaces"]).is_empty() && card["url"].is_string()
}

/// All interfaces of a card: those of 1.0, and those that 0.3 tells beside them.
pub(in super::super) fn interfaces(card: &Value) -> Vec<Declared> {
    let mut all: Vec<Declared> = Vec::new();
    let mut add = |url: &str, binding: &str, version: &str, tenant: Option<&str>| {
        let tenant = tenant.filter(|tenant| !tenant.is_empty()).map(str::to_owned);
        let one = Declared { url: url.into(), binding: binding.into(), version: version.into(), tenant };
        let same = |other: &Declared| {
            other.url == one.url
                && other.binding == one.binding
                && minor(&other.version) == minor(&one.version)
        };
        if !all.iter().any(same) && all.len() < LIST_MAX {
            all.push(one);
        }
    };
    for one in list(&card["supportedInterfaces"]) {
        let version = text_of(one, "protocolVersion");
        add(text_of(one, "url"), text_of(one, "protocolBinding"), version, one["tenant"].as_str());
    }
    if let Some(url) = card["url"].as_str() {
        let version = match card["protocolVersion"].as_str() {
            // The words of 0.2 are those of 0.3.
            None => "0.3",
            Some(old) if old.starts_with("0.2") => "0.3",
            Some(version) => version,
        };
        add(url, card["preferredTransport"].as_str().unwrap_or("JSONRPC"), version, None);
        for one in list(&card["additionalInterfaces"]) {
            add(text_of(one, "url"), text_of(one, "transport"), version, None);
        }
    }
    all
}

/// V10: only the first two numbers count.
pub(in super::super) fn minor(version: &str) -> String {
    version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
}

/// A3, L3.
pub(in super::super) fn fields(card: &Value) -> Verdict {
    let (texts, lists): (&[&str], &[&str]) = if is_old(card) {
        (
            &["name", "description", "url", "version", "protocolVersion"],
            &["defaultInputModes", "defaultOutputModes", "skills"],
        )
    } else {
        (
            &["name", "description", "version"],
            &["supportedInterfaces", "defaultInputModes", "defaultOutputModes", "skills"],
        )
    };
    let mut wrong = Vec::new();
    for name in texts {
        if text_of(card, name).is_empty() {
            wrong.push(format!("{name} is {}", lacking(&card[*name])));
        }
    }
    for name in lists {
        if list(&card[*name]).is_empty() {
            wrong.push(format!("{name} is {}", lacking(&card[*name])));
        }
    }
    if !card["capabilities"].is_object() {
        wrong.push(format!("capabilities is {}", lacking(&card["capabilities"])));
    }
    if wrong.is_empty() && is_old(card) {
        return Verdict::Note(
            "a card of version 0.3, with all that 0.3 requires; clients of 1.0 alone cannot use it".into(),
        );
    }
    told(wrong, "all there")
}

fn lacking(value: &Value) -> &'static str {
    match value {
        Value::Null => "missing",
        Value::String(text) if text.is_empty() => "empty",
        Value::Array(list) if list.is_empty() => "empty",
        _ => "of another type",
    }
}

/// A4.
pub(in super::super) fn skills(card: &Value) -> Verdict {
    let mut wrong = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    let skills = list(&card["skills"]);
    for (n, skill) in skills.iter().enumerate() {
        for name in ["id", "name", "description"] {
            if text_of(skill, name).is_empty() {
                wrong.push(format!("skills[{n}].{name} is {}", lacking(&skill[name])));
            }
        }
        if list(&skill["tags"]).is_empty() {
            wrong.push(format!("skills[{n}].tags is {}", lacking(&skill["tags"])));
        }
        let id = text_of(skill, "id");
        if !id.is_empty() && ids.contains(&id) {
            wrong.push(format!("skills[{n}].id {id:?} is there twice"));
        }
        ids.push(id);
    }
    told(wrong, &format!("{} of them", skills.len()))
}

/// A5.
pub(in super::super) fn interface_fields(card: &Value) -> Verdict {
    if is_old(card) {
        return Verdict::Skipped("a card of 0.3 has none".into());
    }
    let mut wrong = Vec::new();
    let all = list(&card["supportedInterfaces"]);
    for (n, one) in all.iter().enumerate() {
        let (url, binding, version) =
            (text_of(one, "url"), text_of(one, "protocolBinding"), text_of(one, "protocolVersion"));
        if url.is_empty() {
            wrong.push(format!("[{n}].url is {}", lacking(&one["url"])));
        }
        if !matches!(binding, "JSONRPC" | "GRPC" | "HTTP+JSON") && !binding.contains(':') {
            wrong.push(format!("[{n}].protocolBinding is {:?}", cut(binding, 40)));
        }
        let numbers: Vec<&str> = version.split('.').collect();
        let is_number = |n: &&str| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit());
        if !(2..=3).contains(&numbers.len()) || !numbers.iter().all(is_number) {
            wrong.push(format!("[{n}].protocolVersion is {:?}", cut(version, 40)));
        }
    }
    if all.is_empty() {
        return Verdict::Off("there are none".into());
    }
    told(wrong, &format!("{} of them", all.len()))
}

/// A11.
pub(in super::super) fn provider(card: &Value) -> Verdict {
    if card["provider"].is_null() {
        return Verdict::Ok("none is named".into());
    }
    let missing =
        ["url", "organization"].into_iter().filter(|name| text_of(&card["provider"], name).is_empty());
    told(missing.map(|name| format!("provider.{name} is missing")).collect(), "both are there")
}

/// A12.
pub(in super::super) fn security(card: &Value) -> Verdict {
    const KINDS: [&str; 5] = [
        "apiKeySecurityScheme",
        "httpAuthSecurityScheme",
        "oauth2SecurityScheme",
        "openIdConnectSecurityScheme",
        "mtlsSecurityScheme",
    ];
    let mut wrong = Vec::new();
    let schemes = card["securitySchemes"].as_object();
    for (name, scheme) in schemes.into_iter().flatten() {
        let kinds = KINDS.into_iter().filter(|kind| scheme.get(kind).is_some()).count();
        let of_03 = scheme["type"].is_string();
        if kinds > 1 || (kinds == 0 && !of_03) {
            wrong.push(format!("securitySchemes.{} is of no kind, or of several", cut(name, 40)));
        } else if kinds == 0 && !is_old(card) {
            wrong.push(format!("securitySchemes.{} is in the form of 0.3 (`type`)", cut(name, 40)));
        }
    }
    for name in required_schemes(card) {
        if !schemes.is_some_and(|schemes| schemes.contains_key(&name)) {
            wrong.push(format!("{} is required and not declared", cut(&name, 40)));
        }
    }
    told(wrong, if requires_credentials(card) { "callers need credentials" } else { "none are required" })
}

fn required_schemes(card: &Value) -> Vec<String> {
    let all = ["securityRequirements", "security"].into_iter().flat_map(|name| list(&card[name]));
    let names = all.filter_map(|one| one.get("schemes").unwrap_or(one).as_object());
    names.flat_map(|names| names.keys().cloned()).collect()
}

/// Whether there is no way in without credentials. An empty requirement is such a way.
pub(in super::super) fn requires_credentials(card: &Value) -> bool {
    let all: Vec<&Value> =
        ["securityRequirements", "security"].into_iter().flat_map(|name| list(&card[name])).collect();
    let is_open =
        |one: &&Value| one.get("schemes").unwrap_or(one).as_object().is_none_or(serde_json::Map::is_empty);
    !all.is_empty() && !all.iter().any(is_open)
}

/// A26: by what secrets commonly look like. Signatures are none.
pub(in super::super) fn secrets(card: &Value) -> Verdict {
    let mut found = Vec::new();
    if let Some(fields) = card.as_object() {
        for (name, value) in fields.iter().filter(|(name, _)| *name != "signatures") {
            search(value, name, name, &mut found);
        }
    }
    told(found, "nothing was found")
}

const STARTS: [&str; 13] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "-----BEGIN",
];
const NAMES: [&str; 9] = [
    "password",
    "passwd",
    "secret",
    "clientsecret",
    "token",
    "accesstoken",
    "apikey",
    "privatekey",
    "credentials",
];
const SECRET_CHARS_MIN: usize = 16;

fn search(value: &Value, name: &str, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| search(value, name, &format!("{path}.{name}"), found));
        }
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(n, value)| search(value, name, &format!("{path}[{n}]"), found));
        }
        Value::String(text) => {
            let plain: String =
                name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
            let why = if NAMES.contains(&plain.as_str()) && !text.is_empty() {
                "its name says so"
            } else if text.split_whitespace().any(looks_secret) {
                "it looks like a key or a token"
            } else if text.split("://").nth(1).is_some_and(|rest| {
                rest.split(['/', '?']).next().is_some_and(|host| host.contains('@') && host.contains(':'))
            }) {
                "a password in a URL"
            } else {
                return;
            };
            // The value itself is not repeated.
            found.push(format!("{} ({why})", cut(path, 80)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn looks_secret(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let is_jwt = word.starts_with("eyJ") && word.matches('.').count() == 2;
    let starts = STARTS.iter().any(|start| word.starts_with(start)) && word.len() >= SECRET_CHARS_MIN;
    starts || is_jwt || word.starts_with("-----BEGIN")
}

/// A24.
pub(in super::super) fn cache(answer: &web::Response) -> Verdict {
    let value = |name| answer.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let control = value(header::CACHE_CONTROL);
    let mut missing = Vec::new();
    if !control.is_some_and(|control| control.to_ascii_lowercase().contains("max-age=")) {
        missing.push(match control {
            Some(control) => format!("Cache-Control is {:?}, without max-age", cut(control, 80)),
            None => "there is no Cache-Control".into(),
        });
    }
    if value(header::ETAG).is_none() {
        missing.push("there is no ETag".into());
    }
    told(missing, &format!("Cache-Control: {}, and an ETag", cut(control.unwrap_or_default(), 80)))
}

pub(in super::super) fn content_type(answer: &web::Response) -> Verdict {
    match media_of(&answer.headers).as_str() {
        media @ ("application/json" | "application/a2a+json") => Verdict::Ok(media.to_owned()),
        "" => Verdict::Off("there is none".into()),
        other => Verdict::Off(cut(other, 80)),
    }
}

/// What an answer to a page of the web would let it do.
pub(in super::super) fn cors(answer: &web::Response, origin: &str) -> Verdict {
    let value = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let with_credentials = value("access-control-allow-credentials") == Some("true");
    match value("access-control-allow-origin") {
        Some(allowed) if with_credentials && allowed == origin => {
            Verdict::Off("any origin is let in, with credentials".into())
        }
        Some(allowed) if allowed == "*" || allowed == origin => {
            Verdict::Ok("pages of any origin may read the card, without credentials".into())
        }
        Some(allowed) => Verdict::Ok(format!("pages of {} may read it", cut(allowed, 80))),
        None if answer.status.is_success() => {
            Verdict::Note("there are no CORS headers: clients in browsers cannot read the card".into())
        }
        None => Verdict::Note(format!("a foreign Origin is refused with status {}", answer.status.as_u16())),
    }
}

fn told(wrong: Vec<String>, well: &str) -> Verdict {
    if wrong.is_empty() { Verdict::Ok(well.to_owned()) } else { Verdict::Off(wrong.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "name": "a", "description": "b", "version": "1", "capabilities": {},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{ "id": "s", "name": "s", "description": "d", "tags": ["t"] }],
            "supportedInterfaces": [{ "url": "https://a/x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        })
    }

    fn off(verdict: &Verdict) -> &str {
        match verdict {
            Verdict::Off(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// A3, A4, A5, A11, A12: each fault is named, and nothing else is.
    #[test]
    fn what_a_card_lacks_is_named() {
        type Judge = fn(&Value) -> Verdict;
        let judges: [Judge; 6] = [fields, skills, interface_fields, provider, security, secrets];
        for judge in judges {
            assert!(matches!(judge(&good()), Verdict::Ok(_)), "{:?}", judge(&good()));
        }
        let table: [(Judge, &str, Value, &str); 16] = [
            (fields, "/name", Value::Null, "name is missing"),
            (fields, "/description", json!(""), "description is empty"),
            (fields, "/skills", json!([]), "skills is empty"),
            (fields, "/capabilities", json!([]), "capabilities is empty"),
            (fields, "/supportedInterfaces", Value::Null, "supportedInterfaces is missing"),
            (skills, "/skills/0/tags", json!([]), "skills[0].tags is empty"),
            (skills, "/skills/0/id", json!(7), "skills[0].id is of another type"),
            (interface_fields, "/supportedInterfaces/0/url", json!(""), "[0].url is empty"),
            (interface_fields, "/supportedInterfaces/0/protocolBinding", json!("JSON-RPC"), "JSON-RPC"),
            (interface_fields, "/supportedInterfaces/0/protocolVersion", json!("v1"), "\"v1\""),
            (provider, "/provider", json!({ "url": "https://a" }), "provider.organization is missing"),
            (
                security,
                "/securityRequirements",
                json!([{ "schemes": { "k": {} } }]),
                "k is required and not declared",
            ),
            (security, "/securitySchemes", json!({ "k": {} }), "of no kind"),
            (security, "/securitySchemes", json!({ "k": { "type": "http" } }), "form of 0.3"),
            (secrets, "/description", json!("use ghp_0123456789abcdefghij"), "description (it looks"),
            (secrets, "/documentationUrl", json!("https://u:p@host/"), "a password in a URL"),
        ];
        for (judge, at, value, words) in table {
            let mut card = good();
            if card.pointer(at).is_none() {
                card[at.trim_start_matches('/')] = value;
            } else {
                *card.pointer_mut(at).unwrap() = value;
            }
            let verdict = judge(&card);
            assert!(off(&verdict).contains(words), "{at}: {verdict:?}");
            assert!(!off(&verdict).contains("ghp_"));
        }
    }

    /// L3, L4: both versions in one card, each interface once.
    #[test]
    fn interfaces_of_both_versions() {
        let mut card = good();
        card["url"] = json!("https://a/x");
        card["protocolVersion"] = json!("0.3.0");
        card["additionalInterfaces"] = json!([{ "url": "https://a/x", "transport": "JSONRPC" }, { "url": "https://a/r", "transport": "HTTP+JSON" }]);
        let all: Vec<String> = interfaces(&card)
            .into_iter()
            .map(|one| format!("{} {} {}", one.binding, minor(&one.version), one.url))
            .collect();
        assert_eq!(all, ["JSONRPC 1.0 https://a/x", "JSONRPC 0.3 https://a/x", "HTTP+JSON 0.3 https://a/r"]);
        card["supportedInterfaces"] = json!([]);
        assert!(is_old(&card) && matches!(fields(&card), Verdict::Note(_)));
        assert_eq!(interfaces(&json!({ "supportedInterfaces": [1, null], "url": 7 })).len(), 1);
    }

    #[test]
    fn an_empty_requirement_is_a_way_in() {
        let with = |all: Value| json!({ "securityRequirements": all });
        assert!(!requires_credentials(&json!({})));
        assert!(!requires_credentials(&with(json!([{ "schemes": { "a": {} } }, {}]))));
        assert!(requires_credentials(&with(json!([{ "schemes": { "a": {} } }]))));
        assert!(requires_credentials(&json!({ "security": [{ "a": [] }] })));
    }
}
