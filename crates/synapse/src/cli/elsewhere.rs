//! Agents elsewhere that speak A2A, where a target is otherwise an agent of this machine or a node of Synapse.
//!
//! A URL that is only an origin is asked for its card first, without a secret: a node of Synapse says in every answer that
//! it is one, and is then spoken to as before. Whoever else has a card is spoken to in A2A. A URL with a path is A2A.
//!
//! Not here: the protocol (`synapse-peer`), keeping remotes (`synapse-store`).

pub(super) mod send;
pub(super) mod show;
pub(super) mod wire;

use super::Calling;
use super::there::{There, from_env};
use crate::agents::Roll;
use crate::fail::{self, Fail};
use synapse_core::ids::Label;
use synapse_node::driver::now;
use synapse_peer::a2a::{self, Agent, AskError, Card, Found, HttpUrl, Look, Trust};
use synapse_peer::{Credentials, Url, web};
use synapse_store::home::Home;
use synapse_store::remotes::{Bring, KnownCard, Remote};
use synapse_tls::ClientFiles;

/// Who was meant.
pub(super) enum Called {
    /// Somebody of this machine, if anybody.
    Here,
    Node(There),
    Agent(Box<Elsewhere>),
}

/// An agent elsewhere, found and believed as far as that goes.
pub(super) struct Elsewhere {
    /// Its name here, or its URL.
    pub label: String,
    pub url: HttpUrl,
    pub name: Option<Label>,
    pub agent: Agent,
}

impl Called {
    pub(super) async fn by(target: &str, calling: &Calling, roll: &Roll) -> Result<Self, Fail> {
        if Url::is_meant(target) {
            return by_url(target, calling, &roll.home).await;
        }
        let Ok(name) = Label::parse(target) else { return Ok(Self::Here) };
        let Some(remote) = Remote::find(&roll.home, &name)? else { return Ok(Self::Here) };
        if roll.find(target).is_ok_and(|found| !found.is_empty()) {
            return Err(Fail::refused(format!(
                "{name} is an agent here and a remote at {}; call the remote by its URL, or remove it: \
                 `synapse a2a remove {name}`",
                remote.url
            )));
        }
        by_name(remote, calling, &roll.home).await.map(|found| Self::Agent(Box::new(found)))
    }
}

async fn by_url(raw: &str, calling: &Calling, home: &Home) -> Result<Called, Fail> {
    let url = HttpUrl::parse(raw).map_err(Fail::usage)?;
    let with = credentials(calling, &Bring::default());
    let web = a2a::client(&url, &with);
    let found = match a2a::look(&web, &url).await {
        Ok(Look::Found(found)) => *found,
        // Who cannot be reached is told by the way that was there first.
        Ok(_) => return Ok(Called::Node(There::at(&url, calling))),
        Err(AskError::Web(_)) if url.is_bare() => return Ok(Called::Node(There::at(&url, calling))),
        Err(e) => return Err(failed(&e, raw)),
    };
    let trust = a2a::check(&web, &found).await.map_err(|e| failed(&e, raw))?;
    for remote in same_host(home, &url) {
        trust.follows(remote.card.signed_by.as_deref()).map_err(|why| changed_key(&remote.name, &why))?;
    }
    let agent = Agent::new(web, found, &with, &calling.allow_hosts).map_err(|e| failed(&e, raw))?;
    Ok(Called::Agent(Box::new(Elsewhere { label: url.to_string(), url, name: None, agent })))
}

async fn by_name(mut remote: Remote, calling: &Calling, home: &Home) -> Result<Elsewhere, Fail> {
    let name = remote.name.clone();
    let failed = |e: &AskError| failed(e, name.as_str());
    let url = HttpUrl::parse(&remote.url).map_err(Fail::usage)?;
    let with = credentials(calling, &remote.bring);
    let web = a2a::client(&url, &with);
    if !remote.card.is_fresh(now().0) {
        remote.card = refreshed(&web, &with, &remote).await?;
        remote.save(home)?;
    }
    let found = known(&remote.card)?;
    let allowed: Vec<String> = remote.allow_hosts.iter().chain(&calling.allow_hosts).cloned().collect();
    let agent = Agent::new(web, found, &with, &allowed).map_err(|e| failed(&e))?;
    Ok(Elsewhere { label: name.to_string(), url, name: Some(name), agent })
}

/// The card as it is now, signed by whoever signed it before.
pub(super) async fn refreshed(
    web: &web::Client,
    with: &Credentials,
    remote: &Remote,
) -> Result<KnownCard, Fail> {
    let name = &remote.name;
    let failed = |e: &AskError| failed(e, name.as_str());
    let (at, meant) = places(&remote.card)?;
    let etag = remote.card.etag.as_deref();
    match a2a::again(web, &at, meant, etag).await.map_err(|e| failed(&e))? {
        Look::Found(found) => {
            let trust = a2a::check(web, &found).await.map_err(|e| failed(&e))?;
            trust.follows(remote.card.signed_by.as_deref()).map_err(|why| changed_key(name, &why))?;
            let found = match Agent::new(web.clone(), (*found).clone(), with, &remote.allow_hosts) {
                Ok(agent) => more(web, *found, &agent, &trust).await,
                Err(_) => *found,
            };
            Ok(to_keep(&found, &trust))
        }
        Look::Unchanged { max_age_s } => {
            Ok(KnownCard { fetched_ms: now().0, max_age_s, ..remote.card.clone() })
        }
        Look::Node => Err(Fail::refused("a node of Synapse without a card")),
    }
}

