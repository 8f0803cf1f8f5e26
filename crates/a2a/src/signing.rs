//! Signatures of agent cards: JWS (RFC 7515) over canonical JSON (A18–A23).
//!
//! A card that has fields of version 0.3 beside those of 1.0 is signed over both: over the 1.0 fields, which is what a
//! verifier sees that reads the card as 1.0, and over the whole document. Verifying says how much a signature covers.
//!
//! Invariant: a key is used only with the algorithm that is its own, and only by the name that the signed header gives.
//! Not here: fetching keys, which keys to believe (the caller pins them by their thumbprint), files.

mod jwk;

pub use jwk::{Jwks, PublicKey, thumbprint_ec};

use crate::jcs::{self, NoCanon};
use crate::{card, pb};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Map, Value, json};

/// Signatures of one card that are looked at.
const SIGNATURES_MAX: usize = 16;
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// A key that signs: ES256. Its name is the thumbprint of its public half (RFC 7638), so a name cannot mean two keys.
pub struct Key {
    pair: EcdsaKeyPair,
    x: String,
    y: String,
    kid: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("it is no private key for ES256 in PEM (PKCS#8)")]
    Form,
    #[error("the system gave no randomness")]
    Randomness,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.kid)
    }
}

impl Key {
    /// A new key, as the text that `read` takes.
    pub fn make() -> Result<String, BadKey> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| BadKey::Randomness)?;
        let digits = STANDARD.encode(made.as_ref());
        let mut text = format!("{PEM_BEGIN}\n");
        for line in digits.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        Ok(format!("{text}{PEM_END}\n"))
    }

    pub fn read(pem: &str) -> Result<Self, BadKey> {
        let inside = pem.trim().strip_prefix(PEM_BEGIN).and_then(|rest| rest.strip_suffix(PEM_END));
        let digits: String = inside.ok_or(BadKey::Form)?.split_whitespace().collect();
        let pkcs8 = STANDARD.decode(digits).map_err(|_| BadKey::Form)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &SystemRandom::new());
        let pair = pair.map_err(|_| BadKey::Form)?;
        let point = pair.public_key().as_ref();
        let (x, y) = match point.get(1..).map(|both| both.split_at(both.len() / 2)) {
            Some((x, y)) => (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y)),
            None => return Err(BadKey::Form),
        };
        let kid = thumbprint_ec("P-256", &x, &y);
        Ok(Self { pair, x, y, kid })
    }

    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The public half, as others fetch it.
    pub fn jwks(&self) -> Value {
        json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "x": self.x, "y": self.y,
            "kid": self.kid, "alg": "ES256", "use": "sig",
        }]})
    }

    /// A21.
    fn sign(&self, payload: &str, jku: &str) -> Result<pb::AgentCardSignature, BadKey> {
        let head = json!({ "alg": "ES256", "jku": jku, "kid": self.kid, "typ": "JOSE" });
        let protected = URL_SAFE_NO_PAD.encode(head.to_string());
        let input = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload));
        let signed = self.pair.sign(&SystemRandom::new(), input.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signed.map_err(|_| BadKey::Randomness)?);
        Ok(pb::AgentCardSignature { protected, signature, header: None })
    }
}

/// Why a card was not signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSigned {
    #[error("the card cannot be signed: {0}")]
    Canon(#[from] NoCanon),
    #[error("the card cannot be signed: {0}")]
    Key(#[from] BadKey),
    #[error("the card cannot be signed: it is no card of A2A 1.0")]
    NoCard,
}

/// Signs a document in place: over its 1.0 fields, and over all of it where that is more.
pub fn sign(document: &mut Value, key: &Key, jku: &str) -> Result<(), NotSigned> {
    if !document.is_object() {
        return Err(NotSigned::NoCard);
    }
    let forms = forms(document);
    if !forms.iter().any(|form| form.covers == Covers::Fields) {
        return Err(NotSigned::NoCard);
    }
    let mut signatures: Vec<Value> = Vec::new();
    let mut signed: Vec<String> = Vec::new();
    // The 1.0 fields first: some verifiers look no further.
    for form in forms.into_iter().rev() {
        let payload = form.payload?;
        if signed.contains(&payload) {
            continue;
        }
        let made = key.sign(&payload, jku)?;
        signatures.push(json!({ "protected": made.protected, "signature": made.signature }));
        signed.push(payload);
    }
    document["signatures"] = Value::Array(signatures);
    Ok(())
}

/// Signs a card that goes out as it is, without fields of 0.3.
pub fn sign_card(card: &mut pb::AgentCard, key: &Key, jku: &str) -> Result<(), NotSigned> {
    let fields = card::signed_fields(card);
    let plain = jcs::canonical(&fields)?;
    let bare = jcs::canonical(&without_empty(fields))?;
    card.signatures = vec![key.sign(&plain, jku)?];
    if bare != plain {
        card.signatures.push(key.sign(&bare, jku)?);
    }
    Ok(())
}

/// Signs a card of version 0.3 in place: as its Python SDK reads it, and over the whole document.
pub fn sign_old(document: &mut Value, key: &Key, jku: &str) -> Result<(), NotSigned> {
    let payloads =
        [jcs::canonical(&without_defaults_of_03(document.clone())).map(ascii), jcs::canonical(document)];
    let mut signatures: Vec<Value> = Vec::new();
    for payload in payloads {
        let made = key.sign(&payload?, jku)?;
        signatures.push(json!({ "protected": made.protected, "signature": made.signature }));
    }
    document["signatures"] = Value::Array(signatures);
    Ok(())
}

/// The Python SDK of 0.3 verifies a card without what is empty and without what has its default.
fn without_defaults_of_03(mut card: Value) -> Value {
    if let Some(fields) = card.as_object_mut() {
        for (name, default) in [("protocolVersion", "0.3.0"), ("preferredTransport", "JSONRPC")] {
            if fields.get(name).is_some_and(|value| value == default) {
                fields.remove(name);
            }
        }
        let schemes = fields.get_mut("securitySchemes").and_then(Value::as_object_mut);
        for scheme in schemes.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
            scheme.remove("type");
        }
    }
    without_empty(card)
}

