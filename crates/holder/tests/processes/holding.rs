//! What a holder does for its node.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use synapse_holder::{HoldError, claim, holder_of, parent_of};

use crate::world::{World, fixture, terminate};

#[test]
fn a_killed_node_is_started_again_and_its_children_live_on() {
    let mut world = World::new();
    let holder = world.hold(
        "cd $1; [ -e kept ] || { sleep 300 & echo $! > kept; }
         echo $$ >> starts; exec sleep 300",
    );
    let first = world.nth_process_in("starts", 0);
    let kept = world.process_in("kept");
    kill_process(Pid::from_raw(holder as i32).unwrap(), Signal::HUP).unwrap();
    assert!(first.kill());
    let second = world.nth_process_in("starts", 1);
    assert_ne!(first, second);
    assert_eq!(parent_of(second.pid), Some(holder));
    assert_eq!(parent_of(first.pid), None, "the holder left a zombie");
    assert!(kept.is_alive());
    world.wait_until("the holder adopted the child", |_| parent_of(kept.pid) == Some(holder));

    // An orphan that dies is noticed while the node goes on.
    assert!(kept.kill());
    world.wait_until("the orphan is reaped", |_| parent_of(kept.pid).is_none());
    assert!(second.is_alive());
    let log = fs::read_to_string(world.path().join("log")).unwrap();
    assert!(log.contains("was killed by SIGKILL"), "{log}");
}

#[test]
fn a_node_that_ends_by_itself_ends_the_agent() {
    for code in [0, 78] {
        let mut world = World::new();
        let holder = world.hold(&format!("cd $1; sleep 300 & echo $! > kept; exit {code}"));
        let status = world.end_of(holder);
        assert_eq!(status.code(), Some(code));
        let kept = fs::read_to_string(world.path().join("kept")).unwrap();
        assert_eq!(parent_of(kept.trim().parse().unwrap()), None);
    }
}

#[test]
fn a_stop_ends_the_node_first_and_then_everything_else() {
    let mut world = World::new();
    let holder = world.hold(
        r#"cd $1
           (setsid sh -c 'trap "" TERM; (sleep 300 & echo $! > stubborn)' &)
           trap 'echo bye > bye; exit 5' TERM
           echo $$ > node
           while :; do sleep 1; done"#,
    );
    let node = world.process_in("node");
    let stubborn = world.process_in("stubborn");
    world.wait_until("the stubborn one is adopted", |_| parent_of(stubborn.pid) == Some(holder));
    terminate(holder);
    let status = world.end_of(holder);
    assert_eq!(status.code(), Some(0), "{}", world.describe());
    assert!(!node.is_alive() && !stubborn.is_alive());
    assert_eq!(fs::read_to_string(world.path().join("bye")).unwrap(), "bye\n");
    let starts = fs::read_to_string(world.path().join("log")).unwrap();
    assert_eq!(starts.matches("started").count(), 1, "{starts}");
}

#[test]
fn a_holder_can_be_stopped_between_two_starts() {
    let mut world = World::new();
    let holder = world.hold("echo $$ >> $1/starts; exit 1");
    world.wait_until("the node was started three times", |world| {
        let starts = fs::read_to_string(world.path().join("starts")).unwrap_or_default();
        starts.lines().count() >= 3
    });
    terminate(holder);
    assert_eq!(world.end_of(holder).code(), Some(0));
}

#[test]
fn an_agent_has_one_holder() {
    let mut world = World::new();
    let holder = world.hold("echo $$ > $1/node; exec sleep 300");
    world.process_in("node");
    match claim(world.path()) {
        Err(HoldError::AlreadyHeld { pid }) => assert_eq!(pid, Some(holder)),
        other => panic!("{other:?}"),
    }
    assert_eq!(holder_of(world.path()).map(|mark| mark.pid), Some(holder));

    let second = world.hold("echo second > $1/second");
    assert_eq!(world.end_of(second).code(), Some(1));
    assert!(!world.path().join("second").exists());
    let log = fs::read_to_string(world.path().join("log")).unwrap();
    assert!(log.contains(&format!("held by process {holder}")), "{log}");

    terminate(holder);
    world.end_of(holder);
    assert_eq!(holder_of(world.path()), None);
    claim(world.path()).unwrap();
}

#[test]
fn a_node_that_never_started_is_an_error() {
    let mut world = World::new();
    let mut command = fixture();
    command.arg("hold").arg(world.path()).arg("no-such-program-anywhere");
    let holder = world.start(command);
    assert_eq!(world.end_of(holder).code(), Some(1));
    let log = fs::read_to_string(world.path().join("log")).unwrap();
    assert!(log.contains("could not start the node no-such-program-anywhere"), "{log}");
}
