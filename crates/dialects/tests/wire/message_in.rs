//! `POST /message`, good and bad: the parsed draft, or the field at fault and the reason.
//!
//! A case is a body and its expected result: `field: words` of a refusal, or
//! a summary of the draft.

use synapse_core::Refusal;
use synapse_core::effect::Draft;
use synapse_core::message::{Expects, Part, Piece};
use synapse_core::routes::Target;
use synapse_dialects::message::to_core;

/// Summarizes a draft; defaults are left out.
fn told(draft: &Draft) -> String {
    let content = draft.body.content().unwrap();
    let mut words: Vec<String> = content.parts.iter().map(part).collect();
    match &draft.to {
        Target::Here => {}
        Target::Named(name) => words.push(format!("to {name}")),
        Target::Everyone => words.push("to everyone".into()),
        Target::Skill(skill) => words.push(format!("to one who can {skill}")),
    }
    if draft.priority.level() != 6 {
        words.push(format!("level {}", draft.priority.level()));
    }
    if draft.expects == Expects::Answer {
        words.push("waits".into());
    }
    words.extend(draft.sender_id.as_ref().map(|id| format!("id {id}")));
    words.extend(draft.continues.as_ref().map(|task| format!("continues {}", task.as_str())));
    words.extend(draft.chain.as_ref().map(|chain| format!("{} hops from {}", chain.hops, chain.correlation)));
    words.extend(draft.timeout_ms.map(|ms| format!("{ms} ms")));
    words.extend(draft.sent_at.map(|at| format!("sent {}", at.0)));
    words.extend(
        (!content.metadata.is_empty()).then(|| format!("beside it {}", serde_json::json!(content.metadata))),
    );
    words.join(", ")
}

fn part(part: &Part) -> String {
    let mut text = match &part.piece {
        Piece::Text(text) => format!("text {text:?}"),
        Piece::Data(data) => format!("data {data}"),
        Piece::Url(url) => format!("url {url}"),
        Piece::Raw(raw) => format!("raw {raw}"),
        Piece::File(file) => format!("file of {} bytes", file.bytes),
    };
    text.extend(part.media_type.iter().map(|t| format!(" as {t}")));
    text.extend(part.filename.iter().map(|f| format!(" in {f}")));
    text
}

#[track_caller]
fn check_bytes(body: &[u8], expected: &str) {
    let shown = || String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    match to_core(body) {
        Ok(asked) => assert_eq!(told(&asked.draft), expected, "{}", shown()),
        Err(refusal @ Refusal::BadField { .. }) => {
            let refusal = refusal.to_string();
            assert!(!expected.is_empty() && refusal.starts_with(expected), "{}\n   gives {refusal}", shown());
        }
        Err(other) => panic!("{}: {other:?}", shown()),
    }
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        check_bytes(body.as_bytes(), expected);
    }
}

