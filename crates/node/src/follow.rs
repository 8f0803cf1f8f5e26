//! Following what happens from any point on: from memory if it can, from the journal if it must.
//!
//! Invariant: every event once and in order; what was pruned meanwhile is said.

use crate::doors::Shared;
use crate::handle::Followed;
use std::sync::Arc;
use synapse_core::Refusal;
use synapse_core::effect::Input;
use synapse_core::ids::{Seq, WatcherId};
use synapse_core::policy::Caller;
use synapse_core::record::Entry;
use synapse_core::watch::Topic;
use tokio::sync::mpsc;

/// What a follower is told.
#[derive(Debug, Clone)]
pub enum Item {
    Entry(Arc<Entry>),
    /// So many events are gone, of all topics.
    Gap {
        missing: u64,
    },
}

/// Most items that wait for whoever reads; more wait with the driver, which cuts off who is too slow.
const ITEMS_MAX: usize = 64;

/// Everything about `topic` after `after`, or from now on. Ends when the reader goes, when it is too slow, or with the
/// node; whoever comes back with the last place misses nothing.
pub async fn follow(
    app: &Shared,
    caller: Caller,
    topic: Topic,
    after: Option<Seq>,
) -> Result<mpsc::Receiver<Item>, Refusal> {
    let (items, reader) = mpsc::channel(ITEMS_MAX);
    // The first answer is awaited: a refusal is told as one.
    let first = app.handle.follow(caller.clone(), topic, after).await?;
    let follower = Follower { app: app.clone(), caller, topic, items };
    tokio::spawn(follower.run(first, after.unwrap_or(Seq(0))));
    Ok(reader)
}

struct Follower {
    app: Shared,
    caller: Caller,
    topic: Topic,
    items: mpsc::Sender<Item>,
}

impl Follower {
    async fn run(self, first: Followed, mut after: Seq) {
        let mut followed = first;
        loop {
            let oldest = match followed {
                live @ Followed::Live { .. } => return self.live(live).await,
                Followed::Behind { oldest_in_memory } => oldest_in_memory,
            };
            let before = after;
            while oldest.0 > after.next().0 {
                match self.page(&mut after).await {
                    Some(true) => {}
                    Some(false) => break,
                    None => return,
                }
            }
            if after == before && oldest.0 > after.next().0 {
                // Neither in memory nor in the journal any more.
                let missing = oldest.0 - after.0 - 1;
                if self.items.send(Item::Gap { missing }).await.is_err() {
                    return;
                }
                after = Seq(oldest.0 - 1);
            }
            followed = match self.app.handle.follow(self.caller.clone(), self.topic, Some(after)).await {
                Ok(followed) => followed,
                Err(_) => return,
            };
        }
    }

    /// One page of the journal; true if there may be more, none if the reader has gone.
    async fn page(&self, after: &mut Seq) -> Option<bool> {
        const PAGE: u64 = 256;
        let from = *after;
        let (entries, gap) = self.app.archive(move |history| history.events(from, PAGE)).await.ok()?;
        if gap {
            let missing = entries.first().map_or(0, |first| first.seq.0.saturating_sub(from.0 + 1));
            self.items.send(Item::Gap { missing }).await.ok()?;
        }
        let full = entries.len() as u64 == PAGE;
        for entry in entries {
            *after = entry.seq;
            if self.topic.covers(&entry) {
                self.items.send(Item::Entry(Arc::new(entry))).await.ok()?;
            }
        }
        Some(full)
    }

    async fn live(&self, live: Followed) {
        let Followed::Live { id, missed, mut events, .. } = live else { return };
        let _guard = WatchGuard { app: self.app.clone(), id };
        for entry in missed.into_iter().filter(|entry| self.topic.covers(entry)) {
            if self.items.send(Item::Entry(entry)).await.is_err() {
                return;
            }
        }
        loop {
            let entry = tokio::select! {
                entry = events.recv() => entry,
                () = self.items.closed() => None,
                () = self.app.stop.cancelled() => None,
            };
            let Some(entry) = entry else { return };
            if self.items.send(Item::Entry(entry)).await.is_err() {
                return;
            }
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
