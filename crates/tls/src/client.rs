//! The client's side of TLS: which CAs to trust, which certificate to present, and errors as text.
//!
//! Each way in which trust can fail is a variant of `Trouble`, with the command that helps.

use crate::files::{self, FileError};
use crate::server::roots;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The only CA certificate to trust; without it, those of the system.
    pub ca: Option<PathBuf>,
    /// Our own certificate.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("a certificate needs its key, and a key its certificate: give both --cert and --key")]
    HalfAPair,
    #[error(
        "no authority to believe: this machine has no bundle of public ones; name yours with --ca FILE or SYNAPSE_CA"
    )]
    NoAuthority,
    #[error("{host:?} is no name that a certificate can have")]
    BadHost { host: String },
    #[error("TLS cannot be used: {0}")]
    Unusable(Error),
}

/// Where systems keep the public CA certificates.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

pub fn config(files: &ClientFiles) -> Result<Arc<ClientConfig>, SetupError> {
    let roots = match &files.ca {
        Some(path) => roots(path)?,
        None => public_roots()?,
    };
    let builder = ClientConfig::builder_with_provider(crate::provider())
        .with_protocol_versions(crate::VERSIONS)
        .map_err(SetupError::Unusable)?
        .with_root_certificates(roots);
    let mut config = match (&files.cert, &files.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let chain = files::certificates(cert)?;
            builder.with_client_auth_cert(chain, files::key(key)?).map_err(|e| match e {
                Error::InconsistentKeys(_) => FileError::OtherKey { cert: cert.clone(), key: key.clone() },
                _ => FileError::Damaged { path: key.clone(), why: "it cannot be used".into() },
            })?
        }
        _ => return Err(SetupError::HalfAPair),
    };
    config.alpn_protocols = vec![crate::HTTP1.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Returns the name that a server has to prove.
pub fn server_name(host: &str) -> Result<ServerName<'static>, SetupError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).map_err(|_| SetupError::BadHost { host: host.to_owned() })
}

/// Loads the public CA certificates. Unusable entries are skipped, since bundles contain outdated
/// ones.
fn public_roots() -> Result<RootCertStore, SetupError> {
    let named = std::env::var_os("SSL_CERT_FILE").filter(|name| !name.is_empty()).map(PathBuf::from);
    let bundle = named.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file()));
    let mut roots = RootCertStore::empty();
    if let Some(bundle) = bundle {
        roots.add_parsable_certificates(files::certificates(&bundle)?);
    }
    if roots.is_empty() { Err(SetupError::NoAuthority) } else { Ok(roots) }
}

/// Why we and a server do not trust each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Expired,
    NotYetValid,
    WrongHost,
    UnknownIssuer,
    BadServerCertificate,
    OwnCertificateNeeded,
    OwnCertificateExpired,
    OwnCertificateUnknown,
    OwnCertificateRefused,
    /// The server does not speak TLS.
    PlainServer,
    /// The server closed the connection during the handshake.
    HungUp,
    Other,
}

