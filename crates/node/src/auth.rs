//! Authentication: turns a connection and its headers into a `Caller`. No code below sees a header.
//!
//! Unix socket: the kernel names the process; a descendant of an agent *is* that agent, whatever
//! its environment says. TCP: the caller has a secret (`secrets`), or a certificate that the
//! settings give a name to (REST-8), or it is a stranger who may read the status. A caller on this
//! machine whose process runs under an agent is that agent, whatever it presents (`owner`).
//! Addresses that may not call, and requests that a web page could have sent, are refused before
//! anything else.
//!
//! Not here: what a caller may do (`synapse_core::policy`).

mod origin;
mod peer;

pub use peer::{Peer, TcpPeer, TlsPeer};

use crate::ancestry::Kin;
use crate::certified::{as_label, identity, shown};
use crate::driver::now;
use crate::metrics::{Metrics, Unproven};
use crate::outbox;
use crate::owner::{self, Owner};
use crate::secrets::{Bearer, Found, Guesses, Secrets};
use http::{HeaderMap, Method, header};
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;
use synapse_core::Refusal;
use synapse_core::ids::{AgentId, Label};
use synapse_core::message::Proof;
use synapse_core::policy::{self, About, BadRights, Caller, Rules, Verb};
use synapse_core::routes::{self, NearFolders, Target};
use synapse_holder::SystemLimit;
use synapse_settings::Settings;
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::registry;
use synapse_tls::Certificate;
use synapse_tls::certificate::Standing;

/// Returns the current settings; called often, so it must be cheap.
pub type SettingsNow = Arc<dyn Fn() -> Arc<Settings> + Send + Sync>;

pub struct Gate {
    home: Home,
    port: u16,
    metrics: Arc<Metrics>,
    secrets: Secrets,
    guesses: Mutex<Guesses>,
    source: SettingsNow,
    made: RwLock<Arc<Made>>,
    /// Names of this machine besides those of loopback.
    hosts: Vec<String>,
    /// The public URL given at the start.
    public_url: Option<String>,
    /// Anyone on this machine may give tasks.
    open: bool,
}

/// Values derived from the settings.
struct Made {
    of: Arc<Settings>,
    rules: Arc<Rules>,
    allow: Vec<IpNet>,
}

/// Settings that cannot be applied as intended.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    #[error("{0}; see `rights` in the user's settings")]
    Rights(#[from] BadRights),
    #[error("network.allow: {raw:?} is neither an address nor a range such as 10.0.0.0/8 or 2001:db8::/32")]
    Allow { raw: String },
}

impl Made {
    fn of(settings: Arc<Settings>) -> Result<Self, BadSettings> {
        let rules = Arc::new(Rules::with(&settings.rights)?);
        let allow = settings.network.allow.iter().map(|raw| range(raw)).collect::<Result<_, _>>()?;
        Ok(Self { of: settings, rules, allow })
    }
}

/// Parses an address or a range of addresses.
fn range(raw: &str) -> Result<IpNet, BadSettings> {
    let raw = raw.trim();
    let bad = || BadSettings::Allow { raw: raw.chars().take(64).collect() };
    let net = match raw.parse::<IpAddr>() {
        Ok(one) => IpNet::from(one),
        Err(_) => raw.parse().map_err(|_| bad())?,
    };
    // A range within the v4-mapped addresses stands for the mapped v4 addresses.
    Ok(match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 && v6.addr().to_ipv4_mapped().is_some() => {
            let v4 = v6.addr().to_ipv4_mapped().ok_or_else(bad)?;
            IpNet::new(v4.into(), v6.prefix_len() - 96).map_err(|_| bad())?
        }
        other => other,
    })
}

impl Gate {
    pub fn new(
        home: Home,
        port: u16,
        metrics: Arc<Metrics>,
        source: SettingsNow,
    ) -> Result<Self, BadSettings> {
        let made = Made::of(source())?;
        let secrets = Secrets::new(home.clone());
        secrets.settings(&made.of.secrets);
        let (guesses, made) = (Mutex::default(), RwLock::new(Arc::new(made)));
        let (hosts, public_url) = (Vec::new(), None);
        Ok(Self { home, port, metrics, secrets, guesses, source, made, hosts, public_url, open: false })
    }

