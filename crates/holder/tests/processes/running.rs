//! What a runner does for its command.

use std::fs;

use synapse_holder::{How, ProcessMark, RunDir, RunMode, RunSpec, RunState};

use crate::world::{World, terminate};

#[test]
fn a_plain_command_gets_its_input_and_its_output_is_kept() {
    let mut world = World::new();
    let run = world.prepare(&world.argv(&["cat"]), b"hello\n");
    world.run(&run);
    let exit = world.exit_of(&run);
    assert_eq!((exit.how, exit.code), (How::Exited, Some(0)), "{exit:?}");
    assert_eq!(run.read_out_from(0, 100).unwrap(), b"hello\n");
    assert_eq!(run.read_out_from(2, 3).unwrap(), b"llo");
    assert_eq!(run.read_out_from(6, 100).unwrap(), b"");
    // What a second node finds.
    let again = RunDir::open(run.path()).unwrap();
    assert_eq!(again.state().unwrap(), RunState::Ended(exit));
    again.remove().unwrap();
    assert!(!run.path().exists());
}

#[test]
fn a_failing_command_tells_its_code_and_its_last_words() {
    let mut world = World::new();
    let script = r"head -c 100000 /dev/zero >&2; printf '\n\033[31mbad\033[0m \377\r\n' >&2; exit 3";
    let run = world.prepare(&world.script(script), b"");
    world.run(&run);
    let exit = world.exit_of(&run);
    assert_eq!((exit.how, exit.code), (How::Exited, Some(3)));
    assert_eq!(exit.why, "exited with code 3");
    assert_eq!(exit.stderr_tail, "\nbad \u{fffd}\n");
    let err = fs::read(run.path().join("err")).unwrap();
    assert_eq!(err.len(), 64 * 1024);
    assert!(err.ends_with(b"\r\n"));
}

#[test]
fn a_killed_command_tells_its_signal() {
    let mut world = World::new();
    let run = world.prepare(&world.script("kill -9 $$"), b"");
    world.run(&run);
    let exit = world.exit_of(&run);
    assert_eq!((exit.how, exit.code, exit.signal), (How::Signaled, None, Some(9)));
    assert_eq!(exit.why, "was killed by SIGKILL");
}

#[test]
fn a_command_runs_where_and_with_what_it_was_told() {
    let mut world = World::new();
    let mut spec = world.script("pwd -P; echo $GREETING");
    spec.env.insert("GREETING".into(), "good day".into());
    let run = world.prepare(&spec, b"");
    world.run(&run);
    world.exit_of(&run);
    let folder = fs::canonicalize(world.path()).unwrap();
    let expected = format!("{}\ngood day\n", folder.display());
    assert_eq!(String::from_utf8(run.read_out_from(0, 1000).unwrap()).unwrap(), expected);
}

#[test]
fn a_command_need_not_read_its_input() {
    let mut world = World::new();
    let run = world.prepare(&world.argv(&["true"]), &vec![b'x'; 1_000_000]);
    world.run(&run);
    let exit = world.exit_of(&run);
    assert_eq!((exit.how, exit.code), (How::Exited, Some(0)), "{exit:?}");
}

#[test]
fn a_late_command_is_ended() {
    let mut world = World::new();
    let spec = world.script("echo before; echo $$ > $1/command; exec sleep 300");
    let spec = RunSpec { time_limit_ms: Some(500), ..spec };
    let run = world.prepare(&spec, b"");
    world.run(&run);
    let exit = world.exit_of(&run);
    assert_eq!((exit.how, exit.code, exit.signal), (How::TimedOut, None, None));
    assert_eq!(exit.why, "did not end within 500 ms");
}

