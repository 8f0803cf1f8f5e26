//! `synapse share` and `follow` (PTY-10): a shared context survives restarts, reaches followers
//! once, and is shown only to authorized callers.

use crate::world;
use serde_json::json;

#[test]
fn what_an_agent_shares_is_shown_kept_and_told_to_its_followers() {
    let world = world();
    let exe = world.exe().display().to_string();
    let ana = world.run("ana", &format!("read -r text; {exe} share \"$text\""), &[]);
    let bob = world.run("bob", "cat", &[]);
    world.ok(&["follow", "ana"]);
    world.ok(&["follow", "ana", "--from", "bob"]);
    world.synapse(&["follow", "ana", "--from", "ana"]).fails(2, &["knows what it shares"]);
    world.ok(&["send", "ana", "reading \u{1b}[2J the tests", "--response"]);
    let listed =
        world.wait_for("it is listed", || Some(world.ok(&["list"])).filter(|list| list.contains("shares, ")));
    assert!(listed.contains("the tests") && !listed.contains('\u{1b}'), "{listed}");
    let row = &world.json(&["list"])[0];
    assert!(row["context_since_ms"].as_u64().unwrap() > 0, "{row}");
    let mail = world.json(&["inbox"]);
    assert_eq!(
        (&mail["from"]["label"], mail["text"].as_str()),
        (&json!("ana"), Some("ana shares: reading \u{1b}[2J the tests"))
    );
    world.wait_until("bob has the note", || bob.get("/api/v1/inbox").json()["notes"] == 1);
    let note = &bob.get("/api/v1/inbox").json()["messages"][0];
    assert_eq!((&note["priority"], &note["from"]["label"]), (&json!(2), &json!("ana")));

    // Sharing the same text again sends no second note, and strangers do not see the context.
    world.ok(&["send", "ana", "reading \u{1b}[2J the tests", "--response"]);
    let letters = world.agent_dir(&bob.id).join("spool").join("new");
    world.wait_until("the letter was taken", || std::fs::read_dir(&letters).unwrap().next().is_none());
    assert_eq!(bob.get("/api/v1/inbox").json()["notes"], 1);
    let stranger = ana.tcp().ask("GET", "/status", &[], b"").json();
    assert!(stranger.get("context").is_none() && stranger.get("contextSince").is_none(), "{stranger}");
    assert!(ana.get("/status").json()["context"].as_str().unwrap().contains("the tests"));
    assert_eq!(ana.tcp().ask("GET", "/api/v1/shared", &[], b"").status, 401);

    world.kill_node("ana");
    world.wait_until("it is shown again", || {
        world
            .entry("ana")
            .is_some_and(|entry| entry["context"].as_str().is_some_and(|t| t.contains("the tests")))
    });
    assert_eq!(world.json(&["follow", "--list"])[0]["agent_id"], ana.id.as_str());
    world.ok(&["unfollow", "ana"]);
    assert!(world.ok(&["follow", "--list"]).contains("you follow no running agent"));
    world.ok(&["share", "--clear", "--from", "ana"]);
    world.wait_until("it is shown no more", || world.entry("ana").unwrap().get("context").is_none());
}

#[test]
fn only_the_agent_itself_or_the_person_may_share_for_it() {
    let world = world();
    let exe = world.exe().display().to_string();
    world.run("ana", "cat", &[]);
    world.run(
        "liar",
        &format!("cat >/dev/null; {exe} share lies --from ana 2> said.txt; echo $? >> said.txt"),
        &[],
    );
    world.ok(&["send", "liar", "go", "--response"]);
    assert!(
        world.read("said.txt").contains("may not share for this agent")
            && world.read("said.txt").ends_with("5\n")
    );
    world.synapse(&["share", "what?"]).fails(2, &["--from"]);
    world.synapse(&["share", &"x".repeat(5_000), "--from", "ana"]).fails(5, &["5000 bytes", "4096"]);
    world.synapse(&["share", "  ", "--from", "ana"]).fails(2, &["is empty"]);
    world.ok(&["kill", "ana"]);
    world.synapse(&["share", "x", "--from", "ana"]).fails(4, &["not running"]);
    world.synapse(&["follow", "ana"]).fails(4, &["not running"]);
}

#[test]
fn a_person_can_watch_what_is_shared_as_it_is() {
    let world = world();
    world.run("ana", "cat", &[]);
    world.ok(&["share", "one", "--from", "ana"]);
    let tail = world.program(&["follow", "ana", "--tail"]);
    assert!(tail.next_line().contains("ana: one"));
    world.ok(&["share", "two", "--from", "ana"]);
    assert!(tail.next_line().contains("ana: two"));
    world.kill_node("ana");
    world.ok(&["share", "three", "--from", "ana"]);
    assert!(tail.next_line().contains("ana: three"));
    world.ok(&["share", "--clear", "--from", "ana"]);
    assert!(tail.next_line().contains("nothing now"));
}
