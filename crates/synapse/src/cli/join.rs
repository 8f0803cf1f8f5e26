//! `synapse join`: a program becomes an agent and stays; messages on stdout, what it says on stdin.
//!
//! It outlives its node: when that is killed, the connection is made anew, and a message that the program
//! already has is not handed to it a second time.

use super::{Join, Who, run};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::launch;
use crate::show;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, Read as _};
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_dialects::jsonl::{FromProgram, LINE_BYTES_MAX, ToProgram};
use synapse_dialects::message::{MessageAccepted, MessageRequest};
use synapse_dialects::parse;
use synapse_dialects::status::StatusView;
use synapse_node::{Hand, Launch};
use synapse_peer::{CallError, Client};
use synapse_store::files::{self, Access};
use synapse_store::home::Home;
use tokio::sync::mpsc;

/// Between two tries to reach a node that is between two lives.
const PAUSE: Duration = Duration::from_millis(20);
/// More than the widest window: what was under way when a node died is still known.
const FINISHED_MAX: usize = 512;

pub(super) async fn join(args: Join) -> Done {
    let home = Home::from_env()?;
    let id = start_or_attach(&home, args.who).await?;
    let mut joined = Joined {
        home,
        id,
        window: args.window,
        history: args.history,
        in_hand: HashMap::new(),
        finished: VecDeque::new(),
        last: None,
        greeted: false,
    };
    let mut input = read_lines();
    let mut stream = None;
    loop {
        if stream.is_none() {
            stream = joined.open().await?;
        }
        let Some(lines) = &mut stream else { continue };
        tokio::select! {
            line = lines.next() => match line {
                Some(line) => joined.hand_on(&line),
                None => stream = None,
            },
            said = input.recv() => match said {
                Some(said) => joined.pass_on(&said?).await?,
                None => return joined.leave().await,
            },
        }
    }
}

async fn start_or_attach(home: &Home, who: Who) -> Result<AgentId, Fail> {
    let name = who.name.clone();
    let kind = who.kind.clone().unwrap_or_else(|| "mailbox".into());
    let wish = run::wish(Who { kind: Some(kind), ..who }, "", Hand::Mailbox)?;
    match (launch::start(home, wish), name) {
        (Ok(started), _) => Ok(started.id),
        (Err(fail), Some(name)) if fail.code == fail::REFUSED => attach(home, &name).await.ok_or(fail),
        (Err(fail), _) => Err(fail),
    }
}

/// An agent whose program went away waits for another one.
async fn attach(home: &Home, name: &str) -> Option<AgentId> {
    let id = Roll::call().ok()?.find_one(name).ok()?.id;
    let bytes = files::read_private(&home.agent(&id).launch(), 1 << 20, Access::Plain).ok()?;
    let launch: Launch = serde_json::from_slice(&bytes).ok()?;
    let status: StatusView =
        Client::connect(&home.agent(&id).socket()).await.ok()?.get("/status").await.ok()?;
    (launch.hand == Hand::Mailbox && status.state == "offline").then_some(id)
}

/// The program's lines, read by a thread of its own: reading may stop in the middle of a line, and must go on
/// there whatever happens meanwhile. Closed at the end of the input.
fn read_lines() -> mpsc::Receiver<Result<Vec<u8>, Fail>> {
    const LINES_MAX: usize = 16;
    let (lines, input) = mpsc::channel(LINES_MAX);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = (&mut stdin).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                Ok(LINE_BYTES_MAX) => {
                    Err(Fail::usage(format!("a line has more than {LINE_BYTES_MAX} bytes")))
                }
                Ok(_) => Ok(line),
                Err(e) => Err(e.into()),
            };
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    input
}

struct Joined {
    home: Home,
    id: AgentId,
    window: u16,
    history: u16,
    /// Messages the program was given and has not finished with, and whether somebody waits for its answer.
    in_hand: HashMap<String, bool>,
    /// The last it finished with: a node that took over may have sent one of them again before it heard.
    finished: VecDeque<String>,
    last: Option<String>,
    greeted: bool,
}

