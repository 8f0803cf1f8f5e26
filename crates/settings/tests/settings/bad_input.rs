//! Bad input: every setting with wrong values of every kind, and the resulting errors.

use crate::{PROJECT, USER, load};
use synapse_settings::KEYS;
use synapse_settings::kinds::Kind;

/// Returns a file with this value for a setting, and whatever it needs so that
/// nothing else is wrong.
fn file_with(path: &str, value: &str) -> String {
    let mut sections = value.to_owned();
    for step in path.replacen('*', "ci", 1).rsplit('.') {
        sections = format!("{{\n\"{step}\": {sections}}}");
    }
    sections
}

/// Returns values that fit no kind, then values that do not fit this one.
fn mangled(kind: Kind) -> Vec<&'static str> {
    let mut values =
        vec!["null", "{}", "-1", "1.5", "1e3", "99999999999999999999999", "[[]]", "[1]", "{\"a\": 1}"];
    values.extend(match kind {
        Kind::Choice(_) => {
            ["\"\"", "\"both\"", "\"Auto\"", "\"auto \"", "true", "1", "[\"auto\"]"].as_slice()
        }
        Kind::Bool => &["\"true\"", "0", "1", "\"yes\"", "[]", "[true]"],
        Kind::Number { .. } => &["\"30\"", "0", "true", "[]", "18446744073709551615"],
        Kind::Words(_) => &["\"grpc\"", "[]", "[\"GRPC\"]", "[\"soap\"]", "[\"grpc\", \"grpc\"]", "true"],
        Kind::Verbs => {
            &["\"read\"", "[\"fly\"]", "[\"Read\"]", "[\"read\", \"read\"]", "[\"read\", null]", "true"]
        }
        Kind::Path => &["\"\"", "\"a\\u0000b\"", "\"~ana/x\"", "\"~\"", "1", "[\"/x\"]"],
        Kind::Variable => &["\"\"", "\"A-B\"", "\"hunter2\"", "\"$CI\"", "\"1A\"", "1"],
        Kind::Label => &["\"\"", "\"a b\"", "\"../x\"", "\"-x\"", "\"\\u001b[2J\"", "1", "[]"],
        Kind::Address => &["\"\"", "\"localhost\"", "\"0.0.0.0:80\"", "\"1.2.3\"", "\"10.0.0.0/8\"", "[]"],
        Kind::Ranges => {
            &["\"10.0.0.0/8\"", "[\"10.0.0.0/33\"]", "[\"10.0.0.5/8\"]", "[\"any\"]", "[\"::ffff:1.2.3.4\"]"]
        }
        Kind::Url => {
            &["\"\"", "\"box\"", "\"ftp://box\"", "\"https://a:b@box\"", "\"https://box?q\"", "1", "[]"]
        }
        Kind::Line => &["\"\"", "\" a\"", "\"a\\nb\"", "\"\\u001b[2J\"", "1", "[]"],
        Kind::Origins => &[
            "\"https://a.example\"",
            "[\"*\"]",
            "[\"null\"]",
            "[\"a.example\"]",
            "[\"https://a.example/x\"]",
            "[\"https://*.example\"]",
            "[\"https://u@a.example\"]",
            "[\"ftp://a.example\"]",
            "[\"https://A.example\", \"https://a.example:443\"]",
        ],
        Kind::MediaTypes => &[
            "\"image/png\"",
            "[]",
            "[\"png\"]",
            "[\"image/\"]",
            "[\"*/png\"]",
            "[\"image/png; q=1\"]",
            "[\"image/p\\u001b[2J\"]",
            "[\"IMAGE/PNG\", \"image/png\"]",
            "true",
        ],
        Kind::PrefixKey => &["\"b\"", "\"C-i\"", "\"C-bb\"", "\"M-b\"", "\"None\"", "2", "[\"C-b\"]"],
        Kind::Command => &[
            "\"tell me\"",
            "[\"\"]",
            "[\"./tell\"]",
            "[\"bin/tell\"]",
            "[\"tell\", \"a\\u0000\"]",
            "[\"tell\", 1]",
            "true",
        ],
        Kind::Hosts => {
            &["\"box\"", "[\"\"]", "[\"box:80\"]", "[\"https://box\"]", "[\"a b\"]", "[\"BOX\", \"box\"]"]
        }
    });
    values
}