#[test]
fn a_loud_command_is_ended_and_its_output_cut() {
    let table: &[(&str, u64, How)] = &[
        ("yes", 100_001, How::OutputLimit),
        // Over by the time it ended by itself, too.
        ("printf 12345", 4, How::OutputLimit),
        ("printf 12345", 5, How::Exited),
        ("printf 12345", 0, How::OutputLimit),
        ("true", 0, How::Exited),
    ];
    for (script, output_limit, how) in table {
        let mut world = World::new();
        let spec = RunSpec { output_limit: *output_limit, ..world.script(script) };
        let run = world.prepare(&spec, b"");
        world.run(&run);
        let exit = world.exit_of(&run);
        assert_eq!(exit.how, *how, "{script} within {output_limit}: {exit:?}");
        let kept = fs::metadata(run.path().join("out")).unwrap().len();
        assert_eq!(kept, *output_limit, "{script}");
    }
}

#[test]
fn a_cancelled_command_ends_with_all_it_started() {
    let mut world = World::new();
    let script = r#"cd $1
        (setsid sh -c 'trap "" TERM; (sleep 300 & echo $! > stubborn)' &)
        sleep 300 & echo $! > child
        wait"#;
    let run = world.prepare(&world.script(script), b"");
    let runner = world.run(&run);
    let child = world.process_in("child");
    let stubborn = world.process_in("stubborn");
    assert_eq!(run.state().unwrap(), RunState::Running { pid: runner });
    assert!(run.clone().remove().is_err(), "a running command cannot be removed");
    run.cancel().unwrap();
    let exit = world.exit_of(&run);
    assert_eq!((exit.how, exit.why.as_str()), (How::Cancelled, "cancelled"));
    assert!(!child.is_alive() && !stubborn.is_alive());
}

#[test]
fn a_command_cancelled_early_never_starts() {
    let mut world = World::new();
    let run = world.prepare(&world.script("echo $$ > $1/command"), b"");
    run.cancel().unwrap();
    assert_eq!(run.state().unwrap(), RunState::Prepared);
    world.run(&run);
    assert_eq!(world.exit_of(&run).how, How::Cancelled);
    assert!(!world.path().join("command").exists());
}

#[test]
fn a_command_that_cannot_start_says_why() {
    let mut world = World::new();
    let nowhere = RunSpec { cwd: world.path().join("nowhere"), ..world.argv(&["true"]) };
    fs::write(world.path().join("plain-file"), "").unwrap();
    let plain_file = world.path().join("plain-file").to_str().unwrap().to_owned();
    let table = [
        ("missing", world.argv(&["no-such-command"]), "command not found: no-such-command"),
        ("empty", world.argv(&[]), "no command was given"),
        ("homeless", nowhere, "nowhere to run in does not exist"),
        ("forbidden", world.argv(&[&plain_file]), "plain-file may not be executed"),
    ];
    for (name, spec, why) in table {
        let run = RunDir::prepare(world.path(), name, &spec, b"input").unwrap();
        world.run(&run);
        let exit = world.exit_of(&run);
        assert_eq!(exit.how, How::NotStarted, "{name}: {exit:?}");
        assert!(exit.why.contains(why), "{name}: {exit:?}");
    }
}

#[test]
fn a_command_in_jsonl_mode_gets_lines_until_its_input_is_closed() {
    let mut world = World::new();
    let spec = RunSpec { mode: RunMode::Jsonl, ..world.argv(&["cat"]) };
    let run = world.prepare(&spec, b"{\"n\":1}\n");
    world.run(&run);
    let mut expected = b"{\"n\":1}\n".to_vec();
    for line in ["{\"n\":2}\n", "{\"n\":3}\n"] {
        world.wait_until("the lines so far came back", |_| run.read_out_from(0, 1000).unwrap() == expected);
        run.append_input(line.as_bytes()).unwrap();
        expected.extend_from_slice(line.as_bytes());
    }
    // Closed right after a line: it still arrives.
    run.close_input().unwrap();
    let exit = world.exit_of(&run);
    assert_eq!((exit.how, exit.code), (How::Exited, Some(0)), "{exit:?}");
    assert_eq!(run.read_out_from(0, 1000).unwrap(), expected);
}

