//! The CLIs of others: which version, what each needs to start without a question, and its keys.

use std::path::Path;

use anyhow::bail;
use serde_json::json;

/// One CLI.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cli {
    /// Of its profile, and of its command.
    pub name: &'static str,
    pub source: Source,
    pub version: &'static str,
    /// After those of the profile.
    pub args: &'static [&'static str],
    /// A text that is shown while it asks for a permission, and only then.
    pub question: &'static str,
    /// The key that allows it once.
    pub allow: &'static str,
    /// The key that denies it.
    pub deny: &'static str,
    /// Its model is told what came of a permission, and goes on.
    pub continues: bool,
    /// The keys that stop a turn, with a pause between them.
    pub stop: &'static [&'static str],
    /// What an answer is read from that nobody gave with a command of ours.
    pub answers_from: &'static str,
    /// The step of the receipt that it gives proof of: what its program itself tells is seen.
    pub proves: &'static str,
    /// Steps that it cannot do.
    pub without: &'static [&'static str],
    /// In a terminal with fewer rows its questions may be cut, and are not approved with a command.
    pub approve_rows_min: u16,
    prepare: fn(&Place<'_>) -> Prepared,
}

/// Where a CLI comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// What npm calls it, and packages that it needs beside it, with their versions.
    Npm { package: &'static str, beside: &'static [&'static str] },
    /// What pip calls it.
    Pip { package: &'static str },
}

const fn npm(package: &'static str) -> Source {
    Source::Npm { package, beside: &[] }
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

/// Finds a CLI by its name, or by `name@version`. Of a version that is not in the list, all else is taken to be as in
/// the newest that is.
pub(super) fn find(name: &str) -> anyhow::Result<&'static Cli> {
    let (wanted, version) =
        name.split_once('@').map_or((name, None), |(name, version)| (name, Some(version)));
    let names: Vec<String> = ALL.iter().map(|cli| format!("{}@{}", cli.name, cli.version)).collect();
    let known = |cli: &&Cli| cli.name == wanted && version.is_none_or(|version| cli.version == version);
    let newest = ALL.iter().find(|cli| cli.name == wanted);
    match (ALL.iter().find(known), newest, version) {
        (Some(cli), _, _) => Ok(cli),
        // A few, for as long as this runs.
        (None, Some(cli), Some(version)) => {
            Ok(Box::leak(Box::new(Cli { version: String::leak(version.to_owned()), ..*cli })))
        }
        _ => bail!("{name:?} is none of {}", names.join(", ")),
    }
}

pub(super) const ESCAPE: &str = "\u{1b}";

// tidy: table
pub(super) const ALL: &[Cli] = &[
    Cli {
        name: "codex",
        source: npm("@openai/codex"),
        version: "0.166.0",
        args: &[],
        question: "Press enter to confirm",
        allow: "y",
        deny: ESCAPE,
        continues: true,
        stop: &[ESCAPE],
        answers_from: "hook",
        proves: "seen",
        without: &[],
        approve_rows_min: 0,
        prepare: codex,
    },
    Cli {
        name: "claude",
        source: npm("@anthropic-ai/claude-code"),
        version: "2.1.325",
        // Its own choice is a mode in which tools run without a question.
        args: &["--permission-mode", "default"],
        question: "Do you want to proceed?",
        allow: "1",
        deny: ESCAPE,
        continues: true,
        stop: &[ESCAPE],
        answers_from: "hook",
        proves: "seen",
        without: &[],
        approve_rows_min: 0,
        prepare: claude,
    },
    Cli {
        name: "gemini",
        source: npm("@google/gemini-cli"),
        version: "0.61.0",
        args: &[],
        question: "● 1. Allow once",
        allow: "\r",
        deny: ESCAPE,
        continues: true,
        stop: &[ESCAPE],
        answers_from: "log",
        proves: "submitted",
        without: &[],
        approve_rows_min: 0,
        prepare: gemini,
    },
    Cli {
        name: "opencode",
        source: npm("opencode-ai"),
        version: "1.18.33",
        args: &[],
        question: "Permission required",
        allow: "\r",
        deny: ESCAPE,
        continues: true,
        stop: &[ESCAPE, ESCAPE],
        answers_from: "server",
        proves: "seen",
        without: &[],
        approve_rows_min: 0,
        prepare: opencode,
    },
    Cli {
        name: "copilot",
        source: npm("@github/copilot"),
        version: "1.0.102",
        args: &["--no-auto-update"],
        question: "Do you want to run this command?",
        allow: "1",
        deny: ESCAPE,
        continues: true,
        stop: &[ESCAPE, ESCAPE],
        answers_from: "log",
        proves: "submitted",
        without: &[],
        approve_rows_min: 0,
        prepare: copilot,
    },
    Cli {
        name: "qwen",
        // The Node that others here use is too old for it.
        source: Source::Npm { package: "@qwen-code/qwen-code", beside: &["node@22"] },
        version: "0.24.4",
        args: &["--approval-mode", "default"],
        question: "Allow execution",
        allow: "1",
        deny: ESCAPE,
        continues: true,
        stop: &[ESCAPE],
        answers_from: "log",
        proves: "submitted",
        without: &[],
        approve_rows_min: 0,
        prepare: qwen,
    },
    Cli {
        name: "qwen",
        source: npm("@qwen-code/qwen-code"),
        version: "0.15.10",
        args: &["--approval-mode", "default"],
        question: "Allow execution",
        allow: "1",
        deny: ESCAPE,
        continues: true,
        stop: &[ESCAPE],
        answers_from: "log",
        proves: "submitted",
        without: &[],
        approve_rows_min: 0,
        prepare: qwen,
    },
    Cli {
        name: "cline",
        source: npm("cline"),
        version: "3.0.65",
        args: &["--auto-approve", "false"],
        question: "Cline needs permission",
        allow: "y",
        deny: "n",
        continues: true,
        stop: &[ESCAPE],
        answers_from: "log",
        proves: "submitted",
        without: &[],
        approve_rows_min: 37,
        prepare: cline,
    },
    Cli {
        name: "kilo",
        source: npm("@kilocode/cli"),
        // 7.8.1 needs a package that npm does not have.
        version: "7.7.7",
        args: &[],
        question: "Permission required",
        allow: "\r",
        deny: "\u{1b}[C\u{1b}[C\r\r",
        continues: true,
        stop: &[ESCAPE, ESCAPE],
        answers_from: "server",
        proves: "seen",
        without: &[],
        approve_rows_min: 0,
        prepare: kilo,
    },
    Cli {
        name: "aider",
        source: Source::Pip { package: "aider-chat" },
        version: "0.86.2",
        args: &[
            // A model without tools, as the mock has one.
            "--model=openai/plain",
            "--no-git",
            "--no-check-update",
            "--no-show-release-notes",
            "--no-show-model-warnings",
            "--no-analytics",
        ],
        question: "Run shell command?",
        allow: "y\r",
        deny: "n\r",
        continues: false,
        stop: &["\u{3}"],
        answers_from: "log",
        proves: "submitted",
        // Its model is not asked again after a permission, and nothing is approved from elsewhere. It has one
        // conversation in a folder, so with several of them there none is resumed.
        without: &["two asks", "a2a", "resume"],
        approve_rows_min: 0,
        prepare: aider,
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
    Prepared { files: vec![(".config/opencode/opencode.json", opencode_config(place))], env: vec![] }
}

fn kilo(place: &Place<'_>) -> Prepared {
    Prepared { files: vec![(".config/kilo/kilo.json", opencode_config(place))], env: vec![] }
}

fn opencode_config(place: &Place<'_>) -> String {
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
    config.to_string()
}

fn cline(place: &Place<'_>) -> Prepared {
    const DATE: &str = "2026-11-18T00:00:00.000Z";
    let mock = json!({
        "provider": "openai-compatible",
        "apiKey": KEY,
        "model": "mock",
        "baseUrl": format!("http://127.0.0.1:{}/v1", place.port),
    });
    let providers = json!({
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": { "openai-compatible": { "settings": mock, "updatedAt": DATE, "tokenSource": "manual" } },
    });
    // Otherwise it begins with offers.
    let notices =
        json!({ "shown": { "cline-cli-cline-pass-intro": true, "cline-cli-desktop-launch": true } });
    Prepared {
        files: vec![
            (".cline/data/settings/providers.json", providers.to_string()),
            (".cline/data/settings/cli-notices.json", notices.to_string()),
        ],
        env: vec![],
    }
}

fn copilot(place: &Place<'_>) -> Prepared {
    let config = json!({ "trusted_folders": [place.folder.to_string_lossy()] });
    Prepared {
        files: vec![(".copilot/config.json", config.to_string())],
        env: vec![
            ("COPILOT_OFFLINE", "true".into()),
            ("COPILOT_PROVIDER_BASE_URL", format!("http://127.0.0.1:{}/v1", place.port)),
            ("COPILOT_PROVIDER_API_KEY", KEY.into()),
            ("COPILOT_MODEL", "gpt-5".into()),
        ],
    }
}

fn qwen(place: &Place<'_>) -> Prepared {
    let settings = json!({
        "security": { "auth": { "selectedType": "openai" }, "folderTrust": { "enabled": false } },
        "general": { "disableAutoUpdate": true, "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
        // The one that it brings may not be executable, which it tells with the whole path.
        "tools": { "useRipgrep": false },
        // Turns of its own, in the background.
        "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false },
    });
    Prepared {
        files: vec![(".qwen/settings.json", settings.to_string())],
        env: vec![
            ("OPENAI_API_KEY", KEY.into()),
            ("OPENAI_BASE_URL", format!("http://127.0.0.1:{}/v1", place.port)),
            ("OPENAI_MODEL", "mock".into()),
        ],
    }
}

fn aider(place: &Place<'_>) -> Prepared {
    // In this format it asks about a block of shell commands. Its rules do not belong to what the user said.
    let models = json!([{ "name": "openai/plain", "edit_format": "diff", "reminder": "sys" }]);
    Prepared {
        files: vec![(".aider.model.settings.yml", models.to_string())],
        env: vec![
            ("OPENAI_API_KEY", KEY.into()),
            ("OPENAI_API_BASE", format!("http://127.0.0.1:{}/v1", place.port)),
        ],
    }
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
