//! `synapse a2a serve`: any command as an A2A server, in one line.

use super::super::{Run, Who, run};
use crate::fail::{Done, Fail};
use clap::{Args, ValueEnum};
use synapse_node::launch::Extension;

#[derive(Args)]
pub(in crate::cli) struct Serve {
    #[command(flatten)]
    who: Who,
    /// Run this shell command for each task (prompt on stdin, reply on stdout)
    #[arg(long, value_name = "COMMAND", required_unless_present = "echo")]
    exec: Option<String>,
    /// Echo every message back
    #[arg(long, conflicts_with_all = ["exec", "jsonl", "parallel", "history"])]
    echo: bool,
    /// Exchange events with the command, one JSON object per line
    #[arg(long)]
    jsonl: bool,
    /// Maximum number of concurrent tasks
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Include this many earlier turns of the conversation
    #[arg(long, value_name = "TURNS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=200))]
    history: u16,
    /// Require your token from callers, or nothing (loopback only)
    #[arg(long, value_enum, default_value_t = Auth::Token)]
    auth: Auth,
    /// Declare support for this A2A extension (repeatable)
    #[arg(long = "extension", value_name = "URI")]
    extensions: Vec<String>,
    /// Require this A2A extension from callers (repeatable)
    #[arg(long = "require-extension", value_name = "URI")]
    required: Vec<String>,
    /// Run in the background
    #[arg(short, long)]
    detach: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Auth {
    Token,
    None,
}

pub(super) fn serve(args: Serve, json: bool) -> Done {
    let open = args.auth == Auth::None;
    if open && args.who.network.listen.is_some_and(|address| !address.to_canonical().is_loopback()) {
        return Err(Fail::usage(
            "--auth none is for this machine alone: anybody who reaches another address could give it work; \
             leave out --listen, or --auth none",
        ));
    }
    let run = Run {
        new: false,
        type_when: None,
        who: args.who,
        exec: args.exec,
        echo: args.echo,
        program: Vec::new(),
        acp: false,
        jsonl: args.jsonl,
        parallel: args.parallel,
        time_limit: None,
        output_limit: None,
        history: args.history,
        detach: args.detach,
    };
    let extension = |required| move |uri| Extension { uri, required };
    let known = args.extensions.into_iter().map(extension(false));
    let extensions = known.chain(args.required.into_iter().map(extension(true))).collect();
    run::serve(run, open, extensions, json)
}
