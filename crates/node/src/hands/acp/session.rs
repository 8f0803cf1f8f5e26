//! An ACP session: which line may follow which, and what each line means.
//!
//! Pure: it receives lines and the time, and returns what to write and what has happened. One turn
//! at a time.
//!
//! Invariant: whatever the program writes, the memory for it is bounded, each of its requests is
//! answered once, and a turn ends once. An answer counts only for the request that it names.
//! Not here: pipes and processes (`program`), tasks and receipts (`super`), the shapes of lines
//! (`synapse_dialects::acp`).

use super::question::Question;
use super::said::Said;
use serde_json::Value;
use std::collections::VecDeque;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;
use synapse_dialects::acp::{
    self, FromProgram, Initialized, LOGIN_REQUIRED, McpServer, NewSession, PermissionRequest, PromptEnd,
    RequestId, RpcError, SessionUpdate, Update,
};
use synapse_terminal::summary::one_line;

/// The maximum number of waiting questions; further ones are answered as canceled.
const QUESTIONS_MAX: usize = 16;
const SESSION_ID_BYTES_MAX: usize = 1_024;
/// After this many unintelligible lines in a row, the program counts as not speaking ACP.
const BAD_LINES_MAX: usize = 1_000;
/// Only this many of those lines are logged.
const BAD_LINES_TOLD: usize = 5;

/// The parameters for opening a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Setup {
    pub folder: String,
    pub servers: Vec<McpServer>,
    pub client_version: String,
}

pub(super) struct Session {
    setup: Setup,
    phase: Phase,
    last_id: u64,
    turn: Option<Turn>,
    questions: VecDeque<Question>,
    /// The number of questions asked so far.
    asked: u64,
    /// When the last question was asked. No two have the same time.
    asked_at: Timestamp,
    bad_lines: usize,
    logins: Vec<String>,
}

enum Phase {
    Initializing { id: u64 },
    Opening { id: u64 },
    Open { id: String },
}

/// A prompt that has not been answered yet.
struct Turn {
    id: u64,
    said: Said,
    /// The program has started to work on it.
    has_begun: bool,
    /// We asked the program to stop.
    is_canceled: bool,
    /// The last denied request, unless the turn continued after it.
    denied: Option<String>,
    /// What the program does, in its own words.
    does: Option<String>,
}

/// An event of the session, or something to do.
#[derive(Debug, PartialEq)]
pub(super) enum News {
    /// Write this line to the program.
    Write(String),
    /// The program reported this version.
    Version(String),
    /// The session is open for messages.
    Opened,
    /// The program works on the prompt.
    Began,
    /// The open question has changed, or there is none any more.
    Asks,
    /// The program has begun something else.
    Does,
    Ended(TurnEnd),
    /// The session cannot continue.
    Broken(String),
    /// Log this text.
    Note(String),
}

/// How a turn ended, and what was said in it.
#[derive(Debug, PartialEq)]
pub(super) struct TurnEnd {
    pub how: How,
    pub text: String,
    /// Whether the text is complete.
    pub complete: bool,
    /// The denied request, if the turn did not continue after it.
    pub denied: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The agent ended its turn normally.
    Finished,
    Canceled,
    /// The turn failed for this reason.
    Failed(String),
}

/// Why a decision was not carried out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotDecided {
    /// The program now asks something else, or nothing.
    Changed,
    /// The request must not be allowed from here, for this reason.
    Doubtful(String),
}

