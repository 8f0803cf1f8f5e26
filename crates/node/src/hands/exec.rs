//! The command agent: one process per task, prompt on stdin and in the environment, answer on stdout.
//!
//! The process runs under a *runner* (`synapse-holder`) with a folder of its own, so it goes on when this node
//! dies, and the next node finds it by that folder. A folder is made once per task: however often a message
//! is handed out, its command starts once.
//!
//! Not here: the line protocol (`lines`), ending process trees (`synapse-holder`).

use super::lines::Lines;
use super::watch::RunWatch;
use crate::doors::{App, Shared};
use crate::handle::ToHand;
use crate::launch::Exec;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command, Report, Serves};
use synapse_core::ids::{LinkId, MessageId, TaskId};
use synapse_core::message::{Body, Content, Letter};
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_core::receipt::Step;
use synapse_core::task::TaskState;
use synapse_dialects::api::MessageView;
use synapse_dialects::audit::Actor;
use synapse_dialects::jsonl::ToProgram;
use synapse_holder::{EXIT_WANT_OF_ROOM, Exit, How, RunDir, RunMode, RunSpec, RunState, is_want_of_room};

pub struct ExecHand {
    pub(super) app: Shared,
    exec: Exec,
    runs: PathBuf,
    working_dir: PathBuf,
    link: std::sync::OnceLock<LinkId>,
    /// Runs under way, to reach them with input and stops.
    under_way: Mutex<HashMap<TaskId, RunDir>>,
}

/// One task in our hand.
pub(super) struct Run {
    pub(super) task: TaskId,
    pub(super) message: MessageId,
    pub(super) view: Option<MessageView>,
    pub(super) dir: RunDir,
    child: Option<std::process::Child>,
}

/// A prompt longer than this is on stdin only: the system bounds what fits into an environment.
const PROMPT_IN_ENV_MAX: usize = 64 << 10;
/// After its last word a program may finish by itself for this long.
const LAST_WORD_GRACE: Duration = Duration::from_secs(5);
/// Between two looks whether there is room on the disk again.
const ROOM_PAUSE: Duration = Duration::from_secs(1);

impl ExecHand {
    pub fn new(app: Shared, exec: Exec, runs: PathBuf, working_dir: PathBuf) -> Arc<Self> {
        let under_way = Mutex::new(HashMap::new());
        Arc::new(Self { app, exec, runs, working_dir, link: std::sync::OnceLock::new(), under_way })
    }

    /// Takes messages until the node stops.
    pub async fn work(self: Arc<Self>, ready: tokio::sync::oneshot::Sender<()>) -> Result<(), Refusal> {
        let adopted = self.adopt().await?;
        let running = adopted.iter().map(|run| run.task).collect();
        let agent = self.app.agent.id;
        let serves = Serves::UntilEnded { hears: self.exec.jsonl };
        let (link, mut orders) = self.app.handle.link(agent, self.exec.parallel, serves, running).await?;
        let _ = self.link.set(link);
        let _ = ready.send(());
        for run in adopted {
            tokio::spawn(self.clone().follow(run));
        }
        while let Some(order) = orders.recv().await {
            match order {
                ToHand::Deliver { letter, body, .. } if letter.follow_up => {
                    self.hand_input(&letter, &body).await
                }
                ToHand::Deliver { letter, body, notes, .. } => {
                    let hand = self.clone();
                    tokio::spawn(async move { hand.start(&letter, body, notes).await });
                }
                ToHand::Stop { task, why } => self.stop(task, &why),
                ToHand::Interrupt { task, by, why } => self.interrupt(task, by, why),
                // Only terminals are urged: a command has no turn of its own to end.
                ToHand::Urge { .. } => {}
            }
        }
        Ok(())
    }

    /// Tasks that a node before this one began: their folders tell how they stand.
    async fn adopt(&self) -> Result<Vec<Run>, Refusal> {
        let caller = self.caller();
        let (Answer::Tasks(tasks), _) = self.app.ask(caller, Command::Tasks { max: usize::MAX }).await?
        else {
            return Ok(Vec::new());
        };
        let mut runs = Vec::new();
        for task in tasks.into_iter().filter(|task| task.has_begun()) {
            let Some(message) = task.messages.first().cloned() else { continue };
            match RunDir::open(&self.runs.join(task.id.to_string())) {
                Ok(dir) => {
                    let asked = message.clone();
                    let letter =
                        self.app.archive(move |history| history.message(&asked)).await.ok().flatten();
                    let view = letter.map(|(letter, body)| MessageView::new(&letter, Some(&body), None));
                    self.note(task.id, &dir);
                    runs.push(Run { task: task.id, message, view, dir, child: None });
                }
                Err(_) => {
                    let why = "its command left no trace after a crash; whether it did its work is unknown";
                    self.done(&message, TaskState::Failed, None, why.into()).await;
                }
            }
        }
        Ok(runs)
    }

