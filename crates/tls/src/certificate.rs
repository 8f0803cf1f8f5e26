//! Reads certificates: their names and their validity. rustls verifies certificates but exposes
//! neither.
//!
//! Not here: whether a certificate is genuine. Its names can be trusted only after a handshake has
//! verified it.

use std::net::IpAddr;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Decode as _, Tag, Tagged as _};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, SubjectAltName};
use x509_cert::name::Name;

/// The content of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    pub subject: String,
    pub issuer: String,
    pub common_name: Option<String>,
    pub dns: Vec<String>,
    pub uris: Vec<String>,
    pub ips: Vec<IpAddr>,
    /// Seconds since 1970.
    pub not_before_s: u64,
    pub not_after_s: u64,
    /// It may sign other certificates.
    pub is_authority: bool,
}

/// The validity of a certificate at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    NotYet,
    Holds { days_left: u64 },
    Expired { days_ago: u64 },
}

/// Further names are ignored.
const NAMES_MAX: usize = 100;
const DAY_S: u64 = 86_400;

impl Certificate {
    /// Parses a certificate; an error says why it cannot be read.
    pub fn read(der: &[u8]) -> Result<Self, String> {
        let parsed = x509_cert::Certificate::from_der(der).map_err(|e| e.to_string())?;
        let body = &parsed.tbs_certificate;
        let mut read = Self {
            subject: body.subject.to_string(),
            issuer: body.issuer.to_string(),
            common_name: common_name(&body.subject),
            dns: Vec::new(),
            uris: Vec::new(),
            ips: Vec::new(),
            not_before_s: body.validity.not_before.to_unix_duration().as_secs(),
            not_after_s: body.validity.not_after.to_unix_duration().as_secs(),
            is_authority: false,
        };
        let bad = |e: x509_cert::der::Error| e.to_string();
        if let Some((_, constraints)) = body.get::<BasicConstraints>().map_err(bad)? {
            read.is_authority = constraints.ca;
        }
        if let Some((_, names)) = body.get::<SubjectAltName>().map_err(bad)? {
            names.0.iter().take(NAMES_MAX).for_each(|name| read.take(name));
        }
        Ok(read)
    }

    fn take(&mut self, name: &GeneralName) {
        match name {
            GeneralName::DnsName(dns) => self.dns.push(dns.to_string()),
            GeneralName::UniformResourceIdentifier(uri) => self.uris.push(uri.to_string()),
            GeneralName::IpAddress(bytes) => {
                let four = <[u8; 4]>::try_from(bytes.as_bytes()).map(IpAddr::from);
                let sixteen = <[u8; 16]>::try_from(bytes.as_bytes()).map(IpAddr::from);
                self.ips.extend(four.or(sixteen));
            }
            _ => {}
        }
    }

    /// Returns the names by which its holder may be known, in the order of lookup.
    pub fn identities(&self) -> impl Iterator<Item = &str> {
        self.dns.iter().chain(&self.uris).chain(&self.common_name).map(String::as_str)
    }

    /// Returns the host names of a server with this certificate, without wildcard patterns.
    pub fn hosts(&self) -> impl Iterator<Item = String> {
        let dns = self.dns.iter().filter(|name| !name.contains('*')).cloned();
        dns.chain(self.ips.iter().map(|ip| match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        }))
    }

    pub fn standing(&self, now_s: u64) -> Standing {
        if now_s < self.not_before_s {
            Standing::NotYet
        } else if now_s <= self.not_after_s {
            Standing::Holds { days_left: (self.not_after_s - now_s) / DAY_S }
        } else {
            Standing::Expired { days_ago: (now_s - self.not_after_s) / DAY_S }
        }
    }
}

fn common_name(name: &Name) -> Option<String> {
    const COMMON_NAME: &str = "2.5.4.3";
    let mut all = name.0.iter().flat_map(|part| part.0.iter());
    let value = &all.find(|one| one.oid.to_string() == COMMON_NAME)?.value;
    let text = match value.tag() {
        Tag::Utf8String => Utf8StringRef::try_from(value).ok()?.as_str().to_owned(),
        Tag::PrintableString => PrintableStringRef::try_from(value).ok()?.as_str().to_owned(),
        Tag::TeletexString => TeletexStringRef::try_from(value).ok()?.as_str().to_owned(),
        Tag::Ia5String => Ia5StringRef::try_from(value).ok()?.as_str().to_owned(),
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make::{Authority, Span};

    const SPAN: Span = Span { from_s: 1_000 * DAY_S, to_s: 1_010 * DAY_S };

    #[test]
    fn names_and_validity_come_out_as_they_went_in() {
        let authority = Authority::make("Test authority", SPAN).unwrap();
        let read = |pem: &str| {
            use rustls::pki_types::pem::PemObject as _;
            let der = rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            Certificate::read(&der).unwrap()
        };
        let own = read(authority.cert_pem());
        assert_eq!((own.common_name.as_deref(), own.is_authority), (Some("Test authority"), true));

        let names = ["localhost", "127.0.0.1", "::1", "*.example.org"].map(String::from);
        let server = read(&authority.server(&names, SPAN).unwrap().cert);
        assert_eq!(server.dns, ["localhost", "*.example.org"]);
        assert_eq!(server.hosts().collect::<Vec<_>>(), ["localhost", "127.0.0.1", "[::1]"]);
        assert_eq!((server.issuer.as_str(), server.is_authority), ("CN=Test authority", false));
        assert_eq!((server.not_before_s, server.not_after_s), (SPAN.from_s, SPAN.to_s));

        let client = read(&authority.client("Ünique-7", SPAN).unwrap().cert);
        assert_eq!(client.identities().collect::<Vec<_>>(), ["Ünique-7"]);
    }

    #[test]
    fn how_it_stands() {
        let authority = Authority::make("Test authority", SPAN).unwrap();
        let certificate = Certificate::read(authority.cert_der()).unwrap();
        for (day, standing) in [
            (999, Standing::NotYet),
            (1_000, Standing::Holds { days_left: 10 }),
            (1_009, Standing::Holds { days_left: 1 }),
            (1_010, Standing::Holds { days_left: 0 }),
            (1_013, Standing::Expired { days_ago: 3 }),
        ] {
            assert_eq!(certificate.standing(day * DAY_S), standing, "day {day}");
        }
    }

    /// Even a verified certificate consists of somebody else's bytes.
    #[test]
    fn bytes_nobody_meant_are_refused_and_nothing_worse() {
        let authority = Authority::make("Test authority", SPAN).unwrap();
        let good = authority.cert_der().to_vec();
        bolero::check!().with_iterations(2_000).with_type::<(u16, u8, u16)>().for_each(|(at, byte, cut)| {
            let mut bytes = good.clone();
            let at = usize::from(*at) % bytes.len();
            bytes[at] = *byte;
            bytes.truncate(usize::from(*cut));
            if let Ok(read) = Certificate::read(&bytes) {
                let _ = (read.standing(0), read.hosts().count(), read.identities().count());
            }
        });
    }
}
