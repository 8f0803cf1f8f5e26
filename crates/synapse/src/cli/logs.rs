//! `synapse logs`: what the processes of an agent had to say, or with `--task` what a task has said so far.

use super::bell::Bell;
use super::duration;
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::{logfile, show};
use clap::Args;
use serde_json::json;
use std::collections::VecDeque;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;
use synapse_core::ids::{AgentId, TaskRef};
use synapse_dialects::api::TaskView;
use synapse_dialects::event::EventView;
use synapse_dialects::time;
use synapse_holder::RunDir;

#[derive(Args)]
pub(super) struct Logs {
    /// Name, type, handle or id prefix
    agent: String,
    /// Keep running and print new lines
    #[arg(short, long)]
    follow: bool,
    /// Show at most this many, the newest
    #[arg(short = 'n', long, alias = "lines", value_name = "N", default_value_t = 200)]
    limit: usize,
    /// Show lines since this time, e.g. 10m or 2026-11-15T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<u64>,
    /// Show the output of this task instead
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
}

/// As milliseconds of the epoch.
fn since(raw: &str) -> Result<u64, String> {
    if let Ok(at) = time::read("since", raw) {
        return Ok(at.0);
    }
    let back = duration(raw)?;
    let back = u64::try_from(back.as_millis()).unwrap_or(u64::MAX);
    Ok(synapse_node::driver::now().0.saturating_sub(back))
}

pub(super) async fn logs(args: Logs, json: bool) -> Done {
    let roll = Roll::call()?;
    let id = roll.find_one(&args.agent)?.id;
    if let Some(task) = &args.task {
        return of_task(&roll, &id, task, args.follow, json).await;
    }
    let path = roll.home.agent(&id).log();
    let mut text = read_tail(&logfile::old(&path), TAIL_BYTES_MAX).unwrap_or_default();
    let (now, mut place) = read_whole(&path)?;
    text.extend(now);
    let wanted = Wanted { since_ms: args.since, lines: args.limit };
    let text = String::from_utf8_lossy(&text);
    let lines = wanted.of(&text);
    if json && lines.is_empty() && !args.follow {
        show::json_none();
    }
    for line in lines {
        say(line, json);
    }
    if !args.follow {
        return Ok(());
    }
    let bell = Bell::at(roll.home.agent(&id).path());
    let mut rest = Vec::new();
    loop {
        read_on(&path, &mut place, &mut rest)?;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            say(String::from_utf8_lossy(&line).trim_end(), json);
        }
        bell.rung(Duration::from_secs(2)).await;
    }
}

/// More than there can be of one file.
const TAIL_BYTES_MAX: u64 = 2 * logfile::LOG_BYTES_MAX;

/// How far a file was read, and which one it is.
#[derive(Default)]
struct PlaceInFile {
    offset: u64,
    inode: u64,
}

fn read_tail(path: &Path, max: u64) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(max)))?;
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_whole(path: &Path) -> Result<(Vec<u8>, PlaceInFile), Fail> {
    let mut place = PlaceInFile::default();
    let mut bytes = Vec::new();
    read_on(path, &mut place, &mut bytes)?;
    Ok((bytes, place))
}

/// What was added since; from the beginning again if the file was turned over.
fn read_on(path: &Path, place: &mut PlaceInFile, into: &mut Vec<u8>) -> Done {
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    let meta = file.metadata()?;
    if meta.ino() != place.inode || meta.len() < place.offset {
        *place = PlaceInFile { offset: 0, inode: meta.ino() };
    }
    file.seek(SeekFrom::Start(place.offset))?;
    let read = file.take(TAIL_BYTES_MAX).read_to_end(into)?;
    place.offset += read as u64;
    Ok(())
}

struct Wanted {
    since_ms: Option<u64>,
    lines: usize,
}

impl Wanted {
    /// The last lines that are wanted. A line without a time belongs to the one before it.
    fn of<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut kept: VecDeque<&str> = VecDeque::new();
        let mut is_late = self.since_ms.is_none();
        for line in text.lines() {
            if let (Some(since), Some(at)) = (self.since_ms, time_of(line)) {
                is_late = at >= since;
            }
            if !is_late {
                continue;
            }
            kept.push_back(line);
            if kept.len() > self.lines {
                kept.pop_front();
            }
        }
        kept.into()
    }
}

fn time_of(line: &str) -> Option<u64> {
    time::read("at", line.split_whitespace().next()?).ok().map(|at| at.0)
}

fn say(line: &str, json: bool) {
    if json {
        show::json(&json!({ "line": line }));
    } else if show::on_terminal() {
        show::out(&show::safe(line));
    } else {
        show::out(line);
    }
}

/// What a task has said: its events, and while a plain command runs what it has printed.
async fn of_task(roll: &Roll, id: &AgentId, raw: &str, follow: bool, json: bool) -> Done {
    let name = TaskRef::parse(raw).map_err(|bad| Fail::usage(bad.to_string()))?;
    let bell = Bell::at(roll.home.registry_dir());
    let mut task: TaskView = roll.connect(id).await?.get(&format!("/api/v1/tasks/{}", name.as_str())).await?;
    let run = RunDir::open(&roll.home.agent(id).runs().join(&task.task_id)).ok();
    if let Some(run) = run.filter(|run| run.spec().mode == synapse_holder::RunMode::Plain) {
        return of_command(roll, id, &run, &task.task_id, follow, json).await;
    }
    let (mut after, path) = (Some(0), format!("/api/v1/events?task={}", task.task_id));
    loop {
        if let Ok(client) = roll.connect(id).await
            && let Ok(mut events) = client.lines(&path, after).await
        {
            while let Some(event) = next_told(&mut events, follow, is_over(&task)).await {
                after = event.id.or(after);
                let Ok(view) = serde_json::from_str::<EventView>(&event.data) else { continue };
                say_event(&view, json);
                if view.event == "ended" {
                    return Ok(());
                }
            }
        }
        if is_over(&task) {
            // Its events are gone from the journal; how it ended is kept longer.
            say_end(&task, json);
            return Ok(());
        }
        if !follow {
            return Ok(());
        }
        bell.rung(Duration::from_secs(2)).await;
        if let Ok(mut client) = roll.connect(id).await {
            task = client.get(&format!("/api/v1/tasks/{}", task.task_id)).await?;
        }
    }
}

