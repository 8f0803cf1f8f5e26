//! Arbitrary bytes in place of our files are read or refused, and never cause a panic.
//!
//! Not here: links, modes and owners (`disk`).

use std::path::Path;

use synapse_store::known::Known;
use synapse_store::registry::{Read, read_entry};

#[test]
fn any_bytes_as_a_known_agent() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = Known::parse(bytes, Path::new("known.json"));
        let _ = Known::parse(&marked("synapse.known.v1", bytes), Path::new("known.json"));
    });
}

#[test]
fn any_bytes_as_a_registry_entry() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = read_entry(bytes);
        let read = read_entry(&marked("synapse.registry.v1", bytes));
        assert!(has_a_mark(bytes) || !matches!(read, Read::Foreign(_)), "ours was taken for another's");
    });
}

#[test]
fn any_values_in_the_entry_of_another_tool() {
    bolero::check!().with_type::<(u8, u64, String)>().for_each(|(field, number, text)| {
        let fields = ["agent_id", "agent_type", "endpoint", "port", "pid", "status"];
        let field = fields[usize::from(*field) % fields.len()];
        for value in [serde_json::json!(number), serde_json::json!(text), serde_json::json!([text, number])] {
            let mut object = serde_json::Map::new();
            object.insert(field.to_owned(), value);
            let bytes = serde_json::to_vec(&object).unwrap();
            let Read::Foreign(entry) = read_entry(&bytes) else { panic!("an object is an entry") };
            let shown = [entry.agent_id, entry.agent_type, entry.endpoint, entry.status];
            for text in shown.into_iter().flatten() {
                assert!(text.len() <= 256 && !text.chars().any(char::is_control), "{text:?}");
            }
        }
    });
}

/// Adds our schema mark to the inside of an object, so that it passes the first check.
fn marked(schema: &str, bytes: &[u8]) -> Vec<u8> {
    let mut text = format!("{{\"schema\":\"{schema}\"").into_bytes();
    if !bytes.is_empty() {
        text.push(b',');
        text.extend_from_slice(bytes);
    }
    text.push(b'}');
    text
}

/// Whether these bytes, as the inside of an object, may contain a second mark.
fn has_a_mark(bytes: &[u8]) -> bool {
    bytes.windows(6).any(|window| window == b"schema") || bytes.contains(&b'\\')
}
