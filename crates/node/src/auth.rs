//! Who is calling: a connection and its headers become a `Caller`. Nobody below sees a header.
//!
//! Unix socket: the kernel tells the process; a descendant of an agent *is* that agent, whatever its
//! environment says. TCP: the token in the user's home, a certificate that the settings give a name to
//! (REST-8), or a stranger who may read the status.
//! Requests that a web page could have sent (foreign Host or Origin) are refused before anything else.
//!
//! Not here: what a caller may do (`synapse_core::policy`).

use crate::network::Names;
use http::{HeaderMap, Method, header};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use subtle::ConstantTimeEq;
use synapse_core::Refusal;
use synapse_core::ids::AgentId;
use synapse_core::message::Proof;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_core::routes::{self, Target};
use synapse_settings::Identity;
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::token::Token;
use synapse_store::{holders, registry};
use synapse_tls::Certificate;
use synapse_tls::certificate::Standing;

/// The other end of a connection.
#[derive(Clone)]
pub enum Peer {
    Unix(Arc<UnixPeer>),
    Tcp(Arc<TcpPeer>),
}

pub struct TcpPeer {
    pub remote: SocketAddr,
    /// The address of ours that was called.
    pub local: SocketAddr,
    pub tls: Option<TlsPeer>,
}

/// What the handshake told.
pub struct TlsPeer {
    /// The names in our own certificate.
    pub hosts: Arc<[String]>,
    /// The caller's, verified.
    pub certificate: Option<Certificate>,
}

impl TcpPeer {
    fn certificate(&self) -> Option<&Certificate> {
        self.tls.as_ref()?.certificate.as_ref()
    }
}

pub struct UnixPeer {
    pid: Option<u32>,
    /// Found out once per connection, when first needed.
    caller: OnceLock<Caller>,
}

impl Peer {
    pub fn unix(pid: Option<u32>) -> Self {
        Self::Unix(Arc::new(UnixPeer { pid, caller: OnceLock::new() }))
    }

    /// A connection from `remote` to our own `local`.
    pub fn tcp(remote: SocketAddr, local: SocketAddr, tls: Option<TlsPeer>) -> Self {
        Self::Tcp(Arc::new(TcpPeer { remote, local, tls }))
    }

    /// One of which nothing is known: as far away as can be.
    pub fn unknown() -> Self {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self::tcp(nowhere, nowhere, None)
    }
}

pub struct Gate {
    home: Home,
    token: Token,
    port: u16,
    /// Names of this machine besides those of loopback.
    hosts: Vec<String>,
    /// Who the holder of a client certificate is, by a name in it.
    identities: BTreeMap<String, Identity>,
}

impl Gate {
    pub fn new(home: Home, token: Token, port: u16) -> Self {
        Self { home, token, port, hosts: Vec::new(), identities: BTreeMap::new() }
    }

    pub fn called(mut self, hosts: Vec<String>) -> Self {
        self.hosts = hosts;
        self
    }

    pub fn knowing(mut self, identities: BTreeMap<String, Identity>) -> Self {
        self.identities = identities;
        self
    }

    /// A browser may be made to send requests here; it cannot be made to forge these two headers.
    pub fn check_origin(&self, peer: &Peer, headers: &HeaderMap) -> Result<(), Refusal> {
        let Peer::Tcp(tcp) = peer else { return Ok(()) };
        let text = |name| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
        let host = text(header::HOST).unwrap_or("");
        if !self.is_own(tcp, host) {
            let help = "use localhost, or tell the node its names with --host or network.hosts";
            return Err(Refusal::bad_field("Host", format!("{host:?} is not this machine; {help}")));
        }
        let scheme = if tcp.tls.is_some() { "https://" } else { "http://" };
        match text(header::ORIGIN) {
            None => Ok(()),
            Some(origin) if origin.strip_prefix(scheme).is_some_and(|host| self.is_own(tcp, host)) => Ok(()),
            Some(origin) => Err(Refusal::bad_field(
                "Origin",
                format!("{origin:?} may not call this; web pages of others are refused"),
            )),
        }
    }

