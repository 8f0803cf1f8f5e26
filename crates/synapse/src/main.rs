//! `synapse`: parse, run, exit code.
//!
//! The processes under an agent (`__hold`, `__node`, `__run`, `__hook`, `__teach`, `__tty`, `__demo`), and what
//! completions ask (`__complete`), are this same binary on short paths of their own, taken before anything else is set up.

mod agents;
mod cli;
mod demo;
mod diff;
mod doctor;
mod fail;
mod hook;
mod launch;
mod learn;
mod logfile;
mod processes;
mod profiles;
mod program;
mod register;
mod remove;
mod resume;
mod show;
mod teach;
mod tells;
mod viewer;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Tokens pass through every one of our processes.
    synapse_holder::cores::forbid();
    let mut args = std::env::args_os().skip(1);
    let first = args.next().unwrap_or_default();
    if let Some(code) = processes::inner(first.to_str().unwrap_or_default(), args) {
        return code;
    }
    cli::main()
}
