//! The launch file: the configuration of a node, written by `synapse run` and read at every start.
//!
//! A restarted node reads the same file, so it is the same agent with the same hand.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
pub use synapse_a2a::extensions::Extension;
use synapse_core::agents::Agent;
use synapse_core::ids::{AgentId, AgentType, Label};
use synapse_terminal::quiet::{TypeWhen, runs_commands};
use synapse_terminal::session_log::LogFormat;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    pub id: AgentId,
    #[serde(rename = "type")]
    pub kind: AgentType,
    #[serde(default)]
    pub name: Option<Label>,
    /// Distinguishes it from other agents of its type in its folder.
    #[serde(default)]
    pub suffix: Option<String>,
    #[serde(default)]
    pub role: Option<Label>,
    #[serde(default)]
    pub capabilities: Vec<Label>,
    /// The user's description of its purpose.
    #[serde(default)]
    pub description: Option<String>,
    /// A2A extensions that its program supports.
    #[serde(default)]
    pub extensions: Vec<Extension>,
    /// What its card declares, where that overrides the settings.
    #[serde(default)]
    pub card: CardOptions,
    pub working_dir: PathBuf,
    pub hostname: String,
    /// The requested port; otherwise the last one, or the first free from 8100 up.
    #[serde(default)]
    pub port: Option<u16>,
    /// Network options given at the start; the rest is in the settings.
    #[serde(default)]
    pub listen: Listen,
    pub hand: Hand,
}

/// What the card of one agent declares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardOptions {
    /// Bindings by their names in the settings, the preferred one first; empty: as in
    /// `card.interfaces`.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Media types that it accepts; empty: as in `card.input_modes`.
    #[serde(default)]
    pub input_modes: Vec<String>,
    /// Media types of its answers; empty: as in `card.output_modes`.
    #[serde(default)]
    pub output_modes: Vec<String>,
    /// Do not declare streaming, whatever the settings say.
    #[serde(default)]
    pub no_streaming: bool,
    /// Do not declare push notifications.
    #[serde(default)]
    pub no_push: bool,
}

/// Where and how the agent is reachable by TCP (REST-8). Paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Names under which callers know this machine.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Its URL behind a proxy.
    #[serde(default)]
    pub public_url: Option<String>,
    /// Allows plain HTTP from other machines.
    #[serde(default)]
    pub insecure: bool,
    /// Allows anyone on this machine to give it tasks over A2A, without a token.
    #[serde(default)]
    pub open: bool,
    #[serde(default)]
    pub cert: Option<PathBuf>,
    #[serde(default)]
    pub key: Option<PathBuf>,
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// What does the agent's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hand {
    /// One process per task.
    Exec(Exec),
    /// No program: each message is answered with itself.
    Echo,
    /// A program that joins, takes messages from its mailbox and stays connected.
    Mailbox,
    /// A program in a terminal, which the holder keeps.
    Terminal(InTerminal),
    /// A program without a terminal that speaks the Agent Client Protocol.
    Acp(OverAcp),
}

impl Hand {
    /// Whether its program speaks in lines, so that an answer may be a message without a task.
    pub fn answers_directly(&self) -> bool {
        match self {
            Self::Exec(exec) => exec.jsonl,
            Self::Mailbox => true,
            Self::Echo | Self::Terminal(_) | Self::Acp(_) => false,
        }
    }
}

/// A program that speaks the Agent Client Protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverAcp {
    pub argv: Vec<String>,
    /// Variables to set, or to remove if there is no value.
    #[serde(default)]
    pub env: BTreeMap<String, Option<String>>,
    /// The binary that serves as its MCP server.
    pub synapse: PathBuf,
}

/// A program in a terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InTerminal {
    pub argv: Vec<String>,
    /// The user's arguments after those of the profile; `None` if the user gave all of `argv`.
    #[serde(default)]
    pub given: Option<Vec<String>>,
    /// The profile as text. It is used until its file has a different valid profile.
    pub profile: String,
    /// The profile of an untrusted project, as text: only its more careful settings apply.
    #[serde(default)]
    pub project_profile: Option<String>,
    /// Where its project was searched for; the working folder if absent.
    #[serde(default)]
    pub profile_folder: Option<PathBuf>,
    /// Variables to set, or to remove if there is no value.
    #[serde(default)]
    pub env: BTreeMap<String, Option<String>>,
    /// What the program reports besides its screen.
    #[serde(default)]
    pub tells: Tells,
    /// The session that its command line names: a new one with an id that we chose, or an earlier one.
    #[serde(default)]
    pub session: Option<String>,
    /// It is started with an earlier conversation.
    #[serde(default)]
    pub resumes: bool,
    /// When to type messages although its profile has no composer; otherwise as its profile says.
    #[serde(default)]
    pub type_when: Option<TypeWhen>,
    pub columns: u16,
    pub rows: u16,
    /// The colours of text and background in the terminal it was started from: red, green and blue.
    #[serde(default)]
    pub colours: Option<([u8; 3], [u8; 3])>,
}

impl InTerminal {
    /// Whether its program is a shell, also behind a symbolic link: it would run each message as a
    /// command.
    pub fn is_shell(&self, folder: &std::path::Path) -> bool {
        let Some(program) = self.argv.first() else { return false };
        // Another program may start it, such as `nice bash`.
        if self.argv.iter().any(|word| runs_commands(word)) {
            return true;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut files = std::env::split_paths(&path).map(|dir| dir.join(program));
        let file = if program.contains('/') {
            Some(folder.join(program))
        } else {
            files.find(|file| file.is_file())
        };
        let real = file.and_then(|file| file.canonicalize().ok());
        runs_commands(program) || real.is_some_and(|real| real.to_str().is_some_and(runs_commands))
    }
}

/// How a program in a terminal reports its state besides its screen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tells {
    /// No known way.
    #[default]
    Nothing,
    /// There is a way, but it is not used, for this reason.
    Unused(String),
    /// It runs our hook program for its events.
    ClaudeHooks,
    CodexHooks,
    /// It has its own server at this loopback port; guarded by our key if we chose the port.
    OpencodeServer {
        port: u16,
        guarded: bool,
    },
    /// It always records its sessions in files below this folder.
    SessionLog {
        format: LogFormat,
        folder: PathBuf,
    },
}

impl Tells {
    /// Whether it reports the prompts it receives.
    pub fn names_prompts(&self) -> bool {
        matches!(self, Self::ClaudeHooks | Self::CodexHooks | Self::OpencodeServer { .. })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    /// Run by `sh -c`.
    pub command: String,
    /// Events, one JSON per line, in both directions.
    pub jsonl: bool,
    /// The maximum number of concurrent tasks.
    pub parallel: usize,
    #[serde(default)]
    pub time_limit_ms: Option<u64>,
    pub output_limit: u64,
    /// How many earlier turns of its conversation the command gets with a message.
    #[serde(default)]
    pub history: usize,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

impl Launch {
    pub fn agent(&self, port: Option<u16>) -> Agent {
        Agent {
            id: self.id,
            kind: self.kind.clone(),
            name: self.name.clone(),
            role: self.role.clone(),
            capabilities: self.capabilities.clone(),
            port,
        }
    }
}
