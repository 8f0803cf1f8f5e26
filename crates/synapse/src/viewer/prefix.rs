//! The configured prefix key, and the notices that name it.
//!
//! Not here: recognising it (`keys`), which values are valid (`synapse-settings`).

use crate::show;
use synapse_holder::terminal::wire::MAIL_WAITS_FOR_KEYS;
use synapse_settings::{Fault, Loaded, Places, PrefixKey};
use synapse_store::home::Home;

const SETTING: &str = "terminal.prefix";
/// The end of the same notice from nodes of version 0.1.0, with a fixed key.
const MAIL_WAITS_BEFORE: &str = "you are typing. Ctrl-b m lets it come now";

/// The prefix key as it appears in the viewer's notices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix(pub(super) Option<PrefixKey>);

impl Prefix {
    /// Reads the setting and ignores faults, which `warn` has printed.
    pub(super) fn of(home: &Home) -> Self {
        Self(settings(home).settings.terminal.prefix)
    }

    /// The notice that another viewer has the keyboard.
    pub(super) fn looking_on(self) -> String {
        let other = "another viewer has the keyboard";
        match self.0.map(PrefixKey::name) {
            Some(key) => format!("{other}: {key} t takes it, {key} d detaches"),
            None => other.to_owned(),
        }
    }

    /// Adds the key to a notice of the node.
    pub(super) fn complete(self, notice: String) -> String {
        let Some(waiting) =
            [MAIL_WAITS_FOR_KEYS, MAIL_WAITS_BEFORE].iter().find_map(|end| notice.strip_suffix(end))
        else {
            return notice;
        };
        match self.0.map(PrefixKey::name) {
            Some(key) => format!("{waiting}{MAIL_WAITS_FOR_KEYS}. {key} m delivers it now"),
            None => format!("{waiting}{MAIL_WAITS_FOR_KEYS}"),
        }
    }
}

/// Warns on standard error if the configured prefix key is invalid. Called before the terminal is
/// raw.
pub fn warn(home: &Home) {
    let is_ours = |fault: &&Fault| fault.key.as_deref().is_none_or(|key| key == SETTING);
    for fault in settings(home).faults.iter().filter(is_ours) {
        let warning = show::paint_err("33", "warning");
        eprintln!("{warning}: {}", show::safe(&fault.to_string()));
    }
}

fn settings(home: &Home) -> Loaded {
    let here = std::env::current_dir().unwrap_or_default();
    synapse_settings::load(&Places::here(home.root(), &here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_name_the_key_that_is_set() {
        let (bracket, none) = (Prefix(PrefixKey::parse("C-]")), Prefix(None));
        let looking_on = "another viewer has the keyboard: Ctrl-] t takes it, Ctrl-] d detaches";
        assert_eq!(bracket.looking_on(), looking_on);
        assert_eq!(none.looking_on(), "another viewer has the keyboard");
        let now = "1 waiting: you are typing. Ctrl-] m delivers it now";
        for notice in ["1 waiting: you are typing", "1 waiting: you are typing. Ctrl-b m lets it come now"] {
            assert_eq!(bracket.complete(notice.to_owned()), now);
            assert_eq!(none.complete(notice.to_owned()), "1 waiting: you are typing");
        }
        assert_eq!(bracket.complete("1 waiting: a draft".into()), "1 waiting: a draft");
    }
}
