//! The search index beside a journal: it finds exactly what exists, even if its file is
//! damaged or removed (CLI-9).

use std::path::{Path, PathBuf};

use crate::rig::{DAY_MS, Rig, number, sql};
use synapse_core::effect::{Command, Input, Report, Serves};
use synapse_core::message::{Body, Content, Expects, Priority};
use synapse_core::task::TaskState;
use synapse_store::browse::{Past, Wanted, What};
use synapse_store::grams::Query;
use synapse_store::search::{self, Cut, Hits, Wish};
use synapse_store::{History, Retention};

fn rig(seed: u64) -> Rig {
    let retention = Retention { days: 30, ended_max: 1_000_000, events_kept: 1_000, snapshot_every: 2_000 };
    let mut rig = Rig::new(seed, retention);
    rig.open_link(0, 500, Serves::UntilEnded { hears: false });
    rig
}

fn index_of(journal: &Path) -> PathBuf {
    journal.with_file_name("search.db")
}

/// Searches as the command does, on a separate connection.
#[track_caller]
fn ask(journal: &Path, text: &str, max: usize) -> Hits {
    let history = History::look_into(journal).unwrap().unwrap();
    let wish = Wish::newest(max);
    let query = Query::parse(text).unwrap();
    search::search(&index_of(journal), &history, &query, wish, &mut |_, _| {}).unwrap()
}

fn texts(hits: &Hits) -> Vec<String> {
    hits.found.iter().filter_map(search::text_of).collect()
}

#[track_caller]
fn check(journal: &Path, text: &str, expected: &[&str]) {
    assert_eq!(texts(&ask(journal, text, 100)), expected, "{text:?}");
}

fn say(rig: &mut Rig, text: &str) {
    say_all(rig, &[text.to_owned()]);
}

/// Sends all in one batch with normal priority, since notes are not delivered.
fn say_all(rig: &mut Rig, texts: &[String]) {
    let mut batch = Vec::new();
    for text in texts {
        let mut send = rig.send(text, 0, None, Expects::Answer);
        if let Input::Asked { command: Command::Send(draft), .. } = &mut send {
            draft.priority = Priority::NORMAL;
        }
        batch.push(send);
    }
    rig.turn(batch);
}

/// Answers the message that was delivered last.
fn answer(rig: &mut Rig, state: TaskState, text: Option<&str>, why: &str) {
    let (link, letter) = rig.delivered.pop().unwrap();
    let answer = text.map(|text| Body::of(&Content::text(text)));
    let done = rig.report(link, &letter, Report::Done { state, answer, why: why.into() });
    rig.turn(vec![done]);
}

#[test]
fn words_of_every_script_are_found_in_messages_and_answers() {
    let mut rig = rig(1);
    for text in [
        "Please REVIEW the parser",
        "明日の会議は東京です",
        "请检查数据库连接",
        "価格は100%、ＧＰＵは2枚",
        "say \"hi\" OR NEAR(a b) * -x ^y: {z}",
        "a\u{0}b\u{1b}[31mred",
    ] {
        say(&mut rig, text);
    }
    say(&mut rig, "how was it");
    answer(&mut rig, TaskState::Completed, Some("数据库连接 fine, reviewed twice"), "done");
    say(&mut rig, "try again");
    answer(&mut rig, TaskState::Failed, None, "exit code 3: no such file");
    let path = rig.path.clone();
    check(&path, "review", &["数据库连接 fine, reviewed twice", "Please REVIEW the parser"]);
    check(&path, "parser review please", &["Please REVIEW the parser"]);
    check(&path, "会議", &["明日の会議は東京です"]);
    check(&path, "京", &["明日の会議は東京です"]);
    check(&path, "会議室", &[]);
    check(&path, "数据库", &["数据库连接 fine, reviewed twice", "请检查数据库连接"]);
    check(&path, "检查", &["请检查数据库连接"]);
    check(&path, "gpu １００", &["価格は100%、ＧＰＵは2枚"]);
    check(&path, "100%", &["価格は100%、ＧＰＵは2枚"]);
    check(&path, "\"hi\"", &["say \"hi\" OR NEAR(a b) * -x ^y: {z}"]);
    check(&path, "NEAR(a", &["say \"hi\" OR NEAR(a b) * -x ^y: {z}"]);
    check(&path, "^y:", &["say \"hi\" OR NEAR(a b) * -x ^y: {z}"]);
    check(&path, "%", &["価格は100%、ＧＰＵは2枚"]);
    check(&path, "_", &[]);
    check(&path, "a\u{0}b", &["a\u{0}b\u{1b}[31mred"]);
    check(&path, "no such file", &["exit code 3: no such file"]);
    check(&path, "done", &[]);
    assert_eq!(ask(&path, "re", 2).cut, Some(Cut::Enough));
    assert_eq!(texts(&ask(&path, "re", 1)), ["数据库连接 fine, reviewed twice"], "the newest first");
}

