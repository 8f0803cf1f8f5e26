//! Addresses of agents elsewhere: an origin, a path, and nothing that could hide another host.
//!
//! Invariant: what was parsed is written the same way, so that two addresses are equal if they are written equally.

use crate::Url;
use std::fmt;

/// `https://host:port/path?query`, without a user, a password or a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    origin: Url,
    /// From the first `/` on; at least `/`.
    path: String,
    query: Option<String>,
}

const BYTES_MAX: usize = 2 << 10;

impl HttpUrl {
    pub fn parse(raw: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| format!("{raw:.200?} is no address of an agent: {why}; use https://HOST:PORT/PATH");
        if raw.len() > BYTES_MAX {
            return Err("an address is longer than 2048 bytes".into());
        }
        if !raw.starts_with("https://") && !raw.starts_with("http://") {
            return Err(wrong("it is neither https nor http"));
        }
        if raw.contains('#') {
            return Err(wrong("it has a fragment"));
        }
        // Readers differ on what these mean; whoever writes them means no good.
        if raw
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || "\\\"<>^`{|}".contains(c) || !c.is_ascii())
        {
            return Err(wrong("it has characters that belong percent-encoded"));
        }
        let behind_scheme = raw.find("://").map_or(0, |n| n + 3);
        let end = raw[behind_scheme..].find(['/', '?']).map_or(raw.len(), |n| behind_scheme + n);
        let (origin, rest) = raw.split_at(end);
        let origin = Url::parse(origin)?;
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        if path.split('/').any(|piece| matches!(piece, "." | "..")) {
            return Err(wrong("it goes up and down"));
        }
        let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        Ok(Self { origin, path, query })
    }

    pub fn origin(&self) -> &Url {
        &self.origin
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn has_query(&self) -> bool {
        self.query.is_some()
    }

    /// Whether it is only an origin.
    pub fn is_bare(&self) -> bool {
        self.path == "/" && self.query.is_none()
    }

    /// What stands behind the verb of a request.
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// Further down, whether or not this ends with a slash.
    pub fn below(&self, more: &str) -> Self {
        let path = format!("{}/{more}", self.path.trim_end_matches('/'));
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
            None => (path, None),
        };
        Self { origin: self.origin.clone(), path, query }
    }

    /// The same host, from the top.
    pub fn at_root(&self, more: &str) -> Self {
        Self { origin: self.origin.clone(), path: format!("/{more}"), query: None }
    }
}

/// The port is left out where the scheme says it.
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Url { is_https, host, port } = &self.origin;
        let (scheme, usual) = if *is_https { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{host}")?;
        if *port != usual {
            write!(f, ":{port}")?;
        }
        match self.is_bare() {
            true => Ok(()),
            false => f.write_str(&self.target()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let table = [
            ("https://a.example", Ok("https://a.example")),
            ("https://A.example:443/", Ok("https://a.example")),
            ("http://[::1]:8100/x/y", Ok("http://[::1]:8100/x/y")),
            ("https://a/x?y=1", Ok("https://a/x?y=1")),
            ("https://a?y=1", Ok("https://a/?y=1")),
            ("https://a/%41", Ok("https://a/%41")),
            ("https://a/x#y", Err("fragment")),
            ("https://me:secret@a/x", Err("--token-file")),
            ("https://a\\@b/", Err("percent-encoded")),
            ("https://a/ b", Err("percent-encoded")),
            ("https://ä/", Err("percent-encoded")),
            ("https://a/../b", Err("up and down")),
            ("gopher://a/", Err("neither https nor http")),
            ("a/b", Err("neither https nor http")),
        ];
        for (raw, expected) in table {
            match (HttpUrl::parse(raw), expected) {
                (Ok(url), Ok(shown)) => assert_eq!(url.to_string(), shown),
                (Err(why), Err(words)) => {
                    assert!(why.contains(words) && !why.contains("secret"), "{raw}: {why}")
                }
                (parsed, _) => panic!("{raw}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn further_down() {
        let of = |raw: &str| HttpUrl::parse(raw).unwrap();
        assert_eq!(of("https://a").below("x").to_string(), "https://a/x");
        assert_eq!(of("https://a/b/").below("x/y?z=1").to_string(), "https://a/b/x/y?z=1");
        assert_eq!(of("https://a/b/c").at_root(".well-known/x").to_string(), "https://a/.well-known/x");
        assert!(of("https://a/").is_bare() && !of("https://a/b").is_bare());
    }
}
