//! `synapse keys`: the tokens of HTTP callers and the certificates of TLS.
//!
//! Not here: how tokens are replaced (`cli/token`), how certificates are made (`cli/certs`).

use super::{certs, examples, token};
use crate::fail::Done;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum Keys {
    /// Rotate and locate the tokens of HTTP callers
    #[command(subcommand, after_help = examples::KEYS_TOKEN)]
    Token(token::Token),
    /// Make and inspect TLS certificates
    #[command(subcommand, after_help = examples::KEYS_CERTS)]
    Certs(certs::Certs),
}

pub(super) fn keys(args: Keys, json: bool) -> Done {
    match args {
        Keys::Token(args) => token::token(args, json),
        Keys::Certs(args) => certs::certs(args, json),
    }
}
