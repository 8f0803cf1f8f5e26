//! Starting an agent: find its identity, start a holder, hear from its node that it is ready.
//!
//! Which of several of a type in one folder it is is decided by who gets the holder's lock, so two
//! starts at the same moment get two identities.

use crate::fail::{self, Fail};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use synapse_core::ids::{AgentId, AgentType, Label};
use synapse_node::launch::{CardOptions, Extension};
use synapse_node::{Hand, Launch, Listen, Ready};
use synapse_store::files;
use synapse_store::home::Home;
use synapse_store::identity::{Identity, Origin};
use synapse_store::known::Known;
use synapse_store::spool::Spool;

/// What the user asked for.
pub struct Wish {
    pub kind: AgentType,
    pub name: Option<Label>,
    /// The number of the unnamed one that is meant; otherwise the first that does not run.
    pub number: Option<u32>,
    pub role: Option<Label>,
    pub capabilities: Vec<Label>,
    pub description: Option<String>,
    pub extensions: Vec<Extension>,
    pub card: CardOptions,
    pub working_dir: PathBuf,
    pub port: Option<u16>,
    pub listen: Listen,
    pub hand: Hand,
}

/// A running agent.
#[derive(Debug, Clone)]
pub struct Started {
    pub id: AgentId,
    /// Its name; of an unnamed agent its type and port.
    pub name: String,
    pub handle: String,
    pub port: u16,
    /// How it is called by TCP.
    pub endpoint: String,
    /// Whether it has a name of its own.
    pub is_named: bool,
    /// Messages that waited for it while it was away.
    pub resumed: bool,
    pub waiting: usize,
}

const SUFFIX_MAX: u32 = 1_000;

pub fn start(home: &Home, wish: Wish) -> Result<Started, Fail> {
    home.ensure()?;
    let hostname = hostname(home)?;
    let dir =
        wish.working_dir.to_str().ok_or_else(|| Fail::usage("the working folder's name is not UTF-8"))?;
    let origin = Origin { hostname: &hostname, folder: dir, kind: &wish.kind };
    let (known, _) = Known::all(home);
    let identities: Vec<Identity> = match (&wish.name, wish.number) {
        (Some(name), _) => vec![origin.of_name(name, &known)],
        (None, Some(number)) => origin.of_number(number, &known).into_iter().collect(),
        (None, None) => (1..SUFFIX_MAX).filter_map(|number| origin.of_number(number, &known)).collect(),
    };
    for Identity { id, suffix } in identities {
        let before = Known::load(&home.agent(&id)).ok().flatten();
        let launch = Launch {
            id,
            kind: wish.kind.clone(),
            name: wish.name.clone(),
            suffix,
            role: wish.role.clone(),
            capabilities: wish.capabilities.clone(),
            description: wish.description.clone(),
            extensions: wish.extensions.clone(),
            card: wish.card.clone(),
            working_dir: wish.working_dir.clone(),
            hostname: hostname.clone(),
            port: wish.port,
            listen: wish.listen.clone(),
            hand: wish.hand.clone(),
        };
        let waiting = waiting_in_spool(home, &id);
        match start_holder(home, &launch)? {
            Ready::Ready { port, endpoint } => {
                return Ok(Started { waiting, ..Started::of(&launch, port, endpoint, before.is_some()) });
            }
            Ready::CannotRun { why } => return Err(Fail::new(fail::ERROR, "cannot_run", why)),
            // Without a name, the next number may be free.
            Ready::OfAnother { why } if wish.name.is_some() => return Err(Fail::refused(why)),
            Ready::OfAnother { .. } => {}
            Ready::AlreadyHeld { pid } => {
                if let Some(name) = &wish.name {
                    return Err(taken(name, &before, pid));
                }
                if wish.number.is_some() {
                    return Err(started_meanwhile());
                }
            }
        }
    }
    Err(Fail::refused(format!("{SUFFIX_MAX} agents of type {} already run in this folder", wish.kind)))
}

