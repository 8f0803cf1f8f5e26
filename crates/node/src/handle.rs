//! The doors' handle to the driver: it can ask, and nothing else.
//!
//! Invariant: the queue is bounded; a full queue refuses at once (`Busy`).

use crate::driver::Job;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command, Draft, Input, Serves, Taken};
use synapse_core::ids::{AgentId, LinkId, Seq, TaskId, WatcherId};
use synapse_core::message::{Body, Letter};
use synapse_core::policy::Caller;
use synapse_core::record::Entry;
use synapse_core::watch::Topic;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// The maximum number of jobs waiting for the driver. The channel allocates the room for all of
/// them at the start.
pub const QUEUE_MAX: usize = 1_024;
/// The maximum number of events waiting for one watcher, and of their bytes; one event may be
/// larger. A slower watcher gets no more from the driver and reads the rest from the journal.
const WATCHER_EVENTS_MAX: usize = 256;
pub(crate) const WATCHER_BYTES_MAX: u32 = 256 << 10;
/// The highest value of `limits.input_required_max`.
const ASKING_ROOM: usize = 1_000;

#[derive(Clone)]
pub struct Handle {
    pub(crate) jobs: SyncSender<Job>,
    pub(crate) waiting: Arc<AtomicUsize>,
}

/// The answer, and the latest event at that moment.
pub type Heard = Result<(Answer, Seq), Refusal>;

/// An order for a hand.
#[derive(Debug, Clone)]
pub enum ToHand {
    Deliver {
        letter: Arc<Letter>,
        body: Body,
        tries: u8,
        /// The number of notes that wait besides it.
        notes: usize,
    },
    Stop {
        task: TaskId,
        why: String,
    },
    Interrupt {
        task: TaskId,
        by: String,
        why: String,
    },
    /// An urgent message is first in line and must not wait for the end of the turn.
    Urge {
        by: String,
    },
}

/// A queued event, with the room that it occupies until it is dropped.
#[derive(Debug)]
pub struct QueuedEntry {
    entry: Arc<Entry>,
    room: OwnedSemaphorePermit,
}

impl QueuedEntry {
    pub(crate) fn new(entry: Arc<Entry>, room: OwnedSemaphorePermit) -> Self {
        Self { entry, room }
    }
}

impl QueuedEntry {
    /// Returns the entry and its room. A caller that converts it to bytes keeps the room until
    /// these are written.
    pub(crate) fn split(self) -> (Arc<Entry>, OwnedSemaphorePermit) {
        (self.entry, self.room)
    }
}

impl std::ops::Deref for QueuedEntry {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

/// Returns the room that an event occupies in a queue of `WATCHER_BYTES_MAX`.
pub(crate) fn room_of(entry: &Entry) -> u32 {
    u32::try_from(entry.record.weight()).unwrap_or(u32::MAX).min(WATCHER_BYTES_MAX)
}

/// The driver's end of a watcher's queue.
pub struct EventSender {
    queue: mpsc::Sender<QueuedEntry>,
    room: Arc<Semaphore>,
}

impl EventSender {
    fn channel() -> (Self, mpsc::Receiver<QueuedEntry>) {
        let (queue, events) = mpsc::channel(WATCHER_EVENTS_MAX);
        (Self { queue, room: Arc::new(Semaphore::new(WATCHER_BYTES_MAX as usize)) }, events)
    }

    /// Queues an event. Returns false if there is no room, or the reader is gone.
    pub(crate) fn try_send(&self, entry: Arc<Entry>) -> bool {
        let room = self.room.clone().try_acquire_many_owned(room_of(&entry));
        room.is_ok_and(|room| self.queue.try_send(QueuedEntry::new(entry, room)).is_ok())
    }
}

/// A stream of events, and the events missed before it began.
pub enum Followed {
    Live {
        id: WatcherId,
        missed: Vec<Arc<Entry>>,
        events: mpsc::Receiver<QueuedEntry>,
        latest: Seq,
    },
    /// Events up to here must be read from the journal first.
    Behind {
        oldest_in_memory: Seq,
    },
}

impl Handle {
    pub async fn ask(&self, caller: Caller, command: Command) -> Heard {
        let (reply, heard) = oneshot::channel();
        self.put(Job::Ask { caller, command, reply })?;
        heard.await.unwrap_or(Err(Refusal::Stopping))
    }

