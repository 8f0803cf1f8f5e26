//! Agent cards of others: what is in one, and which of its interfaces we speak (A9, A10, L3).
//!
//! A card is read as JSON, since a signature covers what is in it and not what we know of it. Of 1.0 and of 0.3, and of
//! the short document at `/.well-known/agent.json` that only says where to connect (DIR-2).
//!
//! Not here: fetching (`super::find`), believing (`super::trust`).

use super::url::HttpUrl;
use serde_json::Value;
use std::fmt;

/// What is known of an agent elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    pub name: String,
    pub description: String,
    pub version: String,
    /// Names of what it says it can do.
    pub skills: Vec<String>,
    pub streaming: bool,
    /// Known callers are shown more.
    pub has_extended: bool,
    pub interfaces: Vec<Interface>,
    pub grpc: Vec<GrpcInterface>,
    /// Why the others are not used, in the order of the card.
    pub passed_over: Vec<String>,
    pub credential: Credential,
    /// What was wrong with it and could be read all the same.
    pub notes: Vec<&'static str>,
    /// The document itself.
    pub value: Value,
}

/// One way to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub url: HttpUrl,
    pub binding: Binding,
    pub version: Version,
    pub tenant: Option<String>,
}

/// One way to call it by gRPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcInterface {
    /// Only an origin.
    pub url: HttpUrl,
    pub version: Version,
    pub tenant: Option<String>,
}

/// Where and how an agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    Json(Interface),
    Grpc(GrpcInterface),
}

impl At {
    pub fn url(&self) -> &HttpUrl {
        match self {
            Self::Json(at) => &at.url,
            Self::Grpc(at) => &at.url,
        }
    }

    pub fn binding(&self) -> &'static str {
        match self {
            Self::Json(at) => at.binding.name(),
            Self::Grpc(_) => "GRPC",
        }
    }

    pub fn version(&self) -> &'static str {
        match self {
            Self::Json(at) => at.version.name(),
            Self::Grpc(at) => at.version.name(),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(at) => at.fmt(f),
            Self::Grpc(at) => write!(f, "GRPC {} at {}", at.version.name(), at.url),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    JsonRpc,
    HttpJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V10,
    V03,
}

/// How it wants to be shown a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    Bearer,
    Basic,
    /// In a header of this name.
    Header(String),
    /// In a way that we do not have; says which.
    Other(String),
}

const NAME_CHARS_MAX: usize = 200;
const TEXT_CHARS_MAX: usize = 4_000;
const LIST_MAX: usize = 100;
/// A server may not choose what else of a request it wants to fill in.
const HEADERS_NOT_FOR_SECRETS: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "content-type",
    "te",
    "upgrade",
    "expect",
    "trailer",
    "accept",
    "cookie",
    "origin",
    "referer",
    "last-event-id",
    "if-none-match",
    "a2a-version",
    "a2a-extensions",
];

impl Card {
    /// Reads a card whose URL is not known, so that addresses in it have to be whole. An error if it is no card.
    pub fn read(value: Value) -> Result<Self, String> {
        Self::read_with(value, InterfaceReader::default())
    }

    /// Reads a card from this URL. An address without a host means the host of the card.
    pub fn read_from(value: Value, from: &HttpUrl) -> Result<Self, String> {
        Self::read_with(value, InterfaceReader { base: Some(from), notes: Vec::new() })
    }

