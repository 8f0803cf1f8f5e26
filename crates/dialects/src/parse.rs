//! JSON parsing that is strict about types and names the exact field at fault.
//!
//! serde_json rejects invalid UTF-8, lone surrogates, and nesting beyond 128 levels; this module
//! adds the path of the field. The nesting limit for senders is lower, because accepted values are
//! sent on inside other objects.

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;
use synapse_core::Refusal;

/// How deeply a sender may nest lists and objects.
pub const DEPTH_MAX: usize = 64;

/// Parses one JSON object of a known shape.
pub fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut de = serde_json::Deserializer::from_slice(bytes);
    let read = object(&mut de).and_then(|value| de.end().map(|()| value));
    // Tracking the path costs as much as parsing, so only faulty input is
    // parsed a second time for it.
    read.or_else(|_| json_with_path(bytes))
}

/// Deserializes an object, but not a list: serde's derived structs would also accept their
/// fields as a list, in order.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_map(ObjectVisitor(PhantomData))
}

/// Like [`object`], for a field that may be absent or null.
pub fn optional_object<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_option(OptionVisitor(PhantomData))
}

/// Deserializes a whole number. JSON has one number type, so `3.0` is three, but serde
/// treats it as a fraction.
pub fn whole_number<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    from.deserialize_any(WholeNumber(PhantomData))
}

/// Like [`whole_number`], for a field that may be absent or null.
pub fn optional_whole_number<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    struct Whole<T>(T);
    impl<'de, T: TryFrom<u64>> Deserialize<'de> for Whole<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            whole_number(from).map(Self)
        }
    }
    Ok(Option::<Whole<T>>::deserialize(from)?.map(|Whole(number)| number))
}

struct WholeNumber<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for WholeNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let positive = u64::try_from(number).ok();
        positive
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        // Up to this limit every whole number is exact in a double.
        const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
        let is_whole = (0.0..=EXACT_MAX).contains(&number) && number.fract() == 0.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = is_whole.then_some(number as u64);
        whole
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

struct OptionVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OptionVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_none<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<T>, D::Error> {
        object(from).map(Some)
    }
}

fn json_with_path<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut de = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize::<_, JsonObject<T>>(&mut de);
    let JsonObject(value) = read.map_err(|e| {
        let path = e.path().to_string();
        // serde_path_to_error writes a question mark for an unknown part of the path.
        let known = path.trim_end_matches(['?', '.']);
        Refusal::bad_field(if known.is_empty() { "body".to_owned() } else { cut(known) }, describe(e.inner()))
    })?;
    de.end().map_err(|e| Refusal::bad_field("body", describe(&e)))?;
    Ok(value)
}

struct JsonObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        object(from).map(Self)
    }
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

/// Shortens error text, because it quotes the input, which may be a whole message.
fn cut(words: &str) -> String {
    const SHOWN_MAX: usize = 200;
    match words.char_indices().nth(SHOWN_MAX) {
        None => words.to_owned(),
        Some((end, _)) => format!("{}…", &words[..end]),
    }
}

/// Rejects values that are nested more deeply than allowed.
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

    /// Finding A9: a struct must be an object; `[null, null]` is rejected, at
    /// the top and when nested.
    #[test]
    fn list_is_not_an_object() {
        let refused = |raw: &[u8]| json::<Shape>(raw).unwrap_err().to_string();
        assert!(refused(b"[\"x\", []]").starts_with("body: invalid type: sequence, expected an object"));
        let chain = br#"{"message": "hi", "chain": ["c", null, 1]}"#;
        let refusal = json::<crate::message::MessageRequest>(chain).unwrap_err().to_string();
        assert!(refusal.starts_with("chain: invalid type: sequence"), "{refusal}");
        let chain = br#"{"message": "hi", "chain": {"correlation_id": "c", "hops": 300}}"#;
        let refusal = json::<crate::message::MessageRequest>(chain).unwrap_err().to_string();
        assert!(refusal.starts_with("chain.hops: invalid value"), "{refusal}");
        let whole = br#"{"message": "hi", "priority": 4.0, "chain": {"correlation_id": "c", "hops": 3.0}}"#;
        let read = json::<crate::message::MessageRequest>(whole).unwrap();
        assert_eq!((read.priority, read.chain.map(|chain| chain.hops)), (Some(4), Some(3)));
        for wrong in ["3.5", "-1", "-1.0", "256.0", "1e300", "\"3\"", "null"] {
            let raw = format!(r#"{{"message": "hi", "chain": {{"correlation_id": "c", "hops": {wrong}}}}}"#);
            assert!(json::<crate::message::MessageRequest>(raw.as_bytes()).is_err(), "{wrong}");
        }
        let null = br#"{"message": "hi", "chain": null}"#;
        assert!(json::<crate::message::MessageRequest>(null).unwrap().chain.is_none());
        assert!(json::<crate::jsonl::FromProgram>(b"[\"seen\"]").is_err());
    }

    #[test]
    fn fuzz_parse_never_panics() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = json::<Shape>(bytes);
            let _ = json::<serde_json::Value>(bytes);
        });
    }
}
