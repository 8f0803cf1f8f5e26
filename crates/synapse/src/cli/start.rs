//! `synapse start`: a stopped agent once more, as it was started before.
//!
//! Its launch file has the command, the folder and the flags. Its environment is not kept, since secrets are in
//! there, except for the variables that say where a CLI has its settings and sessions. An agent may start only what
//! it started itself; the new holder checks that (`processes`).
//!
//! Not here: agents of another name, folder or command (`run`, `wrap`).

use super::attach::no_terminal;
use super::confirm;
use super::wrap::{self, check_program};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::launch;
use crate::show;
use crate::viewer::{self, Person};
use clap::Args;
use serde::Deserialize;
use std::io::IsTerminal as _;
use std::path::Path;
use synapse_core::ids::AgentId;
use synapse_holder::terminal::wire::Role;
use synapse_node::{Hand, Launch};
use synapse_store::files::{self, Access};
use synapse_store::home::Home;
use synapse_store::known::Known;

const LAUNCH_BYTES_MAX: usize = 1 << 20;

#[derive(Args)]
pub(super) struct Start {
    /// Agent to start
    agent: String,
    /// Attach to its terminal
    #[arg(short, long)]
    attach: bool,
    /// Start it without asking, even if another agent had started it
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn start(args: &Start, json: bool) -> Done {
    if args.attach && !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Fail::usage("standard input and output are not a terminal; leave out --attach"));
    }
    let roll = Roll::call()?;
    let candidate = roll.find_stopped(&args.agent)?;
    let id = candidate.id;
    let label = roll.label(&id);
    if roll.is_held(&id) {
        return Err(already_runs(&roll, &id, &label));
    }
    let mut launch = read(&roll.home, &id, &label)?;
    // It may have been renamed since it was started.
    launch.name.clone_from(&candidate.name);
    check_folder(&launch.working_dir, &label)?;
    check_starter(&roll, &launch, &label, args.yes, json)?;
    if args.attach && !matches!(launch.hand, Hand::Terminal(_)) {
        return Err(no_terminal(&roll, &id));
    }
    crate::profiles::warn_of_settings(&roll.home, &launch.working_dir);
    if args.attach {
        viewer::warn_of_prefix(&roll.home);
    }
    let person = args.attach.then(Person::meet).transpose()?;
    launch.hand = renewed(&launch, person.as_ref(), &label)?;
    let started = launch::start_again(&roll.home, launch)?;
    let Some(person) = person else {
        super::run::tell(&started, json);
        return Ok(());
    };
    let left = viewer::view(person, &roll.home, id, Role::Viewer)?;
    wrap::tell_left(&started.label(), &left)
}

fn already_runs(roll: &Roll, id: &AgentId, label: &str) -> Fail {
    let look = if roll.home.agent(id).terminal().exists() { "attach" } else { "explain" };
    let message = format!("{label} was not started: it already runs\nhint: synapse {look} {label}");
    Fail::new(fail::REFUSED, "already_running", message)
}

fn read(home: &Home, id: &AgentId, label: &str) -> Result<Launch, Fail> {
    let file = home.agent(id).launch();
    let bytes = files::read_private(&file, LAUNCH_BYTES_MAX, Access::Plain).map_err(|e| {
        Fail::new(
            fail::ERROR,
            "not_startable",
            format!("cannot start {label}: what it was started with is not known ({e})\nhint: start it with `synapse run`"),
        )
    })?;
    let launch: Launch = serde_json::from_slice(&bytes).map_err(|e| {
        Fail::new(fail::ERROR, "not_startable", format!("cannot start {label}: {}: {e}", file.display()))
    })?;
    if launch.id != *id {
        let message = format!("cannot start {label}: {} is of another agent", file.display());
        return Err(Fail::new(fail::ERROR, "not_startable", message));
    }
    Ok(launch)
}

