//! The server's side of TLS: configurations from files, reloaded when the files change.
//!
//! Invariant: once a pair has worked, a broken file does not end service; the last valid one stays
//! in use.
//! Not here: sockets, handshakes, timeouts.

use crate::certificate::{Certificate, Standing};
use crate::files::{self, FileError, Stamp};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The minimum interval between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// If set, callers must present a certificate of this CA.
    pub client_ca: Option<PathBuf>,
}

/// The configuration from one version of the files.
pub struct Loaded {
    pub config: Arc<ServerConfig>,
    /// The names in our certificate, which callers may use for us.
    pub hosts: Arc<[String]>,
}

pub struct Server {
    files: ServerFiles,
    state: Mutex<State>,
}

struct State {
    loaded: Arc<Loaded>,
    stamps: [Stamp; 3],
    looked: Instant,
    /// Why the newest files are not in use, as last logged.
    trouble: Option<String>,
}

impl Server {
    pub fn load(files: ServerFiles) -> Result<Self, FileError> {
        let stamps = stamps(&files);
        let loaded = Arc::new(load(&files)?);
        let state = State { loaded, stamps, looked: Instant::now(), trouble: None };
        Ok(Self { files, state: Mutex::new(state) })
    }

    /// Returns the newest valid configuration; checks the files from time to time.
    pub fn current(&self, now: Instant) -> Arc<Loaded> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(state.looked) >= LOOK_EVERY {
            state.looked = now;
            self.look(&mut state);
        }
        state.loaded.clone()
    }

    /// Checks the files. Files that were invalid last time are tried again even if they look the
    /// same: a certificate and its key are replaced one after the other, possibly within the
    /// resolution of file times.
    fn look(&self, state: &mut State) {
        let stamps = stamps(&self.files);
        if stamps == state.stamps && state.trouble.is_none() {
            return;
        }
        state.stamps = stamps;
        match load(&self.files) {
            Ok(loaded) => {
                state.loaded = Arc::new(loaded);
                state.trouble = None;
                tracing::info!(cert = %self.files.cert.display(), "the changed certificate is in use");
            }
            Err(e) => {
                let why = e.to_string();
                if state.trouble.as_deref() != Some(why.as_str()) {
                    tracing::warn!(%why, "changed TLS files are not good; the ones before stay in use");
                }
                state.trouble = Some(why);
            }
        }
    }
}

fn stamps(files: &ServerFiles) -> [Stamp; 3] {
    let ca = files.client_ca.as_ref().unwrap_or(&files.cert);
    [&files.cert, &files.key, ca].map(Stamp::of)
}

fn load(files: &ServerFiles) -> Result<Loaded, FileError> {
    let damaged = |path: &PathBuf, why: String| FileError::Damaged { path: path.clone(), why };
    let chain = files::certificates(&files.cert)?;
    let key = files::key(&files.key)?;
    let own = Certificate::read(&chain[0]).map_err(|why| damaged(&files.cert, why))?;
    if let Standing::NotYet | Standing::Expired { .. } = own.standing(crate::now_s()) {
        tracing::warn!(
            cert = %files.cert.display(),
            "this certificate does not hold now, so callers will refuse it; `synapse keys certs show` tells more"
        );
    }
    let builder = ServerConfig::builder_with_provider(crate::provider())
        .with_protocol_versions(crate::VERSIONS)
        .map_err(|e| damaged(&files.cert, e.to_string()))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, crate::provider()).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| damaged(path, e.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => {
            FileError::OtherKey { cert: files.cert.clone(), key: files.key.clone() }
        }
        // The error text of the library could quote the file.
        rustls::Error::General(_) => damaged(&files.key, "it is no key of a kind that is known here".into()),
        e => damaged(&files.cert, e.to_string()),
    })?;
    config.alpn_protocols = vec![crate::HTTP2.to_vec(), crate::HTTP1.to_vec()];
    // Every connection authenticates again: nothing of a certificate outlives the connection, and
    // nothing is stored.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Loaded { config: Arc::new(config), hosts: own.hosts().collect() })
}

/// Loads the CA certificates in a file, all of which must be usable.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|e| FileError::Damaged { path: path.to_owned(), why: e.to_string() })?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make::{Authority, Pair, Span};
    use std::os::unix::fs::PermissionsExt;

    fn put(dir: &Path, pair: &Pair) {
        for (name, text) in [("cert", &pair.cert), ("key", &pair.key)] {
            let draft = dir.join("draft");
            std::fs::write(&draft, text).unwrap();
            std::fs::set_permissions(&draft, PermissionsExt::from_mode(0o600)).unwrap();
            std::fs::rename(draft, dir.join(name)).unwrap();
        }
    }

    /// A new pair is used, at most one check per second; a broken one is not, until it is fixed.
    #[test]
    fn changed_files_are_taken_only_if_they_are_good() {
        let dir = tempfile::tempdir().unwrap();
        let span = Span::days(crate::now_s(), 1);
        let authority = Authority::make("Test authority", span).unwrap();
        let pair = |name: &str| authority.server(&[name.to_owned()], span).unwrap();
        let (one, two) = (pair("one"), pair("two"));
        put(dir.path(), &one);
        let files =
            ServerFiles { cert: dir.path().join("cert"), key: dir.path().join("key"), client_ca: None };
        let server = Server::load(files).unwrap();
        let mut now = Instant::now();
        let mut host = |after_ms: u64| {
            now += Duration::from_millis(after_ms);
            server.current(now).hosts[0].clone()
        };
        assert_eq!(host(0), "one");
        put(dir.path(), &two);
        assert_eq!(host(500), "one", "not yet looked");
        assert_eq!(host(600), "two");
        let bad: [(&str, &str); 3] = [("cert", "garbage"), ("cert", &one.cert), ("key", &one.key)];
        for (name, text) in bad {
            put(dir.path(), &two);
            std::fs::write(dir.path().join(name), text).unwrap();
            assert_eq!(host(2_000), "two", "{name}: {text}");
        }
        put(dir.path(), &one);
        assert_eq!(host(2_000), "one");
        std::fs::remove_file(dir.path().join("key")).unwrap();
        assert_eq!(host(2_000), "one");
    }

    #[test]
    fn a_key_of_another_certificate_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let span = Span::days(crate::now_s(), 1);
        let authority = Authority::make("Test authority", span).unwrap();
        let pair = |name: &str| authority.server(&[name.to_owned()], span).unwrap();
        put(dir.path(), &Pair { cert: pair("one").cert, key: pair("two").key });
        let files =
            ServerFiles { cert: dir.path().join("cert"), key: dir.path().join("key"), client_ca: None };
        let told = Server::load(files).err().unwrap().to_string();
        assert!(told.contains("does not belong to the certificate"), "{told}");
    }
}
