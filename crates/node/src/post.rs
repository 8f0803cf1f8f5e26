//! Mail between agents: writes letters to other agents into their spools, and takes letters from
//! our own spool.
//!
//! A spool is a folder of files, so sending mail does not need the receiver to be running. Letters
//! are taken at the start, and at once while running. A file is removed only after its message is
//! in the journal. Its name is the sender's message id, so taking it twice has one effect.
//!
//! Invariant: a damaged file is set aside and reported, and never stops the others.

use crate::doors::{App, Shared};
use crate::driver::now;
use crate::seal::{self, To};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command};
use synapse_core::ids::{AgentId, Label, MessageId};
use synapse_core::message::{Content, Proof, Sender, Who};
use synapse_core::policy::Caller;
use synapse_dialects::audit::{Actor, Line};
use synapse_dialects::message::{self, ChainField, MessageRequest};
use synapse_dialects::parse;
use synapse_settings::Places;
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::spool::{Found, Spool, SpoolError, SpoolId};

/// A letter in a spool: the claimed sender, and the message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpoolLetter {
    pub v: u32,
    pub from: Sender,
    pub request: MessageRequest,
    /// Proves the sender, who is otherwise only a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

impl SpoolLetter {
    pub const VERSION: u32 = 1;

    /// Whether its sender has sealed it for the owner of this spool.
    pub fn is_sealed(&self, home: &Home, to: To<'_>) -> bool {
        let seal = self.seal.as_deref();
        seal.is_some_and(|seal| seal::is_sealed(home, to, &self.from, &self.request, seal))
    }
}

/// Puts a letter into the spool of an agent, running or not. On disk when this returns. A letter
/// that the agent would refuse for its size is refused here, because its sender is told that it is
/// stored.
pub fn spool_to(
    home: &Home,
    agent: &AgentId,
    from: Sender,
    mut request: MessageRequest,
) -> Result<SpoolId, SpoolError> {
    if let Ok(asked) = message::request_to_core(request.clone()) {
        let (bytes, max) = (asked.draft.body.bytes(), body_bytes_max(home));
        if bytes > max {
            return Err(SpoolError::TooLarge { bytes, max });
        }
    }
    // It may wait here for weeks, so its age must not count when it is taken.
    request.timestamp = None;
    let dir = home.agent(agent);
    dir.ensure()?;
    put(&Spool::open(&dir.spool())?, seal::seal(home, To::Agent(agent), &from, &request), from, request)
}

/// Returns the longest body that an agent of this home would accept if it started now.
fn body_bytes_max(home: &Home) -> usize {
    let loaded = synapse_settings::load(&Places::here(home.root(), home.root()));
    usize::try_from(loaded.settings.limits.message_bytes_max).unwrap_or(usize::MAX)
}

/// Converts a spool error to a refusal.
pub fn refusal(error: SpoolError) -> Refusal {
    match error {
        SpoolError::TooLarge { bytes, max } => Refusal::TooLarge { bytes, max },
        other => Refusal::NotStored { why: other.to_string() },
    }
}

/// Puts a letter into the person's spool.
pub fn spool_to_user(home: &Home, from: Sender, request: MessageRequest) -> Result<SpoolId, SpoolError> {
    put(&Spool::open(&home.user_spool())?, seal::seal(home, To::User, &from, &request), from, request)
}

fn put(
    spool: &Spool,
    seal: Option<String>,
    from: Sender,
    request: MessageRequest,
) -> Result<SpoolId, SpoolError> {
    let letter = SpoolLetter { v: SpoolLetter::VERSION, from, request, seal };
    let bytes = serde_json::to_vec(&letter).expect("letters are plain data and always have a JSON form");
    spool.put(&bytes)
}

/// Sends a letter back to a sender: into an agent's spool, or the person's.
pub fn send_back(home: &Home, to: &Sender, from: Sender, request: MessageRequest) -> Result<(), Refusal> {
    let put = match &to.who {
        Who::Agent(id) => spool_to(home, id, from, request),
        Who::User | Who::Named(_) => spool_to_user(home, from, request),
    };
    put.map(drop).map_err(refusal)
}

/// Takes letters for as long as the node runs.
pub async fn take_in(spool: Arc<Spool>, news: Option<Arc<tokio::sync::Notify>>, app: Shared) {
    /// How long to wait before a letter is retried; also the polling interval if the folder is not
    /// watched.
    const PAUSE: Duration = Duration::from_secs(2);
    let is_watched = news.is_some();
    let news = news.unwrap_or_default();
    if !is_watched {
        tracing::warn!(
            "the spool cannot be watched (too many watches?); it is looked at every {PAUSE:?} instead"
        );
    }
    loop {
        let from = spool.clone();
        let mut left = 0;
        match tokio::task::spawn_blocking(move || from.take()).await {
            Ok(Ok(found)) => {
                let all = found.len();
                for one in found {
                    left += usize::from(!take_one(&spool, &app, one).await);
                }
                if left < all {
                    continue;
                }
            }
            Ok(Err(e)) => tracing::error!(error = %e, "the spool cannot be read"),
            Err(_) => return,
        }
        if left > 0 || !is_watched {
            let _ = tokio::time::timeout(PAUSE, news.notified()).await;
        } else {
            news.notified().await;
        }
    }
}