/// Starts a stopped agent once more, as it is written down.
pub fn start_again(home: &Home, launch: Launch) -> Result<Started, Fail> {
    home.ensure()?;
    let waiting = waiting_in_spool(home, &launch.id);
    match start_holder(home, &launch)? {
        Ready::Ready { port, endpoint } => {
            Ok(Started { waiting, ..Started::of(&launch, port, endpoint, true) })
        }
        Ready::CannotRun { why } => Err(Fail::new(fail::ERROR, "cannot_run", why)),
        Ready::OfAnother { why } => Err(Fail::refused(why)),
        Ready::AlreadyHeld { .. } => Err(started_meanwhile()),
    }
}

fn started_meanwhile() -> Fail {
    Fail::new(fail::REFUSED, "already_running", "it has been started meanwhile")
}

impl Started {
    /// What it is called in this folder now.
    pub fn label(&self) -> String {
        crate::agents::label_now(&self.id)
    }

    fn of(launch: &Launch, port: u16, endpoint: String, resumed: bool) -> Self {
        let agent = launch.agent(Some(port));
        Self {
            id: launch.id,
            name: agent.label(),
            handle: agent.handle().unwrap_or_default(),
            port,
            endpoint,
            is_named: launch.name.is_some(),
            resumed,
            waiting: 0,
        }
    }
}

fn taken(name: &Label, known: &Option<Known>, pid: Option<u32>) -> Fail {
    let port = known.as_ref().and_then(|k| k.port).map_or_else(String::new, |port| format!(", port {port}"));
    let pid = pid.map_or_else(String::new, |pid| format!(" (held by process {pid}{port})"));
    Fail::refused(format!(
        "an agent named {name} already runs here{pid}; stop it with `synapse kill {name}`, or choose another --name"
    ))
}

fn waiting_in_spool(home: &Home, id: &AgentId) -> usize {
    let dir = home.agent(id).spool();
    if dir.exists() { Spool::open(&dir).and_then(|spool| spool.waiting()).unwrap_or(0) } else { 0 }
}

/// Kept as first seen: a renamed machine has the same agents.
fn hostname(home: &Home) -> Result<String, Fail> {
    let path = home.root().join("hostname");
    let current = rustix::system::uname().nodename().to_string_lossy().into_owned();
    files::create_private(&path, current.as_bytes())?;
    let bytes = files::read_private(&path, 4096, files::Access::Plain)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Starts the holder and waits for the one line that says how it went.
fn start_holder(home: &Home, launch: &Launch) -> Result<Ready, Fail> {
    let dir = home.agent(&launch.id);
    dir.ensure()?;
    crate::logfile::rotate_if_large(&dir.log());
    let log = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(dir.log())?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("__hold")
        .arg(launch.id.to_string())
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut holder = synapse_holder::cores::spawn(&mut command)?;
    if let Some(mut stdin) = holder.stdin.take() {
        stdin.write_all(&serde_json::to_vec(launch).unwrap_or_default())?;
    }
    let mut line = String::new();
    if let Some(stdout) = holder.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let ready = serde_json::from_str(&line).map_err(|_| {
        let message = format!("the agent did not start; its log tells more: {}", dir.log().display());
        Fail::new(fail::ERROR, "not_started", message)
    });
    if let Ok(Ready::CannotRun { .. }) = ready {
        see_it_end(&mut holder);
    }
    ready
}

/// A holder whose node cannot run ends by itself, a moment later. Whoever mends what was wrong and starts the agent
/// again must not find it still held.
fn see_it_end(holder: &mut Child) {
    const PATIENCE: Duration = Duration::from_secs(2);
    let began = Instant::now();
    while matches!(holder.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What a starting process tells its launcher.
pub fn say(ready: &Ready) {
    let mut out = std::io::stdout();
    let line = serde_json::to_string(ready).unwrap_or_default();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
