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
    /// Find words in messages and answers, in any language
    Search(Search),
    /// Show the whole conversation that a message or task belongs to, as a tree
    Show(Show),
    /// Print everything as JSON, one record per line
    Export(Export),
}

/// Which time.
#[derive(Args, Clone, Copy)]
struct Span {
    /// From then on: 2h, 30m, 3d (ago), today, 2026-11-16, 2026-11-16T09:30, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = when::since)]
    since: Option<Timestamp>,
    /// Up to then; a day counts to its end
    #[arg(long, value_name = "TIME", value_parser = when::until)]
    until: Option<Timestamp>,
}

#[derive(Args)]
struct List {
    /// Whose mail; default: everybody's
    agent: Option<String>,
    #[command(flatten)]
    span: Span,
    /// Only what this one sent: an agent, `user`, or the name of a caller
    #[arg(long, value_name = "WHO")]
    from: Option<String>,
    /// Only this task: its id, or its first eight digits
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// At most this many, the newest
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max: u32,
}

#[derive(Args)]
struct Search {
    /// Words, all of which must be in it; nothing in them has a special meaning
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Whose mail; default: everybody's
    agent: Option<String>,
    #[command(flatten)]
    span: Span,
    /// At most this many, the newest
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max: u32,
}

#[derive(Args)]
struct Show {
    /// A message or a task: its id, or the first eight characters of it
    id: String,
    /// As a sequence diagram, in the language of Mermaid
    #[arg(long)]
    mermaid: bool,
}

#[derive(Args)]
struct Export {
    /// Whose history; default: everybody's
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
