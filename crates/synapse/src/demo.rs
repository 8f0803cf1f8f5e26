//! `synapse demo`: demonstrates the guarantees in a temporary home, and checks each of them.
//!
//! It uses three built-in agents: `shout` answers in capitals and records each message in a ledger,
//! `counter` streams its progress, `planner` asks `shout` on somebody's behalf. Exits with 0 only
//! if every step succeeded.
//!
//! Invariant: however the demo ends, short of SIGKILL, its agents are stopped and its home is
//! removed. Not here: the agents themselves (`programs`), interruptions (`interruption`).

mod cleanup;
mod interruption;
mod programs;

pub use programs::program;

use crate::cli::Demo;
use crate::fail::{self, Done, Fail};
use crate::show;
use interruption::Interruption;
use serde_json::Value;
use std::cell::Cell;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use synapse_core::ids::AgentId;
use synapse_store::home::Home;
use synapse_store::registry;

const DEADLINE: Duration = Duration::from_secs(20);
/// How long a starting agent gets after an interruption, because a half-started one could not be
/// found.
const START_TIME: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

pub fn demo(args: &Demo, json: bool) -> Done {
    // Before anything is created that would need cleaning up.
    let interruption = Interruption::watch()?;
    let root = std::env::temp_dir().join(format!("synapse-demo-{}", std::process::id()));
    synapse_store::files::private_dir(&root)?;
    let stage = Stage {
        home: Home::at(&root, root.join("registry")),
        root,
        json,
        began: Instant::now(),
        last: Cell::default(),
        interruption,
    };
    let held = stage.play();
    let cleaned = stage.clean_up(args.keep);
    if stage.interruption.is_there() {
        use std::io::Write as _;
        cleaned?;
        // The terminal may be gone.
        let _ = writeln!(std::io::stderr(), "demo interrupted; its agents are stopped");
        return stage.interruption.check();
    }
    held?;
    cleaned?;
    stage.say(&format!("every promise held, in {:.1} s", stage.began.elapsed().as_secs_f64()));
    Ok(())
}

struct Stage {
    home: Home,
    root: PathBuf,
    json: bool,
    began: Instant,
    /// The last command that was printed, without its numbers.
    last: Cell<Option<String>>,
    interruption: Interruption,
}

impl Stage {
    fn play(&self) -> Done {
        self.start()?;
        self.ask()?;
        self.stream()?;
        self.ask_through_another()?;
        self.interrupt()?;
        self.impersonate()?;
        self.kill_and_recover()?;
        self.wrong_name()
    }

    /// Stops the agents, and removes the home unless it is to be kept.
    fn clean_up(&self, keep: bool) -> Done {
        let failed = |why: String| Err(Fail::new(fail::ERROR, "demo_failed", why));
        if !cleanup::end_agents(&self.home) {
            let root = self.root.display();
            return failed(format!(
                "agents of the demo are still running\nhint: SYNAPSE_HOME={root} synapse kill --all"
            ));
        }
        if keep {
            self.say(&format!("the home of this demo is {}", self.root.display()));
        } else if !cleanup::remove(&self.root) {
            return failed(format!("the home of the demo is not removed: {}", self.root.display()));
        }
        Ok(())
    }

    fn start(&self) -> Done {
        self.step("Three agents: any command becomes one");
        let exe = std::env::current_exe()?;
        let exe = exe.display();
        for (name, flag) in [("shout", None), ("counter", Some("--jsonl")), ("planner", None)] {
            let command = format!("'{exe}' __demo {name}");
            let mut args = vec!["run", "--detach", "--name", name, "--type", "demo"];
            args.extend(flag);
            args.push("--exec");
            self.tell(&[&args[..], &[&format!("./{name}")]].concat());
            args.push(&command);
            self.quietly(&args)?;
        }
        let listed = self.quietly(&["list", "--json"])?;
        let rows: Value = serde_json::from_str(&listed).unwrap_or_default();
        self.check(
            rows.as_array().map(Vec::len) == Some(3),
            "three agents run, each in a process of its own",
            &listed,
        )
    }

    fn ask(&self) -> Done {
        self.step("A task: the command gets the text, its output is the answer");
        let answer = self.must(&["send", "shout", "hello from the demo", "--response"])?;
        self.quote(&answer);
        self.check(
            answer.trim() == "HELLO FROM THE DEMO",
            "a task was given, and its answer came back",
            &answer,
        )
    }

    fn stream(&self) -> Done {
        self.step("Progress: a program may say how far it is");
        let words = ["send", "counter", "count to 4", "--response"];
        self.tell(&words);
        let run = self.synapse(&words)?;
        let told = String::from_utf8_lossy(&run.stderr).matches("… counted").count();
        let answer = String::from_utf8_lossy(&run.stdout);
        self.quote(&String::from_utf8_lossy(&run.stderr));
        self.quote(&answer);
        self.check(
            told == 4 && answer.trim() == "done at 4",
            "a task streamed its progress while it ran",
            &format!("{run:?}"),
        )
    }

