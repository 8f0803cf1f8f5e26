//! `synapse a2a`: what one does with A2A servers besides sending to them.

mod doctor;

use super::{Calling, examples};
use crate::fail::Done;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum A2aCommand {
    /// Check any A2A server: what is not as the protocol has it, and what to change
    #[command(after_help = examples::A2A_DOCTOR)]
    Doctor(doctor::Doctor),
}

pub(super) async fn a2a(command: A2aCommand, calling: &Calling, json: bool) -> Done {
    match command {
        A2aCommand::Doctor(args) => doctor::doctor(args, calling, json).await,
    }
}
