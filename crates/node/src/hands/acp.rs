//! The ACP hand: serves an agent without a terminal by speaking the Agent Client Protocol with its
//! program.
//!
//! One program, one session, one turn at a time. Each message is a prompt; what the agent says
//! until the turn ends is the answer. Permission requests wait for a person as the prompts of a
//! terminal do.
//!
//! The program lives as long as this node, and the agent ends with its program, as in a terminal.
//! After a crash of the node, the next node restarts the program with a new session. A message
//! whose turn was running ends as unknown; one that was only being written is sent once more, with
//! a mark.
//! Not here: what lines mean (`session`), the process (`program`), tasks and receipts (`job`).

mod desk;
mod job;
mod program;
mod question;
mod said;
mod session;

pub use desk::{AcpDesk, Decided};

use crate::doors::Shared;
use crate::driver::now;
use crate::handle::ToHand;
use crate::launch::OverAcp;
use desk::Decision;
use job::{Job, Stopping};
use program::{DoesNotRead, LINE_BYTES_MAX, Piece, Program};
use session::{News, Session, Setup};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::agents::AgentState;
use synapse_core::effect::{Command, Input, Serves};
use synapse_core::ids::LinkId;
use synapse_core::message::{Body, Letter};
use synapse_dialects::acp::McpServer;
use synapse_store::ended::Ended;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How long a program may take to open a session.
const STARTS_WITHIN: Duration = Duration::from_secs(180);
/// How long a canceled turn may continue; after that its task ends without it.
const CANCELS_WITHIN: Duration = Duration::from_secs(10);
/// How long to read the remaining output of a program that has exited.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// The number of events handled before yielding to other tasks.
const TURNS: u64 = 16;

pub struct AcpHand {
    pub app: Shared,
    pub acp: OverAcp,
    pub folder: PathBuf,
    pub outbox: Option<PathBuf>,
    pub desk: AcpDesk,
}

/// A running ACP conversation.
struct Talk {
    app: Shared,
    desk: AcpDesk,
    link: LinkId,
    orders: mpsc::Receiver<ToHand>,
    decisions: mpsc::Receiver<Decision>,
    session: Session,
    program: Program,
    job: Option<Job>,
    stopping: Option<Stopping>,
    /// Messages from before a crash that are to be delivered again.
    again: VecDeque<(Arc<Letter>, Body)>,
    /// The deadline for opening the session.
    starts_until: Option<Instant>,
    /// What was last reported to the core.
    gate: Option<Option<String>>,
    shown: Option<(AgentState, String)>,
}

/// Why the conversation ends.
enum End {
    /// The node stops.
    Stopped,
    /// The program has exited, or closed its output.
    Exited,
    /// The program can no longer be used, and why.
    Broken(String),
}

impl From<DoesNotRead> for End {
    fn from(_: DoesNotRead) -> Self {
        Self::Broken("it does not read what it is sent".into())
    }
}

enum Happened {
    Heard(Option<Piece>),
    Exited,
    Ordered(ToHand),
    Decided(Decision),
    /// Whether a line was written. If not, the program is about to exit.
    Written(bool),
    Due,
    Stopped,
}

impl AcpHand {
    /// Takes messages until the node stops or the program has ended.
    pub async fn work(self, ready: oneshot::Sender<()>) -> Result<(), Refusal> {
        let (running, begun) = job::begun(&self.app).await?;
        let (link, orders) = self.app.handle.link(self.app.agent.id, 1, Serves::Typed, running).await?;
        let _ = ready.send(());
        let again = job::take_over(&self.app, link, begun).await;
        let decisions = self.desk.take_decisions().ok_or(Refusal::Stopping)?;
        let started = Program::start(&self.app, &self.acp, &self.folder, self.outbox.as_deref()).await;
        let program = match started {
            Ok(program) => program,
            Err(e) => {
                job::give_up(&self.app, link, again, "its program could not be started").await;
                self.end(&format!("it could not be started: {e}"), true).await;
                return Ok(());
            }
        };
        let (session, first) = Session::begin(self.setup());
        let mut talk = Talk {
            app: self.app.clone(),
            desk: self.desk.clone(),
            link,
            orders,
            decisions,
            session,
            program,
            job: None,
            stopping: None,
            again,
            starts_until: Some(Instant::now() + STARTS_WITHIN),
            gate: None,
            shown: None,
        };
        let end = match talk.program.write(first) {
            Ok(()) => talk.go_on().await,
            Err(e) => e.into(),
        };
        self.finish(talk, end).await;
        Ok(())
    }