impl Trouble {
    /// Looks for a TLS error among the causes of an error.
    pub fn among(error: &(dyn std::error::Error + 'static)) -> Option<(Self, String)> {
        let mut cause = Some(error);
        while let Some(one) = cause {
            if let Some(tls) = one.downcast_ref::<Error>() {
                return Some((Self::of(tls), tls.to_string()));
            }
            // `source` of an I/O error skips the error inside it, so use `get_ref`.
            let inner = one.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            cause = match inner {
                Some(inner) => Some(inner),
                None => one.source(),
            };
        }
        None
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(bad) => match bad {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Self::NotYetValid
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    Self::WrongHost
                }
                CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownIssuer,
                _ => Self::BadServerCertificate,
            },
            Error::AlertReceived(alert) => match alert {
                AlertDescription::CertificateRequired => Self::OwnCertificateNeeded,
                AlertDescription::CertificateExpired => Self::OwnCertificateExpired,
                // The latter if another CA has the same name.
                AlertDescription::UnknownCA | AlertDescription::DecryptError => Self::OwnCertificateUnknown,
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateUnknown
                | AlertDescription::AccessDenied => Self::OwnCertificateRefused,
                _ => Self::Other,
            },
            Error::InvalidMessage(_) => Self::PlainServer,
            _ => Self::Other,
        }
    }

    /// Returns a stable name for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Expired => "certificate_expired",
            Self::NotYetValid => "certificate_not_yet_valid",
            Self::WrongHost => "wrong_host",
            Self::UnknownIssuer => "unknown_issuer",
            Self::BadServerCertificate => "bad_certificate",
            Self::OwnCertificateNeeded => "client_certificate_required",
            Self::OwnCertificateExpired => "client_certificate_expired",
            Self::OwnCertificateUnknown => "client_certificate_unknown",
            Self::OwnCertificateRefused => "client_certificate_refused",
            Self::PlainServer => "not_tls",
            Self::HungUp => "hung_up",
            Self::Other => "tls_failed",
        }
    }

    /// Describes what happened and what helps; `told` is the text of the TLS library.
    // tidy: table
    pub fn words(self, address: &str, ca: Option<&Path>, told: &str) -> String {
        match self {
            Self::Expired => format!(
                "the certificate of {address} has expired; renew it there (`synapse keys certs make --force`), \
                 the node takes the new one by itself. In detail: {told}"
            ),
            Self::NotYetValid => {
                format!(
                    "the certificate of {address} is not valid yet; compare the clocks of both machines (`date`)"
                )
            }
            Self::WrongHost => format!(
                "the certificate of {address} is for other names ({told}); call it by one of them, \
                 or make one for this name there: `synapse keys certs make --force --name <HOST>`"
            ),
            Self::UnknownIssuer => match ca {
                Some(ca) => format!(
                    "the certificate of {address} was not made by the authority in {}; \
                     it may be another server. `synapse keys certs show {}` shows whom you trust",
                    ca.display(),
                    ca.display()
                ),
                None => format!(
                    "the certificate of {address} is self-signed or of a private authority; \
                     if you trust it, name the authority's certificate: --ca FILE (or SYNAPSE_CA)"
                ),
            },
            Self::BadServerCertificate => format!("the certificate of {address} cannot be used: {told}"),
            Self::OwnCertificateNeeded => format!(
                "{address} lets in only callers with a certificate; show yours with --cert FILE --key FILE \
                 (there, `synapse keys certs make --client <NAME>` makes one)"
            ),
            Self::OwnCertificateExpired => format!(
                "{address} refused your certificate because it has expired; \
                 have a new one made there: `synapse keys certs make --force --client <NAME>`"
            ),
            Self::OwnCertificateUnknown => format!(
                "{address} refused your certificate because its authority is not the one it trusts; \
                 have one made there: `synapse keys certs make --client <NAME>`"
            ),
            Self::OwnCertificateRefused => {
                format!(
                    "{address} refused your certificate ({told}); `synapse keys certs show FILE` tells what is in it"
                )
            }
            Self::PlainServer => {
                format!(
                    "{address} does not speak TLS; call it as http:// or start it with --tls-cert and --tls-key"
                )
            }
            Self::HungUp => format!(
                "{address} hung up during the handshake; it may not speak TLS (try http://), or be overloaded"
            ),
            Self::Other => format!("no secure connection to {address}: {told}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_trust_has_a_name_of_its_own() {
        let bad = |e| Error::InvalidCertificate(e);
        let alert = Error::AlertReceived;
        let table = [
            (bad(CertificateError::Expired), "certificate_expired"),
            (bad(CertificateError::NotValidYet), "certificate_not_yet_valid"),
            (bad(CertificateError::NotValidForName), "wrong_host"),
            (bad(CertificateError::UnknownIssuer), "unknown_issuer"),
            (bad(CertificateError::BadEncoding), "bad_certificate"),
            (alert(AlertDescription::CertificateRequired), "client_certificate_required"),
            (alert(AlertDescription::CertificateExpired), "client_certificate_expired"),
            (alert(AlertDescription::UnknownCA), "client_certificate_unknown"),
            (alert(AlertDescription::BadCertificate), "client_certificate_refused"),
            (Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType), "not_tls"),
            (Error::DecryptError, "tls_failed"),
        ];
        for (error, code) in table {
            // As it comes from a socket: in an I/O error, inside an error of the HTTP library.
            let outer = std::io::Error::other(std::io::Error::new(std::io::ErrorKind::InvalidData, error));
            let (trouble, told) = Trouble::among(&outer).unwrap();
            assert_eq!(trouble.code(), code);
            assert!(trouble.words("h:1", None, &told).contains("h:1"), "{code}");
        }
        assert_eq!(Trouble::among(&std::io::Error::other("no")), None);
    }

    #[test]
    fn names_of_servers() {
        for host in ["localhost", "a.example.org", "127.0.0.1", "[::1]"] {
            assert!(server_name(host).is_ok(), "{host}");
        }
        for host in ["", "a b", "a/b"] {
            assert!(server_name(host).is_err(), "{host}");
        }
    }
}
