//! `synapse profile`: which CLIs are known, what is known of them, and how well it fits a recording.

mod learn;

use super::{examples, record};
use crate::fail::{self, Done, Fail};
use crate::profiles::{self, Found};
use crate::show;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::Path;
use synapse_store::home::Home;
use synapse_terminal::added::ProjectRules;
use synapse_terminal::replay::{self, Recording, Score};

#[derive(Args)]
pub(super) struct Profile {
    #[command(subcommand)]
    action: ProfileAction,
}

#[derive(Subcommand)]
pub(super) enum ProfileAction {
    /// List all profiles and their sources
    List,
    /// Print a profile
    Show {
        /// Name or alias
        name: String,
    },
    /// Check profile files for mistakes
    Check {
        /// Profile files
        #[arg(required = true)]
        files: Vec<std::path::PathBuf>,
    },
    /// Record a terminal and the states detected in it
    #[command(after_help = examples::PROFILE_RECORD)]
    Record(record::Record),
    /// Try out a program and propose a profile
    Learn(learn::Learn),
    /// Replay a recording and compare the detected states
    Test {
        /// Profile name or .yaml file
        profile: String,
        /// Recording (asciinema cast, version 2)
        #[arg(long, value_name = "CAST")]
        recording: std::path::PathBuf,
        /// True states [default: the .json file beside the recording]
        #[arg(long, value_name = "JSON")]
        truth: Option<std::path::PathBuf>,
    },
}

pub(super) fn profile(args: Profile, json: bool) -> Done {
    let (home, here) = (Home::from_env()?, std::env::current_dir()?);
    match args.action {
        ProfileAction::Record(args) => record::record(args, json),
        ProfileAction::List => {
            let (all, notices) = profiles::all(&home, &here)?;
            profiles::warn(&notices);
            list(&all, json)
        }
        ProfileAction::Show { name } => {
            let found = named(&home, &here, &name)?;
            let project = found.project.as_ref();
            if json {
                let project = project.map(|part| json!({ "file": part.file, "text": part.text }));
                let (name, from) = (&found.profile.name, from(&found));
                show::json(&json!({ "name": name, "from": from, "text": found.text, "project": project }));
            } else {
                show::out(&show::paint("2", &format!("# {}", from(&found))));
                show::out(found.text.trim_end());
                if let Some(part) = project {
                    let head =
                        format!("# Rules are added from {}", show::safe(&part.file.display().to_string()));
                    show::out(&show::paint("2", &head));
                    show::out(show::safe(part.text.trim_end()).as_str());
                }
            }
            Ok(())
        }
        ProfileAction::Check { files } => check(&files, json),
        ProfileAction::Learn(args) => learn::learn(&args, json),
        ProfileAction::Test { profile, recording, truth } => {
            test(profile_of(&profile)?, &recording, truth.as_deref(), json)
        }
    }
}

/// A profile by its name, or by its file, which ends in `.yaml`.
pub(super) fn profile_of(name: &str) -> Result<synapse_terminal::Profile, Fail> {
    let found = if name.ends_with(".yaml") {
        profiles::read(Path::new(name))?
    } else {
        named(&Home::from_env()?, &std::env::current_dir()?, name)?
    };
    Ok(found.profile)
}

/// A recording that was saved.
pub(super) fn played(file: &Path) -> Result<Recording, Fail> {
    Recording::parse(&read(file)?).map_err(|e| told(file, &e))
}

fn told(file: &Path, why: &dyn std::fmt::Display) -> Fail {
    Fail::usage(format!("{}: {why}", file.display()))
}

fn read(file: &Path) -> Result<String, Fail> {
    let bytes = std::fs::metadata(file).map_err(|e| told(file, &e))?.len();
    if bytes > RECORDING_BYTES_MAX {
        return Err(told(file, &"it is too large for a recording"));
    }
    std::fs::read_to_string(file).map_err(|e| told(file, &e))
}

fn named(home: &Home, here: &Path, name: &str) -> Result<Found, Fail> {
    let (found, notices) = profiles::find(home, here, name)?;
    profiles::warn(&notices);
    found.ok_or_else(|| {
        Fail::refused(format!(
            "there is no profile called {name:?}; `synapse profile list` shows those there are"
        ))
    })
}