    fn read_with(value: Value, mut reader: InterfaceReader<'_>) -> Result<Self, String> {
        let object = value.as_object().ok_or("it is no JSON object")?;
        let text = |name: &str, max: usize| {
            object.get(name).and_then(Value::as_str).unwrap_or_default().chars().take(max).collect::<String>()
        };
        let (interfaces, grpc, passed_over) = if list(&value["supportedInterfaces"]).is_empty() {
            if value["url"].is_string() {
                of_03(&value, &mut reader)
            } else if let Some(url) = value.pointer("/endpoints/0/url").and_then(Value::as_str) {
                // Only says where to connect.
                sort(vec![reader.read(url, "JSONRPC", "1.0", None)])
            } else {
                return Err("it has neither `supportedInterfaces` nor `url`".into());
            }
        } else {
            of_10(&value, &mut reader)
        };
        let mut name = text("name", NAME_CHARS_MAX);
        if name.is_empty() {
            name = text("agent_id", NAME_CHARS_MAX);
        }
        if name.is_empty() {
            return Err("it has no `name`".into());
        }
        let skills = list(&value["skills"]).iter().take(LIST_MAX).filter_map(|skill| skill["id"].as_str());
        Ok(Self {
            name,
            description: text("description", TEXT_CHARS_MAX),
            version: text("version", NAME_CHARS_MAX),
            skills: skills.map(|id| id.chars().take(NAME_CHARS_MAX).collect()).collect(),
            streaming: value.pointer("/capabilities/streaming") == Some(&Value::Bool(true)),
            has_extended: value.pointer("/capabilities/extendedAgentCard") == Some(&Value::Bool(true))
                || value["supportsAuthenticatedExtendedCard"] == true,
            credential: credential(&value),
            notes: reader.into_notes(),
            interfaces,
            grpc,
            passed_over,
            value,
        })
    }

    /// The first that we speak (A9); if one was called by its URL, that one. gRPC is for agents that have nothing else:
    /// what it streams has no ids, by which a stream that broke is taken up where it was.
    pub fn pick(&self, at: Option<&HttpUrl>) -> Result<At, String> {
        let fits = |url: &HttpUrl| at.is_none_or(|at| url == at);
        if let Some(found) = self.interfaces.iter().find(|one| fits(&one.url)) {
            return Ok(At::Json(found.clone()));
        }
        if let Some(found) = self.grpc.iter().find(|one| fits(&one.url)) {
            return Ok(At::Grpc(found.clone()));
        }
        let there = self.interfaces.iter().map(|one| &one.url).chain(self.grpc.iter().map(|one| &one.url));
        let there: Vec<String> = there.map(ToString::to_string).collect();
        if let Some(at) = at.filter(|_| !there.is_empty()) {
            return Err(format!("its card has no interface at {at}, but at {}", there.join(", ")));
        }
        let why =
            if self.passed_over.is_empty() { "it lists none".into() } else { self.passed_over.join("; ") };
        Err(format!(
            "none of its interfaces is spoken here (JSONRPC, HTTP+JSON or GRPC, in A2A 1.0 or 0.3): {why}"
        ))
    }
}

type Places = (Vec<Interface>, Vec<GrpcInterface>, Vec<String>);

fn of_10(card: &Value, reader: &mut InterfaceReader<'_>) -> Places {
    let read = |one: &Value| {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        reader.read(text("url"), text("protocolBinding"), text("protocolVersion"), one["tenant"].as_str())
    };
    sort(list(&card["supportedInterfaces"]).iter().take(LIST_MAX).map(read).collect())
}

/// The main one first, then the others; 0.3 says what each speaks, not in which version.
fn of_03(card: &Value, reader: &mut InterfaceReader<'_>) -> Places {
    // A card of 0.2 has no version, and the same words.
    let version = card["protocolVersion"].as_str().filter(|v| !v.starts_with("0.2")).unwrap_or("0.3");
    let main = card["preferredTransport"].as_str().unwrap_or("JSONRPC");
    let mut all = vec![reader.read(card["url"].as_str().unwrap_or_default(), main, version, None)];
    for one in list(&card["additionalInterfaces"]).iter().take(LIST_MAX) {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        // The main one is often told twice.
        if (one["url"].as_str(), text("transport")) != (card["url"].as_str(), main) {
            all.push(reader.read(text("url"), text("transport"), version, None));
        }
    }
    sort(all)
}

const OTHER_CASE: &str = "its card has the name of a binding in other letters";
const SHORT_VERSION: &str = "its card has the version `1`, which was read as 1.0";
const NO_HOST: &str = "its card has a URL without a host, which was read as that of the card";