impl Joined {
    /// None if the node is away for the moment; an error if the agent was stopped.
    async fn open(&self) -> Result<Option<synapse_peer::LineStream>, Fail> {
        let path = format!("/api/v1/inbox/stream?window={}&history={}", self.window, self.history);
        let opened = match Client::connect(&self.home.agent(&self.id).socket()).await {
            Ok(client) => client.lines(&path, None).await,
            Err(e) => Err(e),
        };
        match opened {
            Ok(lines) => Ok(Some(lines)),
            Err(e) if e.may_work_later() => {
                if !self.is_held() {
                    return Err(Fail::new(fail::ERROR, "stopped", "this agent was stopped"));
                }
                tokio::time::sleep(PAUSE).await;
                Ok(None)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// From the node to the program, each message once. That a node was replaced is not the program's concern.
    fn hand_on(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(ToProgram::Message(view) | ToProgram::Input(view)) => {
                let again = self.in_hand.contains_key(&view.message_id);
                if again || self.finished.contains(&view.message_id) {
                    return;
                }
                self.in_hand.insert(view.message_id.clone(), view.response_expected);
                self.last = Some(view.message_id);
            }
            Ok(ToProgram::Hello { .. }) if std::mem::replace(&mut self.greeted, true) => return,
            _ => {}
        }
        show::out(line);
    }

    /// From the program to the node; told when it is on disk.
    async fn pass_on(&mut self, line: &[u8]) -> Done {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let answer = match parse::json::<FromProgram>(line) {
            Ok(said) => self.tell_node(said).await,
            Err(refusal) => Err(refusal.into()),
        };
        let shown: String = String::from_utf8_lossy(line).trim().chars().take(200).collect();
        let answer = match answer {
            Ok(()) => ToProgram::Ok { of: shown },
            Err(fail) if fail.info.code == "unreachable" => return Err(fail),
            Err(fail) => ToProgram::Error { message: fail.info.message, line: shown },
        };
        show::out(answer.line().trim_end());
        Ok(())
    }

    async fn tell_node(&mut self, mut said: FromProgram) -> Done {
        if let FromProgram::Send { to, text, priority } = said {
            let request = MessageRequest {
                target: Some(to),
                message: text.into(),
                priority,
                from: Some(self.id.to_string()),
                message_id: Some(uuid::Uuid::now_v7().to_string()),
                ..MessageRequest::default()
            };
            let sent = self.post::<MessageAccepted>("/message", &request).await;
            return sent.map(drop).map_err(Fail::from);
        }
        let about = said
            .message_id_mut()
            .map(|id| id.get_or_insert_with(|| self.last.clone().unwrap_or_default()).clone());
        let told = self.post::<serde_json::Value>("/api/v1/inbox/report", &said).await;
        let told = match told {
            // It was stored just before the node died: a message we had in hand is known to nobody else.
            Err(CallError::Refused { status: 404, .. })
                if about.as_ref().is_some_and(|id| self.in_hand.contains_key(id)) =>
            {
                Ok(())
            }
            other => other.map(drop).map_err(Fail::from),
        };
        if told.is_ok()
            && let Some(id) = about
            && (said.is_last_word() || self.in_hand.get(&id) == Some(&false))
        {
            self.in_hand.remove(&id);
            self.finished.push_back(id);
            if self.finished.len() > FINISHED_MAX {
                self.finished.pop_front();
            }
        }
        told
    }

    /// Asks until it is answered. A node that is away comes back for as long as its holder lives, however often
    /// it dies; only then is there nobody left to tell.
    async fn post<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, CallError> {
        loop {
            let asked = match Client::connect(&self.home.agent(&self.id).socket()).await {
                Ok(mut client) => client.post(path, body).await,
                Err(e) => Err(e),
            };
            match asked {
                Err(e) if e.may_work_later() && self.is_held() => tokio::time::sleep(PAUSE).await,
                answered => return answered,
            }
        }
    }

    fn is_held(&self) -> bool {
        synapse_holder::holder_of(self.home.agent(&self.id).path()).is_some_and(|mark| mark.is_alive())
    }

    /// The program has gone: so has the agent. Mail for it is kept.
    async fn leave(&self) -> Done {
        match synapse_holder::holder_of(self.home.agent(&self.id).path()) {
            Some(mark) => super::kill::stop(mark.pid, mark.start_time, "the agent").await,
            None => Ok(()),
        }
    }
}
