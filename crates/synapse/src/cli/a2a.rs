//! `synapse a2a`: what one does with A2A besides sending and being sent to.

mod serve;

use super::examples;
use crate::fail::Done;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum A2aCommand {
    /// Serve a script or any command as an A2A agent, until Ctrl-C
    #[command(after_help = examples::A2A_SERVE)]
    Serve(Box<serve::Serve>),
}

pub(super) fn a2a(command: A2aCommand, json: bool) -> Done {
    match command {
        A2aCommand::Serve(args) => serve::serve(*args, json),
    }
}
