//! JSON in: strict about types, and exact about which field is wrong.
//!
//! serde_json refuses invalid UTF-8, lone surrogates, and nesting beyond 128 levels; a path is added here. What
//! a sender may nest is less: whatever is taken in goes out again inside of something.

use serde::de::DeserializeOwned;
use serde_json::Value;
use synapse_core::Refusal;

/// How deep the lists and objects of a sender may be nested in each other.
pub const DEPTH_MAX: usize = 64;

/// Reads one JSON value of a known shape.
pub fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    // Keeping track of the path costs as much as reading; only what is wrong is read a second time for it.
    serde_json::from_slice(bytes).or_else(|_| json_with_path(bytes))
}

fn json_with_path<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut de = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut de).map_err(|e| {
        let path = e.path().to_string();
        // A question mark stands for what was not read far enough to have a name.
        let known = path.trim_end_matches(['?', '.']);
        Refusal::bad_field(if known.is_empty() { "body".to_owned() } else { cut(known) }, describe(e.inner()))
    })?;
    de.end().map_err(|e| Refusal::bad_field("body", describe(&e)))?;
    Ok(value)
}

fn describe(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let why = cut(&error.to_string());
    match error.classify() {
        Category::Data => why,
        Category::Eof => format!("the JSON ends too early: {why}"),
        Category::Syntax | Category::Io => format!("this is not JSON: {why}"),
    }
}

/// An error repeats what it found, and that may be a whole message.
fn cut(words: &str) -> String {
    const SHOWN_MAX: usize = 200;
    match words.char_indices().nth(SHOWN_MAX) {
        None => words.to_owned(),
        Some((end, _)) => format!("{}…", &words[..end]),
    }
}

/// Refuses what is nested deeper than a sender may.
pub fn not_too_deep(field: &str, value: &Value) -> Result<(), Refusal> {
    if fits(value, DEPTH_MAX) {
        return Ok(());
    }
    Err(Refusal::bad_field(field, format!("it is nested more than {DEPTH_MAX} levels deep")))
}

fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => false,
        Value::Array(list) => list.iter().all(|inner| fits(inner, levels - 1)),
        Value::Object(map) => map.values().all(|inner| fits(inner, levels - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Shape {
        name: String,
        list: Vec<Item>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Item {
        count: u8,
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        let deep = format!("{{\"name\": {}", "[".repeat(200));
        let cases: [(&[u8], &str); 8] = [
            (b"", "body: the JSON ends too early"),
            (b"{", "body: the JSON ends too early"),
            (b"{\"name\": 1}", "name: invalid type: integer `1`, expected a string"),
            (b"{\"name\": \"x\"}", "body: missing field `list`"),
            (
                b"{\"name\": \"x\", \"list\": [{\"count\": 1}, {\"count\": 300}]}",
                "list[1].count: invalid value",
            ),
            (b"{\"name\": \"\\ud800\", \"list\": []}", "name: this is not JSON"),
            (b"{\"name\": \"\xff\", \"list\": []}", "name: this is not JSON"),
            (b"{\"name\": \"x\", \"list\": []} x", "body: this is not JSON: trailing"),
        ];
        for (raw, expected) in cases {
            let refusal = json::<Shape>(raw).unwrap_err().to_string();
            assert!(refusal.starts_with(expected), "{refusal}");
        }
        assert!(
            json::<serde_json::Value>(deep.as_bytes()).unwrap_err().to_string().contains("recursion limit")
        );
    }

    #[test]
    fn fuzz_parse_never_panics() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = json::<Shape>(bytes);
            let _ = json::<serde_json::Value>(bytes);
        });
    }
}
