//! Stories of a hub whose disk fails, and of what windows and receipts then keep, in
//! the form of `scripts.rs`.

#[path = "scripts/teller.rs"]
mod teller;

use teller::check;

#[test]
fn a_batch_that_is_not_stored_never_was() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         disk full
         batch
         say 1 m1 working
         send m2 to a key k
         end => refused not_stored, refused not_stored
         disk ok
         send m2 to a key k => m2 accepted
         say 1 m1 working => m1 working, ok
         disk full
         say 1 m1 completed => refused not_stored
         disk ok
         clock 1
         cancel m1 by user => m1 cancel asked, stop m1 at 1, ok",
    );
}

#[test]
fn trying_again_while_the_disk_is_full_is_no_loop() {
    check(
        "limit repeats 2
         agent a
         agent b
         disk full
         send m1 to b by a key k => refused not_stored
         send m1 to b by a key k => refused not_stored
         send m1 to b by a key k => refused not_stored
         disk ok
         send m1 to b by a key k => m1 accepted",
    );
}

#[test]
fn what_was_handed_out_in_a_lost_batch_is_handed_out_again() {
    check(
        "agent a
         send m1 to a => m1 accepted
         disk full
         link 1 a 1 hand
         disk ok
         clock 1 => m1>1",
    );
}

#[test]
fn a_window_is_full_until_a_task_ends() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         send m2 to a => m2 accepted
         say 1 m1 seen => m1 working, ok
         say 1 m1 working => ok
         say 1 m1 completed => m1 ended completed, m2>1, ok",
    );
}

#[test]
fn a_receipt_climbs_only_as_far_as_was_said() {
    check(
        "agent a
         send m1 to a => m1 accepted
         receipt m1 => m1 reached stored
         link 1 a 1 hand => m1>1
         receipt m1 => m1 reached leased
         say 1 m1 written => ok
         receipt m1 => m1 reached written
         say 1 m1 working => m1 working, ok
         receipt m1 => m1 reached submitted
         say 1 m1 completed => m1 ended completed, ok
         receipt m1 => refused no_such_message",
    );
}
