//! A node on another machine: its address as a URL, what we bring to prove ourselves, and the way there (REST-8).
//!
//! Invariant: a secret leaves this machine only encrypted, and only for a server that has proven its name.

use crate::{CallError, Client};
use http::{HeaderValue, header};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use synapse_store::files::{self, Access};
use synapse_tls::client::{self, ClientFiles, Trouble};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TOKEN_BYTES_MAX: usize = 4 << 10;

/// `https://host:port`, and nothing behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub is_https: bool,
    /// An IPv6 address has its brackets.
    pub host: String,
    pub port: u16,
}

/// What we bring to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub tls: ClientFiles,
    pub token_file: Option<PathBuf>,
    /// The variable of the environment that has the token, if no file has it.
    pub token_env: Option<String>,
}

impl Credentials {
    /// The token itself, from its file or its variable.
    pub fn secret(&self) -> Result<Option<String>, CallError> {
        let unusable = |why: String| CallError::Unusable { why };
        let (text, place) = match (&self.token_file, &self.token_env) {
            (Some(path), _) => {
                let bytes = files::read_private(path, TOKEN_BYTES_MAX, Access::Secret);
                let bytes = bytes.map_err(|e| unusable(e.to_string()))?;
                (String::from_utf8_lossy(&bytes).into_owned(), path.display().to_string())
            }
            (None, Some(name)) => {
                let value = std::env::var_os(name).unwrap_or_default();
                (value.to_string_lossy().into_owned(), format!("the variable {name}"))
            }
            (None, None) => return Ok(None),
        };
        let token = text.lines().next().unwrap_or_default().trim();
        match token.is_empty() {
            true => Err(unusable(format!("{place} holds no token"))),
            false => Ok(Some(token.to_owned())),
        }
    }
}

impl Url {
    /// Whether it is meant as a URL at all.
    pub fn is_meant(raw: &str) -> bool {
        raw.contains("://")
    }

    pub fn parse(raw: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{raw:?} is no address of a node: {why}; use https://HOST:PORT");
        let (is_https, rest) = if let Some(rest) = raw.strip_prefix("https://") {
            (true, rest)
        } else if let Some(rest) = raw.strip_prefix("http://") {
            (false, rest)
        } else {
            return Err(wrong("it is neither https nor http"));
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // Looked for first: whatever else is wrong, it must not be repeated in an error.
        if rest.contains('@') {
            // It would be in the list of processes, and in the shell's history.
            return Err(
                "a URL with a user name or a password is not used; give a token with --token-file".into()
            );
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (
                host,
                port.parse()
                    .ok()
                    .filter(|n| *n > 0 && !port.starts_with('+'))
                    .ok_or_else(|| wrong("its port is no port"))?,
            ),
            _ => (rest, if is_https { 443 } else { 80 }),
        };
        if let Some(inner) = host.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(|| wrong("its address is not closed"))?;
            inner.parse::<std::net::Ipv6Addr>().map_err(|_| wrong("its address is no address"))?;
        } else {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
            if host.is_empty() || !host.chars().all(fits) {
                return Err(wrong("its host is no name"));
            }
        }
        Ok(Self { is_https, host: host.to_ascii_lowercase(), port })
    }