/// Takes one letter. Returns false if it stays in the spool, to be tried again.
async fn take_one(spool: &Arc<Spool>, app: &App, found: Found) -> bool {
    app.look_at_settings();
    let (name, bytes) = match found {
        Found::Letter { name, bytes } => (name, bytes),
        Found::Bad { name, why } => {
            tracing::warn!(file = %name, %why, "a file in the spool was set aside");
            app.audit.write(aside("bad_file")).await;
            return true;
        }
    };
    let put_away = match read(&name, &bytes, |letter| looked_at(app, letter)) {
        Err(refusal) => {
            app.audit.write(aside(refusal.code())).await;
            set_aside(app, spool, &name, &bytes, &refusal)
        }
        Ok((caller, command)) => match deliver(app, caller, command).await {
            Ok(()) => spool.done(&name),
            Err(refusal) if is_passing(&refusal) => {
                tracing::info!(file = %name, %refusal, "a letter in the spool could not be taken yet");
                return false;
            }
            Err(refusal) => set_aside(app, spool, &name, &bytes, &refusal),
        },
    };
    if let Err(e) = put_away {
        tracing::error!(file = %name, error = %e, "a letter could not be put away");
    }
    true
}

/// Sets a letter aside. Its sender was told that it is stored, so the sender also gets a note about
/// the outcome.
fn set_aside(
    app: &App,
    spool: &Spool,
    name: &SpoolId,
    bytes: &[u8],
    refusal: &Refusal,
) -> Result<(), SpoolError> {
    tracing::warn!(file = %name, %refusal, "a letter in the spool was set aside");
    if let Some((to, note)) = undelivered(app, name, bytes, refusal) {
        let from = Sender {
            who: Who::Agent(app.agent.id),
            label: app.agent.label(),
            by_user: false,
            proof: Proof::Own,
        };
        if let Err(e) = send_back(&app.home, &to, from, note) {
            tracing::warn!(file = %name, error = %e, "its sender could not be told");
        }
    }
    spool.set_aside(name, &refusal.to_string())
}

/// Returns the note for the sender of a refused letter, if the sender is proven.
fn undelivered(
    app: &App,
    name: &SpoolId,
    bytes: &[u8],
    refusal: &Refusal,
) -> Option<(Sender, MessageRequest)> {
    let letter: SpoolLetter = parse::json(bytes).ok()?;
    // A note about a note could go on forever.
    if letter.request.metadata.contains_key(UNDELIVERED) || !looked_at(app, &letter).is_sealed {
        return None;
    }
    let to = if letter.from.by_user { Sender::user(Proof::Own) } else { letter.from };
    let request = letter.request;
    let text =
        message::parts("message", request.message).map(|parts| Content { parts, ..Content::default() });
    let text: String = text.unwrap_or_default().as_text().chars().take(UNDELIVERED_CHARS_MAX).collect();
    let chain = request.chain.map(|chain| ChainField { hops: chain.hops.saturating_add(1), ..chain });
    let said = format!("not delivered to {}: {text:?}, because {refusal}", app.agent.label());
    let id = request.message_id.unwrap_or_else(|| name.as_str().to_owned());
    let note = MessageRequest {
        message: said.into(),
        priority: Some(1),
        metadata: [(UNDELIVERED.to_owned(), id.into())].into_iter().collect(),
        // The same id if the note is sent twice because the node died in between.
        message_id: Some(format!("{UNDELIVERED}-{name}")).filter(|id| id.len() <= MessageId::BYTES_MAX),
        chain,
        ..MessageRequest::default()
    };
    Some((to, note))
}

const UNDELIVERED: &str = "undelivered";
const UNDELIVERED_CHARS_MAX: usize = 60;

/// Delivers a letter's message to the core. Writes an audit line, unless the letter is to be tried
/// again.
async fn deliver(app: &App, caller: Caller, command: Command) -> Result<(), Refusal> {
    let mut record = app.audit.message(&Actor::of(&caller), "spool");
    if let Command::Send(draft) = &command {
        record.add(|facts| facts.draft(draft));
    }
    let heard = app.ask(caller, command).await;
    if let Ok((Answer::Accepted(taken), _)) = &heard
        && let Some(first) = taken.first()
    {
        record.add(|facts| facts.taken(first));
    }
    let refusal = heard.as_ref().err();
    if !refusal.is_some_and(is_passing)
        && let Some(line) = record.end("send", refusal)
    {
        app.audit.write(line).await;
    }
    heard.map(drop)
}

