//! Seals: prove the sender of a spooled letter.
//!
//! The writer of a letter seals it with the token of its sender: a keyed hash over receiver, sender
//! and message. A letter is kept even without a seal, with a wrong one, or with the seal of an
//! expired token, but its sender is then shown as unproven. A seal proves only that the writer
//! could read the sender's token.
//!
//! Not here: letters themselves (`post`).

use crate::driver::now;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};
use synapse_core::ids::AgentId;
use synapse_core::message::{Sender, Who};
use synapse_dialects::message::MessageRequest;
use synapse_store::home::Home;
use synapse_store::token::TokenFile;

/// The owner of the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To<'a> {
    Agent(&'a AgentId),
    User,
}

/// Returns the seal of a letter, or `None` if the sender has no token; the sender is then unproven.
pub fn seal(home: &Home, to: To<'_>, from: &Sender, request: &MessageRequest) -> Option<String> {
    let token = token_of(home, from).load().ok()?;
    Some(hex(keyed_hash(&token.digest(), &said(to, from, request)?)))
}

/// Whether this is the seal of that letter, by a token that is valid now.
pub fn is_sealed(home: &Home, to: To<'_>, from: &Sender, request: &MessageRequest, seal: &str) -> bool {
    let file = token_of(home, from);
    let (Some(said), Ok(token), Ok(replaced)) = (said(to, from, request), file.load(), file.replaced())
    else {
        return false;
    };
    let at = now().0;
    let good = replaced.into_iter().filter(|old| old.until_ms > at).map(|old| old.digest);
    let fits = |key: [u8; 32]| hex(keyed_hash(&key, &said)).as_bytes().ct_eq(seal.as_bytes());
    let found = good.chain([token.digest()]).fold(Choice::from(0), |found, key| found | fits(key));
    found.into()
}

/// Selects the token of a sender. Messages of a person, also on behalf of an agent, and of a name
/// that a node passes on, are sealed with the user's token.
fn token_of(home: &Home, from: &Sender) -> TokenFile {
    match &from.who {
        Who::Agent(id) if !from.by_user => TokenFile::of_agent(&home.agent(id)),
        Who::Agent(_) | Who::User | Who::Named(_) => TokenFile::of_user(home),
    }
}

/// Returns the sealed bytes. The sender's proof is not among them: the reader must not trust it.
fn said(to: To<'_>, from: &Sender, request: &MessageRequest) -> Option<Vec<u8>> {
    let to = match to {
        To::Agent(id) => id.to_string(),
        To::User => "user".to_owned(),
    };
    serde_json::to_vec(&("synapse letter", to, &from.who, &from.label, from.by_user, request)).ok()
}

/// HMAC with SHA-256 (RFC 2104), for keys of 32 bytes.
fn keyed_hash(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: [u8; 32]) -> String {
    AgentId::from_bytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::message::Proof;
    use synapse_store::token::Token;

    /// Compared with a value from another program.
    #[test]
    fn the_keyed_hash_is_the_usual_one() {
        let key: [u8; 32] = std::array::from_fn(|n| u8::try_from(n).unwrap());
        let told = hex(keyed_hash(&key, b"what do ya want for nothing?"));
        assert_eq!(told, "099805f4ac310786968565c098db515cc50862b420ae31e20238312344bed36a");
    }

    /// a seal is for one sender, one receiver and one text, and is valid as long as the
    /// token.
    #[test]
    fn a_seal_is_of_one_letter() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        home.ensure().unwrap();
        Token::load_or_make(&home).unwrap();
        let (ana, bob) = (AgentId::from_bytes([1; 32]), AgentId::from_bytes([2; 32]));
        TokenFile::of_agent(&home.agent(&ana)).load_or_make().unwrap();
        let sender = |who, by_user| Sender { who, label: "x".into(), by_user, proof: Proof::Spool };
        let from_ana = sender(Who::Agent(ana), false);
        let request = MessageRequest { message: "hi".into(), priority: Some(3), ..MessageRequest::default() };
        let own = seal(&home, To::Agent(&bob), &from_ana, &request).unwrap();
        let fits = |to, from: &Sender, request: &MessageRequest| is_sealed(&home, to, from, request, &own);
        assert!(fits(To::Agent(&bob), &from_ana, &request));
        let again: MessageRequest = serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
        assert!(fits(To::Agent(&bob), &Sender { proof: Proof::Own, ..from_ana.clone() }, &again));
        let other = MessageRequest { message: "ho".into(), ..request.clone() };
        assert!(!fits(To::Agent(&bob), &from_ana, &other));
        assert!(!fits(To::Agent(&ana), &from_ana, &request), "another receiver");
        assert!(!fits(To::User, &from_ana, &request));
        assert!(!fits(To::Agent(&bob), &sender(Who::User, false), &request), "another sender");
        assert!(!fits(To::Agent(&bob), &sender(Who::Agent(ana), true), &request), "by the user");
        assert_eq!(seal(&home, To::Agent(&ana), &sender(Who::Agent(bob), false), &request), None, "no token");
        let file = TokenFile::of_agent(&home.agent(&ana));
        file.rotate(now().0, 60_000).unwrap();
        assert!(fits(To::Agent(&bob), &from_ana, &request), "the overlap");
        file.rotate(now().0, 0).unwrap();
        assert!(fits(To::Agent(&bob), &from_ana, &request), "the overlap of the one before goes on");
        let replaced = std::fs::read_to_string(file.old_path()).unwrap();
        let ended: String =
            replaced.lines().map(|line| format!("{} 1\n", line.split(' ').next().unwrap())).collect();
        std::fs::write(file.old_path(), ended).unwrap();
        assert!(!fits(To::Agent(&bob), &from_ana, &request), "and ends");
    }
}
