//! Scripted sessions: what the program writes, and what follows from it.

use super::*;
use serde_json::json;

struct Rig {
    session: Session,
    now: u64,
}

impl Rig {
    fn new() -> Self {
        Self { session: Session::begin(Setup::default()).0, now: 0 }
    }

    fn open() -> Self {
        let mut rig = Self::new();
        rig.hear(json!({ "id": 1, "result": { "protocolVersion": 1 } }));
        assert_eq!(rig.hear(json!({ "id": 2, "result": { "sessionId": "s" } })), ["opened"]);
        rig
    }

    fn with_turn() -> Self {
        let mut rig = Self::open();
        assert!(rig.session.prompt("hi").is_some_and(|line| line.contains("session/prompt")));
        rig
    }

    fn hear(&mut self, line: Value) -> Vec<String> {
        self.hear_bytes(line.to_string().as_bytes())
    }

    fn hear_bytes(&mut self, line: &[u8]) -> Vec<String> {
        self.now += 1;
        self.session.hear(Timestamp(self.now), line).iter().map(shown).collect()
    }

    fn update(&mut self, update: Value) -> Vec<String> {
        self.hear(json!({ "method": "session/update", "params": { "sessionId": "s", "update": update } }))
    }

    fn says(&mut self, text: &str) -> Vec<String> {
        let content = json!({ "type": "text", "text": text });
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": content }))
    }

    fn asks(&mut self, id: u64, title: &str) -> Vec<String> {
        let options = json!([
            { "optionId": "a", "name": "Always", "kind": "allow_always" },
            { "optionId": "y", "name": "Yes", "kind": "allow_once" },
            { "optionId": "n", "name": "No", "kind": "reject_once" },
        ]);
        let tool = json!({ "toolCallId": "t", "title": title, "kind": "execute" });
        let params = json!({ "sessionId": "s", "toolCall": tool, "options": options });
        self.hear(json!({ "id": id, "method": "session/request_permission", "params": params }))
    }

    fn ends(&mut self, reason: &str) -> Vec<String> {
        self.hear(json!({ "id": 3, "result": { "stopReason": reason } }))
    }

    fn hash(&self) -> String {
        self.session.question().map(|question| question.view.hash.clone()).unwrap_or_default()
    }

    fn state(&self) -> (&'static str, String) {
        let (state, why) = self.session.state();
        (state.name(), why)
    }
}

/// A short form for comparisons.
fn shown(news: &News) -> String {
    match news {
        News::Write(line) => {
            let line: Value = serde_json::from_str(line).unwrap();
            let outcome = &line["result"]["outcome"];
            let chosen = outcome["optionId"].as_str().or(outcome["outcome"].as_str());
            match (line["method"].as_str(), line["error"]["code"].as_i64(), chosen) {
                (Some(method), ..) => format!("> {method}"),
                (_, Some(code), _) => format!("> {} {code}", line["id"]),
                (_, _, chosen) => format!("> {} {}", line["id"], chosen.unwrap_or("?")),
            }
        }
        News::Version(version) => format!("version {version}"),
        News::Opened => "opened".into(),
        News::Began => "began".into(),
        News::Asks => "asks".into(),
        News::Does => "does".into(),
        News::Ended(end) => {
            let denied = end.denied.as_ref().map(|asks| format!(" denied {asks}")).unwrap_or_default();
            let complete = if end.complete { "whole" } else { "not whole" };
            format!("ended {:?} {:?} {complete}{denied}", end.how, end.text)
        }
        News::Broken(why) => format!("broken: {why}"),
        News::Note(_) => "note".into(),
    }
}

#[test]
fn session_is_opened_in_two_steps() {
    let mut rig = Rig::new();
    assert_eq!(rig.state().0, "starting");
    assert_eq!(rig.session.prompt("hi"), None);
    let said = json!({ "id": 1, "result": { "protocolVersion": 1, "agentInfo": { "version": "0.61.0" } } });
    assert_eq!(rig.hear(said), ["> session/new", "version 0.61.0"]);
    assert_eq!((rig.state().0, rig.session.prompt("hi")), ("starting", None));
    assert_eq!(rig.hear(json!({ "id": 2, "result": { "sessionId": "s" } })), ["opened"]);
    assert_eq!(rig.state().0, "idle");
}

