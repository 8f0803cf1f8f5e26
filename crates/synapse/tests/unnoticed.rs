//! PTY-4, PTY-5: `kill -9` of the node, the viewer or both, at any moment, goes unnoticed.
//!
//! A scripted program runs twice with the same keys. One run is attacked, the other is left alone.
//! Afterwards both got the same input and look the same cell by cell, in their nodes and in the
//! viewers' terminals.

use std::process::Command;
use std::time::{Duration, Instant};
use synapse_terminal::{Screen, Size};
use synapse_testkit::pty::Pty;
use synapse_testkit::tui::Tui;
use synapse_testkit::{World, processes};

const COLUMNS: u16 = 120;
const ROWS: u16 = 40;
const PATIENCE: Duration = Duration::from_secs(60);

/// A person's terminal with a viewer in it, and a model of its screen.
struct Eyes {
    pty: Pty,
    screen: Screen,
    seen: usize,
}

impl Eyes {
    fn attach(world: &World, name: &str) -> Self {
        let command = world.prepare(Command::new(world.exe()), &["attach", name]);
        let pty = Pty::start(&command, COLUMNS, ROWS);
        let mut eyes = Self { pty, screen: Screen::new(Size::new(COLUMNS, ROWS), 0), seen: 0 };
        eyes.wait_for("enter sends");
        eyes
    }

    /// Waits until the screen shows this, or showed it briefly: a terminal that is read late gets
    /// much at once.
    fn wait_for(&mut self, part: &str) {
        const PIECE_BYTES: usize = 256;
        let (screen, seen) = (&mut self.screen, &mut self.seen);
        let mut was_there = screen.rows().iter().any(|row| row.contains(part));
        self.pty.wait_until(&format!("{part:?} is on the screen"), |bytes| {
            for piece in bytes[*seen..].chunks(PIECE_BYTES) {
                screen.feed(piece, &mut Vec::new());
                was_there |= screen.rows().iter().any(|row| row.contains(part));
            }
            *seen = bytes.len();
            if was_there { Ok(()) } else { Err(screen.rows().join("\n")) }
        });
    }

