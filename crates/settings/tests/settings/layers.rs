//! How layers override each other, and what happens with faults.

use crate::{PROJECT, USER, load};
use synapse_settings::layers::Origin;
use synapse_settings::{Flow, Settings};

/// CLI-7: the environment wins over the project's file, that over the user's, and
/// that over the defaults.
#[test]
fn the_nearest_word_counts() {
    let user = "{\n \"a2a\": {\"flow\": \"oneway\"}, \"history\": {\"days\": 60} }";
    let project = "{ // the team's\n\n \"a2a\": {\"flow\": \"roundtrip\",}, }";
    let at_user = |line| Origin::User { file: USER.into(), line };
    let at_project = |line| Origin::Project { file: PROJECT.into(), line };
    let variable = ("SYNAPSE_A2A_FLOW", " auto ");
    let table = [
        (None, None, None, Flow::Auto, Origin::Default),
        (Some(user), None, None, Flow::Oneway, at_user(2)),
        (Some(user), Some(project), None, Flow::Roundtrip, at_project(3)),
        (None, Some(project), None, Flow::Roundtrip, at_project(3)),
        (
            Some(user),
            Some(project),
            Some(variable),
            Flow::Auto,
            Origin::Variable { name: "SYNAPSE_A2A_FLOW".into() },
        ),
    ];
    for (user, project, variable, flow, origin) in table {
        let loaded = load(user, project, variable.as_slice());
        assert_eq!(loaded.faults, []);
        assert_eq!((loaded.settings.a2a.flow, loaded.origin("a2a.flow")), (flow, &origin));
        assert_eq!(loaded.settings.history.days, if user.is_some() { 60 } else { 30 });
    }
}

#[test]
fn empty_files_say_nothing() {
    for text in
        ["", "  \n", "// nothing", "{}", "\u{feff}{}", "{\"$schema\": \"x\", \"a2a\": {}, \"rights\": {}}"]
    {
        let loaded = load(Some(text), Some(text), &[]);
        assert_eq!(loaded.settings, Settings::default(), "{text:?}");
        let guarded = loaded.faults.iter().all(|fault| fault.key.as_deref() == Some("rights"));
        assert!(guarded, "{text:?}: {:?}", loaded.faults);
    }
}

#[test]
fn all_settings_at_once() {
    let text = r#"{
        "a2a": { "flow": "oneway" },
        "rights": { "Guest": [], "Lead": ["read_status", "read", "message", "reply", "interrupt", "assign", "report", "cancel"] },
        "secrets": { "ci": { "file": "~/ci.secret", "role": "Lead" }, "bot.2": { "env": "BOT", "agent": "bot" } },
        "network": { "listen": "::", "allow": ["10.0.0.0/8", "::1"], "hosts": ["Box.example.org"] },
        "tls": { "cert": "cert.pem", "key": "/etc/key.pem", "client_ca": "ca.pem", "identities": { "ci.example.org": { "role": "Lead" } } },
        "history": { "days": 7, "tasks_max": 5000 },
        "audit": { "enabled": false, "bodies": true, "file_bytes_max": 65536, "files_max": 3 },
    }"#;
    let loaded = load(Some(text), None, &[]);
    assert_eq!(loaded.faults, []);
    let settings = &loaded.settings;
    assert_eq!(settings.rights["Lead"].len(), 8);
    assert_eq!(settings.rights["Guest"], Vec::<String>::new());
    assert_eq!(settings.secrets["ci"].file.as_deref(), Some("/u/ci.secret".as_ref()));
    assert_eq!(settings.secrets["bot.2"].env.as_deref(), Some("BOT"));
    assert_eq!(settings.network.hosts, ["box.example.org"]);
    assert_eq!(settings.tls.cert.as_deref(), Some("/u/.synapse/cert.pem".as_ref()));
    assert_eq!(settings.tls.identities["ci.example.org"].role.as_deref(), Some("Lead"));
    assert_eq!((settings.history.days, settings.history.tasks_max), (7, 5000));
    assert!(!settings.audit.enabled && settings.audit.bodies);
    assert_eq!(
        loaded.origin("tls.identities.ci.example.org.role"),
        &Origin::User { file: USER.into(), line: 6 }
    );
}

const OPEN: &str = "\"network\": {\"listen\": \"0.0.0.0\", \"allow\": [\"10.0.0.5\"]}";

/// A doubt about a guarded setting closes the network; a typing error never opens it.
#[test]
fn in_doubt_the_network_is_closed() {
    let closes = [
        "\"netwrok\": {}",
        "\"audit\": {\"enabled\": 1}",
        "\"rights\": {\"Guest\": [\"raed\"]}",
        "\"tls\": {\"cert\": \"/c\"}",
        "\"secrets\": {\"ci\": \"x\"}",
    ];
    for wrong in closes {
        let loaded = load(Some(&format!("{{{OPEN}, {wrong}}}")), None, &[]);
        assert!(loaded.guard_in_doubt(), "{wrong}");
        assert_eq!(loaded.settings.network.listen, None, "{wrong}");
        assert_eq!(loaded.settings.network.allow, ["127.0.0.0/8", "::1"], "{wrong}");
        assert_eq!(loaded.origin("network.allow"), &Origin::Careful);
    }
    let broken = load(Some("{"), None, &[]);
    assert!(broken.guard_in_doubt() && broken.settings.network.allow == ["127.0.0.0/8", "::1"]);
}

