//! Programs whose profile has no composer: messages are typed only if the user allows it, only
//! while the program is quiet and shows what is typed, and never into a shell or a password prompt.

use crate::world;
use synapse_testkit::World;
use synapse_testkit::pty::Pty;
use synapse_testkit::world::python;

/// Asks for lines and records each in the file `given`. Its first argument says how it behaves.
const REPL: &str = r#"
import getpass, json, os, sys, time
how = sys.argv[1]
def log(text):
    with open("given", "a") as file:
        file.write(json.dumps(text) + "\n")
if how == "chatty":
    for n in range(40):
        print("working", n, flush=True); time.sleep(0.1)
    log("quiet now")
if how == "secret":
    log(getpass.getpass("Password: "))
if how == "mute":
    log(getpass.getpass("say> "))
if how == "choice":
    print("Delete it?\n> 1. Yes\n  2. No\n\nEnter to select, Esc to cancel")
while True:
    line = input("ready> ")
    log(line)
    print("answer to a line of", len(line))
"#;

struct Repl<'a>(&'a World);

impl<'a> Repl<'a> {
    fn start(world: &'a World, how: &str, more: &[&str]) -> Self {
        world.write("repl.py", REPL);
        world.write("given", "");
        let mut words = vec!["run", "-d", "--name", "repl"];
        words.extend(more);
        words.extend(["--", python(), "repl.py", how]);
        world.ok(&words);
        Self(world)
    }

    fn given(&self) -> Vec<String> {
        self.0.lines("given").iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn wait_for(&self, count: usize) -> Vec<String> {
        self.0.wait_until(&format!("{count} lines given"), || self.given().len() >= count);
        self.given()
    }

    /// Waits until `explain` gives this reason why messages wait. On failure, shows the actual one.
    fn wait_until_held(&self, why: &str) {
        let told = std::cell::RefCell::new(String::new());
        let holds = || {
            let now = self.0.ok(&["explain", "repl"]);
            let is_held = now.contains(why);
            told.replace(now);
            is_held
        };
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.0.wait_until("it is held back", holds);
        }));
        assert!(waited.is_ok(), "{}\n{}", told.borrow(), self.screen());
    }

    fn screen(&self) -> String {
        self.0.ok(&["screen", "repl"])
    }
}

#[test]
fn line_is_typed_to_a_quiet_program_if_its_user_asked_for_that() {
    let world = world();
    let repl = Repl::start(&world, "chatty", &["--type-when", "quiet"]);
    world.send("repl", "hello\tyou", &[]);
    let given = repl.wait_for(2);
    assert_eq!(given[0], "quiet now", "it was not typed while the program printed");
    assert!(given[1].starts_with("[A2A:") && given[1].ends_with("] hello you "), "{given:?}");
    // A line break would be Enter.
    world.send("repl", "one\nquit()\ntwo", &[]);
    let given = repl.wait_for(3);
    assert!(given[2].contains("] this message has 3 lines; all of it is in the file "), "{given:?}");
    let answer = world.ok(&["send", "repl", "what is it?", "--response"]);
    assert!(answer.contains("answer to a line of"), "{answer}");
    assert_eq!(repl.given().len(), 4);
}

#[test]
fn sender_learns_that_nothing_is_typed_without_a_profile() {
    let world = world();
    let repl = Repl::start(&world, "plain", &[]);
    let program = std::path::Path::new(python()).file_name().unwrap().to_str().unwrap();
    let words = format!("will not be typed: no profile for {program}; `synapse profile learn -- {program}`");
    let stored = world.ok(&["send", "repl", "hello"]);
    assert!(stored.contains(&format!("it {words}")), "{stored}");
    assert_eq!(world.json(&["send", "repl", "hello again"])["why"], words);
    let task = world.json(&["inbox", "repl"])["messages"][0]["task_id"].as_str().unwrap().to_owned();
    for about in ["repl", &task[..8]] {
        let explained = world.json(&["explain", about]);
        let because = explained["because"].as_str().unwrap_or_default();
        assert!(because.contains(&words) && !because.contains("next in the mailbox"), "{explained:#}");
    }
    world.wait_until("list tells it", || world.ok(&["list"]).contains("will not be typed"));
    let late = world.synapse(&["send", "repl", "and", "--response", "--timeout", "1s"]);
    late.fails(4, &["will not be typed", "synapse profile learn"]);
    assert_eq!(repl.given(), Vec::<String>::new());
}

#[test]
fn shells_are_refused_unless_the_user_says_so() {
    let world = world();
    world
        .synapse(&["run", "-d", "--type-when", "quiet", "--", "sh"])
        .fails(5, &["would run every message as a command", "quiet-shell"]);
    std::os::unix::fs::symlink("/bin/sh", world.file("agent")).unwrap();
    let ran = world.synapse(&["run", "-d", "--type-when", "quiet", "--", "./agent"]);
    ran.fails(5, &["would run every message as a command"]);
    // A user profile that allows it does not apply to a shell either.
    let profiles = world.home().join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("sh.yaml"), "name: sh\ncommand: sh\ntype_when: quiet\n").unwrap();
    world.ok(&["run", "-d", "--name", "shell", "--", "sh"]);
    let stored = world.ok(&["send", "shell", "; touch ran"]);
    assert!(stored.contains("will not be typed: sh would run it as a command"), "{stored}");
    world.ok(&["kill", "shell"]);
    world.ok(&["run", "-d", "--name", "wanted", "--type-when", "quiet-shell", "--", "sh"]);
    world.send("wanted", "; touch wanted", &[]);
    world.wait_until("the shell ran it", || world.file("wanted").exists());
    assert!(!world.file("ran").exists());
}

