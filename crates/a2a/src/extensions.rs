//! Extensions of the protocol that an agent knows (V2–V4): which of them a caller asks for, and which it must.
//!
//! What an extension means is between the caller and the agent's program, which sees the URIs in the message. An URI that
//! is not known here is ignored; there is no other version that it could stand for.

use crate::fault::{Fault, Kind};
use crate::pb;
use serde::{Deserialize, Serialize};

/// One that the agent knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    pub uri: String,
    /// Callers that do not know it are refused.
    #[serde(default)]
    pub required: bool,
}

/// What callers name it in; a header may come several times, and each may have several (J3).
pub const HEADER: &str = "a2a-extensions";
/// What clients of 0.3 name it in.
pub const HEADER_03: &str = "x-a2a-extensions";

/// More than this are not looked at.
const ASKED_MAX: usize = 64;

/// The URIs in these headers.
pub fn asked<'a>(headers: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all = headers.flat_map(|header| header.split(','));
    all.map(str::trim).filter(|uri| !uri.is_empty()).take(ASKED_MAX).map(str::to_owned).collect()
}

/// Those that hold for a request, or the fault if one that must is not among those that its caller knows.
pub fn active<'a>(known: &'a [Extension], asked: &[String]) -> Result<Vec<&'a str>, Fault> {
    let is_asked = |one: &&Extension| asked.contains(&one.uri);
    if let Some(missing) = known.iter().find(|one| one.required && !is_asked(one)) {
        let message = format!("this agent needs the extension {}; name it in A2A-Extensions", missing.uri);
        let field = Some("A2A-Extensions".to_owned());
        return Err(Fault { field, ..Fault::new(Kind::ExtensionRequired, message) });
    }
    Ok(known.iter().filter(is_asked).map(|one| one.uri.as_str()).collect())
}

/// As a card tells them.
pub fn on_card(known: &[Extension]) -> Vec<pb::AgentExtension> {
    let one = |one: &Extension| pb::AgentExtension {
        uri: one.uri.clone(),
        required: one.required,
        ..pb::AgentExtension::default()
    };
    known.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(uri: &str, required: bool) -> Extension {
        Extension { uri: uri.into(), required }
    }

    /// V2, V3, V4, J3.
    #[test]
    fn extensions_that_are_asked_for() {
        let all = [known("urn:a", false), known("urn:b", true)];
        let asked_in = |headers: &[&str]| asked(headers.iter().copied());
        assert_eq!(asked_in(&["urn:b , urn:x", "", "urn:a,"]), ["urn:b", "urn:x", "urn:a"]);
        assert_eq!(active(&all, &asked_in(&["urn:b, urn:x"])).unwrap(), ["urn:b"]);
        assert_eq!(active(&all, &asked_in(&["urn:a,urn:b"])).unwrap(), ["urn:a", "urn:b"]);
        // Another version of one is another one.
        for wrong in [&[][..], &["urn:a"], &["urn:b/v2"], &["URN:B"]] {
            let fault = active(&all, &asked_in(wrong)).unwrap_err();
            assert_eq!(fault.kind, Kind::ExtensionRequired, "{wrong:?}");
        }
        assert!(active(&[], &asked_in(&["urn:a"])).unwrap().is_empty());
        assert_eq!(asked_in(&[&"urn:a,".repeat(1_000)]).len(), ASKED_MAX);
    }
}
