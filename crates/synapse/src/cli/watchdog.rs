//! `synapse watch`: pokes an agent that stopped half-way (PTY-12).
//!
//! It watches the agent's events, and what its terminal shows. When the agent is idle and nothing has happened for a
//! while, it sends it a message, and only so often. What it makes of what it sees is in `judge`. A watch ends by itself
//! when it has poked as often as it may, or when the agent is stopped.
//!
//! Each watch has a file in `watches/` of the home, so that it can be listed and stopped.

mod judge;

use super::{duration, facts, reason};
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::show;
use clap::Args;
use judge::{Judged, Sight, judge};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_dialects::message::{MessageAccepted, MessageRequest};
use synapse_dialects::time;
use synapse_holder::ProcessMark;
use synapse_peer::LineStream;
use synapse_store::files::{self, Access};
use synapse_store::home::Home;

/// Watches of one home at the same time.
const WATCHES_MAX: usize = 64;
const FILE_BYTES_MAX: usize = 64 << 10;
const SAY_BYTES_MAX: usize = 16 << 10;
/// What holds where nothing is said.
const IDLE: Duration = Duration::from_secs(300);
const SAY: &str = "please go on";
const POKES: u32 = 3;

#[derive(Args)]
pub(super) struct Watch {
    /// Name, type, handle or id prefix
    #[arg(required_unless_present_any = ["list", "stop"])]
    agent: Option<String>,
    /// Nudge after this much inactivity, e.g. 90s, 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    idle: Duration,
    /// Message to send
    #[arg(long, value_name = "TEXT", default_value = SAY)]
    say: String,
    /// Maximum number of nudges
    #[arg(long, value_name = "N", default_value_t = POKES, value_parser = clap::value_parser!(u32).range(1..=100))]
    max: u32,
    /// Minimum time between nudges [default: --idle]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    /// Run in the background
    #[arg(short, long)]
    detach: bool,
    /// List the running watches
    #[arg(long, conflicts_with_all = ["agent", "stop"])]
    list: bool,
    /// Stop a watch: its number, an agent or `all`
    #[arg(long, value_name = "WATCH", conflicts_with = "agent")]
    stop: Option<String>,
}

/// What is watched, as its file says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Plan {
    id: String,
    agent_id: AgentId,
    agent: String,
    idle_ms: u64,
    every_ms: u64,
    say: String,
    max: u32,
    pokes: u32,
    #[serde(default)]
    last_poke: Option<String>,
    /// What was last made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<String>,
    started: String,
    /// Who watches; none until it has begun.
    #[serde(default)]
    process: Option<ProcessMark>,
}

pub(super) fn watch(args: Watch, json: bool) -> Done {
    let home = Home::from_env()?;
    if args.list {
        return list(&home, json);
    }
    if let Some(what) = &args.stop {
        return stop(&home, what, json);
    }
    let roll = Roll::call()?;
    let id = roll.find_one(args.agent.as_deref().unwrap_or_default())?.id;
    let plan = plan(&roll, id, &args)?;
    if !args.detach {
        return super::block_on(keep_watch(home, plan, json));
    }
    detach(&home, &plan)?;
    if json {
        show::json(&plan);
    } else {
        show::out(&plan.words());
    }
    Ok(())
}

/// Begins a watch in the background, for a caller that is no command; what was begun, in words and as data.
pub(super) fn begin(
    roll: &Roll,
    agent: &str,
    idle: Option<Duration>,
    say: Option<String>,
    max: Option<u32>,
) -> Result<(String, serde_json::Value), Fail> {
    let args = Watch {
        agent: Some(agent.to_owned()),
        idle: idle.unwrap_or(IDLE),
        say: say.unwrap_or_else(|| SAY.to_owned()),
        max: max.unwrap_or(POKES),
        every: None,
        detach: true,
        list: false,
        stop: None,
    };
    let plan = plan(roll, roll.find_one(agent)?.id, &args)?;
    detach(&roll.home, &plan)?;
    let data = serde_json::to_value(&plan).map_err(|e| Fail::usage(e.to_string()))?;
    Ok((plan.words(), data))
}