    /// Waits until the terminal looks exactly like this. Needed because the last marker of a frame
    /// may arrive before its end.
    fn wait_for_screen(&mut self, ansi: &str, what: &str) {
        let (screen, seen) = (&mut self.screen, &mut self.seen);
        self.pty.wait_until(what, |bytes| {
            screen.feed(&bytes[*seen..], &mut Vec::new());
            *seen = bytes.len();
            let now = screen.as_ansi(false);
            if now == ansi { Ok(()) } else { Err(format!("{now:?}\ninstead of\n{ansi:?}")) }
        });
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Victim {
    Node,
    Viewer,
    Both,
}

const VICTIMS: [Victim; 3] = [Victim::Node, Victim::Viewer, Victim::Both];

/// When to kill: what both programs are typed before, the output to wait for (`…` stands for a
/// count), what they are typed after, and how many queries the program sends in between.
struct Moment {
    before: &'static str,
    sign: &'static str,
    after: &'static str,
    queries: usize,
    /// How many lines are sent.
    lines: usize,
}

struct Story {
    world: World,
    tried: (Tui, Eyes),
    twin: (Tui, Eyes),
    program: u32,
    typed: String,
    queries: usize,
    lines: usize,
}

fn start(world: &World, name: &str) -> (Tui, Eyes) {
    let tui = Tui::new(world, name);
    let args = [&["run", "-d", "--name", name, "--"][..], &tui.command()].concat();
    world.ok(&args);
    (tui, Eyes::attach(world, name))
}

fn program_of(world: &World, name: &str) -> u32 {
    let agent = world.agent(name);
    let children = processes::children_of(agent.pid);
    let program = children.iter().find(|pid| processes::command_line(**pid).contains("tui.py"));
    *program.unwrap_or_else(|| panic!("{children:?}\n{}", world.show()))
}

impl Story {
    fn begin() -> Self {
        let world = World::new(env!("CARGO_BIN_EXE_synapse"));
        let (tried, twin) = (start(&world, "tried"), start(&world, "twin"));
        let program = program_of(&world, "tried");
        Self { world, tried, twin, program, typed: String::new(), queries: 0, lines: 0 }
    }

    fn keys(&mut self, keys: &str) {
        self.tried.1.pty.keys(keys);
        self.twin.1.pty.keys(keys);
        self.typed.push_str(keys);
    }

    fn attempt(&mut self, victim: Victim, moment: &Moment) {
        self.keys(moment.before);
        let counts = format!(" answers {} done {}", self.queries, self.lines);
        self.tried.1.wait_for(&moment.sign.replace("…", &counts));
        if victim != Victim::Viewer {
            processes::kill9(self.world.agent("tried").node_pid);
        }
        if victim != Victim::Node {
            processes::kill9(self.tried.1.pty.pid());
            self.tried.1 = Eyes::attach(&self.world, "tried");
        }
        // Type without waiting: there may be no node.
        self.keys(moment.after);
        self.queries += moment.queries;
        self.lines += moment.lines;
        let end = format!("answers {} done {}", self.queries, self.lines);
        self.tried.1.wait_for(&end);
        self.twin.1.wait_for(&end);
        self.compare(&end, victim);
    }

    fn compare(&mut self, end: &str, victim: Victim) {
        let what = format!("{victim:?} killed, {end}");
        let shown = |name: &str| self.world.synapse(&["screen", name, "--format", "ansi"]).stdout;
        let (mut tried, mut twin) = (shown("tried"), shown("twin"));
        let until = Instant::now() + PATIENCE;
        // A request may hit a half-drawn frame, or the moment without a node.
        while tried != twin || !twin.contains(end) {
            assert!(Instant::now() < until, "{what}: the nodes show\n{tried:?}\nand\n{twin:?}");
            (tried, twin) = (shown("tried"), shown("twin"));
        }
        for (eyes, whose) in [(&mut self.tried.1, "tried"), (&mut self.twin.1, "twin")] {
            eyes.wait_for_screen(&twin, &format!("{what}: the terminal of the person, {whose}"));
        }
        assert_eq!(program_of(&self.world, "tried"), self.program, "{what}: the same program");
        assert_eq!(self.tried.0.typed(&self.world), self.typed, "{what}");
        assert_eq!(self.twin.0.typed(&self.world), self.typed, "{what}");
        self.world.wait_until("it is seen to be idle", || {
            self.world.entry("tried").is_some_and(|entry| entry["status"] == "idle")
        });
    }
}

/// Kills each of the three victims once per round. `SYNAPSE_KILL_ROUNDS` sets the rounds, 2 by
/// default.
fn check(moment: &Moment) {
    let rounds = std::env::var("SYNAPSE_KILL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let mut story = Story::begin();
    for round in 0..rounds {
        for victim in VICTIMS {
            eprintln!("round {round}, {victim:?}");
            story.attempt(victim, moment);
        }
    }
    story.world.ok(&["kill", "tried", "twin"]);
    assert!(!processes::is_alive(story.program));
}

#[test]
fn six_kills_in_the_middle_of_a_turn() {
    let moment =
        Moment {
            before: "turn 60\r", sign: "busy…", after: "typed in betwéen 世\r", queries: 4, lines: 2
        };
    check(&moment);
}

#[test]
fn six_kills_with_half_a_line_typed() {
    let moment =
        Moment { before: "half a li", sign: "> half a li", after: "ne\rprobe 3\r", queries: 3, lines: 2 };
    check(&moment);
}

#[test]
fn six_kills_during_a_flood() {
    let moment =
        Moment { before: "flood 4000\r", sign: "busy…", after: "and now\rprobe 1\r", queries: 1, lines: 3 };
    check(&moment);
}

#[test]
fn six_kills_while_a_question_waits() {
    let moment =
        Moment { before: "ask\r", sign: "waiting…", after: "1thank you\rprobe 2\r", queries: 2, lines: 3 };
    check(&moment);
}