    fn ask_through_another(&self) -> Done {
        self.step("Agents talk to each other: planner asks shout");
        let answer = self.must(&["send", "planner", "good morning", "--response"])?;
        self.quote(&answer);
        self.check(
            answer.contains("GOOD MORNING"),
            "one agent asked another, and passed the answer on",
            &answer,
        )?;
        let ledger = self.ledger();
        let from = ledger.iter().any(|line| line == "planner: good morning");
        self.check(from, "the second agent saw who really asked: planner", &ledger.join("\n"))
    }

    fn interrupt(&self) -> Done {
        self.step("An emergency: priority 5 goes before everything that waits");
        const CALM: usize = 8;
        for n in 0..CALM {
            self.must(&["send", "shout", &format!("calm {n}")])?;
        }
        self.must(&["send", "shout", "stop, the build is broken", "--priority", "5"])?;
        let done = || self.ledger().iter().filter(|l| l.contains("calm")).count();
        self.wait("all calm messages are in the ledger", || done() >= CALM)?;
        let ledger = self.ledger();
        let after = ledger.iter().skip_while(|l| !l.contains("build is broken"));
        let overtaken = after.filter(|l| l.contains("calm")).count();
        self.check(
            overtaken > 0,
            &format!("it was sent last and overtook {overtaken} of {CALM} messages"),
            &ledger.join("\n"),
        )
    }

    fn impersonate(&self) -> Done {
        self.step("An impostor: planner tries to speak as shout, then to hide where it comes from");
        let told = self.must(&["send", "planner", "pretend to be shout", "--response"])?;
        self.quote(told.trim_start_matches("5 "));
        let refused = told.starts_with("5 ") && told.contains("speak for another agent");
        self.check(refused, "the kernel says which agent a process belongs to: refused", &told)?;
        let answer = self.must(&["send", "planner", "hide who you are", "--response"])?;
        let ledger = self.ledger();
        let known = ledger.iter().any(|line| line == "planner: guess who");
        self.check(
            answer.trim() == "GUESS WHO" && known,
            "without its environment and without a parent it still was planner",
            &ledger.join("\n"),
        )
    }

    fn kill_and_recover(&self) -> Done {
        self.step("A crash: the node is killed while mail waits");
        const BEFORE: usize = 12;
        const AFTER: usize = 6;
        for n in 0..BEFORE {
            self.must(&["send", "shout", &format!("letter {n}")])?;
        }
        let shout = self.entry("shout")?;
        let node = synapse_holder::ProcessMark::of(shout.node_pid);
        let killed = node.is_some_and(|mark| mark.kill());
        let waiting = BEFORE.saturating_sub(self.letters());
        self.check(
            killed && waiting > 0,
            &format!("kill -9 hit the agent's node with {waiting} of {BEFORE} letters still to be worked on"),
            "",
        )?;
        for n in BEFORE..BEFORE + AFTER {
            self.must(&["send", "shout", &format!("letter {n}")])?;
        }
        self.say(&format!("  {AFTER} more were sent while it came back"));
        self.wait("every letter is in the ledger", || self.letters() >= BEFORE + AFTER)?;
        let mut letters: Vec<String> = self.ledger().into_iter().filter(|l| l.contains("letter")).collect();
        let all = letters.len();
        letters.sort();
        letters.dedup();
        self.check(
            letters.len() == BEFORE + AFTER && all == letters.len(),
            &format!("all {} letters were worked on, each exactly once", BEFORE + AFTER),
            &letters.join("\n"),
        )?;
        let same = self.entry("shout")?;
        self.check(
            same.port == shout.port && same.pid == shout.pid,
            "it came back under the same name and port, by itself",
            "",
        )
    }

    fn wrong_name(&self) -> Done {
        self.step("A typing error");
        self.tell(&["send", "shoot", "hello"]);
        let run = self.synapse(&["send", "shoot", "hello"])?;
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        self.quote(&told);
        let right = run.status.code() == Some(5) && told.contains("did you mean shout");
        self.check(right, "a wrong name was refused, and the right one suggested", &told)
    }

    fn entry(&self, name: &str) -> Result<registry::Entry, Fail> {
        let named = |entry: &registry::Entry| entry.name.as_ref().is_some_and(|own| own.as_str() == name);
        let found = registry::scan(&self.home).agents.into_iter().find(named);
        found.ok_or_else(|| self.failed(&format!("{name} is not in the registry"), ""))
    }

