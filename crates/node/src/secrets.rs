//! Secrets of callers on TCP: the user's token, agents' tokens, and shared secrets from settings
//! (REST-5).
//!
//! Changed files are read again, so secrets can be rotated without a restart. The secret of a
//! caller is hashed and compared with every candidate, in constant time.
//!
//! Invariant: no secret is kept in memory or shown; only hashes are kept.
//! Not here: what a caller may do; which process it is (`owner`).

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use synapse_core::ids::AgentId;
use synapse_holder::SystemLimit;
use synapse_settings::Secret;
use synapse_store::files::{self, Access};
use synapse_store::home::Home;
use synapse_store::token::{Token, TokenFile, digest_of};

/// The owner of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    User,
    Agent(AgentId),
    /// A secret from the settings, by its name there.
    Named {
        name: String,
        role: Option<String>,
        agent: Option<String>,
    },
}

/// The result of looking up a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Known(Bearer),
    /// It was valid, and was replaced.
    Expired,
    Unknown,
    /// No known secret matches, and this system limit prevented reading some.
    Limited(SystemLimit),
}

/// All secrets that this node accepts.
#[derive(Debug)]
pub struct Secrets {
    home: Home,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    user: Looked,
    agents: HashMap<AgentId, Looked>,
    named: Vec<(Bearer, Source, Looked)>,
}

/// The source of a shared secret.
#[derive(Debug, Clone)]
enum Source {
    File(PathBuf),
    /// Read once: a variable cannot change from outside.
    Env,
}

/// The content of a file at the last look.
#[derive(Debug, Default)]
struct Looked {
    at: Option<Instant>,
    stamps: [Option<Stamp>; 2],
    candidates: Vec<Candidate>,
    /// Why the candidates could not be read.
    limit: Option<SystemLimit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    digest: [u8; 32],
    /// `None` if it does not expire.
    until_ms: Option<u64>,
}

/// Differs whenever a file was written or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, u64, u64, i64, i64);

/// How long a look at a file is valid while callers present known secrets.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The maximum number of agents whose tokens are kept in memory.
const AGENTS_MAX: usize = 256;
/// The maximum number of lines in one file.
const LINES_MAX: usize = 16;
const FILE_BYTES_MAX: usize = 16 << 10;
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=512;

impl Secrets {
    pub fn new(home: Home) -> Self {
        Self { home, kept: Mutex::default() }
    }

    /// Applies the current settings.
    pub fn settings(&self, named: &BTreeMap<String, Secret>) {
        let take = |(name, secret): (&String, &Secret)| {
            let bearer =
                Bearer::Named { name: name.clone(), role: secret.role.clone(), agent: secret.agent.clone() };
            match (&secret.file, &secret.env) {
                (Some(path), None) => Some((bearer, Source::File(path.clone()), Looked::default())),
                (None, Some(variable)) => {
                    let value = std::env::var(variable).unwrap_or_default();
                    let mut looked = Looked::default();
                    match lines_of(value.as_bytes()) {
                        Ok(candidates) => looked.candidates = candidates,
                        Err(why) => tracing::warn!(secret = %name, variable = %variable, %why, "not used"),
                    }
                    Some((bearer, Source::Env, looked))
                }
                _ => {
                    tracing::warn!(secret = %name, "not used: it needs either `file` or `env`");
                    None
                }
            }
        };
        self.lock().named = named.iter().filter_map(take).collect();
    }

