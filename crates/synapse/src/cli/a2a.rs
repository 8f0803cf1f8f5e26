//! `synapse a2a`: serves agents over A2A, keeps names for remote agents, and checks A2A servers.
//!
//! Not here: the commands about remotes (`cli/remote`).

mod doctor;
mod serve;

use super::remote::{self, RemoteCommand};
use super::{Calling, block_on, examples};
use crate::fail::Done;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum A2aCommand {
    /// Serve a command as an A2A agent until Ctrl-C
    #[command(after_help = examples::A2A_SERVE)]
    Serve(Box<serve::Serve>),
    #[command(flatten)]
    Remote(RemoteCommand),
    /// Check an A2A server against the specification
    #[command(after_help = examples::A2A_DOCTOR)]
    Doctor(doctor::Doctor),
}

pub(super) fn a2a(command: A2aCommand, calling: &Calling, json: bool) -> Done {
    match command {
        A2aCommand::Serve(args) => serve::serve(*args, json),
        A2aCommand::Remote(command) => block_on(remote::remote(command, calling, json)),
        A2aCommand::Doctor(args) => block_on(doctor::doctor(args, calling, json)),
    }
}
