//! Public keys of others, as JSON Web Keys (RFC 7517): which of them may verify, and doing so.
//!
//! Invariant: a key that has expired, is not yet valid or was revoked is not in a set that was read.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::{Value, json};

/// Keys of one set that are looked at.
const KEYS_MAX: usize = 64;

/// A set of keys that may be used now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jwks {
    keys: Vec<PublicKey>,
}

impl Jwks {
    /// Keys that cannot verify, or not at this time, are left out (A22). Of times, a key may have `nbf` and `exp`, and
    /// `revoked`, as OpenID Federation has them.
    pub fn read(document: &Value, now_s: u64) -> Self {
        let list = document.get("keys").and_then(Value::as_array);
        let keys = list.into_iter().flatten().take(KEYS_MAX);
        Self { keys: keys.filter_map(|key| PublicKey::read(key, now_s)).collect() }
    }

    pub fn named<'a>(&'a self, kid: &'a str) -> impl Iterator<Item = &'a PublicKey> {
        self.keys.iter().filter(move |key| key.kid == kid)
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kid: String,
    /// The one algorithm it is for, if it says so.
    alg: Option<String>,
    thumbprint: String,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    Rsa { n: Vec<u8>, e: Vec<u8> },
}

impl PublicKey {
    fn read(key: &Value, now_s: u64) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let is_for_verifying = text("use").is_none_or(|what| what == "sig")
            && key
                .get("key_ops")
                .and_then(Value::as_array)
                .is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        // A time that cannot be read is no time at which to trust.
        let time = |name: &str| key.get(name).map(|at| at.as_f64());
        let is_over = time("exp").is_some_and(|at| at.is_none_or(|at| at <= now_s as f64));
        let is_early = time("nbf").is_some_and(|at| at.is_none_or(|at| at > now_s as f64));
        if !is_for_verifying || is_over || is_early || key.get("revoked").is_some() {
            return None;
        }
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == size && y.len() == size).then(|| [vec![4], x, y].concat())
        };
        let (material, thumbprint) = match (text("kty")?, text("crv")) {
            ("EC", Some("P-256")) => {
                (Material::P256(point(32)?), thumbprint_ec("P-256", text("x")?, text("y")?))
            }
            ("EC", Some("P-384")) => {
                (Material::P384(point(48)?), thumbprint_ec("P-384", text("x")?, text("y")?))
            }
            ("OKP", Some("Ed25519")) => {
                let x = bytes("x").filter(|x| x.len() == 32)?;
                (
                    Material::Ed25519(x),
                    thumbprint(&json!({ "crv": "Ed25519", "kty": "OKP", "x": text("x")? })),
                )
            }
            ("RSA", _) => {
                let of = json!({ "e": text("e")?, "kty": "RSA", "n": text("n")? });
                (Material::Rsa { n: bytes("n")?, e: bytes("e")? }, thumbprint(&of))
            }
            _ => return None,
        };
        let (kid, alg) = (text("kid")?.to_owned(), text("alg").map(str::to_owned));
        Some(Self { kid, alg, thumbprint, material })
    }

    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Whether this signature under this algorithm is of this key. Each kind of key has its own algorithms, and secrets
    /// that both sides share are none of them.
    pub fn verify(&self, alg: &str, message: &[u8], signed: &[u8]) -> bool {
        if self.alg.as_deref().is_some_and(|own| own != alg) {
            return false;
        }
        let plain = |how: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(how, key).verify(message, signed).is_ok()
        };
        match (&self.material, alg) {
            (Material::P256(key), "ES256") => plain(&signature::ECDSA_P256_SHA256_FIXED, key),
            (Material::P384(key), "ES384") => plain(&signature::ECDSA_P384_SHA384_FIXED, key),
            (Material::Ed25519(key), "EdDSA" | "Ed25519") => plain(&signature::ED25519, key),
            (Material::Rsa { n, e }, "RS256" | "PS256") => {
                let how = match alg {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    _ => &signature::RSA_PSS_2048_8192_SHA256,
                };
                RsaPublicKeyComponents { n, e }.verify(how, message, signed).is_ok()
            }
            _ => false,
        }
    }
}

/// RFC 7638: the hash of the members that make the key, in the order of their names.
pub fn thumbprint_ec(crv: &str, x: &str, y: &str) -> String {
    thumbprint(&json!({ "crv": crv, "kty": "EC", "x": x, "y": y }))
}

fn thumbprint(members: &Value) -> String {
    // Names in order and no spaces: that is how a map of these is written.
    let text = crate::jcs::canonical(members).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}