/// As Python writes JSON: all but ASCII is escaped.
fn ascii(json: String) -> String {
    if json.is_ascii() {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() * 2);
    for character in json.chars() {
        match character.is_ascii() {
            true => escaped.push(character),
            false => {
                let units = &mut [0; 2];
                for unit in character.encode_utf16(units) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    escaped
}

/// How much of a card a signature covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Covers {
    /// What version 1.0 knows; anything else in the document is not signed.
    Fields,
    /// All but the signatures themselves.
    Document,
}

/// A card whose signature is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub kid: String,
    /// Of the key, whatever it is called (RFC 7638): what a caller pins.
    pub thumbprint: String,
    pub covers: Covers,
}

/// Why a card is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("the card has no signature")]
    Unsigned,
    #[error("the card is signed with {}, and none of these keys is at hand and valid", .kids.join(", "))]
    UnknownKey { kids: Vec<String> },
    #[error(
        "no signature of the card fits what it says; it was changed after it was signed, or by somebody else"
    )]
    Broken,
}

/// What a signature says about itself, before anything of it is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub alg: String,
    pub kid: String,
    /// Where its keys are said to be. Whoever fetches from there checks the address first.
    pub jku: Option<String>,
    protected: String,
    signature: Vec<u8>,
}

/// All signatures of a card that can be read; what else is there is passed over.
pub fn claims(card: &Value) -> Vec<Claim> {
    let list = card.get("signatures").and_then(Value::as_array);
    list.into_iter().flatten().take(SIGNATURES_MAX).filter_map(claim).collect()
}

fn claim(one: &Value) -> Option<Claim> {
    let protected = one.get("protected")?.as_str()?;
    let signature = URL_SAFE_NO_PAD.decode(one.get("signature")?.as_str()?).ok()?;
    let head: Map<String, Value> = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(protected).ok()?).ok()?;
    // What must be understood is not (RFC 7515, 4.1.11).
    if head.contains_key("crit") || head.contains_key("b64") {
        return None;
    }
    let text = |name: &str| head.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Claim {
        alg: text("alg")?,
        kid: text("kid")?,
        jku: text("jku"),
        protected: protected.to_owned(),
        signature,
    })
}

/// A22, A23: one right signature is enough; of several the one that covers most is told.
pub fn verify(card: &Value, keys: &Jwks) -> Result<Verified, Untrusted> {
    let claims = claims(card);
    if claims.is_empty() {
        return Err(Untrusted::Unsigned);
    }
    let forms: Vec<(Covers, String)> = forms(card)
        .into_iter()
        .filter_map(|form| Some((form.covers, URL_SAFE_NO_PAD.encode(form.payload.ok()?))))
        .collect();
    let mut is_known = false;
    let mut best: Option<Verified> = None;
    for claim in &claims {
        for key in keys.named(&claim.kid) {
            is_known = true;
            let fits = |payload: &String| {
                let input = format!("{}.{payload}", claim.protected);
                key.verify(&claim.alg, input.as_bytes(), &claim.signature)
            };
            let Some((covers, _)) = forms.iter().find(|(_, payload)| fits(payload)) else { continue };
            if best.as_ref().is_none_or(|best| best.covers < *covers) {
                let thumbprint = key.thumbprint().to_owned();
                best = Some(Verified { kid: claim.kid.clone(), thumbprint, covers: *covers });
            }
        }
    }
    match (best, is_known) {
        (Some(verified), _) => Ok(verified),
        (None, true) => Err(Untrusted::Broken),
        (None, false) => {
            Err(Untrusted::UnknownKey { kids: claims.into_iter().map(|claim| claim.kid).collect() })
        }
    }
}

/// One way in which a card is signed.
struct Form {
    covers: Covers,
    payload: Result<String, NoCanon>,
}

/// All ways, that which covers most first. The last is how the official Python SDK reads 8.4.1: it drops all that is
/// empty, also what the text keeps.
fn forms(document: &Value) -> Vec<Form> {
    let mut whole = document.clone();
    if let Some(fields) = whole.as_object_mut() {
        fields.remove("signatures");
    }
    let mut forms = vec![Form { covers: Covers::Document, payload: jcs::canonical(&whole) }];
    if let Ok(card) = serde_json::from_value::<pb::AgentCard>(whole) {
        let fields = card::signed_fields(&card);
        let bare = jcs::canonical(&without_empty(fields.clone()));
        forms.push(Form { covers: Covers::Fields, payload: bare });
        forms.push(Form { covers: Covers::Fields, payload: jcs::canonical(&fields) });
    }
    forms
}

/// Without empty texts, lists and objects, from the inside out.
fn without_empty(value: Value) -> Value {
    fn kept(value: Value) -> Option<Value> {
        match value {
            Value::Object(map) => {
                let map: Map<String, Value> =
                    map.into_iter().filter_map(|(name, value)| Some((name, kept(value)?))).collect();
                (!map.is_empty()).then_some(Value::Object(map))
            }
            Value::Array(list) => {
                let list: Vec<Value> = list.into_iter().filter_map(kept).collect();
                (!list.is_empty()).then_some(Value::Array(list))
            }
            Value::String(text) if text.is_empty() => None,
            Value::Null => None,
            other => Some(other),
        }
    }
    kept(value).unwrap_or_else(|| json!({}))
}

#[cfg(test)]
mod tests;
