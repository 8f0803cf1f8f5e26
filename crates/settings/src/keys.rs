//! The table of all settings: path, allowed values, who may set it, and its help.
//!
//! Parsing, errors, `config show`, the JSON Schema and the settings page come from this table,
//! so a new setting is one row here and one field in `Settings`. A `*` in a path is a name
//! that the user chooses.
//!
//! Invariant: a path has at most one `*`, and a row's `write` stores what its `read` returns.
//! Not here: the format of each kind of value (`kinds`).
// tidy: table

mod project_may;

pub use project_may::ProjectMay;

use crate::kinds::{Kind, Value};
use crate::prefix::{NO_PREFIX, PrefixKey};
use crate::{BINDINGS, Flow, Settings};
use synapse_core::routes::distance;

/// One row of the table.
#[derive(Debug)]
pub struct Key {
    pub path: &'static str,
    pub kind: Kind,
    /// Guards the machine: only the user's own file may set it.
    pub guarded: bool,
    /// What an untrusted project may do with it.
    pub project: ProjectMay,
    pub help: &'static str,
    read: fn(&Settings) -> Option<Value>,
    write: fn(&mut Settings, &str, Value),
}

impl Key {
    /// Returns its path with the name in place of the `*`.
    pub fn named(&self, name: &str) -> String {
        self.path.replacen('*', name, 1)
    }

    /// Returns it as help texts show it: `rights.<ROLE>`.
    pub fn shown(&self) -> String {
        self.path.replacen('*', self.placeholder(), 1)
    }

    fn placeholder(&self) -> &'static str {
        if self.path.starts_with("rights.") { "<ROLE>" } else { "<NAME>" }
    }

    pub fn is_open(&self) -> bool {
        self.path.contains('*')
    }

    /// Returns the default value; `None` for keys with a name.
    pub fn default(&self) -> Option<Value> {
        (self.read)(&Settings::default())
    }

    pub(crate) fn put(&self, settings: &mut Settings, name: &str, value: Value) {
        (self.write)(settings, name, value);
    }

    /// Returns the environment variable that sets it. Lists, named and guarded settings have none.
    pub fn variable(&self) -> Option<String> {
        (!self.guarded).then(|| self.variable_name()).flatten()
    }

    /// Like `variable`, but also for guarded keys, where the variable is refused.
    pub(crate) fn variable_name(&self) -> Option<String> {
        let scalar = !self.is_open() && !self.kind.is_list();
        scalar.then(|| format!("SYNAPSE_{}", self.path.to_ascii_uppercase().replace('.', "_")))
    }

    /// Returns the name in a path that matches this row; empty for a row without one.
    fn name_in<'a>(&self, path: &'a str) -> Option<&'a str> {
        match self.path.split_once('*') {
            None => (self.path == path).then_some(""),
            Some((before, after)) => {
                let name = path.strip_prefix(before)?.strip_suffix(after)?;
                (!name.is_empty()).then_some(name)
            }
        }
    }

    /// Returns the steps from the root of a file to this key.
    pub(crate) fn steps<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        self.path.split('.').map(|step| if step == "*" { name } else { step }).collect()
    }
}

/// Finds the row for a path as a person writes it, and the name in it. The name may contain dots,
/// because the parts before and after it are known.
pub fn find(path: &str) -> Option<(&'static Key, &str)> {
    KEYS.iter().find_map(|key| key.name_in(path).map(|name| (key, name)))
}