/// CLI-8: `{role, parts}`, and parts with `type` or with 0.3's `kind`.
#[test]
fn a_message_is_a_text_or_parts_in_any_of_three_spellings() {
    check(&[
        (r#"{"message": "hi"}"#, r#"text "hi""#),
        (r#"{"message": {"role": "user", "parts": [{"text": "hi"}]}}"#, r#"text "hi""#),
        (r#"{"message": {"parts": [{"type": "text", "text": "hi"}]}}"#, r#"text "hi""#),
        (
            r#"{"message": {"parts": [{"kind": "text", "text": "hi"}, {"text": "ho"}]}}"#,
            r#"text "hi", text "ho""#,
        ),
        (r#"{"message": {"parts": [{"kind": "data", "data": {"a": [1]}}]}}"#, r#"data {"a":[1]}"#),
        (r#"{"message": {"parts": [{"data": null}]}}"#, "data null"),
        (
            r#"{"message": {"parts": [{"url": "https://x", "mediaType": "image/png", "filename": "x.png"}]}}"#,
            "url https://x as image/png in x.png",
        ),
        (
            r#"{"message": {"parts": [{"raw": "aGk=", "mimeType": "text/plain", "name": "x"}]}}"#,
            "raw aGk= as text/plain in x",
        ),
        (
            r#"{"message": {"parts": [{"kind": "file", "file": {"uri": "https://x", "mimeType": "image/png", "name": "x.png"}}]}}"#,
            "url https://x as image/png in x.png",
        ),
        (r#"{"message": {"parts": [{"kind": "file", "file": {"bytes": "aGk="}}]}}"#, "raw aGk="),
        (r#"{"message": {"parts": [{"text": ""}, {"url": "https://x"}]}}"#, r#"text "", url https://x"#),
    ]);
}

#[test]
fn a_part_that_is_wrong_is_named_by_its_path() {
    check(&[
        (r#"{"message": 1}"#, "message: it must be a text or an object with `parts`"),
        (r#"{"message": null}"#, "message: it must be a text or an object with `parts`"),
        (r#"{"message": ["hi"]}"#, "message: it must be a text or an object with `parts`"),
        (r#"{"message": {}}"#, "message.parts: a list of parts is needed"),
        (r#"{"message": {"parts": {"text": "hi"}}}"#, "message.parts: a list of parts is needed"),
        (r#"{"message": {"parts": []}}"#, "message: it is empty"),
        (r#"{"message": ""}"#, "message: it is empty"),
        (r#"{"message": " \n\t "}"#, "message: it is empty"),
        (r#"{"message": {"parts": [{"text": ""}, {"text": " "}]}}"#, "message: it is empty"),
        (r#"{"message": {"parts": ["hi"]}}"#, "message.parts[0]: a part must be an object"),
        (r#"{"message": {"parts": [{"text": "hi"}, 7]}}"#, "message.parts[1]: a part must be an object"),
        (r#"{"message": {"parts": [{"text": 7}]}}"#, "message.parts[0].text: it must be a text"),
        (r#"{"message": {"parts": [{"url": ["x"]}]}}"#, "message.parts[0].url: it must be a text"),
        (r#"{"message": {"parts": [{"raw": null}]}}"#, "message.parts[0].raw: it must be a text"),
        (r#"{"message": {"parts": [{"raw": "not base64!"}]}}"#, "message.parts[0].raw: it is not base64"),
        (r#"{"message": {"parts": [{"raw": "aGk"}]}}"#, "message.parts[0].raw: it is not base64"),
        (
            r#"{"message": {"parts": [{}]}}"#,
            "message.parts[0]: exactly one of text, data, url, raw, file is needed, not 0",
        ),
        (
            r#"{"message": {"parts": [{"kind": "text"}]}}"#,
            "message.parts[0]: exactly one of text, data, url, raw, file is needed, not 0",
        ),
        (
            r#"{"message": {"parts": [{"text": "a", "url": "b"}]}}"#,
            "message.parts[0]: exactly one of text, data, url, raw, file is needed, not 2",
        ),
        (
            r#"{"message": {"parts": [{"text": "a", "mediaType": 1}]}}"#,
            "message.parts[0].mediaType: it must be a text",
        ),
        (
            r#"{"message": {"parts": [{"text": "a", "filename": {}}]}}"#,
            "message.parts[0].filename: it must be a text",
        ),
        (
            r#"{"message": {"parts": [{"kind": "file", "file": "x"}]}}"#,
            "message.parts[0].file: it must be an object",
        ),
        (
            r#"{"message": {"parts": [{"kind": "file", "file": {"bytes": "!"}}]}}"#,
            "message.parts[0].file.bytes: it is not base64",
        ),
    ]);
}

#[test]
fn priority_and_waiting_are_plain_fields_or_beside_the_message() {
    check(&[
        (r#"{"message": "hi", "priority": 1}"#, r#"text "hi", level 2"#),
        (r#"{"message": "hi", "priority": 5, "response_expected": true}"#, r#"text "hi", level 10, waits"#),
        (r#"{"message": "hi", "priority": null, "response_expected": null}"#, r#"text "hi""#),
        (
            r#"{"message": "hi", "metadata": {"priority": 4, "response_expected": true}}"#,
            r#"text "hi", level 8, waits"#,
        ),
        (r#"{"message": "hi", "priority": 2, "metadata": {"priority": 4}}"#, r#"text "hi", level 4"#),
        (
            r#"{"message": "hi", "response_expected": false, "metadata": {"response_expected": true}}"#,
            r#"text "hi""#,
        ),
        (
            r#"{"message": "hi", "metadata": {"sender": {"sender_id": "x"}, "k": "v"}}"#,
            r#"text "hi", beside it {"k":"v"}"#,
        ),
        (r#"{"message": "hi", "metadata": {"priority": null}}"#, r#"text "hi""#),
        (r#"{"message": "hi", "priority": 0}"#, "priority: priority \"0\" is not valid: it must be 1 to 5"),
        (r#"{"message": "hi", "priority": 6}"#, "priority: priority \"6\" is not valid: it must be 1 to 5"),
        (r#"{"message": "hi", "priority": "3"}"#, "priority: invalid type: string \"3\""),
        (r#"{"message": "hi", "priority": -1}"#, "priority: invalid value: integer `-1`"),
        (r#"{"message": "hi", "priority": 1.5}"#, "priority: invalid type: floating point"),
        (r#"{"message": "hi", "priority": 1e999}"#, "priority: this is not JSON: number out of range"),
        (r#"{"message": "hi", "response_expected": "yes"}"#, "response_expected: invalid type"),
        (r#"{"message": "hi", "metadata": {"priority": 9}}"#, "metadata.priority: "),
        (r#"{"message": "hi", "metadata": {"priority": "5"}}"#, "metadata.priority: "),
        (r#"{"message": "hi", "metadata": {"priority": -1}}"#, "metadata.priority: "),
        (r#"{"message": "hi", "metadata": {"response_expected": "yes"}}"#, "metadata.response_expected: "),
        (r#"{"message": "hi", "metadata": []}"#, "metadata: invalid type"),
        (r#"{"message": "hi", "metadata": "x"}"#, "metadata: invalid type"),
    ]);
}

#[test]
fn targets_ids_times_and_chains() {
    check(&[
        (r#"{"message": "hi", "target": "ana"}"#, r#"text "hi", to ana"#),
        (r#"{"message": "hi", "target": "broadcast"}"#, r#"text "hi", to everyone"#),
        (r#"{"message": "hi", "target": "skill:review"}"#, r#"text "hi", to one who can review"#),
        (r#"{"message": "hi", "message_id": "a.b:c@d+e~f_1-2"}"#, r#"text "hi", id a.b:c@d+e~f_1-2"#),
        (r#"{"message": "hi", "task_id": "0123abcd"}"#, r#"text "hi", continues 0123abcd"#),
        (r#"{"message": "hi", "timeout_ms": 5000}"#, r#"text "hi", 5000 ms"#),
        (r#"{"message": "hi", "timestamp": "1970-01-01T01:00:01+01:00"}"#, r#"text "hi", sent 1000"#),
        (r#"{"message": "hi", "chain": {"correlation_id": "c", "hops": 3}}"#, r#"text "hi", 3 hops from c"#),
        (r#"{"message": "hi", "target": ""}"#, "target: "),
        (r#"{"message": "hi", "target": "../x"}"#, "target: "),
        (r#"{"message": "hi", "target": "a b"}"#, "target: "),
        (r#"{"message": "hi", "target": 7}"#, "target: invalid type"),
        (r#"{"message": "hi", "message_id": "../../etc/passwd"}"#, "message_id: message id"),
        (r#"{"message": "hi", "message_id": ".hidden"}"#, "message_id: message id"),
        (r#"{"message": "hi", "message_id": "a\u0000b"}"#, "message_id: message id"),
        (r#"{"message": "hi", "message_id": ""}"#, "message_id: message id"),
        (r#"{"message": "hi", "message_id": 7}"#, "message_id: invalid type"),
        (r#"{"message": "hi", "task_id": "0123abc"}"#, "task_id: task id"),
        (r#"{"message": "hi", "task_id": "0123ABCD"}"#, "task_id: task id"),
        (r#"{"message": "hi", "task_id": "%2e%2e%2f%2e"}"#, "task_id: task id"),
        (r#"{"message": "hi", "timestamp": "yesterday"}"#, "timestamp: \"yesterday\" is not a time like"),
        (r#"{"message": "hi", "timestamp": "2026-02-30T00:00:00Z"}"#, "timestamp: "),
        (r#"{"message": "hi", "timestamp": "1969-12-31T23:59:59Z"}"#, "timestamp: "),
        (r#"{"message": "hi", "timestamp": 1700000000}"#, "timestamp: invalid type"),
        (r#"{"message": "hi", "timeout_ms": -5}"#, "timeout_ms: invalid value"),
        (r#"{"message": "hi", "timeout_ms": 99999999999999999999}"#, "timeout_ms: invalid type"),
        (r#"{"message": "hi", "chain": {"correlation_id": "a/b", "hops": 1}}"#, "chain: message id"),
        (
            r#"{"message": "hi", "chain": {"correlation_id": "c", "parent_message_id": "..", "hops": 1}}"#,
            "chain: message id",
        ),
        (r#"{"message": "hi", "chain": {"correlation_id": "c", "hops": 256}}"#, "chain.hops: invalid value"),
        (r#"{"message": "hi", "chain": {"correlation_id": "c"}}"#, "chain: missing field `hops`"),
    ]);
}

#[test]
fn what_is_not_json_of_this_shape() {
    check(&[
        ("", "body: the JSON ends too early"),
        ("{", "body: the JSON ends too early"),
        ("hi", "body: this is not JSON"),
        ("\"hi\"", "body: invalid type"),
        ("[1]", "body: invalid type: sequence, expected an object"),
        ("{}", "body: missing field `message`"),
        (r#"{"target": "ana"}"#, "body: missing field `message`"),
        (r#"{"message": "hi"} {"message": "ho"}"#, "body: this is not JSON: trailing characters"),
        (r#"{"message": "hi", "message": "ho"}"#, "body: duplicate field `message`"),
        (r#"{"message": "\ud800"}"#, "message: this is not JSON: "),
        (r#"{"message": {"parts": [{"text": "\udc00x"}]}}"#, "message"),
        (r#"{"message": "hi", "metadata": {"k": "\ud83d"}}"#, "metadata"),
        (r#"{"message": "hi", "metadata": {"\ud83d": 1}}"#, "metadata"),
        (r#"{"message": "hi", "metadata": {"k": 1e999}}"#, "metadata"),
    ]);
    check_bytes(b"{\"message\": \"\xff\xfe\"}", "message: this is not JSON");
    check_bytes(b"{\"message\": \"hi\", \"metadata\": {\"\xc3\x28\": 1}}", "metadata");
    check_bytes(b"\xef\xbb\xbf{\"message\": \"hi\"}", "body: this is not JSON");
}

#[test]
fn text_is_data_and_unknown_fields_are_nobodys() {
    check(&[
        (r#"{"message": "a\u0000\u001b[31m\u202e\r\nb"}"#, r#"text "a\0\u{1b}[31m\u{202e}\r\nb""#),
        (r#"{"message": "\ud83d\ude00"}"#, r#"text "😀""#),
        (r#"{"message": "hi", "colour": "red", "__proto__": {"a": 1}}"#, r#"text "hi""#),
        (
            r#"{"message": {"role": 7, "parts": [{"text": "hi", "weight": 9}], "taskId": "x"}}"#,
            r#"text "hi""#,
        ),
        (r#"{"message": "hi", "metadata": {"k": 1, "k": 2}}"#, r#"text "hi", beside it {"k":2}"#),
        (r#"{"message": {"parts": [{"data": 18446744073709551615}]}}"#, "data 18446744073709551615"),
        (
            r#"{"message": {"parts": [{"data": [-9223372036854775808, 1e300]}]}}"#,
            "data [-9223372036854775808,1e+300]",
        ),
        (
            r#"{"message": {"parts": [{"data": 123456789012345678901234567890}]}}"#,
            "data 1.2345678901234568e+29",
        ),
    ]);
    check(&[
        (r#"{"message": {"parts": [{"data": 6.386758267554272e-8}]}}"#, "data 6.386758267554272e-8"),
        (r#"{"message": {"parts": [{"data": {"file": {"a": 1}}}]}}"#, r#"data {"file":{"a":1}}"#),
    ]);
    let long = "é".repeat(512 << 10);
    check_bytes(format!("{{\"message\": \"{long}\"}}").as_bytes(), &format!("text {long:?}"));
}

#[test]
fn a_refusal_is_short_however_long_the_mistake() {
    let long = "é".repeat(100_000);
    let bodies = [
        format!(r#"{{"message": "hi", "priority": "{long}"}}"#),
        format!(r#"{{"message": "hi", "message_id": "{long}"}}"#),
        format!(r#"{{"message": "hi", "target": "{long}"}}"#),
        format!(r#"{{"message": "hi", "task_id": "{long}"}}"#),
        format!(r#"{{"message": "hi", "timestamp": "{long}"}}"#),
        format!(r#"{{"message": "hi", "metadata": {{"{long}": 1e999}}}}"#),
        format!(r#"{{"message": "hi", "metadata": {{"{long}": {}}}}}"#, nested(70)),
        format!(r#"{{"message": "hi", "metadata": "{long}"}}"#),
        format!(r#"{{"message": {}}}"#, nested(120)),
    ];
    for body in bodies {
        let refusal = to_core(body.as_bytes()).unwrap_err().to_string();
        assert!(refusal.chars().count() < 500, "{} characters: {refusal:.100}", refusal.len());
    }
}

/// Returns `[[[…]]]` with this many levels.
fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn what_is_nested_too_deep_is_refused_wherever_it_is() {
    for levels in [1, 10, 64] {
        let deep = nested(levels);
        check_bytes(
            format!(r#"{{"message": {{"parts": [{{"data": {deep}}}]}}}}"#).as_bytes(),
            &format!("data {deep}"),
        );
        let beside = format!("text \"hi\", beside it {{\"k\":{deep}}}");
        check_bytes(format!(r#"{{"message": "hi", "metadata": {{"k": {deep}}}}}"#).as_bytes(), &beside);
    }
    for levels in [65, 100, 120, 124, 127, 128, 10_000] {
        let deep = nested(levels);
        check_bytes(format!(r#"{{"message": {{"parts": [{{"data": {deep}}}]}}}}"#).as_bytes(), "message");
        check_bytes(format!(r#"{{"message": "hi", "metadata": {{"k": {deep}}}}}"#).as_bytes(), "metadata");
        check_bytes(format!(r#"{{"message": {deep}}}"#).as_bytes(), "message");
    }
    check_bytes(format!(r#"{{"message": "hi", "other": {}}}"#, nested(10_000)).as_bytes(), r#"text "hi""#);
}

/// Finding A3: `3.0` is three, also for the priority in the metadata.
#[test]
fn whole_floats_are_priorities_beside_too() {
    let table =
        [("3.0", Some(6)), ("1", Some(2)), ("5.0", Some(10)), ("2.5", None), ("6", None), ("\"3\"", None)];
    for (asked, level) in table {
        let body = format!(r#"{{"message": "hi", "metadata": {{"priority": {asked}}}}}"#);
        let read = synapse_dialects::message::to_core(body.as_bytes())
            .ok()
            .map(|asked| asked.draft.priority.level());
        assert_eq!(read, level, "{asked}");
    }
}
