//! `synapse audit`: who did what, and whether the log of it still fits together (REST-9).
//!
//! Reads files; no node needs to run, and none is asked. Not here: the format (`synapse-dialects`, `synapse-store`).

use super::duration;
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use synapse_core::Timestamp;
use synapse_core::ids::AgentId;
use synapse_dialects::audit::Line;
use synapse_dialects::time;
use synapse_store::audit::{self, Head, Report, Verifier};
use synapse_store::files::{self, Access};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Audit {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    look: AuditLook,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Verify that no entry was changed, removed or moved
    Verify(AuditVerify),
}

#[derive(Args)]
struct AuditLook {
    /// Agent [default: all]
    agent: Option<String>,
    /// Show entries since this time, e.g. 10m or 2026-11-15T09:30:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Show only entries of this caller (part of its name, or id prefix)
    #[arg(long, value_name = "WHO")]
    who: Option<String>,
    /// Show only this action, e.g. send, reply, cancel, stop
    #[arg(long, value_name = "VERB")]
    verb: Option<String>,
    /// Show only refused requests
    #[arg(long)]
    refused: bool,
    /// Show at most this many, the newest
    #[arg(short = 'n', long, alias = "max", value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Keep running and print new entries
    #[arg(short, long)]
    follow: bool,
}

#[derive(Args)]
struct AuditVerify {
    /// Agent [default: all]
    #[arg(conflicts_with_all = ["all", "file"])]
    agent: Option<String>,
    /// Verify all logs of this home
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// Verify a copied file or folder
    #[arg(long, value_name = "PATH")]
    file: Option<std::path::PathBuf>,
}

pub(super) fn audit(args: Audit, json: bool) -> Done {
    match args.command {
        Some(AuditCommand::Verify(args)) => verify(&args, json),
        None => look(&args.look, json),
    }
}

/// More than any line of ours, with a body in it.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// One log, and whose it is.
struct Log {
    id: AgentId,
    label: String,
    dir: PathBuf,
}

fn logs(roll: &Roll, agent: Option<&str>) -> Result<Vec<Log>, Fail> {
    let log = |id: AgentId| Log { id, label: roll.label(&id), dir: roll.home.agent(&id).audit() };
    match agent {
        Some(raw) => Ok(vec![log(roll.find_one(raw)?.id)]),
        None => Ok(roll.candidates.iter().map(|c| log(c.id)).filter(|log| log.dir.is_dir()).collect()),
    }
}

/// Which lines are wanted.
struct Filter {
    since: Option<Timestamp>,
    who: Option<String>,
    verb: Option<String>,
    refused: bool,
}

impl Filter {
    fn takes(&self, line: &Line) -> bool {
        let who = |wanted: &String| {
            line.who.to_lowercase().contains(&wanted.to_lowercase())
                || line.agent.is_some_and(|id| id.to_string().starts_with(wanted.as_str()))
        };
        self.since.is_none_or(|since| line.at >= since)
            && self.who.as_ref().is_none_or(who)
            && self.verb.as_ref().is_none_or(|verb| line.verb == verb.as_str())
            && (!self.refused || line.is_refusal())
    }
}

fn look(args: &AuditLook, json: bool) -> Done {
    let roll = Roll::call()?;
    let logs = logs(&roll, args.agent.as_deref())?;
    let since = args.since.as_deref().map(|raw| since(raw, now())).transpose()?;
    let filter = Filter { since, who: args.who.clone(), verb: args.verb.clone(), refused: args.refused };
    let mut followers: Vec<Follower> = logs.iter().map(|log| Follower::new(&log.dir)).collect();
    // The last ones of each log, then of all together.
    let mut found: Vec<(usize, Line, Value)> = Vec::new();
    for (index, follower) in followers.iter_mut().enumerate() {
        let mut last = VecDeque::new();
        follower.read(|line, raw| {
            if filter.takes(&line) {
                last.push_back((index, line, raw));
                if last.len() > args.limit {
                    last.pop_front();
                }
            }
        })?;
        found.extend(last);
    }
    found.sort_by_key(|(_, line, _)| line.at);
    let surplus = found.len().saturating_sub(args.limit);
    found.drain(..surplus);
    let several = args.agent.is_none();
    if json && found.is_empty() && !args.follow {
        show::json_none();
        return Ok(());
    }
    tell(&found, &logs, several, json);
    if args.follow { follow(&mut followers, &filter, &logs, several, json) } else { Ok(()) }
}