#[test]
fn a_role_whose_rights_cannot_be_read_has_none() {
    let loaded =
        load(Some("{\"rights\": {\"Guest\": [\"raed\"], \"Lead\": [\"read\"], \"a b\": 1}}"), None, &[]);
    assert_eq!(loaded.settings.rights["Guest"], Vec::<String>::new());
    assert_eq!(loaded.settings.rights["Lead"], ["read"]);
    assert_eq!(loaded.settings.rights.len(), 2);
}

/// This also holds if there are more faults than are reported.
#[test]
fn a_doubt_is_not_lost_among_many_faults() {
    let many: Vec<String> = (0..30).map(|n| format!("\"x{n}\": 1")).collect();
    let text =
        format!("{{\"a2a\": {{{}}}, {OPEN}, \"audit\": 1, \"rights\": {{\"Guest\": 1}}}}", many.join(","));
    let loaded = load(Some(&text), None, &[]);
    assert!(loaded.guard_in_doubt());
    assert_eq!(loaded.settings.network.listen, None);
    assert_eq!(loaded.settings.rights["Guest"], Vec::<String>::new());
}

#[test]
fn names_that_begin_alike_are_two_names() {
    let text = "{\"secrets\": {\"a\": {\"file\": \"/x\"}, \"a.b\": {\"file\": \"/y\", \"role\": \"L\"}}}";
    let loaded = load(Some(text), None, &[]);
    assert_eq!(loaded.faults.len(), 1);
    assert_eq!(loaded.settings.secrets.keys().collect::<Vec<_>>(), ["a.b"]);
}

/// A project can neither open the machine nor, by being invalid, change what the user decided.
#[test]
fn a_project_has_no_say_about_the_machine() {
    for project in ["{", "{\"network\": {\"allow\": []}}", "{\"x\": 1}", "{\"a2a\": {\"flow\": 1}}", "\u{0}"]
    {
        let loaded = load(Some(&format!("{{{OPEN}}}")), Some(project), &[]);
        assert_eq!(loaded.faults.len(), 1, "{project}");
        assert!(!loaded.guard_in_doubt(), "{project}");
        assert_eq!(loaded.settings.network.allow, ["10.0.0.5"], "{project}");
    }
    let harmless = load(Some(&format!("{{{OPEN}, \"a2a\": {{\"flow\": 1}}}}")), None, &[]);
    assert_eq!(
        harmless.settings.network.allow,
        ["10.0.0.5"],
        "a wrong harmless setting is left out, no more"
    );
}

#[test]
fn what_is_right_is_kept_beside_what_is_wrong() {
    let loaded =
        load(None, Some("{\"a2a\": {\"flow\": \"oneway\", \"x\": 1}, \"history\": {\"days\": 1}}"), &[]);
    assert_eq!(loaded.faults.len(), 2);
    assert_eq!((loaded.settings.a2a.flow, loaded.settings.history.days), (Flow::Oneway, 30));
    assert_eq!(loaded.faultless().unwrap_err().to_string().lines().count(), 2);
}

/// Finding M6: a variable that the settings name holds a secret, even if its entry is
/// incomplete and left out.
#[test]
fn variables_of_incomplete_secrets_are_withheld() {
    let text = r#"{ "secrets": {
        "ci": { "env": "CI_SECRET" },
        "both": { "env": "BOTH_SECRET", "file": "/x", "role": "Lead" },
        "bot": { "env": "BOT_SECRET", "role": "Lead" },
        "file": { "file": "/y" }
    } }"#;
    let loaded = load(Some(text), None, &[]);
    assert_eq!(loaded.settings.secrets.keys().collect::<Vec<_>>(), ["bot"]);
    assert_eq!(loaded.faults.len(), 3);
    assert_eq!(loaded.settings.secret_variables(), ["BOT_SECRET", "BOTH_SECRET", "CI_SECRET"]);
    // A running node keeps the secrets from before such an edit, and withholds
    // the variables of both.
    let before =
        load(Some(r#"{ "secrets": { "old": { "env": "OLD_SECRET", "role": "Lead" } } }"#), None, &[]);
    let mut settings = loaded.settings;
    settings.take_guarded(&before.settings);
    assert_eq!(settings.secrets, before.settings.secrets);
    assert_eq!(settings.secret_variables(), ["OLD_SECRET", "BOTH_SECRET", "BOT_SECRET", "CI_SECRET"]);
}