    async fn start(self: Arc<Self>, letter: &Letter, body: Body, notes: usize) {
        let (task, message) = (letter.task, letter.id.clone());
        let view = MessageView::new(letter, Some(&body), None);
        match self.prepare(&view, &body, task, notes) {
            Ok((dir, child)) => {
                self.note(task, &dir);
                let run = Run { task, message: message.clone(), view: Some(view), dir, child };
                match self.report(&message, Report::Working).await {
                    Ok(()) => self.follow(run).await,
                    // Canceled meanwhile, or its lease ran out on a very slow machine: nobody wants it.
                    Err(refusal) => {
                        tracing::warn!(%task, %refusal, "a run that nobody waits for is ended");
                        let _ = run.dir.cancel();
                        self.see_out(run).await;
                    }
                }
            }
            Err(e) => {
                let refused = Report::Refused { why: format!("its command could not be started: {e}") };
                let _ = self.report(&message, refused).await;
            }
        }
    }

    /// Makes the folder, or finds it, and sees that a runner has it.
    fn prepare(
        &self,
        view: &MessageView,
        body: &Body,
        task: TaskId,
        notes: usize,
    ) -> std::io::Result<(RunDir, Option<std::process::Child>)> {
        std::fs::create_dir_all(&self.runs)?;
        let text = body.content().map(|content| content.as_text()).unwrap_or_default();
        let input = if self.exec.jsonl {
            ToProgram::Message(Box::new(view.clone())).line().into_bytes()
        } else {
            text.clone().into_bytes()
        };
        let spec = self.spec(view, &text, notes);
        let dir = RunDir::prepare(&self.runs, &task.to_string(), &spec, &input)?;
        let child = match dir.state()? {
            RunState::Prepared => Some(dir.spawn_runner(self.runner_command(&dir)?)?),
            RunState::Running { .. } | RunState::Ended(_) | RunState::Vanished => None,
        };
        Ok((dir, child))
    }

    fn spec(&self, view: &MessageView, prompt: &str, notes: usize) -> RunSpec {
        let mut env = self.exec.env.clone();
        let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
        let own = self.app.home.agent(&self.app.agent.id);
        set("SYNAPSE_AGENT_ID", self.app.agent.id.to_string());
        // Where its token is, never the token: environments are seen by many.
        set("SYNAPSE_TOKEN_FILE", own.token().display().to_string());
        set("SYNAPSE_TASK_ID", view.task_id.clone());
        set("SYNAPSE_MESSAGE_ID", view.message_id.clone());
        set("SYNAPSE_SENDER", view.from.shown());
        set("SYNAPSE_NOTES", notes.to_string());
        set("SYNAPSE_CHAIN", serde_json::to_string(&view.caused()).unwrap_or_default());
        if prompt.len() <= PROMPT_IN_ENV_MAX && !prompt.contains('\0') {
            set("SYNAPSE_PROMPT", prompt.to_owned());
        }
        RunSpec {
            argv: vec!["sh".into(), "-c".into(), self.exec.command.clone()],
            cwd: self.working_dir.clone(),
            env,
            mode: if self.exec.jsonl { RunMode::Jsonl } else { RunMode::Plain },
            time_limit_ms: self.exec.time_limit_ms,
            output_limit: self.exec.output_limit,
        }
    }

    /// Stays with a run until it ends, and tells how.
    async fn follow(self: Arc<Self>, mut run: Run) {
        let mut lines = self.exec.jsonl.then(|| Lines::new(&run.dir));
        let mut watch = None;
        loop {
            let state = run.dir.state().unwrap_or(RunState::Vanished);
            if let Some(lines) = &mut lines
                && lines.pass_on(&self, &run).await
            {
                let _ = run.dir.close_input();
                self.see_out(run).await;
                return;
            }
            match state {
                RunState::Ended(exit) => {
                    self.tell_end(&run, &exit, lines.is_some()).await;
                    break;
                }
                RunState::Vanished => {
                    let why = "its runner was killed; whether the command did its work is unknown";
                    self.done(&run.message, TaskState::Failed, None, why.into()).await;
                    break;
                }
                RunState::Prepared => {
                    if let Err(why) = self.see_to_runner(&mut run).await {
                        self.done(&run.message, TaskState::Failed, None, why).await;
                        break;
                    }
                }
                RunState::Running { .. } => {}
            }
            wait(&run, &mut watch).await;
        }
        self.clear_away(run);
    }

