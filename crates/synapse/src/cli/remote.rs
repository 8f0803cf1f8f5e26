//! `synapse a2a add`, `list`, `show`, `refresh` and `remove`: names for remote agents that speak A2A.

use super::elsewhere::{credentials, failed, known, more, refreshed, same_host, to_keep};
use super::{Calling, examples};
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::show;
use clap::Subcommand;
use serde_json::{Value, json};
use std::path::PathBuf;
use synapse_core::ids::Label;
use synapse_core::routes::Target;
use synapse_node::driver::now;
use synapse_peer::a2a::{self, HttpUrl, Look};
use synapse_store::home::Home;
use synapse_store::remotes::{Bring, Remote};

#[derive(Subcommand)]
pub(super) enum RemoteCommand {
    /// Add a remote agent; fetch and check its card
    #[command(after_help = examples::A2A_ADD)]
    Add {
        /// Name to use on this machine
        name: String,
        /// URL of the agent or of its card
        url: String,
    },
    /// List the remotes
    List,
    /// Show the details of a remote
    Show {
        /// Remote
        name: String,
    },
    /// Remove a remote from this machine
    Remove {
        /// Remote
        name: String,
    },
    /// Fetch the cards of remotes again
    Refresh {
        /// Remote [default: all]
        name: Option<String>,
        /// Accept a changed or missing card signature
        #[arg(long, requires = "name")]
        accept_key: bool,
    },
}

pub(super) async fn remote(command: RemoteCommand, calling: &Calling, json: bool) -> Done {
    let home = Home::from_env()?;
    let changes = !matches!(command, RemoteCommand::List | RemoteCommand::Show { .. });
    // Where a name leads, with whose token and key, is the user's to say.
    if changes && Roll::call_quietly()?.0.caller("change what is known of agents elsewhere")?.is_some() {
        return Err(Fail::refused(
            "an agent may not change what is known of agents elsewhere; only the user may, in a process that no \
             agent started",
        ));
    }
    match command {
        RemoteCommand::Add { name, url } => add(&home, &name, &url, calling, json).await,
        RemoteCommand::List => list(&home, json),
        RemoteCommand::Show { name } => {
            let remote = named(&home, &name)?;
            tell(&remote, json)
        }
        RemoteCommand::Remove { name } => {
            let remote = named(&home, &name)?;
            Remote::remove(&home, &remote.name)?;
            if json {
                show::json(&json!({ "name": remote.name, "removed": true }));
            } else {
                show::out(&format!("{} is forgotten", remote.name));
            }
            Ok(())
        }
        RemoteCommand::Refresh { name, accept_key } => {
            refresh(&home, name.as_deref(), accept_key, calling, json).await
        }
    }
}

async fn add(home: &Home, name: &str, raw: &str, calling: &Calling, json: bool) -> Done {
    let name = Label::parse(name).map_err(|bad| Fail::usage(bad.to_string()))?;
    let url = HttpUrl::parse(raw).map_err(Fail::usage)?;
    if !matches!(Target::parse(name.as_str()), Ok(Target::Named(_))) || name.as_str() == "user" {
        return Err(Fail::usage(format!("{name} means something else here; choose another name")));
    }
    let (roll, _) = Roll::call_quietly()?;
    if roll.find(name.as_str()).is_ok_and(|found| !found.is_empty()) {
        return Err(Fail::refused(format!("an agent of this machine is called {name}; choose another name")));
    }
    let bring = Bring {
        token_file: calling.token_file.as_ref().map(|path| whole(path)),
        token_env: calling.token_env.clone(),
        ca: calling.ca.as_ref().map(|path| whole(path)),
        cert: calling.cert.as_ref().map(|path| whole(path)),
        key: calling.key.as_ref().map(|path| whole(path)),
    };
    let with = credentials(calling, &bring);
    let web = a2a::client(&url, &with);
    let found = match a2a::look(&web, &url).await.map_err(|e| failed(&e, raw))? {
        Look::Found(found) => *found,
        // A node has a card too, further down.
        _ => node_card(&web, &url, raw).await?,
    };
    let trust = a2a::check(&web, &found).await.map_err(|e| failed(&e, raw))?;
    for other in same_host(home, &url) {
        trust.follows(other.card.signed_by.as_deref()).map_err(|why| {
            let advice = format!("`synapse a2a refresh {} --accept-key`", other.name);
            Fail::refused(format!("{why} (as {} knows it). If you know why: {advice}", other.name))
        })?;
    }
    // Asked here once, so that nobody is surprised by the first message.
    let agent = a2a::Agent::new(web.clone(), found.clone(), &with, &calling.allow_hosts);
    let agent = agent.map_err(|e| failed(&e, raw))?;
    let card = to_keep(&more(&web, found, &agent, &trust).await, &trust);
    let allow_hosts = calling.allow_hosts.clone();
    let remote = Remote { name, url: url.to_string(), bring, allow_hosts, card, added_ms: now().0 };
    if !remote.create(home)? {
        return Err(Fail::refused(format!(
            "there is a remote {0} already; `synapse a2a remove {0}` makes room",
            remote.name
        )));
    }
    tell(&remote, json)
}

