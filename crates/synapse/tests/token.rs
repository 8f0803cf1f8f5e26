//! Secrets over TCP (REST-5): rotated without a restart, rejected with a reason, counted, and slow
//! to guess.

use synapse_testkit::http::Answer;
use synapse_testkit::{Agent, World};

fn stage() -> (World, Agent) {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let shout = world.run("shout", "tr a-z A-Z", &[]);
    (world, shout)
}

fn ask(agent: &Agent, secret: &str) -> Answer {
    agent.tcp().ask("GET", "/api/v1/tasks", &[("Authorization", &format!("Bearer {secret}"))], b"")
}

fn unproven(agent: &Agent, why: &str) -> u32 {
    let metrics = agent.get("/metrics").text();
    let name = format!("synapse_unproven_total{{why=\"{why}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn a_rotated_token_overlaps_with_the_one_before_and_then_not() {
    let (world, shout) = stage();
    let first = world.token();
    let told = world.ok(&["token", "rotate", "--overlap", "1h"]);
    assert!(told.contains("the old token stays valid for 1 h"), "{told}");
    let second = world.token();
    assert!(first != second && !told.contains(&first) && !told.contains(&second));
    assert_eq!(ask(&shout, &second).status, 200, "at once, in the node that was running");
    assert_eq!(ask(&shout, &first).status, 200, "the old one as well");
    world.ok(&["token", "rotate", "--overlap", "0s"]);
    let third = world.token();
    assert_eq!(ask(&shout, &third).status, 200);
    world.wait_until("the one before is not taken any more", || ask(&shout, &second).status == 401);
    let refused = ask(&shout, &second);
    assert_eq!((refused.status, refused.code().as_str()), (401, "not_proven"), "{}", refused.text());
    assert!(refused.text().contains("this token was replaced by a newer one"), "{}", refused.text());
    assert_eq!(ask(&shout, &first).status, 200, "its hour is not over");
    world.kill_node("shout");
    let shout = world.agent("shout");
    assert_eq!(ask(&shout, &second).status, 401, "also after a restart");
    assert_eq!(ask(&shout, &first).status, 200);
    assert_eq!(unproven(&shout, "expired"), 1);
    let shown = world.json(&["token", "show"]);
    assert_eq!(shown["older_taken_until"].as_array().unwrap().len(), 1, "{shown}");
}

#[test]
fn an_agent_has_a_token_of_its_own() {
    let (world, shout) = stage();
    let path = world.ok(&["token", "show", "shout", "--path"]);
    assert_eq!(path, world.agent_dir(&shout.id).join("token").display().to_string());
    let first = std::fs::read_to_string(&path).unwrap();
    assert_eq!(ask(&shout, &first).status, 200);
    world.ok(&["token", "rotate", "shout", "--overlap", "0s"]);
    world.wait_until("the one before is not taken any more", || ask(&shout, &first).status == 401);
    let second = std::fs::read_to_string(&path).unwrap();
    let stop =
        shout.tcp().ask("POST", "/api/v1/stop", &[("Authorization", &format!("Bearer {second}"))], b"");
    assert_eq!(stop.status, 403, "it is the agent, not the user: {}", stop.text());
    // The secret is neither in the environment nor in the arguments of the agent's commands.
    world.run(
        "look",
        "env; cat /proc/$$/cmdline /proc/$PPID/cmdline /proc/$PPID/environ | tr '\\0' '\\n'",
        &[],
    );
    let seen = world.ok(&["send", "look", "x", "--response"]);
    assert!(seen.contains("SYNAPSE_TOKEN_FILE="), "{seen}");
    let own = std::fs::read_to_string(world.ok(&["token", "show", "look", "--path"])).unwrap();
    assert!(!seen.contains(&own[65..]) && !seen.contains(&world.token()), "{seen}");
}

#[test]
fn a_token_is_shown_on_a_terminal_only() {
    let (world, _) = stage();
    let token = world.token();
    let ran = world.synapse(&["token", "show", "--reveal"]).fails(5, &["on a terminal only"]);
    assert!(!ran.stdout.contains(&token) && !ran.stderr.contains(&token));
    let shown = world.ok(&["token", "show"]);
    assert!(shown.ends_with("/token") && !shown.contains(&token), "{shown}");
    world.synapse(&["token", "rotate", "--overlap", "1000h"]).fails(2, &["30 days"]);
    world.synapse(&["token", "rotate", "nobody"]).fails(5, &["nobody"]);
}

/// Wrong secrets from one address are slowed down. A valid token from there still works.
#[test]
fn guessing_is_slow() {
    let (world, shout) = stage();
    let right = world.token();
    for n in 0..20 {
        let refused = ask(&shout, &format!("{n:064}"));
        assert_eq!(refused.status, 401, "{n}: {}", refused.text());
    }
    let refused = ask(&shout, &"f".repeat(64));
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_guesses"), "{}", refused.text());
    let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(ask(&shout, &right).status, 200, "others on this machine share the address");
    assert_eq!(shout.tcp().ask("GET", "/api/v1/tasks", &[], b"").status, 401);
    assert_eq!(
        (unproven(&shout, "wrong"), unproven(&shout, "guessing"), unproven(&shout, "missing")),
        (20, 1, 1)
    );
}