    /// The task is over; its process may finish, but not for ever.
    async fn see_out(&self, run: Run) {
        let mut watch = None;
        let finished = async {
            while matches!(run.dir.state(), Ok(RunState::Running { .. } | RunState::Prepared)) {
                wait(&run, &mut watch).await;
            }
        };
        if tokio::time::timeout(LAST_WORD_GRACE, finished).await.is_err() {
            let _ = run.dir.cancel();
            let mut watch = None;
            let ended = async {
                while matches!(run.dir.state(), Ok(RunState::Running { .. })) {
                    wait(&run, &mut watch).await;
                }
            };
            let _ = tokio::time::timeout(2 * LAST_WORD_GRACE, ended).await;
        }
        self.clear_away(run);
    }

    async fn tell_end(&self, run: &Run, exit: &Exit, jsonl: bool) {
        let out = if jsonl { Vec::new() } else { read_all(&run.dir) };
        let text = String::from_utf8_lossy(&out).trim_end().to_owned();
        let answer = (!text.is_empty()).then(|| Body::of(&Content::text(text)));
        let (state, why) = ending(exit);
        self.done(&run.message, state, answer, why).await;
    }

    async fn hand_input(&self, letter: &Letter, body: &Body) {
        let dir = self.lock().get(&letter.task).cloned();
        let view = MessageView::new(letter, Some(body), None);
        let handed = match dir {
            Some(dir) => dir.append_input(ToProgram::Input(Box::new(view)).line().as_bytes()),
            None => Err(std::io::Error::other("its command is not running")),
        };
        let report = match handed {
            Ok(()) => Report::Step(Step::Submitted),
            Err(e) => Report::Refused { why: format!("it could not be given to the command: {e}") },
        };
        let _ = self.report(&letter.id, report).await;
    }

    fn stop(&self, task: TaskId, why: &str) {
        tracing::info!(%task, why, "stopping a run");
        if let Some(dir) = self.lock().get(&task).cloned()
            && let Err(e) = dir.cancel()
        {
            tracing::warn!(%task, error = %e, "it could not be stopped");
        }
    }

    fn interrupt(&self, task: TaskId, from: String, why: String) {
        let line = ToProgram::Interrupt { task_id: task.to_string(), from, why }.line();
        if let Some(dir) = self.lock().get(&task).cloned()
            && let Err(e) = dir.append_input(line.as_bytes())
        {
            tracing::warn!(%task, error = %e, "its program could not be told of an interruption");
        }
    }

