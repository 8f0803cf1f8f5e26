//! `synapse start`: a stopped agent once more, as it was started before, with the conversation it had last.
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
use crate::launch::{self, Started};
use crate::resume::{self, Begins, Earlier, WhyNew};
use crate::show;
use crate::viewer::{self, Person};
use clap::Args;
use serde::Deserialize;
use serde_json::json;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{Duration, Instant};
use synapse_core::ids::AgentId;
use synapse_holder::terminal::wire::Role;
use synapse_node::{Hand, Launch};
use synapse_store::ended::Ended;
use synapse_store::files::{self, Access};
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::should_run;

const LAUNCH_BYTES_MAX: usize = 1 << 20;

#[derive(Args)]
pub(super) struct Start {
    /// Agent to start
    #[arg(required_unless_present = "all")]
    agent: Option<String>,
    /// Start all agents that ran until the machine or Synapse went down
    #[arg(long, conflicts_with_all = ["agent", "attach"])]
    all: bool,
    /// Begin a new conversation instead of the last one
    #[arg(long)]
    fresh: bool,
    /// Attach to its terminal
    #[arg(short, long)]
    attach: bool,
    /// Start it without asking, even if another agent had started it
    #[arg(short, long)]
    yes: bool,
}

/// How long an agent whose program has ended may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn start(args: &Start, json: bool) -> Done {
    if args.attach && !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Fail::usage("standard input and output are not a terminal; leave out --attach"));
    }
    let roll = Roll::call()?;
    let Some(agent) = &args.agent else { return start_all(&roll, args, json) };
    let id = roll.find_stopped(agent)?.id;
    let label = roll.label(&id);
    if still_runs(&roll, &id) {
        return Err(already_runs(&roll, &id, &label));
    }
    let launch = checked(&roll, &id, &label)?;
    check_starter(&roll, &launch, &label, args.yes, json)?;
    if args.attach && !matches!(launch.hand, Hand::Terminal(_)) {
        return Err(no_terminal(&roll, &id));
    }
    if args.attach {
        viewer::warn_of_prefix(&roll.home);
    }
    let person = args.attach.then(Person::meet).transpose()?;
    let started = start_again(&roll, launch, &label, person.as_ref(), args.fresh)?;
    let Some(person) = person else {
        tell(&started, json);
        return Ok(());
    };
    let left = viewer::view(person, &roll.home, id, Role::Viewer)?;
    wrap::tell_left(&started.agent.label(), &left)
}

