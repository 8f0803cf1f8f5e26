//! PTY-4: the states seen on recordings of real CLIs agree with the true ones, however the bytes are cut.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use synapse_terminal::prompt::Prompt;
use synapse_terminal::replay::{self, Recording, Score};
use synapse_terminal::{Profile, profile};

fn recordings() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "cast"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    found.sort();
    assert!(found.len() >= 25, "only {} recordings", found.len());
    found
}

fn load(name: &str, path: &Path) -> (Recording, Profile) {
    let cli = name.split(['-', '_']).next().unwrap();
    (Recording::parse(&fs::read_to_string(path).unwrap()).unwrap(), profile::shipped(cli).unwrap())
}

fn scored(name: &str, path: &Path) -> Score {
    let (recording, profile) = load(name, path);
    let truth = replay::parse_truth(&fs::read_to_string(path.with_extension("json")).unwrap()).unwrap();
    let end = recording.events.last().unwrap().at_ms;
    replay::score(&replay::play(&recording, profile), &truth, end)
}

#[test]
fn every_recording_agrees_and_waiting_is_never_missed() {
    let (mut right, mut samples) = (0.0, 0);
    for (name, path) in recordings() {
        let score = scored(&name, &path);
        println!("{name:28} {score:?}");
        assert_eq!(score.waiting_as_idle_ms, 0, "{name}: waiting was seen as idle: {score:?}");
        assert_eq!(score.waiting_missed_ms, 0, "{name}: {score:?}");
        assert!(score.samples < 20 || score.agreement >= 0.97, "{name}: {score:?}");
        right += score.agreement * score.samples as f64;
        samples += score.samples;
    }
    assert!(right / samples as f64 >= 0.99, "{:.4} of {samples} samples", right / samples as f64);
}

/// Bytes come as the system cuts them, also within a character, a sequence or a paste.
#[test]
fn states_do_not_depend_on_how_bytes_are_cut() {
    for (name, path) in recordings() {
        let (recording, profile) = load(&name, &path);
        let whole = replay::play(&recording, profile.clone());
        let single = replay::play_in_pieces(&recording, profile.clone(), &mut |_| 1);
        assert_eq!(single, whole, "{name}, byte by byte");
        for seed in 1..5_u64 {
            let mut random = seed;
            let pieces = replay::play_in_pieces(&recording, profile.clone(), &mut |left| {
                // Xorshift: the same cuts for the same seed.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                1 + usize::try_from(random % 97).unwrap_or(0).min(left)
            });
            assert_eq!(pieces, whole, "{name}, seed {seed}");
        }
    }
}

/// Idle, busy and waiting, in their order.
fn sequence<'a>(states: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut states: Vec<String> =
        states.filter(|state| ["idle", "busy", "waiting"].contains(state)).map(str::to_owned).collect();
    states.dedup();
    states
}

/// One script: an answer, then a command that is asked about and allowed. `resized` is 120×40 and becomes 80×24 while
/// the question is shown.
#[test]
fn one_script_gives_the_same_states_at_every_size() {
    let expected = ["idle", "busy", "idle", "busy", "waiting", "busy", "idle"];
    for cli in ["claude", "cline", "codex", "copilot", "gemini", "kilo", "opencode"] {
        for size in ["80x24", "120x40", "200x50", "resized"] {
            let name = format!("{cli}-{size}__sizes");
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/{name}.cast"));
            let (recording, profile) = load(&name, &path);
            let seen = replay::play(&recording, profile);
            assert_eq!(sequence(seen.iter().map(|(_, state)| state.name())), expected, "{name}: {seen:?}");
        }
    }
}

/// The generic profile knows no CLI, and still must not take a question for a prompt.
#[test]
fn without_a_profile_a_choice_is_still_seen_as_waiting() {
    for name in ["codex__permission", "claude__permission", "copilot__permission", "gemini__permission"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/{name}.cast"));
        let (recording, _) = load(name, &path);
        let truth = replay::parse_truth(&fs::read_to_string(path.with_extension("json")).unwrap()).unwrap();
        let timeline = replay::play(&recording, profile::shipped("generic").unwrap());
        let end = recording.events.last().unwrap().at_ms;
        let score = replay::score(&timeline, &truth, end);
        assert_eq!(score.waiting_as_idle_ms, 0, "{name}: {score:?}");
        assert_eq!(score.waiting_missed_ms, 0, "{name}: {score:?}");
    }
}