    fn is_own(&self, tcp: &TcpPeer, host: &str) -> bool {
        let certified: &[String] = tcp.tls.as_ref().map_or(&[], |tls| &tls.hosts);
        let names = Names { hosts: &self.hosts, certified, local: tcp.local.ip(), port: self.port };
        names.include(host, tcp.tls.is_some())
    }

    pub fn caller(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
        match peer {
            Peer::Unix(peer) => Ok(peer.caller.get_or_init(|| self.by_ancestry(peer.pid)).clone()),
            Peer::Tcp(tcp) => match tcp.certificate() {
                // The token is the user's whatever the machine it comes from.
                Some(certificate) if !headers.contains_key(header::AUTHORIZATION) => {
                    self.by_certificate(certificate)
                }
                _ => self.by_token(headers),
            },
        }
    }

    fn by_certificate(&self, certificate: &Certificate) -> Result<Caller, Refusal> {
        // The handshake may have been long ago.
        if let Standing::Expired { .. } = certificate.standing(synapse_tls::now_s()) {
            return Err(Refusal::NotAllowed {
                who: shown(certificate),
                verb: "go on, because it has expired",
                need: "a new one, on a new connection",
            });
        }
        let known = identity(&self.identities, certificate);
        let Some((name, known)) = known else { return Ok(Caller::Stranger) };
        self.by_name(known.role.as_deref(), known.agent.as_deref(), &as_label(name), Proof::Certificate)
    }

    // STUB until the table of rights knows callers by name: an agent is that agent, a role has no rights yet.
    pub fn by_name(
        &self,
        _role: Option<&str>,
        agent: Option<&str>,
        _name: &str,
        proof: Proof,
    ) -> Result<Caller, Refusal> {
        let Some(agent) = agent else { return Ok(Caller::Stranger) };
        let target = Target::parse(agent).map_err(|bad| Refusal::bad_field("agent", bad.to_string()))?;
        let ids = routes::resolve(&target, &registry::candidates(&self.home));
        match ids.map_err(|no| Refusal::from((&target, no)))?[..] {
            [one] => Ok(self.agent(one, proof)),
            _ => Ok(Caller::Stranger),
        }
    }
    // END OF STUB

