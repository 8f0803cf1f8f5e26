//! Describes an agent for its card, based on its hand and on the user's description (A3, A4).
//!
//! Not here: commands, folders and other details that strangers must not see (A26).

use crate::doors::App;
use crate::launch::{Exec, Hand};
use serde_json::{Map, Value, json};
use synapse_a2a::card::Skill;
use synapse_a2a::pb;
use synapse_a2a::wire::to_struct;
use synapse_core::policy::Verb;

/// The extension with details of the node, in the extended card.
pub const NODE_URI: &str = "https://github.com/synapse-agents/synapse/extensions/node/v1";

/// Returns a one-sentence description of the agent, and its skills.
pub fn skills(app: &App, hand: &Hand) -> (String, Vec<Skill>) {
    let kind = app.agent.kind.to_string();
    let (about, tag) = match hand {
        Hand::Exec(exec) if exec.jsonl => {
            ("A program that works on each message and tells how far it is".to_owned(), "program")
        }
        Hand::Exec(_) => ("A command that answers each message with what it prints".to_owned(), "command"),
        Hand::Echo => ("Answers each message with itself, to try things out".to_owned(), "echo"),
        Hand::Mailbox => ("A program that takes messages and answers them".to_owned(), "program"),
        Hand::Acp(_) => (format!("{kind}, without a terminal; what it says is the answer"), "program"),
        Hand::Terminal(_) => {
            let name = program(app).unwrap_or_else(|| kind.clone());
            (
                format!("{name}, in a terminal; messages are typed to it and what it says is the answer"),
                "terminal",
            )
        }
    };
    let own = Skill {
        id: kind.clone(),
        name: program(app).unwrap_or_else(|| kind.clone()),
        description: about.clone(),
        tags: vec![kind.clone(), tag.to_owned()],
    };
    let said = app.agent.capabilities.iter().map(ToString::to_string).filter(|name| *name != kind);
    let said = said.map(|name| Skill {
        description: format!("{} was started with this skill: {name}", app.agent.label()),
        tags: vec![name.clone()],
        id: name.clone(),
        name,
    });
    (about, std::iter::once(own).chain(said).collect())
}

/// Returns the name of the program in the agent's terminal.
fn program(app: &App) -> Option<String> {
    let watch = app.seat.as_ref()?.watch();
    let profile = watch.profile();
    let known = if profile.about.is_empty() { &profile.name } else { &profile.about };
    (profile.name != "generic").then(|| known.clone())
}

/// Returns the skills that only some callers may use.
pub fn rights(app: &App, may: impl Fn(Verb) -> bool) -> Vec<Skill> {
    let mut skills = Vec::new();
    if may(Verb::Interrupt) {
        skills.push(Skill {
            id: "interrupt".into(),
            name: "Interrupt".into(),
            description:
                "A message with the priority 5 in its metadata stops what the agent does and is next".into(),
            tags: vec!["priority".into()],
        });
    }
    if app.takes_decisions() && may(Verb::Approve) {
        skills.push(Skill {
            id: "approve".into(),
            name: "Approve".into(),
            description: "A data part with `approve` or `deny` and the hash of a prompt decides that prompt"
                .into(),
            tags: vec!["approval".into()],
        });
    }
    skills
}

/// Returns the agent's identity on its machine, its limits, and the caller's rights.
pub fn node(app: &App, hand: &Hand, may: impl Fn(Verb) -> bool) -> pb::AgentExtension {
    let rights: Vec<&str> = Verb::ALL.into_iter().filter(|verb| may(*verb)).map(Verb::word).collect();
    let cli = app.cli().borrow().version.clone();
    let mut params = Map::new();
    params.insert("agentId".into(), format!("0x{}", app.agent.id).into());
    params.insert("agentType".into(), app.agent.kind.to_string().into());
    params.insert("messageBytesMax".into(), app.body_bytes_max.into());
    params.insert("rights".into(), rights.into());
    let optional = [
        ("handle", app.agent.handle()),
        ("role", app.agent.role.as_ref().map(ToString::to_string)),
        ("programVersion", cli),
    ];
    params.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
    if let Hand::Exec(Exec { parallel, time_limit_ms, output_limit, .. }) = hand {
        let bounds = json!({
            "tasksAtOnce": parallel, "timeLimitMs": time_limit_ms, "outputBytesMax": output_limit,
        });
        let bounds = bounds.as_object().into_iter().flatten().filter(|(_, value)| **value != Value::Null);
        params.extend(bounds.map(|(name, value)| (name.clone(), value.clone())));
    }
    pb::AgentExtension {
        uri: NODE_URI.into(),
        description: "Who the agent is on its machine, what its bounds are, and what the caller may do"
            .into(),
        required: false,
        params: to_struct(params),
    }
}
