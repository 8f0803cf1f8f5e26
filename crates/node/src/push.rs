//! Webhooks: whoever asked for it is told of a task by calls to a URL, one for each thing that happens (P8–P14).
//!
//! Each webhook follows its task as a stream does, from the journal and from a place that is kept, so it hears all that
//! happens, in order, at least once, whatever becomes of the webhook or of this node. It is a follower like any other:
//! one that is slow reads on from the journal, and no task waits for it. Its URL is judged at each call.
//!
//! Invariant: what is in `hooks` is on disk. Secrets are sent to the webhook, and told nobody else.
//! Not here: the operations by which webhooks are asked for (`a2a/push`), files (`synapse_store::webhooks`).

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

/// Most webhooks of one task.
pub const PER_TASK_MAX: usize = 10;
/// Most calls under way at once.
const CALLS_MAX: usize = 16;

/// All webhooks of this node.
pub struct Push {
    store: Webhooks,
    hooks: Mutex<BTreeMap<(TaskId, String), Running>>,
    /// One change of the disk at a time, so that what is in `hooks` and what is there stay the same.
    changes: tokio::sync::Mutex<()>,
    calls: Semaphore,
    public: web::Client,
    private: web::Client,
}

struct Running {
    hook: Arc<Webhook>,
    stop: CancellationToken,
    /// Up to where it has been told.
    told: Arc<Mutex<Mark>>,
}

/// Why a webhook is not kept.
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

    /// Goes on with all that a node before this one had. Costs one look at a folder if there are none.
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

    /// Whether a URL may be called: refused is only what must not be, not what does not answer yet (P14).
    pub async fn check(&self, app: &Shared, url: &str) -> Result<(), web::TargetFault> {
        const PATIENCE: Duration = Duration::from_secs(3);
        let limits = Limits { connect: PATIENCE, ..Limits::default() };
        match self.client(app).check_name(url, limits).await {
            Err(WebError::Target(fault)) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Keeps a webhook, on disk when this returns; one of the same task and id is replaced and goes on where it was.
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

    /// Those of a task, by their ids.
    pub fn of_task(&self, task: TaskId) -> Vec<Arc<Webhook>> {
        let hooks = self.hooks();
        let from = (task, String::new());
        let own = hooks.range(from..).take_while(|((of, _), _)| *of == task);
        own.map(|(_, running)| running.hook.clone()).collect()
    }

    /// Nothing more is sent to it; what is under way is broken off. It is well if there is none (P7).
    pub async fn remove(app: &Shared, task: TaskId, id: &str) -> Result<(), NotKept> {
        let Some(hook) = app.push.get(task, id) else { return Ok(()) };
        Self::forget(app, &hook).await
    }

    async fn forget(app: &Shared, hook: &Arc<Webhook>) -> Result<(), NotKept> {
        let push = &app.push;
        let _change = push.changes.lock().await;
        let key = (hook.task, hook.id.clone());
        // It may have been replaced meanwhile; then this one has already gone.
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
