//! Settings: what a user may configure, in `.synapse/settings.json` of the project or of the user.
//!
//! Layers, later ones win: defaults, the user's file, the project's file, the environment. Settings
//! that guard the machine (rights, secrets, network, TLS, audit, the program that notifies the
//! user) are read only from the user's file, because projects are cloned and agents can write in
//! them. An untrusted project may only set what the table allows.
//!
//! `keys` is the table of all settings; `kinds` defines values; `document` parses one text;
//! `layers` combines several; `disk` reads the files; `edit` changes one. `fault` describes errors.
//! `project` finds and reads a project's `.synapse` folder, also for other crates; `trust` is the
//! list of files that the user trusts.
//!
//! Invariant: parsing and layering have no side effects; only `disk`, `project`
//! and `trust` touch files.
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
    /// The verbs of each role; roles not named here have the rights of agents (REST-4).
    pub rights: BTreeMap<String, Vec<String>>,
    /// Shared secrets, each under a name that appears in logs and receipts (REST-5).
    pub secrets: BTreeMap<String, Secret>,
    /// Variables of secrets that are left out because they are incomplete.
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
    /// Returns the variables that hold secrets, used or not. No child process of an agent
    /// may inherit them (M6).
    pub fn secret_variables(&self) -> Vec<String> {
        let used = self.secrets.values().filter_map(|secret| secret.env.as_ref());
        used.chain(&self.unused_secret_variables).cloned().collect()
    }

    /// Takes the guarded settings from an earlier load, because a new load of them cannot be
    /// trusted. The variables that the new load names are kept too, since they may hold secrets.
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

/// The names of the A2A bindings, for settings and flags.
pub const BINDINGS: &[&str] = &["jsonrpc", "http", "grpc"];

/// Text, data, and files that people send to agents. A file without a media type is
/// `application/octet-stream`.
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
    /// Some of `BINDINGS`, preferred ones first.
    pub interfaces: Vec<String>,
    /// Media types that agents accept.
    pub input_modes: Vec<String>,
    /// Media types of their answers.
    pub output_modes: Vec<String>,
    pub streaming: bool,
    pub push_notifications: bool,
    /// Whether cards also have the fields of A2A 0.3, for clients that do not ask for 1.0.
    pub v03: bool,
}

impl Default for Card {
    /// Leaves out gRPC, because no spelling of its address works with all clients (A4).
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

/// A secret that callers on TCP send as `Authorization: Bearer …`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Secret {
    /// The file with the secret (mode 0600; each line is a valid secret, so that old and new
    /// overlap). Set this or `env`.
    pub file: Option<PathBuf>,
    /// The environment variable with the secret.
    pub env: Option<String>,
    /// The role of callers with this secret.
    pub role: Option<String>,
    /// The agent that callers with this secret act as.
    pub agent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Network {
    /// The address to listen on; loopback if absent.
    pub listen: Option<std::net::IpAddr>,
    /// Addresses and ranges that may call; if empty, all that can reach this node (REST-6).
    pub allow: Vec<String>,
    /// Names of this machine for callers elsewhere; the Host header must be one of them.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call from a browser (finding A8).
    pub origins: Vec<String>,
    /// The URL at which others reach this node, if a proxy forwards to it.
    pub public_url: Option<String>,
    /// Whether webhooks may call this machine and private networks.
    pub push_private: bool,
}

/// How the user is notified that an agent waits for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// The program and its arguments; empty if there is none.
    pub command: Vec<String>,
    /// Whether attached terminals ring and show a notice.
    pub bell: bool,
}

impl Default for Notify {
    fn default() -> Self {
        Self { command: Vec::new(), bell: true }
    }
}

/// Size limits for what others send, and limits for tasks that wait for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For one message, without its files.
    pub message_bytes_max: u64,
    /// For all files of one message together.
    pub file_bytes_max: u64,
    /// For all files that one agent stores.
    pub files_bytes_max: u64,
    /// The most tasks of one agent that wait for input without taking a place of
    /// `--parallel` (finding A2).
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

/// The provider of these agents, as shown in their cards (A11).
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
    /// The authority that must have signed the certificates of callers.
    pub client_ca: Option<PathBuf>,
    /// The role or agent of each client certificate, by a name in it.
    pub identities: BTreeMap<String, Identity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub role: Option<String>,
    pub agent: Option<String>,
}

/// How long ended tasks are kept.
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
    /// Whether message bodies are written too.
    pub bodies: bool,
    pub file_bytes_max: u64,
    pub files_max: u32,
}

impl Default for Audit {
    fn default() -> Self {
        Self { enabled: true, bodies: false, file_bytes_max: 16 << 20, files_max: 10 }
    }
}

/// What a viewer does in the user's terminal (PTY-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Whether `@agent …` in an empty composer sends a message to that agent.
    pub at: bool,
    /// Whether the user sees a notice about mail that waits because they are typing.
    pub notices: bool,
    /// The key before a viewer command; `None` if the viewer has no commands.
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
