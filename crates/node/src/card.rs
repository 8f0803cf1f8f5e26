//! The agent card of this node: built, signed, and cached while it is valid (A1–A8, A11–A13, A16,
//! A24, A26, DIR-2).
//!
//! A card is built for each request and compared with the previous one. Only a changed card is
//! signed again, so the bytes are stable while nothing changes, and never out of date. Not here:
//! its format and its signatures (`synapse_a2a::card`, `signing`), HTTP headers
//! (`doors/well_known`).

mod describe;

use crate::auth::Peer;
use crate::doors::Shared;
use crate::driver::now;
use crate::launch::{CardOptions, Hand, Launch};
use crate::network::{Plan, authority, has_port};
use axum::extract::Request;
use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use synapse_a2a::card::{self, Binding, Description, Interface, Provider, V03, V10};
use synapse_a2a::check::Version;
use synapse_a2a::extensions::{self, Extension};
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::signing::{self, Key};
use synapse_a2a::to_core::Modes;
use synapse_a2a::{jcs, pb, v03};
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_store::files::{self, Access};
use synapse_store::home::Home;
use tokio::sync::OnceCell;

pub const JSON_RPC: &str = "/api/v1/agent";
const REST: &str = "/a2a/v1";
/// Clients of 0.3 append `/v1/…` themselves.
const REST_03: &str = "/a2a";
pub const SPEC: &str = "/openapi.json";
pub const KEYS: &str = "/.well-known/jwks.json";

/// The maximum number of cached documents. A node has few names; more than this means that somebody
/// invents names.
const MADE_MAX: usize = 32;
const KEY_BYTES_MAX: usize = 4096;

/// The kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// For clients of 1.0 and of 0.3.
    AgentCard,
    /// For readers that reject fields unknown to 1.0.
    StrictCard,
    /// For readers that reject fields unknown to 0.3.
    OldCard,
    AgentJson,
}

/// A document as it is served.
#[derive(Debug)]
pub struct Made {
    /// The document before it was signed.
    unsigned: Value,
    pub bytes: Bytes,
    pub etag: HeaderValue,
    pub modified_s: u64,
}

/// How the node was called: a card must name URLs by which the next call arrives here too.
#[derive(Debug, Clone, Default)]
pub struct Called {
    is_tls: bool,
    host: Option<HeaderValue>,
    /// The extensions that the caller requested.
    extensions: Vec<String>,
}

impl Called {
    /// Reads this from a request whose `Host` has been checked.
    pub fn of(peer: &Peer, request: &Request) -> Self {
        let headers = request.headers();
        let named =
            [extensions::HEADER, extensions::HEADER_03].into_iter().flat_map(|name| headers.get_all(name));
        let extensions = extensions::asked(named.filter_map(|value| value.to_str().ok()));
        match peer {
            Peer::Unix(_) => Self { extensions, ..Self::default() },
            Peer::Tcp(_) => {
                let named = headers.get(header::HOST).cloned();
                let by_uri = || HeaderValue::from_str(request.uri().authority()?.as_str()).ok();
                Self { is_tls: peer.is_tls(), host: named.or_else(by_uri), extensions }
            }
        }
    }

    /// Returns the extensions active for this call, or a fault if a required one was not requested
    /// (V2).
    pub fn active<'a>(&self, cards: &'a Cards) -> Result<Vec<&'a str>, Fault> {
        extensions::active(&cards.extensions, &self.extensions)
    }
}

/// The launch options that a card needs, the key, and the cached documents.
pub struct Cards {
    description: Option<String>,
    hand: Hand,
    endpoint: String,
    mtls: bool,
    open: bool,
    extensions: Vec<Extension>,
    options: CardOptions,
    key: OnceCell<Key>,
    /// Whether the missing key was logged. It is logged once, since anybody can request a card.
    complained: AtomicBool,
    made: Mutex<BTreeMap<(Which, String), Arc<Made>>>,
}

