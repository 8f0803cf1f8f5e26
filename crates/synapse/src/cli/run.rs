//! `synapse run`: makes a command an agent, in the background or until Ctrl-C.

use super::{Network, Run, Who};
use crate::fail::{Done, Fail};
use crate::launch::{self, Started, Wish};
use crate::show;
use serde_json::json;
use std::path::PathBuf;
use synapse_core::ids::{AgentType, Label};
use synapse_dialects::event::EventView;
use synapse_node::launch::{CardOptions, Exec, Extension};
use synapse_node::{Hand, Listen};
use synapse_peer::Client;
use synapse_store::home::Home;
use synapse_store::should_run;

/// What a plain command may print: its answer must fit into a message.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// What a streaming program may print.
const EVENTS_BYTES_MAX: u64 = 64 << 20;

pub(super) fn run(args: Run, json: bool) -> Done {
    if args.acp {
        return super::acp::command(args.who, args.program, args.detach, json);
    }
    let Some((command, hand)) = hand_of(&args) else {
        let how = super::wrap::How {
            new: args.new,
            detach: args.detach,
            json,
            start_another: format!("synapse run --new -- {}", super::wrap::in_shell(&args.program)),
        };
        return super::wrap::command(args.who, args.program, args.type_when, &how);
    };
    start_plain(args.who, &command, hand, args.detach, json)
}

/// What is not in a terminal, and the command that it is named after.
fn hand_of(args: &Run) -> Option<(String, Hand)> {
    if args.echo {
        return Some(("echo".to_owned(), Hand::Echo));
    }
    let exec = args.exec.clone()?;
    Some((exec.clone(), Hand::Exec(exec_of(args, &exec))))
}

/// As `run`, for one that is there to be called over A2A; with `open` by anyone on this machine.
pub(super) fn serve(args: Run, open: bool, extensions: Vec<Extension>, json: bool) -> Done {
    let (command, hand) = hand_of(&args).ok_or_else(|| Fail::usage("say --exec COMMAND, or --echo"))?;
    let detach = args.detach;
    start(args.who, &command, hand, Shape { detach, serves: Some(Serves { open, extensions }) }, json)
}

/// How it is started: whether we stay, and whom it serves if that is what it is for.
struct Shape {
    detach: bool,
    serves: Option<Serves>,
}

struct Serves {
    open: bool,
    extensions: Vec<Extension>,
}

/// Starts what no stranger is to call.
pub(super) fn start_plain(who: Who, command: &str, hand: Hand, detach: bool, json: bool) -> Done {
    start(who, command, hand, Shape { detach, serves: None }, json)
}

fn start(who: Who, command: &str, hand: Hand, shape: Shape, json: bool) -> Done {
    let mut wish = wish(who, command, hand)?;
    if let Some(serves) = &shape.serves {
        (wish.listen.open, wish.extensions) = (serves.open, serves.extensions.clone());
    }
    let home = Home::from_env()?;
    crate::profiles::warn_of_settings(&home, &wish.working_dir);
    let started = launch::start(&home, wish)?;
    if !json && let Some(serves) = &shape.serves {
        tell_places(&started, serves.open, &home);
    }
    if !shape.detach {
        return super::block_on(stay(home, started, json));
    }
    tell(&started, json);
    Ok(())
}

/// Where it is called over A2A, and with what.
fn tell_places(started: &Started, open: bool, home: &Home) {
    let endpoint = &started.endpoint;
    show::out(&format!("card      {endpoint}/.well-known/agent-card.json"));
    show::out(&format!("JSON-RPC  {endpoint}/api/v1/agent"));
    show::out(&format!("HTTP+JSON {endpoint}/a2a/v1"));
    show::out(&format!(
        "gRPC      {}",
        endpoint.split_once("://").map_or(endpoint.as_str(), |(_, rest)| rest)
    ));
    if open {
        let warning = "anyone on this machine may give it tasks (--auth none); other machines may not";
        show::out(&format!("token     {}", show::paint("33", &format!("none: {warning}"))));
    } else {
        show::out(&format!("token     {} (Authorization: Bearer …)", home.token_file().display()));
    }
}

