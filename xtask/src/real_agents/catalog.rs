//! The CLIs of others: which version, what each needs to start without a question, and its keys.

use std::path::Path;

use anyhow::Context;
use serde_json::json;

/// One CLI.
#[derive(Debug)]
pub(super) struct Cli {
    /// Of its profile, and of its command.
    pub name: &'static str,
    /// What npm calls it.
    pub package: &'static str,
    pub version: &'static str,
    /// After those of the profile.
    pub args: &'static [&'static str],
    /// A text that is shown while it asks for a permission, and only then.
    pub question: &'static str,
    /// The key that allows it once.
    pub allow: &'static str,
    /// How often Esc is pressed to stop a turn.
    pub escapes: usize,
    /// What an answer is read from that nobody gave with a command of ours.
    pub answers_from: &'static str,
    /// The step of the receipt that it gives proof of: what its program itself tells is seen.
    pub proves: &'static str,
    prepare: fn(&Place<'_>) -> Prepared,
}

/// Where a CLI is going to run.
pub(super) struct Place<'a> {
    pub folder: &'a Path,
    /// Of the mock.
    pub port: u16,
}

/// What it finds there.
pub(super) struct Prepared {
    /// Below its home.
    pub files: Vec<(&'static str, String)>,
    pub env: Vec<(&'static str, String)>,
}

impl Cli {
    pub fn prepare(&self, place: &Place<'_>) -> Prepared {
        (self.prepare)(place)
    }
}

pub(super) fn find(name: &str) -> anyhow::Result<&'static Cli> {
    let names: Vec<&str> = ALL.iter().map(|cli| cli.name).collect();
    ALL.iter()
        .find(|cli| cli.name == name)
        .with_context(|| format!("{name:?} is none of {}", names.join(", ")))
}

pub(super) const ALL: &[Cli] = &[
    Cli {
        name: "codex",
        package: "@openai/codex",
        version: "0.166.0",
        args: &[],
        question: "Press enter to confirm",
        allow: "y",
        escapes: 1,
        answers_from: "hook",
        proves: "seen",
        prepare: codex,
    },
    Cli {
        name: "claude",
        package: "@anthropic-ai/claude-code",
        version: "2.1.325",
        // Its own choice is a mode in which tools run without a question.
        args: &["--permission-mode", "default"],
        question: "Do you want to proceed?",
        allow: "1",
        escapes: 1,
        answers_from: "hook",
        proves: "seen",
        prepare: claude,
    },
    Cli {
        name: "gemini",
        package: "@google/gemini-cli",
        version: "0.61.0",
        args: &[],
        question: "● 1. Allow once",
        allow: "\r",
        escapes: 1,
        answers_from: "log",
        proves: "submitted",
        prepare: gemini,
    },
    Cli {
        name: "opencode",
        package: "opencode-ai",
        version: "1.18.33",
        args: &[],
        question: "Permission required",
        allow: "\r",
        escapes: 2,
        answers_from: "server",
        proves: "seen",
        prepare: opencode,
    },
];

/// A key of nobody. Some CLIs look at its length.
const KEY: &str = "sk-mock-0000000000000000000000000000";

fn codex(place: &Place<'_>) -> Prepared {
    let config = format!(
        "model = \"mock\"\n\
         model_provider = \"mock\"\n\
         check_for_update_on_startup = false\n\
         approval_policy = \"on-request\"\n\
         sandbox_mode = \"workspace-write\"\n\
         [model_providers.mock]\n\
         name = \"mock\"\n\
         base_url = \"http://127.0.0.1:{}/v1\"\n\
         wire_api = \"responses\"\n\
         env_key = \"MOCK_KEY\"\n\
         [projects.{:?}]\n\
         trust_level = \"trusted\"\n",
        place.port, place.folder
    );
    Prepared { files: vec![(".codex/config.toml", config)], env: vec![("MOCK_KEY", KEY.into())] }
}

fn claude(place: &Place<'_>) -> Prepared {
    let folder = place.folder.to_string_lossy();
    let end_of_key = &KEY[KEY.len() - 20..];
    let state = json!({
        "hasCompletedOnboarding": true,
        "customApiKeyResponses": { "approved": [end_of_key], "rejected": [] },
        "projects": { folder: { "hasTrustDialogAccepted": true } },
    });
    // As a setting: variables of this name do not reach a CLI that is wrapped.
    let settings = json!({ "env": { "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" } });
    Prepared {
        files: vec![(".claude.json", state.to_string()), (".claude/settings.json", settings.to_string())],
        env: vec![
            ("ANTHROPIC_API_KEY", KEY.into()),
            ("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", place.port)),
            ("DISABLE_AUTOUPDATER", "1".into()),
        ],
    }
}

fn gemini(place: &Place<'_>) -> Prepared {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
        "general": { "disableAutoUpdate": true, "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
    });
    Prepared {
        files: vec![(".gemini/settings.json", settings.to_string())],
        env: vec![
            ("GEMINI_API_KEY", KEY.into()),
            ("GOOGLE_GEMINI_BASE_URL", format!("http://127.0.0.1:{}", place.port)),
        ],
    }
}

fn opencode(place: &Place<'_>) -> Prepared {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "mock",
        "options": { "baseURL": format!("http://127.0.0.1:{}/v1", place.port), "apiKey": KEY },
        "models": { "mock": { "name": "mock" } },
    });
    let config = json!({
        "model": "mock/mock",
        "small_model": "mock/mock",
        "provider": { "mock": provider },
        "permission": { "bash": "ask" },
        "autoupdate": false,
    });
    Prepared { files: vec![(".config/opencode/opencode.json", config.to_string())], env: vec![] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cli_is_told_where_its_model_is() {
        let place = Place { folder: Path::new("/srv/w"), port: 4711 };
        for cli in ALL {
            let prepared = cli.prepare(&place);
            let files = prepared.files.iter().map(|(_, text)| text);
            let env = prepared.env.iter().map(|(_, text)| text);
            assert!(files.chain(env).any(|text| text.contains("127.0.0.1:4711")), "{}", cli.name);
        }
    }
}