impl Cards {
    pub fn new(launch: &Launch, plan: &Plan, port: u16) -> Self {
        let (description, hand) = (launch.description.clone(), launch.hand.clone());
        let (endpoint, mtls) = (plan.endpoint(port), plan.asks_for_certificates());
        let (key, complained, made) = (OnceCell::new(), AtomicBool::new(false), Mutex::default());
        let (open, extensions) = (launch.listen.open, launch.extensions.clone());
        let options = launch.card.clone();
        Self { description, hand, endpoint, mtls, open, extensions, options, key, complained, made }
    }

    fn made(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Which, String), Arc<Made>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the signing key, created on first use. Without a key, cards are served unsigned
    /// rather than not at all.
    async fn key(&self, home: &Home) -> Option<&Key> {
        let load = || async {
            let home = home.clone();
            let loaded = tokio::task::spawn_blocking(move || load_or_make(&home)).await;
            loaded.unwrap_or_else(|_| Err("the node is stopping".into()))
        };
        match self.key.get_or_try_init(load).await {
            Ok(key) => Some(key),
            Err(why) => {
                if !self.complained.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%why, "the agent card is not signed");
                }
                None
            }
        }
    }
}

/// Loads the key, or creates it. Two nodes may create one at the same time; both then use the one
/// on disk.
fn load_or_make(home: &Home) -> Result<Key, String> {
    let path = home.card_key();
    let told = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    if !path.exists() {
        let fresh = Key::make().map_err(|e| told(&e))?;
        files::create_private(&path, fresh.as_bytes()).map_err(|e| told(&e))?;
    }
    let bytes = files::read_private(&path, KEY_BYTES_MAX, Access::Secret).map_err(|e| told(&e))?;
    let help = "remove it, a new one is made; whoever knew the old one has to trust the agent anew";
    Key::read(&String::from_utf8_lossy(&bytes)).map_err(|e| told(&format!("{e}; {help}")))
}

/// Returns the current document for a caller.
pub async fn document(app: &Shared, called: &Called, which: Which) -> Result<Arc<Made>, Fault> {
    let base = base(app, called);
    let unsigned = unsigned(app, &base, which)?;
    let slot = (which, base);
    if let Some(made) = app.cards.made().get(&slot).filter(|made| made.unsigned == unsigned) {
        return Ok(made.clone());
    }
    let mut document = unsigned.clone();
    let key = app.cards.key(&app.home).await;
    if let Some(key) = key {
        let jku = format!("{}{KEYS}", slot.1);
        let signed = match which {
            Which::OldCard => signing::sign_old(&mut document, key, &jku),
            Which::AgentCard | Which::StrictCard | Which::AgentJson => {
                signing::sign(&mut document, key, &jku)
            }
        };
        signed.map_err(|e| Fault::new(Kind::Internal, e.to_string()))?;
    }
    let text = jcs::canonical(&document).map_err(|e| Fault::new(Kind::Internal, e.to_string()))?;
    let etag = etag(text.as_bytes());
    let made = Arc::new(Made { unsigned, bytes: text.into(), etag, modified_s: now().0 / 1_000 });
    // Without a key it is not cached: the key may exist the next time.
    if key.is_some() {
        let mut all = app.cards.made();
        if all.len() >= MADE_MAX {
            all.clear();
        }
        all.insert(slot, made.clone());
    }
    Ok(made)
}

pub fn etag(bytes: &[u8]) -> HeaderValue {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hex}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"card\""))
}

fn unsigned(app: &Shared, base: &str, which: Which) -> Result<Value, Fault> {
    let description = describe(app, base);
    match which {
        Which::AgentCard => card::document(&description.card()),
        Which::StrictCard => card::strict_document(&description.card()),
        Which::OldCard => v03::write_card(&description.card()),
        Which::AgentJson => {
            // This document is for clients of 0.2, which do not know the mTLS scheme. Anyone who reads
            // it has presented a certificate already.
            let card = Description { mtls: false, ..description }.card();
            let (endpoint, spec) = (format!("{base}{JSON_RPC}"), format!("{base}{SPEC}"));
            card::agent_json(&card, &app.agent.id.to_string(), &endpoint, &spec)
        }
    }
}