/// Every setting with every wrong value gives one fault. It names the file, line, column, setting,
/// what was found, what is allowed, and what to do.
#[test]
fn every_setting_mangled() {
    for key in KEYS {
        for value in mangled(key.kind) {
            let text = file_with(key.path, value);
            let loaded = load(Some(&text), None, &[]);
            let path = key.named("ci");
            let faults: Vec<_> =
                loaded.faults.iter().filter(|fault| fault.key.as_deref() == Some(&path)).collect();
            let [fault] = faults[..] else { panic!("{path} = {value}: {:?}", loaded.faults) };
            let told = fault.to_string();
            // Each step is on its own line below the brace of the one before.
            let line = 1 + key.path.split('.').count();
            assert!(told.starts_with(&format!("{USER}:{line}:")), "{told}");
            assert!(told.contains(&format!("{path} is ")), "{told}");
            assert!(told.contains("; it must be "), "{told}");
            assert!(told.contains(&format!("; edit {USER} line {line}")), "{told}");
            assert!(!told.contains('\u{1b}') && !told.contains("hunter2"), "{told}");
            let unset = loaded.origins.iter().find(|one| one.path == path);
            let is_careful = key.path == "network.allow" || key.path == "rights.*";
            assert_eq!(
                unset.and_then(|one| one.value.clone()).is_some(),
                key.default().is_some() || is_careful,
                "{path} = {value} was not taken"
            );
        }
    }
}

/// The example of every kind is taken, so the mangled ones above fail for what they are.
#[test]
fn every_setting_as_it_should_be() {
    for key in KEYS {
        let text = file_with(key.path, &key.kind.example().to_json().to_string());
        let loaded = load(Some(&text), None, &[]);
        let path = key.named("ci");
        assert!(loaded.faults.iter().all(|fault| fault.key.as_deref() != Some(&path)), "{:?}", loaded.faults);
        let other = load(None, Some(&text), &[]);
        let guarded = other.faults.iter().any(|fault| fault.to_string().contains("guards this machine"));
        assert_eq!(guarded, key.guarded, "{path} in a project: {:?}", other.faults);
        if key.guarded {
            let told = other.faults[0].to_string();
            assert!(told.starts_with(PROJECT) && told.contains(USER) && told.contains("--user`"), "{told}");
            assert_eq!(other.settings, synapse_settings::Settings::default(), "{path}");
        }
    }
}

/// Checks that the text has one fault, which starts with this position and contains these words.
#[track_caller]
fn check(text: &str, at: &str, says: &[&str]) {
    let loaded = load(Some(text), None, &[]);
    let told: Vec<String> = loaded.faults.iter().map(ToString::to_string).collect();
    let [told] = &told[..] else { panic!("{text}: {told:?}") };
    assert!(told.starts_with(&format!("{USER}:{at}: ")), "{text}: {told}");
    for word in says {
        assert!(told.contains(word), "{told} does not say {word}");
    }
}

#[test]
fn broken_json_is_told_with_line_and_column() {
    let table = [
        ("{", "1:1", "unterminated object"),
        ("{\n  \"a2a\": {\n", "2:10", "unterminated object"),
        ("{\n  \"a2a\": }", "2:10", "unexpected close brace"),
        ("{\"a2a\" 1}", "1:8", "expected colon"),
        ("{\"a2a\": {}\n \"x\": 1}", "1:11", "expected comma"),
        ("{'a2a': 1}", "1:2", "single-quoted"),
        ("{a2a: 1}", "1:2", "expected string"),
        ("{} {}", "1:4", "more than one"),
        ("{\"a2a\": {\"flow\": auto}}", "1:18", "unexpected token"),
        ("{\"history\": {\"days\": 0x1F}}", "1:22", "hexadecimal"),
        ("/* never ends", "1:1", "unterminated comment"),
        ("{\"a2a", "1:2", "unterminated string"),
        ("äö {", "1:1", "unexpected"),
        ("[]", "1:1", "it holds a list, where settings are one object"),
        ("\"x\"", "1:1", "it holds a text"),
        ("null", "1:1", "it holds null"),
    ];
    for (text, at, says) in table {
        let line = at.split(':').next().unwrap();
        check(text, at, &[says, &format!("edit {USER} line {line}")]);
    }
}