#[test]
fn program_that_cannot_be_spoken_with_says_why() {
    let table = [
        (json!({ "id": 1, "result": { "protocolVersion": 2 } }), "version 2 of ACP"),
        (json!({ "id": 1, "result": {} }), "not understood"),
        (json!({ "id": 1, "error": { "code": -1, "message": "no" } }), "refused `initialize`: no"),
    ];
    for (line, why) in table {
        let news = Rig::new().hear(line);
        assert!(news.len() == 1 && news[0].starts_with("broken") && news[0].contains(why), "{news:?}");
    }
    let mut rig = Rig::new();
    let ways = json!([{ "id": "k", "name": "Use a key" }]);
    rig.hear(json!({ "id": 1, "result": { "protocolVersion": 1, "authMethods": ways } }));
    let news = rig.hear(json!({ "id": 2, "error": { "code": -32000, "message": "Auth" } }));
    let mut long = Rig::new();
    long.hear(json!({ "id": 1, "result": { "protocolVersion": 1 } }));
    let id = "s".repeat(SESSION_ID_BYTES_MAX + 1);
    assert!(long.hear(json!({ "id": 2, "result": { "sessionId": id } }))[0].starts_with("broken"));
    assert!(news[0].contains("login") && news[0].contains("Use a key"), "{news:?}");
}

#[test]
fn answer_is_what_was_said_and_whole_only_at_the_end_of_the_turn() {
    let mut rig = Rig::with_turn();
    assert_eq!(rig.state().0, "busy");
    assert_eq!(rig.session.prompt("again"), None, "one at a time");
    assert_eq!(rig.update(json!({ "sessionUpdate": "available_commands_update" })), [""; 0], "about no turn");
    assert_eq!(rig.says("Hel"), ["began"]);
    assert_eq!(rig.says("lo"), [""; 0]);
    assert_eq!(rig.update(json!({ "sessionUpdate": "tool_call", "title": "ls" })), ["does"]);
    assert_eq!(rig.state().1, "its turn runs: ls");
    assert_eq!(rig.says("Bye"), [""; 0]);
    assert_eq!(rig.ends("end_turn"), ["ended Finished \"Hello\\n\\nBye\" whole"]);
    assert_eq!(rig.state().0, "idle");
    assert_eq!(rig.ends("end_turn"), ["note"], "a turn ends once");
}

#[test]
fn turn_that_did_not_finish_has_its_reason() {
    let table = [
        ("cancelled", "Canceled"),
        ("max_tokens", "limit of tokens"),
        ("max_turn_requests", "limit of requests"),
        ("refusal", "refused"),
        ("sunset", "do not know: sunset"),
    ];
    for (reason, words) in table {
        let mut rig = Rig::with_turn();
        rig.says("part");
        let news = rig.ends(reason);
        assert!(news[0].contains(words) && news[0].contains("\"part\" not whole"), "{news:?}");
    }
    let error =
        json!({ "id": 3, "error": { "code": 500, "message": "Internal", "data": { "details": "quota" } } });
    let news = Rig::with_turn().hear(error.clone());
    assert!(news[0] == "began" && news[1].contains("Internal: quota (code 500)"), "{news:?}");
    let mut stopped = Rig::with_turn();
    stopped.session.cancel();
    assert!(stopped.hear(error)[1].starts_with("ended Canceled"));
    assert!(Rig::with_turn().hear(json!({ "id": 3, "result": {} }))[1].contains("without saying how"));
}

#[test]
fn permission_is_asked_and_decided_by_kind() {
    for (allow, option) in [(true, "y"), (false, "n")] {
        let mut rig = Rig::with_turn();
        assert_eq!(rig.asks(70, "touch a"), ["began", "asks"]);
        assert_eq!(rig.state(), ("waiting", "asks to run: touch a".into()));
        assert_eq!(rig.session.decide("other", allow), Err(NotDecided::Changed));
        let line = rig.session.decide(&rig.hash(), allow).unwrap();
        assert_eq!(shown(&News::Write(line)), format!("> 70 {option}"));
        assert_eq!(rig.state().0, "busy");
    }
}

#[test]
fn denied_turn_counts_as_denied_unless_it_goes_on() {
    let mut rig = Rig::with_turn();
    rig.asks(70, "touch a");
    rig.session.decide(&rig.hash(), false).unwrap();
    rig.update(json!({ "sessionUpdate": "tool_call_update" }));
    assert_eq!(rig.ends("end_turn"), ["ended Finished \"\" whole denied asks to run: touch a"]);
    let mut rig = Rig::with_turn();
    rig.asks(70, "touch a");
    rig.session.decide(&rig.hash(), false).unwrap();
    rig.says("Then I do it otherwise.");
    assert_eq!(rig.ends("end_turn"), ["ended Finished \"Then I do it otherwise.\" whole"]);
}

