//! Where and how a node listens: the options given at its start override the settings (REST-8).
//!
//! Pure: nothing is opened here.

use crate::launch::Listen;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use synapse_settings::Settings;
use synapse_tls::ServerFiles;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub address: IpAddr,
    /// Names of this machine, as callers write them: `name`, or `name:port` behind a proxy.
    pub hosts: Vec<String>,
    pub tls: Option<ServerFiles>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    #[error("{given} was given without {missing}; a certificate and its key go together")]
    HalfAPair { given: &'static str, missing: &'static str },
    #[error(
        "--client-ca (or tls.client_ca) needs a certificate of our own too: give --tls-cert and --tls-key"
    )]
    ClientsWithoutTls,
    #[error(
        "{address} can be reached from other machines, and plain HTTP would show them the token and all messages; \
         give --tls-cert and --tls-key (`synapse keys certs make` makes both), or say --insecure"
    )]
    PlainForOthers { address: IpAddr },
    #[error(
        "{address} can be reached from other machines, and with --auth none anybody there could give it work; \
         leave out --auth none, or --listen"
    )]
    OpenToOthers { address: IpAddr },
}

impl Plan {
    pub fn of(listen: &Listen, settings: &Settings) -> Result<Self, PlanError> {
        let own = settings.network.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let address = listen.address.unwrap_or(own);
        let tls = tls(listen, settings)?;
        let hosts = listen.hosts.iter().chain(&settings.network.hosts).cloned().collect();
        let plan = Self { address, hosts, tls };
        if plan.is_open() && !listen.insecure {
            return Err(PlanError::PlainForOthers { address });
        }
        if listen.open && !address.to_canonical().is_loopback() {
            return Err(PlanError::OpenToOthers { address });
        }
        Ok(plan)
    }

    /// Whether other machines can connect with plain HTTP.
    pub fn is_open(&self) -> bool {
        // A v4-mapped IPv6 address counts as the IPv4 address.
        self.tls.is_none() && !self.address.to_canonical().is_loopback()
    }

    /// Whether callers must present a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|files| files.client_ca.is_some())
    }

    /// Returns the address to show to people and programs.
    pub fn endpoint(&self, port: u16) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let of_address = match self.address {
            ip if ip.is_unspecified() || ip.is_loopback() => "localhost".to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        match self.hosts.first() {
            Some(host) if has_port(host) => format!("{scheme}://{host}"),
            host => format!("{scheme}://{}:{port}", host.unwrap_or(&of_address)),
        }
    }
}

/// Returns the TLS files. A certificate pair given at the start overrides the one in the settings.
fn tls(listen: &Listen, settings: &Settings) -> Result<Option<ServerFiles>, PlanError> {
    let client_ca = listen.client_ca.clone().or_else(|| settings.tls.client_ca.clone());
    let pair = match pair(&listen.cert, &listen.key, ["--tls-cert", "--tls-key"])? {
        Some(pair) => Some(pair),
        None => pair(&settings.tls.cert, &settings.tls.key, ["tls.cert", "tls.key"])?,
    };
    match (pair, client_ca) {
        (Some((cert, key)), client_ca) => Ok(Some(ServerFiles { cert, key, client_ca })),
        (None, Some(_)) => Err(PlanError::ClientsWithoutTls),
        (None, None) => Ok(None),
    }
}

type Pair = (PathBuf, PathBuf);

fn pair(
    cert: &Option<PathBuf>,
    key: &Option<PathBuf>,
    names: [&'static str; 2],
) -> Result<Option<Pair>, PlanError> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some((cert.clone(), key.clone()))),
        (Some(_), None) => Err(PlanError::HalfAPair { given: names[0], missing: names[1] }),
        (None, Some(_)) => Err(PlanError::HalfAPair { given: names[1], missing: names[0] }),
    }
}

/// The names that a caller may use for this node in the `Host` header.
pub struct Names<'a> {
    /// The same as in the plan.
    pub hosts: &'a [String],
    /// The names in our certificate, if the connection uses TLS.
    pub certified: &'a [String],
    /// Our address that was called.
    pub local: IpAddr,
    pub port: u16,
}

impl Names<'_> {
    /// Accepts loopback names, given and certified names, and the address that was called. A
    /// foreign page may point its own name here, but then the header contains that name and not an
    /// address.
    pub fn include(&self, host: &str, is_tls: bool) -> bool {
        // A proxy has its own port.
        if self.hosts.iter().any(|own| has_port(own) && host.eq_ignore_ascii_case(own)) {
            return true;
        }
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if has_port(host) => (name, port),
            _ => (host, if is_tls { "443" } else { "80" }),
        };
        let local = match self.local.to_canonical() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let loopback = ["localhost", "127.0.0.1", "[::1]", &local];
        let said = self.hosts.iter().chain(self.certified).map(String::as_str);
        port == self.port.to_string()
            && loopback.into_iter().chain(said).any(|own| name.eq_ignore_ascii_case(own))
    }
}

