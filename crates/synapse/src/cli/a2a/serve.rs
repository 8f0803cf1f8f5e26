//! `synapse a2a serve`: any command as an A2A server, in one line.

use super::super::{Run, Who, run};
use crate::fail::{Done, Fail};
use clap::{Args, ValueEnum};
use synapse_node::launch::Extension;

#[derive(Args)]
pub(in crate::cli) struct Serve {
    #[command(flatten)]
    who: Who,
    /// The command, run by the shell for each task: prompt on stdin, answer on stdout, exit code = outcome
    #[arg(long, value_name = "COMMAND", required_unless_present = "echo")]
    exec: Option<String>,
    /// No command: answer each message with itself, to try a client out
    #[arg(long, conflicts_with_all = ["exec", "jsonl", "parallel", "history"])]
    echo: bool,
    /// The command speaks events, one JSON per line, both ways: it streams, asks, and makes artifacts
    #[arg(long)]
    jsonl: bool,
    /// Tasks at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Earlier turns of the conversation to give with a message
    #[arg(long, value_name = "TURNS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=200))]
    history: u16,
    /// What callers must bring: the token of this machine's user, or nothing (on this machine alone)
    #[arg(long, value_enum, default_value_t = Auth::Token)]
    auth: Auth,
    /// An extension of the protocol that the program knows; may be given several times
    #[arg(long = "extension", value_name = "URI")]
    extensions: Vec<String>,
    /// One that callers must know too
    #[arg(long = "require-extension", value_name = "URI")]
    required: Vec<String>,
    /// Return when it runs; it goes on in the background
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
