//! Searches a history of a million messages in three languages, with the real command.
//!
//! The journal is written through the store, one message and its ending at a time, without a node,
//! since only searching is measured. The first search also fills the index, and that time is
//! reported beside it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use synapse_core::cycle::Journal as _;
use synapse_core::ids::{AgentId, AgentType, Label, MessageId, Seq, TaskId, Timestamp};
use synapse_core::message::{Body, Chain, Content, Expects, Letter, Priority, Proof, Sender};
use synapse_core::receipt::{Happened, Step, Trail};
use synapse_core::record::{Archive, Entry, Opens, Record};
use synapse_core::task::{Ending, Move, Task, TaskState};
use synapse_store::known::Known;
use synapse_store::{Journal, Retention};

use super::Bench;
use super::commands::median_of;
use super::report::Row;

const SEARCH_MS_MAX: f64 = 50.0;
const RUNS: usize = 15;
const BATCH: u64 = 5_000;
const RARE: &str = "xylophone";
/// One message in this many contains the rare word.
const RARE_EVERY: u64 = 100_000;
/// One task in this many has an answer. The others are one-way.
const ANSWER_EVERY: u64 = 8;

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let messages = bench.pick(1_000_000, 50_000);
    let agent = AgentId::from_bytes([0x5e; 32]);
    let dir = bench.stage.home().agent(&agent);
    known(agent).save(bench.stage.home())?;
    let began = Instant::now();
    fill(&dir.journal(), agent, messages)?;
    eprintln!("the journal of {messages} messages took {:.0} s to write", began.elapsed().as_secs_f64());
    let search = |text: &str| bench.stage.command(&["history", "search", text]);
    let first = median_of(1, || search(RARE))?;
    let size = |path: &Path| fs::metadata(path).map_or(0.0, |file| file.len() as f64 / 1e6);
    let mut rows = vec![
        Row::told(format!("indexing {messages} messages, the first search"), first.cpu_ms / 1e3, "s CPU")
            .beside("wall", first.wall_ms / 1e3, "s")
            .beside("journal", size(&dir.journal()), "MB")
            .beside("index", size(&dir.search_index()), "MB"),
    ];
    for (name, text) in [
        ("a rare word", RARE),
        ("a word that is everywhere", "message"),
        ("two words", "please xylophone"),
        ("a Japanese word", "会議室"),
        ("a Japanese word of two characters", "会議"),
        ("a Chinese word", "数据库"),
        ("a word that is nowhere", "qqqzzz"),
    ] {
        let cost = median_of(bench.pick(RUNS, 3), || search(text))?;
        let name = format!("`synapse history search`, {name}");
        rows.push(Row::at_most(name, cost.cpu_ms, "ms CPU", SEARCH_MS_MAX).beside(
            "wall",
            cost.wall_ms,
            "ms",
        ));
    }
    Ok(rows)
}

fn known(id: AgentId) -> Known {
    Known {
        id,
        kind: AgentType::parse("archive").expect("a plain word is a type"),
        name: Label::parse("archive").ok(),
        former_names: Vec::new(),
        suffix: None,
        assigned_number: None,
        role: None,
        capabilities: Vec::new(),
        working_dir: "/".into(),
        hostname: "bench".into(),
        port: None,
        first_seen_ms: 0,
        last_started_ms: 0,
        started_by: None,
    }
}

fn fill(path: &Path, agent: AgentId, messages: u64) -> anyhow::Result<()> {
    let (mut journal, _) = Journal::open(path, Retention::default())?;
    let mut dice = 7;
    let mut batch = Vec::new();
    for n in 0..messages {
        let [message, ending] = one(n, agent, &mut dice);
        batch.push(Arc::new(message));
        batch.push(Arc::new(ending));
        if batch.len() as u64 >= BATCH || n + 1 == messages {
            journal.commit(&batch).context("a batch")?;
            batch.clear();
        }
    }
    // Searching does not use the raw records.
    drop(journal);
    let db = rusqlite::Connection::open(path)?;
    db.execute_batch("DELETE FROM journal; PRAGMA wal_checkpoint(TRUNCATE);")?;
    Ok(())
}

