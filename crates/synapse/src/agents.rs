//! Finding agents on this machine: which agent a target means, where its node is, and which agent
//! this process runs below.

pub mod choices;
mod sandbox;

use crate::fail::{self, Fail};
use synapse_core::Refusal;
use synapse_core::ids::{AgentId, TaskRef};
use synapse_core::routes::{self, Candidate, NearFolders, NoRoute, Target};
use synapse_dialects::api::{SenderView, TaskView};
use synapse_holder::depth;
use synapse_node::ancestry::{self, Kin};
use synapse_peer::outbox::Own;
use synapse_peer::{CallError, Client, Credentials, Url, Ways};
use synapse_store::files::Problem;
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::registry::{self, Entry, Life, NodeProcess, Place, Scan};

use sandbox::{Sandbox, own_outbox};

/// The name of an agent as seen from this folder, for callers that looked a while ago: it may have
/// been renamed.
pub fn label_now(id: &AgentId) -> String {
    Roll::call_quietly().map_or_else(|_| id.short(), |(roll, _)| roll.label(id))
}

/// On whose behalf this process runs, as far as it can tell itself.
enum Standing {
    User,
    Agent(AgentId),
    Unknown,
}

/// The hint for a sandbox that allows no way to reach a node.
pub const SANDBOX_HELP: &str =
    "let the sandbox write to the agent's working folder, or run this outside of it";

/// A snapshot of the registry and of the known agents.
pub struct Roll {
    pub home: Home,
    pub scan: Scan,
    pub known: Vec<Known>,
    pub candidates: Vec<Candidate>,
    /// Whose agents come first: those of this folder and its parents, up to the repository's root.
    pub near: NearFolders,
    /// Use labels that work in any folder.
    is_anywhere: bool,
    /// The sandbox, if it hides the home, the sockets or other processes from us.
    sandbox: Sandbox,
    /// How a node was last reached.
    way: std::sync::Mutex<Option<&'static str>>,
}

