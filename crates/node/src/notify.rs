//! The notifier: starts the user's command (`notify.command`) when an agent begins to wait for a
//! person.
//!
//! The command is started at most once for each prompt, even across restarts of the node: its run
//! folder is named after the prompt, and `notified.json` names the last prompt whose command ended.
//! A runner executes it, as it does the commands of tasks, so its time limit holds even if the node
//! dies.
//!
//! Invariant: one command at a time, and at most `QUEUE_MAX` waiting notices. Text from an agent is
//! never in its arguments. The command runs below the agent, so it counts as that agent and never
//! as the user.
//! Not here: when people are notified (`hands::terminal::pending`, `hands::acp`), attached
//! terminals (the viewer).

mod run;

use crate::audit::Audit;
use crate::doors::Shared;
use crate::driver::now;
use crate::folders::FolderWatcher;
use run::Run;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use synapse_core::agents::{Agent, AgentState};
use synapse_core::invisible::revealed;
use synapse_dialects::audit::{Actor, Line};
use synapse_dialects::terminal::{PromptCommands, PromptRef};
use synapse_dialects::time;
use synapse_holder::{How, RunDir, RunMode, RunSpec, RunState};
use synapse_store::files;
use synapse_store::home::AgentDir;
use synapse_store::notified::NotifierResult;
use synapse_store::registry::{Entry, PendingPrompt};
use tokio::sync::mpsc;

/// Notices that wait while a command runs. An agent has one prompt at a time, so more are useless.
const QUEUE_MAX: usize = 4;
/// The time limit of a command.
const TIME_LIMIT_MS: u64 = 10_000;
/// How much it may print before it is killed.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// The node waits no longer than this for a command, whatever happens to its runner.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// The length limit of the question. A longer one is cut, and then `approve` shows all of it.
const TEXT_CHARS_MAX: usize = 300;
const STDERR_CHARS_MAX: usize = 500;

/// Through this a node reports that its agent waits for a person.
pub struct Notifier {
    queue: mpsc::Sender<PendingPrompt>,
    /// `told_at_ms` of the last prompt that was reported.
    last: Option<u64>,
    audit: Audit,
}

impl Notifier {
    /// Returns `None` for an agent that never waits for a person.
    pub fn start(app: &Shared, folders: &FolderWatcher) -> Option<Self> {
        if !app.may_ask() {
            return None;
        }
        let (queue, notices) = mpsc::channel(QUEUE_MAX);
        let dir = app.home.agent(&app.agent.id);
        tokio::spawn(Worker { app: app.clone(), dir, folders: folders.clone() }.work(notices));
        Some(Self { queue, last: None, audit: app.audit.clone() })
    }

    /// Called after the registry entry was written; notifies of its prompt if that is new.
    pub fn written(&mut self, entry: &Entry) {
        let waits = entry.status == AgentState::Waiting;
        if let Some(pending) = entry.pending.as_ref().filter(|_| waits) {
            self.notify(pending);
        }
    }

    fn notify(&mut self, pending: &PendingPrompt) {
        if self.last.replace(pending.told_at_ms) == Some(pending.told_at_ms) {
            return;
        }
        if self.queue.try_send(pending.clone()).is_err() {
            tracing::warn!(asks = %pending.asks, "no notifier command is started: too many notices wait");
            self.audit.write_now(failed_line("dropped: too many notices wait".to_owned()));
        }
    }
}

fn failed_line(note: String) -> Line {
    let mut line = line(note);
    line.code = Some("notify_failed".into());
    line
}

fn line(note: String) -> Line {
    let mut line = Line::new(now(), &Actor::node(), "node", "notify");
    line.note = Some(note.into());
    line
}

/// Runs one command after another.
struct Worker {
    app: Shared,
    dir: AgentDir,
    folders: FolderWatcher,
}

impl Worker {
    async fn work(self, mut notices: mpsc::Receiver<PendingPrompt>) {
        for run in started_before(&self.dir.notify()) {
            self.finish(Run::resume(run), None).await;
        }
        while let Some(pending) = notices.recv().await {
            self.notify(&pending).await;
        }
    }

