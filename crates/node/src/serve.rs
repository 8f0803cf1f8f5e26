//! The life of a node: read the launch file, open the journal, take a port, work until told to
//! stop.
//!
//! Exit codes for the holder: 0, it was asked to stop; 78, it cannot run and a retry would not
//! help; 75, it was asked to make room for a new node; anything else, it died. After 75 and after a
//! death the holder starts a new node.

mod hand;

use crate::audit::Audit;
use crate::auth::{Gate, SettingsNow};
use crate::card::Cards;
use crate::doors::{self, App, Shared};
use crate::driver::{Driver, now};
use crate::effects::{Effects, hand_out};
use crate::folders::{Changes, FolderWatcher};
use crate::hands::acp::AcpDesk;
use crate::launch::{Hand, Launch};
use crate::listen::{ListenError, Listeners, PortWish};
use crate::metrics::Metrics;
use crate::network::Plan;
use crate::own_agent::OwnAgent;
use crate::profiles::Reload;
use crate::push::Push;
use crate::registrar::{self, Registrar};
use crate::settings::{Current, retention};
use crate::{outbox, post};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use synapse_core::agents::Presence;
use synapse_core::effect::Input;
use synapse_core::ids::AgentId;
use synapse_core::{Hub, Limits};
use synapse_store::attachments::Attachments;
use synapse_store::files::{self, Access};
use synapse_store::home::{AgentDir, Home};
use synapse_store::known::Known;
use synapse_store::outbox::Outbox;
use synapse_store::registry::{self, Entry, PendingPrompt};
use synapse_store::spool::Spool;
use synapse_store::token::{Token, TokenFile};
use synapse_store::{History, Journal, OpenError};
use synapse_tls::Server;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The one line that the node writes to its standard output for the launcher.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    Ready {
        port: u16,
        /// Its URL for TCP.
        endpoint: String,
    },
    CannotRun {
        why: String,
    },
    /// Another holder has this agent.
    AlreadyHeld {
        pid: Option<u32>,
    },
    /// The agent belongs to another owner than the agent below which this was started.
    OfAnother {
        why: String,
    },
}

const CANNOT_RUN: u8 = 78;
/// `EX_TEMPFAIL` of sysexits: start the next node of this agent.
const REPLACE_ME: u8 = 75;

/// Why a node ended in order.
enum Ended {
    Stopped,
    /// A new node replaces it.
    Restart,
}

/// Everything a node needs before it can serve.
struct Parts {
    home: Home,
    dir: AgentDir,
    launch: Launch,
    known: Known,
    spool: Spool,
    journal: Journal,
    history: History,
    hub: Hub,
    settings: Current,
    plan: Plan,
    tls: Option<Server>,
}

/// Runs the node of one agent, in this process, until it is told to stop.
pub fn run(home: Home, agent: &AgentId) -> ExitCode {
    // If the holder is killed, nothing would restart us, and we must not work unsupervised.
    crate::os::end_with_parent();
    crate::open_files::raise();
    match open(home, agent).and_then(work) {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::Restart) => ExitCode::from(REPLACE_ME),
        Err(Died::CannotRun(why)) => cannot_run(&why),
        Err(Died::Now(why)) => {
            tracing::error!(%why, "this node ended");
            ExitCode::FAILURE
        }
    }
}

/// Releases, after the start, the memory that only the start needed.
async fn settle() {
    const START: std::time::Duration = std::time::Duration::from_secs(2);
    tokio::time::sleep(START).await;
    crate::os::give_back_code();
    synapse_holder::memory::give_back();
}

fn work(parts: Parts) -> Result<Ended, Died> {
    // One thread for all sockets: it mostly waits, and more threads would only add wake-ups between
    // them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .thread_stack_size(1 << 20)
        // Disk threads are needed in bursts, and each idle one costs a stack and wake-ups.
        .thread_keep_alive(std::time::Duration::from_secs(1))
        .enable_all()
        .build();
    let runtime = runtime.map_err(|e| Died::CannotRun(format!("no threads: {e}")))?;
    let ended = runtime.block_on(serve(parts));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    ended
}

/// Whether a node of this holder ran before this one.
pub(crate) fn is_restart() -> bool {
    std::env::var_os(RESTART_VARIABLE).is_some()
}

