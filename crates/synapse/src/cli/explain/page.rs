//! The page that `synapse explain` prints for people.

use super::{Explained, Waits, reason};
use crate::show;
use synapse_core::settings::Limits;

/// Names the agent, task or message.
fn heading(explained: &Explained) -> String {
    match (explained.kind, &explained.task_id, &explained.message_id) {
        ("agent", ..) => match &explained.details {
            Some(details) => format!("{} ({})", explained.agent, details.kind),
            None => explained.agent.clone(),
        },
        ("task", Some(task), _) => format!("{} of {}", &task[..8.min(task.len())], explained.agent),
        (kind, Some(task), _) => {
            format!("{kind} of {}, task {}", explained.agent, &task[..8.min(task.len())])
        }
        (kind, None, Some(id)) => format!("{kind} {} for {}", show::cell(id, 64), explained.agent),
        (kind, ..) => kind.to_owned(),
    }
}

/// Returns the whole page.
pub(super) fn page(explained: &Explained, now: u64) -> String {
    const LINES_MAX: usize = 12;
    let mut lines = Vec::new();
    let mut field =
        |name: &str, text: String| lines.push(format!("{}  {text}", show::paint("2", &format!("{name:<8}"))));
    field(explained.kind, heading(explained));
    let since =
        explained.since.as_ref().map_or_else(String::new, |at| format!(", for {}", reason::ago(at, now)));
    let asks = explained.reason.pending.as_ref().filter(|_| explained.kind == "agent");
    let why = asks.map_or_else(|| show::cell(&explained.why, 80), |pending| pending.asks(80));
    field("state", format!("{} ({why}){since}", show::state(&explained.state)));
    field("because", show::paint("1", &show::cell(&explained.reason.because, 200)));
    if !explained.reason.help.is_empty() {
        field("next", show::cell(&explained.reason.help, 300));
    }
    if let (Some(port), Some(false)) = (explained.port, explained.port_open) {
        field(
            "port",
            format!(
                "{port} is closed: only the Unix socket reaches it; `synapse logs {}` may tell why",
                explained.agent
            ),
        );
    }
    if let Some(context) = &explained.context {
        let since = reason::ago(&context.since, now);
        field("shares", format!("{} (for {since})", show::cell(&context.text, 120)));
    }
    if let Some(place) = explained.place.as_ref().filter(|place| place.place != "handed") {
        let tries = format!("{} of {} tries", place.tries, Limits::default().tries_max);
        field("place", format!("{}, {tries}", place.place));
    }
    let details = explained.details.as_ref();
    for (name, text) in details.iter().flat_map(|details| details.work()) {
        field(name, text);
    }
    for (n, one) in explained.waiting.iter().take(LINES_MAX).enumerate() {
        field(if n == 0 { "ahead" } else { "" }, ahead(one, now));
    }
    let shown =
        explained.terminal.iter().flat_map(|view| super::terminal::lines(&explained.agent, view, now));
    let asked = explained.prompt.iter().flat_map(|prompt| super::terminal::asked(&explained.agent, prompt));
    for (name, text) in shown.chain(asked) {
        field(name, text);
    }
    if let Some(notified) = &explained.notified {
        field("notified", super::terminal::notified(notified, now));
    }
    let skipped = explained.timeline.len().saturating_sub(LINES_MAX);
    for (n, one) in explained.timeline.iter().skip(skipped).enumerate() {
        let why = one.why.as_ref().map_or_else(String::new, |why| format!("  {}", show::cell(why, 80)));
        field(
            if n == 0 { "history" } else { "" },
            format!("{}  +{:>7} ms  {}{why}", one.at, one.after_ms, one.what),
        );
    }
    for (name, text) in details.iter().flat_map(|details| details.places(&explained.agent_id)) {
        field(name, text);
    }
    // The rules apply to messages. An agent with nothing to do needs none of them.
    let under_way = explained.kind != "agent" || !explained.waiting.is_empty();
    for (n, rule) in explained.rules.iter().filter(|_| under_way).enumerate() {
        field(if n == 0 { "rules" } else { "" }, show::paint("2", rule));
    }
    lines.join("\n")
}

fn ahead(one: &Waits, now: u64) -> String {
    let held = one.held.as_ref().map_or_else(String::new, |why| format!(", held: {}", show::cell(why, 50)));
    format!(
        "{} from {}, priority {}, waiting {}{held}",
        &one.task_id[..8.min(one.task_id.len())],
        show::cell(&one.from, 30),
        one.send_priority,
        reason::ago(&one.since, now)
    )
}