    async fn notify(&self, pending: &PendingPrompt) {
        let settings = self.app.settings.get();
        let argv = &settings.notify.command;
        let shown = self.app.pending();
        let is_over = shown.borrow().as_ref().is_none_or(|shown| shown.told_at_ms != pending.told_at_ms);
        let is_done =
            || NotifierResult::load(&self.dir).is_some_and(|last| last.told_at_ms == pending.told_at_ms);
        if argv.is_empty() || is_over || is_done() {
            return;
        }
        let agent = self.app.agent.now();
        let notice = Notice::new(&agent, pending);
        let spec = notice.spec(argv, self.app.home.root());
        let began = Instant::now();
        let (folder, name, input) = (self.dir.notify(), name_of(pending.told_at_ms), notice.json());
        let prepare = move || {
            files::private_dir(&folder).map_err(std::io::Error::other)?;
            RunDir::prepare(&folder, &name, &spec, input.as_bytes())
        };
        let prepared = tokio::task::spawn_blocking(prepare).await.map_err(std::io::Error::other).flatten();
        match prepared {
            Ok(run) => self.finish(Run::resume(run), Some(began)).await,
            Err(e) => {
                tracing::warn!(error = %e, "the notifier command could not be prepared");
                self.app.audit.write(failed_line("it could not be prepared".to_owned())).await;
            }
        }
    }

    /// Runs a command, or follows one that is running already, and records how it ended.
    async fn finish(&self, mut run: Run, began: Option<Instant>) {
        let ended = tokio::time::timeout(GIVE_UP_AFTER, run.finish(&self.app, &self.folders)).await;
        let ended = ended.unwrap_or_else(|_| run.give_up());
        let result = result_of(run.dir(), ended);
        if NotifierResult::load(&self.dir).is_none_or(|last| last.told_at_ms != result.told_at_ms) {
            self.record(&result, began).await;
        }
        run.remove();
    }

    async fn record(&self, result: &NotifierResult, began: Option<Instant>) {
        let NotifierResult { program, why, stderr, failed, .. } = result;
        match failed {
            false => tracing::info!(%program, %why, "the user was notified"),
            true => tracing::warn!(%program, %why, %stderr, "the notifier command failed"),
        }
        let (copy, dir) = (result.clone(), self.dir.clone());
        if let Ok(Err(e)) = tokio::task::spawn_blocking(move || copy.save(&dir)).await {
            tracing::warn!(error = %e, "the result of the notifier command could not be written");
        }
        let note = format!("approval: {program} {why}");
        let mut line = if *failed { failed_line(note) } else { line(note) };
        line.took_us = began.map(|began| u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        self.app.audit.write(line).await;
    }
}

/// Returns the commands that an earlier node started. Removes those it only prepared; they are
/// prepared again if the prompt is still open.
fn started_before(folder: &Path) -> Vec<RunDir> {
    let found = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let (idle, started): (Vec<RunDir>, Vec<RunDir>) = found
        .filter_map(|entry| RunDir::open(&entry.path()).ok())
        .partition(|run| matches!(run.state(), Ok(RunState::Prepared)));
    for run in idle {
        let _ = run.remove();
    }
    started
}

fn name_of(told_at_ms: u64) -> String {
    format!("approval-{told_at_ms}")
}

fn told_at(run: &RunDir) -> u64 {
    let name = run.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

fn result_of(run: &RunDir, ended: run::CommandEnd) -> NotifierResult {
    let program = run.spec().argv.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let failed = !matches!(ended, run::CommandEnd { how: Some(How::Exited), code: Some(0), .. });
    let plain = |text: &str, chars_max: usize| {
        revealed(text).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(chars_max).collect()
    };
    NotifierResult {
        told_at_ms: told_at(run),
        at_ms: now().0,
        program: plain(&program.to_string_lossy(), STDERR_CHARS_MAX),
        failed,
        why: plain(&ended.why, STDERR_CHARS_MAX),
        stderr: plain(&ended.stderr, STDERR_CHARS_MAX),
    }
}

/// The information for a command.
struct Notice<'a> {
    agent: &'a Agent,
    pending: &'a PendingPrompt,
    /// The agent's name and its question, in one line without control characters. It begins with a
    /// letter or a digit.
    text: String,
    commands: PromptCommands,
}

impl<'a> Notice<'a> {
    fn new(agent: &'a Agent, pending: &'a PendingPrompt) -> Self {
        let label = agent.label();
        let asks = revealed(&pending.asks).split_whitespace().collect::<Vec<_>>().join(" ");
        let asks = if asks.is_empty() { "asks for a decision" } else { &asks };
        let is_cut = asks.chars().count() > TEXT_CHARS_MAX;
        let mut text: String = format!("{label} ").chars().chain(asks.chars().take(TEXT_CHARS_MAX)).collect();
        if is_cut {
            text.push('…');
        }
        let PendingPrompt { prompt, decidable, complete, asks_all, .. } = pending;
        let named = PromptRef { hash: prompt, is_decidable: *decidable, is_complete: *complete };
        let commands = PromptCommands::new(&label, &named, *asks_all && !is_cut);
        Self { agent, pending, text, commands }
    }