#[test]
fn a_leftover_that_holds_the_output_open_does_not_hold_the_run() {
    let mut world = World::new();
    let script = r#"cd $1
        (setsid sh -c 'trap "" TERM; (sleep 300 & echo $! > leftover)' &)
        until [ -s leftover ]; do sleep 0.02; done
        echo done"#;
    let run = world.prepare(&world.script(script), b"");
    world.run(&run);
    let exit = world.exit_of(&run);
    assert_eq!((exit.how, exit.code), (How::Exited, Some(0)), "{exit:?}");
    assert_eq!(run.read_out_from(0, 100).unwrap(), b"done\n");
    let leftover = fs::read_to_string(world.path().join("leftover")).unwrap();
    assert_eq!(ProcessMark::of(leftover.trim().parse().unwrap()), None);
}

#[test]
fn a_second_runner_does_nothing() {
    let mut world = World::new();
    let run = world.prepare(&world.script("cd $1; echo $$ >> starts; exec sleep 300"), b"");
    let first = world.run(&run);
    let command = world.process_in("starts");

    let meanwhile = world.run(&run);
    assert!(world.end_of(meanwhile).success());
    assert_eq!(run.state().unwrap(), RunState::Running { pid: first });

    assert!(command.kill());
    let exit = world.exit_of(&run);
    assert_eq!(exit.how, How::Signaled);
    let afterwards = world.run(&run);
    assert!(world.end_of(afterwards).success());
    assert_eq!(run.state().unwrap(), RunState::Ended(exit));
    let starts = fs::read_to_string(world.path().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 1);
}

#[test]
fn a_killed_runner_has_vanished_and_its_command_is_not_started_again() {
    let mut world = World::new();
    let run = world.prepare(&world.script("cd $1; echo $$ >> starts; exec sleep 300"), b"");
    let runner = world.run(&run);
    let command = world.process_in("starts");
    assert!(ProcessMark::of(runner).unwrap().kill());
    world.wait_until("the run has vanished", |_| run.state().unwrap() == RunState::Vanished);
    assert!(command.kill());

    let second = world.run(&run);
    assert!(world.end_of(second).success());
    assert_eq!(run.state().unwrap(), RunState::Vanished);
    let starts = fs::read_to_string(world.path().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 1);
    run.cancel().unwrap();
    run.remove().unwrap();
}

#[test]
fn when_a_holder_stops_a_running_command_counts_as_cancelled() {
    let mut world = World::new();
    let run = world.prepare(&world.script("cd $1; echo $$ > command; exec sleep 300"), b"");
    let script =
        format!("{} run {} & exec sleep 300", env!("CARGO_BIN_EXE_holder-fixture"), run.path().display(),);
    let holder = world.hold(&script);
    let command = world.process_in("command");
    terminate(holder);
    world.end_of(holder);
    assert!(!command.is_alive());
    assert_eq!(world.exit_of(&run).how, How::Cancelled);
}

/// Finding A1: a runner that meets the limit of open files before its command has started leaves the run for the next one.
#[test]
fn limit_of_open_files_leaves_the_run_to_be_tried_again() {
    let mut was_left = 0;
    for files in 6..=24 {
        let mut world = World::new();
        let run = world.prepare(&world.argv(&["cat"]), b"hello");
        let shell = format!("ulimit -n {files}; exec \"$0\" run \"$1\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &shell, env!("CARGO_BIN_EXE_holder-fixture")]).arg(run.path());
        run.spawn_runner(command).unwrap().wait().unwrap();
        if run.state().unwrap() == RunState::Prepared {
            was_left += 1;
            world.run(&run);
        }
        let exit = world.exit_of(&run);
        assert_eq!((exit.how, exit.code), (How::Exited, Some(0)), "with {files} files: {exit:?}");
        assert_eq!(run.read_out_from(0, 100).unwrap(), b"hello", "with {files} files");
    }
    assert!(was_left > 3, "{was_left}");
}