fn detach(home: &Home, plan: &Plan) -> Done {
    write(home, plan)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("__watch").arg(&plan.id).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut watching = command.spawn()?;
    // For callers that live longer than the watch.
    std::thread::spawn(move || drop(watching.wait()));
    Ok(())
}

impl Plan {
    fn words(&self) -> String {
        format!(
            "watch {} on {}: at most {} times, after {} s without news; `synapse watch --stop {}` ends it",
            self.id,
            self.agent,
            self.max,
            self.idle_ms / 1000,
            self.id
        )
    }
}

fn plan(roll: &Roll, agent_id: AgentId, args: &Watch) -> Result<Plan, Fail> {
    let agent = roll.label(&agent_id);
    if !roll.is_held(&agent_id) {
        return Err(Fail::refused(format!("{agent} is not running; there is nothing to watch")));
    }
    if roll.own_agent() == Some(agent_id) {
        return Err(Fail::refused("an agent cannot watch itself; ask another one, or a person"));
    }
    if args.idle < Duration::from_millis(500) {
        return Err(Fail::usage("--idle must be at least 500ms"));
    }
    if args.say.len() > SAY_BYTES_MAX || args.say.trim().is_empty() {
        return Err(Fail::usage(format!("--say must be 1 to {SAY_BYTES_MAX} bytes of text")));
    }
    if all(&roll.home)?.len() >= WATCHES_MAX {
        return Err(Fail::refused(format!(
            "{WATCHES_MAX} watches run already; `synapse watch --list` shows them"
        )));
    }
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let id = uuid::Uuid::now_v7().simple().to_string();
    Ok(Plan {
        id: id[id.len() - 8..].to_owned(),
        agent_id,
        agent,
        idle_ms: ms(args.idle),
        every_ms: ms(args.every.unwrap_or(args.idle)),
        say: args.say.clone(),
        max: args.max,
        pokes: 0,
        last_poke: None,
        seen: None,
        started: time::show(synapse_node::driver::now()),
        process: None,
    })
}

/// The process behind `--detach`.
pub fn detached(id: &str) -> ExitCode {
    let _ = rustix::process::setsid();
    let read = Home::from_env().ok().and_then(|home| Some((home.clone(), read(&home, id)?)));
    let Some((home, plan)) = read else { return ExitCode::from(2) };
    match super::block_on(keep_watch(home, plan, false)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => ExitCode::from(fail.code),
    }
}

async fn keep_watch(home: Home, mut plan: Plan, json: bool) -> Done {
    use tokio::signal::unix::{SignalKind, signal};
    plan.process = ProcessMark::own().ok();
    write(&home, &plan)?;
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let ended = tokio::select! {
        ended = poke_on(&home, &mut plan, json) => ended,
        _ = int.recv() => Ok("stopped".to_owned()),
        _ = term.recv() => Ok("stopped".to_owned()),
    };
    let _ = files::remove(&path(&home, &plan.id));
    let why = ended?;
    say(
        json,
        &json!({ "watch": plan.id, "ended": why, "pokes": plan.pokes }),
        &format!("watch ended: {why}"),
    );
    Ok(())
}