/// An early idle would let a message be typed into a program that does not take it yet.
#[test]
fn nothing_is_idle_before_it_is_ready() {
    for (name, path) in recordings() {
        let (recording, profile) = load(&name, &path);
        let truth: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path.with_extension("json")).unwrap()).unwrap();
        let ready = truth.as_array().unwrap().iter().find(|one| one["state"] == "idle").unwrap();
        let ready = ready["t_ui"].as_f64().or(ready["t"].as_f64()).unwrap();
        let seen = replay::play(&recording, profile);
        let idle = seen.iter().find(|(_, state)| state.name() == "idle").map(|(at, _)| *at as f64 / 1000.0);
        let idle = idle.unwrap_or_else(|| panic!("{name}: never idle"));
        // The truth was found by looking at the screen now and then.
        assert!(idle > ready - 0.25, "{name}: ready at {ready}, idle at {idle}");
    }
}

/// The same on a screen of 80 columns and 24 rows. Aider's are not approved from elsewhere.
#[test]
fn questions_on_a_small_screen_are_complete() {
    for (name, decidable) in [
        ("copilot-80x24__session", true),
        ("qwen-80x24__permission", true),
        ("qwen-0.15-80x24__permission", true),
        ("aider-80x24__session", false),
    ] {
        let prompts = prompts_in(name);
        let whole = prompts.iter().find(|prompt| prompt.doubt.is_none() && !prompt.choices.is_empty());
        assert_eq!(whole.is_some(), decidable, "{name}: {prompts:#?}");
        assert!(
            !prompts.is_empty() && prompts.iter().all(|prompt| prompt.is_decidable == decidable),
            "{name}"
        );
        let shown = whole.or(prompts.last()).unwrap();
        assert!(shown.text.contains("touch made-by-the-tool"), "{name}: {}", shown.text);
    }
}

/// Cline cuts a question without a mark if its window is low, so none counts as complete there.
#[test]
fn questions_of_cline_are_complete_only_where_they_have_room() {
    for (size, complete) in [("80x24", false), ("120x40", true), ("200x50", true)] {
        let name = format!("cline-{size}__sizes");
        let prompts = prompts_in(&name);
        let whole = prompts.iter().find(|prompt| prompt.doubt.is_none() && !prompt.choices.is_empty());
        assert!(!prompts.is_empty() && prompts.iter().all(|prompt| prompt.is_decidable), "{name}");
        assert_eq!(whole.is_some(), complete, "{name}: {prompts:#?}");
        if let Some(whole) = whole {
            assert_eq!(whole.summary.text, "asks to run: touch made-at-this-size", "{name}");
        }
    }
}

#[test]
fn questions_of_kilo_are_complete() {
    for size in ["80x24", "120x40", "200x50", "resized"] {
        let name = format!("kilo-{size}__sizes");
        let prompts = prompts_in(&name);
        let whole = prompts.iter().find(|prompt| prompt.doubt.is_none() && !prompt.choices.is_empty());
        let whole = whole.unwrap_or_else(|| panic!("{name}: {prompts:#?}"));
        assert!(whole.is_decidable && whole.text.contains("touch made-at-this-size"), "{name}: {whole:#?}");
    }
}

fn prompts_in(name: &str) -> Vec<Prompt> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/{name}.cast"));
    let (recording, profile) = load(name, &path);
    let end = recording.events.last().unwrap().at_ms;
    let mut prompts = Vec::new();
    replay::watched(&recording, profile, end, |_, watch| {
        prompts.extend(watch.prompt().filter(|_| watch.is_settled()));
    });
    prompts
}

/// Questions that real programs drew whole count as complete.
#[test]
fn recorded_questions_are_complete() {
    for (cli, part) in [
        ("claude", "touch"),
        ("codex", "touch"),
        ("copilot", "touch"),
        ("gemini", "touch"),
        ("opencode", "Permission required"),
    ] {
        let name = format!("{cli}__permission");
        let prompts = prompts_in(&name);
        let whole = prompts.iter().find(|prompt| prompt.doubt.is_none() && !prompt.choices.is_empty());
        let whole = whole.unwrap_or_else(|| panic!("{name}: {prompts:#?}"));
        assert!(whole.text.contains(part), "{name}: {}", whole.text);
        assert_eq!(whole.summary.text, "asks to run: touch /srv/w/made_by_tool", "{name}");
    }
}