/// Tells a command where the outbox of its agent is.
pub const OUTBOX_VARIABLE: &str = "SYNAPSE_OUTBOX";

/// Set by the holder for every node but its first.
pub const RESTART_VARIABLE: &str = "SYNAPSE_NODE_RESTART";
/// Set by the holder: its own version, which stays when nodes are replaced.
pub const HOLDER_VERSION_VARIABLE: &str = "SYNAPSE_HOLDER_VERSION";

enum Died {
    CannotRun(String),
    /// The next start may succeed.
    Now(String),
}

fn cannot_run(why: &str) -> ExitCode {
    tracing::error!(%why, "this node cannot run");
    say(&Ready::CannotRun { why: why.to_owned() });
    ExitCode::from(CANNOT_RUN)
}

/// Writes the line for the launcher. After a restart there is no reader, which is fine.
fn say(ready: &Ready) {
    use std::io::Write as _;
    let line = serde_json::to_string(ready).unwrap_or_default();
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn open(home: Home, agent: &AgentId) -> Result<Parts, Died> {
    let dir = home.agent(agent);
    let told = |e: &dyn std::fmt::Display| Died::CannotRun(e.to_string());
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if synapse_holder::holder_of(dir.path()).map(|mark| mark.pid) != parent {
        return Err(told(&"its holder is gone; start the agent again with `synapse run`"));
    }
    let bytes = files::read_private(&dir.launch(), 1 << 20, Access::Plain).map_err(|e| told(&e))?;
    let mut launch: Launch =
        serde_json::from_slice(&bytes).map_err(|e| told(&format!("{}: {e}", dir.launch().display())))?;
    let settings = Current::new(home.root(), &launch.working_dir);
    let plan = Plan::of(&launch.listen, &settings.get()).map_err(|e| told(&e))?;
    let tls = plan.tls.clone().map(Server::load).transpose().map_err(|e| match is_restart() {
        // The files may be in the middle of a replacement; they were valid when this agent was
        // started.
        true => Died::Now(e.to_string()),
        false => told(&e),
    })?;
    let known = Known::load(&dir)
        .map_err(|e| told(&e))?
        .ok_or_else(|| told(&"this agent is not known yet; start it with `synapse run`"))?;
    // It may have been renamed since it was started.
    launch.name.clone_from(&known.name);
    Token::load_or_make(&home).map_err(|e| told(&e))?;
    TokenFile::of_agent(&dir).load_or_make().map_err(|e| told(&e))?;
    let spool = Spool::open(&dir.spool()).map_err(|e| told(&e))?;
    let kept = retention(&settings.get());
    let (journal, state) = Journal::open(&dir.journal(), kept).map_err(|e| match e {
        // A disk that is temporarily full or missing is no reason to give up an agent that ran
        // before.
        OpenError::Unreachable { .. } if is_restart() => Died::Now(e.to_string()),
        e => Died::CannotRun(e.to_string()),
    })?;
    let history = History::open(&dir.journal()).map_err(|e| told(&e))?;
    let hub = Hub::with_state(limits(&settings.get()), state);
    Ok(Parts { home, dir, launch, known, spool, journal, history, hub, settings, plan, tls })
}

/// Returns the limits of the core, with the values from the user's settings.
fn limits(settings: &synapse_settings::Settings) -> Limits {
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let limits = &settings.limits;
    Limits {
        message_bytes_max: size(limits.message_bytes_max),
        asking_tasks_max: size(limits.input_required_max),
        asking_ms: limits.input_required_seconds.saturating_mul(1000),
        ..Limits::default()
    }
}

async fn serve(parts: Parts) -> Result<Ended, Died> {
    let Parts { home, dir, launch, mut known, spool, journal, history, hub, settings, plan, tls } = parts;
    let cannot = |e: &dyn std::fmt::Display| Died::CannotRun(e.to_string());
    let (listeners, mut entry) = take_port(&home, &dir, &launch, &mut known, &plan).await?;
    let (port, holder, endpoint) = (listeners.port, entry.pid, entry.endpoint.clone());
    let (agent, metrics) = (launch.agent(Some(port)), Arc::new(Metrics::default()));
    let (registrar, shown, news) = Registrar::new(agent.id, now(), is_restart());
    let body_bytes_max = hub.limits().message_bytes_max + (64 << 10);
    let (effects, answers) = Effects::new(registrar);
    tokio::spawn(hand_out(answers));
    let (driver, handle) = Driver::new(hub, journal, effects, metrics.clone(), agent.clone(), is_restart());
    let driver = std::thread::Builder::new().name("driver".into()).spawn(move || driver.run());
    let driver = driver.map_err(|e| cannot(&e))?;

    let audit = Audit::start(dir.audit(), &settings.get().audit).map_err(|e| cannot(&e))?;
    let stop = CancellationToken::new();
    let gate = Gate::new(home.clone(), port, metrics.clone(), source(&settings)).map_err(|e| cannot(&e))?;
    let gate = as_launched(gate, &plan, &launch);
    handle.tell(Input::Rules((*gate.rules()).clone()));
    let app: Shared = Arc::new(App {
        handle: handle.clone(),
        answers_directly: launch.hand.answers_directly(),
        seat: hand::seat(&launch, &dir)?,
        acp: AcpDesk::of(&launch.hand),
        gate,
        agent: OwnAgent::new(&agent, known.number()),
        near: registry::near_folders(&launch.working_dir),
        shown,
        metrics,
        history: Mutex::new(history),
        home: home.clone(),
        settings,
        stop: stop.clone(),
        restart: AtomicBool::new(false),
        body_bytes_max,
        unread: Default::default(),
        followers: Arc::default(),
        uploads: Arc::new(tokio::sync::Semaphore::new(crate::uploads::AT_ONCE)),
        attachments: Attachments::new(dir.attachments()),
        audit: audit.clone(),
        cards: Cards::new(&launch, &plan, port),
        push: Push::new(dir.webhooks()),
    });
    crate::uploads::start_sweep(&app);
    entry.pending = told_before(&app);
    write_entry(&entry, &home);
    let folders = FolderWatcher::start();
    let registered = registrar::start(&app, entry, news, &folders);
    let own_outbox = outbox::open(&launch.working_dir, &dir);
    hand::start(&app, &launch, &dir, own_outbox.as_deref(), &folders).await;
    Push::resume(&app).await;
    take_files_in(&app, &launch, spool, own_outbox, &folders);
    tokio::spawn(stop_on_signal(stop.clone()));
    let watched = watch_driver(driver, stop.clone());
    announce(port, endpoint);

    listeners.serve(doors::router(app.clone()), app.clone(), tls, stop).await;
    handle.stop();
    let ended = watched.await.unwrap_or_else(|_| Err("the driver panicked".into()));
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), registered).await;
    let _ = std::fs::remove_file(dir.socket());
    audit.close(if ended.is_ok() { "asked to stop" } else { "its driver ended" }).await;
    ended.map_err(Died::Now)?;
    if app.restart.load(Ordering::Relaxed) {
        // The agent continues, so its entry stays.
        return Ok(Ended::Restart);
    }
    let _ = registry::remove(&home, &known.id, holder);
    Ok(Ended::Stopped)
}