    async fn finish(&self, talk: Talk, end: End) {
        let Talk { program, job, again, link, .. } = talk;
        let how = program.end().await;
        self.desk.show(None);
        // Whatever stopped the node may have ended its program first.
        let end = if self.app.stop.is_cancelled() { End::Stopped } else { end };
        let (why, failed) = match end {
            // The next node reports on the messages that are still being processed.
            End::Stopped => return,
            End::Exited => (how.clone(), how != "exit code 0"),
            End::Broken(why) => (why, true),
        };
        job::end_with_program(&self.app, link, job, &why).await;
        job::give_up(&self.app, link, again, &format!("its program ended: {why}")).await;
        self.end(&why, failed).await;
    }

    /// Ends the agent with its program. Saves how the program ended, for `synapse list --all`.
    async fn end(&self, why: &str, failed: bool) {
        tracing::warn!(why, "its program has ended, and so does the agent");
        let ended = Ended { failed, why: why.to_owned(), at_ms: now().0 };
        if let Err(e) = ended.save(&self.app.home.agent(&self.app.agent.id)) {
            tracing::warn!(error = %e, "how the program ended could not be written down");
        }
        let state = if failed { AgentState::Error } else { AgentState::Offline };
        let why = format!("its program has ended: {why}");
        self.app.handle.tell(Input::Presence { agent: self.app.agent.id, state, why });
        // When this returns, followers have been sent all earlier events.
        let _ = self.app.ask(job::hand(&self.app, LinkId(0)), Command::Tasks { max: 1 }).await;
        self.app.stop.cancel();
    }

