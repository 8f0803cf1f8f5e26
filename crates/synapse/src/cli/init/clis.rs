//! The CLIs that `synapse init` knows: what they are called, which instructions they read, where their settings are.
//!
//! Not here: what is written into these files (`teach`, `register`).

use crate::program;
use crate::register::Form;
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// The programs that read instructions from files.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum AgentCli {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Copilot,
    Qwen,
    Kilo,
}

impl AgentCli {
    pub(in super::super) const ALL: [Self; 7] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode, Self::Copilot, Self::Qwen, Self::Kilo];

    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
            Self::Qwen => "qwen",
            Self::Kilo => "kilo",
        }
    }
}

/// The programs that start servers of tools, by their settings.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum McpCli {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Qwen,
}

impl McpCli {
    pub(super) const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode, Self::Qwen];

    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
        }
    }

    pub(super) fn installed() -> Vec<Self> {
        Self::ALL.into_iter().filter(|cli| program::on_path(cli.command()).is_some()).collect()
    }

    pub(super) fn form(self) -> Form {
        match self {
            Self::Claude => Form::Claude,
            Self::Codex => Form::Codex,
            // Qwen Code comes from Gemini CLI.
            Self::Gemini | Self::Qwen => Form::Gemini,
            Self::Opencode => Form::Opencode,
        }
    }

    pub(super) fn file(self, base: &Path, user: bool) -> PathBuf {
        match (self, user) {
            (Self::Claude, false) => base.join(".mcp.json"),
            // In the folder, if there is one of its own; else beside it.
            (Self::Claude, true) => {
                own_folder("CLAUDE_CONFIG_DIR").unwrap_or_else(|| base.to_owned()).join(".claude.json")
            }
            (Self::Codex, false) => base.join(".codex/config.toml"),
            (Self::Codex, true) => {
                own_folder("CODEX_HOME").unwrap_or_else(|| base.join(".codex")).join("config.toml")
            }
            (Self::Gemini, _) => base.join(".gemini/settings.json"),
            (Self::Qwen, false) => base.join(".qwen/settings.json"),
            (Self::Qwen, true) => {
                own_folder("QWEN_HOME").unwrap_or_else(|| base.join(".qwen")).join("settings.json")
            }
            (Self::Opencode, false) => with_comments(base.join("opencode.json")),
            (Self::Opencode, true) => {
                let config = own_folder("XDG_CONFIG_HOME").unwrap_or_else(|| base.join(".config"));
                with_comments(config.join("opencode/opencode.json"))
            }
        }
    }
}

/// Its settings may be called `.jsonc`.
fn with_comments(file: PathBuf) -> PathBuf {
    let other = file.with_extension("jsonc");
    if other.is_file() && !file.exists() { other } else { file }
}

pub(super) fn project_file(base: &Path, cli: &AgentCli) -> PathBuf {
    base.join(match cli {
        AgentCli::Claude => "CLAUDE.md",
        AgentCli::Gemini => "GEMINI.md",
        AgentCli::Qwen => "QWEN.md",
        AgentCli::Codex | AgentCli::Opencode | AgentCli::Copilot | AgentCli::Kilo => "AGENTS.md",
    })
}

pub(super) fn user_file(base: &Path, cli: &AgentCli) -> PathBuf {
    let folder = |variable: &str, default: &str| own_folder(variable).unwrap_or_else(|| base.join(default));
    match cli {
        AgentCli::Claude => folder("CLAUDE_CONFIG_DIR", ".claude").join("CLAUDE.md"),
        AgentCli::Codex => folder("CODEX_HOME", ".codex").join("AGENTS.md"),
        AgentCli::Gemini => base.join(".gemini/GEMINI.md"),
        AgentCli::Opencode => folder("XDG_CONFIG_HOME", ".config").join("opencode/AGENTS.md"),
        AgentCli::Copilot => base.join(".copilot/copilot-instructions.md"),
        AgentCli::Qwen => folder("QWEN_HOME", ".qwen").join("QWEN.md"),
        AgentCli::Kilo => folder("XDG_CONFIG_HOME", ".config").join("kilo/AGENTS.md"),
    }
}

/// The folder that a variable names.
fn own_folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
}
