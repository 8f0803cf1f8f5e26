//! Finding agents on this machine: who is meant, where its node is, which agent we ourselves run under.

use crate::fail::Fail;
use synapse_core::Refusal;
use synapse_core::ids::{AgentId, TaskRef};
use synapse_core::routes::{self, Candidate, Target};
use synapse_dialects::api::TaskView;
use synapse_peer::outbox::Own;
use synapse_peer::{CallError, Client, Ways};
use synapse_store::files::{self, Access};
use synapse_store::holders;
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::registry::{self, Scan};

/// One look at the registry and at what is known.
pub struct Roll {
    pub home: Home,
    pub scan: Scan,
    pub known: Vec<Known>,
    pub candidates: Vec<Candidate>,
    /// Where a sandbox keeps us from sockets, or the home from us: the outbox of the agent we run under.
    outbox: Option<Own>,
    /// By which way a node was last reached.
    way: std::sync::Mutex<Option<&'static str>>,
}

impl Roll {
    pub fn call() -> Result<Self, Fail> {
        let home = Home::from_env()?;
        if let Some(roll) = Self::call_from_sandbox(&home)? {
            return Ok(roll);
        }
        let scan = registry::scan(&home);
        let (known, problems) = Known::all(&home);
        for problem in scan.problems.iter().chain(&problems) {
            eprintln!(
                "{}: {} ({})",
                crate::show::paint_err("33", "warning"),
                problem.why,
                problem.path.display()
            );
        }
        let candidates = registry::merge(&scan, &known);
        Ok(Self { home, scan, known, candidates, outbox: None, way: std::sync::Mutex::default() })
    }

    /// In a sandbox without sockets, or without the home, the agent's own node tells who is here (CLI-10).
    fn call_from_sandbox(home: &Home) -> Result<Option<Self>, Fail> {
        let hidden = !home.agents_dir().is_dir();
        if synapse_peer::sockets_work() && !hidden {
            return Ok(None);
        }
        let Some(own) = own_outbox() else { return Ok(None) };
        let candidates = own.roll()?;
        let (scan, known, way) = (Scan::default(), Vec::new(), std::sync::Mutex::default());
        Ok(Some(Self { home: home.clone(), scan, known, candidates, outbox: Some(own), way }))
    }

    /// The outbox, if we are in a sandbox that leaves no other way.
    pub fn sandboxed(&self) -> Option<&Own> {
        self.outbox.as_ref()
    }

    /// The agents a target means.
    pub fn find(&self, raw: &str) -> Result<Vec<&Candidate>, Fail> {
        let target = Target::parse(raw).map_err(|bad| Refusal::bad_field("target", bad.to_string()))?;
        let ids = routes::resolve(&target, &self.candidates).map_err(|no| Refusal::from((&target, no)))?;
        let mut found: Vec<&Candidate> = self.candidates.iter().filter(|c| ids.contains(&c.id)).collect();
        if let Target::Skill(_) = target {
            found.truncate(1);
        }
        Ok(found)
    }

    pub fn find_one(&self, raw: &str) -> Result<&Candidate, Fail> {
        match self.find(raw)?[..] {
            [one] => Ok(one),
            _ => Err(Fail::usage(format!("{raw:?} means several agents; name one"))),
        }
    }

    pub fn label(&self, id: &AgentId) -> String {
        let candidate = self.candidates.iter().find(|c| c.id == *id);
        candidate.map_or_else(|| id.short(), |c| c.call_it(&self.candidates))
    }

    /// The outbox of the agent we run under, if there is one.
    pub fn outbox(&self) -> Option<Own> {
        self.outbox.clone().or_else(own_outbox)
    }

    pub async fn connect(&self, id: &AgentId) -> Result<Client, CallError> {
        let socket = self.home.agent(id).socket();
        let outbox = || self.outbox().map(|own| own.line(Some(*id)));
        let ways = Ways { socket: &socket, http: self.http(id), outbox: &outbox };
        let client = Client::reach(ways).await?;
        self.went(client.way().name());
        Ok(client)
    }

    /// The port of an agent, and the token that was named for this process; no other is taken, since the user's
    /// own would make an agent the user.
    fn http(&self, id: &AgentId) -> Option<(u16, String)> {
        let file = std::env::var_os("SYNAPSE_TOKEN_FILE").filter(|file| !file.is_empty())?;
        let bytes = files::read_private(file.as_ref(), 4096, Access::Secret).ok()?;
        let token = String::from_utf8(bytes).ok()?.lines().next()?.trim().to_owned();
        let port = self.candidates.iter().find(|c| c.id == *id)?.port?;
        Some((port, token))
    }

    pub fn went(&self, way: &'static str) {
        *self.way.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(way);
    }

    /// What is told as JSON, with the way by which it went.
    pub fn with_way(&self, told: &impl serde::Serialize) -> serde_json::Value {
        let mut told = serde_json::to_value(told).unwrap_or_default();
        let way = *self.way.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let (Some(way), Some(told)) = (way, told.as_object_mut()) {
            told.insert("via".into(), way.into());
        }
        told
    }

    /// The agent whose descendant this process is; the node checks it again.
    pub fn own_agent(&self) -> Option<AgentId> {
        if let Some(own) = &self.outbox {
            return Some(own.agent);
        }
        synapse_holder::ancestors(std::process::id()).into_iter().find_map(|pid| {
            let id = holders::claimed_by(&self.home, pid)?;
            let mark = synapse_holder::holder_of(self.home.agent(&id).path())?;
            (mark.pid == pid && mark.is_alive()).then_some(id)
        })
    }

    /// The running node that knows a task: our own agent's first, then all others.
    pub async fn node_of_task(&self, task: &TaskRef) -> Result<(AgentId, TaskView), Fail> {
        let own = self.own_agent();
        let live = self.candidates.iter().filter(|c| c.live).map(|c| c.id);
        let order = own.into_iter().chain(live.filter(|id| Some(*id) != own));
        for id in order {
            let Ok(mut client) = self.connect(&id).await else { continue };
            match client.get::<TaskView>(&format!("/api/v1/tasks/{}", task.as_str())).await {
                Ok(view) => return Ok((id, view)),
                Err(CallError::Refused { status: 404, .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(Refusal::NoSuchTask { task: task.as_str().to_owned() }.into())
    }
}

/// The outbox of the agent that this process says it belongs to; its node believes only who has the key.
fn own_outbox() -> Option<Own> {
    let agent = AgentId::parse(&std::env::var("SYNAPSE_AGENT_ID").ok()?).ok()?;
    let named = std::env::var_os(synapse_node::serve::OUTBOX_VARIABLE).map(std::path::PathBuf::from);
    Own::find(named.as_deref(), &std::env::current_dir().ok()?, agent)
}