    /// Our MCP server runs below the agent's program, so its calls count as calls of the agent.
    fn setup(&self) -> Setup {
        let mut env = vec![("SYNAPSE_AGENT_ID".to_owned(), self.app.agent.id.to_string())];
        // Some programs pass only a few of their variables to their servers.
        for name in ["SYNAPSE_HOME", "HOME", "PATH"] {
            env.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
        }
        let outbox = self.outbox.as_ref().and_then(|outbox| outbox.to_str());
        env.extend(outbox.map(|path| (crate::serve::OUTBOX_VARIABLE.to_owned(), path.to_owned())));
        let server = McpServer {
            name: "synapse".into(),
            command: self.acp.synapse.display().to_string(),
            args: vec!["mcp".into(), "serve".into()],
            env,
        };
        Setup {
            folder: self.folder.display().to_string(),
            servers: vec![server],
            client_version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

impl Talk {
    /// Handles events until the conversation ends.
    async fn go_on(&mut self) -> End {
        for n in 1u64.. {
            // A program that writes without a pause must not starve other tasks.
            if n.is_multiple_of(TURNS) {
                tokio::task::yield_now().await;
            }
            self.tell();
            let happened = self.next().await;
            let done = match happened {
                Happened::Stopped => return End::Stopped,
                Happened::Heard(None) => return End::Exited,
                Happened::Exited => self.read_last().await,
                Happened::Heard(Some(piece)) => self.heard(piece).await,
                Happened::Ordered(order) => self.ordered(order).await,
                Happened::Decided(decision) => self.decided(decision).await,
                Happened::Written(is_written) => {
                    self.written(is_written).await;
                    Ok(())
                }
                Happened::Due => self.due().await,
            };
            match done {
                Ok(()) => {}
                Err(end) => return end,
            }
            if let Err(end) = self.begin_again().await {
                return end;
            }
        }
        End::Stopped
    }

    async fn next(&mut self) -> Happened {
        let stopping = self.stopping.as_ref().and_then(|stopping| stopping.until);
        let due = [self.starts_until, stopping].into_iter().flatten().min();
        let Program { child, lines, .. } = &mut self.program;
        let written = async {
            match self.job.as_mut().and_then(|job| job.writing.as_mut()) {
                Some(told) => told.await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.app.stop.cancelled() => Happened::Stopped,
            piece = lines.next() => Happened::Heard(piece),
            _ = child.wait() => Happened::Exited,
            Some(order) = self.orders.recv() => Happened::Ordered(order),
            Some(decision) = self.decisions.recv() => Happened::Decided(decision),
            written = written => Happened::Written(written),
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Happened::Due,
        }
    }

    /// Reads what the program wrote before it exited.
    async fn read_last(&mut self) -> Result<(), End> {
        let until = Instant::now() + LAST_LINES_WITHIN;
        while let Ok(Some(piece)) = tokio::time::timeout_at(until, self.program.lines.next()).await {
            self.heard(piece).await?;
        }
        Err(End::Exited)
    }

    async fn heard(&mut self, piece: Piece) -> Result<(), End> {
        let news = match piece {
            Piece::Line(line) => self.session.hear(now(), &line),
            Piece::TooLong => self.session.lost_line(LINE_BYTES_MAX),
        };
        for one in news {
            self.handle(one).await?;
        }
        Ok(())
    }

    async fn handle(&mut self, news: News) -> Result<(), End> {
        match news {
            News::Write(line) => self.program.write(line)?,
            News::Version(version) => self.desk.said_version(version),
            News::Opened => {
                tracing::info!("its session is open");
                self.starts_until = None;
            }
            News::Began => self.began().await,
            News::Asks => self.asks().await,
            News::Does => {}
            News::Ended(end) => self.turn_ended(end).await?,
            News::Broken(why) => return Err(End::Broken(why)),
            News::Note(text) => tracing::warn!("{text}"),
        }
        Ok(())
    }

    async fn ordered(&mut self, order: ToHand) -> Result<(), End> {
        match order {
            ToHand::Deliver { letter, body, notes, .. } => self.deliver(letter, body, notes).await?,
            ToHand::Urge { by } => self.stop(format!("interrupted for an urgent message from {by}"), None)?,
            ToHand::Interrupt { by, why, .. } => self.stop(format!("interrupted by {by}: {why}"), None)?,
            ToHand::Stop { task, why } => {
                if self.job.as_ref().is_some_and(|job| job.letter.task == task) {
                    self.stop(why, Some(task))?;
                } else {
                    self.drop_again(task, why).await;
                }
            }
        }
        Ok(())
    }

    async fn decided(&mut self, decision: Decision) -> Result<(), End> {
        let Decision { hash, allow, reply } = decision;
        match self.session.decide(&hash, allow) {
            Ok(line) => {
                self.program.write(line)?;
                let _ = reply.send(Ok(()));
                self.asks().await;
            }
            Err(why) => drop(reply.send(Err(why))),
        }
        Ok(())
    }

    /// Reports changes to the core and the doors.
    fn tell(&mut self) {
        let held = match (&self.job, self.session.is_open(), self.session.has_turn()) {
            (Some(job), ..) => Some(format!("message {} is in hand", job.letter.task.short())),
            (None, false, _) => Some("its program is starting".to_owned()),
            (None, true, true) => Some("its turn runs".to_owned()),
            (None, true, false) => None,
        };
        if self.gate.as_ref() != Some(&held) {
            self.gate = Some(held.clone());
            self.app.handle.tell(Input::Gate { link: self.link, held });
        }
        self.tell_state();
    }

    fn tell_state(&mut self) {
        let shown = self.session.state();
        if self.shown.as_ref() != Some(&shown) {
            self.shown = Some(shown.clone());
            let (state, why) = shown;
            self.app.handle.tell(Input::Presence { agent: self.app.agent.id, state, why });
        }
    }

    async fn due(&mut self) -> Result<(), End> {
        if self.starts_until.is_some_and(|until| until <= Instant::now()) {
            let seconds = STARTS_WITHIN.as_secs();
            return Err(End::Broken(format!("it opened no session within {seconds} s; does it speak ACP?")));
        }
        self.cancel_late().await;
        Ok(())
    }
}