    pub(crate) fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl Client {
    /// Connects to a node by TCP, with TLS if the URL says so.
    pub async fn connect_to(url: &Url, with: &Credentials) -> Result<Self, CallError> {
        let unusable = |why: String| CallError::Unusable { why };
        let host = HeaderValue::from_str(&url.address()).map_err(|e| unusable(e.to_string()))?;
        let mut headers = vec![(header::HOST, host)];
        headers.extend(bearer(url, with)?.map(|bearer| (header::AUTHORIZATION, bearer)));
        if !url.is_https {
            let stream = dial(url).await?;
            return Self::over(stream, url.to_string(), headers).await;
        }
        let config = client::config(&with.tls).map_err(|e| unusable(e.to_string()))?;
        let name = client::server_name(&url.host).map_err(|e| unusable(e.to_string()))?;
        let stream = dial(url).await?;
        let shaken = tokio::time::timeout(CONNECT_TIMEOUT, TlsConnector::from(config).connect(name, stream));
        let shaken = shaken.await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let stream = shaken.map_err(|e| match Trouble::among(&e) {
            Some((trouble, told)) => untrusted(trouble, url, with, &told),
            // It sends nothing we could look at, or hears what it does not know and closes.
            None => untrusted(Trouble::HungUp, url, with, &e.to_string()),
        })?;
        let mut client = Self::over(stream, url.to_string(), headers).await?;
        client.trust = Some((url.clone(), with.clone()));
        Ok(client)
    }
}

async fn dial(url: &Url) -> Result<TcpStream, CallError> {
    let unreachable = |why: String| CallError::Unreachable { path: url.to_string(), why };
    let dialed = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(url.address())).await;
    let stream =
        dialed.map_err(|_| unreachable(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())))?;
    let stream = stream.map_err(|e| unreachable(e.to_string()))?;
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

pub(crate) fn untrusted(trouble: Trouble, url: &Url, with: &Credentials, told: &str) -> CallError {
    let words = trouble.words(&url.address(), with.tls.ca.as_deref(), told);
    CallError::Untrusted { code: trouble.code(), why: words }
}

/// The token as a header; not for a wire on which others could read it.
fn bearer(url: &Url, with: &Credentials) -> Result<Option<HeaderValue>, CallError> {
    let unusable = |why: String| CallError::Unusable { why };
    if with.token_file.is_none() && with.token_env.is_none() {
        return Ok(None);
    }
    if !url.is_https && !url.is_loopback() {
        let why =
            format!("the token is not sent to {url}, where others could read it on the way; use https://");
        return Err(unusable(why));
    }
    let Some(token) = with.secret()? else { return Ok(None) };
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header =
        header.map_err(|_| unusable("the token has characters that no header may have".into()))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nodes() {
        let table = [
            ("https://a.example:8100", Ok("https://a.example:8100")),
            ("https://A.example", Ok("https://a.example:443")),
            ("http://localhost:8100/", Ok("http://localhost:8100")),
            ("https://[::1]:8100", Ok("https://[::1]:8100")),
            ("https://[::1]", Ok("https://[::1]:443")),
            ("https://127.0.0.1:1", Ok("https://127.0.0.1:1")),
            ("ftp://a:1", Err("neither https nor http")),
            ("https://", Err("no name")),
            ("https://a:0", Err("no port")),
            ("https://a:99999", Err("no port")),
            ("https://a:", Err("no port")),
            ("https://a:+1", Err("no port")),
            ("https://a/status", Err("no name")),
            ("https://a?b:1", Err("no name")),
            ("https://me:secret@a:1", Err("--token-file")),
            ("https://me:secret@a", Err("--token-file")),
            ("https://[::1:8100", Err("not closed")),
            ("https://[nonsense]:1", Err("no address")),
        ];
        for (raw, expected) in table {
            match (Url::parse(raw), expected) {
                (Ok(url), Ok(shown)) => assert_eq!(url.to_string(), shown),
                (Err(why), Err(words)) => {
                    assert!(why.contains(words) && !why.contains("secret"), "{raw}: {why}");
                }
                (parsed, _) => panic!("{raw}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn a_token_is_not_shown_to_others_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        synapse_store::files::create_private(&path, b"s3cr3t\n").unwrap();
        let with = Credentials { token_file: Some(path), ..Credentials::default() };
        let of = |raw: &str| bearer(&Url::parse(raw).unwrap(), &with);
        for fine in ["https://far.example", "http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1"] {
            assert_eq!(of(fine).unwrap().unwrap(), "Bearer s3cr3t", "{fine}");
        }
        for bad in ["http://far.example", "http://192.0.2.1:1", "http://localhost.far.example"] {
            assert!(of(bad).unwrap_err().to_string().contains("use https://"), "{bad}");
        }
        assert!(!format!("{:?}", of("https://a").unwrap()).contains("s3cr3t"));
    }
}
