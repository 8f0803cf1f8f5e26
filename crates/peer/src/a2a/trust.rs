//! Whether a card is what its host has signed (A22, A23).
//!
//! Keys come from the host of the card and from nowhere else: where a signature says that they are somewhere else, they
//! are not fetched, and the signature proves nothing. A key that was seen once is what later cards must be signed with.
//!
//! Not here: keeping keys (`synapse-store`'s remotes).

use super::error::AskError;
use super::find::Found;
use super::url::HttpUrl;
use crate::web;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};
use synapse_a2a::signing::{self, Covers, Jwks, Untrusted};

/// How far a card is to be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Nothing but the connection says whose it is.
    Unsigned,
    /// It has a signature that nothing at its host proves; says why.
    Unproven(String),
    /// By the key with this thumbprint.
    Signed { key: String },
}

/// Sets of keys that are fetched for one card.
const SETS_MAX: usize = 2;

/// Checks the signatures of a card with the keys of its host.
pub async fn check(web: &web::Client, found: &Found) -> Result<Trust, AskError> {
    let claims = signing::claims(&found.card.value);
    if claims.is_empty() {
        return Ok(Trust::Unsigned);
    }
    let mut places: Vec<HttpUrl> = Vec::new();
    for at in claims.iter().filter_map(|claim| HttpUrl::parse(claim.jku.as_deref()?).ok()) {
        if at.origin() == found.at.origin() && !places.contains(&at) && places.len() < SETS_MAX {
            places.push(at);
        }
    }
    if places.is_empty() {
        return Ok(Trust::Unproven("its keys are not at the host of the card".into()));
    }
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut why = String::new();
    for at in places {
        let answer = web.fetch(web::Request::get(&at.to_string())).await?;
        let set: Option<Value> = serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == 200);
        let Some(set) = set else {
            why = format!("{at} has no keys");
            continue;
        };
        match signing::verify(&found.card.value, &Jwks::read(&set, now_s)) {
            // What 1.0 does not know is not covered, and 0.3 is all there is to this one.
            Ok(verified) if verified.covers == Covers::Fields && is_only_03(&found.card.value) => {
                why = "its signature does not cover what version 0.3 says".into();
            }
            Ok(verified) => return Ok(Trust::Signed { key: verified.thumbprint }),
            Err(e @ Untrusted::Broken) => {
                let why = format!("{} is not believed: {e}", found.at);
                return Err(AskError::Distrusted { why });
            }
            Err(e) => why = e.to_string(),
        }
    }
    Ok(Trust::Unproven(why))
}

fn is_only_03(card: &Value) -> bool {
    card["supportedInterfaces"].as_array().is_none_or(Vec::is_empty)
}

impl Trust {
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Signed { key } => Some(key),
            Self::Unsigned | Self::Unproven(_) => None,
        }
    }

    /// Whether a card may take the place of one that was signed by a known key.
    pub fn follows(&self, known: Option<&str>) -> Result<(), String> {
        match (known, self) {
            (None, _) => Ok(()),
            (Some(known), Self::Signed { key }) if key == known => Ok(()),
            (Some(known), Self::Signed { key }) => Err(format!(
                "its card is signed by another key than before ({}, before {})",
                short(key),
                short(known)
            )),
            (Some(known), Self::Unsigned) => {
                Err(format!("its card is not signed any more, and was signed by {}", short(known)))
            }
            (Some(known), Self::Unproven(why)) => Err(format!(
                "its card was signed by {}, and what it has now proves nothing: {why}",
                short(known)
            )),
        }
    }

    pub fn words(&self) -> String {
        match self {
            Self::Unsigned => "not signed".into(),
            Self::Unproven(why) => format!("signed, but not proven: {why}"),
            Self::Signed { key } => format!("signed by {key}"),
        }
    }
}

fn short(key: &str) -> String {
    key.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A22: once signed, always signed by the same.
    #[test]
    fn a_known_key_is_asked_for_again() {
        let signed = |key: &str| Trust::Signed { key: key.into() };
        let table = [
            (None, Trust::Unsigned, ""),
            (None, signed("a"), ""),
            (Some("a"), signed("a"), ""),
            (Some("a"), signed("b"), "another key"),
            (Some("a"), Trust::Unsigned, "not signed any more"),
            (Some("a"), Trust::Unproven("gone".into()), "proves nothing: gone"),
        ];
        for (known, now, words) in table {
            match now.follows(known) {
                Ok(()) => assert_eq!(words, "", "{now:?}"),
                Err(why) => assert!(!words.is_empty() && why.contains(words), "{now:?}: {why}"),
            }
        }
    }
}