fn announce(port: u16, endpoint: String) {
    tokio::spawn(settle());
    tracing::info!(%endpoint, "serving");
    say(&Ready::Ready { port, endpoint });
}

/// Returns the gate with the names and the openness that the agent was started with.
fn as_launched(gate: Gate, plan: &Plan, launch: &Launch) -> Gate {
    let (hosts, public_url) = (plan.hosts.clone(), launch.listen.public_url.clone());
    gate.called(hosts, public_url).open_to_anyone(launch.listen.open)
}

/// Takes a port, stores it, and returns the registry entry of this node.
async fn take_port(
    home: &Home,
    dir: &AgentDir,
    launch: &Launch,
    known: &mut Known,
    plan: &Plan,
) -> Result<(Listeners, Entry), Died> {
    let cannot = |e: &dyn std::fmt::Display| Died::CannotRun(e.to_string());
    let spared = ports_of_others(home, &known.id);
    let wish = PortWish { asked: launch.port, last: known.port, spared: &spared };
    let listeners = Listeners::bind(&dir.socket(), plan.address, wish).await.map_err(|e| match e {
        // It was our port before, and its current owner may release it, so the holder tries again.
        ListenError::PortTaken { port, .. } if known.port == Some(port) => Died::Now(e.to_string()),
        e => cannot(&e),
    })?;
    let port = listeners.port;
    if known.port.replace(port) != Some(port)
        && let Err(e) = known.save(home)
    {
        // On a full disk the node keeps working; after a restart it gets this port again only if it
        // is free.
        tracing::warn!(error = %e, "the port could not be written down");
    }
    let mut entry = entry(known, port, dir).map_err(|e| cannot(&e))?;
    entry.endpoint = plan.endpoint(port);
    if plan.is_open() {
        let endpoint = &entry.endpoint;
        tracing::warn!(%endpoint, "other machines can reach this, and nothing is encrypted; it was started with --insecure");
    }
    Ok((listeners, entry))
}

