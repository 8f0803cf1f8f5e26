//! Streams: the current state of a task, then its events in order, until it has ended (S13–S22,
//! T15–T17).
//!
//! Each event has a mark: its sequence number in the journal, and its index among the A2A events of
//! that record. A client that resumes with the last mark it saw misses nothing and gets nothing
//! twice, even after a broken connection or a restart of the node.

use super::view::Known;
use super::{Engine, is_interrupted, is_pause};
use crate::follow::Item;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use synapse_a2a::check;
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::from_core::{self, Much};
use synapse_a2a::pb;
use synapse_a2a::wire;
use synapse_core::Refusal;
use synapse_core::ids::{Seq, TaskId};
use synapse_core::record::{Entry, Record};
use synapse_core::task::Task;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// The position of an event in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    seq: Seq,
    nth: usize,
}

/// The index for a whole task: after all events of that record. No record has this many A2A events.
const WHOLE: usize = 9;

impl Mark {
    /// Returns the mark after all events up to `seq`.
    pub(super) fn after(seq: Seq) -> Self {
        Self { seq, nth: WHOLE }
    }

    pub fn parse(raw: &str) -> Option<Self> {
        let (seq, nth) = raw.split_once('-')?;
        Some(Self { seq: Seq(seq.parse().ok()?), nth: nth.parse().ok()? })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.seq.0, self.nth)
    }
}

/// An item of a stream.
#[derive(Debug, Clone)]
pub enum Event {
    Told {
        mark: Mark,
        response: Box<pb::StreamResponse>,
        /// The share of the common response budget that a large response holds until it is written
        /// (M8).
        room: Option<Arc<OwnedSemaphorePermit>>,
    },
    /// Earlier events are lost; the current state of the task follows.
    Gap,
    /// The task continues, but this stream ends (A5).
    Cut(Fault),
}

impl Event {
    fn cut(refusal: &Refusal) -> Self {
        let fault = Fault::of(refusal);
        let message = format!("the stream ends before the task does: {}; subscribe to go on", fault.message);
        Self::Cut(Fault { message, ..fault })
    }
}

/// Whether a large task waits for room or is refused.
#[derive(Debug, Clone, Copy)]
enum Wait {
    No,
    /// Wait, because the requested operation is already done.
    Patiently,
}

/// A stream of events; it closes after the last one.
pub type Stream = mpsc::Receiver<Event>;

/// Events buffered for a slow reader. More are in the follower's queue, which is bounded in bytes,
/// or in the journal.
const EVENTS_MAX: usize = 1;

impl Engine {
    /// SendStreamingMessage. The stream ends when the task has ended or asks for something (S17).
    pub(super) async fn send_streaming(&self, request: pb::SendMessageRequest) -> Result<Stream, Fault> {
        let sent = self.take(&request, false).await?;
        let known = self.known(sent.task).await?;
        if let Some(message) = known.direct() {
            return Ok(only(message_event(known.mark(), message)));
        }
        let first = self.whole(&known, Wait::Patiently).await?;
        // Follow from where the message was accepted. Events already contained in the first one are
        // skipped, but one of them may be the end.
        let items = self.follow(sent.task, sent.at).await?;
        let teller = Teller {
            engine: self.clone(),
            task: known.task().clone(),
            told: known.mark(),
            until_pause: true,
        };
        let is_all = known.ended().is_some() || known.asks_since(sent.moves);
        if self.app.answers_directly && !is_all {
            return Ok(teller.start_when_it_speaks(first, items));
        }
        Ok(teller.start(Some(first), is_all, items))
    }

    /// SubscribeToTask. The stream ends when the task has ended. `after` resumes a broken stream.
    pub(crate) async fn subscribe(
        &self,
        request: pb::SubscribeToTaskRequest,
        after: Option<Mark>,
    ) -> Result<Stream, Fault> {
        let known = self.known_by_name(check::id("id", &request.id)?).await?;
        let task = known.task().clone();
        if let Some(mark) = after {
            let teller = Teller { engine: self.clone(), task, told: mark, until_pause: false };
            // No event has such an id unless the journal was replaced, so the events in between are
            // unknown.
            if mark.seq > known.at() {
                let items = self.follow(known.task().id, known.at()).await?;
                return Ok(teller.start_after_gap(items));
            }
            let items = self.follow(known.task().id, Seq(mark.seq.0.saturating_sub(1))).await?;
            return Ok(teller.start(None, false, items));
        }
        if let Some(state) = known.ended() {
            let message = format!("task {} is {}; nothing more happens to it", task.id, state.name());
            return Err(Fault::new(Kind::Unsupported, message));
        }
        let first = self.whole(&known, Wait::No).await?;
        let items = self.follow(task.id, known.at()).await?;
        let teller = Teller { engine: self.clone(), task, told: known.mark(), until_pause: false };
        Ok(teller.start(Some(first), false, items))
    }

    /// Returns an ended task as a whole, or `None` if it has not ended.
    pub(crate) async fn whole_if_ended(&self, task: TaskId) -> Result<Option<pb::StreamResponse>, Fault> {
        let known = self.known(task).await?;
        if known.ended().is_none() {
            return Ok(None);
        }
        match self.whole(&known, Wait::Patiently).await? {
            Event::Told { response, .. } => Ok(Some(*response)),
            Event::Gap | Event::Cut(_) => Ok(None),
        }
    }

    /// Builds an event with the whole task as it was then.
    async fn whole(&self, known: &Known, wait: Wait) -> Result<Event, Fault> {
        let task = self.tell(known, Much { history: None, artifacts: true }).await?;
        let bytes = wire::encoded_len(&task);
        let room = match wait {
            Wait::No => self.app.unread.reserve(bytes).map_err(|refusal| Fault::of(&refusal))?,
            Wait::Patiently => self.app.unread.reserve_patiently(bytes).await,
        };
        let response = pb::StreamResponse { payload: Some(pb::stream_response::Payload::Task(task)) };
        Ok(Event::Told { mark: known.mark(), response: Box::new(response), room })
    }
}