/// What a path in the tree of settings leads to.
pub(crate) enum Step {
    Key(&'static Key),
    Section,
    Nowhere,
}

/// Looks up a path; `pattern` has a `*` for each name.
pub(crate) fn at(pattern: &str) -> Step {
    if let Some(key) = KEYS.iter().find(|key| key.path == pattern) {
        return Step::Key(key);
    }
    if below(pattern).next().is_some() { Step::Section } else { Step::Nowhere }
}

/// Returns all rows below a section.
pub(crate) fn below(pattern: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| {
        pattern.is_empty() || key.path.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Returns the child names of a section, each once.
pub(crate) fn children(pattern: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = below(pattern)
        .filter_map(|key| {
            let rest = &key.path[pattern.len()..];
            rest.trim_start_matches('.').split('.').next()
        })
        .collect();
    names.dedup();
    names
}

/// Returns the setting that was probably meant, as a full path.
pub fn nearest(pattern: &str, wrong: &str) -> Option<String> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wanted = plain(&wrong.chars().take(64).collect::<String>());
    let near = |name: &str| {
        let far = distance(&plain(name), &wanted);
        (far <= 1 + wanted.chars().count() / 4).then_some(far)
    };
    let siblings = children(pattern).into_iter().filter(|name| *name != "*");
    let sibling = siblings.filter_map(|name| Some((near(name)?, name))).min();
    if let Some((_, name)) = sibling {
        return Some(if pattern.is_empty() { name.to_owned() } else { format!("{pattern}.{name}") });
    }
    // Under another section, or with its path as one word.
    let whole = if pattern.is_empty() { wanted.clone() } else { format!("{}.{wanted}", plain(pattern)) };
    let fits = |key: &&Key| {
        plain(key.path) == whole || key.path.rsplit('.').next().map(plain).as_ref() == Some(&wanted)
    };
    let elsewhere = KEYS.iter().find(fits).map(Key::shown);
    elsewhere.or_else(|| {
        let far = KEYS.iter().map(|key| (distance(&plain(key.path), &whole), key));
        far.filter(|(distance, _)| *distance <= 2)
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, key)| key.shown())
    })
}

/// The verbs that a role may be given, in order of growing weight. `approve` is missing:
/// only the user may.
pub const VERBS: &[&str] =
    &["read_status", "read", "message", "reply", "interrupt", "assign", "report", "cancel"];
pub(crate) const APPROVE: &str = "approve";