#[test]
fn project_cannot_ask_for_typing() {
    let world = world();
    let own = world.home().join("profiles");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("tool.yaml"), format!("name: tool\ncommand: {}\nargs: [-i]\n", python()))
        .unwrap();
    std::fs::create_dir_all(world.folder().join(".synapse/profiles")).unwrap();
    world.write(".synapse/profiles/tool.yaml", "name: tool\ntype_when: quiet\n");
    let ran = world.synapse(&["tool", "-d", "--name", "tool"]).ok();
    assert!(ran.stderr.contains("type_when"), "{}", ran.stderr);
    assert!(
        world.ok(&["send", "tool", "hello"]).contains("will not be typed: the profile tool has no composer")
    );
}

#[test]
fn password_and_choice_hold_it_back() {
    for (how, why) in [("secret", "it asks for a password"), ("choice", "waits for a person")] {
        let world = world();
        let repl = Repl::start(&world, how, &["--type-when", "quiet"]);
        world
            .wait_until("it asks", || repl.screen().contains("Password:") || repl.screen().contains("2. No"));
        world.send("repl", "hello", &[]);
        world.wait_until("it is held back", || world.ok(&["explain", "repl"]).contains(why));
        assert_eq!(repl.given(), Vec::<String>::new(), "{how}");
    }
}

#[test]
fn program_that_does_not_show_what_is_typed_gets_one_character_and_no_enter() {
    let world = world();
    let repl = Repl::start(&world, "mute", &["--type-when", "quiet"]);
    world.wait_until("it asks", || repl.screen().contains("say>"));
    let ran = world.synapse(&["send", "repl", "hello", "--response"]);
    ran.fails(3, &["written, not submitted: the program does not show what is typed"]);
    // Now it is unknown what the input line contains.
    world.send("repl", "and more", &[]);
    repl.wait_until_held("typed in its terminal since");
    assert_eq!(repl.given(), Vec::<String>::new());
    world.ok(&["send-keys", "repl", "Enter"]);
    assert_eq!(repl.wait_for(1)[0], "[");
    // The program's next prompt differs, and counts as its prompt after one line was typed at it.
    world.wait_until("the next prompt", || repl.screen().contains("ready>"));
    world.ok(&["send-keys", "repl", "x", "Enter"]);
    let given = repl.wait_for(3);
    assert!(given[1] == "x" && given[2].ends_with("and more "), "{given:?}");
}

#[test]
fn draft_of_a_person_is_left_alone() {
    let world = world();
    let repl = Repl::start(&world, "plain", &["--type-when", "quiet"]);
    let mut person = Pty::start(&world.command(&["attach", "repl"]), 80, 24);
    person.wait_for("ready>");
    person.keys("my draft");
    world.wait_until("it is there", || repl.screen().contains("ready> my draft"));
    world.send("repl", "hello", &[]);
    repl.wait_until_held("typed in its terminal since");
    assert!(repl.screen().trim_end().ends_with("ready> my draft"));
    person.keys("\r");
    let given = repl.wait_for(2);
    assert!(given[0] == "my draft" && given[1].ends_with("] hello "), "{given:?}");
}

/// A restarted node does not know what was typed before.
#[test]
fn after_a_restart_of_the_node_mail_waits_for_the_next_enter() {
    let world = world();
    let repl = Repl::start(&world, "plain", &["--type-when", "quiet"]);
    world.wait_until("it is ready", || repl.screen().contains("ready>"));
    world.kill_node("repl");
    world.wait_until("the next node sees the screen", || {
        world.synapse(&["screen", "repl"]).stdout.contains("ready>")
    });
    world.send("repl", "hello", &[]);
    repl.wait_until_held("typed in its terminal since");
    assert_eq!(repl.given(), Vec::<String>::new());
    world.ok(&["send-keys", "repl", "Enter"]);
    let given = repl.wait_for(2);
    assert!(given[0].is_empty() && given[1].ends_with("] hello "), "{given:?}");
}

/// A full-screen program with a box, an example in it, and bracketed paste.
#[test]
fn line_is_pasted_into_a_box_that_no_profile_describes() {
    let world = world();
    world.write("cli.py", include_str!("../../testkit/src/cli.py"));
    let more = ["--", python(), "cli.py", "log", "mute=1", "shape=1"];
    world.ok(&[&["run", "-d", "--name", "box", "--type-when", "quiet"][..], &more].concat());
    world.send("box", "a line for the box", &[]);
    world.wait_until("it is given the line", || world.lines("log").iter().any(|line| line.contains("given")));
    let lines = world.lines("log");
    assert!(lines.len() == 1 && lines[0].contains("] a line for the box "), "{lines:?}");
}
