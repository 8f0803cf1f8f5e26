//! Looks up a task, open or ended, that the caller may see.

use super::{Engine, is_interrupted, is_own, other_answer};
use crate::card;
use crate::driver::now;
use std::sync::Arc;
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::from_core::{self, FileLinks, Much, Seen};
use synapse_a2a::{pb, to_core};
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command};
use synapse_core::ids::{Seq, TaskId, TaskRef};
use synapse_core::message::{Body, Content, FileRef, Letter, Part};
use synapse_core::record::{Archive, Record, Said};
use synapse_core::task::{Ending, Task, TaskState};

/// A task as it was at one position in the journal.
pub(super) enum Known {
    Open {
        task: Box<Task>,
        at: Seq,
    },
    Ended {
        ending: Ending,
        archive: Box<Archive>,
        at: Seq,
        /// Its messages and answers, if it was followed from its first message on.
        heard: Option<Heard>,
    },
}

/// The messages and answers in a task's events, up to a limit: a caller may wait for hours.
#[derive(Default)]
pub(super) struct Heard {
    messages: Vec<(Arc<Letter>, Body)>,
    said: Vec<Said>,
    bytes: usize,
}

impl Heard {
    const BYTES_MAX: usize = 256 << 10;

    pub(super) fn take(&mut self, record: &Record) {
        match record {
            Record::Accepted { letter, body, .. } => self.messages.push((letter.clone(), body.clone())),
            Record::Said { what: what @ Said::Artifact { .. }, .. } => self.said.push(what.clone()),
            _ => return,
        }
        self.bytes += record.weight();
        if self.bytes > Self::BYTES_MAX {
            (self.messages, self.said) = (Vec::new(), Vec::new());
        }
    }

    /// Whether this is the whole task. The task may be older, or too large to be kept.
    fn is_all_of(&self, task: &Task) -> bool {
        self.bytes <= Self::BYTES_MAX
            && task.messages.iter().eq(self.messages.iter().map(|(letter, _)| &letter.id))
    }
}

impl Known {
    pub(super) fn task(&self) -> &Task {
        match self {
            Self::Open { task, .. } => task,
            Self::Ended { archive, .. } => &archive.task,
        }
    }

    pub(super) fn ended(&self) -> Option<TaskState> {
        match self {
            Self::Open { .. } => None,
            Self::Ended { ending, .. } => Some(ending.state),
        }
    }

    /// Returns the message that answered it, if the caller is to see only that.
    pub(super) fn direct(&self) -> Option<pb::Message> {
        match self {
            Self::Open { .. } => None,
            Self::Ended { ending, archive, .. } => from_core::direct(&archive.task, ending),
        }
    }

    /// Whether it asks for something, and moved to that state after this many moves.
    pub(super) fn asks_since(&self, moves: usize) -> bool {
        is_interrupted(self.task().state) && self.task().history.len() > moves
    }

    pub(super) fn at(&self) -> Seq {
        match self {
            Self::Open { at, .. } | Self::Ended { at, .. } => *at,
        }
    }
}

impl Engine {
    pub(super) async fn known_by_name(&self, name: &str) -> Result<Known, Fault> {
        self.known(to_core::task_id(name)?).await
    }

    pub(super) async fn known(&self, id: TaskId) -> Result<Known, Fault> {
        let name = id.to_string();
        let reference = TaskRef::parse(&name).map_err(|_| Fault::no_such_task(&name))?;
        let known = match self.app.ask(self.caller.clone(), Command::Task { task: reference.clone() }).await {
            Ok((Answer::Task { task, at }, _)) => Known::Open { task, at },
            Ok(_) => return Err(other_answer()),
            Err(Refusal::TaskEnded { .. }) => {
                let found = self
                    .app
                    .archive(move |history| Ok((history.task(&reference, now())?, history.end_of(&id)?)))
                    .await;
                let (found, end) = found.map_err(|refusal| Fault::of(&refusal))?;
                let ((ending, archive), at) = found.zip(end).ok_or_else(|| Fault::no_such_task(&name))?;
                Known::Ended { ending, archive: Box::new(archive), at, heard: None }
            }
            // A foreign task and a missing one get the same error, so callers cannot tell them
            // apart (E5).
            Err(Refusal::NotAllowed { .. } | Refusal::NoSuchTask { .. }) => {
                return Err(Fault::no_such_task(&name));
            }
            Err(refusal) => return Err(Fault::of(&refusal)),
        };
        if is_own(&self.caller, self.tenant.as_ref(), known.task()) {
            Ok(known)
        } else {
            Err(Fault::no_such_task(&name))
        }
    }

    /// Returns the URLs where the caller fetches the files of its messages.
    fn links(&self) -> FileLinks {
        let tenant = self.tenant.as_ref().map(|tenant| {
            let name: String = form_urlencoded::byte_serialize(tenant.as_str().as_bytes()).collect();
            format!("?tenant={name}")
        });
        let base = format!("{}/api/v1/files", card::base(&self.app, &self.called));
        FileLinks { base, query: tenant.unwrap_or_default() }
    }

    /// Returns a file that came with a message of this task, if the caller may see both.
    pub(crate) async fn file_of(&self, task: &str, sha256: &str) -> Result<(Part, FileRef), Fault> {
        let known = self.known_by_name(task).await?;
        let (wanted, sha256) = (known.task().messages.clone(), sha256.to_owned());
        let found = self.app.archive(move |history| {
            for message in &wanted {
                let content = history.message(message)?.and_then(|(_, body)| body.content().ok());
                let files = content.iter().flat_map(Content::files);
                if let Some((part, file)) = files.into_iter().find(|(_, file)| file.sha256.hex() == sha256) {
                    return Ok(Some((part.clone(), *file)));
                }
            }
            Ok(None)
        });
        let found = found.await.map_err(|refusal| Fault::of(&refusal))?;
        found.ok_or_else(|| Fault::new(Kind::TaskNotFound, format!("task {task} has no such file")))
    }

    /// Builds the requested view of a task as it was then.
    pub(super) async fn tell(&self, known: &Known, much: Much) -> Result<pb::Task, Fault> {
        let links = self.links();
        if let Known::Ended { ending, archive, heard: Some(heard), .. } = known
            && heard.is_all_of(&archive.task)
        {
            let said = if much.artifacts { heard.said.as_slice() } else { &[] };
            let (task, messages) = (&archive.task, heard.messages.as_slice());
            return Ok(from_core::task(
                &Seen { task, ending: Some(ending), messages, said, links: &links },
                much,
            ));
        }
        let (id, at) = (known.task().id, known.at());
        let wanted = known.task().messages.clone();
        let read = self.app.archive(move |history| {
            let said = if much.artifacts { history.artifacts_upto(&id, at)? } else { Vec::new() };
            let mut messages = Vec::new();
            for message in &wanted {
                messages.extend(history.message(message)?);
            }
            Ok((said, messages))
        });
        let (said, messages): (Vec<Said>, Vec<(Arc<Letter>, Body)>) =
            read.await.map_err(|refusal| Fault::of(&refusal))?;
        let ending = match known {
            Known::Ended { ending, .. } => Some(ending),
            Known::Open { .. } => None,
        };
        let seen = Seen { task: known.task(), ending, messages: &messages, said: &said, links: &links };
        Ok(from_core::task(&seen, much))
    }
}