fn from(found: &Found) -> String {
    found.from()
}

fn list(all: &[Found], json: bool) -> Done {
    if json {
        let rows: Vec<_> = all
            .iter()
            .map(|found| {
                json!({ "name": found.profile.name, "about": found.profile.about, "command": found.profile.command,
                        "aliases": found.profile.aliases, "tested": found.profile.version.tested, "from": from(found) })
            })
            .collect();
        show::json(&json!(rows));
        return Ok(());
    }
    let row = |found: &Found| {
        vec![
            found.profile.name.clone(),
            found.profile.about.clone(),
            found.profile.version.tested.join(" "),
            from(found),
        ]
    };
    show::out(&show::table(
        &["NAME", "WHAT", "TESTED WITH", "FROM"],
        &all.iter().map(row).collect::<Vec<_>>(),
    ));
    Ok(())
}

fn check(files: &[std::path::PathBuf], json: bool) -> Done {
    let mut wrong = Vec::new();
    for file in files {
        match profiles::read(file) {
            Ok(found) if !json => show::out(&format!("{}: ok, {}", file.display(), found.profile.about)),
            Ok(_) => {}
            Err(fail) => match additions(file) {
                Some(rules) if !json => {
                    let count = rules.count();
                    show::out(&format!("{}: ok, adds {count} rules to {}", file.display(), rules.name));
                }
                Some(_) => {}
                None => wrong.push(fail.info.message),
            },
        }
    }
    if json {
        show::json(&json!({ "checked": files.len(), "wrong": wrong }));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Fail::new(fail::ERROR, "bad_profile", wrong.join("\n"))) }
}

/// A project's profile that only adds rules, and so needs no command.
fn additions(file: &Path) -> Option<ProjectRules> {
    let rules = ProjectRules::parse(&std::fs::read_to_string(file).ok()?).ok()?;
    let named = file.file_stem().is_some_and(|stem| stem == rules.name.as_str());
    (named && rules.ignored.is_empty()).then_some(rules)
}

/// Largest recording that is read.
const RECORDING_BYTES_MAX: u64 = 256 << 20;

fn test(profile: synapse_terminal::Profile, recording: &Path, truth: Option<&Path>, json: bool) -> Done {
    let played = played(recording)?;
    let timeline = replay::play(&played, profile);
    let beside = recording.with_extension("json");
    let truth = truth.or_else(|| beside.is_file().then_some(beside.as_path()));
    let Some(truth) = truth else {
        return tell_timeline(&timeline, json);
    };
    let states = replay::parse_truth(&read(truth)?).map_err(|e| told(truth, &e))?;
    let end = played.events.last().map_or(0, |event| event.at_ms);
    tell_score(&replay::score(&timeline, &states, end), json)
}

fn tell_timeline(timeline: &replay::Timeline, json: bool) -> Done {
    if json {
        let rows: Vec<_> =
            timeline.iter().map(|(ms, state)| json!({ "ms": ms, "state": state.name() })).collect();
        show::json(&json!({ "states": rows }));
        return Ok(());
    }
    for (ms, state) in timeline {
        show::out(&format!("{:>10.3} s  {}", *ms as f64 / 1000.0, show::state(state.name())));
    }
    Ok(())
}

fn tell_score(score: &Score, json: bool) -> Done {
    if json {
        show::json(&serde_json::to_value(score).unwrap_or_default());
        return Ok(());
    }
    if score.samples == 0 {
        show::out("agreement       nothing to compare: the recording has no samples");
    } else {
        let percent = 100.0 * score.agreement;
        show::out(&format!("agreement       {percent:.1} % of {} samples", score.samples));
    }
    show::out(&format!(
        "waiting missed  {} ms, of it seen as idle {} ms",
        score.waiting_missed_ms, score.waiting_as_idle_ms
    ));
    if let Some(delay) = score.delay_ms_p95 {
        show::out(&format!("delay, p95      {delay} ms"));
    }
    for (confusion, ms) in &score.confusions {
        let (truth, seen) = confusion.split_once('>').unwrap_or((confusion, ""));
        show::out(&format!("wrong           {truth} seen as {seen} for {ms} ms"));
    }
    Ok(())
}
