//! Finding agents on this machine: who is meant, where its node is, which agent we ourselves run under.

use crate::fail::Fail;
use synapse_core::Refusal;
use synapse_core::ids::{AgentId, TaskRef};
use synapse_core::routes::{self, Candidate, Target};
use synapse_dialects::api::TaskView;
use synapse_peer::{CallError, Client};
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
}

impl Roll {
    pub fn call() -> Result<Self, Fail> {
        let (roll, problems) = Self::look(Home::from_env()?);
        for problem in roll.scan.problems.iter().chain(&problems) {
            eprintln!(
                "{}: {} ({})",
                crate::show::paint_err("33", "warning"),
                problem.why,
                problem.path.display()
            );
        }
        Ok(roll)
    }

    /// As `call`, without a word on what was passed over: for those who look again and again.
    pub fn look(home: Home) -> (Self, Vec<synapse_store::files::Problem>) {
        let scan = registry::scan(&home);
        let (known, problems) = Known::all(&home);
        let candidates = registry::merge(&scan, &known);
        (Self { home, scan, known, candidates }, problems)
    }

    pub fn is_held(&self, id: &AgentId) -> bool {
        synapse_holder::holder_of(self.home.agent(id).path()).is_some_and(|mark| mark.is_alive())
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

    pub async fn connect(&self, id: &AgentId) -> Result<Client, CallError> {
        Client::connect(&self.home.agent(id).socket()).await
    }

    /// The agent whose descendant this process is; the node checks it again.
    pub fn own_agent(&self) -> Option<AgentId> {
        synapse_holder::ancestors(std::process::id()).into_iter().find_map(|pid| {
            let id = holders::claimed_by(&self.home, pid)?;
            let mark = synapse_holder::holder_of(self.home.agent(&id).path())?;
            (mark.pid == pid && mark.is_alive()).then_some(id)
        })
    }

    /// Asks again for a while if the node is between two lives: it may be the one that knows.
    async fn ask_for_task(&self, id: &AgentId, task: &TaskRef) -> Result<TaskView, CallError> {
        const TRIES: u32 = 30;
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
        let mut tries = 0;
        loop {
            let asked = match self.connect(id).await {
                Ok(mut client) => client.get(&format!("/api/v1/tasks/{}", task.as_str())).await,
                Err(e) => Err(e),
            };
            tries += 1;
            match asked {
                Err(e) if e.is_passing() && tries < TRIES && self.is_held(id) => {
                    tokio::time::sleep(PAUSE).await
                }
                other => return other,
            }
        }
    }

    /// The running node that knows a task: our own agent's first, then all others.
    pub async fn node_of_task(&self, task: &TaskRef) -> Result<(AgentId, TaskView), Fail> {
        let own = self.own_agent();
        let live = self.scan.agents.iter().map(|entry| entry.agent_id);
        let order = own.into_iter().chain(live.filter(|id| Some(*id) != own));
        for id in order {
            match self.ask_for_task(&id, task).await {
                Ok(view) => return Ok((id, view)),
                Err(CallError::Refused { status: 404, .. } | CallError::Unreachable { .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(Refusal::NoSuchTask { task: task.as_str().to_owned() }.into())
    }
}