    /// Sends a message and returns all events of its task, beginning with the message. The events
    /// end with the task, or when they are not read in time.
    pub async fn send(
        &self,
        caller: Caller,
        draft: Box<Draft>,
    ) -> Result<(Vec<Taken>, Seq, mpsc::Receiver<QueuedEntry>), Refusal> {
        let (events, told) = EventSender::channel();
        let (reply, heard) = oneshot::channel();
        self.put(Job::Send { caller, draft, events, reply })?;
        match heard.await.unwrap_or(Err(Refusal::Stopping))? {
            (Answer::Accepted(taken), at) => Ok((taken, at, told)),
            _ => Err(Refusal::Stopping),
        }
    }

    /// Like `ask`, for callers with many concurrent requests that prefer waiting for room to a
    /// refusal.
    pub async fn ask_when_there_is_room(
        &self,
        caller: Caller,
        command: Command,
    ) -> Result<oneshot::Receiver<Heard>, Refusal> {
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(2);
        let (reply, heard) = oneshot::channel();
        let mut job = Job::Ask { caller, command, reply };
        loop {
            job = match self.jobs.try_send(job) {
                Ok(()) => return Ok(heard),
                Err(TrySendError::Full(job)) => job,
                Err(TrySendError::Disconnected(_)) => return Err(Refusal::Stopping),
            };
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub async fn follow(
        &self,
        caller: Caller,
        topic: Topic,
        after: Option<Seq>,
    ) -> Result<Followed, Refusal> {
        let (sender, events) = EventSender::channel();
        let (reply, heard) = oneshot::channel();
        self.put(Job::Follow { caller, topic, after, sender, reply })?;
        let (id, answer) = heard.await.unwrap_or((WatcherId(0), Err(Refusal::Stopping)));
        match answer? {
            (Answer::Following { missed, latest }, _) => Ok(Followed::Live { id, missed, events, latest }),
            (Answer::Behind(behind), _) => Ok(Followed::Behind { oldest_in_memory: behind.oldest_in_memory }),
            _ => Err(Refusal::Stopping),
        }
    }

    /// Opens a link over which an agent takes its messages.
    pub async fn link(
        &self,
        agent: AgentId,
        window: usize,
        serves: Serves,
        running: Vec<TaskId>,
    ) -> Result<(LinkId, mpsc::Receiver<ToHand>), Refusal> {
        // Room for the window, for follow-ups and for stops; also for tasks that wait for input,
        // which do not count in the window.
        let (sender, orders) = mpsc::channel(4 * window + 64 + ASKING_ROOM);
        let (reply, heard) = oneshot::channel();
        self.put(Job::Link { agent, window, serves, running, sender, reply })?;
        let link = heard.await.map_err(|_| Refusal::Stopping)?;
        Ok((link, orders))
    }

    /// Sends an input that must not be lost but needs no answer; waits for room if there is none.
    pub fn tell(&self, input: Input) {
        if let Err(TrySendError::Full(job)) = self.jobs.try_send(Job::Tell(input)) {
            let jobs = self.jobs.clone();
            tokio::task::spawn_blocking(move || {
                let _ = jobs.send(job);
            });
        }
    }

    pub fn stop(&self) {
        let jobs = self.jobs.clone();
        tokio::task::spawn_blocking(move || {
            let _ = jobs.send(Job::Stop);
        });
    }

    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn put(&self, job: Job) -> Result<(), Refusal> {
        self.jobs.try_send(job).map_err(|e| match e {
            TrySendError::Full(_) => Refusal::Busy,
            TrySendError::Disconnected(_) => Refusal::Stopping,
        })
    }
}