/// Whether it runs. An agent that is just ending, and is in the registry no more, is waited for.
fn still_runs(roll: &Roll, id: &AgentId) -> bool {
    let is_listed = roll.scan.agents.iter().any(|entry| entry.agent_id == *id);
    let until = Instant::now() + ENDS_WITHIN;
    while roll.is_held(id) {
        if is_listed || Instant::now() > until {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// What it was started with, if its folder is still there.
fn checked(roll: &Roll, id: &AgentId, label: &str) -> Result<Launch, Fail> {
    let mut launch = read(&roll.home, id, label)?;
    // It may have been renamed since it was started.
    if let Some(candidate) = roll.candidates.iter().find(|candidate| candidate.id == *id) {
        launch.name.clone_from(&candidate.name);
    }
    check_folder(&launch.working_dir, label)?;
    Ok(launch)
}

/// An agent that was started again, and its conversation.
struct StartedAgain {
    agent: Started,
    begins: Begins,
}

fn start_again(
    roll: &Roll,
    mut launch: Launch,
    label: &str,
    person: Option<&Person>,
    fresh: bool,
) -> Result<StartedAgain, Fail> {
    crate::profiles::warn_of_settings(&roll.home, &launch.working_dir);
    let (hand, begins) = renewed(&launch, person, label, fresh)?;
    launch.hand = hand;
    Ok(StartedAgain { agent: launch::start_again(&roll.home, launch)?, begins })
}

impl StartedAgain {
    /// For programs.
    fn told(&self) -> serde_json::Value {
        let resumed = match &self.begins {
            Begins::Earlier(earlier) => Some(earlier),
            Begins::New(_) | Begins::AsSaid => None,
        };
        let mut told = super::run::told(&self.agent);
        told["resumed_conversation"] = resumed.is_some().into();
        told["session"] = resumed.and_then(Earlier::id).map(|id| id.as_str()).into();
        told
    }
}

fn tell(started: &StartedAgain, json: bool) {
    if json {
        show::json(&started.told());
        return;
    }
    super::run::tell(&started.agent, false);
    let label = started.agent.label();
    match started.begins {
        Begins::Earlier(_) => {
            let note = "it goes on with its last conversation";
            show::out(&format!("{note}; `synapse start --fresh {label}` begins a new one"));
        }
        Begins::New(WhyNew::NoneKnown) => show::out("it begins a new conversation: no earlier one is known"),
        Begins::New(WhyNew::CannotResume) => {
            show::out("it begins a new conversation: this version of its CLI cannot resume the last one");
        }
        Begins::New(WhyNew::Wanted) => show::out("it begins a new conversation"),
        Begins::AsSaid => {}
    }
}

/// Starts all that ran when the machine went down: those that nobody has stopped, and that did not end by themselves.
fn start_all(roll: &Roll, args: &Start, json: bool) -> Done {
    let mut wanted: Vec<&Known> = roll.known.iter().filter(|known| ran(roll, known)).collect();
    wanted.sort_by_key(|known| known.last_started_ms);
    if wanted.is_empty() && !json {
        show::out("nothing to start: no agent was running, or all of them run again");
    }
    let (mut told, mut failed) = (Vec::new(), None);
    for known in wanted {
        let label = roll.label(&known.id);
        let started = checked(roll, &known.id, &label).and_then(|launch| {
            check_starter_of_many(roll, known, &label, args.yes)?;
            start_again(roll, launch, &label, None, args.fresh)
        });
        // The others are started all the same.
        match started {
            Ok(started) if json => told.push(started.told()),
            Ok(started) => tell(&started, false),
            Err(fail) => {
                failed.get_or_insert(fail.code);
                if json {
                    told.push(json!({ "agent_id": known.id, "name": label, "error": fail.info }));
                } else {
                    fail.tell(false);
                }
            }
        }
    }
    if json {
        show::json(&told);
    }
    failed.map_or(Ok(()), |code| Err(Fail::ended(code)))
}

/// Whether an agent ran until it was ended from outside, and can be started by us.
fn ran(roll: &Roll, known: &Known) -> bool {
    let dir = roll.home.agent(&known.id);
    let hand = read_quietly(&roll.home, &known.id).map(|launch| launch.hand);
    should_run::is_noted(&dir)
        && Ended::load(&dir).is_none()
        && !roll.is_held(&known.id)
        && hand.is_some_and(|hand| !matches!(hand, Hand::Mailbox))
}

/// Nobody is asked about one of many.
fn check_starter_of_many(roll: &Roll, known: &Known, label: &str, yes: bool) -> Done {
    let Some(starter) = &known.started_by else { return Ok(()) };
    if yes || roll.caller(&format!("start {label}"))?.is_some() {
        return Ok(());
    }
    let starter = roll.label(starter);
    Err(Fail::refused(format!(
        "{label} was not started: it was started by the agent {starter}\nhint: synapse start {label}"
    )))
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

/// The same without a word on why not.
pub(super) fn read_quietly(home: &Home, id: &AgentId) -> Option<Launch> {
    let bytes = files::read_private(&home.agent(id).launch(), LAUNCH_BYTES_MAX, Access::Plain).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|launch: &Launch| launch.id == *id)
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
fn renewed(
    launch: &Launch,
    person: Option<&Person>,
    label: &str,
    fresh: bool,
) -> Result<(Hand, Begins), Fail> {
    let folder = &launch.working_dir;
    match &launch.hand {
        Hand::Mailbox => Err(Fail::refused(format!(
            "cannot start {label}: it is a program that joined\nhint: start that program again; `synapse join` brings its mail"
        ))),
        Hand::Terminal(before) => {
            let (terminal, begins) = wrap::renewed(launch, before, person, fresh)?;
            check_program(&terminal.argv[0], Some(folder))?;
            Ok((Hand::Terminal(terminal), begins))
        }
        Hand::Acp(before) => {
            let acp = super::acp::renewed(before)?;
            check_program(&acp.argv[0], Some(folder))?;
            Ok((Hand::Acp(acp), Begins::AsSaid))
        }
        same @ (Hand::Exec(_) | Hand::Echo) => Ok((same.clone(), Begins::AsSaid)),
    }
}

/// How a stopped agent is started again.
pub(super) struct HowToStart {
    pub(super) command: String,
    /// It goes on with its last conversation.
    pub(super) resumes: bool,
}

/// How a stopped agent is started again; or why it cannot be.
pub(super) fn command_for(roll: &Roll, known: &Known) -> Result<HowToStart, String> {
    #[derive(Deserialize)]
    struct LaunchHand {
        hand: serde_json::Value,
    }
    let file = roll.home.agent(&known.id).launch();
    let bytes = files::read_private(&file, LAUNCH_BYTES_MAX, Access::Plain).ok();
    let launch = bytes.as_ref().and_then(|bytes| serde_json::from_slice::<LaunchHand>(bytes).ok());
    match (launch, missing(Path::new(&known.working_dir))) {
        (None, _) => Err("what it was started with is not known".to_owned()),
        (Some(launch), _) if launch.hand == "mailbox" => Err("start the program that joined".to_owned()),
        (_, Some(why)) => Err(format!("its folder {why}")),
        (Some(_), None) => {
            let launch = bytes.and_then(|bytes| serde_json::from_slice::<Launch>(&bytes).ok());
            let resumes = launch.is_some_and(|launch| resume::would_resume(&roll.home, &launch));
            Ok(HowToStart { command: format!("synapse start {}", roll.label(&known.id)), resumes })
        }
    }
}
