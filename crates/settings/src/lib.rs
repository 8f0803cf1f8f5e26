//! Settings: what a person may choose, in `.synapse/settings.json` of the project or of the user.
//!
//! Layers, later ones win: defaults, the user's file, the project's file, the environment. What guards the
//! machine (rights, secrets, network, TLS, audit, the program that notifies the user) is taken from the user's file
//! alone: a project is something one clones, and its agents can write in it. Of the rest it may set what the table
//! says, unless it is trusted.
//!
//! `keys` is the one table of all settings; `kinds` what a value may be; `document` reads one text, `layers` puts
//! several on each other, `disk` brings the texts, `edit` changes one. `fault` is what a person is told. `project` finds
//! and reads a project's `.synapse` folder, also for others; `trust` is the list of files that the user trusts.
//!
//! Invariant: reading and layering touch nothing; only `disk`, `project` and `trust` do.
//! Not here: what the settings mean to a node, and enforcing them.

pub mod disk;
pub mod document;
pub mod edit;
pub mod fault;
pub mod keys;
pub mod kinds;
pub mod layers;
pub mod prefix;
pub mod project;
pub mod trust;
pub mod views;

pub use disk::{Places, load};
pub use fault::{Fault, Faults, Wrong};
pub use keys::{KEYS, Key};
pub use layers::{Loaded, Origin};
pub use prefix::PrefixKey;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// All settings, as used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub a2a: A2a,
    pub card: Card,
    /// What each role may do, by the names of verbs; roles not named here have the rights of agents (REST-4).
    pub rights: BTreeMap<String, Vec<String>>,
    /// Shared secrets, by a name that appears in logs and receipts (REST-5).
    pub secrets: BTreeMap<String, Secret>,
    /// Variables of secrets that are left out because they are not complete.
    pub unused_secret_variables: BTreeSet<String>,
    pub network: Network,
    pub notify: Notify,
    pub provider: Provider,
    pub tls: Tls,
    pub history: History,
    pub limits: Limits,
    pub audit: Audit,
    pub terminal: Terminal,
}

impl Settings {
    /// Variables that hold secrets, used or not. Nothing that an agent starts may inherit them (M6).
    pub fn secret_variables(&self) -> Vec<String> {
        let used = self.secrets.values().filter_map(|secret| secret.env.as_ref());
        used.chain(&self.unused_secret_variables).cloned().collect()
    }

    /// Takes what guards the machine from others: for when a new reading of it cannot be trusted. The variables that the
    /// new reading names may hold secrets all the same.
    pub fn take_guarded(&mut self, from: &Self) {
        let from = from.clone();
        let named = self.secret_variables();
        let Self {
            a2a: _,
            card,
            rights,
            secrets,
            mut unused_secret_variables,
            network,
            notify,
            provider,
            tls,
            history: _,
            limits,
            audit,
            terminal: _,
        } = from;
        unused_secret_variables.extend(named);
        let (a2a, history, terminal) = (self.a2a, self.history, self.terminal);
        *self = Self {
            a2a,
            history,
            terminal,
            card,
            rights,
            secrets,
            unused_secret_variables,
            network,
            notify,
            provider,
            tls,
            limits,
            audit,
        };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct A2a {
    pub flow: Flow,
}

/// Names of the bindings of A2A, for settings and flags.
pub const BINDINGS: &[&str] = &["jsonrpc", "http", "grpc"];

/// Text, data, and the files that people send to agents. A file without a media type is `application/octet-stream`.
const INPUT_MODES: &[&str] = &[
    "text/plain",
    "application/json",
    "application/octet-stream",
    "text/markdown",
    "text/csv",
    "text/html",
    "application/pdf",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
];

/// What agent cards declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Some of `BINDINGS`, the preferred one first.
    pub interfaces: Vec<String>,
    /// Media types of parts that agents accept.
    pub input_modes: Vec<String>,
    /// Media types of what they answer.
    pub output_modes: Vec<String>,
    pub streaming: bool,
    pub push_notifications: bool,
    /// The fields of A2A 0.3 beside those of 1.0, for clients that do not ask for 1.0.
    pub v03: bool,
}

impl Default for Card {
    /// Without gRPC: there is no spelling of its address that all clients accept (A4).
    fn default() -> Self {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            interfaces: list(&["jsonrpc", "http"]),
            input_modes: list(INPUT_MODES),
            output_modes: list(&["text/plain", "application/json"]),
            streaming: true,
            push_notifications: true,
            v03: true,
        }
    }
}