    pub(super) async fn report(&self, message: &MessageId, report: Report) -> Result<(), Refusal> {
        loop {
            let command = Command::Report { message: message.clone(), report: report.clone() };
            match self.app.ask(self.caller(), command).await {
                // Nothing may be lost because a disk was full for a while.
                Err(Refusal::Busy | Refusal::NotStored { .. }) => {
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
                other => return other.map(drop),
            }
        }
    }

    async fn done(&self, message: &MessageId, state: TaskState, answer: Option<Body>, why: String) {
        let mut record = self.app.audit.message(&Actor::of(&self.caller()), "hand");
        record.add(|facts| facts.ended(message, answer.as_ref()));
        let told = self.report(message, Report::Done { state, answer, why }).await;
        if let Some(mut line) = record.end("ended", told.as_ref().err()) {
            line.note = Some(state.name().into());
            self.app.audit.write(line).await;
        }
        if let Err(refusal) = told {
            tracing::info!(%message, %refusal, "the end of a run was not needed");
        }
    }

    fn caller(&self) -> Caller {
        let link = self.link.get().copied().unwrap_or(LinkId(0));
        Caller::Hand { link, agent: self.app.agent.id }
    }

    fn note(&self, task: TaskId, dir: &RunDir) {
        self.lock().insert(task, dir.clone());
    }

    fn clear_away(&self, mut run: Run) {
        self.lock().remove(&run.task);
        if let Some(child) = &mut run.child {
            let _ = child.wait();
        }
        if let Err(e) = run.dir.remove() {
            tracing::warn!(task = %run.task, error = %e, "its folder could not be removed");
        }
    }

    /// A run that nobody has begun: its runner is on its way, was never started, or found no room on the disk, which
    /// is waited for. One that could not begin for another reason will not begin the next time either.
    async fn see_to_runner(&self, run: &mut Run) -> Result<(), String> {
        if let Some(child) = &mut run.child {
            match child.try_wait() {
                Ok(Some(status)) if matches!(run.dir.state(), Ok(RunState::Prepared)) => {
                    if status.code() != Some(i32::from(EXIT_WANT_OF_ROOM)) {
                        return Err(format!("its runner could not begin ({status})"));
                    }
                    tokio::time::sleep(ROOM_PAUSE).await;
                }
                Ok(_) => return Ok(()),
                Err(e) => return Err(format!("its runner cannot be watched: {e}")),
            }
        }
        match self.runner_command(&run.dir).and_then(|command| run.dir.spawn_runner(command)) {
            Ok(child) => run.child = Some(child),
            Err(e) if is_want_of_room(&e) => tokio::time::sleep(ROOM_PAUSE).await,
            Err(e) => return Err(format!("no runner could be started: {e}")),
        }
        Ok(())
    }

    /// Secrets that came to this node in variables are not for what it runs.
    fn runner_command(&self, dir: &RunDir) -> std::io::Result<std::process::Command> {
        let mut command = synapse_holder::same_program()?;
        command.arg("__run").arg(dir.path());
        // What the holder says to its node is none of the command's business.
        for variable in [crate::serve::RESTART_VARIABLE, crate::serve::HOLDER_VERSION_VARIABLE] {
            command.env_remove(variable);
        }
        for variable in self.app.gate.secret_variables() {
            command.env_remove(variable);
        }
        Ok(command)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, RunDir>> {
        self.under_way.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Watches from before the first look, so that nothing between look and wait is missed.
async fn wait(run: &Run, watch: &mut Option<RunWatch>) {
    match watch {
        Some(watch) if !watch.runner_is_gone() => watch.news().await,
        _ => {
            let runner = match run.dir.state() {
                Ok(RunState::Running { pid }) => Some(pid),
                _ => run.child.as_ref().map(std::process::Child::id),
            };
            *watch = Some(RunWatch::new(run.dir.path(), runner));
        }
    }
}

fn read_all(dir: &RunDir) -> Vec<u8> {
    const CHUNK: usize = 1 << 20;
    let mut all = Vec::new();
    while let Ok(more) = dir.read_out_from(all.len() as u64, CHUNK) {
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    all
}

fn ending(exit: &Exit) -> (TaskState, String) {
    let with_last_words = |why: &str| {
        let words = exit.stderr_tail.trim();
        if words.is_empty() { why.to_owned() } else { format!("{why}: {words}") }
    };
    match (exit.how, exit.code) {
        (How::Exited, Some(0)) => (TaskState::Completed, "exit code 0".into()),
        (How::Exited, code) => {
            (TaskState::Failed, with_last_words(&format!("exit code {}", code.unwrap_or(-1))))
        }
        (How::Cancelled, _) => (TaskState::Canceled, "stopped".into()),
        (How::Signaled | How::TimedOut | How::OutputLimit | How::NotStarted, _) => {
            (TaskState::Failed, with_last_words(&exit.why))
        }
    }
}

impl App {
    /// Sends a message from this node's agent to another, by its spool.
    fn send_from_agent(
        &self,
        to: &str,
        request: synapse_dialects::message::MessageRequest,
    ) -> Result<(), Refusal> {
        use synapse_core::routes::{self, Target};
        let target = Target::parse(to)?;
        let candidates = synapse_store::registry::candidates(&self.home);
        let ids = routes::resolve(&target, &candidates).map_err(|no| Refusal::from((&target, no)))?;
        let from = Caller::Agent {
            id: self.agent.id,
            label: self.agent.label(),
            role: self.agent.role.clone(),
            proof: synapse_core::message::Proof::Own,
        };
        policy::may(&self.gate.rules(), &from, Verb::Message, About::default())?;
        for id in ids.into_iter().filter(|id| *id != self.agent.id) {
            crate::post::spool_to(&self.home, &id, from.sender(), request.clone())
                .map_err(|e| Refusal::NotStored { why: e.to_string() })?;
        }
        Ok(())
    }

    /// As `send_from_agent`, and writes it down.
    pub(super) async fn say_for_agent(
        &self,
        to: &str,
        request: synapse_dialects::message::MessageRequest,
    ) -> Result<(), Refusal> {
        let hand = Caller::Hand { link: LinkId(0), agent: self.agent.id };
        let mut record = self.audit.message(&Actor::of(&hand), "hand");
        record.add(|facts| facts.said(to, &request.message));
        let sent = self.send_from_agent(to, request);
        if let Some(line) = record.end("send", sent.as_ref().err()) {
            self.audit.write(line).await;
        }
        sent
    }
}