fn exec_of(args: &Run, command: &str) -> Exec {
    let default_limit = if args.jsonl { EVENTS_BYTES_MAX } else { ANSWER_BYTES_MAX };
    Exec {
        command: command.to_owned(),
        jsonl: args.jsonl,
        parallel: usize::from(args.parallel),
        time_limit_ms: args.time_limit.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        output_limit: args.output_limit.unwrap_or(default_limit),
        history: usize::from(args.history),
        env: std::collections::BTreeMap::new(),
    }
}

pub(super) fn wish(who: Who, command: &str, hand: Hand) -> Result<Wish, Fail> {
    let label = |raw: &String| Label::parse(raw).map_err(|bad| Fail::usage(bad.to_string()));
    let agent_name = |raw: &String| Label::parse_agent_name(raw).map_err(|bad| Fail::usage(bad.to_string()));
    let dir = who.cwd.unwrap_or_else(|| PathBuf::from("."));
    let working_dir = dir.canonicalize().map_err(|e| Fail::usage(format!("{}: {e}", dir.display())))?;
    let kind = match who.kind {
        Some(raw) => AgentType::parse(&raw).map_err(|bad| Fail::usage(bad.to_string()))?,
        None => kind_of(command),
    };
    Ok(Wish {
        kind,
        name: who.name.as_ref().map(agent_name).transpose()?,
        number: None,
        role: who.role.as_ref().map(label).transpose()?,
        capabilities: who.skills.iter().map(label).collect::<Result<_, _>>()?,
        description: who.description,
        extensions: Vec::new(),
        card: CardOptions {
            interfaces: who.interfaces.map(|listed| listed.0).unwrap_or_default(),
            input_modes: who.input_modes.map(|listed| listed.0).unwrap_or_default(),
            output_modes: who.output_modes.map(|listed| listed.0).unwrap_or_default(),
            no_streaming: who.no_streaming,
            no_push: who.no_push,
        },
        working_dir,
        port: who.port,
        listen: listen(who.network)?,
        hand,
    })
}

/// Paths are made absolute: the node works elsewhere.
fn listen(said: Network) -> Result<Listen, Fail> {
    let absolute = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
    Ok(Listen {
        address: said.listen,
        hosts: said.hosts,
        public_url: said.public_url,
        insecure: said.insecure,
        open: false,
        cert: absolute(said.tls_cert)?,
        key: absolute(said.tls_key)?,
        client_ca: absolute(said.client_ca)?,
    })
}

/// `./tools/review.py --fast` is a `review`, also after `env` and assignments.
fn kind_of(command: &str) -> AgentType {
    let is_assignment = |word: &&str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut words = command.split_whitespace().skip_while(is_assignment).peekable();
    if words.peek() == Some(&"env") {
        words.next();
    }
    let program = words.find(|word| !is_assignment(word)).unwrap_or_default();
    let file = program.rsplit('/').next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default().to_ascii_lowercase();
    AgentType::parse(&stem).unwrap_or_else(|_| AgentType::parse("exec").expect("a plain word is a type"))
}

/// A started agent, for programs.
pub(super) fn told(started: &Started) -> serde_json::Value {
    json!({
        "agent_id": started.id, "name": started.name, "handle": started.handle, "port": started.port,
        "endpoint": started.endpoint, "resumed": started.resumed,
    })
}

pub(super) fn tell(started: &Started, json: bool) {
    if json {
        show::json(&told(started));
        return;
    }
    let resumed = match (started.resumed, started.is_named) {
        (false, _) => "",
        (true, false) => ", with the mailbox of the one before it",
        (true, true) => ", with the mailbox it had before",
    };
    show::out(&format!("{} runs as {}{resumed}", show::paint("1", &started.label()), started.handle));
    match started.waiting {
        0 => {}
        1 => show::out("1 message came while it was away"),
        n => show::out(&format!("{n} messages came while it was away")),
    }
}