    /// Returns the owner of a secret. With `guessing`, checks only tokens that we made, since
    /// nobody can guess those.
    pub fn find(&self, given: &[u8], now_ms: u64, guessing: bool) -> Found {
        let mut kept = self.lock();
        let (digest, agent) = (digest_of(given), Token::claims(given));
        kept.look(&self.home, agent, LOOK_EVERY);
        match kept.compare(&digest, agent, now_ms, guessing) {
            Found::Known(bearer) => Found::Known(bearer),
            // It may be newer than the last look.
            _ => {
                kept.look(&self.home, agent, Duration::ZERO);
                kept.compare(&digest, agent, now_ms, guessing)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A look that panicked leaves at worst an older list, which the next look replaces.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Rereads changed files, if the last look is older than `every`.
    fn look(&mut self, home: &Home, agent: Option<AgentId>, every: Duration) {
        let now = Instant::now();
        self.user.look_at_token(&TokenFile::of_user(home), now, every);
        if let Some(id) = agent.filter(|id| home.agent(id).token().exists()) {
            if self.agents.len() >= AGENTS_MAX && !self.agents.contains_key(&id) {
                self.agents.clear();
            }
            let file = TokenFile::of_agent(&home.agent(&id));
            self.agents.entry(id).or_default().look_at_token(&file, now, every);
        }
        for (bearer, source, looked) in &mut self.named {
            if let (Source::File(path), Bearer::Named { name, .. }) = (&*source, &*bearer) {
                looked.look_at_secret(path, name, now, every);
            }
        }
    }

    /// Compares every candidate and uses the last match: the time must not reveal its position.
    fn compare(&self, digest: &[u8; 32], agent: Option<AgentId>, now_ms: u64, guessing: bool) -> Found {
        let of_agent = agent.and_then(|id| Some((Bearer::Agent(id), self.agents.get(&id)?)));
        let named = self.named.iter().filter(|_| !guessing).map(|(bearer, _, looked)| (bearer, looked));
        let rows: Vec<(&Bearer, &Candidate)> = std::iter::once((&Bearer::User, &self.user))
            .chain(of_agent.as_ref().map(|(bearer, looked)| (bearer, *looked)))
            .chain(named)
            .flat_map(|(bearer, looked)| looked.candidates.iter().map(move |one| (bearer, one)))
            .collect();
        let mut place = 0u32;
        for (n, (_, candidate)) in (1u32..).zip(&rows) {
            place.conditional_assign(&n, candidate.digest.ct_eq(digest));
        }
        let found = usize::try_from(place).ok().and_then(|n| n.checked_sub(1)).and_then(|n| rows.get(n));
        let looked = || std::iter::once(&self.user).chain(of_agent.as_ref().map(|(_, looked)| *looked));
        let limit =
            || looked().chain(self.named.iter().map(|(.., looked)| looked)).find_map(|looked| looked.limit);
        match found {
            None => limit().map_or(Found::Unknown, Found::Limited),
            Some((_, Candidate { until_ms: Some(until), .. })) if *until <= now_ms => Found::Expired,
            Some((bearer, _)) => Found::Known((*bearer).clone()),
        }
    }
}

impl Looked {
    /// Whether a look is due and the files have changed.
    fn is_due(&mut self, now: Instant, every: Duration, stamps: impl Fn() -> [Option<Stamp>; 2]) -> bool {
        if self.at.is_some_and(|at| now.duration_since(at) < every) {
            return false;
        }
        // If a limit prevented reading, the files must still be read.
        let first = self.at.replace(now).is_none() || self.limit.take().is_some();
        let before = std::mem::replace(&mut self.stamps, stamps());
        first || before != self.stamps
    }

    fn look_at_token(&mut self, file: &TokenFile, now: Instant, every: Duration) {
        if !self.is_due(now, every, || [stamp(file.path()), stamp(&file.old_path())]) {
            return;
        }
        let read = file.replaced().and_then(|replaced| Ok((replaced, file.load()?)));
        self.candidates = match read {
            Ok((replaced, token)) => {
                // The current token comes last, so that it wins over an old entry of the same
                // token.
                let old =
                    replaced.iter().map(|old| Candidate { digest: old.digest, until_ms: Some(old.until_ms) });
                old.chain([Candidate { digest: token.digest(), until_ms: None }]).collect()
            }
            Err(error) => {
                self.limit = SystemLimit::behind(&error);
                tracing::warn!(%error, "a token is not taken");
                Vec::new()
            }
        };
    }

    fn look_at_secret(&mut self, path: &Path, name: &str, now: Instant, every: Duration) {
        if !self.is_due(now, every, || [stamp(path), None]) {
            return;
        }
        let read = if path.is_absolute() {
            files::read_private(path, FILE_BYTES_MAX, Access::Secret).map_err(|error| {
                self.limit = SystemLimit::behind(&error);
                error.to_string()
            })
        } else {
            Err(format!("{} depends on the current directory; write the whole path", path.display()))
        };
        self.candidates = read.and_then(|bytes| lines_of(&bytes)).unwrap_or_else(|why| {
            tracing::warn!(secret = %name, %why, "a secret is not taken");
            Vec::new()
        });
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some(Stamp(found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// Each line is a secret, except empty lines and those that begin with `#`.
fn lines_of(bytes: &[u8]) -> Result<Vec<Candidate>, String> {
    let mut candidates = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if !SECRET_BYTES.contains(&line.len()) || !line.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "a secret must have {} to {} visible ASCII characters",
                SECRET_BYTES.start(),
                SECRET_BYTES.end()
            ));
        }
        if candidates.len() == LINES_MAX {
            return Err(format!("more than {LINES_MAX} secrets in one place"));
        }
        candidates.push(Candidate { digest: digest_of(line), until_ms: None });
    }
    if candidates.is_empty() { Err("it is empty".into()) } else { Ok(candidates) }
}

/// Counts wrong secrets by address, so that guessing is slow.
#[derive(Debug, Default)]
pub struct Guesses {
    since: HashMap<IpAddr, (Instant, u32)>,
}

impl Guesses {
    /// The maximum number of wrong secrets from one address in a minute.
    pub const MAX: u32 = 20;
    const WINDOW: Duration = Duration::from_secs(60);
    const ADDRESSES_MAX: usize = 1_024;

    /// Returns how long no more guesses are accepted from this address.
    pub fn pause(&self, now: Instant, from: IpAddr) -> Option<Duration> {
        let (began, count) = self.since.get(&self.place(from))?;
        let left = Self::WINDOW.checked_sub(now.duration_since(*began))?;
        (*count >= Self::MAX && !left.is_zero()).then_some(left)
    }

    pub fn wrong(&mut self, now: Instant, from: IpAddr) {
        if self.since.len() >= Self::ADDRESSES_MAX {
            self.since.retain(|_, (began, _)| now.duration_since(*began) < Self::WINDOW);
        }
        let place = self.place(from);
        let (began, count) = self.since.entry(place).or_insert((now, 0));
        if now.duration_since(*began) >= Self::WINDOW {
            (*began, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
    }

    /// The key under which an address is counted. The owner of an IPv6 network has any number of
    /// addresses, so its network counts as one. When the table is full, all further addresses share
    /// a key.
    fn place(&self, from: IpAddr) -> IpAddr {
        let place = match from.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                let [a, b, c, d, ..] = v6.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            other => other,
        };
        if self.since.len() < Self::ADDRESSES_MAX || self.since.contains_key(&place) {
            place
        } else {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn home() -> (tempfile::TempDir, Home) {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        home.ensure().unwrap();
        (root, home)
    }

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn named(name: &str, role: &str, path: &Path) -> BTreeMap<String, Secret> {
        let secret =
            Secret { file: Some(path.to_owned()), env: None, role: Some(role.to_owned()), agent: None };
        BTreeMap::from([(name.to_owned(), secret)])
    }

    /// Finds a secret when every look is due.
    fn find(secrets: &Secrets, given: &str, now_ms: u64) -> Found {
        let mut kept = secrets.lock();
        kept.user.at = kept.user.at.map(|at| at - LOOK_EVERY);
        for looked in kept.agents.values_mut() {
            looked.at = looked.at.map(|at| at - LOOK_EVERY);
        }
        for (_, _, looked) in &mut kept.named {
            looked.at = looked.at.map(|at| at - LOOK_EVERY);
        }
        drop(kept);
        secrets.find(given.as_bytes(), now_ms, false)
    }

    /// REST-5: the user's token, an agent's, and each line of a configured file; nothing else.
    #[test]
    fn each_secret_has_its_bearer() {
        let (root, home) = home();
        let user = Token::load_or_make(&home).unwrap();
        let id = AgentId::from_bytes([7; 32]);
        let agent = TokenFile::of_agent(&home.agent(&id)).load_or_make().unwrap();
        let path = root.path().join("ci");
        write(&path, "# old and new overlap\nold-secret-0123456789\n\n  new-secret-0123456789 \n", 0o600);
        let secrets = Secrets::new(home);
        secrets.settings(&named("ci", "Coordinator", &path));
        let ci = Bearer::Named { name: "ci".into(), role: Some("Coordinator".into()), agent: None };
        let cases = [
            (user.as_str(), Found::Known(Bearer::User)),
            (agent.as_str(), Found::Known(Bearer::Agent(id))),
            ("old-secret-0123456789", Found::Known(ci.clone())),
            ("new-secret-0123456789", Found::Known(ci)),
            ("", Found::Unknown),
            ("# old and new overlap", Found::Unknown),
            ("old-secret-012345678", Found::Unknown),
            (&user.as_str()[1..], Found::Unknown),
            (&agent.as_str()[65..], Found::Unknown),
        ];
        for (given, expected) in cases {
            assert_eq!(find(&secrets, given, 0), expected, "{given:?}");
        }
        assert_eq!(secrets.find(b"old-secret-0123456789", 0, true), Found::Unknown, "while guesses are made");
        assert_eq!(secrets.find(user.as_str().as_bytes(), 0, true), Found::Known(Bearer::User));
        assert!(!format!("{secrets:?}").contains("secret-0123456789"));
    }

    /// REST-5: rotated without a restart; the old secret is valid for the overlap, then not.
    #[test]
    fn rotation_needs_no_restart() {
        let (root, home) = home();
        let file = TokenFile::of_user(&home);
        let first = file.load_or_make().unwrap();
        let path = root.path().join("ci");
        write(&path, "old-secret-0123456789\n", 0o600);
        let secrets = Secrets::new(home);
        secrets.settings(&named("ci", "Coordinator", &path));
        assert_eq!(find(&secrets, first.as_str(), 1_000), Found::Known(Bearer::User));
        file.rotate(1_000, 500).unwrap();
        let second = file.load().unwrap();
        assert_eq!(find(&secrets, first.as_str(), 1_499), Found::Known(Bearer::User));
        assert_eq!(find(&secrets, second.as_str(), 1_499), Found::Known(Bearer::User));
        assert_eq!(find(&secrets, first.as_str(), 1_500), Found::Expired);
        assert_eq!(find(&secrets, second.as_str(), 1_500), Found::Known(Bearer::User));

        assert!(matches!(find(&secrets, "old-secret-0123456789", 0), Found::Known(_)));
        write(&path, "new-secret-01234567890\n", 0o600);
        assert_eq!(find(&secrets, "old-secret-0123456789", 0), Found::Unknown);
        assert!(matches!(find(&secrets, "new-secret-01234567890", 0), Found::Known(_)));
    }

    /// REST-5: a file that others could have read or written holds no valid secret.
    #[test]
    fn files_that_are_not_ours_alone_are_not_taken() {
        let (root, home) = home();
        let path = root.path().join("ci");
        let secret = "a-secret-0123456789";
        let secrets = Secrets::new(home);
        secrets.settings(&named("ci", "Coordinator", &path));
        assert_eq!(find(&secrets, secret, 0), Found::Unknown, "no file yet");
        write(&path, secret, 0o600);
        assert!(matches!(find(&secrets, secret, 0), Found::Known(_)));
        write(&path, &format!("{secret}\nshort\n"), 0o600);
        assert_eq!(find(&secrets, secret, 0), Found::Unknown, "a file with a weak secret is not half taken");
        std::fs::remove_file(&path).unwrap();
        let real = root.path().join("real");
        write(&real, secret, 0o600);
        std::os::unix::fs::symlink(&real, &path).unwrap();
        assert_eq!(find(&secrets, secret, 0), Found::Unknown, "a link");
        std::fs::remove_file(&path).unwrap();
        write(&path, secret, 0o640);
        assert_eq!(find(&secrets, secret, 0), Found::Unknown, "open to a group");
        std::fs::remove_file(&path).unwrap();
        write(&path, &"a-secret-0123456789\n".repeat(17), 0o600);
        assert_eq!(find(&secrets, secret, 0), Found::Unknown, "too many lines");
    }

    #[test]
    fn guessing_is_slow_and_the_table_has_an_end() {
        let mut guesses = Guesses::default();
        let now = Instant::now();
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        for _ in 0..Guesses::MAX {
            assert_eq!(guesses.pause(now, one), None);
            guesses.wrong(now, mapped);
        }
        assert_eq!(guesses.pause(now, one), Some(Guesses::WINDOW));
        assert_eq!(guesses.pause(now, "192.0.2.2".parse().unwrap()), None);
        assert_eq!(guesses.pause(now + Guesses::WINDOW, one), None, "a minute later");
        guesses.wrong(now + Guesses::WINDOW, one);
        assert_eq!(guesses.pause(now + Guesses::WINDOW, one), None, "and counted anew");
        for n in 0..5_000u32 {
            guesses.wrong(now, IpAddr::V4(n.into()));
        }
        assert!(guesses.since.len() <= Guesses::ADDRESSES_MAX + 1);
        assert!(guesses.pause(now, "198.51.100.9".parse().unwrap()).is_some(), "the rest share one place");
        let mut guesses = Guesses::default();
        for n in 0..Guesses::MAX {
            guesses.wrong(now, format!("2001:db8::{n:x}").parse().unwrap());
        }
        assert!(guesses.pause(now, "2001:db8::ffff".parse().unwrap()).is_some(), "one network, one place");
    }
}