/// Until it is ended from outside.
fn follow(followers: &mut [Follower], filter: &Filter, logs: &[Log], several: bool, json: bool) -> Done {
    const PAUSE: Duration = Duration::from_millis(200);
    loop {
        std::thread::sleep(PAUSE);
        let mut news = Vec::new();
        for (index, follower) in followers.iter_mut().enumerate() {
            follower.read(|line, raw| {
                if filter.takes(&line) {
                    news.push((index, line, raw));
                }
            })?;
        }
        news.sort_by_key(|(_, line, _)| line.at);
        if !news.is_empty() {
            tell(&news, logs, several, json);
        }
    }
}

/// Reads a log to its end, and on from there as it grows.
struct Follower {
    dir: PathBuf,
    file: String,
    offset: u64,
}

impl Follower {
    fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), file: String::new(), offset: 0 }
    }

    /// Gives each whole line once. What is no line is passed over: `verify` tells of it.
    fn read(&mut self, mut take: impl FnMut(Line, Value)) -> Done {
        let names = audit::files_in(&self.dir)?;
        let from = self.file.clone();
        for name in names.into_iter().filter(|name| *name >= from) {
            if name != self.file {
                self.file.clone_from(&name);
                self.offset = 0;
            }
            let path = self.dir.join(&name);
            let mut file = match std::fs::File::open(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            file.seek(SeekFrom::Start(self.offset))?;
            let mut reader = BufReader::new(file);
            let mut line = Vec::new();
            while (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
                if !line.ends_with(b"\n") {
                    break;
                }
                self.offset += line.len() as u64;
                let parsed: Option<Value> = serde_json::from_slice(&line).ok();
                if let Some(raw) = parsed
                    && let Ok(line) = serde_json::from_value::<Line>(raw.clone())
                {
                    take(line, raw);
                }
                line.clear();
            }
        }
        Ok(())
    }
}

fn tell(found: &[(usize, Line, Value)], logs: &[Log], several: bool, json: bool) {
    if json {
        for (index, _, raw) in found {
            let mut raw = raw.clone();
            raw["log"] = logs[*index].id.to_string().into();
            show::json(&raw);
        }
        return;
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(index, line, _)| {
            let mut row = vec![time::show(line.at)];
            if several {
                row.push(show::cell(&logs[*index].label, 24));
            }
            row.extend(columns(line));
            row
        })
        .collect();
    let head = ["WHEN", "LOG", "WHO", "PROOF", "DOOR", "VERB", "ABOUT", "RESULT", "MS"];
    let head: Vec<&str> = head.into_iter().filter(|name| several || *name != "LOG").collect();
    if rows.is_empty() {
        show::out("nothing was written down that fits");
    } else {
        show::out(&show::table(&head, &rows));
    }
}

fn columns(line: &Line) -> Vec<String> {
    let proof = serde_json::to_value(line.proof).ok();
    let proof = proof.and_then(|p| p.as_str().map(str::to_owned)).unwrap_or_default();
    let short = |text: String| text.chars().take(8).collect::<String>();
    let mut about: Vec<String> = Vec::new();
    about.extend(line.target.clone());
    about.extend(line.task.map(|task| format!("task {}", short(task.to_string()))));
    if line.task.is_none() {
        about.extend(line.message.as_ref().map(|id| format!("message {id}")));
    }
    if about.is_empty() {
        about.extend(line.path.clone());
    }
    about.extend(line.bytes.map(|bytes| format!("{bytes} bytes")));
    about.extend(line.note.as_ref().map(ToString::to_string));
    if line.more > 0 {
        about.push(format!("and {} more like it", line.more));
    }
    let result = match (&line.code, line.status) {
        (Some(code), Some(status)) => show::paint("31", &format!("{status} {}", show::cell(code, 30))),
        (Some(code), None) => show::paint("31", &show::cell(code, 30)),
        (_, Some(status)) => status.to_string(),
        _ => String::new(),
    };
    let ms = line.took_us.map(|us| format!("{:.1}", us as f64 / 1000.0)).unwrap_or_default();
    vec![
        show::cell(&line.who, 24),
        proof,
        show::cell(&line.door, 12),
        show::cell(&line.verb, 20),
        show::cell(&about.join(", "), 60),
        result,
        ms,
    ]
}