/// Shows what happens until Ctrl-C, which stops the agent; a closed terminal does not.
async fn stay(home: Home, started: Started, json: bool) -> Done {
    use tokio::signal::unix::{SignalKind, signal};
    if show::err_on_terminal() && !json {
        eprintln!("{}", show::paint_err("2", "Ctrl-C stops it; closing the terminal does not"));
    }
    let (mut int, mut term, mut hup) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let socket = home.agent(&started.id).socket();
    tokio::select! {
        _ = int.recv() => {}
        _ = term.recv() => {}
        _ = hup.recv() => return Ok(()),
        () = watch(&home, &started, &socket, json) => return Ok(()),
    }
    let entry =
        synapse_store::registry::scan(&home).agents.into_iter().find(|entry| entry.agent_id == started.id);
    let _ = should_run::forget(&home.agent(&started.id));
    match entry {
        Some(entry) => super::kill::stop(entry.pid, entry.start_time, &started.label()).await,
        None => Ok(()),
    }
}

/// Events, across restarts of the node, until the agent is gone.
async fn watch(home: &Home, started: &Started, socket: &std::path::Path, json: bool) {
    let (mut after, mut is_told) = (None, false);
    loop {
        let held =
            synapse_holder::holder_of(home.agent(&started.id).path()).is_some_and(|mark| mark.is_alive());
        if !held {
            let ended = synapse_store::ended::Ended::load(&home.agent(&started.id));
            let why = ended.map(|ended| ended.why);
            if json {
                show::json(&json!({ "agent_id": started.id, "stopped": true, "why": why }));
                return;
            }
            let why = why.map_or_else(String::new, |why| format!(": {}", show::cell(&why, 300)));
            show::out(&format!("{} has stopped{why}", started.label()));
            return;
        }
        if let Ok(client) = Client::connect(socket).await
            && let Ok(mut events) = client.lines("/api/v1/events", after).await
        {
            // Not before we watch: who reads this may send at once, and is to see it here.
            if !std::mem::replace(&mut is_told, true) {
                tell(started, json);
            }
            while let Some(event) = events.next_event().await {
                after = event.id.or(after);
                if json {
                    show::out(&event.data);
                } else if let Ok(view) = serde_json::from_str::<EventView>(&event.data) {
                    tell_event(&view);
                }
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

fn tell_event(view: &EventView) {
    let text = |name: &str| view.data.get(name).and_then(|v| v.as_str()).unwrap_or_default();
    let task = view.task_id.as_deref().and_then(|t| t.get(..8)).unwrap_or("");
    let line = match view.event.as_str() {
        "accepted" => {
            let from =
                view.data.get("from").and_then(|f| f.get("label")).and_then(|l| l.as_str()).unwrap_or("?");
            format!("{task} ← {}: {}", show::cell(from, 24), show::cell(text("text"), 70))
        }
        "progress" => format!("{task} … {}", show::cell(text("text"), 70)),
        "ended" => {
            let answer = view
                .data
                .get("answer")
                .and_then(|a| a.get("text"))
                .and_then(|t| t.as_str())
                .unwrap_or(text("why"));
            format!("{task} → {} {}", show::state(text("state")), show::cell(answer, 70))
        }
        "loop" => format!("{}: {}", show::paint("31", "loop stopped"), show::cell(text("why"), 130)),
        _ => return,
    };
    show::out(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_comes_from_the_program() {
        let cases = [
            ("cat", "cat"),
            ("./tools/Review.py --x", "review"),
            ("/usr/bin/python3 a.py", "python3"),
            ("MODE=fast LANG=C ./tools/review.py", "review"),
            ("env A=1 B=2 cat", "cat"),
            ("A='x y' cat", "exec"),
            ("A=1", "exec"),
            ("'a b'", "exec"),
            ("", "exec"),
        ];
        for (command, kind) in cases {
            assert_eq!(kind_of(command).as_str(), kind, "{command}");
        }
    }
}
