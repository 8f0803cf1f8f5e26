//! `synapse a2a doctor`: shows what was found at an A2A server.
//!
//! Not here: what is looked at, and what it means (`synapse-peer`'s `a2a::doctor`).

use crate::cli::elsewhere::{credentials, failed};
use crate::cli::{Calling, duration};
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use std::time::Duration;
use synapse_core::ids::Label;
use synapse_peer::Url;
use synapse_peer::a2a::HttpUrl;
use synapse_peer::a2a::doctor::{Exchange, Finding, Level, Options, Report, examine};
use synapse_store::home::Home;
use synapse_store::remotes::{Bring, Remote};

#[derive(Args)]
pub(in crate::cli) struct Doctor {
    /// URL of the server or of its card, or a remote
    url: String,
    /// Also send messages, one per case, and follow the tasks
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "hello")]
    send: Option<String>,
    /// Print the traffic, without secrets
    #[arg(long)]
    wire: bool,
    /// Time limit of the whole check
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    timeout: Duration,
}

pub(in crate::cli) async fn doctor(args: Doctor, calling: &Calling, json: bool) -> Done {
    let (raw, bring, mut allow_hosts) = target(&args.url)?;
    allow_hosts.extend(calling.allow_hosts.iter().cloned());
    let url = HttpUrl::parse(&raw).map_err(Fail::usage)?;
    let options = Options { send: args.send, within: args.timeout, allow_hosts };
    let show_wire = args.wire && !json;
    let hear = move |exchange: &Exchange| {
        if show_wire {
            tell_exchange(exchange);
        }
    };
    let with = credentials(calling, &bring);
    let report = examine(&url, &with, &options, Box::new(hear)).await.map_err(|e| failed(&e, &raw))?;
    if json {
        show::json(&view(&report, args.wire));
    } else {
        tell(&report);
    }
    match (report.count(Level::Wrong), report.ran_out) {
        (0, false) => Ok(()),
        (0, true) => {
            let why = "not everything was looked at; --timeout gives more time";
            Err(Fail::new(fail::TIMED_OUT, "timeout", why))
        }
        (1, _) => Err(Fail::new(fail::ERROR, "not_right", "one thing is wrong; what to change is above")),
        (n, _) => {
            Err(Fail::new(fail::ERROR, "not_right", format!("{n} things are wrong; what to change is above")))
        }
    }
}

/// What was typed, or what is kept of a remote.
fn target(typed: &str) -> Result<(String, Bring, Vec<String>), Fail> {
    if Url::is_meant(typed) {
        return Ok((typed.to_owned(), Bring::default(), Vec::new()));
    }
    let remote = match Label::parse(typed) {
        Ok(name) => Remote::find(&Home::from_env()?, &name)?,
        Err(_) => None,
    };
    match remote {
        Some(remote) => Ok((remote.url, remote.bring, remote.allow_hosts)),
        None => Err(Fail::usage(format!(
            "{typed:?} is neither a URL (https://HOST/PATH) nor a remote; `synapse a2a list` shows remotes"
        ))),
    }
}

/// For programs; stable.
fn view(report: &Report, with_wire: bool) -> serde_json::Value {
    let counts: serde_json::Map<_, _> =
        Level::ALL.iter().map(|level| (level.name().to_owned(), report.count(*level).into())).collect();
    let mut view = json!({
        "url": report.url,
        "card_at": report.card_at,
        "card_name": report.name,
        "ok": report.count(Level::Wrong) == 0,
        "complete": !report.ran_out,
        "counts": counts,
        "requests": report.requests,
        "took_ms": u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
        "findings": report.findings,
    });
    if with_wire {
        view["wire"] = json!(report.wire);
    }
    view
}

fn tell(report: &Report) {
    let name = report.name.as_deref().map(|name| format!("  {}", show::line(name, 80))).unwrap_or_default();
    show::out(&format!("{}{name}", show::paint("1", &show::safe(&report.url))));
    let width = report.findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut about = "";
    for finding in &report.findings {
        if finding.about != about {
            about = &finding.about;
            show::out(&format!("\n{}", show::paint("1", &show::safe(about))));
        }
        tell_finding(finding, width);
    }
    let count = |level: Level, one: &str, many: &str| {
        let n = report.count(level);
        format!("{n} {}", if n == 1 { one } else { many })
    };
    show::out(&format!(
        "\n{}, {}, {}, {}, {}; {} requests in {:.1} s",
        count(Level::Ok, "ok", "ok"),
        count(Level::Note, "note", "notes"),
        count(Level::Warning, "warning", "warnings"),
        count(Level::Wrong, "wrong", "wrong"),
        count(Level::Skipped, "skipped", "skipped"),
        report.requests,
        report.took.as_secs_f64(),
    ));
}

fn tell_finding(finding: &Finding, width: usize) {
    let colour = match finding.level {
        Level::Ok => "32",
        Level::Note => "36",
        Level::Warning => "33;1",
        Level::Wrong => "31;1",
        Level::Skipped => "2",
    };
    let level = show::paint(colour, &format!("{:<7}", finding.level.name()));
    let came = hanging(&finding.came, INDENT + width + 2);
    show::out(&format!("  {level}  {:<width$}  {came}", finding.check));
    let Some(help) = finding.help else { return };
    let expected = match finding.section {
        "" => finding.expected.to_owned(),
        section => format!("{} (A2A {section})", finding.expected),
    };
    for (name, text) in [("asked", finding.asked.as_str()), ("expected", &expected), ("change", help)] {
        let name = show::paint("2", &format!("{name:<8}"));
        show::out(&format!("{}{name}  {}", " ".repeat(INDENT), hanging(text, INDENT + 10)));
    }
}

/// Where the words of a finding begin.
const INDENT: usize = 11;

/// Broken between words where a terminal ends, and not at all in a pipe.
fn hanging(text: &str, indent: usize) -> String {
    let text = show::safe(text);
    if !show::on_terminal() {
        return text;
    }
    wrapped(&text, indent, show::columns())
}

fn wrapped(text: &str, indent: usize, columns: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && indent + show::visible(line) + 1 + show::visible(word) > columns {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// On standard error, so that the report can be read by something else.
fn tell_exchange(exchange: &Exchange) {
    let arrow = |text: &str| show::paint_err("36", text);
    eprintln!("{} {} {}", arrow("→"), exchange.verb, show::safe(&exchange.url));
    tell_half(&exchange.request_headers, &exchange.request_body);
    match exchange.status {
        Some(status) => eprintln!("{} {status} ({} ms)", arrow("←"), exchange.ms),
        None => eprintln!("{} no answer ({} ms)", arrow("←"), exchange.ms),
    }
    tell_half(&exchange.answer_headers, &exchange.answer_body);
    for odd in &exchange.odd {
        eprintln!("  {}", show::paint_err("33", &format!("odd: {odd}")));
    }
    if let Some(failure) = &exchange.failure {
        eprintln!("  {}", show::safe(failure));
    }
    eprintln!();
}

fn tell_half(headers: &[(String, String)], body: &str) {
    for (name, value) in headers {
        eprintln!("  {}", show::paint_err("2", &format!("{}: {}", show::safe(name), show::safe(value))));
    }
    for line in body.lines() {
        eprintln!("  {}", show::safe(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 2, 9), "one two\n  three");
        assert_eq!(wrapped("averylongword next", 2, 9), "averylongword\n  next");
        assert_eq!(wrapped("", 2, 9), "");
    }
}
