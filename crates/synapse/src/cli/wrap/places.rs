//! Where a CLI keeps its settings and sessions, as variables say: noted at a start, restored by `synapse start`.

use std::collections::BTreeMap;
use std::env::VarError;
use synapse_node::Hand;

/// Variables that say where a CLI has its settings and sessions. None of them is a secret.
const PLACES: [&str; 12] = [
    "AIDER_CHAT_HISTORY_FILE",
    "CLAUDE_CONFIG_DIR",
    "CLINE_DATA_DIR",
    "CLINE_DIR",
    "CLINE_SESSION_DATA_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "OPENCODE_CONFIG_DIR",
    "QWEN_HOME",
    "QWEN_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
];

/// With these variables as they are now, so that a later start has them too.
pub(in super::super) fn with_places(
    mut env: BTreeMap<String, Option<String>>,
) -> BTreeMap<String, Option<String>> {
    for name in PLACES.iter().filter(|name| !env.contains_key(**name)).collect::<Vec<_>>() {
        // One that is not set is noted too: it was a choice as well.
        match std::env::var(name) {
            Ok(value) => env.insert((*name).to_owned(), Some(value)),
            Err(VarError::NotPresent) => env.insert((*name).to_owned(), None),
            Err(VarError::NotUnicode(_)) => None,
        };
    }
    env
}

/// With these variables as they were at an earlier start.
pub(in super::super) fn as_before(
    mut env: BTreeMap<String, Option<String>>,
    before: &BTreeMap<String, Option<String>>,
) -> BTreeMap<String, Option<String>> {
    env.extend(
        before
            .iter()
            .filter(|(name, _)| PLACES.contains(&name.as_str()))
            .map(|(k, v)| (k.clone(), v.clone())),
    );
    env
}

/// The variables of an earlier start that a new one restores, where they are not as they are now.
pub(in super::super) fn restored(hand: &Hand) -> Vec<(&'static str, String)> {
    let before = match hand {
        Hand::Terminal(terminal) => &terminal.env,
        Hand::Acp(acp) => &acp.env,
        Hand::Exec(_) | Hand::Echo | Hand::Mailbox => return Vec::new(),
    };
    let differs = |name: &&'static str| {
        let before = before.get(*name)?;
        (std::env::var(name).ok() != *before)
            .then(|| (*name, before.clone().unwrap_or_else(|| "(unset)".to_owned())))
    };
    PLACES.iter().filter_map(differs).collect()
}