/// `10m` is ten minutes ago; a time is that time.
fn since(raw: &str, now: Timestamp) -> Result<Timestamp, Fail> {
    if let Ok(ago) = duration(raw) {
        let ms = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
        return Ok(Timestamp(now.0.saturating_sub(ms)));
    }
    time::read("--since", raw).map_err(|_| {
        Fail::usage(format!(
            "--since {raw:?}: use a time like 2026-11-15T09:30:00Z, or how long ago, like 10m"
        ))
    })
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn verify(args: &AuditVerify, json: bool) -> Done {
    if let Some(path) = &args.file {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        const BYTES_MAX: usize = 1 << 30;
        let report = if path.is_dir() {
            audit::verify_folder(path)?
        } else {
            let mut verifier = Verifier::new(Head::NotAsked);
            verifier.file(&name, &files::read_private(path, BYTES_MAX, Access::Any)?, true);
            verifier.finish()
        };
        return told(&[(path.display().to_string(), report)], json);
    }
    let roll = Roll::call()?;
    let logs = logs(&roll, args.agent.as_deref())?;
    if logs.is_empty() {
        return Err(Fail::new(fail::ERROR, "no_log", "there is no audit log here yet"));
    }
    let mut reports = Vec::new();
    for log in logs {
        if !log.dir.is_dir() {
            let message = format!("{} has no audit log: {} is not there", log.label, log.dir.display());
            return Err(Fail::new(fail::ERROR, "no_log", message));
        }
        reports.push((log.label, audit::verify_folder(&log.dir)?));
    }
    told(&reports, json)
}

fn told(reports: &[(String, Report)], json: bool) -> Done {
    for (label, report) in reports {
        if json {
            show::json(&view(label, report));
        } else {
            show::out(&in_words(label, report));
        }
    }
    let bad = reports.iter().filter(|(_, report)| report.problem.is_some()).count();
    if bad == 0 {
        return Ok(());
    }
    let message = format!("{bad} of {} audit logs does not fit together", reports.len());
    Err(Fail::new(fail::ERROR, "audit_broken", message))
}

fn in_words(label: &str, report: &Report) -> String {
    let label = show::cell(label, 80);
    let mut text = match &report.problem {
        Some(problem) => {
            format!("{label}: {}, line {}: {}", show::cell(&problem.file, 80), problem.line, problem.what)
        }
        None => match &report.span {
            Some((first, last)) => {
                format!(
                    "{label}: ok, {} lines, from {} to {}",
                    report.lines,
                    show::cell(first, 40),
                    show::cell(last, 40)
                )
            }
            None => format!("{label}: ok, {} lines", report.lines),
        },
    };
    for note in &report.notes {
        text.push_str(&format!("\n  {}, line {}: {}", show::cell(&note.file, 80), note.line, note.what));
    }
    if report.problem.is_none() {
        text.push_str(&format!("\n  the last is {} {}", report.end.seq, report.end.hash));
    }
    text
}

fn view(label: &str, report: &Report) -> Value {
    let problem = report.problem.as_ref().map(|problem| {
        json!({
            "file": problem.file, "line": problem.line, "what": problem.what.name(),
            "message": problem.what.to_string(),
        })
    });
    let notes: Vec<Value> =
        report.notes.iter().map(|n| json!({ "file": n.file, "line": n.line, "what": n.what })).collect();
    json!({
        "log": label,
        "ok": report.problem.is_none(),
        "lines": report.lines,
        "from": report.span.as_ref().map(|(first, _)| first),
        "to": report.span.as_ref().map(|(_, last)| last),
        "last": { "seq": report.end.seq, "hash": report.end.hash.to_string() },
        "after_head": report.after_head,
        "notes": notes,
        "problem": problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::message::Proof;
    use synapse_core::policy::Caller;
    use synapse_dialects::audit::Actor;

    #[test]
    fn filters() {
        let who = Actor::of(&Caller::User { proof: Proof::Socket });
        let well = Line::new(Timestamp(1_000), &who, "http", "send");
        let refused = Line { code: Some("busy".into()), ..well.clone() };
        let all = || Filter { since: None, who: None, verb: None, refused: false };
        let table = [
            (all(), true, true),
            (Filter { refused: true, ..all() }, false, true),
            (Filter { since: Some(Timestamp(1_000)), ..all() }, true, true),
            (Filter { since: Some(Timestamp(1_001)), ..all() }, false, false),
            (Filter { who: Some("USE".into()), ..all() }, true, true),
            (Filter { who: Some("bo".into()), ..all() }, false, false),
            (Filter { verb: Some("send".into()), ..all() }, true, true),
            (Filter { verb: Some("sen".into()), ..all() }, false, false),
        ];
        for (n, (filter, a, b)) in table.into_iter().enumerate() {
            assert_eq!((filter.takes(&well), filter.takes(&refused)), (a, b), "row {n}");
        }
    }

    #[test]
    fn times_and_times_ago() {
        let now = Timestamp(10_000_000);
        assert_eq!(since("10m", now).unwrap(), Timestamp(9_400_000));
        assert_eq!(since("1970-01-01T00:00:01Z", now).unwrap(), Timestamp(1_000));
        assert!(since("yesterday", now).is_err());
    }
}