/// Reads interfaces of a card, and notes what was wrong with them.
#[derive(Default)]
struct InterfaceReader<'a> {
    /// Where the card is from, if that is known.
    base: Option<&'a HttpUrl>,
    notes: Vec<&'static str>,
}

impl InterfaceReader<'_> {
    fn read(&mut self, url: &str, binding: &str, version: &str, tenant: Option<&str>) -> Result<At, String> {
        let shown: String = format!("{binding} {version} at {url}").chars().take(NAME_CHARS_MAX).collect();
        let (is_exact, binding) = match binding.to_ascii_uppercase().as_str() {
            name @ "JSONRPC" => (name == binding, Some(Binding::JsonRpc)),
            name @ "HTTP+JSON" => (name == binding, Some(Binding::HttpJson)),
            name @ "GRPC" => (name == binding, None),
            _ => return Err(format!("{shown}: another binding")),
        };
        if !is_exact {
            self.notes.push(OTHER_CASE);
        }
        // V10: what is behind the second number says nothing about what is spoken.
        let mut numbers = version.split('.');
        let version = match (numbers.next(), numbers.next()) {
            (Some("1"), Some("0")) => Version::V10,
            (Some("1"), None) => {
                self.notes.push(SHORT_VERSION);
                Version::V10
            }
            (Some("0"), Some("3")) => Version::V03,
            _ => return Err(format!("{shown}: another version")),
        };
        let tenant = tenant.filter(|tenant| !tenant.is_empty()).map(str::to_owned);
        let Some(binding) = binding else {
            let url = grpc_url(url).map_err(|why| format!("{shown}: {why}"))?;
            return match url.is_bare() {
                true => Ok(At::Grpc(GrpcInterface { url, version, tenant })),
                false => Err(format!("{shown}: a path in its address, which gRPC has no use for")),
            };
        };
        let url = match self.on_same_host(url) {
            Some(url) => {
                self.notes.push(NO_HOST);
                url
            }
            None => HttpUrl::parse(url).map_err(|why| format!("{shown}: {why}"))?,
        };
        if url.has_query() {
            return Err(format!("{shown}: a query in its URL"));
        }
        Ok(At::Json(Interface { url, binding, version, tenant }))
    }

    /// `/path`, which has one meaning. `path` has not: below the card, or at the top of the host.
    fn on_same_host(&self, raw: &str) -> Option<HttpUrl> {
        let base = self.base.filter(|_| raw.starts_with('/') && !raw.starts_with("//"))?;
        HttpUrl::parse(&format!("{}{raw}", base.origin())).ok().filter(|url| url.origin() == base.origin())
    }

    fn into_notes(mut self) -> Vec<&'static str> {
        self.notes.sort_unstable();
        self.notes.dedup();
        self.notes
    }
}

/// An address of gRPC may be `host:port` alone. Then it is encrypted, unless it is on this machine.
fn grpc_url(raw: &str) -> Result<HttpUrl, String> {
    if raw.contains("://") {
        return HttpUrl::parse(raw);
    }
    let open = HttpUrl::parse(&format!("http://{raw}"))?;
    if open.origin().is_loopback() { Ok(open) } else { HttpUrl::parse(&format!("https://{raw}")) }
}

fn sort(all: Vec<Result<At, String>>) -> Places {
    let (mut spoken, mut grpc, mut passed_over) = (Vec::new(), Vec::new(), Vec::new());
    for one in all {
        match one {
            Ok(At::Json(interface)) => spoken.push(interface),
            Ok(At::Grpc(interface)) => grpc.push(interface),
            Err(why) => passed_over.push(why),
        }
    }
    (spoken, grpc, passed_over)
}

/// The first scheme that the card asks for and we have; a token is a bearer's unless it says otherwise.
fn credential(card: &Value) -> Credential {
    let needed = ["securityRequirements", "security"].into_iter().flat_map(|name| list(&card[name]));
    let mut other = None;
    for requirement in needed {
        // In 1.0 the names are one level deeper.
        let names = requirement.get("schemes").unwrap_or(requirement);
        let Some((name, _)) = names.as_object().and_then(|names| names.iter().next()) else { continue };
        match scheme(&card["securitySchemes"][name.as_str()]) {
            Credential::Other(what) => other = other.or(Some(what)),
            found => return found,
        }
    }
    other.map_or(Credential::Bearer, Credential::Other)
}