/// Returns the audit line for a file that was set aside.
fn aside(code: &'static str) -> Line {
    let mut line = Line::new(now(), &Actor::node(), "spool", "set_aside");
    line.status = Some(400);
    line.code = Some(code.into());
    line
}

/// What this node knows about the sender of a letter, besides the letter itself.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub is_sealed: bool,
    /// The label of an agent as it is known here.
    pub label: Option<String>,
    pub role: Option<Label>,
}

fn looked_at(app: &App, letter: &SpoolLetter) -> Seen {
    let is_sealed = letter.is_sealed(&app.home, To::Agent(&app.agent.id));
    let Who::Agent(id) = &letter.from.who else { return Seen { is_sealed, ..Seen::default() } };
    // A role that cannot be read may have fewer rights than no role: then the sender is not proven.
    let Ok(known) = Known::load(&app.home.agent(id)) else { return Seen::default() };
    let label = known.as_ref().map(|known| known.agent().label());
    Seen { is_sealed, label, role: known.and_then(|known| known.role) }
}

fn is_passing(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::MailboxFull { .. }
            | Refusal::Busy
            | Refusal::Stopping
            | Refusal::SystemLimit { .. }
            | Refusal::NotStored { .. }
            | Refusal::TooFast { .. }
            | Refusal::TooManyTasks { .. }
            | Refusal::TooManyFollowers { .. }
            | Refusal::AnswersUnread
    )
}

/// Parses a letter into a command. Its sender is a claim, and marked as one unless the letter is
/// sealed.
pub fn read(
    name: &SpoolId,
    bytes: &[u8],
    look: impl FnOnce(&SpoolLetter) -> Seen,
) -> Result<(Caller, Command), Refusal> {
    let letter: SpoolLetter = parse::json(bytes)?;
    if letter.v > SpoolLetter::VERSION {
        return Err(Refusal::bad_field("v", format!("version {} is newer than this program", letter.v)));
    }
    let Seen { is_sealed, label, role } = look(&letter);
    let proof = if is_sealed { Proof::Token } else { Proof::Spool };
    let mut request = letter.request;
    let label = label.unwrap_or_else(|| plain_label(&letter.from.label));
    request.message_id.get_or_insert_with(|| name.as_str().to_owned());
    request.target = None;
    let draft = message::request_to_core(request)?.draft;
    let caller = match letter.from.who {
        Who::User => Caller::User { proof },
        Who::Agent(agent) if letter.from.by_user => Caller::UserAs { agent, label, proof },
        Who::Agent(id) => Caller::Agent { id, label, role, proof },
        Who::Named(name) => Caller::Named { name, role: None, proof },
    };
    Ok((caller, Command::Send(Box::new(draft))))
}

/// Cleans a label from a file, which could contain anything; it goes into environments and onto
/// screens.
fn plain_label(raw: &str) -> String {
    const LABEL_CHARS_MAX: usize = 96;
    raw.chars().filter(|c| !c.is_control()).take(LABEL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(label: &str, message: &str) -> Vec<u8> {
        let from = serde_json::json!({ "who": "user", "label": label, "proof": "socket" });
        let request = serde_json::json!({ "message": message, "target": "somebody-else" });
        serde_json::json!({ "v": 1, "from": from, "request": request }).to_string().into_bytes()
    }

    #[test]
    fn a_letter_keeps_its_name_as_its_id_and_its_sender_is_a_claim() {
        let name = SpoolId::parse("1-2-3").unwrap();
        let (caller, command) = read(&name, &letter("user", "hi"), |_| Seen::default()).unwrap();
        assert_eq!(caller, Caller::User { proof: Proof::Spool });
        let sealed = Seen { is_sealed: true, ..Seen::default() };
        let (caller, _) = read(&name, &letter("user", "hi"), |_| sealed).unwrap();
        assert_eq!(caller, Caller::User { proof: Proof::Token });
        let Command::Send(draft) = command else { panic!("not a message") };
        assert_eq!(draft.sender_id.unwrap().as_str(), "1-2-3");
        assert_eq!(draft.to, synapse_core::routes::Target::Here, "a spool is its agent's own");
    }

    #[test]
    fn a_letter_of_a_newer_version_is_not_guessed_at() {
        let name = SpoolId::parse("1").unwrap();
        let newer = String::from_utf8(letter("user", "hi")).unwrap().replace("\"v\":1", "\"v\":2");
        let read = read(&name, newer.as_bytes(), |_| Seen::default());
        assert!(read.unwrap_err().to_string().contains("newer"));
    }

    #[test]
    fn labels_are_plain() {
        assert_eq!(plain_label("a\u{0}b\u{1b}[2Jc"), "ab[2Jc");
        assert_eq!(plain_label(&"x".repeat(500)).len(), 96);
    }

    #[test]
    fn fuzz_reading_a_letter_never_panics() {
        let name = SpoolId::parse("1").unwrap();
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = read(&name, bytes, |_| Seen::default());
        });
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let _ = read(&name, &letter(text, text), |_| Seen::default());
        });
    }
}