    /// Not run in the agent's folder: a project could provide files that a program reads from
    /// there.
    fn spec(&self, argv: &[String], cwd: &Path) -> RunSpec {
        let command = |command: &Option<String>| command.clone().unwrap_or_default();
        let env = BTreeMap::from([
            ("SYNAPSE_NOTIFY_KIND".to_owned(), "approval".to_owned()),
            ("SYNAPSE_NOTIFY_AGENT".to_owned(), self.agent.label()),
            ("SYNAPSE_NOTIFY_TEXT".to_owned(), self.text.clone()),
            ("SYNAPSE_NOTIFY_APPROVE".to_owned(), command(&self.commands.approve)),
            ("SYNAPSE_NOTIFY_DENY".to_owned(), command(&self.commands.deny)),
            ("SYNAPSE_NOTIFY_ATTACH".to_owned(), command(&self.commands.attach)),
        ]);
        RunSpec {
            argv: argv.to_vec(),
            cwd: cwd.to_owned(),
            env,
            mode: RunMode::Plain,
            time_limit_ms: Some(TIME_LIMIT_MS),
            output_limit: OUTPUT_BYTES_MAX,
            open_files: crate::open_files::of_the_user(),
        }
    }

    /// Returns the same information for its standard input, in one line.
    fn json(&self) -> String {
        let PromptCommands { approve, deny, attach } = &self.commands;
        let at = time::show(synapse_core::Timestamp(self.pending.told_at_ms));
        let notice = json!({
            "kind": "approval", "agent": self.agent.label(), "agent_id": self.agent.id.to_string(),
            "type": self.agent.kind.to_string(), "text": self.text, "prompt": self.pending.prompt, "at": at,
            "approve": approve, "deny": deny, "attach": attach,
        });
        format!("{notice}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::ids::{AgentId, AgentType};

    fn agent() -> Agent {
        let kind = AgentType::parse("claude").unwrap();
        Agent {
            id: AgentId::from_bytes([7; 32]),
            kind,
            name: None,
            role: None,
            capabilities: Vec::new(),
            port: Some(8100),
        }
    }

    fn pending(asks: &str) -> PendingPrompt {
        PendingPrompt {
            asks: asks.to_owned(),
            asks_all: true,
            prompt: "0a".into(),
            complete: true,
            decidable: true,
            told_at_ms: 1_000,
        }
    }

    fn told(asks: &str) -> (RunSpec, serde_json::Value) {
        let (agent, pending) = (agent(), pending(asks));
        let notice = Notice::new(&agent, &pending);
        let argv = ["tell".to_owned(), "--sound".to_owned()];
        (notice.spec(&argv, Path::new("/home")), serde_json::from_str(&notice.json()).unwrap())
    }

    #[test]
    fn command_gets_the_notice_by_environment_and_input_and_not_by_arguments() {
        let (spec, input) = told("asks to run: touch notes.txt");
        assert_eq!(spec.argv, ["tell", "--sound"]);
        assert_eq!(spec.cwd, Path::new("/home"));
        assert_eq!((spec.time_limit_ms, spec.output_limit), (Some(TIME_LIMIT_MS), OUTPUT_BYTES_MAX));
        let expected = [
            ("AGENT", "claude-8100"),
            ("APPROVE", "synapse approve claude-8100 --prompt 0a"),
            ("ATTACH", ""),
            ("DENY", "synapse deny claude-8100 --prompt 0a"),
            ("KIND", "approval"),
            ("TEXT", "claude-8100 asks to run: touch notes.txt"),
        ];
        let env: Vec<(&str, &str)> =
            spec.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            env,
            expected
                .map(|(name, value)| (format!("SYNAPSE_NOTIFY_{name}"), value))
                .each_ref()
                .map(|(name, value)| (name.as_str(), *value))
        );
        assert_eq!(input["text"], "claude-8100 asks to run: touch notes.txt");
        assert_eq!(input["approve"], "synapse approve claude-8100 --prompt 0a");
        assert_eq!((&input["attach"], &input["at"]), (&json!(null), &json!("1970-01-01T00:00:01.000Z")));
    }

    #[test]
    fn text_of_an_agent_is_one_line_that_begins_with_its_name() {
        for (asks, text) in [
            ("--help\u{0}\n-x", "claude-8100 --help\u{fffd} -x"),
            ("a\u{1b}]0;t\u{7}b", "claude-8100 a\u{fffd}]0;t\u{fffd}b"),
            ("$(id) `id` 'a\" ; id", "claude-8100 $(id) `id` 'a\" ; id"),
            ("x\u{202e}y\u{200b}z", "claude-8100 x\u{fffd}y\u{fffd}z"),
            ("", "claude-8100 asks for a decision"),
        ] {
            let (spec, input) = told(asks);
            assert_eq!(spec.env["SYNAPSE_NOTIFY_TEXT"], text, "{asks:?}");
            assert_eq!(input["text"], text, "{asks:?}");
            assert!(spec.env.values().all(|value| !value.chars().any(char::is_control)), "{asks:?}");
        }
    }

    /// A command with the hash of the prompt would approve it unread.
    #[test]
    fn cut_text_does_not_approve_by_hash() {
        let (spec, _) = told(&"x".repeat(TEXT_CHARS_MAX + 1));
        assert!(spec.env["SYNAPSE_NOTIFY_TEXT"].ends_with("x…"));
        assert_eq!(spec.env["SYNAPSE_NOTIFY_APPROVE"], "synapse approve claude-8100");
    }

    #[test]
    fn only_a_command_that_exits_with_zero_succeeded() {
        let root = tempfile::tempdir().unwrap();
        let spec = told("x").0;
        let run = RunDir::prepare(root.path(), &name_of(1_234), &spec, b"").unwrap();
        for (how, code, failed) in [
            (Some(How::Exited), Some(0), false),
            (Some(How::Exited), Some(1), true),
            (Some(How::TimedOut), None, true),
            (Some(How::OutputLimit), None, true),
            (Some(How::NotStarted), None, true),
            (None, None, true),
        ] {
            let (why, stderr) = ("why".to_owned(), "a\u{1b}[2J\nb".to_owned());
            let result = result_of(&run, run::CommandEnd { how, code, why, stderr });
            assert_eq!((result.failed, result.told_at_ms), (failed, 1_234), "{how:?} {code:?}");
            assert_eq!((result.program.as_str(), result.stderr.as_str()), ("tell", "a\u{fffd}[2J b"));
        }
    }

    #[tokio::test]
    async fn notices_beyond_the_bound_are_dropped_and_recorded() {
        let root = tempfile::tempdir().unwrap();
        let audit = Audit::start(root.path().join("audit"), &synapse_settings::Audit::default()).unwrap();
        let (queue, mut notices) = mpsc::channel(QUEUE_MAX);
        let mut notifier = Notifier { queue, last: None, audit: audit.clone() };
        for told_at_ms in 1..=QUEUE_MAX as u64 + 1 {
            let pending = PendingPrompt { told_at_ms, ..pending("x") };
            notifier.notify(&pending);
            notifier.notify(&pending);
        }
        let mut taken = Vec::new();
        while let Ok(pending) = notices.try_recv() {
            taken.push(pending.told_at_ms);
        }
        assert_eq!(taken, [1, 2, 3, 4], "each once");
        audit.close("the test is over").await;
        let written = std::fs::read_dir(root.path().join("audit")).unwrap();
        let written: String =
            written.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        assert_eq!(written.matches("notify_failed").count(), 1, "{written}");
        assert!(written.contains("dropped: too many notices wait"), "{written}");
    }

    /// A node that was killed before the command started has notified nobody.
    #[test]
    fn prepared_run_of_an_earlier_node_is_forgotten() {
        let root = tempfile::tempdir().unwrap();
        RunDir::prepare(root.path(), &name_of(1), &told("x").0, b"").unwrap();
        assert!(started_before(root.path()).is_empty());
        assert!(!root.path().join(name_of(1)).exists());
        assert!(started_before(&root.path().join("missing")).is_empty());
    }
}
