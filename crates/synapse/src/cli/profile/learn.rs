//! `synapse profile learn -- PROGRAM`: tries a program out and proposes a profile for it.

use super::super::{confirm, wrap};
use super::tell_score;
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::learn::{Lesson, Session, Trial};
use crate::show;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use synapse_store::files;
use synapse_store::home::Home;
use synapse_terminal::profile::{self, Env, Profile};
use synapse_terminal::{Size, keys, quiet};

const TURN: &str = "Reply with the single word ready.";
const PROMPT: &str = "Run the shell command `touch synapse-learn.txt` and nothing else.";

#[derive(Args)]
pub(in crate::cli) struct Learn {
    /// The program, with its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
    /// Name of the profile; default: the name of the program
    #[arg(long)]
    name: Option<String>,
    /// Key to press at startup to close a dialog, named as in send-keys
    #[arg(long, value_name = "KEY")]
    press: Vec<String>,
    /// Message to submit for the trial turn
    #[arg(long, value_name = "TEXT", default_value = TURN)]
    turn: String,
    /// Message that triggers an approval prompt, which is closed with Esc
    #[arg(long, value_name = "TEXT", default_value = PROMPT)]
    prompt: String,
    /// Run the turn and the approval prompt without confirmation
    #[arg(long)]
    yes: bool,
    /// Save the profile in your profile folder
    #[arg(long)]
    save: bool,
    /// Save the recording here, with its states in a .json file beside it
    #[arg(long, value_name = "CAST")]
    recording: Option<PathBuf>,
    /// Size of its terminal
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "120x40", value_parser = size)]
    size: Size,
}

fn size(raw: &str) -> Result<Size, String> {
    let (columns, rows) = raw.split_once('x').ok_or("it must be COLUMNSxROWS, as in 80x24")?;
    match (columns.parse(), rows.parse()) {
        (Ok(columns @ 20..), Ok(rows @ 5..)) => Ok(Size::new(columns, rows)),
        _ => Err("it must be at least 20x5".to_owned()),
    }
}

pub(super) fn learn(args: &Learn, json: bool) -> Done {
    let program = &args.program[0];
    let name = name_of(args)?;
    if args.program.iter().any(|word| quiet::runs_commands(word)) {
        return Err(Fail::refused(format!(
            "{program:?} is a shell or starts one: it would run what is typed as a command\nhint: synapse profile learn -- THE-AGENT"
        )));
    }
    wrap::check_program(program, None)?;
    if args.save && Roll::call_quietly()?.0.caller("save profiles")?.is_some() {
        return Err(Fail::refused("an agent may not save profiles; only the user may"));
    }
    let home = Home::from_env()?;
    let file = home.root().join("profiles").join(format!("{name}.yaml"));
    if args.save && file.exists() {
        return Err(Fail::refused(format!(
            "{} exists already\nhint: remove it, or choose another --name",
            file.display()
        )));
    }
    let say = |words: &str| eprintln!("{}", show::paint_err("2", words));
    let keys = match args.press.as_slice() {
        [] => Vec::new(),
        words => keys::read(words, false).map_err(|e| Fail::usage(e.to_string()))?,
    };
    let session = Session::start(&args.program, &wrap::environment(&Env::default()), args.size)?;
    let lesson = attend(args, Trial::start(session, &keys, &say)?, json, &say)?;
    tell(args, &lesson, &name, &file, json)
}

/// Everything that is tried, as far as the user agrees.
fn attend(args: &Learn, mut trial: Trial, json: bool, say: &dyn Fn(&str)) -> Result<Lesson, Fail> {
    let is_clean = trial.probe(say)?;
    let known = trial.knows_composer();
    match (is_clean, known) {
        (true, Ok(())) => {}
        (false, _) => {
            say("the probe could not be erased, so nothing is submitted");
            return Ok(trial.end());
        }
        (true, Err(why)) => {
            say(&format!("nothing is submitted: {why}"));
            return Ok(trial.end());
        }
    }
    let agrees = |what: &str| args.yes || confirm(what, "skipped", json).is_ok();
    if !agrees(&format!("Let it do one turn: {:?}?", args.turn)) {
        say("skipped the turn and the approval prompt; answer y or pass --yes to run them");
        return Ok(trial.end());
    }
    let is_ready = trial.turn(&args.turn, say)?;
    if is_ready && agrees(&format!("Let it ask for approval, answered with Esc: {:?}?", args.prompt)) {
        trial.prompt(&args.prompt, say)?;
    }
    Ok(trial.end())
}

fn tell(args: &Learn, lesson: &Lesson, name: &str, file: &std::path::Path, json: bool) -> Done {
    let yaml = lesson.proposal.to_yaml(name, &args.program);
    let profile = Profile::parse(&yaml)
        .map_err(|e| Fail::usage(format!("the proposal is not a profile: {e}\n{yaml}")))?;
    let score = lesson.score(profile)?;
    if let Some(recording) = &args.recording {
        std::fs::write(recording, &lesson.cast)?;
        std::fs::write(recording.with_extension("json"), &lesson.states)?;
    }
    if args.save {
        let folder = file.parent().ok_or_else(|| Fail::usage("no folder for profiles"))?;
        std::fs::create_dir_all(folder)?;
        files::write_private(file, yaml.as_bytes())?;
    }
    if json {
        let saved = args.save.then(|| file.display().to_string());
        show::json(&json!({
            "profile": yaml, "missing": lesson.proposal.missing, "types": lesson.proposal.can_type(),
            "score": score, "saved": saved,
        }));
        return Ok(());
    }
    show::out(yaml.trim_end());
    show::out("");
    show::out(&show::paint("2", "# On the recording that was just made:"));
    tell_score(&score, false)?;
    for missing in &lesson.proposal.missing {
        show::out(&format!("not found       {}", show::line(missing, 200)));
    }
    let typed = match (lesson.proposal.can_type(), lesson.proposal.sees_questions()) {
        (true, true) => "messages would be typed",
        (true, false) => {
            "messages would be typed; how it asks for approval was not seen, so try again with another --prompt"
        }
        (false, _) => "messages would not be typed",
    };
    show::out(&format!("result          with this profile, {typed}"));
    if args.save {
        show::out(&format!("saved           {}; start it with `synapse {name}`", file.display()));
    } else {
        show::out("not saved       pass --save, or put it into your profile folder yourself");
    }
    Ok(())
}

/// The name of the profile, which is also that of its file.
fn name_of(args: &Learn) -> Result<String, Fail> {
    let program = args.program[0].rsplit('/').next().unwrap_or_default();
    let stem = program.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name =
        args.name.clone().unwrap_or_else(|| stem.chars().map(|c| if plain(c) { c } else { '-' }).collect());
    if !(1..=32).contains(&name.len()) || !name.chars().all(plain) {
        return Err(Fail::usage(format!(
            "{name:?} is not a name: use 1 to 32 lower-case letters, digits or dashes"
        )));
    }
    if args.name.is_none() && profile::SHIPPED.iter().any(|(shipped, _)| *shipped == name) {
        return Err(Fail::refused(format!(
            "a shipped profile is already named {name:?}\nhint: choose another name with --name"
        )));
    }
    Ok(name)
}
