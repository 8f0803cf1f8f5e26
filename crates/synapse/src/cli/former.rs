//! Commands under their former names. They work as before, and no list of commands shows them.
//!
//! Scripts may use them for good: what they print, with `--json` too, does not change.

use super::{Calling, block_on, certs, examples, follow, record, remote, status, token, uninstall};
use crate::fail::Done;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum Former {
    /// Show an agent's state and open tasks
    #[command(hide = true, after_help = examples::STATUS)]
    Status(status::Status),
    /// Unsubscribe from what an agent shares
    #[command(hide = true, after_help = examples::UNFOLLOW)]
    Unfollow(follow::Unfollow),
    /// Record a terminal and the states detected in it
    #[command(hide = true, after_help = examples::RECORD)]
    Record(record::Record),
    /// Add and manage A2A agents on other hosts
    #[command(hide = true, subcommand, after_help = examples::REMOTE)]
    Remote(remote::RemoteCommand),
    /// Rotate and locate the tokens of HTTP callers
    #[command(hide = true, subcommand, after_help = examples::TOKEN)]
    Token(token::Token),
    /// Make and inspect TLS certificates
    #[command(hide = true, subcommand, after_help = examples::CERTS)]
    Certs(certs::Certs),
    /// Stop all agents and remove all data
    #[command(hide = true, after_help = examples::UNINSTALL)]
    Uninstall(uninstall::Uninstall),
}

pub(super) fn dispatch(command: Former, calling: &Calling, json: bool) -> Done {
    match command {
        Former::Status(args) => block_on(status::status(args, calling, json)),
        Former::Unfollow(args) => block_on(follow::unfollow(args, json)),
        Former::Record(args) => record::record(args, json),
        Former::Remote(args) => block_on(remote::remote(args, calling, json)),
        Former::Token(args) => token::token(args, json),
        Former::Certs(args) => certs::certs(args, json),
        Former::Uninstall(args) => block_on(uninstall::uninstall(&args, json)),
    }
}
