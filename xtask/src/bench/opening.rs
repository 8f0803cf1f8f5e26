//! Opening a large store: a million delivered messages in its past, ten thousand waiting.
//!
//! The real core and the real journal create the store, driven as a node drives them. It is left as
//! a crash would leave it, with nearly the maximum of records to replay after a snapshot. It is
//! kept under `target/bench` as long as the code of `core` and `store` does not change; each run
//! opens a copy.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use synapse_core::{Hub, Limits};
use synapse_store::{Journal, Retention};

use super::report::Row;
use super::{Bench, proc};
use filling::Size;

mod filling;

/// The capacity of a mailbox.
const WAITING: usize = 10_000;
/// Nearly the maximum between two snapshots of such a mailbox, at four records each.
const IN_TAIL: u64 = 9_000;
const OPEN_S_MAX: f64 = 1.0;
const OPENINGS: usize = 3;
const JOURNAL: &str = "journal.db";

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let size = Size { delivered: bench.pick(1_000_000, 100_000), waiting: WAITING, in_tail: IN_TAIL };
    let kept = kept_store(bench, size)?;
    let copy = bench.folder.join("opened");
    fresh_dir(&copy)?;
    let bytes = copy_files(&kept, &copy)?;
    let mut slowest = Opened::default();
    let mut tail = 0;
    for _ in 0..OPENINGS {
        let opened = open(&copy.join(JOURNAL))?;
        tail = opened.tail;
        slowest = Opened { tail, wall: slowest.wall.max(opened.wall), cpu: slowest.cpu.max(opened.cpu) };
    }
    let node = node_on(bench, &copy);
    fs::remove_dir_all(&copy)?;
    let node = node?;
    let name = format!("opening {} delivered + {WAITING} waiting, slowest of 3", size.delivered);
    Ok(vec![
        Row::at_most(name, slowest.wall.as_secs_f64(), "s", OPEN_S_MAX)
            .beside("CPU", slowest.cpu.as_secs_f64(), "s")
            .beside("records to replay", tail as f64, "")
            .beside("store", bytes as f64 / 1e6, "MB"),
        Row::told("`synapse join` on that store until its hello", node.large.as_secs_f64(), "s").beside(
            "on an empty one",
            node.empty.as_secs_f64(),
            "s",
        ),
    ])
}

#[derive(Default)]
struct Opened {
    wall: Duration,
    cpu: Duration,
    tail: u64,
}

fn open(journal: &Path) -> anyhow::Result<Opened> {
    let tail = tail_of(journal)?;
    let (began, before) = (Instant::now(), proc::own_cpu()?);
    let (journal, state) = Journal::open(journal, Retention::default())?;
    let hub = Hub::with_state(Limits::default(), state);
    let opened = Opened { wall: began.elapsed(), cpu: proc::own_cpu()? - before, tail };
    let waiting: usize = hub.state().mailboxes.values().map(synapse_core::mailbox::Mailbox::waiting).sum();
    anyhow::ensure!(waiting == WAITING, "{waiting} messages wait, not {WAITING}");
    drop(journal);
    Ok(opened)
}

/// The number of records after the last snapshot.
fn tail_of(journal: &Path) -> anyhow::Result<u64> {
    let db = rusqlite::Connection::open(journal)?;
    let sql =
        "SELECT (SELECT count(*) FROM message WHERE seq > s) + (SELECT count(*) FROM journal WHERE seq > s)
               FROM (SELECT coalesce(max(seq), 0) AS s FROM snapshot)";
    Ok(db.query_row(sql, [], |row| row.get(0))?)
}

/// How long a real node took until it answered its program.
struct NodeStart {
    empty: Duration,
    large: Duration,
}

fn node_on(bench: &Bench, store: &Path) -> anyhow::Result<NodeStart> {
    const NAME: &str = "heir";
    bench.stage.sink("warm")?;
    let empty = bench.stage.join_and_leave(NAME)?;
    let heir = bench.stage.wait_for(NAME, |_| true)?;
    bench.stage.stop(NAME)?;
    let own = bench.stage.journal_of(&heir);
    let folder = own.parent().context("a journal has a folder")?;
    for name in store_files(folder)? {
        fs::remove_file(folder.join(name))?;
    }
    for name in store_files(store)? {
        fs::rename(store.join(&name), folder.join(&name))?;
    }
    let large = bench.stage.join_and_leave(NAME)?;
    Ok(NodeStart { empty, large })
}

/// The store for this code and this size. Created if it does not exist.
fn kept_store(bench: &Bench, size: Size) -> anyhow::Result<PathBuf> {
    let delivered = size.delivered;
    let stores = bench.folder.join("stores");
    let mark = format!("{delivered}-{:016x}", code_hash(&bench.root)?);
    let kept = stores.join(&mark);
    if kept.join(JOURNAL).exists() {
        return Ok(kept);
    }
    // Stores of other code are never used again.
    if stores.exists() {
        for old in fs::read_dir(&stores)? {
            let old = old?;
            if old.file_name().to_string_lossy().starts_with(&format!("{delivered}-")) {
                fs::remove_dir_all(old.path())?;
            }
        }
    }
    let made = stores.join(format!("{mark}-unfinished"));
    fresh_dir(&made)?;
    let began = Instant::now();
    filling::fill(&made.join(JOURNAL), size)?;
    eprintln!("the store of {delivered} messages took {:.0} s to make", began.elapsed().as_secs_f64());
    fs::rename(&made, &kept)?;
    Ok(kept)
}

/// A hash of the code that shapes a store.
fn code_hash(root: &Path) -> anyhow::Result<u64> {
    let mut files = BTreeSet::new();
    for room in ["crates/core/src", "crates/store/src"] {
        collect(&root.join(room), &mut files)?;
    }
    let mut hash = DefaultHasher::new();
    for file in files {
        fs::read(&file).with_context(|| format!("reading {}", file.display()))?.hash(&mut hash);
    }
    filling::VERSION.hash(&mut hash);
    Ok(hash.finish())
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.insert(entry.path());
        }
    }
    Ok(())
}

fn fresh_dir(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))
}

/// The database file and the files beside it.
fn store_files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect::<anyhow::Result<_>>()?;
    Ok(names.into_iter().filter(|name| name.starts_with(JOURNAL)).collect())
}

fn copy_files(from: &Path, to: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for name in store_files(from)? {
        bytes += fs::copy(from.join(&name), to.join(&name))?;
    }
    Ok(bytes)
}