fn is_over(task: &TaskView) -> bool {
    matches!(task.state.as_str(), "completed" | "failed" | "canceled" | "rejected")
}

/// The next event. What is there already comes at once, so without following a short silence is the end of it; the
/// end of a task that is over is waited for a little longer.
async fn next_told(
    events: &mut synapse_peer::LineStream,
    follow: bool,
    over: bool,
) -> Option<synapse_peer::SentEvent> {
    if follow && !over {
        return events.next_event().await;
    }
    let silence = if over { Duration::from_secs(3) } else { Duration::from_millis(500) };
    tokio::time::timeout(silence, events.next_event()).await.ok()?
}

fn say_end(task: &TaskView, json: bool) {
    if json {
        show::json(task);
        return;
    }
    let why = task.history.last().map_or("", |last| last.why.as_str());
    let said = task.answer.as_ref().map_or(why, |answer| answer.text.as_str());
    show::out(&format!("{}: {}", task.state, show::safe(said)));
}

fn say_event(view: &EventView, json: bool) {
    if json {
        show::json(view);
        return;
    }
    let text = |name: &str| view.data.get(name).and_then(|v| v.as_str()).unwrap_or_default();
    let inner = |name: &str| view.data.get(name).and_then(|v| v.get("text")).and_then(|t| t.as_str());
    let said = match view.event.as_str() {
        "progress" => text("text").to_owned(),
        "artifact" => format!("artifact {}", text("artifact_id")),
        "task" => format!("{}: {}", text("state"), inner("prompt").unwrap_or(text("why"))),
        "interrupt" => format!("interrupted by {}: {}", text("by"), text("why")),
        "cancel" => format!("cancel asked by {}: {}", text("by"), text("why")),
        "returned" => format!("not taken: {}", text("why")),
        "ended" => format!("{}: {}", text("state"), inner("answer").unwrap_or(text("why"))),
        _ => return,
    };
    show::out(&format!("{}  {}", show::paint("2", &view.at), show::safe(&said)));
}

async fn of_command(roll: &Roll, id: &AgentId, run: &RunDir, task: &str, follow: bool, json: bool) -> Done {
    const CHUNK: usize = 256 << 10;
    let bell = Bell::at(run.path());
    let (mut offset, mut rest) = (0, Vec::new());
    let none = |printed: u64| {
        if printed == 0 && json && !follow {
            show::json_none();
        }
    };
    loop {
        // Before the last read: what is printed after it is not missed.
        let over = match roll.connect(id).await {
            Ok(mut client) => {
                client.get::<TaskView>(&format!("/api/v1/tasks/{task}")).await.ok().filter(is_over)
            }
            Err(_) => None,
        };
        if let Some(over) = over {
            let all = over.answer.map(|answer| answer.text).unwrap_or_default();
            let left =
                all.as_bytes().get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            offset += left.len() as u64;
            rest.extend_from_slice(left);
            print_lines(&mut rest, true, json);
            none(offset);
            return Ok(());
        }
        let more = run.read_out_from(offset, CHUNK).unwrap_or_default();
        let full = more.len() == CHUNK;
        offset += more.len() as u64;
        rest.extend(more);
        print_lines(&mut rest, !follow && !full, json);
        if full {
            continue;
        }
        if !follow {
            none(offset);
            return Ok(());
        }
        bell.rung(Duration::from_secs(1)).await;
    }
}

fn print_lines(rest: &mut Vec<u8>, all: bool, json: bool) {
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = rest.drain(..=end).collect();
        say(String::from_utf8_lossy(&line).trim_end_matches('\n'), json);
    }
    if all && !rest.is_empty() {
        say(&String::from_utf8_lossy(&std::mem::take(rest)), json);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_and_those_since() {
        let text =
            "2026-11-15T09:30:00Z one\n2026-11-15T09:31:00Z two\n  more of two\n2026-11-15T09:32:00Z three\n";
        let of = |since: Option<&str>, lines| {
            let since_ms = since.map(|at| time::read("at", at).unwrap().0);
            let short = |line: &&str| line.rsplit(' ').next().unwrap().to_owned();
            Wanted { since_ms, lines }.of(text).iter().map(short).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(None, 10), "one two two three");
        assert_eq!(of(None, 2), "two three");
        assert_eq!(of(Some("2026-11-15T09:31:00Z"), 10), "two two three");
        assert_eq!(of(Some("2026-11-15T09:31:30Z"), 10), "three");
        assert_eq!(of(Some("2026-11-16T00:00:00Z"), 10), "");
    }

    #[test]
    fn a_time_or_how_long_ago() {
        assert_eq!(since("2026-11-15T09:30:00Z"), Ok(1_794_735_000_000));
        assert!(since("10m").unwrap() < synapse_node::driver::now().0);
        assert!(since("soon").is_err());
    }
}
