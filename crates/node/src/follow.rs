//! Follows events from any point on: from memory if possible, from the journal otherwise.
//!
//! A slow reader is not cut off: unread events stay in the journal, and are loaded when there is
//! room in its queue. So a reader that reads nothing costs a fixed amount of memory (M8), and
//! misses nothing.
//!
//! Invariant: each event is sent once and in order. The stream reports events that were pruned
//! meanwhile, and the reason if it ends early (A5).

use crate::doors::Shared;
use crate::handle::{Followed, QueuedEntry, WATCHER_BYTES_MAX, room_of};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use synapse_core::Refusal;
use synapse_core::effect::Input;
use synapse_core::ids::{Seq, WatcherId};
use synapse_core::policy::Caller;
use synapse_core::watch::Topic;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// An item for a follower.
#[derive(Debug)]
pub enum Item {
    Entry(QueuedEntry),
    /// This many events are lost, of all topics.
    Gap {
        missing: u64,
    },
    /// The stream ends here although there are more events.
    Cut(Refusal),
}

/// Counts the streams of each caller. An unread stream costs at most the event being written and
/// its queue, so the number of streams bounds the memory that one caller can use (M8).
#[derive(Debug, Default)]
pub struct Followers(Mutex<HashMap<String, usize>>);

/// The limit for the user, who would not flood their own node.
const OF_USER_MAX: usize = 1_024;
/// The limit for any other caller.
const OF_CALLER_MAX: usize = 256;

impl Followers {
    fn enter(self: &Arc<Self>, caller: &Caller) -> Result<FollowerCount, Refusal> {
        let (who, max) = match caller {
            Caller::User { .. } | Caller::Hand { .. } => (caller.label(), OF_USER_MAX),
            Caller::Agent { id, .. } => (id.to_string(), OF_CALLER_MAX),
            other => (other.label(), OF_CALLER_MAX),
        };
        let mut all = self.lock();
        let count = all.entry(who.clone()).or_default();
        if *count >= max {
            return Err(Refusal::TooManyFollowers { who: caller.label(), max });
        }
        *count += 1;
        Ok(FollowerCount { all: self.clone(), who })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One counted stream of a caller, until it is dropped.
#[derive(Debug)]
struct FollowerCount {
    all: Arc<Followers>,
    who: String,
}

impl Drop for FollowerCount {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(count) = all.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.who);
            }
        }
    }
}

/// The maximum number of items waiting for the reader; `WATCHER_BYTES_MAX` limits their bytes.
const ITEMS_MAX: usize = 64;

/// Follows `topic` after the event `after`, or from now on. Ends with the reader or the node. A
/// follower that resumes with the last id misses nothing.
pub async fn follow(
    app: &Shared,
    caller: Caller,
    topic: Topic,
    after: Option<Seq>,
) -> Result<mpsc::Receiver<Item>, Refusal> {
    let counted = app.followers.enter(&caller)?;
    let (items, reader) = mpsc::channel(ITEMS_MAX);
    // Waits for the first answer, so that a refusal is returned as one.
    let first = app.handle.follow(caller.clone(), topic, after).await?;
    let after = match &first {
        Followed::Live { latest, .. } => after.unwrap_or(*latest),
        Followed::Behind { .. } => after.unwrap_or(Seq(0)),
    };
    let room = Arc::new(Semaphore::new(WATCHER_BYTES_MAX as usize));
    let follower = Follower { app: app.clone(), caller, topic, items, room };
    tokio::spawn(async move {
        if let Err(End::Cut(refusal)) = follower.run(first, after).await {
            let _ = follower.items.send(Item::Cut(refusal)).await;
        }
        drop(counted);
    });
    Ok(reader)
}

struct Follower {
    app: Shared,
    caller: Caller,
    topic: Topic,
    items: mpsc::Sender<Item>,
    /// Permits for what is loaded from the journal, and for what was missed.
    room: Arc<Semaphore>,
}

/// Why the stream ends.
enum End {
    ReaderGone,
    Cut(Refusal),
}

