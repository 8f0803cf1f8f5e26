//! `synapse history`: what was said and what became of it, from the journals of all agents, running or not.
//!
//! The journals are only read, on connections of our own; a node notices nothing of it. A journal that cannot be
//! read is named, and the rest is shown.

mod export;
mod list;
mod mermaid;
mod search;
mod shelf;
mod show;
mod snippet;
mod tree;
mod when;

use crate::fail::Done;
use clap::{Args, Subcommand};
use synapse_core::Timestamp;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct History {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    list: List,
}

#[derive(Subcommand)]
enum What {
    /// Search messages and replies
    Search(Search),
    /// Show the conversation of a message or task as a tree
    Show(Show),
    /// Export everything as JSON, one record per line
    Export(Export),
}

/// Which time.
#[derive(Args, Clone, Copy)]
struct Span {
    /// Since this time: 2h, 30m, 3d, today, 2026-11-16, 2026-11-16T09:30
    #[arg(long, value_name = "TIME", value_parser = when::since)]
    since: Option<Timestamp>,
    /// Until this time; a day counts to its end
    #[arg(long, value_name = "TIME", value_parser = when::until)]
    until: Option<Timestamp>,
}

#[derive(Args)]
struct List {
    /// Agent [default: all]
    agent: Option<String>,
    #[command(flatten)]
    span: Span,
    /// Show only messages from this agent, caller or `user`
    #[arg(long, value_name = "WHO")]
    from: Option<String>,
    /// Show only this task (id or its first eight digits)
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Show at most this many, the newest
    #[arg(short = 'n', long, alias = "max", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Args)]
struct Search {
    /// Words that must all occur, taken literally
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Agent [default: all]
    agent: Option<String>,
    #[command(flatten)]
    span: Span,
    /// Show at most this many, the newest
    #[arg(short = 'n', long, alias = "max", value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

#[derive(Args)]
struct Show {
    /// Message or task id, or its first eight characters
    id: String,
    /// Print a Mermaid sequence diagram
    #[arg(long)]
    mermaid: bool,
}

#[derive(Args)]
struct Export {
    /// Agent [default: all]
    agent: Option<String>,
    #[command(flatten)]
    span: Span,
}

pub(super) fn history(args: History, json: bool) -> Done {
    match args.what {
        None => list::list(&args.list, json),
        Some(What::Search(args)) => search::search(&args, json),
        Some(What::Show(args)) => show::show(&args, json),
        Some(What::Export(args)) => export::export(&args),
    }
}