impl Known {
    pub(super) fn mark(&self) -> Mark {
        Mark::after(self.at())
    }
}

/// How long to wait for an agent that may answer with a message, before its task is reported.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// Whether the agent itself has said something, or the task has ended.
fn is_word(record: &Record) -> bool {
    match record {
        Record::Said { .. } | Record::Ended { .. } => true,
        Record::Moved { to, .. } => is_interrupted(to.to),
        _ => false,
    }
}

fn message_event(mark: Mark, message: pb::Message) -> Event {
    let response = pb::StreamResponse { payload: Some(pb::stream_response::Payload::Message(message)) };
    Event::Told { mark, response: Box::new(response), room: None }
}

/// Returns a stream with one event.
fn only(event: Event) -> Stream {
    let (events, reader) = mpsc::channel(1);
    let _ = events.try_send(event);
    reader
}

struct Teller {
    engine: Engine,
    task: Task,
    /// The last event sent.
    told: Mark,
    until_pause: bool,
}

impl Teller {
    fn start(mut self, first: Option<Event>, is_all: bool, mut items: mpsc::Receiver<Item>) -> Stream {
        let (events, reader) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(async move {
            if let Some(first) = first
                && events.send(first).await.is_err()
            {
                return;
            }
            if !is_all {
                self.go_on(&mut items, &events).await;
            }
        });
        reader
    }

    /// Starts the stream with the current state of the task.
    fn start_after_gap(mut self, mut items: mpsc::Receiver<Item>) -> Stream {
        let (events, reader) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(async move {
            let (told, is_last) = self.after_gap().await;
            for event in told {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            if !is_last {
                self.go_on(&mut items, &events).await;
            }
        });
        reader
    }

    /// Reports the task once its agent has said something or has been silent for a while. Until
    /// then the agent may answer with a message, and then that message is the whole stream (S14).
    fn start_when_it_speaks(mut self, first: Event, mut items: mpsc::Receiver<Item>) -> Stream {
        let (events, reader) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(async move {
            let quiet = tokio::time::sleep(QUIET_MAX);
            tokio::pin!(quiet);
            let mut told = vec![first];
            let is_last = loop {
                let item = tokio::select! {
                    () = &mut quiet => break false,
                    () = events.closed() => return,
                    item = items.recv() => item,
                };
                let (more, is_last) = match item {
                    None => break true,
                    Some(Item::Cut(refusal)) => (vec![Event::cut(&refusal)], true),
                    Some(Item::Gap { .. }) => self.after_gap().await,
                    Some(Item::Entry(entry)) => {
                        if let Record::Ended { ending, archive, .. } = &entry.record
                            && let Some(message) = from_core::direct(&archive.task, ending)
                        {
                            told = vec![message_event(Mark { seq: entry.seq, nth: 0 }, message)];
                            break true;
                        }
                        told.extend(self.updates(&entry));
                        if !is_word(&entry.record) {
                            continue;
                        }
                        (Vec::new(), self.is_last(&entry.record))
                    }
                };
                told.extend(more);
                break is_last;
            };
            for event in told {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            if !is_last {
                self.go_on(&mut items, &events).await;
            }
        });
        reader
    }

    /// Sends events until the last one, or until the reader is gone.
    async fn go_on(&mut self, items: &mut mpsc::Receiver<Item>, events: &mpsc::Sender<Event>) {
        loop {
            let item = tokio::select! {
                item = items.recv() => item,
                // Without this, the stream of a task without events would never notice that its
                // reader is gone.
                () = events.closed() => return,
            };
            let (told, is_last) = match item {
                Some(Item::Entry(entry)) => (self.updates(&entry), self.is_last(&entry.record)),
                Some(Item::Gap { .. }) => self.after_gap().await,
                Some(Item::Cut(refusal)) => (vec![Event::cut(&refusal)], true),
                None => return,
            };
            for event in told {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            if is_last {
                return;
            }
        }
    }

    fn is_last(&self, record: &Record) -> bool {
        matches!(record, Record::Ended { .. }) || (self.until_pause && is_pause(record))
    }

    fn updates(&self, entry: &Entry) -> Vec<Event> {
        let all = from_core::updates(&self.task, entry).into_iter().enumerate();
        all.map(|(nth, response)| (Mark { seq: entry.seq, nth }, response))
            .filter(|(mark, _)| *mark > self.told)
            .map(|(mark, response)| Event::Told { mark, response: Box::new(response), room: None })
            .collect()
    }

    /// Replaces lost events by the whole task. Returns also whether that is the end.
    async fn after_gap(&mut self) -> (Vec<Event>, bool) {
        let known = match self.engine.known(self.task.id).await {
            Ok(known) => known,
            Err(fault) => return (vec![Event::Gap, Event::Cut(fault)], true),
        };
        self.told = known.mark();
        match self.engine.whole(&known, Wait::Patiently).await {
            Ok(whole) => (vec![Event::Gap, whole], known.ended().is_some()),
            Err(fault) => (vec![Event::Gap, Event::Cut(fault)], true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_as_they_were_and_stand_in_order() {
        let mark = Mark { seq: Seq(12), nth: 1 };
        assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
        for wrong in ["", "12", "12-", "-1", "x-1", "12-1-1", "12_1"] {
            assert_eq!(Mark::parse(wrong), None, "{wrong}");
        }
        let whole = Mark { seq: Seq(12), nth: WHOLE };
        assert!(mark < whole && whole < Mark { seq: Seq(13), nth: 0 });
    }
}