/// Returns the prompt that an earlier node announced; it may still be open.
fn told_before(app: &App) -> Option<PendingPrompt> {
    let (seat, entry) = (app.seat.as_ref()?, registry::read(&app.home, &app.agent.id)?);
    let before = entry.pending.filter(|_| is_restart());
    seat.set_pending(before.clone());
    before
}

/// Writes the registry entry. After a restart on a full disk, the entry of the earlier node stays.
fn write_entry(entry: &Entry, home: &Home) {
    if let Err(e) = entry.write(home) {
        tracing::warn!(error = %e, "the registry entry could not be written");
    }
}

/// Builds the registry entry of this node.
fn entry(known: &Known, port: u16, dir: &AgentDir) -> Result<Entry, registry::RegistryError> {
    let holder = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    let mut entry = Entry::starting(known, holder, port, dir.socket(), now().0)?;
    let (state, why) = Presence::first(is_restart());
    (entry.status, entry.status_why) = (state, why.to_owned());
    entry.api = synapse_dialects::level::OWN.newest;
    entry.holder_version = std::env::var(HOLDER_VERSION_VARIABLE).unwrap_or_default();
    Ok(entry)
}

/// Returns the source of the current settings.
fn source(settings: &Current) -> SettingsNow {
    let settings = settings.clone();
    Arc::new(move || settings.get())
}

fn ports_of_others(home: &Home, own: &AgentId) -> Vec<u16> {
    Known::all(home).0.into_iter().filter(|known| known.id != *own).filter_map(|known| known.port).collect()
}

/// Takes letters, outbox calls and profile changes from now on.
fn take_files_in(
    app: &Shared,
    launch: &Launch,
    spool: Spool,
    own_outbox: Option<Arc<Outbox>>,
    folders: &FolderWatcher,
) {
    let profiles = match &launch.hand {
        Hand::Terminal(inner) => {
            Some(inner.profile_folder.clone().unwrap_or_else(|| launch.working_dir.clone()))
        }
        _ => None,
    };
    if let (Some(folder), Some(seat)) = (profiles, app.seat.clone()) {
        let news = Arc::new(Notify::new());
        let (own, above) = Reload::watched(&app.home, &folder);
        own.iter().for_each(|dir| folders.notify(dir, Changes::All, &news));
        for dir in &above {
            folders.watch(dir);
        }
        let watcher = folders.clone();
        let watch = Box::new(move |dir: &std::path::Path| {
            watcher.watch(dir);
        });
        tokio::spawn(Reload { home: app.home.clone(), folder, seat, news, watch }.work());
    }
    let arrivals = |folder: &std::path::Path| {
        let news = Arc::new(Notify::new());
        folders.notify(folder, Changes::Arrivals, &news);
        folders.watch(folder).then_some(news)
    };
    let mail = arrivals(spool.arrivals());
    tokio::spawn(post::take_in(Arc::new(spool), mail, app.clone()));
    if let Some(own_outbox) = own_outbox {
        let calls = arrivals(own_outbox.spool().arrivals()).unwrap_or_default();
        tokio::spawn(outbox::take_in(own_outbox, calls, app.clone()));
    }
}

async fn stop_on_signal(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    stop.cancel();
}

/// Stops the node when its driver ends: without one it must not keep answering.
fn watch_driver(
    driver: std::thread::JoinHandle<Result<(), synapse_core::cycle::Lost>>,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<Result<(), String>> {
    tokio::task::spawn_blocking(move || {
        let ended = driver.join();
        stop.cancel();
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(lost)) => Err(lost.to_string()),
            Err(_) => Err("the driver panicked".into()),
        }
    })
}
