//! A URL that came from outside, read with one strict grammar, and whether it may be called.
//!
//! What other readers of URLs take for an address (`2130706433`, `0x7f.1`, `0177.0.0.1`, `127.1`, full-width digits,
//! percent signs in a host) is refused, not guessed at: nobody then calls what nobody checked. Pure.
//!
//! Invariant: a fault never repeats the path or the query, which may hold secrets.

use super::address::Kind;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a call may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// Only what the whole internet can reach, and only encrypted.
    #[default]
    Public,
    /// Also this machine and private networks; somebody who may decide that has allowed it.
    Private,
}

/// Why a URL is not called. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    #[error("it is no URL ({why}); write it as https://HOST/PATH")]
    NoUrl { why: &'static str },
    #[error("it is neither https nor http; only these can be called")]
    Scheme,
    #[error("it has a user name or a password in it, which would end in logs; give credentials on their own")]
    UserInfo,
    #[error("its host is an address in an odd spelling; write four numbers with dots, or IPv6 in brackets")]
    OddSpelling,
    #[error("port {port} belongs to another protocol than HTTP")]
    Port { port: u16 },
    #[error("{host} is not encrypted, and others could read on the way; use https://")]
    Plain { host: String },
    #[error("{host} is {}; only public addresses may be called unless private ones are allowed", .kind.words())]
    Near { host: String, kind: Kind },
    #[error("{host} is {}; it is never called", .kind.words())]
    Forbidden { host: String, kind: Kind },
}

impl TargetFault {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoUrl { .. } => "url_invalid",
            Self::Scheme | Self::UserInfo | Self::OddSpelling | Self::Port { .. } | Self::Plain { .. } => {
                "url_refused"
            }
            Self::Near { .. } | Self::Forbidden { .. } => "address_blocked",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(v4)) => v4.fmt(f),
            Self::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
        }
    }
}

/// What a client may call at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    pub reach: Reach,
    /// `http://` also to other machines; without it only to this one, and only if private targets are allowed.
    pub plain_http: bool,
}

/// A URL that may be called, as far as it alone can tell: what a name leads to is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub is_https: bool,
    pub host: Host,
    pub port: u16,
    /// Begins with `/`; with the query, without the fragment.
    pub path: String,
    rules: Rules,
}

const URL_BYTES_MAX: usize = 2048;
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Names under which clouds give out the keys of a machine.
const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
    "kubernetes.default.svc",
];

/// Endings of names that only mean something near by.
const NEAR_ENDINGS: &[&str] =
    &[".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".home.arpa", ".corp", ".private"];

/// Ports of protocols that could be made to take an HTTP request for their own words; as browsers have it.
// tidy: table
const OTHER_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    11211,
];

impl Target {
    pub fn parse(raw: &str, rules: Rules) -> Result<Self, TargetFault> {
        let wrong = |why| TargetFault::NoUrl { why };
        if raw.len() > URL_BYTES_MAX {
            return Err(wrong("it is longer than 2048 bytes"));
        }
        if !raw.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("it has characters in it that no URL has"));
        }
        let (scheme, rest) = raw.split_once("://").ok_or(wrong("it has no ://"))?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(TargetFault::Scheme),
        };
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        if authority.contains('@') {
            return Err(TargetFault::UserInfo);
        }
        let (host, port) = split_port(authority, if is_https { 443 } else { 80 })?;
        let host = parse_host(host)?;
        if OTHER_PORTS.contains(&port) {
            return Err(TargetFault::Port { port });
        }
        let target = Self { is_https, host, port, path: path(behind)?, rules };
        target.check_host()?;
        Ok(target)
    }

    /// The host with the port, unless it is the usual one.
    pub fn authority(&self) -> String {
        match (self.is_https, self.port) {
            (true, 443) | (false, 80) => self.host.to_string(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }

    /// Whether it can only be this machine.
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Name(name) => is_localhost(name),
            Host::Address(address) => Kind::of(*address) == Kind::Loopback,
        }
    }

    /// Judges one address that the host turned out to have.
    pub fn check_address(&self, address: IpAddr) -> Result<(), TargetFault> {
        // What a name leads to is not repeated: whoever named it may not be meant to know.
        let (host, kind) = (self.host.to_string(), Kind::of(address));
        self.check_kind(host.clone(), kind)?;
        // A name that promised to be this machine has to keep it.
        let is_safe = self.is_https || self.rules.plain_http || kind == Kind::Loopback;
        if is_safe { Ok(()) } else { Err(TargetFault::Plain { host }) }
    }

    fn check_kind(&self, host: String, kind: Kind) -> Result<(), TargetFault> {
        match (kind, self.rules.reach) {
            (Kind::Public, _) => Ok(()),
            (kind, Reach::Private) if kind.is_near() => Ok(()),
            (kind, Reach::Public) if kind.is_near() => Err(TargetFault::Near { host, kind }),
            (kind, _) => Err(TargetFault::Forbidden { host, kind }),
        }
    }

    /// What can be said before a name is looked up.
    fn check_host(&self) -> Result<(), TargetFault> {
        match &self.host {
            Host::Address(address) => self.check_address(*address)?,
            Host::Name(name) => self.check_kind(name.clone(), kind_of_name(name))?,
        }
        let may_be_plain = self.rules.plain_http || self.is_loopback();
        if self.is_https || may_be_plain {
            Ok(())
        } else {
            Err(TargetFault::Plain { host: self.host.to_string() })
        }
    }
}