fn scheme(raw: &Value) -> Credential {
    // 1.0 wraps each kind in a field of its name, 0.3 has `type`.
    let inner = |name: &str| raw.get(name).filter(|inner| inner.is_object());
    let (kind, scheme) = if let Some(key) = inner("apiKeySecurityScheme") {
        ("apiKey", key)
    } else if let Some(http) = inner("httpAuthSecurityScheme") {
        ("http", http)
    } else if let Some(mtls) = inner("mtlsSecurityScheme") {
        ("mutualTLS", mtls)
    } else {
        (raw["type"].as_str().unwrap_or("bearer"), raw)
    };
    match kind {
        "apiKey" => {
            let place = scheme["location"].as_str().or(scheme["in"].as_str()).unwrap_or_default();
            let name = scheme["name"].as_str().unwrap_or_default().to_ascii_lowercase();
            let is_name = http::HeaderName::from_bytes(name.as_bytes()).is_ok();
            if place == "header" && is_name && !HEADERS_NOT_FOR_SECRETS.contains(&name.as_str()) {
                Credential::Header(name)
            } else {
                Credential::Other(format!("an API key as {place:?} {name:?}"))
            }
        }
        "http" => match scheme["scheme"].as_str().unwrap_or_default().to_ascii_lowercase().as_str() {
            "bearer" => Credential::Bearer,
            "basic" => Credential::Basic,
            other => Credential::Other(format!("HTTP authentication {other:?}")),
        },
        // The certificate is shown anyway; a token may come with it.
        _ => Credential::Bearer,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Binding {
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

impl Version {
    pub fn name(self) -> &'static str {
        match self {
            Self::V10 => "1.0",
            Self::V03 => "0.3",
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} at {}", self.binding.name(), self.version.name(), self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_10(interfaces: Value) -> Value {
        json!({ "name": "a", "supportedInterfaces": interfaces })
    }

    /// A9, A10, L3, L4, V10: the first that we speak, with its URL, version and tenant.
    #[test]
    fn the_first_interface_that_is_spoken() {
        let by_grpc = |url: &str| json!({ "url": url, "protocolBinding": "GRPC", "protocolVersion": "1.0" });
        let grpc = json!({ "url": "https://a/g", "protocolBinding": "GRPC", "protocolVersion": "1.0" });
        let rpc = json!({ "url": "https://a/r", "protocolBinding": "JSONRPC", "protocolVersion": "1.0.1" });
        let rest = json!({ "url": "https://a/h/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "t" });
        let next = json!({ "url": "https://a/n", "protocolBinding": "JSONRPC", "protocolVersion": "2.0" });
        let old = json!({ "url": "https://a/o", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0" });
        let table = [
            (of_10(json!([grpc, rpc, rest])), "JSONRPC 1.0 at https://a/r"),
            (of_10(json!([rest, rpc])), "HTTP+JSON 1.0 at https://a/h/"),
            (of_10(json!([by_grpc("https://a:50051")])), "GRPC 1.0 at https://a:50051"),
            (of_10(json!([by_grpc("a:50051"), rpc])), "JSONRPC 1.0 at https://a/r"),
            (of_10(json!([next, by_grpc("a:50051")])), "GRPC 1.0 at https://a:50051"),
            (of_10(json!([by_grpc("127.0.0.1:50051")])), "GRPC 1.0 at http://127.0.0.1:50051"),
            (of_10(json!([by_grpc("http://b:50051")])), "GRPC 1.0 at http://b:50051"),
            (
                json!({ "name": "a", "url": "b:50051", "protocolVersion": "0.3.0", "preferredTransport": "GRPC" }),
                "GRPC 0.3 at https://b:50051",
            ),
            (of_10(json!([next, old, rpc])), "JSONRPC 0.3 at https://a/o"),
            (of_10(json!([grpc, next, rest])), "HTTP+JSON 1.0 at https://a/h/"),
            (
                json!({ "name": "a", "url": "https://a/x", "protocolVersion": "0.3.0" }),
                "JSONRPC 0.3 at https://a/x",
            ),
            (json!({ "name": "a", "url": "https://a/x" }), "JSONRPC 0.3 at https://a/x"),
            (
                json!({ "name": "a", "url": "https://a/x", "protocolVersion": "0.2.6" }),
                "JSONRPC 0.3 at https://a/x",
            ),
            (
                json!({ "name": "a", "url": "https://a/x", "protocolVersion": "0.3.0", "preferredTransport": "GRPC",
                    "additionalInterfaces": [{ "url": "https://a/x", "transport": "GRPC" }, { "url": "https://a/v", "transport": "HTTP+JSON" }] }),
                "HTTP+JSON 0.3 at https://a/v",
            ),
            // Both in one: 1.0 is what it lists itself.
            (
                json!({ "name": "a", "url": "https://a/x", "protocolVersion": "0.3.0", "supportedInterfaces": [rpc] }),
                "JSONRPC 1.0 at https://a/r",
            ),
            (
                json!({ "agent_id": "0x1", "endpoints": [{ "url": "https://a/api", "spec": "https://a/s" }] }),
                "JSONRPC 1.0 at https://a/api",
            ),
        ];
        for (card, expected) in table {
            let read = Card::read(card.clone()).unwrap();
            assert_eq!(read.pick(None).map(|at| at.to_string()).as_deref(), Ok(expected), "{card}");
        }
        let tenant = Card::read(of_10(json!([rest]))).unwrap();
        assert_eq!(tenant.interfaces[0].tenant.as_deref(), Some("t"));
    }

    /// Finding A6: small slips in a card made its agent unreachable. A card sends callers to no other host by them.
    #[test]
    fn slips_of_a_card_are_read_and_noted() {
        let from = HttpUrl::parse("https://a:8443/x/.well-known/agent-card.json").unwrap();
        let table = [
            ("https://a/r", "jsonrpc", "1.0", Ok(("JSONRPC 1.0 at https://a/r", Some(OTHER_CASE)))),
            ("https://a/r", "http+json", "1.0", Ok(("HTTP+JSON 1.0 at https://a/r", Some(OTHER_CASE)))),
            ("https://a", "grpc", "1.0", Ok(("GRPC 1.0 at https://a", Some(OTHER_CASE)))),
            ("https://a/r", "JSONRPC", "1", Ok(("JSONRPC 1.0 at https://a/r", Some(SHORT_VERSION)))),
            ("https://a/r", "JSONRPC", "1.0.0", Ok(("JSONRPC 1.0 at https://a/r", None))),
            ("/r", "JSONRPC", "1.0", Ok(("JSONRPC 1.0 at https://a:8443/r", Some(NO_HOST)))),
            ("//evil/r", "JSONRPC", "1.0", Err("neither https nor http")),
            ("/\\evil/r", "JSONRPC", "1.0", Err("neither https nor http")),
            ("/../r", "JSONRPC", "1.0", Err("neither https nor http")),
            ("r", "JSONRPC", "1.0", Err("neither https nor http")),
            ("", "JSONRPC", "1.0", Err("neither https nor http")),
            ("https://a/r", "JSONRPC", "2", Err("another version")),
        ];
        for (url, binding, version, expected) in table {
            let value =
                of_10(json!([{ "url": url, "protocolBinding": binding, "protocolVersion": version }]));
            let card = Card::read_from(value.clone(), &from).unwrap();
            match (card.pick(None), expected) {
                (Ok(at), Ok((shown, note))) => {
                    assert_eq!((at.to_string().as_str(), card.notes.first().copied()), (shown, note));
                }
                (Err(why), Err(words)) => assert!(why.contains(words), "{value}: {why}"),
                (found, _) => panic!("{value}: {found:?}"),
            }
        }
        // Without the URL of the card there is no host to mean.
        let value = of_10(json!([{ "url": "/r", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }]));
        assert!(Card::read(value).unwrap().pick(None).is_err());
    }

    #[test]
    fn what_is_not_spoken_is_told() {
        let table = [
            (
                of_10(json!([{ "url": "https://a", "protocolBinding": "SOAP", "protocolVersion": "1.0" }])),
                "another binding",
            ),
            (
                of_10(json!([{ "url": "https://a/x", "protocolBinding": "GRPC", "protocolVersion": "1.0" }])),
                "a path",
            ),
            (
                of_10(
                    json!([{ "url": "https://a", "protocolBinding": "JSONRPC", "protocolVersion": "9.1" }]),
                ),
                "another version",
            ),
            (of_10(json!([{ "url": "https://a", "protocolBinding": "JSONRPC" }])), "another version"),
            (
                of_10(json!([{ "url": "ftp://a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }])),
                "neither https nor http",
            ),
            (
                of_10(
                    json!([{ "url": "https://a/?x=1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }]),
                ),
                "a query",
            ),
            (of_10(json!([7, null])), "another binding"),
        ];
        for (card, words) in table {
            let why = Card::read(card.clone()).unwrap().pick(None).unwrap_err();
            assert!(why.contains(words), "{card}: {why}");
        }
        for no_card in
            [json!([]), json!("x"), json!({}), json!({ "name": "a" }), json!({ "url": "https://a" })]
        {
            assert!(Card::read(no_card.clone()).is_err(), "{no_card}");
        }
    }

    /// Several agents may live on one host: the one that was called is the one that is used.
    #[test]
    fn an_interface_that_was_named_is_the_one() {
        let of = |url: &str| json!({ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
        let card = Card::read(of_10(json!([of("https://a/one"), of("https://a/two")]))).unwrap();
        let at = |raw: &str| HttpUrl::parse(raw).unwrap();
        assert_eq!(card.pick(Some(&at("https://a/two"))).unwrap().url().to_string(), "https://a/two");
        let why = card.pick(Some(&at("https://a/three"))).unwrap_err();
        assert!(why.contains("https://a/one, https://a/two"), "{why}");
    }

    /// A12: the way of the card; what could forge a request is not taken.
    #[test]
    fn how_a_secret_is_shown() {
        let with = |scheme: Value, requirement: Value| {
            let mut card = of_10(json!([]));
            card["securitySchemes"] = json!({ "s": scheme });
            card["securityRequirements"] = json!([requirement]);
            credential(&card)
        };
        let needed = json!({ "schemes": { "s": { "list": [] } } });
        let table = [
            (json!({ "httpAuthSecurityScheme": { "scheme": "Bearer" } }), Credential::Bearer),
            (json!({ "httpAuthSecurityScheme": { "scheme": "basic" } }), Credential::Basic),
            (
                json!({ "apiKeySecurityScheme": { "location": "header", "name": "X-API-Key" } }),
                Credential::Header("x-api-key".into()),
            ),
            (json!({ "oauth2SecurityScheme": {} }), Credential::Bearer),
            (
                json!({ "type": "apiKey", "in": "header", "name": "X-Key" }),
                Credential::Header("x-key".into()),
            ),
            (json!({ "type": "http", "scheme": "bearer" }), Credential::Bearer),
        ];
        for (scheme, expected) in table {
            assert_eq!(with(scheme.clone(), needed.clone()), expected, "{scheme}");
            assert_eq!(with(scheme.clone(), json!({ "s": [] })), expected, "{scheme}");
        }
        for (place, name) in
            [("query", "k"), ("cookie", "k"), ("header", "Host"), ("header", "a b"), ("header", "")]
        {
            let scheme = json!({ "apiKeySecurityScheme": { "location": place, "name": name } });
            assert!(matches!(with(scheme, needed.clone()), Credential::Other(_)), "{place} {name}");
        }
        assert_eq!(credential(&of_10(json!([]))), Credential::Bearer);
    }
}
