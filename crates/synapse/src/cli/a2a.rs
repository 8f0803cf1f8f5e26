//! `synapse a2a`: what one does with A2A besides sending and being sent to.

mod doctor;
mod serve;

use super::{Calling, block_on, examples};
use crate::fail::Done;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum A2aCommand {
    /// Serve a script or any command as an A2A agent, until Ctrl-C
    #[command(after_help = examples::A2A_SERVE)]
    Serve(Box<serve::Serve>),
    /// Check any A2A server: what is not as the protocol has it, and what to change
    #[command(after_help = examples::A2A_DOCTOR)]
    Doctor(doctor::Doctor),
}

pub(super) fn a2a(command: A2aCommand, calling: &Calling, json: bool) -> Done {
    match command {
        A2aCommand::Serve(args) => serve::serve(*args, json),
        A2aCommand::Doctor(args) => block_on(doctor::doctor(args, calling, json)),
    }
}
