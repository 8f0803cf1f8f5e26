//! Edits: a change affects only what was asked for.

use crate::{PROJECT, USER};
use std::path::Path;
use synapse_settings::edit::{CannotChange, Change, Of, change};
use synapse_settings::keys;

fn of(file: &'static str) -> Of<'static> {
    let is_project = file == PROJECT;
    Of { file: Path::new(file), is_project, user_file: Path::new(USER), user_folder: Some(Path::new("/u")) }
}

fn set(text: &str, pairs: &[(&str, &str)]) -> Result<String, CannotChange> {
    let changes: Vec<Change<'_>> = pairs
        .iter()
        .map(|(path, value)| {
            let (key, name) = keys::find(path).unwrap();
            Change::Set { key, name, value }
        })
        .collect();
    change(text, &changes, of(USER)).map(|(text, _)| text)
}

fn unset(text: &str, path: &str) -> String {
    change(text, &[Change::Unset { path }], of(USER)).unwrap().0
}

#[test]
fn comments_and_order_stay() {
    let before = "// mine\n{\n  \"history\": { \"days\": 60 }, // two months\n  /* how we talk */\n  \"a2a\": {\n    \"flow\": \"auto\", // for now\n  },\n}\n";
    let after = before.replace("\"auto\"", "\"oneway\"");
    assert_eq!(set(before, &[("a2a.flow", "oneway")]).unwrap(), after);
    let added = set(before, &[("audit.files_max", "3")]).unwrap();
    assert!(
        added.contains("// two months")
            && added.contains("/* how we talk */")
            && added.contains("// for now")
    );
    assert!(added.contains("\"files_max\": 3"), "{added}");
    assert_eq!(unset(&added, "audit.files_max"), before, "an empty section goes with its last setting");
}

#[test]
fn a_new_file_is_small_and_readable() {
    for text in ["", "\n", "{}", "\u{feff}{}"] {
        let made = set(text, &[("a2a.flow", "oneway")]).unwrap();
        assert_eq!(made.trim_start(), "{\n  \"a2a\": {\n    \"flow\": \"oneway\"\n  }\n}\n", "{text:?}");
    }
}

#[test]
fn values_become_what_their_kind_is() {
    let table = [
        ("history.days", "030", "\"days\": 30"),
        ("audit.enabled", "false", "\"enabled\": false"),
        ("network.allow", "10.0.0.0/8, ::1", "\"allow\": [\"10.0.0.0/8\", \"::1\"]"),
        ("network.allow", "[\"10.0.0.0/8\"]", "\"allow\": [\"10.0.0.0/8\"]"),
        ("network.allow", "[]", "\"allow\": []"),
        ("rights.Guest", "", "\"Guest\": []"),
        ("notify.command", "[\"tell\", \"a, b\"]", "\"command\": [\"tell\", \"a, b\"]"),
        ("notify.command", "[]", "\"command\": []"),
        ("rights.Lead.2", "read,message", "\"Lead.2\": [\"read\", \"message\"]"),
    ];
    for (path, value, expected) in table {
        let text = set("", &[(path, value)]).unwrap();
        assert!(text.contains(expected), "{path} {value}: {text}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let refused = |pairs: &[(&str, &str)], says: &str| {
        let told = set("{}", pairs).unwrap_err().to_string();
        assert!(told.contains(says) && told.contains("`synapse config "), "{told}");
    };
    refused(&[("a2a.flow", "both")], "it must be roundtrip, oneway or auto");
    refused(&[("history.days", "6")], "history.days is 6; it must be a whole number from 7 to 3650");
    refused(&[("history.days", "+9999")], "from 7 to 3650");
    refused(&[("audit.enabled", "yes")], "true or false");
    refused(&[("rights.Lead", "read,approve")], "only the user approves");
    refused(&[("network.allow", "10.0.0.5/8")], "10.0.0.0/8 for the range or 10.0.0.5 for the address");
    refused(&[("secrets.ci.file", "/x")], "needs a role or an agent");
    refused(&[("tls.cert", "/x")], "needs its key");
    set("{}", &[("secrets.ci.file", "/x"), ("secrets.ci.role", "Lead")]).unwrap();
}

#[test]
fn a_wrong_file_can_be_mended_step_by_step() {
    let wrong = "{\"a2a\": {\"flow\": \"both\"}, \"history\": {\"days\": 1}}";
    let (key, name) = keys::find("a2a.flow").unwrap();
    let (half, left) = change(wrong, &[Change::Set { key, name, value: "auto" }], of(USER)).unwrap();
    assert_eq!(left.len(), 1);
    assert!(left[0].to_string().contains("history.days is 1"), "{left:?}");
    let (whole, left) = change(&half, &[Change::Unset { path: "history.days" }], of(USER)).unwrap();
    assert_eq!((whole.contains("history"), left.len()), (false, 0), "{whole}");
    let in_the_way = set("{\"a2a\": 1}", &[("a2a.flow", "auto")]).unwrap_err();
    assert!(in_the_way.to_string().contains("edit"), "{in_the_way}");
    for broken in ["{", "[]", "1"] {
        let told = set(broken, &[("a2a.flow", "auto")]).unwrap_err().to_string();
        assert!(told.contains(&format!("edit {USER} line 1")), "{told}");
    }
}

#[test]
fn a_project_does_not_get_what_guards_the_machine() {
    let (key, name) = keys::find("network.listen").unwrap();
    let told = change("{}", &[Change::Set { key, name, value: "::" }], of(PROJECT)).unwrap_err().to_string();
    assert!(told.contains("guards this machine"), "{told}");
}

#[test]
fn whole_sections_go() {
    let text =
        set("", &[("secrets.a.b.file", "/x"), ("secrets.a.b.role", "L"), ("a2a.flow", "auto")]).unwrap();
    assert!(!unset(&text, "secrets.a.b").contains("secrets"));
    assert!(!unset(&text, "secrets").contains("secrets"));
    assert_eq!(unset(&text, "network"), text, "what is not there is not missed");
    assert!(unset("{\"a2a\": { // why\n \"flow\": \"auto\"}}", "a2a.flow").contains("// why"));
}
