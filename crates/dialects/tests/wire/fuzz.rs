//! Arbitrary bytes for every parser are read or refused, and never cause a panic.

use synapse_core::Refusal;
use synapse_dialects::{api, jsonl, message, parse, time};

/// Checks that a refusal is about a field and has a message.
fn check<T>(read: Result<T, Refusal>) {
    if let Err(refusal) = read {
        assert!(matches!(refusal, Refusal::BadField { .. }), "{refusal:?}");
        assert!(!refusal.to_string().is_empty());
    }
}

#[test]
fn any_bytes_as_a_message() {
    bolero::check!().for_each(|bytes: &[u8]| {
        check(message::to_core(bytes));
        check(message::to_core(&within("{\"message\":{\"parts\":[", bytes, "]}}")));
        check(message::to_core(&within("{\"message\":\"x\",", bytes, "}")));
    });
}

#[test]
fn any_bytes_as_a_line() {
    bolero::check!().for_each(|bytes: &[u8]| {
        check(jsonl::to_core(bytes));
        for kind in
            ["seen", "progress", "artifact", "send", "input_required", "rejected", "failed", "completed"]
        {
            check(jsonl::to_core(&within(&format!("{{\"type\":\"{kind}\","), bytes, "}")));
        }
    });
}

#[test]
fn any_bytes_as_json() {
    bolero::check!().for_each(|bytes: &[u8]| {
        check(parse::json::<serde_json::Value>(bytes));
        check(parse::json::<message::MessageRequest>(bytes));
        check(parse::json::<api::ReplyRequest>(bytes).and_then(api::ReplyRequest::to_core));
    });
}

#[test]
fn any_text_as_a_time() {
    bolero::check!().with_type::<String>().for_each(|text| check(time::read("timestamp", text)));
    bolero::check!().with_type::<(u16, u8, u8, u8, u8, i8)>().for_each(
        |(year, month, day, hour, minute, offset)| {
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{offset:+03}:00");
            check(time::read("timestamp", &text));
        },
    );
    bolero::check!().with_type::<u64>().for_each(|at| drop(time::show(synapse_core::Timestamp(*at))));
}

fn within(before: &str, bytes: &[u8], after: &str) -> Vec<u8> {
    [before.as_bytes(), bytes, after.as_bytes()].concat()
}