    /// Sets the names of this machine for callers elsewhere, and its public URL.
    pub fn called(mut self, hosts: Vec<String>, public_url: Option<String>) -> Self {
        (self.hosts, self.public_url) = (hosts, public_url);
        self
    }

    /// Allows anyone on this machine to give tasks without authentication.
    pub fn open_to_anyone(mut self, open: bool) -> Self {
        if open {
            tracing::warn!(
                "anyone on this machine may give this agent tasks; it was started with --auth none"
            );
        }
        self.open = open;
        self
    }

    /// Returns the caller without proof of identity: `anyone` if the agent is open, otherwise a
    /// stranger. A process under an agent is that agent.
    pub async fn anyone(&self, peer: &Peer) -> Result<Caller, Refusal> {
        let Peer::Tcp(tcp) = peer else { return Ok(Caller::Stranger) };
        if !self.open || !tcp.remote.ip().to_canonical().is_loopback() {
            return Ok(Caller::Stranger);
        }
        let Ok(name) = Label::parse("anyone") else { return Ok(Caller::Stranger) };
        self.seen(tcp, || Ok(Caller::Named { name, role: None, proof: Proof::Open })).await
    }

    /// Returns the URL at which others reach us through a proxy.
    pub fn public_url(&self) -> Option<String> {
        self.public_url.clone().or_else(|| self.made().of.network.public_url.clone())
    }

    /// Rereads the settings. Returns the rules if they have changed. Invalid settings are logged,
    /// and the earlier ones stay in force.
    pub fn refresh(&self) -> Option<Arc<Rules>> {
        let settings = (self.source)();
        let before = self.made();
        if Arc::ptr_eq(&settings, &before.of) || *settings == *before.of {
            return None;
        }
        let made = match Made::of(settings.clone()) {
            Ok(made) => {
                self.secrets.settings(&made.of.secrets);
                made
            }
            Err(error) => {
                tracing::warn!(%error, "these settings are not used; those before stay");
                // Logged once: the earlier values stay, and later settings are compared with these.
                Made { of: settings, rules: before.rules.clone(), allow: before.allow.clone() }
            }
        };
        let changed = (*made.rules != *before.rules).then(|| made.rules.clone());
        *self.made.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
        changed
    }

    fn made(&self) -> Arc<Made> {
        self.made.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the current rules.
    pub fn rules(&self) -> Arc<Rules> {
        self.made().rules.clone()
    }

    /// Returns the variables that contain secrets, in the current settings and in those applied
    /// last. No process that we start may inherit them (M6).
    pub fn secret_variables(&self) -> Vec<String> {
        let mut all = (self.source)().secret_variables();
        all.extend(self.made().of.secret_variables());
        all
    }

    /// Whether this address may call at all (REST-6). Without a list, every address may.
    pub fn allows(&self, address: IpAddr) -> bool {
        let (made, address) = (self.made(), address.to_canonical());
        made.allow.is_empty() || made.allow.iter().any(|range| range.contains(&address))
    }

    pub fn check_address(&self, peer: &Peer) -> Result<(), Refusal> {
        match peer.address() {
            Some(address) if !self.allows(address) => {
                self.metrics.unproven(Unproven::Address);
                Err(Refusal::AddressRefused { address: address.to_string() })
            }
            _ => Ok(()),
        }
    }

    pub async fn caller(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
        match peer {
            Peer::Unix(peer) => {
                let caller = match peer.caller.get() {
                    Some(caller) => caller.clone(),
                    None => {
                        let caller = self.by_ancestry(&peer.kin)?;
                        peer.caller.get_or_init(|| caller).clone()
                    }
                };
                Ok(outbox::passed_on(caller, headers))
            }
            Peer::Tcp(tcp) => match tcp.certificate() {
                // A secret takes precedence over the certificate, from any machine.
                Some(certificate) if !headers.contains_key(header::AUTHORIZATION) => {
                    self.seen(tcp, || self.by_certificate(certificate)).await
                }
                _ => self.by_secret(tcp, headers).await,
            },
        }
    }

    fn by_certificate(&self, certificate: &Certificate) -> Result<Caller, Refusal> {
        // The handshake may have been long ago.
        if let Standing::Expired { .. } = certificate.standing(synapse_tls::now_s()) {
            let why = format!("{} has expired; connect again with a new one", shown(certificate));
            return Err(Refusal::NotProven { why });
        }
        let made = self.made();
        let known = identity(&made.of.tls.identities, certificate);
        let Some((name, known)) = known else { return Ok(Caller::Stranger) };
        self.by_name(known.role.as_deref(), known.agent.as_deref(), &as_label(name), Proof::Certificate)
    }

    /// Returns the refusal for a caller who is not known here.
    pub fn unnamed(&self, peer: &Peer) -> Refusal {
        if let Peer::Tcp(tcp) = peer
            && let Some(certificate) = tcp.certificate()
        {
            return Refusal::NotAllowed {
                who: shown(certificate),
                verb: "do this",
                need: "an entry for a name in it under `tls.identities` in ~/.synapse/settings.json, or the token",
            };
        }
        policy::may(&self.rules(), &Caller::Stranger, Verb::Read, About::default())
            .err()
            .unwrap_or(Refusal::Busy)
    }

    async fn by_secret(&self, peer: &TcpPeer, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(Caller::Stranger) };
        let found = value.as_bytes().strip_prefix(b"Bearer ").map(|given| self.look_up(peer, given));
        let bearer = match found {
            Some(Found::Known(bearer)) => bearer,
            Some(Found::Expired) => {
                return Err(self.wrong(peer, Unproven::Expired, "this token was replaced by a newer one"));
            }
            Some(Found::Limited(limit)) => return Err(at_limit(limit)),
            Some(Found::Unknown) => {
                return Err(self.wrong(peer, Unproven::Wrong, "this secret is not known here"));
            }
            None => {
                let why = "`Authorization` must be the word Bearer, a space and the secret";
                return Err(self.wrong(peer, Unproven::Wrong, why));
            }
        };
        self.seen(peer, || self.bearer(bearer)).await
    }

