//! Streaming programs: reads the lines that a run has written since the last read, and passes each
//! on.
//!
//! The read position is kept beside the run, so the next node continues from there. Only the line
//! that was being stored when the node died may be reported twice.

use super::exec::{ExecHand, Run};
use crate::doors::App;
use std::path::PathBuf;
use synapse_core::Refusal;
use synapse_core::effect::Report;
use synapse_core::ids::LinkId;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::audit::Actor;
use synapse_dialects::jsonl::{self, LINE_BYTES_MAX, Line, ToProgram};
use synapse_dialects::message::MessageRequest;
use synapse_holder::RunDir;

pub(super) struct Lines {
    offset: u64,
    rest: Vec<u8>,
    bookmark: PathBuf,
}

const CHUNK: usize = 256 << 10;

impl Lines {
    pub(super) fn new(dir: &RunDir) -> Self {
        let bookmark = dir.path().join("read");
        let offset =
            std::fs::read_to_string(&bookmark).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        Self { offset, rest: Vec::new(), bookmark }
    }

    /// Saves the read position with one write of fixed length, so a crash leaves the old or the new
    /// value.
    fn note(&self) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(&self.bookmark)?;
        file.write_all_at(format!("{:020}", self.offset).as_bytes(), 0)
    }

    /// Passes on new lines. Returns true after the program's final message.
    pub(super) async fn pass_on(&mut self, hand: &ExecHand, run: &Run) -> bool {
        loop {
            let at = self.offset + self.rest.len() as u64;
            let Ok(more) = run.dir.read_out_from(at, CHUNK) else { return false };
            if more.is_empty() {
                return false;
            }
            self.rest.extend(more);
            while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let over = pass_one(hand, run, &line[..end]).await;
                self.offset += line.len() as u64;
                let _ = self.note();
                if over {
                    return true;
                }
            }
            if self.rest.len() > LINE_BYTES_MAX {
                let why = format!("a line has more than {LINE_BYTES_MAX} bytes");
                let failed = Report::Done { state: synapse_core::TaskState::Failed, answer: None, why };
                let _ = hand.report(&run.message, failed).await;
                return true;
            }
        }
    }
}

async fn pass_one(hand: &ExecHand, run: &Run, line: &[u8]) -> bool {
    if line.iter().all(u8::is_ascii_whitespace) {
        return false;
    }
    let passed = match jsonl::to_core(line) {
        Ok(Line::Report { report, .. }) => {
            let over = matches!(report, Report::Done { .. });
            let told = hand.report(&run.message, report).await;
            // The task may have ended otherwise: canceled, timed out, answered by `synapse reply`.
            let ended = matches!(told, Err(Refusal::NoSuchMessage { .. }));
            if over || ended {
                return true;
            }
            told
        }
        Ok(Line::Send { to, text, priority }) => {
            let chain = run.view.as_ref().map(synapse_dialects::api::MessageView::caused);
            let request =
                MessageRequest { message: text.into(), priority, chain, ..MessageRequest::default() };
            hand.app.say_for_agent(&to, request).await
        }
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = passed {
        let shown: String = String::from_utf8_lossy(line).chars().take(200).collect();
        let error = ToProgram::Error { message: refusal.to_string(), line: shown };
        tracing::warn!(task = %run.task, %refusal, "a line of a program was refused");
        let _ = run.dir.append_input(error.line().as_bytes());
    }
    false
}

impl App {
    /// Sends a message from this node's agent to another agent, through that agent's spool.
    fn send_from_agent(
        &self,
        to: &str,
        request: synapse_dialects::message::MessageRequest,
    ) -> Result<(), Refusal> {
        use synapse_core::routes::{self, Target};
        let target = Target::parse(to)?;
        let candidates = synapse_store::registry::candidates(&self.home);
        let ids =
            routes::resolve(&target, &candidates, &self.near).map_err(|no| Refusal::from((&target, no)))?;
        let from = Caller::Agent {
            id: self.agent.id,
            label: self.agent.label(),
            role: self.agent.role.clone(),
            proof: synapse_core::message::Proof::Own,
        };
        policy::may(&self.gate.rules(), &from, Verb::Message, About::default())?;
        for id in ids.into_iter().filter(|id| *id != self.agent.id) {
            crate::post::spool_to(&self.home, &id, from.sender(), request.clone())
                .map_err(crate::post::refusal)?;
        }
        Ok(())
    }

    /// Like `send_from_agent`, with a line in the audit log.
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
