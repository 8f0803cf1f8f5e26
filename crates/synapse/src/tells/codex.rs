//! Hooks for Codex, as command-line arguments: what Codex is to run, and that this is trusted.
//!
//! Codex runs only hooks that its user has trusted, and remembers their hashes. Its command line
//! counts like the user's settings, for this start only. So the arguments that add our hooks also
//! add their hashes. Other hooks, of the user, of the project or of plugins, are neither trusted
//! nor changed by that.
//!
//! A wrong hash would make Codex ask the person at every start. So an untested version is first
//! asked whether it would trust such hooks: its app server lists them.

use super::{ask, quoted};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::path::Path;
use synapse_node::launch::Tells;
use synapse_terminal::Profile;
use synapse_terminal::profile::version_in;

/// The events that Codex reports, and their names in its list of trusted hooks.
const EVENTS: [(&str, &str); 2] = [("UserPromptSubmit", "user_prompt_submit"), ("Stop", "stop")];
/// After this, Codex continues without the hook program, which exits long before.
const TIMEOUT_S: u64 = 5;
/// Codex's name for settings from the command line.
const SOURCE: &str = "/<session-flags>/config.toml";

/// Whether Codex can run our hooks without asking its user.
pub(super) fn choose(profile: &Profile, argv: &[String]) -> Tells {
    if sets_hooks(argv) {
        return Tells::Unused("it was started with hooks of its own on the command line".into());
    }
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let said = ask::version(profile, program).unwrap_or_default();
    if profile.version.is_tested(&said) == Some(true) || trusts(program) {
        return Tells::CodexHooks;
    }
    let version = version_in(&said).unwrap_or("a version that it does not tell");
    Tells::Unused(format!(
        "how hooks are trusted is known of {}, and this is {version}",
        profile.version.tested.join(", ")
    ))
}

/// Whether Codex says that it would run hooks like ours without asking.
fn trusts(program: &str) -> bool {
    let words = [words(Path::new("/synapse"), Path::new("/agent")), vec!["app-server".to_owned()]].concat();
    let here = std::env::current_dir().unwrap_or_default();
    let client = json!({ "name": "synapse", "title": "Synapse", "version": env!("CARGO_PKG_VERSION") });
    let requests = [
        json!({ "id": 1, "method": "initialize", "params": { "clientInfo": client } }),
        json!({ "method": "initialized" }),
        json!({ "id": 2, "method": "hooks/list", "params": { "cwds": [here] } }),
    ];
    let Some(answer) = ask::answered(program, &words, &requests) else { return false };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let hooks: Vec<Value> =
        list(&answer["result"]["data"]).iter().flat_map(|folder| list(&folder["hooks"])).collect();
    let is_trusted = |key: &str| {
        let place = format!("{SOURCE}:{key}:0:0");
        let ours = hooks.iter().find(|hook| hook["key"] == place.as_str());
        ours.is_some_and(|hook| hook["enabled"] == true && hook["trustStatus"] == "trusted")
    };
    EVENTS.iter().all(|(_, key)| is_trusted(key))
}

/// Whether `-c hooks…` is among the arguments.
fn sets_hooks(argv: &[String]) -> bool {
    let mut words = argv.iter().skip(1).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let setting = match word.as_str() {
            "-c" | "--config" => words.next().map(String::as_str),
            word => word.strip_prefix("--config=").or_else(|| word.strip_prefix("-c")),
        };
        let key = setting.and_then(|setting| setting.trim_start_matches('=').split(['=', '.']).next());
        if key.is_some_and(|key| key.trim() == "hooks") {
            return true;
        }
    }
    false
}

/// The arguments that make Codex run our hook program.
pub(super) fn words(synapse: &Path, dir: &Path) -> Vec<String> {
    let command = format!("{} __hook {} >/dev/null 2>&1 || :", quoted(synapse), quoted(dir));
    let text = |text: &str| toml_edit::Value::from(text).to_string();
    let mut words = Vec::new();
    let mut trusted = Vec::new();
    for (name, key) in EVENTS {
        let hook = format!("{{type=\"command\",command={},timeout={TIMEOUT_S}}}", text(&command));
        words.extend(["-c".to_owned(), format!("hooks.{name}=[{{hooks=[{hook}]}}]")]);
        let place = text(&format!("{SOURCE}:{key}:0:0"));
        trusted.push(format!("{place}={{trusted_hash={}}}", text(&hash(key, &command))));
    }
    words.extend(["-c".to_owned(), format!("hooks.state={{{}}}", trusted.join(","))]);
    words
}

