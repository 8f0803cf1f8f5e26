//! Trees that do not want to end.

use std::fs;

use crate::world::{World, terminate};

#[test]
fn a_tree_ends_even_where_nobody_listens() {
    let mut world = World::new();
    let root = world.start_with_script(
        &["tree", "100"],
        r#"cd $1; trap "" TERM
           sleep 300 & echo $! >> all
           (setsid sh -c '(sleep 300 & echo $! >> all) & wait' &)
           sh -c 'echo $$ >> all; kill -STOP $$'
           sleep 300"#,
    );
    let marks: Vec<_> = (0..3).map(|index| world.nth_process_in("all", index)).collect();
    terminate(root);
    assert_eq!(world.end_of(root).code(), Some(0), "{}", world.describe());
    assert!(marks.iter().all(|mark| !mark.is_alive()));
}

#[test]
fn a_process_that_flees_by_forking_is_caught() {
    let mut world = World::new();
    // It flees only while `alive` is there, so that a failed test leaves none.
    fs::write(world.path().join("alive"), "").unwrap();
    fs::write(
        world.path().join("flee.sh"),
        "trap '' TERM\n[ -e \"$1/alive\" ] || exit\necho >> \"$1/generations\"\nsh \"$1/flee.sh\" \"$1\" &\n",
    )
    .unwrap();
    let root =
        world.start_with_script(&["tree", "50"], "for each in 1 2 3; do sh $1/flee.sh $1 & done; wait");
    world.wait_until("it has fled for some generations", |world| {
        fs::metadata(world.path().join("generations")).is_ok_and(|file| file.len() > 10)
    });
    terminate(root);
    assert_eq!(world.end_of(root).code(), Some(0), "{}", world.describe());
}
