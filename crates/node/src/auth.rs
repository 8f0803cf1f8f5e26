//! Who is calling: a connection and its headers become a `Caller`. Nobody below sees a header.
//!
//! Unix socket: the kernel tells the process; a descendant of an agent *is* that agent, whatever its
//! environment says. TCP: the token in the user's home, or a stranger who may read the status.
//! Requests that a web page could have sent (foreign Host or Origin) are refused before anything else.
//!
//! Not here: what a caller may do (`synapse_core::policy`).

use http::{HeaderMap, Method, header};
use std::sync::{Arc, OnceLock};
use subtle::ConstantTimeEq;
use synapse_core::Refusal;
use synapse_core::ids::AgentId;
use synapse_core::message::Proof;
use synapse_core::policy::Caller;
use synapse_core::routes::{self, Target};
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::token::Token;
use synapse_store::{holders, registry};

/// The other end of a connection.
#[derive(Clone)]
pub enum Peer {
    Unix(Arc<UnixPeer>),
    Tcp,
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
}

pub struct Gate {
    home: Home,
    token: Token,
    port: u16,
}

impl Gate {
    pub fn new(home: Home, token: Token, port: u16) -> Self {
        Self { home, token, port }
    }

    /// A browser may be made to send requests here; it cannot be made to forge these two headers.
    pub fn check_origin(&self, peer: &Peer, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Peer::Unix(_) = peer {
            return Ok(());
        }
        let text = |name| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
        let host = text(header::HOST).unwrap_or("");
        if !self.is_own(host) {
            return Err(Refusal::bad_field("Host", format!("{host:?} is not this machine; use localhost")));
        }
        match text(header::ORIGIN) {
            None => Ok(()),
            Some(origin) if origin.strip_prefix("http://").is_some_and(|host| self.is_own(host)) => Ok(()),
            Some(origin) => Err(Refusal::bad_field(
                "Origin",
                format!("{origin:?} may not call this; web pages of others are refused"),
            )),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let names = ["localhost", "127.0.0.1", "[::1]"];
        let with_port = |name: &str| format!("{name}:{}", self.port);
        names.iter().any(|name| host.eq_ignore_ascii_case(&with_port(name)))
    }

    pub fn caller(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
        match peer {
            Peer::Unix(peer) => {
                let caller = peer.caller.get_or_init(|| self.by_ancestry(peer.pid)).clone();
                Ok(passed_on(caller, headers))
            }
            Peer::Tcp => self.by_token(headers),
        }
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

/// An agent's node says when it passes on what lay in the agent's outbox. This only ever lowers what is believed.
fn passed_on(caller: Caller, headers: &HeaderMap) -> Caller {
    match caller {
        Caller::Agent { id, label, role, proof: Proof::Socket }
            if headers.get(synapse_peer::VIA).is_some_and(|via| via == synapse_peer::VIA_OUTBOX) =>
        {
            Caller::Agent { id, label, role, proof: Proof::Outbox }
        }
        caller => caller,
    }
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
