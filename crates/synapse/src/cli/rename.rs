//! `synapse rename`: gives an agent a name, another one, or none. Its id, mail, tasks and history stay.
//!
//! The node of a running agent does it. A stopped agent is renamed under its lock, so that no holder starts it
//! meanwhile.

use crate::agents::{Roll, label_now};
use crate::doctor::mend::not_held;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::{ArgGroup, Args};
use serde_json::json;
use synapse_core::ids::{AgentId, Label};
use synapse_dialects::audit::{Actor, Line};
use synapse_dialects::rename::{RenameRequest, RenamedView};
use synapse_node::audit::{self, Audit};
use synapse_peer::CallError;
use synapse_settings::Places;
use synapse_store::home::Home;
use synapse_store::identity::{self, RenameError};
use synapse_store::known::Known;

#[derive(Args)]
#[command(override_usage = "synapse rename [OPTIONS] <AGENT> <NEW-NAME|--clear>")]
#[command(group = ArgGroup::new("change").required(true).args(["name", "clear"]))]
pub(super) struct Rename {
    /// Agent to rename, running or stopped
    agent: String,
    /// New name
    #[arg(value_name = "NEW-NAME")]
    name: Option<String>,
    /// Take its name away, so that it is called by its type
    #[arg(long)]
    clear: bool,
}

pub(super) async fn rename(args: Rename, json: bool) -> Done {
    let name = args.name.as_deref().map(Label::parse_agent_name).transpose();
    let name = name.map_err(|bad| Fail::usage(bad.to_string()))?;
    let roll = Roll::call()?;
    let found = roll.find_one(&args.agent)?;
    let (id, before) = (found.id, roll.label(&found.id));
    let refused = |why: Fail| Fail { info: not_renamed(&before, why.info), ..why };
    if roll.caller("rename agents")?.is_some() {
        return Err(refused(Fail::refused(
            "an agent may not rename agents, not even itself; only a person may",
        )));
    }
    let done = if roll.is_held(&id) {
        ask_node(&roll, &id, name.as_ref()).await
    } else {
        rename_stopped(&roll.home, &id, name)
    };
    let renamed = done.map_err(refused)?;
    if json {
        let (name, was) = (&renamed.name, &renamed.was);
        show::json(&json!({ "agent_id": id, "name": name, "was": was, "target": target(&id) }));
        return Ok(());
    }
    let label = label_now(&id);
    show::out(&match (&renamed.name, &renamed.was) {
        (now, was) if now == was => format!("{label} stays as it was"),
        (None, _) => format!("{before} has no name now; it is called {label}"),
        (Some(_), _) => format!("{before} is called {label} now"),
    });
    Ok(())
}

fn not_renamed(
    label: &str,
    mut info: synapse_dialects::error::ErrorInfo,
) -> synapse_dialects::error::ErrorInfo {
    info.message = format!("{label} was not renamed: {}", info.message);
    info
}

/// The target that means it in any folder.
fn target(id: &AgentId) -> String {
    let roll = Roll::call_quietly().map(|(roll, _)| roll.without_place());
    roll.map_or_else(|_| id.short(), |roll| roll.label(id))
}

async fn ask_node(roll: &Roll, id: &AgentId, name: Option<&Label>) -> Result<RenamedView, Fail> {
    let request = RenameRequest { name: name.map(ToString::to_string) };
    let asked = super::wait::patiently(super::facts::PATIENCE, async || {
        roll.connect(id).await?.post("/api/v1/rename", &request).await
    });
    asked.await.map_err(|error| match error {
        CallError::Refused { status: 404, info } if info.code == "not_found" => Fail::new(
            fail::ERROR,
            "other_version",
            "its node is of a version that cannot rename\nhint: synapse upgrade-agents",
        ),
        other => other.into(),
    })
}

fn rename_stopped(home: &Home, id: &AgentId, name: Option<Label>) -> Result<RenamedView, Fail> {
    let dir = home.agent(id);
    let _claim = not_held(dir.path()).map_err(|_| Fail::refused("it is being started; try again"))?;
    let (before, after) = identity::rename(home, id, name).map_err(|error| match error {
        RenameError::Refused(refusal) => refusal.into(),
        RenameError::Known(error) => Fail::from(error),
    })?;
    if before != after {
        log(home, &before, &after);
    }
    let shown = |known: &Known| known.name.as_ref().map(ToString::to_string);
    Ok(RenamedView { agent_id: id.to_string(), name: shown(&after), was: shown(&before) })
}

/// Writes the line that the node of a running agent would write.
fn log(home: &Home, before: &Known, after: &Known) {
    let settings = synapse_settings::load(&Places::here(home.root(), after.working_dir.as_ref())).settings;
    let who = Actor { label: "user".into(), agent: None, proof: None };
    let mut line = Line::new(synapse_node::driver::now(), &who, synapse_store::audit::COMMAND_DOOR, "rename");
    line.note = Some(audit::renamed(before, after).into());
    if let Err(e) = Audit::write_offline(&home.agent(&after.id).audit(), &settings.audit, &line) {
        eprintln!("{}: the audit log has no line of this: {e}", show::paint_err("33", "warning"));
    }
}