impl Session {
    /// Creates a session and returns its first line.
    pub(super) fn begin(setup: Setup) -> (Self, String) {
        let first = acp::initialize(1, &setup.client_version);
        let session = Self {
            setup,
            phase: Phase::Initializing { id: 1 },
            last_id: 1,
            turn: None,
            questions: VecDeque::new(),
            asked: 0,
            asked_at: Timestamp(0),
            bad_lines: 0,
            logins: Vec::new(),
        };
        (session, first)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    pub(super) fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Returns the question that waits for a person.
    pub(super) fn question(&self) -> Option<&Question> {
        self.questions.front()
    }

    pub(super) fn state(&self) -> (AgentState, String) {
        match (&self.phase, self.questions.front(), &self.turn) {
            (Phase::Initializing { .. }, ..) => (AgentState::Starting, "its program starts".into()),
            (Phase::Opening { .. }, ..) => (AgentState::Starting, "its program opens a session".into()),
            (_, Some(question), _) => (AgentState::Waiting, question.view.asks.clone()),
            (_, None, Some(Turn { does: Some(does), .. })) => {
                (AgentState::Busy, format!("its turn runs: {does}"))
            }
            (_, None, Some(_)) => (AgentState::Busy, "its turn runs".into()),
            (_, None, None) => (AgentState::Idle, "its session waits for a message".into()),
        }
    }

    /// Returns the line that begins a turn. `None` while another turn runs or the session is not
    /// open.
    pub(super) fn prompt(&mut self, text: &str) -> Option<String> {
        let Phase::Open { id: session } = &self.phase else { return None };
        if self.turn.is_some() {
            return None;
        }
        self.last_id += 1;
        let line = acp::prompt(self.last_id, session, text);
        self.turn = Some(Turn {
            id: self.last_id,
            said: Said::default(),
            has_begun: false,
            is_canceled: false,
            denied: None,
            does: None,
        });
        Some(line)
    }

    /// Returns the lines that stop the running turn; they also withdraw its open questions.
    pub(super) fn cancel(&mut self) -> Vec<String> {
        let (Phase::Open { id }, Some(turn)) = (&self.phase, &mut self.turn) else { return Vec::new() };
        turn.is_canceled = true;
        let mut lines = vec![acp::cancel(id)];
        lines.extend(self.questions.drain(..).map(|question| question.withdraw()));
        lines
    }

    /// Returns the line that decides the open question.
    pub(super) fn decide(&mut self, hash: &str, allow: bool) -> Result<String, NotDecided> {
        let question = self.questions.front().filter(|question| question.view.hash == hash);
        let question = question.ok_or(NotDecided::Changed)?;
        let line = question.answer(allow).map_err(NotDecided::Doubtful)?;
        if let (Some(question), Some(turn)) = (self.questions.pop_front(), &mut self.turn) {
            turn.denied = (!allow).then_some(question.view.asks);
        }
        Ok(line)
    }

    /// Handles the loss of a line that was too long.
    pub(super) fn lost_line(&mut self, bytes_max: usize) -> Vec<News> {
        let why = format!("a line of its program was longer than {bytes_max} bytes and is lost");
        if let Some(turn) = &mut self.turn {
            turn.said.lose(&why);
        }
        self.misunderstood(why)
    }

    /// Handles a line from the program.
    pub(super) fn hear(&mut self, now: Timestamp, line: &[u8]) -> Vec<News> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Vec::new();
        }
        let read = match FromProgram::read(line) {
            Ok(read) => read,
            Err(bad) => {
                let (shown, _) = one_line(&String::from_utf8_lossy(&line[..line.len().min(400)]));
                return self
                    .misunderstood(format!("a line of its program is not understood, {bad}: {shown}"));
            }
        };
        match read {
            FromProgram::Answer { id, outcome } => self.answered(id, outcome),
            FromProgram::Request { id, method, params } => self.asked(now, id, &method, params),
            FromProgram::Notification { method, params } if method == "session/update" => {
                self.updated(&params)
            }
            // Unknown notifications are ignored.
            FromProgram::Notification { .. } => Vec::new(),
        }
    }

    fn misunderstood(&mut self, note: String) -> Vec<News> {
        self.bad_lines += 1;
        match self.bad_lines {
            BAD_LINES_MAX => vec![News::Broken(format!(
                "it does not speak ACP: {BAD_LINES_MAX} lines in a row were not understood; the last: {note}"
            ))],
            told if told <= BAD_LINES_TOLD => vec![News::Note(note)],
            _ => Vec::new(),
        }
    }

    fn answered(&mut self, id: u64, outcome: Result<Value, RpcError>) -> Vec<News> {
        let turn_id = self.turn.as_ref().map(|turn| turn.id);
        match self.phase {
            Phase::Initializing { id: ours } if id == ours => self.initialized(outcome),
            Phase::Opening { id: ours } if id == ours => self.opened(outcome),
            Phase::Open { .. } if turn_id == Some(id) => self.turn_ended(outcome),
            _ => self.misunderstood(format!("its program answers request {id}, which is not open")),
        }
    }

    fn initialized(&mut self, outcome: Result<Value, RpcError>) -> Vec<News> {
        let said = match outcome {
            Ok(result) => match serde_json::from_value::<Initialized>(result) {
                Ok(said) => said,
                Err(e) => return broken(format!("its answer to `initialize` is not understood: {e}")),
            },
            Err(error) => return broken(format!("it refused `initialize`: {}", words(&error))),
        };
        self.bad_lines = 0;
        if said.protocol_version != acp::VERSION {
            return broken(format!(
                "it speaks version {} of ACP; this node speaks version {}",
                said.protocol_version,
                acp::VERSION
            ));
        }
        self.logins = said.auth_methods.iter().take(8).map(|way| one_line(&way.name).0).collect();
        self.last_id += 1;
        self.phase = Phase::Opening { id: self.last_id };
        let version = said.agent_info.map(|info| one_line(&info.version).0);
        let mut news =
            vec![News::Write(acp::new_session(self.last_id, &self.setup.folder, &self.setup.servers))];
        news.extend(version.filter(|version| !version.is_empty()).map(News::Version));
        news
    }

    fn opened(&mut self, outcome: Result<Value, RpcError>) -> Vec<News> {
        match outcome {
            Ok(result) => match serde_json::from_value::<NewSession>(result) {
                Ok(opened) if opened.session_id.len() > SESSION_ID_BYTES_MAX => {
                    broken("the id of its session is longer than an id may be".into())
                }
                Ok(opened) => {
                    self.phase = Phase::Open { id: opened.session_id };
                    vec![News::Opened]
                }
                Err(e) => broken(format!("its answer to `session/new` is not understood: {e}")),
            },
            Err(error) if error.code == LOGIN_REQUIRED => {
                let ways = match self.logins.is_empty() {
                    true => String::new(),
                    false => format!(" (it offers: {})", self.logins.join(", ")),
                };
                broken(format!(
                    "it wants a login first: {}{ways}; start the program once by itself and log in there",
                    words(&error)
                ))
            }
            Err(error) => broken(format!("it opened no session: {}", words(&error))),
        }
    }

    fn turn_ended(&mut self, outcome: Result<Value, RpcError>) -> Vec<News> {
        self.bad_lines = 0;
        let Some(turn) = self.turn.take() else { return Vec::new() };
        let how = match outcome {
            Ok(result) => match serde_json::from_value::<PromptEnd>(result) {
                Ok(end) => stopped(&end.stop_reason),
                Err(_) => How::Failed("its program ended the turn without saying how".into()),
            },
            // Some programs answer a canceled turn with an error.
            Err(_) if turn.is_canceled => How::Canceled,
            Err(error) => How::Failed(format!("its program reported an error: {}", words(&error))),
        };
        let (text, complete) = turn.said.whole();
        let complete = complete && how == How::Finished;
        let mut news = Vec::new();
        if !turn.has_begun {
            news.push(News::Began);
        }
        // The turn is over, so the program can no longer use an answer.
        news.extend(self.withdraw());
        news.push(News::Ended(TurnEnd { how, text, complete, denied: turn.denied }));
        news
    }

    fn withdraw(&mut self) -> Vec<News> {
        if self.questions.is_empty() {
            return Vec::new();
        }
        let lines = self.questions.drain(..).map(|question| News::Write(question.withdraw()));
        lines.chain([News::Asks]).collect()
    }

    fn asked(&mut self, now: Timestamp, id: RequestId, method: &str, params: Value) -> Vec<News> {
        if method != "session/request_permission" {
            let (name, _) = one_line(method);
            let refused = id.refuse(acp::NO_METHOD, &format!("this client has no method {name}"));
            return vec![News::Write(refused)];
        }
        let request = match serde_json::from_value::<PermissionRequest>(params) {
            Ok(request) if self.is_ours(&request.session_id) => request,
            Ok(_) => {
                return vec![News::Write(id.refuse(acp::BAD_PARAMS, "this session is not open here"))];
            }
            Err(e) => return vec![News::Write(id.refuse(acp::BAD_PARAMS, &e.to_string()))],
        };
        self.bad_lines = 0;
        let is_canceled = self.turn.as_ref().is_some_and(|turn| turn.is_canceled);
        if is_canceled || self.questions.len() >= QUESTIONS_MAX {
            return vec![News::Write(id.answer(&acp::decision(None)))];
        }
        let mut news = self.works(None);
        if let Some(turn) = &mut self.turn {
            turn.denied = None;
            turn.said.part();
        }
        self.asked += 1;
        self.asked_at = now.max(Timestamp(self.asked_at.0 + 1));
        self.questions.push_back(Question::new(self.asked_at, self.asked, id, &request));
        news.push(News::Asks);
        news
    }

    fn updated(&mut self, params: &Value) -> Vec<News> {
        let Some(SessionUpdate { session, update }) = SessionUpdate::read(params) else {
            return self.misunderstood("an update of its program is not understood".into());
        };
        if !self.is_ours(&session) {
            return Vec::new();
        }
        self.bad_lines = 0;
        let mut news = match &update {
            Update::Aside => return Vec::new(),
            Update::ToolCall { title } => self.works(Some(one_line(title).0)),
            Update::Message(_) | Update::ToolEnded | Update::Work => self.works(None),
        };
        let Some(turn) = &mut self.turn else { return Vec::new() };
        match update {
            Update::Message(chunk) => {
                if matches!(&chunk.content, acp::ChunkContent::Text(text) if !text.trim().is_empty()) {
                    turn.denied = None;
                }
                turn.said.add(chunk);
            }
            Update::ToolCall { .. } => {
                turn.said.part();
                news.push(News::Does);
            }
            Update::ToolEnded => turn.said.part(),
            Update::Work | Update::Aside => {}
        }
        news
    }

    /// Records that the program works on the turn, and on what if it reports that.
    fn works(&mut self, on: Option<String>) -> Vec<News> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        turn.does = on.filter(|on| !on.is_empty()).or(turn.does.take());
        match std::mem::replace(&mut turn.has_begun, true) {
            true => Vec::new(),
            false => vec![News::Began],
        }
    }

    fn is_ours(&self, session: &str) -> bool {
        matches!(&self.phase, Phase::Open { id } if id == session)
    }
}

fn broken(why: String) -> Vec<News> {
    vec![News::Broken(why)]
}

fn words(error: &RpcError) -> String {
    one_line(&error.words()).0
}

fn stopped(reason: &str) -> How {
    match reason {
        "end_turn" => How::Finished,
        "cancelled" => How::Canceled,
        "max_tokens" => How::Failed("its turn reached the model's limit of tokens".into()),
        "max_turn_requests" => How::Failed("its turn reached the program's limit of requests".into()),
        "refusal" => How::Failed("the agent refused to go on".into()),
        other => How::Failed(format!("its turn ended for a reason we do not know: {}", one_line(other).0)),
    }
}

#[cfg(test)]
mod tests;