/// At any time, the index gives the same results as reading everything.
#[test]
fn the_index_says_what_reading_says() {
    let queries =
        ["word", "word 4", "世界", "界", "an answer", "order more", "no longer wanted", "nothing of it"];
    let compare = |rig: &Rig, when: &str| {
        let history = History::look_into(&rig.path).unwrap().unwrap();
        for text in queries {
            let wish = Wish::newest(10_000);
            let read = search::scan(&history, &Query::parse(text).unwrap(), wish).unwrap();
            let places = |hits: &Hits| hits.found.iter().map(|past| past.seq.0).collect::<Vec<_>>();
            assert_eq!(places(&ask(&rig.path, text, 10_000)), places(&read), "{text:?} {when}");
        }
    };
    for seed in 0..4 {
        let mut rig = rig(seed);
        for round in 0..4 {
            (0..40).for_each(|_| rig.step());
            compare(&rig, &format!("in round {round} of seed {seed}"));
        }
        let first = texts(&ask(&rig.path, "word", 10_000));
        assert!(!first.is_empty(), "a story in which nothing is said proves nothing");
        std::fs::remove_file(index_of(&rig.path)).unwrap();
        compare(&rig, &format!("after its file was removed, seed {seed}"));
    }
}

#[test]
fn what_has_left_the_journal_is_not_found_and_leaves_the_index() {
    let mut rig = rig(3);
    let rows = |rig: &Rig| number(&index_of(&rig.path), "SELECT count(*) FROM gram_docsize");
    let open = rig.send("keepsake stays open", 1, None, Expects::Answer);
    rig.turn(vec![open]);
    for n in 0..12 {
        say(&mut rig, &format!("keepsake {n}"));
        answer(&mut rig, TaskState::Completed, Some("kept for a while"), "done");
    }
    assert_eq!((ask(&rig.path, "keepsake", 100).found.len(), rows(&rig)), (13, 25));
    rig.now = rig.now.plus_ms(31 * DAY_MS);
    say(&mut rig, "keepsake of today");
    answer(&mut rig, TaskState::Completed, None, "done");
    rig.journal.take_snapshot(rig.hub.state()).unwrap();
    while rig.journal.prune(rig.now).unwrap() {}
    check(&rig.path, "keepsake", &["keepsake of today", "keepsake stays open"]);
    check(&rig.path, "kept for", &[]);
    assert_eq!(rows(&rig), 2, "the index has let go of them too");
}

