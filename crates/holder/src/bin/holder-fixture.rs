//! For the tests: a process that holds, runs, or ends a tree.
//!
//! Invariant: one verb, one call into the crate, and an exit code that tells
//! how it went.
//! Not here: anything a user would start; that is the `synapse` binary.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use synapse_holder::{Ended, Reaper, claim, hold, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["hold", agent, program, rest @ ..] => {
            let node = || {
                let mut command = Command::new(program);
                command.args(rest);
                command
            };
            match claim(Path::new(agent)).and_then(|claim| hold(&claim, node, None)) {
                Ok(Ended::Stopped) => ExitCode::SUCCESS,
                Ok(Ended::CannotRun) => ExitCode::from(78),
                Ok(Ended::Program(_)) => ExitCode::FAILURE,
                Err(error) => failed(&error),
            }
        }
        ["run", dir] => match run(Path::new(dir)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        // Starts a program, and ends its tree when told to stop.
        ["tree", grace_ms, program, rest @ ..] => match tree(grace_ms, program, rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(error.as_ref()),
        },
        _ => {
            eprintln!("usage: holder-fixture hold|run|tree ...");
            ExitCode::from(2)
        }
    }
}

fn tree(grace_ms: &str, program: &str, rest: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let grace = Duration::from_millis(grace_ms.parse()?);
    let reaper = Reaper::stand()?;
    Command::new(program).args(rest).spawn()?;
    while !reaper.told_to_stop() {
        reaper.reap()?;
        reaper.wait(None)?;
    }
    reaper.end_tree(grace)?;
    Ok(())
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
