//! PTY-1, PTY-5: a flood of output is shown whole and in order, the final screen is right, and a
//! client that does not read blocks nobody else.

use crate::world;
use std::process::Command;
use synapse_testkit::pty::Pty;
use synapse_testkit::{World, processes};

/// Prints numbered lines after a key, and then a last word.
const FLOOD: &str = r#"
import os, sys, tty
lines = int(sys.argv[1])
tty.setraw(0)
os.write(1, b"ready")
while True:
    os.read(0, 1)
    for first in range(0, lines, 1000):
        text = "".join("\x1b[3%dmline %d of the flood, \u65e5\u672c\u8a9e\x1b[0m\r\n" % (n % 8, n) for n in range(first, first + 1000))
        text = text.encode()
        while text:
            text = text[os.write(1, text):]
    os.write(1, b"over!")
"#;
const LINES: usize = 60_000;

fn viewer(world: &World, args: &[&str]) -> Pty {
    Pty::start(&world.prepare(Command::new(world.exe()), args), 100, 30)
}

fn start(world: &World) -> Pty {
    world.write("flood.py", FLOOD);
    let lines = LINES.to_string();
    let first = viewer(world, &["run", "--name", "flood", "--", "python3", "flood.py", &lines]);
    first.wait_for("ready");
    first
}

fn ends_with_the_flood(world: &World, rows: usize) {
    let last: Vec<String> =
        ((LINES - rows + 1)..LINES).map(|n| format!("line {n} of the flood, 日本語")).collect();
    let expected = last.join("\n") + "\nover!";
    world.wait_until("the node's screen is the end of the flood", || {
        world.ok(&["screen", "flood"]).trim() == expected
    });
}

#[test]
fn heavy_all_of_it_is_shown_in_order_and_the_screen_is_right() {
    let world = world();
    let mut person = start(&world);
    person.keys("x");
    person.wait_for("over!");
    let text = person.text();
    let numbers =
        text.split("mline ").skip(1).filter_map(|line| line.split(' ').next()?.parse::<usize>().ok());
    assert!(numbers.eq(0..LINES), "lines are missing or out of order");
    ends_with_the_flood(&world, 30);
    // Nobody is attached and the node dies in the middle: the final screen is still right.
    person.keys("x\u{1c}d");
    person.end();
    world.kill_node("flood");
    ends_with_the_flood(&world, 40);
    world.ok(&["kill", "flood"]);
}

#[test]
fn heavy_whoever_does_not_read_stops_nobody() {
    let world = world();
    let mut person = start(&world);
    let reader = viewer(&world, &["attach", "flood", "--read-only"]);
    reader.wait_for("ready");
    processes::stop(reader.pid());
    person.keys("x");
    person.wait_for("over!");
    ends_with_the_flood(&world, 30);
    // The reader fell behind. Once it reads again, it gets the current screen.
    processes::go_on(reader.pid());
    reader.wait_for("over!");
    // The client that leads cannot block the program for good either.
    processes::stop(person.pid());
    let mut other = viewer(&world, &["attach", "flood", "--take"]);
    other.wait_for("over!");
    other.keys("x");
    world.wait_until("the other has seen a second flood", || other.text().matches("over!").count() >= 2);
    processes::go_on(person.pid());
    world.ok(&["kill", "flood"]);
}