#[test]
fn a_damaged_or_foreign_index_is_made_anew() {
    let mut other = rig(8);
    say(&mut other, "of another journal");
    ask(&other.path, "another", 10);
    let mut rig = rig(9);
    let needles: Vec<String> = (0..50).map(|n| format!("needle {n} in a stack of hay")).collect();
    say_all(&mut rig, &needles);
    let index = index_of(&rig.path);
    let remove_log = || drop(std::fs::remove_file(index.with_file_name("search.db-wal")));
    let damage: &[(&str, &dyn Fn())] = &[
        ("missing", &|| std::fs::remove_file(&index).unwrap()),
        ("no database", &|| std::fs::write(&index, vec![b'x'; 20_000]).unwrap()),
        ("empty", &|| std::fs::write(&index, "").unwrap()),
        ("cut", &|| {
            let bytes = std::fs::read(&index).unwrap();
            std::fs::write(&index, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("overwritten in the middle", &|| {
            let mut bytes = std::fs::read(&index).unwrap();
            let (from, to) = (4_096, bytes.len());
            bytes[from..to].fill(0x5a);
            std::fs::write(&index, bytes).unwrap();
        }),
        ("of a newer version", &|| sql(&index).pragma_update(None, "user_version", 99).unwrap()),
        ("of an older version", &|| sql(&index).pragma_update(None, "user_version", 0).unwrap()),
        ("of another journal", &|| {
            std::fs::copy(index_of(&other.path), &index).unwrap();
        }),
        ("without its tables", &|| sql(&index).execute_batch("DROP TABLE mark").unwrap()),
    ];
    for (what, spoil) in damage {
        assert_eq!(ask(&rig.path, "needle", 100).found.len(), 50, "before it is {what}");
        spoil();
        remove_log();
        assert_eq!(ask(&rig.path, "needle", 100).found.len(), 50, "{what}");
        check(&rig.path, "another", &[]);
        let mode = std::os::unix::fs::PermissionsExt::mode(&index.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "{what}");
    }
}

#[test]
fn many_search_at_once_while_it_is_made_and_none_misses_a_word() {
    let mut rig = rig(5);
    for n in 0..15 {
        let some: Vec<String> = (0..100).map(|m| format!("concurrent message {n} {m} 会議")).collect();
        say_all(&mut rig, &some);
        answer(&mut rig, TaskState::Completed, Some("会議 answer"), "done");
    }
    let path = rig.path.clone();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let path = &path;
            scope.spawn(move || {
                assert_eq!(ask(path, "concurrent", 10_000).found.len(), 1_500);
                if n == 0 {
                    // The index may be removed at any time.
                    drop(std::fs::remove_file(index_of(path)));
                }
                assert_eq!(ask(path, "会議", 10_000).found.len(), 1_515);
            });
        }
    });
}

/// A node in the middle of a commit and its files are not affected.
#[test]
fn looking_back_neither_waits_for_the_writer_nor_writes() {
    let mut rig = rig(6);
    say(&mut rig, "said before");
    let before = std::fs::read(&rig.path).unwrap();
    rig.journal.begin().unwrap();
    let began = std::time::Instant::now();
    check(&rig.path, "said before", &["said before"]);
    let history = History::look_into(&rig.path).unwrap().unwrap();
    assert_eq!(history.newest(&Wanted::default(), 10).unwrap().found.len(), 1);
    assert_eq!(history.state().unwrap().tasks.len(), 1);
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "it waited for the lock of the writer");
    rig.journal.end();
    assert!(std::fs::read(&rig.path).unwrap() == before, "the journal has changed");
    say(&mut rig, "said after");
    check(&rig.path, "said", &["said after", "said before"]);
}

#[test]
fn a_conversation_is_found_by_what_began_it() {
    let mut rig = rig(7);
    for n in 0..20 {
        say(&mut rig, &format!("message {n}"));
    }
    let history = History::look_into(&rig.path).unwrap().unwrap();
    let page = history.newest(&Wanted::default(), 5).unwrap();
    let Past { what: What::Message { letter, .. }, .. } = &page.found[3] else { panic!("{page:?}") };
    let correlation = letter.chain.correlation.as_str();
    let index = index_of(&rig.path);
    let hits = search::conversation(&index, &history, correlation, 10, &mut |_, _| {}).unwrap();
    assert_eq!(texts(&hits), ["message 16"]);
    let scanned = search::scan_conversation(&history, correlation, 10).unwrap();
    assert_eq!(texts(&scanned), ["message 16"]);
}