/// A node of Synapse that is to be called by A2A: its card is where cards are.
async fn node_card(web: &synapse_peer::web::Client, url: &HttpUrl, raw: &str) -> Result<a2a::Found, Fail> {
    let at = url.at_root(".well-known/agent-card.json");
    match a2a::again(web, &at, None, None).await.map_err(|e| failed(&e, raw))? {
        Look::Found(found) => Ok(*found),
        _ => Err(Fail::refused(format!("{raw} has no card"))),
    }
}

/// As it is found from any folder.
fn whole(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn named(home: &Home, name: &str) -> Result<Remote, Fail> {
    let found = match Label::parse(name) {
        Ok(name) => Remote::find(home, &name)?,
        Err(_) => None,
    };
    found.ok_or_else(|| Fail::refused(format!("there is no remote {name:?}; `synapse a2a list` shows them")))
}

async fn refresh(home: &Home, name: Option<&str>, accept_key: bool, calling: &Calling, json: bool) -> Done {
    let all = match name {
        Some(name) => vec![named(home, name)?],
        None => Remote::all(home).0,
    };
    if all.is_empty() {
        if json { show::json_none() } else { show::out(NO_REMOTES) }
    }
    let mut failure = None;
    for mut remote in all {
        let url = HttpUrl::parse(&remote.url).map_err(Fail::usage)?;
        let with = credentials(calling, &remote.bring);
        let web = a2a::client(&url, &with);
        if accept_key {
            // Also what its tag would say is unchanged is looked at again.
            (remote.card.signed_by, remote.card.etag) = (None, None);
        }
        match refreshed(&web, &with, &remote).await {
            Ok(card) => {
                remote.card = card;
                remote.save(home)?;
                tell(&remote, json)?;
            }
            Err(fail) if name.is_some() => return Err(fail),
            Err(fail) => {
                fail.tell(json);
                failure = Some(fail);
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

const NO_REMOTES: &str = "no remotes; `synapse a2a add <NAME> <URL>` adds one";

fn list(home: &Home, json: bool) -> Done {
    let (all, problems) = Remote::all(home);
    for problem in problems {
        eprintln!("{}: {} ({})", show::paint_err("33", "warning"), problem.why, problem.path.display());
    }
    if json {
        show::json(&all.iter().map(view).collect::<Vec<_>>());
        return Ok(());
    }
    if all.is_empty() {
        show::out(NO_REMOTES);
        return Ok(());
    }
    let row = |one: &Remote| {
        let view = view(one);
        let cell = |name: &str, width| show::cell(view[name].as_str().unwrap_or_default(), width);
        vec![
            one.name.to_string(),
            cell("card_name", 40),
            cell("speaks", 20),
            cell("signature", 30),
            show::cell(&one.url, 80),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    show::out(&show::table(&["NAME", "CALLS ITSELF", "SPEAKS", "SIGNATURE", "URL"], &rows));
    Ok(())
}

/// One remote, for programs; stable. Paths of secrets are told, secrets are not.
fn view(one: &Remote) -> Value {
    let found = known(&one.card).ok();
    let interface = found.as_ref().and_then(|found| found.place(&one.allow_hosts).ok());
    let card = found.as_ref().map(|found| &found.card);
    json!({
        "name": one.name,
        "agent_id": one.id().to_string(),
        "url": one.url,
        "card_name": card.map(|card| card.name.clone()),
        "description": card.map(|card| card.description.clone()),
        "version": card.map(|card| card.version.clone()),
        "skills": card.map(|card| card.skills.clone()),
        "streaming": card.is_some_and(|card| card.streaming),
        "speaks": interface.as_ref().map(|at| format!("{} {}", at.binding(), at.version())),
        "endpoint": interface.as_ref().map(|at| at.url().to_string()),
        "signature": one.card.signature,
        "signed_by": one.card.signed_by,
        "card_at": one.card.at,
        "fetched_ms": one.card.fetched_ms,
        "max_age_s": one.card.max_age_s,
        "token_file": one.bring.token_file,
        "token_env": one.bring.token_env,
        "allow_hosts": one.allow_hosts,
    })
}

fn tell(one: &Remote, json: bool) -> Done {
    let view = view(one);
    if json {
        show::json(&view);
        return Ok(());
    }
    let rows = [
        ("name", "name"),
        ("url", "url"),
        ("is", "card_name"),
        ("about", "description"),
        ("version", "version"),
        ("speaks", "speaks"),
        ("at", "endpoint"),
        ("card", "signature"),
        ("token", "token_file"),
        ("token", "token_env"),
    ];
    for (name, field) in rows {
        if let Some(text) = view[field].as_str().filter(|text| !text.is_empty()) {
            show::out(&format!("{}  {}", show::paint("2", &format!("{name:7}")), show::cell(text, 100)));
        }
    }
    Ok(())
}
