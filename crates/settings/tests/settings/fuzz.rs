//! Arbitrary bytes: reading and changing never panic, and never trust too much.

use crate::{USER, load};
use std::path::Path;
use synapse_settings::edit::{Change, Of, change};
use synapse_settings::{KEYS, keys};

fn read(text: &str) {
    let loaded = load(Some(text), Some(text), &[("SYNAPSE_A2A_FLOW", text), ("SYNAPSE_HISTORY_DAYS", text)]);
    for fault in &loaded.faults {
        assert!(!fault.to_string().contains(|c: char| c.is_control()), "{fault:?}");
    }
    let of = Of { file: Path::new(USER), is_project: false, user_file: Path::new(USER), user_folder: None };
    let key = &KEYS[0];
    if let Ok((changed, left)) = change(text, &[Change::Set { key, name: "", value: "oneway" }], of) {
        let again = load(Some(&changed), None, &[]);
        assert_eq!(again.origin("a2a.flow").place().as_deref(), Some(USER), "{changed}");
        assert_eq!(again.faults.len(), left.len(), "{changed}");
    }
    let _ = change(text, &[Change::Unset { path: text }, Change::Unset { path: "network" }], of);
    let _ = (keys::find(text), keys::nearest("", text));
}

#[test]
fn fuzz_reading_never_panics() {
    bolero::check!().for_each(|bytes: &[u8]| read(&String::from_utf8_lossy(bytes)));
}

/// Texts made of pieces of real files get further than random bytes.
#[test]
fn fuzz_pieces_of_settings_never_panic() {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\n",
        " ",
        "// x\n",
        "/* x */",
        "\"a2a\": {",
        "\"flow\": \"auto\"",
        "\"rights\": {",
        "\"Lead\": [\"read\"",
        "\"secrets\": {\"ci\": {",
        "\"file\": \"x\"",
        "\"network\": {",
        "\"allow\": [\"10.0.0.0/8\"]",
        "\"tls\": {",
        "\"identities\": {",
        "\"é\": ",
        "null",
        "-1e9",
        "\\u0000",
        "\"$schema\": 1,",
        "},",
        "}}",
    ];
    bolero::check!().with_type::<Vec<u8>>().for_each(|picks: &Vec<u8>| {
        let text: String = picks.iter().map(|pick| PIECES[usize::from(*pick) % PIECES.len()]).collect();
        read(&text);
    });
}
