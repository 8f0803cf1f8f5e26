//! `synapse a2a`: what one does with A2A besides sending and being sent to.

mod doctor;
mod serve;

use super::{Calling, block_on, examples};
use crate::fail::Done;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum A2aCommand {
    /// Serve a command as an A2A agent until Ctrl-C
    #[command(after_help = examples::A2A_SERVE)]
    Serve(Box<serve::Serve>),
    /// Check an A2A server against the specification
    #[command(after_help = examples::A2A_DOCTOR)]
    Doctor(doctor::Doctor),
}

pub(super) fn a2a(command: A2aCommand, calling: &Calling, json: bool) -> Done {
    match command {
        A2aCommand::Serve(args) => serve::serve(*args, json),
        A2aCommand::Doctor(args) => block_on(doctor::doctor(args, calling, json)),
    }
}
