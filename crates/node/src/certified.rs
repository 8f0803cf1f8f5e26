//! Client certificates: which of their names the settings know, and how they are displayed.

use std::collections::BTreeMap;
use synapse_settings::Identity;
use synapse_tls::Certificate;

/// Returns the identity for a certificate: the first of its names that the settings know (SAN DNS,
/// SAN URI, then CN).
pub(crate) fn identity<'a>(
    identities: &'a BTreeMap<String, Identity>,
    certificate: &'a Certificate,
) -> Option<(&'a str, &'a Identity)> {
    certificate.identities().find_map(|name| Some((name, identities.get(name)?)))
}

/// Converts a name in a certificate, which may be a URI, to a label; other characters become
/// hyphens.
pub(crate) fn as_label(name: &str) -> String {
    const LENGTH_MAX: usize = 64;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).chars().take(LENGTH_MAX).collect()
}

pub(crate) fn shown(certificate: &Certificate) -> String {
    const NAMES_MAX: usize = 5;
    let names: Vec<&str> = certificate.identities().take(NAMES_MAX).collect();
    format!("the holder of the certificate {:?}", names.join(", "))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use synapse_core::ids::Label;

    pub(crate) fn certificate(dns: &[&str], uris: &[&str], common_name: Option<&str>) -> Certificate {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Certificate {
            subject: String::new(),
            issuer: String::new(),
            common_name: common_name.map(str::to_owned),
            dns: all(dns),
            uris: all(uris),
            ips: Vec::new(),
            not_before_s: 0,
            not_after_s: u64::MAX,
            is_authority: false,
        }
    }

    /// REST-8: the names of a certificate are looked up in a fixed order, and never by a part of a
    /// name.
    #[test]
    fn the_first_name_that_the_settings_know_decides() {
        let role = |role: &str| Identity { role: Some(role.into()), agent: None };
        let known =
            ["build.example", "spiffe://example/build", "build"].map(|name| (name.to_owned(), role(name)));
        let known = BTreeMap::from(known);
        let uri = "spiffe://example/build";
        let table = [
            (certificate(&["x", "build.example"], &[uri], Some("build")), Some("build.example")),
            (certificate(&["x"], &["x", uri], Some("build")), Some(uri)),
            (certificate(&["x"], &["y"], Some("build")), Some("build")),
            (certificate(&[], &[], Some("Build")), None),
            (certificate(&["a.build.example"], &[], None), None),
            (certificate(&[], &[], None), None),
        ];
        for (certificate, expected) in table {
            assert_eq!(identity(&known, &certificate).map(|(name, _)| name), expected, "{certificate:?}");
        }
    }

    #[test]
    fn every_name_becomes_a_label() {
        for (name, label) in
            [("build-7", "build-7"), ("spiffe://a/b", "spiffe---a-b"), ("*.a.example", "a.example")]
        {
            assert_eq!(as_label(name), label);
            assert!(Label::parse(label).is_ok(), "{label}");
        }
        assert!(Label::parse(&as_label(&"x/".repeat(100))).is_ok());
    }
}