impl Follower {
    async fn run(&self, first: Followed, mut after: Seq) -> Result<std::convert::Infallible, End> {
        let mut followed = first;
        loop {
            match followed {
                live @ Followed::Live { .. } => self.live(live, &mut after).await?,
                Followed::Behind { oldest_in_memory } => self.catch_up(oldest_in_memory, &mut after).await?,
            }
            followed = self.follow_on(after).await?;
        }
    }

    async fn follow_on(&self, after: Seq) -> Result<Followed, End> {
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
        loop {
            match self.app.handle.follow(self.caller.clone(), self.topic, Some(after)).await {
                Err(Refusal::Busy) => tokio::time::sleep(PAUSE).await,
                other => return other.map_err(End::Cut),
            }
        }
    }

    /// Reads the journal until the next event is in memory.
    async fn catch_up(&self, oldest: Seq, after: &mut Seq) -> Result<(), End> {
        let before = *after;
        while oldest > after.next() && self.page(after).await? {}
        if *after == before && oldest > after.next() {
            // Neither in memory nor in the journal any more.
            self.send(Item::Gap { missing: oldest.0 - after.0 - 1 }).await?;
            *after = Seq(oldest.0 - 1);
        }
        Ok(())
    }

    /// Sends one page of the journal; returns true if there may be more. A page is loaded once all
    /// earlier events were taken. It then fills the queue: at most `WATCHER_BYTES_MAX` and one
    /// event.
    async fn page(&self, after: &mut Seq) -> Result<bool, End> {
        const PAGE: u64 = 256;
        let mut room = self.reserve(WATCHER_BYTES_MAX).await?;
        let from = *after;
        let page =
            self.app.archive(move |history| history.events(from, PAGE, WATCHER_BYTES_MAX as usize)).await;
        let (entries, gap) = page.map_err(End::Cut)?;
        if gap {
            let missing = entries.first().map_or(0, |first| first.seq.0.saturating_sub(from.0 + 1));
            self.send(Item::Gap { missing }).await?;
        }
        let is_more = !entries.is_empty();
        for entry in entries {
            *after = entry.seq;
            if self.topic.covers(&entry) {
                // The last event may be larger than the remaining room.
                let size = usize::try_from(room_of(&entry)).unwrap_or(0).min(room.num_permits());
                let Some(own) = room.split(size) else { continue };
                self.send(Item::Entry(QueuedEntry::new(Arc::new(entry), own))).await?;
            }
        }
        Ok(is_more)
    }

    /// Sends events from memory, until the reader is too slow for that.
    async fn live(&self, live: Followed, after: &mut Seq) -> Result<(), End> {
        let Followed::Live { id, missed, mut events, .. } = live else { return Ok(()) };
        let _guard = WatchGuard { app: self.app.clone(), id };
        for entry in missed {
            *after = entry.seq;
            let room = self.reserve(room_of(&entry)).await?;
            self.send(Item::Entry(QueuedEntry::new(entry, room))).await?;
        }
        loop {
            let entry = tokio::select! {
                // Events that were queued before the stop go out first.
                biased;
                entry = events.recv() => entry,
                () = self.items.closed() => return Err(End::ReaderGone),
                () = self.app.stop.cancelled() => return Err(End::Cut(Refusal::Stopping)),
            };
            let Some(entry) = entry else { return Ok(()) };
            *after = entry.seq;
            self.send(Item::Entry(entry)).await?;
        }
    }

    async fn reserve(&self, bytes: u32) -> Result<OwnedSemaphorePermit, End> {
        tokio::select! {
            room = self.room.clone().acquire_many_owned(bytes) => room.map_err(|_| End::ReaderGone),
            () = self.items.closed() => Err(End::ReaderGone),
            () = self.app.stop.cancelled() => Err(End::Cut(Refusal::Stopping)),
        }
    }

    async fn send(&self, item: Item) -> Result<(), End> {
        tokio::select! {
            biased;
            sent = self.items.send(item) => sent.map_err(|_| End::ReaderGone),
            () = self.app.stop.cancelled() => Err(End::Cut(Refusal::Stopping)),
        }
    }
}

struct WatchGuard {
    app: Shared,
    id: WatcherId,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.app.handle.tell(Input::WatcherLeft { watcher: self.id });
    }
}