#[test]
fn a_wrong_key_is_told_with_the_nearest_right_one() {
    check(
        "{\n  \"a2a\": {\n    \"flwo\": 1\n  }\n}",
        "3:5",
        &["a2a.flwo is no setting", "did you mean a2a.flow?"],
    );
    check(
        "{\"netwrok\": {}}",
        "1:2",
        &["netwrok is no setting; did you mean network?", "`synapse config show`"],
    );
    check("{\"flow\": \"auto\"}", "1:2", &["did you mean a2a.flow?"]);
    check("{\"a2a.flow\": \"auto\"}", "1:2", &["did you mean a2a.flow?"]);
    check("{\"colour\": 1}", "1:2", &["colour is no setting; edit"]);
    check("{\"\\u001b[2J\": 1}", "1:2", &["\\u{1b}[2J is no setting"]);
    check(&format!("{{\"{}\": 1}}", "x".repeat(100_000)), "1:2", &["…"]);
    check(
        "{\"tls\": {\"identities\": {\"box\": {\"rol\": \"A\"}}}}",
        "1:33",
        &["did you mean tls.identities.box.role?"],
    );
}

#[test]
fn a_key_twice_is_told() {
    check("{\"a2a\": {},\n\"a2a\": {}}", "2:1", &["a2a is here again; it is on line 1 already"]);
    check("{\"a2a\": {\"flow\": \"auto\", \"fl\\u006fw\": \"auto\"}}", "1:26", &["a2a.flow is here again"]);
    check("{\"rights\": {\"Lead\": [], \"lead\": []}}", "1:25", &["rights.lead is here again"]);
}

#[test]
fn a_section_that_is_no_object_is_told() {
    check("{\"a2a\": \"auto\"}", "1:9", &["a2a is a text; it must be an object with flow"]);
    check(
        "{\"network\": []}",
        "1:13",
        &["network is a list; it must be an object with listen, allow, hosts"],
    );
    check(
        "{\"rights\": [\"read\"]}",
        "1:12",
        &["rights is a list; it must be an object with a name for each"],
    );
}

/// X-10: only the user approves.
#[test]
fn no_role_may_approve() {
    check(
        "{\"rights\": {\"Lead\": [\"read\", \"approve\"]}}",
        "1:21",
        &["rights.Lead gives `approve`", "only the user approves"],
    );
}

/// REST-5: settings never contain a secret, and errors never repeat one.
#[test]
fn a_secret_itself_is_refused_and_not_repeated() {
    for text in [
        "{\"secrets\": {\"ci\": \"hunter2\"}}",
        "{\"secrets\": {\"ci\": [\"hunter2\"]}}",
        "{\"secrets\": {\"ci\": {\"token\": \"hunter2\"}}}",
        "{\"secrets\": {\"ci\": {\"Secret\": \"hunter2\"}}}",
    ] {
        let loaded = load(Some(text), None, &[]);
        let told = loaded.faults[0].to_string();
        assert!(told.contains("holds the secret itself") && told.contains("chmod 600"), "{told}");
        assert!(told.contains("`synapse config set secrets.ci.file PATH secrets.ci.role ROLE`"), "{told}");
        assert!(!format!("{loaded:?}").contains("hunter2"), "{text}");
    }
}

#[test]
fn names_that_cannot_be() {
    check("{\"rights\": {\"a b\": []}}", "1:13", &["rights.a b has a name that cannot be", "64 letters"]);
    check("{\"rights\": {\"\": []}}", "1:13", &["name that cannot be"]);
    check("{\"tls\": {\"identities\": {\" x\": {\"role\": \"A\"}}}}", "1:25", &["no space before or after"]);
    let many: Vec<String> = (0..300).map(|n| format!("\"r{n}\": []")).collect();
    check(
        &format!("{{\"rights\": {{\n{}}}}}", many.join(",\n")),
        "258:1",
        &["rights has more than 256 names"],
    );
}