pub static KEYS: &[Key] = &[
    Key {
        path: "a2a.flow",
        kind: Kind::Choice(&["roundtrip", "oneway", "auto"]),
        guarded: false,
        project: ProjectMay::Set,
        help: "Whether `send` waits for the answer: always, never, or as its flags say",
        read: |s| Some(Value::Text(s.a2a.flow.name().to_owned())),
        write: |s, _, value| s.a2a.flow = Flow::parse(&value.text()).unwrap_or_default(),
    },
    Key {
        path: "card.interfaces",
        kind: Kind::Words(BINDINGS),
        guarded: true,
        project: ProjectMay::Never,
        help: "Which bindings of A2A agent cards list, the preferred one first",
        read: |s| Some(Value::List(s.card.interfaces.clone())),
        write: |s, _, value| s.card.interfaces = value.list(),
    },
    Key {
        path: "card.input_modes",
        kind: Kind::MediaTypes,
        guarded: true,
        project: ProjectMay::Never,
        help: "Media types that agents accept over A2A; parts of other types are refused",
        read: |s| Some(Value::List(s.card.input_modes.clone())),
        write: |s, _, value| s.card.input_modes = value.list(),
    },
    Key {
        path: "card.output_modes",
        kind: Kind::MediaTypes,
        guarded: true,
        project: ProjectMay::Never,
        help: "Media types that agents answer in over A2A",
        read: |s| Some(Value::List(s.card.output_modes.clone())),
        write: |s, _, value| s.card.output_modes = value.list(),
    },
    Key {
        path: "card.streaming",
        kind: Kind::Bool,
        guarded: true,
        project: ProjectMay::Never,
        help: "Whether agent cards declare streaming; without it, streams are refused",
        read: |s| Some(Value::Bool(s.card.streaming)),
        write: |s, _, value| s.card.streaming = value.truth(),
    },
    Key {
        path: "card.push_notifications",
        kind: Kind::Bool,
        guarded: true,
        project: ProjectMay::Never,
        help: "Whether agent cards declare push notifications; without it, webhooks are refused",
        read: |s| Some(Value::Bool(s.card.push_notifications)),
        write: |s, _, value| s.card.push_notifications = value.truth(),
    },
    Key {
        path: "card.v03",
        kind: Kind::Bool,
        guarded: true,
        project: ProjectMay::Never,
        help: "Whether agent cards carry the fields of A2A 0.3 too, unless a client asks for 1.0",
        read: |s| Some(Value::Bool(s.card.v03)),
        write: |s, _, value| s.card.v03 = value.truth(),
    },
    Key {
        path: "history.days",
        kind: Kind::Number { min: 7, max: 3650 },
        guarded: false,
        project: ProjectMay::Raise,
        help: "How many days ended tasks and their messages are kept",
        read: |s| Some(Value::Number(s.history.days.into())),
        write: |s, _, value| s.history.days = value.small(),
    },
    Key {
        path: "history.tasks_max",
        kind: Kind::Number { min: 1_000, max: 100_000_000 },
        guarded: false,
        project: ProjectMay::Raise,
        help: "How many ended tasks of an agent are kept; more go early, but never within seven days",
        read: |s| Some(Value::Number(s.history.tasks_max)),
        write: |s, _, value| s.history.tasks_max = value.number(),
    },
    Key {
        path: "limits.message_bytes_max",
        kind: Kind::Number { min: 64 << 10, max: 32 << 20 },
        guarded: true,
        project: ProjectMay::Never,
        help: "How large a message may be without its files, bytes; agents that run take it up when they restart",
        read: |s| Some(Value::Number(s.limits.message_bytes_max)),
        write: |s, _, value| s.limits.message_bytes_max = value.number(),
    },
    Key {
        path: "limits.file_bytes_max",
        kind: Kind::Number { min: 64 << 10, max: 1 << 30 },
        guarded: true,
        project: ProjectMay::Never,
        help: "How large the files of one A2A message may be together, bytes",
        read: |s| Some(Value::Number(s.limits.file_bytes_max)),
        write: |s, _, value| s.limits.file_bytes_max = value.number(),
    },
    Key {
        path: "limits.files_bytes_max",
        kind: Kind::Number { min: 1 << 20, max: 1 << 40 },
        guarded: true,
        project: ProjectMay::Never,
        help: "How much room the files of all messages of one agent may take, bytes",
        read: |s| Some(Value::Number(s.limits.files_bytes_max)),
        write: |s, _, value| s.limits.files_bytes_max = value.number(),
    },
    Key {
        path: "limits.input_required_max",
        kind: Kind::Number { min: 1, max: 1_000 },
        guarded: true,
        project: ProjectMay::Never,
        help: "How many tasks of an agent may wait for input beside those that `--parallel` counts; takes effect at its next start",
        read: |s| Some(Value::Number(s.limits.input_required_max)),
        write: |s, _, value| s.limits.input_required_max = value.number(),
    },
    Key {
        path: "limits.input_required_seconds",
        kind: Kind::Number { min: 1, max: 31_536_000 },
        guarded: true,
        project: ProjectMay::Never,
        help: "How long a task may wait for input before it fails, seconds; takes effect at the agent's next start",
        read: |s| Some(Value::Number(s.limits.input_required_seconds)),
        write: |s, _, value| s.limits.input_required_seconds = value.number(),
    },
    Key {
        path: "terminal.at",
        kind: Kind::Bool,
        guarded: false,
        project: ProjectMay::TurnOff,
        help: "Whether `@agent …`, typed at the empty composer of a program, is a message for that agent",
        read: |s| Some(Value::Bool(s.terminal.at)),
        write: |s, _, value| s.terminal.at = value.truth(),
    },
    Key {
        path: "terminal.notices",
        kind: Kind::Bool,
        guarded: false,
        project: ProjectMay::TurnOn,
        help: "Whether you are told on the last line that mail waits because you are typing",
        read: |s| Some(Value::Bool(s.terminal.notices)),
        write: |s, _, value| s.terminal.notices = value.truth(),
    },
    Key {
        path: "terminal.prefix",
        kind: Kind::PrefixKey,
        guarded: false,
        project: ProjectMay::OnceTrusted,
        help: "The key before a command to an attached terminal: `d` detaches, `t` takes the keyboard, `m` delivers waiting mail",
        read: |s| {
            Some(Value::Text(s.terminal.prefix.map_or_else(|| NO_PREFIX.to_owned(), |key| key.to_string())))
        },
        write: |s, _, value| s.terminal.prefix = PrefixKey::parse(&value.text()),
    },
    Key {
        path: "rights.*",
        kind: Kind::Verbs,
        guarded: true,
        project: ProjectMay::Never,
        help: "What agents of this role may do; a role that is not named has the rights of every agent",
        read: |_| None,
        write: |s, name, value| drop(s.rights.insert(name.to_owned(), value.list())),
    },
    Key {
        path: "secrets.*.file",
        kind: Kind::Path,
        guarded: true,
        project: ProjectMay::Never,
        help: "The file with this secret, for you alone (0600); each of its lines is valid, so that an old and a new one overlap",
        read: |_| None,
        write: |s, name, value| s.secrets.entry(name.to_owned()).or_default().file = Some(value.path()),
    },
    Key {
        path: "secrets.*.env",
        kind: Kind::Variable,
        guarded: true,
        project: ProjectMay::Never,
        help: "The variable with this secret, in place of a file",
        read: |_| None,
        write: |s, name, value| s.secrets.entry(name.to_owned()).or_default().env = Some(value.text()),
    },
    Key {
        path: "secrets.*.role",
        kind: Kind::Label,
        guarded: true,
        project: ProjectMay::Never,
        help: "Callers with this secret have this role",
        read: |_| None,
        write: |s, name, value| s.secrets.entry(name.to_owned()).or_default().role = Some(value.text()),
    },
    Key {
        path: "secrets.*.agent",
        kind: Kind::Label,
        guarded: true,
        project: ProjectMay::Never,
        help: "Callers with this secret are this agent",
        read: |_| None,
        write: |s, name, value| s.secrets.entry(name.to_owned()).or_default().agent = Some(value.text()),
    },
    Key {
        path: "network.listen",
        kind: Kind::Address,
        guarded: true,
        project: ProjectMay::Never,
        help: "The address to listen on; unset: this machine alone",
        read: |s| s.network.listen.map(|at| Value::Text(at.to_string())),
        write: |s, _, value| s.network.listen = value.text().parse().ok(),
    },
    Key {
        path: "network.allow",
        kind: Kind::Ranges,
        guarded: true,
        project: ProjectMay::Never,
        help: "Addresses and ranges that may call; empty: all that can reach this machine",
        read: |s| Some(Value::List(s.network.allow.clone())),
        write: |s, _, value| s.network.allow = value.list(),
    },
    Key {
        path: "network.hosts",
        kind: Kind::Hosts,
        guarded: true,
        project: ProjectMay::Never,
        help: "Names under which others call this machine; the Host of a request must be one of them",
        read: |s| Some(Value::List(s.network.hosts.clone())),
        write: |s, _, value| s.network.hosts = value.list(),
    },
    Key {
        path: "network.origins",
        kind: Kind::Origins,
        guarded: true,
        project: ProjectMay::Never,
        help: "Web pages that may call agents from a browser, by origin (CORS); empty: none",
        read: |s| Some(Value::List(s.network.origins.clone())),
        write: |s, _, value| s.network.origins = value.list(),
    },
    Key {
        path: "network.public_url",
        kind: Kind::Url,
        guarded: true,
        project: ProjectMay::Never,
        help: "Where others reach the agent if something forwards to it; its agent card tells this address",
        read: |s| s.network.public_url.clone().map(Value::Text),
        write: |s, _, value| s.network.public_url = Some(value.text()),
    },
    Key {
        path: "network.push_private",
        kind: Kind::Bool,
        guarded: true,
        project: ProjectMay::Never,
        help: "Whether push notifications may go to this machine and to private networks, where others cannot reach",
        read: |s| Some(Value::Bool(s.network.push_private)),
        write: |s, _, value| s.network.push_private = value.truth(),
    },
    Key {
        path: "notify.command",
        kind: Kind::Command,
        guarded: true,
        project: ProjectMay::Never,
        help: "The program that is started when an agent begins to wait for you; what it asks is in SYNAPSE_NOTIFY_TEXT",
        read: |s| Some(Value::Command(s.notify.command.clone())),
        write: |s, _, value| s.notify.command = value.list(),
    },
    Key {
        path: "notify.bell",
        kind: Kind::Bool,
        guarded: true,
        project: ProjectMay::Never,
        help: "Whether your attached terminals ring and name an agent that begins to wait for you",
        read: |s| Some(Value::Bool(s.notify.bell)),
        write: |s, _, value| s.notify.bell = value.truth(),
    },
    Key {
        path: "provider.organization",
        kind: Kind::Line,
        guarded: true,
        project: ProjectMay::Never,
        help: "Whose agents these are, as agent cards tell it; needs `provider.url`",
        read: |s| s.provider.organization.clone().map(Value::Text),
        write: |s, _, value| s.provider.organization = Some(value.text()),
    },
    Key {
        path: "provider.url",
        kind: Kind::Url,
        guarded: true,
        project: ProjectMay::Never,
        help: "Where to read more about that organization",
        read: |s| s.provider.url.clone().map(Value::Text),
        write: |s, _, value| s.provider.url = Some(value.text()),
    },
    Key {
        path: "tls.cert",
        kind: Kind::Path,
        guarded: true,
        project: ProjectMay::Never,
        help: "The certificate of this machine, PEM; needs `tls.key`",
        read: |s| s.tls.cert.clone().map(Value::Path),
        write: |s, _, value| s.tls.cert = Some(value.path()),
    },
    Key {
        path: "tls.key",
        kind: Kind::Path,
        guarded: true,
        project: ProjectMay::Never,
        help: "The key of that certificate, PEM",
        read: |s| s.tls.key.clone().map(Value::Path),
        write: |s, _, value| s.tls.key = Some(value.path()),
    },
    Key {
        path: "tls.client_ca",
        kind: Kind::Path,
        guarded: true,
        project: ProjectMay::Never,
        help: "Callers must show a certificate of this authority, PEM",
        read: |s| s.tls.client_ca.clone().map(Value::Path),
        write: |s, _, value| s.tls.client_ca = Some(value.path()),
    },
    Key {
        path: "tls.identities.*.role",
        kind: Kind::Label,
        guarded: true,
        project: ProjectMay::Never,
        help: "The holder of a client certificate with this name has this role",
        read: |_| None,
        write: |s, name, value| {
            s.tls.identities.entry(name.to_owned()).or_default().role = Some(value.text())
        },
    },
    Key {
        path: "tls.identities.*.agent",
        kind: Kind::Label,
        guarded: true,
        project: ProjectMay::Never,
        help: "The holder of a client certificate with this name is this agent",
        read: |_| None,
        write: |s, name, value| {
            s.tls.identities.entry(name.to_owned()).or_default().agent = Some(value.text())
        },
    },
    Key {
        path: "audit.enabled",
        kind: Kind::Bool,
        guarded: true,
        project: ProjectMay::Never,
        help: "Whether who did what is written to the audit log",
        read: |s| Some(Value::Bool(s.audit.enabled)),
        write: |s, _, value| s.audit.enabled = value.truth(),
    },
    Key {
        path: "audit.bodies",
        kind: Kind::Bool,
        guarded: true,
        project: ProjectMay::Never,
        help: "Whether the audit log has what messages say too",
        read: |s| Some(Value::Bool(s.audit.bodies)),
        write: |s, _, value| s.audit.bodies = value.truth(),
    },
    Key {
        path: "audit.file_bytes_max",
        kind: Kind::Number { min: 16 << 10, max: 1 << 30 },
        guarded: true,
        project: ProjectMay::Never,
        help: "How large a file of the audit log may be, bytes",
        read: |s| Some(Value::Number(s.audit.file_bytes_max)),
        write: |s, _, value| s.audit.file_bytes_max = value.number(),
    },
    Key {
        path: "audit.files_max",
        kind: Kind::Number { min: 1, max: 1_000 },
        guarded: true,
        project: ProjectMay::Never,
        help: "How many files of the audit log are kept",
        read: |s| Some(Value::Number(s.audit.files_max.into())),
        write: |s, _, value| s.audit.files_max = value.small(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for key in KEYS.iter().filter(|key| !key.is_open()) {
            let mut settings = Settings::default();
            let value = key.kind.example();
            key.put(&mut settings, "", value.clone());
            assert_eq!((key.read)(&settings), Some(value), "{}", key.path);
        }
        for key in KEYS.iter().filter(|key| key.is_open()) {
            let mut settings = Settings::default();
            key.put(&mut settings, "x", key.kind.example());
            assert_ne!(settings, Settings::default(), "{}", key.path);
        }
    }

    #[test]
    fn what_guards_the_machine_is_guarded() {
        for key in KEYS {
            let harmless = ["a2a.", "history.", "terminal."].iter().any(|part| key.path.starts_with(part));
            assert_eq!(key.guarded, !harmless, "{}", key.path);
            assert_eq!(key.guarded, key.project == ProjectMay::Never, "{}", key.path);
            let reaches_out = matches!(
                key.kind,
                Kind::Path
                    | Kind::Variable
                    | Kind::Url
                    | Kind::Address
                    | Kind::Hosts
                    | Kind::Ranges
                    | Kind::Origins
                    | Kind::Command
            );
            assert!(!reaches_out || key.guarded, "H3: {} names a program, a file or an address", key.path);
            assert!(key.path.matches('*').count() <= 1);
            assert!(!key.help.ends_with('.') && key.help.starts_with(char::is_uppercase), "{}", key.help);
        }
    }

    /// Finding H3: without trust, a project can only make a setting more restrictive.
    #[test]
    fn untrusted_projects_only_make_settings_more_careful() {
        use Value::{Bool, Number};
        for (may, old, new, allowed) in [
            (ProjectMay::Raise, Number(30), Number(31), true),
            (ProjectMay::Raise, Number(30), Number(30), true),
            (ProjectMay::Raise, Number(30), Number(29), false),
            (ProjectMay::TurnOn, Bool(false), Bool(true), true),
            (ProjectMay::TurnOn, Bool(true), Bool(false), false),
            (ProjectMay::TurnOff, Bool(true), Bool(false), true),
            (ProjectMay::TurnOff, Bool(false), Bool(true), false),
            (ProjectMay::OnceTrusted, Number(1), Number(2), false),
            (ProjectMay::OnceTrusted, Number(1), Number(1), true),
            (ProjectMay::Never, Number(1), Number(1), false),
        ] {
            assert_eq!(may.allows(Some(&old), &new), allowed, "{may:?} {old:?} {new:?}");
        }
    }

    #[test]
    fn names_with_dots_are_found() {
        let found = |path| find(path).map(|(key, name)| (key.path, name));
        assert_eq!(found("a2a.flow"), Some(("a2a.flow", "")));
        assert_eq!(found("rights.Lead.2"), Some(("rights.*", "Lead.2")));
        assert_eq!(
            found("tls.identities.ci.example.org.role"),
            Some(("tls.identities.*.role", "ci.example.org"))
        );
        for path in ["", "a2a", "rights.", "secrets.ci", "secrets..file", "a2a.flow.x"] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn the_nearest_setting_is_named() {
        let table = [
            ("", "a2", Some("a2a")),
            ("", "netwrok", Some("network")),
            ("a2a", "flwo", Some("a2a.flow")),
            ("a2a", "Flow", Some("a2a.flow")),
            ("", "flow", Some("a2a.flow")),
            ("", "a2a.flow", Some("a2a.flow")),
            ("history", "day", Some("history.days")),
            ("history", "tasksMax", Some("history.tasks_max")),
            ("tls", "certificate", None),
            ("", "colour", None),
            ("secrets.*", "fil", Some("secrets.*.file")),
        ];
        for (pattern, wrong, expected) in table {
            assert_eq!(nearest(pattern, wrong).as_deref(), expected, "{pattern} {wrong}");
        }
    }

    #[test]
    fn letters_between_words() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "", 3), ("flow", "flwo", 1), ("a", "b", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
