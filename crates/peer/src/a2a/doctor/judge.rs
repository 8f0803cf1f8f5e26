//! From what came to a verdict. Pure: no clock, no socket; the same answer gives the same verdict.

pub(super) mod answer;
pub mod card;
pub(super) mod stream;
pub(super) mod task;

use serde_json::Value;

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Empty if it is not there, or no text.
fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