/// Returns the extended card for authenticated callers (A16): the agent's name here, its limits,
/// and what this caller may do.
pub async fn extended(app: &Shared, caller: &Caller, called: &Called) -> Result<pb::AgentCard, Fault> {
    if app.cards.open {
        return Err(Fault::new(
            Kind::Unsupported,
            "this agent tells everybody the same; its card is all there is",
        ));
    }
    let rules = app.gate.rules();
    let may = |verb| policy::may(&rules, caller, verb, About::default());
    may(Verb::ReadStatus).map_err(|refusal| Fault::of(&refusal))?;
    let base = base(app, called);
    let mut description = describe(app, &base);
    description.skills.extend(describe::rights(app, |verb| may(verb).is_ok()));
    description.extensions.push(describe::node(app, &app.cards.hand, |verb| may(verb).is_ok()));
    let mut card = description.card();
    if let Some(key) = app.cards.key(&app.home).await {
        let signed = signing::sign_card(&mut card, key, &format!("{base}{KEYS}"));
        signed.map_err(|e| Fault::new(Kind::Internal, e.to_string()))?;
    }
    Ok(card)
}

/// Returns the public half of the signing key; an empty set if there is none.
pub async fn keys(app: &Shared) -> Value {
    app.cards.key(&app.home).await.map_or_else(|| json!({ "keys": [] }), Key::jwks)
}

/// Returns the base URL of this node for a caller.
pub(crate) fn base(app: &Shared, called: &Called) -> String {
    if let Some(url) = app.gate.public_url() {
        return url;
    }
    match called.host.as_ref().and_then(|host| host.to_str().ok()) {
        Some(host) => {
            let scheme = if called.is_tls { "https" } else { "http" };
            format!("{scheme}://{}", host.to_ascii_lowercase())
        }
        None => app.cards.endpoint.clone(),
    }
}

fn describe(app: &Shared, base: &str) -> Description {
    let cards = &app.cards;
    let (about, skills) = describe::skills(app, &cards.hand);
    let Modes { input: input_modes, output: output_modes } = modes(app);
    Description {
        name: app.agent.label(),
        description: cards.description.clone().filter(|text| !text.trim().is_empty()).unwrap_or(about),
        version: env!("CARGO_PKG_VERSION").into(),
        provider: provider(app),
        interfaces: interfaces(base, &bindings(app)),
        input_modes,
        output_modes,
        skills,
        mtls: cards.mtls,
        open: cards.open,
        streaming: declares_streaming(app),
        push_notifications: declares_push(app),
        extensions: extensions::on_card(&cards.extensions),
    }
}

/// Returns the card for a requested version. A client that names none may be of 0.3, as CrewAI and
/// Strands are.
pub fn for_version(app: &Shared, asked: Option<Version>) -> Which {
    match asked {
        Some(Version::V10) => Which::StrictCard,
        Some(Version::V03) => Which::OldCard,
        None if app.settings.get().card.v03 => Which::AgentCard,
        None => Which::StrictCard,
    }
}

pub fn declares_streaming(app: &Shared) -> bool {
    !app.cards.options.no_streaming && app.settings.get().card.streaming
}

pub fn declares_push(app: &Shared) -> bool {
    !app.cards.options.no_push && app.settings.get().card.push_notifications
}

/// Returns the provider only if it is complete (A11).
fn provider(app: &Shared) -> Option<Provider> {
    let set = app.settings.get().provider.clone();
    Some(Provider { organization: set.organization?, url: set.url? })
}

/// Returns the media types of the agent: those given at its start, or else those in the settings.
pub fn modes(app: &Shared) -> Modes {
    let (options, settings) = (&app.cards.options, app.settings.get());
    let chosen = |own: &[String], set: &[String]| if own.is_empty() { set.to_vec() } else { own.to_vec() };
    Modes {
        input: chosen(&options.input_modes, &settings.card.input_modes),
        output: chosen(&options.output_modes, &settings.card.output_modes),
    }
}

/// Returns the bindings that the card lists: those given at its start, or else those in the
/// settings.
fn bindings(app: &Shared) -> Vec<Binding> {
    let started_with = &app.cards.options.interfaces;
    let settings = app.settings.get();
    let words = if started_with.is_empty() { &settings.card.interfaces } else { started_with };
    words.iter().filter_map(|word| Binding::parse(word)).collect()
}

