//! `a2a.flow` (CLI-7): the project's settings decide whether `send` waits, and it says so.

use synapse_testkit::World;

fn settings(world: &World, text: &str) {
    let dir = world.folder().join(".synapse");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("settings.json"), text).unwrap();
}

#[test]
fn the_project_decides_whether_send_waits() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    world.run("shout", "tr a-z A-Z", &[]);
    settings(&world, "{ // always wait\n \"a2a\": { \"flow\": \"roundtrip\" } }");
    assert_eq!(world.synapse(&["send", "shout", "hi"]).ok().out().trim(), "HI");
    assert_eq!(world.synapse(&["send", "shout", "hi", "--no-response"]).ok().out().trim(), "HI");
    settings(&world, "{ \"a2a\": { \"flow\": \"oneway\" } }");
    let oneway = world.synapse(&["send", "shout", "hi", "--response"]).ok();
    assert!(oneway.out().starts_with("stored for shout"), "{}", oneway.out());
    settings(&world, "{ \"a2a\": { \"flow\": \"auto\" } }");
    assert_eq!(world.synapse(&["send", "shout", "hi", "--response"]).ok().out().trim(), "HI");
    assert!(world.synapse(&["send", "shout", "hi"]).ok().out().starts_with("stored for shout"));
    settings(&world, "{ \"a2a\": { \"flow\": \"never\" } }");
    world.synapse(&["send", "shout", "hi"]).fails(2, &["settings.json", "roundtrip, oneway or auto"]);
}
