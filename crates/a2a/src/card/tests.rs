//! What the documents of a card say, what of them is signed, and how text is cleaned.

use super::*;
use crate::wire::from_json;

/// An agent behind `https://box.example:8100`.
pub(crate) fn sample() -> Description {
    let base = "https://box.example:8100";
    let at = |path: &str, binding, version| Interface { url: format!("{base}{path}"), binding, version };
    Description {
        name: "review".into(),
        description: "Reviews a change and says what is wrong with it".into(),
        version: "1.2.3".into(),
        provider: Some(Provider { organization: "Example".into(), url: "https://example.org".into() }),
        interfaces: vec![
            at("/api/v1/agent", "JSONRPC", V10),
            at("/a2a/v1", "HTTP+JSON", V10),
            Interface { url: "box.example:8100".into(), binding: "GRPC", version: V10 },
            at("/api/v1/agent", "JSONRPC", V03),
            at("/a2a", "HTTP+JSON", V03),
        ],
        input_modes: vec!["text/plain".into()],
        output_modes: vec!["text/plain".into()],
        skills: vec![Skill {
            id: "rust".into(),
            name: "rust".into(),
            description: "Knows Rust".into(),
            tags: vec!["rust".into()],
        }],
        mtls: true,
        open: false,
        streaming: true,
        push_notifications: true,
        extensions: Vec::new(),
    }
}

/// A3–A8, A11–A13, L3, L4, DIR-2: what is in the documents, field for field.
#[test]
fn golden_documents() {
    let card = sample().card();
    let agent_json = agent_json(
        &card,
        &"0b".repeat(32),
        "https://box.example:8100/api/v1/agent",
        "https://box.example:8100/openapi.json",
    );
    for (file, document) in [("agent-card.json", document(&card)), ("agent.json", agent_json)] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
        let said = format!("{:#}\n", document.unwrap());
        // The helper of the other golden tests stands above this crate.
        if std::env::var_os("SYNAPSE_BLESS").is_some() {
            std::fs::write(&path, &said).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(said, kept, "{file}: if this is meant, run `cargo xtask golden --bless`");
    }
}

/// L4: the fields of 0.3 take nothing away from 1.0.
#[test]
fn the_document_reads_back_as_the_card_it_was_made_of() {
    let card = sample().card();
    assert_eq!(from_json::<pb::AgentCard>(document(&card).unwrap()).unwrap(), card);
    let plain = Description { mtls: false, ..sample() }.card();
    assert_eq!(from_json::<pb::AgentCard>(document(&plain).unwrap()).unwrap(), plain);
    assert_eq!(document(&plain).unwrap()["security"], json!([{ "bearer": [] }]));
}

/// Without an interface of 0.3 it is a card of 1.0 and nothing else.
#[test]
fn without_03_there_are_no_fields_of_it() {
    let mut description = sample();
    description.interfaces.retain(|one| one.version == V10);
    let document = document(&description.card()).unwrap();
    for name in ["url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security"] {
        assert!(document.get(name).is_none(), "{name}");
    }
    assert!(document["securitySchemes"]["bearer"].get("type").is_none());
}

/// A19: required fields stay though they are empty, what else is empty goes, what is set to its default on purpose stays.
#[test]
fn what_is_signed() {
    let given = json!({
        "name": "", "description": "d", "version": "1", "documentationUrl": "", "unknown": 1,
        "capabilities": { "streaming": false, "extensions": [] },
        "skills": [{ "id": "s", "examples": [] }], "supportedInterfaces": [{ "url": "u", "tenant": "" }],
        "securitySchemes": { "key": { "apiKeySecurityScheme": { "name": "k" } } },
        "signatures": [{ "protected": "p", "signature": "s" }],
    });
    let card: pb::AgentCard = from_json(given).unwrap();
    let expected = json!({
        "name": "", "description": "d", "version": "1", "documentationUrl": "",
        "capabilities": { "streaming": false }, "defaultInputModes": [], "defaultOutputModes": [],
        "skills": [{ "id": "s", "name": "", "description": "", "tags": [] }],
        "supportedInterfaces": [{ "url": "u", "protocolBinding": "", "protocolVersion": "" }],
        "securitySchemes": { "key": { "apiKeySecurityScheme": { "name": "k", "location": "" } } },
    });
    assert_eq!(signed_fields(&card), expected);
}

/// A26, and what cannot be seen in a text cannot be in it.
#[test]
fn text_is_cleaned() {
    for (given, shown) in [
        ("plain", "plain"),
        ("two\nlines\t of \u{1b}[31mred", "two lines of [31mred"),
        ("\u{202e}turned\u{202c} round", "turned round"),
        ("hid\u{200b}den\u{e0041}\u{feff}", "hidden"),
        ("  日本語 — naïve  ", "日本語 — naïve"),
        ("\u{0}", ""),
    ] {
        assert_eq!(clean(given, 100), shown, "{given:?}");
    }
    assert_eq!(clean(&"é".repeat(200), 100).chars().count(), 100);
}
