//! PTY-11: a person types `@agent …` at a program's empty composer. It goes to that agent, and the
//! program sees none of it.

use serde_json::Value;
use std::time::{Duration, Instant};
use synapse_terminal::{Screen, Size};
use synapse_testkit::World;
use synapse_testkit::cli::Cli;
use synapse_testkit::pty::Pty;

/// The internal priorities of `-p 3` and `-p 5`.
const NORMAL: u64 = 6;
const URGENT: u64 = 10;

/// Runs a story with a program with a composer, a command agent, and a person at the program.
fn check(settings: &str, story: impl FnOnce(&World, &Cli<'_>, &mut Pty)) {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let cli = Cli::start(&world, "a", &["turn=50"]);
    world.run("shout", "tr a-z A-Z", &[]);
    std::fs::write(world.home().join("settings.json"), settings).unwrap();
    let mut person = Pty::start(&world.command(&["attach", "a"]), 100, 30);
    person.wait_for("ready");
    story(&world, &cli, &mut person);
}

/// Types an `@`, waits until it is held back, then types the rest.
fn at(person: &mut Pty, keys: &str) {
    person.keys("@");
    person.wait_for("@▏");
    person.keys(keys);
}

/// Waits until the command got that many messages. Returns them oldest first: text, priority and
/// sender.
fn sent(world: &World, count: usize) -> Vec<(String, u64, String)> {
    world.wait_for(&format!("{count} messages"), || {
        let history = world.json(&["history", "shout"]);
        let mut all: Vec<Value> = history.as_array().unwrap().clone();
        all.sort_by_key(|one| one["seq"].as_u64());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let told = |one: &Value| {
            (text(&one["text"]), one["priority"].as_u64().unwrap(), text(&one["from"]["sender_id"]))
        };
        (all.len() >= count).then(|| all.iter().map(told).collect())
    })
}

fn from_user(text: &str, level: u64) -> (String, u64, String) {
    (text.into(), level, "user".into())
}

/// The rows that the person's terminal shows after these bytes.
fn rows(bytes: &[u8]) -> Vec<String> {
    let mut screen = Screen::new(Size::new(100, 30), 0);
    screen.feed(bytes, &mut Vec::new());
    screen.rows()
}

#[test]
fn a_line_for_an_agent_goes_to_it_and_the_program_sees_nothing() {
    check("{}", |world, cli, person| {
        at(person, "SHOUT hello\r");
        person.wait_for("stored for shout, task ");
        assert_eq!(sent(world, 1), [from_user("hello", NORMAL)]);
        // Afterwards the terminal shows the program's screen again.
        person.forget();
        person.wait_until("what was covered is there again", |bytes| {
            let (rows, wanted) = (rows(bytes), world.ok(&["screen", "a"]));
            let shown = rows.join("\n");
            if shown.trim_end() == wanted.trim_end() { Ok(()) } else { Err(shown) }
        });
        person.keys("for the program\r");
        assert_eq!(cli.was_given(1), ["for the program"]);
        assert_eq!(cli.log().len(), 1, "{:?}", cli.log());
    });
}

#[test]
fn renamed_agent_is_called_by_its_new_name() {
    check("{}", |world, cli, person| {
        world.ok(&["rename", "shout", "loud"]);
        at(person, "lo\thello\r");
        person.wait_for("stored for loud, task ");
        world.wait_until("it has got it", || world.ok(&["history", "loud"]).contains("HELLO"));
        // Nobody is called by the old name.
        person.keys("@shout hello\r");
        assert_eq!(cli.was_given(1), ["@shout hello"]);
    });
}

#[test]
fn every_form_of_a_line_arrives() {
    check("{}", |world, cli, person| {
        at(person, "shout! now\r");
        let mut expected = vec![from_user("now", URGENT)];
        assert_eq!(sent(world, 1), expected);
        for (keys, text, level) in [
            ("＠SHOUT\u{3000}こんにちは\r", "こんにちは", NORMAL),
            ("＠ｓｈｏｕｔ！\u{3000}急げ\r", "急げ", URGENT),
            ("@sho\tby tab\r", "by tab", NORMAL),
            ("@shout helo\u{7f}lo\r", "hello", NORMAL),
            ("\u{1b}[200~@shout a pasted line\u{1b}[201~\r", "a pasted line", NORMAL),
            ("@shout two\u{1b}[200~\rlines\u{1b}[201~\r", "two\nlines", NORMAL),
            ("@shout dropped\u{3}@shout kept\r", "kept", NORMAL),
        ] {
            person.keys(keys);
            expected.push(from_user(text, level));
            assert_eq!(sent(world, expected.len()), expected);
        }
        assert_eq!(cli.log(), [] as [Value; 0]);
    });
}

#[test]
fn what_names_nobody_is_the_programs() {
    check("{}", |world, cli, person| {
        at(person, "src/x and more\r");
        assert_eq!(cli.was_given(1), ["@src/x and more"]);
        // A program's own name is not taken as a target.
        world.wait_until("it is idle", || world.ok(&["list"]).contains("idle"));
        person.keys("@a hello\r");
        assert_eq!(cli.was_given(2)[1], "@a hello");
    });
}

#[test]
fn escape_gives_it_to_the_program() {
    check("{}", |_, cli, person| {
        at(person, "shout hello");
        person.wait_for("@shout hello▏");
        person.keys("\u{1b}");
        person.wait_for("> @shout hello");
        person.keys("\r");
        assert_eq!(cli.was_given(1), ["@shout hello"]);
        assert!(cli.all("interrupted").is_empty());
    });
}

#[test]
fn behind_a_draft_an_at_is_text() {
    check("{}", |_, cli, person| {
        person.keys("mail ");
        person.wait_for("> mail");
        person.keys("@shout hello\r");
        assert_eq!(cli.was_given(1), ["mail @shout hello"]);
    });
}

#[test]
fn nothing_of_it_answers_a_prompt() {
    check("{}", |world, cli, person| {
        at(person, "shout yes");
        person.wait_for("Esc: give it to the program");
        world.send("a", "ASK me", &[]);
        person.wait_for("Esc: drop it");
        person.keys("\u{1b}");
        person.wait_for("dropped: the program asks a question");
        world.wait_until("it still waits", || world.ok(&["list"]).contains("waiting"));
        for nothing in ["approved", "denied"] {
            assert!(cli.all(nothing).is_empty(), "{:?}", cli.log());
        }
    });
}

#[test]
fn answer_is_shown_where_it_was_asked() {
    check("{}", |world, cli, person| {
        at(person, "shout hello\r");
        person.wait_for("shout: HELLO");
        assert_eq!(cli.log(), [] as [Value; 0]);
        // Afterwards the terminal shows the program's screen again.
        person.forget();
        person.wait_until("what was covered is there again", |bytes| {
            let (rows, wanted) = (rows(bytes), world.ok(&["screen", "a"]));
            let shown = rows.join("\n");
            if shown.trim_end() == wanted.trim_end() { Ok(()) } else { Err(shown) }
        });
    });
}

#[test]
fn with_oneway_only_the_storing_is_shown() {
    check(r#"{ "a2a": { "flow": "oneway" } }"#, |world, _, person| {
        at(person, "shout hello\r");
        person.wait_for("stored for shout, task ");
        world.wait_until("it is done", || world.ok(&["history", "shout"]).contains("HELLO"));
        assert!(!person.text().contains("shout: HELLO"), "{}", person.text());
    });
}

