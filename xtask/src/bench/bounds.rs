//! What hostile neighbours cost a node: followers that do not read (finding M8), and a viewer that
//! resizes without pause (finding M9).
//!
//! The result is the increase of the node's peak memory (`VmHWM`), and beside it the response time
//! of `/status` meanwhile.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use synapse_holder::terminal::wire::{Ask, Role};
use synapse_store::registry::Entry;

use super::client::{Door, get};
use super::report::Row;
use super::{Bench, proc};

const TASKS: usize = 60;
const FOLLOWERS: usize = 20;
const MANY_FOLLOWERS: usize = 200;
const BODY_BYTES: usize = 1_000_000;
/// For one follower: two queues of 256 KB, and two events of 1 MB.
const FOLLOWER_MB_MAX: f64 = 3.0;
const RESIZES_MB_MAX: f64 = 250.0;
const PAGES: usize = 30;
const PAGES_MB_MAX: f64 = 250.0;

/// Tasks of 1 MB each, and followers that subscribe to everything and read nothing.
pub(super) fn followers(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let tasks = bench.pick(TASKS, 10);
    let entry = bench.stage.echo("followed")?;
    let before = proc::peak_mb(entry.node_pid)?;
    let mut silent = follow(&entry, FOLLOWERS / 2)?;
    for _ in 0..tasks {
        send(&entry.socket)?;
    }
    silent.extend(follow(&entry, FOLLOWERS / 2)?);
    let few = settled(&entry)? - before;
    silent.extend(follow(&entry, MANY_FOLLOWERS - FOLLOWERS)?);
    let many = settled(&entry)? - before;
    drop(silent);
    let status = status_ms(&entry)?;
    bench.stage.stop("followed")?;
    let each = |mb: f64, count: usize| mb / count as f64;
    Ok(vec![
        Row::at_most(
            format!("{FOLLOWERS} followers that do not read, {tasks} tasks of 1 MB: each"),
            each(few, FOLLOWERS),
            "MB",
            FOLLOWER_MB_MAX,
        )
        .beside("all of them", few, "MB"),
        Row::at_most(
            format!("{MANY_FOLLOWERS} followers that do not read: each"),
            each(many, MANY_FOLLOWERS),
            "MB",
            FOLLOWER_MB_MAX,
        )
        .beside("all of them", many, "MB")
        .beside("/status after it", status, "ms"),
    ])
}

/// Opens connections that subscribe to all events from the first one.
fn follow(entry: &Entry, count: usize) -> anyhow::Result<Vec<UnixStream>> {
    ask_and_wait(entry, "/api/v1/events?after=0", count)
}

/// Waiting messages of 1 MB, and callers that request as many as allowed and read nothing.
pub(super) fn pages(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let entry = bench.stage.sink("paged")?;
    for _ in 0..bench.pick(TASKS, 10) {
        send(&entry.socket)?;
    }
    let before = settled(&entry)?;
    let silent = ask_and_wait(&entry, "/api/v1/inbox?max=500", PAGES)?;
    let peak = settled(&entry)? - before;
    drop(silent);
    bench.stage.stop("paged")?;
    Ok(vec![Row::at_most(
        format!("{PAGES} inbox pages that nobody reads, node's peak"),
        peak,
        "MB",
        PAGES_MB_MAX,
    )])
}

/// Opens connections that send this request and read nothing.
fn ask_and_wait(entry: &Entry, path: &str, count: usize) -> anyhow::Result<Vec<UnixStream>> {
    let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    (0..count)
        .map(|_| {
            let mut stream = connect(&entry.socket)?;
            stream.write_all(ask.as_bytes())?;
            Ok(stream)
        })
        .collect()
}

fn send(socket: &Path) -> anyhow::Result<()> {
    let body = format!("{{\"message\": \"{}\", \"response\": true}}", "x".repeat(BODY_BYTES));
    let mut stream = connect(socket)?;
    write!(
        stream,
        "POST /message HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 20"), "a message of 1 MB: {answer}");
    Ok(())
}

/// The node's peak memory, once it has stopped rising for a while.
fn settled(entry: &Entry) -> anyhow::Result<f64> {
    const STILL: Duration = Duration::from_secs(2);
    let (mut peak, mut since) = (0.0, Instant::now());
    while since.elapsed() < STILL {
        let now = proc::peak_mb(entry.node_pid)?;
        if now > peak {
            (peak, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(peak)
}

/// A leading viewer alternates between a very narrow and a very wide window, as fast as it can.
pub(super) fn resizes(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let fill =
        "i=0; while [ $i -lt 20000 ]; do echo line $i of much output; i=$((i+1)); done; exec sleep 1000";
    bench.stage.must(&["run", "--detach", "--name", "resized", "--", "sh", "-c", fill])?;
    let entry = bench.stage.wait_for("resized", |_| true)?;
    let before = settled(&entry)?;
    let socket = bench.stage.home().agent(&entry.agent_id).path().join("term.sock");
    let mut viewer = connect(&socket).context("connecting to the terminal")?;
    viewer.set_nonblocking(true)?;
    let mut frame = Vec::new();
    Ask::Hello { role: Role::Leader, columns: 80, rows: 24, level: 0 }.write(&mut frame);
    let mut sizes = Vec::new();
    for (columns, rows) in [(1, 10_000), (10_000, 100)] {
        Ask::Resize { columns, rows }.write(&mut sizes);
    }
    let began = Instant::now();
    let span = bench.pick(Duration::from_secs(20), Duration::from_secs(3));
    let (mut slowest, mut asked) = (0.0_f64, Instant::now());
    let mut unread = vec![0; 1 << 20];
    while began.elapsed() < span {
        if frame.len() < sizes.len() * 64 {
            frame.extend_from_slice(&sizes);
        }
        // Bytes that do not fit now are written later. Bytes that arrive are discarded.
        if let Ok(written) = viewer.write(&frame) {
            frame.drain(..written);
        }
        while matches!(viewer.read(&mut unread), Ok(read) if read > 0) {}
        if asked.elapsed() > Duration::from_millis(500) {
            slowest = slowest.max(status_ms(&entry)?);
            asked = Instant::now();
        }
    }
    let peak = settled(&entry)? - before;
    bench.stage.stop("resized")?;
    Ok(vec![
        Row::at_most(format!("{} s of resizes, node's peak", span.as_secs()), peak, "MB", RESIZES_MB_MAX)
            .beside("slowest /status", slowest, "ms"),
    ])
}

/// Connects to a socket whose path may be longer than the system allows.
fn connect(socket: &Path) -> anyhow::Result<UnixStream> {
    let (address, _guard) = synapse_store::home::socket_address(socket)?;
    Ok(UnixStream::connect(&address)?)
}

fn status_ms(entry: &Entry) -> anyhow::Result<f64> {
    let began = Instant::now();
    get(&Door::Tcp(entry.port), "/status")?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