/// Returns the host of a URL, with its port if there is one.
pub fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// Whether a host includes a port. Colons in brackets belong to the address.
pub fn has_port(host: &str) -> bool {
    host.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(line: &str) -> Listen {
        let mut listen = Listen::default();
        for word in line.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("at", ip) => listen.address = Some(ip.parse().unwrap()),
                ("host", host) => listen.hosts.push(host.into()),
                ("cert", path) => listen.cert = Some(path.into()),
                ("key", path) => listen.key = Some(path.into()),
                ("ca", path) => listen.client_ca = Some(path.into()),
                ("insecure", _) => listen.insecure = true,
                ("open", _) => listen.open = true,
                _ => panic!("{word}"),
            }
        }
        listen
    }

    fn settings(line: &str) -> Settings {
        let said = listen(line);
        let mut settings = Settings::default();
        (settings.network.listen, settings.network.hosts) = (said.address, said.hosts);
        (settings.tls.cert, settings.tls.key, settings.tls.client_ca) = (said.cert, said.key, said.client_ca);
        settings
    }

    /// REST-8: plain HTTP stays on this machine unless the user chose otherwise at this start.
    #[test]
    fn what_was_said_and_what_is_set() {
        let table = [
            ("", "", Ok("http://localhost:8100")),
            ("at=::1", "", Ok("http://localhost:8100")),
            ("at=127.0.0.2", "", Ok("http://localhost:8100")),
            ("at=::ffff:127.0.0.1", "", Ok("http://[::ffff:127.0.0.1]:8100")),
            ("at=0.0.0.0", "", Err("--insecure")),
            ("open", "", Ok("http://localhost:8100")),
            ("open insecure at=0.0.0.0", "", Err("--auth none")),
            ("open insecure", "at=192.0.2.1", Err("--auth none")),
            ("at=::", "", Err("--insecure")),
            ("at=192.0.2.1", "", Err("192.0.2.1 can be reached")),
            ("", "at=0.0.0.0", Err("--insecure")),
            ("at=127.0.0.1", "at=0.0.0.0", Ok("http://localhost:8100")),
            ("at=192.0.2.1 insecure", "", Ok("http://192.0.2.1:8100")),
            ("at=192.0.2.1 cert=c key=k", "", Ok("https://192.0.2.1:8100")),
            ("at=2001:db8::1 cert=c key=k", "", Ok("https://[2001:db8::1]:8100")),
            ("at=0.0.0.0", "cert=c key=k host=box.example", Ok("https://box.example:8100")),
            ("host=a", "cert=c key=k host=b", Ok("https://a:8100")),
            ("host=a:443", "cert=c key=k", Ok("https://a:443")),
            ("cert=c", "", Err("--tls-cert was given without --tls-key")),
            ("key=k", "cert=c", Err("--tls-key was given without --tls-cert")),
            ("", "key=k", Err("tls.key was given without tls.cert")),
            ("ca=a", "", Err("--client-ca")),
            ("ca=a", "cert=c key=k", Ok("https://localhost:8100")),
        ];
        for (said, set, expected) in table {
            let plan = Plan::of(&listen(said), &settings(set)).map(|plan| plan.endpoint(8100));
            match (plan, expected) {
                (Ok(endpoint), Ok(expected)) => assert_eq!(endpoint, expected, "{said} / {set}"),
                (Err(e), Err(words)) => assert!(e.to_string().contains(words), "{said} / {set}: {e}"),
                (plan, _) => panic!("{said} / {set}: {plan:?}"),
            }
        }
    }

    #[test]
    fn what_this_node_may_be_called() {
        let hosts = ["box.example", "front.example:443"].map(String::from);
        let certified = ["cert.example", "[2001:db8::1]"].map(String::from);
        let names =
            |port, certified| Names { hosts: &hosts, certified, local: "192.0.2.7".parse().unwrap(), port };
        let ours = [
            "localhost:8100",
            "LocalHost:8100",
            "127.0.0.1:8100",
            "[::1]:8100",
            "192.0.2.7:8100",
            "box.example:8100",
            "Box.Example:8100",
            "front.example:443",
            "cert.example:8100",
            "[2001:db8::1]:8100",
        ];
        for host in ours {
            assert!(names(8100, &certified).include(host, true), "{host}");
        }
        let others = [
            "",
            "localhost",
            "localhost:8101",
            "localhost:",
            "localhost:x",
            "box.example",
            "front.example:8100",
            "front.example",
            "192.0.2.8:8100",
            "evil.example:8100",
            "box.example.evil:8100",
            "localhost:8100:8100",
            "[::1]",
            "::1:8100",
            "box.example:8100@evil",
            "localhost:+8100",
        ];
        for host in others {
            assert!(!names(8100, &certified).include(host, true), "{host}");
        }
        assert!(
            !names(8100, &[]).include("cert.example:8100", false),
            "no certificate of that name is in use"
        );
        for (port, is_tls, fits) in
            [(443, true, true), (80, false, true), (80, true, false), (443, false, false)]
        {
            assert_eq!(names(port, &[]).include("box.example", is_tls), fits, "{port} {is_tls}");
        }
    }

    #[test]
    fn hosts_with_ports() {
        for (host, has) in [("a", false), ("a:1", true), ("[::1]", false), ("[::1]:8", true)] {
            assert_eq!(has_port(host), has, "{host}");
        }
    }
}