/// The folder is part of what the agent is, so no other will do.
fn check_folder(folder: &Path, label: &str) -> Done {
    let Some(why) = missing(folder) else { return Ok(()) };
    let message = format!(
        "cannot start {label}: its folder {} {why}\n\
         hint: bring the folder back, or start a new agent in another one",
        folder.display()
    );
    Err(Fail::new(fail::ERROR, "folder_gone", message))
}

fn missing(folder: &Path) -> Option<&'static str> {
    match folder.canonicalize() {
        Ok(real) if real != folder => Some("is now behind a symbolic link"),
        Ok(real) if real.is_dir() => None,
        Ok(_) => Some("is not a folder any more"),
        Err(_) => Some("is gone"),
    }
}

/// What an agent had started becomes the user's own with this start, so the user sees it before.
fn check_starter(roll: &Roll, launch: &Launch, label: &str, yes: bool, json: bool) -> Done {
    let known = Known::load(&roll.home.agent(&launch.id)).ok().flatten();
    let Some(starter) = known.and_then(|known| known.started_by) else { return Ok(()) };
    // An agent is refused by the holder, or has started it itself.
    if yes || roll.caller(&format!("start {label}"))?.is_some() {
        return Ok(());
    }
    let role = launch.role.as_ref().map_or_else(String::new, |role| format!(", with the role {role}"));
    // All of it: what is left out here could be what matters.
    eprintln!(
        "{label} was started by the agent {}{role}, in {}, with this command:\n  {}",
        roll.label(&starter),
        show::safe(&launch.working_dir.display().to_string()),
        show::safe(&command_of(&launch.hand))
    );
    for (name, value) in wrap::restored(&launch.hand) {
        eprintln!("  with {name}={}", show::safe(&value));
    }
    confirm("Start it as an agent of yours?", &format!("{label} was not started"), json)
}

fn command_of(hand: &Hand) -> String {
    match hand {
        Hand::Exec(exec) => exec.command.clone(),
        Hand::Terminal(terminal) => wrap::in_shell(&terminal.argv),
        Hand::Acp(acp) => wrap::in_shell(&acp.argv),
        Hand::Echo | Hand::Mailbox => "none".to_owned(),
    }
}

/// The same program, with what this machine, this terminal and the profile are now.
fn renewed(launch: &Launch, person: Option<&Person>, label: &str) -> Result<Hand, Fail> {
    let folder = &launch.working_dir;
    match &launch.hand {
        Hand::Mailbox => Err(Fail::refused(format!(
            "cannot start {label}: it is a program that joined\nhint: start that program again; `synapse join` brings its mail"
        ))),
        Hand::Terminal(before) => {
            let terminal = wrap::renewed(before, folder, person)?;
            check_program(&terminal.argv[0], Some(folder))?;
            Ok(Hand::Terminal(terminal))
        }
        Hand::Acp(before) => {
            let acp = super::acp::renewed(before)?;
            check_program(&acp.argv[0], Some(folder))?;
            Ok(Hand::Acp(acp))
        }
        same @ (Hand::Exec(_) | Hand::Echo) => Ok(same.clone()),
    }
}

/// How a stopped agent is started again; or why it cannot be.
pub(super) fn command_for(roll: &Roll, known: &Known) -> Result<String, String> {
    #[derive(Deserialize)]
    struct LaunchHand {
        hand: serde_json::Value,
    }
    let file = roll.home.agent(&known.id).launch();
    let bytes = files::read_private(&file, LAUNCH_BYTES_MAX, Access::Plain).ok();
    let launch = bytes.and_then(|bytes| serde_json::from_slice::<LaunchHand>(&bytes).ok());
    match (launch, missing(Path::new(&known.working_dir))) {
        (None, _) => Err("what it was started with is not known".to_owned()),
        (Some(launch), _) if launch.hand == "mailbox" => Err("start the program that joined".to_owned()),
        (_, Some(why)) => Err(format!("its folder {why}")),
        (Some(_), None) => Ok(format!("synapse start {}", roll.label(&known.id))),
    }
}