/// As far as it goes for us: what known callers are shown, if it is by whoever signed what all are shown. Else that.
pub(super) async fn more(web: &web::Client, found: Found, agent: &Agent, trust: &Trust) -> Found {
    let Ok(Some(card)) = agent.extended().await else { return found };
    let extended = Found { card, ..found.clone() };
    match a2a::check(web, &extended).await {
        Ok(theirs) if theirs.follows(trust.key()).is_ok() => extended,
        _ => found,
    }
}

pub(super) fn to_keep(found: &Found, trust: &Trust) -> KnownCard {
    KnownCard {
        value: found.card.value.clone(),
        at: found.at.to_string(),
        meant: found.meant.as_ref().map(ToString::to_string),
        etag: found.etag.clone(),
        fetched_ms: now().0,
        max_age_s: found.max_age_s,
        signature: trust.words(),
        signed_by: trust.key().map(str::to_owned),
    }
}

/// A card that is kept, as if it had just come.
pub(super) fn known(card: &KnownCard) -> Result<Found, Fail> {
    let (at, meant) = places(card)?;
    let read = Card::read_from(card.value.clone(), &at)
        .map_err(|why| Fail::refused(format!("the card that is kept: {why}")))?;
    Ok(Found { card: read, at, meant, etag: card.etag.clone(), max_age_s: card.max_age_s })
}

fn places(card: &KnownCard) -> Result<(HttpUrl, Option<HttpUrl>), Fail> {
    let parse = |raw: &str| HttpUrl::parse(raw).map_err(Fail::refused);
    Ok((parse(&card.at)?, card.meant.as_deref().map(parse).transpose()?))
}

/// Remotes whose cards come from the same host.
pub(super) fn same_host(home: &Home, url: &HttpUrl) -> Vec<Remote> {
    let (mut all, _) = Remote::all(home);
    all.retain(|one| HttpUrl::parse(&one.card.at).is_ok_and(|at| at.origin() == url.origin()));
    all
}

fn changed_key(name: &Label, why: &str) -> Fail {
    let message = format!(
        "{why}. Nothing was sent. It may have a new key, or somebody else answers in its place. If you know that it has: \
         `synapse a2a refresh {name} --accept-key`"
    );
    Fail::new(fail::REFUSED, "key_changed", message)
}

/// What was said on the command line, over what is kept. The variables for nodes of Synapse are not for strangers.
pub(super) fn credentials(calling: &Calling, kept: &Bring) -> Credentials {
    let pair = match (&calling.cert, &calling.key) {
        (None, None) => (kept.cert.clone(), kept.key.clone()),
        (cert, key) => (cert.clone(), key.clone()),
    };
    let ca = calling.ca.clone().or_else(|| kept.ca.clone()).or_else(|| from_env("SYNAPSE_CA"));
    let (token_file, token_env) = match (&calling.token_file, &calling.token_env) {
        (None, None) => (kept.token_file.clone(), kept.token_env.clone()),
        (file, variable) => (file.clone(), variable.clone()),
    };
    Credentials { tls: ClientFiles { ca, cert: pair.0, key: pair.1 }, token_file, token_env }
}

/// A failure of a call, with whom it was to.
pub(super) fn failed(error: &AskError, label: &str) -> Fail {
    let code = match error {
        AskError::Refused { .. } | AskError::NotLetIn { .. } | AskError::OtherHost { .. } => fail::REFUSED,
        AskError::Distrusted { .. } | AskError::NotSpoken { .. } => fail::REFUSED,
        AskError::Unusable { .. } | AskError::Web(web::WebError::Target(_)) => fail::USAGE,
        _ => fail::ERROR,
    };
    Fail::new(code, error.code(), format!("{label}: {error}"))
}

impl Elsewhere {
    /// How a task of it is called on a command line.
    pub(super) fn task_ref(&self, id: &str) -> String {
        match &self.name {
            Some(name) => format!("{name}/{id}"),
            None => id.to_owned(),
        }
    }

    /// The flag with which later commands name a task of it.
    pub(super) fn remote_flag(&self) -> String {
        match &self.name {
            Some(_) => String::new(),
            None => format!(" --remote {}", self.url),
        }
    }

    pub(super) fn fail(&self, error: &AskError) -> Fail {
        failed(error, &self.label)
    }
}

/// `name/id`, if the part before the slash is a remote.
pub(super) async fn of_task(
    raw: &str,
    at: Option<&str>,
    calling: &Calling,
    roll: &Roll,
) -> Result<Option<(Elsewhere, String)>, Fail> {
    let (target, id) = match (at, raw.split_once('/')) {
        (Some(at), _) => (at, raw),
        (None, Some((name, id))) if !Url::is_meant(raw) => (name, id),
        _ => return Ok(None),
    };
    match Called::by(target, calling, roll).await? {
        Called::Agent(found) => Ok(Some((*found, id.to_owned()))),
        Called::Node(_) => {
            Err(Fail::usage(format!("{target} is a node of Synapse; name the task by its id")))
        }
        Called::Here => {
            Err(Fail::refused(format!("there is no remote {target:?}; `synapse a2a list` shows them")))
        }
    }
}
