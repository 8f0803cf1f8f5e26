//! Creates certificates: a private CA, and the certificates it signs for servers and clients.
//!
//! Not here: files, and which names a machine has.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The validity of a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from_s: u64,
    pub to_s: u64,
}

impl Span {
    /// Begins an hour ago, for clocks that are behind ours.
    pub fn days(now_s: u64, days: u32) -> Self {
        Self { from_s: now_s.saturating_sub(3_600), to_s: now_s.saturating_add(u64::from(days) * 86_400) }
    }
}

/// A certificate and its key, both PEM.
pub struct Pair {
    pub cert: String,
    pub key: String,
}

/// A private CA. Whoever has its key can impersonate any server or client to those who trust it.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    cert: String,
    der: CertificateDer<'static>,
}

#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error("{name:?} cannot be in a certificate: {why}")]
    BadName { name: String, why: String },
    #[error(
        "the authority was not made by `synapse keys certs make` ({why}); sign with the tool that made it"
    )]
    OtherAuthority { why: String },
    #[error("a certificate could not be made: {0}")]
    Failed(#[from] rcgen::Error),
}

impl Authority {
    pub fn make(name: &str, span: Span) -> Result<Self, MakeError> {
        Self::with_key(name, span, &new_key()?)
    }

    pub fn with_key(name: &str, span: Span, key: &str) -> Result<Self, MakeError> {
        let key = KeyPair::from_pem(key)?;
        let mut params = authority_params(name);
        hold(&mut params, span);
        let certificate = params.self_signed(&key)?;
        let (cert, der) = (certificate.pem(), certificate.der().clone());
        Ok(Self { issuer: Issuer::new(params, key), cert, der })
    }

    /// Opens an existing CA. Its subject is rebuilt from its name, so a CA of another program is
    /// refused: certificates it signed would name another issuer.
    pub fn open(cert: &str, key: &str) -> Result<Self, MakeError> {
        let other = |why: String| MakeError::OtherAuthority { why };
        let der = CertificateDer::from_pem_slice(cert.as_bytes()).map_err(|e| other(e.to_string()))?;
        let read = crate::Certificate::read(&der).map_err(other)?;
        let name = read.common_name.as_deref().filter(|_| read.is_authority);
        let name = name.ok_or_else(|| other("it may not sign others".into()))?;
        let key = KeyPair::from_pem(key).map_err(|_| other("its key cannot be read".into()))?;
        let issuer = Issuer::new(authority_params(name), key);
        let opened = Self { issuer, cert: cert.to_owned(), der };
        opened.check().map_err(other)?;
        Ok(opened)
    }

    /// Checks that a certificate it signs is accepted by its own certificate: key, subject and
    /// rights fit together.
    fn check(&self) -> Result<(), String> {
        let wrong = |e: rustls::Error| e.to_string();
        let now = crate::now_s();
        let trial = leaf("trial", ExtendedKeyUsagePurpose::ClientAuth, Span::days(now, 1));
        let key = KeyPair::generate().map_err(|e| e.to_string())?;
        let trial = trial.signed_by(&key, &self.issuer).map_err(|e| e.to_string())?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.der.clone()).map_err(wrong)?;
        let builder = rustls::server::WebPkiClientVerifier::builder_with_provider(
            std::sync::Arc::new(roots),
            crate::provider(),
        );
        let verifier = builder.build().map_err(|e| e.to_string())?;
        let time = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        verifier.verify_client_cert(trial.der(), &[], time).map(drop).map_err(wrong)
    }

    pub fn cert_pem(&self) -> &str {
        &self.cert
    }

    pub fn cert_der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Creates a certificate for a server with these names and addresses.
    pub fn server(&self, names: &[String], span: Span) -> Result<Pair, MakeError> {
        let bad = |e: rcgen::Error| MakeError::BadName { name: names.join(", "), why: e.to_string() };
        let first = names.first().map_or("synapse", String::as_str);
        let mut params = leaf(first, ExtendedKeyUsagePurpose::ServerAuth, span);
        params.subject_alt_names = CertificateParams::new(names).map_err(bad)?.subject_alt_names;
        self.sign(&params)
    }

    /// Creates a certificate for a client with this name.
    pub fn client(&self, name: &str, span: Span) -> Result<Pair, MakeError> {
        self.sign(&leaf(name, ExtendedKeyUsagePurpose::ClientAuth, span))
    }

    fn sign(&self, params: &CertificateParams) -> Result<Pair, MakeError> {
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { cert: cert.pem(), key: key.serialize_pem() })
    }
}

/// Creates a key for any purpose, PEM.
pub fn new_key() -> Result<String, MakeError> {
    Ok(KeyPair::generate()?.serialize_pem())
}

/// Creates a self-signed certificate, for tests of code that must not trust it.
pub fn self_signed(names: &[String], span: Span) -> Result<Pair, MakeError> {
    let mut params = CertificateParams::new(names)?;
    hold(&mut params, span);
    let key = KeyPair::generate()?;
    Ok(Pair { cert: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name);
    // It signs servers and clients, and no other CAs.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf(name: &str, purpose: ExtendedKeyUsagePurpose, span: Span) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    hold(&mut params, span);
    params
}

fn subject(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

fn hold(params: &mut CertificateParams, span: Span) {
    let at = |s: u64| rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(s);
    (params.not_before, params.not_after) = (at(span.from_s), at(span.to_s));
}
