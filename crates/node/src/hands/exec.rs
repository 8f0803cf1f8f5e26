//! The command hand: one process per task, prompt on stdin and in the environment, answer on
//! stdout.
//!
//! The process runs under a *runner* (`synapse-holder`) in its own run folder. It survives the
//! death of this node, and the next node finds it by that folder. A folder is created once per
//! task: however often a message is delivered, its command starts once.
//!
//! Not here: the line protocol (`lines`), ending process trees (`synapse-holder`).

mod limits;
mod runner;

pub(crate) use runner::runner_command;

use self::limits::{LIMIT_PAUSE, past_limits, until_done};
use super::lines::Lines;
use super::start_gate::StartGate;
use super::watch::RunWatch;
use crate::conversation;
use crate::doors::Shared;
use crate::folders::FolderWatcher;
use crate::handle::ToHand;
use crate::launch::Exec;
use crate::uploads;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command, Report, Serves};
use synapse_core::header::mark_lookalikes;
use synapse_core::ids::{LinkId, MessageId, TaskId};
use synapse_core::message::{Body, Content, Letter};
use synapse_core::policy::Caller;
use synapse_core::receipt::Step;
use synapse_core::task::TaskState;
use synapse_dialects::api::MessageView;
use synapse_dialects::audit::Actor;
use synapse_dialects::jsonl::ToProgram;
use synapse_holder::{Exit, How, RunDir, RunMode, RunSpec, RunState, SystemLimit};

pub struct ExecHand {
    pub(super) app: Shared,
    exec: Exec,
    places: Places,
    folders: FolderWatcher,
    gate: Arc<StartGate>,
    link: std::sync::OnceLock<LinkId>,
    /// The active runs, to send them input and stop them.
    under_way: Mutex<HashMap<TaskId, RunDir>>,
}

/// Where run folders are kept, and where commands run.
pub struct Places {
    pub runs: PathBuf,
    pub working_dir: PathBuf,
}

/// One task being executed.
pub(super) struct Run {
    pub(super) task: TaskId,
    pub(super) message: MessageId,
    pub(super) view: Option<MessageView>,
    pub(super) dir: RunDir,
    child: Option<std::process::Child>,
}

/// A longer prompt is passed only on stdin, because the system limits the size of the environment.
const PROMPT_IN_ENV_MAX: usize = 64 << 10;
/// The file of earlier turns for a plain command, in its run folder: one JSON object per line.
const HISTORY_FILE: &str = "history.jsonl";
/// How long a program may take to exit by itself after its final message.
const LAST_WORD_GRACE: Duration = Duration::from_secs(5);

impl ExecHand {
    pub fn new(app: Shared, exec: Exec, places: Places, folders: FolderWatcher) -> Arc<Self> {
        let gate = StartGate::new(app.clone());
        let (link, under_way) = (std::sync::OnceLock::new(), Mutex::default());
        Arc::new(Self { app, exec, places, folders, gate, link, under_way })
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
        // Inputs are handled one after the other in their own task: an input that waits for room
        // must not delay a stop.
        let (inputs, mut waiting) = tokio::sync::mpsc::unbounded_channel::<(Arc<Letter>, Body)>();
        let hand = self.clone();
        tokio::spawn(async move {
            while let Some((letter, body)) = waiting.recv().await {
                hand.hand_input(&letter, &body).await;
            }
        });
        while let Some(order) = orders.recv().await {
            match order {
                ToHand::Deliver { letter, body, .. } if letter.follow_up => {
                    // Bounded by the number of leases we hold.
                    let _ = inputs.send((letter, body));
                }
                ToHand::Deliver { letter, body, notes, .. } => {
                    let hand = self.clone();
                    tokio::spawn(async move { hand.start(&letter, body, notes).await });
                }
                ToHand::Stop { task, why } => self.stop(task, &why),
                ToHand::Interrupt { task, by, why } => self.interrupt(task, by, why),
                // Urging is for terminals: a command has no turn to end.
                ToHand::Urge { .. } => {}
            }
        }
        Ok(())
    }

