//! Compatibility between versions of Synapse.
//!
//! The interface level is a small number that grows when the interface changes in a way that an
//! older program would get wrong. A caller sends the range of levels that it speaks. A node
//! handles a request only if that range overlaps its own; otherwise it refuses before doing
//! anything and says exactly what to upgrade. Callers that send no level (`curl`, third-party
//! programs) are not checked.
//!
//! Not here: the schema of the store, which has a separate version (`synapse-store`'s `schema`).

use crate::error::ErrorBody;
use serde_json::json;
use std::fmt;

/// The levels that this version speaks.
pub const OWN: Levels = Levels { oldest: 1, newest: 1 };
/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The header with the caller's levels in a request, and with the node's
/// newest level in a response.
pub const LEVEL_HEADER: &str = "synapse-api";
/// The header with the version of the program, for people; in requests and responses.
pub const VERSION_HEADER: &str = "synapse-version";

/// The HTTP status for an incompatible caller: Upgrade Required.
pub const UPGRADE_REQUIRED: u16 = 426;
/// The error code for an incompatible caller.
pub const OTHER_VERSION: &str = "other_version";

/// A range of levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    pub oldest: u32,
    pub newest: u32,
}

impl Levels {
    /// Parses `3` or `1-3`.
    pub fn parse(raw: &str) -> Option<Self> {
        let number = |raw: &str| {
            let digits = !raw.is_empty() && raw.len() <= 6 && raw.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| raw.parse::<u32>().ok()).flatten()
        };
        let (oldest, newest) = raw.split_once('-').unwrap_or((raw, raw));
        let levels = Self { oldest: number(oldest)?, newest: number(newest)? };
        (levels.oldest <= levels.newest).then_some(levels)
    }

    fn meets(self, other: Self) -> bool {
        self.oldest <= other.newest && other.oldest <= self.newest
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "{}", self.newest)
        } else {
            write!(f, "{}-{}", self.oldest, self.newest)
        }
    }
}

/// Checks whether a node (`own`, of version `version`) can serve a caller; the refusal says
/// which side to upgrade.
pub fn check_caller(own: Levels, version: &str, caller: Levels, theirs: &str) -> Result<(), ErrorBody> {
    if own.meets(caller) {
        return Ok(());
    }
    let theirs = shown(theirs);
    let help = if caller.newest < own.oldest {
        format!("upgrade the command: install synapse {version} or newer where it was started")
    } else {
        "start the agent's node with the newer version: `synapse upgrade-agents --all`".to_owned()
    };
    let message = format!(
        "the node is synapse {version} (interface {own}) and the caller synapse {theirs} (interface {caller}), \
         which do not understand each other; {help}"
    );
    let mut body = ErrorBody::new(OTHER_VERSION, message);
    body.error.details = Some(json!({
        "node_version": version, "node_api": own.to_string(), "caller_version": theirs,
        "caller_api": caller.to_string(),
    }));
    Err(body)
}

/// Checks a node's response by its two headers; the error names both versions. A node
/// that knows levels has already checked the caller, so this detects an older node, or a
/// server that is not Synapse.
pub fn check_answer(own: Levels, level: Option<&str>, version: Option<&str>) -> Result<(), String> {
    let theirs =
        version.map_or_else(|| "of an unknown version".to_owned(), |v| format!("synapse {}", shown(v)));
    let told = level.map_or_else(|| "none".to_owned(), shown);
    let node = level.and_then(Levels::parse);
    match node {
        Some(node) if node.newest >= own.oldest => Ok(()),
        _ => Err(format!(
            "the node is {theirs} (interface {told}) and this command synapse {VERSION} (interface {own}), \
             which do not understand each other; start the agent's node with this version: \
             `synapse upgrade-agents --all`"
        )),
    }
}

/// Returns the other side's version, shortened and without control characters.
fn shown(raw: &str) -> String {
    let plain: String = raw.chars().filter(|c| c.is_ascii_graphic()).take(32).collect();
    if plain.is_empty() { "of an unknown version".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read() {
        let table = [
            ("1", Some((1, 1))),
            ("1-3", Some((1, 3))),
            ("0", Some((0, 0))),
            ("3-1", None),
            ("", None),
            ("-", None),
            ("1-", None),
            ("+1", None),
            ("1-2-3", None),
            ("9999999", None),
            ("one", None),
        ];
        for (raw, expected) in table {
            let levels = expected.map(|(oldest, newest)| Levels { oldest, newest });
            assert_eq!(Levels::parse(raw), levels, "{raw}");
            if let Some(levels) = levels {
                assert_eq!(Levels::parse(&levels.to_string()), Some(levels));
            }
        }
    }

    /// names the side to upgrade, for every way in which two versions can be incompatible.
    #[test]
    fn a_node_says_who_is_to_be_upgraded() {
        let levels = |(oldest, newest)| Levels { oldest, newest };
        let table = [
            ((1, 1), (1, 1), None),
            ((1, 3), (2, 5), None),
            ((2, 5), (1, 2), None),
            ((3, 3), (1, 4), None),
            ((3, 4), (1, 2), Some("install synapse 4.0.0 or newer")),
            ((1, 2), (3, 4), Some("synapse upgrade-agents --all")),
        ];
        for (node, caller, help) in table {
            let said = check_caller(levels(node), "4.0.0", levels(caller), "9.9.9");
            let said = said.err().map(|body| body.error.message);
            match (&said, help) {
                (None, None) => {}
                (Some(said), Some(help)) => {
                    for word in ["4.0.0", "9.9.9", help] {
                        assert!(said.contains(word), "{word} is not in {said}");
                    }
                }
                _ => panic!("{node:?} and {caller:?}: {said:?}"),
            }
        }
    }

    #[test]
    fn an_answer_without_a_level_is_of_an_older_node() {
        let own = Levels { oldest: 2, newest: 3 };
        let table = [
            (Some("2"), Some("1.0.0"), true),
            (Some("9"), Some("8.0.0"), true),
            (Some("1"), Some("0.1.0"), false),
            (Some("x"), Some("0.1.0"), false),
            (None, Some("0.1.0"), false),
            (None, None, false),
        ];
        for (level, version, is_well) in table {
            let said = check_answer(own, level, version);
            assert_eq!(said.is_ok(), is_well, "{level:?} {version:?}");
            if let Err(said) = said {
                assert!(said.contains(version.unwrap_or("unknown")) && said.contains(VERSION), "{said}");
                assert!(said.contains("upgrade-agents"), "{said}");
            }
        }
        let hostile = check_answer(own, Some("1"), Some("\u{1b}[2J evil")).unwrap_err();
        assert!(!hostile.contains('\u{1b}'), "{hostile:?}");
    }

    #[test]
    fn we_understand_ourselves() {
        assert_eq!(Levels::parse(&OWN.to_string()), Some(OWN));
        assert!(check_caller(OWN, VERSION, OWN, VERSION).is_ok());
        assert_eq!(check_answer(OWN, Some(&OWN.newest.to_string()), Some(VERSION)), Ok(()));
    }
}