/// Lists interfaces in order of preference, first all of 1.0, then all of 0.3 (A6–A8). A card has
/// at least one interface.
fn interfaces(base: &str, bindings: &[Binding]) -> Vec<Interface> {
    let at = |version: &'static str| {
        move |binding: &Binding| {
            let url = match (binding, version) {
                (Binding::JsonRpc, _) => format!("{base}{JSON_RPC}"),
                (Binding::HttpJson, V03) => format!("{base}{REST_03}"),
                (Binding::HttpJson, _) => format!("{base}{REST}"),
                (Binding::Grpc, _) => grpc(base)?,
            };
            Some(Interface { url, binding: binding.on_card(), version })
        }
    };
    let of = |bindings: &[Binding]| -> Vec<Interface> {
        let all = [V10, V03].into_iter().flat_map(|version| bindings.iter().filter_map(at(version)));
        all.collect()
    };
    let chosen = of(bindings);
    if chosen.is_empty() { of(&[Binding::JsonRpc]) } else { chosen }
}

/// Returns a gRPC target, which is a host and a port. gRPC cannot be reached below a path.
fn grpc(base: &str) -> Option<String> {
    let (scheme, rest) = base.split_once("://")?;
    let host = authority(base);
    let port = if scheme == "https" { 443 } else { 80 };
    match rest.contains('/') {
        true => None,
        false if has_port(host) => Some(host.to_owned()),
        false => Some(format!("{host}:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Binding; 3] = [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];

    fn shown(base: &str, bindings: &[Binding]) -> Vec<String> {
        let all = interfaces(base, bindings);
        all.iter().map(|one| format!("{} {} {}", one.binding, one.version, one.url)).collect()
    }

    /// Measured A4: only the chosen bindings, in that order; never none.
    #[test]
    fn only_chosen_bindings_are_listed() {
        let base = "https://box.example/review";
        assert_eq!(
            shown(base, &[Binding::HttpJson]),
            [format!("HTTP+JSON 1.0 {base}/a2a/v1"), format!("HTTP+JSON 0.3 {base}/a2a")]
        );
        assert!(shown("http://box:1", &[Binding::Grpc, Binding::JsonRpc])[0].starts_with("GRPC"));
        assert!(shown(base, &[Binding::Grpc])[0].starts_with("JSONRPC"), "gRPC has no paths");
    }

    /// A6: each interface has its URL; gRPC only where it is reachable.
    #[test]
    fn interfaces_of_a_base() {
        let shown = |base: &str| shown(base, &ALL);
        let all = [
            "JSONRPC 1.0 http://localhost:8100/api/v1/agent",
            "HTTP+JSON 1.0 http://localhost:8100/a2a/v1",
            "GRPC 1.0 localhost:8100",
            "JSONRPC 0.3 http://localhost:8100/api/v1/agent",
            "HTTP+JSON 0.3 http://localhost:8100/a2a",
            "GRPC 0.3 localhost:8100",
        ];
        assert_eq!(shown("http://localhost:8100"), all);
        assert_eq!(shown("https://box.example")[2], "GRPC 1.0 box.example:443");
        assert_eq!(shown("http://[::1]:8100")[2], "GRPC 1.0 [::1]:8100");
        assert_eq!(shown("https://box.example/review").len(), 4);
        assert_eq!(shown("https://box.example/review")[1], "HTTP+JSON 1.0 https://box.example/review/a2a/v1");
    }

    #[test]
    fn a_key_is_made_once_and_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path(), dir.path().join("registry"));
        let first = load_or_make(&home).unwrap();
        assert_eq!(load_or_make(&home).unwrap().kid(), first.kid());
        let mode = std::fs::metadata(home.card_key()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(home.card_key(), "damaged").unwrap();
        let told = load_or_make(&home).unwrap_err();
        assert!(told.contains("card.key") && told.contains("remove it"), "{told}");
        std::fs::set_permissions(home.card_key(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(load_or_make(&home).is_err(), "others can read it");
    }
}
