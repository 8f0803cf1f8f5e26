//! `synapse inbox`: the mail of an agent, or of the person.

use super::Calling;
use super::pending::Pending;
use super::there::There;
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use synapse_core::header::header;
use synapse_core::ids::AgentId;
use synapse_dialects::api::{InboxPage, MessageView, SenderView};
use synapse_dialects::jsonl::FromProgram;
use synapse_node::post::SpoolLetter;
use synapse_node::seal::To;
use synapse_peer::Client;
use synapse_store::spool::{Found, Spool, SpoolId};

#[derive(Args)]
pub(super) struct Inbox {
    /// Agent [default: this agent, or you]
    agent: Option<String>,
    /// Keep the messages unread
    #[arg(long)]
    peek: bool,
    /// Show pending approvals instead of messages
    #[arg(long, conflicts_with_all = ["agent", "peek"])]
    approvals: bool,
    /// Show at most this many
    #[arg(short = 'n', long, alias = "max", value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Messages up to this priority are notes.
pub(super) const NOTE_MAX: u8 = 2;

pub(super) async fn inbox(args: Inbox, calling: &Calling, json: bool) -> Done {
    if args.approvals {
        return super::approve::list(json).await;
    }
    if let Some(there) = There::named(args.agent.as_deref().unwrap_or_default(), calling)? {
        let path = format!("/api/v1/inbox?max={}", args.limit);
        let page = there.ask(async |client| client.get(&path).await).await?;
        tell_page(&SenderView::shown, &page, &there.to_string(), json);
        return Ok(());
    }
    let roll = Roll::call()?;
    let own = match &args.agent {
        Some(_) => roll.own_agent(),
        None => roll.own_agent_for("tell whose mail to show")?,
    };
    let agent = match &args.agent {
        Some(raw) => Some(roll.find_one(raw)?.id),
        None => own,
    };
    // Agents cannot decide; for a program `--approvals` has all of it.
    if own.is_none() && !json {
        tell_pending(&roll, agent.as_ref());
    }
    match agent {
        Some(id) => {
            // Reading is seeing, for the agent itself; a person looks over its shoulder.
            let take = own == Some(id) && !args.peek;
            of_agent(&roll, id, take, args.limit, json).await
        }
        None => of_person(&roll, args.peek, args.limit, json),
    }
}

/// What agents wait for the person to decide; of all, or of one.
fn tell_pending(roll: &Roll, of: Option<&AgentId>) {
    for entry in roll.scan.agents.iter().filter(|entry| of.is_none_or(|id| entry.agent_id == *id)) {
        let label = roll.label(&entry.agent_id);
        if let Some(pending) = Pending::of_entry(&label, entry) {
            show::out(&pending.hint(&label));
        }
    }
}

async fn of_agent(roll: &Roll, id: AgentId, take: bool, max: usize, json: bool) -> Done {
    let label = roll.label(&id);
    if !roll.scan.agents.iter().any(|entry| entry.agent_id == id) {
        let spool = Spool::open(&roll.home.agent(&id).spool())?;
        let waiting = spool.waiting()?;
        if json {
            show::json(&json!({ "agent_id": id, "running": false, "spooled": waiting, "messages": [] }));
        } else {
            show::out(&format!(
                "{label} is not running; new messages waiting for it: {waiting}. Start it to see all"
            ));
        }
        return Ok(());
    }
    let mut client = roll.connect(&id).await?;
    let page: InboxPage = client.get(&format!("/api/v1/inbox?max={max}")).await?;
    if take {
        return read_notes(roll, &mut client, &page, json).await;
    }
    tell_page(&|from| roll.sender(from), &page, &label, json);
    Ok(())
}

fn tell_page(sender: &dyn Fn(&SenderView) -> String, page: &InboxPage, label: &str, json: bool) {
    if json {
        show::json(page);
        return;
    }
    if page.messages.is_empty() {
        let leased =
            if page.leased > 0 { format!(" ({} being handed over)", page.leased) } else { String::new() };
        show::out(&format!("no mail waits for {label}{leased}"));
        return;
    }
    let rows: Vec<Vec<String>> = page
        .messages
        .iter()
        .map(|m| {
            let text = m.text.as_deref().unwrap_or_default();
            let held =
                m.held.as_deref().map_or_else(String::new, |why| format!("  ({})", show::cell(why, 60)));
            vec![
                show::line(m.task_id.get(..8).unwrap_or("?"), 8),
                show::cell(&sender(&m.from), 32),
                // On the scale on which people send.
                m.priority.div_ceil(2).to_string(),
                format!("{}{held}", show::cell(text, 80)),
            ]
        })
        .collect();
    show::out(&show::table(&["TASK", "FROM", "PRIO", "MESSAGE"], &rows));
}

/// Those that wait until the agent looks for them. What is not a note comes to it by itself, in its turn.
pub(super) fn notes_of(page: &InboxPage) -> Vec<&MessageView> {
    page.messages.iter().filter(|m| m.priority <= NOTE_MAX).collect()
}

pub(super) async fn report_seen(client: &mut Client, note: &MessageView) -> Done {
    let seen = FromProgram::Seen { message_id: Some(note.message_id.clone()) };
    client.post::<serde_json::Value>("/api/v1/inbox/report", &seen).await?;
    Ok(())
}

/// The agent reads its notes: each is shown whole, and only then reported as seen.
async fn read_notes(roll: &Roll, client: &mut Client, page: &InboxPage, json: bool) -> Done {
    let notes = notes_of(page);
    for note in &notes {
        if json {
            show::json(note);
        } else {
            let text = show::safe(note.text.as_deref().unwrap_or_default());
            let task = note.task_id.get(..8).unwrap_or(&note.task_id);
            show::out(&format!("{} {text}", header(task, &roll.sender(&note.from))));
        }
        report_seen(client, note).await?;
    }
    match (notes.is_empty(), json, page.waiting) {
        (false, ..) => {}
        (true, true, _) => show::json_none(),
        (true, false, 0) => show::out("inbox empty"),
        (true, false, n) => show::out(&format!("inbox empty; waiting to be delivered: {n}")),
    }
    Ok(())
}

/// A letter to the person.
pub(super) struct ToPerson {
    pub from: SenderView,
    /// The task that it answers, or nothing.
    pub reply_to: String,
    pub text: String,
    name: SpoolId,
}

/// What has come for the person; it stays until it is told that it was read.
pub(super) fn person_letters(roll: &Roll, max: usize) -> Result<(Spool, Vec<ToPerson>), Fail> {
    let spool = Spool::open(&roll.home.user_spool())?;
    let mut letters = Vec::new();
    for found in spool.take()?.into_iter().take(max) {
        let Found::Letter { name, bytes } = found else { continue };
        let Ok(letter) = serde_json::from_slice::<SpoolLetter>(&bytes) else {
            spool.set_aside(&name, "it is not a letter")?;
            continue;
        };
        let message = letter.request.message.clone();
        let parts = synapse_dialects::message::parts("message", message).unwrap_or_default();
        let text = synapse_core::message::Content { parts, ..Default::default() }.as_text();
        let mut from = SenderView::from(&letter.from);
        from.proof = if letter.is_sealed(&roll.home, To::User) { "token" } else { "spool" }.into();
        let reply_to =
            letter.request.metadata.get("reply_to").and_then(|t| t.as_str()).unwrap_or("").to_owned();
        letters.push(ToPerson { from, reply_to, text, name });
    }
    Ok((spool, letters))
}

/// Only what was shown is gone.
pub(super) fn were_read(spool: &Spool, letters: &[ToPerson]) -> Done {
    for letter in letters {
        spool.done(&letter.name)?;
    }
    Ok(())
}

fn of_person(roll: &Roll, peek: bool, max: usize, json: bool) -> Done {
    let (spool, letters) = person_letters(roll, max)?;
    let row = |letter: &ToPerson| {
        vec![
            letter.reply_to.get(..8).unwrap_or("").to_owned(),
            show::cell(&roll.sender(&letter.from), 32),
            show::cell(&letter.text, 100),
        ]
    };
    match (json, letters.is_empty()) {
        (true, true) => show::json_none(),
        (true, false) => {
            for ToPerson { from, reply_to, text, .. } in &letters {
                show::json(&json!({ "from": from, "reply_to": reply_to, "text": text }));
            }
        }
        (false, true) => show::out("inbox empty; `synapse inbox <AGENT>` shows the messages of an agent"),
        (false, false) => {
            let rows: Vec<_> = letters.iter().map(row).collect();
            show::out(&show::table(&["TASK", "FROM", "MESSAGE"], &rows));
        }
    }
    if peek { Ok(()) } else { were_read(&spool, &letters) }
}
