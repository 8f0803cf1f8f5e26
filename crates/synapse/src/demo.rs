//! `synapse demo`: shows the promises being kept, in a throw-away home, and checks each of them.
//!
//! Three built-in agents: `shout` answers in capitals and notes each message in a ledger, `counter` streams
//! its progress, `planner` asks `shout` on somebody's behalf. Exits 0 only if every step held.

use crate::cli::Demo;
use crate::fail::{self, Done, Fail};
use crate::show;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};
use synapse_core::ids::AgentId;
use synapse_store::home::Home;
use synapse_store::registry;

const DEADLINE: Duration = Duration::from_secs(20);

pub fn demo(args: &Demo, json: bool) -> Done {
    let root = std::env::temp_dir().join(format!("synapse-demo-{}", std::process::id()));
    synapse_store::files::private_dir(&root)?;
    let stage = Stage { home: Home::at(&root, root.join("registry")), root, json, began: Instant::now() };
    let held = stage.play();
    let _ = stage.synapse(&["kill", "--all"]);
    if args.keep {
        stage.say(&format!("the home of this demo is {}", stage.root.display()));
    } else {
        let _ = std::fs::remove_dir_all(&stage.root);
    }
    held?;
    stage.say(&format!("every promise held, in {:.1} s", stage.began.elapsed().as_secs_f64()));
    Ok(())
}

struct Stage {
    home: Home,
    root: PathBuf,
    json: bool,
    began: Instant,
}

impl Stage {
    fn play(&self) -> Done {
        self.start()?;
        self.ask()?;
        self.stream()?;
        self.ask_through_another()?;
        self.kill_and_recover()?;
        self.wrong_name()
    }

    fn start(&self) -> Done {
        let exe = std::env::current_exe()?;
        let exe = exe.display();
        for (name, flag) in [("shout", None), ("counter", Some("--jsonl")), ("planner", None)] {
            let command = format!("'{exe}' __demo {name}");
            let mut args = vec!["run", "--detach", "--name", name, "--type", "demo", "--exec", &command];
            args.extend(flag);
            self.must(&args)?;
        }
        let listed = self.must(&["list", "--json"])?;
        let rows: Value = serde_json::from_str(&listed).unwrap_or_default();
        self.check(
            rows.as_array().map(Vec::len) == Some(3),
            "three agents run, each in a process of its own",
            &listed,
        )
    }

    fn ask(&self) -> Done {
        let answer = self.must(&["send", "shout", "hello from the demo", "--response"])?;
        self.check(
            answer.trim() == "HELLO FROM THE DEMO",
            "a task was given, and its answer came back",
            &answer,
        )
    }

    fn stream(&self) -> Done {
        let run = self.synapse(&["send", "counter", "count to 4", "--response"])?;
        let told = String::from_utf8_lossy(&run.stderr).matches("… counted").count();
        let answer = String::from_utf8_lossy(&run.stdout);
        self.check(
            told == 4 && answer.trim() == "done at 4",
            "a task streamed its progress while it ran",
            &format!("{run:?}"),
        )
    }

    fn ask_through_another(&self) -> Done {
        let answer = self.must(&["send", "planner", "good morning", "--response"])?;
        self.check(
            answer.contains("GOOD MORNING"),
            "one agent asked another, and passed the answer on",
            &answer,
        )?;
        let ledger = self.ledger();
        let from = ledger.iter().any(|line| line == "planner: good morning");
        self.check(from, "the second agent saw who really asked: planner", &ledger.join("\n"))
    }

    fn kill_and_recover(&self) -> Done {
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
        let run = self.synapse(&["send", "shoot", "hello"])?;
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
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
        Ok(command.stdin(Stdio::null()).output()?)
    }

    /// Runs a command that has to succeed; its output.
    fn must(&self, args: &[&str]) -> Result<String, Fail> {
        let run = self.synapse(args)?;
        if run.status.success() {
            return Ok(String::from_utf8_lossy(&run.stdout).into_owned());
        }
        Err(self
            .failed(&format!("`synapse {}` failed", args.join(" ")), &String::from_utf8_lossy(&run.stderr)))
    }

    fn wait(&self, what: &str, mut holds: impl FnMut() -> bool) -> Done {
        while !holds() {
            if self.began.elapsed() > DEADLINE {
                return Err(self.failed(
                    &format!("{what}: not within {} s", DEADLINE.as_secs()),
                    &self.ledger().join("\n"),
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn check(&self, holds: bool, what: &str, seen: &str) -> Done {
        if !holds {
            return Err(self.failed(&format!("this did not hold: {what}"), seen));
        }
        self.say(&format!("{} {what}", show::paint("32", "✓")));
        Ok(())
    }

    fn failed(&self, what: &str, seen: &str) -> Fail {
        let logs = self.logs();
        Fail::new(fail::ERROR, "demo_failed", format!("{what}\n{seen}\n{logs}"))
    }

    /// The end of each agent's log, for whoever has to find out.
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
            show::json(&serde_json::json!({ "step": text, "ms": self.began.elapsed().as_millis() as u64 }));
        } else {
            show::out(text);
        }
    }
}

/// The agents of the demo.
pub fn program(name: &str) -> ExitCode {
    let worked = match name {
        "shout" => shout(),
        "counter" => counter(),
        "planner" => planner(),
        _ => Err(std::io::Error::other("no such demo program")),
    };
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn prompt() -> std::io::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

fn shout() -> std::io::Result<()> {
    let prompt = prompt()?;
    let home = std::env::var("SYNAPSE_HOME").unwrap_or_default();
    let sender = std::env::var("SYNAPSE_SENDER").unwrap_or_default();
    let path = Path::new(&home).join("ledger");
    let mut ledger = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    // Long enough that a kill -9 finds some of them still waiting.
    std::thread::sleep(Duration::from_millis(20));
    ledger.write_all(format!("{sender}: {prompt}\n").as_bytes())?;
    println!("{}", prompt.to_uppercase());
    Ok(())
}

fn counter() -> std::io::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let message: Value = serde_json::from_str(&line)?;
    let text = message["text"].as_str().unwrap_or_default();
    let goal: u32 = text.split(' ').next_back().and_then(|n| n.parse().ok()).unwrap_or(3);
    for n in 1..=goal {
        println!(
            "{}",
            serde_json::json!({ "type": "progress", "text": format!("counted {n}"), "percent": 100 * n / goal })
        );
    }
    println!("{}", serde_json::json!({ "type": "completed", "text": format!("done at {goal}") }));
    Ok(())
}

fn planner() -> std::io::Result<()> {
    let prompt = prompt()?;
    let asked =
        Command::new(std::env::current_exe()?).args(["send", "shout", &prompt, "--response"]).output()?;
    println!("shout says: {}", String::from_utf8_lossy(&asked.stdout).trim());
    std::io::stderr().write_all(&asked.stderr)?;
    if asked.status.success() { Ok(()) } else { Err(std::io::Error::other("shout did not answer")) }
}