impl Roll {
    pub fn call() -> Result<Self, Fail> {
        let (roll, problems) = Self::call_quietly()?;
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

    /// Like `call`, without warnings about ignored files, for callers that repeat it.
    pub fn call_quietly() -> Result<(Self, Vec<Problem>), Fail> {
        let home = Home::from_env()?;
        let sandbox = Sandbox::find(&home)?;
        match sandbox.answer() {
            None => {
                let (roll, problems) = Self::look(home);
                Ok((Self { sandbox, ..roll }, problems))
            }
            Some(told) => {
                let (scan, known, candidates) =
                    (told.scan.clone(), told.known.clone(), told.candidates.clone());
                let (near, way) = (near_here(), std::sync::Mutex::default());
                let is_anywhere = false;
                Ok((Self { home, scan, known, candidates, near, is_anywhere, sandbox, way }, Vec::new()))
            }
        }
    }

    /// What is visible outside of a sandbox.
    pub fn look(home: Home) -> (Self, Vec<Problem>) {
        let scan = registry::scan(&home);
        let (known, problems) = Known::all(&home);
        let candidates = registry::merge(&scan, &known);
        let (near, way) = (near_here(), std::sync::Mutex::default());
        let (is_anywhere, sandbox) = (false, Sandbox::None);
        (Self { home, scan, known, candidates, near, is_anywhere, sandbox, way }, problems)
    }

    /// Uses labels and targets that work in any folder, for programs that may use them elsewhere.
    pub fn without_place(self) -> Self {
        Self { is_anywhere: true, ..self }
    }

    pub fn is_held(&self, id: &AgentId) -> bool {
        if self.sandboxed().is_some() {
            // A sandbox hides other processes, so use what our own node sees.
            return self.candidates.iter().any(|candidate| candidate.id == *id && candidate.live);
        }
        if synapse_holder::holder_of(self.home.agent(id).path()).is_some_and(|mark| mark.is_alive()) {
            return true;
        }
        // Where pids mean nothing, an agent runs as long as its entry says so.
        let entry = self.scan.agents.iter().find(|entry| entry.agent_id == *id);
        entry.is_some_and(|entry| entry.life(&Place::here()) == Life::Unknown)
    }

    /// The process of an agent's node. In a sandbox, as our own node sees it.
    pub fn node_process(&self, entry: &Entry, here: &Place) -> NodeProcess {
        match self.sandbox.answer() {
            Some(told) => told.nodes.get(&entry.agent_id).copied().unwrap_or(NodeProcess::Hidden),
            None => entry.node(here),
        }
    }

    /// The outbox, if we are in a sandbox and our own node told us which agents there are.
    pub fn sandboxed(&self) -> Option<&Own> {
        self.sandbox.own()
    }

    /// Whether a sandbox hides sockets or processes from this process, even if our node could not
    /// be asked.
    pub fn is_confined(&self) -> bool {
        !matches!(self.sandbox, Sandbox::None)
    }

    /// Why no node can be asked from this sandbox, if that is so.
    pub fn sandbox_silence(&self) -> Option<&str> {
        self.sandbox.silence()
    }

    /// The agents that a target means.
    pub fn find(&self, raw: &str) -> Result<Vec<&Candidate>, Fail> {
        let target = Target::parse(raw).map_err(|bad| Refusal::bad_field("target", bad.to_string()))?;
        let ids = routes::resolve(&target, &self.candidates, &self.near).map_err(|no| match no {
            NoRoute::Ambiguous { choices } => choices::ambiguous(self, &target, &choices),
            NoRoute::Moved { was, folder, now } => {
                let folder = crate::show::folder(&folder);
                Refusal::from((&target, NoRoute::Moved { was, folder, now })).into()
            }
            other => Refusal::from((&target, other)).into(),
        })?;
        let mut found: Vec<&Candidate> = self.candidates.iter().filter(|c| ids.contains(&c.id)).collect();
        if let Target::Skill(_) = target {
            found.truncate(1);
        }
        Ok(found)
    }

    /// The stopped agent that a target means. If no stopped one matches, any agent that it means.
    pub fn find_stopped(&self, raw: &str) -> Result<&Candidate, Fail> {
        let target = Target::parse(raw).map_err(|bad| Refusal::bad_field("target", bad.to_string()))?;
        let stopped: Vec<Candidate> =
            self.candidates.iter().filter(|one| !one.live && !self.is_held(&one.id)).cloned().collect();
        match routes::resolve(&target, &stopped, &self.near) {
            Ok(ids) => {
                let found = self.candidates.iter().find(|one| ids.first() == Some(&one.id));
                found.map_or_else(|| self.find_one(raw), Ok)
            }
            Err(NoRoute::Ambiguous { choices }) => Err(choices::ambiguous(self, &target, &choices)),
            Err(_) => self.find_one(raw),
        }
    }

    /// Resolves the agent that the user speaks for to its id, because a node would resolve a name
    /// without our folder. An unknown one is left for the node to refuse.
    pub fn speaker(&self, raw: &str) -> Result<String, Fail> {
        match self.find_one(raw) {
            Ok(found) => Ok(found.id.to_string()),
            Err(fail) if fail.info.code == "ambiguous_target" => Err(fail),
            Err(_) => Ok(raw.to_owned()),
        }
    }

    pub fn find_one(&self, raw: &str) -> Result<&Candidate, Fail> {
        match self.find(raw)?[..] {
            [one] => Ok(one),
            _ => Err(Fail::usage(format!("{raw:?} means several agents; name one"))),
        }
    }

    /// The name of an agent as seen from this folder.
    pub fn label(&self, id: &AgentId) -> String {
        let candidate = self.candidates.iter().find(|c| c.id == *id);
        candidate.map_or_else(
            || id.short(),
            |c| match self.is_anywhere {
                true => c.call_it_anywhere(&self.candidates),
                false => c.call_it(&self.candidates, &self.near),
            },
        )
    }

    /// A sender for people: by its present name if it is an agent of this machine. The message has
    /// the name that it had when it was sent.
    pub fn sender(&self, from: &SenderView) -> String {
        let id = AgentId::parse(&from.sender_id).ok();
        match id.filter(|id| self.candidates.iter().any(|one| one.id == *id)) {
            Some(id) => from.shown_as(&self.label(&id)),
            None => from.shown(),
        }
    }

    /// The outbox of the agent that this process runs below, if there is one.
    pub fn outbox(&self) -> Option<Own> {
        self.sandboxed().cloned().or_else(own_outbox)
    }

    pub async fn connect(&self, id: &AgentId) -> Result<Client, CallError> {
        let socket = self.home.agent(id).socket();
        let outbox = || self.outbox().map(|own| own.line(Some(*id)));
        let ways = Ways { socket: &socket, http: self.http(id), outbox: &outbox };
        let client = Client::reach(ways).await?;
        self.went(client.way().name());
        Ok(client)
    }

    /// The port of an agent, with the token file that the environment names. The user's own token
    /// is not used, since it would make an agent the user. Ports with TLS are left out, because
    /// they need a trusted CA.
    fn http(&self, id: &AgentId) -> Option<(Url, Credentials)> {
        // A process that cannot see the home uses the outbox, which needs no files there.
        if self.sandboxed().is_some() && !self.home.agents_dir().is_dir() {
            return None;
        }
        let token_file = std::env::var_os("SYNAPSE_TOKEN_FILE").filter(|file| !file.is_empty())?;
        let entry = self.scan.agents.iter().find(|entry| entry.agent_id == *id)?;
        let is_plain = !entry.endpoint.starts_with("https://");
        let url = is_plain.then(|| Url { is_https: false, host: "127.0.0.1".into(), port: entry.port })?;
        Some((url, Credentials { token_file: Some(token_file.into()), ..Credentials::default() }))
    }

    pub fn went(&self, way: &'static str) {
        *self.way.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(way);
    }

    /// A result as JSON, with the way that the request took.
    pub fn with_way(&self, told: &impl serde::Serialize) -> serde_json::Value {
        let mut told = serde_json::to_value(told).unwrap_or_default();
        let way = *self.way.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let (Some(way), Some(told)) = (way, told.as_object_mut()) {
            told.insert("via".into(), way.into());
        }
        told
    }

    /// The agent whose descendant this process is. The node verifies it again.
    pub fn own_agent(&self) -> Option<AgentId> {
        match self.standing() {
            Standing::Agent(id) => Some(id),
            Standing::User | Standing::Unknown => None,
        }
    }

    /// Like `own_agent`, for actions that agents may not take. Fails if this process cannot see
    /// what started it: in a sandbox with an empty `/proc` it would otherwise take itself for the
    /// user.
    pub fn caller(&self, to: &str) -> Result<Option<AgentId>, Fail> {
        match self.standing() {
            Standing::Agent(id) => Ok(Some(id)),
            Standing::User => Ok(None),
            Standing::Unknown => Err(Fail::refused(format!(
                "cannot {to}: only the user may, and this process cannot see whether an agent started it; \
                 run it outside of the sandbox, where /proc shows its parent processes"
            ))),
        }
    }

    /// The agent on whose behalf `to` is done, or none if a person runs this. Fails with the reason
    /// in a sandbox that hides which agent it is.
    pub fn own_agent_for(&self, to: &str) -> Result<Option<AgentId>, Fail> {
        match (self.standing(), self.sandbox.silence()) {
            (Standing::Agent(id), _) => Ok(Some(id)),
            (Standing::User, _) => Ok(None),
            (Standing::Unknown, Some(why)) => Err(Fail::refused(format!(
                "cannot {to}: the sandbox hides which agent started this process, and the agent's node cannot be \
                 asked ({why}); {SANDBOX_HELP}"
            ))),
            (Standing::Unknown, None) => Err(Fail::refused(format!(
                "cannot {to}: this process cannot see which agent started it; \
                 run it outside of the sandbox, where /proc shows its parent processes"
            ))),
        }
    }

    fn standing(&self) -> Standing {
        if let Some(own) = self.sandboxed() {
            return Standing::Agent(own.agent);
        }
        match ancestry::own(&self.home) {
            Kin::Under(agents) => agents.first().map_or(Standing::Unknown, |id| Standing::Agent(*id)),
            // A sandbox with its own PID namespace: the environment still says that an agent runs
            // this.
            Kin::Person if std::env::var_os("SYNAPSE_AGENT_ID").is_some_and(|id| !id.is_empty()) => {
                Standing::Unknown
            }
            // This process is below an agent whose holder is hidden from it. In a home other than
            // the default, such as that of a test, a process below an agent may be the user.
            Kin::Person if depth::own() > 0 && self.home.is_default() => Standing::Unknown,
            Kin::Person => Standing::User,
            Kin::Gone | Kin::Limited(_) => Standing::Unknown,
        }
    }

    /// Retries for a while if the node is restarting, because it may be the one that knows the
    /// task.
    async fn ask_for_task(&self, id: &AgentId, task: &TaskRef) -> Result<TaskView, CallError> {
        const TRIES: u32 = 30;
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
        const ANSWERS_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);
        let mut tries = 0;
        loop {
            let asked = match self.connect(id).await {
                Ok(client) => {
                    client.within(ANSWERS_WITHIN).get(&format!("/api/v1/tasks/{}", task.as_str())).await
                }
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

    /// The running node that knows a task. Asks our own agent's node first, then all others.
    pub async fn node_of_task(&self, task: &TaskRef) -> Result<(AgentId, TaskView), Fail> {
        let own = self.own_agent();
        let live = self.candidates.iter().filter(|c| c.live).map(|c| c.id);
        let order = own.into_iter().chain(live.filter(|id| Some(*id) != own));
        let (mut silent, mut unreachable, mut answers) = (Vec::new(), None, 0);
        for id in order {
            match self.ask_for_task(&id, task).await {
                Ok(view) => return Ok((id, view)),
                Err(CallError::Refused { status: 404, .. }) => answers += 1,
                Err(CallError::Unreachable { why, .. }) => unreachable = Some(why),
                Err(CallError::NotResponding { why }) => silent.push((self.label(&id), why)),
                Err(other) => return Err(other.into()),
            }
        }
        // In a sandbox where no node can be asked, it is unknown whether the task exists.
        if let (0, true, Some(why), Some(_)) =
            (answers, silent.is_empty(), unreachable, self.sandbox.silence())
        {
            let message = format!(
                "cannot look for task {}: no agent can be reached from this sandbox ({why}); {SANDBOX_HELP}",
                task.as_str()
            );
            return Err(Fail::new(fail::ERROR, "unreachable", message));
        }
        if silent.is_empty() {
            return Err(Refusal::NoSuchTask { task: task.as_str().to_owned() }.into());
        }
        let mut message = format!("no agent that responds has task {}", task.as_str());
        for (label, why) in silent {
            message.push_str(&format!("; {label} may have it and is not responding: {why}"));
        }
        Err(Fail::new(fail::ERROR, "not_responding", message))
    }
}

fn near_here() -> NearFolders {
    std::env::current_dir().map(|here| registry::near_folders(&here)).unwrap_or_default()
}
