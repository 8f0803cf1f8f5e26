//! Signing and verifying: what breaks a signature, which keys may not be used, and the examples of the RFCs.

use super::*;
use crate::card::tests::sample;

const JKU: &str = "https://box.example:8100/.well-known/jwks.json";

fn signed() -> (Value, Key) {
    let key = Key::read(&Key::make().unwrap()).unwrap();
    let mut document = card::document(&sample().card()).unwrap();
    sign(&mut document, &key, JKU).unwrap();
    (document, key)
}

fn keys(key: &Key) -> Jwks {
    Jwks::read(&key.jwks(), 0)
}

/// A18, A20, A21.
#[test]
fn a_card_is_signed_over_its_fields_and_over_all_of_it() {
    let (document, key) = signed();
    let claims = claims(&document);
    assert_eq!(claims.len(), 3, "by the text, as the Python SDK reads it, and the whole document");
    for claim in &claims {
        assert_eq!((claim.alg.as_str(), claim.kid.as_str()), ("ES256", key.kid()));
        assert_eq!(claim.jku.as_deref(), Some(JKU));
        let head = URL_SAFE_NO_PAD.decode(&claim.protected).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&head).unwrap()["typ"], "JOSE");
    }
    let verified = verify(&document, &keys(&key)).unwrap();
    assert_eq!(verified.covers, Covers::Document);
    assert_eq!((verified.kid.as_str(), verified.thumbprint.as_str()), (key.kid(), key.kid()));
    // Whoever passes on only what 1.0 knows passes on what is signed.
    let card: pb::AgentCard = serde_json::from_value(document).unwrap();
    let passed_on = serde_json::to_value(&card).unwrap();
    assert_eq!(verify(&passed_on, &keys(&key)).unwrap().covers, Covers::Document, "there is no more in it");
    let mut extended = sample().card();
    sign_card(&mut extended, &key, JKU).unwrap();
    let extended = serde_json::to_value(&extended).unwrap();
    assert_eq!(verify(&extended, &keys(&key)).unwrap().kid, key.kid());
    let text = document_text(&key);
    assert!(!text.contains("PRIVATE") && !format!("{key:?}").contains("PRIVATE"));
}

fn document_text(key: &Key) -> String {
    key.jwks().to_string()
}