    fn ledger(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.root.join("ledger")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn letters(&self) -> usize {
        self.ledger().iter().filter(|line| line.contains("letter")).count()
    }

    fn synapse(&self, args: &[&str]) -> Result<Output, Fail> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args).current_dir(&self.root).env("SYNAPSE_HOME", &self.root).env("NO_COLOR", "1");
        for inherited in ["SYNAPSE_TASK_ID", "SYNAPSE_CHAIN"] {
            command.env_remove(inherited);
        }
        self.interruption.check()?;
        // In its own process group: Ctrl-C is for the demo, which then stops its agents in order.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        let process = synapse_holder::ProcessMark::of(child.id());
        let (done, output) = channel();
        std::thread::Builder::new()
            .name("command".into())
            .spawn(move || drop(done.send(child.wait_with_output())))?;
        let mut interrupted: Option<Instant> = None;
        loop {
            match output.recv_timeout(PAUSE) {
                Ok(output) => {
                    self.interruption.check()?;
                    return Ok(output?);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.failed("a command was lost", "")),
                Err(RecvTimeoutError::Timeout) if !self.interruption.is_there() => {}
                Err(RecvTimeoutError::Timeout) => {
                    let since = interrupted.get_or_insert_with(Instant::now).elapsed();
                    if args.first() != Some(&"run") || since > START_TIME {
                        process.as_ref().map(synapse_holder::ProcessMark::kill);
                        return self.interruption.check().and(Err(self.failed("interrupted", "")));
                    }
                }
            }
        }
    }

    /// Prints the command as a person would type it. Commands that differ only in numbers are
    /// printed once.
    fn tell(&self, args: &[&str]) {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let quoted = |arg: &&str| if arg.chars().all(plain) { (*arg).to_owned() } else { format!("'{arg}'") };
        let line = args.iter().map(quoted).collect::<Vec<_>>().join(" ");
        let (like, last) = (line.replace(|c: char| c.is_ascii_digit(), ""), self.last.take());
        if !self.json && last.as_deref() != Some(&like) {
            self.interruption.print(&show::paint("2", &format!("  $ synapse {line}")));
        }
        self.last.set(Some(like));
    }

    /// Runs a command that must succeed, and returns its output.
    fn must(&self, args: &[&str]) -> Result<String, Fail> {
        self.tell(args);
        self.quietly(args)
    }

    fn quietly(&self, args: &[&str]) -> Result<String, Fail> {
        let run = self.synapse(args)?;
        if run.status.success() {
            return Ok(String::from_utf8_lossy(&run.stdout).into_owned());
        }
        Err(self
            .failed(&format!("`synapse {}` failed", args.join(" ")), &String::from_utf8_lossy(&run.stderr)))
    }

    fn wait(&self, what: &str, mut holds: impl FnMut() -> bool) -> Done {
        while !holds() {
            self.interruption.check()?;
            if self.began.elapsed() > DEADLINE {
                return Err(self.failed(
                    &format!("{what}: not within {} s", DEADLINE.as_secs()),
                    &self.ledger().join("\n"),
                ));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Prints the headline of the next step.
    fn step(&self, what: &str) {
        if !self.json {
            self.interruption.print(&show::paint("1", what));
        }
    }

    /// Prints the output of a command.
    fn quote(&self, text: &str) {
        for line in text.lines().filter(|_| !self.json) {
            self.interruption.print(&format!("    {}", show::safe(line)));
        }
    }

    fn check(&self, holds: bool, what: &str, seen: &str) -> Done {
        if !holds {
            return Err(self.failed(&format!("this did not hold: {what}"), seen));
        }
        self.say(&format!("  {} {what}", show::paint("32", "✓")));
        Ok(())
    }

    fn failed(&self, what: &str, seen: &str) -> Fail {
        let logs = self.logs();
        Fail::new(fail::ERROR, "demo_failed", format!("{what}\n{seen}\n{logs}"))
    }

    /// The end of each agent's log, for debugging.
    fn logs(&self) -> String {
        let mut text = String::new();
        for dir in std::fs::read_dir(self.home.agents_dir()).into_iter().flatten().flatten() {
            let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
            let id = dir.file_name().to_str().and_then(|name| AgentId::parse(name).ok()).map(|id| id.short());
            let tail: Vec<&str> = log.lines().rev().take(8).collect();
            text.push_str(&format!(
                "log of {}:\n  {}\n",
                id.unwrap_or_default(),
                tail.into_iter().rev().collect::<Vec<_>>().join("\n  ")
            ));
        }
        text
    }

    fn say(&self, text: &str) {
        if self.json {
            let step = serde_json::json!({ "step": text, "ms": self.began.elapsed().as_millis() as u64 });
            self.interruption.print(&step.to_string());
        } else {
            self.interruption.print(text);
        }
    }
}
