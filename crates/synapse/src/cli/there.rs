//! A node elsewhere, called by its URL, where a target is otherwise an agent of this machine (REST-8).

use super::Calling;
use crate::fail::Fail;
use std::path::PathBuf;
use std::time::Duration;
use synapse_dialects::status::StatusView;
use synapse_peer::a2a::HttpUrl;
use synapse_peer::{CallError, Client, Credentials, Url};
use synapse_tls::ClientFiles;

/// How long a node elsewhere may be between two lives.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct There {
    url: Url,
    with: Credentials,
}

impl There {
    /// The node that a target names by its URL; none if the target is no URL.
    pub(super) fn named(target: &str, calling: &Calling) -> Result<Option<Self>, Fail> {
        if !Url::is_meant(target) {
            return Ok(None);
        }
        Ok(Some(Self::of(Url::parse(target).map_err(Fail::usage)?, calling)))
    }

    /// The node at the host of a URL.
    pub(super) fn at(url: &HttpUrl, calling: &Calling) -> Self {
        Self::of(url.origin().clone(), calling)
    }

    fn of(url: Url, calling: &Calling) -> Self {
        // A flag says all there is to say; a pair is not mixed from a flag and the environment.
        let pair = match (&calling.cert, &calling.key) {
            (None, None) => (from_env("SYNAPSE_CERT"), from_env("SYNAPSE_KEY")),
            (cert, key) => (cert.clone(), key.clone()),
        };
        let tls = ClientFiles {
            ca: calling.ca.clone().or_else(|| from_env("SYNAPSE_CA")),
            cert: pair.0,
            key: pair.1,
        };
        let (token_file, token_env) = match (&calling.token_file, &calling.token_env) {
            (None, None) => (from_env("SYNAPSE_TOKEN_FILE"), None),
            (file, variable) => (file.clone(), variable.clone()),
        };
        Self { url, with: Credentials { tls, token_file, token_env } }
    }

    pub(super) async fn connect(&self) -> Result<Client, CallError> {
        Client::connect_to(&self.url, &self.with).await
    }

    /// Asks on a connection of its own, again if the node is just being restarted.
    pub(super) async fn ask<T>(
        &self,
        mut ask: impl AsyncFnMut(&mut Client) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        super::wait::patiently(PATIENCE, async || ask(&mut self.connect().await?).await).await
    }

    pub(super) async fn status(&self) -> Result<StatusView, CallError> {
        self.ask(async |client| client.get("/status").await).await
    }
}

impl std::fmt::Display for There {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.url.fmt(f)
    }
}

pub(super) fn from_env(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