/// A22: what is changed after it was signed is not believed, or no longer covered.
#[test]
fn mutations_break_the_signature() {
    let (document, key) = signed();
    type Change = fn(&mut Value);
    // tidy: table
    let broken: [(&str, Change); 12] = [
        ("name", |card| card["name"] = "another".into()),
        ("description", |card| card["description"] = "".into()),
        ("version", |card| drop(card.as_object_mut().unwrap().remove("version"))),
        ("url of an interface", |card| card["supportedInterfaces"][0]["url"] = "https://evil.example".into()),
        ("order of interfaces", |card| card["supportedInterfaces"].as_array_mut().unwrap().swap(0, 1)),
        ("an interface more", |card| {
            let more = json!({ "url": "https://evil.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
            card["supportedInterfaces"].as_array_mut().unwrap().push(more);
        }),
        ("a tenant", |card| card["supportedInterfaces"][0]["tenant"] = "t".into()),
        ("a capability", |card| card["capabilities"]["streaming"] = false.into()),
        ("no schemes", |card| card["securitySchemes"] = json!({})),
        ("a skill", |card| card["skills"][0]["tags"] = json!([])),
        ("provider", |card| card["provider"]["url"] = "https://evil.example".into()),
        ("an extension", |card| {
            card["capabilities"]["extensions"] = json!([{ "uri": "u", "required": true }])
        }),
    ];
    for (what, change) in broken {
        let mut changed = document.clone();
        change(&mut changed);
        assert_eq!(verify(&changed, &keys(&key)), Err(Untrusted::Broken), "{what}");
    }
    // Only the signature over the whole document covers these.
    let uncovered: [(&str, Change); 4] = [
        ("url of 0.3", |card| card["url"] = "https://evil.example".into()),
        ("interfaces of 0.3", |card| card["additionalInterfaces"] = json!([])),
        ("something new", |card| card["x"] = 1.into()),
        ("security of 0.3", |card| card["security"] = json!([])),
    ];
    for (what, change) in uncovered {
        let mut changed = document.clone();
        change(&mut changed);
        assert_eq!(verify(&changed, &keys(&key)).unwrap().covers, Covers::Fields, "{what}");
    }
    // The same in another spelling is the same.
    let respelled: Value = serde_json::from_str(&serde_json::to_string_pretty(&document).unwrap()).unwrap();
    assert_eq!(verify(&respelled, &keys(&key)).unwrap().covers, Covers::Document);
}

/// A22: signatures that are none.
#[test]
fn bad_signatures_are_passed_over() {
    let (document, key) = signed();
    let with = |signatures: Value| {
        let mut changed = document.clone();
        changed["signatures"] = signatures;
        changed
    };
    for nothing in
        [json!([]), json!(null), json!("x"), json!([1, {}]), json!([{ "protected": "!", "signature": "!" }])]
    {
        assert_eq!(verify(&with(nothing), &keys(&key)), Err(Untrusted::Unsigned));
    }
    let first = document["signatures"][0].clone();
    let head = |head: Value| {
        let mut one = first.clone();
        one["protected"] = URL_SAFE_NO_PAD.encode(head.to_string()).into();
        with(json!([one]))
    };
    let kid = key.kid();
    for (case, expected) in [
        (head(json!({ "alg": "none", "kid": kid })), Untrusted::Broken),
        (head(json!({ "alg": "HS256", "kid": kid })), Untrusted::Broken),
        (head(json!({ "alg": "ES384", "kid": kid })), Untrusted::Broken),
        (head(json!({ "alg": "ES256", "kid": kid })), Untrusted::Broken),
        (head(json!({ "alg": "ES256", "kid": kid, "crit": ["exp"] })), Untrusted::Unsigned),
        (head(json!({ "alg": "ES256", "kid": kid, "b64": false })), Untrusted::Unsigned),
        (head(json!({ "alg": "ES256" })), Untrusted::Unsigned),
        (head(json!({ "alg": "ES256", "kid": "k" })), Untrusted::UnknownKey { kids: vec!["k".into()] }),
    ] {
        assert_eq!(verify(&case, &keys(&key)), Err(expected));
    }
    // One that is right among others is enough.
    let mut many = vec![json!({ "protected": "e30", "signature": "AAAA" }), json!(7)];
    many.extend(document["signatures"].as_array().unwrap().clone());
    assert!(verify(&with(many.into()), &keys(&key)).is_ok());
    // Another key under the same name.
    let mut other = Key::read(&Key::make().unwrap()).unwrap().jwks();
    other["keys"][0]["kid"] = kid.into();
    assert_eq!(verify(&document, &Jwks::read(&other, 0)), Err(Untrusted::Broken));
}

/// A22: keys that are over, or for something else, are none.
#[test]
fn keys_that_may_not_be_used() {
    let (document, key) = signed();
    let with = |name: &str, value: Value| {
        let mut jwks = key.jwks();
        jwks["keys"][0][name] = value;
        verify(&document, &Jwks::read(&jwks, 1_000))
    };
    let unknown = Err(Untrusted::UnknownKey { kids: vec![key.kid().to_owned(); 3] });
    assert!(with("exp", 1_001.into()).is_ok());
    assert!(with("nbf", 1_000.into()).is_ok());
    for (name, value) in [
        ("exp", json!(1_000)),
        ("exp", json!("tomorrow")),
        ("nbf", json!(1_001)),
        ("revoked", json!({ "revoked_at": 5 })),
        ("use", json!("enc")),
        ("key_ops", json!(["sign"])),
        ("kty", json!("oct")),
        ("crv", json!("P-521")),
        ("x", json!("AAAA")),
        ("x", json!("!")),
    ] {
        assert_eq!(with(name, value.clone()), unknown, "{name} {value}");
    }
    assert_eq!(with("alg", "RS256".into()), Err(Untrusted::Broken));
    for nothing in [json!({}), json!({ "keys": {} }), json!([]), json!({ "keys": [1, null, {}] })] {
        assert!(Jwks::read(&nothing, 0).is_empty());
    }
}

/// RFC 7515 A.3, RFC 8037 A.3 and A.4, RFC 7638 3.1.
#[test]
fn the_examples_of_the_rfcs() {
    const RSA_N: &str = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
    let jwks = Jwks::read(
        &json!({ "keys": [
            { "kid": "ec", "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
              "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" },
            { "kid": "ed", "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" },
            { "kid": "rsa", "kty": "RSA", "alg": "RS256", "e": "AQAB", "n": RSA_N },
        ]}),
        0,
    );
    let key = |kid: &'static str| jwks.named(kid).next().unwrap();
    assert_eq!(key("ed").thumbprint(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    assert_eq!(key("rsa").thumbprint(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    let cases = [
        (
            "ec",
            "ES256",
            "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
        (
            "ed",
            "EdDSA",
            "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
        ),
    ];
    for (kid, alg, input, signature) in cases {
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert!(key(kid).verify(alg, input.as_bytes(), &signature), "{kid}");
        assert!(!key(kid).verify(alg, &input.as_bytes()[1..], &signature), "{kid}");
        assert!(!key(kid).verify("RS256", input.as_bytes(), &signature), "{kid}");
    }
}

#[test]
fn keys_that_cannot_be_read() {
    let pem = Key::make().unwrap();
    assert_eq!(Key::read(&pem).unwrap().kid(), Key::read(&format!("\n{pem}\n")).unwrap().kid());
    assert_ne!(Key::read(&pem).unwrap().kid(), Key::read(&Key::make().unwrap()).unwrap().kid());
    for bad in ["", "x", PEM_BEGIN, &pem[..pem.len() / 2], &pem.replace("PRIVATE", "PUBLIC")] {
        assert_eq!(Key::read(bad).unwrap_err(), BadKey::Form, "{bad}");
    }
}

/// Finding A13: a card of 0.3 is signed as its Python SDK canonicalizes it, and as a whole.
#[test]
fn cards_of_03_are_signed_as_03_reads_them() {
    let key = Key::read(&Key::make().unwrap()).unwrap();
    let mut card = json!({
        "name": "ä😀", "description": "", "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC", "url": "http://h",
        "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } }, "security": [{ "bearer": [] }],
        "capabilities": { "streaming": false },
    });
    let python = r#"{"capabilities":{"streaming":false},"name":"\u00e4\ud83d\ude00","securitySchemes":{"bearer":{"scheme":"bearer"}},"url":"http://h"}"#;
    let payload = jcs::canonical(&without_defaults_of_03(card.clone())).map(ascii).unwrap();
    assert_eq!(payload, python);
    sign_old(&mut card, &key, "http://h/keys").unwrap();
    assert_eq!(claims(&card).len(), 2);
    let keys = Jwks::read(&key.jwks(), 0);
    assert_eq!(verify(&card, &keys).unwrap().covers, Covers::Document);
    card["name"] = "eve".into();
    assert_eq!(verify(&card, &keys), Err(Untrusted::Broken));
}