/// Until there is a reason to end; the reason.
async fn poke_on(home: &Home, plan: &mut Plan, json: bool) -> Result<String, Fail> {
    let id = plan.agent_id;
    let mut events: Option<LineStream> = None;
    let mut quiet_since = tokio::time::Instant::now();
    let mut poked: Option<tokio::time::Instant> = None;
    let mut not_before = quiet_since;
    loop {
        let (roll, _) = Roll::look(home.clone());
        if !roll.is_held(&id) {
            return Ok(format!("{} was stopped", plan.agent));
        }
        if events.is_none() {
            events = match roll.connect(&id).await {
                Ok(client) => client.lines("/api/v1/events", None).await.ok(),
                Err(_) => None,
            };
        }
        let idle = Duration::from_millis(plan.idle_ms);
        let every = Duration::from_millis(plan.every_ms);
        let due = (quiet_since + idle).max(poked.map_or(quiet_since, |at| at + every)).max(not_before);
        let now = tokio::time::Instant::now();
        if now < due {
            if something_happened(&mut events, due).await {
                quiet_since = tokio::time::Instant::now();
            }
            continue;
        }
        let known = facts::gather(&roll, &id, facts::PATIENCE).await;
        let judged = judge(&Sight::of(&known, synapse_node::driver::now().0), plan.idle_ms);
        tell(home, plan, &judged, json)?;
        match judged {
            Judged::Poke { unfinished } => {
                poke(&roll, plan).await?;
                (poked, quiet_since) = (Some(now), now);
                write(home, plan)?;
                let told = json!({
                    "watch": plan.id, "poke": plan.pokes, "agent": plan.agent, "unfinished": unfinished,
                });
                say(json, &told, &format!("poked {} ({} of {})", plan.agent, plan.pokes, plan.max));
                if plan.pokes >= plan.max {
                    return Ok(format!("poked {} times, as often as it may", plan.pokes));
                }
            }
            Judged::NotYet { ms } => not_before = now + Duration::from_millis(ms).min(LOOK_MAX),
            // Not now. What a person has to know of may change before it would be poked.
            Judged::Left { .. } | Judged::Waiting | Judged::Paused { .. } | Judged::Wedged { .. } => {
                not_before = now + idle.min(LOOK_MAX);
            }
        }
    }
}

/// It is looked at again after this long at the latest.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// What is seen is kept for `--list`; what a person has to know of is said once.
fn tell(home: &Home, plan: &mut Plan, judged: &Judged, json: bool) -> Done {
    if plan.seen.as_deref() == Some(judged.word()) {
        return Ok(());
    }
    plan.seen = Some(judged.word().to_owned());
    write(home, plan)?;
    if let Some(words) = judged.alert(&plan.agent) {
        let told = json!({ "watch": plan.id, "agent": plan.agent, "alert": judged, "message": words });
        say(json, &told, &show::safe(&words));
    }
    Ok(())
}

/// Waits for news of the agent, until the given moment at most; true if there was any.
async fn something_happened(events: &mut Option<LineStream>, until: tokio::time::Instant) -> bool {
    /// A node that is away, or an agent that was stopped, is noticed after this long.
    const LOOK_AGAIN: Duration = Duration::from_secs(2);
    let soon = until.min(tokio::time::Instant::now() + LOOK_AGAIN);
    let Some(stream) = events else {
        tokio::time::sleep_until(soon).await;
        return false;
    };
    match tokio::time::timeout_at(until, stream.next_event()).await {
        Ok(Some(_)) => true,
        Ok(None) => {
            *events = None;
            tokio::time::sleep_until(until.min(tokio::time::Instant::now() + Duration::from_millis(200)))
                .await;
            false
        }
        Err(_) => false,
    }
}

async fn poke(roll: &Roll, plan: &mut Plan) -> Done {
    let request = MessageRequest {
        message: plan.say.clone().into(),
        priority: Some(3),
        // A watch that asks twice because it did not hear the answer pokes once.
        message_id: Some(format!("watch-{}-{}", plan.id, plan.pokes + 1)),
        response_expected: Some(false),
        ..MessageRequest::default()
    };
    super::wait::patiently(facts::PATIENCE, async || {
        roll.connect(&plan.agent_id).await?.post::<MessageAccepted>("/message", &request).await
    })
    .await?;
    plan.pokes += 1;
    plan.last_poke = Some(time::show(synapse_node::driver::now()));
    Ok(())
}

fn say(json: bool, value: &serde_json::Value, text: &str) {
    if json { show::json(value) } else { show::out(text) }
}

fn folder(home: &Home) -> PathBuf {
    home.root().join("watches")
}

fn path(home: &Home, id: &str) -> PathBuf {
    folder(home).join(format!("{id}.json"))
}