#[test]
fn what_is_said_before_and_after_a_tool_stays_apart() {
    let mut rig = Rig::with_turn();
    rig.says("one");
    rig.asks(70, "ls");
    rig.session.decide(&rig.hash(), true).unwrap();
    rig.says("two");
    rig.update(json!({ "sessionUpdate": "tool_call_update", "status": "in_progress" }));
    rig.says(" and");
    rig.update(json!({ "sessionUpdate": "tool_call_update", "status": "completed" }));
    rig.says("three");
    assert_eq!(rig.ends("end_turn"), ["ended Finished \"one\\n\\ntwo and\\n\\nthree\" whole"]);
}

#[test]
fn questions_are_bounded_and_go_with_their_turn() {
    let mut rig = Rig::with_turn();
    for n in 0..QUESTIONS_MAX as u64 {
        rig.asks(100 + n, &format!("ls {n}"));
    }
    assert_eq!(rig.asks(999, "one more"), ["> 999 cancelled"]);
    let first = rig.hash();
    rig.session.decide(&first, true).unwrap();
    assert_ne!(rig.hash(), first);
    assert_eq!(rig.state().1, "asks to run: ls 1");
    let ended = rig.ends("end_turn");
    assert_eq!(ended.len(), QUESTIONS_MAX - 1 + 2, "each of the others is answered: {ended:?}");
    assert_eq!(rig.state().0, "idle");
}

#[test]
fn cancel_withdraws_what_is_asked_then_and_later() {
    assert_eq!(Rig::open().session.cancel(), [""; 0], "there is nothing to stop");
    let mut rig = Rig::with_turn();
    rig.asks(70, "ls");
    let lines: Vec<String> = rig.session.cancel().into_iter().map(|line| shown(&News::Write(line))).collect();
    assert_eq!(lines, ["> session/cancel", "> 70 cancelled"]);
    assert_eq!(rig.asks(71, "ls"), ["> 71 cancelled"]);
    assert_eq!(rig.ends("cancelled"), ["ended Canceled \"\" not whole"]);
}

#[test]
fn requests_that_we_do_not_serve_are_refused() {
    let mut rig = Rig::with_turn();
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "x"] {
        let line =
            json!({ "id": 9, "method": method, "params": { "sessionId": "s", "path": "/etc/passwd" } });
        assert_eq!(rig.hear(line), ["> 9 -32601"], "{method}");
    }
    let bad = json!({ "id": 9, "method": "session/request_permission", "params": {} });
    assert_eq!(rig.hear(bad), ["> 9 -32602"]);
    let params = json!({ "sessionId": "other", "toolCall": {}, "options": [] });
    let other = json!({ "id": 9, "method": "session/request_permission", "params": params });
    assert_eq!(rig.hear(other), ["> 9 -32602"]);
    assert_eq!(rig.state().0, "busy");
}

#[test]
fn garbage_changes_nothing_until_there_is_nothing_else() {
    let mut rig = Rig::with_turn();
    for line in
        [&b"banner"[..], b"", b"{", b"[1,2]", b"\xff\xfe", br#"{"id":3}"#, br#"{"id":99,"result":{}}"#]
    {
        assert!(rig.hear_bytes(line).iter().all(|news| news == "note"), "{line:?}");
    }
    assert_eq!((rig.says("ok"), rig.ends("end_turn").len()), (vec!["began".to_owned()], 1));
    let mut rig = Rig::open();
    let news: Vec<String> = (0..BAD_LINES_MAX).flat_map(|_| rig.hear_bytes(b"x")).collect();
    assert_eq!(news.len(), BAD_LINES_TOLD + 1, "the log is not flooded");
    assert!(news[BAD_LINES_TOLD].contains("does not speak ACP"), "{news:?}");
}

#[test]
fn lost_line_makes_the_answer_incomplete() {
    let mut rig = Rig::with_turn();
    rig.says("a");
    rig.session.lost_line(10);
    assert_eq!(
        rig.ends("end_turn"),
        ["ended Finished \"a\\n[a line of its program was longer than 10 bytes and is lost]\" not whole"]
    );
}

#[test]
fn words_outside_of_a_turn_are_not_kept() {
    let mut rig = Rig::open();
    assert_eq!(rig.says("unasked"), [""; 0]);
    rig.session.prompt("hi").unwrap();
    assert_eq!(rig.ends("end_turn"), ["began", "ended Finished \"\" whole"]);
}