#[test]
fn pages_by_time_and_sender_are_those_that_were_asked_for() {
    let mut rig = rig(11);
    let mut times = Vec::new();
    for n in 0..120 {
        rig.now = rig.now.plus_ms(10 * 60_000);
        times.push(rig.now);
        say(&mut rig, &format!("tick {n}"));
    }
    let history = History::look_into(&rig.path).unwrap().unwrap();
    let newest = |since: Option<usize>, until: Option<usize>, max: usize| {
        let wanted = Wanted {
            since: since.map(|n| times[n]),
            until: until.map(|n| times[n]),
            from: Some(synapse_core::message::Who::User),
        };
        let all = Wanted { from: None, ..wanted.clone() };
        let texts = |wanted: &Wanted| -> Vec<String> {
            history.newest(wanted, max).unwrap().found.iter().filter_map(search::text_of).collect()
        };
        assert_eq!(texts(&wanted), texts(&all), "all are from the user");
        texts(&all)
    };
    assert_eq!(newest(None, None, 2), ["tick 119", "tick 118"]);
    assert_eq!(newest(Some(118), None, 50), ["tick 119", "tick 118"]);
    assert_eq!(newest(None, Some(1), 50), ["tick 1", "tick 0"]);
    assert_eq!(newest(Some(59), Some(61), 50), ["tick 61", "tick 60", "tick 59"]);
    assert_eq!(newest(None, None, 10_000).len(), 120);
    let nobody = Wanted {
        from: Some(synapse_core::message::Who::Named(synapse_core::ids::Label::parse("nobody").unwrap())),
        ..Wanted::default()
    };
    assert!(history.newest(&nobody, 10).unwrap().found.is_empty());
    for (since, until, expected) in [
        (Some(118), None, vec!["tick 119", "tick 118"]),
        (None, Some(1), vec!["tick 1", "tick 0"]),
        (Some(60), Some(60), vec!["tick 60"]),
        (Some(119), Some(119), vec!["tick 119"]),
    ] {
        let at = |n: Option<usize>| n.map(|n| times[n]);
        let wish = Wish { max: 50, since: at(since), until: at(until) };
        let query = Query::parse("tick").unwrap();
        let found = search::search(&index_of(&rig.path), &history, &query, wish, &mut |_, _| {}).unwrap();
        assert_eq!(texts(&found), expected);
        assert_eq!(texts(&search::scan(&history, &query, wish).unwrap()), expected);
    }
    let place = history.place_before(times[80]).unwrap();
    let page = history.after(place).unwrap();
    assert!(page.found.iter().any(|past| search::text_of(past).as_deref() == Some("tick 80")));
    assert!(page.found.iter().all(|past| search::text_of(past).as_deref() != Some("tick 60")), "{place:?}");
}

#[test]
fn a_row_that_cannot_be_read_is_named_and_the_rest_is_history() {
    let mut rig = rig(12);
    for n in 0..5 {
        say(&mut rig, &format!("row {n}"));
    }
    let (_dir, path, _) = rig.close();
    sql(&path)
        .execute("UPDATE message SET body = body || ' ' WHERE seq = (SELECT min(seq) + 0 FROM message)", [])
        .unwrap();
    let history = History::look_into(&path).unwrap().unwrap();
    let page = history.newest(&Wanted::default(), 10).unwrap();
    assert_eq!((page.found.len(), page.bad.len()), (4, 1), "{:?}", page.bad);
    assert!(page.bad[0].to_string().contains("checksum"), "{:?}", page.bad);
    let page = history.after(synapse_core::ids::Seq(0)).unwrap();
    assert_eq!((page.found.len(), page.bad.len()), (4, 1));
    assert_eq!(ask(&path, "row", 10).found.len(), 4);
}