fn write(home: &Home, plan: &Plan) -> Done {
    files::private_dir(&folder(home))?;
    let text = serde_json::to_vec_pretty(plan).map_err(|e| Fail::usage(e.to_string()))?;
    Ok(files::write_volatile(&path(home, &plan.id), &text)?)
}

fn read(home: &Home, id: &str) -> Option<Plan> {
    let plain = id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !plain {
        return None;
    }
    let bytes = files::read_private(&path(home, id), FILE_BYTES_MAX, Access::Plain).ok()?;
    serde_json::from_slice::<Plan>(&bytes).ok().filter(|plan| plan.id == id)
}

/// All that are kept; files of watches that were killed are removed.
fn all(home: &Home) -> Result<Vec<Plan>, Fail> {
    let files = match std::fs::read_dir(folder(home)) {
        Ok(files) => files,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let mut plans = Vec::new();
    for file in files.flatten() {
        let name = file.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
        let Some(plan) = read(home, id) else { continue };
        match &plan.process {
            Some(mark) if !mark.is_alive() => files::remove(&path(home, id))?,
            None if is_old(&plan) => files::remove(&path(home, id))?,
            _ => plans.push(plan),
        }
    }
    plans.sort_by(|a, b| a.started.cmp(&b.started));
    Ok(plans)
}

/// It should have begun by now.
fn is_old(plan: &Plan) -> bool {
    const BEGIN_MS: u64 = 60_000;
    let now = synapse_node::driver::now();
    time::read("started", &plan.started).map_or(true, |at| now.since_ms(at) > BEGIN_MS)
}

/// What the watched agent is called now, in this folder.
fn called(plan: &Plan) -> String {
    let roll = Roll::call_quietly().ok().map(|(roll, _)| roll);
    let roll = roll.filter(|roll| roll.candidates.iter().any(|one| one.id == plan.agent_id));
    roll.map_or_else(|| plan.agent.clone(), |roll| roll.label(&plan.agent_id))
}

fn list(home: &Home, json: bool) -> Done {
    let plans = all(home)?;
    if json {
        show::json(&plans);
        return Ok(());
    }
    if plans.is_empty() {
        show::out("nothing is being watched");
        return Ok(());
    }
    let now = synapse_node::driver::now().0;
    let rows: Vec<Vec<String>> = plans
        .iter()
        .map(|plan| {
            let last = plan.last_poke.as_ref().map_or_else(|| "-".to_owned(), |at| reason::ago(at, now));
            vec![
                plan.id.clone(),
                called(plan),
                plan.seen.clone().unwrap_or_else(|| "-".to_owned()),
                show::ago(plan.idle_ms),
                format!("{} of {}", plan.pokes, plan.max),
                last,
                show::line(&plan.say, 60),
            ]
        })
        .collect();
    show::out(&show::table(&["WATCH", "AGENT", "SEEN", "IDLE", "POKES", "LAST", "SAYS"], &rows));
    Ok(())
}

fn stop(home: &Home, what: &str, json: bool) -> Done {
    let plans = all(home)?;
    let (roll, _) = Roll::call_quietly()?;
    let agent = roll.find_one(what).ok().map(|one| one.id);
    let is_meant =
        |plan: &&Plan| what == "all" || plan.id == what || plan.agent == what || agent == Some(plan.agent_id);
    let meant: Vec<&Plan> = plans.iter().filter(is_meant).collect();
    if meant.is_empty() && what != "all" {
        return Err(Fail::refused(format!("no watch is called {what:?}; `synapse watch --list` shows them")));
    }
    for plan in &meant {
        // One that has just been asked for says in a moment who it is.
        let begun = (0..50).find_map(|_| {
            let mark = read(home, &plan.id).and_then(|plan| plan.process);
            if mark.is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
            mark
        });
        match begun {
            Some(mark) => drop(mark.terminate()),
            None => files::remove(&path(home, &plan.id))?,
        }
    }
    let ids: Vec<&str> = meant.iter().map(|plan| plan.id.as_str()).collect();
    say(json, &json!({ "stopped": ids }), &format!("{} stopped", ids.len()));
    Ok(())
}