/// The hash of a hook that Codex trusts: of its JSON with sorted keys.
fn hash(key: &str, command: &str) -> String {
    let command = serde_json::Value::from(command);
    let hook = format!(r#"{{"async":false,"command":{command},"timeout":{TIMEOUT_S},"type":"command"}}"#);
    let what = format!(r#"{{"event_name":"{key}","hooks":[{hook}]}}"#);
    let hex: String = Sha256::digest(what.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_terminal::profile::shipped;

    fn argv(words: &str) -> Vec<String> {
        words.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn hooks_that_the_user_gave_win() {
        for (words, sets) in [
            ("codex", false),
            ("codex -c model=x", false),
            ("codex -c hooks.Stop=[]", true),
            ("codex --config hooks={}", true),
            ("codex --config=hooks.state={}", true),
            ("codex -chooks.Stop=[]", true),
            ("codex -c=hooks.Stop=[]", true),
            ("codex -c hooksmith=1", false),
            ("codex -- -c hooks.Stop=[]", false),
            ("codex -c", false),
        ] {
            assert_eq!(sets_hooks(&argv(words)), sets, "{words}");
        }
    }

    /// The form in which Codex 0.147 to 0.169 answer.
    #[test]
    fn version_that_was_not_checked_is_asked_whether_it_trusts_our_hooks() {
        let root = tempfile::tempdir().unwrap();
        let profile = shipped("codex").unwrap();
        let says = |version: &str, status: [&str; 2]| {
            let hook = |(_, key): &(&str, &str), status: &str| json!({ "key": format!("{SOURCE}:{key}:0:0"), "enabled": true, "trustStatus": status });
            let hooks: Vec<Value> =
                EVENTS.iter().zip(status).map(|(event, status)| hook(event, status)).collect();
            let listed = json!({ "id": 2, "result": { "data": [{ "cwd": "/", "hooks": hooks }] } });
            let program = root.path().join("codex");
            let script = format!(
                "#!/bin/sh\nif [ \"$1\" = --version ]; then {version}; exit; fi\n\
                 [ \"$7\" = app-server ] || exit 2\nread a; read b; read c; echo '{listed}'; cat >/dev/null\n"
            );
            std::fs::write(&program, script).unwrap();
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
            choose(&profile, &[program.display().to_string()])
        };
        let trusted = ["trusted", "trusted"];
        assert_eq!(says("echo codex-cli 0.166.0", ["untrusted", "untrusted"]), Tells::CodexHooks, "checked");
        assert_eq!(says("echo codex-cli 0.999.1", trusted), Tells::CodexHooks);
        assert_eq!(says("echo hello", trusted), Tells::CodexHooks);
        for (version, status, part) in [
            ("echo codex-cli 0.999.1", ["trusted", "untrusted"], "this is 0.999.1"),
            ("echo codex-cli 0.999.1", ["modified", "trusted"], "this is 0.999.1"),
            ("exit 1", ["untrusted", "untrusted"], "does not tell"),
        ] {
            assert!(matches!(says(version, status), Tells::Unused(why) if why.contains(part)), "{version}");
        }
    }

    /// The arguments are valid TOML whatever the paths, and the hash matches their content.
    #[test]
    fn what_is_run_is_what_is_trusted() {
        for (synapse, dir) in [("/usr/bin/synapse", "/var/synapse/agents/1"), ("/a 'b'/\"c\"", "/d\\e\n$f")] {
            let words = words(Path::new(synapse), Path::new(dir));
            let settings: Vec<&String> = words.iter().filter(|word| *word != "-c").collect();
            assert_eq!((words.len(), settings.len()), (6, 3));
            let parse = |setting: &str| {
                let (_, value) = setting.split_once('=').unwrap();
                format!("x = {value}").parse::<toml_edit::DocumentMut>().unwrap()
            };
            let trusted = parse(settings[2]);
            for ((_, key), setting) in EVENTS.iter().zip(&settings) {
                let document = parse(setting);
                let command = document["x"][0]["hooks"][0]["command"].as_str().unwrap();
                assert!(command.starts_with('\'') && command.ends_with(" || :"), "{command}");
                let place = format!("{SOURCE}:{key}:0:0");
                assert_eq!(trusted["x"][&place]["trusted_hash"].as_str().unwrap(), hash(key, command));
            }
        }
    }
}