#[test]
fn what_belongs_together_is_asked_for() {
    let with = |text: &str, says: &[&str]| check(text, "1:1", says);
    with(
        "{\"secrets\": {\"ci\": {\"file\": \"/x\"}}}",
        &["secrets.ci is not complete: it needs a role or an agent", "set secrets.ci.role ROLE`"],
    );
    with("{\"secrets\": {\"ci\": {\"role\": \"A\"}}}", &["needs a file or a variable"]);
    with(
        "{\"secrets\": {\"ci\": {\"file\": \"/x\", \"env\": \"X\", \"role\": \"A\"}}}",
        &["needs one of them", "unset secrets.ci.env`"],
    );
    with("{\"tls\": {\"cert\": \"/c\"}}", &["a certificate needs its key"]);
    with("{\"tls\": {\"key\": \"/k\"}}", &["a key needs its certificate"]);
    with("{\"tls\": {\"client_ca\": \"/k\"}}", &["need a certificate of this machine"]);
    with(
        "{\"tls\": {\"cert\": \"/c\", \"key\": \"/k\", \"identities\": {\"a\": {\"role\": \"A\"}}}}",
        &["need the authority"],
    );
}

#[test]
fn a_file_of_another_kind_is_told_in_few_words() {
    let many: Vec<String> = (0..5_000).map(|n| format!("\"k{n}\": {n}")).collect();
    let loaded = load(Some(&format!("{{{}}}", many.join(","))), None, &[]);
    assert_eq!(loaded.faults.len(), 21);
    assert!(
        loaded.faults[20].to_string().contains("more is wrong from here on; edit"),
        "{}",
        loaded.faults[20]
    );
}

/// Deeply nested brackets must not overflow the stack: a node reads settings on small stacks.
#[test]
fn deep_brackets_are_refused() {
    let deep = |open: &str| open.repeat(100_000);
    let texts = [
        deep("["),
        deep("{\"a\":"),
        format!("{{\"rights\": {}", deep("[")),
        deep("{\"secrets\": ["),
        // Text that looks like closing brackets, or like a comment, but is not.
        deep("[\"]\","),
        deep("[\"\\\"]\","),
        deep("[//]\r"),
        deep("[/*]*/"),
    ];
    for text in texts {
        let read = move || load(Some(&text), None, &[]).faults.len();
        let small = std::thread::Builder::new().stack_size(512 << 10).spawn(read).unwrap();
        assert_eq!(small.join().unwrap(), 1);
    }
}

#[test]
fn wrong_variables_are_told() {
    let check = |name: &str, value: &str, says: &[&str]| {
        let loaded = load(None, None, &[(name, value)]);
        let told = loaded.faults.iter().map(ToString::to_string).collect::<String>();
        assert!(told.starts_with(&format!("{name}: ")), "{told}");
        assert!(says.iter().all(|word| told.contains(word)), "{told}");
        assert_eq!(loaded.settings, synapse_settings::Settings::default());
    };
    check(
        "SYNAPSE_A2A_FLOW",
        "both",
        &["a2a.flow is \"both\"", "roundtrip, oneway or auto", "`unset SYNAPSE_A2A_FLOW`"],
    );
    check("SYNAPSE_HISTORY_DAYS", "6", &["history.days is 6", "from 7 to 3650"]);
    check("SYNAPSE_HISTORY_DAYS", "many", &["history.days is many"]);
    check("SYNAPSE_AUDIT_ENABLED", "false", &["audit.enabled guards this machine", "user's file alone"]);
    check("SYNAPSE_NETWORK_LISTEN", "0.0.0.0", &["network.listen guards this machine"]);
    assert_eq!(load(None, None, &[("SYNAPSE_A2A_FLOW", "")]).faults, []);
}