#[test]
fn with_roundtrip_the_answer_is_shown() {
    check(r#"{ "a2a": { "flow": "roundtrip" } }"#, |_, cli, person| {
        at(person, "shout hello\r");
        person.wait_for("shout: HELLO");
        assert_eq!(cli.log(), [] as [Value; 0]);
    });
}

#[test]
fn it_can_be_turned_off() {
    check(r#"{ "terminal": { "at": false } }"#, |_, cli, person| {
        person.keys("@shout hello\r");
        assert_eq!(cli.was_given(1), ["@shout hello"]);
    });
}

#[test]
fn several_of_a_type_are_told_apart() {
    check("{}", |world, cli, person| {
        for name in ["one", "two"] {
            world.run(name, "cat", &["--type", "twin"]);
        }
        at(person, "twin hello\r");
        person.wait_for("not sent: \"twin\" could mean ");
        // The line is open for editing again.
        person.keys("\u{17}\u{17}@one hello\r");
        person.wait_for("one: hello");
        assert_eq!(cli.log(), [] as [Value; 0]);
    });
}

#[test]
fn a_person_who_keeps_mail_waiting_is_told_and_can_let_it_come() {
    check("{}", |world, cli, person| {
        person.keys("x");
        person.wait_for("> x");
        world.send("a", "for the draft", &[]);
        person.wait_for("1 waiting: you have a draft in the composer");
        // A draft stays in the composer, whatever is pressed.
        person.keys("\u{1c}m\u{7f}");
        assert!(cli.was_given(1)[0].contains("for the draft"));
        let mut count = 1;
        world.wait_until("one comes before the pause after a key is over", || {
            let idle = world.ok(&["list"]).contains("idle");
            let began = Instant::now();
            person.forget();
            person.keys("x\u{7f}");
            world.send("a", "let me in", &[]);
            // If this took too long, the message was delivered by itself.
            let told = world.wait_for("a notice, or it has come", || match person.text() {
                shown if shown.contains("1 waiting: you are typing. Ctrl-\\ m delivers it now") => Some(true),
                _ => (cli.given().len() > count).then_some(false),
            });
            if told {
                person.keys("\u{1c}m");
            }
            count += 1;
            cli.was_given(count);
            idle && told && began.elapsed() < Duration::from_millis(1900)
        });
        assert!(cli.given().iter().all(|given| given.starts_with("[A2A:")), "{:?}", cli.log());
    });
}

#[test]
fn notices_of_mail_can_be_turned_off() {
    check(r#"{ "terminal": { "notices": false } }"#, |world, cli, person| {
        person.keys("x");
        person.wait_for("> x");
        world.send("a", "hello", &[]);
        world.wait_until("it waits", || {
            world.ok(&["list", "--json"]).contains("1 waiting: its person has a draft")
        });
        person.keys("\u{7f}");
        cli.was_given(1);
        assert!(!person.text().contains("1 waiting"), "{}", person.text());
    });
}