    /// Returns the proven caller, except that a local process under an agent is always that agent.
    async fn seen(
        &self,
        peer: &TcpPeer,
        proven: impl FnOnce() -> Result<Caller, Refusal>,
    ) -> Result<Caller, Refusal> {
        match self.owner(peer).await {
            Owner::Agents(agents) => self.under(&agents, Proof::Token),
            Owner::Limited(limit) => Err(at_limit(limit)),
            Owner::Nobody(why) => {
                tracing::info!(%why, remote = %peer.remote, "a caller is refused: its process is not known");
                self.metrics.unproven(Unproven::Unseen);
                Err(Refusal::NotProven { why: why.into() })
            }
            Owner::Person | Owner::Elsewhere => proven(),
        }
    }

    fn look_up(&self, peer: &TcpPeer, given: &[u8]) -> Found {
        let guessing = self.guesses().pause(Instant::now(), peer.remote.ip()).is_some();
        self.secrets.find(given, now().0, guessing)
    }

    /// Counts a wrong secret. After too many from one address, the refusal says that.
    fn wrong(&self, peer: &TcpPeer, what: Unproven, why: &str) -> Refusal {
        let (at, from) = (Instant::now(), peer.remote.ip());
        let mut guesses = self.guesses();
        if let Some(left) = guesses.pause(at, from) {
            self.metrics.unproven(Unproven::Guessing);
            let retry_after_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            return Refusal::TooManyGuesses { address: from.to_canonical().to_string(), retry_after_ms };
        }
        guesses.wrong(at, from);
        self.metrics.unproven(what);
        Refusal::NotProven { why: why.into() }
    }

    fn guesses(&self) -> std::sync::MutexGuard<'_, Guesses> {
        self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bearer(&self, bearer: Bearer) -> Result<Caller, Refusal> {
        match bearer {
            Bearer::User => Ok(Caller::User { proof: Proof::Token }),
            Bearer::Agent(id) => self.agent(id, Proof::Token),
            Bearer::Named { name, role, agent } => {
                let named = self.by_name(role.as_deref(), agent.as_deref(), &name, Proof::Secret);
                named.map_err(|no| match no {
                    Refusal::SystemLimit { .. } => no,
                    no => Refusal::NotProven { why: format!("the secret {name:?} is of nobody: {no}") },
                })
            }
        }
    }