/// Without the path: it may hold secrets.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

fn split_port(authority: &str, usual: u16) -> Result<(&str, u16), TargetFault> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|number| is_number && *number > 0);
            let number = number.ok_or(TargetFault::NoUrl { why: "its port is no port" })?;
            Ok((host, number))
        }
        _ => Ok((authority, usual)),
    }
}

fn parse_host(raw: &str) -> Result<Host, TargetFault> {
    let wrong = |why| Err(TargetFault::NoUrl { why });
    if let Some(inner) = raw.strip_prefix('[') {
        let Some(inner) = inner.strip_suffix(']') else { return wrong("its bracket is not closed") };
        // A zone, as in fe80::1%eth0, is no address for std, and so refused.
        return inner
            .parse::<Ipv6Addr>()
            .map(|v6| Host::Address(v6.into()))
            .or(Err(TargetFault::OddSpelling));
    }
    if let Ok(v4) = raw.parse::<Ipv4Addr>() {
        return Ok(Host::Address(v4.into()));
    }
    if raw.is_empty() || raw.len() > NAME_BYTES_MAX {
        return wrong("its host is no name");
    }
    if is_like_a_number(raw) || raw.contains('%') {
        return Err(TargetFault::OddSpelling);
    }
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_long = label.len() > LABEL_BYTES_MAX;
        !label.is_empty()
            && !is_long
            && label.bytes().all(fits)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A dot at the end makes an empty label: one name, one spelling.
    if !raw.split('.').all(is_label) {
        return wrong("its host is no name");
    }
    Ok(Host::Name(raw.to_ascii_lowercase()))
}

/// Whether the system, or a browser, would read the last part as a number, and so the whole as an address.
fn is_like_a_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or(host).to_ascii_lowercase();
    let is_hex = last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hex || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn kind_of_name(name: &str) -> Kind {
    if METADATA_NAMES.contains(&name) {
        Kind::Metadata
    } else if is_localhost(name) {
        Kind::Loopback
    } else if !name.contains('.') || NEAR_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        Kind::Private
    } else {
        Kind::Public
    }
}

