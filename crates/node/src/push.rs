//! Webhooks: report each event of a task by a call to a URL, for clients that asked for it
//! (P8–P14).
//!
//! Each webhook follows its task like a stream, from the journal and from a stored position. So it
//! gets every event, in order and at least once, even if the webhook or this node fails in between.
//! A slow webhook reads on from the journal, and no task waits for it. Its URL is checked at each
//! call.
//!
//! Invariant: what is in `hooks` is on disk. Secrets are sent to the webhook and to nobody else.
//! Not here: the operations that create webhooks (`a2a/push`), files (`synapse_store::webhooks`).

mod patience;
mod teller;

use crate::a2a::Mark;
use crate::doors::Shared;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::ids::TaskId;
use synapse_peer::web::{self, Limits, Reach, Rules, WebError};
use synapse_store::files::FileError;
use synapse_store::webhooks::{WEBHOOKS_MAX, Webhook, Webhooks};
use teller::Teller;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The maximum number of webhooks of one task.
pub const PER_TASK_MAX: usize = 10;
/// The maximum number of concurrent calls.
const CALLS_MAX: usize = 16;

/// All webhooks of this node.
pub struct Push {
    store: Webhooks,
    hooks: Mutex<BTreeMap<(TaskId, String), Running>>,
    /// Serializes changes on disk, so that `hooks` always matches the disk.
    changes: tokio::sync::Mutex<()>,
    calls: Semaphore,
    public: web::Client,
    private: web::Client,
}

struct Running {
    hook: Arc<Webhook>,
    stop: CancellationToken,
    /// The last event that was reported.
    told: Arc<Mutex<Mark>>,
}

/// Why a webhook is not stored.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    #[error("a task has at most {PER_TASK_MAX} push notification configs; delete one of them first")]
    TooManyOfTask,
    #[error("this agent has {WEBHOOKS_MAX} push notification configs, and takes no more until tasks end")]
    TooMany,
    #[error("it could not be stored: {0}")]
    Disk(FileError),
    #[error(transparent)]
    Stopping(Refusal),
}

impl Push {
    pub fn new(dir: PathBuf) -> Self {
        let client = |reach| {
            let rules = Rules { reach, plain_http: false };
            web::Client::new(web::Options { rules, ..web::Options::default() })
        };
        Self {
            store: Webhooks::at(dir),
            hooks: Mutex::default(),
            changes: tokio::sync::Mutex::default(),
            calls: Semaphore::new(CALLS_MAX),
            public: client(Reach::Public),
            private: client(Reach::Private),
        }
    }

    /// Resumes all webhooks of the earlier node. Costs one look at a folder if there are none.
    pub async fn resume(app: &Shared) {
        let store = app.push.store.clone();
        let Ok((found, problems)) = tokio::task::spawn_blocking(move || store.all()).await else { return };
        for problem in problems {
            tracing::warn!(path = %problem.path.display(), why = %problem.why, "a webhook is left out");
        }
        for (hook, told) in found {
            let place = |raw: &str| Mark::parse(raw);
            let Some(from) = place(&hook.from) else { continue };
            let told = told.as_deref().and_then(place).map_or(from, |told| told.max(from));
            app.push.start(app, hook, told);
        }
    }

    /// Checks whether a URL may be called. Refuses only forbidden targets, not those that do not
    /// respond yet (P14).
    pub async fn check(&self, app: &Shared, url: &str) -> Result<(), web::TargetFault> {
        const PATIENCE: Duration = Duration::from_secs(3);
        let limits = Limits { connect: PATIENCE, ..Limits::default() };
        match self.client(app).check_name(url, limits).await {
            Err(WebError::Target(fault)) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Stores a webhook, on disk when this returns. It replaces one with the same task and id, and
    /// continues from that one's position.
    pub async fn put(app: &Shared, hook: Webhook, from: Mark) -> Result<(), NotKept> {
        let push = &app.push;
        let _change = push.changes.lock().await;
        let key = (hook.task, hook.id.clone());
        let told = {
            let hooks = push.hooks();
            let of_task = hooks.keys().filter(|(task, id)| *task == hook.task && *id != hook.id).count();
            match hooks.get(&key) {
                Some(running) => running.told(),
                None if of_task >= PER_TASK_MAX => return Err(NotKept::TooManyOfTask),
                None if hooks.len() >= WEBHOOKS_MAX => return Err(NotKept::TooMany),
                None => from,
            }
        };
        let (store, kept) = (push.store.clone(), hook.clone());
        let stored = tokio::task::spawn_blocking(move || store.put(&kept)).await;
        stored.map_err(|_| NotKept::Stopping(Refusal::Stopping))?.map_err(NotKept::Disk)?;
        push.start(app, hook, told);
        Ok(())
    }

    pub fn get(&self, task: TaskId, id: &str) -> Option<Arc<Webhook>> {
        self.hooks().get(&(task, id.to_owned())).map(|running| running.hook.clone())
    }

    /// Returns the webhooks of a task, ordered by id.
    pub fn of_task(&self, task: TaskId) -> Vec<Arc<Webhook>> {
        let hooks = self.hooks();
        let from = (task, String::new());
        let own = hooks.range(from..).take_while(|((of, _), _)| *of == task);
        own.map(|(_, running)| running.hook.clone()).collect()
    }

    /// Removes a webhook and cancels a running call. A webhook that does not exist is no error
    /// (P7).
    pub async fn remove(app: &Shared, task: TaskId, id: &str) -> Result<(), NotKept> {
        let Some(hook) = app.push.get(task, id) else { return Ok(()) };
        Self::forget(app, &hook).await
    }

    async fn forget(app: &Shared, hook: &Arc<Webhook>) -> Result<(), NotKept> {
        let push = &app.push;
        let _change = push.changes.lock().await;
        let key = (hook.task, hook.id.clone());
        // It may have been replaced meanwhile; then this one is already gone.
        let is_same = |running: &Running| Arc::ptr_eq(&running.hook, hook);
        if !push.hooks().get(&key).is_some_and(is_same) {
            return Ok(());
        }
        let (store, gone) = (push.store.clone(), hook.clone());
        let removed = tokio::task::spawn_blocking(move || store.remove(&gone)).await;
        removed.map_err(|_| NotKept::Stopping(Refusal::Stopping))?.map_err(NotKept::Disk)?;
        if let Some(running) = push.hooks().remove(&key) {
            running.stop.cancel();
        }
        app.metrics.webhooks(push.hooks().len());
        Ok(())
    }

    fn start(&self, app: &Shared, hook: Webhook, told: Mark) {
        let hook = Arc::new(hook);
        let (stop, told) = (app.stop.child_token(), Arc::new(Mutex::new(told)));
        let running = Running { hook: hook.clone(), stop: stop.clone(), told: told.clone() };
        if let Some(before) = self.hooks().insert((hook.task, hook.id.clone()), running) {
            before.stop.cancel();
        }
        app.metrics.webhooks(self.hooks().len());
        tokio::spawn(Teller { app: app.clone(), hook, told }.work(stop));
    }

    fn client(&self, app: &Shared) -> &web::Client {
        if app.settings.get().network.push_private { &self.private } else { &self.public }
    }

    fn hooks(&self) -> MutexGuard<'_, BTreeMap<(TaskId, String), Running>> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn told(&self) -> Mark {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