    /// Finds the owner of a connection, on a blocking thread: reading the kernel's lists may take a
    /// while.
    async fn owner(&self, peer: &TcpPeer) -> Owner {
        let look = || async {
            let (home, remote, local) = (self.home.clone(), peer.remote, peer.local);
            let looked = tokio::task::spawn_blocking(move || owner::of(&home, remote, local)).await;
            match looked.unwrap_or(Owner::Nobody("the calling process could not be looked for")) {
                // Not cached: the next request may succeed.
                Owner::Limited(limit) => Err(limit),
                owner => Ok(owner),
            }
        };
        peer.owner.get_or_try_init(look).await.cloned().unwrap_or_else(Owner::Limited)
    }

    /// Returns the nearest agent among the ancestors of a process, or else the person; a stranger
    /// if that cannot be seen.
    pub fn by_ancestry(&self, kin: &Kin) -> Result<Caller, Refusal> {
        match kin {
            Kin::Person => Ok(Caller::User { proof: Proof::Socket }),
            Kin::Under(agents) => self.under(agents, Proof::Socket),
            Kin::Gone => Ok(Caller::Stranger),
            Kin::Limited(limit) => Err(at_limit(*limit)),
        }
    }

    /// Returns the nearest of these agents. A role that an agent gave to one it started counts only
    /// within its own rights; otherwise any agent could make itself a Coordinator.
    fn under(&self, agents: &[AgentId], proof: Proof) -> Result<Caller, Refusal> {
        let rules = self.rules();
        let mut above: Option<Caller> = None;
        for id in agents.iter().rev() {
            let mut caller = self.agent(*id, proof)?;
            // If the rights of one agent are unknown, so are those of the agents below it.
            if caller == Caller::Stranger {
                return Ok(caller);
            }
            if let (Caller::Agent { role, .. }, Some(above)) = (&mut caller, &above)
                && !rules.of_role(role.as_ref()).is_within(rules.of_role(above.role()))
            {
                *role = above.role().cloned();
            }
            above = Some(caller);
        }
        Ok(above.unwrap_or(Caller::Stranger))
    }

    /// Returns this agent with its role. If the role cannot be read, a stranger: the role may have
    /// fewer rights than an agent without a role.
    fn agent(&self, id: AgentId, proof: Proof) -> Result<Caller, Refusal> {
        let error = match Known::load(&self.home.agent(&id)) {
            Ok(known) => {
                let label = known.as_ref().map_or_else(|| id.short(), |k| k.agent().label());
                return Ok(Caller::Agent { id, label, role: known.and_then(|k| k.role), proof });
            }
            Err(error) => error,
        };
        if let Some(limit) = SystemLimit::behind(&error) {
            return Err(at_limit(limit));
        }
        tracing::warn!(agent = %id.short(), %error, "it may only read the status: its role is not known");
        Ok(Caller::Stranger)
    }

    /// Returns the holder of a secret or a certificate: an agent of this user, or a name with or
    /// without a role.
    pub fn by_name(
        &self,
        role: Option<&str>,
        agent: Option<&str>,
        name: &str,
        proof: Proof,
    ) -> Result<Caller, Refusal> {
        let label = |field: &str, raw: &str| {
            Label::parse(raw).map_err(|bad| Refusal::bad_field(field, bad.to_string()))
        };
        let role = role.map(|raw| label("role", raw)).transpose()?;
        let Some(raw) = agent else {
            let name = label("name", name)?;
            if ["user", "node"].iter().any(|own| name.as_str().eq_ignore_ascii_case(own)) {
                return Err(Refusal::bad_field("name", format!("{name} is the name of somebody else here")));
            }
            return Ok(Caller::Named { name, role, proof });
        };
        match self.agent(self.one_agent("agent", raw)?, proof)? {
            Caller::Agent { id, label, role: own, proof } => {
                Ok(Caller::Agent { id, label, role: role.or(own), proof })
            }
            other => Ok(other),
        }
    }

    fn one_agent(&self, field: &str, raw: &str) -> Result<AgentId, Refusal> {
        let target = Target::parse(raw).map_err(|bad| Refusal::bad_field(field, bad.to_string()))?;
        let candidates = registry::candidates(&self.home);
        let ids = routes::resolve(&target, &candidates, &NearFolders::default()).map_err(|no| {
            // An agent that could not be read is not among the candidates.
            let limit = std::fs::File::open(self.home.root()).err().and_then(|error| SystemLimit::of(&error));
            limit.map_or_else(|| Refusal::from((&target, no)), at_limit)
        })?;
        match ids[..] {
            [agent] => Ok(agent),
            _ => Err(Refusal::bad_field(field, "one agent is needed, not several")),
        }
    }