/// Path and query, from what stands behind the authority.
fn path(behind: &str) -> Result<String, TargetFault> {
    let behind = behind.split('#').next().unwrap_or_default();
    if behind.contains(['\\', '"', '<', '>', '^', '`', '{', '|', '}']) {
        return Err(TargetFault::NoUrl { why: "its path has characters that have to be percent-encoded" });
    }
    Ok(if behind.starts_with('/') { behind.to_owned() } else { format!("/{behind}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: Rules = Rules { reach: Reach::Public, plain_http: false };
    const PRIVATE: Rules = Rules { reach: Reach::Private, plain_http: false };

    #[test]
    fn urls_that_may_be_called() {
        let table = [
            ("https://hook.example.org", "https://hook.example.org", "/"),
            ("HTTPS://Hook.Example.org:443/a?b=c#d", "https://hook.example.org", "/a?b=c"),
            ("https://hook.example.org:8443?x", "https://hook.example.org:8443", "/?x"),
            ("https://hook.example.org/a//b/%2e%2e;c=1,2", "https://hook.example.org", "/a//b/%2e%2e;c=1,2"),
            ("https://a_b.example.org/@me", "https://a_b.example.org", "/@me"),
            ("https://8.8.8.8/x", "https://8.8.8.8", "/x"),
            ("https://[2606:4700:4700:0::1111]:8443/", "https://[2606:4700:4700::1111]:8443", "/"),
            ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example", "/"),
            ("https://1e100.net", "https://1e100.net", "/"),
            ("https://0x7f.example", "https://0x7f.example", "/"),
        ];
        for (raw, shown, path) in table {
            let target = Target::parse(raw, PUBLIC).unwrap_or_else(|fault| panic!("{raw}: {fault}"));
            assert_eq!((target.to_string().as_str(), target.path.as_str()), (shown, path), "{raw}");
        }
    }

    /// Every spelling that leads somewhere it should not, or that two readers could read in two ways.
    // tidy: table
    #[test]
    fn urls_that_are_refused() {
        let table = [
            ("url_invalid", "no url"),
            ("url_invalid", "https:/hook.example.org"),
            ("url_invalid", "https://"),
            ("url_invalid", "https:///path"),
            ("url_invalid", "https://hook.example.org:"),
            ("url_invalid", "https://hook.example.org:0"),
            ("url_invalid", "https://hook.example.org:65536"),
            ("url_invalid", "https://hook.example.org:+443"),
            ("url_invalid", "https://hook.example.org:44 3"),
            ("url_invalid", " https://hook.example.org"),
            ("url_invalid", "https://hook.example.org\r\nX-Evil: 1"),
            ("url_invalid", "https://hook.example.org./"),
            ("url_invalid", "https://localhost."),
            ("url_invalid", "https://hook..example.org"),
            ("url_invalid", "https://-hook.example.org"),
            ("url_invalid", "https://hook.example.org,evil.example"),
            ("url_invalid", "https://hook.example.org\\.evil.example"),
            ("url_invalid", "https://１２７.0.0.1"),
            ("url_invalid", "https://ⓛocalhost"),
            ("url_invalid", "https://127。0。0。1"),
            ("url_invalid", "https://[::1"),
            ("url_invalid", "https://::1/"),
            ("url_refused", "ftp://hook.example.org"),
            ("url_refused", "file:///etc/passwd"),
            ("url_refused", "gopher://127.0.0.1:6379/_x"),
            ("url_refused", "unix:///run/docker.sock"),
            ("url_refused", "http://hook.example.org"),
            ("url_refused", "https://me@hook.example.org"),
            ("url_refused", "https://hook.example.org@127.0.0.1"),
            ("url_refused", "https://me:secret@hook.example.org"),
            ("url_refused", "https://hook.example.org:22"),
            ("url_refused", "https://hook.example.org:25"),
            ("url_refused", "https://hook.example.org:6379"),
            ("url_refused", "https://2130706433"),
            ("url_refused", "https://0x7f000001"),
            ("url_refused", "https://0x7f.1"),
            ("url_refused", "https://0X7F.0.0.1"),
            ("url_refused", "https://0177.0.0.1"),
            ("url_refused", "https://127.1"),
            ("url_refused", "https://127.0.1"),
            ("url_refused", "https://127.0.0.1."),
            ("url_refused", "https://127.0.0.01"),
            ("url_refused", "https://0"),
            ("url_refused", "https://0x"),
            ("url_refused", "https://127.0.0.256"),
            ("url_refused", "https://1.2.3.4.5"),
            ("url_refused", "https://134744072"),
            ("url_refused", "https://%31%32%37.0.0.1"),
            ("url_refused", "https://localhost%00.example.org"),
            ("url_refused", "https://[fe80::1%25eth0]"),
            ("url_refused", "https://[v1.x]"),
            ("address_blocked", "https://localhost"),
            ("address_blocked", "https://LOCALHOST:8443"),
            ("address_blocked", "https://a.localhost"),
            ("address_blocked", "http://127.0.0.1"),
            ("address_blocked", "https://127.0.0.1:9000/x"),
            ("address_blocked", "https://127.255.255.254"),
            ("address_blocked", "https://0.0.0.0"),
            ("address_blocked", "https://10.1.2.3"),
            ("address_blocked", "https://172.16.0.1"),
            ("address_blocked", "https://192.168.1.1"),
            ("address_blocked", "https://100.64.0.1"),
            ("address_blocked", "https://169.254.169.254/latest/meta-data"),
            ("address_blocked", "https://224.0.0.1"),
            ("address_blocked", "https://255.255.255.255"),
            ("address_blocked", "https://192.0.2.1"),
            ("address_blocked", "https://198.18.0.1"),
            ("address_blocked", "https://[::1]"),
            ("address_blocked", "https://[::]"),
            ("address_blocked", "https://[0:0:0:0:0:0:0:1]"),
            ("address_blocked", "https://[::ffff:127.0.0.1]"),
            ("address_blocked", "https://[::ffff:7f00:1]"),
            ("address_blocked", "https://[::127.0.0.1]"),
            ("address_blocked", "https://[64:ff9b::7f00:1]"),
            ("address_blocked", "https://[2002:7f00:1::]"),
            ("address_blocked", "https://[fd00::1]"),
            ("address_blocked", "https://[fe80::1]"),
            ("address_blocked", "https://[ff02::1]"),
            ("address_blocked", "https://[2001:db8::1]"),
            ("address_blocked", "https://metadata.google.internal/computeMetadata/v1/"),
            ("address_blocked", "https://printer.local"),
            ("address_blocked", "https://intranet"),
        ];
        for (code, raw) in table {
            let fault = Target::parse(raw, PUBLIC).expect_err(raw);
            assert_eq!(fault.code(), code, "{raw}: {fault}");
            assert!(!fault.to_string().contains("secret"), "{raw}: {fault}");
        }
        let long = format!("https://hook.example.org/{}", "a".repeat(URL_BYTES_MAX));
        assert_eq!(Target::parse(&long, PUBLIC).unwrap_err().code(), "url_invalid");
    }

    #[test]
    fn what_an_allowance_of_private_targets_opens_and_what_not() {
        let opened = [
            "http://127.0.0.1:9000",
            "http://localhost:9000/x",
            "http://[::1]:9000",
            "https://10.1.2.3",
            "https://[fd00::1]",
            "https://printer.local",
            "https://intranet",
            "https://hook.example.org",
        ];
        for raw in opened {
            Target::parse(raw, PRIVATE).unwrap_or_else(|fault| panic!("{raw}: {fault}"));
        }
        let table = [
            ("url_refused", "http://10.1.2.3"),
            ("url_refused", "http://hook.example.org"),
            ("url_refused", "http://2130706433"),
            ("url_refused", "http://127.1"),
            ("address_blocked", "http://169.254.169.254"),
            ("address_blocked", "https://metadata.google.internal"),
            ("address_blocked", "http://0.0.0.0:9000"),
            ("address_blocked", "https://224.0.0.1"),
            ("address_blocked", "https://[64:ff9b::7f00:1]"),
        ];
        for (code, raw) in table {
            let fault = Target::parse(raw, PRIVATE).expect_err(raw);
            assert_eq!(fault.code(), code, "{raw}: {fault}");
        }
        let plain = Rules { plain_http: true, ..PRIVATE };
        assert!(Target::parse("http://10.1.2.3", plain).is_ok());
        assert!(Target::parse("http://hook.example.org", Rules { plain_http: true, ..PUBLIC }).is_ok());
    }

    #[test]
    fn what_a_name_leads_to_is_judged_again() {
        let ip = |raw: &str| raw.parse::<IpAddr>().unwrap();
        let hook = Target::parse("https://hook.example.org", PUBLIC).unwrap();
        assert_eq!(hook.check_address(ip("8.8.8.8")), Ok(()));
        let fault = hook.check_address(ip("10.0.0.1")).unwrap_err();
        assert!(fault.to_string().contains("hook.example.org is an address of a private network"), "{fault}");
        assert!(!fault.to_string().contains("10.0.0.1"), "{fault}");
        let local = Target::parse("http://localhost:9000", PRIVATE).unwrap();
        assert_eq!(local.check_address(ip("::1")), Ok(()));
        assert!(matches!(local.check_address(ip("10.0.0.1")), Err(TargetFault::Plain { .. })));
    }

    /// Whatever is put together: what a public client takes is encrypted, and no address but a public one.
    #[test]
    fn any_pieces_of_a_url() {
        const PIECES: &[&str] = &[
            "https://",
            "http://",
            "127",
            "0x7f",
            ".",
            "1",
            "[",
            "]",
            "::",
            "ffff",
            ":",
            "@",
            "%",
            "localhost",
            "example.org",
            "/",
            "?",
            "#",
            "\\",
            "0",
            "10",
            "169.254",
            "443",
            "-",
            "\0",
            "\u{ff11}",
        ];
        bolero::check!().with_iterations(20_000).with_type::<Vec<u8>>().for_each(|picks| {
            let rest = picks.iter().map(|pick| PIECES[usize::from(*pick) % PIECES.len()]);
            let url: String = std::iter::once("https://").chain(rest).collect();
            let Ok(target) = Target::parse(&url, PUBLIC) else { return };
            assert!(target.is_https && target.path.starts_with('/'), "{url}");
            match &target.host {
                Host::Address(address) => assert_eq!(Kind::of(*address), Kind::Public, "{url}"),
                Host::Name(name) => {
                    assert!(name.contains('.') && !name.ends_with(".localhost"), "{url}");
                    let last = name.rsplit('.').next().unwrap();
                    let hex = last.strip_prefix("0x").map(|hex| u128::from_str_radix(hex, 16));
                    assert!(last.parse::<u128>().is_err() && !matches!(hex, Some(Ok(_))), "{url}");
                }
            }
        });
    }
}