    /// Why somebody whom nothing here names may do no more than read the status.
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
        let status = About::default();
        policy::may(&Caller::Stranger, Verb::Read, status).err().unwrap_or(Refusal::Busy)
    }

    fn by_token(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(Caller::Stranger) };
        let given = value.as_bytes().strip_prefix(b"Bearer ").unwrap_or_default();
        let same: bool = given.ct_eq(self.token.as_str().as_bytes()).into();
        if same {
            Ok(Caller::User { proof: Proof::Token })
        } else {
            Err(Refusal::NotAllowed {
                who: "a caller without a token".into(),
                verb: "do this with a wrong token",
                need: "the token in ~/.synapse/token as `Authorization: Bearer …`",
            })
        }
    }

    /// The nearest agent among the ancestors of a process, or else the person. A process whose ancestors
    /// cannot be seen to the end, because it or one of them has gone meanwhile, is nobody: otherwise a child
    /// that connects and exits could pass its parent's words off as the person's.
    fn by_ancestry(&self, pid: Option<u32>) -> Caller {
        const LOOKS: usize = 3;
        let Some(pid) = pid else { return Caller::Stranger };
        let whole = (0..LOOKS).find_map(|_| whole_ancestry(pid));
        let Some(ancestors) = whole else { return Caller::Stranger };
        for ancestor in ancestors {
            let Some(id) = holders::claimed_by(&self.home, ancestor) else { continue };
            let dir = self.home.agent(&id);
            let held = synapse_holder::holder_of(dir.path());
            if held.is_some_and(|mark| mark.pid == ancestor && mark.is_alive()) {
                return self.agent(id, Proof::Socket);
            }
        }
        Caller::User { proof: Proof::Socket }
    }

    pub fn agent(&self, id: AgentId, proof: Proof) -> Caller {
        let known = Known::load(&self.home.agent(&id)).ok().flatten();
        let label = known.as_ref().map_or_else(|| id.short(), |k| k.agent().label());
        Caller::Agent { id, label, role: known.and_then(|k| k.role), proof }
    }

    /// `from`: a person may speak for an agent of theirs; an agent only for itself.
    pub fn speaking_for(&self, caller: Caller, from: Option<&str>) -> Result<Caller, Refusal> {
        let Some(from) = from else { return Ok(caller) };
        let target = Target::parse(from).map_err(|bad| Refusal::bad_field("from", bad.to_string()))?;
        let candidates = registry::candidates(&self.home);
        let ids = routes::resolve(&target, &candidates).map_err(|no| Refusal::from((&target, no)))?;
        let [agent] = ids[..] else {
            return Err(Refusal::bad_field("from", "one agent is needed, not several"));
        };
        match &caller {
            Caller::User { proof } => {
                let proof = *proof;
                let label = match self.agent(agent, proof) {
                    Caller::Agent { label, .. } => label,
                    other => other.label(),
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

/// Who the settings say the holder is: the first of its names that they know (SAN DNS, SAN URI, then CN).
fn identity<'a>(
    identities: &'a BTreeMap<String, Identity>,
    certificate: &'a Certificate,
) -> Option<(&'a str, &'a Identity)> {
    certificate.identities().find_map(|name| Some((name, identities.get(name)?)))
}

/// A name in a certificate may be a URI; what is no part of a label becomes a hyphen.
fn as_label(name: &str) -> String {
    const LENGTH_MAX: usize = 64;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).chars().take(LENGTH_MAX).collect()
}

fn shown(certificate: &Certificate) -> String {
    const NAMES_MAX: usize = 5;
    let names: Vec<&str> = certificate.identities().take(NAMES_MAX).collect();
    format!("the holder of the certificate {:?}", names.join(", "))
}

/// A process and all above it, if nothing changed while we looked.
fn whole_ancestry(pid: u32) -> Option<Vec<u32>> {
    let before = synapse_holder::ProcessMark::of(pid)?;
    let ancestors = synapse_holder::ancestors(pid);
    let top = synapse_holder::parent_of(*ancestors.last()?)?;
    let same = synapse_holder::ProcessMark::of(pid)? == before;
    // Process 1 is everybody's ancestor; 0 stands above whoever came from outside our pid namespace.
    (same && top <= 1).then_some(ancestors)
}

/// What anybody on this machine may read without a token.
pub fn is_public(method: &Method, path: &str) -> bool {
    method == Method::GET
        && (matches!(path, "/status" | "/openapi.json" | "/healthz") || path.starts_with("/.well-known/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::ids::Label;

    fn certificate(dns: &[&str], uris: &[&str], common_name: Option<&str>) -> Certificate {
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

    /// REST-8: the names of a certificate are looked up in one order, and nobody is known by a part of one.
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
    fn a_certificate_is_judged_at_every_request() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home"), dir.path().join("home/registry"));
        let token = Token::load_or_make(&home).unwrap();
        let bearer = format!("Bearer {}", token.as_str()).parse().unwrap();
        let gate = Gate::new(home, token, 8100);
        let here = SocketAddr::from(([127, 0, 0, 1], 8100));
        let with = |not_after_s| {
            let certificate = Certificate { not_after_s, ..certificate(&[], &[], Some("build-7")) };
            let tls = TlsPeer { hosts: Arc::default(), certificate: Some(certificate) };
            Peer::tcp(here, here, Some(tls))
        };
        let (fresh, late) = (with(u64::MAX), with(1));
        let nothing = HeaderMap::new();
        assert_eq!(gate.caller(&fresh, &nothing), Ok(Caller::Stranger));
        let told = gate.unnamed(&fresh).to_string();
        assert!(told.contains("build-7") && told.contains("tls.identities"), "{told}");
        let told = gate.caller(&late, &nothing).unwrap_err().to_string();
        assert!(told.contains("build-7") && told.contains("expired"), "{told}");
        let token = HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]);
        assert_eq!(gate.caller(&fresh, &token), Ok(Caller::User { proof: Proof::Token }));
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