    /// Applies `from`: a person may speak for an agent of theirs; an agent only for itself.
    pub fn speaking_for(&self, caller: Caller, from: Option<&str>) -> Result<Caller, Refusal> {
        let Some(from) = from else { return Ok(caller) };
        let agent = self.one_agent("from", from)?;
        match &caller {
            Caller::User { proof } => {
                let proof = *proof;
                let label = match self.agent(agent, proof)? {
                    Caller::Agent { label, .. } => label,
                    _ => agent.short(),
                };
                Ok(Caller::UserAs { agent, label, proof })
            }
            Caller::Agent { id, .. } if *id == agent => Ok(caller),
            _ => Err(Refusal::NotAllowed {
                who: caller.label(),
                verb: "speak for another agent",
                need: "being the user, in a process that no agent started",
            }),
        }
    }
}

/// Refuses a caller that cannot be identified until the system limit is gone.
fn at_limit(limit: SystemLimit) -> Refusal {
    Refusal::SystemLimit { limit: limit.to_string() }
}

/// Whether a path is readable without authentication: the status only from this machine; health,
/// the OpenAPI document and the well-known documents from anywhere.
pub fn is_public(peer: &Peer, method: &Method, path: &str) -> bool {
    let to_all = matches!(path, "/healthz" | "/openapi.json") || path.starts_with("/.well-known/");
    matches!(*method, Method::GET | Method::HEAD) && (to_all || (peer.is_local() && path == "/status"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use synapse_settings::Network;

    fn allowing(list: &[&str]) -> Result<Gate, BadSettings> {
        let allow = list.iter().map(|raw| (*raw).to_owned()).collect();
        let network = Network { allow, ..Network::default() };
        let settings = Arc::new(Settings { network, ..Settings::default() });
        let home = Home::at("/nowhere", "/nowhere/registry");
        Gate::new(home, 1, Arc::default(), Arc::new(move || settings.clone()))
    }

    /// Finding L19, also for HTTP/2, where `:authority` is the authority of the URI.
    #[test]
    fn a_request_names_one_host() {
        let check = |uri: &str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            Gate::check_head(&uri.parse().unwrap(), &headers).is_ok()
        };
        assert!(check("/status", &[]) && check("/status", &["a:1"]) && check("http://A:1/status", &["a:1"]));
        for (uri, hosts) in [
            ("/status", &["a:1", "a:1"][..]),
            ("http://b:1/status", &["a:1"]),
            ("http://b:1/status", &[]),
            ("http://x@a:1/status", &["a:1"]),
        ] {
            assert!(!check(uri, hosts), "{uri} {hosts:?}");
        }
    }

    /// REST-6: single addresses and ranges, v4 and v6, and one address in both of its forms.
    #[test]
    fn the_allow_list() {
        let own = ["127.0.0.1", "10.1.0.0/16", "2001:db8::/32", "::1", " 192.0.2.7 "];
        let cases: [(&[&str], &str, bool); 14] = [
            (&[], "203.0.113.9", true),
            (&[], "::1", true),
            (&own, "127.0.0.1", true),
            (&own, "::ffff:127.0.0.1", true),
            (&own, "127.0.0.2", false),
            (&own, "10.1.255.255", true),
            (&own, "10.2.0.0", false),
            (&own, "2001:db8:1::1", true),
            (&own, "2001:db9::1", false),
            (&own, "::1", true),
            (&own, "192.0.2.7", true),
            (&["::ffff:10.0.0.0/104"], "10.9.9.9", true),
            (&["::ffff:10.0.0.0/104"], "11.0.0.1", false),
            (&["0.0.0.0/0"], "::1", false),
        ];
        for (list, address, allowed) in cases {
            let gate = allowing(list).unwrap();
            assert_eq!(gate.allows(address.parse().unwrap()), allowed, "{list:?} {address}");
        }
        for wrong in ["10.0.0.0/33", "localhost", "", "10.0.0", "10.0.0.0/8/8"] {
            assert!(allowing(&[wrong]).is_err(), "{wrong:?} would keep out other than was meant");
        }
    }

    /// Settings that change while the node runs are applied; invalid ones change nothing.
    #[test]
    fn settings_are_followed() {
        let current = Arc::new(Mutex::new(Arc::new(Settings::default())));
        let source = current.clone();
        let home = Home::at("/nowhere", "/nowhere/registry");
        let gate =
            Gate::new(home, 1, Arc::default(), Arc::new(move || source.lock().unwrap().clone())).unwrap();
        let set = |rights: &[(&str, &str)], allow: &[&str]| {
            let mut settings = Settings::default();
            for (role, verb) in rights {
                settings.rights.insert((*role).to_owned(), vec![(*verb).to_owned()]);
            }
            settings.network.allow = allow.iter().map(|raw| (*raw).to_owned()).collect();
            *current.lock().unwrap() = Arc::new(settings);
        };
        assert_eq!(gate.refresh(), None);
        set(&[("Reviewer", "read")], &["10.0.0.1"]);
        assert!(gate.refresh().is_some() && gate.refresh().is_none(), "told once");
        let kept = gate.rules();
        assert!(!gate.allows("10.0.0.2".parse().unwrap()));
        set(&[("Reviewer", "approve")], &[]);
        assert_eq!(gate.refresh(), None, "nobody can be given this");
        assert_eq!(gate.rules(), kept);
        assert!(!gate.allows("10.0.0.2".parse().unwrap()), "nor is half of it used");
        set(&[], &[]);
        assert_eq!(gate.refresh().as_deref(), Some(&Rules::default()));
        assert!(gate.allows("10.0.0.2".parse().unwrap()));
    }

    #[test]
    fn a_name_is_a_caller_of_its_own() {
        let gate = allowing(&[]).unwrap();
        let named = |role, agent, name| gate.by_name(role, agent, name, Proof::Certificate);
        let ci = named(Some("Coordinator"), None, "ci").unwrap();
        assert_eq!((ci.label(), ci.role().map(Label::as_str)), ("ci".into(), Some("Coordinator")));
        assert_eq!(ci.sender().proof, Proof::Certificate);
        for (role, agent, name) in
            [(None, None, "user"), (None, None, "Node"), (None, None, "a b"), (Some(""), None, "x")]
        {
            assert!(named(role, agent, name).is_err(), "{role:?} {name}");
        }
        assert!(matches!(named(None, Some("nobody"), "x"), Err(Refusal::NoSuchAgent { .. })));
    }

    /// An agent whose role cannot be read has no rights beyond the status, and neither do agents
    /// below it. An agent without a file has no role.
    #[test]
    fn agent_with_an_unreadable_role_is_a_stranger() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        home.ensure().unwrap();
        let settings = Arc::new(Settings::default());
        let gate = Gate::new(home.clone(), 1, Arc::default(), Arc::new(move || settings.clone())).unwrap();
        let [above, below] = ["ab", "cd"].map(|half| AgentId::parse(&half.repeat(32)).unwrap());
        let caller = |agents: &[AgentId]| gate.by_ancestry(&Kin::Under(agents.to_vec())).unwrap();
        assert_eq!((caller(&[above]).agent(), caller(&[above]).role()), (Some(above), None));
        home.agent(&above).ensure().unwrap();
        for damaged in ["{", "{\"schema\": \"synapse.known/99\"}", ""] {
            synapse_store::files::write_private(&home.agent(&above).known(), damaged.as_bytes()).unwrap();
            assert_eq!(caller(&[above]), Caller::Stranger, "{damaged:?}");
            assert_eq!(caller(&[below, above]), Caller::Stranger, "{damaged:?}");
            assert_eq!(gate.bearer(Bearer::Agent(above)), Ok(Caller::Stranger), "{damaged:?}");
        }
        assert_eq!(caller(&[below]).agent(), Some(below));
    }

    #[test]
    fn what_strangers_may_read() {
        let near = Peer::tcp("127.0.0.1:5".parse().unwrap(), "127.0.0.1:1".parse().unwrap(), None);
        let far = Peer::tcp("192.0.2.1:5".parse().unwrap(), "192.0.2.2:1".parse().unwrap(), None);
        let public = |peer, path| is_public(peer, &Method::GET, path);
        assert!(public(&near, "/status") && !public(&far, "/status"));
        assert!(public(&near, "/healthz") && public(&far, "/healthz"));
        assert!(!public(&near, "/metrics") && !is_public(&near, &Method::POST, "/status"));
    }

    /// REST-5: which caller a secret from the settings stands for, over a real connection; and when
    /// it does not count.
    #[test]
    fn a_secret_of_the_settings_is_a_caller() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        home.ensure().unwrap();
        synapse_store::token::Token::load_or_make(&home).unwrap();
        let path = root.path().join("ci");
        std::fs::write(&path, "of-ci-0123456789abc\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let secret = |role: Option<&str>, agent: Option<&str>| synapse_settings::Secret {
            file: Some(path.clone()),
            env: None,
            role: role.map(str::to_owned),
            agent: agent.map(str::to_owned),
        };
        let mut settings = Settings::default();
        settings.secrets.insert("ci".into(), secret(Some("Coordinator"), None));
        let current = Arc::new(Mutex::new(Arc::new(settings.clone())));
        let source = current.clone();
        let metrics = Arc::new(Metrics::default());
        let gate =
            Gate::new(home, 1, metrics.clone(), Arc::new(move || source.lock().unwrap().clone())).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, remote) = listener.accept().unwrap();
        let peer = Peer::tcp(remote, served.local_addr().unwrap(), None);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let call = |header: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, header.parse().unwrap())]);
            runtime.block_on(gate.caller(&peer, &headers))
        };
        let label = |raw: &str| Label::parse(raw).unwrap();
        let ci = Caller::Named { name: label("ci"), role: Some(label("Coordinator")), proof: Proof::Secret };
        assert_eq!(call("Bearer of-ci-0123456789abc"), Ok(ci.clone()));
        assert!(matches!(call("Bearer of-ci-0123456789abd"), Err(Refusal::NotProven { .. })));
        assert!(matches!(call("of-ci-0123456789abc"), Err(Refusal::NotProven { .. })));
        for _ in 0..Guesses::MAX - 2 {
            assert!(matches!(call("Bearer guess"), Err(Refusal::NotProven { .. })));
        }
        assert!(matches!(call("Bearer guess"), Err(Refusal::TooManyGuesses { .. })));
        let kept_out = call("Bearer of-ci-0123456789abc");
        assert!(
            matches!(kept_out, Err(Refusal::TooManyGuesses { .. })),
            "a right guess is not told from a wrong one"
        );
        *gate.guesses() = Guesses::default();
        settings.secrets.insert("ci".into(), secret(None, Some("nobody")));
        *current.lock().unwrap() = Arc::new(settings.clone());
        gate.refresh();
        let told = call("Bearer of-ci-0123456789abc").unwrap_err().to_string();
        assert!(told.contains("the secret \"ci\" is of nobody: no agent is called \"nobody\""), "{told}");
        settings.secrets.clear();
        *current.lock().unwrap() = Arc::new(settings);
        gate.refresh();
        assert!(matches!(call("Bearer of-ci-0123456789abc"), Err(Refusal::NotProven { .. })), "taken away");
        assert!(metrics.text().contains("synapse_unproven_total{why=\"wrong\"} "));
    }

    #[tokio::test]
    async fn a_certificate_is_judged_at_every_request() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home"), dir.path().join("home/registry"));
        let token = synapse_store::token::Token::load_or_make(&home).unwrap();
        let bearer = format!("Bearer {}", token.as_str()).parse().unwrap();
        let settings = Arc::new(Settings::default());
        let gate = Gate::new(home, 8100, Arc::default(), Arc::new(move || settings.clone())).unwrap();
        let (here, there) = (SocketAddr::from(([192, 0, 2, 2], 8100)), SocketAddr::from(([192, 0, 2, 1], 5)));
        let with = |not_after_s| {
            let certificate = Certificate {
                not_after_s,
                ..crate::certified::tests::certificate(&[], &[], Some("build-7"))
            };
            let tls = TlsPeer { hosts: Arc::default(), certificate: Some(certificate) };
            Peer::tcp(there, here, Some(tls))
        };
        let (fresh, late) = (with(u64::MAX), with(1));
        let nothing = HeaderMap::new();
        assert_eq!(gate.caller(&fresh, &nothing).await, Ok(Caller::Stranger));
        let told = gate.unnamed(&fresh).to_string();
        assert!(told.contains("build-7") && told.contains("tls.identities"), "{told}");
        let told = gate.caller(&late, &nothing).await.unwrap_err().to_string();
        assert!(told.contains("build-7") && told.contains("expired"), "{told}");
        let token = HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]);
        assert_eq!(gate.caller(&fresh, &token).await, Ok(Caller::User { proof: Proof::Token }));
    }
}