/// A message and the end of its task, a second after the previous one.
fn one(n: u64, agent: AgentId, dice: &mut u64) -> [Entry; 2] {
    const FIRST_MS: u64 = 1_790_000_000_000;
    let at = Timestamp(FIRST_MS + n * 1_000);
    let body = Body::of(&Content::text(text(n, dice)));
    let id =
        MessageId::parse(&format!("0199{n:08x}-0000-7000-8000-{:012x}", roll(dice) >> 16)).expect("a UUID");
    let mut task_id = [0; 16];
    task_id[..8].copy_from_slice(&roll(dice).to_be_bytes());
    task_id[8..].copy_from_slice(&roll(dice).to_be_bytes());
    let (task, from) = (TaskId::from_bytes(task_id), Sender::user(Proof::Socket));
    let letter = Letter {
        id: id.clone(),
        sender_id: id.clone(),
        from: from.clone(),
        to: agent,
        task,
        priority: Priority::NORMAL,
        expects: Expects::Receipt,
        chain: Chain { correlation: id.clone(), parent: None, hops: 0 },
        digest: body.digest(),
        bytes: body.bytes() as u64,
        accepted_at: at,
        follow_up: false,
        context: None,
        tenant: None,
    };
    let opens = Some(Box::new(Opens { caller_id: None, context: None, timeout_ms: None }));
    let accepted = Record::Accepted { letter: Arc::new(letter), body, opens };
    let answer = n.is_multiple_of(ANSWER_EVERY).then(|| Body::of(&Content::text(text(n + 1, dice))));
    let ending = Ending {
        state: TaskState::Completed,
        by: "archive".into(),
        why: "seen".into(),
        answer,
        direct: false,
    };
    let done = Move { at, to: TaskState::Completed, by: "archive".into(), why: "seen".into() };
    let mut trail = Trail::accepted(at);
    trail.add(at, Happened::Step(Step::Seen));
    let task = Task {
        id: task,
        caller_id: None,
        context: None,
        tenant: None,
        asks: None,
        agent,
        requester: from,
        expects: Expects::Receipt,
        state: TaskState::Completed,
        messages: vec![id.clone()],
        history: vec![done],
        timeout_ms: None,
        deadline: None,
        cancel: None,
        said_bytes: 0,
        questions: Vec::new(),
        artifacts: Default::default(),
    };
    let archive = Box::new(Archive { trails: vec![(id, trail)], dead_letter: false, task });
    let ended = Record::Ended { task: archive.task.id, ending, archive };
    let entry = |seq, record| Entry { seq: Seq(seq), at, record };
    [entry(2 * n + 1, accepted), entry(2 * n + 2, ended)]
}

const ENGLISH: &str = "please look at this message and review the change in module before we merge it because \
    test failed on server with error code while agent was waiting for answer from build queue about \
    database migration index timeout connection retry branch commit deploy release note customer ticket";
const JAPANESE: &str = "会議室 の 予約 を 確認 して ください 。 明日 まで に 資料 が 必要 です サーバー エラー 修正 \
    しました テスト 結果 報告 東京 開発 会議 は";
const CHINESE: &str = "请 检查 数据库 连接 错误 并且 修改 代码 ， 测试 已经 完成 服务器 正在 等待 消息 。 我们 需要 \
    部署 版本 上海 问题 回复 任务 索引";

/// A text of 20 to 48 words: English, Japanese and Chinese in turn.
fn text(n: u64, dice: &mut u64) -> String {
    let (words, gap, count) = match n % 3 {
        0 => (ENGLISH, " ", 20),
        1 => (JAPANESE, "", 24),
        _ => (CHINESE, "", 24),
    };
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut text = format!("#{n}{gap}");
    for _ in 0..count + roll(dice) % count {
        text.push_str(words[usize::try_from(roll(dice) % words.len() as u64).unwrap_or(0)]);
        text.push_str(gap);
    }
    if n.is_multiple_of(RARE_EVERY) {
        text.push_str(" please ");
        text.push_str(RARE);
    }
    text
}

/// splitmix64.
fn roll(dice: &mut u64) -> u64 {
    *dice = dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *dice;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