/// Whether `send` waits for the answer (CLI-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// Always; flags are ignored.
    Roundtrip,
    /// Never; flags are ignored.
    Oneway,
    /// The flag decides.
    #[default]
    Auto,
}

impl Flow {
    pub fn parse(raw: &str) -> Option<Self> {
        match raw {
            "roundtrip" => Some(Self::Roundtrip),
            "oneway" => Some(Self::Oneway),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Roundtrip => "roundtrip",
            Self::Oneway => "oneway",
            Self::Auto => "auto",
        }
    }

    pub fn waits(self, response: bool) -> bool {
        match self {
            Self::Roundtrip => true,
            Self::Oneway => false,
            Self::Auto => response,
        }
    }
}

/// A secret that callers on TCP bring as `Authorization: Bearer …`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Secret {
    /// The file it is in (0600; each line is a valid secret, so that old and new overlap), or `env`.
    pub file: Option<PathBuf>,
    /// The variable it is in.
    pub env: Option<String>,
    /// Callers with it have this role.
    pub role: Option<String>,
    /// Callers with it are this agent.
    pub agent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Network {
    /// The address to listen on; loopback if absent.
    pub listen: Option<std::net::IpAddr>,
    /// Addresses and ranges that may call; empty: all that can reach us (REST-6).
    pub allow: Vec<String>,
    /// Names under which this machine is called from elsewhere; the Host header must be one of them.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call from a browser (finding A8).
    pub origins: Vec<String>,
    /// Where others reach us, if something forwards to us.
    pub public_url: Option<String>,
    /// Whether webhooks may be on this machine and in private networks.
    pub push_private: bool,
}

/// How a person hears that an agent waits for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// The program and its arguments; empty: none.
    pub command: Vec<String>,
    /// Attached terminals ring and show a notice.
    pub bell: bool,
}

impl Default for Notify {
    fn default() -> Self {
        Self { command: Vec::new(), bell: true }
    }
}

/// How large what others send may be, and how many tasks may wait for input and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of one message, without its files.
    pub message_bytes_max: u64,
    /// Of all files of one message together.
    pub file_bytes_max: u64,
    /// Of all files that one agent keeps.
    pub files_bytes_max: u64,
    /// Tasks of one agent that wait for input without taking a place of `--parallel` (finding A2).
    pub input_required_max: u64,
    /// How long a task may wait for input.
    pub input_required_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 1 << 20,
            file_bytes_max: 32 << 20,
            files_bytes_max: 1 << 30,
            input_required_max: 64,
            input_required_seconds: 7 * 24 * 3600,
        }
    }
}

/// Whose agents these are, as their cards tell it (A11).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provider {
    pub organization: Option<String>,
    pub url: Option<String>,
}

/// Files of certificates and keys, PEM (REST-8).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Callers must show a certificate of this authority.
    pub client_ca: Option<PathBuf>,
    /// Who the holder of a client certificate is, by a name in it.
    pub identities: BTreeMap<String, Identity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub role: Option<String>,
    pub agent: Option<String>,
}

/// How long what has ended is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    pub days: u32,
    pub tasks_max: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { days: 30, tasks_max: 1_000_000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    pub enabled: bool,
    /// What messages say is written too.
    pub bodies: bool,
    pub file_bytes_max: u64,
    pub files_max: u32,
}

impl Default for Audit {
    fn default() -> Self {
        Self { enabled: true, bodies: false, file_bytes_max: 16 << 20, files_max: 10 }
    }
}

/// What a viewer does of its own in a person's terminal (PTY-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// `@agent …` at an empty composer is a message for that agent.
    pub at: bool,
    /// The person is told of mail that waits because they write.
    pub notices: bool,
    /// The key before a command to the viewer; none if the viewer has no commands.
    pub prefix: Option<PrefixKey>,
}

impl Default for Terminal {
    fn default() -> Self {
        Self { at: true, notices: true, prefix: Some(PrefixKey::default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-7's table: flow, no flag, --response (--no-response is the same as no flag).
    #[test]
    fn the_table_of_flows() {
        let table = [(Flow::Roundtrip, true, true), (Flow::Oneway, false, false), (Flow::Auto, false, true)];
        for (flow, without, with) in table {
            assert_eq!((flow.waits(false), flow.waits(true)), (without, with), "{flow:?}");
            assert_eq!(Flow::parse(flow.name()), Some(flow));
        }
    }
}