    /// Adopts tasks that an earlier node began; their folders show their state.
    async fn adopt(&self) -> Result<Vec<Run>, Refusal> {
        let caller = self.caller();
        let (Answer::Tasks(tasks), _) = self.app.ask(caller, Command::Tasks { max: usize::MAX }).await?
        else {
            return Ok(Vec::new());
        };
        let mut runs = Vec::new();
        for task in tasks.into_iter().filter(|task| task.has_begun()) {
            let Some(message) = task.messages.first().cloned() else { continue };
            let path = self.places.runs.join(task.id.to_string());
            match past_limits(|| RunDir::open(&path)).await {
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
        let mut view = MessageView::new(letter, Some(&body), None);
        view.history = self.app.turns_before(letter, self.exec.history).await;
        self.app.show_files(&mut view, &body);
        match self.prepare(&view, &body, task, notes) {
            Ok((dir, child)) => {
                self.note(task, &dir);
                let run = Run { task, message: message.clone(), view: Some(view), dir, child };
                match self.report(&message, Report::Working).await {
                    Ok(()) => self.follow(run).await,
                    // Canceled meanwhile, or its lease expired on a very slow machine: the result
                    // is no longer needed.
                    Err(refusal) => {
                        tracing::warn!(%task, %refusal, "a run that nobody waits for is ended");
                        let _ = past_limits(|| run.dir.cancel()).await;
                        self.see_out(run).await;
                    }
                }
            }
            Err(e) => {
                let why = format!("its command could not be started: {e}");
                let report = match SystemLimit::of(&e) {
                    // Close the gate before the message returns to the mailbox, or it would be
                    // delivered again at once.
                    Some(limit) => {
                        self.gate.close(self.link(), &limit.to_string());
                        Report::Held { why: limit.to_string() }
                    }
                    None => Report::Refused { why },
                };
                let _ = self.report(&message, report).await;
            }
        }
    }

    /// Creates or finds the run folder, and makes sure that a runner has it.
    fn prepare(
        &self,
        view: &MessageView,
        body: &Body,
        task: TaskId,
        notes: usize,
    ) -> std::io::Result<(RunDir, Option<std::process::Child>)> {
        std::fs::create_dir_all(&self.places.runs)?;
        let text = body.content().map(|content| content.as_text()).unwrap_or_default();
        // Plain text may reach a model; the lines of `--jsonl` name the sender in a field and stay
        // exact.
        let text = mark_lookalikes(&text);
        let input = if self.exec.jsonl {
            ToProgram::Message(Box::new(view.clone())).line().into_bytes()
        } else {
            text.as_bytes().to_vec()
        };
        let mut spec = self.spec(view, &text, notes);
        // With `--jsonl` the line contains the turns; the standard input of a plain command is only
        // the message.
        let turns =
            (self.exec.history > 0 && !self.exec.jsonl).then(|| conversation::as_lines(&view.history));
        if turns.is_some() {
            let path = self.places.runs.join(task.to_string()).join(HISTORY_FILE);
            spec.env.insert("SYNAPSE_HISTORY_FILE".to_owned(), path.display().to_string());
        }
        let files: Vec<(&str, &[u8])> = turns.iter().map(|turns| (HISTORY_FILE, turns.as_bytes())).collect();
        let dir = RunDir::prepare_with(&self.places.runs, &task.to_string(), &spec, &input, &files)?;
        if dir.state()? != RunState::Prepared {
            return Ok((dir, None));
        }
        match self.spawn_runner(&dir) {
            Ok(child) => Ok((dir, Some(child))),
            Err(e) => {
                // No runner has it, and its message may be canceled before the next attempt.
                let _ = dir.remove();
                Err(e)
            }
        }
    }

    fn spec(&self, view: &MessageView, prompt: &str, notes: usize) -> RunSpec {
        let mut env = self.exec.env.clone();
        let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
        let own = self.app.home.agent(&self.app.agent.id);
        set("SYNAPSE_AGENT_ID", self.app.agent.id.to_string());
        // The path of the token, never the token itself: other processes can read the environment.
        set("SYNAPSE_TOKEN_FILE", own.token().display().to_string());
        set("SYNAPSE_TASK_ID", view.task_id.clone());
        set("SYNAPSE_MESSAGE_ID", view.message_id.clone());
        // A client id may contain NUL, which an environment variable cannot hold.
        set("SYNAPSE_CLIENT_MESSAGE_ID", view.client_message_id.replace('\0', "\u{fffd}"));
        set("SYNAPSE_CONTEXT_ID", view.context_id.clone());
        set("SYNAPSE_CONVERSATION", view.conversation.clone());
        set("SYNAPSE_TENANT", view.tenant.clone().unwrap_or_default());
        set("SYNAPSE_PRIORITY", view.send_priority.to_string());
        if let Some(files) = uploads::files_of(view).filter(|files| files.len() <= PROMPT_IN_ENV_MAX) {
            set("SYNAPSE_FILES", files);
        }
        set("SYNAPSE_SENDER", view.from.shown());
        set("SYNAPSE_NOTES", notes.to_string());
        set("SYNAPSE_CHAIN", serde_json::to_string(&view.caused()).unwrap_or_default());
        if prompt.len() <= PROMPT_IN_ENV_MAX && !prompt.contains('\0') {
            set("SYNAPSE_PROMPT", prompt.to_owned());
        }
        RunSpec {
            argv: vec!["sh".into(), "-c".into(), self.exec.command.clone()],
            cwd: self.places.working_dir.clone(),
            env,
            mode: if self.exec.jsonl { RunMode::Jsonl } else { RunMode::Plain },
            time_limit_ms: self.exec.time_limit_ms,
            output_limit: self.exec.output_limit,
            open_files: crate::open_files::of_the_user(),
        }
    }

    /// Follows a run until it ends, and reports the result.
    async fn follow(self: Arc<Self>, mut run: Run) {
        let mut lines = self.exec.jsonl.then(|| Lines::new(&run.dir));
        let mut watch = None;
        loop {
            let state = past_limits(|| run.dir.state()).await.unwrap_or(RunState::Vanished);
            if let Some(lines) = &mut lines
                && lines.pass_on(&self, &run).await
            {
                let _ = past_limits(|| run.dir.close_input()).await;
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
                // No runner has it, and a system limit may keep one from ever taking it.
                RunState::Prepared if run.child.is_none() && run.dir.is_cancelled() => {
                    self.done(&run.message, TaskState::Canceled, None, "stopped".into()).await;
                    break;
                }
                RunState::Prepared => {
                    if let Err(why) = self.see_to_runner(&mut run).await {
                        self.done(&run.message, TaskState::Failed, None, why).await;
                        break;
                    }
                }
                RunState::Running { .. } if run.dir.waits_for_room() => {
                    tracing::warn!(task = %run.task, "its output waits for room on the disk");
                    self.gate.close(self.link(), &SystemLimit::Disk.to_string());
                }
                RunState::Running { .. } => self.gate.reset(),
            }
            self.wait(&run, &mut watch).await;
        }
        self.clear_away(run).await;
    }

    /// Lets the process of an ended task finish, for a limited time.
    async fn see_out(&self, mut run: Run) {
        if tokio::time::timeout(LAST_WORD_GRACE, self.wait_for_end(&mut run)).await.is_err() {
            let _ = past_limits(|| run.dir.cancel()).await;
            let _ = tokio::time::timeout(2 * LAST_WORD_GRACE, self.wait_for_end(&mut run)).await;
        }
        self.clear_away(run).await;
    }

    /// Returns when the command has ended, or nothing is left that could start it.
    async fn wait_for_end(&self, run: &mut Run) {
        let mut watch = None;
        loop {
            match past_limits(|| run.dir.state()).await {
                Ok(RunState::Running { .. }) => {}
                Ok(RunState::Prepared) if run.has_runner() => {}
                _ => return,
            }
            self.wait(run, &mut watch).await;
        }
    }

    async fn tell_end(&self, run: &Run, exit: &Exit, jsonl: bool) {
        let out = if jsonl { Vec::new() } else { read_all(&run.dir).await };
        let text = String::from_utf8_lossy(&out).trim_end().to_owned();
        let answer = (!text.is_empty()).then(|| Body::of(&Content::text(text)));
        let (state, why) = ending(exit);
        self.done(&run.message, state, answer, why).await;
    }

    async fn hand_input(&self, letter: &Letter, body: &Body) {
        let dir = self.lock().get(&letter.task).cloned();
        let mut view = MessageView::new(letter, Some(body), None);
        self.app.show_files(&mut view, body);
        let line = ToProgram::Input(Box::new(view)).line();
        let handed = match dir {
            Some(dir) => dir.append_input(line.as_bytes()),
            None => Err(std::io::Error::other("its command is not running")),
        };
        let report = match handed {
            Ok(()) => Report::Step(Step::Submitted),
            Err(e) => match SystemLimit::of(&e) {
                // Give it back, because its lease may be shorter than the limit lasts. The core
                // delivers it again at once.
                Some(limit) => {
                    tokio::time::sleep(LIMIT_PAUSE).await;
                    Report::Held { why: limit.to_string() }
                }
                None => Report::Refused { why: format!("it could not be given to the command: {e}") },
            },
        };
        let _ = self.report(&letter.id, report).await;
    }

    fn stop(&self, task: TaskId, why: &str) {
        tracing::info!(%task, why, "stopping a run");
        if let Some(dir) = self.lock().get(&task).cloned() {
            until_done(task, "it could not be stopped", move || dir.cancel());
        }
    }

    fn interrupt(&self, task: TaskId, from: String, why: String) {
        let line = ToProgram::Interrupt { task_id: task.to_string(), from, why }.line();
        if let Some(dir) = self.lock().get(&task).cloned() {
            let failed = "its program could not be told of an interruption";
            until_done(task, failed, move || dir.append_input(line.as_bytes()));
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
        Caller::Hand { link: self.link(), agent: self.app.agent.id }
    }

    fn link(&self) -> LinkId {
        self.link.get().copied().unwrap_or(LinkId(0))
    }

    fn note(&self, task: TaskId, dir: &RunDir) {
        self.lock().insert(task, dir.clone());
    }

    async fn clear_away(&self, mut run: Run) {
        self.lock().remove(&run.task);
        if let Some(child) = &mut run.child {
            let _ = child.wait();
        }
        if let Err(e) = past_limits(|| run.dir.clone().remove()).await {
            tracing::warn!(task = %run.task, error = %e, "its folder could not be removed");
        }
    }

    /// Waits for a change. The watch begins before the first look, so that no change between look
    /// and wait is missed.
    async fn wait(&self, run: &Run, watch: &mut Option<RunWatch>) {
        match watch {
            Some(watch) if !watch.runner_is_gone() => watch.news().await,
            _ => {
                let runner = match run.dir.state() {
                    Ok(RunState::Running { pid }) => Some(pid),
                    _ => run.child.as_ref().map(std::process::Child::id),
                };
                // Drop the old watch first, because dropping it ends the watch of the folder.
                *watch = None;
                *watch = Some(RunWatch::new(&self.folders, run.dir.path(), runner));
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, RunDir>> {
        self.under_way.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

async fn read_all(dir: &RunDir) -> Vec<u8> {
    const CHUNK: usize = 1 << 20;
    let mut all = Vec::new();
    while let Ok(more) = past_limits(|| dir.read_out_from(all.len() as u64, CHUNK)).await {
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
